/* SPDX-License-Identifier: MIT */
/* infer_rig.h - what the tests of serving engines share: models, a decoder in double precision, and
 * sequences played in random chunks of random batches by stages and members of a tensor group. */
#ifndef SPOT_TESTS_INFER_RIG_H
#define SPOT_TESTS_INFER_RIG_H

#include <pthread.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "decoder_f64.h"
#include "engine/infer.h"
#include "engine/kernel.h"
#include "stage_rig.h"
#include "suite.h"

enum { N_PICK = 5, MEMBERS = 2, STAGES = 3, SEQUENCES = 3 };
/* GPT-2 and Llama, head dimensions 8 to 32, shards 1 to 8; the last is tied */
static const int picks[N_PICK] = { 0, 1, 6, 7, 9 };

/* Where engines compute; NULL: the CPU. */
static const char *rig_backend;

struct rig {
    struct model m;
    int64_t T, V, C;
    void *image[SPOT_INFER_TYPES];
    size_t n_byte[SPOT_INFER_TYPES];
    uint32_t *token[SEQUENCES];                  /* the same tokens, rotated */
    const struct spot_lora *lora[SEQUENCES - 1]; /* of sequences 1.., if there are adapters */
    bool has_lora;
};

/* A shape of stage_rig.h. */
static inline void rig_open_shape(struct rig *r, int shape, bool is_tied)
{
    memset(r, 0, sizeof(*r));
    model_init(&r->m, shape);
    if (is_tied) {
        const struct spot_bundle *const head = &r->m.bundle[r->m.n_bundle - 1];
        const int at = spot_arena_find(&head->arena, "head.w");

        r->m.shape.is_tied = 1;
        for (int s = 0; s < r->m.shape.n_shard; s++)
            memcpy(r->m.bundle[0].plane[SPOT_PLANE_MASTER] +
                       spot_arena_offset(&r->m.bundle[0].arena, 0, s),
                   head->plane[SPOT_PLANE_MASTER] + spot_arena_offset(&head->arena, at, s),
                   (size_t)(head->arena.tensor[at].rows * head->arena.tensor[at].cols) *
                       sizeof(float));
    }
    r->T = r->m.shape.seq;
    r->V = r->m.shape.vocab;
    r->C = r->m.shape.width;
    for (int i = 0; i < SPOT_INFER_TYPES; i++) {
        r->n_byte[i] =
            spot_infer_image_byte(&r->m.shape, (enum spot_infer_type)i, 0, r->m.n_bundle);
        r->image[i] = spot_alloc_aligned(r->n_byte[i], 1);
        spot_infer_image_pack(r->image[i], &r->m.shape, (enum spot_infer_type)i, 0, r->m.n_bundle,
                              r->m.ptr);
    }
    for (int s = 0; s < SEQUENCES; s++) {
        r->token[s] = calloc((size_t)r->T, sizeof(uint32_t));
        for (int64_t t = 0; t < r->T; t++)
            r->token[s][t] = r->m.token[(t + 3 * s) % r->T];
    }
}

static inline void rig_open(struct rig *r, int pick)
{
    rig_open_shape(r, picks[pick], pick == N_PICK - 1);
}

static inline void rig_close(struct rig *r)
{
    for (int i = 0; i < SPOT_INFER_TYPES; i++)
        spot_free_aligned(r->image[i]);
    for (int s = 0; s < SEQUENCES; s++)
        free(r->token[s]);
    model_release(&r->m);
}

static inline struct spot_infer *engine(const struct rig *r, int type, struct spot_infer_config c)
{
    struct spot_err err = { 0 };
    struct spot_infer *f;

    c.image = r->image[type];
    c.image_byte = r->n_byte[type];
    c.backend = rig_backend;
    c.lora = r->lora;
    c.n_lora = r->has_lora ? SEQUENCES - 1 : 0;
    c.n_thread = c.n_thread ? c.n_thread : 1;
    c.n_sequence = c.n_sequence ? c.n_sequence : SEQUENCES + 2;
    c.n_page = c.n_page ? c.n_page : (int)(c.n_sequence * (r->T / SPOT_INFER_PAGE + 1));
    c.token_max = c.token_max ? c.token_max : (int)(SEQUENCES * r->T);
    f = spot_infer_new(&c, &err);
    ck_assert_msg(f, "%s", err.msg);
    return f;
}

/* Open sequence s. */
static inline int open_sequence(const struct rig *r, struct spot_infer *f, int s)
{
    const int id = spot_infer_open(f, NULL);

    spot_infer_adopt(f, id, r->has_lora ? s : 0);
    return id;
}

/* Logits of all positions of a sequence, a token at a time: [T][V]. */
static inline float *one_by_one(const struct rig *r, int type, int s, const char *kernel)
{
    struct spot_infer *const f = engine(r, type, (struct spot_infer_config){ .kernel = kernel });
    float *const logit = calloc((size_t)(r->T * r->V), sizeof(float));
    const int id = open_sequence(r, f, s);

    for (int64_t t = 0; t < r->T; t++)
        ck_assert_int_eq(spot_infer_run(f,
                                        &(struct spot_infer_item){ id, t, 1, r->token[s] + t,
                                                                   SPOT_POOL_NONE, NULL },
                                        1, NULL, NULL, logit + t * r->V, NULL),
                         0);
    spot_infer_free(f);
    return logit;
}

/* --- an oracle --- */

static inline void f64_mlp(const struct f64_model *m, int l, double *x)
{
    const struct spot_shape *const s = &m->shape;
    const int64_t C = s->width, n = s->seq, F = s->kind.is_gated ? s->ffn : 4 * C;
    double *const w = f64_read(m, l, "ln2.w", C, 1);
    double *const b = s->kind.is_gated ? NULL : f64_read(m, l, "ln2.b", C, 1);
    double *const hat = f64_new(n * C), *const rstd = f64_new(n);
    double *const y = s->kind.is_gated ? f64_rms(x, n, C, w, f64_eps(m))
                                       : f64_norm(x, n, C, w, b, f64_eps(m), hat, rstd);
    double *const w1 =
        s->kind.is_gated ? f64_part_read(m, l, "gate") : f64_read(m, l, "up.w", F, C);
    double *const w2 = s->kind.is_gated ? f64_part_read(m, l, "up") : NULL;
    double *const b1 = s->kind.is_gated ? NULL : f64_read(m, l, "up.b", F, 1);
    double *const b2 = s->kind.is_gated ? NULL : f64_read(m, l, "down.b", C, 1);
    double *const wo = f64_read(m, l, "down.w", F, C);
    double *const act = f64_linear(y, n, C, F, w1, 1, b1);
    double *const up = s->kind.is_gated ? f64_linear(y, n, C, F, w2, 1, NULL) : NULL;
    double *out, slope;

    for (int64_t i = 0; i < n * F; i++)
        act[i] = s->kind.is_gated ? act[i] / (1 + exp(-act[i])) * up[i] : f64_gelu(act[i], &slope);
    out = f64_linear(act, n, F, C, wo, 0, b2);
    for (int64_t i = 0; i < n * C; i++)
        x[i] += out[i];
    double *const all[] = { w, b, hat, rstd, y, w1, w2, b1, b2, wo, act, up, out };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static inline void f64_attend(const struct f64_model *m, int l, double *x)
{
    const struct spot_shape *const s = &m->shape;
    const int64_t C = s->width, n = s->seq,
                  K = s->kind.is_gated ? s->n_kv_head * (C / s->n_head) : C;
    double *const w = f64_read(m, l, "ln1.w", C, 1), *const wo = f64_read(m, l, "proj.w", C, C);
    double *const hat = f64_new(n * C), *const rstd = f64_new(n), *const att = f64_new(n * C);
    double *y, *out, *bo = NULL;

    if (s->kind.is_gated) {
        double *const wq = f64_part_read(m, l, "q"), *const wk = f64_part_read(m, l, "k");
        double *const wv = f64_part_read(m, l, "v");

        y = f64_rms(x, n, C, w, f64_eps(m));
        double *const q = f64_linear(y, n, C, C, wq, 1, NULL);
        double *const k = f64_linear(y, n, C, K, wk, 1, NULL);
        double *const v = f64_linear(y, n, C, K, wv, 1, NULL);

        f64_rotate(m, q, s->n_head, 0);
        f64_rotate(m, k, s->n_kv_head, 0);
        f64_gqa(&(struct f64_gqa){ .m = m, .q = q, .k = k, .v = v, .out = att });
        double *const all[] = { wq, wk, wv, q, k, v };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
            free(all[i]);
    } else {
        double *const b = f64_read(m, l, "ln1.b", C, 1);
        double *const wq = f64_read(m, l, "qkv.w", 3 * C, C);
        double *const bq = f64_read(m, l, "qkv.b", 3 * C, 1);

        y = f64_norm(x, n, C, w, b, f64_eps(m), hat, rstd);
        double *const qkv = f64_linear(y, n, C, 3 * C, wq, 1, bq);

        f64_attention(m, qkv, att, NULL, NULL);
        bo = f64_read(m, l, "proj.b", C, 1);
        double *const all[] = { b, wq, bq, qkv };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
            free(all[i]);
    }
    out = f64_linear(att, n, C, C, wo, 0, bo);
    for (int64_t i = 0; i < n * C; i++)
        x[i] += out[i];
    double *const all[] = { w, wo, hat, rstd, att, y, out, bo };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

/* Logits of all positions, [T][V]. */
static inline double *f64_logits(const struct rig *r, const uint32_t *token)
{
    double *weight[BUNDLES_MAX];
    const struct f64_model m = { .shape = r->m.shape, .micro_batch = 1, .weight = weight };
    const int64_t C = r->C, n = r->T, head = r->m.n_bundle - 1;
    double *const x = f64_new(n * C), *const hat = f64_new(n * C), *const rstd = f64_new(n);
    double *logit, *y;

    for (int b = 0; b < r->m.n_bundle; b++) {
        weight[b] = f64_new((int64_t)r->m.bundle[b].arena.n_elem);
        for (size_t i = 0; i < r->m.bundle[b].arena.n_elem; i++)
            weight[b][i] = r->m.bundle[b].plane[SPOT_PLANE_MASTER][i];
    }
    double *const wte = f64_read(&m, 0, "wte", r->V, C);
    double *const wpe = m.shape.kind.is_gated ? f64_new(n * C) : f64_read(&m, 0, "wpe", n, C);

    for (int64_t i = 0; i < n * C; i++)
        x[i] = wte[token[i / C] * C + i % C] + wpe[i];
    for (int l = 1; l < head; l++) {
        f64_attend(&m, l, x);
        f64_mlp(&m, l, x);
    }
    double *const w = f64_read(&m, (int)head, "lnf.w", C, 1);
    double *const b = m.shape.kind.is_gated ? NULL : f64_read(&m, (int)head, "lnf.b", C, 1);
    double *const wh = f64_read(&m, (int)head, "head.w", r->V, C);

    y = b ? f64_norm(x, n, C, w, b, f64_eps(&m), hat, rstd) : f64_rms(x, n, C, w, f64_eps(&m));
    logit = f64_linear(y, n, C, r->V, wh, 1, NULL);
    for (int i = 0; i < r->m.n_bundle; i++)
        free(weight[i]);
    double *const all[] = { x, hat, rstd, wte, wpe, w, b, wh, y };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    return logit;
}

/* --- bits --- */

struct meeting {
    pthread_barrier_t here;
    float *sum[MEMBERS];
};

struct member {
    struct meeting *meeting;
    const struct rig *r;
    int type, m, M, n_stage, n_thread;
    const char *kernel;
    uint64_t seed;
    float *const *want; /* [SEQUENCES][T * V] */
    bool differs;
};

/* Of two halves: the root of the tree. */
static inline int join(void *user, float *sum, size_t n, struct spot_err *err)
{
    struct member *const me = user;

    (void)err;
    me->meeting->sum[me->m] = sum;
    pthread_barrier_wait(&me->meeting->here);
    for (size_t i = 0; me->m == 0 && i < n; i++)
        me->meeting->sum[0][i] = me->meeting->sum[1][i] =
            me->meeting->sum[0][i] + me->meeting->sum[1][i];
    pthread_barrier_wait(&me->meeting->here);
    return 0;
}

/* The same step by all stages; logits of the member's own rows must be those wanted. */
static inline void step(struct member *me, struct spot_infer *const *stage, float *const *hidden,
                        const struct spot_infer_item *item, const int *which, int n_item,
                        float *logit)
{
    const struct rig *const r = me->r;
    const int64_t rows = spot_shape_vocab_rows(&r->m.shape) / me->M;
    const int64_t end = rows * (me->m + 1) < r->V ? rows * (me->m + 1) : r->V;

    for (int i = 0; i < me->n_stage; i++) {
        const int rc = spot_infer_run(stage[i], item, n_item, i ? hidden[i - 1] : NULL,
                                      i < me->n_stage - 1 ? hidden[i] : NULL, logit, NULL);

        me->differs |= rc != 0;
    }
    for (int i = 0; i < n_item; i++) {
        const int64_t row = (item[i].first + item[i].n_token - 1) * r->V, at = rows * me->m;
        const size_t n = end > at ? (size_t)(end - at) * sizeof(float) : 0;

        me->differs |=
            spot_hash64(logit + i * r->V + at, n) != spot_hash64(me->want[which[i]] + row + at, n);
    }
}

/* All sequences in random chunks of random batches. */
static inline void *play(void *user)
{
    struct member *const me = user;
    const struct rig *const r = me->r;
    const int S = (int)r->m.shape.n_shard;
    struct spot_infer *stage[STAGES];
    float *hidden[STAGES], *const logit = calloc((size_t)(SEQUENCES * r->V), sizeof(float));
    int64_t at[SEQUENCES] = { 0 };
    int id[SEQUENCES], idle = 0, n_item;
    struct spot_rng rng;

    spot_rng_init(&rng, me->seed, 0);
    for (int i = 0; i < me->n_stage; i++) {
        hidden[i] = calloc((size_t)(SEQUENCES * r->T * r->C), sizeof(float));
        stage[i] =
            engine(r, me->type,
                   (struct spot_infer_config){ .bundle_begin = r->m.n_bundle * i / me->n_stage,
                                               .bundle_end = r->m.n_bundle * (i + 1) / me->n_stage,
                                               .shard_begin = S / me->M * me->m,
                                               .shard_end = S / me->M * (me->m + 1),
                                               .n_thread = me->n_thread,
                                               .kernel = me->kernel,
                                               .exchange = join,
                                               .user = me });
        idle = spot_infer_open(stage[i], NULL); /* its pages are given back in between */
        spot_infer_reserve(stage[i], idle, (int64_t)spot_rng_below(&rng, (uint64_t)r->T), NULL);
        for (int s = 0; s < SEQUENCES; s++)
            id[s] = open_sequence(r, stage[i], s);
    }
    do {
        struct spot_infer_item item[SEQUENCES];
        int which[SEQUENCES];

        n_item = 0;
        for (int k = 0; k < SEQUENCES; k++) {
            const int s = (int)((uint64_t)k + me->seed) % SEQUENCES;
            const int64_t left = r->T - at[s];
            const int64_t max = spot_rng_below(&rng, 2) && left > 3 ? 3 : left;
            const int64_t n = left ? 1 + (int64_t)spot_rng_below(&rng, (uint64_t)max) : 0;

            if (!n || !spot_rng_below(&rng, 3))
                continue;
            item[n_item] = (struct spot_infer_item){ id[s],          at[s], n, r->token[s] + at[s],
                                                     SPOT_POOL_NONE, NULL };
            which[n_item++] = s;
            at[s] += n;
        }
        if (n_item)
            step(me, stage, hidden, item, which, n_item, logit);
        for (int i = 0; i < me->n_stage; i++)
            spot_infer_reserve(stage[i], idle, 0, NULL);
    } while (at[0] < r->T || at[1] < r->T || at[2] < r->T);
    for (int i = 0; i < me->n_stage; i++) {
        spot_infer_free(stage[i]);
        free(hidden[i]);
    }
    free(logit);
    return NULL;
}

#endif /* SPOT_TESTS_INFER_RIG_H */
