/* SPDX-License-Identifier: MIT */
#include "train/saved_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/generation.h"
#include "common/xalloc.h"
#include "train/job_note.h"

/* --- a model ---------------------------------------------------------------- */

void spot_weights_only(struct spot_bundle *bundle)
{
    for (int p = 0; p < SPOT_PLANES; p++)
        if (p != SPOT_PLANE_MASTER) {
            spot_free_aligned(bundle->plane[p]);
            bundle->plane[p] = NULL;
        }
}

static void drop_bundles(struct spot_saved_model *m)
{
    for (int b = 0; m->bundle && b < m->n_bundle; b++) {
        if (m->bundle[b] && m->frame && m->frame[b])
            m->bundle[b]->plane[SPOT_PLANE_MASTER] = NULL;
        spot_bundle_free(m->bundle[b]);
        m->bundle[b] = NULL;
        if (m->frame) {
            free(m->frame[b]);
            m->frame[b] = NULL;
        }
    }
}

void spot_saved_model_release(struct spot_saved_model *m)
{
    drop_bundles(m);
    free(m->bundle);
    free(m->hash);
    free(m->frame);
    free(m->tokens);
    free(m->tokenizer);
    *m = (struct spot_saved_model){ .bundle = NULL };
}

/* A tensor of the shorter shape has the first rows of that of the longer one. */
static void copy_first(const struct spot_bundle *from, struct spot_bundle *to)
{
    for (int t = 0; t < to->arena.n_tensor; t++) {
        const struct spot_tensor *const tensor = &to->arena.tensor[t];

        for (int s = 0; s < (tensor->is_sharded ? to->arena.n_shard : 1); s++)
            memcpy(to->plane[SPOT_PLANE_MASTER] + spot_arena_offset(&to->arena, t, s),
                   from->plane[SPOT_PLANE_MASTER] + spot_arena_offset(&from->arena, t, s),
                   (size_t)(tensor->rows * tensor->cols) * sizeof(float));
    }
}

int spot_saved_model_shorten(struct spot_saved_model *m, int64_t seq, struct spot_err *err)
{
    struct spot_bundle *embed;

    m->shape.seq = seq;
    embed = spot_bundle_new(&m->shape, 0, err);
    if (!embed)
        return -1;
    spot_weights_only(embed);
    copy_first(m->bundle[0], embed);
    spot_bundle_free(m->bundle[0]);
    m->bundle[0] = embed;
    return 0;
}

/* --- from durable state ------------------------------------------------------- */

const char *spot_saved_place_name(const struct spot_saved_place *place)
{
    return place->command ? "the store of --state-command" : place->dir;
}

static int take_note(struct spot_saved_model *m, const struct spot_job_note *note, const char *dir,
                     struct spot_err *err)
{
    if (spot_job_note_shape(note, dir, &m->shape, err))
        return -1;
    m->tokens = spot_xstrdup(note->tokens);
    m->tokenizer = spot_xstrdup(note->tokenizer);
    m->n_bundle = spot_shape_bundles(&m->shape);
    m->bundle = spot_xcalloc((size_t)m->n_bundle, sizeof(struct spot_bundle *));
    return 0;
}

/* Load the job's description. Returns 1, 0 if there is none, -1 with *err. */
static int load_note(struct spot_job_note *note, const struct spot_saved_place *place,
                     struct spot_objects *objects, struct spot_err *err)
{
    char *text = NULL;
    size_t n;
    int rc;

    if (place->dir)
        return access(place->dir, F_OK) && errno == ENOENT
                   ? spot_err_set(err, SPOT_EUSAGE, "there is no '%s'", place->dir)
                   : spot_job_note_load(note, place->dir, err);
    rc = spot_objects_note(objects, &text, &n, err);
    if (rc > 0 && spot_job_note_parse(note, text, n, "job.json of the store", err))
        rc = -1;
    free(text);
    return rc;
}

static int read_note(struct spot_saved_model *m, const struct spot_saved_place *place,
                     struct spot_objects *objects, struct spot_err *err)
{
    struct spot_job_note note = { .data = NULL };
    int rc = load_note(&note, place, objects, err);

    if (!rc)
        return place->dir
                   ? spot_err_set(err, SPOT_EDATA,
                                  "'%s' has no job.json: it is not the --state of a job",
                                  place->dir)
                   : spot_err_set(err, SPOT_EDATA,
                                  "%s has no job.json: --state DIR of its coordinator has it",
                                  spot_saved_place_name(place));
    if (rc > 0)
        rc = take_note(m, &note, place->dir ? place->dir : "store", err);
    spot_job_note_release(&note);
    return rc;
}

static int read_bundles(struct spot_saved_model *m, const struct spot_generations *g, int64_t step,
                        struct spot_err *err)
{
    for (int b = 0; b < m->n_bundle; b++) {
        m->bundle[b] = spot_generation_bundle(g, &m->shape, step, b, err);
        if (!m->bundle[b]) {
            drop_bundles(m);
            return -1;
        }
        spot_weights_only(m->bundle[b]);
    }
    m->step = step;
    return 0;
}

/* Read exactly the requested step. */
static int read_step(struct spot_saved_model *m, const struct spot_generations *g,
                     const int64_t *there, size_t n, int64_t step, struct spot_err *err)
{
    char list[128] = "";

    for (size_t i = 0; i < n; i++)
        if (there[i] == step)
            return read_bundles(m, g, step, err);
    for (size_t i = 0, used = 0; i < n && used < sizeof(list); i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%lld", i ? ", " : "",
                                 (long long)there[i]);
    return spot_err_set(err, SPOT_EUSAGE, "'%s' has no state of step %lld; it has %s", g->dir,
                        (long long)step, n ? list : "none");
}

/* True if the generation was deleted: a running job keeps only two. */
static bool has_gone(const struct spot_generations *g, int64_t step)
{
    bool is_there = false;
    int64_t *there;
    size_t n;

    if (!g->objects)
        return !spot_generation_exists(g, step);
    if (spot_objects_look(g->objects, NULL))
        return false;
    there = spot_objects_list(g->objects, &n);
    for (size_t i = 0; i < n; i++)
        is_there |= there[i] == step;
    free(there);
    return !is_there;
}

/* Read the newest valid generation. Returns 1 when one was deleted while it was read: a running job
 * keeps only two. */
static int read_newest(struct spot_saved_model *m, const struct spot_generations *g,
                       const int64_t *there, size_t n,
                       void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2), struct spot_err *err)
{
    struct spot_err why = { 0 };

    for (size_t i = 0; i < n; i++) {
        if (!read_bundles(m, g, there[i], &why)) {
            if (i && warn)
                warn("%s; using the state of step %lld", err->msg, (long long)there[i]);
            return 0;
        }
        if (has_gone(g, there[i]))
            return 1;
        if (!spot_generation_is_damage(&why))
            return spot_err_set(err, why.code, "%s", why.msg);
        if (!i)
            *err = why;
    }
    if (n) {
        why = *err;
        return spot_err_set(err, SPOT_EDATA, "%.300s; no valid generation is left in '%s'", why.msg,
                            g->dir);
    }
    return spot_err_set(err, SPOT_EDATA, "'%s' holds no state%s", g->dir,
                        !g->objects && spot_job_note_is_behind(g->dir)
                            ? ": it is behind a command (--state-command)"
                            : "");
}

/* Read the present state; 1 if it was deleted meanwhile. */
static int read_once(struct spot_saved_model *m, const struct spot_generations *g, int64_t step,
                     void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2), struct spot_err *err)
{
    int64_t *there;
    size_t n;
    int rc;

    if (g->objects && spot_objects_look(g->objects, err))
        return -1;
    there = spot_generation_list(g, &n);
    rc = step >= 0 ? read_step(m, g, there, n, step, err) : read_newest(m, g, there, n, warn, err);
    free(there);
    return rc;
}

int spot_saved_model_read(struct spot_saved_model *m, const struct spot_saved_place *place,
                          int64_t step, void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2),
                          struct spot_err *err)
{
    enum { TRIES = 8 };
    const struct spot_state_command how = { .command = place->command,
                                            .limit_s = place->timeout_s };
    struct spot_generations g = { .objects = place->command ? spot_objects_new(&how) : NULL };
    int rc;

    *m = (struct spot_saved_model){ .bundle = NULL };
    snprintf(g.dir, sizeof(g.dir), "%s", spot_saved_place_name(place));
    rc = read_note(m, place, g.objects, err);
    g.n_bundle = m->n_bundle;
    if (!rc)
        rc = 1;
    for (int k = 0; rc > 0 && k < TRIES; k++)
        rc = read_once(m, &g, step, warn, err);
    if (rc > 0)
        rc = spot_err_set(err, SPOT_ESYS,
                          "'%s': generations are removed faster than they can be read", g.dir);
    spot_objects_free(g.objects);
    return rc;
}
