/* SPDX-License-Identifier: MIT */
/* dir_lock.h - a directory that one process works in at a time.
 *
 * The lock is flock's on the directory itself: it leaves no file behind, and ends with the process
 * that holds it, however that ends. Take it before anything in the directory is read.
 */
#ifndef SPOT_COMMON_DIR_LOCK_H
#define SPOT_COMMON_DIR_LOCK_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Make `dir` (mode 0700) unless it is there; its parent must be. Returns 0, or -1 with *err:
 * SPOT_EUSAGE for the empty path; SPOT_ESYS where it cannot be made, is no directory, or may not be
 * read, written and searched. */
int spot_dir_make(const char *dir, struct spot_err *err);

/* Lock it. Returns a descriptor of the directory, closed by exec, to be closed in order to unlock;
 * or -1 with *err (SPOT_ESYS), at once, where another holds the lock. */
int spot_dir_lock(const char *dir, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_DIR_LOCK_H */
