/* SPDX-License-Identifier: MIT */
/* engine_process.h - the program of an engine: started, watched, stopped.
 *
 * It runs in a process group of its own, with PORT set to a free port of the loopback. All of the
 * group is killed when this process is gone, however it went.
 */
#ifndef SPOT_SERVE_ENGINE_PROCESS_H
#define SPOT_SERVE_ENGINE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ENGINE_WORDS = 512 };

struct spot_engine_process {
    pid_t pid, watcher; /* 0: none */
    int watched, said;  /* an end that the watcher hears of; what the program says */
    int port;
    char words[SPOT_ENGINE_WORDS]; /* the last that it said, a NUL behind */
    size_t n_words;
};

/* Start `command` with a shell. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_engine_process_start(struct spot_engine_process *p, const char *command,
                              struct spot_err *err);
/* Take what it says. Does it run? */
bool spot_engine_process_runs(struct spot_engine_process *p);
/* Resident bytes of the group; what its members share counts for each. */
size_t spot_engine_process_byte(const struct spot_engine_process *p);
/* The last line that it said, without control characters; "" if it said nothing. */
void spot_engine_process_words(const struct spot_engine_process *p, char *line, size_t n);
/* Tell the group to end, and kill it after grace_s. Does nothing if it never began. */
void spot_engine_process_stop(struct spot_engine_process *p, double grace_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_ENGINE_PROCESS_H */
