/* SPDX-License-Identifier: MIT */
/* profile.h - shared by the parts of spot-run profile. */
#ifndef SPOT_RUN_PROFILE_H
#define SPOT_RUN_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "job_options.h"
#include "model/job_measured.h"

enum { PROFILE_GRIDS_MAX = 256, PROFILE_WORKERS_MAX = 64 };

struct profile {
    struct job_options job;
    uint64_t max_workers, steps, warm_up;
    const char *skip; /* parts not to be measured; NULL: none */
    bool shows_progress;
    void (*info)(const char *fmt, ...) SPOT_PRINTF(1, 2);
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);

    const char *kernel; /* full name; known when the document is written */
    int n_bundle;
    int64_t n_microbatch;
    struct spot_job_measured measured;
    struct spot_job_layer *layer; /* [n_bundle] */
};

/* Microbatches of a step if each has b sequences. */
int64_t profile_microbatches(const struct profile *p, int64_t b);

/* True if spot-plan uses the cell for planning: M = 1, and the job's own microbatch. */
bool profile_is_planned(const struct profile *p, const struct spot_job_cell *cell);

/* profile_grids.c: sets measured.cell from --grids (NULL: all grids of up to --max-workers workers,
 * M = 1), each with the job's microbatch and with those of --micro-batches (NULL: no other).
 * Returns 0, or -1 with *err. */
int profile_choose_grids(struct profile *p, const char *grids, const char *micro_batches,
                         struct spot_err *err);

/* profile_run.c: each function runs jobs with workers on this host and fills in a part of
 * p->measured. They return 0, or -1 with *err of spot_trainer_run. Cells: step times, layer times
 * and memory of every grid in measured.cell. */
int profile_cells(struct profile *p, struct spot_err *err);
int profile_stalls(struct profile *p, struct spot_err *err);
int profile_links(struct profile *p, struct spot_err *err);
int profile_changes(struct profile *p, struct spot_err *err);

/* profile_doc.c: writes the document, with strings and arrays of *p. */
int profile_write(struct profile *p, const char *name, const struct spot_prov *prov, FILE *out,
                  struct spot_err *err);
void profile_table(struct profile *p, FILE *out);

struct profile_serve {
    const char *log, *name;       /* log of a server's events; name of the job */
    uint64_t replicas, max_batch; /* replicas 0: the largest number formed at one time */
    bool shares_machine;          /* replicas share one machine */
};

/* profile_serve.c: a replica's profile from a server's log, as spot.job/1 of kind serve. */
int profile_serve(const struct profile_serve *p, struct spot_prov *prov, const char *output,
                  struct spot_err *err);

#endif /* SPOT_RUN_PROFILE_H */
