/* SPDX-License-Identifier: MIT */
#include "weights/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/pio.h"
#include "common/xalloc.h"
#include "weights/save.h"

enum { ALIGN = 4096, PATH_MAX_BYTE = 4096 };

/* The head is written last, so a file without it is incomplete. */
struct head {
    char magic[8];
    uint64_t places_hash, xxh3,
        own_hash; /* hash of the fields above and of hash[n_bundle], which follow */
};

static const char magic[8] = "spotwts1";

static size_t head_byte(const struct spot_plain *p)
{
    return sizeof(struct head) + (size_t)p->n_bundle * sizeof(*p->hash);
}

/* Hash of the layout; the other settings of a shape are in config.json. */
static uint64_t hash_of_places(const struct spot_shape *shape)
{
    struct spot_hash_stream *const s = spot_hash_stream_new();
    uint64_t hash;

    for (int b = 0; b < spot_shape_bundles(shape); b++) {
        struct spot_arena a;

        spot_arena_of(shape, b, &a);
        for (int t = 0; t < a.n_tensor; t++) {
            const struct spot_tensor *const of = &a.tensor[t];
            const uint64_t where[] = { (uint64_t)of->is_sharded, (uint64_t)of->rows,
                                       (uint64_t)of->cols, of->offset };

            spot_hash_stream_add(s, of->name, strlen(of->name));
            spot_hash_stream_add(s, where, sizeof(where));
        }
        spot_hash_stream_add(s, &a.n_shard, sizeof(a.n_shard));
        spot_hash_stream_add(s, &a.n_elem, sizeof(a.n_elem));
    }
    hash = spot_hash_stream_64(s);
    spot_hash_stream_free(s);
    return hash;
}

static uint64_t hash_of_head(const struct spot_plain *p, const struct head *h)
{
    struct spot_hash_stream *const s = spot_hash_stream_new();
    uint64_t hash;

    spot_hash_stream_add(s, &h->places_hash, sizeof(h->places_hash));
    spot_hash_stream_add(s, &h->xxh3, sizeof(h->xxh3));
    spot_hash_stream_add(s, p->hash, (size_t)p->n_bundle * sizeof(*p->hash));
    hash = spot_hash_stream_64(s);
    spot_hash_stream_free(s);
    return hash;
}

/* Sets the offset of each bundle. */
static void lay_out(struct spot_plain *p, const struct spot_shape *shape)
{
    uint64_t at;

    p->n_bundle = spot_shape_bundles(shape);
    p->hash = spot_xcalloc((size_t)p->n_bundle, sizeof(*p->hash));
    p->at_byte = spot_xcalloc((size_t)p->n_bundle + 1, sizeof(*p->at_byte));
    at = (head_byte(p) + ALIGN - 1) / ALIGN * ALIGN;
    for (int b = 0; b < p->n_bundle; b++) {
        struct spot_arena a;

        spot_arena_of(shape, b, &a);
        p->at_byte[b] = at;
        at += a.n_elem * sizeof(float); /* a whole number of pages, like each shard */
    }
    p->at_byte[p->n_bundle] = at;
}

static int open_at(struct spot_plain *p, const char *dir, int flags)
{
    char path[PATH_MAX_BYTE];

    memset(p, 0, sizeof(*p));
    p->fd = -1;
    if (snprintf(path, sizeof(path), "%s/" SPOT_PLAIN_NAME, dir) < (int)sizeof(path))
        p->fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    else
        errno = ENAMETOOLONG;
    return p->fd < 0 ? -1 : 0;
}

/* --- writing --------------------------------------------------------------------- */

int spot_plain_create(struct spot_plain *p, const char *dir, const struct spot_shape *shape,
                      struct spot_err *err)
{
    if (open_at(p, dir, O_RDWR | O_CREAT | O_EXCL))
        return spot_err_sys(err, "cannot make %s/model.bundles", dir);
    lay_out(p, shape);
    p->all = spot_hash_stream_new();
    return 0;
}

static int cannot_write(struct spot_err *err)
{
    return spot_err_sys(err, "cannot write model.bundles");
}

int spot_plain_add(struct spot_plain *p, const struct spot_shape *shape,
                   const struct spot_bundle *bundle, uint64_t hash, struct spot_err *err)
{
    const int b = p->next++;

    p->hash[b] = hash;
    if (spot_weights_hash(p->all, shape, bundle))
        return spot_err_set(err, SPOT_EDATA, "weights of bundle %d are not finite", b);
    return spot_write_at(p->fd, p->at_byte[b], bundle->plane[SPOT_PLANE_MASTER],
                         bundle->arena.n_elem * sizeof(float))
               ? cannot_write(err)
               : 0;
}

int spot_plain_finish(struct spot_plain *p, const struct spot_shape *shape, struct spot_err *err)
{
    struct head h = { .places_hash = hash_of_places(shape) };

    memcpy(h.magic, magic, sizeof(magic));
    h.xxh3 = p->xxh3 = spot_hash_stream_64(p->all) | 1;
    h.own_hash = hash_of_head(p, &h);
    return spot_write_at(p->fd, 0, &h, sizeof(h)) ||
                   spot_write_at(p->fd, sizeof(h), p->hash, (size_t)p->n_bundle * sizeof(*p->hash))
               ? cannot_write(err)
               : 0;
}

/* --- reading ---------------------------------------------------------------------- */

static bool read_head(struct spot_plain *p, const struct spot_shape *shape)
{
    const size_t n = (size_t)p->n_bundle * sizeof(*p->hash);
    struct head h;

    if (spot_read_at(p->fd, 0, &h, sizeof(h)) != (ssize_t)sizeof(h) ||
        spot_read_at(p->fd, sizeof(h), p->hash, n) != (ssize_t)n ||
        memcmp(h.magic, magic, sizeof(magic)) != 0 || h.places_hash != hash_of_places(shape) ||
        h.own_hash != hash_of_head(p, &h))
        return false;
    p->xxh3 = h.xxh3;
    return true;
}

int spot_plain_open(struct spot_plain *p, const char *dir, const struct spot_shape *shape,
                    struct spot_err *err)
{
    if (open_at(p, dir, O_RDONLY))
        return errno == ENOENT || errno == ENOTDIR
                   ? 0
                   : spot_err_sys(err, "cannot open %s/model.bundles", dir);
    lay_out(p, shape);
    return read_head(p, shape)
               ? 1
               : spot_err_set(err, SPOT_EDATA, "%s/model.bundles: incomplete, or of another model",
                              dir);
}

int spot_plain_read(const struct spot_plain *p, struct spot_bundle *bundle, struct spot_err *err)
{
    const int b = bundle->index;
    const size_t n = bundle->arena.n_elem * sizeof(float);
    float *const to = bundle->plane[SPOT_PLANE_MASTER];

    if (spot_read_at(p->fd, p->at_byte[b], to, n) == (ssize_t)n && spot_hash64(to, n) == p->hash[b])
        return 0;
    return spot_err_set(err, SPOT_EDATA, "model.bundles: bundle %d is damaged", b);
}

void spot_plain_release(struct spot_plain *p)
{
    if (p->at_byte && p->fd >= 0)
        close(p->fd);
    free(p->hash);
    free(p->at_byte);
    spot_hash_stream_free(p->all);
    memset(p, 0, sizeof(*p));
    p->fd = -1;
}
