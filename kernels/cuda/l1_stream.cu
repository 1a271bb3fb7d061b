// l1_stream: every block reads its own small part of a buffer repeatedly, 16 bytes an access.
//
// Unit: L1 bandwidth and capacity (part of a block below the L1 size)
// Counter: l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum
//
// Loads are cached in L1 (.ca). Block b reads vectors [b * vectors, (b + 1) * vectors). The values
// are added up over all passes; a thread whose sum equals `trigger` adds one to *hits.
typedef unsigned long long u64;

static __device__ __forceinline__ u64 load_ca(const ulonglong2 *from)
{
    u64 x, y;
    asm volatile("ld.global.ca.v2.u64 {%0, %1}, [%2];" : "=l"(x), "=l"(y) : "l"(from));
    return x + y;
}

extern "C" __global__ void l1_stream(const ulonglong2 *src, unsigned int vectors,
                                     unsigned int passes, u64 trigger, unsigned int *hits)
{
    const ulonglong2 *own = src + (u64)blockIdx.x * vectors;
    u64 sum = 0;
#pragma unroll 1
    for (unsigned int pass = 0; pass < passes; ++pass) {
#pragma unroll 4
        for (unsigned int i = threadIdx.x; i < vectors; i += blockDim.x) {
            sum += load_ca(own + i);
        }
    }
    if (sum == trigger) {
        atomicAdd(hits, 1u);
    }
}
