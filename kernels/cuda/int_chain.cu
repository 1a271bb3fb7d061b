// int_chain: eight independent chains of 32-bit integer multiply-add in every thread.
//
// Unit: INT pipe (the multiply-add part of it)
// Counter: smsp__sass_thread_inst_executed_op_integer_pred_on.sum
//
// One iteration is 4 steps of 8 multiply-adds: 64 operations, modulo 2^32.
extern "C" __global__ void int_chain(unsigned int *out, unsigned int iterations, unsigned int mul,
                                     unsigned int add)
{
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int chain[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        chain[c] = threadIdx.x + c;
    }
#pragma unroll 1
    for (unsigned int i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < 4; ++step) {
#pragma unroll
            for (int c = 0; c < 8; ++c) {
                chain[c] = chain[c] * mul + add;
            }
        }
    }
    unsigned int sum = 0;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        sum += chain[c];
    }
    out[thread] = sum;
}
