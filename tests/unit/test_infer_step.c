/* SPDX-License-Identifier: MIT */
/* tier: units twin, lane: compute */
#define _XOPEN_SOURCE 700
#include "common/rng.h"
#include "common/xalloc.h"
#include "engine/infer.h"
#include "engine/initial_weights.h"
#include "engine/sample.h"
#include "suite.h"
#include "twin.h"

/* Goal: decode steps on a device, as graphs, give the bits of plain launches: whatever the size of
 * a batch and of its contexts, while sequences join and leave, stages are cut, and pages change
 * hands; and where the driver records nothing. Tokens that the device chooses are those of the
 * host's sampler. The device is the twin's, or one that SPOT_CUDA_MODULE names. */

enum { T = 300, V = 1300, LAYERS = 2, STEPS = 9, SEQUENCES = 6, STAGES = 2 };

static const struct spot_shape shape = {
    .n_layer = LAYERS, .width = 16, .n_head = 2, .seq = T, .vocab = V, .n_shard = 2
};
/* on both sides of one, two and three parts of 128 keys */
static const int64_t context[SEQUENCES] = { 124, 1, 250, 127, 33, 285 };

struct model {
    void *image;
    size_t n_byte;
    uint32_t token[SEQUENCES][T];
};

static void model_open(struct model *m, enum spot_infer_type type)
{
    const int n = spot_shape_bundles(&shape);
    struct spot_rng rng;

    m->n_byte = spot_infer_image_byte(&shape, type, 0, n);
    m->image = spot_alloc_aligned(m->n_byte, 1);
    memset(m->image, 0, m->n_byte);
    spot_infer_image_begin(m->image, &shape, type, 0, n);
    for (int i = 0; i < n; i++) {
        struct spot_bundle bundle;

        ck_assert_int_eq(spot_bundle_init(&bundle, &shape, i, NULL), 0);
        spot_bundle_start(&bundle, &shape, 1);
        spot_infer_image_put(m->image, &bundle);
        spot_bundle_release(&bundle);
    }
    spot_rng_init(&rng, 7, 0);
    for (int s = 0; s < SEQUENCES; s++)
        for (int t = 0; t < T; t++)
            m->token[s][t] = (uint32_t)spot_rng_below(&rng, V);
}

/* An engine of the first or second half of the bundles, or of all. */
static struct spot_infer *engine(const struct model *m, int stage, int n_stage, int n_sequence)
{
    const int n = spot_shape_bundles(&shape);
    struct spot_err err = { 0 };
    const struct spot_infer_config c = { .image = m->image,
                                         .image_byte = m->n_byte,
                                         .bundle_begin = n * stage / n_stage,
                                         .bundle_end = n * (stage + 1) / n_stage,
                                         .n_thread = 1,
                                         .n_sequence = n_sequence,
                                         .n_page = n_sequence * (T / SPOT_INFER_PAGE + 1),
                                         .token_max = T,
                                         .backend = "cuda" };
    struct spot_infer *const f = spot_infer_new(&c, &err);

    ck_assert_msg(f, "%s", err.msg);
    return f;
}

/* One pass through all stages. */
static void run(struct spot_infer *const *stage, int n_stage, const struct spot_infer_item *item,
                int n_item, struct spot_infer_pick *pick, float *logit)
{
    static float hidden[T * 16];

    for (int i = 0; i < n_stage; i++)
        ck_assert_int_eq(spot_infer_run_picks(stage[i], item, n_item, pick, i ? hidden : NULL,
                                              i + 1 < n_stage ? hidden : NULL, logit, NULL),
                         0);
}

/* --- choices --- */

/* Filters that keep few tokens, more than the device looks at, or all; the last wants logits. */
static const struct spot_sample samples[] = {
    { .temperature = 0, .top_p = 1, .repetition = 1 },
    { .temperature = 1, .top_p = 1, .repetition = 1 },
    { .temperature = 0.02, .top_p = 0.9, .repetition = 1 },
    { .temperature = 0.7, .top_p = 0.95, .top_k = 50, .repetition = 1 },
    { .temperature = 1.3, .top_p = 0.99, .repetition = 1 },
    { .temperature = 0.05, .top_p = 1, .min_p = 0.02, .top_k = 1024, .repetition = 1 },
    { .temperature = 1e-9, .top_p = 1, .repetition = 1 },
    { .temperature = 0 },
};
enum { N_SAMPLE = sizeof(samples) / sizeof(samples[0]) };

static int sample_of(int s, int step)
{
    return (3 * s + step) % N_SAMPLE;
}

static struct spot_infer_pick pick_of(int s, int step)
{
    const struct spot_sample *const a = &samples[sample_of(s, step)];

    return (struct spot_infer_pick){ .is_wanted = a->repetition > 0,
                                     .temperature = a->temperature,
                                     .top_p = a->top_p,
                                     .min_p = a->min_p,
                                     .top_k = a->top_k,
                                     .noise = spot_sample_noise((uint64_t)s, 1, (uint64_t)step) };
}

/* The token of the host's sampler, if the device chose; otherwise the row of logits. */
static void check_row(int s, int step, const struct spot_infer_pick *pick, const float *got,
                      const float *want)
{
    static struct spot_sample_work work[V];
    struct spot_sample sample = samples[sample_of(s, step)];

    sample.seed = (uint64_t)s;
    if (pick->is_chosen)
        ck_assert_uint_eq(pick->token,
                          spot_sample_choose(&sample, want, V, NULL, 1, (uint64_t)step, work));
    else
        ck_assert_msg(!memcmp(got, want, V * sizeof(float)), "sequence %d, step %d", s, step);
    ck_assert(pick->is_wanted || !pick->is_chosen);
}

static struct spot_infer_item item_of(const struct model *m, int id, int s, int64_t first,
                                      int64_t n)
{
    return (struct spot_infer_item){ id, first, n, m->token[s] + first, SPOT_POOL_NONE, NULL };
}

/* [SEQUENCES][STEPS][V] each sequence alone, plainly. */
static float *alone(const struct model *m)
{
    float *const want = spot_xcalloc((size_t)SEQUENCES * STEPS * V, sizeof(float));
    struct spot_infer *const f = engine(m, 0, 1, 1);

    ck_assert_ptr_null(getenv("SPOT_CUDA_DECODE"));
    for (int s = 0; s < SEQUENCES; s++) {
        const int id = spot_infer_open(f, NULL);

        for (int k = 0; k < STEPS; k++) {
            const struct spot_infer_item item =
                item_of(m, id, s, k ? context[s] + k - 1 : 0, k ? 1 : context[s]);

            run(&f, 1, &item, 1, &(struct spot_infer_pick){ 0 }, want + (s * STEPS + k) * V);
        }
        spot_infer_close(f, id);
    }
    ck_assert_uint_eq(spot_infer_counts(f).n_graph, 0);
    spot_infer_free(f);
    return want;
}

/* Steps of random batches: a sequence joins by its prompt, beside others or alone, takes its steps
 * with pauses, and leaves its pages to the next. */
struct play {
    const struct model *m;
    int n_stage, n_sequence;
    struct spot_infer *stage[STAGES];
    int id[SEQUENCES], step[SEQUENCES]; /* -1, 0: not there */
    struct spot_rng rng;
};

static int choose(struct play *p, struct spot_infer_item *item, int *which)
{
    const int all = (int)spot_rng_below(&p->rng, 4); /* most often nobody pauses */
    int n = 0, n_open = 0;

    for (int s = 0; s < SEQUENCES; s++)
        n_open += p->id[s] >= 0;
    for (int s = 0; s < SEQUENCES && n < p->n_sequence; s++) {
        const bool joins = p->id[s] < 0 && p->step[s] < STEPS && n_open < p->n_sequence &&
                           !spot_rng_below(&p->rng, 3);

        if (joins) {
            for (int i = 0; i < p->n_stage; i++)
                p->id[s] = spot_infer_open(p->stage[i], NULL);
            n_open++;
        }
        if (p->id[s] < 0 || (!all && spot_rng_below(&p->rng, 2)))
            continue;
        item[n] = item_of(p->m, p->id[s], s, p->step[s] ? context[s] + p->step[s] - 1 : 0,
                          p->step[s] ? 1 : context[s]);
        which[n++] = s;
        if (!p->step[s])
            break; /* T tokens of a run have room for one prompt */
    }
    return n;
}

static void leave_room(struct play *p, int s)
{
    for (int i = 0; i < p->n_stage; i++)
        spot_infer_close(p->stage[i], p->id[s]);
    p->id[s] = -1;
}

/* Returns what the last stage did. */
static struct spot_infer_counts play(const struct model *m, const float *want, int n_stage,
                                     int n_sequence, uint64_t seed)
{
    struct play p = { .m = m, .n_stage = n_stage, .n_sequence = n_sequence };
    float *const logit = spot_xcalloc((size_t)SEQUENCES * V, sizeof(float));
    struct spot_infer_counts counts;
    int n_left = SEQUENCES;

    spot_rng_init(&p.rng, seed, 0);
    for (int i = 0; i < n_stage; i++)
        p.stage[i] = engine(m, i, n_stage, n_sequence);
    for (int s = 0; s < SEQUENCES; s++)
        p.id[s] = -1;
    while (n_left) {
        struct spot_infer_item item[SEQUENCES];
        struct spot_infer_pick pick[SEQUENCES];
        int which[SEQUENCES];
        const int n = choose(&p, item, which);

        for (int i = 0; i < n; i++)
            pick[i] = pick_of(which[i], p.step[which[i]]);
        if (n)
            run(p.stage, n_stage, item, n, pick, logit);
        for (int i = 0; i < n; i++) {
            const int s = which[i];

            check_row(s, p.step[s], &pick[i], logit + i * V, want + (s * STEPS + p.step[s]) * V);
            if (++p.step[s] < STEPS)
                continue;
            leave_room(&p, s);
            n_left--;
        }
    }
    counts = spot_infer_counts(p.stage[n_stage - 1]);
    for (int i = 0; i < n_stage; i++)
        spot_infer_free(p.stage[i]);
    free(logit);
    return counts;
}

START_TEST(steps_as_graphs_have_the_bits_of_sequences_alone)
{
    struct model m;

    model_open(&m, _i ? SPOT_INFER_FP32 : SPOT_INFER_BF16);
    float *const want = alone(&m);

    setenv("SPOT_CUDA_DECODE", "graphs", 1);
    /* batches to 6, where 6 is no power of two, and to 3; two stages */
    ck_assert_uint_gt(play(&m, want, 1, SEQUENCES, 1).n_graph, STEPS / 2);
    ck_assert_uint_gt(play(&m, want, 1, 3, 2).n_graph, STEPS / 2);
    ck_assert_uint_gt(play(&m, want, 2, SEQUENCES, 3).n_graph, STEPS / 2);
    unsetenv("SPOT_CUDA_DECODE");
    free(want);
    spot_free_aligned(m.image);
}
END_TEST

/* With launches and with graphs; all rows are fetched without choices, and few with them. */
START_TEST(tokens_chosen_on_the_device_are_those_of_the_host)
{
    const uint64_t row_byte = (uint64_t)spot_shape_vocab_rows(&shape) * sizeof(float),
                   all = (uint64_t)SEQUENCES * STEPS;
    struct spot_infer_counts counts;
    struct model m;

    model_open(&m, SPOT_INFER_BF16);
    float *const want = alone(&m);

    for (int graphs = 0; graphs < 2; graphs++) {
        setenv("SPOT_CUDA_DECODE", graphs ? "graphs+tokens" : "tokens", 1);
        counts = play(&m, want, 1 + graphs, SEQUENCES, 5);
        ck_assert_int_eq(counts.n_graph > 0, graphs);
        ck_assert_uint_gt(counts.n_chosen, all / 2);
        ck_assert_uint_lt(counts.n_chosen, all);
        ck_assert_uint_lt(counts.fetched_byte, (all - counts.n_chosen + 1) * row_byte);
    }
    unsetenv("SPOT_CUDA_DECODE");
    ck_assert_uint_ge(play(&m, want, 1, SEQUENCES, 5).fetched_byte, all * row_byte);
    free(want);
    spot_free_aligned(m.image);
}
END_TEST

/* A graph that chooses no tokens is not that of a step which does, and the other way round. */
START_TEST(steps_with_and_without_choices_have_graphs_of_their_own)
{
    struct spot_infer_pick pick;
    float *const logit = spot_xcalloc(V, sizeof(float));
    struct model m;

    model_open(&m, SPOT_INFER_BF16);
    float *const want = alone(&m);

    setenv("SPOT_CUDA_DECODE", "graphs+tokens", 1);
    struct spot_infer *const f = engine(&m, 0, 1, 1);
    const int id = spot_infer_open(f, NULL);

    for (int k = 0; k < STEPS; k++) {
        const struct spot_infer_item item =
            item_of(&m, id, 1, k ? context[1] + k - 1 : 0, k ? 1 : context[1]);

        pick = pick_of(1, k);
        pick.is_wanted = pick.is_wanted && k / 2 % 2;
        run(&f, 1, &item, 1, &pick, logit);
        check_row(1, k, &pick, logit, want + (STEPS + k) * V);
    }
    ck_assert_uint_ge(spot_infer_counts(f).n_graph, STEPS / 2);
    ck_assert_uint_gt(spot_infer_counts(f).n_chosen, 0);
    spot_infer_free(f);
    unsetenv("SPOT_CUDA_DECODE");
    free(want);
    free(logit);
    spot_free_aligned(m.image);
}
END_TEST

/* At once, or when the recording ends; only the twin can. */
START_TEST(a_driver_that_records_nothing_costs_no_bit)
{
    struct model m;

    model_open(&m, SPOT_INFER_BF16);
    float *const want = alone(&m);

    setenv("SPOT_CUDA_DECODE", "graphs", 1);
    setenv("SPOT_TWIN_GRAPHS", _i ? "1" : "0", 1);
    if (strstr(getenv("SPOT_CUDA_MODULE"), "twin"))
        ck_assert_uint_eq(play(&m, want, 1, 5, 4).n_graph, 0);
    unsetenv("SPOT_TWIN_GRAPHS");
    unsetenv("SPOT_CUDA_DECODE");
    free(want);
    spot_free_aligned(m.image);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("infer_step");

    (void)argc;
#ifdef __SANITIZE_THREAD__
    puts("1..0 # skip fibers are more than ThreadSanitizer follows");
    return 0;
#endif
    find_twin(argv[0]);
    unsetenv("SPOT_CUDA_DECODE");
    const int n = in_tier("twin") ? 2 : 1;

    tcase_add_loop_test(tc, steps_as_graphs_have_the_bits_of_sequences_alone, 0, n);
    tcase_add_test(tc, steps_with_and_without_choices_have_graphs_of_their_own);
    tcase_add_test(tc, tokens_chosen_on_the_device_are_those_of_the_host);
    tcase_add_loop_test(tc, a_driver_that_records_nothing_costs_no_bit, 0, n);
    return run_suite("infer_step", tc);
}
