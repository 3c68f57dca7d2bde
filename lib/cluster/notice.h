/* SPDX-License-Identifier: MIT */
/* notice.h - watches for notices that this machine will be taken away, until told to stop.
 *
 * Sources are the metadata service of a cloud (AWS, GCP, Azure; `auto` detects which) or a command.
 * Their answers form one list of notices; each is reported when it is new, when its deadline moves,
 * and when it ends. A service that is slow, dead or gives invalid answers is queried again at
 * growing intervals, with one warning; this never counts as a notice.
 *
 * spot_notice_new checks options. spot_notice_run watches in the calling thread until it is
 * stopped, spot_notice_start in a thread that spot_notice_free ends. spot_notice_stop may be called
 * from a signal handler or any thread.
 */
#ifndef SPOT_CLUSTER_NOTICE_H
#define SPOT_CLUSTER_NOTICE_H

#include <stdbool.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_notice_kind { SPOT_NOTICE_PREEMPT, SPOT_NOTICE_REBALANCE, SPOT_NOTICE_MAINTENANCE };
enum spot_notice_state {
    SPOT_NOTICE_NEW,
    SPOT_NOTICE_EARLIER, /* its deadline has moved, or has become known */
    SPOT_NOTICE_LATER,
    SPOT_NOTICE_GONE, /* its source no longer reports it */
};
enum { SPOT_NOTICE_ACTION_MAX = 48, SPOT_NOTICE_ID_MAX = 128 };

/* Texts are safe to print (common/utf8.h). Times are Unix time by the clock of the source. */
struct spot_notice {
    const char *source; /* "aws", "gcp", "azure", "cmd", "sigterm" */
    enum spot_notice_kind kind;
    enum spot_notice_state state;
    bool is_memory_lost;                 /* processes do not survive it */
    char action[SPOT_NOTICE_ACTION_MAX]; /* as named by the source */
    char id[SPOT_NOTICE_ID_MAX];
    double at_s;       /* first seen */
    double deadline_s; /* NAN: not known */
    double left_s;     /* from `at_s` to the deadline, not below 0; NAN: not known */
};

struct spot_notice_options {
    const char *from;     /* "aws", "gcp", "azure", "auto", "cmd:COMMAND"; "sigterm": no source */
    const char *endpoint; /* "http://ADDRESS[:PORT]" instead of the cloud's; NULL */
    double interval_s;    /* interval between queries; 0: 1 s */
    /* from a notice without a deadline to the end; 0: 30 s for GCP, else not known */
    double lead_s;
    bool is_once;         /* end as soon as every query was answered once */
    const char *hook;     /* run by sh(1) for each notice, with SPOT_NOTICE_* variables; or NULL */
    bool is_acknowledged; /* Azure: approve the event as soon as the hook has ended well, or at once
                             without a hook */
    void (*noticed)(void *user,
                    const struct spot_notice *notice); /* called in the watching thread */
    void *user;
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* NULL */
};

struct spot_notice_watch;

/* Texts of the options are borrowed. NULL with *err: SPOT_EUSAGE, SPOT_ESYS. */
struct spot_notice_watch *spot_notice_new(const struct spot_notice_options *options,
                                          struct spot_err *err);
/* Stops the watch, joins the thread, ends the command; running hooks continue. May be NULL. */
void spot_notice_free(struct spot_notice_watch *watch);

/* Watch until stopped, and until the hooks of reported notices have ended. Returns 0, or -1 with
 * *err (SPOT_ESYS), also when is_once and no source answers. */
int spot_notice_run(struct spot_notice_watch *watch, struct spot_err *err);
/* The same in a thread that blocks signals. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_notice_start(struct spot_notice_watch *watch, struct spot_err *err);

/* Async-signal-safe. A second call also abandons running hooks. */
void spot_notice_stop(struct spot_notice_watch *watch);
/* Async-signal-safe: SIGTERM was received. It is reported as a notice, and ends the watch. */
void spot_notice_terminate(struct spot_notice_watch *watch);

/* "preempt", "new" */
const char *spot_notice_kind_name(enum spot_notice_kind kind);
const char *spot_notice_state_name(enum spot_notice_state state);

/* A spot.notice/1 document on one line, flushed. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_notice_write(const struct spot_notice *notice, FILE *out, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_NOTICE_H */
