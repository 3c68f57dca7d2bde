/* SPDX-License-Identifier: MIT */
/* The mirrors of a worker: stages as their buddy, bundles as their receiver. */
#include <stdlib.h>

#include "common/memory.h"
#include "common/xalloc.h"
#include "train/worker_state.h"

struct spot_stage *spot_worker_next_mirror(const struct spot_worker *w, int *b)
{
    while (w->mirror && *b < w->n_bundle) {
        const int i = (*b)++;

        if (w->mirror[i] && (i == 0 || w->mirror[i] != w->mirror[i - 1]))
            return w->mirror[i];
    }
    return NULL;
}

void spot_worker_drop_mirrors(struct spot_worker *w)
{
    struct spot_stage *mirror;

    spot_worker_drop_alone(w);
    for (int b = 0; (mirror = spot_worker_next_mirror(w, &b));)
        spot_stage_free(mirror);
    free(w->mirror);
    w->mirror = NULL;
}

/* --- memory ------------------------------------------------------------------ */

static int check(struct spot_worker *w, int begin, int end, struct spot_err *err)
{
    const struct spot_stage_config config = spot_worker_stage_config(w, begin, end, 0);

    w->cannot_mirror = spot_stage_check(&config, 0, err) != 0;
    return w->cannot_mirror ? -1 : 0;
}

/* Check that all bundles to be pre-copied, and their sums, fit beside the present state. */
static int check_precopies(struct spot_worker *w, struct spot_err *err)
{
    const struct spot_form *const f = &w->form;
    const size_t most = spot_memory_available();
    size_t n_byte = 0;

    for (size_t i = 0; i < f->n_precopy; i++) {
        const int b = (int)f->precopy[i].bundle;

        if (f->precopy[i].to != w->agent.id)
            continue;
        if (!w->bundle[b] || !w->bundle[b]->spare_sum)
            n_byte += w->bundle_elem[b] * sizeof(int64_t);
        if (i >= f->n_precopied)
            n_byte += w->bundle_elem[b] * SPOT_PLANES * sizeof(float);
        if (check(w, b, b + 1, err))
            return -1;
    }
    if (n_byte <= most)
        return 0;
    w->cannot_mirror = true;
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "state to take over while training goes on needs %.3g GB of memory, %.3g "
                        "GB are available",
                        (double)n_byte / 1e9, (double)most / 1e9);
}

/* Mirrors that do not fit beside the own stage are left to another member. */
int spot_worker_check_mirrors(struct spot_worker *w, struct spot_err *err)
{
    const struct spot_form *const f = &w->form;

    for (uint32_t p = 0; p < f->P; p++)
        if (f->buddy[p] == w->agent.id && !w->bundle[f->stage[p]] &&
            check(w, (int)f->stage[p], (int)f->stage[p + 1], err))
            return -1;
    return check_precopies(w, err);
}

/* --- objects ---------------------------------------------------------------- */

static int add_mirror(struct spot_worker *w, uint32_t begin, uint32_t end, int64_t step,
                      struct spot_err *err)
{
    struct spot_stage *const stage = spot_worker_new_stage(w, (int)begin, (int)end, 0, step, err);

    for (uint32_t b = begin; b < end; b++)
        w->mirror[b] = stage;
    return stage ? 0 : -1;
}

int spot_worker_build_mirrors(struct spot_worker *w, struct spot_err *err)
{
    const struct spot_form *const f = &w->form;

    w->mirror = spot_xcalloc((size_t)w->n_bundle, sizeof(struct spot_stage *));
    for (uint32_t p = 0; p < f->P; p++)
        if (f->buddy[p] == w->agent.id && add_mirror(w, f->stage[p], f->stage[p + 1], f->step, err))
            return -1;
    for (size_t i = 0; i < f->n_precopied; i++) {
        const uint32_t b = f->precopy[i].bundle;

        if (f->precopy[i].to == w->agent.id && add_mirror(w, b, b + 1, f->step, err))
            return -1;
    }
    w->n_precopied = f->n_precopied;
    return 0;
}

/* --- pre-copied -------------------------------------------------------------- */

static int send_precopied(struct spot_worker *w, const struct spot_precopy *h, struct spot_err *err)
{
    return spot_stage_sync(w->stage, (int)h->bundle, err) ||
                   spot_worker_send_bundle(w, h->to, h->bundle, err)
               ? -1
               : 0;
}

int spot_worker_precopy(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_form *const f = &w->form;
    struct spot_err why = { 0 };

    if (frame->epoch != w->agent.epoch || !w->mirror || !spot_form_is_active(f, w->agent.id))
        return 0;
    if (frame->tag > f->n_precopy || frame->tag < f->n_precopied)
        return spot_err_set(err, SPOT_ESYS,
                            "the coordinator announced a pre-copy that does not exist");
    for (; f->n_precopied < frame->tag; f->n_precopied++) {
        const struct spot_precopy *const h = &f->precopy[f->n_precopied];

        if (spot_form_sender(f, h->bundle) == w->agent.id && send_precopied(w, h, &why))
            return spot_worker_report(w, &why, err);
    }
    return 0;
}

static int take(struct spot_worker *w, uint32_t b, int64_t step, struct spot_err *err)
{
    return spot_worker_take_bundle(w, spot_form_sender(&w->form, b), b, step, err)
               ? -1
               : add_mirror(w, b, b + 1, step, err);
}

int spot_worker_take_precopies(struct spot_worker *w, int64_t step, struct spot_err *err)
{
    const struct spot_form *const f = &w->form;

    for (; w->n_precopied < f->n_precopied; w->n_precopied++) {
        const struct spot_precopy *const h = &f->precopy[w->n_precopied];

        if (h->to == w->agent.id && take(w, h->bundle, step, err))
            return -1;
    }
    return 0;
}
