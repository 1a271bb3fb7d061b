// stream_write: writes a buffer once, 16 bytes an access, each thread striding by the whole grid.
//
// Unit: DRAM bandwidth, writes (buffer well above the L2 size)
// Counter: dram__bytes_write.sum; DCGM_FI_PROF_DRAM_ACTIVE
//
// Vector i becomes {value ^ i, i}: cheap to compute, different in every line, easy to check.
typedef unsigned long long u64;

extern "C" __global__ void stream_write(ulonglong2 *__restrict__ dst, u64 vectors, u64 value)
{
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
        dst[i] = make_ulonglong2(value ^ i, i);
    }
}
