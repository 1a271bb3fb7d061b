// fault_illegal_store: stores one word at a given address.
//
// Unit: none; a fault (MMU: 700 CUDA_ERROR_ILLEGAL_ADDRESS when the address is not mapped)
// Counter: the code of the next synchronising call; Xid 31
extern "C" __global__ void fault_illegal_store(unsigned int *target, unsigned int value)
{
    *target = value;
}
