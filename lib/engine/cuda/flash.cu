/* SPDX-License-Identifier: MIT */
/* Causal attention on tensor cores, after FlashAttention-2 (Dao 2023): bf16, head dimension 64 or
 * 128.
 *
 * A block of four warps holds 64 rows, 16 per warp, and streams tiles of the other side through two
 * buffers in shared memory; scores and probabilities live in registers. FlashAttention-2 adds dq
 * from all key blocks with atomics; here dq and (dk, dv) are two kernels that compute the scores
 * each, 7 products in place of 5, and every sum has one order: query heads that share keys
 * ascending, tiles ascending.
 *
 * Symbols: D head dimension, T sequence. 4 T^2 D / 2 flop forward for 8 T D bytes per head.
 */
#include "engine/cuda/flash.cuh"

enum { WARPS = 4, THREADS = WARPS * WARP, ROWS = 16 * WARPS };

/* --- forward ------------------------------------------------------------------------ */

/* The tile's scores to probabilities against the running maximum; fades what is summed so far. */
template <int D, int N>
__device__ static void soften(float s[N / 8][4], float max[2], float sum[2], float acc[D / 8][4],
                              float scale)
{
    for (int half = 0; half < 2; half++) {
        float top = max[half], total = 0;

        for (int n = 0; n < N / 8; n++)
            top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        top = quad_max(top);
        const float fade = exp2f((max[half] - top) * scale);

        for (int n = 0; n < N / 8; n++)
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                s[n][i] = exp2f((s[n][i] - top) * scale);
                total += s[n][i];
            }
        sum[half] = sum[half] * fade + quad_sum(total);
        for (int n = 0; n < D / 8; n++) {
            acc[n][2 * half] *= fade;
            acc[n][2 * half + 1] *= fade;
        }
        max[half] = top;
    }
}

/* grid (ceil(T / 64), b * H), the longest rows first. Shared: q, and two tiles of k and of v. */
template <int D> __global__ void __launch_bounds__(THREADS) flash_kernel(struct heads<bf16> h)
{
    enum { N = 64, TILE = N * row_of<D>::LENGTH };
    SPOT_DYNAMIC_SHARED(room);
    bf16 *const sq = reinterpret_cast<bf16 *>(room), *const sk = sq + ROWS * row_of<D>::LENGTH,
                *const sv = sk + 2 * TILE;
    const int lane = static_cast<int>(threadIdx.x % WARP),
              warp = static_cast<int>(threadIdx.x / WARP);
    const int64_t unit = blockIdx.y, q0 = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * ROWS;
    const int64_t row0 = q0 + 16 * warp;
    const bf16 *const q = h.qkv + query_offset(h, unit),
                      *const k = h.qkv + key_offset(h, unit / h.group),
                      *const v = k + value_step(h);
    const int64_t end = q0 + ROWS < h.seq ? q0 + ROWS : h.seq;
    const float scale = h.scale * LOG2E;
    float acc[D / 8][4] = {}, max[2] = { -INFINITY, -INFINITY }, sum[2] = { 0, 0 }, by[2];
    int turn = 0;

    fetch<D, THREADS>(sq, q, h.stride, q0, ROWS, h.seq);
    fetch<D, THREADS>(sk, k, h.stride, 0, N, h.seq);
    fetch<D, THREADS>(sv, v, h.stride, 0, N, h.seq);
    copies_commit();
    for (int64_t key0 = 0; key0 < end; key0 += N, turn ^= 1) {
        float s[N / 8][4];

        if (key0 + N < end) {
            fetch<D, THREADS>(sk + (turn ^ 1) * TILE, k, h.stride, key0 + N, N, h.seq);
            fetch<D, THREADS>(sv + (turn ^ 1) * TILE, v, h.stride, key0 + N, N, h.seq);
        }
        copies_commit();
        copies_wait<1>();
        __syncthreads();
        scores<D, N, 1>(&s, sq + 16 * warp * row_of<D>::LENGTH, sk + turn * TILE);
        for (int n = 0; n < N / 8 && key0 + N > row0; n++)
            for (int i = 0; i < 4; i++)
                if (key0 + 8 * n + lane % 4 * 2 + i % 2 > row0 + lane / 4 + i / 2 * 8)
                    s[n][i] = -INFINITY;
        soften<D, N>(s, max, sum, acc, scale);
        add_product<D, N, 1>(&acc, &s, sv + turn * TILE);
        __syncthreads();
    }
    for (int half = 0; half < 2; half++) {
        const int64_t row = row0 + lane / 4 + 8 * half;

        by[half] = 1 / sum[half];
        if (lane % 4 == 0 && row < h.seq)
            h.lse[unit * h.seq + row] = max[half] * h.scale + logf(sum[half]);
    }
    write_rows<D>(h.out + out_offset(h, unit), h.out_stride, row0, h.seq, acc, by);
}

/* --- backward ------------------------------------------------------------------------- */

/* Scores to probabilities in p, and dp to the gradient by the scores. Rows of the fragment are keys
 * and its columns queries if IS_KEY, else the other way round. */
template <int N, bool IS_KEY>
__device__ static void soften_back(float p[N / 8][4], float dp[N / 8][4],
                                   const struct heads<bf16> &h, int64_t unit, int64_t row0,
                                   int64_t col0)
{
    const int lane = static_cast<int>(threadIdx.x % WARP);
    const float *const lse = h.lse + unit * h.seq, *const dot = h.dot + unit * h.seq;

#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t row = row0 + lane / 4 + i / 2 * 8,
                          col = col0 + 8 * n + lane % 4 * 2 + i % 2;
            const int64_t query = IS_KEY ? col : row, key = IS_KEY ? row : col;
            const bool is_seen = key <= query && query < h.seq;

            p[n][i] = is_seen ? exp2f((p[n][i] * h.scale - lse[is_seen ? query : 0]) * LOG2E) : 0;
            dp[n][i] = is_seen ? p[n][i] * (dp[n][i] - dot[query]) * h.scale : 0;
        }
}

/* IS_KEY: 64 keys against all queries from there on, of all heads that share them, which lie side
 * by side; a unit is a key head; writes dk and dv. Else: 64 queries against the keys up to them; a
 * unit is a query head; writes dq. grid (ceil(T / 64), b * heads), the longest first. Shared: the
 * rows of (k, v) or (q, dout), and two tiles of N rows of the other pair. */
template <int D, int N, bool IS_KEY>
__global__ void __launch_bounds__(THREADS) flash_back_kernel(struct heads<bf16> h)
{
    enum { SIZE = ROWS * row_of<D>::LENGTH, TILE = N * row_of<D>::LENGTH };
    SPOT_DYNAMIC_SHARED(room);
    bf16 *const sa = reinterpret_cast<bf16 *>(room), *const sb = sa + SIZE, *const sx = sb + SIZE,
                *const sy = sx + 2 * TILE;
    const int warp = static_cast<int>(threadIdx.x / WARP);
    const int64_t block = IS_KEY ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    const int64_t unit = blockIdx.y, first = block * ROWS, row0 = first + 16 * warp;
    const int64_t query = IS_KEY ? unit * h.group : unit; /* the first query head */
    const int64_t at_q = query_offset(h, query), at_k = key_offset(h, query / h.group);
    const bf16 *const q = h.qkv + at_q, *const k = h.qkv + at_k, *const v = k + value_step(h),
                      *const d = h.dout + out_offset(h, query);
    const bf16 *const x = IS_KEY ? q : k, *const y = IS_KEY ? d : v;
    const int64_t y_stride = IS_KEY ? h.out_stride : h.stride;
    const int64_t begin = IS_KEY ? first : 0,
                  end = IS_KEY || first + ROWS > h.seq ? h.seq : first + ROWS;
    const int n_tile = static_cast<int>((end - begin + N - 1) / N), /* of a head */
        n_all = IS_KEY ? n_tile * static_cast<int>(h.group) : n_tile;
    const float one[2] = { 1, 1 };
    float acc_x[D / 8][4] = {}, acc_y[IS_KEY ? D / 8 : 1][4] = {};

    fetch<D, THREADS>(sa, IS_KEY ? k : q, h.stride, first, ROWS, h.seq);
    fetch<D, THREADS>(sb, IS_KEY ? v : d, IS_KEY ? h.stride : h.out_stride, first, ROWS, h.seq);
    fetch<D, THREADS>(sx, x, h.stride, begin, N, h.seq);
    fetch<D, THREADS>(sy, y, y_stride, begin, N, h.seq);
    copies_commit();
    for (int i = 0; i < n_all; i++) {
        const int head = i / n_tile, next = (i + 1) / n_tile, turn = i & 1;
        float p[N / 8][4], dp[N / 8][4];

        if (i + 1 < n_all) {
            const int64_t row = begin + (i + 1 - next * n_tile) * N;

            fetch<D, THREADS>(sx + (turn ^ 1) * TILE, x + next * D, h.stride, row, N, h.seq);
            fetch<D, THREADS>(sy + (turn ^ 1) * TILE, y + next * D, y_stride, row, N, h.seq);
        }
        copies_commit();
        copies_wait<1>();
        __syncthreads();
        scores<D, N, 1>(&p, sa + 16 * warp * row_of<D>::LENGTH, sx + turn * TILE);
        scores<D, N, 1>(&dp, sb + 16 * warp * row_of<D>::LENGTH, sy + turn * TILE);
        soften_back<N, IS_KEY>(p, dp, h, query + head, row0, begin + (i - head * n_tile) * N);
        if constexpr (IS_KEY)
            add_product<D, N, 1>(&acc_y, &p, sy + turn * TILE);
        add_product<D, N, 1>(&acc_x, &dp, sx + turn * TILE);
        __syncthreads();
    }
    if constexpr (IS_KEY) {
        write_rows<D>(h.dqkv + at_k, h.stride, row0, h.seq, acc_x, one);
        write_rows<D>(h.dqkv + at_k + value_step(h), h.stride, row0, h.seq, acc_y, one);
    } else {
        write_rows<D>(h.dqkv + at_q, h.stride, row0, h.seq, acc_x, one);
    }
}

/* --- doors ------------------------------------------------------------------------------ */

static bool is_for(const struct spot_cuda_attention *at, int64_t dim)
{
    return at->real == SPOT_BF16 && at->dim == dim;
}

static dim3 grid_of(const struct spot_cuda_attention *at, int64_t n_head)
{
    return dim3(blocks_of(at->seq, ROWS), static_cast<unsigned>(at->n_seq * n_head));
}

template <int D> static void forward(const struct spot_cuda_attention *at, spot_stream s)
{
    const size_t shared = (ROWS + 4 * 64) * row_of<D>::LENGTH * sizeof(bf16);

    SPOT_ALLOW_SHARED((flash_kernel<D>), shared);
    SPOT_LAUNCH((flash_kernel<D>), grid_of(at, at->n_head), THREADS, shared, s, heads_of<bf16>(at));
}

/* D = 128 streams half tiles: two sums of 16 x 128 leave no registers for more. */
template <int D, int N> static void backward(const struct spot_cuda_attention *at, spot_stream s)
{
    const size_t shared = (2 * ROWS + 4 * N) * row_of<D>::LENGTH * sizeof(bf16);

    SPOT_ALLOW_SHARED((flash_back_kernel<D, N, true>), shared);
    SPOT_ALLOW_SHARED((flash_back_kernel<D, N, false>), shared);
    SPOT_LAUNCH((flash_back_kernel<D, N, true>), grid_of(at, at->n_kv_head), THREADS, shared, s,
                heads_of<bf16>(at));
    SPOT_LAUNCH((flash_back_kernel<D, N, false>), grid_of(at, at->n_head), THREADS, shared, s,
                heads_of<bf16>(at));
}

bool spot_cuda_flash_forward(const struct spot_cuda_attention *at, spot_stream s)
{
    if (is_for(at, 64))
        forward<64>(at, s);
    else if (is_for(at, 128))
        forward<128>(at, s);
    else
        return false;
    return true;
}

bool spot_cuda_flash_backward(const struct spot_cuda_attention *at, spot_stream s)
{
    if (at->dq && spot_cuda_flash_five(at, s))
        return true;
    if (is_for(at, 64))
        backward<64, 64>(at, s);
    else if (is_for(at, 128))
        backward<128, 32>(at, s);
    else
        return false;
    return true;
}
