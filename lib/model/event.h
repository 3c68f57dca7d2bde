/* SPDX-License-Identifier: MIT */
/* event.h - read the log of a run, spot.event/1: one checked event at a time. */
#ifndef SPOT_MODEL_EVENT_H
#define SPOT_MODEL_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/hash.h"
#include "common/json.h"
#include "model/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys that an event does not have are 0 or NULL. Text and samples live until the next event. */
struct spot_event {
    const char *name;
    bool is_job; /* has an epoch: of a job, not of a cloud that is played */
    double time_s;
    int64_t epoch, step;
    int64_t member;                /* joined, notice, left, lost: its number */
    int64_t members;               /* joined, formed: how many there are now */
    struct spot_grid grid;         /* formed; M 1 where it is not told */
    const char *tokens;            /* formed: what a token is, NULL: not told */
    int64_t from, to;              /* rolled_back; restored has `from` alone */
    int64_t restored_byte;         /* migrate */
    double loss;                   /* committed, validated; done, where it is known */
    int64_t after;                 /* lr_changed: in force in the steps above this */
    double lr;                     /* lr_changed */
    const char *lr_schedule;       /* lr_changed */
    const char *who;               /* joined, notice, left, lost: its name, NULL: not told */
    const json_t *place, *buddies; /* formed: names, whatever the log has there; NULL: not told */
    const char *loss_hex;          /* committed, validated: 8 hex digits */
    double spent_usd;              /* committed: by then, 0: no price is known */
    const json_t *samples;         /* committed: integers 0..2^53 */
    const char *state_hex;         /* done: 32 hex digits */
};

struct spot_event_order;

struct spot_event_log {
    FILE *in;                       /* borrowed */
    const char *source;             /* for messages; borrowed */
    struct spot_hash_stream *hash;  /* of every byte that is read; borrowed, NULL: none */
    struct spot_event_order *order; /* in which events must come; borrowed, NULL: in any */
    bool drops_cut;  /* a last line without its newline is no event: a crash cut it */
    size_t end_byte; /* behind the last event */
    /* private */
    char *line;
    size_t n_byte, cap;
    unsigned long number;
    double time_s;
    struct spot_json_doc doc;
};

/* What docs/schema/event.json is made from. */
extern const struct spot_doc_part spot_event_part[];

/* The next event. Returns 1, 0 at the end, or -1 with *err: SPOT_EDATA names file, line, what was
 * expected and what came, for lines longer than SPOT_JSON_BYTE_MAX too; SPOT_ESYS. */
int spot_event_next(struct spot_event_log *log, struct spot_event *event, struct spot_err *err);
void spot_event_log_release(struct spot_event_log *log);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_EVENT_H */
