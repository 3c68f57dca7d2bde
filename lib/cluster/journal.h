/* SPDX-License-Identifier: MIT */
/* journal.h - the log of a run, spot.event/1 as JSON Lines.
 *
 * An event is written to a file before its effect takes place, so a log read after a crash never
 * lacks a commit. A resumed job appends: an incomplete last line is dropped, and time continues.
 * Pipes and devices cannot be continued. A pipe or terminal whose reader is blocked does not block
 * the job: SPOT_JOURNAL_ROOM bytes of events wait in memory, further ones are dropped with a
 * warning, and closing the journal then fails.
 */
#ifndef SPOT_CLUSTER_JOURNAL_H
#define SPOT_CLUSTER_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/hash.h"
#include "common/json_writer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_RECENT_MAX = 10, SPOT_HOLDER_MAX = 64, SPOT_JOURNAL_ROOM = 1 << 23 };

/* Recent events, for clients of a running job; the workload's frequent ones are left out. */
struct spot_recent {
    double time_s;
    uint32_t epoch;
    int64_t step;
    char event[16], name[64]; /* name: of the member concerned, or "" */
};

/* State after the lines so far: the newest time, epoch and committed step. */
struct spot_journal_tail {
    double time_s;
    int64_t step; /* -1: none */
    uint32_t epoch;
};

struct spot_journal_keep;
struct spot_outlet;

struct spot_journal {
    FILE *out; /* NULL: no log */
    bool is_owned;
    struct spot_outlet *outlet; /* the outlet behind `out` if it is not a file; NULL */
    double patience_s; /* seconds to wait at the end for a reader that is blocked; by default 60 */
    void (*warn)(const char *fmt, ...)
        SPOT_PRINTF(1, 2); /* set by the caller after opening; NULL */
    bool is_continued;     /* the continued file had events of a job */
    double start_s;        /* clock value of time_s 0 */
    struct spot_jw jw;
    struct spot_journal_tail tail; /* state of the continued log; if a record is kept, up to date */
    const struct spot_journal_keep *keep; /* see journal_keep.h; NULL: no record is kept */
    FILE *kept;                           /* the event being composed, NULL: none */
    char *kept_line;
    size_t n_kept_line;
    const char *kept_end; /* how the job ended, from the event being composed; "": not yet */
    char (*holder)[SPOT_HOLDER_MAX]; /* [n_holder], in a continued log: names of the known holders
                                        of its newest step */
    size_t n_holder, cap_holder;
    double loss; /* loss of the last commit in a continued log, until the next; NAN: unknown */
    char chain[SPOT_HASH_HEX];          /* chain of that commit, "": unknown */
    char chain_before[SPOT_HASH_HEX];   /* chain of the step before, to which a job may roll back */
    char (*convicted)[SPOT_HOLDER_MAX]; /* [n_convicted], members that were proved to be at fault */
    size_t n_convicted, cap_convicted;
    int64_t val_step; /* step of the last valid `validated`, -1: none */
    double val_loss;
    int64_t tuned_after; /* step of the last `lr_changed` in a continued log, -1: none */
    int64_t done_step;   /* step of the `done` that ends the log, -1: none */
    char done_hex[40];
    const char *const *frequent; /* events that `recent` leaves out, ends with NULL; NULL: none */
    struct spot_recent recent[SPOT_RECENT_MAX]; /* the i-th event is at i % SPOT_RECENT_MAX */
    size_t n_recent;                            /* since the start */
};

/* `path` NULL: no log; "-": stdout. With `resume` an existing file is continued, *step gets the
 * newest committed step in it (-1: none) and *epoch the newest epoch. Otherwise the file is
 * replaced, unless it is the log of a job. Returns 0, or -1 with *err and the file unchanged:
 * SPOT_EDATA for a whole line that is not an event, SPOT_EUSAGE for a log that would be lost,
 * SPOT_ESYS for a file that another job writes.
 */
int spot_journal_open(struct spot_journal *journal, const char *path, bool resume, int64_t *step,
                      uint32_t *epoch, struct spot_err *err);

/* Begin an event; the caller adds keys to the returned writer (NULL if there is no log) and ends
 * it. spot_journal_end returns -1 with *err when the disk is full. */
struct spot_jw *spot_journal_begin(struct spot_journal *journal, const char *event, uint32_t epoch,
                                   int64_t step);
/* Names the member that the current event concerns; used in `recent` only. */
void spot_journal_about(struct spot_journal *journal, const char *name);
int spot_journal_end(struct spot_journal *journal, struct spot_err *err);

/* True if the continued log ends with `done` at this step, with no commit after it. */
bool spot_journal_ends_done(const struct spot_journal *journal, int64_t step,
                            const char *state_hex);

/* Stop waiting for this member: it was lost, or has sent its state on. */
void spot_journal_drop_holder(struct spot_journal *journal, const char *name);

/* Seconds since the start of the job. */
double spot_journal_time(const struct spot_journal *journal);

/* Sync what was written so far to the disk, if the log is a file. Returns 0, or -1 with *err; the
 * kernel reports a lost write only once. */
int spot_journal_sync(const struct spot_journal *journal, struct spot_err *err);

/* Waits until the reader has read everything, at most patience_s if it is blocked. Returns 0, or -1
 * with *err (SPOT_ESYS): the disk is full, or events were dropped. */
int spot_journal_close(struct spot_journal *journal, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_JOURNAL_H */
