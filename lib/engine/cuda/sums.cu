/* SPDX-License-Identifier: MIT */
/* Fixed-point sums, their norm, AdamW. */
#include "engine/cuda/launch.cuh"

/* Grid-stride over the gradients of shard blockIdx.y, W per thread and turn: 4 B read, 8 B read and
 * written per element. */
template <int W> __global__ void quantise_kernel(struct spot_cuda_target target, const float *grad)
{
    const int64_t stride = static_cast<int64_t>(gridDim.x) * BLOCK * W;
    int64_t *const sum = target.sum + blockIdx.y * target.shard_stride;
    uint32_t top = 0;

    grad += blockIdx.y * target.per_shard;
#pragma unroll 1 /* else the number of turns is found by a division */
    for (int64_t i = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) * W;
         i < target.per_shard; i += stride) {
        constexpr int PAIR = W > 1 ? 2 : 1; /* of 8 bytes, in one access */
        const pack<float, W> g = load<float, W>(grad + i);

        for (int j = 0; j < W; j += PAIR) {
            pack<int64_t, PAIR> both = load<int64_t, PAIR>(sum + i + j);

            for (int k = 0; k < PAIR; k++) {
                const float x = g.x[j + k];

                top = magnitude(x) > top ? magnitude(x) : top;
                add_to_sum(&both.x[k], x, target.scale);
            }
            store<int64_t, PAIR>(sum + i + j, both);
        }
    }
    for (int d = WARP / 2; d > 0; d /= 2) {
        const uint32_t other = __shfl_xor_sync(ALL_LANES, top, d);

        top = other > top ? other : top;
    }
    if (threadIdx.x % WARP == 0 && top)
        atomicMax(target.top, top); /* of integers: no order */
}

/* One thread per element: 12 B. */
__global__ void sums_to_floats_kernel(float *to, const int64_t *from, size_t n)
{
    const size_t i = static_cast<size_t>(blockIdx.x) * BLOCK + threadIdx.x;

    if (i < n)
        to[i] = static_cast<float>(from[i]);
}

__global__ void sums_of_floats_kernel(int64_t *to, const float *from, size_t n)
{
    const size_t i = static_cast<size_t>(blockIdx.x) * BLOCK + threadIdx.x;

    if (i < n)
        to[i] = static_cast<int64_t>(from[i]);
}

/* One thread per element: 16 B read and written. */
__global__ void join_sums_kernel(int64_t *a, int64_t *b, size_t n)
{
    const size_t i = static_cast<size_t>(blockIdx.x) * BLOCK + threadIdx.x;

    if (i < n)
        a[i] = b[i] = static_cast<int64_t>(static_cast<unsigned long long>(a[i]) +
                                           static_cast<unsigned long long>(b[i]));
}

/* One block per chunk: 4 B read, 2 or 4 B written per element. */
template <typename T> __global__ void gather_kernel(struct spot_cuda_planes planes)
{
    const struct spot_cuda_chunk chunk = planes.chunk[blockIdx.x];
    T *const weight = static_cast<T *>(planes.weight) + chunk.weight;

    for (int i = static_cast<int>(threadIdx.x); i < chunk.n; i += BLOCK)
        weight[i] = from_float<T>(planes.plane[SPOT_PLANE_MASTER][chunk.arena + i]);
}

/* One block per chunk; 8 B read per element. Each thread in ascending order, then the block. */
__global__ void norm2_kernel(double *partial, struct spot_cuda_planes planes,
                             struct spot_cuda_units units)
{
    __shared__ double room[BLOCK / WARP];
    const struct spot_cuda_chunk chunk = planes.chunk[blockIdx.x];
    const double unit = units.unit[chunk.tensor];
    double s = 0;

    for (int i = static_cast<int>(threadIdx.x); i < chunk.n; i += BLOCK) {
        const double g = static_cast<double>(planes.sum[chunk.arena + i]) * unit;

        s += g * g;
    }
    s = block_sum(s, room);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = s;
}

struct adamw_element {
    float w, m, v;
};

/* m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, w -= lr (m^ / (sqrt(v^) + eps) + decay w) */
__device__ static void adamw(struct adamw_element &e, const struct spot_adamw_step &step,
                             int64_t sum)
{
    const float g = static_cast<float>(static_cast<double>(sum) * step.unit);

    e.m = step.beta1 * e.m + step.rest1 * g;
    e.v = step.beta2 * e.v + step.rest2 * (g * g);
    e.w -= step.lr * (e.m * step.m_correction / (sqrtf(e.v * step.v_correction) + step.eps) +
                      step.weight_decay * e.w);
}

__device__ static unsigned long long size_of(int64_t sum)
{
    return sum < 0 ? 0 - static_cast<unsigned long long>(sum)
                   : static_cast<unsigned long long>(sum);
}

/* One block per chunk, four elements per thread and turn: 20 B read, 12 B and the compute copy
 * written per element. Chunks begin at multiples of 64 elements. */
template <typename T>
__global__ void adamw_kernel(struct spot_cuda_planes planes, unsigned long long *top,
                             struct spot_cuda_steps steps)
{
    enum { W = 4 };
    const struct spot_cuda_chunk chunk = planes.chunk[blockIdx.x];
    const struct spot_adamw_step step = steps.step[chunk.tensor];
    float *const w = planes.plane[SPOT_PLANE_MASTER] + chunk.arena;
    float *const m = planes.plane[SPOT_PLANE_M] + chunk.arena;
    float *const v = planes.plane[SPOT_PLANE_V] + chunk.arena;
    const int64_t *const sum = planes.sum + chunk.arena;
    T *const weight = static_cast<T *>(planes.weight) + chunk.weight;
    unsigned long long mine = 0;

    for (int i = static_cast<int>(threadIdx.x) * W; i < chunk.n; i += BLOCK * W) {
        if (i + W <= chunk.n && chunk.weight % W == 0) {
            pack<float, W> pw = load<float, W>(w + i), pm = load<float, W>(m + i),
                           pv = load<float, W>(v + i);
            const pack<int64_t, 2> low = load<int64_t, 2>(sum + i),
                                   high = load<int64_t, 2>(sum + i + 2);
            pack<T, W> copy;

            for (int j = 0; j < W; j++) {
                const int64_t g = j < 2 ? low.x[j] : high.x[j - 2];
                struct adamw_element e = { pw.x[j], pm.x[j], pv.x[j] };

                adamw(e, step, g);
                pw.x[j] = e.w;
                pm.x[j] = e.m;
                pv.x[j] = e.v;
                copy.x[j] = from_float<T>(e.w);
                mine = size_of(g) > mine ? size_of(g) : mine;
            }
            store<float, W>(w + i, pw);
            store<float, W>(m + i, pm);
            store<float, W>(v + i, pv);
            store<T, W>(weight + i, copy);
            continue;
        }
        for (int j = i; j < chunk.n && j < i + W; j++) {
            struct adamw_element e = { w[j], m[j], v[j] };

            adamw(e, step, sum[j]);
            w[j] = e.w;
            m[j] = e.m;
            v[j] = e.v;
            weight[j] = from_float<T>(e.w);
            mine = size_of(sum[j]) > mine ? size_of(sum[j]) : mine;
        }
    }
    for (int d = WARP / 2; d > 0; d /= 2) {
        const unsigned long long other = __shfl_xor_sync(ALL_LANES, mine, d);

        mine = other > mine ? other : mine;
    }
    if (threadIdx.x % WARP == 0 && mine)
        atomicMax(top + chunk.tensor, mine); /* of integers: no order */
}

template <int W>
static void add_gradients(const struct spot_cuda_target *target, const float *grad, int64_t n,
                          spot_stream s)
{
    const int64_t n_shard = n / target->per_shard;
    const unsigned need = blocks_of(target->per_shard, static_cast<int64_t>(BLOCK) * 4),
                   enough = blocks_of(4096, n_shard);

    SPOT_LAUNCH(quantise_kernel<W>,
                dim3(need < enough ? need : enough, static_cast<unsigned>(n_shard)), BLOCK, 0, s,
                *target, grad);
}

void spot_cuda_quantise(const struct spot_cuda_target *target, const float *grad, int64_t n,
                        spot_stream s)
{
    const bool is_wide = (target->per_shard | target->shard_stride) % 4 == 0 &&
                         reinterpret_cast<uintptr_t>(grad) % 16 == 0 &&
                         reinterpret_cast<uintptr_t>(target->sum) % 16 == 0;

    is_wide ? add_gradients<4>(target, grad, n, s) : add_gradients<1>(target, grad, n, s);
}

void spot_cuda_gather(enum spot_real real, const struct spot_cuda_planes *planes, spot_stream s)
{
    SPOT_BY_REAL(
        real, SPOT_LAUNCH((gather_kernel<T>), blocks_of(planes->n_chunk, 1), BLOCK, 0, s, *planes));
}

void spot_cuda_norm2(const struct spot_cuda_planes *planes, double *partial,
                     const struct spot_cuda_units *units, spot_stream s)
{
    SPOT_LAUNCH(norm2_kernel, blocks_of(planes->n_chunk, 1), BLOCK, 0, s, partial, *planes, *units);
}

void spot_cuda_adamw(enum spot_real real, const struct spot_cuda_planes *planes,
                     unsigned long long *top, const struct spot_cuda_steps *steps, spot_stream s)
{
    SPOT_BY_REAL(real, SPOT_LAUNCH((adamw_kernel<T>), blocks_of(planes->n_chunk, 1), BLOCK, 0, s,
                                   *planes, top, *steps));
}

void spot_cuda_sums_to_floats(float *to, const int64_t *from, size_t n, spot_stream s)
{
    SPOT_LAUNCH(sums_to_floats_kernel, blocks_of(static_cast<int64_t>(n), BLOCK), BLOCK, 0, s, to,
                from, n);
}

void spot_cuda_sums_of_floats(int64_t *to, const float *from, size_t n, spot_stream s)
{
    SPOT_LAUNCH(sums_of_floats_kernel, blocks_of(static_cast<int64_t>(n), BLOCK), BLOCK, 0, s, to,
                from, n);
}

void spot_cuda_join_sums(int64_t *a, int64_t *b, size_t n, spot_stream s)
{
    SPOT_LAUNCH(join_sums_kernel, blocks_of(static_cast<int64_t>(n), BLOCK), BLOCK, 0, s, a, b, n);
}
