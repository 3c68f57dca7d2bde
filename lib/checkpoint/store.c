/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* mkdtemp, O_DIRECTORY. NOLINT(bugprone-reserved-identifier) */
#include "checkpoint/store_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/dir_lock.h"
#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/temp.h"
#include "common/threads.h"
#include "common/xalloc.h"

enum { PATH_SIZE = SPOT_GENERATION_PATH };

/* --- reading -------------------------------------------------------------- */

static void set_newest(struct spot_store *s, int64_t step)
{
    s->newest = step;
    pthread_mutex_lock(&s->lock);
    s->watched = step;
    s->is_gone = false;
    pthread_mutex_unlock(&s->lock);
}

bool spot_store_confirm(struct spot_store *s)
{
    size_t n, i = 0;
    int64_t *step;

    if (s->newest < 0 || spot_generation_exists(&s->disk, s->newest))
        return true;
    step = spot_generation_list(&s->disk, &n);
    while (i < n && spot_generation_check(&s->disk, step[i], NULL))
        i++;
    set_newest(s, i < n ? step[i] : -1);
    free(step);
    return false;
}

void spot_store_set_aside_newest(struct spot_store *s)
{
    int64_t *step;
    size_t n;

    spot_generation_set_aside(&s->disk, s->newest);
    step = spot_generation_list(&s->disk, &n);
    set_newest(s, n ? step[0] : -1);
    free(step);
}

uint8_t *spot_store_read(struct spot_store *s, int64_t step, int bundle, size_t *n_byte,
                         struct spot_err *err)
{
    return spot_generation_read(&s->disk, step, bundle, n_byte, err);
}

int spot_store_scan(struct spot_store *s, int64_t step, int bundle, spot_generation_bytes_fn *fn,
                    void *user, struct spot_err *err)
{
    return spot_generation_scan(&s->disk, step, bundle, fn, user, err);
}

void spot_store_chain(const struct spot_store *s, int64_t step, char chain[SPOT_HASH_HEX])
{
    if (spot_generation_chain(&s->disk, step, chain, NULL))
        *chain = '\0';
}

uint64_t spot_store_manifest(const struct spot_store *s, int64_t step)
{
    return spot_generation_hash(&s->disk, step);
}

void spot_store_on_tick(struct spot_store *s, void (*tick)(void *user), void *user)
{
    s->tick = tick;
    s->user = user;
}

int spot_store_verify(struct spot_store *s, struct spot_err *err)
{
    size_t n;
    int64_t *step = spot_generation_list(&s->disk, &n), sound = -1;
    struct spot_generations disk = s->disk; /* with tick, unlike the thread's */
    int n_bad = 0;

    disk.tick = s->tick;
    disk.user = s->user;
    for (size_t i = 0; i < n && sound < 0; i++) {
        struct spot_err why = { 0 };

        if (!spot_generation_verify(&disk, step[i], &why)) {
            sound = step[i];
            break;
        }
        if (err)
            *err = why;
        if (!spot_generation_is_damage(&why)) {
            free(step);
            return -1;
        }
        spot_generation_set_aside(&s->disk, step[i]);
        n_bad++;
    }
    free(step);
    set_newest(s, sound);
    return n_bad;
}

/* --- open, close --------------------------------------------------------- */

int spot_store_lock(struct spot_store *s, struct spot_err *err)
{
    const int fd = spot_dir_lock(s->disk.dir, err);
    struct stat st;

    if (fd < 0)
        return -1;
    if (s->is_private && (fstat(fd, &st) || st.st_uid != geteuid())) {
        close(fd);
        return spot_err_set(err, SPOT_ESYS, "'%s' belongs to another user", s->disk.dir);
    }
    if (s->lock_fd < 0) {
        s->lock_fd = fd;
        return 0;
    }
    (void)dup3(fd, s->lock_fd, O_CLOEXEC); /* keeps the number, which the other thread uses */
    close(fd);
    return 0;
}

static int make_dir(struct spot_store *s, const char *dir, struct spot_err *err)
{
    if (!dir) {
        char *made = spot_temp_template("spot-state");

        if (mkdtemp(made)) {
            snprintf(s->disk.dir, sizeof(s->disk.dir), "%s", made);
            s->is_private = true;
        } else {
            spot_err_sys(err, "cannot create a temporary directory '%s'", made);
        }
        free(made);
        return s->is_private ? 0 : -1;
    }
    if (strlen(dir) >= sizeof(s->disk.dir) - 64)
        return spot_err_set(err, SPOT_EUSAGE, "--state: the path is too long");
    snprintf(s->disk.dir, sizeof(s->disk.dir), "%s", dir);
    return spot_dir_make(dir, err);
}

void spot_store_drop_unfinished(const struct spot_store *s)
{
    const int fd = openat(s->lock_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir)))
        if (spot_generation_is_tmp(entry->d_name))
            (void)spot_safe_remove(fd, entry->d_name, NULL);
    if (dir)
        closedir(dir);
}

/* Finds the newest generation. A directory belongs to one job: if it has a valid generation of
 * ours, generations that name another job count as damaged; otherwise they are refused. */
static int look_around(struct spot_store *s, struct spot_err *err)
{
    size_t n;
    int64_t *step = spot_generation_list(&s->disk, &n);
    struct spot_err other = { 0 };
    bool has_ours = false;

    s->newest = n ? step[0] : -1;
    for (size_t i = 0; i < n && !has_ours; i++) {
        struct spot_err why = { 0 };

        has_ours = !spot_generation_check(&s->disk, step[i], &why);
        if (why.code == SPOT_EUSAGE)
            other = why;
    }
    free(step);
    return has_ours || !other.code ? 0 : spot_err_set(err, other.code, "%s", other.msg);
}

/* Call tick while the job's own thread waits for a command. */
static bool goes_on(void *user)
{
    struct spot_store *const s = user;

    if (s->tick && !(s->has_thread && pthread_equal(pthread_self(), s->thread)))
        s->tick(s->user);
    return !s->gives_up || !s->gives_up();
}

/* Generations behind a command are only read until they are claimed. */
static int look_behind(struct spot_store *s, const char *command, double timeout_s,
                       struct spot_err *err)
{
    const struct spot_state_command how = {
        .command = command, .limit_s = timeout_s, .goes_on = goes_on, .user = s
    };

    if (!command)
        return 0;
    s->disk.objects = spot_objects_new(&how);
    return spot_objects_check_job(s->disk.objects, s->disk.job, err) ||
                   spot_objects_look(s->disk.objects, err)
               ? -1
               : 0;
}

int spot_store_claim(struct spot_store *s, struct spot_err *err)
{
    int64_t *step;
    size_t n;

    if (spot_objects_claim(s->disk.objects, s->disk.job, err))
        return -1;
    step = spot_generation_list(&s->disk, &n);
    set_newest(s, n ? step[0] : -1);
    free(step);
    return 0;
}

struct spot_store *spot_store_open_behind(const char *dir, const char *command, double timeout_s,
                                          bool (*gives_up)(void), uint64_t job, int n_bundle,
                                          struct spot_err *err)
{
    struct spot_store *s = spot_xcalloc(1, sizeof(*s));

    s->gives_up = gives_up;
    s->disk.job = job;
    s->disk.n_bundle = n_bundle;
    s->disk.dir_fd = &s->lock_fd;
    s->collecting = -1;
    s->lock_fd = s->news[0] = s->news[1] = -1;
    s->piece = spot_xcalloc((size_t)n_bundle, sizeof(*s->piece));
    s->work = spot_xcalloc((size_t)n_bundle, sizeof(*s->work));
    s->spool.written = spot_xcalloc((size_t)n_bundle, sizeof(*s->spool.written));
    s->end = &s->first;
    s->watched = -1;
    pthread_mutex_init(&s->lock, NULL);
    spot_cond_init(&s->changed);
    if (make_dir(s, dir, err) || spot_store_lock(s, err) ||
        look_behind(s, command, timeout_s, err) || look_around(s, err))
        goto fail;
    if (command)
        snprintf(s->place, sizeof(s->place), "the store of --state-command");
    else
        snprintf(s->place, sizeof(s->place), "'%s'", s->disk.dir);
    spot_store_drop_unfinished(s);
    if (spot_endpoint_pipe(s->news)) {
        spot_err_sys(err, "cannot make a pipe");
        goto fail;
    }
    if (spot_store_start(s, err))
        goto fail;
    return s;
fail:
    spot_store_close(s);
    return NULL;
}

void spot_store_close(struct spot_store *s)
{
    if (!s || (s->has_thread && !spot_store_end(s)))
        return;
    if (s->is_private && (s->lock_fd < 0 || !spot_safe_empty(s->lock_fd, NULL)))
        (void)rmdir(s->disk.dir); /* fails for another process's directory unless it is empty */
    else if (s->has_thread)
        spot_store_drop_unfinished(s);
    for (int i = 0; i < 2; i++)
        spot_close(s->news[i]);
    spot_close(s->lock_fd);
    spot_store_free_queue(s);
    spot_objects_free(s->disk.objects);
    free(s->spool.written);
    free(s->piece);
    free(s->work);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *spot_store_place(const struct spot_store *s)
{
    return s->place;
}

int spot_store_put_note(struct spot_store *s, const char *text, struct spot_err *err)
{
    return spot_objects_put_note(s->disk.objects, text, err);
}

bool spot_store_is_behind(const struct spot_store *s)
{
    return s->disk.objects != NULL;
}

void spot_store_source(const struct spot_store *s, char source[SPOT_STORE_PATH])
{
    if (s->disk.objects)
        snprintf(source, SPOT_STORE_PATH, "command:%016" PRIx64,
                 spot_objects_owner(s->disk.objects));
    else
        snprintf(source, SPOT_STORE_PATH, "%s", s->disk.dir);
}

const char *spot_store_dir(const struct spot_store *s)
{
    return s->disk.dir;
}

int64_t spot_store_newest(const struct spot_store *s)
{
    return s->newest;
}

int spot_store_fd(const struct spot_store *s)
{
    return s->news[0];
}

int spot_store_result(struct spot_store *s, int64_t *step, struct spot_err *err)
{
    const int64_t newest = s->newest;
    char byte[8];
    int result = 0;
    bool is_gone;

    (void)!read(s->news[0], byte, sizeof(byte));
    pthread_mutex_lock(&s->lock);
    is_gone = s->is_gone;
    s->is_gone = false;
    if (s->has_result) {
        result = s->result;
        *step = s->work_step;
        if (err)
            *err = s->result_err;
        s->has_result = false;
    }
    pthread_mutex_unlock(&s->lock);
    if (result > 0) {
        set_newest(s, *step);
    } else if (!result && is_gone && !spot_store_confirm(s)) {
        *step = newest;
        spot_err_set(err, SPOT_ESYS, "the state of step %lld in '%s' has been deleted",
                     (long long)newest, s->disk.dir);
        result = SPOT_STORE_GONE;
    }
    spot_store_hand_over(s);
    return result;
}
