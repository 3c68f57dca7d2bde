/* SPDX-License-Identifier: MIT */
/* exec_report.h - summarises a job of a foreign command from its events: rounds and why each began,
 * the time without commits, and what became durable. */
#ifndef SPOT_MODEL_EXEC_REPORT_H
#define SPOT_MODEL_EXEC_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why a round began: the first that applies, in this order. */
enum spot_hosting_cause {
    SPOT_HOSTING_START,   /* start of the job */
    SPOT_HOSTING_FAILURE, /* a rank failed */
    SPOT_HOSTING_KILL,    /* a node was lost */
    SPOT_HOSTING_NOTICE,  /* a node left */
    SPOT_HOSTING_JOIN,
    SPOT_HOSTING_OTHER, /* a coordinator that did not find the ranks still running */
    SPOT_HOSTING_CAUSES
};
const char *spot_hosting_cause_name(enum spot_hosting_cause cause);

/* A start of all ranks. Times in the job; NAN: not yet. */
struct spot_hosting_round {
    enum spot_hosting_cause cause;
    int64_t restart, nodes;
    double ended_s;  /* end of the previous round; NAN for the first */
    double formed_s; /* this one */
    double commit_s; /* first commit of the round */
    double before_s; /* the last commit before it; NAN: none */
};

enum spot_hosting_place {
    SPOT_HOSTING_MEMORY, /* held by two nodes */
    SPOT_HOSTING_DISK,
    SPOT_HOSTING_STORE, /* behind a command */
    SPOT_HOSTING_PLACES
};
const char *spot_hosting_place_name(enum spot_hosting_place place);

struct spot_hosting_durable {
    int64_t count, step; /* number of commits, and the last one */
    int64_t moved_byte;
    double lag_max_s;
};

/* A step was committed, or was stored at a place. */
struct spot_hosting_point {
    double time_s;
    int64_t step;
    int place; /* an enum spot_hosting_place; SPOT_HOSTING_PLACES: committed, or the target of a
                  rollback */
};

/* A cause of a round: a failure, a kill, a notice or a join. */
struct spot_hosting_mark {
    double time_s;
    enum spot_hosting_cause cause;
};

/* Zero it at the start. */
struct spot_hosting {
    struct spot_hosting_round *round; /* [n_round] */
    size_t n_round, cap_round;
    struct spot_hosting_point *point; /* [n_point], in order of arrival */
    size_t n_point, cap_point;
    struct spot_hosting_mark *mark; /* [n_mark], in order of arrival */
    size_t n_mark, cap_mark;
    int64_t coordinators, kept; /* number of them; rounds that continued under a new epoch */
    int64_t failures, commits, rollbacks, restores;
    int64_t step, rolled_back; /* the newest standing commit; steps rolled back */
    struct spot_hosting_durable durable[SPOT_HOSTING_PLACES];
    bool is_finished, has_given_up;

    /* private: since a round was formed */
    bool has[SPOT_HOSTING_CAUSES];
    double ended_s, commit_s; /* NAN: none */
};

/* The next event of the log. */
void spot_hosting_take(struct spot_hosting *hosting, const struct spot_event *event);
void spot_hosting_release(struct spot_hosting *hosting);

/* Rounds by cause; time from the last commit before a round to its first, and time without ranks:
 * over those for which it is known, NAN if none. */
struct spot_hosting_pauses {
    size_t n;
    double median_s, max_s;
};
size_t spot_hosting_rounds(const struct spot_hosting *hosting, enum spot_hosting_cause cause);
struct spot_hosting_pauses spot_hosting_pauses(const struct spot_hosting *hosting,
                                               enum spot_hosting_cause cause);
/* Total seconds from the end of rounds to the next. */
double spot_hosting_down_s(const struct spot_hosting *hosting);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_EXEC_REPORT_H */
