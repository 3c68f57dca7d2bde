/* SPDX-License-Identifier: MIT */
/* journal_state.h - shared by the parts of a journal; private to lib/cluster/journal*.c. */
#ifndef SPOT_CLUSTER_JOURNAL_STATE_H
#define SPOT_CLUSTER_JOURNAL_STATE_H

#include <stdbool.h>

#include "cluster/journal.h"
#include "model/event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* journal.c: account for this event, now the log's last. */
void spot_journal_take(struct spot_journal *journal, const struct spot_event *event);
void spot_journal_add_holder(struct spot_journal *journal, const char *name);
void spot_journal_convict(struct spot_journal *journal, const char *name);

/* journal_keep.c: whether this event changes the record. Such an event is composed in memory:
 * `begin` returns the stream to write to, `end` stores the record and then writes the line. */
bool spot_journal_is_kept(const struct spot_journal *journal, const char *event);
FILE *spot_journal_kept_begin(struct spot_journal *journal, const char *event);
int spot_journal_kept_end(struct spot_journal *journal, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_JOURNAL_STATE_H */
