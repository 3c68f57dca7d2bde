/* SPDX-License-Identifier: MIT */
/* rank_files.h - checkpoints that a script writes in a directory of its own: detects complete ones,
 * stores them and restores them. A pattern names entries of one directory: files, or directories
 * with all their contents. The script does not report when an entry is complete, so the files are
 * examined. A file is complete when it has not changed for a moment and no process has it open for
 * writing. A directory is complete when all its files are and it has the marker that torch's DCP,
 * HF Trainer or Orbax writes last, or, on the node of the first rank, has not changed for longer;
 * on another node it may be only a part, whose marker is on the first node. An entry that was
 * incomplete when a rank was killed never becomes complete. The directory belongs to the user.
 * Entries that match and are not part of the commit laid out are moved to .spot-aside in it,
 * without replacing anything there; they are removed only if we laid them out, or if they are
 * directories without files. Nothing else is touched. A link is stored as a link if it leads to
 * something below its own directory, else it is left out. If the directory itself is replaced by a
 * link, nothing there is touched. Not thread-safe.
 */
#ifndef SPOT_HOST_RANK_FILES_H
#define SPOT_HOST_RANK_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"
#include "host/state_store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_rank_files;

/* "ckpt*.pt", "out/checkpoint-*", or "DIR/" for all in it; wildcards in the last name alone. `warn`
 * may be NULL. NULL with *err (SPOT_EUSAGE). */
struct spot_rank_files *spot_rank_files_new(const char *pattern,
                                            void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2),
                                            struct spot_err *err);
void spot_rank_files_free(struct spot_rank_files *files); /* may be NULL */

/* Lock the directory for a job, a line of text of at most 300 bytes, until spot_rank_files_free; no
 * effect while it is locked or does not exist. Nodes of one job share the lock. A file system
 * without locks causes a warning. Returns 0, or -1 with *err (SPOT_ESYS), which names the process,
 * if another job holds it. The first call waits for processes of a job that was killed, 10 s at
 * most. */
int spot_rank_files_hold(struct spot_rank_files *files, const char *job, struct spot_err *err);

/* A round begins. is_restored: the existing files were just laid out and are not new. is_first: the
 * first rank runs here. */
void spot_rank_files_begin(struct spot_rank_files *files, bool is_restored, bool is_first);
/* Ranks were killed or have failed: entries that are incomplete now stay so until the next round.
 */
void spot_rank_files_freeze(struct spot_rank_files *files);

enum spot_rank_files_state {
    SPOT_FILES_SAME,  /* unchanged since they were last taken */
    SPOT_FILES_BUSY,  /* being written */
    SPOT_FILES_READY, /* complete, and changed since they were last taken */
};
/* Scans the directory at most every few hundredths of a second. */
enum spot_rank_files_state spot_rank_files_look(struct spot_rank_files *files);
/* Scan at the next call in any case, because all writers have ended. */
void spot_rank_files_hurry(struct spot_rank_files *files);
/* The files taken last were refused: treat them as new again. */
void spot_rank_files_again(struct spot_rank_files *files);
/* The file that is being written, for messages; "" if none. Valid until the next call of
 * spot_rank_files_look. */
const char *spot_rank_files_busy(const struct spot_rank_files *files);

/* mark: ranks are ordered to save now; the other: true if the files taken last were written after
 * that. */
void spot_rank_files_mark(struct spot_rank_files *files);
bool spot_rank_files_is_since_mark(const struct spot_rank_files *files);

/* Before the first round: treat complete entries, left by an earlier job, as new. Among directories
 * only those with a marker count, if there are any; after a killed node, entries that may be half
 * written do not count. If spot_rank_files_busy then names a file that another process writes, call
 * this again.
 */
void spot_rank_files_adopt(struct spot_rank_files *files);

/* The ranks ended without error, so the next node that begins here can trust what they wrote
 * last. */
void spot_rank_files_end(struct spot_rank_files *files);
/* None of the existing entries is valid: they are moved aside before the next round. */
void spot_rank_files_reject(struct spot_rank_files *files);

/* The names of the complete directories on this node, each followed by a zero byte. */
void spot_rank_files_list(const struct spot_rank_files *files, struct spot_buf *out);
/* Store the complete entries: of directories only those in `dirs` [n_dirs], a list as above; of
 * files all with is_first, else those written here in this round. *record as for spot_state_take.
 * Returns 0; 1 when one of them is being written, to be retried; -1 with *err. */
int spot_rank_files_take(struct spot_rank_files *files, struct spot_state_store *store,
                         const unsigned char *dirs, size_t n_dirs, bool is_first,
                         struct spot_state_record *record, struct spot_err *err);

/* Lay out a commit from the records of its places, in order; of two files of the same name that of
 * the first place is used. Without records, only incomplete entries are moved aside. Returns 0, or
 * -1 with *err as spot_state_lay_out. */
int spot_rank_files_put(struct spot_rank_files *files, struct spot_state_store *store,
                        const struct spot_state_record *const *record, size_t n,
                        struct spot_err *err);
/* Lay out the last commit after the last round; entries that were never taken stay in place.
 * SPOT_EDATA also if such an entry is in the way. */
int spot_rank_files_put_last(struct spot_rank_files *files, struct spot_state_store *store,
                             const struct spot_state_record *const *record, size_t n,
                             struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_FILES_H */
