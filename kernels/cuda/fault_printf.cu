// fault_printf: prints lines from the device until the ring buffer of printf overflows.
//
// Unit: none; a fault (no error: the ring overwrites itself, and every synchronisation is slow)
// Counter: time of the next synchronising call against one without prints
extern "C" __global__ void fault_printf(unsigned int lines, unsigned int *done)
{
#pragma unroll 1
    for (unsigned int i = 0; i < lines; ++i) {
        printf("block %u thread %u line %u\n", blockIdx.x, threadIdx.x, i);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *done = 1;
    }
}
