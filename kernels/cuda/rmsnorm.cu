// rmsnorm: root-mean-square normalisation of one row in every block.
//
// Unit: latency of a small dependent kernel, as between the layers of a language model
// Counter: sm__cycles_active.avg against the kernel's duration
//
// out[i] = in[i] * weight[i] / sqrt(mean of in^2 + eps), blocks of 128 threads. Sums are formed in
// the order of matvec, divisions and roots are rounded to nearest, so the host can compute the
// same bits.
typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(128) rmsnorm(float *__restrict__ out,
                                                          const float *__restrict__ in,
                                                          const float *__restrict__ weight,
                                                          unsigned int cols, float eps)
{
    __shared__ float part[128];
    const u64 row = (u64)blockIdx.x * cols;
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned int i = threadIdx.x; i < cols; i += 128) {
        sum = __fmaf_rn(in[row + i], in[row + i], sum);
    }
    part[threadIdx.x] = sum;
    __syncthreads();
#pragma unroll 1
    for (unsigned int half = 64; half > 0; half >>= 1) {
        if (threadIdx.x < half) {
            part[threadIdx.x] = __fadd_rn(part[threadIdx.x], part[threadIdx.x + half]);
        }
        __syncthreads();
    }
    const float mean = __fdiv_rn(part[0], (float)cols);
    const float root = __fsqrt_rn(__fadd_rn(mean, eps));
#pragma unroll 1
    for (unsigned int i = threadIdx.x; i < cols; i += 128) {
        out[row + i] = __fdiv_rn(__fmul_rn(in[row + i], weight[i]), root);
    }
}
