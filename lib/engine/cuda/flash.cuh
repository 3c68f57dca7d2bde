/* SPDX-License-Identifier: MIT */
/* flash.cuh - pieces of the attention kernels on tensor cores. Rows lie in shared memory, sums in
 * fragments.
 *
 * Symbols: D head dimension, N columns of a tile.
 */
#ifndef SPOT_ENGINE_CUDA_FLASH_CUH
#define SPOT_ENGINE_CUDA_FLASH_CUH

#include "engine/cuda/attention.cuh"
#include "engine/cuda/tensor.cuh"

constexpr float LOG2E = 1.4426950408889634F;

/* Rows in shared memory are 16 bytes longer than D, so that eight of them meet all banks. */
template <int D> struct row_of {
    enum { LENGTH = D + 8 };
};

/* `n` rows from row0 on of an array of `seq` rows, `stride` apart; zeros beyond the end. */
template <int D, int THREADS>
__device__ static void fetch(bf16 *to, const bf16 *from, int64_t stride, int64_t row0, int n,
                             int64_t seq)
{
    for (int i = static_cast<int>(threadIdx.x); i < n * (D / 8); i += THREADS) {
        const int row = i / (D / 8), col = i % (D / 8) * 8;
        const bool is_there = row0 + row < seq;

        copy_async(to + row * row_of<D>::LENGTH + col,
                   from + (is_there ? row0 + row : 0) * stride + col, is_there);
    }
}

/* s [16 M][N] = a [16 M][D] y [N][D]^T: fragments of N / 8 tiles of 8 columns. */
template <int D, int N, int M>
__device__ static void scores(float s[M][N / 8][4], const bf16 *a, const bf16 *y)
{
    const int lane = static_cast<int>(threadIdx.x % WARP);

    for (int m = 0; m < M; m++)
        for (int n = 0; n < N / 8; n++)
            for (int i = 0; i < 4; i++)
                s[m][n][i] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t fa[M][4];

#pragma unroll
        for (int m = 0; m < M; m++)
            load_matrices(fa[m], a + (16 * m + lane % 16) * row_of<D>::LENGTH + k + lane / 16 * 8);
#pragma unroll
        for (int n = 0; n < N; n += 16) {
            uint32_t fb[4];

            load_matrices(fb, y + (n + lane / 16 * 8 + lane % 8) * row_of<D>::LENGTH + k +
                                  lane / 8 % 2 * 8);
#pragma unroll
            for (int m = 0; m < M; m++) {
                mma(s[m][n / 8], fa[m], fb);
                mma(s[m][n / 8 + 1], fa[m], fb + 2);
            }
        }
    }
}

/* acc [16 M][D] += p [16 M][N] y [N][D], p rounded to bf16 */
template <int D, int N, int M>
__device__ static void add_product(float acc[M][D / 8][4], const float p[M][N / 8][4],
                                   const bf16 *y)
{
    const int lane = static_cast<int>(threadIdx.x % WARP);

#pragma unroll
    for (int k = 0; k < N; k += 16) {
        uint32_t fa[M][4];

#pragma unroll
        for (int m = 0; m < M; m++)
            for (int i = 0; i < 4; i++) {
                const float *const pair = p[m][k / 8 + i / 2] + 2 * (i % 2);

                fa[m][i] = pair_of(pair[0], pair[1]);
            }
#pragma unroll
        for (int n = 0; n < D; n += 16) {
            uint32_t fb[4];

            load_transposed(fb, y + (k + lane / 8 % 2 * 8 + lane % 8) * row_of<D>::LENGTH + n +
                                    lane / 16 * 8);
#pragma unroll
            for (int m = 0; m < M; m++) {
                mma(acc[m][n / 8], fa[m], fb);
                mma(acc[m][n / 8 + 1], fa[m], fb + 2);
            }
        }
    }
}

/* Rows g and g + 8 of the warp's 16 from row0 on, times by[0] and by[1]. */
template <int D>
__device__ static void write_rows(bf16 *to, int64_t stride, int64_t row0, int64_t seq,
                                  const float acc[D / 8][4], const float by[2])
{
    const int lane = static_cast<int>(threadIdx.x % WARP);

    for (int half = 0; half < 2; half++) {
        const int64_t row = row0 + lane / 4 + 8 * half;

        if (row >= seq)
            continue;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            const uint32_t pair =
                pair_of(acc[n][2 * half] * by[half], acc[n][2 * half + 1] * by[half]);

            /* pairs lie at multiples of 4 bytes; memcpy would store byte by byte */
            *reinterpret_cast<uint32_t *>(to + row * stride + 8 * n + lane % 4 * 2) = pair;
        }
    }
}

/* The gradients by q, k and v with five products; dq is scratch of [b][H][T][D]. */
bool spot_cuda_flash_five(const struct spot_cuda_attention *at, spot_stream s);

#endif /* SPOT_ENGINE_CUDA_FLASH_CUH */
