// fault_trap: executes the trap instruction when armed.
//
// Unit: none; a fault (SM: 719 CUDA_ERROR_LAUNCH_FAILED, on some parts 715)
// Counter: the code of the next synchronising call; Xid 13
extern "C" __global__ void fault_trap(unsigned int armed, unsigned int *done)
{
    if (armed != 0) {
        asm volatile("trap;");
    }
    *done = 1;
}
