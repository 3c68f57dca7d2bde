/* SPDX-License-Identifier: MIT */
/* share_pollux.h - Pollux's measurements of trainings (OSDI 2021, artifact: simulator/traces),
 * converted to the speed of a whole training on each number of workers. docs/design/20-share.md. */
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
    SPOT_POLLUX_SCALE_MAX = 64, /* largest measured number of workers */
};

struct spot_pollux; /* all trainings read so far */

/* True if the name is that of a training's file: DIR/NAME/placements.csv, scalability.csv or
 * validation-BATCH.csv, where NAME is the training. */
bool spot_pollux_is_measured(const char *source);

/* Read one more of these files; *pollux is created if it is NULL. Returns 0, or -1 with *err:
 * SPOT_EDATA with position. */
int spot_pollux_read(struct spot_pollux **pollux, FILE *in, const char *source,
                     struct spot_bad_rows *bad, struct spot_err *err);

/* A training on `scale` workers that fill nodes one by one, with the best batch size of each epoch:
 * 1 over its seconds. */
typedef int spot_pollux_fn(void *user, const char *name, int64_t scale, double per_s);

/* Call fn for every scale of every training, each in ascending order. Returns 0; -1 with *err
 * (SPOT_EDATA) if a file of a training is missing; or the first nonzero result of fn. */
int spot_pollux_each(const struct spot_pollux *pollux, spot_pollux_fn *fn, void *user,
                     struct spot_err *err);
void spot_pollux_free(struct spot_pollux *pollux);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_SHARE_POLLUX_H */
