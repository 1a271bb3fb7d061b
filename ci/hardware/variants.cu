// Variants of the kernels of `dram-copy` and `fma-hog`, measured by `driver.py kernels`.
//
// copy_LAYOUT_N_HINT copies vectors of 16 bytes, N of a thread in flight. grid: the vectors of a
// thread are one grid apart; tile: a block copies contiguous tiles of N vectors a thread. cs: loads
// and stores are marked as streaming. The number of vectors is a multiple of 8 times the threads of
// a block. fma_C_S: C chains for each thread, S steps in one iteration of the loop.
typedef unsigned long long u64;

#define PLAIN_LOAD(from) (*(from))
#define PLAIN_STORE(to, what) (*(to) = (what))

#define COPY_GRID(NAME, N, LOAD, STORE)                                                            \
    extern "C" __global__ void NAME(ulonglong2 *__restrict__ dst,                                  \
                                    const ulonglong2 *__restrict__ src, u64 vectors)               \
    {                                                                                              \
        const u64 apart = (u64)gridDim.x * blockDim.x;                                             \
        u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;                                        \
        for (; i + (N - 1) * apart < vectors; i += N * apart) {                                    \
            ulonglong2 held[N];                                                                    \
            _Pragma("unroll") for (int k = 0; k < N; ++k) held[k] = LOAD(src + i + k * apart);     \
            _Pragma("unroll") for (int k = 0; k < N; ++k) STORE(dst + i + k * apart, held[k]);     \
        }                                                                                          \
        for (; i < vectors; i += apart) STORE(dst + i, LOAD(src + i));                             \
    }

#define COPY_TILE(NAME, N, LOAD, STORE)                                                            \
    extern "C" __global__ void NAME(ulonglong2 *__restrict__ dst,                                  \
                                    const ulonglong2 *__restrict__ src, u64 vectors)               \
    {                                                                                              \
        const u64 tile = (u64)N * blockDim.x;                                                      \
        for (u64 at = blockIdx.x * tile; at < vectors; at += gridDim.x * tile) {                   \
            const u64 i = at + threadIdx.x;                                                        \
            ulonglong2 held[N];                                                                    \
            _Pragma("unroll") for (int k = 0; k < N; ++k)                                          \
                held[k] = LOAD(src + i + k * blockDim.x);                                          \
            _Pragma("unroll") for (int k = 0; k < N; ++k)                                          \
                STORE(dst + i + k * blockDim.x, held[k]);                                          \
        }                                                                                          \
    }

#define COPIES(N)                                                                                  \
    COPY_GRID(copy_grid_##N##_plain, N, PLAIN_LOAD, PLAIN_STORE)                                   \
    COPY_GRID(copy_grid_##N##_cs, N, __ldcs, __stcs)                                               \
    COPY_TILE(copy_tile_##N##_plain, N, PLAIN_LOAD, PLAIN_STORE)                                   \
    COPY_TILE(copy_tile_##N##_cs, N, __ldcs, __stcs)

COPIES(1)
COPIES(2)
COPIES(4)
COPIES(8)

#define FMA(C, S)                                                                                  \
    extern "C" __global__ void fma_##C##_##S(float *out, unsigned int iterations, float mul,       \
                                             float add)                                            \
    {                                                                                              \
        float chain[C];                                                                            \
        _Pragma("unroll") for (int c = 0; c < C; ++c) chain[c] = (float)(threadIdx.x + c);         \
        _Pragma("unroll 1") for (unsigned int i = 0; i < iterations; ++i)                          \
            _Pragma("unroll") for (int step = 0; step < S; ++step)                                 \
                _Pragma("unroll") for (int c = 0; c < C; ++c)                                      \
                    chain[c] = __fmaf_rn(chain[c], mul, add);                                      \
        float sum = chain[0];                                                                      \
        _Pragma("unroll") for (int c = 1; c < C; ++c) sum = __fadd_rn(sum, chain[c]);              \
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;                                          \
    }

FMA(8, 4)
FMA(8, 16)
FMA(8, 32)
FMA(16, 16)
