/* SPDX-License-Identifier: MIT */
#include "common/threads.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/xalloc.h"

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
    errno = pthread_create(&m->thread, NULL, run, m);
    if (errno) {
        free(m);
        return spot_err_sys(err, "cannot start a thread");
    }
    m->next = threads->first;
    threads->first = m;
    return 0;
}

void spot_threads_join(struct spot_threads *threads)
{
    join(threads, true);
}
