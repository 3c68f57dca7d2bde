/* SPDX-License-Identifier: MIT */
/* Embedding, forward and backward, and the fused classifier. */
#include "engine/cuda/launch.cuh"

/* One block per row; three rows of C move, or two without positions (wpe NULL). */
template <typename T>
__global__ void embed_kernel(T *out, const T *wte, const T *wpe, const uint32_t *token, int64_t seq,
                             int64_t c)
{
    const int64_t r = blockIdx.x, at = token[r / seq * (seq + 1) + r % seq];

    for (int64_t i = threadIdx.x; i < c; i += BLOCK)
        out[r * c + i] =
            wpe ? from_float<T>(to_float(wte[at * c + i]) + to_float(wpe[r % seq * c + i]))
                : wte[at * c + i];
}

__device__ static void add_row_element(const struct spot_cuda_target &target, int64_t element,
                                       float x)
{
    add_to_sum(target.sum + element / target.per_shard * target.shard_stride +
                   element % target.per_shard,
               x, target.scale);
}

/* The largest magnitude of a block's threads; an integer maximum has no order. */
__device__ static void raise_top(uint32_t *top, uint32_t mine)
{
    __shared__ uint32_t of_warp[BLOCK / WARP];

    for (int d = WARP / 2; d > 0; d /= 2) {
        const uint32_t other = __shfl_xor_sync(ALL_LANES, mine, d);

        mine = other > mine ? other : mine;
    }
    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < BLOCK / WARP; i++)
            mine = of_warp[i] > mine ? of_warp[i] : mine;
        atomicMax(top, mine);
    }
}

/* One block per distinct token: a chain over its rows in ascending order, per column. Reads N * C
 * once, changes the sums of the rows that occur. */
template <typename T>
__global__ void token_back_kernel(struct spot_cuda_target target, struct spot_cuda_groups groups,
                                  const T *dout, int64_t c)
{
    const int64_t token = groups.token[blockIdx.x];
    const uint32_t begin = groups.start[blockIdx.x], end = groups.start[blockIdx.x + 1];
    uint32_t top = 0;

    for (int64_t i = threadIdx.x; i < c; i += BLOCK) {
        float g = 0;

        for (uint32_t k = begin; k < end; k++)
            g += to_float(dout[static_cast<int64_t>(groups.order[k]) * c + i]);
        top = magnitude(g) > top ? magnitude(g) : top;
        add_row_element(target, token * c + i, g);
    }
    raise_top(target.top, top);
}

/* One block per position: a chain over the sequences. Reads N * C once. */
template <typename T>
__global__ void position_back_kernel(struct spot_cuda_target target, const T *dout, int64_t n_row,
                                     int64_t seq, int64_t c)
{
    uint32_t top = 0;

    for (int64_t i = threadIdx.x; i < c; i += BLOCK) {
        float g = 0;

        for (int64_t r = blockIdx.x; r < n_row; r += seq)
            g += to_float(dout[r * c + i]);
        top = magnitude(g) > top ? magnitude(g) : top;
        add_row_element(target, static_cast<int64_t>(blockIdx.x) * c + i, g);
    }
    raise_top(target.top, top);
}

/* One block per row of Vr logits: maximum, sum, then the gradient in place. Reads the row three
 * times (once from memory while it fits the cache), writes it once. */
template <typename T>
__global__ void classify_kernel(T *logit, double *loss, const uint32_t *token, int64_t seq,
                                int64_t vocab, int64_t vocab_rows, float scale)
{
    __shared__ float room[2][BLOCK / WARP];
    const int64_t r = blockIdx.x, target = token[r / seq * (seq + 1) + r % seq + 1];
    T *const x = logit + r * vocab_rows;
    const float at = to_float(x[target]);
    float max = to_float(x[0]), sum = 0;

    for (int64_t i = threadIdx.x; i < vocab; i += BLOCK)
        max = fmaxf(max, to_float(x[i]));
    max = block_max(max, room[0]);
    for (int64_t i = threadIdx.x; i < vocab; i += BLOCK)
        sum += expf(to_float(x[i]) - max);
    sum = block_sum(sum, room[1]); /* also: all have read x[target] */
    if (threadIdx.x == 0)
        loss[r] =
            log(static_cast<double>(sum)) + static_cast<double>(max) - static_cast<double>(at);
    for (int64_t i = threadIdx.x; i < vocab_rows; i += BLOCK) {
        const float p = i < vocab ? expf(to_float(x[i]) - max) / sum : 0;

        x[i] = from_float<T>((i == target ? p - 1 : p) * scale);
    }
}

void spot_cuda_embed(enum spot_real real, void *out, const void *wte, const void *wpe,
                     const uint32_t *token, int64_t n_row, int64_t seq, int64_t c, spot_stream s)
{
    SPOT_BY_REAL(real, SPOT_LAUNCH((embed_kernel<T>), blocks_of(n_row, 1), BLOCK, 0, s,
                                   static_cast<T *>(out), static_cast<const T *>(wte),
                                   static_cast<const T *>(wpe), token, seq, c));
}

void spot_cuda_embed_back(enum spot_real real, const struct spot_cuda_target *wte,
                          const struct spot_cuda_target *wpe, const struct spot_cuda_groups *groups,
                          const void *dout, int64_t n_row, int64_t seq, int64_t c, spot_stream s)
{
    if (groups->n_group) /* a member of a tensor group may have no token's shard */
        SPOT_BY_REAL(real, SPOT_LAUNCH((token_back_kernel<T>), blocks_of(groups->n_group, 1), BLOCK,
                                       0, s, *wte, *groups, static_cast<const T *>(dout), c));
    if (wpe)
        SPOT_BY_REAL(real, SPOT_LAUNCH((position_back_kernel<T>), blocks_of(seq, 1), BLOCK, 0, s,
                                       *wpe, static_cast<const T *>(dout), n_row, seq, c));
}

void spot_cuda_classify(enum spot_real real, void *logit, double *loss, const uint32_t *token,
                        int64_t n_row, int64_t seq, int64_t vocab, int64_t vocab_rows,
                        spot_stream s)
{
    SPOT_BY_REAL(real, SPOT_LAUNCH((classify_kernel<T>), blocks_of(n_row, 1), BLOCK, 0, s,
                                   static_cast<T *>(logit), loss, token, seq, vocab, vocab_rows,
                                   1.0F / static_cast<float>(n_row)));
}
