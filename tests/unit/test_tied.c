/* SPDX-License-Identifier: MIT */
/* A tied head: one table, one gradient, the same bits in both places and over any stages. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "decoder_f64.h"
#include "engine/initial_weights.h"
#include "engine/stage.h"
#include "suite.h"
#include "train/sums.h"

enum { G = 3, BATCH = 2, BUNDLES = 4, STEPS = 3, STAGES_MAX = 2 };

static const struct spot_shape shapes[] = {
    { 2, 24, 4, 13, 19, 2, SPOT_DECODER_GPT2, 0, 0, 0, true, .norm_eps = 0 },
    { 2, 24, 6, 13, 19, 2, SPOT_DECODER_LLAMA, 2, 34, 10000, true, .norm_eps = 1e-6 },
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

struct model {
    struct spot_shape shape;
    struct spot_bundle bundle[BUNDLES], *ptr[BUNDLES];
    size_t bundle_elem[BUNDLES];
    uint32_t *token; /* [G][BATCH * (T + 1)] */
    double norm2;    /* of the last step */
};

static void open_model(struct model *m, int shape)
{
    struct spot_rng rng;
    size_t n_token;

    memset(m, 0, sizeof(*m));
    m->shape = shapes[shape];
    n_token = (size_t)(G * BATCH * (m->shape.seq + 1));
    m->token = malloc(n_token * sizeof(*m->token));
    spot_rng_init(&rng, 7, 0);
    for (size_t i = 0; i < n_token; i++)
        m->token[i] = (uint32_t)spot_rng_below(&rng, (uint64_t)m->shape.vocab);
    for (int b = 0; b < BUNDLES; b++) {
        ck_assert_int_eq(spot_bundle_init(&m->bundle[b], &m->shape, b, NULL), 0);
        spot_bundle_start(&m->bundle[b], &m->shape, 5);
        m->ptr[b] = &m->bundle[b];
        m->bundle_elem[b] = m->bundle[b].arena.n_elem;
    }
}

static void close_model(struct model *m)
{
    for (int b = 0; b < BUNDLES; b++)
        spot_bundle_release(&m->bundle[b]);
    free(m->token);
}

static const uint32_t *token_of(const struct model *m, int j)
{
    return m->token + (size_t)j * BATCH * (size_t)(m->shape.seq + 1);
}

/* --- two members that meet in memory ----------------------------------------- */

struct meeting {
    pthread_barrier_t barrier;
    const struct spot_comm_piece *sent[STAGES_MAX];
};

struct fake {
    struct spot_comm base;
    struct meeting *meeting;
    uint32_t p;
};

static int meet(struct spot_comm *comm, const struct spot_comm_piece *piece, size_t n, void *stream,
                struct spot_err *err)
{
    struct fake *const f = (struct fake *)(void *)comm;
    const struct spot_comm_piece *other;

    (void)stream;
    (void)err;
    ck_assert_uint_eq(n, 2);
    f->meeting->sent[f->p] = piece;
    pthread_barrier_wait(&f->meeting->barrier);
    other = f->meeting->sent[!f->p];
    ck_assert(piece[0].is_send && !piece[1].is_send && !piece[0].is_lent);
    ck_assert_uint_eq(piece[1].peer, (uint32_t)!f->p + 1);
    ck_assert(piece[1].type == other->type && piece[1].tag == other->tag);
    ck_assert_uint_eq(piece[1].n_byte, other->n_byte);
    memcpy(piece[1].data, other->data, other->n_byte);
    pthread_barrier_wait(&f->meeting->barrier);
    return 0;
}

static const struct spot_comm_kind fake_kind = { .name = "fake", .exchange = meet };

struct finish {
    struct spot_sums sums;
    int rc;
};

static void *finish(void *user)
{
    struct finish *const f = user;

    f->rc = spot_sums_finish(&f->sums, NULL);
    return NULL;
}

/* --- a step on P stages ---------------------------------------------------------- */

struct chain {
    struct model *m;
    int P;
    uint32_t begin[STAGES_MAX + 1], member[STAGES_MAX], buddy[STAGES_MAX];
    struct spot_stage *stage[STAGES_MAX];
    float *act, *dact;
};

static void open_chain(struct chain *c, struct model *m, int P)
{
    memset(c, 0, sizeof(*c));
    c->m = m;
    c->P = P;
    for (int p = 0; p < P; p++) {
        struct spot_stage_config config = { .shape = m->shape,
                                            .bundle_begin = BUNDLES * p / P,
                                            .bundle_end = BUNDLES * (p + 1) / P,
                                            .micro_batch = BATCH,
                                            .n_slot = 1,
                                            .n_microbatch = G,
                                            .n_thread = 1,
                                            .kernel = spot_kernel_find("portable", NULL) };

        c->stage[p] = spot_stage_new(&config, m->ptr + config.bundle_begin, NULL);
        ck_assert_ptr_nonnull(c->stage[p]);
        c->begin[p + 1] = (uint32_t)config.bundle_end;
        c->member[p] = (uint32_t)p + 1;
    }
    c->act = calloc(spot_stage_boundary_elem(c->stage[0]), sizeof(*c->act));
    c->dact = calloc(spot_stage_boundary_elem(c->stage[0]), sizeof(*c->dact));
}

static void close_chain(struct chain *c)
{
    for (int p = 0; p < c->P; p++)
        spot_stage_free(c->stage[p]);
    free(c->act);
    free(c->dact);
}

static void compute(struct chain *c)
{
    const int last = c->P - 1;
    double loss;

    for (int p = 0; p <= last; p++)
        spot_stage_begin(c->stage[p]);
    for (int j = 0; j < G; j++) {
        for (int p = 0; p <= last; p++)
            spot_stage_forward(c->stage[p], 0, token_of(c->m, j), p ? c->act : NULL,
                               p < last ? c->act : NULL, &loss);
        for (int p = last; p >= 0; p--)
            spot_stage_backward(c->stage[p], 0, p < last ? c->dact : NULL, p ? c->dact : NULL);
    }
}

static void tie(struct chain *c, int64_t step)
{
    struct spot_form form = { .D = 1,
                              .P = (uint32_t)c->P,
                              .M = 1,
                              .stage = c->begin,
                              .member = c->member,
                              .buddy = c->buddy };
    struct meeting meeting;
    struct fake comm[STAGES_MAX];
    struct finish part[STAGES_MAX];
    pthread_t thread[STAGES_MAX];

    pthread_barrier_init(&meeting.barrier, NULL, (unsigned)c->P);
    for (int p = 0; p < c->P; p++) {
        comm[p] = (struct fake){ { &fake_kind }, &meeting, (uint32_t)p };
        part[p] = (struct finish){ .sums = { .comm = &comm[p].base,
                                             .form = &form,
                                             .stage = c->stage[p],
                                             .shape = &c->m->shape,
                                             .bundle_elem = c->m->bundle_elem,
                                             .at = { .p = (uint32_t)p },
                                             .step = step } };
        pthread_create(&thread[p], NULL, finish, &part[p]);
    }
    for (int p = 0; p < c->P; p++) {
        pthread_join(thread[p], NULL);
        ck_assert_int_eq(part[p].rc, 0);
    }
    pthread_barrier_destroy(&meeting.barrier);
}

static struct spot_stage *stage_of(const struct chain *c, int bundle)
{
    return c->stage[c->P > 1 && (uint32_t)bundle >= c->begin[1]];
}

static void update(struct chain *c)
{
    static const struct spot_adamw adamw = { 1e-2, 0.9, 0.99, 1e-8, 0.1 };

    c->m->norm2 = 0;
    for (int b = 0; b < BUNDLES; b++)
        c->m->norm2 += spot_stage_norm2(stage_of(c, b), b);
    for (int b = 0; b < BUNDLES; b++)
        spot_stage_update(stage_of(c, b), b, &adamw, 1);
}

/* --- tests ---------------------------------------------------------------------- */

/* Both tables: planes and the exponent. */
static void check_tied(const struct model *m)
{
    const struct spot_bundle *const first = &m->bundle[0], *const last = &m->bundle[BUNDLES - 1];
    const int wte = spot_arena_find(&first->arena, "wte"),
              head = spot_arena_find(&last->arena, "head.w");
    const size_t n = first->arena.n_elem - first->arena.replicated_elem;

    ck_assert_int_eq(first->exponent[wte], last->exponent[head]);
    for (int p = 0; p < SPOT_PLANES; p++)
        ck_assert_mem_eq(first->plane[p] + first->arena.replicated_elem,
                         last->plane[p] + last->arena.replicated_elem, n * sizeof(float));
}

START_TEST(stages_and_steps_keep_one_table)
{
    struct model one, two;

    open_model(&one, _i);
    open_model(&two, _i);
    check_tied(&one);
    for (int step = 0; step < STEPS; step++)
        for (int P = 1; P <= 2; P++) {
            struct chain c;

            open_chain(&c, P == 1 ? &one : &two, P);
            compute(&c);
            tie(&c, step);
            update(&c);
            close_chain(&c);
        }
    check_tied(&one);
    ck_assert(one.norm2 == two.norm2);
    for (int b = 0; b < BUNDLES; b++)
        for (int p = 0; p < SPOT_PLANES; p++)
            ck_assert_mem_eq(one.bundle[b].plane[p], two.bundle[b].plane[p],
                             one.bundle_elem[b] * sizeof(float));
    close_model(&one);
    close_model(&two);
}
END_TEST

/* The gradient is the double-precision one of wte plus that of head.w, and its norm counts it
 * once. */
START_TEST(the_gradient_is_the_sum_of_both_places)
{
    struct f64_model o = { .shape = shapes[_i], .micro_batch = BATCH };
    double want2 = 0, error2 = 0, size2 = 0;
    const struct spot_arena *first, *last;
    const int64_t *sum;
    struct chain c;
    struct model m;
    double unit;

    open_model(&m, _i);
    o.weight = calloc(BUNDLES, sizeof(*o.weight));
    o.grad = calloc(BUNDLES, sizeof(*o.grad));
    for (int b = 0; b < BUNDLES; b++) {
        o.weight[b] = f64_new((int64_t)m.bundle_elem[b]);
        o.grad[b] = f64_new((int64_t)m.bundle_elem[b]);
        for (size_t i = 0; i < m.bundle_elem[b]; i++)
            o.weight[b][i] = m.bundle[b].plane[SPOT_PLANE_MASTER][i];
    }
    for (int j = 0; j < G; j++)
        f64_microbatch(&o, token_of(&m, j));
    open_chain(&c, &m, 1);
    compute(&c);
    tie(&c, 0);
    first = &m.bundle[0].arena;
    last = &m.bundle[BUNDLES - 1].arena;
    sum = spot_stage_sum(c.stage[0], 0) + first->replicated_elem;
    unit = ldexp(1, -m.bundle[0].exponent[spot_arena_find(first, "wte")]);
    for (size_t i = 0; i < first->n_elem - first->replicated_elem; i++) {
        const double want =
            o.grad[0][first->replicated_elem + i] + o.grad[BUNDLES - 1][last->replicated_elem + i];

        o.grad[0][first->replicated_elem + i] = want;
        o.grad[BUNDLES - 1][last->replicated_elem + i] = 0;
        error2 += pow((double)sum[i] * unit - want, 2);
        size2 += want * want;
    }
    ck_assert_double_lt(sqrt(error2 / size2), 1e-5);
    for (int b = 0; b < BUNDLES; b++)
        for (size_t i = 0; i < m.bundle_elem[b]; i++)
            want2 += pow(o.grad[b][i] / G, 2);
    update(&c);
    ck_assert_double_lt(fabs(m.norm2 / want2 - 1), 1e-5);
    close_chain(&c);
    for (int b = 0; b < BUNDLES; b++) {
        free(o.weight[b]);
        free(o.grad[b]);
    }
    free(o.weight);
    free(o.grad);
    close_model(&m);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, stages_and_steps_keep_one_table, 0, SHAPES);
    tcase_add_loop_test(tc, the_gradient_is_the_sum_of_both_places, 0, SHAPES);
    return run_suite("tied", tc);
}
