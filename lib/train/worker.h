/* SPDX-License-Identifier: MIT */
/* worker.h - one worker of a job: joins, gets its place, computes, moves state, leaves. */
#ifndef SPOT_TRAIN_WORKER_H
#define SPOT_TRAIN_WORKER_H

#include <stdbool.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_worker_options {
    const char *join;        /* address of the coordinator */
    const char *key_file;    /* the job's key; NULL: no TLS, and local connections only */
    const char *name;        /* NULL: "PID" */
    const char *private_dir; /* of the coordinator that started it, see private_dir.h; or NULL */
    const char *domain;      /* failure domain, such as a zone; NULL: its own */
    const char *backend; /* offers its kernels: "cpu", "cuda", "auto" for both, or one of the CPU */
    const char *device;  /* of CUDA: "auto" or a number, see spot_cuda_choose */
    int n_thread;
    int recompute;             /* enum spot_recompute */
    const char *state_command; /* command on this instance that accesses durable state, see
                                  state_command.h; NULL: through the coordinator */
    double state_timeout_s;    /* maximum time that a run of it may move no byte */
    double join_timeout_s;     /* time limit for joining or rejoining */
    /* Called when the worker is set aside or used again, or cannot write state; from any thread.
     * May be NULL. */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
};

/* Work until the job is done. Returns 0, or -1 with *err: SPOT_EPREEMPTED after a notice with all
 * state sent on, SPOT_EINFEASIBLE when refused, SPOT_ESYS when the connection to the coordinator is
 * lost or the coordinator has dismissed it, SPOT_EGPU when there is no device for backend "cuda" or
 * the device failed: the state on it is lost. */
int spot_worker_run(const struct spot_worker_options *options, struct spot_err *err);

/* True if the coordinator dismissed this worker because it and other members cannot reach each
 * other. */
bool spot_worker_was_dismissed(void);

/* True if a coordinator has accepted this worker. */
bool spot_worker_has_joined(void);

/* True if this worker was refused because the coordinator serves a model. */
bool spot_worker_is_for_serving(void);

/* Async-signal-safe: this instance will be taken away. */
void spot_worker_notice(void);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_WORKER_H */
