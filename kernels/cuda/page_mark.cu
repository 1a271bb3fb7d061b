// page_mark: writes the same marker into every page of a buffer.
//
// Unit: none; a tool of the residue probe
// Counter: page_scan over the same buffer finds every word of every page
//
// Word i of each page becomes the pattern of pattern_fill for index i, so that a page can be
// recognised at any address.
typedef unsigned long long u64;

static __device__ __forceinline__ unsigned int pattern(unsigned int index, unsigned int seed)
{
    unsigned int h = index ^ seed;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    h ^= h >> 16;
    return h;
}

extern "C" __global__ void page_mark(unsigned int *dst, u64 pages, unsigned int page_words,
                                     unsigned int seed)
{
#pragma unroll 1
    for (u64 page = blockIdx.x; page < pages; page += gridDim.x) {
#pragma unroll 1
        for (unsigned int i = threadIdx.x; i < page_words; i += blockDim.x) {
            dst[page * page_words + i] = pattern(i, seed);
        }
    }
}
