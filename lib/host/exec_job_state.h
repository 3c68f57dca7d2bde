/* SPDX-License-Identifier: MIT */
/* exec_job_state.h - what the parts of the coordinator's side share; private to lib/host. */
#ifndef SPOT_HOST_EXEC_JOB_STATE_H
#define SPOT_HOST_EXEC_JOB_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/group.h"
#include "host/exec_job.h"
#include "host/exec_protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A peer's, from its hello on. */
struct spot_exec_member {
    struct spot_exec_held held;
    uint32_t id, epoch; /* the newest epoch in which it is active; 0: none */
    uint32_t group_rank;
    bool has_saved; /* in that epoch */
    enum spot_exec_warmth warmth;
    bool was_told_keep;
    double joined_s;
};

struct spot_exec_job {
    const struct spot_exec_options *options;
    struct spot_group *group;
    struct spot_view *view;
    double began_s;
    char run_id[SPOT_RUN_ID_MAX]; /* "": not drawn yet, and an agent may still bring it */
    uint32_t n_started;           /* rounds */

    uint32_t group_world, restart_count; /* of the round that runs, or the last one; 0: none */
    bool is_kept;                        /* the epoch goes on with ranks that ran before it */
    bool *is_done;                       /* [group_world] */

    bool holds; /* the command can wait: newcomers are placed when they are warm */

    uint32_t n_failed;      /* rounds that ended since a rank failed */
    uint32_t n_futile;      /* of them, in a row that did not stay up */
    double not_before_s;    /* the next round */
    uint32_t charged_epoch; /* whose failure was counted last, when; a loss may be the cause */
    double charged_s;
    bool gives_up; /* unless that was so */
    char why[SPOT_WHY_MAX];

    uint32_t saving_epoch; /* whose ranks were told to save, until when; 0: none */
    double saving_until_s;
    bool is_saved; /* and the job is to stop */
};

/* exec_layout.c: entries of the workload's table. */
bool spot_exec_may_begin(void *exec, struct spot_view *view);
int spot_exec_layout(void *exec, struct spot_view *view, struct spot_err *err);
bool spot_exec_would_change(void *exec, struct spot_view *view);

/* exec_warm.c: newcomers begin beside the others. Is it to have a place now? */
bool spot_exec_is_ready(const struct spot_exec_job *job, const struct spot_exec_member *member);
void spot_exec_heard_warm(struct spot_exec_job *job, struct spot_exec_member *member,
                          uint64_t warmth);
void spot_exec_keep_warm(struct spot_exec_job *job);

/* exec_end.c: how rounds end. All that can be known is done: end the job, if so. */
bool spot_exec_check_done(struct spot_exec_job *job);
int spot_exec_message(void *exec, struct spot_peer *peer, const struct spot_frame *frame,
                      struct spot_err *err);
int spot_exec_tick(void *exec, struct spot_err *err);
/* A member is gone: was it the cause of the failure that was counted? */
void spot_exec_forgive(struct spot_exec_job *job, const struct spot_exec_member *member);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_JOB_STATE_H */
