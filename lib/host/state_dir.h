/* SPDX-License-Identifier: MIT */
/* state_dir.h - where a node keeps states: a directory in memory, or one that the user names.
 *
 *   ROOT/live           SPOT_STATE_DIR, the program's own
 *   ROOT/chunk, held    what was committed (state_store.h)
 *   ROOT/lock           held by the agent and its ranks' guard
 *   ROOT/socket         SPOT_SOCKET (rank_socket.h); elsewhere if that is too long for a socket
 *
 * Without a name it is a new one in /dev/shm, or in $TMPDIR where there is none; it goes with the
 * agent. One whose agent was killed is removed by the next agent of the user on this machine. Below
 * a name it is the first of NAME/0, NAME/1, ... that no other agent has, and it stays: an agent
 * that is started again finds what it held.
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
    char *socket; /* a path that no process listens at */
    char *aside;  /* a directory for it alone; NULL */
    int lock_fd;
    bool is_kept;
};

/* `name` may be NULL. Returns 0, or -1 with *err (SPOT_ESYS); release it in any case. */
int spot_state_dir_open(struct spot_state_dir *dir, const char *name, struct spot_err *err);
void spot_state_dir_release(struct spot_state_dir *dir);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_DIR_H */
