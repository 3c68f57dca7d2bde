/* SPDX-License-Identifier: MIT */
/* infer_kernel.h - the products of inference: panels of 64 outputs against a tile of tokens.
 *
 * Every output is a chain of fused multiply-adds over ascending inputs (q8: over blocks of 32,
 * whose products are summed in integers). Lanes are outputs, so the vector width does not matter:
 * all kernels give the same bits.
 */
#ifndef SPOT_ENGINE_CPU_INFER_KERNEL_H
#define SPOT_ENGINE_CPU_INFER_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_PANEL = 64,     /* outputs */
    SPOT_TILE = 6,       /* tokens, at most, of one call */
    SPOT_Q8_BLOCK = 32,  /* inputs that share a scale */
    SPOT_Q8_SCALE = 128, /* bytes: 64 bf16 scales, before the 32 * 64 numbers plus 128 */
    SPOT_Q8_BLOCK_BYTE = SPOT_Q8_SCALE + SPOT_Q8_BLOCK * SPOT_PANEL
};

/* A token's inputs in 8 bits. */
struct spot_q8 {
    int8_t *x;      /* [n_block][32] */
    float *scale;   /* [n_block] */
    int32_t *minus; /* [n_block]: -128 times the sum of the block's x */
};

/* Weights and inputs in bf16 are 0 or at least 2^-56: then all products and sums of them are
 * multiples of 2^-126, none is denormal, and how an instruction treats denormals does not
 * matter. */
#define SPOT_BF16_LEAST 0x1p-56F
enum { SPOT_BF16_LEAST_BITS = 0x23800000 }; /* the same number as the bits of an fp32 */

/* n_token is 1..SPOT_TILE everywhere. `next` is the address that will be read soon: 64-byte lines
 * from there on are prefetched, about as many as inputs (q8: half) times n_ahead (0 is taken for 1,
 * 2 is the most); it may be any address. They are prefetched evenly in the time of the call: a core
 * stops when it asks for more lines than it can wait for, some 20. */
struct spot_infer_kernel {
    const char *name;
    bool (*runs_here)(void);
    bool (*is_slow_here)(void); /* whether another kernel is faster here; NULL: false */
    /* c[t][64] = chain over k terms of w[k][64] x[t][k]; w is read from memory */
    void (*fp32)(float *c, int64_t c_row, const float *w, const float *x, int64_t x_row,
                 int n_token, int64_t k);
    /* the same for x[k][n_token], from 0 or, if is_more, from c; w is small enough to stay in L1 */
    void (*part)(float *c, int64_t c_row, const float *w, const float *x, int n_token, int64_t k,
                 bool is_more, const void *next, int n_ahead);
    /* the same two functions in bf16: x as returned by `round`, w of `bf16_part` as laid by
     * `bf16_first` or `lay` */
    void (*bf16)(float *c, int64_t c_row, const uint16_t *w, const float *x, int64_t x_row,
                 int n_token, int64_t k);
    void (*bf16_part)(float *c, int64_t c_row, const float *w, const float *x, int n_token,
                      int64_t k, bool is_more, const void *next, int n_ahead);
    /* Does what `bf16_part` does for the first tile, of weights as they are stored, which it lays
     * as floats [k][64] for the other tiles; NULL if is_paired. */
    void (*bf16_first)(float *c, int64_t c_row, float *laid, const uint16_t *w, const float *x,
                       int n_token, int64_t k, bool is_more, const void *next);
    /* Rounds x[n] to bf16 in place: to floats, or, if is_paired, to 32 bits for two inputs, the
     * first in the upper half; a missing last one is 0. */
    void (*round)(float *x, int64_t n);
    bool is_paired;
    /* Lays w[k][64] as 32 bits [(k + 1) / 2][64] for two inputs; NULL unless is_paired. */
    void (*lay)(float *to, const uint16_t *w, int64_t k);
    /* Multiplies n_block blocks. For token t the inputs x start at 32 b_row t, scale and minus at
     * b_row t. */
    void (*q8)(float *c, int64_t c_row, const uint8_t *w, const struct spot_q8 *x, int64_t b_row,
               int n_token, int64_t n_block, bool is_more, const void *next, int n_ahead);
    /* Converts x[n], n at most 32, to block `at` of q, padded with zeros. */
    void (*quantise)(const struct spot_q8 *q, int64_t at, const float *x, int64_t n);
    /* score[t][page][16] = chains over d of k[page][d][16] q[t][d] */
    void (*score)(float *score, int64_t s_row, const float *q, int64_t q_row, int n_token,
                  const float *const *k, int64_t n_page, int64_t d);
    /* out[t][d] = chains from out over n tokens of p[t][n] v[n][d] */
    void (*mix)(float *out, int64_t o_row, const float *p, int64_t p_row, int n_token,
                const float *v, int64_t n, int64_t d);
};

/* The fastest kernel that runs here, or the named one if it runs here; NULL: none. */
const struct spot_infer_kernel *spot_infer_kernel_find(const char *name);

#if defined(__x86_64__)
extern const struct spot_infer_kernel spot_infer_avx2, spot_infer_avxvnni, spot_infer_avx512,
    spot_infer_avx512bf16;
#elif defined(__aarch64__)
extern const struct spot_infer_kernel spot_infer_neon, spot_infer_neondot, spot_infer_neoni8mm,
    spot_infer_sve256;
void spot_infer_neon_quantise(const struct spot_q8 *q, int64_t at, const float *x, int64_t n);
#endif

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CPU_INFER_KERNEL_H */
