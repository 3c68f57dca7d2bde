/* SPDX-License-Identifier: MIT */
/* The backward pass of attention with five products: scores are made once.
 *
 * A block has a sequence's head of keys to itself. It goes over 128 keys at a time, ascending, and
 * for these over all queries that see them, so that dk and dv stay in registers; what the keys add
 * to dq comes from memory, goes through one chain of mma and back, 64 queries at a time, until the
 * last key that they see. No other block adds to it: every sum has the order of the kernels with
 * seven products in flash.cu, and their bits.
 *
 * A warp has M times 16 keys: what it loads of queries is multiplied M times. The price is that
 * b * Hk blocks must fill the device.
 */
#include "engine/cuda/flash.cuh"

enum { KEYS = 128, N = 64, HALF = 32, SPREAD = N + 8 }; /* of a row of ds in shared memory */

/* Shared memory of a block. */
template <int D> struct room_of {
    enum { LENGTH = row_of<D>::LENGTH };
    bf16 k[KEYS * LENGTH], v[KEYS * LENGTH];
    bf16 q[2][N * LENGTH], d[2][N * LENGTH];
    bf16 ds[KEYS * SPREAD];
    float lse[2][N], dot[2][N];
};

/* A tile of queries: which, and of which head. */
struct tile {
    int64_t unit, row; /* of lse and dot; the first of N rows */
    int head;
};

template <int D, int M, int WARPS>
__device__ static void fetch_tile(struct room_of<D> *room, const struct heads<bf16> &h,
                                  const bf16 *q, const bf16 *d, const struct tile &t, int turn)
{
    fetch<D, WARPS * WARP>(room->q[turn], q + t.head * D, h.stride, t.row, N, h.seq);
    fetch<D, WARPS * WARP>(room->d[turn], d + t.head * D, h.out_stride, t.row, N, h.seq);
}

/* What thread i < N will place in lse and dot of the next tile. */
__device__ static pack<float, 2> statistics(const struct heads<bf16> &h, const struct tile &t)
{
    const int64_t row = t.row + threadIdx.x;
    const bool is_there = threadIdx.x < N && row < h.seq;
    const int64_t at = t.unit * h.seq + row;

    return is_there ? pack<float, 2>{ { h.lse[at], h.dot[at] } } : pack<float, 2>{};
}

template <int D>
__device__ static void place_statistics(struct room_of<D> *room, const pack<float, 2> &both,
                                        int turn)
{
    if (threadIdx.x < N) {
        room->lse[turn][threadIdx.x] = both.x[0];
        room->dot[turn][threadIdx.x] = both.x[1];
    }
}

/* Scores of M times 16 keys, from key on, and HALF queries from query on, to probabilities in p;
 * dp to the gradient by the scores, and into ds. What is not on the edge is seen whole. */
template <int M>
__device__ static void soften_back(float p[M][HALF / 8][4], float dp[M][HALF / 8][4],
                                   const struct heads<bf16> &h, const float *lse, const float *dot,
                                   bf16 *ds, int64_t key, int64_t query, bool is_edge)
{
    const int lane = static_cast<int>(threadIdx.x % WARP);

#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < HALF / 8; n++) {
            const int col = 8 * n + lane % 4 * 2;

#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int64_t at_key = key + 16 * m + lane / 4 + i / 2 * 8,
                              at_query = query + col + i % 2;
                const bool is_seen = !is_edge || (at_key <= at_query && at_query < h.seq);
                const float x = p[m][n][i];

                p[m][n][i] = is_seen ? exp2f((x * h.scale - lse[col + i % 2]) * LOG2E) : 0;
                dp[m][n][i] = is_seen ? p[m][n][i] * (dp[m][n][i] - dot[col + i % 2]) * h.scale : 0;
            }
            for (int half = 0; half < 2; half++)
                *reinterpret_cast<uint32_t *>(ds + (16 * m + lane / 4 + 8 * half) * SPREAD + col) =
                    pair_of(dp[m][n][2 * half], dp[m][n][2 * half + 1]);
        }
}

/* Tile `t` against the keys of this warp: into dk, dv and ds. */
template <int D, int M>
__device__ static void add_queries(struct room_of<D> *room, float dk[M][D / 8][4],
                                   float dv[M][D / 8][4], const struct heads<bf16> &h,
                                   const struct tile &t, int64_t key0, int turn)
{
    enum { L = row_of<D>::LENGTH };
    const int first = static_cast<int>(threadIdx.x / WARP) * 16 * M; /* key of the warp */
    const bool is_edge = t.row < key0 + KEYS || t.row + N > h.seq;

#pragma unroll 1
    for (int at = 0; at < N; at += HALF) {
        const bf16 *const q = room->q[turn] + at * L, *const d = room->d[turn] + at * L;
        float p[M][HALF / 8][4], dp[M][HALF / 8][4];

        scores<D, HALF, M>(p, room->k + first * L, q);
        scores<D, HALF, M>(dp, room->v + first * L, d);
        soften_back<M>(p, dp, h, room->lse[turn] + at, room->dot[turn] + at,
                       room->ds + first * SPREAD + at, key0 + first, t.row + at, is_edge);
        add_product<D, HALF, M>(dv, p, d);
        add_product<D, HALF, M>(dk, dp, q);
    }
}

/* dq of 16 queries of the tile and C columns for this warp: what the 128 keys add, in chains of 16
 * that go on where the last keys ended. */
template <int D, int WARPS>
__device__ static void add_keys(const struct room_of<D> *room, const struct heads<bf16> &h,
                                const struct tile &t, float *dq, bf16 *to, int64_t key0)
{
    enum { L = row_of<D>::LENGTH, PARTS = WARPS / (N / 16), C = D / PARTS };
    const int lane = static_cast<int>(threadIdx.x % WARP),
              warp = static_cast<int>(threadIdx.x / WARP);
    const int query = warp / PARTS * 16, col = warp % PARTS * C;
    const int64_t row = t.row + query;
    float acc[C / 8][4] = {};

    dq += t.unit * h.seq * D + col;
    for (int half = 0; half < 2 && key0 > 0; half++) {
        const int64_t r = row + lane / 4 + 8 * half;

#pragma unroll
        for (int n = 0; n < C / 8; n++)
            if (r < h.seq) {
                const pack<float, 2> both = load<float, 2>(dq + r * D + 8 * n + lane % 4 * 2);

                acc[n][2 * half] = both.x[0];
                acc[n][2 * half + 1] = both.x[1];
            }
    }
#pragma unroll
    for (int k = 0; k < KEYS; k += 16) {
        uint32_t fa[4];

        load_transposed(fa, room->ds + (k + lane / 16 * 8 + lane % 8) * SPREAD + query +
                                lane / 8 % 2 * 8);
#pragma unroll
        for (int n = 0; n < C; n += 16) {
            uint32_t fb[4];

            load_transposed(fb, room->k + (k + lane / 8 % 2 * 8 + lane % 8) * L + col + n +
                                    lane / 16 * 8);
            mma(acc[n / 8], fa, fb);
            mma(acc[n / 8 + 1], fa, fb + 2);
        }
    }
    if (t.row < key0 + KEYS) { /* no later key is seen */
        const float one[2] = { 1, 1 };

        write_rows<C>(to + t.head * D + col, h.stride, row, h.seq, acc, one);
        return;
    }
    for (int half = 0; half < 2; half++) {
        const int64_t r = row + lane / 4 + 8 * half;

#pragma unroll
        for (int n = 0; n < C / 8; n++)
            if (r < h.seq)
                store<float, 2>(dq + r * D + 8 * n + lane % 4 * 2,
                                pack<float, 2>{ { acc[n][2 * half], acc[n][2 * half + 1] } });
    }
}

/* grid b * Hk. All queries of the head's group, head after head, against 128 keys after 128. */
template <int D, int M, int WARPS>
__global__ void __launch_bounds__(WARPS *WARP) flash_five_kernel(struct heads<bf16> h, float *dq)
{
    SPOT_DYNAMIC_SHARED(memory);
    struct room_of<D> *const room = reinterpret_cast<struct room_of<D> *>(memory);
    const int warp = static_cast<int>(threadIdx.x / WARP);
    const int64_t unit = blockIdx.x, query = unit * h.group;
    const int64_t at_q = query_offset(h, query), at_k = key_offset(h, unit);
    const bf16 *const q = h.qkv + at_q, *const k = h.qkv + at_k, *const v = k + value_step(h),
                      *const d = h.dout + out_offset(h, query);
    const float one[2] = { 1, 1 };

    for (int64_t key0 = 0; key0 < h.seq; key0 += KEYS) {
        const int n_tile = static_cast<int>((h.seq - key0 + N - 1) / N),
                  n_all = n_tile * static_cast<int>(h.group);
        float dk[M][D / 8][4] = {}, dv[M][D / 8][4] = {};
        struct tile t = { query, key0, 0 };

        fetch<D, WARPS * WARP>(room->k, k, h.stride, key0, KEYS, h.seq);
        fetch<D, WARPS * WARP>(room->v, v, h.stride, key0, KEYS, h.seq);
        fetch_tile<D, M, WARPS>(room, h, q, d, t, 0);
        copies_commit();
        place_statistics<D>(room, statistics(h, t), 0);
        for (int i = 0; i < n_all; i++) {
            const int head = (i + 1) / n_tile, turn = i & 1;
            const struct tile next = { query + head, key0 + (i + 1 - head * n_tile) * N, head };
            pack<float, 2> both = {};

            if (i + 1 < n_all) {
                fetch_tile<D, M, WARPS>(room, h, q, d, next, turn ^ 1);
                both = statistics(h, next);
            }
            copies_commit();
            copies_wait<1>();
            __syncthreads();
            add_queries<D, M>(room, dk, dv, h, t, key0, turn);
            place_statistics<D>(room, both, turn ^ 1);
            __syncthreads();
            add_keys<D, WARPS>(room, h, t, dq, h.dqkv + at_q, key0);
            __syncthreads();
            t = next;
        }
        for (int m = 0; m < M; m++) {
            const int64_t row = key0 + (warp * M + m) * 16;

            write_rows<D>(h.dqkv + at_k, h.stride, row, h.seq, dk[m], one);
            write_rows<D>(h.dqkv + at_k + value_step(h), h.stride, row, h.seq, dv[m], one);
        }
    }
}

template <int D, int M, int WARPS>
static void backward(const struct spot_cuda_attention *at, spot_stream s)
{
    static_assert(16 * M * WARPS == KEYS, "keys of a block");
    SPOT_ALLOW_SHARED((flash_five_kernel<D, M, WARPS>), sizeof(struct room_of<D>));
    SPOT_LAUNCH((flash_five_kernel<D, M, WARPS>), static_cast<unsigned>(at->n_seq * at->n_kv_head),
                WARPS * WARP, sizeof(struct room_of<D>), s, heads_of<bf16>(at), at->dq);
}

bool spot_cuda_flash_five(const struct spot_cuda_attention *at, spot_stream s)
{
    if (at->real != SPOT_BF16 || (at->dim != 64 && at->dim != 128))
        return false;
    if (at->dim == 64)
        backward<64, 2, 4>(at, s);
    else
        backward<128, 1, 8>(at, s);
    return true;
}
