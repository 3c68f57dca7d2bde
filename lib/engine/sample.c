/* SPDX-License-Identifier: MIT */
#include "engine/sample.h"

#include <math.h>
#include <stdbool.h>

#include "common/rng.h"
#include "engine/cpu/kernel_cpu.h"
#include "engine/rope.h"
#include "engine/tree.h"

const struct spot_sample spot_sample_plain = { .temperature = 1, .top_p = 1, .repetition = 1 };

double spot_sample_noise(uint64_t seed, uint64_t choice, uint64_t position)
{
    return (double)(spot_rng_mix(spot_rng_mix(seed, choice), position) >> 11) * 0x1p-53;
}

/* --- log probabilities ----------------------------------------------------------- */

struct exponentials {
    const struct spot_vec *vec;
    const float *logit;
    int64_t n, per_shard;
    float top;
};

/* Their sum over shards [s, s + n), in the order of engine/tree.h; the last tokens of the
 * vocabulary may be padding. */
static float sum_shards(const struct exponentials *e, int s, int n)
{
    const int half = spot_tree_half(n);
    const int64_t begin = s * e->per_shard, left = e->n - begin;

    if (n == 1)
        return e->vec->exp_total(e->logit + begin, left < e->per_shard ? left : e->per_shard,
                                 e->top);
    return sum_shards(e, s, half) + sum_shards(e, s + half, n - half);
}

double spot_sample_norm(const struct spot_shape *shape, const float *logit)
{
    const struct spot_vec *const vec = spot_cpu_vec();
    const struct exponentials e = { vec, logit, shape->vocab,
                                    spot_shape_vocab_rows(shape) / shape->n_shard,
                                    vec->max(logit, shape->vocab) };

    return spot_log((double)sum_shards(&e, 0, (int)shape->n_shard)) + (double)e.top;
}

double spot_sample_logprob(const struct spot_shape *shape, const float *logit, uint32_t token)
{
    return (double)logit[token] - spot_sample_norm(shape, logit);
}

/* --- choosing -------------------------------------------------------------------- */

static double penalised(const struct spot_sample *s, double x, uint32_t prompt, uint32_t generated)
{
    if (prompt || generated)
        x = x > 0 ? x / s->repetition : x * s->repetition;
    if (generated)
        x -= s->presence + s->frequency * (double)generated;
    return x;
}

/* --- a heap of candidates, the first on top --- */

static bool comes_before(const struct spot_sample_work *a, const struct spot_sample_work *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

static void sink(struct spot_sample_work *w, int64_t n, int64_t i)
{
    const struct spot_sample_work x = w[i];

    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && comes_before(&w[child + 1], &w[child]))
            child++;
        if (!comes_before(&w[child], &x))
            break;
        w[i] = w[child];
        i = child;
    }
    w[i] = x;
}

/* Moves the top to w[n - 1], after the heap, whose size is then n - 1. */
static void pop(struct spot_sample_work *w, int64_t n)
{
    const struct spot_sample_work top = w[0];

    w[0] = w[n - 1];
    w[n - 1] = top;
    sink(w, n - 1, 0);
}

/* Moves the kept candidates to the end of w, the best one last; returns their number. */
static int64_t cut(const struct spot_sample *s, struct spot_sample_work *w, int64_t n)
{
    const int64_t k = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    double all = 0, sum = 0;
    int64_t kept = 0, popped = 0;

    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sink(w, n, i);
    for (int64_t i = 0; k == n && i < n; i++)
        all += w[i].weight;
    while (k < n && popped < k) {
        pop(w, n - popped++);
        all += w[n - popped].weight;
    }
    while (kept < k && (kept == 0 || sum < s->top_p * all)) {
        if (kept == popped)
            pop(w, n - popped++);
        if (w[n - 1 - kept].weight < s->min_p * w[n - 1].weight)
            break;
        sum += w[n - 1 - kept++].weight;
    }
    return kept;
}

/* Returns the first candidate at which the running sum exceeds the fraction u of the total; step is
 * 1 or -1. */
static uint32_t draw(const struct spot_sample_work *w, int64_t n, int step, double u)
{
    double all = 0, sum = 0;
    const struct spot_sample_work *last = w;

    for (int64_t i = 0; i < n; i++)
        all += w[i * step].weight;
    for (int64_t i = 0; i < n; i++) {
        if (w[i * step].weight <= 0)
            continue;
        last = &w[i * step];
        sum += last->weight;
        if (sum > u * all)
            break;
    }
    return last->token;
}

static bool knows_tokens(const struct spot_sample_past *past)
{
    return past && (past->n_prompt || past->n_generated);
}

/* The index of the largest logit, the first of equal ones; 0 if all are NaN. */
static uint32_t largest(const float *logit, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        if (logit[i] > logit[best] || isnan(logit[best]))
            best = i;
    return isnan(logit[best]) ? 0 : (uint32_t)best;
}

uint32_t spot_sample_choose(const struct spot_sample *s, const float *logit, int64_t n,
                            const struct spot_sample_past *past, uint64_t choice, uint64_t position,
                            struct spot_sample_work *work)
{
    const double u = spot_sample_noise(s->seed, choice, position);
    int64_t m = 0, best = 0, kept;
    uint32_t token = 0;

    if (s->temperature <= 0 && !knows_tokens(past))
        return largest(logit, n);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t prompt = past && past->n_prompt ? past->n_prompt[i] : 0;
        const uint32_t generated = past && past->n_generated ? past->n_generated[i] : 0;
        const double x = penalised(s, (double)logit[i], prompt, generated);

        if (isnan(x))
            continue;
        work[m] = (struct spot_sample_work){ .logit = x, .token = (uint32_t)i };
        best = x > work[best].logit ? m : best;
        m++;
    }
    if (m && (s->temperature <= 0 || isinf(work[best].logit))) {
        token = work[best].token;
    } else if (m) {
        const double max = work[best].logit;

        for (int64_t i = 0; i < m; i++)
            work[i].weight = spot_exp_down((work[i].logit - max) / s->temperature);
        if (s->top_k > 0 || s->top_p < 1 || s->min_p > 0) {
            kept = cut(s, work, m);
            token = draw(work + m - 1, kept, -1, u);
        } else {
            token = draw(work, m, 1, u);
        }
    }
    return token;
}
