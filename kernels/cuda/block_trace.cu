// block_trace: records where and when every block ran, and the gaps in which it did not run.
//
// Unit: none; a probe of block placement, time slices and preemption
// Counter: its own rows: distinct %smid values, overlap of [start, end] between tenants
//
// Thread 0 of block b polls %globaltimer for min(spin_ns, budget_ns), at most budget_ns polls, and
// writes {smid, start_ns, end_ns, gap count} to rows[4b..4b+4]. Two polls further apart than
// gap_threshold_ns are a gap: the first gap_capacity of them are stored in gaps as {before, after}.
// The count includes gaps beyond the capacity, so an overflow is visible.
typedef unsigned long long u64;

static __device__ __forceinline__ u64 globaltimer_ns()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void block_trace(u64 *rows, u64 *gaps, unsigned int gap_capacity, u64 spin_ns,
                                       u64 budget_ns, u64 gap_threshold_ns)
{
    if (threadIdx.x != 0) {
        return;
    }
    unsigned int smid;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(smid));
    u64 *own_gaps = gaps + 2 * (u64)blockIdx.x * gap_capacity;
    const u64 limit = spin_ns < budget_ns ? spin_ns : budget_ns;
    const u64 start = globaltimer_ns();
    u64 now = start;
    u64 seen = 0;
#pragma unroll 1
    for (u64 polls = 0; now - start < limit && polls < budget_ns; ++polls) {
        const u64 before = now;
        now = globaltimer_ns();
        if (now - before > gap_threshold_ns) {
            if (seen < gap_capacity) {
                own_gaps[2 * seen] = before;
                own_gaps[2 * seen + 1] = now;
            }
            ++seen;
        }
    }
    u64 *row = rows + 4 * (u64)blockIdx.x;
    row[0] = smid;
    row[1] = start;
    row[2] = now;
    row[3] = seen;
}
