// issue_mix: alternating floating-point and integer instructions, so that the issue slots saturate
// before any pipe does.
//
// Unit: issue slots of the warp schedulers
// Counter: smsp__inst_issued.sum over smsp__cycles_active.sum, near one
//
// One step is 4 FMAs for the FMA pipe and 2 shifts with 2 exclusive ors for the ALU pipe, eight
// instructions without a dependency between the chains. One iteration is 4 steps.
extern "C" __global__ void issue_mix(unsigned int *out, unsigned int iterations, float mul,
                                     float add, unsigned int key)
{
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float real[4];
    unsigned int bits[2];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        real[c] = (float)(threadIdx.x + c);
    }
#pragma unroll
    for (int c = 0; c < 2; ++c) {
        bits[c] = threadIdx.x * 2654435761u + c;
    }
#pragma unroll 1
    for (unsigned int i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < 4; ++step) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                real[c] = __fmaf_rn(real[c], mul, add);
            }
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                bits[c] = (bits[c] >> 1) ^ key;
            }
        }
    }
    const float sum = __fadd_rn(__fadd_rn(real[0], real[1]), __fadd_rn(real[2], real[3]));
    out[thread] = __float_as_uint(sum) ^ bits[0] ^ (bits[1] << 1);
}
