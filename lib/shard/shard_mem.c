/* SPDX-License-Identifier: MIT */
#include "shard/shard_mem.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "shard/stream.h"

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

int spot_shard_encode(const struct spot_shard_part *part, size_t n_part, enum spot_codec codec,
                      struct spot_buf *out, struct spot_err *err)
{
    const struct spot_stream_options options = { .codec = codec,
                                                 .no_frame_check = codec == SPOT_CODEC_RAW };
    struct spot_buf header = { 0 };
    struct spot_stream_writer *w;
    size_t n_raw = 0;
    int rc = -1;

    for (size_t i = 0; i < n_part; i++)
        n_raw += part[i].n_elem * spot_dtype_byte(part[i].dtype);
    make_header(part, n_part, &header);
    spot_buf_more(out, spot_chunk_stored_max(n_raw) + 2 * header.n + 128 * n_part + 4096);
    w = spot_stream_writer_new(&options, header.data, header.n, out, err);
    for (size_t i = 0; i < n_part && w; i++)
        if (spot_stream_writer_feed(w, part[i].data,
                                    part[i].n_elem * spot_dtype_byte(part[i].dtype), out, err))
            goto out;
    if (w)
        rc = spot_stream_writer_finish(w, out, err);
out:
    spot_stream_writer_free(w);
    spot_buf_release(&header);
    return rc;
}

struct into {
    const struct spot_shard_place *place;
    size_t n_place;
    const struct spot_st *st;
    size_t *of_tensor; /* [n_tensor]: which place */
};

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

/* Names are unique on the stream's side; equal counts and one match for each place make a pairing.
 */
static int pair_up(void *user, const struct spot_st *st, const void *header, size_t n_header,
                   struct spot_err *err)
{
    struct into *into = user;

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
    const struct into *into = user;
    char *base = into->place[into->of_tensor[chunk->tensor]].data;

    return base + (chunk->raw_off - into->st->tensor[chunk->tensor].begin);
}

static int decode(const void *bytes, size_t n_byte, const struct spot_shard_place *places,
                  size_t n_place, bool keep, struct spot_err *err)
{
    struct into into = { .place = places, .n_place = n_place };
    const struct spot_stream_sink sink = { .on_header = pair_up,
                                           .place = keep ? place : NULL,
                                           .user = &into };
    struct spot_stream_reader *r = spot_stream_reader_new(&sink, "shard");
    int rc = spot_stream_reader_feed(r, bytes, n_byte, err);

    if (!rc)
        rc = spot_stream_reader_finish(r, err);
    spot_stream_reader_free(r);
    free(into.of_tensor);
    return rc;
}

int spot_shard_decode(const void *bytes, size_t n_byte, const struct spot_shard_place *places,
                      size_t n_place, struct spot_err *err)
{
    return decode(bytes, n_byte, places, n_place, true, err);
}

int spot_shard_check(const void *bytes, size_t n_byte, const struct spot_shard_place *places,
                     size_t n_place, struct spot_err *err)
{
    return decode(bytes, n_byte, places, n_place, false, err);
}
