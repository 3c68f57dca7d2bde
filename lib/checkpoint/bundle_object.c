/* SPDX-License-Identifier: MIT */
/* A bundle goes to a store behind a command as it is coded. */
#include "checkpoint/bundle_file.h"
#include "checkpoint/bundle_io.h"
#include "checkpoint/object_store.h"

struct out {
    const struct spot_bundle *bundle;
    struct spot_bundle_writer *writer;
    struct spot_hash_stream *hash;
    size_t n_byte;
};

static void release(struct out *out)
{
    spot_bundle_writer_free(out->writer);
    spot_hash_stream_free(out->hash);
    out->writer = NULL;
    out->hash = NULL;
}

static int rewind_bundle(void *user, struct spot_err *err)
{
    struct out *const out = user;

    release(out);
    out->n_byte = 0;
    out->hash = spot_hash_stream_new();
    out->writer = spot_bundle_writer_new(out->bundle, err);
    return out->writer ? 0 : -1;
}

static int next_piece(void *user, struct spot_buf *piece, struct spot_err *err)
{
    struct out *const out = user;
    const int more = spot_bundle_writer_next(out->writer, piece, err);

    spot_hash_stream_add(out->hash, piece->data, piece->n);
    out->n_byte += piece->n;
    return more;
}

int spot_bundle_object_write(struct spot_objects *objects, uint64_t nonce,
                             const struct spot_bundle *bundle, struct spot_written *written,
                             struct spot_err *err)
{
    struct out out = { .bundle = bundle };
    const struct spot_command_io io = { .rewind = rewind_bundle, .next = next_piece, .user = &out };
    const int rc = spot_objects_put(objects, bundle->step, nonce, bundle->index, &io, err);

    if (!rc)
        *written = (struct spot_written){ out.n_byte, spot_hash_stream_128(out.hash) };
    release(&out);
    return rc;
}
