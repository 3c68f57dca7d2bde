/* SPDX-License-Identifier: MIT */
/* Streams a bundle to a store behind a command while it is encoded. */
#include "checkpoint/bundle_file.h"
#include "checkpoint/bundle_io.h"
#include "checkpoint/object_store.h"

struct out {
    const struct spot_bundle *bundle;
    struct spot_bundle_writer *writer;
};

static int rewind_bundle(void *user, struct spot_err *err)
{
    struct out *const out = user;

    spot_bundle_writer_free(out->writer);
    out->writer = spot_bundle_writer_new(out->bundle, err);
    return out->writer ? 0 : -1;
}

static int next_piece(void *user, struct spot_buf *piece, struct spot_err *err)
{
    return spot_bundle_writer_next(((struct out *)user)->writer, piece, err);
}

int spot_bundle_object_write(struct spot_objects *objects, uint64_t nonce,
                             const struct spot_bundle *bundle, struct spot_written *written,
                             struct spot_err *err)
{
    struct out out = { .bundle = bundle };
    const struct spot_command_io io = { .rewind = rewind_bundle, .next = next_piece, .user = &out };
    const int rc = spot_objects_put(objects, bundle->step, nonce, bundle->index, &io, written, err);

    spot_bundle_writer_free(out.writer);
    return rc;
}
