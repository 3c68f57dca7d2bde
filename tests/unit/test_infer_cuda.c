/* SPDX-License-Identifier: MIT */
/* tier: units twin, lane: compute, first */
#define _XOPEN_SOURCE 700
#include "infer_rig.h"

/* Goal: serving on a device keeps the promises of serving on a CPU: logits are those of a decoder
 * in double precision, and their bits do not tell how work was batched, chunked, paged, cut into
 * stages and shards. Pages move as bytes. The device is the twin's, or one that SPOT_CUDA_MODULE
 * names. */

enum { TYPES = 2 }; /* fp32, bf16 */

/* fp32 to 1e-4 absolute; bf16's root mean square of what it errs over that of the logits below
 * 0.02.
 */
START_TEST(logits_are_those_of_double_precision)
{
    struct rig r;

    rig_open(&r, _i / TYPES);
    const int type = _i % TYPES;
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
    ck_assert_msg(sqrt(off / square) < 0.02, "type %d: %g", type, sqrt(off / square));
    ck_assert(off > 0);
    free(want);
    free(got);
    rig_close(&r);
}
END_TEST

/* A sequence of several pages is long for the twin: such a model meets one type, and each type such
 * a model. The logits above are of all. */
static bool is_dealt(int pick, int type)
{
    return is_long() || shapes[picks[pick]].seq <= SPOT_INFER_PAGE || (pick / 2 + type) % 2 == 0;
}

START_TEST(bits_do_not_tell_how_they_were_computed)
{
    const int type = _i % TYPES;
    float *want[SEQUENCES];
    struct rig r;

    if (!is_dealt(_i / TYPES, type))
        return;
    rig_open(&r, _i / TYPES);
    for (int s = 0; s < SEQUENCES; s++)
        want[s] = one_by_one(&r, type, s, NULL);
    for (int round = 0; round < (is_long() ? 30 : 4); round++) {
        const int M = round % 2 && r.m.shape.n_shard % 2 == 0 ? 2 : 1;
        struct meeting meeting;
        struct member member[MEMBERS];
        pthread_t thread[MEMBERS];

        pthread_barrier_init(&meeting.here, NULL, (unsigned)M);
        for (int m = 0; m < M; m++) {
            member[m] =
                (struct member){ &meeting,        &r,   type, m, M, 1 + round % STAGES, 1, NULL,
                                 (uint64_t)round, want, false };
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

/* From the pages of one engine into those of another, beside another sequence, and back to an
 * earlier token; and to a sequence that shares the first ones. */
START_TEST(a_sequence_goes_on_elsewhere_from_its_pages)
{
    struct rig r;

    rig_open(&r, _i);
    const int64_t half = r.T / 2;
    float *const want = one_by_one(&r, SPOT_INFER_BF16, 0, NULL), *const got =
                                                                      calloc((size_t)r.V, 4);
    struct spot_infer *const a = engine(&r, SPOT_INFER_BF16, (struct spot_infer_config){ 0 });
    struct spot_infer *const b = engine(&r, SPOT_INFER_BF16, (struct spot_infer_config){ 0 });
    void *const byte = malloc(spot_infer_page_byte(a));
    const int other = spot_infer_open(b, NULL), from = spot_infer_open(a, NULL);
    const int to = spot_infer_open(b, NULL), shared = spot_infer_open(b, NULL);
    const size_t row = (size_t)r.V * sizeof(float);

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
    spot_infer_tell(b, to, r.token[0]);
    const int64_t found = spot_infer_find(b, shared, r.token[0], half, half);

    ck_assert_int_eq(found,
                     half / SPOT_INFER_PAGE * SPOT_INFER_PAGE - (half % SPOT_INFER_PAGE == 0));
    ck_assert_int_eq(spot_infer_reuse(b, shared, r.token[0], found, NULL), 0);
    ck_assert_int_eq(
        spot_infer_run(b,
                       &(struct spot_infer_item){ to, half, r.T - half, r.token[0] + half,
                                                  SPOT_POOL_NONE, NULL },
                       1, NULL, NULL, got, NULL),
        0);
    ck_assert_mem_eq(got, want + (r.T - 1) * r.V, row);
    ck_assert_int_eq(
        spot_infer_run(b,
                       &(struct spot_infer_item){ shared, found, half + 1 - found,
                                                  r.token[0] + found, SPOT_POOL_NONE, NULL },
                       1, NULL, NULL, got, NULL),
        0);
    ck_assert_mem_eq(got, want + half * r.V, row);
    ck_assert_int_eq(
        spot_infer_run(b,
                       &(struct spot_infer_item){ to, 1, 1, r.token[0] + 1, SPOT_POOL_NONE, NULL },
                       1, NULL, NULL, got, NULL),
        0);
    ck_assert_mem_eq(got, want + r.V, row);
    spot_infer_free(a);
    spot_infer_free(b);
    free(byte);
    free(want);
    free(got);
    rig_close(&r);
}
END_TEST

/* Rows of any position are those of the same tokens one at a time. */
START_TEST(logits_of_any_position)
{
    struct rig r;

    rig_open(&r, _i);
    float *const want = one_by_one(&r, SPOT_INFER_BF16, 0, NULL);
    float *const got = calloc((size_t)(r.T * r.V), sizeof(float));
    struct spot_infer *const f =
        engine(&r, SPOT_INFER_BF16, (struct spot_infer_config){ .logit_max = (int)r.T });
    const struct spot_infer_item item = { spot_infer_open(f, NULL), 0,   r.T, r.token[0],
                                          SPOT_POOL_NONE,           NULL };

    ck_assert_int_eq(spot_infer_run_rows(f, &item, 1, &r.T, NULL, NULL, got, NULL), 0);
    ck_assert_mem_eq(got, want, (size_t)(r.T * r.V) * sizeof(float));
    spot_infer_free(f);
    free(want);
    free(got);
    rig_close(&r);
}
END_TEST

START_TEST(what_a_device_cannot_is_refused_by_name)
{
    struct spot_infer_config c = { .n_thread = 1, .n_sequence = 1, .n_page = 1, .token_max = 1 };
    struct spot_err err = { 0 };
    struct rig r;

    rig_open(&r, 0);
    c.image = r.image[SPOT_INFER_Q8];
    c.image_byte = r.n_byte[SPOT_INFER_Q8];
    c.backend = "cuda";
    ck_assert_ptr_null(spot_infer_new(&c, &err));
    ck_assert_int_eq(err.code, SPOT_EGPU);
    ck_assert_str_eq(err.msg, "on CUDA weights are bf16 or fp32, not q8");
    c.backend = "abacus";
    ck_assert_ptr_null(spot_infer_new(&c, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    c.image = r.image[0];
    c.image_byte = r.n_byte[0];
    c.backend = "cuda";
    c.n_page = 2000000000;
    ck_assert_ptr_null(spot_infer_new(&c, &err));
    ck_assert(strstr(err.msg, "an engine of 2000000000 pages and 1 tokens on a CUDA device needs"));
    rig_close(&r);
}
END_TEST

/* Of the shapes all in `make check-twin`, otherwise the first ones. */
static int n_pick(void)
{
    return in_tier("twin") ? N_PICK : 2;
}

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("infer_cuda");

    (void)argc;
#ifdef __SANITIZE_THREAD__
    puts("1..0 # skip fibers are more than ThreadSanitizer follows");
    return 0;
#endif
    (void)f64_microbatch;
    find_twin(argv[0]);
    rig_backend = "cuda";
    tcase_add_loop_test(tc, logits_are_those_of_double_precision, 0, n_pick() * TYPES);
    tcase_add_loop_test(tc, bits_do_not_tell_how_they_were_computed, 0, n_pick() * TYPES);
    tcase_add_loop_test(tc, a_sequence_goes_on_elsewhere_from_its_pages, 0, n_pick());
    tcase_add_loop_test(tc, logits_of_any_position, 0, n_pick());
    tcase_add_test(tc, what_a_device_cannot_is_refused_by_name);
    return run_suite("infer_cuda", tc);
}
