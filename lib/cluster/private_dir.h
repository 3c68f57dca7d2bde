/* SPDX-License-Identifier: MIT */
/* private_dir.h - the socket directory of a job that listens at no given address.
 *
 * The coordinator creates and removes it. If the coordinator is killed, the last of its local
 * workers removes it; if all were killed, the next job on this machine does.
 */
#ifndef SPOT_CLUSTER_PRIVATE_DIR_H
#define SPOT_CLUSTER_PRIVATE_DIR_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Environment variable of local workers: their coordinator's directory. */
#define SPOT_PRIVATE_DIR_ENV "SPOT_RUN_DIR"

/* Create a directory NAME-XXXXXX in $TMPDIR, for a socket `job`; freed by the caller. Removes
 * directories that dead jobs left there under such names. NULL with *err. */
char *spot_private_dir_new(const char *name, struct spot_err *err);

/* Remove the sockets in it that no longer accept connections, and the directory if it is then
 * empty. No effect while the coordinator answers. */
void spot_private_dir_clear(const char *dir);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_PRIVATE_DIR_H */
