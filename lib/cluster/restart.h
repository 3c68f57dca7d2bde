/* SPDX-License-Identifier: MIT */
/* restart.h - decides when a worker that ended is restarted, and receives its last message. The
 * first restart is immediate. A worker that keeps failing, for example because a file cannot be
 * read, is restarted after growing delays, and finally no more. A worker that was killed by others
 * counts as failed only if it had hardly begun. Pure, except for the first and last messages, which
 * go through an inherited socket.
 */
#ifndef SPOT_CLUSTER_RESTART_H
#define SPOT_CLUSTER_RESTART_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_RESTARTS_MAX = 12, SPOT_LAST_WORDS = 400 };

struct spot_restart {
    int n_failed; /* successive failures */
};

/* A worker ended after lived_s with this status of waitpid(). Returns the seconds until its
 * restart: 0, more after repeated failures, INFINITY for no more restarts. */
double spot_restart_after_s(struct spot_restart *restart, double lived_s, int status);
/* "by signal 9", "with exit status 4" */
void spot_restart_print_end(int status, char how[48]);

/* In the parent: create a pair of sockets for one worker, send it a first message if `first` is
 * not "", and read its last one when it has ended, as plain text, "" for none. In the child, before
 * it becomes the worker: pass the second socket to it. */
int spot_last_words_pair(int fd[2], const char *first, struct spot_err *err);
void spot_last_words_read(int fd, char text[SPOT_LAST_WORDS]);
void spot_last_words_pass(int fd);
/* In the worker: take the inherited socket, once at the start, so that its own children do not
 * inherit it; later write the reason of its end. No effect in a process that another program
 * started: the other end must have been made by the parent process. */
void spot_last_words_take(void);
void spot_last_words_report(const struct spot_err *err);
/* In the worker, after that: the parent's first message; "": none. */
const char *spot_first_words(void);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_RESTART_H */
