// fp32_chain: eight independent chains of single-precision FMA in every thread.
//
// Unit: FP32 pipe
// Counter: smsp__sass_thread_inst_executed_op_ffma_pred_on.sum; DCGM_FI_PROF_PIPE_FP32_ACTIVE
//
// One iteration is 32 steps of 8 FMAs: 256 FMAs, 512 operations, beside 3 or 4 instructions of the
// loop (98.5 % of the issue slots or more). Eight chains cover the FMA latency (4 cycles since
// Volta) with few warps. mul and add are arguments so that the compiler cannot fold them; the sum
// of the chains is stored so that it cannot remove them.
extern "C" __global__ void fp32_chain(float *out, unsigned int iterations, float mul, float add)
{
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float chain[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        chain[c] = (float)(threadIdx.x + c);
    }
#pragma unroll 1
    for (unsigned int i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < 32; ++step) {
#pragma unroll
            for (int c = 0; c < 8; ++c) {
                chain[c] = __fmaf_rn(chain[c], mul, add);
            }
        }
    }
    float sum = chain[0];
#pragma unroll
    for (int c = 1; c < 8; ++c) {
        sum = __fadd_rn(sum, chain[c]);
    }
    out[thread] = sum;
}
