// digest: folds a buffer into one 64-bit word for each thread, 16 bytes an access.
//
// Unit: none; a tool of the result check
// Counter: none; the partial digests equal those of the host
//
// Each step is a bijection of the fold for a given word and of the word for a given fold, so a
// single changed word always changes the digest of its thread.
typedef unsigned long long u64;

static __device__ __forceinline__ u64 step(u64 fold, u64 word)
{
    fold = (fold ^ word) * 0x9e3779b97f4a7c15ull;
    return fold ^ (fold >> 29);
}

extern "C" __global__ void digest(const ulonglong2 *__restrict__ src, u64 vectors, u64 *partials)
{
    const u64 stride = (u64)gridDim.x * blockDim.x;
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 i = thread;
    u64 fold = thread;
    for (; i + 3 * stride < vectors; i += 4 * stride) {
        const ulonglong2 a = src[i];
        const ulonglong2 b = src[i + stride];
        const ulonglong2 c = src[i + 2 * stride];
        const ulonglong2 d = src[i + 3 * stride];
        fold = step(step(fold, a.x), a.y);
        fold = step(step(fold, b.x), b.y);
        fold = step(step(fold, c.x), c.y);
        fold = step(step(fold, d.x), d.y);
    }
    for (; i < vectors; i += stride) {
        const ulonglong2 a = src[i];
        fold = step(step(fold, a.x), a.y);
    }
    partials[thread] = fold;
}
