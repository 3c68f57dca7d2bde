/* SPDX-License-Identifier: MIT */
#include "model/job_doc.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "model/job_async.h"
#include "model/job_field.h"

/* --- field tables; job_doc_write.c uses them too --- */

static const struct spot_field count_field[] = {
    { "count", SPOT_F_INT, 0, "1", 1, SPOT_JOB_LAYER_MAX, false },
    { 0 },
};

const struct spot_doc_part spot_job_part[] = {
    { "", spot_job_head_field, true, 0, NULL },
    { "model", spot_job_model_field, false, 0, NULL },
    { "layers[]", spot_job_layer_field, false, SPOT_JOB_LAYER_MAX, NULL },
    { "layers[]", count_field, false, SPOT_JOB_LAYER_MAX, NULL },
    { "memory", spot_job_memory_field, false, 0, NULL },
    { "cost", spot_job_cost_field, false, 0, NULL },
    { "cost.p2p[]", spot_job_p2p_field, false, SPOT_JOB_TABLE_MAX, NULL },
    { "cost.build[]", spot_job_build_field, false, SPOT_JOB_TABLE_MAX, NULL },
    { "cost.regroup[]", spot_job_regroup_field, false, SPOT_JOB_TABLE_MAX, NULL },
    { "profile[]", spot_job_profile_field, false, SPOT_JOB_PROFILE_MAX, NULL },
    { "serve", spot_job_serve_field, false, 0, NULL },
    { "serve.cells[]", spot_serve_cell_field, true, SPOT_SERVE_CELL_MAX, NULL },
    { "serve.embed[]", spot_serve_embed_field, false, SPOT_SERVE_CELL_MAX, NULL },
    { "async", spot_job_async_field, false, 0, NULL },
    { "async.types[]", spot_job_async_type_field, true, SPOT_JOB_ASYNC_TYPES_MAX, NULL },
    { 0 },
};

#define HEAD(member) offsetof(struct spot_job_doc, member)
const struct spot_field spot_job_head_field[] = {
    { "name", SPOT_F_STR, HEAD(name), NULL, 0, 0, true },
    { "source", SPOT_F_STR, HEAD(source), NULL, 0, 0, false },
    { "instance_type", SPOT_F_STR, HEAD(instance_type), NULL, 0, 0, false },
    { "global_batch", SPOT_F_INT, HEAD(global_batch), "1", 1, 1e9, false },
    { "micro_batch", SPOT_F_INT, HEAD(micro_batch), "1", 1, 1e9, false },
    { "seq", SPOT_F_INT, HEAD(seq), "1", 1, 1 << 24, false },
    { 0 },
};

#define MODEL(member) offsetof(struct spot_job_model, member)
const struct spot_field spot_job_model_field[] = {
    { "layers", SPOT_F_INT, MODEL(shape.n_layer), "1", 1, SPOT_JOB_LAYER_MAX - 2, true },
    { "width", SPOT_F_INT, MODEL(shape.width), "1", 1, 1 << 20, true },
    { "heads", SPOT_F_INT, MODEL(shape.n_head), "1", 1, 1 << 12, false },
    { "vocab", SPOT_F_INT, MODEL(shape.vocab), "1", 1, 1 << 24, false },
    { "shards", SPOT_F_INT, MODEL(shape.n_shard), "1", 1, 1 << 10, false },
    { "kv_heads", SPOT_F_INT, MODEL(shape.n_kv_head), "1", 1, 1 << 12, false },
    { "ffn", SPOT_F_INT, MODEL(shape.ffn), "1", 1, 1 << 22, false },
    { "head_dim", SPOT_F_INT, MODEL(shape.head_dim), "1", 1, 1 << 12, false },
    { "recompute", SPOT_F_STR, MODEL(recompute), NULL, 0, 0, false },
    { 0 },
};

#define LAYER(member) offsetof(struct spot_job_layer, member)
const struct spot_field spot_job_layer_field[] = {
    { "params", SPOT_F_REAL, LAYER(params), "1", 0, 1e15, true },
    { "forward_s", SPOT_F_REAL, LAYER(forward_s), "s", 0, 1e6, false },
    { "backward_s", SPOT_F_REAL, LAYER(backward_s), "s", 0, 1e6, false },
    { "activation_byte", SPOT_F_REAL, LAYER(activation_byte), "byte", 0, 1e15, false },
    { 0 },
};

#define PROFILE(member) offsetof(struct spot_job_profile, member)
const struct spot_field spot_job_profile_field[] = {
    { "D", SPOT_F_INT, PROFILE(grid.D), "1", 1, SPOT_GRID_MAX, true },
    { "P", SPOT_F_INT, PROFILE(grid.P), "1", 1, SPOT_GRID_MAX, true },
    { "M", SPOT_F_INT, PROFILE(grid.M), "1", 1, SPOT_GRID_MAX, false },
    { "B", SPOT_F_INT, PROFILE(micro_batch), "1", 1, 1e9, false },
    { "step_s", SPOT_F_REAL, PROFILE(step_s), "s", 1e-9, 1e9, false },
    { "samples_per_s", SPOT_F_REAL, PROFILE(samples_per_s), "1/s", 1e-12, 1e12, false },
    { "latency_s", SPOT_F_REAL, PROFILE(latency_s), "s", 1e-9, 1e9, false },
    { "outlier", SPOT_F_BOOL, PROFILE(is_outlier), NULL, 0, 0, false },
    { 0 },
};

#define MEMORY(member) offsetof(struct spot_job_memory, member)
const struct spot_field spot_job_memory_field[] = {
    { "node_byte", SPOT_F_REAL, MEMORY(node_byte), "byte", 0, 1e18, false },
    { "state_byte_per_param", SPOT_F_REAL, MEMORY(state_byte_per_param), "byte", 0, 1e6, false },
    { "P_min", SPOT_F_INT, MEMORY(p_min), "1", 1, SPOT_GRID_MAX, false },
    { "P_max", SPOT_F_INT, MEMORY(p_max), "1", 1, SPOT_GRID_MAX, false },
    { "D_min", SPOT_F_INT, MEMORY(d_min), "1", 1, SPOT_GRID_MAX, false },
    { 0 },
};

#define COST(member) offsetof(struct spot_job_cost, member)
#define COST_S(key, member)                                \
    {                                                      \
        key, SPOT_F_REAL, COST(member), "s", 0, 1e6, false \
    }
const struct spot_field spot_job_cost_field[] = {
    { "usd_per_h", SPOT_F_REAL, COST(usd_per_h), "usd", 0, 1e6, false },
    { "on_demand_usd_per_h", SPOT_F_REAL, COST(on_demand_usd_per_h), "usd", 0, 1e6, false },
    { "interval_s", SPOT_F_REAL, COST(interval_s), "s", 1e-3, 1e6, false },
    { "look_ahead", SPOT_F_INT, COST(look_ahead), "1", 1, 256, false },
    { "move_byte_per_param", SPOT_F_REAL, COST(move_byte_per_param), "byte", 0, 1e6, false },
    COST_S("process_s", process_s),
    COST_S("rendezvous_s", rendezvous_s),
    COST_S("extra_s", extra_s),
    COST_S("regroup_s", regroup_s),
    COST_S("add_per_group_s", add_per_group_s),
    COST_S("remove_per_group_s", remove_per_group_s),
    COST_S("add_per_node_s", add_per_node_s),
    COST_S("remove_per_node_s", remove_per_node_s),
    COST_S("checkpoint_s", checkpoint_s),
    COST_S("restart_s", restart_s),
    COST_S("restore_s", restore_s),
    { 0 },
};

const struct spot_field spot_job_p2p_field[] = {
    { "byte", SPOT_F_REAL, offsetof(struct spot_job_xy, x), "byte", 0, 1e18, true },
    { "s", SPOT_F_REAL, offsetof(struct spot_job_xy, y), "s", 0, 1e9, true },
    { 0 },
};
const struct spot_field spot_job_build_field[] = {
    { "P", SPOT_F_REAL, offsetof(struct spot_job_xy, x), "1", 1, SPOT_GRID_MAX, true },
    { "s", SPOT_F_REAL, offsetof(struct spot_job_xy, y), "s", 0, 1e6, true },
    { 0 },
};

#define REGROUP(member) offsetof(struct spot_job_regroup_step, member)
const struct spot_field spot_job_regroup_field[] = {
    { "D_from", SPOT_F_INT, REGROUP(d_from), "1", 0, SPOT_GRID_MAX, true },
    { "add_s", SPOT_F_REAL, REGROUP(add_s), "s", 0, 1e6, true },
    { "remove_s", SPOT_F_REAL, REGROUP(remove_s), "s", 0, 1e6, true },
    { 0 },
};

const struct spot_job_memory spot_job_memory_absent = { .state_byte_per_param = 16,
                                                        .p_min = 1,
                                                        .d_min = 1 };
const struct spot_job_cost spot_job_cost_absent = { .usd_per_h = -1,
                                                    .on_demand_usd_per_h = -1,
                                                    .interval_s = 60,
                                                    .look_ahead = 12,
                                                    .move_byte_per_param = 12 };

/* --- reading --- */

static int read_kind(struct spot_job_doc *job, struct spot_err *err)
{
    const struct spot_json_value *value = spot_json_get(job->json.root, "kind");
    const char *kind = spot_json_text(value);

    if (!value)
        return spot_json_fail(&job->json, "", err, "lacks the key 'kind'");
    if (!kind || (strcmp(kind, "train") != 0 && strcmp(kind, "serve") != 0))
        return spot_json_fail(&job->json, "/kind", err, "expected \"train\" or \"serve\"");
    job->kind = strcmp(kind, "train") ? SPOT_JOB_SERVE : SPOT_JOB_TRAIN;
    if (job->kind == SPOT_JOB_TRAIN && !job->global_batch)
        return spot_json_fail(&job->json, "", err, "lacks the key 'global_batch'");
    if (job->kind == SPOT_JOB_SERVE && !spot_json_get(job->json.root, "serve"))
        return spot_json_fail(&job->json, "", err, "lacks the key 'serve'");
    return 0;
}

/* "none" and "attention" differ only in the attention scores, which no level includes: they are
 * stored if attention is not fused. */
static const struct recompute {
    const char *name;
    enum spot_recompute level;
    bool keeps_scores;
} recomputes[] = { { "attention", SPOT_RECOMPUTE_NONE, false },
                   { "none", SPOT_RECOMPUTE_NONE, true },
                   { "mlp", SPOT_RECOMPUTE_MLP, false },
                   { "layer", SPOT_RECOMPUTE_LAYER, false } };

static const struct recompute *recompute_of(const struct spot_job_model *m)
{
    for (size_t i = 0; i < sizeof(recomputes) / sizeof(*recomputes); i++)
        if (!m->recompute || !strcmp(m->recompute, recomputes[i].name))
            return &recomputes[i];
    return NULL;
}

static int check_model(struct spot_job_doc *job, struct spot_err *err)
{
    const struct spot_job_model *const m = &job->model;
    struct spot_shape *const s = &job->model.shape;

    if (!s->n_kv_head != !s->ffn)
        return spot_json_fail(&job->json, "/model", err,
                              "give both kv_heads and ffn (Llama's layers) or neither");
    if (s->n_kv_head &&
        (!s->n_head || s->n_head % s->n_kv_head || (!s->head_dim && s->width % s->n_head)))
        return spot_json_fail(&job->json, "/model", err,
                              "kv_heads (%lld) divides heads (%lld), and heads width (%lld)",
                              (long long)s->n_kv_head, (long long)s->n_head, (long long)s->width);
    if (s->n_kv_head)
        s->kind = (struct spot_decoder)SPOT_DECODER_LLAMA;
    if (!recompute_of(m))
        return spot_json_fail(&job->json, "/model/recompute", err,
                              "expected none, attention, mlp or layer, got '%.32s'", m->recompute);
    if (recompute_of(m)->keeps_scores && !s->n_head)
        return spot_json_fail(&job->json, "/model", err,
                              "recompute 'none' keeps the scores of every head: heads is missing");
    return 0;
}

/* Create the layers; times stay 0, unknown. */
static void make_layers(struct spot_job_doc *job)
{
    const struct recompute *const again = recompute_of(&job->model);
    const double tokens = (double)job->seq * (double)job->micro_batch;
    struct spot_shape s = job->model.shape;

    s.seq = job->seq;
    s.vocab = s.vocab ? s.vocab : 256;
    job->n_layer = (size_t)spot_shape_bundles(&s);
    job->layer = spot_xcalloc(job->n_layer, sizeof(*job->layer));
    for (size_t b = 0; b < job->n_layer; b++)
        job->layer[b] = (struct spot_job_layer){
            .params = (double)spot_shape_bundle_params(&s, (int64_t)b),
            .activation_byte = tokens * spot_shape_activation_byte(&s, (int64_t)b, again->level,
                                                                   again->keeps_scores),
        };
}

static int read_layers(struct spot_job_doc *job, struct spot_err *err)
{
    const struct spot_json_value *list;

    if (spot_json_array(&job->json, job->json.root, "", "layers", false, SPOT_JOB_LAYER_MAX, &list,
                        err))
        return -1;
    if (!list)
        return 0;
    job->lists_layers = true;
    job->layer = spot_xcalloc(SPOT_JOB_LAYER_MAX, sizeof(*job->layer));
    for (size_t i = 0; i < spot_json_array_size(list); i++) {
        struct spot_job_layer layer = { 0 };
        int64_t count = 1;
        char at[48];

        snprintf(at, sizeof(at), "/layers/%zu", i);
        if (spot_json_read_fields(&job->json, spot_json_entry(list, i), at, spot_job_layer_field,
                                  &layer, err) ||
            spot_json_read_fields(&job->json, spot_json_entry(list, i), at, count_field, &count,
                                  err))
            return -1;
        if ((size_t)count > SPOT_JOB_LAYER_MAX - job->n_layer)
            return spot_json_fail(&job->json, at, err, "more than %d layers in all",
                                  SPOT_JOB_LAYER_MAX);
        while (count--)
            job->layer[job->n_layer++] = layer;
    }
    return 0;
}

static int read_profile(struct spot_job_doc *job, struct spot_err *err)
{
    const struct spot_job_profile first = { .grid.M = 1, .micro_batch = job->micro_batch };

    if (spot_json_rows(&job->json, job->json.root, "", "profile",
                       &(struct spot_doc_part){ .field = spot_job_profile_field,
                                                .required = false,
                                                .n_max = SPOT_JOB_PROFILE_MAX },
                       &first, sizeof(first), (void **)&job->profile, &job->n_profile, err))
        return -1;
    for (size_t i = 0; i < job->n_profile; i++) {
        struct spot_job_profile *p = &job->profile[i];
        char at[48];

        snprintf(at, sizeof(at), "/profile/%zu", i);
        if (p->step_s == 0 && p->samples_per_s == 0 && p->latency_s == 0)
            return spot_json_fail(&job->json, at, err, "lacks step_s, samples_per_s and latency_s");
        if (p->step_s == 0 && p->samples_per_s > 0 && job->global_batch)
            p->step_s = (double)job->global_batch / p->samples_per_s;
    }
    return 0;
}

static int read_skip(struct spot_job_doc *job, const struct spot_json_value *memory,
                     struct spot_err *err)
{
    const struct spot_json_value *list;
    int64_t *skip;

    if (spot_json_array(&job->json, memory, "/memory", "P_skip", false, SPOT_JOB_TABLE_MAX, &list,
                        err))
        return -1;
    job->memory.n_p_skip = list ? spot_json_array_size(list) : 0;
    job->memory.p_skip = skip = spot_xcalloc(job->memory.n_p_skip, sizeof(*skip));
    for (size_t i = 0; i < job->memory.n_p_skip; i++) {
        const struct spot_json_value *value = spot_json_entry(list, i);
        char at[48];

        snprintf(at, sizeof(at), "/memory/P_skip/%zu", i);
        skip[i] = spot_json_integer(value);
        if (!spot_json_is_integer(value) || skip[i] < 1 || skip[i] > SPOT_GRID_MAX)
            return spot_json_fail(&job->json, at, err, "expected an integer in [1, %d]",
                                  SPOT_GRID_MAX);
    }
    return 0;
}

/* Read a table of /cost: objects of two or three numbers with ascending first keys. */
static int read_table(struct spot_job_doc *job, const struct spot_json_value *cost, const char *key,
                      const struct spot_field *field, size_t size, void **table, size_t *n,
                      struct spot_err *err)
{
    const struct spot_json_value *const list = spot_json_get(cost, key);
    char at[64];

    if (spot_json_rows(&job->json, cost, "/cost", key,
                       &(struct spot_doc_part){
                           .field = field, .required = false, .n_max = SPOT_JOB_TABLE_MAX },
                       NULL, size, table, n, err))
        return -1;
    for (size_t i = 1; i < *n; i++)
        if (spot_json_number(spot_json_get(spot_json_entry(list, i), field->key)) <=
            spot_json_number(spot_json_get(spot_json_entry(list, i - 1), field->key))) {
            snprintf(at, sizeof(at), "/cost/%s/%zu", key, i);
            return spot_json_fail(&job->json, at, err, "%s does not ascend", field->key);
        }
    return 0;
}

static int read_cost(struct spot_job_doc *job, struct spot_err *err)
{
    struct spot_job_cost *c = &job->cost;
    const struct spot_json_value *cost;

    if (spot_json_object(&job->json, job->json.root, "", "cost", false, &cost, err))
        return -1;
    if (!cost)
        return 0;
    c->is_given = true;
    if (spot_json_read_fields(&job->json, cost, "/cost", spot_job_cost_field, c, err) ||
        read_table(job, cost, "p2p", spot_job_p2p_field, sizeof(*c->p2p), (void **)&c->p2p,
                   &c->n_p2p, err) ||
        read_table(job, cost, "build", spot_job_build_field, sizeof(*c->build), (void **)&c->build,
                   &c->n_build, err))
        return -1;
    return read_table(job, cost, "regroup", spot_job_regroup_field, sizeof(*c->regroup),
                      (void **)&c->regroup, &c->n_regroup, err);
}

static int read_limits(struct spot_job_doc *job, struct spot_err *err)
{
    const struct spot_json_value *memory;

    if (spot_json_object(&job->json, job->json.root, "", "memory", false, &memory, err))
        return -1;
    if (memory && (spot_json_read_fields(&job->json, memory, "/memory", spot_job_memory_field,
                                         &job->memory, err) ||
                   read_skip(job, memory, err)))
        return -1;
    if (!job->memory.p_max)
        job->memory.p_max = job->n_layer ? (int64_t)job->n_layer : SPOT_GRID_MAX;
    if (job->memory.p_max < job->memory.p_min)
        return spot_json_fail(&job->json, "/memory", err, "P_max %lld is below P_min %lld",
                              (long long)job->memory.p_max, (long long)job->memory.p_min);
    return 0;
}

static int read_all(struct spot_job_doc *job, struct spot_err *err)
{
    const struct spot_json_value *model;

    if (spot_json_expect_schema(&job->json, "spot.job", 1, err) ||
        spot_json_read_fields(&job->json, job->json.root, "", spot_job_head_field, job, err) ||
        read_kind(job, err) ||
        spot_json_object(&job->json, job->json.root, "", "model", false, &model, err) ||
        (model && spot_json_read_fields(&job->json, model, "/model", spot_job_model_field,
                                        &job->model, err)) ||
        (model && check_model(job, err)) || read_layers(job, err))
        return -1;
    if (!job->lists_layers && model)
        make_layers(job);
    if (read_profile(job, err) || read_limits(job, err) || read_cost(job, err))
        return -1;
    return spot_job_serve_read(&job->serve, &job->json, err);
}

static int take(struct spot_job_doc *job, struct spot_json_doc *json, struct spot_err *err)
{
    job->json = *json;
    job->micro_batch = job->seq = 1;
    job->memory = spot_job_memory_absent;
    job->cost = spot_job_cost_absent;
    if (read_all(job, err)) {
        spot_job_doc_release(job);
        return -1;
    }
    return 0;
}

int spot_job_doc_load(struct spot_job_doc *job, const char *path, struct spot_err *err)
{
    struct spot_json_doc json;

    memset(job, 0, sizeof(*job));
    return spot_json_load_path(&json, path, err) || take(job, &json, err) ? -1 : 0;
}

int spot_job_doc_parse(struct spot_job_doc *job, const char *text, size_t n_byte,
                       const char *source, struct spot_err *err)
{
    struct spot_json_doc json;

    memset(job, 0, sizeof(*job));
    return spot_json_parse(&json, text, n_byte, source, err) || take(job, &json, err) ? -1 : 0;
}

void spot_job_doc_release(struct spot_job_doc *job)
{
    free(job->layer);
    free(job->profile);
    free((void *)(uintptr_t)job->memory.p_skip);
    free(job->cost.p2p);
    free(job->cost.regroup);
    free(job->cost.build);
    spot_job_serve_release(&job->serve);
    spot_json_release(&job->json);
    memset(job, 0, sizeof(*job));
}
