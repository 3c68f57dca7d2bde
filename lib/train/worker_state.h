/* SPDX-License-Identifier: MIT */
/* worker_state.h - shared by the parts of a worker; private to lib/train/worker*.c. */
#ifndef SPOT_TRAIN_WORKER_STATE_H
#define SPOT_TRAIN_WORKER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/agent.h"
#include "comm/comm.h"
#include "comm/mesh.h"
#include "common/err.h"
#include "engine/stage.h"
#include "train/config.h"
#include "train/form.h"
#include "train/state_sources.h"
#include "train/train_protocol.h"
#include "train/worker.h"
#include "train/worker_save.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_worker {
    const struct spot_worker_options *options;
    struct spot_agent agent;
    struct spot_job_config config;
    uint64_t job;
    struct spot_state_sources sources;
    int n_bundle;
    struct spot_bundle **bundle; /* [n_bundle], NULL if not held */
    size_t *bundle_elem;         /* [n_bundle] */
    struct spot_saver *saver;
    struct spot_objects *objects; /* access to durable state behind this user's command, or NULL */
    struct spot_form form;
    int64_t position;       /* position in the grid, -1: none */
    struct spot_comm *comm; /* of this epoch, over comm_member */
    uint32_t *comm_member;  /* ids of all members, then of the replicas */
    size_t n_comm_member;
    uint64_t n_group_exchange; /* exchanges with the tensor group in this epoch */
    struct spot_stage *stage;
    struct spot_stage_config stage_config; /* the stage's */
    struct spot_bundle **stage_on;         /* [n_bundle] the bundles over which `stage` was made */
    struct spot_stage **mirror; /* [n_bundle], over a stage whose buddy this worker is, or over one
                                   bundle received by pre-copy */
    size_t n_precopied;         /* completed pre-copies of the form */
    struct spot_stage **alone;  /* [n_alone] stages of the form over the mirrored bundles, for
                                   recomputation; NULL: not yet requested, or too little memory */
    uint32_t n_alone;
    double *loss; /* [G] */
    int32_t (
        *exponent)[SPOT_TENSORS_MAX]; /* [n_bundle] of the last commit, while a step is repeated */
    bool is_redoing;
    bool cannot_mirror;
};

/* worker.c: download updates that are still on a device into the bundles; drop stages and
 * mirrors. */
int spot_worker_sync(struct spot_worker *worker, struct spot_err *err);
int spot_worker_sync_mirrors(struct spot_worker *worker, struct spot_err *err);
void spot_worker_drop_stage(struct spot_worker *worker);
/* The epoch is over, and the stage may be reused in the next: drop the connections and mirrors. */
void spot_worker_leave_place(struct spot_worker *worker);
/* Report the failure of an epoch; 0 if the worker can continue with the next. */
int spot_worker_report(struct spot_worker *worker, const struct spot_err *why,
                       struct spot_err *err);

/* worker_comm.c: set up the exchange between the members of this epoch. Returns 0, or -1 with
 * *err. */
int spot_worker_open_comm(struct spot_worker *worker, struct spot_err *err);
void spot_worker_close_comm(struct spot_worker *worker);
/* How this worker's stage exchanges with the others of its tensor group. */
struct spot_stage_group spot_worker_group(struct spot_worker *worker);

/* worker_move.c: make this member's transfers of the form. Returns 0, or -1 with *err. */
int spot_worker_move(struct spot_worker *worker, struct spot_err *err);
/* Send a held bundle to a member while steps continue: all of it is queued, without waiting.
 * Receive a bundle of a step from a member and hold it instead of an older copy. Return 0, or -1
 * with *err. */
int spot_worker_send_bundle(struct spot_worker *worker, uint32_t to, uint32_t bundle,
                            struct spot_err *err);
int spot_worker_take_bundle(struct spot_worker *worker, uint32_t from, uint32_t bundle,
                            int64_t step, struct spot_err *err);

/* Hold a bundle instead of an older copy. */
void spot_worker_hold(struct spot_worker *worker, struct spot_bundle *bundle_take);

/* worker_restore.c: create, read or request what this member needs of the form and no member holds.
 * Returns 0, or -1 with *err. */
int spot_worker_restore(struct spot_worker *worker, struct spot_err *err);

/* worker_mirror.c: the mirrors of this worker, from the start of an epoch or from a pre-copy on.
 * Those that return int return 0, or -1 with *err. */
int spot_worker_check_mirrors(struct spot_worker *worker, struct spot_err *err);
int spot_worker_build_mirrors(struct spot_worker *worker, struct spot_err *err);
void spot_worker_drop_mirrors(struct spot_worker *worker);
/* The next mirror object from bundle *b on; *b is then behind its first bundle. NULL: there are no
 * more. */
struct spot_stage *spot_worker_next_mirror(const struct spot_worker *worker, int *b);
/* Carry out the order PRECOPY: from the next step on this many pre-copies are in effect. */
int spot_worker_precopy(struct spot_worker *worker, const struct spot_frame *frame,
                        struct spot_err *err);
/* Receive the pre-copies for this worker, in that step. */
int spot_worker_take_precopies(struct spot_worker *worker, int64_t step, struct spot_err *err);

/* worker_alone.c: a member without a place that mirrors all stages computes the microbatches of a
 * step's order again, and appends to the reports u32 1 and those of all stages, or u32 0 if it has
 * too little memory. Returns 0, or -1 with *err. */
int spot_worker_compute_alone(struct spot_worker *worker, const struct spot_frame *frame,
                              struct spot_buf *reports, struct spot_err *err);
void spot_worker_drop_alone(struct spot_worker *worker);

/* worker_form.c: take this member's place in a new epoch, as in spot_agent_workload.form. */
int spot_worker_form(void *job, const struct spot_frame *frame, struct spot_err *err);
/* Create a stage object over bundles that must be held at a step; 0 slots: it only mirrors. */
struct spot_stage *spot_worker_new_stage(struct spot_worker *worker, int begin, int end, int n_slot,
                                         int64_t step, struct spot_err *err);
/* The configuration of such an object. */
struct spot_stage_config spot_worker_stage_config(struct spot_worker *worker, int begin, int end,
                                                  int n_slot);

/* worker_show.c: send weights for clients that follow the job. */
int spot_worker_show(struct spot_worker *worker, const struct spot_frame *frame,
                     struct spot_err *err);

/* worker_step.c: the orders of a running epoch. A token is an index into the embedding, so those
 * outside the vocabulary are rejected. */
int spot_worker_check_tokens(const struct spot_worker *worker, const void *data, size_t n_byte,
                             size_t n_token, struct spot_err *err);
int spot_worker_step(struct spot_worker *worker, const struct spot_frame *frame,
                     struct spot_err *err);
int spot_worker_validate(struct spot_worker *worker, const struct spot_frame *frame,
                         struct spot_err *err);
int spot_worker_confirm(struct spot_worker *worker, const struct spot_frame *frame,
                        struct spot_err *err);
int spot_worker_commit(struct spot_worker *worker, const struct spot_frame *frame,
                       struct spot_err *err);
int spot_worker_redo(struct spot_worker *worker, const struct spot_frame *frame,
                     struct spot_err *err);
/* worker_probe.c: measure the cost of messages between members. */
int spot_worker_probe(struct spot_worker *worker, const struct spot_frame *frame,
                      struct spot_err *err);
/* The repeated step is given up: restore the exponents of the last commit. */
void spot_worker_forget_redo(struct spot_worker *worker);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_WORKER_STATE_H */
