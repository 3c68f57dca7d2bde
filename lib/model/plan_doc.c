/* SPDX-License-Identifier: MIT */
#include "model/plan_doc.h"

#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

#define NEXT(member) offsetof(struct spot_plan_doc, member)
static const struct spot_field next_field[] = {
    { "D", SPOT_F_INT, NEXT(next.D), "1", 0, SPOT_GRID_MAX, true },
    { "P", SPOT_F_INT, NEXT(next.P), "1", 0, SPOT_GRID_MAX, true },
    { "M", SPOT_F_INT, NEXT(next.M), "1", 0, SPOT_GRID_MAX, false },
    { 0 },
};

/* Fields of a plan to serve; absent: not planned. */
static const struct spot_field batch_field[] = {
    { "B", SPOT_F_INT, NEXT(micro_batch), "1", 0, 1 << 30, false },
    { 0 },
};

/* More fields of a plan to serve. */
static const struct spot_field parts_field[] = {
    { "prefill_parts", SPOT_F_INT, NEXT(prefill_parts), "1", 0, 1 << 20, false },
    { "decode_parts", SPOT_F_INT, NEXT(decode_parts), "1", 0, 1 << 20, false },
    { 0 },
};

static const struct spot_field head_field[] = {
    { "job", SPOT_F_STR, offsetof(struct spot_plan_doc, job), NULL, 0, 0, false },
    { "time_s", SPOT_F_REAL, offsetof(struct spot_plan_doc, time_s), "s", 0, 1e12, false },
    { "epoch", SPOT_F_INT, offsetof(struct spot_plan_doc, epoch), "1", 0, 1e15, false },
    { "spares", SPOT_F_INT, offsetof(struct spot_plan_doc, spares), "1", 0, 1 << 20, false },
    { "bound", SPOT_F_REAL, offsetof(struct spot_plan_doc, bound), "1/s", 0, 1e15, false },
    { "gap", SPOT_F_REAL, offsetof(struct spot_plan_doc, gap), "1", 0, 1, false },
    { 0 },
};

static const struct spot_field place_field[] = {
    { "node", SPOT_F_STR, offsetof(struct spot_plan_place, node), NULL, 0, 0, true },
    { "d", SPOT_F_INT, offsetof(struct spot_plan_place, d), "1", 0, SPOT_GRID_MAX, true },
    { "p", SPOT_F_INT, offsetof(struct spot_plan_place, p), "1", 0, SPOT_GRID_MAX, true },
    { "m", SPOT_F_INT, offsetof(struct spot_plan_place, m), "1", 0, SPOT_GRID_MAX, false },
    { 0 },
};

static const struct spot_field weight_field[] = {
    { "node", SPOT_F_STR, offsetof(struct spot_plan_weight, node), NULL, 0, 0, false },
    { "zone", SPOT_F_STR, offsetof(struct spot_plan_weight, zone), NULL, 0, 0, false },
    { "weight", SPOT_F_REAL, offsetof(struct spot_plan_weight, weight), "1", 1e-6, 1e6, true },
    { 0 },
};

#define ROUTE(member) offsetof(struct spot_plan_route, member)
static const struct spot_field route_field[] = {
    { "bucket", SPOT_F_STR, ROUTE(bucket), NULL, 0, 0, true },
    { "instance_type", SPOT_F_STR, ROUTE(type), NULL, 0, 0, true },
    { "zone", SPOT_F_STR, ROUTE(zone), NULL, 0, 0, false },
    { "market", SPOT_F_STR, ROUTE(market), NULL, 0, 0, true },
    { "share", SPOT_F_REAL, ROUTE(share), "1", 0, 1, true },
    { 0 },
};

/* Absent: any size. */
static const struct spot_field size_field[] = {
    { "prompt_tokens", SPOT_F_REAL, ROUTE(prompt_token), "1", 0, 1e9, false },
    { "output_tokens", SPOT_F_REAL, ROUTE(output_token), "1", 0, 1e9, false },
    { 0 },
};

static const struct spot_field limit_field[] = {
    { "ttft_s", SPOT_F_REAL, ROUTE(first_s), "s", 0, 1e6, false },
    { 0 },
};

static const struct spot_field path_field[] = {
    { "D", SPOT_F_INT, offsetof(struct spot_plan_path, d), "1", 0, SPOT_GRID_MAX, true },
    { "P", SPOT_F_INT, offsetof(struct spot_plan_path, p), "1", 0, SPOT_GRID_MAX, true },
    { "p", SPOT_F_REAL, offsetof(struct spot_plan_path, prob), "1", 0, 1, false },
    { 0 },
};

#define ALT(member) offsetof(struct spot_plan_alternative, member)
/* Not part of a table above: docs/schema/by-hand describes these two, since other kinds of plans do
 * not have them. */
static const struct spot_field alternative_grid_field[] = {
    { "D", SPOT_F_INT, ALT(d), "1", 0, SPOT_GRID_MAX, true },
    { "P", SPOT_F_INT, ALT(p), "1", 0, SPOT_GRID_MAX, true },
    { 0 },
};

static const struct spot_field alternative_field[] = {
    { "spares", SPOT_F_INT, ALT(spares), "1", 0, 1 << 20, false },
    { "samples_per_s", SPOT_F_REAL, ALT(samples_per_s), "1/s", 0, 1e15, false },
    { "loss_prob", SPOT_F_REAL, ALT(loss_prob), "1", 0, 1, false },
    { "undisturbed_samples_per_s", SPOT_F_REAL, ALT(undisturbed_samples_per_s), "1/s", 0, 1e15,
      false },
    { "from", SPOT_F_STR, ALT(from), NULL, 0, 0, false },
    { "why", SPOT_F_STR, ALT(why), NULL, 0, 0, false },
    { 0 },
};

static const struct spot_field serve_alternative_field[] = {
    { "M", SPOT_F_INT, ALT(m), "1", 0, SPOT_GRID_MAX, false },
    { "B", SPOT_F_INT, ALT(b), "1", 0, 1 << 30, false },
    { "requests_per_s", SPOT_F_REAL, ALT(requests_per_s), "1/s", 0, 1e15, false },
    { "latency_s", SPOT_F_REAL, ALT(latency_s), "s", 0, 1e9, false },
    { 0 },
};

#define EXPECTED(member) offsetof(struct spot_plan_expected, member)
static const struct spot_field expected_field[] = {
    { "samples_per_s", SPOT_F_REAL, EXPECTED(samples_per_s), "1/s", 0, 1e15, false },
    { "usd_per_h", SPOT_F_REAL, EXPECTED(usd_per_h), "usd", 0, 1e12, false },
    { "usd_per_sample", SPOT_F_REAL, EXPECTED(usd_per_sample), "usd", 0, 1e12, false },
    { "loss_prob", SPOT_F_REAL, EXPECTED(loss_prob), "1", 0, 1, false },
    { "undisturbed_samples_per_s", SPOT_F_REAL, EXPECTED(undisturbed_samples_per_s), "1/s", 0, 1e15,
      false },
    { "from", SPOT_F_STR, EXPECTED(from), NULL, 0, 0, false },
    { "law", SPOT_F_STR, EXPECTED(law), NULL, 0, 0, false },
    { "law_miss", SPOT_F_REAL, EXPECTED(law_miss), "1", 0, 1e15, false },
    { 0 },
};

static const struct spot_field serve_expected_field[] = {
    { "requests_per_s", SPOT_F_REAL, EXPECTED(requests_per_s), "1/s", 0, 1e15, false },
    { "latency_s", SPOT_F_REAL, EXPECTED(latency_s), "s", 0, 1e9, false },
    { "e2e_p99_s", SPOT_F_REAL, EXPECTED(e2e_p99_s), "s", 0, 1e9, false },
    { "rate_per_s", SPOT_F_REAL, EXPECTED(rate_per_s), "1/s", 0, 1e15, false },
    { 0 },
};

const struct spot_doc_part spot_plan_part[] = {
    { "", head_field, true, 0, NULL },
    { "next", next_field, false, 0, NULL },
    { "next", batch_field, false, 0, NULL },
    { "next", parts_field, false, 0, NULL },
    { "expected", expected_field, false, 0, NULL },
    { "expected", serve_expected_field, false, 0, NULL },
    { "place[]", place_field, false, SPOT_PLAN_PLACE_MAX, NULL },
    { "weights[]", weight_field, false, SPOT_PLAN_WEIGHT_MAX, NULL },
    { "route[]", route_field, false, SPOT_PLAN_ROUTE_MAX, NULL },
    { "route[]", size_field, false, SPOT_PLAN_ROUTE_MAX, NULL },
    { "route[]", limit_field, false, SPOT_PLAN_ROUTE_MAX, NULL },
    { "path[]", path_field, false, SPOT_PLAN_PATH_MAX, NULL },
    { "alternatives[]", alternative_field, false, SPOT_PLAN_ALTERNATIVE_MAX, NULL },
    { "alternatives[]", serve_alternative_field, false, SPOT_PLAN_ALTERNATIVE_MAX, NULL },
    { 0 },
};

/* Read the optional array `key`. */
static int read_objects(const struct spot_json_doc *json, const char *key, size_t n_max,
                        const struct spot_field *field, size_t size, void **array, size_t *n,
                        struct spot_err *err)
{
    return spot_json_rows(
        json, json->root, "", key,
        &(struct spot_doc_part){ .field = field, .required = false, .n_max = n_max }, NULL, size,
        array, n, err);
}

static int read_why(struct spot_plan_doc *plan, struct spot_err *err)
{
    const struct spot_json_value *list;

    if (spot_json_array(&plan->json, plan->json.root, "", "why", false, SPOT_PLAN_WHY_MAX, &list,
                        err))
        return -1;
    if (!list)
        return 0;
    plan->n_why = spot_json_array_size(list);
    plan->why = spot_xcalloc(plan->n_why, sizeof(*plan->why));
    for (size_t i = 0; i < plan->n_why; i++) {
        char at[32];

        plan->why[i] = spot_json_text(spot_json_entry(list, i));
        snprintf(at, sizeof(at), "/why/%zu", i);
        if (!plan->why[i])
            return spot_json_fail(&plan->json, at, err, "expected a string");
    }
    return 0;
}

static int check_next(const struct spot_plan_doc *plan, struct spot_err *err)
{
    const struct spot_grid *g = &plan->next;
    const bool has_batch = spot_json_get(spot_json_get(plan->json.root, "next"), "B") != NULL;

    if (!g->D != !g->P)
        return spot_json_fail(&plan->json, "/next", err,
                              "D and P must both be 0 (suspend) or both at least 1");
    if (g->D && g->M < 1)
        return spot_json_fail(&plan->json, "/next/M", err, "0 is outside [1, %d]", SPOT_GRID_MAX);
    if (plan->kind == SPOT_PLAN_SERVE && g->D && has_batch && plan->micro_batch < 1)
        return spot_json_fail(&plan->json, "/next/B", err, "expected at least 1 request at once");
    if (spot_grid_size(g) > SPOT_GRID_MAX)
        return spot_json_fail(&plan->json, "/next", err, "D * P * M is above %d", SPOT_GRID_MAX);
    return 0;
}

/* A worker that trains has one place; an instance that serves may have one rank on each of its
 * GPUs. */
static int check_nodes(const struct spot_plan_doc *plan, struct spot_err *err)
{
    const char **node = spot_xcalloc(plan->n_place, sizeof(*node));
    int rc = 0;

    for (size_t i = 0; i < plan->n_place; i++)
        node[i] = plan->place[i].node;
    qsort(node, plan->n_place, sizeof(*node), spot_compare_texts);
    for (size_t i = 1; i < plan->n_place && !rc; i++)
        if (!strcmp(node[i - 1], node[i]))
            rc = spot_json_fail(&plan->json, "/place", err, "'%.64s' has two places", node[i]);
    free(node);
    return rc;
}

static int check_places(const struct spot_plan_doc *plan, struct spot_err *err)
{
    const struct spot_grid *g = &plan->next;
    bool *taken = spot_xcalloc((size_t)spot_grid_size(g) + 1, sizeof(*taken));
    int rc = 0;

    for (size_t i = 0; i < plan->n_place && !rc; i++) {
        const struct spot_plan_place *q = &plan->place[i];
        char at[32];

        snprintf(at, sizeof(at), "/place/%zu", i);
        if (q->d >= g->D || q->p >= g->P || q->m >= g->M) {
            rc = spot_json_fail(&plan->json, at, err, "lies outside the grid of /next");
        } else {
            bool *t = &taken[(q->d * g->P + q->p) * g->M + q->m];

            if (*t)
                rc = spot_json_fail(&plan->json, at, err, "names a position a second time");
            *t = true;
        }
    }
    free(taken);
    return rc || plan->kind == SPOT_PLAN_SERVE ? rc : check_nodes(plan, err);
}

static const char *const kind_name[] = { "train", "serve", "fleet" };

/* Absent: a plan to train. */
static int read_kind(struct spot_plan_doc *plan, struct spot_err *err)
{
    const struct spot_json_value *value = spot_json_get(plan->json.root, "kind");
    const char *kind = spot_json_text(value);

    for (int i = 0; kind && i < (int)(sizeof(kind_name) / sizeof(*kind_name)); i++)
        if (!strcmp(kind, kind_name[i])) {
            plan->kind = (enum spot_plan_kind)i;
            return 0;
        }
    return value ? spot_json_fail(&plan->json, "/kind", err,
                                  "expected \"train\", \"serve\" or \"fleet\"")
                 : 0;
}

/* All rows of a bucket must describe the same requests. */
static int check_route(const struct spot_plan_doc *plan, size_t i, const char *at,
                       struct spot_err *err)
{
    const struct spot_plan_route *const r = &plan->route[i], *const last = i ? r - 1 : r;

    if (strcmp(r->market, "spot") != 0 && strcmp(r->market, "on-demand") != 0)
        return spot_json_fail(&plan->json, at, err,
                              "/market: expected \"spot\" or \"on-demand\", got \"%.40s\"",
                              r->market);
    if (!strcmp(r->bucket, last->bucket) &&
        (r->prompt_token < last->prompt_token || r->prompt_token > last->prompt_token ||
         r->output_token < last->output_token || r->output_token > last->output_token ||
         r->first_s < last->first_s || r->first_s > last->first_s))
        return spot_json_fail(&plan->json, at, err,
                              "'%.64s' has other sizes or another ttft_s in the row before",
                              r->bucket);
    return 0;
}

static int read_route(struct spot_plan_doc *plan, struct spot_err *err)
{
    const struct spot_json_value *list;

    if (read_objects(&plan->json, "route", SPOT_PLAN_ROUTE_MAX, route_field, sizeof(*plan->route),
                     (void **)&plan->route, &plan->n_route, err))
        return -1;
    list = spot_json_get(plan->json.root, "route");
    for (size_t i = 0; i < plan->n_route; i++) {
        char at[64];

        snprintf(at, sizeof(at), "/route/%zu", i);
        if (spot_json_read_fields(&plan->json, spot_json_entry(list, i), at, size_field,
                                  &plan->route[i], err) ||
            spot_json_read_fields(&plan->json, spot_json_entry(list, i), at, limit_field,
                                  &plan->route[i], err) ||
            check_route(plan, i, at, err))
            return -1;
    }
    return 0;
}

/* Read the additional keys of what read_objects read. */
static int read_alternatives(struct spot_plan_doc *plan, struct spot_err *err)
{
    const struct spot_json_value *list = spot_json_get(plan->json.root, "alternatives");

    for (size_t i = 0; i < plan->n_alternative; i++) {
        char at[64];

        snprintf(at, sizeof(at), "/alternatives/%zu", i);
        if (spot_json_read_fields(&plan->json, spot_json_entry(list, i), at, alternative_field,
                                  &plan->alternative[i], err) ||
            spot_json_read_fields(&plan->json, spot_json_entry(list, i), at,
                                  serve_alternative_field, &plan->alternative[i], err))
            return -1;
    }
    return 0;
}

static int read_all(struct spot_plan_doc *plan, struct spot_err *err)
{
    const struct spot_json_doc *json = &plan->json;
    const struct spot_json_value *next, *expected;

    if (spot_json_expect_schema(json, "spot.plan", 1, err) || read_kind(plan, err) ||
        spot_json_read_fields(json, json->root, "", head_field, plan, err) || read_route(plan, err))
        return -1;
    if (plan->kind == SPOT_PLAN_FLEET)
        return 0;
    if (spot_json_object(json, json->root, "", "next", true, &next, err) ||
        spot_json_read_fields(json, next, "/next", next_field, plan, err) ||
        spot_json_read_fields(json, next, "/next", batch_field, plan, err) ||
        spot_json_read_fields(json, next, "/next", parts_field, plan, err) ||
        check_next(plan, err) ||
        spot_json_object(json, json->root, "", "expected", false, &expected, err) ||
        (expected && (spot_json_read_fields(json, expected, "/expected", expected_field,
                                            &plan->expected, err) ||
                      spot_json_read_fields(json, expected, "/expected", serve_expected_field,
                                            &plan->expected, err))) ||
        read_objects(json, "place", SPOT_PLAN_PLACE_MAX, place_field, sizeof(*plan->place),
                     (void **)&plan->place, &plan->n_place, err) ||
        check_places(plan, err) ||
        read_objects(json, "weights", SPOT_PLAN_WEIGHT_MAX, weight_field, sizeof(*plan->weight),
                     (void **)&plan->weight, &plan->n_weight, err) ||
        read_objects(json, "path", SPOT_PLAN_PATH_MAX, path_field, sizeof(*plan->path),
                     (void **)&plan->path, &plan->n_path, err) ||
        read_objects(json, "alternatives", SPOT_PLAN_ALTERNATIVE_MAX, alternative_grid_field,
                     sizeof(*plan->alternative), (void **)&plan->alternative, &plan->n_alternative,
                     err))
        return -1;
    return read_alternatives(plan, err) ? -1 : read_why(plan, err);
}

static int take_json(struct spot_plan_doc *plan, struct spot_json_doc *json, struct spot_err *err)
{
    memset(plan, 0, sizeof(*plan));
    plan->json = *json;
    memset(json, 0, sizeof(*json));
    plan->job = "";
    plan->epoch = -1;
    plan->next.M = 1;
    plan->expected.usd_per_h = plan->expected.usd_per_sample = -1;
    if (read_all(plan, err)) {
        spot_plan_doc_release(plan);
        return -1;
    }
    return 0;
}

int spot_plan_doc_parse(struct spot_plan_doc *plan, const char *text, size_t n_byte,
                        const char *source, struct spot_err *err)
{
    struct spot_json_doc json;

    memset(plan, 0, sizeof(*plan));
    return spot_json_parse(&json, text, n_byte, source, err) || take_json(plan, &json, err) ? -1
                                                                                            : 0;
}

void spot_plan_doc_release(struct spot_plan_doc *plan)
{
    free(plan->place);
    free(plan->weight);
    free(plan->route);
    free(plan->path);
    free(plan->alternative);
    free(plan->why);
    spot_json_release(&plan->json);
    memset(plan, 0, sizeof(*plan));
}

void spot_plan_route_write(struct spot_jw *jw, const struct spot_plan_route *route, size_t n)
{
    spot_jw_array(jw, "route");
    for (size_t i = 0; i < n; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_fields(jw, route_field, &route[i]);
        if (route[i].prompt_token > 0 || route[i].output_token > 0)
            spot_jw_fields(jw, size_field, &route[i]);
        if (route[i].first_s > 0)
            spot_jw_fields(jw, limit_field, &route[i]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void write_path(struct spot_jw *jw, const struct spot_plan_doc *plan)
{
    spot_jw_array(jw, "path");
    for (size_t i = 0; i < plan->n_path; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_fields(jw, path_field, &plan->path[i]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void put_above_0(struct spot_jw *jw, const char *key, double x)
{
    if (x > 0)
        spot_jw_real(jw, key, x);
}

static void write_serve_expected(struct spot_jw *jw, const struct spot_plan_expected *e)
{
    spot_jw_object(jw, "expected");
    spot_jw_real(jw, "requests_per_s", e->requests_per_s);
    put_above_0(jw, "latency_s", e->latency_s);
    put_above_0(jw, "e2e_p99_s", e->e2e_p99_s);
    put_above_0(jw, "rate_per_s", e->rate_per_s);
    if (e->usd_per_h >= 0)
        spot_jw_real(jw, "usd_per_h", e->usd_per_h);
    spot_jw_end(jw);
}

static void write_expected(struct spot_jw *jw, const struct spot_plan_expected *e)
{
    spot_jw_object(jw, "expected");
    spot_jw_real(jw, "samples_per_s", e->samples_per_s);
    if (e->usd_per_h >= 0)
        spot_jw_real(jw, "usd_per_h", e->usd_per_h);
    if (e->usd_per_sample >= 0)
        spot_jw_real(jw, "usd_per_sample", e->usd_per_sample);
    spot_jw_real(jw, "loss_prob", e->loss_prob);
    if (e->undisturbed_samples_per_s > 0)
        spot_jw_real(jw, "undisturbed_samples_per_s", e->undisturbed_samples_per_s);
    if (e->from)
        spot_jw_str(jw, "from", e->from);
    if (e->law) {
        spot_jw_str(jw, "law", e->law);
        spot_jw_real(jw, "law_miss", e->law_miss);
    }
    spot_jw_end(jw);
}

static void write_serve_alternative(struct spot_jw *jw, const struct spot_plan_alternative *a)
{
    spot_jw_object(jw, NULL);
    spot_jw_int(jw, "D", a->d);
    spot_jw_int(jw, "P", a->p);
    spot_jw_fields(jw, serve_alternative_field, a);
    spot_jw_int(jw, "spares", a->spares);
    if (a->why)
        spot_jw_str(jw, "why", a->why);
    spot_jw_end(jw);
}

static void write_reasons(struct spot_jw *jw, const struct spot_plan_doc *plan)
{
    spot_jw_array(jw, "why");
    for (size_t i = 0; i < plan->n_why; i++)
        spot_jw_str(jw, NULL, plan->why[i]);
    spot_jw_end(jw);
    spot_jw_array(jw, "alternatives");
    for (size_t i = 0; i < plan->n_alternative; i++) {
        const struct spot_plan_alternative *a = &plan->alternative[i];

        if (plan->kind == SPOT_PLAN_SERVE) {
            write_serve_alternative(jw, a);
            continue;
        }
        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "D", a->d);
        spot_jw_int(jw, "P", a->p);
        spot_jw_int(jw, "spares", a->spares);
        spot_jw_real(jw, "samples_per_s", a->samples_per_s);
        spot_jw_real(jw, "loss_prob", a->loss_prob);
        if (a->undisturbed_samples_per_s > 0)
            spot_jw_real(jw, "undisturbed_samples_per_s", a->undisturbed_samples_per_s);
        if (a->from)
            spot_jw_str(jw, "from", a->from);
        if (a->why)
            spot_jw_str(jw, "why", a->why);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

int spot_plan_doc_write(const struct spot_plan_doc *plan, const struct spot_prov *prov, FILE *out,
                        struct spot_err *err)
{
    const bool is_serve = plan->kind == SPOT_PLAN_SERVE;
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, prov);
    if (plan->kind != SPOT_PLAN_TRAIN)
        spot_jw_str(&jw, "kind", kind_name[plan->kind]);
    spot_jw_str(&jw, "job", plan->job);
    spot_jw_real(&jw, "time_s", plan->time_s);
    if (plan->epoch >= 0)
        spot_jw_int(&jw, "epoch", plan->epoch);
    if (plan->n_route)
        spot_plan_route_write(&jw, plan->route, plan->n_route);
    if (plan->kind == SPOT_PLAN_FLEET) {
        spot_jw_end(&jw);
        return spot_jw_close(&jw, err);
    }
    spot_jw_object(&jw, "next");
    spot_jw_fields(&jw, next_field, plan);
    if (!is_serve || plan->micro_batch > 0)
        spot_jw_fields(&jw, batch_field, plan);
    if (is_serve && plan->prefill_parts > 0)
        spot_jw_fields(&jw, parts_field, plan);
    spot_jw_end(&jw);
    spot_jw_int(&jw, "spares", plan->spares);
    spot_jw_rows(&jw, "place", place_field, plan->place, plan->n_place, sizeof(*plan->place));
    spot_jw_rows(&jw, "weights", weight_field, plan->weight, plan->n_weight, sizeof(*plan->weight));
    write_path(&jw, plan);
    (is_serve ? write_serve_expected : write_expected)(&jw, &plan->expected);
    if (!is_serve) {
        spot_jw_real(&jw, "bound", plan->bound);
        spot_jw_real(&jw, "gap", plan->gap);
    }
    write_reasons(&jw, plan);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}
