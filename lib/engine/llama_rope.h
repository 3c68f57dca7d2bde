/* SPDX-License-Identifier: MIT */
/* llama_rope.h - the angles of rotary positions, computed once (Su et al., arXiv:2104.09864).
 *
 * In a head of d numbers, number i is rotated with number i + d/2, i < d/2, by the angle t
 * theta^(-2i/d) at position t: the order of pairs in Hugging Face's Llama files, so their weights
 * need no permutation. In double precision and without libm: the same bits on every machine.
 */
#ifndef SPOT_ENGINE_LLAMA_ROPE_H
#define SPOT_ENGINE_LLAMA_ROPE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* turn[T][d]: cosines of the d/2 pairs, then their sines; d even, theta >= 1. */
void spot_rope_table(float *turn, int64_t seq, int64_t head_dim, double theta);

/* exp(x): for x <= 0 to 1e-15 relative, 0 below -700, also for -INFINITY; NAN for NAN; for 0 <= x
 * <= 2^20 to 1e-15 absolute. */
double spot_exp_down(double x);
void spot_sincos(double x, double *sine, double *cosine);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_LLAMA_ROPE_H */
