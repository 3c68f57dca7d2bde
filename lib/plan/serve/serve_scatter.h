/* SPDX-License-Identifier: MIT */
/* serve_scatter.h - the distribution of times of batches of one shape and size when lengths and
 * times vary. */
#ifndef SPOT_PLAN_SERVE_SERVE_SCATTER_H
#define SPOT_PLAN_SERVE_SERVE_SCATTER_H

#include <stddef.h>

#include "plan/serve_solver.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SERVE_SCATTER_POINTS = 8 };

struct spot_serve_scatter {
    size_t n; /* SPOT_SERVE_SCATTER_POINTS */
    /* [n] seconds to the first token, if that has a limit; to the end */
    double *first_s, *request_s;
    double *share; /* [n] share of the requests, sum 1 */
    double scv;    /* of request_s: variance over the square of the mean */
};

/* For batches of shape->B with the lengths of `ask`; sets *time to their mean. NULL if all take
 * equally long: *time is unchanged. */
struct spot_serve_scatter *spot_serve_scatter_new(const struct spot_serve_ask *ask,
                                                  const struct spot_serve_shape *shape,
                                                  struct spot_serve_time *time);
void spot_serve_scatter_free(struct spot_serve_scatter *scatter);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_SERVE_SCATTER_H */
