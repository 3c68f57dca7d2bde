/* SPDX-License-Identifier: MIT */
/* notice.h - is this machine about to be taken away? Ask whoever knows, until told to stop.
 *
 * Who knows is the metadata service of a cloud (AWS, GCP, Azure; `auto` finds out which answers),
 * or a command. What they say is one list of notices: each is told when it is new, when its
 * deadline moves, and when it is gone. A service that is slow, dead or talks nonsense is asked
 * again with growing pauses, is warned of once, and is never taken for a notice.
 *
 * spot_notice_new checks options. spot_notice_run watches in this thread until it is stopped,
 * spot_notice_start in one of its own, which spot_notice_free ends. spot_notice_stop may be called
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
    SPOT_NOTICE_EARLIER, /* its deadline has moved, or is known now */
    SPOT_NOTICE_LATER,
    SPOT_NOTICE_GONE, /* its source does not tell it any more */
};
enum { SPOT_NOTICE_ACTION_MAX = 48, SPOT_NOTICE_ID_MAX = 128 };

/* Texts are plain (common/utf8.h). Times are Unix time by the clock of the source. */
struct spot_notice {
    const char *source; /* "aws", "gcp", "azure", "cmd", "sigterm" */
    enum spot_notice_kind kind;
    enum spot_notice_state state;
    bool is_memory_lost;                 /* processes do not survive what is announced */
    char action[SPOT_NOTICE_ACTION_MAX]; /* in the words of the source */
    char id[SPOT_NOTICE_ID_MAX];
    double at_s;       /* it was seen */
    double deadline_s; /* NAN: not known */
    double left_s;     /* from `at_s` to the deadline, not below 0; NAN: not known */
};

struct spot_notice_options {
    const char *from; /* "aws", "gcp", "azure", "auto", "cmd:COMMAND", "sigterm": none of them */
    const char *endpoint; /* "http://ADDRESS[:PORT]" instead of the cloud's; NULL */
    const char *name;     /* of this machine in Azure's events; NULL: it is asked for */
    double interval_s;    /* between questions; 0: 1 s */
    double
        lead_s; /* from a notice that has no deadline to the end; 0: 30 s for GCP, else not known */
    bool is_once;         /* end as soon as all has been answered once */
    const char *hook;     /* run by sh(1) for each notice, with SPOT_NOTICE_* variables; or NULL */
    bool is_acknowledged; /* Azure: let it begin as soon as the hook ended well, or at once without
                           */
    void (*told)(void *user, const struct spot_notice *notice); /* in the watching thread */
    void *user;
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* NULL */
};

struct spot_notice_watch;

/* Texts of the options are borrowed. NULL with *err: SPOT_EUSAGE, SPOT_ESYS. */
struct spot_notice_watch *spot_notice_new(const struct spot_notice_options *options,
                                          struct spot_err *err);
/* Stops, waits for the thread, ends the command; hooks that still run go on. May be NULL. */
void spot_notice_free(struct spot_notice_watch *watch);

/* Watch until stopped, and until the hooks of what was told have ended. Returns 0, or -1 with *err
 * (SPOT_ESYS): also where is_once and nobody answers. */
int spot_notice_run(struct spot_notice_watch *watch, struct spot_err *err);
/* The same in a thread that takes no signals. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_notice_start(struct spot_notice_watch *watch, struct spot_err *err);

/* Async-signal-safe. The second one also leaves hooks behind. */
void spot_notice_stop(struct spot_notice_watch *watch);
/* Async-signal-safe: SIGTERM came. It is told as a notice, and ends the watch. */
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
