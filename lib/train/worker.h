/* SPDX-License-Identifier: MIT */
/* worker.h - one instance of a job: joins, is told its place, computes, moves state, leaves. */
#ifndef SPOT_TRAIN_WORKER_H
#define SPOT_TRAIN_WORKER_H

#include <stdbool.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_worker_options {
    const char *join;        /* address of the coordinator */
    const char *key_file;    /* of the job; NULL: none, and nothing off this machine */
    const char *name;        /* NULL: "PID" */
    const char *private_dir; /* of the coordinator that started it, see private_dir.h; or NULL */
    const char *domain;      /* failure domain, such as a zone; NULL: its own */
    const char *backend;     /* offers what it can compute: "cpu", "cuda" or "auto" for both */
    const char *device;      /* of CUDA: "auto" or a number, see spot_cuda_choose */
    int n_thread;
    int recompute;             /* enum spot_recompute */
    const char *state_command; /* of the user of this instance: how it reaches durable state that is
                                  behind one, see state_command.h; NULL: by the coordinator */
    double state_timeout_s;    /* of a run of it that moves no byte */
    double join_timeout_s;     /* how long to try when nobody answers, first and after a loss */
    /* Set aside, and back; cannot write state. From any thread; NULL. */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
};

/* Work until the job is done. Returns 0, or -1 with *err: SPOT_EPREEMPTED after a notice with
 * everything handed over, SPOT_EINFEASIBLE when refused, SPOT_ESYS when the coordinator is gone
 * or has dismissed it,
 * SPOT_EGPU when there is no device for backend "cuda" or it failed: what it held is lost.
 */
int spot_worker_run(const struct spot_worker_options *options, struct spot_err *err);

/* Has a coordinator let it go because it and other members do not reach each other? */
bool spot_worker_was_dismissed(void);

/* Has a coordinator taken it in? */
bool spot_worker_has_joined(void);

/* Was it refused by a coordinator that serves? */
bool spot_worker_is_for_serving(void);

/* Async-signal-safe: this instance will be taken away. */
void spot_worker_notice(void);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_WORKER_H */
