// l2_chase: dependent loads through a ring of cache lines that fits in L2.
//
// Unit: L2 latency and capacity (loads of lines that an aggressor evicts come from DRAM instead)
// Counter: lts__t_sectors_op_read_lookup_hit.sum against lts__t_sectors_op_read_lookup_miss.sum
//
// chain[i] is the word index of the next element; the host builds one ring through all lines.
// Loads bypass L1 (.cg). Thread 0 of block b starts at word b * start_stride, and stores its last
// position in last[b] and its time in elapsed_ns[b].
typedef unsigned long long u64;

static __device__ __forceinline__ u64 globaltimer_ns()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void l2_chase(const unsigned int *chain, unsigned int start_stride,
                                    unsigned int steps, unsigned int *last, u64 *elapsed_ns)
{
    if (threadIdx.x != 0) {
        return;
    }
    unsigned int at = blockIdx.x * start_stride;
    const u64 start = globaltimer_ns();
#pragma unroll 1
    for (unsigned int s = 0; s < steps; ++s) {
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(chain + at));
    }
    last[blockIdx.x] = at;
    // No ring holds this index. The branch needs the last load, so the clock is read after it.
    if (at == 0xffffffffu) {
        return;
    }
    elapsed_ns[blockIdx.x] = globaltimer_ns() - start;
}
