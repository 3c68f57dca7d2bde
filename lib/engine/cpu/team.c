/* SPDX-License-Identifier: MIT */
#include "engine/cpu/team.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/threads.h"
#include "common/xalloc.h"

struct member {
    struct spot_team *team;
    pthread_t thread;
    int index;
};

struct spot_team {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    pthread_barrier_t meeting;
    pthread_mutex_t soon_lock; /* for threads that sleep at a short barrier */
    pthread_cond_t soon;
    int n_here, turn, n_asleep; /* atomic */
    uint64_t round;             /* number of the job; a thread runs each once */
    int n_thread, n_started, n_busy;
    bool is_closed;
    spot_team_fn fn;
    void *user;
    struct member member[];
};

static void *serve(void *arg)
{
    const struct member *const me = arg;
    struct spot_team *const team = me->team;
    uint64_t seen = 0;

    pthread_mutex_lock(&team->lock);
    for (;;) {
        spot_team_fn fn;
        void *user;

        while (team->round == seen && !team->is_closed)
            pthread_cond_wait(&team->start, &team->lock);
        if (team->is_closed)
            break;
        seen = team->round;
        fn = team->fn;
        user = team->user;
        pthread_mutex_unlock(&team->lock);
        fn(user, me->index, team->n_thread);
        pthread_mutex_lock(&team->lock);
        if (--team->n_busy == 0)
            pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

static int start_members(struct spot_team *team, struct spot_err *err)
{
    int rc = 0;

    for (int i = 1; i < team->n_thread && !rc; i++) {
        struct member *const m = &team->member[i];

        *m = (struct member){ .team = team, .index = i };
        rc = spot_thread_start(&m->thread, serve, m, err);
        if (!rc)
            team->n_started++;
    }
    return rc;
}

struct spot_team *spot_team_new(int n_thread, struct spot_err *err)
{
    struct spot_team *team;

    assert(n_thread >= 1);
    team = spot_xcalloc(1, sizeof(*team) + (size_t)n_thread * sizeof(struct member));
    team->n_thread = n_thread;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->start, NULL);
    pthread_cond_init(&team->done, NULL);
    pthread_barrier_init(&team->meeting, NULL, (unsigned)n_thread);
    pthread_mutex_init(&team->soon_lock, NULL);
    pthread_cond_init(&team->soon, NULL);
    if (start_members(team, err)) {
        spot_team_free(team);
        return NULL;
    }
    return team;
}

void spot_team_free(struct spot_team *team)
{
    if (!team)
        return;
    pthread_mutex_lock(&team->lock);
    team->is_closed = true;
    pthread_cond_broadcast(&team->start);
    pthread_mutex_unlock(&team->lock);
    for (int i = 1; i <= team->n_started; i++)
        pthread_join(team->member[i].thread, NULL);
    pthread_cond_destroy(&team->done);
    pthread_barrier_destroy(&team->meeting);
    pthread_cond_destroy(&team->soon);
    pthread_mutex_destroy(&team->soon_lock);
    pthread_cond_destroy(&team->start);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

void spot_team_run(struct spot_team *team, spot_team_fn fn, void *user)
{
    if (team->n_thread > 1) {
        pthread_mutex_lock(&team->lock);
        assert(team->n_busy == 0);
        team->fn = fn;
        team->user = user;
        team->n_busy = team->n_thread - 1;
        team->round++;
        pthread_cond_broadcast(&team->start);
        pthread_mutex_unlock(&team->lock);
    }
    fn(user, 0, team->n_thread);
    if (team->n_thread > 1) {
        pthread_mutex_lock(&team->lock);
        while (team->n_busy)
            pthread_cond_wait(&team->done, &team->lock);
        pthread_mutex_unlock(&team->lock);
    }
}

void spot_team_meet(struct spot_team *team)
{
    if (team->n_thread > 1)
        pthread_barrier_wait(&team->meeting);
}

/* Either the last thread to arrive sees that another is about to sleep, or the latter sees the new
 * turn. */
static void sleep_until_turn(struct spot_team *team, int turn)
{
    pthread_mutex_lock(&team->soon_lock);
    __atomic_fetch_add(&team->n_asleep, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&team->turn, __ATOMIC_SEQ_CST) == turn)
        pthread_cond_wait(&team->soon, &team->soon_lock);
    __atomic_fetch_sub(&team->n_asleep, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&team->soon_lock);
}

void spot_team_meet_soon(struct spot_team *team)
{
    enum { LOOKS = 1000 }; /* some tens of microseconds, the cost of sleeping and waking */
    const int turn = __atomic_load_n(&team->turn, __ATOMIC_ACQUIRE);

    if (__atomic_fetch_add(&team->n_here, 1, __ATOMIC_ACQ_REL) == team->n_thread - 1) {
        __atomic_store_n(&team->n_here, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&team->turn, turn + 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&team->n_asleep, __ATOMIC_SEQ_CST)) {
            pthread_mutex_lock(&team->soon_lock);
            pthread_cond_broadcast(&team->soon);
            pthread_mutex_unlock(&team->soon_lock);
        }
        return;
    }
    for (int i = 0; i < LOOKS; i++) {
        if (__atomic_load_n(&team->turn, __ATOMIC_ACQUIRE) != turn)
            return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    sleep_until_turn(team, turn);
}

void spot_team_share(int64_t n, int64_t grain, int thread, int n_thread, int64_t *begin,
                     int64_t *end)
{
    const int64_t n_grain = (n + grain - 1) / grain;

    *begin = n_grain * thread / n_thread * grain;
    *end = n_grain * (thread + 1) / n_thread * grain;
    *begin = *begin > n ? n : *begin;
    *end = *end > n ? n : *end;
}
