/* SPDX-License-Identifier: MIT */
/* kernel_cpu.h - the implementation of a kernel: a matrix micro-kernel and vector functions.
 *
 * A kind fixes the arithmetic, a variant only the instructions: all variants of one kind give the
 * same bits. Kind "fma-bf16" is "fma" with weights and inputs of products rounded as serving in
 * bf16 rounds them; gradients are those of the rounded numbers. In a matrix product each output
 * element is one chain over k in ascending order (fused multiply-add in kind "fma", multiplication
 * then addition in kind "portable"), so blocking, vector width and threads do not affect the
 * result. The vector functions never fuse and are the same in all kinds; their sums run in 32 fixed
 * virtual lanes. Nothing here calls libm.
 */
#ifndef SPOT_ENGINE_CPU_KERNEL_CPU_H
#define SPOT_ENGINE_CPU_KERNEL_CPU_H

#include <stdint.h>

#include "engine/backend.h"
#include "engine/exact.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a tile treats the previous value of its output. */
enum spot_tile {
    SPOT_TILE_STORE, /* c = chain from 0 */
    SPOT_TILE_CHAIN, /* c = chain from c */
    SPOT_TILE_ADD,   /* c = c + chain from 0 */
};

enum { SPOT_MICRO_ROWS_MAX = 16, SPOT_MICRO_COLS_MAX = 32, SPOT_PACK_SLACK = 16 };

/* c[n][n_col], 1 <= n <= n_row, from a and packed b [k][n_col]; row stride c_row. Element (row, k)
 * of a is at a[row * a_row + k * a_k]; packed it is [k][n_row]. */
struct spot_micro {
    int n_row, n_col;
    void (*run)(int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_k, const float *b,
                float *c, int64_t c_row, enum spot_tile tile);
};

/* Functions over rows and arrays; n counts elements, no alignment is required. */
struct spot_vec {
    /* y = (x - mean) * rstd * w + b for n_row rows of c, rstd = 1 / sqrt(variance + eps); stat gets
     * mean, rstd per row. */
    void (*norm)(float *y, float *stat, const float *x, const float *w, const float *b, float eps,
                 int64_t n_row, int64_t c);
    /* The same y from the stored stat. */
    void (*norm_again)(float *y, const float *stat, const float *x, const float *w, const float *b,
                       int64_t n_row, int64_t c);
    /* dx = base + the gradient through the norm. dx may be base or dy. */
    void (*norm_back)(float *dx, const float *base, const float *dy, const float *stat,
                      const float *x, const float *w, int64_t n_row, int64_t c);
    /* Columns [begin, end): dw = sum over rows of dy * xhat, db = sum of dy, in row order. */
    void (*norm_grad)(float *dw, float *db, const float *dy, const float *stat, const float *x,
                      int64_t n_row, int64_t c, int64_t begin, int64_t end);
    /* The same without mean and bias, y = x / rms * w; stat gets 0, 1 / rms per row. */
    void (*rms)(float *y, float *stat, const float *x, const float *w, float eps, int64_t n_row,
                int64_t c);
    void (*rms_again)(float *y, const float *stat, const float *x, const float *w, int64_t n_row,
                      int64_t c);
    void (*rms_back)(float *dx, const float *base, const float *dy, const float *stat,
                     const float *x, const float *w, int64_t n_row, int64_t c);
    void (*rms_grad)(float *dw, const float *dy, const float *stat, const float *x, int64_t n_row,
                     int64_t c, int64_t begin, int64_t end);
    /* For a part of a row whose norm covers more: d = dy * w is replaced by (d - x * by * mean) *
     * by, where `by` is 1 / rms and `mean` the mean of d * x * by over the whole row. */
    void (*rms_join)(float *d, const float *x, int64_t n, float by, float mean);
    /* Columns [begin, end) of sum over rows of x, in row order; row stride c. */
    void (*column_sum)(float *sum, const float *x, int64_t n_row, int64_t c, int64_t begin,
                       int64_t end);
    void (*add)(float *y, const float *x, int64_t n); /* y += x */
    void (*mul)(float *y, const float *x, int64_t n); /* y *= x */
    /* y = (y + bias) + x, one row */
    void (*add2)(float *y, const float *bias, const float *x, int64_t n);
    /* x += bias; act = gelu(x) */
    void (*gelu)(float *act, float *x, const float *bias, int64_t n);
    /* the same with the error function instead of the tanh approximation */
    void (*gelu_exact)(float *act, float *x, const float *bias, int64_t n);
    /* act = gelu(gate) * up, in both forms */
    void (*geglu)(float *act, const float *gate, const float *up, int64_t n);
    void (*geglu_exact)(float *act, const float *gate, const float *up, int64_t n);
    void (*geglu_back)(float *dgate, float *dup, const float *gate, const float *up,
                       const float *dact, int64_t n);
    void (*geglu_exact_back)(float *dgate, float *dup, const float *gate, const float *up,
                             const float *dact, int64_t n);
    void (*cap)(float *x, int64_t n, float by, float most); /* x = most * tanh(x * by / most) */
    /* dx *= the derivative of cap, computed from its result y */
    void (*cap_back)(float *dx, const float *y, int64_t n, float by, float most);
    /* act = gelu(x), slope = gelu'(x) */
    void (*gelu_slope)(float *act, float *slope, const float *x, int64_t n);
    void (*gelu_exact_slope)(float *act, float *slope, const float *x, int64_t n);
    /* act = silu(gate) * up, silu(x) = x / (1 + exp(-x)); and the gradients by gate and up */
    void (*swiglu)(float *act, const float *gate, const float *up, int64_t n);
    void (*swiglu_back)(float *dgate, float *dup, const float *gate, const float *up,
                        const float *dact, int64_t n);
    /* Rotate pairs (x[i], x[half + i]) by the angle of cosine turn[i] and sine turn[half + i]; way
     * is 1, or -1 for the inverse. */
    void (*rotate)(float *x, const float *turn, int64_t half, float way);
    /* x[0..n) = softmax(scale * x), x[n..end) = 0; stat gets the maximum and 1 / sum. */
    void (*softmax)(float *x, int64_t n, int64_t end, float scale, float stat[2]);
    void (*softmax_again)(float *x, int64_t n, int64_t end, float scale, const float stat[2]);
    /* dp = p * (dp - dot) * scale */
    void (*softmax_back)(float *dp, const float *p, int64_t n, float dot, float scale);
    float (*dot)(const float *x, const float *y, int64_t n);
    float (*max)(const float *x, int64_t n); /* n >= 1 */
    /* x = exp(x - max); returns the sum. */
    float (*exp_sum)(float *x, int64_t n, float max);
    float (*exp_total)(const float *x, int64_t n, float max); /* the same sum without changing x */
    void (*scale)(float *x, int64_t n, float by);             /* x *= by */
    /* sum = (is_first ? 0 : sum) + round(g * scale), to nearest even; exact while |g * scale| <=
     * 2^51. Returns the largest |g| as its bits: 0x7f800000 and above is not finite. */
    uint32_t (*quantise)(int64_t *sum, const float *g, int64_t n, double scale, bool is_first);
    /* Sum of (sum * unit)^2. */
    double (*norm2)(const int64_t *sum, int64_t n, double unit);
    /* x rounded to the nearest bf16, ties to even; below 2^-56 it becomes 0 */
    void (*round_bf16)(float *x, int64_t n);
    /* Panels of `width` lines, k-major, missing lines filled with zeros:
     *   to[panel][k][width] from from[line * line_stride + k * k_stride]
     * Writes up to SPOT_PACK_SLACK elements beyond the last panel. */
    void (*pack)(float *to, const float *from, int64_t n_line, int64_t line_stride,
                 int64_t k_stride, int64_t n_k, int64_t width);
    /* One AdamW step; returns the largest |sum|. */
    double (*adamw)(float *w, float *m, float *v, const int64_t *sum, int64_t n,
                    const struct spot_adamw_step *step);
};

struct spot_cpu_kernel {
    struct spot_kernel base;
    const char *variant;
    bool (*runs_here)(void);
    const struct spot_micro *micro;
    const struct spot_vec *vec;
    bool is_bf16; /* weights and inputs of products are rounded */
};

/* All variants, the fastest of a kind first; NULL past the end. */
const struct spot_cpu_kernel *spot_cpu_kernel_variant(size_t i);

/* The vector functions of this machine: the same bits on all. */
const struct spot_vec *spot_cpu_vec(void);

/* The i-th kind, as its fastest variant that runs here, or any variant; NULL past the end. */
const struct spot_kernel *spot_cpu_kernel_kind(size_t i, bool *runs_here);

extern const struct spot_micro spot_micro_portable_sse2;
extern const struct spot_vec spot_vec_sse2;
#if defined(__x86_64__)
#define SPOT_CPU_X86 1
extern const struct spot_micro spot_micro_portable_avx2, spot_micro_fma_avx2, spot_micro_fma_avx512;
extern const struct spot_vec spot_vec_avx2;
#elif defined(__aarch64__)
extern const struct spot_micro spot_micro_fma_neon, spot_micro_fma_sve256;
#endif

/* Natural logarithm, x > 0 finite and normal; correct to 1e-15 relative, without libm. */
double spot_log(double x);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CPU_KERNEL_CPU_H */
