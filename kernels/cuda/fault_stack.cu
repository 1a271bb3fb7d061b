// fault_stack: calls itself to a given depth, 256 bytes of stack or more a call.
//
// Unit: none; a fault (714 CUDA_ERROR_HARDWARE_STACK_ERROR, 700 or 719 beyond the stack limit)
// Counter: the code of the next synchronising call; Xid 13 or 31
//
// Depth d returns the sum of the numbers from 1 to d, computed from an array in each stack frame.
static __device__ __noinline__ unsigned int descend(unsigned int depth)
{
    volatile unsigned int frame[64];
    frame[depth % 64] = depth;
    const unsigned int below = depth == 0 ? 0 : descend(depth - 1);
    return frame[depth % 64] + below;
}

extern "C" __global__ void fault_stack(unsigned int depth, unsigned int *out)
{
    *out = descend(depth);
}
