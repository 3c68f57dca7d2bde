/* SPDX-License-Identifier: MIT */
#include "train/config.h"

#include <math.h>
#include <string.h>

#include "common/hash.h"
#include "train/train_protocol.h"

int64_t spot_job_microbatches(const struct spot_job_config *config)
{
    return config->global_batch / config->micro_batch;
}

int64_t spot_job_words(const struct spot_job_config *config)
{
    return spot_stage_words(&config->shape, config->weight_xxh3 != 0);
}

/* Check that the job's messages fit into frames. */
static int check_messages(const struct spot_job_config *c, struct spot_err *err)
{
    const struct spot_shape *s = &c->shape;
    const int64_t margin = 1 << 20, limit = SPOT_PAYLOAD_MAX - margin;
    const int64_t row = s->width * (int64_t)sizeof(float);

    for (int b = 0; b < spot_shape_bundles(s); b++) {
        struct spot_arena arena;

        spot_arena_of(s, b, &arena);
        if ((int64_t)arena.n_elem > limit / (int64_t)(SPOT_PLANES * sizeof(float)))
            return spot_err_set(
                err, SPOT_EDATA,
                "model shape: bundle %d has %zu elements, at most %lld can be moved "
                "in one piece: take a smaller --width%s",
                b, arena.n_elem, (long long)(limit / (int64_t)(SPOT_PLANES * sizeof(float))),
                b ? "" : " or --vocab");
    }
    if (c->micro_batch > limit / row / s->seq)
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: the activations of %lld sequences are too many to move "
                            "in one piece",
                            (long long)c->micro_batch);
    if (c->global_batch > limit / (int64_t)sizeof(uint32_t) / spot_job_words(c))
        return spot_err_set(err, SPOT_EDATA,
                            "the tokens of a step, %lld sequences of %lld, are too many to move in "
                            "one piece",
                            (long long)c->global_batch, (long long)s->seq);
    return 0;
}

/* --- changes between steps --------------------------------------- */

/* The tuning at the start of the job. */
static struct spot_tuning first_tuning(const struct spot_job_config *c)
{
    return (struct spot_tuning){ .lr = c->adamw.lr,
                                 .weight_decay = c->adamw.weight_decay,
                                 .schedule = c->schedule };
}

struct spot_tuning spot_job_tuning(const struct spot_job_config *c, int64_t step)
{
    struct spot_tuning t = first_tuning(c);

    for (uint32_t i = 0; i < c->n_change && c->change[i].after < step; i++)
        t = c->change[i];
    return t;
}

struct spot_adamw spot_job_adamw(const struct spot_job_config *c, int64_t step)
{
    const struct spot_tuning t = spot_job_tuning(c, step);
    struct spot_adamw a = c->adamw;

    a.lr = spot_tuning_lr(&t, step);
    a.weight_decay = t.weight_decay;
    return a;
}

double spot_job_scale(const struct spot_job_config *c, double norm2)
{
    return c->clip_norm > 0 && sqrt(norm2) > c->clip_norm ? c->clip_norm / sqrt(norm2) : 1;
}

int spot_job_change(struct spot_job_config *c, const struct spot_tuning *change,
                    struct spot_err *err)
{
    struct spot_tuning before;

    while (c->n_change && c->change[c->n_change - 1].after >= change->after)
        c->n_change--;
    before = spot_job_tuning(c, INT64_MAX);
    if (spot_tuning_equal(&before, change))
        return 0;
    if (c->n_change == SPOT_TUNINGS_MAX)
        return spot_err_set(err, SPOT_EUSAGE,
                            "a job can have at most %d changes of its learning rate",
                            SPOT_TUNINGS_MAX);
    if (spot_tuning_check(change, err))
        return -1;
    c->change[c->n_change++] = *change;
    return 1;
}

static int check_tunings(const struct spot_job_config *c, struct spot_err *err)
{
    const struct spot_tuning first = first_tuning(c);
    int64_t after = -1;

    if (spot_tuning_check(&first, err))
        return -1;
    for (uint32_t i = 0; i < c->n_change; i++) {
        if (c->change[i].after <= after)
            return spot_err_set(err, SPOT_EUSAGE, "changes of the learning rate are out of order");
        if (spot_tuning_check(&c->change[i], err))
            return -1;
        after = c->change[i].after;
    }
    return 0;
}

int spot_job_config_check(const struct spot_job_config *c, struct spot_err *err)
{
    if (spot_shape_check(&c->shape, err))
        return -1;
    if (c->micro_batch < 1 || c->global_batch < 1 || c->global_batch % c->micro_batch)
        return spot_err_set(err, SPOT_EUSAGE,
                            "the global batch (%lld) is not a multiple of the micro batch (%lld)",
                            (long long)c->global_batch, (long long)c->micro_batch);
    if (spot_job_microbatches(c) > SPOT_MICROBATCHES_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "%lld microbatches in a step, the limit is %d",
                            (long long)spot_job_microbatches(c), SPOT_MICROBATCHES_MAX);
    if (c->n_step < 1)
        return spot_err_set(err, SPOT_EUSAGE, "a job has at least one step");
    if (!isfinite(c->clip_norm) || c->clip_norm < 0)
        return spot_err_set(err, SPOT_EUSAGE, "learning rate and clip norm are at least 0");
    if (check_tunings(c, err))
        return -1;
    if (c->comm > SPOT_COMM_NCCL || c->reduce > SPOT_REDUCE_FAST ||
        (c->reduce == SPOT_REDUCE_FAST && c->comm != SPOT_COMM_NCCL) ||
        (c->comm == SPOT_COMM_NCCL && strncmp(c->kernel, "cuda", 4) != 0))
        return spot_err_set(err, SPOT_EUSAGE,
                            "fast sums need NCCL, which needs a CUDA kernel, not '%s'", c->kernel);
    return check_messages(c, err);
}

/* The fields that jobs had when GPT-2's was the only shape. Their order is part of existing ids and
 * must not change. */
static void put_common(struct spot_buf *out, const struct spot_job_config *c)
{
    const struct spot_shape *s = &c->shape;
    const int64_t whole[] = { s->n_layer, s->width,       s->n_head,       s->seq,   s->vocab,
                              s->n_shard, c->micro_batch, c->global_batch, c->n_step };
    const double real[] = { c->adamw.lr,  c->adamw.beta1,        c->adamw.beta2,
                            c->adamw.eps, c->adamw.weight_decay, c->clip_norm };

    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        spot_put_i64(out, whole[i]);
    for (size_t i = 0; i < sizeof(real) / sizeof(real[0]); i++)
        spot_put_f64(out, real[i]);
    spot_put_u64(out, c->seed);
    spot_put_u64(out, c->data_xxh3);
    spot_put_u64(out, c->init_xxh3);
    spot_put_u32(out, c->comm);
    spot_put_u32(out, c->reduce);
    spot_put_text(out, c->kernel);
}

static void put_arch(struct spot_buf *out, const struct spot_shape *s)
{
    spot_put_i64(out, s->kind.family);
    spot_put_i64(out, s->n_kv_head);
    spot_put_i64(out, s->ffn);
    spot_put_f64(out, s->rope_theta);
    spot_put_i64(out, s->is_tied);
}

/* The remaining features of layers, and the width of a head. */
static void put_kind(struct spot_buf *out, const struct spot_shape *s)
{
    int64_t word[SPOT_DECODER_WORDS];

    memcpy(word, &s->kind, sizeof(word));
    for (int i = 0; i < SPOT_DECODER_WORDS; i++)
        spot_put_i64(out, word[i]);
    spot_put_i64(out, s->head_dim);
}

static void get_kind(struct spot_wire_in *in, struct spot_shape *s)
{
    int64_t word[SPOT_DECODER_WORDS] = { 0 };

    for (int i = 0; i < SPOT_DECODER_WORDS; i++)
        word[i] = spot_get_i64(in);
    memcpy(&s->kind, word, sizeof(word));
    s->head_dim = spot_get_i64(in);
}

static void put_schedule(struct spot_buf *out, const struct spot_schedule *s)
{
    spot_put_u32(out, s->kind);
    spot_put_i64(out, s->warmup_steps);
    spot_put_i64(out, s->decay_steps);
    spot_put_f64(out, s->min_lr);
}

static void get_schedule(struct spot_wire_in *in, struct spot_schedule *s)
{
    s->kind = spot_get_u32(in);
    s->warmup_steps = spot_get_i64(in);
    s->decay_steps = spot_get_i64(in);
    s->min_lr = spot_get_f64(in);
}

static void put_change(struct spot_buf *out, const struct spot_tuning *t)
{
    spot_put_i64(out, t->after);
    spot_put_f64(out, t->lr);
    spot_put_f64(out, t->weight_decay);
    put_schedule(out, &t->schedule);
}

static void put_tunings(struct spot_buf *out, const struct spot_job_config *c)
{
    put_schedule(out, &c->schedule);
    spot_put_u32(out, c->n_change);
    for (uint32_t i = 0; i < c->n_change; i++)
        put_change(out, &c->change[i]);
}

static void get_tunings(struct spot_wire_in *in, struct spot_job_config *c)
{
    get_schedule(in, &c->schedule);
    c->n_change = spot_get_count(in, 52);
    if (c->n_change > SPOT_TUNINGS_MAX) {
        in->bad = true;
        c->n_change = 0;
    }
    for (uint32_t i = 0; i < c->n_change; i++) {
        struct spot_tuning *const t = &c->change[i];

        t->after = spot_get_i64(in);
        t->lr = spot_get_f64(in);
        t->weight_decay = spot_get_f64(in);
        get_schedule(in, &t->schedule);
    }
}

void spot_job_config_put(struct spot_buf *out, const struct spot_job_config *c)
{
    put_common(out, c);
    put_arch(out, &c->shape);
    put_kind(out, &c->shape);
    spot_put_f64(out, c->shape.norm_eps);
    spot_put_u64(out, c->weight_xxh3);
    put_tunings(out, c);
}

void spot_job_config_get(struct spot_wire_in *in, struct spot_job_config *c)
{
    struct spot_shape *s = &c->shape;
    int64_t *const whole[] = { &s->n_layer, &s->width,       &s->n_head,       &s->seq,   &s->vocab,
                               &s->n_shard, &c->micro_batch, &c->global_batch, &c->n_step };
    double *const real[] = { &c->adamw.lr,  &c->adamw.beta1,        &c->adamw.beta2,
                             &c->adamw.eps, &c->adamw.weight_decay, &c->clip_norm };

    *s = (struct spot_shape){ 0 }; /* missing fields follow from the others */
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        *whole[i] = spot_get_i64(in);
    for (size_t i = 0; i < sizeof(real) / sizeof(real[0]); i++)
        *real[i] = spot_get_f64(in);
    c->seed = spot_get_u64(in);
    c->data_xxh3 = spot_get_u64(in);
    c->init_xxh3 = spot_get_u64(in);
    c->comm = spot_get_u32(in);
    c->reduce = spot_get_u32(in);
    spot_get_text(in, c->kernel, sizeof(c->kernel));
    (void)spot_get_i64(in); /* the family: the values that follow determine it */
    s->n_kv_head = spot_get_i64(in);
    s->ffn = spot_get_i64(in);
    s->rope_theta = spot_get_f64(in);
    s->is_tied = spot_get_i64(in);
    get_kind(in, s);
    s->norm_eps = spot_get_f64(in);
    c->weight_xxh3 = spot_get_u64(in);
    get_tunings(in, c);
}

/* True if eps differs from the default, which jobs had before it could be set. */
static bool has_own_eps(const struct spot_shape *s)
{
    const struct spot_shape usual = { 0 };

    return (float)spot_shape_norm_eps(s) != (float)spot_shape_norm_eps(&usual);
}

/* The id with the first n changes. */
static uint64_t id_with(const struct spot_job_config *config, uint32_t n_change)
{
    struct spot_job_config c = *config;
    const struct spot_tuning first = first_tuning(config);
    struct spot_buf out = { 0 };
    uint64_t id;

    c.n_step = 0;
    c.comm = SPOT_COMM_SOCKETS;
    put_common(&out, &c);
    if (c.shape.kind.family || c.shape.is_tied)
        put_arch(&out, &c.shape);
    if (spot_shape_needs(&c.shape))
        put_kind(&out, &c.shape);
    if (has_own_eps(&c.shape))
        spot_put_f64(&out, (double)(float)c.shape.norm_eps);
    if (c.weight_xxh3)
        spot_put_u64(&out, c.weight_xxh3);
    if (spot_tuning_is_scheduled(&first))
        put_schedule(&out, &c.schedule);
    for (uint32_t i = 0; i < n_change; i++)
        put_change(&out, &c.change[i]);
    id = spot_hash64(out.data, out.n);
    spot_buf_release(&out);
    return id ? id : 1;
}

uint64_t spot_job_id(const struct spot_job_config *config)
{
    return id_with(config, 0);
}

uint64_t spot_job_path_id(const struct spot_job_config *config)
{
    return id_with(config, config->n_change);
}

int64_t spot_job_shared_steps(const struct spot_job_config *config, uint64_t path_id)
{
    for (uint32_t n = config->n_change + 1; n-- > 0;)
        if (id_with(config, n) == path_id)
            return n < config->n_change ? config->change[n].after : INT64_MAX;
    return -1;
}
