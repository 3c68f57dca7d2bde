/* SPDX-License-Identifier: MIT */
/* A generation is put together and committed. */
#include "checkpoint/generation.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/json_writer.h"
#include "common/out.h"
#include "common/pio.h"

enum { PATH_SIZE = SPOT_GENERATION_PATH };

static int sync_path(const char *path, struct spot_err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0 || fsync(fd))
        rc = spot_err_sys(err, "cannot sync '%s'", path);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int write_file(const char *path, const void *data, size_t n_byte, struct spot_err *err)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc = 0;

    if (fd < 0)
        return spot_err_sys(err, "cannot write '%s'", path);
    if (spot_write_at(fd, 0, data, n_byte))
        rc = spot_err_sys(err, "cannot write '%s'", path);
    else if (fsync(fd))
        rc = spot_err_sys(err, "cannot sync '%s'", path);
    if (close(fd) && !rc)
        rc = spot_err_sys(err, "cannot write '%s'", path);
    return rc;
}

static int put_manifest(const struct spot_generations *g, FILE *out, int64_t step,
                        const struct spot_written *written, struct spot_err *err)
{
    char hex[SPOT_HASH_HEX], job[20];
    struct spot_jw jw;

    snprintf(job, sizeof(job), "%016" PRIx64, g->job);
    spot_jw_init(&jw, out, true);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "schema", "spot.state/1");
    spot_jw_str(&jw, "job", job);
    spot_jw_int(&jw, "step", step);
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
    return spot_jw_close(&jw, err);
}

static int write_manifest(const struct spot_generations *g, const char *dir, int64_t step,
                          const struct spot_written *written, struct spot_err *err)
{
    char path[PATH_SIZE + 32];
    struct spot_out out;

    snprintf(path, sizeof(path), "%s/manifest.json", dir);
    if (spot_out_open_own(&out, path, err))
        return -1;
    return spot_out_finish(&out, put_manifest(g, out.file, step, written, err), err);
}

/* The text of it, freed by the caller. NULL with *err. */
static char *manifest_text(const struct spot_generations *g, int64_t step,
                           const struct spot_written *written, struct spot_err *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const memory = open_memstream(&text, &n);
    int rc;

    if (!memory) {
        spot_err_sys(err, "cannot write a manifest");
        return NULL;
    }
    rc = put_manifest(g, memory, step, written, err);
    if (!fclose(memory) && !rc)
        return text;
    free(text);
    return NULL;
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

/* A step has one state: what is durable already is not touched. Returns 1 if it is, 0 if it is not
 * there or damaged, -1 with *err. */
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

int spot_generation_share(const struct spot_generations *g, int64_t step, uint64_t nonce,
                          struct spot_err *err)
{
    char dir[PATH_SIZE];

    if (g->objects)
        return 0;
    spot_generation_tmp(g, step, nonce, dir);
    if (mkdir(dir, 0700))
        return spot_err_sys(err, "cannot make '%s'", dir);
    if (!spot_bundle_file_mark(dir, nonce, err))
        return 0;
    spot_generation_remove(dir);
    return -1;
}

int spot_generation_begin(const struct spot_generations *g, int64_t step, struct spot_err *err)
{
    char dir[PATH_SIZE];

    if (g->objects)
        return 0;
    spot_generation_tmp(g, step, 0, dir);
    spot_generation_remove(dir);
    return mkdir(dir, 0700) ? spot_err_sys(err, "cannot make '%s'", dir) : 0;
}

/* Bytes in memory, as one piece. */
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
    char dir[PATH_SIZE], path[PATH_SIZE + 32];

    *written = (struct spot_written){ n_byte, spot_hash128(data, n_byte) };
    if (g->objects)
        return spot_objects_put(
            g->objects, step, nonce, bundle,
            &(struct spot_command_io){ .next = next_all, .user = &(struct all){ data, n_byte } },
            err);
    spot_generation_tmp(g, step, nonce, dir);
    spot_bundle_file_path(dir, bundle, path, sizeof(path));
    return write_file(path, data, n_byte, err);
}

static int commit_objects(const struct spot_generations *g, int64_t step, uint64_t nonce,
                          const struct spot_written *written, struct spot_err *err)
{
    char *const text = manifest_text(g, step, written, err);
    const int rc =
        text ? spot_objects_commit(g->objects, step, nonce, written, g->n_bundle, text, err) : -1;

    free(text);
    return rc;
}

int spot_generation_commit(const struct spot_generations *g, int64_t step, uint64_t nonce,
                           const struct spot_written *written, struct spot_err *err)
{
    char dir[PATH_SIZE], final[PATH_SIZE];
    const int durable = is_durable(g, step, err);

    spot_generation_tmp(g, step, nonce, dir);
    spot_generation_path(g, step, "", final);
    if (durable > 0)
        spot_generation_drop_tmp(g, step, nonce);
    if (durable)
        return durable < 0 ? -1 : 0;
    if (g->objects)
        return commit_objects(g, step, nonce, written, err);
    for (int b = 0; b < g->n_bundle; b++)
        if (spot_bundle_file_check(dir, b, written[b].n_byte, err))
            return -1;
    spot_bundle_file_unmark(dir);
    if (write_manifest(g, dir, step, written, err) || sync_path(dir, err))
        return -1;
    spot_generation_remove(final); /* damaged */
    if (rename(dir, final))
        return spot_err_sys(err, "cannot rename '%s'", dir);
    return sync_path(g->dir, err);
}
