/* SPDX-License-Identifier: MIT */
/* rope.h - the angles of rotary positions (Su et al., arXiv:2104.09864).
 *
 * In a head of d numbers, number i is rotated with number i + d/2, i < d/2, by the angle t
 * theta^(-2i/d) at position t: the order of pairs in Hugging Face's Llama files, so their weights
 * need no permutation. In double precision and without libm: the same bits on every machine.
 */
#ifndef SPOT_ENGINE_ROPE_H
#define SPOT_ENGINE_ROPE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By which angle each of the r/2 pairs of a shape's heads turns from position to position, r of d
 * numbers, scaled as the shape says; in its local layers, or in the others. */
void spot_rope_speeds(double *speed, const struct spot_shape *shape, bool is_local);
/* What cosines and sines are multiplied by. */
double spot_rope_gain(const struct spot_shape *shape, bool is_local);
/* turn[r]: cosines of the pairs at a position, then their sines. */
void spot_rope_row(float *turn, const double *speed, int64_t half, int64_t position, double gain);

/* turn[T][r] of the local layers, or of the others. */
void spot_rope_table(float *turn, const struct spot_shape *shape, bool is_local);

/* exp(x): for x <= 0 to 1e-15 relative, 0 below -700, also for -INFINITY; NAN for NAN; for 0 <= x
 * <= 2^20 to 1e-15 absolute. */
double spot_exp_down(double x);
void spot_sincos(double x, double *sine, double *cosine);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_ROPE_H */
