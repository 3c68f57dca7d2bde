/* SPDX-License-Identifier: MIT */
#include "common/desk.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/threads.h"
#include "common/xalloc.h"

struct spot_desk {
    pthread_t thread;
    bool has_thread;
    int fd; /* readable when a job is finished */
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct spot_desk_job *todo, *finished; /* in the order of arrival */
    bool ends;
};

static void add_last(struct spot_desk_job **list, struct spot_desk_job *job)
{
    while (*list)
        list = &(*list)->next;
    job->next = NULL;
    *list = job;
}

/* Removes the smallest job; of equal ones the first. */
static struct spot_desk_job *take_smallest(struct spot_desk_job **list)
{
    struct spot_desk_job **best = list, *job;

    for (; *list; list = &(*list)->next)
        best = (*list)->size < (*best)->size ? list : best;
    job = *best;
    *best = job->next;
    return job;
}

static void *do_jobs(void *desk)
{
    const uint64_t one = 1;
    struct spot_desk *const d = desk;

    pthread_mutex_lock(&d->lock);
    for (;;) {
        struct spot_desk_job *job;

        while (!d->todo && !d->ends)
            pthread_cond_wait(&d->more, &d->lock);
        if (d->ends)
            break;
        job = take_smallest(&d->todo);
        pthread_mutex_unlock(&d->lock);
        job->work(job);
        pthread_mutex_lock(&d->lock);
        add_last(&d->finished, job);
        (void)!write(d->fd, &one, sizeof(one)); /* fails only if fd is readable already */
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

struct spot_desk *spot_desk_new(struct spot_err *err)
{
    struct spot_desk *const d = spot_xcalloc(1, sizeof(*d));

    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->more, NULL);
    d->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->fd < 0)
        (void)spot_err_sys(err, "cannot make an event");
    d->has_thread = d->fd >= 0 && !spot_thread_start(&d->thread, do_jobs, d, err);
    if (d->has_thread)
        return d;
    spot_desk_free(d);
    return NULL;
}

static void finish_all(struct spot_desk_job *list)
{
    for (struct spot_desk_job *next; list; list = next) {
        next = list->next;
        list->done(list);
    }
}

void spot_desk_free(struct spot_desk *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->ends = true;
    pthread_cond_signal(&d->more);
    pthread_mutex_unlock(&d->lock);
    if (d->has_thread)
        pthread_join(d->thread, NULL);
    finish_all(d->finished);
    finish_all(d->todo);
    pthread_cond_destroy(&d->more);
    pthread_mutex_destroy(&d->lock);
    if (d->fd >= 0)
        close(d->fd);
    free(d);
}

void spot_desk_put(struct spot_desk *d, struct spot_desk_job *job)
{
    pthread_mutex_lock(&d->lock);
    add_last(&d->todo, job);
    pthread_cond_signal(&d->more);
    pthread_mutex_unlock(&d->lock);
}

int spot_desk_fd(const struct spot_desk *d)
{
    return d->fd;
}

void spot_desk_run(struct spot_desk *d)
{
    uint64_t n;
    struct spot_desk_job *finished;

    (void)!read(d->fd, &n, sizeof(n));
    pthread_mutex_lock(&d->lock);
    finished = d->finished;
    d->finished = NULL;
    pthread_mutex_unlock(&d->lock);
    finish_all(finished);
}
