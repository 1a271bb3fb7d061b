// matmul: a small matrix product in single precision, one tile of 16 by 16 in every block.
//
// Unit: FP32 pipe and shared memory together, as in the attention of a small batch
// Counter: smsp__sass_thread_inst_executed_op_ffma_pred_on.sum
//
// c[m][n] = sum over k of a[m][k] * b[k][n], all sizes multiples of 16, blocks of 256 threads, tile
// after tile along a row of c. Products are added in the order of k, so the host can compute the
// same bits.
extern "C" __global__ void __launch_bounds__(256) matmul(float *__restrict__ c,
                                                         const float *__restrict__ a,
                                                         const float *__restrict__ b,
                                                         unsigned int n, unsigned int k)
{
    __shared__ float tile_a[16][17];
    __shared__ float tile_b[16][17];
    const unsigned int tiles_n = n / 16;
    const unsigned int x = threadIdx.x % 16;
    const unsigned int y = threadIdx.x / 16;
    const unsigned int row = blockIdx.x / tiles_n * 16 + y;
    const unsigned int col = blockIdx.x % tiles_n * 16 + x;
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned int from = 0; from < k; from += 16) {
        tile_a[y][x] = a[row * k + from + x];
        tile_b[y][x] = b[(from + y) * n + col];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            sum = __fmaf_rn(tile_a[y][i], tile_b[i][x], sum);
        }
        __syncthreads();
    }
    c[row * n + col] = sum;
}
