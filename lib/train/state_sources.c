/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* realpath */
#include "train/state_sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/generation.h"
#include "common/xalloc.h"
#include "weights/load.h"

void spot_state_sources_path(const char *path, char out[PATH_MAX])
{
    char *const real = path ? realpath(path, NULL) : NULL;

    snprintf(out, PATH_MAX, "%s", real && strlen(real) < PATH_MAX ? real : "");
    free(real);
}

void spot_state_sources_put(struct spot_buf *out, const struct spot_state_sources *s)
{
    spot_put_text(out, s->state);
    spot_put_u64(out, s->job);
    spot_put_text(out, s->load);
    spot_put_u32(out, s->n_load);
    for (uint32_t b = 0; b < s->n_load; b++)
        spot_put_u64(out, s->load_xxh3[b]);
}

void spot_state_sources_get(struct spot_wire_in *in, struct spot_state_sources *s)
{
    spot_get_text(in, s->state, sizeof(s->state));
    s->job = spot_get_u64(in);
    spot_get_text(in, s->load, sizeof(s->load));
    s->n_load = spot_get_count(in, sizeof(*s->load_xxh3));
    s->load_xxh3 = spot_xcalloc(s->n_load, sizeof(*s->load_xxh3));
    for (uint32_t b = 0; b < s->n_load; b++)
        s->load_xxh3[b] = spot_get_u64(in);
}

void spot_state_sources_release(struct spot_state_sources *s)
{
    free(s->load_xxh3);
    *s = (struct spot_state_sources){ 0 };
}

uint64_t spot_state_sources_owner(const char *state)
{
    static const char prefix[] = "command:";
    const size_t n = sizeof(prefix) - 1;

    return strncmp(state, prefix, n) ? 0 : strtoull(state + n, NULL, 16);
}

struct spot_bundle *spot_state_sources_restore(const struct spot_state_sources *s,
                                               const struct spot_shape *shape, int index,
                                               int64_t step, uint64_t manifest,
                                               struct spot_objects *objects, struct spot_err *err)
{
    const bool is_behind = spot_state_sources_owner(s->state) != 0;
    struct spot_generations disk = { .job = s->job,
                                     .objects = is_behind ? objects : NULL,
                                     .n_bundle = spot_shape_bundles(shape),
                                     .manifest = manifest };

    if (!*s->state || !s->job || !manifest || (is_behind && !objects)) {
        spot_err_set(err, SPOT_EDATA, "no directory of durable state was given");
        return NULL;
    }
    snprintf(disk.dir, sizeof(disk.dir), "%s", s->state);
    if (is_behind && spot_generation_check(&disk, step, NULL) && spot_objects_look(objects, err))
        return NULL; /* a generation written since then is not known yet */
    return spot_generation_bundle(&disk, shape, step, index, err);
}

struct spot_bundle *spot_state_sources_load(const struct spot_state_sources *s,
                                            const struct spot_shape *shape, int index,
                                            struct spot_err *err)
{
    struct spot_weights *weights = NULL;
    struct spot_bundle *bundle;

    if (!*s->load || s->n_load != (uint32_t)spot_shape_bundles(shape)) {
        spot_err_set(err, SPOT_EDATA, "no weights to start from were given");
        return NULL;
    }
    bundle = spot_bundle_new(shape, index, err);
    if (!bundle)
        return NULL;
    weights = spot_weights_open_part(s->load, shape, s->load_xxh3, err);
    if (!weights || spot_weights_read(weights, bundle, err)) {
        spot_bundle_free(bundle);
        bundle = NULL;
    }
    spot_weights_close(weights);
    return bundle;
}
