/* SPDX-License-Identifier: MIT */
/* Attention over pages. The keys that a token sees are cut at multiples of 128, whatever shares its
 * batch: each part is a softmax of its own, and the parts are joined in ascending order. Prompts go
 * the same way, token by token, so that a chunk does not show. */
#include "engine/cuda/infer_kernels.h"
#include "engine/cuda/launch.cuh"

enum { KEYS = SPOT_CUDA_KEYS, PAGE = SPOT_CUDA_PAGE, PAGES = KEYS / PAGE, WARPS = KEYS / WARP };

__device__ static int64_t queries_of(const struct spot_cuda_paged &p)
{
    return (p.n_head + 2 * p.n_kv_head) * p.dim;
}

__device__ static float *page_of(const struct spot_cuda_paged &p, int64_t token, int64_t page,
                                 int64_t shard)
{
    const int64_t which = p.page[p.item[token] * p.page_stride + page];

    return p.pool +
           ((which * p.n_layer + p.layer) * p.n_shard + shard) * (2 * p.n_kv_head * p.dim * PAGE);
}

/* One block per token and own shard: its q, k and v are read and written once. */
__global__ void place_kernel(struct spot_cuda_paged p)
{
    const int64_t t = blockIdx.x, shard = blockIdx.y, position = p.position[t];
    const int half = static_cast<int>(p.dim / 2), dim = static_cast<int>(p.dim);
    float *const q = p.qkv + (t * p.n_shard + shard) * queries_of(p);
    const float *const k = q + p.n_head * p.dim, *const v = k + p.n_kv_head * p.dim;
    const int slot = static_cast<int>(position % PAGE);
    float *const keys = page_of(p, t, position / PAGE, shard);
    float *const values = keys + p.n_kv_head * p.dim * PAGE;

    for (int i = static_cast<int>(threadIdx.x);
         p.turn && i < static_cast<int>(p.n_head + p.n_kv_head) * half; i += BLOCK) {
        float *const x = q + i / half * dim + i % half;
        const float *const cosine = p.turn + position * dim + i % half, *const sine = cosine + half;
        const float a = x[0], b = x[half];

        x[0] = a * *cosine - b * *sine;
        x[half] = b * *cosine + a * *sine;
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(p.n_kv_head) * dim;
         i += BLOCK) {
        keys[i * PAGE + slot] = k[i];
        values[(i / dim * PAGE + slot) * dim + i % dim] = v[i];
    }
}

/* Of a part: sums of d, the largest score, the sum of exponentials. */
__device__ static float *part_of(const struct spot_cuda_paged &p, int64_t token, int64_t head,
                                 int64_t part)
{
    const int64_t n_part = (p.seq + KEYS - 1) / KEYS;

    return p.partial + ((token * p.n_shard * p.n_head + head) * n_part + part) * (p.dim + 2);
}

/* grid (parts, S H, tokens), a thread per key, then per dimension. Reads 2 * 128 * d of a part's
 * keys and values, writes d + 2. */
__global__ void attend_kernel(struct spot_cuda_paged p, int64_t first_token, float scale)
{
    __shared__ float q[SPOT_CUDA_HEAD_DIM_MAX], weight[KEYS], top[WARPS], total[WARPS];
    __shared__ const float *page[PAGES];
    const int64_t token = first_token + blockIdx.z, first = static_cast<int64_t>(blockIdx.x) * KEYS;
    const int64_t left = p.position[token] + 1 - first, shard = blockIdx.y / p.n_head,
                  head = blockIdx.y % p.n_head, kv = head / (p.n_head / p.n_kv_head);
    const int n = left < KEYS ? static_cast<int>(left) : KEYS, j = static_cast<int>(threadIdx.x);
    float *const out = part_of(p, blockIdx.z, blockIdx.y, blockIdx.x);
    float score = -INFINITY, max, w, sum;

    if (left <= 0)
        return; /* all threads */
    for (int e = j; e < p.dim; e += KEYS)
        q[e] = p.qkv[(token * p.n_shard + shard) * queries_of(p) + head * p.dim + e];
    if (j < (n + PAGE - 1) / PAGE)
        page[j] = page_of(p, token, first / PAGE + j, shard);
    __syncthreads();
    if (j < n) {
        const float *const key = page[j / PAGE] + kv * p.dim * PAGE + j % PAGE;

        score = 0;
        for (int e = 0; e < p.dim; e++)
            score = fmaf(q[e], key[e * PAGE], score);
        score *= scale;
    }
    max = warp_max(score);
    if (j % WARP == 0)
        top[j / WARP] = max;
    __syncthreads();
    max = fmaxf(fmaxf(top[0], top[1]), fmaxf(top[2], top[3]));
    w = j < n ? expf(score - max) : 0;
    weight[j] = w;
    sum = warp_sum(w);
    if (j % WARP == 0)
        total[j / WARP] = sum;
    __syncthreads();
    for (int e = j; e < p.dim; e += KEYS) {
        float acc = 0;

        for (int i = 0; i < n; i++)
            acc =
                fmaf(weight[i],
                     page[i / PAGE][(p.n_kv_head + kv) * p.dim * PAGE + i % PAGE * p.dim + e], acc);
        out[e] = acc;
    }
    if (j == 0) {
        out[p.dim] = max;
        out[p.dim + 1] = total[0] + total[1] + total[2] + total[3];
    }
}

/* grid (S H, tokens): the parts of a head in ascending order. */
__global__ void join_kernel(struct spot_cuda_paged p, int64_t first_token)
{
    const int64_t token = first_token + blockIdx.y, n = p.position[token] / KEYS + 1;
    float *const out = p.att + (token * p.n_shard * p.n_head + blockIdx.x) * p.dim;
    float max = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        max = fmaxf(max, part_of(p, blockIdx.y, blockIdx.x, i)[p.dim]);
    for (int64_t i = 0; i < n; i++) {
        const float *const part = part_of(p, blockIdx.y, blockIdx.x, i);

        sum = fmaf(part[p.dim + 1], expf(part[p.dim] - max), sum);
    }
    for (int64_t e = threadIdx.x; e < p.dim; e += KEYS) {
        float acc = 0;

        for (int64_t i = 0; i < n; i++) {
            const float *const part = part_of(p, blockIdx.y, blockIdx.x, i);

            acc = fmaf(part[e], expf(part[p.dim] - max), acc);
        }
        out[e] = acc / sum;
    }
}

size_t spot_cuda_paged_elem(int64_t n_token, int64_t n_head, int64_t dim, int64_t seq)
{
    const int64_t all = SPOT_CUDA_ATTEND_MAX, n = n_token < all ? n_token : all;

    return static_cast<size_t>(n * n_head * ((seq + KEYS - 1) / KEYS) * (dim + 2));
}

void spot_cuda_paged_place(const struct spot_cuda_paged *p, spot_stream s)
{
    SPOT_LAUNCH(place_kernel,
                dim3(static_cast<unsigned>(p->n_token), static_cast<unsigned>(p->n_shard)), BLOCK,
                0, s, *p);
}

void spot_cuda_paged_attend(const struct spot_cuda_paged *p, int64_t most, spot_stream s)
{
    const unsigned n_head = static_cast<unsigned>(p->n_shard * p->n_head);
    const float scale = 1.0F / sqrtf(static_cast<float>(p->dim));

    for (int64_t first = 0, all = SPOT_CUDA_ATTEND_MAX; first < p->n_token; first += all) {
        const int64_t left = p->n_token - first;
        const unsigned n = static_cast<unsigned>(left < all ? left : all);

        SPOT_LAUNCH(attend_kernel, dim3(blocks_of(most + 1, KEYS), n_head, n), KEYS, 0, s, *p,
                    first, scale);
        SPOT_LAUNCH(join_kernel, dim3(n_head, n), KEYS, 0, s, *p, first);
    }
}
