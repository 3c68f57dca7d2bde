/* SPDX-License-Identifier: MIT */
/* inputs.h - what a forecast is made from: counts, probes, a provider's advice, each a file that is
 * told by its header. */
#ifndef SPOT_PREDICT_INPUTS_H
#define SPOT_PREDICT_INPUTS_H

#include "forecast/probes.h"
#include "predict.h"
#include "trace/advice.h"
#include "trace/probe_trace.h"
#include "trace/trace.h"

struct inputs {
    char *source;                   /* of the counts, for messages; else of the probes */
    struct spot_trace counts;       /* without series where there is no such file */
    struct spot_probe_trace probes; /* the same */
    struct spot_advice advice;      /* without rows */
    bool has[3];                    /* by family */
    struct spot_probes learned;     /* n 0 without probes */
};

/* At most one file of each family; "-" or NULL is standard input. Learns from the probes, and makes
 * series of them where there are no counts. Returns 0, or -1 with *err; release them either way. */
int inputs_load(struct inputs *inputs, char *const *path, size_t n_path, struct spot_prov *prov,
                struct spot_err *err);
void inputs_release(struct inputs *inputs);

/* Which places to ask next, as a table. */
int next_probes_run(const struct options *options, char *const *path, size_t n_path,
                    struct spot_prov *prov, struct spot_err *err);

#endif /* SPOT_PREDICT_INPUTS_H */
