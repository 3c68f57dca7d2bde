/* SPDX-License-Identifier: MIT */
#include "common/xalloc.h"
#include "serve/batch_loop.h"
#include "stage_rig.h"
#include "suite.h"

/* Goal: what a choice gets, bit by bit, does not tell that others had its prompt computed, or an
 * earlier request: not with any number of choices, prompts that begin alike, caches that are too
 * small for all, choices that end early, and some that go on behind tokens they have. A prompt is
 * there once. */

enum { PICK = 3, SEQUENCES = 8, REQUESTS = 3, CHOICES = 6, LONGEST = 96, PAGE = SPOT_INFER_PAGE };

struct rig {
    struct model m;
    void *image;
    size_t n_byte;
    struct spot_served_model model;
    struct spot_relay *relay;
    struct spot_batch_loop *loop;
    struct spot_batch_out out[SEQUENCES];
};

static uint64_t page_byte(const struct spot_shape *s)
{
    return PAGE * spot_relay_token_byte(s);
}

static void rig_open_on(struct rig *r, int n_page, int n_kept, int n_thread)
{
    static const struct spot_relay_form alone = { .P = 1, .M = 1 };
    struct spot_err err = { 0 };

    memset(r, 0, sizeof(*r));
    model_init(&r->m, PICK);
    r->n_byte = spot_infer_image_byte(&r->m.shape, SPOT_INFER_FP32, 0, r->m.n_bundle);
    r->image = spot_alloc_aligned(r->n_byte, 1);
    spot_infer_image_pack(r->image, &r->m.shape, SPOT_INFER_FP32, 0, r->m.n_bundle, r->m.ptr);
    r->model.shape = r->m.shape;
    r->relay = spot_relay_new(
        &(struct spot_relay_config){ .shape = &r->m.shape,
                                     .image = r->image,
                                     .image_byte = r->n_byte,
                                     .P = 1,
                                     .M = 1,
                                     .n_sequence = SEQUENCES,
                                     .kv_byte = (uint64_t)n_page * page_byte(&r->m.shape),
                                     .kept_byte = (uint64_t)n_kept * page_byte(&r->m.shape),
                                     .token_max = spot_batch_loop_tokens(SEQUENCES),
                                     .n_thread = n_thread },
        &err);
    ck_assert_msg(r->relay, "%s", err.msg);
    spot_relay_enter(r->relay, &alone, NULL);
    r->loop = spot_batch_loop_new(&r->model, r->relay, SEQUENCES);
}

static void rig_open(struct rig *r, int n_page, int n_kept)
{
    rig_open_on(r, n_page, n_kept, 1);
}

static void rig_close(struct rig *r)
{
    spot_batch_loop_free(r->loop);
    spot_relay_free(r->relay);
    spot_free_aligned(r->image);
    model_release(&r->m);
}

static void add_asking(struct rig *r, uint64_t number, const uint32_t *prompt, size_t n_prompt,
                       uint32_t choice, int64_t n_max, const uint32_t *token, size_t n,
                       int n_logprob)
{
    struct spot_request q = { .n_prompt = n_prompt,
                              .n_choice = CHOICES,
                              .n_token_max = n_max,
                              .n_logprob = n_logprob,
                              .ignores_end = true,
                              .sample = spot_sample_plain };
    struct spot_err err = { 0 };

    q.sample.seed = number / SPOT_REQUEST_CHOICES_MAX;
    q.prompt = spot_xgrow(NULL, &(size_t){ 0 }, n_prompt, sizeof(*prompt));
    memcpy(q.prompt, prompt, n_prompt * sizeof(*prompt));
    ck_assert_msg(!spot_batch_loop_add(r->loop, number, &q, choice, token, n, &err), "%s", err.msg);
}

static void add(struct rig *r, uint64_t number, const uint32_t *prompt, size_t n_prompt,
                uint32_t choice, int64_t n_max, const uint32_t *token, size_t n)
{
    add_asking(r, number, prompt, n_prompt, choice, n_max, token, n, -1);
}

/* --- one request ------------------------------------------------------------------------- */

START_TEST(a_prompt_is_there_once_however_many_choices_there_are)
{
    const size_t n_prompt = (size_t[]){ 64, 70, 15, 17 }[_i]; /* pages end there, or do not */
    struct spot_err err = { 0 };
    struct rig r;
    uint32_t most = 0;
    size_t n, n_told = 0;

    rig_open(&r, SEQUENCES * 7, 0);
    for (uint32_t k = 0; k < CHOICES; k++)
        add(&r, SPOT_REQUEST_CHOICES_MAX + k, r.m.token, n_prompt, k, 8, NULL, 0);
    while (!spot_batch_loop_is_idle(r.loop)) {
        ck_assert_msg(!spot_batch_loop_step(r.loop, r.out, &n, &err), "%s", err.msg);
        const uint32_t used = spot_batch_loop_pages(r.loop).used;

        most = used > most ? used : most;
        n_told += n;
    }
    ck_assert_uint_eq(n_told, 8 * CHOICES);
    /* what is full of the prompt but its last token, and what each has of its own */
    const size_t shared = (n_prompt - 1) / PAGE, last = (n_prompt + 7 + PAGE - 1) / PAGE;

    ck_assert_uint_le(most, shared + CHOICES * (last - shared));
    ck_assert_uint_eq(spot_batch_loop_pages(r.loop).used, 0);
    rig_close(&r);
}
END_TEST

/* The one that computed it is gone with its first token, when the others begin. */
START_TEST(a_prompt_is_computed_once_though_answers_are_of_one_token)
{
    struct spot_err err = { 0 };
    struct rig r;
    int n_pass = 0;
    size_t n, n_told = 0;

    rig_open(&r, SEQUENCES * 7, 6);
    for (uint32_t k = 0; k < CHOICES; k++)
        add(&r, SPOT_REQUEST_CHOICES_MAX + k, r.m.token, 90, k, 1, NULL, 0);
    for (; !spot_batch_loop_is_idle(r.loop); n_pass++) {
        ck_assert_msg(!spot_batch_loop_step(r.loop, r.out, &n, &err), "%s", err.msg);
        n_told += n;
    }
    ck_assert_uint_eq(n_told, CHOICES);
    ck_assert_int_eq(n_pass, 2); /* 90 tokens, and the last ten for each of the others */
    rig_close(&r);
}
END_TEST

/* Over a whole vocabulary it costs as much as a small product: it is for who asks. */
START_TEST(how_probable_a_token_was_is_computed_for_who_asks)
{
    struct spot_err err = { 0 };
    struct rig r;
    size_t n;

    rig_open(&r, SEQUENCES * 7, 0);
    add(&r, SPOT_REQUEST_CHOICES_MAX, r.m.token, 5, 0, 1, NULL, 0);
    ck_assert_msg(!spot_batch_loop_step(r.loop, r.out, &n, &err), "%s", err.msg);
    ck_assert_uint_eq(n, 1);
    ck_assert(r.out[0].token.token.logprob == 0);
    add_asking(&r, 2 * SPOT_REQUEST_CHOICES_MAX, r.m.token, 5, 0, 1, NULL, 0, 0);
    ck_assert_msg(!spot_batch_loop_step(r.loop, r.out, &n, &err), "%s", err.msg);
    ck_assert_uint_eq(n, 1);
    ck_assert_double_lt(r.out[0].token.token.logprob, 0);
    rig_close(&r);
}
END_TEST

/* --- many -------------------------------------------------------------------------------- */

/* What each choice of each request gets alone. */
struct wanted {
    uint32_t prompt[REQUESTS][LONGEST], token[REQUESTS][CHOICES][LONGEST];
    size_t n_prompt[REQUESTS], n_max[REQUESTS], n[REQUESTS][CHOICES];
};

static uint64_t number_of(int q, int k)
{
    return (uint64_t)(q + 1) * SPOT_REQUEST_CHOICES_MAX + (uint64_t)k;
}

static void take(const struct rig *r, size_t n, struct wanted *got)
{
    for (size_t i = 0; i < n; i++) {
        const int q = (int)(r->out[i].sequence / SPOT_REQUEST_CHOICES_MAX) - 1;
        const int k = (int)(r->out[i].sequence % SPOT_REQUEST_CHOICES_MAX);

        ck_assert_uint_eq(r->out[i].token.position, got->n[q][k]);
        got->token[q][k][got->n[q][k]++] = r->out[i].token.token.id;
    }
}

static void play_alone(struct rig *r, struct wanted *w)
{
    struct spot_err err = { 0 };
    size_t n;

    for (int q = 0; q < REQUESTS; q++)
        for (int k = 0; k < CHOICES; k++) {
            add(r, number_of(q, k), w->prompt[q], w->n_prompt[q], (uint32_t)k, (int64_t)w->n_max[q],
                NULL, 0);
            while (!spot_batch_loop_is_idle(r->loop)) {
                ck_assert_int_eq(spot_batch_loop_step(r->loop, r->out, &n, &err), 0);
                take(r, n, w);
            }
        }
}

/* Prompts that begin like the first one for as long as dice say. */
static void draw(struct wanted *w, const struct rig *r, struct spot_rng *rng)
{
    memset(w, 0, sizeof(*w));
    for (int q = 0; q < REQUESTS; q++) {
        const size_t alike = (size_t)spot_rng_below(rng, 70);

        w->n_prompt[q] = 1 + (size_t)spot_rng_below(rng, 70);
        w->n_max[q] = 1 + (size_t)spot_rng_below(rng, 25);
        for (size_t i = 0; i < w->n_prompt[q]; i++)
            w->prompt[q][i] = i < alike ? r->m.token[i]
                                        : (uint32_t)spot_rng_below(rng, (uint64_t)r->m.shape.vocab);
    }
}

/* Now and then a choice is dropped, and comes again behind the tokens it has: as after a kill. */
static void disturb(struct rig *r, const struct wanted *w, const struct wanted *got,
                    struct spot_rng *rng)
{
    const int q = (int)spot_rng_below(rng, REQUESTS), k = (int)spot_rng_below(rng, CHOICES);

    if (got->n[q][k] >= w->n_max[q])
        return;
    spot_batch_loop_drop(r->loop, number_of(q, k));
    add(r, number_of(q, k), w->prompt[q], w->n_prompt[q], (uint32_t)k, (int64_t)w->n_max[q],
        got->token[q][k], got->n[q][k]);
}

START_TEST(tokens_do_not_tell_what_was_shared)
{
    struct spot_err err = { 0 };
    struct spot_rng rng;

    spot_rng_init(&rng, 3, (uint64_t)_i);
    for (int round = 0; round < (is_long() ? 100 : 8); round++) {
        const int n_choice = 1 + (int)spot_rng_below(&rng, CHOICES);
        struct wanted w, got;
        struct rig alone, r;
        int n_page;
        size_t n;

        rig_open(&alone, SEQUENCES * 7, 0);
        draw(&w, &alone, &rng);
        got = w;
        play_alone(&alone, &w);
        n_page = 7 + (int)spot_rng_below(&rng, 30); /* one context, or several */
        rig_open_on(&r, n_page, (int)spot_rng_below(&rng, (uint64_t)n_page), 1 + (_i == 0));
        for (int q = 0; q < REQUESTS; q++)
            for (int k = 0; k < n_choice; k++)
                add(&r, number_of(q, k), w.prompt[q], w.n_prompt[q], (uint32_t)k,
                    (int64_t)w.n_max[q], NULL, 0);
        while (!spot_batch_loop_is_idle(r.loop)) {
            ck_assert_msg(!spot_batch_loop_step(r.loop, r.out, &n, &err), "%s", err.msg);
            take(&r, n, &got);
            if (!spot_rng_below(&rng, 10))
                disturb(&r, &w, &got, &rng);
        }
        for (int q = 0; q < REQUESTS; q++)
            for (int k = 0; k < n_choice; k++)
                ck_assert_mem_eq(got.token[q][k], w.token[q][k], sizeof(w.token[q][k]));
        rig_close(&alone);
        rig_close(&r);
    }
}
END_TEST

/* --- one after the other ------------------------------------------------------------------ */

enum { STEMS = 4, ANSWER = 6, STREAM = 1000 };

/* A stream of requests, each of which begins like others, on three replicas: one that keeps what it
 * can, one whose cache is of a single context, and one that keeps nothing. */
struct stream {
    struct spot_rng rng;
    uint32_t stem[STEMS][LONGEST], prompt[LONGEST];
    size_t n_prompt;
};

static void next_prompt(struct stream *t, const struct spot_shape *s)
{
    const uint32_t *const stem = t->stem[spot_rng_below(&t->rng, STEMS)];
    const size_t alike = (size_t)spot_rng_below(&t->rng, LONGEST - ANSWER);

    t->n_prompt = 1 + (size_t)spot_rng_below(&t->rng, LONGEST - ANSWER);
    for (size_t i = 0; i < t->n_prompt; i++)
        t->prompt[i] = i < alike ? stem[i] : (uint32_t)spot_rng_below(&t->rng, (uint64_t)s->vocab);
}

struct answer {
    uint32_t id[CHOICES][ANSWER];
    double logprob[CHOICES][ANSWER];
    uint32_t n_cached;
};

/* One in ten is dropped half-way. */
static void answer(struct rig *r, uint64_t q, const struct stream *t, bool is_dropped,
                   struct answer *a)
{
    struct spot_err err = { 0 };
    size_t n, n_left = 2 * ANSWER;

    memset(a, 0, sizeof(*a));
    if (is_dropped) /* the pass ends within the prompt behind this one */
        add(r, (q + STREAM) * SPOT_REQUEST_CHOICES_MAX, t->stem[0], LONGEST - ANSWER, 0, 1, NULL,
            0);
    for (uint32_t k = 0; k < 2; k++)
        add_asking(r, q * SPOT_REQUEST_CHOICES_MAX + k, t->prompt, t->n_prompt, k, ANSWER, NULL, 0,
                   0);
    while (n_left) {
        ck_assert_msg(!spot_batch_loop_step(r->loop, r->out, &n, &err), "%s", err.msg);
        for (size_t i = 0; i < n; i++) {
            const struct spot_step_token *const one = &r->out[i].token;
            const uint32_t k = (uint32_t)(r->out[i].sequence % SPOT_REQUEST_CHOICES_MAX);

            if (r->out[i].sequence / SPOT_REQUEST_CHOICES_MAX != q)
                continue;
            a->id[k][one->position] = one->token.id;
            a->logprob[k][one->position] = one->token.logprob;
            a->n_cached += one->token.n_cached;
            n_left--;
        }
        if (is_dropped) {
            spot_batch_loop_clear(r->loop);
            return;
        }
    }
}

START_TEST(a_hit_has_the_tokens_and_log_probabilities_of_a_miss)
{
    const int n_page[] = { SEQUENCES * 7, 7, SEQUENCES * 7 }, n_kept[] = { SEQUENCES * 7, 7, 0 };
    uint64_t n_cached[3] = { 0 };
    struct rig r[3];
    struct stream t;

    for (int i = 0; i < 3; i++)
        rig_open(&r[i], n_page[i], n_kept[i]);
    spot_rng_init(&t.rng, 11, 0);
    for (int i = 0; i < STEMS; i++)
        for (int k = 0; k < LONGEST; k++)
            t.stem[i][k] = (uint32_t)spot_rng_below(&t.rng, (uint64_t)r[0].m.shape.vocab);
    for (uint64_t q = 1; q <= STREAM; q++) {
        const bool is_dropped = !spot_rng_below(&t.rng, 10);
        struct answer a[3];

        next_prompt(&t, &r[0].m.shape);
        for (int i = 0; i < 3; i++) {
            answer(&r[i], q, &t, is_dropped, &a[i]);
            n_cached[i] += a[i].n_cached;
            ck_assert_mem_eq(a[i].id, a[0].id, is_dropped ? 0 : sizeof(a->id));
            ck_assert_mem_eq(a[i].logprob, a[0].logprob, is_dropped ? 0 : sizeof(a->logprob));
        }
    }
    ck_assert_uint_gt(n_cached[0], 20000); /* of some 90,000, half of them at random */
    ck_assert_uint_gt(n_cached[0], n_cached[1]);
    ck_assert_uint_gt(n_cached[1], n_cached[2]);
    for (int i = 0; i < 3; i++)
        rig_close(&r[i]);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("batch_loop");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, a_prompt_is_there_once_however_many_choices_there_are, 0, 4);
    tcase_add_loop_test(tc, tokens_do_not_tell_what_was_shared, 0, 4);
    add_tests(tc);
    return run_suite("batch_loop", tc);
}
