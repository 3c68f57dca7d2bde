/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* flock, mkdtemp, realpath */
#include "checkpoint/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/generation.h"
#include "comm/endpoint.h"
#include "common/out.h"
#include "common/random.h"
#include "common/temp.h"
#include "common/xalloc.h"

enum { PATH_SIZE = SPOT_GENERATION_PATH, KEEP = 2 };

static const time_t watch_s = 1; /* between looks at the newest generation */

struct spot_store {
    struct spot_generations disk;
    int lock_fd; /* of the directory: one process at a time */
    bool is_private;
    int64_t newest;
    void (*tick)(void *user);
    void *user;

    int64_t collecting;       /* step of the generation being put together, -1 */
    uint64_t nonce;           /* of its directory, if holders write to it; 0: they do not */
    struct spot_piece *piece; /* [n_bundle] */
    int n_piece;

    pthread_t thread;
    bool has_thread;
    int news[2]; /* a byte per finished generation */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, has_work, has_result;
    int64_t work_step;
    uint64_t work_nonce;
    struct spot_piece *work; /* [n_bundle], the thread's while has_work */
    int result;
    struct spot_err result_err; /* of a result of 1: what is to be told beside it, code 0 nothing */
    int64_t watched;            /* newest, as the thread knows it */
    bool is_gone;               /* the thread has not found it */
};

static void free_pieces(struct spot_piece *piece, int n)
{
    for (int b = 0; b < n; b++) {
        free(piece[b].data);
        piece[b] = (struct spot_piece){ 0 };
    }
}

/* --- the directory -------------------------------------------------------- */

/* Lock what the path names now, in the place of what it named before. */
static int lock_dir(struct spot_store *s, struct spot_err *err)
{
    const int fd = open(s->disk.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    int rc = 0;

    if (fd < 0)
        return spot_err_sys(err, "cannot use '%s'", s->disk.dir);
    if (s->is_private && (fstat(fd, &st) || st.st_uid != geteuid()))
        rc = spot_err_set(err, SPOT_ESYS, "'%s' belongs to another user", s->disk.dir);
    else if (flock(fd, LOCK_EX | LOCK_NB))
        rc = errno == EWOULDBLOCK
                 ? spot_err_set(err, SPOT_ESYS, "'%s' is in use by another job", s->disk.dir)
                 : spot_err_sys(err, "cannot lock '%s'", s->disk.dir);
    if (rc) {
        close(fd);
        return -1;
    }
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    s->lock_fd = fd;
    return 0;
}

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
    if (lock_dir(s, err))
        return -1;
    spot_err_set(note, SPOT_EDATA, "'%s' was deleted: it has been made again", s->disk.dir);
    return 0;
}

/* --- the thread ----------------------------------------------------------- */

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
        free_pieces(s->work, s->disk.n_bundle);
        s->result = rc;
        s->result_err = err;
        s->has_work = false;
        s->has_result = true;
        (void)!write(s->news[1], "", 1);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

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

uint8_t *spot_store_read(struct spot_store *s, int64_t step, int bundle, size_t *n_byte,
                         struct spot_err *err)
{
    return spot_generation_read(&s->disk, step, bundle, n_byte, err);
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
    struct spot_generations disk = s->disk; /* the thread has no tick */
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

static int make_dir(struct spot_store *s, const char *dir, struct spot_err *err)
{
    struct stat st;

    if (!dir) {
        char *made = spot_temp_template("spot-state");

        if (mkdtemp(made)) {
            snprintf(s->disk.dir, sizeof(s->disk.dir), "%s", made);
            s->is_private = true;
        } else {
            spot_err_sys(err, "cannot make a directory like '%s'", made);
        }
        free(made);
        return s->is_private ? 0 : -1;
    }
    if (strlen(dir) >= sizeof(s->disk.dir) - 64)
        return spot_err_set(err, SPOT_EUSAGE, "--state: the path is too long");
    snprintf(s->disk.dir, sizeof(s->disk.dir), "%s", dir);
    if (!mkdir(dir, 0700)) {
        if (spot_sync_directory(dir, err))
            return -1;
    } else if (errno != EEXIST) {
        return spot_err_sys(err, "cannot make '%s'", dir);
    }
    if (!stat(dir, &st) && !S_ISDIR(st.st_mode))
        errno = ENOTDIR;
    else if (!access(dir, R_OK | W_OK | X_OK))
        return 0;
    return spot_err_sys(err, "cannot use '%s'", dir);
}

/* Generations whose writer died. */
static void drop_unfinished(const struct spot_store *s)
{
    DIR *dir = opendir(s->disk.dir);
    const struct dirent *entry;
    char path[PATH_SIZE + 256];

    while (dir && (entry = readdir(dir))) {
        const size_t n = strlen(entry->d_name);

        if (strncmp(entry->d_name, "gen-", 4) != 0 || n < 4 ||
            strcmp(entry->d_name + n - 4, ".tmp") != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", s->disk.dir, entry->d_name);
        spot_generation_remove(path);
    }
    if (dir)
        closedir(dir);
}

/* The newest generation. A directory is one job's: beside a sound generation of ours, one that
 * names another job is damaged; where there is none of ours, all is another job's and refused. */
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

static int start_thread(struct spot_store *s, struct spot_err *err)
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

/* Waits of the thread are not to jump when somebody sets the clock. */
static void init_clock(pthread_cond_t *changed)
{
    pthread_condattr_t attribute;

    pthread_condattr_init(&attribute);
    pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &attribute);
    pthread_condattr_destroy(&attribute);
}

struct spot_store *spot_store_open(const char *dir, uint64_t job, int n_bundle,
                                   struct spot_err *err)
{
    struct spot_store *s = spot_xcalloc(1, sizeof(*s));

    s->disk.job = job;
    s->disk.n_bundle = n_bundle;
    s->collecting = -1;
    s->lock_fd = s->news[0] = s->news[1] = -1;
    s->piece = spot_xcalloc((size_t)n_bundle, sizeof(*s->piece));
    s->work = spot_xcalloc((size_t)n_bundle, sizeof(*s->work));
    s->watched = -1;
    pthread_mutex_init(&s->lock, NULL);
    init_clock(&s->changed);
    if (make_dir(s, dir, err) || lock_dir(s, err) || look_around(s, err))
        goto fail;
    drop_unfinished(s);
    if (spot_endpoint_pipe(s->news)) {
        spot_err_sys(err, "cannot make a pipe");
        goto fail;
    }
    if (start_thread(s, err))
        goto fail;
    return s;
fail:
    spot_store_close(s);
    return NULL;
}

void spot_store_close(struct spot_store *s)
{
    if (!s)
        return;
    if (s->has_thread) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    if (s->is_private)
        spot_generation_remove(s->disk.dir);
    else if (s->has_thread)
        drop_unfinished(s);
    for (int i = 0; i < 2; i++)
        if (s->news[i] >= 0)
            close(s->news[i]);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    free_pieces(s->piece, s->disk.n_bundle);
    free_pieces(s->work, s->disk.n_bundle);
    free(s->piece);
    free(s->work);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *spot_store_dir(const struct spot_store *s)
{
    return s->disk.dir;
}

int64_t spot_store_newest(const struct spot_store *s)
{
    return s->newest;
}

/* --- collecting a generation --------------------------------------------- */

static void drop_collected(struct spot_store *s)
{
    free_pieces(s->piece, s->disk.n_bundle);
    s->n_piece = 0;
    s->collecting = -1;
    s->nonce = 0;
}

void spot_store_cancel(struct spot_store *s)
{
    if (s->n_piece < s->disk.n_bundle)
        drop_collected(s);
}

void spot_store_begin(struct spot_store *s, int64_t step)
{
    drop_collected(s);
    s->collecting = step;
}

static bool thread_has_work(const struct spot_store *s)
{
    struct spot_store *mutable = (struct spot_store *)(uintptr_t)s; /* only to lock it */
    bool busy;

    pthread_mutex_lock(&mutable->lock);
    busy = s->has_work || s->has_result;
    pthread_mutex_unlock(&mutable->lock);
    return busy;
}

bool spot_store_is_busy(const struct spot_store *s)
{
    return s->collecting >= 0 || thread_has_work(s);
}

int64_t spot_store_writing(const struct spot_store *s)
{
    if (s->collecting >= 0 && s->n_piece == s->disk.n_bundle)
        return s->collecting;
    return thread_has_work(s) ? s->work_step : -1;
}

bool spot_store_has_all(const struct spot_store *s, int64_t step)
{
    return (s->collecting == step && s->n_piece == s->disk.n_bundle) ||
           (thread_has_work(s) && s->work_step == step);
}

void spot_store_keep(struct spot_store *s)
{
    s->is_private = false;
}

/* A whole generation goes to the thread, or waits here until the thread is free. */
static void hand_over(struct spot_store *s)
{
    bool is_taken = false;

    if (s->collecting < 0 || s->n_piece < s->disk.n_bundle)
        return;
    pthread_mutex_lock(&s->lock);
    if (!s->has_work && !s->has_result) {
        struct spot_piece *swap = s->work;

        s->work = s->piece;
        s->piece = swap;
        s->work_step = s->collecting;
        s->work_nonce = s->nonce;
        s->has_work = is_taken = true;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    if (is_taken)
        drop_collected(s);
}

static bool is_missing(const struct spot_store *s, int64_t step, int bundle)
{
    return step == s->collecting && step >= 0 && bundle >= 0 && bundle < s->disk.n_bundle &&
           !s->piece[bundle].data && !s->piece[bundle].written.n_byte;
}

void spot_store_put(struct spot_store *s, int64_t step, int bundle, uint8_t *data_take,
                    size_t n_byte)
{
    if (!is_missing(s, step, bundle)) {
        free(data_take); /* of a generation that was given up */
        return;
    }
    s->piece[bundle] = (struct spot_piece){ .data = data_take, .n_byte = n_byte };
    s->n_piece++;
    hand_over(s);
}

bool spot_store_share(struct spot_store *s, char dir[SPOT_STORE_PATH], uint64_t *nonce)
{
    char path[PATH_SIZE];

    spot_generation_path(&s->disk, s->collecting, "", path);
    if (s->is_private || s->collecting < 0 || s->n_piece || !access(path, F_OK) ||
        spot_random_bytes(nonce, sizeof(*nonce), NULL))
        return false;
    *nonce |= 1;
    if (!thread_has_work(s))
        drop_unfinished(s); /* whose writers went away */
    if (spot_generation_share(&s->disk, s->collecting, *nonce, NULL))
        return false;
    s->nonce = *nonce;
    spot_generation_tmp(&s->disk, s->collecting, *nonce, path);
    if (!realpath(path, dir))
        s->nonce = 0;
    return s->nonce != 0;
}

void spot_store_put_written(struct spot_store *s, int64_t step, uint64_t nonce, int bundle,
                            const struct spot_written *written)
{
    if (!nonce || nonce != s->nonce || !is_missing(s, step, bundle))
        return;
    s->piece[bundle] = (struct spot_piece){ .written = *written };
    s->n_piece++;
    hand_over(s);
}

int64_t spot_store_collecting(const struct spot_store *s)
{
    return s->n_piece < s->disk.n_bundle ? s->collecting : -1;
}

bool spot_store_lacks(const struct spot_store *s, int bundle)
{
    return is_missing(s, s->collecting, bundle);
}

bool spot_store_is_shared(const struct spot_store *s)
{
    return s->nonce != 0;
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
    hand_over(s);
    return result;
}
