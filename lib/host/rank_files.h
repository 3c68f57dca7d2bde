/* SPDX-License-Identifier: MIT */
/* rank_files.h - checkpoints that a script writes in a directory of its own: which of them are
 * whole, and how they come back.
 *
 * A pattern names entries of one directory: files, or directories with all that is in them. Nobody
 * says when one is whole, so it is looked at. A file is whole when nothing has changed it for a
 * moment and no process has it open to write; a directory, when all its files are, and it has the
 * marker that is written last by torch's DCP, HF Trainer or Orbax, or has rested for longer where
 * the first rank runs: elsewhere it may be a part, of which the marker lies there, and which nobody
 * removes. What was not whole when a rank was killed never is.
 *
 * The directory is the user's. What matches and is not of the commit that is laid out is moved to
 * .spot-aside in it, where nothing is replaced, and removed only if it was laid out by us, or is a
 * directory without a file; nothing else is touched. A link is taken as a link if it leads to
 * something below the directory of the link, else it is left out. Where the directory itself
 * becomes a link that it was not before, nothing there is touched. Not thread-safe.
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

/* A round begins. With is_restored, what is there is what was laid out, and no news; with is_first,
 * the first rank runs here. */
void spot_rank_files_begin(struct spot_rank_files *files, bool is_restored, bool is_first);
/* Ranks have been killed or have failed: what is not whole now will not be, until the next round.
 */
void spot_rank_files_freeze(struct spot_rank_files *files);

enum spot_rank_files_state {
    SPOT_FILES_SAME,  /* as they were taken last */
    SPOT_FILES_BUSY,  /* being written */
    SPOT_FILES_READY, /* whole, and not as they were taken last */
};
/* Looks at most every few hundredths of a second. */
enum spot_rank_files_state spot_rank_files_look(struct spot_rank_files *files);
/* The next look is a look: nobody writes any more. */
void spot_rank_files_hurry(struct spot_rank_files *files);
/* What was taken last was refused: it is news again. */
void spot_rank_files_again(struct spot_rank_files *files);
/* The file that is being written, for messages; "": none. Valid until the next look. */
const char *spot_rank_files_busy(const struct spot_rank_files *files);

/* Ranks are told to save; was what was taken last written since? */
void spot_rank_files_mark(struct spot_rank_files *files);
bool spot_rank_files_is_since_mark(const struct spot_rank_files *files);

/* Before the first round: what is whole there is to be taken, as of a job before this one. Of
 * directories those with a marker, if there are any; where a node was killed, not what may have
 * been half written then. spot_rank_files_busy names what another process writes; then adopt again.
 */
void spot_rank_files_adopt(struct spot_rank_files *files);

/* The ranks have ended well: the next node that begins here need not doubt what they wrote last. */
void spot_rank_files_end(struct spot_rank_files *files);
/* None of what is there counts: it goes aside before the next round. */
void spot_rank_files_reject(struct spot_rank_files *files);

/* The directories that are whole here, each with a zero byte behind it. */
void spot_rank_files_list(const struct spot_rank_files *files, struct spot_buf *out);
/* Store those that are whole: of directories only those in `dirs` [n_dirs], a list as above; with
 * is_first all files, else those that were written here in this round. *record as for
 * spot_state_take. Returns 0; 1 when one of them is being written: try again; -1 with *err. */
int spot_rank_files_take(struct spot_rank_files *files, struct spot_state_store *store,
                         const unsigned char *dirs, size_t n_dirs, bool is_first,
                         struct spot_state_record *record, struct spot_err *err);

/* Lay out a commit: records of its places in their order, of two files of one name that of the
 * first place. With none, only what was not whole is moved aside. Returns 0, or -1 with *err as
 * spot_state_lay_out. */
int spot_rank_files_put(struct spot_rank_files *files, struct spot_state_store *store,
                        const struct spot_state_record *const *record, size_t n,
                        struct spot_err *err);
/* The last commit, behind the last round: what was never taken stays where it is. SPOT_EDATA also
 * when that would have to make room. */
int spot_rank_files_put_last(struct spot_rank_files *files, struct spot_state_store *store,
                             const struct spot_state_record *const *record, size_t n,
                             struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_FILES_H */
