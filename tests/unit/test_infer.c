/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include "engine/sample.h"
#include "infer_rig.h"

/* Goal: logits are those of a decoder in double precision and of the training forward; and their
 * bits do not tell how work was batched, chunked, paged, threaded, cut into stages and shards, nor
 * which instructions computed it. Pages move as bytes. What cannot be is refused unchanged. */

/* fp32 to 1e-4 absolute; the root mean square of what the others err, over that of the logits,
 * below 0.02 (bf16: 2^-9 per weight) and 0.04 (q8: 1/254 of a block's largest, twice). */
START_TEST(logits_are_those_of_double_precision)
{
    static const double limit[] = { 0, 0.02, 0.04 };
    struct rig r;

    rig_open(&r, _i);
    for (int type = 0; type < SPOT_INFER_TYPES; type++) {
        double *const want = f64_logits(&r, r.token[0]);
        float *const got = one_by_one(&r, type, 0, NULL);
        double square = 0, off = 0;

        for (int64_t i = 0; i < r.T * r.V; i++) {
            if (type == SPOT_INFER_FP32)
                ck_assert_msg(fabs(got[i] - want[i]) < 1e-4, "%lld: %g %g", (long long)i,
                              (double)got[i], want[i]);
            off += (got[i] - want[i]) * (got[i] - want[i]);
            square += want[i] * want[i];
        }
        ck_assert_msg(type == 0 || sqrt(off / square) < limit[type], "type %d: %g", type,
                      sqrt(off / square));
        ck_assert(type == 0 || off > 0);
        free(want);
        free(got);
    }
    rig_close(&r);
}
END_TEST

/* Logits of all positions from one run, [T][V]. */
static float *at_once(const struct rig *r, int type, int s)
{
    struct spot_infer *const f =
        engine(r, type, (struct spot_infer_config){ .logit_max = (int)r->T });
    float *const logit = calloc((size_t)(r->T * r->V), sizeof(float));
    const struct spot_infer_item item = { open_sequence(r, f, s), 0,   r->T, r->token[s],
                                          SPOT_POOL_NONE,         NULL };

    ck_assert_int_eq(spot_infer_run_rows(f, &item, 1, &r->T, NULL, NULL, logit, NULL), 0);
    spot_infer_free(f);
    return logit;
}

/* Each sequence of a microbatch is one of the engine. */
static void compare_losses(struct rig *r, int type, const struct spot_stage *stage)
{
    const double *const loss = spot_stage_row_loss(stage);

    for (int b = 0; b < r->m.micro_batch; b++) {
        const uint32_t *const token = r->m.token + b * (r->T + 1);

        memcpy(r->token[0], token, (size_t)r->T * sizeof(*token));
        float *const got[] = { one_by_one(r, type, 0, NULL), at_once(r, type, 0) };

        for (int64_t t = 0; t < r->T; t++)
            for (int k = 0; k < 2; k++)
                ck_assert_msg(-spot_sample_logprob(&r->m.shape, got[k] + t * r->V, token[t + 1]) ==
                                  loss[b * r->T + t],
                              "sequence %d, position %lld, way %d", b, (long long)t, k);
        free(got[0]);
        free(got[1]);
    }
}

/* All families of decoders, of which the last of all is tied, in fp32 and bf16. Bit for bit. */
START_TEST(log_probabilities_are_those_of_the_training_forward)
{
    const int type = _i / (N_SHAPE + 1), shape = _i % (N_SHAPE + 1);
    const struct way way = { .kernel = type == SPOT_INFER_FP32 ? "fma" : "fma-bf16",
                             .n_stage = 1 + _i % 2,
                             .n_thread = 1 + _i % 2,
                             .n_slot = 1 };
    struct pipeline p;
    struct rig r;

    if (!spot_kernel_find(way.kernel, NULL)) /* no processor for it */
        return;
    rig_open_shape(&r, shape < N_SHAPE ? shape : 9, shape == N_SHAPE);
    pipeline_open(&p, &r.m, &way);
    for (int i = 0; i < p.n_stage; i++)
        spot_stage_forward(p.stage[i], 0, r.m.token, p.boundary[i], p.boundary[i + 1],
                           &r.m.loss[0]);
    compare_losses(&r, type, p.stage[p.n_stage - 1]);
    pipeline_close(&p);
    rig_close(&r);
}
END_TEST

/* --- bits --- */

START_TEST(bits_do_not_tell_how_they_were_computed)
{
    static const char *const kernels[] = { "portable", "avx2", "avxvnni", "avx512", "avx512bf16" };
    const int type = _i % SPOT_INFER_TYPES;
    float *want[SEQUENCES];
    struct rig r;

    rig_open(&r, _i / SPOT_INFER_TYPES);
    for (int s = 0; s < SEQUENCES; s++)
        want[s] = one_by_one(&r, type, s, "portable");
    for (int round = 0; round < (is_long() ? 60 : 15); round++) {
        if (!is_long() && (round / 2 + _i) % 2) /* each kernel, with one member and with two */
            continue;

        struct meeting meeting;
        struct member member[MEMBERS];
        pthread_t thread[MEMBERS];
        const int M = round % 2 && r.m.shape.n_shard % 2 == 0 ? 2 : 1;
        struct spot_infer_config c = { .kernel = kernels[round / 3 % 5] };

        c.image = r.image[type];
        c.image_byte = r.n_byte[type];
        c.n_thread = c.n_sequence = c.n_page = c.token_max = 1;
        struct spot_infer *const runs_here = spot_infer_new(&c, NULL);

        if (!runs_here)
            continue;
        spot_infer_free(runs_here);
        pthread_barrier_init(&meeting.here, NULL, (unsigned)M);
        for (int m = 0; m < M; m++) {
            member[m] = (struct member){
                &meeting,        &r,   type, m, M, 1 + round % STAGES, 1 + round / 2 % 3, c.kernel,
                (uint64_t)round, want, false
            };
            ck_assert_int_eq(pthread_create(&thread[m], NULL, play, &member[m]), 0);
        }
        for (int m = 0; m < M; m++)
            pthread_join(thread[m], NULL);
        for (int m = 0; m < M; m++)
            ck_assert_msg(!member[m].differs, "round %d, member %d of %d", round, m, M);
        pthread_barrier_destroy(&meeting.here);
    }
    for (int s = 0; s < SEQUENCES; s++)
        free(want[s]);
    rig_close(&r);
}
END_TEST

/* --- pages --- */

START_TEST(a_sequence_goes_on_elsewhere_from_its_pages)
{
    struct rig r;

    rig_open(&r, _i);
    const int64_t half = r.T / 2;
    float *const want = one_by_one(&r, SPOT_INFER_FP32, 0, NULL), *const got =
                                                                      calloc((size_t)r.V, 4);
    struct spot_infer *const a = engine(&r, 0, (struct spot_infer_config){ 0 });
    struct spot_infer *const b = engine(&r, 0, (struct spot_infer_config){ .n_thread = 2 });
    void *const byte = malloc(spot_infer_page_byte(a));
    const int other = spot_infer_open(b, NULL), from = spot_infer_open(a, NULL);
    const int to = spot_infer_open(b, NULL);

    ck_assert_int_eq(spot_infer_reserve(b, other, 5, NULL), 0);
    ck_assert_int_eq(
        spot_infer_run(a,
                       &(struct spot_infer_item){ from, 0, half, r.token[0], SPOT_POOL_NONE, NULL },
                       1, NULL, NULL, got, NULL),
        0);
    ck_assert_int_eq(spot_infer_reserve(b, to, half, NULL), 0);
    for (int64_t p = 0; p * SPOT_INFER_PAGE < half; p++)
        for (int l = 0; l < r.m.shape.n_layer; l++)
            for (int s = 0; s < r.m.shape.n_shard; s++) {
                spot_infer_export(a, from, p, l, s, byte);
                spot_infer_import(b, to, p, l, s, byte);
                spot_infer_import_end(b);
            }
    ck_assert_int_eq(
        spot_infer_run(b,
                       &(struct spot_infer_item){ to, half, r.T - half, r.token[0] + half,
                                                  SPOT_POOL_NONE, NULL },
                       1, NULL, NULL, got, NULL),
        0);
    ck_assert_mem_eq(got, want + (r.T - 1) * r.V, (size_t)r.V * sizeof(float));
    /* and back to an earlier token: what lay behind is forgotten */
    ck_assert_int_eq(
        spot_infer_run(b,
                       &(struct spot_infer_item){ to, 1, 1, r.token[0] + 1, SPOT_POOL_NONE, NULL },
                       1, NULL, NULL, got, NULL),
        0);
    ck_assert_mem_eq(got, want + r.V, (size_t)r.V * sizeof(float));
    ck_assert_int_eq(spot_infer_length(b, to), 2);
    spot_infer_free(a);
    spot_infer_free(b);
    free(byte);
    free(want);
    free(got);
    rig_close(&r);
}
END_TEST

START_TEST(what_cannot_be_is_refused_unchanged)
{
    struct spot_err err = { 0 };
    struct rig r;

    rig_open(&r, 1);
    struct spot_infer *const f =
        engine(&r, 0, (struct spot_infer_config){ .n_sequence = 2, .n_page = 3, .token_max = 40 });
    const int a = spot_infer_open(f, NULL), b = spot_infer_open(f, NULL);
    float *const logit = calloc(2 * (size_t)r.V, sizeof(float));
    const uint32_t large[] = { (uint32_t)r.V };
    const struct spot_infer_item both[] = { { a, 0, 17, r.token[0], SPOT_POOL_NONE, NULL },
                                            { b, 0, 17, r.token[0], SPOT_POOL_NONE, NULL } };
    const struct {
        struct spot_infer_item item;
        enum spot_code code;
    } bad[] = { { { a, 1, 1, r.token[0], SPOT_POOL_NONE, NULL }, SPOT_EDATA },
                { { 2, 0, 1, r.token[0], SPOT_POOL_NONE, NULL }, SPOT_EDATA },
                { { a, 0, 41, r.token[0], SPOT_POOL_NONE, NULL }, SPOT_EDATA },
                { { a, 0, 0, r.token[0], SPOT_POOL_NONE, NULL }, SPOT_EDATA },
                { { a, 0, 1, large, SPOT_POOL_NONE, NULL }, SPOT_EDATA },
                { { a, 0, 71, r.token[0], SPOT_POOL_NONE, NULL }, SPOT_EDATA } };

    ck_assert_int_eq(spot_infer_open(f, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(spot_infer_run(f, &bad[i].item, 1, NULL, NULL, logit, &err), -1);
        ck_assert_int_eq(err.code, bad[i].code);
    }
    ck_assert_int_eq(spot_infer_run(f, both, 2, NULL, NULL, logit, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    ck_assert_int_eq(spot_infer_free_pages(f), 3);
    ck_assert_int_eq(spot_infer_run(f, both, 1, NULL, NULL, logit, &err), 0);
    ck_assert_int_eq(spot_infer_free_pages(f), 1);
    spot_infer_close(f, a);
    ck_assert_int_eq(spot_infer_free_pages(f), 3);
    ck_assert_ptr_null(spot_infer_new(
        &(struct spot_infer_config){ .image = r.image[0], .image_byte = r.n_byte[0] - 1 }, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_null(spot_infer_new(&(struct spot_infer_config){ .image = r.image[0],
                                                                   .image_byte = r.n_byte[0],
                                                                   .shard_begin = 1,
                                                                   .shard_end = 3,
                                                                   .n_thread = 1,
                                                                   .n_sequence = 1,
                                                                   .n_page = 1,
                                                                   .token_max = 1,
                                                                   .exchange = join },
                                      &err));
    spot_infer_free(f);
    free(logit);
    rig_close(&r);
}
END_TEST

/* Rows of logits of a chunk are those of the same tokens one at a time, beside items that ask for
 * the last one; more than there is room for is refused, and nothing has changed. */
START_TEST(logits_of_any_position)
{
    struct rig r;

    rig_open(&r, _i / SPOT_INFER_TYPES);
    const int type = _i % SPOT_INFER_TYPES;
    float *const want = one_by_one(&r, type, 0, "portable");
    float *const other = one_by_one(&r, type, 1, "portable");
    float *const got = calloc((size_t)((r.T + 2) * r.V), sizeof(float));
    struct spot_infer *const f =
        engine(&r, type, (struct spot_infer_config){ .n_thread = 2, .logit_max = (int)r.T + 1 });
    const int a = spot_infer_open(f, NULL), b = spot_infer_open(f, NULL);
    const int64_t row = r.V * (int64_t)sizeof(float);
    struct spot_infer_item item[] = { { a, 0, 5, r.token[1], SPOT_POOL_NONE, NULL },
                                      { b, 0, r.T, r.token[0], SPOT_POOL_NONE, NULL } };
    int64_t n_row[] = { 1, r.T + 1 };
    const int n_free = spot_infer_free_pages(f);
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_infer_run_rows(f, item, 2, n_row, NULL, NULL, got, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    n_row[1] = r.T;
    n_row[0] = 2;
    ck_assert_int_eq(spot_infer_run_rows(f, item, 2, n_row, NULL, NULL, got, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_int_eq(spot_infer_length(f, b), 0);
    ck_assert_int_eq(spot_infer_free_pages(f), n_free);
    n_row[0] = 1;
    ck_assert_int_eq(spot_infer_run_rows(f, item, 2, n_row, NULL, NULL, got, &err), 0);
    ck_assert_mem_eq(got, other + 4 * r.V, (size_t)row);
    ck_assert_mem_eq(got + r.V, want, (size_t)(r.T * row));
    /* a chunk's last three, then the last of another */
    item[0] = (struct spot_infer_item){ b, 2, 4, r.token[0] + 2, SPOT_POOL_NONE, NULL };
    item[1] = (struct spot_infer_item){ a, 5, 1, r.token[1] + 5, SPOT_POOL_NONE, NULL };
    n_row[0] = 3;
    n_row[1] = 1;
    ck_assert_int_eq(spot_infer_run_rows(f, item, 2, n_row, NULL, NULL, got, &err), 0);
    ck_assert_mem_eq(got, want + 3 * r.V, (size_t)(3 * row));
    ck_assert_mem_eq(got + 3 * r.V, other + 5 * r.V, (size_t)row);
    spot_infer_free(f);
    free(want);
    free(other);
    free(got);
    rig_close(&r);
}
END_TEST

int main(void)
{
    (void)f64_microbatch; /* training is not asked here */
    TCase *const tc = tcase_create("infer");

    tcase_add_loop_test(tc, logits_are_those_of_double_precision, 0, N_PICK);
    tcase_add_loop_test(tc, log_probabilities_are_those_of_the_training_forward, 0, N_SHAPE + 1);
    tcase_add_loop_test(tc, bits_do_not_tell_how_they_were_computed, 0, N_PICK * SPOT_INFER_TYPES);
    tcase_add_loop_test(tc, a_sequence_goes_on_elsewhere_from_its_pages, 0, N_PICK);
    tcase_add_loop_test(tc, logits_of_any_position, 0, N_PICK * SPOT_INFER_TYPES);
    tcase_add_test(tc, what_cannot_be_is_refused_unchanged);
    return run_suite("infer", tc);
}
