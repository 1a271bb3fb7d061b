// tick: the smallest kernel with a visible effect, for floods of launches.
//
// Unit: launch path (host submission, front end, block scheduler)
// Counter: *count, one more for every launch that ran
extern "C" __global__ void tick(unsigned int *count)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        atomicAdd(count, 1u);
    }
}
