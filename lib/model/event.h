/* SPDX-License-Identifier: MIT */
/* event.h - the log of a run, spot.event/1: read one checked event at a time, and written. */
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
    SPOT_EVENT_ANY, /* of a replayed cloud, or of a later version: name and time only */
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
    SPOT_EVENT_NOTICE, /* of a member; a notice of a cloud has no epoch and is SPOT_EVENT_ANY */
    SPOT_EVENT_LEFT,
    SPOT_EVENT_LOST,
    SPOT_EVENT_QUIESCE,
    SPOT_EVENT_STEP,
    SPOT_EVENT_DURABLE,
    SPOT_EVENT_SERVING, /* and these: of a job that serves */
    SPOT_EVENT_REQUEST,
    SPOT_EVENT_TOKEN,
    SPOT_EVENT_EXEC, /* and these: of a job that runs a foreign command */
    SPOT_EVENT_STATE_COMMITTED,
    SPOT_EVENT_STATE_RESTORED,
    SPOT_EVENT_FAILED,
    SPOT_EVENT_LEDGER,
    SPOT_EVENT_FINISHED,
    SPOT_EVENT_GIVEN_UP,
    SPOT_EVENT_KINDS
};

/* Keys that an event does not have are 0 or NULL. Text and samples live until the next event. */
struct spot_event {
    enum spot_event_kind kind;
    const char *name;
    bool is_job; /* has an epoch: of a job, not of a replayed cloud */
    double time_s;
    int64_t epoch, step;
    int64_t view;          /* joined, notice, left, lost, quiesce, formed: 0 where it is not told */
    int64_t member;        /* joined, notice, left, lost: its number */
    int64_t members;       /* joined, formed: how many there are now */
    struct spot_grid grid; /* formed; M 1 where it is not told */
    const char *tokens;    /* formed: what a token is, NULL: not told */
    int64_t from, to;      /* rolled_back; restored has `from` alone */
    int64_t relayed_byte;  /* formed, 0: not told */
    int64_t moved_byte;    /* migrate, 0: not told */
    int64_t restored_byte; /* migrate */
    double loss;           /* committed, validated; done, where it is known */
    int64_t after;         /* lr_changed: in force in the steps above this */
    double lr;             /* lr_changed */
    const char *lr_schedule; /* lr_changed */
    const char *who;         /* joined, notice, left, lost: its name, NULL: not told */
    const struct spot_json_value *place,
        *buddies;         /* formed: names, whatever the log has there; NULL: not told */
    const char *loss_hex; /* committed, validated: 8 hex digits */
    double spent_usd;     /* committed: by then, 0: no price is known */
    const struct spot_json_value *samples; /* committed: integers 0..2^53 */
    const char *state_hex;                 /* done: 32 hex digits */

    int64_t restart; /* formed, committed and restored of a command: its round; -1: not told */
    int64_t world;   /* formed: ranks */
    bool is_kept;    /* formed: the ranks that ran go on */
    int64_t nodes, n_byte; /* committed, restored of a command: nodes that made it, its bytes */
    const char *where;     /* durable */
    double lag_s;          /* durable: since the commit, 0: not told */
    int64_t rank, status, signal, failures;   /* failed; finished, given_up: failures */
    int64_t started;                          /* finished, given_up: rounds */
    int64_t n_rank, n_min, n_max;             /* exec: ranks of a node; nodes */
    int64_t dataset_size, global_batch, seed; /* ledger */
    const char *rest, *order;                 /* ledger */

    const char *model; /* serving: its directory */
    /* request: when it came; from then to its first worker, its first token, its end. NAN: it had
     * none */
    double came_s, queue_s, ttft_s, e2e_s;
    int64_t prompt_tokens, output_tokens; /* request, of all its choices; the latter of token too */
    int64_t choices, prompts;             /* request */
    const char *finish;                   /* request: "done", "cancelled" */
    bool is_resumed;           /* request: it came to a coordinator before, and times count anew */
    int64_t requests, refused; /* token: these since the one before; */
    int64_t moves, again_tokens, paged_tokens;
    int64_t replicas;                      /* token: now */
    double interval_s;                     /* token: it is about so long */
    double running, queued;                /* token: choices, on average */
    const struct spot_json_value *between; /* token: counts of a spot_histogram, zeros at its end
                                              left out */
};

struct spot_event_order;

struct spot_event_log {
    FILE *in;                       /* borrowed */
    const char *source;             /* for messages; borrowed */
    struct spot_hash_stream *hash;  /* of every byte that is read; borrowed, NULL: none */
    struct spot_event_order *order; /* in which events must come; borrowed, NULL: in any */
    bool drops_cut;  /* a last line without its newline is no event: a crash cut it */
    bool is_partial; /* lines chosen or written by hand: keys but event and time_s may be missing,
                        times may go back, lines may be blank */
    size_t end_byte; /* behind the last event */
    unsigned long number;     /* of the line of the last event, from 1 */
    struct spot_json_doc doc; /* the last event, for spot_json_fail */
    /* private */
    char *line;
    size_t n_byte, cap;
    double time_s;
};

/* The fields that are read of each kind, by enum spot_event_kind; what docs/schema/event.json is
 * made from. Of a kind with `at` only the events that have that key. */
extern const struct spot_doc_part spot_event_part[];

/* The next event. Returns 1, 0 at the end, or -1 with *err: SPOT_EDATA names file, line, what was
 * expected and what came, for lines longer than SPOT_JSON_BYTE_MAX too; SPOT_ESYS. */
int spot_event_next(struct spot_event_log *log, struct spot_event *event, struct spot_err *err);
void spot_event_log_release(struct spot_event_log *log);

/* Begin an event, at a time that is kept to 1e-6 s; `prov` NULL: it does not say who made it. The
 * caller adds keys to jw and ends the event, which is then one line that was flushed.
 * spot_event_end returns -1 with *err when the disk is full. */
void spot_event_begin(struct spot_jw *jw, FILE *out, const struct spot_prov *prov,
                      const char *event, double time_s);
int spot_event_end(struct spot_jw *jw, struct spot_err *err);
/* A time of an event: to 1e-6 s. */
void spot_event_seconds(struct spot_jw *jw, const char *key, double x_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_EVENT_H */
