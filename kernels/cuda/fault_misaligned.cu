// fault_misaligned: loads a word from an address that may not be a multiple of four.
//
// Unit: none; a fault (SM: 716 CUDA_ERROR_MISALIGNED_ADDRESS when offset_bytes is odd)
// Counter: the code of the next synchronising call; Xid 13
extern "C" __global__ void fault_misaligned(const char *base, unsigned int offset_bytes,
                                            unsigned int *out)
{
    unsigned int word;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(base + offset_bytes));
    *out = word;
}
