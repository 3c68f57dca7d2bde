/* SPDX-License-Identifier: MIT */
#include "common/xalloc.h"
#include "engine/infer.h"
#include "stage_rig.h"
#include "suite.h"

/* Goal: a sequence that gets pages of others, held by them or kept, computes what it would alone,
 * bit by bit, whatever the others do then; only equal tokens behind equal tokens are found; a page
 * is free when nobody has it, and equal ones are there once. */

enum { SEQUENCES = 5, TOKENS_MAX = 128, PAGE = SPOT_INFER_PAGE, PATTERNS = 3 };

/* Sequences whose pages look alike, in any order. */
struct sharers {
    struct model m;
    void *image;
    size_t n_byte;
    struct spot_infer *f, *alone; /* alone: computes a text from its start, and finds nothing */
    int id[SEQUENCES], n_page;
    int64_t n[SEQUENCES];
    uint32_t text[SEQUENCES][TOKENS_MAX];
    float *got, *want;
    uint64_t n_found;
    struct spot_rng rng;
};

static struct spot_infer *engine(const struct sharers *s, int n_page, int n_kept,
                                 const char *kernel)
{
    struct spot_infer *const f =
        spot_infer_new(&(struct spot_infer_config){ .image = s->image,
                                                    .image_byte = s->n_byte,
                                                    .n_thread = 1,
                                                    .n_sequence = SEQUENCES,
                                                    .n_page = n_page,
                                                    .n_kept = n_kept,
                                                    .kernel = kernel,
                                                    .token_max = (int)s->m.shape.seq },
                       NULL);

    ck_assert_ptr_nonnull(f);
    return f;
}

static void open_all(struct sharers *s, int pick, enum spot_infer_type type)
{
    memset(s, 0, sizeof(*s));
    model_init(&s->m, pick);
    ck_assert_int_le(s->m.shape.seq, TOKENS_MAX);
    s->n_byte = spot_infer_image_byte(&s->m.shape, type, 0, s->m.n_bundle);
    s->image = spot_alloc_aligned(s->n_byte, 1);
    spot_infer_image_pack(s->image, &s->m.shape, type, 0, s->m.n_bundle, s->m.ptr);
    s->alone = engine(s, (int)s->m.shape.seq / PAGE + 1, 0, "portable");
    s->got = calloc((size_t)s->m.shape.vocab, sizeof(float));
    s->want = calloc((size_t)s->m.shape.vocab, sizeof(float));
}

static void close_all(struct sharers *s)
{
    spot_infer_free(s->f);
    spot_infer_free(s->alone);
    free(s->got);
    free(s->want);
    spot_free_aligned(s->image);
    model_release(&s->m);
}

static void write_text(struct sharers *s, int k)
{
    for (int64_t i = 0; i < TOKENS_MAX; i += PAGE) {
        const uint64_t pattern = spot_rng_below(&s->rng, PATTERNS);

        for (int64_t j = 0; j < PAGE; j++)
            s->text[k][i + j] =
                (uint32_t)((pattern * 7 + (uint64_t)j) % (uint64_t)s->m.shape.vocab);
    }
}

/* What it computes from where it is to `end` is what one alone does. */
static void run_to(struct sharers *s, int k, int64_t first, int64_t end)
{
    struct spot_err err = { 0 };
    int alone;

    if (spot_infer_run(s->f,
                       &(struct spot_infer_item){ s->id[k], first, end - first, s->text[k] + first,
                                                  SPOT_POOL_NONE, NULL },
                       1, NULL, NULL, s->got, &err)) {
        ck_assert_msg(err.code == SPOT_EINFEASIBLE, "%s", err.msg);
        spot_infer_close(s->f, s->id[k]);
        s->id[k] = spot_infer_open(s->f, NULL);
        s->n[k] = 0;
        return;
    }
    s->n[k] = end;
    alone = spot_infer_open(s->alone, NULL);
    ck_assert_int_eq(
        spot_infer_run(s->alone,
                       &(struct spot_infer_item){ alone, 0, end, s->text[k], SPOT_POOL_NONE, NULL },
                       1, NULL, NULL, s->want, NULL),
        0);
    spot_infer_close(s->alone, alone);
    ck_assert_mem_eq(s->got, s->want, (size_t)s->m.shape.vocab * sizeof(float));
}

/* Go on at any token: what lay behind is forgotten by this one, and by no other. */
static void go_on(struct sharers *s, int k)
{
    const int64_t back = spot_rng_below(&s->rng, 3) ? 0 : (int64_t)spot_rng_below(&s->rng, 40);
    const int64_t first = s->n[k] > back ? s->n[k] - back : 0, left = s->m.shape.seq - first;

    for (int64_t i = first; back && i < TOKENS_MAX; i++)
        if (!spot_rng_below(&s->rng, 4))
            s->text[k][i] = (uint32_t)spot_rng_below(&s->rng, (uint64_t)s->m.shape.vocab);
    if (left > 0)
        run_to(s, k, first, first + 1 + (int64_t)spot_rng_below(&s->rng, (uint64_t)left));
}

/* More of its text may be here: of another, or kept. */
static void look(struct sharers *s, int k)
{
    const int64_t n_token = 1 + (int64_t)spot_rng_below(&s->rng, (uint64_t)s->m.shape.seq);
    const int n_free = spot_infer_free_pages(s->f);
    const int64_t n_page = (int64_t)spot_rng_below(&s->rng, (uint64_t)n_free + 1);
    const int64_t n = spot_infer_find(s->f, s->id[k], s->text[k], n_token, n_page);

    ck_assert_int_ge(n, s->n[k]);
    if (n == s->n[k])
        return;
    ck_assert_int_lt(n, n_token);
    ck_assert(n % PAGE == 0 || n == n_token - 1);
    ck_assert_int_eq(spot_infer_reuse(s->f, s->id[k], s->text[k], n, NULL), 0);
    ck_assert_int_eq(spot_infer_length(s->f, s->id[k]), n);
    ck_assert_int_ge(spot_infer_free_pages(s->f), n_free - n_page);
    s->n_found += (uint64_t)(n - s->n[k]);
    run_to(s, k, n, n + 1);
}

static void begin_anew(struct sharers *s, int k)
{
    spot_infer_close(s->f, s->id[k]);
    s->id[k] = spot_infer_open(s->f, NULL);
    s->n[k] = 0;
    write_text(s, k);
    look(s, k);
}

static void play(struct sharers *s, int n_round)
{
    for (int k = 0; k < SEQUENCES; k++) {
        s->id[k] = spot_infer_open(s->f, NULL);
        write_text(s, k);
    }
    for (int round = 0; round < n_round; round++) {
        const int k = (int)spot_rng_below(&s->rng, SEQUENCES);

        switch (spot_rng_below(&s->rng, 3)) {
        case 0:
            go_on(s, k);
            break;
        case 1:
            look(s, k);
            break;
        default:
            begin_anew(s, k);
        }
    }
    for (int k = 0; k < SEQUENCES; k++)
        spot_infer_close(s->f, s->id[k]);
    ck_assert_int_eq(spot_infer_free_pages(s->f), s->n_page);
}

/* Models, types of weights, and caches: for two sequences apart, of two pages, with room. */
START_TEST(what_is_found_is_what_would_be_computed)
{
    static const int pick[] = { 3, 4, FIRST_LLAMA + 1, FIRST_LLAMA + 3 };
    const enum spot_infer_type type = (enum spot_infer_type)(_i < 4 ? 0 : _i - 3);
    struct sharers s;

    for (int k = 0; k < 3; k++) {
        open_all(&s, pick[_i % 4], type);
        spot_rng_init(&s.rng, 5, (uint64_t)(_i * 3 + k));
        s.n_page = k == 1 ? 2 : 3 + (2 + 3 * k) * (int)(s.m.shape.seq / PAGE + 1);
        s.f = engine(&s, s.n_page, (int[]){ s.n_page, 1, s.n_page / 3 }[k], NULL);
        play(&s, is_long() ? 3000 : 60);
        ck_assert(s.n_found || k == 1);
        ck_assert_int_le(spot_infer_kept(s.f), s.n_page);
        spot_infer_forget(s.f);
        ck_assert_int_eq(spot_infer_kept(s.f), 0);
        ck_assert_int_eq(spot_infer_free_pages(s.f), s.n_page);
        close_all(&s);
    }
}
END_TEST

/* --- one after the other ------------------------------------------------------------ */

static int64_t found(struct sharers *s, int k, int64_t n_token)
{
    return spot_infer_find(s->f, s->id[k], s->text[k], n_token, s->n_page);
}

static void open_two(struct sharers *s, int n_page, int n_kept)
{
    open_all(s, 3, SPOT_INFER_FP32);
    spot_rng_init(&s->rng, 7, 0);
    s->n_page = n_page;
    s->f = engine(s, n_page, n_kept, NULL);
    write_text(s, 0);
    memcpy(s->text[1], s->text[0], sizeof(s->text[0]));
    for (int k = 0; k < 2; k++)
        s->id[k] = spot_infer_open(s->f, NULL);
}

START_TEST(all_but_the_last_token_is_found_where_pages_are_full)
{
    struct sharers s;

    open_two(&s, 16, 16);
    run_to(&s, 0, 0, 40);
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        ck_assert_int_eq(found(&s, 1, 64), 32);
        ck_assert_int_eq(found(&s, 1, 33), 32);
        ck_assert_int_eq(found(&s, 1, 32), 31); /* a copy: its last logits are to be computed */
        ck_assert_int_eq(found(&s, 1, 17), 16);
        ck_assert_int_eq(found(&s, 1, 16), 15);
        ck_assert_int_eq(found(&s, 1, 15), 0);
        ck_assert_int_eq(spot_infer_find(s.f, s.id[1], s.text[1], 64, 0), is_closed ? 0 : 32);
        ck_assert_int_eq(spot_infer_find(s.f, s.id[1], s.text[1], 64, 1), is_closed ? 16 : 32);
        s.text[1][20]++;
        ck_assert_int_eq(found(&s, 1, 64), 16);
        s.text[1][0]++;
        ck_assert_int_eq(found(&s, 1, 64), 0);
        memcpy(s.text[1], s.text[0], sizeof(s.text[0]));
        if (!is_closed)
            spot_infer_close(s.f, s.id[0]);
    }
    ck_assert_int_eq(spot_infer_kept(s.f), 2);
    ck_assert_int_eq(spot_infer_reuse(s.f, s.id[1], s.text[1], 48, NULL), -1); /* not here */
    close_all(&s);
}
END_TEST

/* Equal pages, computed by two at a time, are one. */
START_TEST(equal_pages_are_there_once)
{
    struct sharers s;

    open_two(&s, 16, 16);
    run_to(&s, 0, 0, 40);
    ck_assert_int_eq(spot_infer_free_pages(s.f), 13);
    run_to(&s, 1, 0, 31);
    ck_assert_int_eq(spot_infer_free_pages(s.f), 12);
    run_to(&s, 1, 31, 41);
    ck_assert_int_eq(spot_infer_free_pages(s.f), 12); /* two of both, and a third of each */
    close_all(&s);
}
END_TEST

START_TEST(the_least_recently_used_page_goes_first_and_never_before_those_behind_it)
{
    struct sharers s;

    open_two(&s, 8, 4);
    run_to(&s, 0, 0, 64);
    s.text[1][0]++;
    run_to(&s, 1, 0, 32);
    spot_infer_close(s.f, s.id[0]);
    ck_assert_int_eq(spot_infer_kept(s.f), 4);
    spot_infer_close(s.f, s.id[1]); /* two more: the last two of the first go */
    ck_assert_int_eq(spot_infer_kept(s.f), 4);
    for (int k = 0; k < 2; k++)
        s.id[k] = spot_infer_open(s.f, NULL);
    ck_assert_int_eq(found(&s, 0, 64), 32);
    ck_assert_int_eq(found(&s, 1, 64), 32);
    run_to(&s, 0, 0, 64); /* computes all anew, and keeps what is there */
    run_to(&s, 0, 64, 65);
    ck_assert_int_eq(spot_infer_free_pages(s.f), 3);
    ck_assert_int_eq(found(&s, 1, 64), 32);
    close_all(&s);
}
END_TEST

/* Nobody can say what they stand for. */
START_TEST(pages_without_tokens_are_not_found_until_they_are_told)
{
    struct sharers s;
    void *const byte = spot_xcalloc(1, 1 << 16);

    open_two(&s, 16, 16);
    run_to(&s, 0, 0, 32);
    ck_assert_uint_le(spot_infer_page_byte(s.f), 1 << 16);
    s.n[2] = 0;
    s.id[2] = spot_infer_open(s.f, NULL);
    ck_assert_int_eq(spot_infer_reserve(s.f, s.id[1], 32, NULL), 0);
    for (int64_t page = 0; page < 2; page++)
        for (int layer = 0; layer < (int)s.m.shape.n_layer; layer++)
            for (int shard = 0; shard < (int)s.m.shape.n_shard; shard++) {
                spot_infer_export(s.f, s.id[0], page, layer, shard, byte);
                spot_infer_import(s.f, s.id[1], page, layer, shard, byte);
                spot_infer_import_end(s.f);
            }
    spot_infer_close(s.f, s.id[0]);
    spot_infer_forget(s.f);
    memcpy(s.text[2], s.text[1], sizeof(s.text[1]));
    ck_assert_int_eq(found(&s, 2, 64), 0);
    run_to(&s, 1, 32, 48);
    ck_assert_int_eq(found(&s, 2, 64), 0);
    spot_infer_tell(s.f, s.id[1], s.text[1]);
    ck_assert_int_eq(found(&s, 2, 64), 48);
    free(byte);
    close_all(&s);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("infer_prefix");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, what_is_found_is_what_would_be_computed, 0, 4 + SPOT_INFER_TYPES - 1);
    add_tests(tc);
    return run_suite("infer_prefix", tc);
}
