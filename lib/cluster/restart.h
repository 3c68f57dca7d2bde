/* SPDX-License-Identifier: MIT */
/* restart.h - when a worker that ended is started again, and what it said last.
 *
 * One that fails each time, as where a file cannot be read, is started again ever more rarely, and
 * no more in the end; the first time at once. One that was killed by others did not fail unless it
 * had hardly begun. Pure but for the last words, which come through a pipe that it inherits.
 */
#ifndef SPOT_CLUSTER_RESTART_H
#define SPOT_CLUSTER_RESTART_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_RESTARTS_MAX = 12, SPOT_LAST_WORDS = 400 };

struct spot_restart {
    int n_failed; /* in a row */
};

/* It lived for so long and ended with that status of waitpid(). Returns the time until it is to be
 * started again: 0, more if it has failed before, INFINITY if it is given up. */
double spot_restart_after_s(struct spot_restart *restart, double lived_s, int status);
/* "by signal 9", "with exit status 4" */
void spot_restart_print_end(int status, char how[48]);

/* In the parent: a pipe for one worker, of which it reads what was said when that has ended: plain
 * text, "" for nothing. In the child, before it becomes the worker: pass the end to write to it. */
int spot_last_words_pipe(int fd[2], struct spot_err *err);
void spot_last_words_read(int fd, char text[SPOT_LAST_WORDS]);
void spot_last_words_pass(int fd);
/* In the worker, once as it begins: what it inherited, which its own children do not. Then why it
 * ends. No effect in a process that was started by others. */
void spot_last_words_take(void);
void spot_last_words_report(const struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_RESTART_H */
