/* SPDX-License-Identifier: MIT */
/* safe_dir.h - names in a directory that others may change while we look.
 *
 * A path is looked up anew at each use, and whoever may write one of its directories may have put
 * a link, another directory or a pipe in the place of what was checked. So a directory is opened
 * once, its descriptor is kept, and everything below is reached from there: links are not followed,
 * nothing above it is reached, and no mount is entered. Functions return -1 with errno, where they
 * have no err.
 */
#ifndef SPOT_COMMON_SAFE_DIR_H
#define SPOT_COMMON_SAFE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Open a path of one or more names below a directory. Links among them are ELOOP or ENOTDIR, ".."
 * and what leads elsewhere are EXDEV. It does not wait, whatever is there: see O_NONBLOCK. */
int spot_safe_open(int dir_fd, const char *path, int flags, mode_t mode);
/* To read: a regular file, else EINVAL. *st may be NULL. */
int spot_safe_open_file(int dir_fd, const char *path, struct stat *st);
/* A directory, which is made if it is not there. */
int spot_safe_make_dir(int dir_fd, const char *name);
/* A new file, with the directories above it: EEXIST when the name is taken, whatever by. */
int spot_safe_create(int dir_fd, const char *path, mode_t mode);
/* A file, mode 0600, in the place of what has the name, when it is whole: written to `begin`'s
 * result, or NULL, it gets its name by `end`, unless rc says that it could not be. */
FILE *spot_safe_begin(int dir_fd, const char *name);
int spot_safe_end(FILE *out_take, int dir_fd, const char *name, bool does_sync, int rc);
int spot_safe_replace(int dir_fd, const char *name, const void *data, size_t n_byte,
                      bool does_sync);

bool spot_safe_is_same(const struct stat *a, const struct stat *b);
/* Does the name still mean what is open as fd? */
bool spot_safe_is_at(int dir_fd, const char *name, int fd);

/* Remove what is in a directory, however deep, or such a directory and all, or one file. Links are
 * removed and not followed; a mount stays, and so does what is not ours to remove. Returns 0, or -1
 * with *err that names the first such. */
int spot_safe_empty(int dir_fd, struct spot_err *err);
int spot_safe_remove(int dir_fd, const char *name, struct spot_err *err);
/* The last name of a path, the directories of which are the caller's to trust. */
int spot_safe_remove_path(const char *path, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_SAFE_DIR_H */
