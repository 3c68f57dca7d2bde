/* SPDX-License-Identifier: MIT */
/* serve_report.h - summarises a serving run, as a function of its event log; a part of report.h. */
#ifndef SPOT_MODEL_SERVE_REPORT_H
#define SPOT_MODEL_SERVE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/histogram.h"
#include "model/event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A request that has ended. Times count from its arrival; NAN: did not happen. */
struct spot_serving_request {
    double end_s; /* time in the log */
    double queue_s, ttft_s, e2e_s;
    int64_t n_token;
    bool is_cancelled, is_resumed; /* resumed: times are those of its second coordinator only */
};

/* Work done, and the average number of choices. */
struct spot_serving_interval {
    double from_s, time_s; /* up to time_s */
    int64_t n_token;
    double n_running, n_queued;
    struct spot_histogram between; /* of two tokens of a choice; sum_s is not known */
};

/* Number of running replicas, from then on. */
struct spot_serving_change {
    double time_s;
    int64_t n;
};

struct spot_serving_view {
    bool is_up;
    double down_s; /* when it stopped; NAN: it never ran */
};

struct spot_serving {
    struct spot_serving_request *request; /* [n_request], in the order of their ends */
    size_t n_request, cap_request;
    struct spot_serving_interval *interval; /* [n_interval] */
    size_t n_interval, cap_interval;
    struct spot_serving_change *replica; /* [n_replica] */
    size_t n_replica, cap_replica;
    double *notice_s, *kill_s,
        *join_s; /* [n_..]: times at which members got a notice, were lost without one, joined */
    size_t n_notice, cap_notice, n_kill, cap_kill, n_join, cap_join;
    int64_t *noticed; /* [n_noticed], present members with a notice */
    size_t n_noticed, cap_noticed;
    struct spot_serving_view *view; /* [n_view] */
    size_t n_view, cap_view;

    int64_t n_step; /* tokens reported by its coordinator so far */
    int64_t n_taken, n_refused, n_finished, n_cancelled; /* requests */
    int64_t n_prompt_token, n_cached_token; /* tokens of their prompts; those found in a cache */
    int64_t n_token, n_move, n_again_token, n_paged_token;
    struct spot_histogram between;
    double first_s; /* of the first token of all; 0: none */
    double last_s;  /* time by which the last one had been generated */
    double none_s;  /* without a replica, since the first of all ran */
    double gap_s;   /* total time of replicas between two of their epochs */
    size_t n_gap;
};

/* The next event of a log that began with `serving`; received_s: time of the previous one. */
void spot_serving_take(struct spot_serving *r, const struct spot_event *e, double received_s);
/* No more events follow. */
void spot_serving_end(struct spot_serving *r, double end_s);
void spot_serving_release(struct spot_serving *r);

enum spot_serving_time { SPOT_SERVING_QUEUE, SPOT_SERVING_TTFT, SPOT_SERVING_E2E };

/* Number of requests that arrived: at least those that ended, since a killed coordinator may not
 * have counted the last ones. */
int64_t spot_serving_requests(const struct spot_serving *r);

/* Quantile q by nearest rank of a time of the requests that finished within (from_s, to_s],
 * excluding resumed ones; NAN if there are none. */
double spot_serving_quantile_s(const struct spot_serving *r, enum spot_serving_time what,
                               double from_s, double to_s, double q);

/* Committed tokens per second, from the first to the last; NAN: not known. */
double spot_serving_tokens_per_s(const struct spot_serving *r);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SERVE_REPORT_H */
