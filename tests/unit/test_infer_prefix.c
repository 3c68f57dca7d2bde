/* SPDX-License-Identifier: MIT */
#include "common/xalloc.h"
#include "engine/infer.h"
#include "stage_rig.h"
#include "suite.h"

/* Goal: sequences that have pages together compute what each would alone, whatever the others do
 * then; a page is free when nobody has it, and full ones that are shared take no room. */

enum { SHARERS = 5, TOKENS_MAX = 128 };

/* Sequences that begin alike, each with a text of its own. */
struct sharers {
    struct model m;
    void *image;
    size_t n_byte;
    struct spot_infer *f, *alone; /* alone: computes a text from its start */
    int id[SHARERS], n_page;
    int64_t n[SHARERS];
    uint32_t text[SHARERS][TOKENS_MAX];
    float *got, *want;
    struct spot_rng rng;
};

static void open_model(struct sharers *s, int pick)
{
    model_init(&s->m, pick);
    s->n_byte = spot_infer_image_byte(&s->m.shape, SPOT_INFER_FP32, 0, s->m.n_bundle);
    s->image = spot_alloc_aligned(s->n_byte, 1);
    spot_infer_image_pack(s->image, &s->m.shape, SPOT_INFER_FP32, 0, s->m.n_bundle, s->m.ptr);
}

static struct spot_infer *engine(const struct sharers *s, int n_page)
{
    struct spot_infer *const f =
        spot_infer_new(&(struct spot_infer_config){ .image = s->image,
                                                    .image_byte = s->n_byte,
                                                    .n_thread = 1,
                                                    .n_sequence = SHARERS,
                                                    .n_page = n_page,
                                                    .token_max = (int)s->m.shape.seq },
                       NULL);

    ck_assert_ptr_nonnull(f);
    return f;
}

/* Go on at any token: what lay behind is forgotten by this one, and by no other. */
static void run_one(struct sharers *s, int k)
{
    const int64_t back = spot_rng_below(&s->rng, 3) ? 0 : (int64_t)spot_rng_below(&s->rng, 20);
    const int64_t first = s->n[k] > back ? s->n[k] - back : 0, left = s->m.shape.seq - first;
    const int64_t n = left > 0 ? 1 + (int64_t)spot_rng_below(&s->rng, (uint64_t)left) : 0;
    struct spot_err err = { 0 };
    int alone;

    if (!n)
        return;
    for (int64_t i = 0; i < n; i++)
        s->text[k][first + i] = (uint32_t)spot_rng_below(&s->rng, (uint64_t)s->m.shape.vocab);
    if (spot_infer_run(s->f, &(struct spot_infer_item){ s->id[k], first, n, s->text[k] + first }, 1,
                       NULL, NULL, s->got, &err)) {
        ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
        spot_infer_close(s->f, s->id[k]);
        s->id[k] = spot_infer_open(s->f, NULL);
        s->n[k] = 0;
        return;
    }
    s->n[k] = first + n;
    alone = spot_infer_open(s->alone, NULL);
    ck_assert_int_eq(spot_infer_run(s->alone,
                                    &(struct spot_infer_item){ alone, 0, s->n[k], s->text[k] }, 1,
                                    NULL, NULL, s->want, NULL),
                     0);
    spot_infer_close(s->alone, alone);
    ck_assert_mem_eq(s->got, s->want, (size_t)s->m.shape.vocab * sizeof(float));
}

static void share_one(struct sharers *s, int from, int to)
{
    const int64_t n = (int64_t)spot_rng_below(&s->rng, (uint64_t)s->n[from] + 1);
    int before;

    spot_infer_close(s->f, s->id[to]);
    s->id[to] = spot_infer_open(s->f, NULL);
    s->n[to] = 0;
    before = spot_infer_free_pages(s->f);
    if (spot_infer_share(s->f, s->id[from], s->id[to], n, NULL)) {
        ck_assert(!before && n % SPOT_INFER_PAGE);
        return;
    }
    ck_assert_int_eq(spot_infer_free_pages(s->f), before - (n % SPOT_INFER_PAGE != 0));
    ck_assert_int_eq(spot_infer_length(s->f, s->id[to]), n);
    memcpy(s->text[to], s->text[from], (size_t)n * sizeof(uint32_t));
    s->n[to] = n;
}

START_TEST(pages_that_several_have_are_as_if_each_had_its_own)
{
    struct sharers s = { .n_page = 0 };

    open_model(&s, _i);
    ck_assert_int_le(s.m.shape.seq, TOKENS_MAX);
    s.n_page = 3 + 2 * (int)(s.m.shape.seq / SPOT_INFER_PAGE + 1); /* not for all of them apart */
    s.f = engine(&s, s.n_page);
    s.alone = engine(&s, SHARERS * s.n_page);
    s.got = calloc((size_t)s.m.shape.vocab, sizeof(float));
    s.want = calloc((size_t)s.m.shape.vocab, sizeof(float));
    spot_rng_init(&s.rng, 5, (uint64_t)_i);
    for (int k = 0; k < SHARERS; k++)
        s.id[k] = spot_infer_open(s.f, NULL);
    for (int round = 0; round < (is_long() ? 3000 : 300); round++) {
        const int a = (int)spot_rng_below(&s.rng, SHARERS);
        const int b = (a + 1 + (int)spot_rng_below(&s.rng, SHARERS - 1)) % SHARERS;

        if (spot_rng_below(&s.rng, 2))
            run_one(&s, a);
        else
            share_one(&s, a, b);
    }
    ck_assert_int_eq(spot_infer_share(s.f, s.id[0], s.id[0], 0, NULL), s.n[0] ? -1 : 0);
    for (int k = 0; k < SHARERS; k++)
        spot_infer_close(s.f, s.id[k]);
    ck_assert_int_eq(spot_infer_free_pages(s.f), s.n_page);
    spot_infer_free(s.f);
    spot_infer_free(s.alone);
    free(s.got);
    free(s.want);
    spot_free_aligned(s.image);
    model_release(&s.m);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("infer_share");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, pages_that_several_have_are_as_if_each_had_its_own, 0, FIRST_LLAMA + 4);
    return run_suite("infer_share", tc);
}
