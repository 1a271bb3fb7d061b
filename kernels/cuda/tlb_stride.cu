// tlb_stride: one load from each of many pages, so that every load needs a different translation.
//
// Unit: TLB reach (pages beyond what the last-level TLB covers; 2 MiB a page)
// Counter: no public one; time per load against the same loads with a stride of one line
//
// Thread t loads `steps` words: the first word of line (page mod lines) of pages t, t + threads,
// t + 2 * threads..., modulo `pages`. The lines differ from page to page so that the words do not
// map to one cache set. page_bytes is a power of two. sums[t] is the sum of thread t's words.
typedef unsigned long long u64;

extern "C" __global__ void tlb_stride(const char *base, u64 pages, u64 page_bytes,
                                      unsigned int steps, unsigned int *sums)
{
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 threads = (u64)gridDim.x * blockDim.x;
    const u64 line_mask = page_bytes / 128 - 1;
    u64 page = thread % pages;
    const u64 stride = threads % pages;
    unsigned int sum = 0;
#pragma unroll 4
    for (unsigned int s = 0; s < steps; ++s) {
        const char *line = base + page * page_bytes + (page & line_mask) * 128;
        unsigned int word;
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(word) : "l"(line));
        sum += word;
        page += stride;
        page = page >= pages ? page - pages : page;
    }
    sums[thread] = sum;
}
