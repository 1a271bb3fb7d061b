// fault_bad_space: an atomic addition through a generic pointer, to local memory when armed.
//
// Unit: none; a fault (SM: 717 CUDA_ERROR_INVALID_ADDRESS_SPACE: atomics know no local memory)
// Counter: the code of the next synchronising call; Xid 13
//
// In PTX the generic address of an atomic must point to global or shared memory; the effect of
// other addresses is undefined. An H100 (sm_90, driver 580.159.04) raised no error: the fault did
// not happen there. No access that PTX for sm_70 can express is documented to raise 717.
extern "C" __global__ void fault_bad_space(unsigned int armed, unsigned int *global)
{
    unsigned int local[2];
    local[0] = armed;
    local[1] = 0;
    unsigned int *target = armed != 0 ? &local[armed & 1] : global;
    unsigned int before;
    asm volatile("atom.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(target) : "memory");
    if (before == 0xffffffffu) {
        *global = local[0] + local[1];
    }
}
