/* SPDX-License-Identifier: MIT */
/* journal.h - the log of a run, spot.event/1 as JSON Lines.
 *
 * An event is written before what it announces is done, so a log that is read after a crash never
 * lacks a commit. A resumed job appends: a last line that a crash cut short is dropped, time goes
 * on. A pipe or a device has nothing to continue.
 */
#ifndef SPOT_CLUSTER_JOURNAL_H
#define SPOT_CLUSTER_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/json_writer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_RECENT_MAX = 10, SPOT_HOLDER_MAX = 64 };

/* What happened lately, for who asks a running job; steps, commits, validations, requests and
 * tokens are left out. */
struct spot_recent {
    double time_s;
    uint32_t epoch;
    int64_t step;
    char event[16], name[64]; /* of the member it is about, or "" */
};

/* What the lines so far say: the newest time, epoch and standing step. */
struct spot_journal_tail {
    double time_s;
    int64_t step; /* -1: none */
    uint32_t epoch;
};

struct spot_journal_keep;

struct spot_journal {
    FILE *out; /* NULL: nobody listens */
    bool is_owned;
    bool is_continued; /* an event of a job was there */
    double start_s;    /* clock value of time_s 0 */
    struct spot_jw jw;
    struct spot_journal_tail tail; /* of a log that is continued; of one that is kept, of now */
    const struct spot_journal_keep *keep; /* see journal_keep.h; NULL: no record is kept */
    FILE *kept;                           /* the event that is composed, NULL: none is */
    char *kept_line;
    size_t n_kept_line;
    const char *kept_end; /* how the job ended, "": not yet; the event that is composed says so */
    char (*holder)[SPOT_HOLDER_MAX]; /* [n_holder], of a log that is continued: names of those who
                                        held its newest step, as far as it tells */
    size_t n_holder, cap_holder;
    double loss; /* of the last commit in a log that is continued, until the next; NAN: unknown */
    int64_t val_step; /* of the last `validated` that stands, -1: none */
    double val_loss;
    int64_t tuned_after; /* of the last `lr_changed` in a log that is continued, -1: none */
    double spent_usd;    /* as a log that is continued tells, else 0 */
    int64_t done_step;   /* of a `done` behind it, -1: none */
    char done_hex[40];
    struct spot_recent recent[SPOT_RECENT_MAX]; /* the i-th ever at i % SPOT_RECENT_MAX */
    size_t n_recent;                            /* ever */
};

/* `path` NULL: no log; "-": stdout. With `resume` an existing file is continued, and *step gets
 * the newest committed step in it (-1: none) and *epoch the newest epoch; else it is replaced,
 * unless it is the log of a job. Returns 0, or -1 with *err: SPOT_EDATA for a whole line that is no
 * event, SPOT_EUSAGE for a log that would be lost, SPOT_ESYS for a file that another job writes;
 * the file is as it was.
 */
int spot_journal_open(struct spot_journal *journal, const char *path, bool resume, int64_t *step,
                      uint32_t *epoch, struct spot_err *err);

/* Begin an event; the caller adds keys to the returned writer (NULL when nobody listens) and ends
 * it. spot_journal_end returns -1 with *err when the disk is full. */
struct spot_jw *spot_journal_begin(struct spot_journal *journal, const char *event, uint32_t epoch,
                                   int64_t step);
/* The event that was begun is about this member: for `recent` alone. */
void spot_journal_about(struct spot_journal *journal, const char *name);
int spot_journal_end(struct spot_journal *journal, struct spot_err *err);

/* Does the continued log end with this `done`, no commit behind it? */
bool spot_journal_ends_done(const struct spot_journal *journal, int64_t step,
                            const char *state_hex);

/* This member needs not be waited for: it was lost, or has handed over. */
void spot_journal_drop_holder(struct spot_journal *journal, const char *name);

/* Seconds since the start of the job. */
double spot_journal_time(const struct spot_journal *journal);

/* What was written so far is on the disk, where it is a file. Returns 0, or -1 with *err; the
 * system tells a lost write only once. */
int spot_journal_sync(const struct spot_journal *journal, struct spot_err *err);

int spot_journal_close(struct spot_journal *journal, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_JOURNAL_H */
