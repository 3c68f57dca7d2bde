/* SPDX-License-Identifier: MIT */
/* out.h - a file that appears complete or not at all.
 *
 * Writes go to PATH.tmp.PID in the same directory; commit syncs, renames and syncs the directory.
 * SIGINT, SIGTERM and SIGHUP remove the first few of these files before ending the process, unless
 * the tool handles or ignores them when the file is opened.
 */
#ifndef SPOT_COMMON_OUT_H
#define SPOT_COMMON_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_out {
    FILE *file; /* write here */
    char *path; /* NULL: stdout */
    char *temporary;
    int error; /* errno of a write that failed before hurry; 0: none */
};

/* Open a file named by the user. `path` NULL or "-" is stdout. A path that is not a regular file (a
 * pipe, /dev/null) is written in place; symbolic links are followed, see spot_out_target. Returns
 * 0, or -1 with *err (SPOT_ESYS; SPOT_EUSAGE for the empty path). */
int spot_out_open(struct spot_out *out, const char *path, struct spot_err *err);

/* The same for a file whose name this program chose, in a directory of state or of a model: a
 * symbolic link is replaced, not followed. */
int spot_out_open_own(struct spot_out *out, const char *path, struct spot_err *err);

/* The file to which `path` leads through symbolic links; it need not exist. Freed by the caller.
 * NULL with *err (SPOT_ESYS) for a link that another user may have created: one owned by another
 * user, or in a directory that others may write. */
char *spot_out_target(const char *path, struct spot_err *err);

/* Until unguarded, a signal that ends this process and that the tool does not handle first removes
 * `name`, such as a socket's. At most 8 at a time, including unfinished files of spot_out. */
void spot_out_guard(const char *name);
void spot_out_unguard(const char *name);

/* Remove temporary files of `path` left by killed processes of this machine. Only for a path that
 * no other machine writes: its processes would look dead. */
void spot_out_sweep(const char *path);

/* True if `path` is something other than a regular file, which a rename would destroy. */
bool spot_out_is_special(const char *path);

/* Start writing to disk what was written so far, so that commit has less to wait for. Call it in
 * the thread that wrote, if another one commits: errors are kept. */
void spot_out_hurry(struct spot_out *out);

/* Flush, report a full disk, rename into place. *out is released either way. */
int spot_out_commit(struct spot_out *out, struct spot_err *err);

/* Sync the directory that contains `path`, so that renamed and created files survive a power
 * failure. Returns 0, or -1 with *err (SPOT_ESYS). Also 0 where this is impossible: a file system
 * without directory sync (EINVAL), a directory that we may write to but not read. */
int spot_sync_directory(const char *path, struct spot_err *err);

/* Discard the unfinished file. Legal after commit and on a zeroed struct. */
void spot_out_discard(struct spot_out *out);

/* commit when rc is 0, else discard; returns the resulting rc. */
int spot_out_finish(struct spot_out *out, int rc, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_OUT_H */
