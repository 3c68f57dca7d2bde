/* SPDX-License-Identifier: MIT */
/* threads.h - the one way to start a thread, and groups of short-lived threads that are all joined.
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

/* Run fn(arg) in a new thread with signals blocked, which are left to the main thread. Faults of
 * the thread itself (SIGSEGV and the like) are not blocked. Returns 0, or -1 with *err (SPOT_ESYS);
 * *thread is then unset. */
int spot_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg, struct spot_err *err);

/* A condition whose waits do not jump when the system clock is set. */
void spot_cond_init(pthread_cond_t *cond);
/* Wait, with the lock held, for a signal, a spurious wake-up, or until spot_clock_s() is until_s.
 * Returns 0 or ETIMEDOUT. */
int spot_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, double until_s);

struct spot_thread;

/* A group of threads. Used by one thread; {NULL} is an empty group. */
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
