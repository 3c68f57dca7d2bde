/* SPDX-License-Identifier: MIT */
#include "weights/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/hash.h"
#include "common/json.h"
#include "common/xalloc.h"
#include "weights/hf_config.h"
#include "weights/hf_kind.h"
#include "weights/hf_names.h"
#include "weights/plain.h"
#include "weights/tensor_file.h"

enum { FILES_MAX = 1024, PATH_MAX_BYTE = 4096 };

/* A tensor under its name without prefix. */
struct entry {
    const char *bare;
    const struct spot_tensor_file *file;
    const struct spot_st_tensor *tensor;
};

struct spot_weights {
    struct spot_shape shape;
    struct spot_tensor_file *file; /* [n_file] */
    size_t n_file;
    struct entry *entry; /* [n_entry] in order of names */
    size_t n_entry;
    uint64_t xxh3;
    uint64_t *bundle_xxh3; /* [bundles] */
    struct spot_plain plain;
    bool is_plain; /* model.bundles is used instead of files */
};

/* --- files ------------------------------------------------------------------- */

static int add_file(struct spot_weights *w, const char *path, struct spot_err *err)
{
    w->file = spot_xrealloc(w->file, w->n_file + 1, sizeof(*w->file));
    return spot_tensor_file_open(&w->file[w->n_file++], path, &w->shape, err);
}

/* n_file: none. */
static size_t find_file(const struct spot_weights *w, const char *path)
{
    size_t i = 0;

    while (i < w->n_file && strcmp(w->file[i].path, path) != 0)
        i++;
    return i;
}

/* Adds the files that an index names, in its directory, and checks the listed tensors.
 */
static int add_index(struct spot_weights *w, const char *dir, const char *index,
                     struct spot_err *err)
{
    struct spot_json_doc doc;
    const struct spot_json_value *map;
    int rc;

    if (spot_json_load_path(&doc, index, err))
        return -1;
    rc = spot_json_object(&doc, doc.root, "", "weight_map", true, &map, err);
    for (size_t i = 0; !rc && i < spot_json_size(map); i++) {
        const char *tensor;
        const char *const name = spot_json_text(spot_json_member(map, i, &tensor));
        char path[PATH_MAX_BYTE];
        size_t file;

        if (!name || !*name || strchr(name, '/') || strlen(name) > 255) {
            rc = spot_json_fail(&doc, "/weight_map", err,
                                "'%.80s' must name a file beside the index", tensor);
            break;
        }
        snprintf(path, sizeof(path), "%s/%s", dir, name);
        file = find_file(w, path);
        if (file == w->n_file)
            rc = w->n_file < FILES_MAX
                     ? add_file(w, path, err)
                     : spot_json_fail(&doc, "/weight_map", err, "more than %d files", FILES_MAX);
        if (!rc && spot_st_find(&w->file[file].st, tensor) < 0)
            rc = spot_json_fail(&doc, "/weight_map", err, "%s has no tensor '%.80s'", path, tensor);
    }
    spot_json_release(&doc);
    return rc;
}

/* Adds the files of a directory; refuses it if it has two sets of weights. */
static int add_directory(struct spot_weights *w, const char *dir, struct spot_err *err)
{
    char one[PATH_MAX_BYTE], index[PATH_MAX_BYTE], adapter[PATH_MAX_BYTE], gguf[PATH_MAX_BYTE];
    struct stat st;

    snprintf(one, sizeof(one), "%s/model.safetensors", dir);
    snprintf(index, sizeof(index), "%s/model.safetensors.index.json", dir);
    snprintf(gguf, sizeof(gguf), "%s/model.gguf", dir);
    snprintf(adapter, sizeof(adapter), "%s/adapter_config.json", dir);
    if (!stat(adapter, &st))
        return spot_err_set(err, SPOT_EDATA,
                            "%s: this is an adapter, not a model: give its base model by --model, "
                            "and the adapter by --lora NAME=%s",
                            adapter, dir);
    if (stat(index, &st))
        return add_file(w, stat(one, &st) && !stat(gguf, &st) ? gguf : one, err);
    if (add_index(w, dir, index, err))
        return -1;
    if (!stat(one, &st) && find_file(w, one) == w->n_file)
        return spot_err_set(
            err, SPOT_EDATA,
            "%s is not listed in model.safetensors.index.json beside it: remove one of them", one);
    return 0;
}

static int add_files(struct spot_weights *w, const char *path, struct spot_err *err)
{
    static const char suffix[] = ".index.json";
    const size_t n = strlen(path);
    char name[PATH_MAX_BYTE], dir[PATH_MAX_BYTE];
    struct stat st;

    if (n + 64 > sizeof(name))
        return spot_err_set(err, SPOT_EUSAGE, "--load: the path is too long");
    if (spot_hf_check_kind(path, err))
        return -1;
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return add_directory(w, path, err);
    if (n <= sizeof(suffix) - 1 || strcmp(path + n - (sizeof(suffix) - 1), suffix) != 0)
        return add_file(w, path, err);
    snprintf(dir, sizeof(dir), "%s", path);
    if (strrchr(dir, '/'))
        *strrchr(dir, '/') = '\0';
    return add_index(w, strchr(path, '/') ? dir : ".", path, err);
}

/* --- tensors ------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct entry *const x = a, *const y = b;

    return strcmp(x->bare, y->bare);
}

static void list_entries(struct spot_weights *w)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n_file; i++)
        n += w->file[i].st.n_tensor;
    w->entry = spot_xcalloc(n ? n : 1, sizeof(*w->entry));
    for (size_t i = 0; i < w->n_file; i++)
        for (size_t t = 0; t < w->file[i].st.n_tensor; t++) {
            const struct spot_st_tensor *const tensor = &w->file[i].st.tensor[t];

            w->entry[w->n_entry++] =
                (struct entry){ spot_hf_bare(tensor->name), &w->file[i], tensor };
        }
    qsort(w->entry, w->n_entry, sizeof(*w->entry), compare);
}

/* The tensor of that bare name, NULL if missing, and its file. */
static const struct spot_st_tensor *find(const struct spot_weights *w, const char *name,
                                         const struct spot_tensor_file **file)
{
    const struct entry key = { .bare = spot_hf_bare(name) };
    const struct entry *const e = bsearch(&key, w->entry, w->n_entry, sizeof(*w->entry), compare);

    if (!e)
        return NULL;
    *file = e->file;
    return e->tensor;
}

/* Expected size of a tensor: rows and columns in the file; columns 0 for a vector. */
struct want {
    int64_t rows, cols;
    bool may_be_longer; /* may have more rows */
};

static struct want want_of(const struct spot_shape *shape, const struct spot_tensor *t,
                           const struct spot_hf_name *name)
{
    const int64_t rows = spot_hf_n_row(shape, t, name);

    if (t->cols == 1)
        return (struct want){ rows, 0, false };
    if (name->how != SPOT_HF_STACK)
        return (struct want){ t->cols, rows, false };
    return (struct want){ rows, t->cols, !strcmp(t->name, "wpe") };
}

static int check_tensor(const struct spot_tensor_file *f, const struct spot_st_tensor *t,
                        const struct want *want, struct spot_err *err)
{
    const int n_dim = want->cols ? 2 : 1;
    const bool fits = t->n_dim == n_dim && (!want->cols || t->dim[1] == (uint64_t)want->cols) &&
                      (t->dim[0] == (uint64_t)want->rows ||
                       (want->may_be_longer && t->dim[0] > (uint64_t)want->rows));

    if (spot_tensor_file_check_type(f, t, err))
        return -1;
    if (fits)
        return 0;
    return spot_err_set(err, SPOT_EDATA,
                        want->cols ? "%s: %s: shape %dD [%llu, %llu], expected [%lld, %lld]"
                                   : "%s: %s: shape %dD [%llu, %llu], expected [%lld]",
                        f->path, t->name, t->n_dim, (unsigned long long)t->dim[0],
                        (unsigned long long)(t->n_dim > 1 ? t->dim[1] : 0), (long long)want->rows,
                        (long long)want->cols);
}

/* --- bundles ---------------------------------------------------------------------- */

/* Distributes a whole tensor to the shards, the inverse of `gather` in save.c. */
static void scatter(struct spot_bundle *bundle, const struct spot_shape *shape,
                    const struct spot_hf_name *name, int64_t expert, const float *in, bool has_rest)
{
    const struct spot_arena *const a = &bundle->arena;
    const int tensor = spot_arena_find(a, name->ours);
    const struct spot_tensor *const t = &a->tensor[tensor];
    const struct spot_hf_rows span = spot_hf_rows(shape, t, name, expert);
    const int n_shard = t->is_sharded ? a->n_shard : 1;
    const int64_t n_row = spot_hf_n_row(shape, t, name), rows = n_shard * span.n;
    const float rest = has_rest ? spot_hf_rest(shape, name) : 0;

    for (int s = 0; s < n_shard; s++) {
        float *const out = bundle->plane[SPOT_PLANE_MASTER] + spot_arena_offset(a, tensor, s) +
                           span.first * t->cols;

        for (int64_t r = 0; r < span.n; r++) {
            const int64_t row = spot_hf_row(&span, n_shard, s, r);

            for (int64_t c = 0; row < n_row && c < t->cols; c++)
                out[r * t->cols + c] =
                    in[name->how == SPOT_HF_STACK ? row * t->cols + c : c * rows + row];
            for (int64_t c = 0; rest != 0 && c < t->cols; c++)
                out[r * t->cols + c] += rest;
        }
    }
}

static const char head_name[] = "lm_head.weight";

static const char *embed_name(const struct spot_weights *w)
{
    struct spot_hf_name list[SPOT_HF_NAMES_MAX];

    spot_hf_names(&w->shape, 0, list);
    return list[0].theirs;
}

/* The tensor of a name; a missing or tied head is the embedding. */
static const struct spot_st_tensor *find_or_tied(const struct spot_weights *w, const char *name,
                                                 const struct spot_tensor_file **file)
{
    const bool is_head = !strcmp(name, head_name);
    const struct spot_st_tensor *const t = is_head && w->shape.is_tied ? NULL : find(w, name, file);

    return t || !is_head ? t : find(w, embed_name(w), file);
}

/* A missing head is the embedding unless config or metadata say that it is not tied. */
static int check_head(const struct spot_weights *w, const char *path, struct spot_err *err)
{
    char config[SPOT_HF_CONFIG_PATH];
    struct spot_shape said = { .is_tied = 0 };
    const struct spot_tensor_file *file;
    int rc;

    if (w->shape.is_tied || find(w, head_name, &file))
        return 0;
    rc = spot_hf_config_of(path, config, &said, err);
    if (rc > 0 && !said.is_tied)
        rc =
            spot_err_set(err, SPOT_EDATA, "%s: no tensor %s, and %s says that the head is not tied",
                         w->file[0].path, head_name, config);
    return rc < 0 ? -1 : 0;
}

/* The file of a tied model may contain the table twice if both are equal. */
static int check_tied(const struct spot_weights *w, struct spot_err *err)
{
    const size_t n = (size_t)(w->shape.vocab * w->shape.width);
    const struct spot_tensor_file *file[2];
    const struct spot_st_tensor *const t[2] = { find(w, embed_name(w), &file[0]),
                                                find(w, head_name, &file[1]) };
    float *x[2] = { NULL, NULL };
    int rc = 0;

    if (!w->shape.is_tied || !t[1])
        return 0;
    for (int i = 0; i < 2 && !rc; i++) {
        const struct want want = { w->shape.vocab, w->shape.width, false };

        rc = check_tensor(file[i], t[i], &want, err);
        if (!rc && !(x[i] = spot_tensor_file_read(file[i], t[i], n, err)))
            rc = -1;
    }
    if (!rc && memcmp(x[0], x[1], n * sizeof(float)) != 0)
        rc = spot_err_set(err, SPOT_EDATA, "%s: %s is not %s: the head is not tied", file[1]->path,
                          t[1]->name, t[0]->name);
    spot_free_aligned(x[0]);
    spot_free_aligned(x[1]);
    return rc;
}

/* Refuses weights that are not finite, with the position. */
static int check_finite(const struct spot_tensor_file *f, const struct spot_st_tensor *t,
                        const float *x, size_t n, struct spot_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return spot_err_set(err, SPOT_EDATA,
                                "%s: %s: element %zu is %g, expected a finite number", f->path,
                                t->name, i, (double)x[i]);
    return 0;
}

/* Hashes over the numbers of a bundle. */
struct sums {
    struct spot_hash_stream *all; /* of all bundles; NULL: not needed */
    uint64_t *own;                /* of this one */
};

/* Reads a tensor of a bundle, into `bundle` unless that is NULL. */
static int add_tensor(const struct spot_weights *w, const struct spot_arena *a, int index,
                      const struct spot_hf_name *name, int64_t expert, struct spot_bundle *bundle,
                      struct spot_hash_stream *all, struct spot_hash_stream *own,
                      struct spot_err *err)
{
    const struct want want = want_of(&w->shape, &a->tensor[spot_arena_find(a, name->ours)], name);
    const size_t n_elem = (size_t)(want.rows * (want.cols ? want.cols : 1));
    const struct spot_st_tensor *t;
    const struct spot_tensor_file *file;
    char full[SPOT_HF_NAME_MAX];
    float *x;

    spot_hf_name_of(&w->shape, index, name, expert, full);
    t = find_or_tied(w, full, &file);
    if (!t)
        return spot_err_set(err, SPOT_EDATA, "%s: no tensor %s", w->file[0].path, full);
    if (check_tensor(file, t, &want, err))
        return -1;
    x = spot_tensor_file_read(file, t, n_elem, err);
    if (!x)
        return -1;
    if (all && check_finite(file, t, x, n_elem, err)) {
        spot_free_aligned(x);
        return -1;
    }
    if (all)
        spot_hash_stream_add(all, x, n_elem * sizeof(*x));
    spot_hash_stream_add(own, x, n_elem * sizeof(*x));
    if (bundle)
        scatter(bundle, &w->shape, name, expert, x, !file->gguf);
    spot_free_aligned(x);
    return 0;
}

static int add_tensors(const struct spot_weights *w, int index, struct spot_bundle *bundle,
                       struct spot_hash_stream *all, struct spot_hash_stream *own,
                       struct spot_err *err)
{
    struct spot_hf_name list[SPOT_HF_NAMES_MAX];
    struct spot_arena a;
    size_t n;

    spot_arena_of(&w->shape, index, &a);
    n = spot_hf_names(&w->shape, index, list);
    for (size_t i = 0; i < n; i++)
        for (int64_t e = 0; e < spot_hf_copies(&w->shape, &list[i]); e++)
            if (add_tensor(w, &a, index, &list[i], e, bundle, all, own, err))
                return -1;
    return 0;
}

static int visit(const struct spot_weights *w, int index, struct spot_bundle *bundle,
                 const struct sums *sums, struct spot_err *err)
{
    struct spot_hash_stream *const own = spot_hash_stream_new();
    const int rc = add_tensors(w, index, bundle, sums->all, own, err);

    *sums->own = spot_hash_stream_64(own);
    spot_hash_stream_free(own);
    return rc;
}

static int check_names(const struct spot_weights *w, struct spot_err *err)
{
    for (size_t i = 0; i < w->n_entry; i++) {
        const struct entry *const e = &w->entry[i];

        if (!spot_hf_is_known(&w->shape, e->tensor->name))
            return spot_err_set(err, SPOT_EDATA, "%s: %.200s: the model has no such tensor",
                                e->file->path, e->tensor->name);
        if (i && !strcmp(e->bare, e[-1].bare))
            return spot_err_set(err, SPOT_EDATA, "%s: %.200s: it is there twice, also in %s",
                                e->file->path, e->tensor->name, e[-1].file->path);
    }
    return 0;
}

/* Opens the files and checks the names of their tensors; does not read numbers. */
static struct spot_weights *open_files(const char *path, const struct spot_shape *shape,
                                       struct spot_err *err)
{
    struct spot_weights *const w = spot_xcalloc(1, sizeof(*w));
    int rc;

    w->shape = *shape;
    w->bundle_xxh3 = spot_xcalloc((size_t)spot_shape_bundles(shape), sizeof(*w->bundle_xxh3));
    rc = add_files(w, path, err);
    if (!rc && !w->n_file)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no files in the index", path);
    if (!rc) {
        list_entries(w);
        rc = check_names(w, err);
    }
    if (!rc)
        rc = check_head(w, path, err);
    if (!rc)
        return w;
    spot_weights_close(w);
    return NULL;
}

/* Returns 1 with *weights, 0 if there is no such file, or -1 with *err. */
static int open_plain(struct spot_weights **weights, const char *dir,
                      const struct spot_shape *shape, struct spot_err *err)
{
    struct spot_weights *const w = spot_xcalloc(1, sizeof(*w));
    const int rc = spot_plain_open(&w->plain, dir, shape, err);

    w->is_plain = rc > 0;
    w->shape = *shape;
    w->xxh3 = w->plain.xxh3;
    w->bundle_xxh3 = spot_xcalloc((size_t)spot_shape_bundles(shape), sizeof(*w->bundle_xxh3));
    if (w->is_plain) {
        memcpy(w->bundle_xxh3, w->plain.hash,
               (size_t)spot_shape_bundles(shape) * sizeof(*w->bundle_xxh3));
        *weights = w;
    } else {
        spot_weights_close(w);
    }
    return rc;
}

struct spot_weights *spot_weights_open(const char *path, const struct spot_shape *shape,
                                       struct spot_err *err)
{
    struct spot_weights *w = NULL;
    struct spot_hash_stream *hash;
    int rc = open_plain(&w, path, shape, err);

    if (rc)
        return w;
    w = open_files(path, shape, err);
    if (!w)
        return NULL;
    hash = spot_hash_stream_new();
    for (int b = 0; !rc && b < spot_shape_bundles(shape); b++)
        rc = visit(w, b, NULL, &(struct sums){ hash, &w->bundle_xxh3[b] }, err);
    if (!rc)
        rc = check_tied(w, err);
    w->xxh3 = spot_hash_stream_64(hash) | 1;
    spot_hash_stream_free(hash);
    if (!rc)
        return w;
    spot_weights_close(w);
    return NULL;
}

struct spot_weights *spot_weights_open_part(const char *path, const struct spot_shape *shape,
                                            const uint64_t *bundle_xxh3, struct spot_err *err)
{
    struct spot_weights *const w = open_files(path, shape, err);

    if (w)
        memcpy(w->bundle_xxh3, bundle_xxh3,
               (size_t)spot_shape_bundles(shape) * sizeof(*bundle_xxh3));
    return w;
}

uint64_t spot_weights_xxh3(const struct spot_weights *w)
{
    return w->xxh3;
}

const uint64_t *spot_weights_bundle_xxh3(const struct spot_weights *w)
{
    return w->bundle_xxh3;
}

int spot_weights_read(const struct spot_weights *w, struct spot_bundle *bundle,
                      struct spot_err *err)
{
    uint64_t got;

    if (w->is_plain)
        return spot_plain_read(&w->plain, bundle, err);
    if (visit(w, bundle->index, bundle, &(struct sums){ NULL, &got }, err))
        return -1;
    return got == w->bundle_xxh3[bundle->index]
               ? 0
               : spot_err_set(err, SPOT_EDATA,
                              "%s: bundle %d has changed since the job began: hash %016llx, "
                              "expected %016llx",
                              w->file[0].path, bundle->index, (unsigned long long)got,
                              (unsigned long long)w->bundle_xxh3[bundle->index]);
}

void spot_weights_close(struct spot_weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_file; i++)
        spot_tensor_file_close(&w->file[i]);
    free(w->file);
    spot_plain_release(&w->plain);
    free(w->entry);
    free(w->bundle_xxh3);
    free(w);
}
