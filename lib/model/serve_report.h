/* SPDX-License-Identifier: MIT */
/* serve_report.h - what a served run did, as a function of its event log; a part of report.h. */
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

/* A request that has ended. Times count from when it came; NAN: it never was so far. */
struct spot_serving_request {
    double end_s; /* of the log */
    double queue_s, ttft_s, e2e_s;
    int64_t n_token;
    bool is_cancelled, is_resumed; /* resumed: times are of its second coordinator alone */
};

/* What was done, and how many choices there were on average. */
struct spot_serving_interval {
    double from_s, time_s; /* until then */
    int64_t n_token;
    double n_running, n_queued;
    struct spot_histogram between; /* of two tokens of a choice; sum_s is not known */
};

/* Replicas that run, from then on. */
struct spot_serving_change {
    double time_s;
    int64_t n;
};

struct spot_serving_view {
    bool is_up;
    double down_s; /* since when it is not; NAN: it never was up */
};

struct spot_serving {
    struct spot_serving_request *request; /* [n_request], in the order of their ends */
    size_t n_request, cap_request;
    struct spot_serving_interval *interval; /* [n_interval] */
    size_t n_interval, cap_interval;
    struct spot_serving_change *replica; /* [n_replica] */
    size_t n_replica, cap_replica;
    double *notice_s, *kill_s, *join_s; /* [n_..]: members that were told to go, that went without
                                           having been told, that came */
    size_t n_notice, cap_notice, n_kill, cap_kill, n_join, cap_join;
    int64_t *noticed; /* [n_noticed], members that were told and are there still */
    size_t n_noticed, cap_noticed;
    struct spot_serving_view *view; /* [n_view] */
    size_t n_view, cap_view;

    int64_t n_step; /* tokens that its coordinator has told of so far */
    int64_t n_taken, n_refused, n_finished, n_cancelled; /* requests */
    int64_t n_token, n_move, n_again_token, n_paged_token;
    struct spot_histogram between;
    double first_s; /* of the first token of all; 0: there was none */
    double last_s;  /* by when the last one was there */
    double none_s;  /* with no replica, since the first of all ran */
    double gap_s;   /* of replicas between two of their epochs, added up */
    size_t n_gap;
};

/* The next event of a log that began with `serving`; heard_s: time of the one before. */
void spot_serving_take(struct spot_serving *r, const struct spot_event *e, double heard_s);
/* No event follows. */
void spot_serving_end(struct spot_serving *r, double end_s);
void spot_serving_release(struct spot_serving *r);

enum spot_serving_time { SPOT_SERVING_QUEUE, SPOT_SERVING_TTFT, SPOT_SERVING_E2E };

/* That came: at least those that ended, as a coordinator that was killed may not have counted the
 * last of them. */
int64_t spot_serving_requests(const struct spot_serving *r);

/* Quantile q by nearest rank of a time of the requests that finished within (from_s, to_s], without
 * those that were resumed; NAN: there are none. */
double spot_serving_quantile_s(const struct spot_serving *r, enum spot_serving_time what,
                               double from_s, double to_s, double q);

/* Committed, from the first to the last; NAN: it is not known. */
double spot_serving_tokens_per_s(const struct spot_serving *r);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SERVE_REPORT_H */
