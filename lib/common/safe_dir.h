/* SPDX-License-Identifier: MIT */
/* safe_dir.h - access to files below a directory that other processes may change at any time. A
 * path is resolved again at each use, and a process that may write one of its directories may have
 * put a link, another directory or a pipe in place of what was checked. So a directory is opened
 * once, its descriptor is kept, and everything below is opened relative to it: links are not
 * followed, nothing above it is reached, and no mount is entered. Functions return -1 with errno,
 * where they have no err.
 */
#ifndef SPOT_COMMON_SAFE_DIR_H
#define SPOT_COMMON_SAFE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Open a path of one or more names below a directory. Links among them are ELOOP or ENOTDIR, ".."
 * and paths that leave the directory are EXDEV. Never blocks, even on a pipe (O_NONBLOCK). */
int spot_safe_open(int dir_fd, const char *path, int flags, mode_t mode);
/* Open a regular file for reading; other types are EINVAL. `st` may be NULL. */
int spot_safe_open_file(int dir_fd, const char *path, struct stat *st);
/* Open a directory, which is created if it does not exist. */
int spot_safe_make_dir(int dir_fd, const char *name);
/* Create a new file and the directories above it; EEXIST if the name is in use. */
int spot_safe_create(int dir_fd, const char *path, mode_t mode);
/* Replace a file atomically, mode 0600: written beside it, and renamed when it is whole. */
int spot_safe_replace(int dir_fd, const char *name, const void *data, size_t n_byte,
                      bool does_sync);

bool spot_safe_is_same(const struct stat *a, const struct stat *b);
/* True if the name still refers to the file that is open as fd. */
bool spot_safe_is_at(int dir_fd, const char *name, int fd);

/* Remove the contents of a directory, or the directory as well, or one file, of any depth. Links
 * are removed and not followed; mounts, and entries without permission, stay. Returns 0, or -1 with
 * *err, which names the first remaining entry. */
int spot_safe_empty(int dir_fd, struct spot_err *err);
int spot_safe_remove(int dir_fd, const char *name, struct spot_err *err);
/* The same for a path whose directories the caller trusts. */
int spot_safe_remove_path(const char *path, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_SAFE_DIR_H */
