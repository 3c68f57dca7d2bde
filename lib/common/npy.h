/* SPDX-License-Identifier: MIT */
/* npy.h - matrices of integers as NumPy saves them (.npy, format versions 1 to 3). */
#ifndef SPOT_COMMON_NPY_H
#define SPOT_COMMON_NPY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/narrow.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_npy {
    int64_t n_row, n_col;
    /* [n_row][n_col], whatever the order in the file; NULL if narrow.cell has them */
    int64_t *cell;
    struct spot_narrow narrow;
};

/* True if `in` begins with a matrix. Waits for one byte, and consumes none. */
bool spot_npy_begins(FILE *in);

/* Read one array with at most side_max rows and columns; what follows it stays in `in`. Integers of
 * 8 to 64 bits in either order of bytes, all of which int64_t can hold. Returns 0, or -1 with *err
 * (SPOT_EDATA, SPOT_ESYS) and nothing to release. */
int spot_npy_read(struct spot_npy *matrix, FILE *in, const char *source, int64_t side_max,
                  struct spot_err *err);

/* Move the numbers to `cell`, if they are narrow. */
void spot_npy_widen(struct spot_npy *matrix);
void spot_npy_release(struct spot_npy *matrix);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_NPY_H */
