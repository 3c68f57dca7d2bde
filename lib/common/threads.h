/* SPDX-License-Identifier: MIT */
/* threads.h - a group of short-lived threads, all of them joined.
 *
 * A detached thread may still be in its destructors (OpenSSL has some) when the process exits.
 */
#ifndef SPOT_COMMON_THREADS_H
#define SPOT_COMMON_THREADS_H

#include <pthread.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_thread;

/* Used by one thread; {NULL} is an empty one. */
struct spot_threads {
    struct spot_thread *first;
};

/* Run work(arg) in a new thread; threads that have finished are joined first, so that any number
 * may be started over time. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_threads_start(struct spot_threads *threads, void (*work)(void *arg), void *arg,
                       struct spot_err *err);

/* Wait for all threads; the group is then empty. */
void spot_threads_join(struct spot_threads *threads);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_THREADS_H */
