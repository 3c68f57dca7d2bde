/* SPDX-License-Identifier: MIT */
/* desk.h - a thread beside a loop, for work that may take longer than the loop can wait.
 *
 * Jobs are done one at a time, the smallest first: a large one holds up no other for longer than
 * itself. All functions are for the loop's thread.
 */
#ifndef SPOT_COMMON_DESK_H
#define SPOT_COMMON_DESK_H

#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_desk_job {
    void (*work)(struct spot_desk_job *job); /* runs on the thread */
    void (*done)(
        struct spot_desk_job *job); /* on the loop, for each job; the caller owns it again */
    size_t size;                    /* approximate amount of work */
    struct spot_desk_job *next;
};

struct spot_desk;

/* NULL with *err (SPOT_ESYS). */
struct spot_desk *spot_desk_new(struct spot_err *err);
/* Waits for the job in progress; those that were not begun are done without work. May be NULL. */
void spot_desk_free(struct spot_desk *desk);

void spot_desk_put(struct spot_desk *desk, struct spot_desk_job *job_take);
int spot_desk_fd(const struct spot_desk *desk); /* call spot_desk_run when it is readable */
void spot_desk_run(struct spot_desk *desk);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_DESK_H */
