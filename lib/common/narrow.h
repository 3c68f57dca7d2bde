/* SPDX-License-Identifier: MIT */
/* narrow.h - integers in a byte each, where few different ones lie at equal steps: value = base +
 * unit * cell. */
#ifndef SPOT_COMMON_NARROW_H
#define SPOT_COMMON_NARROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_NARROW_NONE = INT8_MAX }; /* the cell of INT64_MIN */

/* |base| <= 2^60 and |unit| <= 2^52, so that no value leaves 64 bits. */
struct spot_narrow {
    int8_t *cell; /* of the caller: room for all values */
    size_t n;
    int64_t base, unit;
    bool has_base;
};

/* Append n values. False if they do not fit, even after the unit of those before was made smaller;
 * these keep their values. */
bool spot_narrow_add(struct spot_narrow *w, const int64_t *value, size_t n);

/* Cells [at, at + n) as values. */
void spot_narrow_widen(const struct spot_narrow *w, size_t at, size_t n, int64_t *value);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_NARROW_H */
