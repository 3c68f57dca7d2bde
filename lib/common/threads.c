/* SPDX-License-Identifier: MIT */
#include "common/threads.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "common/xalloc.h"

int spot_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg, struct spot_err *err)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
    sigset_t mask, before;
    int failed;

    sigfillset(&mask);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        sigdelset(&mask, own[i]);
    pthread_sigmask(SIG_SETMASK, &mask, &before); /* a thread inherits the signal mask */
    failed = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failed;
    return failed ? spot_err_sys(err, "cannot start a thread") : 0;
}

void spot_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

int spot_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, double until_s)
{
    struct timespec at = { .tv_sec = (time_t)until_s };

    at.tv_nsec = (long)((until_s - (double)at.tv_sec) * 1e9);
    return pthread_cond_timedwait(cond, lock, &at);
}

struct spot_thread {
    pthread_t thread;
    void (*work)(void *arg);
    void *arg;
    atomic_bool is_done;
    struct spot_thread *next;
};

static void *run(void *user)
{
    struct spot_thread *m = user;

    m->work(m->arg);
    atomic_store(&m->is_done, true);
    return NULL;
}

static void join(struct spot_threads *threads, bool are_all)
{
    struct spot_thread **at = &threads->first, *m;

    while ((m = *at)) {
        if (!are_all && !atomic_load(&m->is_done)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        pthread_join(m->thread, NULL);
        free(m);
    }
}

int spot_threads_start(struct spot_threads *threads, void (*work)(void *arg), void *arg,
                       struct spot_err *err)
{
    struct spot_thread *m = spot_xcalloc(1, sizeof(*m));

    join(threads, false);
    m->work = work;
    m->arg = arg;
    if (spot_thread_start(&m->thread, run, m, err)) {
        free(m);
        return -1;
    }
    m->next = threads->first;
    threads->first = m;
    return 0;
}

void spot_threads_join(struct spot_threads *threads)
{
    join(threads, true);
}
