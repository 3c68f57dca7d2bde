/* SPDX-License-Identifier: MIT */
#include "shard/lane.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/threads.h"
#include "common/xalloc.h"

struct job {
    void *slot;
    int rc;
    bool is_done;
    struct spot_err err;
};

/* Numbers of jobs only grow; job i lies in job[i % n]. reaped <= begun <= given <= reaped + n. */
struct spot_lane {
    spot_lane_fn work;
    struct job *job;
    size_t n;
    size_t given, begun, reaped;
    bool is_closing;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    pthread_t *thread;
    int n_thread;
};

void spot_lane_size(uint64_t n_job, uint64_t slot_byte, int *n_worker, size_t *n_slot)
{
    const uint64_t most = SPOT_LANE_BYTE / (slot_byte ? slot_byte : 1);
    const uint64_t n = most < 2 * n_job ? most : 2 * n_job;

    *n_slot = n_job > 1 && n > 1 ? (size_t)n : 1;
    *n_worker = n_job < *n_slot ? (int)n_job : (int)*n_slot;
}

static void *run(void *user)
{
    struct spot_lane *lane = user;

    pthread_mutex_lock(&lane->lock);
    while (!lane->is_closing) {
        struct job *job;

        if (lane->begun == lane->given) {
            pthread_cond_wait(&lane->wake, &lane->lock);
            continue;
        }
        job = &lane->job[lane->begun++ % lane->n];
        pthread_mutex_unlock(&lane->lock);
        job->rc = lane->work(job->slot, &job->err);
        pthread_mutex_lock(&lane->lock);
        job->is_done = true;
        pthread_cond_signal(&lane->done);
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

struct spot_lane *spot_lane_new(int n_worker, void *const *slot, size_t n_slot, spot_lane_fn work,
                                struct spot_err *err)
{
    struct spot_lane *lane = spot_xcalloc(1, sizeof(*lane));
    const int n = n_worker > 1 ? n_worker : 0;

    assert(n_slot > 0);
    lane->work = work;
    lane->n = n_slot;
    lane->job = spot_xcalloc(n_slot, sizeof(*lane->job));
    for (size_t i = 0; i < n_slot; i++)
        lane->job[i].slot = slot[i];
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->wake, NULL);
    pthread_cond_init(&lane->done, NULL);
    lane->thread = spot_xcalloc((size_t)n, sizeof(*lane->thread));
    for (; lane->n_thread < n; lane->n_thread++)
        if (spot_thread_start(&lane->thread[lane->n_thread], run, lane, err))
            break;
    if (lane->n_thread == n)
        return lane;
    spot_lane_free(lane);
    return NULL;
}

void spot_lane_free(struct spot_lane *lane)
{
    if (!lane)
        return;
    pthread_mutex_lock(&lane->lock);
    lane->is_closing = true;
    pthread_cond_broadcast(&lane->wake);
    pthread_mutex_unlock(&lane->lock);
    for (int i = 0; i < lane->n_thread; i++)
        pthread_join(lane->thread[i], NULL);
    pthread_cond_destroy(&lane->done);
    pthread_cond_destroy(&lane->wake);
    pthread_mutex_destroy(&lane->lock);
    free(lane->thread);
    free(lane->job);
    free(lane);
}

void *spot_lane_free_slot(struct spot_lane *lane)
{
    return lane->given - lane->reaped < lane->n ? lane->job[lane->given % lane->n].slot : NULL;
}

void spot_lane_submit(struct spot_lane *lane)
{
    struct job *job = &lane->job[lane->given % lane->n];

    assert(lane->given - lane->reaped < lane->n);
    job->is_done = false;
    if (!lane->n_thread) {
        job->rc = lane->work(job->slot, &job->err);
        job->is_done = true;
        lane->given++;
        return;
    }
    pthread_mutex_lock(&lane->lock);
    lane->given++;
    pthread_cond_signal(&lane->wake);
    pthread_mutex_unlock(&lane->lock);
}

void *spot_lane_reap(struct spot_lane *lane, int *rc, struct spot_err *err)
{
    struct job *job = &lane->job[lane->reaped % lane->n];

    if (lane->reaped == lane->given)
        return NULL;
    pthread_mutex_lock(&lane->lock);
    while (!job->is_done)
        pthread_cond_wait(&lane->done, &lane->lock);
    pthread_mutex_unlock(&lane->lock);
    *rc = job->rc;
    if (job->rc && err)
        *err = job->err;
    lane->reaped++;
    return job->slot;
}
