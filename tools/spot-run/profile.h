/* SPDX-License-Identifier: MIT */
/* profile.h - what the parts of spot-run profile share. */
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
    const char *skip; /* parts that are not measured, NULL: none */
    bool shows_progress;
    void (*info)(const char *fmt, ...) SPOT_PRINTF(1, 2);
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);

    const char *kernel; /* in full; known once the document is written */
    int n_bundle;
    int64_t n_microbatch;
    struct spot_job_measured measured;
    struct spot_job_layer *layer; /* [n_bundle] */
};

/* Microbatches of a step, where they are of b sequences. */
int64_t profile_microbatches(const struct profile *p, int64_t b);

/* Is it of the kind that spot-plan plans with: M = 1, and the job's own micro batch? */
bool profile_is_planned(const struct profile *p, const struct spot_job_cell *cell);

/* profile_grids.c: measured.cell from --grids (NULL: all of up to --max-workers workers, M = 1),
 * each with the job's micro batch and with those of --micro-batches (NULL: no other). Returns 0, or
 * -1 with *err. */
int profile_choose_grids(struct profile *p, const char *grids, const char *micro_batches,
                         struct spot_err *err);

/* profile_run.c: each runs jobs of this host's workers and fills in a part of p->measured. Return
 * 0, or -1 with *err of spot_trainer_run.
 * Cells: step times, layer times and memory of every grid in measured.cell. */
int profile_cells(struct profile *p, struct spot_err *err);
int profile_stalls(struct profile *p, struct spot_err *err);
int profile_links(struct profile *p, struct spot_err *err);
int profile_changes(struct profile *p, struct spot_err *err);

/* profile_doc.c: the document, with strings and arrays of *p. */
int profile_write(struct profile *p, const char *name, const struct spot_prov *prov, FILE *out,
                  struct spot_err *err);
void profile_table(struct profile *p, FILE *out);

struct profile_serve {
    const char *log, *name;       /* of a server's events; of the job */
    uint64_t replicas, max_batch; /* replicas 0: as many as were formed at once */
    bool shares_machine;          /* the replicas do */
};

/* profile_serve.c: a replica's profile from a server's log, as spot.job/1 of kind serve. */
int profile_serve(const struct profile_serve *p, struct spot_prov *prov, const char *output,
                  struct spot_err *err);

#endif /* SPOT_RUN_PROFILE_H */
