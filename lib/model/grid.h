/* SPDX-License-Identifier: MIT */
/* grid.h - how a job is distributed over instances. */
#ifndef SPOT_MODEL_GRID_H
#define SPOT_MODEL_GRID_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_GRID_MAX = 4096, SPOT_GRID_TEXT = 64 }; /* of each degree, and of D * P * M */

/* D data-parallel pipelines of P stages of M tensor-parallel ranks; D = 0 means "suspended":
 * nothing runs. */
struct spot_grid {
    int64_t D, P, M;
};

static inline int64_t spot_grid_size(const struct spot_grid *grid)
{
    return grid->D * grid->P * grid->M;
}

static inline bool spot_grid_equal(const struct spot_grid *a, const struct spot_grid *b)
{
    return a->D == b->D && a->P == b->P && a->M == b->M;
}

/* Read "DxP" or "DxPxM", decimal, each 0..SPOT_GRID_MAX and so their product; M is 1 if not given.
 * Returns 0, or -1 for anything else, leaving *grid unchanged. */
int spot_grid_parse(const char *text, struct spot_grid *grid);

/* "2x3", or "2x3x4" if M > 1. Returns text. */
const char *spot_grid_text(const struct spot_grid *grid, char text[SPOT_GRID_TEXT]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_GRID_H */
