// stream_read: reads a buffer once, 16 bytes an access, each thread striding by the whole grid.
//
// Unit: DRAM bandwidth, reads (buffer well above the L2 size)
// Counter: dram__bytes_read.sum; DCGM_FI_PROF_DRAM_ACTIVE
//
// The values are folded with xor into 64 bits a thread. A thread whose fold equals `trigger` adds
// one to *hits. An arbitrary trigger matches with a chance of 1 in 2^64, yet no load can be
// removed,
// and a check with a chosen trigger counts exactly which threads read what.
typedef unsigned long long u64;

extern "C" __global__ void stream_read(const ulonglong2 *__restrict__ src, u64 vectors, u64 trigger,
                                       unsigned int *hits)
{
    const u64 stride = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 fold = 0;
    for (; i + 3 * stride < vectors; i += 4 * stride) {
        const ulonglong2 a = src[i];
        const ulonglong2 b = src[i + stride];
        const ulonglong2 c = src[i + 2 * stride];
        const ulonglong2 d = src[i + 3 * stride];
        fold ^= a.x ^ a.y ^ b.x ^ b.y ^ c.x ^ c.y ^ d.x ^ d.y;
    }
    for (; i < vectors; i += stride) {
        const ulonglong2 a = src[i];
        fold ^= a.x ^ a.y;
    }
    if (fold == trigger) {
        atomicAdd(hits, 1u);
    }
}
