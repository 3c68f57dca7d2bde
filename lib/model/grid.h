/* SPDX-License-Identifier: MIT */
/* grid.h - how a job is spread over instances. */
#ifndef SPOT_MODEL_GRID_H
#define SPOT_MODEL_GRID_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_GRID_MAX = 4096 }; /* of each degree, and of D * P * M */

/* A grid of workers: D data-parallel pipelines of P stages of M tensor-parallel ranks. */
struct spot_degrees {
    uint32_t D, P, M;
};

/* D data-parallel pipelines of P stages of M tensor-parallel ranks; micro batches of B sequences.
 * d = 0 says "suspended": nothing runs. */
struct spot_grid {
    int64_t d, p, m, b;
};

/* Read "DxP", decimal, each 0..SPOT_GRID_MAX and so their product. Returns 0, or -1 for anything
 * else, with *d and *p as they were. */
int spot_grid_parse(const char *text, int *d, int *p);

/* Read "DxP" or "DxPxM", M is 1 where it is not said; else as above. */
int spot_degrees_parse(const char *text, struct spot_degrees *degrees);

enum { SPOT_DEGREES_TEXT = 40 };

/* "2x3", or "2x3x4" where M > 1. Returns text. */
const char *spot_degrees_text(const struct spot_degrees *degrees, char text[SPOT_DEGREES_TEXT]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_GRID_H */
