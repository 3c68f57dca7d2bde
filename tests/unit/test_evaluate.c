/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "decoder_f64.h"
#include "engine/kernel.h"
#include "stage_rig.h"
#include "suite.h"
#include "train/evaluate.h"

/* Goal: windows predict each token once, as the loop of Hugging Face's guide does; the loss of a
 * corpus is that of a decoder in double precision, window by window, and has the same bits whatever
 * the batch and the threads. */

/* --- windows ---------------------------------------------------------------- */

/* The guide's loop: which window predicts each token, -1: none. */
static void guide(int64_t n, int64_t seq, int64_t stride, int64_t *by)
{
    int64_t end_before = 0;

    for (int64_t i = 0; i < n; i++)
        by[i] = -1;
    for (int64_t begin = 0, k = 0; begin < n; begin += stride, k++) {
        const int64_t end = begin + seq < n ? begin + seq : n;

        for (int64_t i = end_before; i < end; i++)
            if (i > begin)
                by[i] = k;
        end_before = end;
        if (end == n)
            break;
    }
}

START_TEST(windows_are_those_of_the_guide)
{
    enum { MOST = 40 };

    for (int64_t n = 2; n < MOST; n++)
        for (int64_t seq = 2; seq < 9; seq++)
            for (int64_t stride = 1; stride <= seq; stride++) {
                const struct spot_windows w = { n, seq, stride, false };
                int64_t want[MOST], got[MOST];

                guide(n, seq, stride, want);
                for (int64_t i = 0; i < n; i++)
                    got[i] = -1;
                for (int64_t k = 0; k < spot_windows_count(&w); k++) {
                    const struct spot_window at = spot_windows_at(&w, k);

                    for (int64_t r = at.first; r < at.n_row; r++) {
                        ck_assert_int_eq(got[at.begin + r + 1], -1);
                        got[at.begin + r + 1] = k;
                    }
                }
                ck_assert_mem_eq(got, want, (size_t)n * sizeof(*got));
            }
}
END_TEST

START_TEST(across_windows_only_the_first_token_is_left_out)
{
    for (int64_t n = 2; n < 40; n++)
        for (int64_t seq = 1; seq < 9; seq++)
            for (int64_t stride = 1; stride <= seq; stride++) {
                const struct spot_windows w = { n, seq, stride, true };
                int64_t next = 1;

                for (int64_t k = 0; k < spot_windows_count(&w); k++) {
                    const struct spot_window at = spot_windows_at(&w, k);

                    ck_assert_int_le(at.n_row, seq);
                    for (int64_t r = at.first; r < at.n_row; r++)
                        ck_assert_int_eq(at.begin + r + 1, next++);
                }
                ck_assert_int_eq(next, n);
            }
}
END_TEST

/* --- the loss ----------------------------------------------------------------- */

enum { TOKENS = 3 * 70 + 11, CASES = 5 };
static const int cases[CASES] = { 0, 1, 2, FIRST_LLAMA, FIRST_LLAMA + 1 };

/* A corpus of the shape's tokens, in memory. */
static struct spot_corpus corpus_of(const struct model *m, uint8_t *token)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 3, (uint64_t)m->shape.vocab);
    for (int i = 0; i < TOKENS; i++)
        token[i] = (uint8_t)spot_rng_below(&rng, (uint64_t)m->shape.vocab);
    return (struct spot_corpus){
        .source = "test", .n_token = TOKENS, .token_byte = 1, .fd = -1, .memory = token
    };
}

/* Sum of the losses of the first n positions of a window: the mean of a model that has no more. */
static double oracle_sum(const struct model *m, const uint8_t *text, int64_t n)
{
    struct f64_model f = { .shape = m->shape, .micro_batch = 1 };
    uint32_t *const token = calloc((size_t)n + 1, sizeof(*token));
    double loss;

    if (!n) {
        free(token);
        return 0;
    }
    f.shape.seq = n;
    f.weight = calloc(BUNDLES_MAX, sizeof(*f.weight));
    f.grad = calloc(BUNDLES_MAX, sizeof(*f.grad));
    for (int b = 0; b < m->n_bundle; b++) {
        const struct spot_arena *const from = &m->bundle[b].arena;
        struct spot_arena to;

        spot_arena_of(&f.shape, b, &to);
        f.weight[b] = f64_new((int64_t)to.n_elem);
        f.grad[b] = f64_new((int64_t)to.n_elem);
        for (int t = 0; t < to.n_tensor; t++)
            for (int s = 0; s < (to.tensor[t].is_sharded ? to.n_shard : 1); s++)
                for (int64_t i = 0; i < to.tensor[t].rows * to.tensor[t].cols; i++)
                    f.weight[b][spot_arena_offset(&to, t, s) + (size_t)i] =
                        (double)m->bundle[b]
                            .plane[SPOT_PLANE_MASTER][spot_arena_offset(from, t, s) + (size_t)i];
    }
    for (int64_t i = 0; i <= n; i++)
        token[i] = text[i];
    loss = f64_microbatch(&f, token);
    for (int b = 0; b < m->n_bundle; b++) {
        free(f.weight[b]);
        free(f.grad[b]);
    }
    free(f.weight);
    free(f.grad);
    free(token);
    return loss * (double)n;
}

static struct spot_evaluation evaluation_of(const struct model *m, const struct spot_corpus *corpus,
                                            int64_t stride, bool across)
{
    return (struct spot_evaluation){ .shape = &m->shape,
                                     .bundle = m->ptr,
                                     .kernel = spot_kernel_find("portable", NULL),
                                     .corpus = corpus,
                                     .stride = stride,
                                     .across = across,
                                     .batch = 1,
                                     .n_thread = 1 };
}

START_TEST(the_loss_is_that_of_the_oracle)
{
    uint8_t text[TOKENS];
    struct model m;

    model_init(&m, cases[_i]);
    const struct spot_corpus corpus = corpus_of(&m, text);
    const int64_t T = m.shape.seq, strides[] = { T, T, (T + 1) / 2, T - 1 };

    for (int i = 0; i < 4; i++) {
        const struct spot_evaluation e = evaluation_of(&m, &corpus, strides[i], i == 1);
        const struct spot_windows w = { TOKENS, T, strides[i], i == 1 };
        struct spot_loss got;
        double want = 0;

        for (int64_t k = 0; k < spot_windows_count(&w); k++) {
            const struct spot_window at = spot_windows_at(&w, k);

            want += oracle_sum(&m, text + at.begin, at.n_row) -
                    oracle_sum(&m, text + at.begin, at.first);
        }
        ck_assert_int_eq(spot_evaluate(&e, &got, NULL), 0);
        ck_assert_double_lt(fabs(got.sum / want - 1), 2e-6);
        ck_assert_int_eq(got.n_window, spot_windows_count(&w));
        if (i == 1)
            ck_assert_int_eq(got.n_predicted, TOKENS - 1);
    }
    model_release(&m);
}
END_TEST

START_TEST(batch_and_threads_change_no_bit)
{
    uint8_t text[TOKENS];
    struct model m;
    const char *name;
    bool runs_here;

    model_init(&m, cases[_i]);
    const struct spot_corpus corpus = corpus_of(&m, text);

    for (size_t i = 0; (name = spot_kernel_list(i, "cpu", &runs_here)); i++) {
        struct spot_evaluation e = evaluation_of(&m, &corpus, m.shape.seq - 1, false);
        struct spot_loss want, got;

        if (!runs_here)
            continue;
        e.kernel = spot_kernel_find(name, NULL);
        ck_assert_int_eq(spot_evaluate(&e, &want, NULL), 0);
        for (int k = 0; k < 4; k++) {
            e.batch = 1 + 2 * k;
            e.n_thread = 1 + k;
            ck_assert_int_eq(spot_evaluate(&e, &got, NULL), 0);
            ck_assert_double_eq(got.sum, want.sum);
            ck_assert_int_eq(got.n_predicted, want.n_predicted);
        }
    }
    model_release(&m);
}
END_TEST

START_TEST(a_corpus_that_predicts_nothing_is_refused)
{
    uint8_t text[TOKENS];
    struct spot_err err = { 0 };
    struct spot_loss loss;
    struct model m;

    model_init(&m, 0);
    struct spot_corpus corpus = corpus_of(&m, text);
    const struct spot_evaluation e = evaluation_of(&m, &corpus, 2, false);

    corpus.n_token = 1;
    ck_assert_int_eq(spot_evaluate(&e, &loss, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    model_release(&m);
}
END_TEST

/* A guess among four, two bits, of each token; 6 tokens of 3 bytes. */
START_TEST(bits_per_byte_count_the_tokens_that_are_not_predicted)
{
    const struct spot_loss loss = { .sum = 5 * log(4), .n_predicted = 5 };

    ck_assert_double_eq_tol(spot_loss_mean(&loss), log(4), 1e-15);
    ck_assert_double_eq_tol(spot_loss_bits_per_byte(&loss, 6, 18), 2.0 / 3, 1e-15);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("evaluate");

    tcase_add_loop_test(tc, the_loss_is_that_of_the_oracle, 0, CASES);
    tcase_add_loop_test(tc, batch_and_threads_change_no_bit, 0, CASES);
    add_tests(tc);
    return run_suite("evaluate", tc);
}
