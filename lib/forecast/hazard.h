/* SPDX-License-Identifier: MIT */
/* hazard.h - the hazard of an instance by its age, from a table given by the provider.
 *
 * CSV `age_s,hazard_per_h`: from that age until the next row's, an instance is lost at this rate;
 * the last row holds from then on. The first age is 0, ages increase.
 */
#ifndef SPOT_FORECAST_HAZARD_H
#define SPOT_FORECAST_HAZARD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_HAZARD_ROWS_MAX = 4096 };

struct spot_hazard {
    size_t n, cap;
    double *age_s;  /* [n], from 0, increasing */
    double *per_s;  /* [n], 0..1 */
    double *sum;    /* [n], integral of the hazard up to that age */
    double *left_s; /* [n], mean remaining life at that age; infinite if the last hazard is 0 */
    uint64_t xxh3;  /* of the bytes read, for provenance */
};

/* Returns 0; or -1 with *hazard empty and *err, SPOT_EDATA with source:line:column for rows that
 * are malformed, out of order, out of range, too many or none. */
int spot_hazard_load(struct spot_hazard *hazard, FILE *in, const char *source,
                     struct spot_err *err);
/* The same for a path; SPOT_ESYS when it cannot be opened. */
int spot_hazard_load_path(struct spot_hazard *hazard, const char *path, struct spot_err *err);
void spot_hazard_release(struct spot_hazard *hazard);

/* Integral of the hazard from birth to age_s >= 0: -ln P(it reaches that age). */
double spot_hazard_sum(const struct spot_hazard *hazard, double age_s);

/* The same for an instance of unknown age that was first seen since_s ago: if instances have come
 * and gone for a long time, P(it lasts for another t) is the share of a mean life that is lived
 * after age t, the residual life of a renewal process in equilibrium (Cox 1962). 0 if the last
 * hazard is 0: a population that lives for ever has no deaths. */
double spot_hazard_sum_unknown(const struct spot_hazard *hazard, double since_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_HAZARD_H */
