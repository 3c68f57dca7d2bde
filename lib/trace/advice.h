/* SPDX-License-Identifier: MIT */
/* advice.h - a provider's published rates of interruption by instance type.
 *
 * CSV `zone,instance_type,os,...,hazard_per_h` as `spot-replay import --from aws-advisor` writes
 * it; the zone of a row is a region.
 */
#ifndef SPOT_TRACE_ADVICE_H
#define SPOT_TRACE_ADVICE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ADVICE_ROWS_MAX = 1 << 18 };

struct spot_advice_row {
    char *zone, *instance_type;
    double per_h; /* 0..3600 */
};

struct spot_advice {
    struct spot_advice_row *row; /* [n], as in the file */
    size_t n, cap;
    uint64_t xxh3;
};

/* Read `in` to its end. Returns 0, or -1 with *err (SPOT_EDATA with its place). Release it either
 * way. */
int spot_advice_read(struct spot_advice *advice, FILE *in, const char *source,
                     struct spot_err *err);
void spot_advice_release(struct spot_advice *advice);

/* Losses per instance-hour in a zone, or in its region; NaN if not given. */
double spot_advice_per_h(const struct spot_advice *advice, const char *zone,
                         const char *instance_type);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_ADVICE_H */
