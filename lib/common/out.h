/* SPDX-License-Identifier: MIT */
/* out.h - a file that appears complete or not at all.
 *
 * Writes go to PATH.tmp.PID in the same directory; commit syncs, renames and syncs the directory.
 * SIGINT, SIGTERM and SIGHUP remove the first few of these files before they end the process, where
 * the tool has no handler of its own at the time of opening and does not ignore them.
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
    int error; /* errno of a write that failed before hurry; 0: none did */
};

/* `path` NULL or "-" is stdout. A path that is no regular file (a pipe, /dev/null)
 * is written in place. Returns 0, or -1 with *err (SPOT_ESYS; SPOT_EUSAGE for the empty path). */
int spot_out_open(struct spot_out *out, const char *path, struct spot_err *err);

/* A signal that ends this process and that the tool does not handle removes `name` first, such as
 * that of a socket; until unguarded. At most 8 at a time, unfinished files of spot_out included. */
void spot_out_guard(const char *name);
void spot_out_unguard(const char *name);

/* Remove what processes that were killed on this machine left of writing `path`. For one who alone
 * writes there: another machine's process would look dead. */
void spot_out_sweep(const char *path);

/* Is there something at `path` that is no regular file? A rename would destroy it. */
bool spot_out_is_special(const char *path);

/* What was written so far begins to go to the disk, so that commit has less to wait for. To be
 * called by the thread that wrote, where it is not the one that commits: errors are kept. */
void spot_out_hurry(struct spot_out *out);

/* Flush, report a full disk, put the file in its place. *out is released either way. */
int spot_out_commit(struct spot_out *out, struct spot_err *err);

/* What was renamed or made in the directory that holds `path` stays so when the power fails.
 * Returns 0, or -1 with *err (SPOT_ESYS). 0 also where that cannot be asked for: a file system that
 * has no sync of directories (EINVAL), a directory that we may write to but not read. */
int spot_sync_directory(const char *path, struct spot_err *err);

/* Throw the unfinished file away. Legal after commit and on a zeroed struct. */
void spot_out_discard(struct spot_out *out);

/* commit when rc is 0, else discard; returns the resulting rc. */
int spot_out_finish(struct spot_out *out, int rc, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_OUT_H */
