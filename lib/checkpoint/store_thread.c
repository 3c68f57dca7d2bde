/* SPDX-License-Identifier: MIT */
/* store_thread.c - a generation is written, and the newest watched, beside the training. */
#include "checkpoint/store_state.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/out.h"

enum { PATH_SIZE = SPOT_GENERATION_PATH, KEEP = 2 };

static const time_t watch_s = 1; /* between looks at the newest generation */

/* A directory that was deleted while the job runs is made again. *note says so. */
static int return_dir(struct spot_store *s, struct spot_err *note, struct spot_err *err)
{
    struct stat now, had;

    if (!stat(s->disk.dir, &now) && !fstat(s->lock_fd, &had) && now.st_dev == had.st_dev &&
        now.st_ino == had.st_ino)
        return 0;
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

/* The newest KEEP sound generations stay. One that is damaged takes nobody's place: before another
 * is dropped for it, it is read, and set aside. */
static void drop_old(const struct spot_store *s, int64_t written, struct spot_err *note)
{
    char path[PATH_SIZE];
    size_t n, n_sound = 0;
    int64_t *step = spot_generation_list(&s->disk, &n);

    for (size_t i = 0; i < n && n_sound + (n - i) > KEEP; i++) {
        struct spot_err why = { 0 };

        if (n_sound == KEEP) {
            spot_generation_path(&s->disk, step[i], "", path);
            spot_generation_remove(path);
        } else if (step[i] == written || !spot_generation_verify(&s->disk, step[i], &why)) {
            n_sound++;
        } else if (spot_generation_is_damage(&why)) {
            spot_generation_set_aside(&s->disk, step[i]);
            spot_err_set(note, SPOT_EDATA, "%.400s; that generation is set aside", why.msg);
        }
    }
    free(step);
}

/* Returns 1, or -1 with *err; of 1 *err is what is to be told. */
static int write_work(struct spot_store *s, struct spot_err *err)
{
    struct spot_err note = { 0 };
    char dir[PATH_SIZE];

    if (!return_dir(s, &note, err) &&
        !spot_generation_write(&s->disk, s->work_step, s->work_nonce, s->work, err)) {
        drop_old(s, s->work_step, &note);
        *err = note;
        return 1;
    }
    spot_generation_tmp(&s->disk, s->work_step, s->work_nonce, dir);
    spot_generation_remove(dir);
    return -1;
}

/* With the lock: is the newest generation still there? */
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

/* With the lock: until there is work, or it is time to look. */
static void await_work(struct spot_store *s)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += watch_s;
    while (!s->has_work && !s->stop)
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
            return;
}

static void *run_thread(void *user)
{
    struct spot_store *s = user;

    pthread_mutex_lock(&s->lock);
    while (s->has_work || !s->stop) {
        struct spot_err err = { 0 };
        int rc;

        await_work(s);
        if (!s->has_work) {
            watch(s);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        rc = write_work(s, &err);
        pthread_mutex_lock(&s->lock);
        spot_store_free_pieces(s->work, s->disk.n_bundle);
        s->result = rc;
        s->result_err = err;
        s->has_work = false;
        s->has_result = true;
        (void)!write(s->news[1], "", 1);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int spot_store_start(struct spot_store *s, struct spot_err *err)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    errno = pthread_create(&s->thread, NULL, run_thread, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (errno)
        return spot_err_sys(err, "cannot start a thread");
    s->has_thread = true;
    return 0;
}
