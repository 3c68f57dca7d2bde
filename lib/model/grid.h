/* SPDX-License-Identifier: MIT */
/* grid.h - how a job is spread over instances. */
#ifndef SPOT_MODEL_GRID_H
#define SPOT_MODEL_GRID_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_GRID_MAX = 4096 }; /* of each degree, and of D * P * M */

/* D data-parallel pipelines of P stages of M tensor-parallel ranks; micro batches of B sequences.
 * d = 0 says "suspended": nothing runs. */
struct spot_grid {
    int64_t d, p, m, b;
};

/* Read "DxP", decimal, each 0..SPOT_GRID_MAX and so their product. Returns 0, or -1 for anything
 * else, with *d and *p as they were. */
int spot_grid_parse(const char *text, int *d, int *p);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_GRID_H */
