/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "common/rng.h"
#include "engine/sample.h"
#include "suite.h"

/* Goal: a choice has exactly the distribution that its settings say, by an oracle that sorts and
 * cuts on its own; it is a function of seed, choice and position; ties go to the lower token. */

enum { V = 7, DRAWS = 40000, CASES = 60 };

struct entry {
    double x, p;
    int token;
};

static int by_rank(const void *a, const void *b)
{
    const struct entry *const x = a, *const y = b;

    return x->x != y->x ? (x->x < y->x ? 1 : -1) : x->token - y->token;
}

/* p[V] by the definitions. */
static void oracle(const struct spot_sample *s, const float *logit, const uint32_t *prompt,
                   const uint32_t *generated, double *p)
{
    struct entry e[V];
    double sum = 0, run = 0;
    int n = V;

    for (int i = 0; i < V; i++) {
        double x = (double)logit[i];

        if (prompt[i] + generated[i] > 0)
            x = x > 0 ? x / s->repetition : x * s->repetition;
        x -= s->frequency * generated[i] + (generated[i] ? s->presence : 0);
        e[i] = (struct entry){ x / s->temperature, 0, i };
        p[i] = 0;
    }
    qsort(e, V, sizeof(e[0]), by_rank);
    if (s->top_k > 0 && s->top_k < V)
        n = (int)s->top_k;
    for (int i = 0; i < n; i++)
        sum += e[i].p = exp(e[i].x - e[0].x);
    for (int i = 0; i < n; i++) {
        if (i && (run >= s->top_p * sum || e[i].p < s->min_p * e[0].p))
            n = i;
        else
            run += e[i].p;
    }
    for (int i = 0; i < n; i++)
        p[e[i].token] = e[i].p / run;
}

static struct spot_sample settings(struct spot_rng *rng)
{
    struct spot_sample s = spot_sample_plain;

    s.seed = spot_rng_next(rng);
    s.temperature = 0.3 + 1.5 * spot_rng_unit(rng);
    s.top_k = (int64_t)spot_rng_below(rng, 2 * V);
    s.top_k = s.top_k > V ? 0 : s.top_k;
    s.top_p = spot_rng_below(rng, 2) ? 0.2 + 0.75 * spot_rng_unit(rng) : 1;
    s.min_p = spot_rng_below(rng, 2) ? 0.5 * spot_rng_unit(rng) : 0;
    s.repetition = spot_rng_below(rng, 2) ? 1.3 : 1;
    s.presence = spot_rng_below(rng, 2) ? 0.4 : 0;
    s.frequency = spot_rng_below(rng, 2) ? 0.2 : 0;
    return s;
}

/* chi-square of at most V - 1 degrees; beyond 40 with a probability below 1e-6 */
START_TEST(draws_have_the_distribution_of_their_settings)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 11, 0);
    for (int c = 0; c < CASES; c++) {
        const struct spot_sample s = settings(&rng);
        float logit[V];
        uint32_t prompt[V], generated[V], n[V] = { 0 };
        const struct spot_sample_past past = { prompt, generated };
        struct spot_sample_work work[V];
        double p[V], chi = 0;

        for (int i = 0; i < V; i++) {
            logit[i] = (float)(3 * spot_rng_unit(&rng) - 1.5);
            prompt[i] = (uint32_t)spot_rng_below(&rng, 2);
            generated[i] = (uint32_t)spot_rng_below(&rng, 3);
        }
        oracle(&s, logit, prompt, generated, p);
        for (uint64_t k = 0; k < DRAWS; k++)
            n[spot_sample_choose(&s, logit, V, &past, k % 3, k, work)]++;
        for (int i = 0; i < V; i++) {
            const double want = p[i] * DRAWS;

            ck_assert_msg(p[i] > 0 || n[i] == 0, "case %d: %d was cut", c, i);
            chi += p[i] > 0 ? (n[i] - want) * (n[i] - want) / want : 0;
        }
        ck_assert_msg(chi < 40, "case %d: chi-square %g", c, chi);
    }
}
END_TEST

START_TEST(noise_is_of_seed_choice_and_position)
{
    const float logit[V] = { 0 };
    struct spot_sample s = spot_sample_plain;
    struct spot_sample_work work[V];
    int n_same[3] = { 0 };

    for (uint64_t k = 0; k < 2000; k++) {
        s.seed = 5;
        const uint32_t x = spot_sample_choose(&s, logit, V, NULL, 1, k, work);

        ck_assert_uint_eq(x, (uint32_t)(V * spot_sample_noise(5, 1, k)));
        ck_assert_uint_eq(x, spot_sample_choose(&s, logit, V, NULL, 1, k, work));
        n_same[0] += x == spot_sample_choose(&s, logit, V, NULL, 2, k, work);
        n_same[1] += x == spot_sample_choose(&s, logit, V, NULL, 1, k + 1, work);
        s.seed = 6;
        n_same[2] += x == spot_sample_choose(&s, logit, V, NULL, 1, k, work);
    }
    for (int i = 0; i < 3; i++) /* 2000 / 7 = 286, 16 is a standard deviation */
        ck_assert(n_same[i] > 190 && n_same[i] < 382);
}
END_TEST

START_TEST(ties_and_ends_are_decided)
{
    const float logit[V] = { 1, 3, 3, -INFINITY, NAN, 3, 2 }, none[2] = { NAN, NAN };
    struct spot_sample s = spot_sample_plain;
    struct spot_sample_work work[V];

    s.temperature = 0;
    ck_assert_uint_eq(spot_sample_choose(&s, logit, V, NULL, 0, 0, work), 1);
    ck_assert_uint_eq(spot_sample_choose(&s, none, 2, NULL, 0, 0, work), 0);
    s.temperature = 1;
    for (uint64_t k = 0; k < 500; k++) {
        uint32_t x;

        s.top_k = 2; /* of three that are equal, the lower two */
        x = spot_sample_choose(&s, logit, V, NULL, 0, k, work);
        ck_assert(x == 1 || x == 2);
        s.top_k = 0;
        x = spot_sample_choose(&s, logit, V, NULL, 0, k, work);
        ck_assert(x != 3 && x != 4);
        s.top_k = 1;
        ck_assert_uint_eq(spot_sample_choose(&s, logit, V, NULL, 0, k, work), 1);
    }
}
END_TEST

/* What was there before takes the long way, whose zeros change nothing. */
START_TEST(the_largest_is_the_same_with_and_without_a_past)
{
    static const float some[] = { NAN, -INFINITY, INFINITY, -1, 0, 0, 2 };
    const uint32_t none[V] = { 0 };
    const struct spot_sample_past past = { none, none };
    struct spot_sample s = spot_sample_plain;
    struct spot_sample_work work[V];
    struct spot_rng rng;

    s.temperature = 0;
    spot_rng_init(&rng, 7, 0);
    for (int k = 0; k < 5000; k++) {
        float logit[V];

        for (int i = 0; i < V; i++)
            logit[i] = some[spot_rng_below(&rng, sizeof(some) / sizeof(*some) - (k % 3 == 0))];
        ck_assert_uint_eq(spot_sample_choose(&s, logit, V, NULL, 0, 0, work),
                          spot_sample_choose(&s, logit, V, &past, 0, 0, work));
    }
}
END_TEST

/* What has no words is padding; what is not a number is no probability. */
START_TEST(log_probabilities_are_those_of_the_logits)
{
    struct spot_shape shape = { .vocab = V, .n_shard = 1 };
    float logit[V] = { 1, 3, 3, -INFINITY, -2, 3, 2 };
    const double norm = log(3 * exp(3) + exp(2) + exp(1) + exp(-2));

    for (; shape.n_shard < 12; shape.n_shard++)
        for (uint32_t v = 0; v < V; v++) {
            const double got = spot_sample_logprob(&shape, logit, v);

            ck_assert(v == 3 ? isinf(got) && got < 0 : fabs(got - (logit[v] - norm)) < 1e-6);
            ck_assert(got == logit[v] - spot_sample_norm(&shape, logit));
        }
    logit[4] = NAN;
    ck_assert(isnan(spot_sample_logprob(&shape, logit, 0)));
}
END_TEST

int main(void)
{
    return run_suite("sample", add_tests(tcase_create("sample")));
}
