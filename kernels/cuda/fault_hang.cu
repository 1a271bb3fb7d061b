// fault_hang: runs until the host sets a flag, or until its budget is spent.
//
// Unit: none; a fault (no error by itself: tenants that time-share the SMs wait for a preemption)
// Counter: stamps, start and end of every block; the progress gap of the neighbours
//
// The loop ends after budget_ns on %globaltimer, and after budget_ns polls even where that clock
// stands still, so the kernel ends even if its host process dies.
typedef unsigned long long u64;

static __device__ __forceinline__ u64 globaltimer_ns()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void fault_hang(const volatile unsigned int *flag, u64 budget_ns, u64 *stamps)
{
    const u64 start = globaltimer_ns();
    u64 now = start;
    for (u64 polls = 0; now - start < budget_ns && polls < budget_ns; ++polls) {
        if (*flag != 0) {
            break;
        }
        now = globaltimer_ns();
    }
    if (threadIdx.x == 0) {
        stamps[2 * blockIdx.x] = start;
        stamps[2 * blockIdx.x + 1] = now;
    }
}
