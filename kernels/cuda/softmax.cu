// softmax: exponentials of one row over their sum, one row in every block.
//
// Unit: latency of a small dependent kernel with special-function work, as in attention
// Counter: smsp__inst_executed_pipe_xu.sum
//
// out[i] = 2^((in[i] - max) * log2(e)) / sum, blocks of 128 threads, exponentials by ex2.approx
// (relative error below 2^-22, PTX ISA), so results agree within a tolerance and not in every bit.
typedef unsigned long long u64;

static __device__ __forceinline__ float exp2_approx(float x)
{
    float y;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

extern "C" __global__ void __launch_bounds__(128) softmax(float *__restrict__ out,
                                                          const float *__restrict__ in,
                                                          unsigned int cols)
{
    __shared__ float part[128];
    const u64 row = (u64)blockIdx.x * cols;
    float most = -3.402823466e38f;
#pragma unroll 1
    for (unsigned int i = threadIdx.x; i < cols; i += 128) {
        most = fmaxf(most, in[row + i]);
    }
    part[threadIdx.x] = most;
    __syncthreads();
#pragma unroll 1
    for (unsigned int half = 64; half > 0; half >>= 1) {
        if (threadIdx.x < half) {
            part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        }
        __syncthreads();
    }
    most = part[0];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned int i = threadIdx.x; i < cols; i += 128) {
        const float power = exp2_approx(__fmul_rn(__fsub_rn(in[row + i], most), 1.44269504f));
        out[row + i] = power;
        sum = __fadd_rn(sum, power);
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
#pragma unroll 1
    for (unsigned int i = threadIdx.x; i < cols; i += 128) {
        out[row + i] = __fdiv_rn(out[row + i], part[0]);
    }
}
