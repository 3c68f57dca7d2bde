/* SPDX-License-Identifier: MIT */
/* private_dir.h - the directory of the sockets of a job that listens nowhere else.
 *
 * The coordinator makes and removes it. One that is killed cannot: then the last of its local
 * workers does, or, when all were killed, the next job on this machine.
 */
#ifndef SPOT_CLUSTER_PRIVATE_DIR_H
#define SPOT_CLUSTER_PRIVATE_DIR_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In the environment of local workers: their coordinator's directory. */
#define SPOT_PRIVATE_DIR_ENV "SPOT_RUN_DIR"

/* A new directory NAME-XXXXXX in $TMPDIR, with a socket `job` to come; freed by the caller.
 * What dead jobs left there under such names is removed. NULL with *err. */
char *spot_private_dir_new(const char *name, struct spot_err *err);

/* Remove the sockets in it at which nobody answers, and the directory if it is empty then. No
 * effect while the coordinator answers. */
void spot_private_dir_clear(const char *dir);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_PRIVATE_DIR_H */
