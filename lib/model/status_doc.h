/* SPDX-License-Identifier: MIT */
/* status_doc.h - reads spot.status/1, the status of a running job. */
#ifndef SPOT_MODEL_STATUS_DOC_H
#define SPOT_MODEL_STATUS_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json.h"
#include "model/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_STATUS_MEMBERS_MAX = 4096, SPOT_STATUS_EVENTS_MAX = 10 };

/* The kind of work of the job. */
enum spot_status_work { SPOT_STATUS_TRAINS, SPOT_STATUS_SERVES, SPOT_STATUS_EXEC };

struct spot_status_member {
    int64_t member, d, p, m; /* d < 0: it has no place */
    const char *name, *role;
    bool is_leaving;
    double warm;                           /* NAN: not given */
    const struct spot_json_value *mirrors; /* integers; NULL: none */
};

struct spot_status_aside {
    const char *name, *why;
    int64_t times;
};

struct spot_status_event {
    const char *event, *name; /* name: "" where there is none */
    double time_s;
    int64_t epoch, step;
};

struct spot_status_rollout {
    const char *state, *why; /* state NULL: none was requested; why is then "" */
    int64_t replicas, replicas_left, requests_left;
};

struct spot_status_exec {
    const char *run_id;
    int64_t nodes, world, started, done, warm, failures, moves, mirrored_byte;
    int64_t committed, durable; /* -1: none */
    double at_risk_s;           /* work since the newest commit; NAN: not given */
};

/* One of the slowest ranks of a foreign trainer. */
struct spot_status_rank {
    const char *name; /* name of its node */
    int64_t rank, step;
    double step_s;
    bool is_slow;
};

struct spot_status_wait {
    double p50_s, p99_s;
};

/* Strings are borrowed from json; a missing number is NAN. */
struct spot_status {
    enum spot_status_work work;
    const char *phase;
    int64_t epoch, step;
    double time_s, plan_time_s, tokens_per_s;
    bool is_suspended;
    /* of a job that trains */
    int64_t steps, durable_step;
    double durable_lag_s, loss, step_s, eta_s;
    struct spot_grid grid, want; /* want.D 0: none */
    const char *durable_error;   /* NULL: none */
    bool is_put_off;
    /* of a server */
    const char *model;
    int64_t replicas, requests, running, queued, tokens, preemptions;
    int64_t prompt_tokens, cached_tokens; /* tokens of prompts: all; found in caches */
    double kv_use;
    struct spot_status_wait queue, ttft, between, whole;
    struct spot_status_rollout rollout;
    /* of a foreign trainer */
    struct spot_status_exec exec;

    struct spot_status_member *member;
    struct spot_status_aside *aside;
    struct spot_status_rank *rank;   /* slowest first */
    struct spot_status_event *event; /* oldest first */
    size_t n_member, n_aside, n_rank, n_event;
    struct spot_json_doc json;
};

/* What docs/schema/status.json is made from. */
extern const struct spot_doc_part spot_status_part[];

/* Returns 0, or -1 with *err (SPOT_EDATA); *status is then released. */
int spot_status_parse(struct spot_status *status, const char *text, size_t n_byte,
                      const char *source, struct spot_err *err);
void spot_status_release(struct spot_status *status);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_STATUS_DOC_H */
