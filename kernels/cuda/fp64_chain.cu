// fp64_chain: eight independent chains of double-precision FMA in every thread.
//
// Unit: FP64 pipe
// Counter: smsp__sass_thread_inst_executed_op_dfma_pred_on.sum; DCGM_FI_PROF_PIPE_FP64_ACTIVE
//
// One iteration is 4 steps of 8 FMAs: 32 FMAs, 64 operations, as in fp32_chain. Parts built for
// graphics have few FP64 units, so that two warps an SM already fill the pipe.
extern "C" __global__ void fp64_chain(double *out, unsigned int iterations, double mul, double add)
{
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
    double chain[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        chain[c] = (double)(threadIdx.x + c);
    }
#pragma unroll 1
    for (unsigned int i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < 4; ++step) {
#pragma unroll
            for (int c = 0; c < 8; ++c) {
                chain[c] = __fma_rn(chain[c], mul, add);
            }
        }
    }
    double sum = chain[0];
#pragma unroll
    for (int c = 1; c < 8; ++c) {
        sum = __dadd_rn(sum, chain[c]);
    }
    out[thread] = sum;
}
