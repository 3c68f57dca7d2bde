/* SPDX-License-Identifier: MIT */
/* Causal attention for any head dimension up to 256 and both types; flash.cu takes over where it
 * can. One warp per row of the output, all sums in fp32: scores of 32 keys at a time, one per lane,
 * sums over keys in ascending tiles, sums over the head dimension in order. No probabilities in
 * memory. */
#include "engine/cuda/attention.cuh"

enum { WARPS = 4, PER_LANE = SPOT_CUDA_HEAD_DIM_MAX / WARP };

struct place {
    int64_t unit, row; /* sequence * heads + head; position */
    int lane;
    bool is_there;
};

/* grid (ceil(T / WARPS), b * heads), WARPS warps */
__device__ static struct place place_of(int64_t seq)
{
    struct place p;

    p.unit = blockIdx.y;
    p.row = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / WARP;
    p.lane = static_cast<int>(threadIdx.x % WARP);
    p.is_there = p.row < seq;
    return p;
}

template <typename T> __device__ static float dot(const T *a, const T *b, int64_t n)
{
    float s = 0;

    for (int64_t i = 0; i < n; i++)
        s += to_float(a[i]) * to_float(b[i]);
    return s;
}

/* acc[e] += sum over lanes of weight_of_lane * x[lane][e], lanes ascending; lane holds the columns
 * lane, lane + 32, ... of acc */
template <typename T>
__device__ static void add_rows(float acc[PER_LANE], float weight, const T *x, int64_t stride,
                                int n_row, int64_t dim, int lane)
{
    for (int j = 0; j < n_row; j++) {
        const float w = __shfl_sync(ALL_LANES, weight, j);

        for (int64_t e = lane, k = 0; e < dim; e += WARP, k++)
            acc[k] += w * to_float(x[j * stride + e]);
    }
}

template <typename T>
__device__ static void write_row(T *y, const float acc[PER_LANE], float by, int64_t dim, int lane)
{
    for (int64_t e = lane, k = 0; e < dim; e += WARP, k++)
        y[e] = from_float<T>(acc[k] * by);
}

__device__ static int rows_of_tile(int64_t begin, int64_t end)
{
    return end - begin < WARP ? static_cast<int>(end - begin) : WARP;
}

/* Reads keys and values once per query row: for shapes that are small, or for checking. */
template <typename T> __global__ void forward_kernel(struct heads<T> h)
{
    const struct place p = place_of(h.seq);
    float acc[PER_LANE] = {}, max = -INFINITY, sum = 0;

    if (!p.is_there)
        return;
    const T *const q = h.qkv + query_offset(h, p.unit),
                   *const k = h.qkv + key_offset(h, p.unit / h.group), *const v = k + value_step(h);
    for (int64_t tile = 0; tile <= p.row; tile += WARP) {
        const int64_t key = tile + p.lane;
        const bool is_seen = key <= p.row;
        const float score =
            is_seen ? h.scale * dot(q + p.row * h.stride, k + key * h.stride, h.dim) : -INFINITY;
        const float new_max = fmaxf(max, warp_max(score)), fade = expf(max - new_max);
        const float weight = is_seen ? expf(score - new_max) : 0;

        sum = sum * fade + warp_sum(weight);
        for (int e = 0; e < PER_LANE; e++)
            acc[e] *= fade;
        add_rows(acc, weight, v + tile * h.stride, h.stride, rows_of_tile(tile, p.row + 1), h.dim,
                 p.lane);
        max = new_max;
    }
    write_row(h.out + out_offset(h, p.unit) + p.row * h.out_stride, acc, 1 / sum, h.dim, p.lane);
    if (p.lane == 0)
        h.lse[p.unit * h.seq + p.row] = max + logf(sum);
}

/* dot[row] = out . dout, one warp per row; two arrays of N * H d read. */
template <typename T> __global__ void dot_kernel(struct heads<T> h)
{
    const struct place p = place_of(h.seq);
    float s = 0;

    if (!p.is_there)
        return;
    const int64_t at = out_offset(h, p.unit) + p.row * h.out_stride;
    for (int64_t e = p.lane; e < h.dim; e += WARP)
        s += to_float(h.out[at + e]) * to_float(h.dout[at + e]);
    s = warp_sum(s);
    if (p.lane == 0)
        h.dot[p.unit * h.seq + p.row] = s;
}

/* Probability of (query, key), and its gradient by the score before scaling. */
template <typename T>
__device__ static void pair(const struct heads<T> &h, int64_t unit, int64_t query, int64_t key,
                            float *prob, float *dscore)
{
    const T *const q = h.qkv + query_offset(h, unit) + query * h.stride;
    const T *const k = h.qkv + key_offset(h, unit / h.group) + key * h.stride;
    const T *const d = h.dout + out_offset(h, unit) + query * h.out_stride;

    *prob = expf(h.scale * dot(q, k, h.dim) - h.lse[unit * h.seq + query]);
    *dscore = *prob * (dot(d, k + value_step(h), h.dim) - h.dot[unit * h.seq + query]) * h.scale;
}

/* One warp per query: dq = sum over keys of ds k. */
template <typename T> __global__ void query_back_kernel(struct heads<T> h)
{
    const struct place p = place_of(h.seq);
    float acc[PER_LANE] = {};

    if (!p.is_there)
        return;
    const T *const k = h.qkv + key_offset(h, p.unit / h.group);
    for (int64_t tile = 0; tile <= p.row; tile += WARP) {
        float prob = 0, dscore = 0;

        if (tile + p.lane <= p.row)
            pair(h, p.unit, p.row, tile + p.lane, &prob, &dscore);
        add_rows(acc, dscore, k + tile * h.stride, h.stride, rows_of_tile(tile, p.row + 1), h.dim,
                 p.lane);
    }
    write_row(h.dqkv + query_offset(h, p.unit) + p.row * h.stride, acc, 1, h.dim, p.lane);
}

/* One warp per key, a unit is a key head: dv = sum over queries of p dout, dk = sum of ds q; the
 * query heads that share it ascending, the queries of each ascending. */
template <typename T> __global__ void key_back_kernel(struct heads<T> h)
{
    const struct place p = place_of(h.seq);
    float dk[PER_LANE] = {}, dv[PER_LANE] = {};

    if (!p.is_there)
        return;
    for (int64_t unit = p.unit * h.group; unit < (p.unit + 1) * h.group; unit++)
        for (int64_t tile = p.row; tile < h.seq; tile += WARP) {
            const int n = rows_of_tile(tile, h.seq);
            float prob = 0, dscore = 0;

            if (p.lane < n)
                pair(h, unit, tile + p.lane, p.row, &prob, &dscore);
            add_rows(dv, prob, h.dout + out_offset(h, unit) + tile * h.out_stride, h.out_stride, n,
                     h.dim, p.lane);
            add_rows(dk, dscore, h.qkv + query_offset(h, unit) + tile * h.stride, h.stride, n,
                     h.dim, p.lane);
        }
    T *const to = h.dqkv + key_offset(h, p.unit) + p.row * h.stride;

    write_row(to, dk, 1, h.dim, p.lane);
    write_row(to + value_step(h), dv, 1, h.dim, p.lane);
}

/* One block per row: pair i of a head of q or k is numbers i and i + d / 2. */
template <typename T>
__global__ void rotate_kernel(struct heads<T> h, T *qkv, const float *turn, float way)
{
    const int half = static_cast<int>(h.dim / 2),
              turned = static_cast<int>(h.per_shard + h.kv_per_shard); /* heads of a shard */
    const int n = static_cast<int>(h.n_head + h.n_kv_head) * half;
    const float *const cosine = turn + blockIdx.x % h.seq * h.dim, *const sine = cosine + half;

    for (int i = static_cast<int>(threadIdx.x); i < n; i += BLOCK) {
        const int head = i / half, e = i % half;
        T *const x = qkv + blockIdx.x * h.stride + head / turned * h.shard_stride +
                     head % turned * h.dim + e;
        const float a = to_float(x[0]), b = to_float(x[half]), s = way * sine[e];

        x[0] = from_float<T>(a * cosine[e] - b * s);
        x[half] = from_float<T>(b * cosine[e] + a * s);
    }
}

void spot_cuda_rotate(const struct spot_cuda_attention *at, void *qkv, const float *turn, float way,
                      spot_stream s)
{
    SPOT_BY_REAL(at->real, SPOT_LAUNCH((rotate_kernel<T>), blocks_of(at->n_seq * at->seq, 1), BLOCK,
                                       0, s, heads_of<T>(at), static_cast<T *>(qkv), turn, way));
}

static dim3 grid_of(const struct spot_cuda_attention *at, int64_t n_head)
{
    return dim3(blocks_of(at->seq, WARPS), static_cast<unsigned>(at->n_seq * n_head));
}

void spot_cuda_attention_forward(const struct spot_cuda_attention *at, spot_stream s)
{
    if (spot_cuda_flash_forward(at, s))
        return;
    SPOT_BY_REAL(at->real, SPOT_LAUNCH((forward_kernel<T>), grid_of(at, at->n_head), WARPS * WARP,
                                       0, s, heads_of<T>(at)));
}

void spot_cuda_attention_backward(const struct spot_cuda_attention *at, spot_stream s)
{
    SPOT_BY_REAL(at->real, SPOT_LAUNCH((dot_kernel<T>), grid_of(at, at->n_head), WARPS * WARP, 0, s,
                                       heads_of<T>(at)));
    if (spot_cuda_flash_backward(at, s))
        return;
    SPOT_BY_REAL(at->real, SPOT_LAUNCH((query_back_kernel<T>), grid_of(at, at->n_head),
                                       WARPS * WARP, 0, s, heads_of<T>(at)));
    SPOT_BY_REAL(at->real, SPOT_LAUNCH((key_back_kernel<T>), grid_of(at, at->n_kv_head),
                                       WARPS * WARP, 0, s, heads_of<T>(at)));
}
