// fault_bad_pc: calls a function through a pointer that the host can offset.
//
// Unit: none; a fault (SM: 718 CUDA_ERROR_INVALID_PC when the pointer leads to no code)
// Counter: the code of the next synchronising call; Xid 13
//
// The pointer is that of a function in this file plus offset_bytes; zero is harmless.
typedef unsigned long long u64;
typedef unsigned int (*Function)(unsigned int);

static __device__ __noinline__ unsigned int plus_one(unsigned int x)
{
    return x + 1;
}

extern "C" __global__ void fault_bad_pc(u64 offset_bytes, unsigned int x, unsigned int *out)
{
    Function volatile known = plus_one;
    const Function bent = (Function)((u64)known + offset_bytes);
    *out = bent(x);
}
