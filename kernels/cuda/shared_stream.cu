// shared_stream: reads the shared memory of its block repeatedly, 16 bytes an access.
//
// Unit: shared memory bandwidth (the data path of L1), and its capacity by the dynamic size
// Counter: l1tex__data_pipe_lsu_wavefronts_mem_shared.sum
//
// Vector i of block b holds {i, b}. The values are added up over all passes; a thread whose sum
// equals `trigger` adds one to *hits, as in stream_read.
typedef unsigned long long u64;

extern __shared__ ulonglong2 tile[];

static __device__ __forceinline__ u64 load_shared(unsigned int address)
{
    u64 x, y;
    asm volatile("ld.shared.v2.u64 {%0, %1}, [%2];" : "=l"(x), "=l"(y) : "r"(address));
    return x + y;
}

extern "C" __global__ void shared_stream(unsigned int vectors, unsigned int passes, u64 trigger,
                                         unsigned int *hits)
{
    for (unsigned int i = threadIdx.x; i < vectors; i += blockDim.x) {
        tile[i] = make_ulonglong2(i, blockIdx.x);
    }
    __syncthreads();
    const unsigned int base = (unsigned int)__cvta_generic_to_shared(tile);
    u64 sum = 0;
#pragma unroll 1
    for (unsigned int pass = 0; pass < passes; ++pass) {
#pragma unroll 4
        for (unsigned int i = threadIdx.x; i < vectors; i += blockDim.x) {
            sum += load_shared(base + i * 16);
        }
    }
    if (sum == trigger) {
        atomicAdd(hits, 1u);
    }
}
