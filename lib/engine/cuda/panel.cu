/* SPDX-License-Identifier: MIT */
/* Products with weights in bf16 on tensor cores, for one token and for a prompt alike. A token is a
 * column of mma's second factor, and the sum of a column does not look at its neighbours, so the
 * bits tell neither batch nor chunk. Nothing of a token is rounded: it is cut into three numbers of
 * bf16 whose sum it is, and each is multiplied. */
#include "engine/cuda/infer_kernels.h"
#include "engine/cuda/tensor.cuh"

enum {
    WARPS = 4,
    THREADS = WARPS * WARP,
    PANEL = SPOT_CUDA_PANEL,
    STEP = 64,         /* inputs that are in shared memory at once */
    PARTS = 3,         /* of an input */
    W_ROW = PANEL + 8, /* 16 bytes longer, so that eight rows meet all banks */
    X_ROW = STEP + 8,
    MANY = 8, /* tiles of eight tokens that a block takes of a prompt */
};

/* What a block has in shared memory: weights [input][output], in two turns; inputs [token][input].
 */
template <int TILES> struct alignas(16) room {
    bf16 w[2][STEP * W_ROW];
    bf16 x[PARTS][8 * TILES * X_ROW];
};

/* The panel's weights of 64 inputs from k0 on; zeros beyond the last. */
__device__ static void fetch(bf16 *to, const bf16 *panel, int64_t k0, int64_t n_in)
{
    for (int j = 0; j < STEP * (PANEL / 8) / THREADS; j++) {
        const int i = j * THREADS + static_cast<int>(threadIdx.x), k = i / (PANEL / 8),
                  o = i % (PANEL / 8) * 8;
        const bool is_there = k0 + k < n_in;

        copy_async(to + k * W_ROW + o, panel + (is_there ? k0 + k : 0) * PANEL + o, is_there);
    }
}

/* Inputs of 8 * TILES tokens, zeros where there is none: x = x[0] + x[1] + x[2]. */
template <int TILES>
__device__ static void fetch_inputs(room<TILES> &r, const struct spot_cuda_skinny &p, int64_t t0,
                                    int64_t k0)
{
    for (int j = 0; j < 8 * TILES * (STEP / 2) / THREADS; j++) {
        const int i = j * THREADS + static_cast<int>(threadIdx.x), t = i / (STEP / 2),
                  k = i % (STEP / 2) * 2;
        const float *const x = p.x + (t0 + t) * p.x_stride + k0 + k;
        const bool is_token = t0 + t < p.n_token;

        cut<PARTS>(r.x[0] + t * X_ROW + k, 8 * TILES * X_ROW,
                   is_token && k0 + k < p.n_in ? x[0] : 0,
                   is_token && k0 + k + 1 < p.n_in ? x[1] : 0);
    }
}

/* acc += the warp's 16 outputs by the block's tokens, over 32 inputs from k on: twice 16, and of
 * each the parts in order. */
template <int TILES>
__device__ static void add_product(float acc[TILES][4], const bf16 *w, const room<TILES> &r, int k)
{
    const int lane = static_cast<int>(threadIdx.x % WARP),
              warp = static_cast<int>(threadIdx.x / WARP);
    uint32_t fa[2][4];

    for (int half = 0; half < 2; half++)
        load_transposed(fa[half], w + (k + 16 * half + lane / 16 * 8 + lane % 8) * W_ROW +
                                      16 * warp + lane / 8 % 2 * 8);
#pragma unroll
    for (int n = 0; n < TILES; n++) {
        uint32_t fb[PARTS][4];

        for (int part = 0; part < PARTS; part++)
            load_matrices(fb[part], r.x[part] + (8 * n + lane % 8) * X_ROW + k + lane / 8 * 8);
        for (int half = 0; half < 2; half++)
            for (int part = 0; part < PARTS; part++)
                mma(acc[n], fa[half], fb[part] + 2 * half);
    }
}

/* acc = sums over the split of inputs that begins at k0. */
template <int TILES>
__device__ static void sum_split(float acc[TILES][4], room<TILES> &r,
                                 const struct spot_cuda_skinny &p, int64_t t0, int64_t k0)
{
    const bf16 *const panel = static_cast<const bf16 *>(p.w) + blockIdx.x * p.n_in * PANEL;
    const int64_t end = k0 + SPOT_CUDA_SPLIT < p.n_in ? k0 + SPOT_CUDA_SPLIT : p.n_in;
    int turn = 0;

    for (int n = 0; n < TILES; n++)
        for (int i = 0; i < 4; i++)
            acc[n][i] = 0;
    fetch(r.w[0], panel, k0, end);
    copies_commit();
    for (; k0 < end; k0 += STEP, turn ^= 1) {
        if (k0 + STEP < end)
            fetch(r.w[turn ^ 1], panel, k0 + STEP, end);
        copies_commit();
        fetch_inputs(r, p, t0, k0);
        copies_wait<1>();
        __syncthreads();
        for (int k = 0; k < STEP && k0 + k < end; k += 32)
            add_product(acc, r.w[turn], r, k);
        __syncthreads();
    }
}

/* Lane 4 g + t has outputs g and g + 8 of tokens 2t and 2t + 1 of each tile. */
template <int TILES, bool IS_WHOLE>
__device__ static void give(const struct spot_cuda_skinny &p, const float sum[TILES][4], int64_t t0)
{
    const int lane = static_cast<int>(threadIdx.x % WARP),
              warp = static_cast<int>(threadIdx.x / WARP);
    const int64_t first = static_cast<int64_t>(blockIdx.x) * PANEL + 16 * warp + lane / 4,
                  padded = static_cast<int64_t>(gridDim.x) * PANEL;

#pragma unroll
    for (int n = 0; n < TILES; n++)
        for (int i = 0; i < 4; i++) {
            const int64_t t = t0 + 8 * n + lane % 4 * 2 + i % 2, o = first + i / 2 * 8;

            if (t >= p.n_token)
                continue;
            if (!IS_WHOLE)
                p.partial[(blockIdx.y * p.n_token + t) * padded + o] = sum[n][i];
            else if (o < p.n_out)
                p.y[t * p.y_stride + o] = p.bias ? sum[n][i] + p.bias[o] : sum[n][i];
        }
}

/* grid (panels, splits, ceil(N / (8 TILES))), or one block for all splits if IS_WHOLE, which adds
 * them in the same order. 64 outputs, of which a warp has 16. Of a split it reads 64 * 256 weights
 * and 8 TILES * 256 inputs. */
template <int TILES, bool IS_WHOLE>
__global__ void __launch_bounds__(THREADS) panel_kernel(struct spot_cuda_skinny p)
{
    __shared__ room<TILES> r;
    const int64_t t0 = static_cast<int64_t>(blockIdx.z) * 8 * TILES;
    const int64_t first = IS_WHOLE ? 0 : static_cast<int64_t>(blockIdx.y) * SPOT_CUDA_SPLIT,
                  end = IS_WHOLE ? p.n_in : first + 1;
    float sum[TILES][4], acc[TILES][4];

    for (int64_t k0 = first; k0 < end; k0 += SPOT_CUDA_SPLIT) {
        sum_split(acc, r, p, t0, k0);
        for (int n = 0; n < TILES; n++)
            for (int i = 0; i < 4; i++)
                sum[n][i] = k0 == first ? acc[n][i] : sum[n][i] + acc[n][i];
    }
    give<TILES, IS_WHOLE>(p, sum, t0);
}

/* A prompt fills blocks of 64 tokens, each of which goes through all inputs; few tokens need blocks
 * for each split to have a device's memory at work. */
bool spot_cuda_panel(const struct spot_cuda_skinny *p, spot_stream s)
{
    const unsigned n_panel = blocks_of(p->n_out, PANEL),
                   n_split = blocks_of(p->n_in, SPOT_CUDA_SPLIT);
    const bool is_whole = p->n_token >= 8 * MANY;

    if (is_whole)
        SPOT_LAUNCH((panel_kernel<MANY, true>), dim3(n_panel, 1, blocks_of(p->n_token, 8 * MANY)),
                    THREADS, 0, s, *p);
    else
        SPOT_LAUNCH((panel_kernel<1, false>), dim3(n_panel, n_split, blocks_of(p->n_token, 8)),
                    THREADS, 0, s, *p);
    return is_whole;
}
