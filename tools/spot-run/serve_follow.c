/* SPDX-License-Identifier: MIT */
/* A version of a model is identified by its directory, from which replicas read it. So the weights
 * of the job are written to a directory in memory, for workers on this host. */
#define _GNU_SOURCE /* mkdtemp, flock, asprintf. NOLINT(bugprone-reserved-identifier) */
#include "common/pio.h"
#include "run.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "train/model_dir.h"
#include "train/saved_model.h"
#include "weights/hf_config.h"
#include "weights/plain.h"

static const char memory[] = "/dev/shm";

static struct {
    struct spot_followed job;
    const char *model; /* the model that is served first */
    char *join;
    char root[64]; /* "": no directory yet */
    int lock;      /* lock on it while this process lives */
    uint64_t n;    /* number of directories made so far */
} f;

/* --- a directory in memory -------------------------------------------------------- */

static void put_prefix(char prefix[32])
{
    snprintf(prefix, 32, "spot-%u-follow-", (unsigned)geteuid());
}

/* True if the directory is ours and nobody holds its lock. */
static bool is_left(int fd)
{
    struct stat s;

    return fd >= 0 && !fstat(fd, &s) && s.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB);
}

/* Remove directories of servers that were killed; not while another server creates its own, since
 * it holds the lock only then. */
static void sweep(void)
{
    char prefix[32], path[512];
    DIR *const d = opendir(memory);
    const bool may = d && !flock(dirfd(d), LOCK_EX | LOCK_NB);
    const struct dirent *e;

    put_prefix(prefix);
    while (may && (e = readdir(d))) {
        int fd;

        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", memory, e->d_name);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (is_left(fd))
            (void)spot_safe_remove_path(path, NULL);
        spot_close(fd);
    }
    if (d)
        closedir(d);
}

/* Returns a descriptor that blocks sweeps; waits up to a second for a sweep in progress. */
static int hold_off(void)
{
    const int fd = open(memory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; fd >= 0 && i < 100 && flock(fd, LOCK_SH | LOCK_NB); i++)
        spot_clock_sleep(0.01);
    return fd;
}

static int make_root(struct spot_err *err)
{
    char prefix[32];
    int held, rc = 0;

    sweep();
    held = hold_off();
    put_prefix(prefix);
    snprintf(f.root, sizeof(f.root), "%s/%sXXXXXX", memory, prefix);
    if (!mkdtemp(f.root)) {
        *f.root = '\0';
        rc = spot_err_sys(err, "cannot make a directory in %s", memory);
    } else {
        f.lock = open(f.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (f.lock < 0 || flock(f.lock, LOCK_SH | LOCK_NB))
            rc = spot_err_sys(err, "cannot lock %s", f.root);
    }
    spot_close(held);
    return rc;
}

/* --- a version -------------------------------------------------------------------- */

/* Check that the model is the same: requests may move from one version to the next. */
static int check_shape(const struct spot_shape *got, struct spot_err *err)
{
    char path[4096];
    struct spot_shape served;
    char *const of_job = spot_hf_config_text(got), *of_server = NULL;
    int rc = 0;

    snprintf(path, sizeof(path), "%s/config.json", f.model);
    if (spot_hf_config_load(path, &served, err))
        rc = -1;
    else if (!(of_server = spot_hf_config_text(&served)) || !of_job ||
             strcmp(of_job, of_server) != 0)
        rc = spot_err_set(err, SPOT_EDATA, "the job at %s trains another model: %.200s, not %.200s",
                          f.job.join, of_job ? of_job : "", of_server ? of_server : "");
    free(of_job);
    free(of_server);
    return rc;
}

static bool has_tokenizer(void)
{
    static const char *const file[] = { "tokenizer.json", "vocab.json" };
    char path[4096];

    for (size_t i = 0; i < sizeof(file) / sizeof(file[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", f.model, file[i]);
        if (!access(path, R_OK))
            return true;
    }
    return false;
}

/* Written as received; workers of this host convert them once. */
static int write_weights(const struct spot_saved_model *m, const char *dir, struct spot_err *err)
{
    struct spot_plain to;
    int rc = spot_plain_create(&to, dir, &m->shape, err);

    for (int b = 0; !rc && b < m->n_bundle; b++)
        rc = spot_plain_add(&to, &m->shape, m->bundle[b], m->hash[b], err);
    if (!rc)
        rc = spot_plain_finish(&to, &m->shape, err);
    spot_plain_release(&to);
    return rc;
}

static int write_version(const struct spot_saved_model *m, const char *dir, struct spot_err *err)
{
    const char *const tokenizer = has_tokenizer() ? f.model : NULL;
    struct spot_bpe *const bpe = tokenizer ? spot_bpe_open(tokenizer, err) : NULL;
    struct spot_model_dir *to = NULL;
    int rc = -1;

    if (!tokenizer || bpe)
        to = spot_model_dir_open(dir, tokenizer, err);
    if (to)
        rc = spot_model_dir_begin(to, &m->shape, bpe, !bpe, SPOT_DT_F32, NULL, err);
    if (!rc)
        rc = write_weights(m, dir, err);
    spot_model_dir_close(to);
    spot_bpe_free(bpe);
    return rc;
}

static void drop(void *user, const char *dir)
{
    (void)user;
    if (*f.root && !strncmp(dir, f.root, strlen(f.root)))
        (void)spot_safe_remove_path(dir, NULL);
}

static int follow(void *user, char *dir, size_t n, int64_t *step, struct spot_err *err)
{
    struct spot_saved_model m;
    int rc = spot_saved_model_follow(&m, &f.job, err);

    (void)user;
    if (rc <= 0)
        return rc;
    snprintf(dir, n, "%s/%" PRIu64 "-step-%" PRId64, f.root, f.n++, m.step);
    *step = m.step;
    rc = check_shape(&m.shape, err);
    if (!rc && mkdir(dir, 0700))
        rc = spot_err_sys(err, "cannot make '%s'", dir);
    if (!rc)
        rc = write_version(&m, dir, err);
    if (rc)
        drop(NULL, dir);
    spot_saved_model_release(&m);
    return rc ? -1 : 1;
}

/* --- the command --- */

int serve_follow_begin(const char *text, struct spot_server_options *server, struct spot_err *err)
{
    const char *const comma = strrchr(text, ',');
    const bool has_count =
        comma && comma[1] && strspn(comma + 1, "0123456789") == strlen(comma + 1);

    f.join = spot_xstrdup(text);
    if (has_count)
        f.join[comma - text] = '\0';
    f.job = (struct spot_followed){
        .join = f.join, .key_file = server->group.key_file, .every = 1, .step = -1
    };
    f.job.every = has_count ? strtoll(comma + 1, NULL, 10) : 1;
    if (!*f.join || f.job.every < 1 || f.job.every > 1000000000)
        return spot_err_set(
            err, SPOT_EUSAGE,
            "--follow must be ADDRESS or ADDRESS,N with N from 1 to 1000000000 commits, got '%s'",
            text);
    f.model = server->model;
    server->follow = follow;
    server->drop = drop;
    return make_root(err);
}

void serve_follow_end(void)
{
    if (*f.root)
        (void)spot_safe_remove_path(f.root, NULL);
    free(f.join);
    f.join = NULL;
}
