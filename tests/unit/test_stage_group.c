/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "decoder_shapes.h"
#include "engine/initial_weights.h"
#include "engine/stage.h"
#include "suite.h"
#include "twin.h"

/* Goal: M members that share a stage give the bits of one that computes it alone: activations and
 * their gradients at every boundary, losses, gradient sums, faults, and the state after updates;
 * and an exchange that fails is told by the stage, at once and from then on. */

enum { G = 2, N_STEP = 2, BUNDLES_MAX = 8, M_MAX = 8, PIECES_MAX = 4096 };

static const struct spot_adamw adamw = { 1e-2, 0.9, 0.99, 1e-8, 0.1 };

/* Shards that are powers of two and others; a vocabulary whose padding takes whole shards. */
static const struct spot_shape shapes[] = {
    { .n_layer = 2, .width = 24, .n_head = 4, .seq = 13, .vocab = 19, .n_shard = 2 },
    { .n_layer = 1, .width = 64, .n_head = 8, .seq = 37, .vocab = 256, .n_shard = 8 },
    { .n_layer = 2, .width = 24, .n_head = 12, .seq = 5, .vocab = 7, .n_shard = 12 },
    { .n_layer = 1, .width = 48, .n_head = 6, .seq = 1, .vocab = 11, .n_shard = 6 },
    { .n_layer = 2,
      .width = 32,
      .n_head = 8,
      .seq = 9,
      .vocab = 40,
      .n_shard = 4,
      .kind = SPOT_DECODER_LLAMA,
      .n_kv_head = 4,
      .ffn = 44,
      .rope_theta = 10000 },
    { .n_layer = 1, .width = 704, .n_head = 4, .seq = 9, .vocab = 1100, .n_shard = 4 },
    SHAPE_HEAD_NORM,
    SHAPE_AROUND,
    SHAPE_CAPPED,
    SHAPE_AFTER,
    SHAPE_WINDOW,
};
enum { N_SHAPE = sizeof(shapes) / sizeof(shapes[0]) };

/* --- an exchange in memory ---------------------------------------------------- */

/* From one member to another, in order. */
struct channel {
    void *data[PIECES_MAX];
    size_t n_byte[PIECES_MAX];
    size_t n_sent, n_taken;
};

struct room {
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_barrier_t meeting;
    struct channel channel[M_MAX][M_MAX];
    int64_t n_exchange; /* until they fail, on member 0; negative: never */
    bool is_broken;
};

struct seat {
    struct room *room;
    int m;
    size_t n_byte; /* sent */
};

static void room_open(struct room *room, int M)
{
    memset(room, 0, sizeof(*room));
    pthread_mutex_init(&room->lock, NULL);
    pthread_cond_init(&room->news, NULL);
    pthread_barrier_init(&room->meeting, NULL, (unsigned)M);
    room->n_exchange = -1;
}

static void room_close(struct room *room)
{
    for (int i = 0; i < M_MAX * M_MAX; i++) {
        struct channel *const c = &room->channel[i / M_MAX][i % M_MAX];

        for (size_t k = c->n_taken; k < c->n_sent; k++)
            free(c->data[k % PIECES_MAX]);
    }
    pthread_barrier_destroy(&room->meeting);
    pthread_cond_destroy(&room->news);
    pthread_mutex_destroy(&room->lock);
}

static void put(struct seat *seat, const struct spot_stage_piece *piece)
{
    struct channel *const c = &seat->room->channel[seat->m][piece->peer];
    const size_t at = c->n_sent % PIECES_MAX;

    ck_assert_uint_lt(c->n_sent - c->n_taken, PIECES_MAX);
    c->data[at] = malloc(piece->n_byte);
    memcpy(c->data[at], piece->data, piece->n_byte);
    c->n_byte[at] = piece->n_byte;
    c->n_sent++;
    seat->n_byte += piece->n_byte;
}

static void take(struct seat *seat, const struct spot_stage_piece *piece)
{
    struct channel *const c = &seat->room->channel[piece->peer][seat->m];
    const size_t at = c->n_taken % PIECES_MAX;

    while (c->n_sent == c->n_taken && !seat->room->is_broken)
        pthread_cond_wait(&seat->room->news, &seat->room->lock);
    if (c->n_sent == c->n_taken)
        return;
    ck_assert_uint_eq(c->n_byte[at], piece->n_byte);
    memcpy(piece->data, c->data[at], piece->n_byte);
    free(c->data[at]);
    c->n_taken++;
}

static int exchange(void *user, const struct spot_stage_piece *piece, size_t n,
                    struct spot_err *err)
{
    struct seat *const seat = user;
    struct room *const room = seat->room;
    bool is_broken;

    pthread_mutex_lock(&room->lock);
    if (seat->m == 0 && room->n_exchange >= 0 && room->n_exchange-- == 0)
        room->is_broken = true;
    for (size_t i = 0; i < n; i++)
        if (piece[i].is_send)
            put(seat, &piece[i]);
    pthread_cond_broadcast(&room->news);
    for (size_t i = 0; i < n; i++)
        if (!piece[i].is_send)
            take(seat, &piece[i]);
    is_broken = room->is_broken;
    pthread_mutex_unlock(&room->lock);
    return is_broken ? spot_err_set(err, SPOT_EPREEMPTED, "the epoch is over") : 0;
}

/* --- a member: a chain of stages over its own copy of the model ----------------- */

struct member {
    struct spot_shape shape;
    int n_bundle, n_stage, n_thread, M;
    const char *kernel;
    struct seat seat;
    struct member *all; /* [M] */
    struct spot_bundle bundle[BUNDLES_MAX], *ptr[BUNDLES_MAX];
    struct spot_stage *stage[BUNDLES_MAX];
    int begin[BUNDLES_MAX + 1];
    float *forward[BUNDLES_MAX], *backward[BUNDLES_MAX]; /* [G][elem] at the begin of a stage */
    double loss[G];
    struct spot_stage_fault fault[BUNDLES_MAX];
    struct spot_err err;
    uint32_t *token;
};

enum { MICRO_BATCH = 2 };

static size_t token_elem(const struct spot_shape *shape)
{
    return MICRO_BATCH * ((size_t)shape->seq + 1);
}

static size_t boundary_elem(const struct spot_shape *shape)
{
    return MICRO_BATCH * (size_t)(shape->seq * shape->width);
}

/* Drawn for one member, the others have a copy. */
static void fill_weights(struct member *me)
{
    const struct member *const first = me->all;
    struct spot_rng rng;
    struct spot_err err;

    if (me != first) {
        memcpy(me->token, first->token, G * token_elem(&me->shape) * sizeof(*me->token));
        for (int b = 0; b < me->n_bundle; b++) {
            struct spot_bundle *const bundle = me->ptr[b] = &me->bundle[b];

            ck_assert_int_eq(spot_bundle_init(bundle, &me->shape, b, &err), 0);
            for (int p = 0; p < SPOT_PLANES; p++)
                memcpy(bundle->plane[p], first->bundle[b].plane[p],
                       bundle->arena.n_elem * sizeof(float));
            memcpy(bundle->exponent, first->bundle[b].exponent, sizeof(bundle->exponent));
            bundle->step = first->bundle[b].step;
        }
        return;
    }

    spot_rng_init(&rng, 7, 0);
    for (size_t i = 0; i < G * token_elem(&me->shape); i++)
        me->token[i] = (uint32_t)spot_rng_below(&rng, (uint64_t)me->shape.vocab);
    for (int b = 0; b < me->n_bundle; b++) {
        struct spot_bundle *const bundle = me->ptr[b] = &me->bundle[b];

        ck_assert_int_eq(spot_bundle_init(bundle, &me->shape, b, &err), 0);
        spot_bundle_start(bundle, &me->shape, 5);
        for (int t = 0; t < bundle->arena.n_tensor; t++)
            for (int s = 0; s < (bundle->arena.tensor[t].is_sharded ? me->shape.n_shard : 1); s++)
                for (int64_t k = 0; k < bundle->arena.tensor[t].rows * bundle->arena.tensor[t].cols;
                     k++)
                    bundle->plane[SPOT_PLANE_MASTER]
                                 [spot_arena_offset(&bundle->arena, t, s) + (size_t)k] +=
                        0.2F * (float)(spot_rng_unit(&rng) - 0.5);
    }
}

/* Rows of tokens that are none must stay zero. */
static void clear_padding(struct member *me)
{
    static const char *const name[] = { "wte", "head.w" };

    for (int i = 0; i < 2; i++) {
        struct spot_bundle *const b = &me->bundle[i ? me->n_bundle - 1 : 0];
        const int t = spot_arena_find(&b->arena, name[i]);
        const int64_t rows = b->arena.tensor[t].rows, cols = b->arena.tensor[t].cols;

        for (int64_t v = me->shape.vocab; v < rows * me->shape.n_shard; v++)
            memset(b->plane[SPOT_PLANE_MASTER] + spot_arena_offset(&b->arena, t, (int)(v / rows)) +
                       v % rows * cols,
                   0, (size_t)cols * sizeof(float));
    }
}

static void member_open(struct member *me)
{
    struct spot_err err = { 0 };

    me->n_bundle = spot_shape_bundles(&me->shape);
    me->token = malloc(G * token_elem(&me->shape) * sizeof(*me->token));
    fill_weights(me);
    if (me == me->all)
        clear_padding(me);
    for (int i = 0; i <= me->n_stage; i++)
        me->begin[i] = me->n_bundle * i / me->n_stage;
    for (int i = 0; i < me->n_stage; i++) {
        const struct spot_stage_config config = {
            .shape = me->shape,
            .bundle_begin = me->begin[i],
            .bundle_end = me->begin[i + 1],
            .micro_batch = MICRO_BATCH,
            .n_slot = 1,
            .n_microbatch = G,
            .n_thread = me->n_thread,
            .kernel = spot_kernel_find(me->kernel, NULL),
            .group = { .m = me->seat.m, .M = me->M, .exchange = exchange, .user = &me->seat },
        };

        me->stage[i] = spot_stage_new(&config, me->ptr + me->begin[i], &err);
        ck_assert_msg(me->stage[i], "%s", err.msg);
        me->forward[i] = calloc(G * boundary_elem(&me->shape), sizeof(float));
        me->backward[i] = calloc(G * boundary_elem(&me->shape), sizeof(float));
    }
}

static void member_close(struct member *me)
{
    for (int i = 0; i < me->n_stage; i++) {
        spot_stage_free(me->stage[i]);
        free(me->forward[i]);
        free(me->backward[i]);
    }
    for (int b = 0; b < me->n_bundle; b++)
        spot_bundle_release(&me->bundle[b]);
    free(me->token);
}

static bool has_failed(struct member *me)
{
    for (int i = 0; i < me->n_stage; i++)
        if (spot_stage_status(me->stage[i], &me->err))
            return true;
    return false;
}

static void run_microbatch(struct member *me, int j)
{
    const size_t at = (size_t)j * boundary_elem(&me->shape);
    const uint32_t *const token = me->token + (size_t)j * token_elem(&me->shape);
    const int last = me->n_stage - 1;

    for (int i = 0; i <= last && !has_failed(me); i++)
        spot_stage_forward(me->stage[i], 0, token, i ? me->forward[i] + at : NULL,
                           i < last ? me->forward[i + 1] + at : NULL, &me->loss[j]);
    for (int i = last; i >= 0 && !has_failed(me); i--)
        spot_stage_backward(me->stage[i], 0, i < last ? me->backward[i + 1] + at : NULL,
                            i ? me->backward[i] + at : NULL);
}

static int stage_of(const struct member *me, int bundle)
{
    int i = 0;

    while (me->begin[i + 1] <= bundle)
        i++;
    return i;
}

static void meet(struct member *me)
{
    if (me->M > 1)
        pthread_barrier_wait(&me->seat.room->meeting);
}

/* The sum over all members, as their communicator makes it. */
static void add_sums(struct member *me, int b)
{
    const size_t n = me->bundle[b].arena.n_elem;
    int64_t *const own = spot_stage_sum(me->stage[stage_of(me, b)], b);
    int64_t *const total = calloc(n, sizeof(*total));

    me->fault[b] = spot_stage_fault(me->stage[stage_of(me, b)], b);
    meet(me);
    for (int m = 0; m < me->M; m++) {
        struct member *const other = &me->all[m];
        const int64_t *const sum = spot_stage_sum(other->stage[stage_of(other, b)], b);

        for (size_t e = 0; e < n; e++)
            total[e] += sum[e];
    }
    meet(me);
    memcpy(own, total, n * sizeof(*total));
    free(total);
}

static void *train(void *user)
{
    struct member *const me = user;

    for (int step = 0; step < N_STEP; step++) {
        for (int i = 0; i < me->n_stage; i++)
            spot_stage_begin(me->stage[i]);
        for (int j = 0; j < G; j++)
            run_microbatch(me, j);
        if (has_failed(me))
            return NULL;
        for (int b = 0; b < me->n_bundle; b++) {
            add_sums(me, b);
            spot_stage_update(me->stage[stage_of(me, b)], b, &adamw, 0.75);
        }
    }
    for (int i = 0; i < me->n_stage; i++)
        ck_assert_int_eq(spot_stage_sync(me->stage[i], SPOT_ALL_BUNDLES, &me->err), 0);
    return NULL;
}

static void train_all(struct member *member, struct room *room)
{
    pthread_t thread[M_MAX];

    for (int m = 0; m < member[0].M; m++) {
        struct member *const me = &member[m];

        me->seat = (struct seat){ .room = room, .m = m };
        me->all = member;
        member_open(me);
    }
    for (int m = 1; m < member[0].M; m++)
        ck_assert_int_eq(pthread_create(&thread[m], NULL, train, &member[m]), 0);
    train(&member[0]);
    for (int m = 1; m < member[0].M; m++)
        pthread_join(thread[m], NULL);
}

/* --- equal bits ------------------------------------------------------------------ */

static void assert_same(const struct member *a, const struct member *b)
{
    const size_t n_byte = G * boundary_elem(&a->shape) * sizeof(float);

    ck_assert_mem_eq(a->loss, b->loss, sizeof(a->loss));
    for (int i = 1; i < a->n_stage; i++) {
        ck_assert_mem_eq(a->forward[i], b->forward[i], n_byte);
        ck_assert_mem_eq(a->backward[i], b->backward[i], n_byte);
    }
    for (int k = 0; k < a->n_bundle; k++) {
        const size_t n = a->bundle[k].arena.n_elem;

        ck_assert_int_eq(a->bundle[k].step, N_STEP);
        ck_assert_mem_eq(a->bundle[k].exponent, b->bundle[k].exponent,
                         sizeof(a->bundle[k].exponent));
        for (int p = 0; p < SPOT_PLANES; p++)
            ck_assert_mem_eq(a->bundle[k].plane[p], b->bundle[k].plane[p], n * sizeof(float));
        ck_assert_mem_eq(spot_stage_sum(a->stage[stage_of(a, k)], k),
                         spot_stage_sum(b->stage[stage_of(b, k)], k), n * sizeof(int64_t));
    }
}

static const struct {
    const char *kernel;
    int n_stage, n_thread;
} ways[] = { { "portable", 1, 1 },    { "portable", 3, 2 }, { "fma", 3, 1 },
             { "fma", 2, 3 },         { "fma-bf16", 2, 2 }, { "cuda-fp32-tp", 3, 1 },
             { "cuda-bf16-tp", 2, 1 } };
enum { N_WAY = sizeof(ways) / sizeof(ways[0]), CUDA_WAY = 5, WIDE_MAX = 64, SHORT_MAX = 20 };

static void member_init(struct member *me, int shape, int way, int M)
{
    memset(me, 0, sizeof(*me));
    me->shape = shapes[shape];
    me->kernel = ways[way].kernel;
    me->n_stage = ways[way].n_stage;
    me->n_thread = ways[way].n_thread;
    me->M = M;
}

/* Not every kind runs on every CPU, and the twin computes small shapes only in a blink. */
static bool is_possible(int shape, int way)
{
    return spot_kernel_find(ways[way].kernel, NULL) &&
           (way < CUDA_WAY ||
            (shapes[shape].width <= WIDE_MAX && !spot_shape_needs(&shapes[shape])));
}

/* The wide shape and the twin take long: a shape meets one way of each CPU kernel and, if it is
 * small, one kind of the twin's; a way meets every other shape. */
static bool is_drawn(int shape, int way)
{
    return is_possible(shape, way) && (is_long() || (shape + way) % 2 == 0);
}

/* On the twin the smallest group and the largest. Of what takes long one of these: the wide shape
 * meets another one with each CPU kernel, the longest sequences the largest. */
static bool is_met(int shape, int way, int M)
{
    const int largest = shapes[shape].n_shard < M_MAX ? shapes[shape].n_shard : M_MAX;

    if (is_long())
        return true;
    if (shapes[shape].width > WIDE_MAX)
        return M == (way / 2 % 2 ? largest : 2);
    return way < CUDA_WAY || M == largest || (M == 2 && shapes[shape].seq < SHORT_MAX);
}

START_TEST(members_give_the_bits_of_one)
{
    const int shape = _i / N_WAY, way = _i % N_WAY;
    static struct member one, member[M_MAX];
    static struct room room;

    if (!is_drawn(shape, way))
        return;
    member_init(&one, shape, way, 1);
    one.n_thread = 1;
    train_all(&one, NULL);
    for (int M = 2; M <= M_MAX && M <= shapes[shape].n_shard; M++) {
        if (shapes[shape].n_shard % M || !is_met(shape, way, M))
            continue;
        room_open(&room, M);
        for (int m = 0; m < M; m++)
            member_init(&member[m], shape, way, M);
        train_all(member, &room);
        for (int m = 0; m < M; m++) {
            ck_assert_int_eq(member[m].err.code, 0);
            assert_same(&one, &member[m]);
            ck_assert_uint_gt(member[m].seat.n_byte, 0);
        }
        for (int m = 0; m < M; m++)
            member_close(&member[m]);
        room_close(&room);
    }
    member_close(&one);
}
END_TEST

/* A power of two: each member sends 2 (M - 1) / M of the numbers of each sum, as in a ring. */
START_TEST(the_bytes_exchanged_are_those_of_a_ring)
{
    static struct member member[M_MAX];
    static struct room room;
    const int M = _i, shape = 1;
    const size_t n_row = MICRO_BATCH * (size_t)shapes[shape].seq,
                 n = n_row * (size_t)shapes[shape].width;
    /* per layer two sums forward and two backward, one of the head; the softmax has maximum and
     * target's logit of each row from everyone, and a sum */
    const size_t sums = 4 * (size_t)shapes[shape].n_layer + 1, scale = (size_t)M - 1;
    const double want = 4.0 * N_STEP * G *
                        ((double)sums * 2 * (double)(scale * n) / M + (double)(2 * scale * n_row) +
                         2 * (double)(scale * n_row) / M);

    room_open(&room, M);
    for (int m = 0; m < M; m++)
        member_init(&member[m], shape, 0, M);
    train_all(member, &room);
    for (int m = 0; m < M; m++) {
        ck_assert_double_le((double)member[m].seat.n_byte, 1.01 * want);
        ck_assert_double_ge((double)member[m].seat.n_byte, 0.99 * want);
        member_close(&member[m]);
    }
    room_close(&room);
}
END_TEST

/* --- what one member holds and what it tells -------------------------------------- */

START_TEST(a_member_takes_less_memory_than_one_alone)
{
    const char *const kernel = _i ? "cuda-bf16-tp" : "portable";
    struct spot_stage_config config = { .shape = { .n_layer = 2,
                                                   .width = 512,
                                                   .n_head = 8,
                                                   .seq = 256,
                                                   .vocab = 4096,
                                                   .n_shard = 8 },
                                        .bundle_end = 4,
                                        .micro_batch = 8,
                                        .n_slot = 4,
                                        .n_microbatch = 8,
                                        .n_thread = 1,
                                        .kernel = spot_kernel_find(kernel, NULL) };
    size_t alone;

    if (!config.kernel)
        return;
    alone = spot_stage_memory(&config);
    config.group = (struct spot_stage_group){ .m = 1, .M = 4 };
    ck_assert_uint_lt(spot_stage_memory(&config), alone * 3 / 4);
}
END_TEST

/* An exchange fails: every member's stage tells, none waits for ever. */
START_TEST(a_failed_exchange_is_told_by_every_member)
{
    static struct member member[M_MAX];
    static struct room room;
    const int M = 2, way = _i / 8 ? CUDA_WAY : 1;

    if (!is_possible(1, way) || (way == CUDA_WAY && _i % 3 && !is_long()))
        return;
    room_open(&room, M);
    room.n_exchange = 3 * (_i % 8);
    for (int m = 0; m < M; m++)
        member_init(&member[m], 1, way, M);
    train_all(member, &room);
    for (int m = 0; m < M; m++) {
        ck_assert_int_eq(member[m].err.code, SPOT_EPREEMPTED);
        ck_assert_str_eq(member[m].err.msg, "the epoch is over");
        member_close(&member[m]);
    }
    room_close(&room);
}
END_TEST

START_TEST(a_kind_that_makes_whole_products_refuses_a_group)
{
    struct spot_err err;
    const struct spot_stage_config config = { .shape = shapes[0],
                                              .bundle_end = 4,
                                              .micro_batch = 1,
                                              .n_slot = 1,
                                              .n_microbatch = 1,
                                              .n_thread = 1,
                                              .group = { .m = 0, .M = 2 },
                                              .kernel = spot_kernel_find("cuda-bf16", NULL) };

    if (!config.kernel)
        return;
    ck_assert_int_eq(spot_stage_check(&config, 0, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EGPU);
    ck_assert_ptr_nonnull(strstr(err.msg, "needs kernel cuda-bf16-tp or cuda-fp32-tp, not cuda-"));
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    find_twin(argc > 0 ? argv[0] : "./");

    tcase_add_loop_test(tc, members_give_the_bits_of_one, 0, N_SHAPE * N_WAY);
    tcase_add_loop_test(tc, the_bytes_exchanged_are_those_of_a_ring, 2, 3);
    tcase_add_loop_test(tc, the_bytes_exchanged_are_those_of_a_ring, 4, 5);
    tcase_add_loop_test(tc, the_bytes_exchanged_are_those_of_a_ring, 8, 9);
    tcase_add_loop_test(tc, a_member_takes_less_memory_than_one_alone, 0, 2);
    tcase_add_loop_test(tc, a_failed_exchange_is_told_by_every_member, 0, 16);
    tcase_add_test(tc, a_kind_that_makes_whole_products_refuses_a_group);
    return run_suite("stage_group", tc);
}
