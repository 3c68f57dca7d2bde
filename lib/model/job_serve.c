/* SPDX-License-Identifier: MIT */
#include "model/job_serve.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "model/grid.h"

#define SERVE(member) offsetof(struct spot_job_serve, member)
const struct spot_field spot_job_serve_field[] = {
    { "gpus", SPOT_F_INT, SERVE(gpus), "1", 1, 1024, false },
    { "gpus_min", SPOT_F_INT, SERVE(gpus_min), "1", 1, SPOT_GRID_MAX, false },
    { "layers", SPOT_F_INT, SERVE(layers), "1", 1, SPOT_SERVE_LAYERS_MAX, true },
    { "stage_layers", SPOT_F_INT, SERVE(stage_layers), "1", 1, SPOT_SERVE_LAYERS_MAX, false },
    { "max_batch", SPOT_F_INT, SERVE(max_batch), "1", 1, SPOT_SERVE_BATCH_MAX, true },
    { "prompt_tokens", SPOT_F_INT, SERVE(prompt_token), "1", 1, 1 << 24, true },
    { "output_tokens", SPOT_F_INT, SERVE(output_token), "1", 1, 1 << 24, true },
    { "factor", SPOT_F_REAL, SERVE(factor), "1", 1e-3, 1e3, false },
    { "prefill_hop_s", SPOT_F_REAL, SERVE(prefill_hop_s), "s", 0, 1e6, false },
    { "decode_hop_s", SPOT_F_REAL, SERVE(decode_hop_s), "s", 0, 1e6, false },
    { "context", SPOT_F_INT, SERVE(context), "1", 0, 1 << 25, false },
    { "model_byte", SPOT_F_INT, SERVE(model_byte), "byte", 0, 9e15, false },
    { "parts_add_up", SPOT_F_BOOL, SERVE(parts_add_up), NULL, 0, 0, false },
    { 0 },
};

#define CELL(member) offsetof(struct spot_serve_cell, member)
const struct spot_field spot_serve_cell_field[] = {
    { "M", SPOT_F_INT, CELL(M), "1", 1, SPOT_GRID_MAX, true },
    { "B", SPOT_F_INT, CELL(B), "1", 1, SPOT_SERVE_BATCH_MAX, true },
    { "prefill_s", SPOT_F_REAL, CELL(prefill_s), "s", 1e-9, 1e6, true },
    { "decode_s", SPOT_F_REAL, CELL(decode_s), "s", 1e-9, 1e6, true },
    { "prefill_token_s", SPOT_F_REAL, CELL(prefill_token_s), "s", 0, 1e6, false },
    { "decode_token_s", SPOT_F_REAL, CELL(decode_token_s), "s", 0, 1e6, false },
    { "prefill_square_s", SPOT_F_REAL, CELL(prefill_square_s), "s", 0, 1e6, false },
    { "prefill_least_s", SPOT_F_REAL, CELL(prefill_least_s), "s", 0, 1e6, false },
    { "prefill_least_token_s", SPOT_F_REAL, CELL(prefill_least_token_s), "s", 0, 1e6, false },
    { "join", SPOT_F_REAL, CELL(join), "1", 0, 1e3, false },
    { 0 },
};

const struct spot_field spot_serve_embed_field[] = {
    { "B", SPOT_F_INT, offsetof(struct spot_serve_embed, B), "1", 1, SPOT_SERVE_BATCH_MAX, true },
    { "s", SPOT_F_REAL, offsetof(struct spot_serve_embed, time_s), "s", 0, 1e6, true },
    { 0 },
};

const struct spot_job_serve spot_job_serve_absent = { .gpus = 1, .gpus_min = 1, .factor = 1 };

static bool is_power(int64_t x)
{
    return x > 0 && !(x & (x - 1));
}

static const struct spot_serve_cell *find_cell(const struct spot_job_serve *s, int64_t M, int64_t B)
{
    for (size_t i = 0; i < s->n_cell; i++)
        if (s->cell[i].M == M && s->cell[i].B == B)
            return &s->cell[i];
    return NULL;
}

static const struct spot_serve_embed *find_embed(const struct spot_job_serve *s, int64_t B)
{
    for (size_t i = 0; i < s->n_embed; i++)
        if (s->embed[i].B == B)
            return &s->embed[i];
    return NULL;
}

static int check_cells(const struct spot_job_serve *s, const struct spot_json_doc *json,
                       struct spot_err *err)
{
    char at[64];

    for (size_t i = 0; i < s->n_cell; i++) {
        const struct spot_serve_cell *c = &s->cell[i];

        snprintf(at, sizeof(at), "/serve/cells/%zu", i);
        if (!is_power(c->M) || !is_power(c->B))
            return spot_json_fail(json, at, err, "M %lld and B %lld have to be powers of two",
                                  (long long)c->M, (long long)c->B);
        if (find_cell(s, c->M, c->B) != c)
            return spot_json_fail(json, at, err, "M %lld with B %lld is given twice",
                                  (long long)c->M, (long long)c->B);
        for (int64_t b = 1; b <= s->max_batch; b *= 2)
            if (!find_cell(s, c->M, b))
                return spot_json_fail(json, "/serve/cells", err,
                                      "has M %lld, but not with B %lld, which batches up to %lld "
                                      "need",
                                      (long long)c->M, (long long)b, (long long)s->max_batch);
    }
    for (size_t i = 0; i < s->n_embed; i++) {
        snprintf(at, sizeof(at), "/serve/embed/%zu", i);
        if (find_embed(s, s->embed[i].B) != &s->embed[i])
            return spot_json_fail(json, at, err, "B %lld is given twice", (long long)s->embed[i].B);
    }
    for (int64_t b = 1; s->n_embed && b <= s->max_batch; b *= 2)
        if (!find_embed(s, b))
            return spot_json_fail(json, "/serve/embed", err,
                                  "has no B %lld, which batches up to %lld need", (long long)b,
                                  (long long)s->max_batch);
    return 0;
}

bool spot_serve_knows_lengths(const struct spot_job_serve *s)
{
    return s->n_cell && s->cell[0].prefill_token_s > 0;
}

/* The prefill time of a layer for prompts of p tokens, of which the first `cached` need not be
 * computed. */
static double prefill_of(const struct spot_job_serve *s, const struct spot_serve_cell *c, double p,
                         double cached)
{
    const double q = (double)s->prompt_token;
    const double line = c->prefill_s + c->prefill_token_s * (p - cached - q);

    return fmax(line + c->prefill_square_s * (p * p - cached * cached - q * q),
                c->prefill_least_s + c->prefill_least_token_s * (p - cached - q));
}

/* Check that all cells give times by other lengths or none does, and that a prompt of one token and
 * a context of two take time. */
static int check_lengths(const struct spot_job_serve *s, const struct spot_json_doc *json,
                         struct spot_err *err)
{
    const double context = (double)s->prompt_token + (double)s->output_token / 2;
    char at[64];

    if (s->context && s->prompt_token + s->output_token > s->context)
        return spot_json_fail(
            json, "/serve/context", err, "%lld is below the %lld and %lld tokens of the profile",
            (long long)s->context, (long long)s->prompt_token, (long long)s->output_token);
    for (size_t i = 0; i < s->n_cell; i++) {
        const struct spot_serve_cell *c = &s->cell[i];

        snprintf(at, sizeof(at), "/serve/cells/%zu", i);
        if ((c->prefill_token_s > 0) != spot_serve_knows_lengths(s))
            return spot_json_fail(json, at, err,
                                  "%s prefill_token_s, but the first cell %s: all cells must "
                                  "have it, or none",
                                  c->prefill_token_s > 0 ? "has" : "lacks",
                                  spot_serve_knows_lengths(s) ? "has it" : "does not");
        if (c->prefill_token_s > 0
                ? prefill_of(s, c, 1, 0) <= 0
                : c->decode_token_s > 0 || c->prefill_square_s > 0 || c->prefill_least_s > 0)
            return spot_json_fail(json, at, err,
                                  "prefill_token_s makes a prompt of one token take no time, or "
                                  "is missing beside decode_token_s, prefill_square_s or "
                                  "prefill_least_s");
        if (c->decode_s <= c->decode_token_s * (context - 1))
            return spot_json_fail(json, at, err,
                                  "decode_token_s makes a context of one token take no time");
    }
    return 0;
}

/* Read positive numbers in ascending order; none if the key is absent. */
static int read_ascending(const struct spot_json_doc *json, const struct spot_json_value *serve,
                          const char *key, size_t most, double **x, size_t *n, struct spot_err *err)
{
    const struct spot_json_value *list;

    if (spot_json_array(json, serve, "/serve", key, false, most, &list, err))
        return -1;
    if (!list)
        return 0;
    *n = spot_json_array_size(list);
    *x = spot_xcalloc(*n, sizeof(**x));
    for (size_t i = 0; i < *n; i++) {
        const struct spot_json_value *v = spot_json_entry(list, i);
        char at[64];

        snprintf(at, sizeof(at), "/serve/%s/%zu", key, i);
        (*x)[i] = spot_json_is_number(v) ? spot_json_number(v) : -1;
        if (!((*x)[i] > 0) || (*x)[i] > 1e6)
            return spot_json_fail(json, at, err, "expected a number above 0, up to 1e6");
        if (i && (*x)[i] < (*x)[i - 1])
            return spot_json_fail(json, at, err, "is below the one before it");
    }
    return 0;
}

static int read_lists(struct spot_job_serve *s, const struct spot_json_doc *json,
                      const struct spot_json_value *serve, struct spot_err *err)
{
    if (read_ascending(json, serve, "spread", SPOT_SERVE_SPREAD_MAX, &s->spread, &s->n_spread,
                       err) ||
        read_ascending(json, serve, "sharing", SPOT_SERVE_SHARING_MAX, &s->sharing, &s->n_sharing,
                       err))
        return -1;
    if (s->n_spread == 1)
        return spot_json_fail(json, "/serve/spread", err,
                              "has one quantile, expected 2 or more, or none");
    if (s->n_sharing && (s->sharing[0] < 1 || s->sharing[0] > 1))
        return spot_json_fail(json, "/serve/sharing/0", err,
                              "is of one replica at work, expected 1");
    return 0;
}

double spot_serve_spread_at(const struct spot_job_serve *s, double quantile)
{
    const double x = quantile * (double)(s->n_spread - 1);
    size_t i;

    if (!s->n_spread)
        return 1;
    i = x < (double)(s->n_spread - 1) ? (size_t)x : s->n_spread - 2;
    return s->spread[i] + (x - (double)i) * (s->spread[i + 1] - s->spread[i]);
}

/* Reads an array of at least n_min objects. */
int spot_job_serve_read(struct spot_job_serve *s, const struct spot_json_doc *json,
                        struct spot_err *err)
{
    const struct spot_json_value *serve;

    *s = spot_job_serve_absent;
    if (spot_json_object(json, json->root, "", "serve", false, &serve, err))
        return -1;
    if (!serve)
        return 0;
    s->is_given = true;
    if (spot_json_read_fields(json, serve, "/serve", spot_job_serve_field, s, err) ||
        spot_json_rows(json, serve, "/serve", "cells",
                       &(struct spot_doc_part){ .field = spot_serve_cell_field,
                                                .required = true,
                                                .n_max = SPOT_SERVE_CELL_MAX },
                       NULL, sizeof(*s->cell), (void **)&s->cell, &s->n_cell, err) ||
        spot_json_rows(json, serve, "/serve", "embed",
                       &(struct spot_doc_part){ .field = spot_serve_embed_field,
                                                .required = false,
                                                .n_max = SPOT_SERVE_CELL_MAX },
                       NULL, sizeof(*s->embed), (void **)&s->embed, &s->n_embed, err))
        return -1;
    if (!s->stage_layers)
        s->stage_layers = s->layers;
    if (s->stage_layers < s->layers)
        return spot_json_fail(json, "/serve", err, "stage_layers %lld is below layers %lld",
                              (long long)s->stage_layers, (long long)s->layers);
    if (!is_power(s->max_batch))
        return spot_json_fail(json, "/serve/max_batch", err, "%lld is not a power of two",
                              (long long)s->max_batch);
    if (!s->n_cell)
        return spot_json_fail(json, "/serve/cells", err, "has no times at all");
    return read_lists(s, json, serve, err) || check_cells(s, json, err) ||
                   check_lengths(s, json, err)
               ? -1
               : 0;
}

void spot_job_serve_write(struct spot_jw *jw, const struct spot_job_serve *s)
{
    if (!s->is_given)
        return;
    spot_jw_object(jw, "serve");
    spot_jw_fields(jw, spot_job_serve_field, s);
    spot_jw_rows(jw, "cells", spot_serve_cell_field, s->cell, s->n_cell, sizeof(*s->cell));
    spot_jw_rows(jw, "embed", spot_serve_embed_field, s->embed, s->n_embed, sizeof(*s->embed));
    if (s->n_spread)
        spot_jw_reals(jw, "spread", s->spread, s->n_spread);
    if (s->n_sharing)
        spot_jw_reals(jw, "sharing", s->sharing, s->n_sharing);
    spot_jw_end(jw);
}

void spot_job_serve_release(struct spot_job_serve *s)
{
    free(s->cell);
    free(s->embed);
    free(s->spread);
    free(s->sharing);
    *s = (struct spot_job_serve){ 0 };
}

int spot_serve_time(const struct spot_job_serve *s, const struct spot_serve_shape *shape,
                    struct spot_serve_time *time)
{
    const struct spot_serve_length own = { s->prompt_token, s->output_token, 0 };

    return spot_serve_time_of(s, shape, &own, time);
}

int spot_serve_time_of(const struct spot_job_serve *s, const struct spot_serve_shape *shape,
                       const struct spot_serve_length *length, struct spot_serve_time *time)
{
    const bool knows = spot_serve_knows_lengths(s);
    const double output = knows ? (double)length->output_token : (double)s->output_token;
    const double prompt = knows ? (double)length->prompt_token : (double)s->prompt_token;
    const double context_more =
        prompt - (double)s->prompt_token + (output - (double)s->output_token) / 2;
    const double m1 = (double)shape->prefill_parts, m2 = (double)shape->decode_parts;
    const double P = (double)shape->P, f = (double)((s->layers + shape->P - 1) / shape->P);
    const struct spot_serve_cell *first = find_cell(s, shape->M, shape->B / shape->prefill_parts);
    const struct spot_serve_cell *next = find_cell(s, shape->M, shape->B / shape->decode_parts);
    const struct spot_serve_embed *embed = find_embed(s, shape->B);
    const double embed_s = embed ? embed->time_s : 0;
    double prefill_s, decode_s;

    if (!first || !next || (s->n_embed && !embed))
        return -1;
    prefill_s = prefill_of(s, first, prompt, knows ? (double)length->cached_token : 0) * f *
                    (P + m1 - 1) / (s->parts_add_up ? 1 : m1) +
                s->prefill_hop_s * (P - 1) / m1;
    decode_s = (next->decode_s + next->decode_token_s * context_more) * f * (P + m2 - 1) +
               s->decode_hop_s * (P - 1) / m2;
    time->prefill_s = s->factor * prefill_s;
    time->decode_s = s->factor * decode_s;
    time->request_s = s->factor * (prefill_s + output * decode_s + 2 * embed_s);
    time->join = next->join > 0 ? next->join : 1;
    return 0;
}
