/* SPDX-License-Identifier: MIT */
/* journal.h - the log of a run, spot.event/1 as JSON Lines.
 *
 * An event is written before its effect takes place, so a log read after a crash never lacks a
 * commit. A resumed job appends: a last line cut short by a crash is dropped, and time continues.
 * Pipes and devices cannot be continued.
 *
 * A file is written before anything else happens. A pipe or a terminal whose reader stands still
 * holds up no job: SPOT_JOURNAL_ROOM of events wait in memory until it reads, and further ones are
 * left out, of which the job warns, and which make closing the journal fail.
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

/* What the lines so far amount to: the newest time, epoch and standing step. */
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
    struct spot_outlet *outlet; /* below `out`, where it is no file; NULL */
    double patience_s;          /* at the end, with a reader that takes nothing; by default 60 */
    void (*warn)(const char *fmt, ...)
        SPOT_PRINTF(1, 2); /* set by the caller after opening; NULL */
    bool is_continued;     /* it contained an event of a job */
    double start_s;        /* clock value of time_s 0 */
    struct spot_jw jw;
    struct spot_journal_tail tail; /* of the continued log; where a record is kept, up to now */
    const struct spot_journal_keep *keep; /* see journal_keep.h; NULL: no record is kept */
    FILE *kept;                           /* the event being composed, NULL: none */
    char *kept_line;
    size_t n_kept_line;
    const char *kept_end; /* how the job ended, "": not yet; the event being composed says so */
    char (*holder)[SPOT_HOLDER_MAX]; /* [n_holder], of a log that is continued: names of those who
                                        held its newest step, as far as it tells */
    size_t n_holder, cap_holder;
    double loss; /* of the last commit in a continued log, until the next; NAN: unknown */
    char chain[SPOT_HASH_HEX];          /* of the same, "": unknown */
    char chain_before[SPOT_HASH_HEX];   /* of the step before, to which a job may go back */
    char (*convicted)[SPOT_HOLDER_MAX]; /* [n_convicted], members that were proved to be at fault */
    size_t n_convicted, cap_convicted;
    int64_t val_step; /* of the last `validated` that stands, -1: none */
    double val_loss;
    int64_t tuned_after; /* of the last `lr_changed` in a continued log, -1: none */
    int64_t done_step;   /* of a `done` at its end, -1: none */
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
/* The event just begun concerns this member; used in `recent` only. */
void spot_journal_about(struct spot_journal *journal, const char *name);
int spot_journal_end(struct spot_journal *journal, struct spot_err *err);

/* Does the continued log end with this `done`, with no commit after it? */
bool spot_journal_ends_done(const struct spot_journal *journal, int64_t step,
                            const char *state_hex);

/* Stop waiting for this member: it was lost, or has sent its state on. */
void spot_journal_drop_holder(struct spot_journal *journal, const char *name);

/* Seconds since the start of the job. */
double spot_journal_time(const struct spot_journal *journal);

/* Sync what was written so far to the disk, if the log is a file. Returns 0, or -1 with *err; the
 * system reports a lost write only once. */
int spot_journal_sync(const struct spot_journal *journal, struct spot_err *err);

/* Waits for a reader that reads, and patience_s for one that does not. Returns 0, or -1 with *err
 * (SPOT_ESYS): the disk is full, or events were left out. */
int spot_journal_close(struct spot_journal *journal, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_JOURNAL_H */
