/* SPDX-License-Identifier: MIT */
/* The classifier cut by shards: three passes, between which the members of a tensor group agree. */
#include "engine/cuda/launch.cuh"

/* The logits of one row that are here. */
template <typename T> struct row {
    T *x;
    int64_t r, target, owner; /* target: column among those of member `owner` */
};

template <typename T> __device__ static struct row<T> row_of(const struct spot_cuda_logits &l) {
    const int64_t r = blockIdx.x, own = l.n_shard * l.per_shard;
    const int64_t target = l.token[r / l.seq * (l.seq + 1) + r % l.seq + 1];
    struct row<T> row;

    row.x = static_cast<T *>(l.logit) + r * own;
    row.r = r;
    row.owner = target / own;
    row.target = target % own;
    return row;
}

/* Tokens among the first n columns of own shard `s` on: the rest is padding. */
__device__ static int64_t
tokens_of(const struct spot_cuda_logits &l, int s, int64_t n)
{
    const int64_t left = l.vocab - (l.shard + s) * l.per_shard;

    return left < 0 ? 0 : left < n ? left : n;
}

/* Maximum that a NaN survives. */
__device__ static float top_of(const float *top, int64_t r, int64_t n_row, int n_member)
{
    float most = top[r];

    for (int m = 1; m < n_member; m++) {
        const float here = top[m * 2 * n_row + r];

        most = here > most || here != here ? here : most;
    }
    return most;
}

/* One block per row, which is read once. */
template <typename T> __global__ void top_kernel(struct spot_cuda_logits l, float *top)
{
    __shared__ float room[BLOCK / WARP];
    const struct row<T> row = row_of<T>(l);
    const int64_t n = tokens_of(l, 0, l.n_shard * l.per_shard);
    float max = -INFINITY;

    for (int64_t i = threadIdx.x; i < n; i += BLOCK)
        max = fmaxf(max, to_float(row.x[i]));
    max = block_max(max, room);
    if (threadIdx.x)
        return;
    top[row.r] = max;
    top[l.n_row + row.r] = row.owner == l.shard / l.n_shard ? to_float(row.x[row.target]) : 0;
}

/* grid (N, own shards): one block per row and shard, whatever the others. */
template <typename T>
__global__ void sum_kernel(struct spot_cuda_logits l, float *sum, const float *top, int n_member)
{
    __shared__ float room[BLOCK / WARP];
    const struct row<T> row = row_of<T>(l);
    const int shard = static_cast<int>(blockIdx.y);
    const T *const x = row.x + shard * l.per_shard;
    const int64_t n = tokens_of(l, shard, l.per_shard);
    const float max = top_of(top, row.r, l.n_row, n_member);
    float s = 0;

    for (int64_t i = threadIdx.x; i < n; i += BLOCK)
        s += expf(to_float(x[i]) - max);
    s = block_sum(s, room);
    if (threadIdx.x == 0)
        sum[shard * l.n_row + row.r] = s;
}

/* One block per row, which is read and written once. */
template <typename T>
__global__ void loss_kernel(struct spot_cuda_logits l, double *loss, const float *sum,
                            const float *top, int n_member, float scale)
{
    const struct row<T> row = row_of<T>(l);
    const int64_t n = l.n_shard * l.per_shard, n_token = tokens_of(l, 0, n);
    const float max = top_of(top, row.r, l.n_row, n_member), total = sum[row.r];
    const int64_t target = row.owner == l.shard / l.n_shard ? row.target : -1;

    if (threadIdx.x == 0)
        loss[row.r] = log(static_cast<double>(total)) + static_cast<double>(max) -
                      static_cast<double>(top[(2 * row.owner + 1) * l.n_row + row.r]);
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
        const float p = i < n_token ? expf(to_float(row.x[i]) - max) / total : 0;

        row.x[i] = from_float<T>((i == target ? p - 1 : p) * scale);
    }
}

void spot_cuda_logit_tops(const struct spot_cuda_logits *l, float *top, spot_stream s)
{
    SPOT_BY_REAL(l->real,
                 SPOT_LAUNCH((top_kernel<T>), blocks_of(l->n_row, 1), BLOCK, 0, s, *l, top));
}

void spot_cuda_logit_sums(const struct spot_cuda_logits *l, float *sum, const float *top,
                          int n_member, spot_stream s)
{
    SPOT_BY_REAL(l->real,
                 SPOT_LAUNCH((sum_kernel<T>),
                             dim3(blocks_of(l->n_row, 1), static_cast<unsigned>(l->n_shard)), BLOCK,
                             0, s, *l, sum, top, n_member));
}

void spot_cuda_logit_losses(const struct spot_cuda_logits *l, double *loss, const float *sum,
                            const float *top, int n_member, spot_stream s)
{
    SPOT_BY_REAL(l->real,
                 SPOT_LAUNCH((loss_kernel<T>), blocks_of(l->n_row, 1), BLOCK, 0, s, *l, loss, sum,
                             top, n_member, 1.0F / static_cast<float>(l->n_row)));
}
