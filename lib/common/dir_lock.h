/* SPDX-License-Identifier: MIT */
/* dir_lock.h - a lock on a directory, so that one process at a time works in it.
 *
 * The lock is flock's on the directory itself: it leaves no file behind, and ends with the process
 * that holds it. Lock before reading anything in the directory.
 */
#ifndef SPOT_COMMON_DIR_LOCK_H
#define SPOT_COMMON_DIR_LOCK_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Create `dir` (mode 0700) if it does not exist; its parent must. Returns 0, or -1 with *err:
 * SPOT_EUSAGE for the empty path; SPOT_ESYS if it cannot be created, is not a directory, or may not
 * be read, written and searched. */
int spot_dir_make(const char *dir, struct spot_err *err);

/* Lock it. Returns a descriptor of the directory, close-on-exec; closing it unlocks. Returns -1
 * with *err (SPOT_ESYS) at once if another process holds the lock. */
int spot_dir_lock(const char *dir, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_DIR_LOCK_H */
