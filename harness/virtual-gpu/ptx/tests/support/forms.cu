// Every construct that the interpreter supports. NVRTC 11.8 with --gpu-architecture=compute_70
// compiled it to forms.ptx.
typedef unsigned u32;
typedef unsigned long long u64;
__device__ __forceinline__ u64 gt() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
__device__ __forceinline__ u32 smid() {
    u32 t;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(t));
    return t;
}
extern "C" {
__global__ void empty() {}
__global__ void spin(u64 ns, u64* out) {
    u64 s = gt();
    while (gt() - s < ns);
    if (out) *out = gt();
}
__global__ void spinc(long long c) {
    long long s = clock64();
    while (clock64() - s < c);
}
__global__ void copy4(const float4* __restrict__ a, float4* b, u64 n) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n;
         i += (u64)gridDim.x * blockDim.x)
        b[i] = a[i];
}
__global__ void fma32(float* o, float a, float b, int n) {
    float x0 = threadIdx.x, x1 = a, x2 = b, x3 = 1;
    for (int i = 0; i < n; i++) {
        x0 = fmaf(x0, a, b);
        x1 = fmaf(x1, a, b);
        x2 = fmaf(x2, a, b);
        x3 = fmaf(x3, a, b);
    }
    o[blockIdx.x * blockDim.x + threadIdx.x] = x0 + x1 + x2 + x3;
}
__global__ void fma64(double* o, double a, double b, int n) {
    double x0 = threadIdx.x, x1 = a;
    for (int i = 0; i < n; i++) {
        x0 = fma(x0, a, b);
        x1 = fma(x1, a, b);
    }
    o[blockIdx.x * blockDim.x + threadIdx.x] = x0 + x1;
}
__global__ void mad32(u32* o, u32 a, u32 b, int n) {
    u32 x0 = threadIdx.x;
    for (int i = 0; i < n; i++) {
        x0 = x0 * a + b;
    }
    o[blockIdx.x * blockDim.x + threadIdx.x] = x0;
}
__global__ void chase(u32* p, u32* o, int n) {
    u32 x = 0;
    for (int i = 0; i < n; i++) x = p[x];
    *o = x;
}
__global__ void trace(u64* p, u32* s) {
    u64 a = gt();
    if (threadIdx.x == 0) {
        p[blockIdx.x] = a;
        s[blockIdx.x] = smid();
    }
}
__global__ void check(const u32* p, u64 n, u32 seed, u32* bad, u64* first) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n;
         i += (u64)gridDim.x * blockDim.x) {
        u32 want = (u32)(i * 2654435761u) ^ seed;
        if (p[i] != want) {
            atomicAdd(bad, 1u);
            atomicMin(first, i);
        }
        atomicMax(first + 1, i);
    }
}
__global__ void reduce(const float* p, float* o, int n) {
    __shared__ float s[256];
    float v = 0;
    for (int i = threadIdx.x; i < n; i += 256) v += p[i];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) o[blockIdx.x] = s[0];
}
__global__ void shf(float* p) {
    float v = p[threadIdx.x];
    for (int k = 16; k; k >>= 1) v += __shfl_xor_sync(~0u, v, k);
    v += __shfl_down_sync(~0u, v, 1);
    u32 m = __ballot_sync(~0u, v > 0);
    if (__any_sync(~0u, v > 1)) v += __popc(m);
    p[threadIdx.x] = v + __ffs(m) + __clz(m) + __activemask();
}
__global__ void loc(int* o, int n, int k) {
    int a[64];
    for (int i = 0; i < 64; i++) a[i] = i * n;
    for (int i = 0; i < n; i++) a[(i * 7) & 63] += a[(i * k) & 63];
    o[threadIdx.x] = a[n & 63];
}
__device__ __noinline__ int rec(int n, int* p) {
    if (n < 2) return p[n];
    return rec(n - 1, p) + rec(n - 2, p);
}
__global__ void recurse(int* o, int n) { *o = rec(n, o); }
__global__ void tr() { __trap(); }
__global__ void bk() { asm volatile("brkpt;"); }
__global__ void sm(const float* x, float* y, int n) {
    float m = -1e30f;
    for (int i = 0; i < n; i++) m = fmaxf(m, x[i]);
    float s = 0;
    for (int i = 0; i < n; i++) s += __expf(x[i] - m);
    y[0] = expf(x[0] - m) / s + rsqrtf(s) + sqrtf(s) + __fdividef(s, m) + logf(s) + tanhf(s) +
           sinf(s) + powf(s, m) + (float)(1.0 / (double)s) + (float)sqrt((double)s) + __logf(s) +
           __sinf(s);
}
__global__ void md(u64* o, u64 a, u64 b, u32 c, u32 d) {
    o[0] = __umul64hi(a, b);
    o[1] = (u64)c * d + a;
    o[2] = a / b;
    o[3] = a % b;
    o[4] = c / d;
    o[5] = (int)c / (int)d;
    o[6] = (long long)a % (long long)b;
    o[7] = __byte_perm(c, d, 0x3214);
    o[8] = __funnelshift_l(c, d, 7);
    o[9] = __brev(c);
    o[10] = c & d ^ 0x55 | (c >> 3);
    o[11] = (u64)(long long)(int)c >> d;
    o[12] = __popcll(a) + __clzll(b);
    o[13] = (short)c * (short)d;
    o[14] = min((int)c, (int)d);
    o[15] = abs((int)c);
    o[16] = __sad(c, d, c);
    o[17] = a < b ? c : d;
    o[18] = (unsigned char)c;
    o[19] = __mul24(c, d);
    o[20] = __vadd4(c, d);
}
__global__ void cv(float f, double d, int* o, u64* p, float* q, double* r, short* s) {
    o[0] = (int)f;
    o[1] = __float2int_rn(f);
    o[2] = (unsigned)f;
    p[0] = (u64)f;
    p[1] = (u64)d;
    q[0] = (float)d;
    q[1] = (float)o[5];
    q[2] = (float)p[4];
    r[0] = f;
    r[1] = (double)o[7];
    s[0] = (short)o[4];
    q[3] = __saturatef(f);
    q[4] = floorf(f);
    q[5] = rintf(f);
    q[6] = truncf(f);
    r[4] = ceil(d);
    o[9] = __float_as_int(f);
    q[9] = __int_as_float(o[9]);
    q[10] = s[3];
    o[11] = isnan(f);
    o[12] = s[7];
    q[11] = fabsf(f);
    q[12] = copysignf(f, q[2]);
    q[13] = fminf(f, q[3]);
    q[14] = fmodf(f, q[4]);
}
__constant__ float tab[4] = {1, 2, 3, 4};
__constant__ u32 tbu[300];
__device__ u64 counter = 7;
__device__ float* ptr = (float*)&counter;
__global__ void cst(float* o) {
    o[threadIdx.x] = tab[threadIdx.x & 3] + tbu[threadIdx.x];
    counter += 1;
    __threadfence();
    __threadfence_block();
    *ptr = 3;
}
extern __shared__ u32 dyn[];
__global__ void __launch_bounds__(128, 2) dsh(u32* o) {
    dyn[threadIdx.x] = o[threadIdx.x];
    __syncthreads();
    o[threadIdx.x] = dyn[127 - threadIdx.x];
    atomicAdd(&dyn[0], 1);
    atomicCAS(o, 1, 2);
    atomicExch(o, 3);
    atomicInc(o, 9);
    atomicDec(o, 9);
    atomicAnd(o, 7);
    atomicOr(o, 1);
    atomicXor(o, 3);
    atomicAdd((float*)o, 1.f);
    atomicAdd((double*)o, 1.0);
    atomicAdd((u64*)o, 1ull);
    o[9] = atomicMin((int*)o, -3);
    o[4] = atomicCAS((u64*)o, 1ull, 2ull);
}
__global__ void sw(int* o, int k) {
    switch (k) {
        case 0:
            o[1] = o[5];
            break;
        case 1:
            o[2] = o[4] * 3;
            break;
        case 2:
            o[3] = __clz(o[1]);
            break;
        case 3:
            o[4] = o[3] ^ 77;
            break;
        case 4:
            o[5] = o[2] / 3;
            break;
        case 5:
            o[6] = o[1] % 5;
            break;
        case 6:
            o[7] = o[8];
            break;
        default:
            o[8] = 9;
    }
    if (o[9]) __nanosleep(100);
}
__global__ void vl(volatile u32* p, u32* q) {
    while (*p == 0);
    *q = 1;
    *p = 4;
    __syncwarp();
    u32 x = __ldcg(q);
    __stcs(q + 1, x);
    q[3] = __match_any_sync(~0u, x);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(q));
    u32 n;
    asm("mov.u32 %0, %%nsmid;" : "=r"(n));
    q[4] = n;
    asm("mov.u32 %0, %%laneid;" : "=r"(n));
    q[5] = n;
    q[6] = clock();
    q[7] = __isGlobal(q);
    q[8] = __syncthreads_count(x);
    q[9] = __syncthreads_or(x);
}
}
__device__ float (*fp[2])(float) = {sinf, cosf};
extern "C" __global__ void ind(float* o, int k) { o[0] = fp[k](o[1]); }
extern "C" __global__ void bpf(int* p) {
    *(int*)((u64)p + 1) = 3;
    *(volatile int*)0 = 3;
    void (*f)() = (void (*)())p;
    f();
}
extern "C" int printf(const char*, ...);
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*,
                                        unsigned long);
#define assert(e) ((e) ? 0 : (__assertfail(#e, __FILE__, __LINE__, __func__, 1), 0))
extern "C" __global__ void pr(int* p, double d, const char* s) {
    printf("x %d %f %llu %s\n", p[0], d, (unsigned long long)p, s);
    printf("hello\n");
    assert(p[0] == 3);
}
