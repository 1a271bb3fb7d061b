// fault_shared_oob: stores a word at an offset of shared memory, inside or outside the block's
// window.
//
// Unit: none; a fault (SM: 719 CUDA_ERROR_LAUNCH_FAILED or 700 beyond the window)
// Counter: the code of the next synchronising call; Xid 13
extern __shared__ unsigned int window[];

extern "C" __global__ void fault_shared_oob(unsigned int offset_bytes, unsigned int value,
                                            unsigned int *out)
{
    const unsigned int base = (unsigned int)__cvta_generic_to_shared(window);
    unsigned int word;
    asm volatile("st.shared.u32 [%0], %1;" : : "r"(base + offset_bytes), "r"(value) : "memory");
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(base + offset_bytes) : "memory");
    *out = word;
}
