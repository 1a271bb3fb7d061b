// spin: keeps every launched thread busy for a given time, without touching memory.
//
// Unit: SM time (block and warp slots of the SMs that it covers)
// Counter: sm__cycles_active.avg; DCGM_FI_PROF_SM_ACTIVE; NVML GPU utilisation
//
// Both bounds hold: the loop ends after min(duration_ns, budget_ns), and after budget_ns polls even
// where %globaltimer stands still, since no poll takes less than a nanosecond.
// stamps may be null; otherwise block b writes its start and end to stamps[2b] and stamps[2b+1].
typedef unsigned long long u64;

static __device__ __forceinline__ u64 globaltimer_ns()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void spin(u64 duration_ns, u64 budget_ns, u64 *stamps)
{
    const u64 start = globaltimer_ns();
    const u64 limit = duration_ns < budget_ns ? duration_ns : budget_ns;
    u64 now = start;
    for (u64 polls = 0; now - start < limit && polls < budget_ns; ++polls) {
        now = globaltimer_ns();
    }
    if (stamps != 0 && threadIdx.x == 0) {
        stamps[2 * blockIdx.x] = start;
        stamps[2 * blockIdx.x + 1] = now;
    }
}
