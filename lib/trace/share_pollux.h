/* SPDX-License-Identifier: MIT */
/* share_pollux.h - what Pollux measured of a training (OSDI 2021, artifact: simulator/traces), as
 * the speed of the whole of it on each number of workers. docs/design/20-share.md. */
#ifndef SPOT_TRACE_SHARE_POLLUX_H
#define SPOT_TRACE_SHARE_POLLUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/bad_rows.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_POLLUX_NODE = 4,       /* workers of a node in its cluster */
    SPOT_POLLUX_SCALE_MAX = 64, /* nothing is measured beyond */
};

struct spot_pollux; /* all trainings read so far */

/* Is it one of a training's files by its name, DIR/NAME/placements.csv, scalability.csv or
 * validation-BATCH.csv? NAME is the training's. */
bool spot_pollux_is_measured(const char *source);

/* One more of these; *pollux is made if it is NULL. Returns 0, or -1 with *err: SPOT_EDATA with
 * position. */
int spot_pollux_read(struct spot_pollux **pollux, FILE *in, const char *source,
                     struct spot_bad_rows *bad, struct spot_err *err);

/* A training on `scale` workers that fill nodes one by one, with the best batch size of each epoch:
 * 1 over its seconds. */
typedef int spot_pollux_fn(void *user, const char *name, int64_t scale, double per_s);

/* All of all trainings, each by ascending scale. Returns 0; -1 with *err (SPOT_EDATA) for a
 * training of which a file is missing; or what fn returned other than 0. */
int spot_pollux_each(const struct spot_pollux *pollux, spot_pollux_fn *fn, void *user,
                     struct spot_err *err);
void spot_pollux_free(struct spot_pollux *pollux);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_SHARE_POLLUX_H */
