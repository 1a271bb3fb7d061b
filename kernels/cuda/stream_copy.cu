// stream_copy: copies a buffer once, 16 bytes an access, each thread striding by the whole grid.
//
// Unit: DRAM bandwidth, reads and writes in equal parts (buffers well above the L2 size)
// Counter: dram__bytes_read.sum and dram__bytes_write.sum; DCGM_FI_PROF_DRAM_ACTIVE
//
// Four loads stand before four stores, so that a thread keeps 64 bytes in flight.
typedef unsigned long long u64;

extern "C" __global__ void stream_copy(ulonglong2 *__restrict__ dst,
                                       const ulonglong2 *__restrict__ src, u64 vectors)
{
    const u64 stride = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < vectors; i += 4 * stride) {
        const ulonglong2 a = src[i];
        const ulonglong2 b = src[i + stride];
        const ulonglong2 c = src[i + 2 * stride];
        const ulonglong2 d = src[i + 3 * stride];
        dst[i] = a;
        dst[i + stride] = b;
        dst[i + 2 * stride] = c;
        dst[i + 3 * stride] = d;
    }
    for (; i < vectors; i += stride) {
        dst[i] = src[i];
    }
}
