/* SPDX-License-Identifier: MIT */
/* journal_keep.h - the record of a log: a summary from which a succeeding coordinator goes on.
 *
 * The record is stored elsewhere before the event that changes it is written to the log, so a
 * record is never older than its log. It contains the event itself: a coordinator that continues
 * the same log adds the line that its predecessor had no time to write.
 */
#ifndef SPOT_CLUSTER_JOURNAL_KEEP_H
#define SPOT_CLUSTER_JOURNAL_KEEP_H

#include "cluster/journal.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_JOURNAL_RECORD_MAX = 4096 }; /* bytes */

/* How the job ended: done, given up, or stopped on request. */
#define SPOT_JOB_DONE     "done"
#define SPOT_JOB_FINISHED "finished"
#define SPOT_JOB_GIVEN_UP "given_up"
#define SPOT_JOB_STOPPED  "stopped"

struct spot_journal_record {
    double time_s;
    int64_t epoch, step; /* step -1: none was committed */
    double loss;         /* loss of that step; NAN: not known */
    const char *chain;   /* chain up to that step, "": not known */
    const char *chain_before;
    int64_t val_step; /* -1: none */
    double val_loss;
    int64_t tuned_after; /* -1: never */
    const char *end;     /* "": it has not ended */
    const char *state_hex;
    const char *line; /* the event, NULL: too long for the record */
    const struct spot_json_value *holder, *convicted;
    struct spot_json_doc doc; /* holds the texts */
};

/* Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_journal_record_read(struct spot_journal_record *record, const char *text,
                             struct spot_err *err);
void spot_journal_record_release(
    struct spot_journal_record *record); /* sets all to zero; no effect on a zeroed record */

struct spot_journal_keep {
    /* Store the record. Returns 0 once it is stored, or -1 with *err; the event is then not
     * written. */
    int (*put)(void *user, const char *record, struct spot_err *err);
    void *user;
};

/* Continue an open journal from the previous coordinator's record (NULL: none) or from the log,
 * whichever is further, and keep records from now on. *step and *epoch are those of
 * spot_journal_open. `keep` must outlive the journal. Returns 0, or -1 with *err. */
int spot_journal_keep(struct spot_journal *journal, const struct spot_journal_keep *keep,
                      const struct spot_journal_record *before, int64_t *step, uint32_t *epoch,
                      struct spot_err *err);

/* Store the end of a job for which there is no event. No effect if no record is kept. */
int spot_journal_keep_end(struct spot_journal *journal, const char *end, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_JOURNAL_KEEP_H */
