// atomic_add: atomic additions to words of global memory, spread over a given number of words.
//
// Unit: atomic units of L2 (few slots: contention on lines; many slots: throughput)
// Counter: lts__t_sectors_op_red.sum and lts__t_sectors_op_atom.sum
//
// Thread t adds one to slots (t + i) mod (mask + 1) for i in [0, iterations); mask is a power of
// two less one. The sum over all slots is threads * iterations, modulo 2^32.
extern "C" __global__ void atomic_add(unsigned int *slots, unsigned int mask,
                                      unsigned int iterations)
{
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
    for (unsigned int i = 0; i < iterations; ++i) {
        atomicAdd(slots + ((thread + i) & mask), 1u);
    }
}
