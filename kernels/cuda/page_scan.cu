// page_scan: counts in every page of a buffer the words that hold the marker of page_mark.
//
// Unit: none; a tool of the residue probe
// Counter: found[page], page_words for a page that still holds its marker
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

extern "C" __global__ void page_scan(const unsigned int *src, u64 pages, unsigned int page_words,
                                     unsigned int seed, unsigned int *found)
{
#pragma unroll 1
    for (u64 page = blockIdx.x; page < pages; page += gridDim.x) {
        unsigned int same = 0;
#pragma unroll 1
        for (unsigned int i = threadIdx.x; i < page_words; i += blockDim.x) {
            same += src[page * page_words + i] == pattern(i, seed);
        }
        if (same != 0) {
            atomicAdd(found + page, same);
        }
    }
}
