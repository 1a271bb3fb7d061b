// l2_stream: reads a buffer that fits in L2 repeatedly, 16 bytes an access.
//
// Unit: L2 bandwidth (buffer below the L2 size, above the sum of the L1 caches)
// Counter: lts__t_bytes.sum with dram__bytes_read.sum near zero
//
// Loads bypass L1 (.cg). The values are added up over all passes; a thread whose sum equals
// `trigger` adds one to *hits, as in stream_read.
typedef unsigned long long u64;

static __device__ __forceinline__ u64 load_cg(const ulonglong2 *from)
{
    u64 x, y;
    asm volatile("ld.global.cg.v2.u64 {%0, %1}, [%2];" : "=l"(x), "=l"(y) : "l"(from));
    return x + y;
}

extern "C" __global__ void l2_stream(const ulonglong2 *src, u64 vectors, unsigned int passes,
                                     u64 trigger, unsigned int *hits)
{
    const u64 stride = (u64)gridDim.x * blockDim.x;
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 sum = 0;
#pragma unroll 1
    for (unsigned int pass = 0; pass < passes; ++pass) {
        u64 i = first;
        for (; i + 3 * stride < vectors; i += 4 * stride) {
            const u64 a = load_cg(src + i);
            const u64 b = load_cg(src + i + stride);
            const u64 c = load_cg(src + i + 2 * stride);
            const u64 d = load_cg(src + i + 3 * stride);
            sum += (a + b) + (c + d);
        }
#pragma unroll 1
        for (; i < vectors; i += stride) {
            sum += load_cg(src + i);
        }
    }
    if (sum == trigger) {
        atomicAdd(hits, 1u);
    }
}
