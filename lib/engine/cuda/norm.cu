/* SPDX-License-Identifier: MIT */
/* Layer norm and RMS norm: forward fused with the residual addition, backward, and column sums. */
#include "engine/cuda/launch.cuh"

enum { ROWS_PER_BLOCK = BLOCK / WARP, SPLIT_ROWS = 256 };

/* A row in the hands of one warp: fn(column, width-W pack index). */
#define EACH_COLUMN(c, W, i) for (int64_t i = (threadIdx.x % WARP) * (W); i < (c); i += WARP * (W))

__device__ static int64_t row_of()
{
    return static_cast<int64_t>(blockIdx.x) * ROWS_PER_BLOCK + threadIdx.x / WARP;
}

/* The row that is normed: a, or a + b rounded to T, which is what the next stage would get. */
template <typename T, int W>
__device__ static pack<T, W> row_pack(const T *a, const T *b, int64_t i)
{
    pack<T, W> v = load<T, W>(a + i);

    if (b) {
        const pack<T, W> u = load<T, W>(b + i);

        for (int j = 0; j < W; j++)
            v.x[j] = from_float<T>(to_float(v.x[j]) + to_float(u.x[j]));
    }
    return v;
}

template <typename T, int W>
__device__ static void write_normed(T *y, const T *x, float mean, float rstd, const float *w,
                                    const float *bias, int64_t c)
{
    EACH_COLUMN(c, W, i)
    {
        const pack<T, W> v = load<T, W>(x + i);
        pack<T, W> u;

        for (int j = 0; j < W; j++)
            u.x[j] = from_float<T>((to_float(v.x[j]) - mean) * rstd * w[i + j] +
                                   (bias ? bias[i + j] : 0));
        store<T, W>(y + i, u);
    }
}

/* One warp per row, grid ceil(N / 8). Reads 2, writes 2 arrays of N * C; the second and third pass
 * over the row meet the cache, and an RMS norm (bias NULL) needs no second. Sums: each lane in
 * column order, then the butterfly. */
template <typename T, int W>
__global__ void norm_kernel(T *sum, T *y, float *stat, const T *a, const T *b, const float *w,
                            const float *bias, float eps, int64_t n_row, int64_t c)
{
    const int64_t r = row_of();
    float s = 0, q = 0, mean = 0, rstd;

    if (r >= n_row)
        return;
    a += r * c;
    b = b ? b + r * c : nullptr;
    sum = b ? sum + r * c : nullptr;
    EACH_COLUMN(c, W, i)
    {
        const pack<T, W> v = row_pack<T, W>(a, b, i);

        for (int j = 0; j < W; j++) {
            s += to_float(v.x[j]);
            if (!bias)
                q += to_float(v.x[j]) * to_float(v.x[j]);
        }
        if (sum)
            store<T, W>(sum + i, v);
    }
    const T *const x = sum ? sum : a; /* each lane reads what it wrote itself */
    if (bias) {
        mean = warp_sum(s) / static_cast<float>(c);
        EACH_COLUMN(c, W, i)
        {
            const pack<T, W> v = load<T, W>(x + i);

            for (int j = 0; j < W; j++)
                q += (to_float(v.x[j]) - mean) * (to_float(v.x[j]) - mean);
        }
    }
    rstd = 1 / sqrtf(warp_sum(q) / static_cast<float>(c) + eps);
    if (threadIdx.x % WARP == 0) {
        stat[2 * r] = mean;
        stat[2 * r + 1] = rstd;
    }
    write_normed<T, W>(y + r * c, x, mean, rstd, w, bias, c);
}

/* One warp per row; one array read, one written. */
template <typename T, int W>
__global__ void norm_again_kernel(T *y, const float *stat, const T *x, const float *w,
                                  const float *bias, int64_t n_row, int64_t c)
{
    const int64_t r = row_of();

    if (r < n_row)
        write_normed<T, W>(y + r * c, x + r * c, stat[2 * r], stat[2 * r + 1], w, bias, c);
}

/* One warp per row; three arrays read, one written. Sums as in norm_kernel. The mean of an RMS norm
 * is no function of the row: nothing flows back through it. */
template <typename T, int W>
__global__ void norm_back_kernel(T *dx, const T *base, const T *dy, const float *stat, const T *x,
                                 const float *w, bool is_rms, int64_t n_row, int64_t c)
{
    const int64_t r = row_of();
    float s = 0, q = 0;

    if (r >= n_row)
        return;
    const float mean = stat[2 * r], rstd = stat[2 * r + 1];
    x += r * c;
    dy += r * c;
    EACH_COLUMN(c, W, i)
    {
        const pack<T, W> v = load<T, W>(x + i), g = load<T, W>(dy + i);

        for (int j = 0; j < W; j++) {
            const float d = to_float(g.x[j]) * w[i + j];

            s += d;
            q += d * (to_float(v.x[j]) - mean) * rstd;
        }
    }
    s = is_rms ? 0 : warp_sum(s) / static_cast<float>(c);
    q = warp_sum(q) / static_cast<float>(c);
    EACH_COLUMN(c, W, i)
    {
        const pack<T, W> v = load<T, W>(x + i), g = load<T, W>(dy + i);
        pack<T, W> u = {};

        if (base)
            u = load<T, W>(base + r * c + i);
        for (int j = 0; j < W; j++) {
            const float hat = (to_float(v.x[j]) - mean) * rstd;
            const float d = (to_float(g.x[j]) * w[i + j] - s - hat * q) * rstd;

            u.x[j] = from_float<T>(base ? to_float(u.x[j]) + d : d);
        }
        store<T, W>(dx + r * c + i, u);
    }
}

/* --- column sums --------------------------------------------------------------- */

/* W columns of a thread, of rows [blockIdx.y * SPLIT_ROWS, ...): chains over rows into partial
 * [split][1 or 2][C]. stat NULL: only sums of dy. Reads the arrays once. */
template <typename T, int W>
__global__ void column_partial_kernel(float *partial, const T *dy, const float *stat, const T *x,
                                      int64_t n_row, int64_t c)
{
    const int64_t i = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) * W;
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * SPLIT_ROWS;
    const int64_t end = begin + SPLIT_ROWS < n_row ? begin + SPLIT_ROWS : n_row;
    pack<float, W> sum = {}, hat = {};

    if (i >= c)
        return;
#pragma unroll 8 /* reads that are under way at once */
    for (int64_t r = begin; r < end; r++) {
        const pack<T, W> d = load<T, W>(dy + r * c + i);
        pack<T, W> v = {};

        if (stat)
            v = load<T, W>(x + r * c + i);
        for (int j = 0; j < W; j++) {
            sum.x[j] += to_float(d.x[j]);
            if (stat)
                hat.x[j] += to_float(d.x[j]) * (to_float(v.x[j]) - stat[2 * r]) * stat[2 * r + 1];
        }
    }
    partial += static_cast<int64_t>(blockIdx.y) * (stat ? 2 : 1) * c;
    store<float, W>(partial + i, sum);
    if (stat)
        store<float, W>(partial + c + i, hat);
}

/* One thread per column: the splits in ascending order. */
__global__ void column_total_kernel(float *db, float *dw, const float *partial, int n_split,
                                    int64_t c)
{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    const int per_split = dw ? 2 : 1;
    float sum = 0, hat = 0;

    if (i >= c)
        return;
    for (int split = 0; split < n_split; split++) {
        sum += partial[split * per_split * c + i];
        if (dw)
            hat += partial[(split * per_split + 1) * c + i];
    }
    if (db)
        db[i] = sum;
    if (dw)
        dw[i] = hat;
}

static int splits_of(int64_t n_row)
{
    return static_cast<int>(blocks_of(n_row, SPLIT_ROWS));
}

size_t spot_cuda_partial_elem(int64_t n_row, int64_t c)
{
    return static_cast<size_t>(splits_of(n_row)) * 2 * static_cast<size_t>(c);
}

void spot_cuda_norm_grad(enum spot_real real, float *dw, float *db, float *partial, const void *dy,
                         const float *stat, const void *x, int64_t n_row, int64_t c, spot_stream s)
{
    const int n_split = splits_of(n_row);

    SPOT_BY_REAL(
        real, const T *const d = static_cast<const T *>(dy);
        const T *const v = static_cast<const T *>(x); if (c % 4 == 0) {
            SPOT_LAUNCH((column_partial_kernel<T, 4>), dim3(blocks_of(c, 4 * BLOCK), n_split),
                        BLOCK, 0, s, partial, d, stat, v, n_row, c);
        } else {
            SPOT_LAUNCH((column_partial_kernel<T, 1>), dim3(blocks_of(c, BLOCK), n_split), BLOCK, 0,
                        s, partial, d, stat, v, n_row, c);
        });
    SPOT_LAUNCH(column_total_kernel, blocks_of(c, BLOCK), BLOCK, 0, s, db, dw, partial, n_split, c);
}

void spot_cuda_column_sum(enum spot_real real, float *sum, float *partial, const void *x,
                          int64_t n_row, int64_t c, spot_stream s)
{
    spot_cuda_norm_grad(real, nullptr, sum, partial, x, nullptr, nullptr, n_row, c, s);
}

/* --- doors ----------------------------------------------------------------------- */

/* Accesses of 16 bytes where the width allows. */
#define BY_WIDTH(real, c, kernel, ...)                                                            \
    SPOT_BY_REAL(                                                                                 \
        real, constexpr int W = 16 / sizeof(T); if ((c) % W == 0) {                               \
            SPOT_LAUNCH((kernel<T, W>), blocks_of(n_row, ROWS_PER_BLOCK), BLOCK, 0, __VA_ARGS__); \
        } else {                                                                                  \
            SPOT_LAUNCH((kernel<T, 1>), blocks_of(n_row, ROWS_PER_BLOCK), BLOCK, 0, __VA_ARGS__); \
        })

void spot_cuda_norm(enum spot_real real, void *sum, void *y, float *stat, const void *a,
                    const void *b, const float *w, const float *bias, float eps, int64_t n_row,
                    int64_t c, spot_stream s)
{
    BY_WIDTH(real, c, norm_kernel, s, static_cast<T *>(sum), static_cast<T *>(y), stat,
             static_cast<const T *>(a), static_cast<const T *>(b), w, bias, eps, n_row, c);
}

void spot_cuda_norm_again(enum spot_real real, void *y, const float *stat, const void *x,
                          const float *w, const float *bias, int64_t n_row, int64_t c,
                          spot_stream s)
{
    BY_WIDTH(real, c, norm_again_kernel, s, static_cast<T *>(y), stat, static_cast<const T *>(x), w,
             bias, n_row, c);
}

void spot_cuda_norm_back(enum spot_real real, void *dx, const void *base, const void *dy,
                         const float *stat, const void *x, const float *w, bool is_rms,
                         int64_t n_row, int64_t c, spot_stream s)
{
    BY_WIDTH(real, c, norm_back_kernel, s, static_cast<T *>(dx), static_cast<const T *>(base),
             static_cast<const T *>(dy), stat, static_cast<const T *>(x), w, is_rms, n_row, c);
}
