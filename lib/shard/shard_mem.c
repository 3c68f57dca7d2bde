/* SPDX-License-Identifier: MIT */
#include "shard/shard_mem.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static void make_header(const struct spot_shard_part *part, size_t n_part, struct spot_buf *header)
{
    struct spot_st_tensor *t = spot_xcalloc(n_part, sizeof(*t));

    for (size_t i = 0; i < n_part; i++) {
        t[i].name = spot_xstrdup(part[i].name);
        t[i].dtype = part[i].dtype;
        t[i].n_dim = 1;
        t[i].dim[0] = part[i].n_elem;
    }
    spot_st_write(t, n_part, header);
    for (size_t i = 0; i < n_part; i++)
        free(t[i].name);
    free(t);
}

/* A chunk lies in one part; parts are in order. */
static const void *point(void *user, const struct spot_chunk *chunk)
{
    const struct spot_part_source *from = user;
    size_t low = 0, high = from->n_part;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (from->begin[middle] <= chunk->raw_off)
            low = middle;
        else
            high = middle;
    }
    return (const char *)from->part[low].data + (chunk->raw_off - from->begin[low]);
}

void spot_part_source_init(struct spot_part_source *from, const struct spot_shard_part *part,
                           size_t n_part)
{
    uint64_t at = 0;

    *from = (struct spot_part_source){ .part = part, .n_part = n_part };
    from->begin = spot_xcalloc(n_part, sizeof(*from->begin));
    for (size_t i = 0; i < n_part; i++) {
        from->begin[i] = at;
        at += part[i].n_elem * spot_dtype_byte(part[i].dtype);
    }
    make_header(part, n_part, &from->header);
    from->source = (struct spot_source){
        .header = from->header.data, .n_header = from->header.n, .point = point, .user = from
    };
}

void spot_part_source_release(struct spot_part_source *from)
{
    free(from->begin);
    spot_buf_release(&from->header);
}

static int match(const struct spot_st_tensor *t, const struct spot_shard_place *p,
                 struct spot_err *err)
{
    const size_t n_byte = p->n_elem * spot_dtype_byte(p->dtype);

    if (t->dtype != p->dtype || t->end - t->begin != n_byte)
        return spot_err_set(err, SPOT_EDATA,
                            "'%.64s' is %s of %llu bytes, expected %s of %zu bytes", t->name,
                            spot_dtype_name(t->dtype), (unsigned long long)(t->end - t->begin),
                            spot_dtype_name(p->dtype), n_byte);
    return 0;
}

/* Matches arrays to places by name: names are unique in the stream, so equal counts and a match for
 * each place are enough.
 */
static int pair_up(void *user, const struct spot_st *st, const void *header, size_t n_header,
                   struct spot_err *err)
{
    struct spot_place_sink *into = user;

    (void)header;
    (void)n_header;
    if (st->n_tensor != into->n_place)
        return spot_err_set(err, SPOT_EDATA, "%zu parts, expected %zu", st->n_tensor,
                            into->n_place);
    into->st = st;
    into->of_tensor = spot_xcalloc(st->n_tensor, sizeof(*into->of_tensor));
    memset(into->of_tensor, 0xff, st->n_tensor * sizeof(*into->of_tensor));
    for (size_t i = 0; i < into->n_place; i++) {
        const ptrdiff_t t = spot_st_find(st, into->place[i].name);

        if (t < 0)
            return spot_err_set(err, SPOT_EDATA, "lacks the part '%.64s'", into->place[i].name);
        if (match(&st->tensor[t], &into->place[i], err))
            return -1;
        assert(into->of_tensor[t] == SIZE_MAX); /* the caller names each place once */
        into->of_tensor[t] = i;
    }
    return 0;
}

static void *place(void *user, const struct spot_chunk *chunk)
{
    const struct spot_place_sink *into = user;
    char *base = into->place[into->of_tensor[chunk->tensor]].data;

    return base + (chunk->raw_off - into->st->tensor[chunk->tensor].begin);
}

void spot_place_sink_init(struct spot_place_sink *into, const struct spot_shard_place *places,
                          size_t n_place, bool is_kept)
{
    *into = (struct spot_place_sink){ .place = places, .n_place = n_place };
    into->sink =
        (struct spot_sink){ .begin = pair_up, .place = is_kept ? place : NULL, .user = into };
}

void spot_place_sink_release(struct spot_place_sink *into)
{
    free(into->of_tensor);
}
