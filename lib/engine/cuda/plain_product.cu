/* SPDX-License-Identifier: MIT */
/* Products of shapes that cuBLASLt refuses, and what asks an algorithm of cuBLASLt whether it adds
 * up every term. */
#include "engine/cuda/device_state.h"
#include "engine/cuda/launch.cuh"

enum { TILE = 16, WINDOW = 256 }; /* TILE * TILE == BLOCK; bf16 has every number up to WINDOW */

template <typename T> __device__ static float at(const void *p, int64_t i)
{
    return to_float(static_cast<const T *>(p)[i]);
}

template <typename T>
__device__ static float finish(const spot_product &p, float x, int64_t row, int64_t col)
{
    const int64_t aux_at = row * (p.c_stride ? p.c_stride : p.n) + col;
    float slope;

    switch (p.epilogue) {
    case SPOT_BIAS:
        return x + at<T>(p.bias, col);
    case SPOT_BIAS_GELU:
        x += at<T>(p.bias, col);
        static_cast<T *>(p.aux)[aux_at] = from_float<T>(x);
        return gelu_of(x, &slope);
    case SPOT_GELU_BACK:
        gelu_of(at<T>(p.aux, aux_at), &slope);
        return x * slope;
    case SPOT_PLAIN:
        break;
    }
    return x;
}

/* grid (ceil(n / 16), ceil(m / 16)), a thread per element of c: its terms in ascending order, so
 * its bits depend on nothing but its row of a, its column of b and k. */
template <typename T, typename C> __global__ void plain_product_kernel(struct spot_product p)
{
    __shared__ float a[TILE][TILE + 1], b[TILE][TILE + 1];
    const int x = static_cast<int>(threadIdx.x % TILE), y = static_cast<int>(threadIdx.x / TILE);
    const int64_t row0 = static_cast<int64_t>(blockIdx.y) * TILE, row = row0 + y,
                  col0 = static_cast<int64_t>(blockIdx.x) * TILE, col = col0 + x;
    const int64_t a_stride = p.a_stride ? p.a_stride : p.is_a_transposed ? p.m : p.k;
    float sum = 0;

    for (int64_t k0 = 0; k0 < p.k; k0 += TILE) {
        /* neighbouring threads read neighbouring elements, whichever way an operand is stored */
        const int64_t ka = k0 + (p.is_a_transposed ? y : x), i = row0 + (p.is_a_transposed ? x : y);
        const int64_t kb = k0 + (p.is_b_transposed ? x : y), j = col0 + (p.is_b_transposed ? y : x);

        a[i - row0][ka - k0] =
            i < p.m && ka < p.k
                ? at<T>(p.a, p.is_a_transposed ? ka * a_stride + i : i * a_stride + ka)
                : 0;
        b[kb - k0][j - col0] =
            j < p.n && kb < p.k ? at<T>(p.b, p.is_b_transposed ? j * p.k + kb : kb * p.n + j) : 0;
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum = fmaf(a[y][k], b[k][x], sum);
        __syncthreads();
    }
    if (row < p.m && col < p.n)
        static_cast<C *>(p.c)[row * (p.c_stride ? p.c_stride : p.n) + col] =
            from_float<C>(finish<T>(p, sum, row, col));
}

void spot_device_plain_product(const struct spot_product *p, spot_stream s)
{
    const dim3 grid(blocks_of(p->n, TILE), blocks_of(p->m, TILE));

    if (p->real == SPOT_F32)
        SPOT_LAUNCH((plain_product_kernel<float, float>), grid, BLOCK, 0, s, *p);
    else if (p->is_c_float)
        SPOT_LAUNCH((plain_product_kernel<bf16, float>), grid, BLOCK, 0, s, *p);
    else
        SPOT_LAUNCH((plain_product_kernel<bf16, bf16>), grid, BLOCK, 0, s, *p);
}

/* --- is every term there? -------------------------------------------------------- */

__device__ static int64_t n_window(int64_t k)
{
    return (k + WINDOW - 1) / WINDOW;
}

/* Row i of a is 1 in one window of k and 0 elsewhere, b is 1, so that each element of c is the
 * number of terms in that window: exact in bf16. grid ceil(max(m, n) k / BLOCK). */
template <typename T> __global__ void question_kernel(struct spot_product p, int64_t first)
{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    T *const a = static_cast<T *>(const_cast<void *>(p.a)), *const b = static_cast<T *>(
                                                                const_cast<void *>(p.b));

    if (i < p.m * p.k) {
        const int64_t row = p.is_a_transposed ? i % p.m : i / p.k,
                      k = p.is_a_transposed ? i / p.m : i % p.k;

        a[i] = from_float<T>(k / WINDOW == (first + row) % n_window(p.k) ? 1 : 0);
    }
    if (i < p.n * p.k)
        b[i] = from_float<T>(1);
    /* gelu(x) of what is counted is x but for windows that end early, see wrong_kernel; a bias of 0
     * and a slope of 1 change nothing */
    if (i < p.n && p.bias)
        static_cast<T *>(const_cast<void *>(p.bias))[i] = from_float<T>(0);
    if (i < p.m * p.n && p.epilogue == SPOT_GELU_BACK)
        static_cast<T *>(p.aux)[i] = from_float<T>(WINDOW);
}

/* *is_wrong = 1 if an element of c is not the number of terms. One thread per element. */
template <typename C>
__global__ void wrong_kernel(struct spot_product p, int64_t first, uint32_t *is_wrong)
{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    float want, got, slope;

    if (i >= p.m * p.n)
        return;
    const int64_t begin = (first + i / p.n) % n_window(p.k) * WINDOW;

    want = static_cast<float>(p.k - begin < WINDOW ? p.k - begin : int64_t{ WINDOW });
    if (p.epilogue == SPOT_BIAS_GELU)
        want = gelu_of(want, &slope);
    got = to_float(static_cast<const C *>(p.c)[i]);
    if (!(fabsf(got - want) < 0.25F))
        *is_wrong = 1;
}

int64_t spot_device_questions(const struct spot_product *p)
{
    return ((p->k + WINDOW - 1) / WINDOW + p->m - 1) / p->m;
}

void spot_device_ask_product(const struct spot_product *p, int64_t i, spot_stream s)
{
    const int64_t n = (p->m > p->n ? p->m : p->n) * (p->k > p->m ? p->k : p->m);

    SPOT_BY_REAL(p->real,
                 SPOT_LAUNCH((question_kernel<T>), blocks_of(n, BLOCK), BLOCK, 0, s, *p, i * p->m));
}

void spot_device_judge_product(const struct spot_product *p, int64_t i, uint32_t *is_wrong,
                               spot_stream s)
{
    const unsigned n = blocks_of(p->m * p->n, BLOCK);

    if (p->real == SPOT_F32 || p->is_c_float)
        SPOT_LAUNCH((wrong_kernel<float>), n, BLOCK, 0, s, *p, i * p->m, is_wrong);
    else
        SPOT_LAUNCH((wrong_kernel<bf16>), n, BLOCK, 0, s, *p, i * p->m, is_wrong);
}
