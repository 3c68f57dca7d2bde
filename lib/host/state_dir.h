/* SPDX-License-Identifier: MIT */
/* state_dir.h - where a node keeps states: a directory in memory, or one named by the user.
 *
 *   ROOT/live           SPOT_STATE_DIR, the program's directory
 *   ROOT/chunk, held    commits (state_store.h)
 *   ROOT/lock           held by the agent and its ranks' guard
 *   ROOT/socket         SPOT_SOCKET (rank_socket.h); elsewhere if that path is too long for a
 *                       socket
 *
 * Without a name it is a new one in /dev/shm, or in $TMPDIR if that does not exist; it is removed
 * with the agent. If the agent was killed, the user's next agent on this machine removes it. With a
 * name it is the first of NAME/0, NAME/1, ... that no other agent uses, and it is kept: a restarted
 * agent finds what it held.
 *
 * Ranks run as the same user and may replace these directories, by a link to a larger disk or by a
 * directory of their own. Such replacements are never emptied: both directories are accessed only
 * through descriptors, and are left alone when the paths no longer lead to them. `lock` identifies
 * the directory that was ROOT/live, for the next agent after a killed one.
 */
#ifndef SPOT_HOST_STATE_DIR_H
#define SPOT_HOST_STATE_DIR_H

#include <stdbool.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_STATE_DIR_ENV "SPOT_STATE_DIR"

struct spot_state_dir {
    char *root, *live;
    char *socket;                  /* a path at which no process listens */
    char *aside;                   /* a directory created for the socket, or NULL */
    int base_fd, root_fd, live_fd; /* parent of root, root, and live; -1: not open */
    int aside_fd, lock_fd;
    bool is_kept;
};

/* `name` may be NULL. Returns 0, or -1 with *err (SPOT_ESYS); release it in any case. */
int spot_state_dir_open(struct spot_state_dir *dir, const char *name, struct spot_err *err);
void spot_state_dir_release(struct spot_state_dir *dir);

/* Check that ROOT/live is still the directory that was created; call this before emptying, filling
 * or reading it. Returns 0, or -1 with *err (SPOT_ESYS), which describes what is there instead. */
int spot_state_dir_check(const struct spot_state_dir *dir, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_DIR_H */
