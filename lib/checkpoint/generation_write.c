/* SPDX-License-Identifier: MIT */
/* Assembles and commits a generation. */
#define _XOPEN_SOURCE 700 /* mkdirat */
#include "checkpoint/generation.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/json_writer.h"
#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"

enum { PATH_SIZE = SPOT_GENERATION_PATH };

static void put_commit(struct spot_jw *jw, const struct spot_foreign_commit *commit)
{
    char key[20];

    snprintf(key, sizeof(key), "%016" PRIx64, commit->key);
    spot_jw_object(jw, "commit");
    spot_jw_int(jw, "round", commit->round);
    spot_jw_str(jw, "key", key);
    spot_jw_int(jw, "step", commit->step);
    spot_jw_int(jw, "nodes", commit->nodes);
    spot_jw_end(jw);
}

/* The text of a manifest, freed by the caller. */
static char *manifest_text(const struct spot_generations *g, int64_t step,
                           const struct spot_written *written)
{
    char hex[SPOT_HASH_HEX], job[20], *text = NULL;
    size_t n = 0;
    FILE *const out = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    snprintf(job, sizeof(job), "%016" PRIx64, g->job);
    spot_jw_init(&jw, out, true);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "schema", "spot.state/1");
    spot_jw_str(&jw, "job", job);
    spot_jw_int(&jw, "step", step);
    if (*g->chain)
        spot_jw_str(&jw, "chain", g->chain);
    if (g->commit)
        put_commit(&jw, g->commit);
    spot_jw_array(&jw, "bundles");
    for (int b = 0; b < g->n_bundle; b++) {
        spot_hash128_hex(written[b].hash, hex);
        spot_jw_object(&jw, NULL);
        spot_jw_int(&jw, "byte", (int64_t)written[b].n_byte);
        spot_jw_str(&jw, "xxh3_128", hex);
        spot_jw_end(&jw);
    }
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    return text;
}

static int write_manifest(const struct spot_generations *g, int dir_fd, int64_t step,
                          const struct spot_written *written, struct spot_err *err)
{
    char *const text = manifest_text(g, step, written);
    const int rc = spot_safe_replace(dir_fd, "manifest.json", text, strlen(text), true)
                       ? spot_err_sys(err, "cannot write a manifest in '%s'", g->dir)
                       : 0;

    free(text);
    return rc;
}

static bool is_listed(const struct spot_generations *g, int64_t step)
{
    size_t n, i = 0;
    int64_t *const listed = spot_objects_list(g->objects, &n);

    while (i < n && listed[i] != step)
        i++;
    free(listed);
    return i < n;
}

/* A step has only one state, so an existing durable generation is left unchanged. Returns 1 if
 * there is one, 0 if it is missing or damaged, -1 with *err. */
static int is_durable(const struct spot_generations *g, int64_t step, struct spot_err *err)
{
    char dir[PATH_SIZE];
    struct spot_err why = { 0 };

    spot_generation_path(g, step, "", dir);
    if (g->objects ? !is_listed(g, step) : access(dir, F_OK) != 0)
        return 0;
    if (!spot_generation_verify(g, step, &why))
        return 1;
    return spot_generation_is_damage(&why) ? 0 : spot_err_set(err, why.code, "%s", why.msg);
}

void spot_generation_tmp(const struct spot_generations *g, int64_t step, uint64_t nonce,
                         char path[PATH_SIZE])
{
    char suffix[32] = ".tmp";

    if (nonce)
        snprintf(suffix, sizeof(suffix), ".%016" PRIx64 ".tmp", nonce);
    spot_generation_path(g, step, suffix, path);
}

bool spot_generation_is_tmp(const char *name)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = strspn(name + (strncmp(name, "gen-", 4) ? 0 : 4), digits);

    if (strncmp(name, "gen-", 4) != 0 || n < 12)
        return false;
    name += 4 + n;
    if (*name == '.' && strspn(name + 1, digits) == 16)
        name += 17;
    return !strcmp(name, ".tmp");
}

/* Opens the directory in which the generation is assembled; -1 with *err. */
static int open_tmp(const struct spot_generations *g, int64_t step, uint64_t nonce,
                    struct spot_err *err)
{
    char dir[PATH_SIZE];
    int fd;

    spot_generation_tmp(g, step, nonce, dir);
    fd = spot_safe_open(*g->dir_fd, spot_generation_name(dir), O_RDONLY | O_DIRECTORY, 0);
    return fd < 0 ? spot_err_sys(err, "cannot open '%s'", dir) : fd;
}

static int make_tmp(const struct spot_generations *g, const char *dir, struct spot_err *err)
{
    return mkdirat(*g->dir_fd, spot_generation_name(dir), 0700)
               ? spot_err_sys(err, "cannot make '%s'", dir)
               : 0;
}

int spot_generation_share(const struct spot_generations *g, int64_t step, uint64_t nonce,
                          struct spot_err *err)
{
    char dir[PATH_SIZE];
    int fd, rc;

    if (g->objects)
        return 0;
    spot_generation_tmp(g, step, nonce, dir);
    if (make_tmp(g, dir, err))
        return -1;
    fd = open_tmp(g, step, nonce, err);
    rc = fd < 0 ? -1 : spot_bundle_file_mark(fd, nonce, err);
    spot_close(fd);
    if (rc)
        spot_generation_drop_tmp(g, step, nonce);
    return rc;
}

int spot_generation_begin(const struct spot_generations *g, int64_t step, struct spot_err *err)
{
    char dir[PATH_SIZE];

    if (g->objects)
        return 0;
    spot_generation_drop_tmp(g, step, 0);
    spot_generation_tmp(g, step, 0, dir);
    return make_tmp(g, dir, err);
}

/* A source of bytes in memory that returns them as one piece. */
struct all {
    const void *data;
    size_t n_byte;
};

static int next_all(void *user, struct spot_buf *piece, struct spot_err *err)
{
    const struct all *const all = user;

    (void)err;
    spot_buf_add(piece, all->data, all->n_byte);
    return 0;
}

int spot_generation_put(const struct spot_generations *g, int64_t step, uint64_t nonce, int bundle,
                        const void *data, size_t n_byte, struct spot_written *written,
                        struct spot_err *err)
{
    char name[SPOT_BUNDLE_FILE_NAME];
    int fd, rc;

    if (g->objects)
        return spot_objects_put(
            g->objects, step, nonce, bundle,
            &(struct spot_command_io){ .next = next_all, .user = &(struct all){ data, n_byte } },
            written, err);
    *written = (struct spot_written){ n_byte, spot_hash128(data, n_byte) };
    fd = open_tmp(g, step, nonce, err);
    if (fd < 0)
        return -1;
    spot_bundle_file_name(bundle, name);
    rc = spot_safe_replace(fd, name, data, n_byte, true)
             ? spot_err_sys(err, "cannot write '%s' in '%s'", name, g->dir)
             : 0;
    close(fd);
    return rc;
}

static int commit_objects(const struct spot_generations *g, int64_t step, uint64_t nonce,
                          const struct spot_written *written, struct spot_err *err)
{
    char *const text = manifest_text(g, step, written);
    const int rc = spot_objects_commit(g->objects, step, nonce, written, g->n_bundle, text, err);

    free(text);
    return rc;
}

/* All bundles exist: write the manifest. */
static int complete(const struct spot_generations *g, int dir_fd, int64_t step,
                    const struct spot_written *written, struct spot_err *err)
{
    for (int b = 0; b < g->n_bundle; b++)
        if (spot_bundle_file_check(dir_fd, b, written[b].n_byte, err))
            return -1;
    spot_bundle_file_unmark(dir_fd);
    if (write_manifest(g, dir_fd, step, written, err))
        return -1;
    return fsync(dir_fd) ? spot_err_sys(err, "cannot sync a directory in '%s'", g->dir) : 0;
}

int spot_generation_commit(const struct spot_generations *g, int64_t step, uint64_t nonce,
                           const struct spot_written *written, struct spot_err *err)
{
    char tmp[PATH_SIZE], final[PATH_SIZE];
    const int durable = is_durable(g, step, err);
    int fd, rc;

    if (durable > 0)
        spot_generation_drop_tmp(g, step, nonce);
    if (durable)
        return durable < 0 ? -1 : 0;
    if (g->objects)
        return commit_objects(g, step, nonce, written, err);
    fd = open_tmp(g, step, nonce, err);
    rc = fd < 0 ? -1 : complete(g, fd, step, written, err);
    spot_close(fd);
    if (rc)
        return -1;
    spot_generation_tmp(g, step, nonce, tmp);
    spot_generation_path(g, step, "", final);
    (void)spot_generation_drop(g, step, NULL); /* damaged */
    if (renameat(*g->dir_fd, spot_generation_name(tmp), *g->dir_fd, spot_generation_name(final)))
        return spot_err_sys(err, "cannot rename '%s'", tmp);
    return fsync(*g->dir_fd) ? spot_err_sys(err, "cannot sync '%s'", g->dir) : 0;
}
