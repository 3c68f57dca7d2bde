/* SPDX-License-Identifier: MIT */
/* Products of few tokens with weights in panels, and what moves rows between them. A weight is read
 * once for eight tokens: bound by memory up to there. Weights in fp32 stay on fp32 units; those in
 * bf16 go to tensor cores (panel.cu). */
#include "engine/cuda/infer_kernels.h"
#include "engine/cuda/launch.cuh"

enum { TOKENS = 8, WARPS = BLOCK / WARP, SLICE = SPOT_CUDA_SPLIT / WARPS, PANEL = SPOT_CUDA_PANEL };

/* grid (panels, splits, ceil(N / 8)): 64 outputs, 256 inputs, 8 tokens. Warp w has inputs [32 w, 32
 * w + 32) of them, a lane two outputs. Reads 64 * 256 weights and 8 * 256 inputs, writes 8 * 64. */
__global__ void skinny_kernel(struct spot_cuda_skinny p)
{
    __shared__ float x[SPOT_CUDA_SPLIT][TOKENS];
    __shared__ float part[WARPS][TOKENS][PANEL];
    const int lane = static_cast<int>(threadIdx.x % WARP),
              warp = static_cast<int>(threadIdx.x / WARP);
    const int64_t k0 = static_cast<int64_t>(blockIdx.y) * SPOT_CUDA_SPLIT,
                  t0 = static_cast<int64_t>(blockIdx.z) * TOKENS;
    const int64_t left = p.n_in - k0 - warp * SLICE;
    const int n = left < 0 ? 0 : left < SLICE ? static_cast<int>(left) : SLICE;
    const float *const w = static_cast<const float *>(p.w) +
                           (blockIdx.x * p.n_in + k0 + warp * SLICE) * PANEL + 2 * lane;
    float acc[TOKENS][2] = {};

    for (int i = static_cast<int>(threadIdx.x); i < SPOT_CUDA_SPLIT * TOKENS; i += BLOCK) {
        const int t = i / SPOT_CUDA_SPLIT, k = i % SPOT_CUDA_SPLIT;
        const bool is_there = t0 + t < p.n_token && k0 + k < p.n_in;

        x[k][t] = is_there ? p.x[(t0 + t) * p.x_stride + k0 + k] : 0;
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < n; k++) {
        const pack<float, 2> v = load<float, 2>(w + k * PANEL);
        const float *const row = x[warp * SLICE + k];

        for (int t = 0; t < TOKENS; t++) {
            acc[t][0] = fmaf(v.x[0], row[t], acc[t][0]);
            acc[t][1] = fmaf(v.x[1], row[t], acc[t][1]);
        }
    }
    for (int t = 0; t < TOKENS; t++) {
        part[warp][t][2 * lane] = acc[t][0];
        part[warp][t][2 * lane + 1] = acc[t][1];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < TOKENS * PANEL; i += BLOCK) {
        const int t = i / PANEL, o = i % PANEL;
        float sum = part[0][t][o];

        for (int k = 1; k < WARPS; k++)
            sum += part[k][t][o];
        if (t0 + t < p.n_token)
            p.partial[((blockIdx.y * p.n_token + t0 + t) * gridDim.x + blockIdx.x) * PANEL + o] =
                sum;
    }
}

/* One thread per output of a token: the splits in ascending order. */
__global__ void skinny_total_kernel(struct spot_cuda_skinny p, int n_split, int64_t padded)
{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x, t = i / p.n_out,
                  o = i % p.n_out;
    float sum;

    if (i >= p.n_token * p.n_out)
        return;
    sum = p.partial[t * padded + o];
    for (int split = 1; split < n_split; split++)
        sum += p.partial[(split * p.n_token + t) * padded + o];
    p.y[t * p.y_stride + o] = p.bias ? sum + p.bias[o] : sum;
}

/* Element k of row `row` of a panelled matrix of c inputs. */
template <typename T>
__device__ static float element(const void *w, int64_t row, int64_t k, int64_t c)
{
    return to_float(static_cast<const T *>(w)[(row / PANEL * c + k) * PANEL + row % PANEL]);
}

/* One block per token. */
template <typename T>
__global__ void infer_embed_kernel(float *x, const void *const *shard, int64_t rows,
                                   const float *wpe, const uint32_t *token, const int32_t *position,
                                   int64_t c)
{
    const int64_t t = blockIdx.x, at = token[t];
    const void *const w = shard[at / rows];

    for (int64_t k = threadIdx.x; k < c; k += BLOCK) {
        const float e = element<T>(w, at % rows, k, c);

        x[t * c + k] = wpe ? e + wpe[position[t] * c + k] : e;
    }
}

__global__ void settle_kernel(float *x, const float *sum, const float *bias, int64_t n, int64_t c)
{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;

    if (i < n)
        x[i] += bias ? sum[i] + bias[i % c] : sum[i];
}

/* One block per row. */
__global__ void pick_kernel(float *to, const float *x, const int32_t *row, int64_t c)
{
    for (int64_t k = threadIdx.x; k < c; k += BLOCK)
        to[blockIdx.x * c + k] = x[row[blockIdx.x] * c + k];
}

static int64_t panels_of(int64_t n_out)
{
    return (n_out + PANEL - 1) / PANEL;
}

size_t spot_cuda_skinny_elem(int64_t n_token, int64_t n_in, int64_t n_out)
{
    return static_cast<size_t>(blocks_of(n_in, SPOT_CUDA_SPLIT) * n_token * panels_of(n_out) *
                               PANEL);
}

void spot_cuda_skinny(const struct spot_cuda_skinny *p, spot_stream s)
{
    const unsigned n_split = blocks_of(p->n_in, SPOT_CUDA_SPLIT);
    const dim3 grid(static_cast<unsigned>(panels_of(p->n_out)), n_split,
                    blocks_of(p->n_token, TOKENS));

    if (p->real == SPOT_F32)
        SPOT_LAUNCH(skinny_kernel, grid, BLOCK, 0, s, *p);
    else if (spot_cuda_panel(p, s))
        return;
    SPOT_LAUNCH(skinny_total_kernel, blocks_of(p->n_token * p->n_out, BLOCK), BLOCK, 0, s, *p,
                static_cast<int>(n_split), panels_of(p->n_out) * PANEL);
}

void spot_cuda_infer_embed(enum spot_real real, float *x, const void *const *shard, int64_t rows,
                           const float *wpe, const uint32_t *token, const int32_t *position,
                           int64_t n_token, int64_t c, spot_stream s)
{
    SPOT_BY_REAL(real, SPOT_LAUNCH((infer_embed_kernel<T>), blocks_of(n_token, 1), BLOCK, 0, s, x,
                                   shard, rows, wpe, token, position, c));
}

void spot_cuda_infer_settle(float *x, const float *sum, const float *bias, int64_t n_token,
                            int64_t c, spot_stream s)
{
    SPOT_LAUNCH(settle_kernel, blocks_of(n_token * c, BLOCK), BLOCK, 0, s, x, sum, bias,
                n_token * c, c);
}

void spot_cuda_infer_pick(float *to, const float *x, const int32_t *row, int64_t n, int64_t c,
                          spot_stream s)
{
    SPOT_LAUNCH(pick_kernel, blocks_of(n, 1), BLOCK, 0, s, to, x, row, c);
}
