// pattern_fill: sets every 32-bit word to a value derived from its index and a seed.
//
// Unit: none; a tool of the checks (result verification, markers, residue probes)
// Counter: pattern_check over the same words finds no mismatch
//
// The value is the finaliser of MurmurHash3 (A. Appleby, public domain, MurmurHash3.cpp: fmix32)
// over the folded index and the seed, a bijection of each, so no two seeds share a pattern.
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

extern "C" __global__ void pattern_fill(unsigned int *dst, u64 words, unsigned int seed)
{
    const u64 stride = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride) {
        dst[i] = pattern(i, seed);
    }
}
