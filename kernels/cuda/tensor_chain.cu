// tensor_chain: four independent chains of half-precision matrix products in every warp.
//
// Unit: tensor cores, half-precision inputs with single-precision sums
// Counter: sm__inst_executed_pipe_tensor.sum; DCGM_FI_PROF_PIPE_TENSOR_ACTIVE
//
// Warp-level products of 16 by 16 by 16 (wmma, PTX ISA 6.0, sm_70), 8192 operations each, four in
// one iteration. Each matrix has one value in all elements, `a` and `b` as pairs of equal halves,
// so
// every sum grows by 16 a b and the result does not depend on the layout of a fragment. Hopper
// and later reach their full rate only with their own instructions; this kernel loads everywhere.
typedef unsigned int u32;

static __device__ __forceinline__ void multiply_add(float (&c)[8], u32 a, u32 b)
{
    asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "{%8, %8, %8, %8, %8, %8, %8, %8}, "
                 "{%9, %9, %9, %9, %9, %9, %9, %9}, "
                 "{%0, %1, %2, %3, %4, %5, %6, %7};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7])
                 : "r"(a), "r"(b));
}

extern "C" __global__ void tensor_chain(float *out, u32 iterations, u32 a, u32 b)
{
    float sums[4][8];
#pragma unroll
    for (int chain = 0; chain < 4; ++chain) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            sums[chain][i] = (float)chain;
        }
    }
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int chain = 0; chain < 4; ++chain) {
            multiply_add(sums[chain], a, b);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int chain = 0; chain < 4; ++chain) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            sum = __fadd_rn(sum, sums[chain][i]);
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
