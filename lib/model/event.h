/* SPDX-License-Identifier: MIT */
/* event.h - the log of a run, spot.event/1: reads one validated event at a time, and writes
 * events. */
#ifndef SPOT_MODEL_EVENT_H
#define SPOT_MODEL_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/prov.h"
#include "model/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of events, in the order of spot_event_part. */
enum spot_event_kind {
    SPOT_EVENT_ANY, /* of a replayed cloud, or of a later version: only name and time are read */
    SPOT_EVENT_JOINED,
    SPOT_EVENT_FORMED,
    SPOT_EVENT_MIGRATE,
    SPOT_EVENT_COMMITTED,
    SPOT_EVENT_ROLLED_BACK,
    SPOT_EVENT_RESTORED,
    SPOT_EVENT_DONE,
    SPOT_EVENT_LR_CHANGED,
    SPOT_EVENT_VALIDATED,
    SPOT_EVENT_RESUMED,
    SPOT_EVENT_NOTICE, /* notice of a member; a cloud's notice has no epoch and is SPOT_EVENT_ANY */
    SPOT_EVENT_LEFT,
    SPOT_EVENT_LOST,
    SPOT_EVENT_QUIESCE,
    SPOT_EVENT_STEP,
    SPOT_EVENT_DURABLE,
    SPOT_EVENT_DIFFERS, /* two computations of a microbatch differ */
    SPOT_EVENT_CORRUPT, /* a member was convicted of a fault */
    SPOT_EVENT_SERVING, /* from here on: of a serving job */
    SPOT_EVENT_REQUEST,
    SPOT_EVENT_TOKEN,
    SPOT_EVENT_EXEC, /* from here on: of a job that runs a foreign command */
    SPOT_EVENT_STATE_COMMITTED,
    SPOT_EVENT_STATE_RESTORED,
    SPOT_EVENT_FAILED,
    SPOT_EVENT_LEDGER,
    SPOT_EVENT_FINISHED,
    SPOT_EVENT_GIVEN_UP,
    SPOT_EVENT_KINDS
};

/* The data of a commit with which it can be recomputed; NULL: not given. */
struct spot_event_evidence {
    const char *chain, *samples_hex, *parameters_hex; /* hashes */
    /* 4 hex digits for each tensor, by bundle, of the state before and of the gradient sums */
    const struct spot_json_value *state, *sums;
    bool is_anew; /* the chain begins here */
};

/* The place of wrong numbers. */
struct spot_event_fault {
    const char *what, *tensor; /* for corrupt; tensor NULL: not given */
    int64_t stage, microbatch; /* for differs; stage also for corrupt, 0 if not given */
    /* for a server: the request and its token; NULL: for a training job */
    const char *request;
    int64_t choice, position;
    bool was_told; /* the token was sent to its client */
};

/* Absent keys are 0 or NULL. Text and samples live until the next event. */
struct spot_event {
    enum spot_event_kind kind;
    const char *name;
    bool is_job; /* has an epoch: of a job, not of a replayed cloud */
    double time_s;
    int64_t epoch, step;
    int64_t view;            /* joined, notice, left, lost, quiesce, formed: 0 if not given */
    int64_t member;          /* joined, notice, left, lost: number of the member */
    int64_t members;         /* joined, formed: the current number */
    struct spot_grid grid;   /* formed; M 1 if not given */
    const char *tokens;      /* formed: what a token is, NULL: not given */
    int64_t from, to;        /* rolled_back; restored has only `from` */
    int64_t relayed_byte;    /* formed, 0: not given */
    int64_t moved_byte;      /* migrate, 0: not given */
    int64_t restored_byte;   /* migrate */
    double loss;             /* committed, validated; done, if known */
    int64_t after;           /* lr_changed: in effect in the steps after this one */
    double lr;               /* lr_changed */
    const char *lr_schedule; /* lr_changed */
    const char *who;         /* joined, notice, left, lost: name of the member; NULL: not given */
    const struct spot_json_value *place,
        *buddies;                          /* formed: names, not validated; NULL: not given */
    const char *loss_hex;                  /* committed, validated: 8 hex digits */
    const struct spot_json_value *samples; /* committed: integers 0..2^53 */
    struct spot_event_evidence evidence;   /* committed */
    const char *state_hex;                 /* done: 32 hex digits */
    struct spot_event_fault fault;         /* differs, corrupt */

    int64_t restart; /* formed, committed and restored of a command: its round; -1: not given */
    int64_t world;   /* formed: ranks */
    bool is_kept;    /* formed: the running ranks continued */
    int64_t nodes, n_byte; /* committed, restored of a command: nodes that made it, its bytes */
    const char *where;     /* durable */
    double lag_s;          /* durable: since the commit, 0: not given */
    int64_t rank, status, signal, failures;   /* failed; finished, given_up: failures */
    int64_t started;                          /* finished, given_up: rounds */
    int64_t n_rank, n_min, n_max;             /* exec: ranks of a node; nodes */
    int64_t dataset_size, global_batch, seed; /* ledger */
    const char *rest, *order;                 /* ledger */

    const char *model; /* serving: directory of the model */
    /* request: arrival; time from it to the first worker, the first token, the end. NAN: did not
     * happen */
    double came_s, queue_s, ttft_s, e2e_s;
    int64_t prompt_tokens,
        output_tokens;        /* request: summed over its choices; output_tokens also of token */
    int64_t cached_tokens;    /* request: of its prompts, found in a cache */
    int64_t choices, prompts; /* request */
    const char *finish;       /* request: "done", "cancelled" */
    bool is_resumed; /* request: it first arrived at an earlier coordinator, and times start anew */
    int64_t requests, refused; /* token: since the previous one; */
    int64_t moves, again_tokens, paged_tokens;
    int64_t replicas;       /* token: current number */
    double interval_s;      /* token: approximate interval */
    double running, queued; /* token: choices, averaged */
    /* token: counts of a spot_histogram, without trailing zeros */
    const struct spot_json_value *between;
};

struct spot_event_order;

struct spot_event_log {
    FILE *in;                       /* borrowed */
    const char *source;             /* for messages; borrowed */
    struct spot_hash_stream *hash;  /* of every byte read; borrowed, NULL: none */
    struct spot_event_order *order; /* checks their order; borrowed, NULL: not checked */
    bool drops_cut;                 /* ignore a last line without newline: cut short by a crash */
    bool is_partial; /* lines selected or written by hand: keys other than event and time_s may be
                        missing, times may go back */
    size_t end_byte; /* end of the last event */
    unsigned long number;     /* line number of the last event, from 1 */
    struct spot_json_doc doc; /* the last event, for spot_json_fail */
    /* private */
    char *line;
    size_t n_byte, cap;
    double time_s;
};

/* The fields read of each kind, by enum spot_event_kind; docs/schema/event.json is made from this.
 * A row with `at` applies only to events that have that key. */
extern const struct spot_doc_part spot_event_part[];

/* The next event; blank lines are passed over. Returns 1, 0 at the end, or -1 with *err: SPOT_EDATA
 * with file, line, what was expected and what was found, also for lines longer than
 * SPOT_JSON_BYTE_MAX; SPOT_ESYS. */
int spot_event_next(struct spot_event_log *log, struct spot_event *event, struct spot_err *err);
void spot_event_log_release(struct spot_event_log *log);

/* Begin an event, with its time rounded to 1e-6 s; `prov` NULL: without provenance. The caller adds
 * keys to jw and ends the event, which is then written as one line and flushed. spot_event_end
 * returns -1 with *err when the disk is full. */
void spot_event_begin(struct spot_jw *jw, FILE *out, const struct spot_prov *prov,
                      const char *event, double time_s);
int spot_event_end(struct spot_jw *jw, struct spot_err *err);
/* Write a time of an event, rounded to 1e-6 s. */
void spot_event_seconds(struct spot_jw *jw, const char *key, double x_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_EVENT_H */
