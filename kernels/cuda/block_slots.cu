// block_slots: small blocks that sleep: they occupy block slots and use nothing else of an SM.
//
// Unit: block slots of the SMs (launched with as many blocks as are resident at once)
// Counter: sm__warps_active.avg.pct_of_peak_sustained_active with smsp__inst_issued.sum near zero
//
// Each block sleeps in naps of nap_ns (nanosleep may take from nothing to twice as long) until
// min(duration_ns, budget_ns) has passed on %globaltimer, at most budget_ns naps. stamps may be
// null; otherwise block b writes its start and end to stamps[2b] and stamps[2b+1].
typedef unsigned long long u64;

static __device__ __forceinline__ u64 globaltimer_ns()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void block_slots(u64 duration_ns, u64 budget_ns, unsigned int nap_ns,
                                       u64 *stamps)
{
    const u64 start = globaltimer_ns();
    const u64 limit = duration_ns < budget_ns ? duration_ns : budget_ns;
    u64 now = start;
    for (u64 naps = 0; now - start < limit && naps < budget_ns; ++naps) {
        asm volatile("nanosleep.u32 %0;" : : "r"(nap_ns));
        now = globaltimer_ns();
    }
    if (stamps != 0 && threadIdx.x == 0) {
        stamps[2 * blockIdx.x] = start;
        stamps[2 * blockIdx.x + 1] = now;
    }
}
