/* SPDX-License-Identifier: MIT */
/* engine_process.h - the process of an engine: start, watch, stop. It runs in its own process
 * group, with PORT set to a free port of the loopback. The whole group is killed when this process
 * ends for any reason.
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
    int watched, said;  /* pipe to the watcher; output of the program */
    int port;
    char words[SPOT_ENGINE_WORDS]; /* its last output, with a NUL */
    size_t n_words;
};

/* Start `command` with a shell. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_engine_process_start(struct spot_engine_process *p, const char *command,
                              struct spot_err *err);
/* Read its output. Returns true while it runs. */
bool spot_engine_process_runs(struct spot_engine_process *p);
/* Resident bytes of the group; shared memory counts for each process. */
size_t spot_engine_process_byte(const struct spot_engine_process *p);
/* The last line of its output, without control characters; "" if none. */
void spot_engine_process_words(const struct spot_engine_process *p, char *line, size_t n);
/* Send SIGTERM to the group, and SIGKILL after grace_s. No effect if it never started. */
void spot_engine_process_stop(struct spot_engine_process *p, double grace_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_ENGINE_PROCESS_H */
