// matvec: one row of a matrix times a vector in every block, in single precision.
//
// Unit: DRAM bandwidth, reads (weights above the L2 size), as in a decode step of a language model
// Counter: dram__bytes_read.sum; DCGM_FI_PROF_DRAM_ACTIVE
//
// y[row] = sum over k of w[row][k] * x[k], cols a multiple of 4, blocks of 128 threads. Thread t
// adds up groups of four from 4 t on, every 512; then halves are added in a tree. The order of the
// additions is fixed, so the host can compute the same bits.
typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(128) matvec(float *__restrict__ y,
                                                         const float *__restrict__ w,
                                                         const float *__restrict__ x,
                                                         unsigned int cols)
{
    __shared__ float part[128];
    const float *row = w + (u64)blockIdx.x * cols;
    float sum = 0.0f;
    for (unsigned int k = 4 * threadIdx.x; k < cols; k += 512) {
        const float4 a = *(const float4 *)(row + k);
        const float4 b = *(const float4 *)(x + k);
        sum = __fmaf_rn(a.x, b.x, sum);
        sum = __fmaf_rn(a.y, b.y, sum);
        sum = __fmaf_rn(a.z, b.z, sum);
        sum = __fmaf_rn(a.w, b.w, sum);
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
    if (threadIdx.x == 0) {
        y[blockIdx.x] = part[0];
    }
}
