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

/* speed[i]: the angle, in radians per position, by which pair i of the r/2 rotated pairs of a head
 * turns; scaled as the shape requires. For its local layers, or for the others. */
void spot_rope_speeds(double *speed, const struct spot_shape *shape, bool is_local);
/* Factor of the cosines and sines (1 unless the shape scales them). */
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
