/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "model/job_doc.h"
#include "model/job_field.h"
#include "model/job_measured.h"

/* True for a number that must be written: one above 0, or 0 if absence would mean something else.
 * `plain` has the values that absence means; NULL: all 0. */
static bool tells(const struct spot_field *f, const void *base, const void *plain)
{
    const void *x = (const char *)base + f->offset;
    const void *y = plain ? (const char *)plain + f->offset : NULL;

    if (f->type == SPOT_F_INT)
        return *(const int64_t *)x > 0 || (y && *(const int64_t *)x != *(const int64_t *)y);
    return *(const double *)x > 0 || (y && *(const double *)x != *(const double *)y);
}

/* Write the fields of the table that must be written. */
static void write_told(struct spot_jw *jw, const struct spot_field *table, const void *base,
                       const void *plain)
{
    for (const struct spot_field *f = table; f->key; f++) {
        const char *member = (const char *)base + f->offset;
        const struct spot_field one[2] = { *f };
        bool told = true;

        switch (f->type) {
        case SPOT_F_INT:
        case SPOT_F_REAL:
            told = tells(f, base, plain);
            break;
        case SPOT_F_STR:
            told = *(const char *const *)(const void *)member;
            break;
        case SPOT_F_BOOL:
            told = *(const bool *)(const void *)member;
            break;
        }
        if (told)
            spot_jw_fields(jw, one, base);
    }
}

/* Write the layers; equal neighbours become one entry with a count. */
static void write_layers(struct spot_jw *jw, const struct spot_job_doc *job)
{
    if (!job->lists_layers)
        return;
    spot_jw_array(jw, "layers");
    for (size_t i = 0, n; i < job->n_layer; i += n) {
        const struct spot_job_layer *l = &job->layer[i];

        for (n = 1; i + n < job->n_layer && !memcmp(l, l + n, sizeof(*l)); n++)
            ;
        spot_jw_object(jw, NULL);
        write_told(jw, spot_job_layer_field, l, NULL);
        if (l->params == 0)
            spot_jw_int(jw, "params", 0);
        if (n > 1)
            spot_jw_int(jw, "count", (int64_t)n);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void write_profile(struct spot_jw *jw, const struct spot_job_doc *job)
{
    if (!job->n_profile)
        return;
    spot_jw_array(jw, "profile");
    for (size_t i = 0; i < job->n_profile; i++) {
        spot_jw_object(jw, NULL);
        write_told(jw, spot_job_profile_field, &job->profile[i], NULL);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void write_memory(struct spot_jw *jw, const struct spot_job_memory *m)
{
    spot_jw_object(jw, "memory");
    write_told(jw, spot_job_memory_field, m, &spot_job_memory_absent);
    if (m->n_p_skip)
        spot_jw_ints(jw, "P_skip", m->p_skip, m->n_p_skip);
    spot_jw_end(jw);
}

static void write_cost(struct spot_jw *jw, const struct spot_job_cost *c)
{
    if (!c->is_given)
        return;
    spot_jw_object(jw, "cost");
    write_told(jw, spot_job_cost_field, c, &spot_job_cost_absent);
    spot_jw_rows(jw, "p2p", spot_job_p2p_field, c->p2p, c->n_p2p, sizeof(*c->p2p));
    spot_jw_rows(jw, "build", spot_job_build_field, c->build, c->n_build, sizeof(*c->build));
    spot_jw_rows(jw, "regroup", spot_job_regroup_field, c->regroup, c->n_regroup,
                 sizeof(*c->regroup));
    spot_jw_end(jw);
}

int spot_job_doc_write(const struct spot_job_doc *job, const struct spot_prov *prov, FILE *out,
                       struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.job", 1, prov);
    write_told(&jw, spot_job_head_field, job, NULL);
    spot_jw_str(&jw, "kind", job->kind == SPOT_JOB_TRAIN ? "train" : "serve");
    if (job->model.shape.n_layer) {
        spot_jw_object(&jw, "model");
        write_told(&jw, spot_job_model_field, &job->model, NULL);
        spot_jw_end(&jw);
    }
    write_layers(&jw, job);
    write_memory(&jw, &job->memory);
    write_cost(&jw, &job->cost);
    write_profile(&jw, job);
    spot_job_serve_write(&jw, &job->serve);
    if (job->measured)
        spot_job_measured_write(&jw, job->measured);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}
