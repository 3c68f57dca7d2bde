/* SPDX-License-Identifier: MIT */
#include "checkpoint/generation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/bundle_io.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/out.h"
#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"

enum { PATH_SIZE = SPOT_GENERATION_PATH };

void spot_generation_path(const struct spot_generations *g, int64_t step, const char *suffix,
                          char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/gen-%012" PRId64 "%s", g->dir, step, suffix);
}

const char *spot_generation_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

static void remove_named(const struct spot_generations *g, const char *path)
{
    (void)spot_safe_remove(*g->dir_fd, spot_generation_name(path), NULL);
}

bool spot_generation_is_damage(const struct spot_err *err)
{
    return err->code == SPOT_EDATA || err->code == SPOT_EUSAGE;
}

int spot_generation_drop(const struct spot_generations *g, int64_t step, struct spot_err *err)
{
    char path[PATH_SIZE];

    if (g->objects)
        return spot_objects_drop(g->objects, step, err);
    spot_generation_path(g, step, "", path);
    remove_named(g, path);
    return 0;
}

void spot_generation_drop_tmp(const struct spot_generations *g, int64_t step, uint64_t nonce)
{
    char path[PATH_SIZE];

    if (g->objects) {
        spot_objects_drop_unfinished(g->objects, step, nonce);
        return;
    }
    spot_generation_tmp(g, step, nonce, path);
    remove_named(g, path);
}

/* --- finding generations ------------------------------------------------- */

static int compare_steps(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y);
}

/* Steps of all complete generations, newest first; *n of them, freed by the caller. */
int64_t *spot_generation_list(const struct spot_generations *g, size_t *n)
{
    DIR *dir = g->objects ? NULL : opendir(g->dir);
    const struct dirent *entry;
    int64_t *step = NULL;
    size_t cap = 0;

    if (g->objects)
        return spot_objects_list(g->objects, n);
    *n = 0;
    while (dir && (entry = readdir(dir))) {
        char name[32];
        long long value;

        if (strncmp(entry->d_name, "gen-", 4) != 0)
            continue;
        value = strtoll(entry->d_name + 4, NULL, 10);
        snprintf(name, sizeof(name), "gen-%012lld", value);
        if (value < 0 || strcmp(entry->d_name, name) != 0)
            continue;
        step = spot_xgrow(step, &cap, *n + 1, sizeof(*step));
        step[(*n)++] = value;
    }
    if (dir)
        closedir(dir);
    if (*n)
        qsort(step, *n, sizeof(*step), compare_steps);
    return step;
}

/* The place of a bundle, or with -1 of the manifest, for messages: a path, or the key in a
 * store. */
static void place_of(const struct spot_generations *g, int64_t step, int bundle,
                     char place[PATH_SIZE + 32])
{
    char dir[PATH_SIZE], key[SPOT_OBJECT_KEY_SIZE];

    spot_generation_path(g, step, "", dir);
    if (g->objects) {
        spot_objects_name(g->objects, step, bundle, key);
        snprintf(place, PATH_SIZE + 32, "store:%s", key);
    } else if (bundle < 0) {
        snprintf(place, PATH_SIZE + 32, "%s/manifest.json", dir);
    } else {
        spot_bundle_file_path(dir, bundle, place, PATH_SIZE + 32);
    }
}

/* Only regular files can be part of a generation; opening a pipe could block for ever. */
static int check_file(const char *path, struct stat *st, struct spot_err *err)
{
    if (stat(path, st))
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? spot_err_set(err, SPOT_EDATA, "'%s' is not there", path)
                   : spot_err_sys(err, "cannot open '%s'", path);
    return S_ISREG(st->st_mode) ? 0
                                : spot_err_set(err, SPOT_EDATA, "'%s' is not a regular file", path);
}

/* The JSON of a manifest. */
struct manifest_head {
    const char *job, *chain; /* chain: NULL if there is none */
    int64_t step;
};
struct manifest_commit {
    const char *key;
    int64_t round, step, nodes; /* nodes is 0 if there is no commit */
};
struct manifest_entry {
    int64_t n_byte;
    const char *hash;
};

static const struct spot_field manifest_field[] = {
    { "job", SPOT_F_STR, offsetof(struct manifest_head, job), "hex", 16, 16, true },
    { "step", SPOT_F_INT, offsetof(struct manifest_head, step), "1", 0, 9007199254740992.0, true },
    { "chain", SPOT_F_STR, offsetof(struct manifest_head, chain), "hex", 32, 32, false },
    { 0 },
};
static const struct spot_field commit_field[] = {
    { "round", SPOT_F_INT, offsetof(struct manifest_commit, round), "1", 0, UINT32_MAX, true },
    { "key", SPOT_F_STR, offsetof(struct manifest_commit, key), "hex", 16, 16, true },
    { "step", SPOT_F_INT, offsetof(struct manifest_commit, step), "1", 0, 9007199254740992.0,
      true },
    { "nodes", SPOT_F_INT, offsetof(struct manifest_commit, nodes), "1", 1, 65536, true },
    { 0 },
};
static const struct spot_field entry_field[] = {
    { "byte", SPOT_F_INT, offsetof(struct manifest_entry, n_byte), "byte", 0, 1099511627776.0,
      true },
    { "xxh3_128", SPOT_F_STR, offsetof(struct manifest_entry, hash), "hex", 32, 32, true },
    { 0 },
};
const struct spot_doc_part spot_state_part[] = {
    { "", manifest_field, .required = true },
    { "commit", commit_field, .required = false },
    { "bundles[]", entry_field, .required = true, .n_max = SPOT_GENERATION_BUNDLES },
    { 0 },
};

/* The manifest of a generation: sizes and hashes [n_bundle]. */
struct manifest {
    char place[PATH_SIZE + 32]; /* its place */
    struct spot_json_doc doc;
    struct manifest_commit commit;
    const struct spot_json_value *bundles;
};

/* Read its head and the list of its bundles, for any job and step. */
static int read_manifest(struct manifest *m, struct manifest_head *head, struct spot_err *err)
{
    const struct spot_json_value *commit;

    m->commit = (struct manifest_commit){ 0 };
    if (spot_json_expect_schema(&m->doc, "spot.state", 1, err) ||
        spot_json_read_fields(&m->doc, m->doc.root, "", manifest_field, head, err) ||
        spot_json_object(&m->doc, m->doc.root, "", "commit", false, &commit, err) ||
        spot_json_array(&m->doc, m->doc.root, "", "bundles", true, SPOT_GENERATION_BUNDLES,
                        &m->bundles, err))
        return -1;
    return commit ? spot_json_read_fields(&m->doc, commit, "/commit", commit_field, &m->commit, err)
                  : 0;
}

static int read_entry(const struct manifest *m, int bundle, struct manifest_entry *entry,
                      struct spot_err *err)
{
    char pointer[32];

    snprintf(pointer, sizeof(pointer), "/bundles/%d", bundle);
    return spot_json_read_fields(&m->doc, spot_json_entry(m->bundles, (size_t)bundle), pointer,
                                 entry_field, entry, err);
}

int spot_state_check(const char *text, size_t n_byte, struct spot_err *err)
{
    struct manifest m;
    struct manifest_head head = { 0 };
    struct manifest_entry entry;
    int rc;

    if (spot_json_parse(&m.doc, text, n_byte, "manifest.json", err))
        return -1;
    rc = read_manifest(&m, &head, err);
    for (int b = 0; !rc && b < (int)spot_json_array_size(m.bundles); b++)
        rc = read_entry(&m, b, &entry, err);
    spot_json_release(&m.doc);
    return rc;
}

static int load_manifest(const struct spot_generations *g, int64_t step, struct manifest *m,
                         struct spot_err *err)
{
    struct stat st;
    size_t n;
    char *text;
    int rc;

    place_of(g, step, -1, m->place);
    if (!g->objects)
        return check_file(m->place, &st, err) ? -1 : spot_json_load_path(&m->doc, m->place, err);
    text = spot_objects_manifest(g->objects, step, &n, err);
    rc = text ? spot_json_parse(&m->doc, text, n, m->place, err) : -1;
    free(text);
    return rc;
}

static int open_manifest(const struct spot_generations *g, int64_t step, struct manifest *m,
                         struct spot_err *err)
{
    char job[20];
    struct manifest_head head = { 0 };

    if (load_manifest(g, step, m, err))
        return -1;
    snprintf(job, sizeof(job), "%016" PRIx64, g->job);
    if (g->manifest && g->manifest != m->doc.hash) {
        spot_err_set(err, SPOT_EDATA, "'%s' is the manifest of another state", m->place);
        goto fail;
    }
    if (read_manifest(m, &head, err))
        goto fail;
    if (g->job && strcmp(head.job, job) != 0) {
        spot_err_set(
            err, SPOT_EUSAGE,
            "'%s' holds the state of another job (other model, data, seed, kernel or way to add)",
            g->dir);
        goto fail;
    }
    if (head.step != step) {
        spot_json_fail(&m->doc, "/step", err, "expected %lld", (long long)step);
        goto fail;
    }
    if (g->n_bundle && spot_json_array_size(m->bundles) != (size_t)g->n_bundle) {
        spot_json_fail(&m->doc, "/bundles", err, "expected %d bundles", g->n_bundle);
        goto fail;
    }
    return 0;
fail:
    spot_json_release(&m->doc);
    return -1;
}

/* A file of n_byte bytes, open; -1 with *err. The size is compared before memory is allocated,
 * since that in a damaged manifest may be absurd. */
static int open_file(const char *path, size_t n_byte, struct spot_err *err)
{
    struct stat st;
    int fd;

    if (check_file(path, &st, err))
        return -1;
    if ((size_t)st.st_size != n_byte)
        return spot_err_set(err, SPOT_EDATA, "'%s' has %lld bytes, expected %zu", path,
                            (long long)st.st_size, n_byte);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? spot_err_sys(err, "cannot open '%s'", path) : fd;
}

enum { HEAD_BYTE = 16, PIECE_BYTE = 1 << 20 };

struct scan {
    struct spot_hash_stream *stream;
    size_t at;
    spot_generation_bytes_fn *fn; /* NULL: not needed */
    void *user;
    bool is_refused; /* by fn */
    size_t n_byte;
    struct spot_hash128 hash; /* hash of all bytes read */
    uint8_t head[HEAD_BYTE];
};

static int scan_piece(void *user, const void *piece, size_t n, struct spot_err *err)
{
    struct scan *const scan = user;

    if (n > scan->n_byte - scan->at) /* a store may return any number of bytes */
        return spot_err_set(err, SPOT_EDATA, "there are more than the %zu bytes in the manifest",
                            scan->n_byte);
    for (size_t i = 0; i < n && scan->at + i < HEAD_BYTE; i++)
        scan->head[scan->at + i] = ((const uint8_t *)piece)[i];
    scan->at += n;
    spot_hash_stream_add(scan->stream, piece, n);
    scan->is_refused = scan->fn && scan->fn(scan->user, piece, n, err);
    return scan->is_refused ? -1 : 0;
}

static int scan_file(const char *path, size_t n_byte, struct scan *scan, struct spot_err *err)
{
    const int fd = open_file(path, n_byte, err);
    uint8_t *piece;
    int rc = 0;

    if (fd < 0)
        return -1;
    piece = spot_xcalloc(1, PIECE_BYTE);
    for (size_t at = 0; !rc && at < n_byte;) {
        const size_t most = n_byte - at < PIECE_BYTE ? n_byte - at : PIECE_BYTE;
        const ssize_t n = spot_read_at(fd, at, piece, most);

        if (n < 0)
            rc = spot_err_sys(err, "cannot read '%s'", path);
        else if ((size_t)n < most)
            rc = spot_err_set(err, SPOT_EDATA, "'%s' was truncated to less than %zu bytes", path,
                              n_byte);
        else
            rc = scan_piece(scan, piece, most, err);
        at += most;
    }
    close(fd);
    free(piece);
    return rc;
}

static int scan_object(const struct spot_generations *g, int64_t step, int bundle,
                       struct scan *scan, struct spot_err *err)
{
    if (spot_objects_get(g->objects, step, bundle, scan_piece, scan, err))
        return -1;
    return scan->at == scan->n_byte
               ? 0
               : spot_err_set(err, SPOT_EDATA,
                              "the store gives %zu bytes of bundle %d of step %lld, expected %zu",
                              scan->at, bundle, (long long)step, scan->n_byte);
}

static int scan_all(const struct spot_generations *g, int64_t step, int bundle, const char *path,
                    size_t n_byte, struct scan *scan, struct spot_err *err)
{
    int rc;

    scan->n_byte = n_byte;
    scan->stream = spot_hash_stream_new();
    rc = g->objects ? scan_object(g, step, bundle, scan, err) : scan_file(path, n_byte, scan, err);
    scan->hash = spot_hash_stream_128(scan->stream);
    spot_hash_stream_free(scan->stream);
    return rc;
}

static int scan_bundle(const struct spot_generations *g, int64_t step, const struct manifest *m,
                       int bundle, struct scan *scan, struct spot_err *err)
{
    struct manifest_entry entry;
    char path[PATH_SIZE + 32], hex[SPOT_HASH_HEX];
    struct spot_err why = { 0 };

    place_of(g, step, bundle, path);
    if (read_entry(m, bundle, &entry, err))
        return -1;
    if (scan_all(g, step, bundle, path, (size_t)entry.n_byte, scan, &why) &&
        !(scan->is_refused && why.code == SPOT_EDATA)) {
        if (err)
            *err = why;
        return -1;
    }
    if (why.code)
        return spot_err_set(err, SPOT_EDATA, "'%s' is damaged: %.300s", path, why.msg);
    spot_hash128_hex(scan->hash, hex);
    if (strcmp(hex, entry.hash) != 0)
        return spot_err_set(err, SPOT_EDATA, "'%s' is damaged: its hash is %s, not %s", path, hex,
                            entry.hash);
    if (g->n_bundle &&
        spot_bundle_check_head(bundle, step, scan->head,
                               (size_t)entry.n_byte < HEAD_BYTE ? (size_t)entry.n_byte : HEAD_BYTE,
                               &why))
        return spot_err_set(err, SPOT_EDATA, "'%s' is damaged: %.300s", path, why.msg);
    return 0;
}

static int check_sizes(const struct spot_generations *g, int64_t step, const struct manifest *m,
                       struct spot_err *err)
{
    const int n_bundle = (int)spot_json_array_size(m->bundles);
    struct spot_written *const written = spot_xcalloc((size_t)n_bundle, sizeof(*written));
    int rc = 0;

    for (int b = 0; !rc && b < n_bundle; b++) {
        struct manifest_entry entry;

        rc = read_entry(m, b, &entry, err);
        written[b].n_byte = rc ? 0 : (size_t)entry.n_byte;
    }
    if (!rc)
        rc = spot_objects_check(g->objects, step, written, n_bundle, err);
    free(written);
    return rc;
}

int spot_generation_verify(const struct spot_generations *g, int64_t step, struct spot_err *err)
{
    struct manifest m;
    int rc = 0;

    if (open_manifest(g, step, &m, err))
        return -1;
    if (g->objects)
        rc = check_sizes(g, step, &m, err);
    for (int b = 0; !g->objects && !rc && b < g->n_bundle; b++) {
        struct scan scan = { .fn = NULL };

        rc = scan_bundle(g, step, &m, b, &scan, err);
        if (g->tick)
            g->tick(g->user);
    }
    spot_json_release(&m.doc);
    return rc;
}

static double time_of(const struct timespec *t)
{
    return (double)t->tv_sec + 1e-9 * (double)t->tv_nsec;
}

/* A change within one tick of the file system's clock may have the old time. */
bool spot_generation_is_untouched(const struct spot_generations *g, int64_t step, uint64_t manifest)
{
    static const double tick_s = 0.01;
    char dir[PATH_SIZE], path[PATH_SIZE + 32];
    struct stat st;
    double committed_s;

    spot_generation_path(g, step, "/manifest.json", path);
    if (g->objects || !manifest || spot_generation_hash(g, step) != manifest || stat(path, &st))
        return false;
    committed_s = time_of(&st.st_mtim);
    spot_generation_path(g, step, "", dir);
    for (int b = 0; b < g->n_bundle; b++) {
        spot_bundle_file_path(dir, b, path, sizeof(path));
        if (stat(path, &st) || !S_ISREG(st.st_mode) ||
            fmax(time_of(&st.st_mtim), time_of(&st.st_ctim)) > committed_s - tick_s)
            return false;
    }
    return true;
}

int spot_generation_scan(const struct spot_generations *g, int64_t step, int bundle,
                         spot_generation_bytes_fn *fn, void *user, struct spot_err *err)
{
    struct scan scan = { .fn = fn, .user = user };
    struct manifest m;
    int rc;

    if (open_manifest(g, step, &m, err))
        return -1;
    rc = scan_bundle(g, step, &m, bundle, &scan, err);
    spot_json_release(&m.doc);
    return rc;
}

/* Collects all bytes of a bundle. */
struct whole {
    const struct scan *scan;
    uint8_t *data;
    size_t n_byte;
};

static int keep(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    struct whole *const whole = user;

    if (!whole->data && !(whole->data = malloc(whole->scan->n_byte)))
        return spot_err_sys(err, "no memory for a bundle of %zu bytes", whole->scan->n_byte);
    memcpy(whole->data + whole->n_byte, data, n_byte);
    whole->n_byte += n_byte;
    return 0;
}

uint8_t *spot_generation_read(const struct spot_generations *g, int64_t step, int bundle,
                              size_t *n_byte, struct spot_err *err)
{
    struct whole whole = { .data = NULL };
    struct scan scan = { .fn = keep, .user = &whole };
    struct manifest m;
    int rc;

    if (open_manifest(g, step, &m, err))
        return NULL;
    whole.scan = &scan;
    rc = scan_bundle(g, step, &m, bundle, &scan, err);
    spot_json_release(&m.doc);
    if (rc) {
        free(whole.data);
        return NULL;
    }
    *n_byte = whole.n_byte;
    return whole.data;
}

static int feed(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    return spot_bundle_reader_feed(user, data, n_byte, err);
}

struct spot_bundle *spot_generation_bundle(const struct spot_generations *g,
                                           const struct spot_shape *shape, int64_t step, int bundle,
                                           struct spot_err *err)
{
    struct spot_bundle *got = NULL;

    for (int tries = g->objects ? SPOT_STATE_COMMAND_TRIES : 1; !got && tries; tries--) {
        struct spot_bundle_reader *const reader = spot_bundle_reader_new(shape, bundle, step);

        if (!spot_generation_scan(g, step, bundle, feed, reader, err))
            (void)spot_bundle_reader_finish(reader, &got, err);
        spot_bundle_reader_free(reader);
    }
    return got;
}

int spot_generation_check(const struct spot_generations *g, int64_t step, struct spot_err *err)
{
    struct manifest m;

    if (open_manifest(g, step, &m, err))
        return -1;
    spot_json_release(&m.doc);
    return 0;
}

int spot_generation_chain(const struct spot_generations *g, int64_t step, char chain[SPOT_HASH_HEX],
                          struct spot_err *err)
{
    struct manifest m;
    struct manifest_head head = { 0 };

    if (open_manifest(g, step, &m, err))
        return -1;
    (void)read_manifest(&m, &head, NULL); /* it was checked above, so this cannot fail */
    snprintf(chain, SPOT_HASH_HEX, "%s", head.chain ? head.chain : "");
    spot_json_release(&m.doc);
    return 0;
}

int spot_generation_foreign(const struct spot_generations *g, int64_t step,
                            struct spot_foreign_commit *commit, struct spot_err *err)
{
    struct manifest m;
    struct manifest_head head = { 0 };
    int rc = 0;

    if (open_manifest(g, step, &m, err))
        return -1;
    (void)read_manifest(&m, &head, NULL); /* it was checked above, so this cannot fail */
    if (!m.commit.nodes)
        rc = spot_json_fail(&m.doc, "", err, "expected the commit of a foreign trainer");
    else
        *commit = (struct spot_foreign_commit){ .job = strtoull(head.job, NULL, 16),
                                                .key = strtoull(m.commit.key, NULL, 16),
                                                .round = m.commit.round,
                                                .step = m.commit.step,
                                                .nodes = m.commit.nodes,
                                                .n_bundle = (int)spot_json_array_size(m.bundles) };
    spot_json_release(&m.doc);
    return rc;
}

uint64_t spot_generation_hash(const struct spot_generations *g, int64_t step)
{
    struct manifest m;
    uint64_t hash;

    if (open_manifest(g, step, &m, NULL))
        return 0;
    hash = m.doc.hash;
    spot_json_release(&m.doc);
    return hash;
}

bool spot_generation_exists(const struct spot_generations *g, int64_t step)
{
    char path[PATH_SIZE];

    spot_generation_path(g, step, "/manifest.json", path);
    if (g->objects)
        return true; /* only the command could tell */
    return !access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR);
}

void spot_generation_set_aside(const struct spot_generations *g, int64_t step)
{
    char good[PATH_SIZE], bad[PATH_SIZE];

    if (g->objects) {
        spot_objects_set_aside(g->objects, step);
        return;
    }
    spot_generation_path(g, step, "", good);
    spot_generation_path(g, step, ".bad", bad);
    remove_named(g, bad);
    (void)renameat(*g->dir_fd, spot_generation_name(good), *g->dir_fd, spot_generation_name(bad));
}
