// pattern_check: counts the 32-bit words that differ from the pattern of pattern_fill.
//
// Unit: none; a tool of the checks (result verification, markers, residue probes)
// Counter: *mismatches, zero over a freshly filled buffer
typedef unsigned long long u64;

static __device__ __forceinline__ unsigned int pattern(u64 index, unsigned int seed)
{
    unsigned int h = (unsigned int)index ^ ((unsigned int)(index >> 32) * 0x9e3779b1u) ^ seed;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    h ^= h >> 16;
    return h;
}

extern "C" __global__ void pattern_check(const unsigned int *src, u64 words, unsigned int seed,
                                         unsigned int *mismatches)
{
    const u64 stride = (u64)gridDim.x * blockDim.x;
    unsigned int wrong = 0;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride) {
        wrong += src[i] != pattern(i, seed);
    }
    if (wrong != 0) {
        atomicAdd(mismatches, wrong);
    }
}
