/* SPDX-License-Identifier: MIT */
/* notice_state.h - shared by the parts of a watch; private to lib/cluster. */
#ifndef SPOT_CLUSTER_NOTICE_NOTICE_STATE_H
#define SPOT_CLUSTER_NOTICE_NOTICE_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cluster/notice.h"
#include "cluster/notice/notice_claim.h"
#include "comm/http_client.h"
#include "common/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_NOTICE_QUERIES_MAX = 3,
    SPOT_NOTICE_HOOKS_MAX = 16, /* running at the same time */
    SPOT_NOTICE_TOKEN_MAX = 1025,
    SPOT_NOTICE_LINE_MAX = 4096, /* of a command's output; a longer line is truncated */
};

/* A query that is repeated. */
struct spot_notice_query {
    double due_s; /* by our clock; INFINITY: pending, or not needed */
    double asked_s;
    unsigned n_fail; /* failures in a row */
    bool has_warned, is_under_way;
    bool has_answered; /* it was answered at least once */
    char etag[64];
};

/* The query whose answer is awaited. */
struct spot_notice_awaited {
    struct spot_notice_watch *watch;
    unsigned generation;
    size_t query;
};

struct spot_notice_cloud {
    const char *name;
    size_t n_query;
    unsigned reports; /* a bit for each query that reports notices; the others are auxiliary */
    /* Send query i, or postpone it. */
    void (*ask)(struct spot_notice_watch *w, size_t i);
    void (*answered)(struct spot_notice_watch *w, size_t i, const struct spot_http_reply *reply);
};

/* A notice that its source still reports. */
struct spot_notice_seen {
    struct spot_notice_claim claim;
    const char *source;
    size_t query;
    double deadline_s; /* Unix time by the clock of the source; NAN */
    double reported_s; /* the deadline that was last reported */
    double later_s;    /* a later deadline is reported again only if it moves by more than this */
    bool is_reported;  /* present in the answer being processed */
};

struct spot_notice_hook {
    pid_t pid;
    char id[SPOT_NOTICE_ID_MAX]; /* to be acknowledged when the hook ends well; or "" */
};

/* An event that is to be acknowledged, until its service has taken that. */
struct spot_notice_ack {
    struct spot_notice_watch *watch;
    char id[SPOT_NOTICE_ID_MAX]; /* "": a free place */
    double due_s;                /* by our clock */
    int n_fail;
    bool is_under_way;
};

struct spot_notice_watch {
    struct spot_notice_options options;
    char base[SPOT_HTTP_URL_MAX / 4]; /* http://ADDRESS[:PORT] */
    int wake[2];
    bool has_thread, is_stopping, is_left; /* is_stopping: stopped once; is_left: stopped twice */
    pthread_t thread;

    struct spot_http_client *client;
    const struct spot_notice_cloud *cloud; /* NULL: no service is queried */
    unsigned generation;                   /* of `cloud`: answers to an earlier one are dropped */
    struct spot_notice_query query[SPOT_NOTICE_QUERIES_MAX];
    /* answers awaited by `auto`, and by the cloud that it found */
    struct spot_notice_awaited awaited[2][SPOT_NOTICE_QUERIES_MAX];
    struct spot_notice_seen seen[SPOT_NOTICE_CLAIMS_MAX];
    size_t n_seen;
    double offset_s; /* how far the clock of the source is ahead of ours */
    bool has_warned_clock;

    char token[SPOT_NOTICE_TOKEN_MAX]; /* AWS; "" : none */
    double token_renew_s, token_end_s; /* by our clock */
    unsigned n_refused;                /* number of successively refused tokens */
    size_t refused;                    /* index of the query whose token was refused last */
    char name[SPOT_NOTICE_ID_MAX];     /* Azure's name of this machine; "" : not known */

    pid_t command; /* 0: none */
    int command_fd;
    struct spot_buf line;
    bool has_reported_line;

    struct spot_notice_hook hook[SPOT_NOTICE_HOOKS_MAX];
    size_t n_hook;
    struct spot_notice_ack ack[SPOT_NOTICE_CLAIMS_MAX];
};

extern const struct spot_notice_cloud spot_notice_aws, spot_notice_gcp, spot_notice_azure,
    spot_notice_auto, spot_notice_cmd;

/* --- notice_watch.c ------------------------------------------------------ */

void spot_notice_warn(struct spot_notice_watch *w, const char *fmt, ...) SPOT_PRINTF(2, 3);
/* Send a request of `method` to base + path; the cloud's `answered` gets the reply. */
void spot_notice_ask(struct spot_notice_watch *w, size_t i, const char *method, const char *path,
                     const char *const header[], const char *body, double limit_s);
/* Query i was answered; it is due again in after_s. */
void spot_notice_again(struct spot_notice_watch *w, size_t i, double after_s);
/* Query i has failed: its interval grows, with a warning if failures persist. */
void spot_notice_failed(struct spot_notice_watch *w, size_t i, const char *fmt, ...)
    SPOT_PRINTF(3, 4);
/* Why a reply is unusable: its status, or what went wrong. */
const char *spot_notice_reason(const struct spot_http_reply *reply, char text[64]);
/* Query `cloud` from now on. */
void spot_notice_turn_to(struct spot_notice_watch *w, const struct spot_notice_cloud *cloud);
/* Compare the notices in the answer to query i, read by `read`, with those reported before. */
void spot_notice_take(struct spot_notice_watch *w, size_t i, const struct spot_http_reply *reply,
                      spot_notice_read *read);

/* --- notice_report.c ------------------------------------------------------- */

/* True if that notice is still pending. */
bool spot_notice_is_due(const struct spot_notice_watch *w, const char *id);
/* `query` now reports these notices and no others. */
void spot_notice_compare(struct spot_notice_watch *w, size_t query,
                         const struct spot_notice_claim *claim, size_t n);
/* Add one notice to the present ones; `source` is a static string. */
void spot_notice_add(struct spot_notice_watch *w, const char *source,
                     const struct spot_notice_claim *claim);
/* Set the clock offset from the Date of its answer. */
void spot_notice_set_clock(struct spot_notice_watch *w, const struct spot_http_reply *reply);

/* --- notice_hook.c ------------------------------------------------------- */

/* Run sh -c COMMAND with its output on `out` and the variables of a notice, or NULL. Returns its
 * process id, which is also its group's, or -1 with errno. */
pid_t spot_notice_spawn(const char *command, int out, const struct spot_notice *notice);
void spot_notice_run_hook(struct spot_notice_watch *w, const struct spot_notice *notice,
                          const struct spot_notice_claim *claim);
void spot_notice_reap_hooks(struct spot_notice_watch *w);

/* --- notice_command.c, notice_azure.c ------------------------------------ */

void spot_notice_read_command(struct spot_notice_watch *w);
void spot_notice_end_command(struct spot_notice_watch *w);
/* Acknowledge an event: repeated until the service accepts it, or the event begins or ends. */
void spot_notice_acknowledge(struct spot_notice_watch *w, const char *id);
/* Send due acknowledgements. Returns the seconds until the next one, INFINITY: none; *is_awaited:
 * an answer is pending. */
double spot_notice_send_acks(struct spot_notice_watch *w, bool *is_awaited);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_NOTICE_NOTICE_STATE_H */
