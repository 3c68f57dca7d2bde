/* SPDX-License-Identifier: MIT */
/* store_thread.c - writes a generation, and watches the newest, during the training. */
#include "checkpoint/store_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/out.h"
#include "common/safe_dir.h"
#include "common/threads.h"

enum { KEEP = 2 };

static const double watch_s = 1;       /* between checks of the newest generation */
static const double drop_share = 0.05; /* maximum share of the time spent on deletes that fail */
static const double look_s = 0.05;     /* between checks of gives_up() */
static const double end_s = 1;         /* for the thread to end after that */

/* True if there are generations of another job, which this one would take for damaged ones of its
 * own. */
static bool has_others(const struct spot_generations *disk)
{
    size_t n;
    int64_t *const step = spot_generation_list(disk, &n);
    bool has = false;

    for (size_t i = 0; i < n && !has; i++) {
        struct spot_err why = { 0 };

        has = spot_generation_check(disk, step[i], &why) && why.code == SPOT_EUSAGE;
    }
    free(step);
    return has;
}

/* Recreate a directory that was deleted while the job runs, and report that in *note. */
static int return_dir(struct spot_store *s, struct spot_err *note, struct spot_err *err)
{
    struct stat now, had;

    if (!stat(s->disk.dir, &now) && !fstat(s->lock_fd, &had) && spot_safe_is_same(&now, &had))
        return 0;
    if (has_others(&s->disk))
        return spot_err_set(err, SPOT_ESYS,
                            "'%s' is another directory now, with the state of another job: it is "
                            "not changed, and no state is written",
                            s->disk.dir);
    if (!mkdir(s->disk.dir, 0700)) {
        if (spot_sync_directory(s->disk.dir, err))
            return -1;
    } else if (errno != EEXIST) {
        return spot_err_sys(err, "cannot make '%s'", s->disk.dir);
    }
    if (spot_store_lock(s, err))
        return -1;
    spot_err_set(note, SPOT_EDATA, "'%s' was deleted: it has been made again", s->disk.dir);
    return 0;
}

/* Check only cheaply: reading the whole previous generation for each new one would cost as much as
 * writing it. */
static bool is_sound(const struct spot_store *s, int64_t step, struct spot_err *why)
{
    if (step == s->committed_step && spot_generation_is_untouched(&s->disk, step, s->committed))
        return true;
    return !spot_generation_verify(&s->disk, step, why);
}

/* Reports of durable generations wait during a delete, so a command that fails to delete gets only
 * a share of the time. */
static int drop(struct spot_store *s, int64_t step, struct spot_err *note)
{
    const double from_s = spot_clock_s();
    struct spot_err why;

    if (from_s < s->drop_again_s)
        return -1;
    if (!spot_generation_drop(&s->disk, step, &why))
        return 0;
    s->drop_again_s = spot_clock_s() + (spot_clock_s() - from_s) / drop_share;
    if (!note->code)
        spot_err_set(note, why.code, "%.400s; the state of step %lld stays there too", why.msg,
                     (long long)step);
    return -1;
}

/* Keep the newest KEEP valid generations. A damaged one must not count: before another is dropped
 * in its favour, it is read, and set aside. */
static void drop_old(struct spot_store *s, int64_t written, struct spot_err *note)
{
    size_t n, n_sound = 0;
    int64_t *step = spot_generation_list(&s->disk, &n);

    for (size_t i = 0; i < n && n_sound + (n - i) > KEEP; i++) {
        struct spot_err why = { 0 };

        if (n_sound == KEEP) {
            if (drop(s, step[i], note))
                break;
        } else if (step[i] == written || is_sound(s, step[i], &why)) {
            n_sound++;
        } else if (spot_generation_is_damage(&why)) {
            spot_generation_set_aside(&s->disk, step[i]);
            spot_err_set(note, SPOT_EDATA, "%.400s; that generation is set aside", why.msg);
        }
    }
    free(step);
}

/* A new generation: its directory is created unless a holder has done so. */
static void begin_spool(struct spot_store *s, uint64_t serial, int64_t step, uint64_t nonce)
{
    struct spot_spool *const spool = &s->spool;
    struct spot_written *const written = spool->written;

    memset(written, 0, (size_t)s->disk.n_bundle * sizeof(*written));
    *spool = (struct spot_spool){ .serial = serial, .written = written };
    if (!return_dir(s, &spool->note, &spool->err) && !nonce)
        (void)spot_generation_begin(&s->disk, step, &spool->err);
}

static void write_queued(struct spot_store *s, const struct spot_queued *q)
{
    if (s->spool.serial != q->serial)
        begin_spool(s, q->serial, q->step, q->nonce);
    if (!s->spool.err.code)
        (void)spot_generation_put(&s->disk, q->step, q->nonce, q->bundle, q->data, q->n_byte,
                                  &s->spool.written[q->bundle], &s->spool.err);
}

static int commit(struct spot_store *s, struct spot_err *err)
{
    struct spot_generations disk = s->disk;

    if (s->spool.serial != s->work_serial)
        begin_spool(s, s->work_serial, s->work_step, s->work_nonce);
    for (int b = 0; b < s->disk.n_bundle; b++)
        if (!s->work[b].is_queued)
            s->spool.written[b] = s->work[b].written;
    if (s->spool.err.code) {
        *err = s->spool.err;
        return -1;
    }
    memcpy(disk.chain, s->work_chain, sizeof(disk.chain));
    return spot_generation_commit(&disk, s->work_step, s->work_nonce, s->spool.written, err);
}

/* Commits the generation. Returns 1, with a warning in *err if there is one, or -1 with *err. */
static int write_work(struct spot_store *s, struct spot_err *err)
{
    if (!commit(s, err)) {
        drop_old(s, s->work_step, &s->spool.note);
        s->committed_step = s->work_step;
        s->committed = spot_generation_hash(&s->disk, s->work_step);
        *err = s->spool.note;
        return 1;
    }
    spot_generation_drop_tmp(&s->disk, s->work_step, s->work_nonce);
    return -1;
}

/* With the lock: check that the newest generation still exists. */
static void watch(struct spot_store *s)
{
    const int64_t step = s->watched;
    bool is_gone;

    if (step < 0 || s->is_gone)
        return;
    pthread_mutex_unlock(&s->lock);
    is_gone = !spot_generation_exists(&s->disk, step);
    pthread_mutex_lock(&s->lock);
    if (!is_gone || step != s->watched)
        return;
    s->is_gone = true;
    (void)!write(s->news[1], "", 1);
}

/* With the lock: wait until there is work, or a check is due. */
static void await_work(struct spot_store *s)
{
    const double until_s = spot_clock_s() + watch_s;

    while (!s->has_work && !s->first && !s->stop)
        if (spot_cond_wait_until(&s->changed, &s->lock, until_s) == ETIMEDOUT)
            return;
}

/* The next queued bundle that may be written. Call with the lock held. A complete generation is
 * committed before bundles of the next one are written. */
static struct spot_queued *next_queued(struct spot_store *s)
{
    struct spot_queued *const q = s->first;

    if (!q || (s->has_work && q->serial > s->work_serial))
        return NULL;
    s->first = q->next;
    if (!s->first)
        s->end = &s->first;
    return q;
}

/* With the lock: write a queued bundle, unless its generation was given up. */
static void do_queued(struct spot_store *s, struct spot_queued *q)
{
    const bool is_wanted = q->serial == s->serial || (s->has_work && q->serial == s->work_serial);

    pthread_mutex_unlock(&s->lock);
    if (is_wanted)
        write_queued(s, q);
    free(q->data);
    pthread_mutex_lock(&s->lock);
    s->queued_byte -= q->n_byte;
    free(q);
}

/* Does the work that is due. Call with the lock held. */
static void do_work(struct spot_store *s)
{
    struct spot_err err = { 0 };
    int rc;

    pthread_mutex_unlock(&s->lock);
    rc = write_work(s, &err);
    pthread_mutex_lock(&s->lock);
    memset(s->work, 0, (size_t)s->disk.n_bundle * sizeof(*s->work));
    s->result = rc;
    s->result_err = err;
    s->has_work = false;
    s->has_result = true;
    (void)!write(s->news[1], "", 1);
}

static void *run_thread(void *user)
{
    struct spot_store *s = user;

    pthread_mutex_lock(&s->lock);
    while (s->has_work || !s->stop) {
        struct spot_queued *q;

        await_work(s);
        if ((q = next_queued(s)))
            do_queued(s, q);
        else if (s->has_work)
            do_work(s);
        else
            watch(s);
    }
    s->has_ended = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int spot_store_start(struct spot_store *s, struct spot_err *err)
{
    if (spot_thread_start(&s->thread, run_thread, s, err))
        return -1;
    s->has_thread = true;
    return 0;
}

bool spot_store_end(struct spot_store *s)
{
    double until_s = INFINITY;
    bool has_ended;

    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->changed);
    while (!s->has_ended && spot_clock_s() < until_s) {
        (void)spot_cond_wait_until(&s->changed, &s->lock, spot_clock_s() + look_s);
        if (isinf(until_s) && s->gives_up && s->gives_up())
            until_s = spot_clock_s() + end_s;
    }
    has_ended = s->has_ended;
    pthread_mutex_unlock(&s->lock);
    if (has_ended)
        pthread_join(s->thread, NULL);
    return has_ended;
}
