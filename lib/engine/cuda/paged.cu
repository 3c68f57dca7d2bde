/* SPDX-License-Identifier: MIT */
/* Attention over pages on tensor cores, for one token and for a prompt alike. The keys that a token
 * sees are cut at multiples of 128, whatever shares its batch: each part is a softmax of its own,
 * and the parts are joined in ascending order. A query is a row of mma's first factor. The sum of a
 * row looks neither at other rows nor at keys of weight zero, so the bits tell neither batch nor
 * chunk. */
#include "engine/cuda/infer_kernels.h"
#include "engine/cuda/tensor.cuh"

enum {
    KEYS = SPOT_CUDA_KEYS,
    PAGE = SPOT_CUDA_PAGE,
    PAGES = KEYS / PAGE,
    WARPS = 4,
    THREADS = WARPS * WARP,
    ROWS = 16 * WARPS,
    PIECES = 3,       /* of a factor */
    DIMS = 32,        /* dimensions that are in shared memory at once */
    K_ROW = KEYS + 8, /* 16 bytes longer, so that eight rows meet all banks */
    V_ROW = DIMS + 8,
    K_SIZE = DIMS * K_ROW,
    V_SIZE = KEYS * V_ROW
};

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

/* What a block works on: a part's keys, and rows that see them. A row is a query; first the heads
 * of a token that share keys, then those of the next token. */
struct unit {
    int64_t token, first; /* first token of the tile, first key of the part */
    int shard, kv, group; /* query heads that share keys */
    int row0, n_row;      /* where the block's rows begin; rows of the tile */
    int n;                /* keys of the part that rows of the block see */
};

/* Of rows g and g + 8 of a warp, lane 4 g + t: NULL where there is no row; no `out` where it sees
 * none of the keys. */
struct rows {
    const float *q[2];
    float *out[2];
    int n[2]; /* keys of the part that it sees */
};

/* In shared memory: pieces of keys [dimension][key] or of values [key][dimension]. */
struct alignas(16) room {
    union {
        bf16 k[PIECES][K_SIZE];
        bf16 v[PIECES][V_SIZE];
    };
    const float *page[PAGES];
};

__device__ static int64_t token_of(const struct unit &u, int row)
{
    return u.token + row / u.group;
}

/* Keys of the part that the last of the rows before `end` sees; zero or less: none. */
__device__ static int seen(const struct spot_cuda_paged &p, const struct unit &u, int end)
{
    const int64_t n = p.position[token_of(u, (end < u.n_row ? end : u.n_row) - 1)] + 1 - u.first;

    return n < KEYS ? static_cast<int>(n) : static_cast<int>(KEYS);
}

__device__ static struct unit unit_of(const struct spot_cuda_paged &p, int64_t first_tile)
{
    const int32_t *const tile = p.tile + first_tile + blockIdx.z;
    const int n_kv = static_cast<int>(p.n_kv_head), n_unit = static_cast<int>(p.n_shard) * n_kv;
    const int block = static_cast<int>(blockIdx.y) / n_unit,
              which = static_cast<int>(blockIdx.y) % n_unit;
    struct unit u;

    u.token = tile[0];
    u.first = static_cast<int64_t>(blockIdx.x) * KEYS;
    u.shard = which / n_kv;
    u.kv = which % n_kv;
    u.group = static_cast<int>(p.n_head) / n_kv;
    u.row0 = block * ROWS;
    u.n_row = (tile[1] - tile[0]) * u.group;
    u.n = u.row0 < u.n_row ? seen(p, u, u.row0 + ROWS) : 0;
    return u;
}

__device__ static struct rows rows_of(const struct spot_cuda_paged &p, const struct unit &u,
                                      int row0, int64_t first_token)
{
    const int lane = static_cast<int>(threadIdx.x % WARP);
    struct rows rows;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = row0 + lane / 4 + half * 8;
        const bool is_there = row < u.n_row;
        const int64_t t = token_of(u, is_there ? row : 0),
                      head = u.kv * u.group + (is_there ? row % u.group : 0);

        rows.q[half] =
            is_there ? p.qkv + (t * p.n_shard + u.shard) * queries_of(p) + head * p.dim : nullptr;
        rows.n[half] = is_there ? seen(p, u, row + 1) : 0;
        rows.out[half] = rows.n[half] > 0
                             ? part_of(p, t - first_token, u.shard * p.n_head + head, blockIdx.x)
                             : nullptr;
    }
    return rows;
}

/* Dimensions [d0, d0 + DIMS) of the part's keys, whole pages; zeros beyond the last. */
__device__ static void fetch_keys(struct room &r, const struct spot_cuda_paged &p,
                                  const struct unit &u, int d0)
{
    const int dim = static_cast<int>(p.dim), n = (u.n + PAGE - 1) / PAGE * DIMS * (PAGE / 2);

#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < n; i += THREADS) {
        const int slot = i % (PAGE / 2) * 2, e = i / (PAGE / 2) % DIMS,
                  page = i / (PAGE / 2) / DIMS;
        const bool is_there = d0 + e < dim;
        const pack<float, 2> x =
            load<float, 2>(r.page[page] + (u.kv * dim + (is_there ? d0 + e : 0)) * PAGE + slot);

        cut<PIECES>(r.k[0] + e * K_ROW + page * PAGE + slot, K_SIZE, is_there ? x.x[0] : 0,
                    is_there ? x.x[1] : 0);
    }
}

/* The same of values; zeros where there is no key, since a weight of zero takes nothing else. */
__device__ static void fetch_values(struct room &r, const struct spot_cuda_paged &p,
                                    const struct unit &u, int d0)
{
    const int dim = static_cast<int>(p.dim), n = (u.n + PAGE - 1) / PAGE * PAGE * (DIMS / 2);

#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < n; i += THREADS) {
        const int e = i % (DIMS / 2) * 2, key = i / (DIMS / 2);
        const float *const x =
            r.page[key / PAGE] + ((p.n_kv_head + u.kv) * PAGE + key % PAGE) * dim + d0 + e;

        cut<PIECES>(r.v[0] + key * V_ROW + e, V_SIZE, key < u.n && d0 + e < dim ? x[0] : 0,
                    key < u.n && d0 + e + 1 < dim ? x[1] : 0);
    }
}

/* Fragments of 16 dimensions from e on of the warp's queries; zeros beyond the last. */
__device__ static void load_queries(uint32_t fa[PIECES][4], const struct rows &rows, int e, int dim)
{
    const int lane = static_cast<int>(threadIdx.x % WARP);

#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int at = e + i / 2 * 8 + lane % 4 * 2;
        const float *const q = rows.q[i % 2];
        uint32_t piece[PIECES];

        cut<PIECES>(piece, q && at < dim ? q[at] : 0, q && at + 1 < dim ? q[at + 1] : 0);
        for (int k = 0; k < PIECES; k++)
            fa[k][i] = piece[k];
    }
}

/* acc [16][N] += a [16][16] y [16][N], as far as column `end`; of the products of pieces those that
 * an error of the least piece leaves room for. */
template <int N, int LENGTH>
__device__ static void add_product(float acc[N / 8][4], const uint32_t fa[PIECES][4], const bf16 *y,
                                   int size, int end)
{
    const int lane = static_cast<int>(threadIdx.x % WARP);

#pragma unroll
    for (int n = 0; n < N; n += 16) {
        uint32_t fb[PIECES][4];

        if (n >= end)
            break;
        for (int j = 0; j < PIECES; j++)
            load_transposed(fb[j], y + j * size + (lane / 8 % 2 * 8 + lane % 8) * LENGTH + n +
                                       lane / 16 * 8);
        for (int i = 0; i < PIECES; i++)
            for (int j = 0; i + j < PIECES; j++) {
                mma(acc[n / 8], fa[i], fb[j]);
                mma(acc[n / 8 + 1], fa[i], fb[j] + 2);
            }
    }
}

/* Scores to weights of the part's own softmax; max and sum of rows g and g + 8. */
__device__ static void soften(float s[KEYS / 8][4], float max[2], float sum[2], const int n_key[2],
                              float scale)
{
    const int lane = static_cast<int>(threadIdx.x % WARP);

#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int end = n_key[half] - lane % 4 * 2;
        float top = -INFINITY, total = 0;

#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                const bool is_seen = 8 * n + i % 2 < end;

                s[n][i] = is_seen ? s[n][i] * scale : -INFINITY;
                top = fmaxf(top, s[n][i]);
            }
        top = quad_max(top);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                s[n][i] = expf(s[n][i] - top);
                total += s[n][i];
            }
        max[half] = top;
        sum[half] = quad_sum(total);
    }
}

/* acc [16][DIMS] += weights of 16 keys each, ascending, times values. */
__device__ static void add_values(float acc[DIMS / 8][4], const float s[KEYS / 8][4],
                                  const struct room &r, int n_key, int n_dim)
{
#pragma unroll
    for (int k = 0; k < KEYS; k += 16) {
        uint32_t fa[PIECES][4];

        if (k >= n_key)
            break;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int n = k / 8 + i / 2, half = i % 2 * 2;
            uint32_t piece[PIECES];

            cut<PIECES>(piece, s[n][half], s[n][half + 1]);
            for (int j = 0; j < PIECES; j++)
                fa[j][i] = piece[j];
        }
        add_product<DIMS, V_ROW>(acc, fa, r.v[0] + k * V_ROW, V_SIZE, n_dim);
    }
}

/* grid (parts, blocks of 64 rows of a tile, S, Hk, tiles). Reads 2 * 128 * d of keys and values for
 * all rows, writes d + 2 for each; 6 * 4 * 128 * d flop a row. A warp multiplies 16 rows, or none
 * where there are few. */
__global__ void __launch_bounds__(THREADS, 3)
    attend_kernel(struct spot_cuda_paged p, int64_t first_tile, float scale)
{
    __shared__ struct room r;
    const struct unit u = unit_of(p, first_tile);
    const int lane = static_cast<int>(threadIdx.x % WARP), j = static_cast<int>(threadIdx.x),
              dim = static_cast<int>(p.dim), row0 = u.row0 + j / WARP * 16;
    const struct rows rows = rows_of(p, u, row0, p.tile[first_tile]);
    const int n = row0 < u.n_row ? seen(p, u, row0 + 16) : 0; /* of the warp */
    float s[KEYS / 8][4] = {}, max[2], sum[2];

    if (u.n <= 0)
        return; /* all threads */
    if (j < (u.n + PAGE - 1) / PAGE)
        r.page[j] = page_of(p, u.token, u.first / PAGE + j, u.shard);
    for (int d0 = 0; d0 < dim; d0 += DIMS) {
        __syncthreads();
        fetch_keys(r, p, u, d0);
        __syncthreads();
        for (int e = 0; e < DIMS && d0 + e < dim && n > 0; e += 16) {
            uint32_t fa[PIECES][4];

            load_queries(fa, rows, d0 + e, dim);
            add_product<KEYS, K_ROW>(s, fa, r.k[0] + e * K_ROW, K_SIZE, n);
        }
    }
    soften(s, max, sum, rows.n, scale);
    for (int d0 = 0; d0 < dim; d0 += DIMS) {
        float acc[DIMS / 8][4] = {};

        __syncthreads();
        fetch_values(r, p, u, d0);
        __syncthreads();
        add_values(acc, s, r, n, dim - d0);
#pragma unroll
        for (int i = 0; i < DIMS / 8 * 4; i++) {
            const int e = d0 + i / 4 * 8 + lane % 4 * 2 + i % 2;

            if (rows.out[i / 2 % 2] && e < dim)
                rows.out[i / 2 % 2][e] = acc[i / 4][i % 4];
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++)
        if (rows.out[half] && lane % 4 == 0) {
            rows.out[half][dim] = max[half];
            rows.out[half][dim + 1] = sum[half];
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

int64_t spot_cuda_paged_tiles(int32_t *tile, const int32_t *item, int64_t n_token, int64_t group)
{
    const int64_t most = group < ROWS ? ROWS / group : 1;
    int64_t n = 0;

    for (int64_t t = 0; t < n_token; t++)
        if (!n || item[t] != item[t - 1] || t - tile[n - 1] == most)
            tile[n++] = static_cast<int32_t>(t);
    tile[n] = static_cast<int32_t>(n_token);
    return n;
}

void spot_cuda_paged_attend(const struct spot_cuda_paged *p, int64_t most, spot_stream s)
{
    const int64_t group = p->n_head / p->n_kv_head;
    const unsigned n_head = static_cast<unsigned>(p->n_shard * p->n_head),
                   n_block =
                       static_cast<unsigned>(p->n_shard * p->n_kv_head) * blocks_of(group, ROWS);
    const float scale = 1.0F / sqrtf(static_cast<float>(p->dim));
    int64_t end;

    for (int64_t first = 0; first < p->n_tile; first = end) {
        const int32_t *const tile = p->tile_host + first;

        for (end = first + 1; end < p->n_tile; end++)
            if (p->tile_host[end + 1] - *tile > SPOT_CUDA_ATTEND_MAX)
                break;
        SPOT_LAUNCH(attend_kernel,
                    dim3(blocks_of(most + 1, KEYS), n_block, static_cast<unsigned>(end - first)),
                    THREADS, 0, s, *p, first, scale);
        SPOT_LAUNCH(join_kernel, dim3(n_head, static_cast<unsigned>(p->tile_host[end] - *tile)),
                    KEYS, 0, s, *p, static_cast<int64_t>(*tile));
    }
}
