/* SPDX-License-Identifier: MIT */
#include "model/serve_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

enum { TERMS = 3, TURNS = 8 };

/* --- who was answered beside whom --- */

/* Starts and ends of a replica's, ascending, with sums of those before. */
struct crowd {
    size_t n;
    double *begin, *end, *begin_sum, *end_sum; /* sums: [n + 1] */
};

struct moment {
    double at_s;
    size_t sample;
    bool begins;
};

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->at_s < y->at_s || x->at_s > y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    if (x->begins != y->begins) /* who ends makes room */
        return x->begins ? 1 : -1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static double begin_of(const struct spot_serve_sample *s)
{
    return s->came_s + s->queue_s;
}

static double end_of(const struct spot_serve_sample *s)
{
    return s->came_s + s->e2e_s;
}

/* A log does not say who answered. Each goes to the least filled, as the server does it: which of
 * equals does not matter. */
static void seat(const struct spot_serve_sample *s, size_t n, size_t replicas, size_t *replica)
{
    struct moment *m = spot_xcalloc(2 * n, sizeof(*m));
    size_t *fill = spot_xcalloc(replicas, sizeof(*fill));

    for (size_t i = 0; i < n; i++) {
        m[2 * i] = (struct moment){ begin_of(&s[i]), i, true };
        m[2 * i + 1] = (struct moment){ end_of(&s[i]), i, false };
    }
    qsort(m, 2 * n, sizeof(*m), by_time);
    for (size_t k = 0; k < 2 * n; k++) {
        size_t best = 0;

        for (size_t r = 1; r < replicas && m[k].begins; r++)
            best = fill[r] < fill[best] ? r : best;
        if (m[k].begins)
            fill[replica[m[k].sample] = best]++;
        else
            fill[replica[m[k].sample]]--;
    }
    free(m), free(fill);
}

static void crowd_init(struct crowd *c, const struct spot_serve_sample *s, size_t n,
                       const size_t *replica, size_t which)
{
    *c = (struct crowd){ .begin = spot_xcalloc(4 * n + 2, sizeof(double)) };
    c->end = c->begin + n;
    c->begin_sum = c->end + n;
    c->end_sum = c->begin_sum + n + 1;
    for (size_t i = 0; i < n; i++)
        if (replica[i] == which) {
            c->begin[c->n] = begin_of(&s[i]);
            c->end[c->n++] = end_of(&s[i]);
        }
    if (c->n) {
        qsort(c->begin, c->n, sizeof(double), spot_num_compare);
        qsort(c->end, c->n, sizeof(double), spot_num_compare);
    }
    for (size_t i = 0; i < c->n; i++) {
        c->begin_sum[i + 1] = c->begin_sum[i] + c->begin[i];
        c->end_sum[i + 1] = c->end_sum[i] + c->end[i];
    }
}

static size_t count_below(const double *x, size_t n, double t)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (x[mid] < t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Request-seconds up to t. */
static double area(const struct crowd *c, double t)
{
    const size_t b = count_below(c->begin, c->n, t), e = count_below(c->end, c->n, t);

    return (double)b * t - c->begin_sum[b] - ((double)e * t - c->end_sum[e]);
}

static double mates(const struct crowd *c, double from_s, double to_s, double most)
{
    const double n = to_s > from_s ? (area(c, to_s) - area(c, from_s)) / (to_s - from_s) : 1;

    return fmin(fmax(n, 1), most);
}

/* --- least squares --- */

struct squares {
    double a[TERMS][TERMS], b[TERMS];
};

static void add_square(struct squares *q, const double *x, double y)
{
    for (int i = 0; i < TERMS; i++) {
        q->b[i] += x[i] * y;
        for (int k = 0; k < TERMS; k++)
            q->a[i][k] += x[i] * x[k];
    }
}

/* Terms that are used; the others are 0. Gauss; false where they hardly differ. */
static bool solve(const struct squares *q, const bool *used, double *x)
{
    double a[TERMS][TERMS + 1];
    int at[TERMS] = { 0 }, n = 0;

    memset(x, 0, TERMS * sizeof(*x));
    for (int i = 0; i < TERMS; i++)
        if (used[i])
            at[n++] = i;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++)
            a[i][k] = q->a[at[i]][at[k]];
        a[i][n] = q->b[at[i]];
    }
    for (int i = 0; i < n; i++) {
        if (!(a[i][i] > 1e-9 * q->a[at[i]][at[i]]) || !(a[i][i] > 0))
            return false;
        for (int r = i + 1; r < n; r++)
            for (int k = n; k >= i; k--)
                a[r][k] -= a[r][i] / a[i][i] * a[i][k];
    }
    for (int i = n - 1; i >= 0; i--) {
        double sum = a[i][n];

        for (int k = i + 1; k < n; k++)
            sum -= a[i][k] * x[at[k]];
        x[at[i]] = sum / a[i][i];
    }
    return true;
}

/* Drop the last term that is negative, or that tells nothing, until none is. */
static void solve_positive(const struct squares *q, double *x)
{
    bool used[TERMS] = { true, true, true };

    for (int left = TERMS; left; left--) {
        int bad = -1;

        if (solve(q, used, x)) {
            for (int i = 1; i < TERMS; i++)
                if (used[i] && x[i] < 0)
                    bad = i;
            if (bad < 0)
                return;
        } else {
            for (int i = 1; i < TERMS; i++)
                if (used[i])
                    bad = i;
        }
        if (bad < 0)
            return;
        used[bad] = false;
    }
}

/* --- the fit --- */

struct fit {
    const struct spot_serve_sample *s;
    size_t n;
    double most;            /* requests of a replica at once */
    double prompt, context; /* means */
    double token[TERMS], first[TERMS];
    double *n_token, *n_first; /* [n] who shared */
    double *n_join;            /* [n] whose prompts came between the tokens of it */
};

static double token_s(const struct fit *f, double n, double context)
{
    return f->token[0] + f->token[1] * (n - 1) + f->token[2] * n * (context - f->context);
}

/* Passes of others, when the request came and with its prompt. */
static double others_s(const struct fit *f, size_t i)
{
    const double n = f->n_first[i] - 1;

    return n > 0 ? 1.5 * fmin(n, 1) * token_s(f, fmax(n, 1), f->context) : 0;
}

/* A prompt of the mean length, and its first token: what it keeps the others waiting. */
static double join_s(const struct fit *f)
{
    return f->first[0] + token_s(f, 1, f->prompt);
}

static double context_of(const struct spot_serve_sample *s)
{
    return (double)s->prompt_token + (double)s->output_token / 2;
}

static void fit_tokens(struct fit *f)
{
    struct squares q = { 0 };

    for (size_t i = 0; i < f->n; i++) {
        const struct spot_serve_sample *s = &f->s[i];
        const double n = f->n_token[i];
        const double x[TERMS] = { 1, n - 1, n * (context_of(s) - f->context) };

        add_square(&q, x,
                   (s->e2e_s - s->ttft_s - f->n_join[i] * join_s(f)) /
                       (double)(s->output_token - 1));
    }
    solve_positive(&q, f->token);
}

static void fit_prompts(struct fit *f)
{
    struct squares q = { 0 };

    for (size_t i = 0; i < f->n; i++) {
        const struct spot_serve_sample *s = &f->s[i];
        const double x[TERMS] = { 1, (double)s->prompt_token - f->prompt, 0 };

        add_square(&q, x,
                   s->ttft_s - s->queue_s - token_s(f, 1, (double)s->prompt_token) -
                       others_s(f, i));
    }
    solve_positive(&q, f->first);
}

static void fit_spread(const struct fit *f, struct spot_job_serve *serve)
{
    double *ratio = spot_xcalloc(f->n, sizeof(*ratio)), mean = 0;

    for (size_t i = 0; i < f->n; i++) {
        const struct spot_serve_sample *s = &f->s[i];
        const double first_s = f->first[0] + f->first[1] * ((double)s->prompt_token - f->prompt) +
                               token_s(f, 1, (double)s->prompt_token) + others_s(f, i);
        const double rest_s =
            (double)(s->output_token - 1) * token_s(f, f->n_token[i], context_of(s)) +
            f->n_join[i] * join_s(f);

        ratio[i] = (s->e2e_s - s->queue_s) / fmax(first_s + rest_s, 1e-9);
        mean += ratio[i] / (double)f->n;
    }
    qsort(ratio, f->n, sizeof(*ratio), spot_num_compare);
    serve->n_spread = SPOT_SERVE_FIT_QUANTILES;
    serve->spread = spot_xcalloc(serve->n_spread, sizeof(*serve->spread));
    for (size_t k = 0; k < serve->n_spread; k++) {
        const double x = (double)k / (double)(serve->n_spread - 1) * (double)(f->n - 1);
        const size_t i = x < (double)(f->n - 1) ? (size_t)x : f->n - 2;

        serve->spread[k] =
            fmax((ratio[i] + (x - (double)i) * (ratio[i + 1] - ratio[i])) / mean, 1e-6);
    }
    for (size_t i = 0; i < serve->n_cell; i++) {
        serve->cell[i].prefill_s *= mean, serve->cell[i].prefill_token_s *= mean;
        serve->cell[i].decode_s *= mean, serve->cell[i].decode_token_s *= mean;
    }
    free(ratio);
}

/* Prompts are computed one after another. A length of one still takes a thousandth of its time. */
static void fill_cells(const struct fit *f, struct spot_job_serve *s)
{
    const double least = 1 - 1e-3, context = (double)s->prompt_token + (double)s->output_token / 2;

    s->cell = spot_xcalloc(16, sizeof(*s->cell));
    for (int64_t B = 1; B <= s->max_batch; B *= 2) {
        struct spot_serve_cell *c = &s->cell[s->n_cell++];

        *c = (struct spot_serve_cell){ .M = 1, .B = B };
        c->decode_s = fmax(token_s(f, (double)B, context), 1e-9);
        c->prefill_s =
            (double)B *
            fmax(f->first[0] + f->first[1] * ((double)s->prompt_token - f->prompt), 1e-9);
        c->prefill_token_s =
            fmin((double)B * f->first[1], least * c->prefill_s / (double)s->prompt_token);
        if (f->first[1] > 0)
            c->decode_token_s = fmin((double)B * f->token[2], least * c->decode_s / context);
    }
}

/* Who can be measured: with time between tokens. */
static size_t keep(const struct spot_serve_sample *s, size_t n, struct spot_serve_sample *kept)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++)
        if (s[i].output_token > 1 && s[i].queue_s >= 0 && s[i].ttft_s >= s[i].queue_s &&
            s[i].e2e_s > s[i].ttft_s)
            kept[m++] = s[i];
    return m;
}

/* Means of lengths, and for each request who shared its passes and whose prompts came between. */
static double measure(struct fit *f, size_t replicas)
{
    size_t *replica = spot_xcalloc(f->n, sizeof(*replica));
    double output = 0;

    seat(f->s, f->n, replicas, replica);
    for (size_t r = 0; r < replicas; r++) {
        struct crowd c;

        crowd_init(&c, f->s, f->n, replica, r);
        for (size_t i = 0; i < f->n; i++) {
            const struct spot_serve_sample *s = &f->s[i];
            const double first_s = s->came_s + s->ttft_s;

            if (replica[i] != r)
                continue;
            f->prompt += (double)s->prompt_token / (double)f->n;
            output += (double)s->output_token / (double)f->n;
            f->n_first[i] = mates(&c, begin_of(s), first_s, f->most);
            f->n_token[i] = mates(&c, first_s, end_of(s), f->most);
            if (f->most > 1)
                f->n_join[i] = (double)(count_below(c.begin, c.n, end_of(s)) -
                                        count_below(c.begin, c.n, nextafter(first_s, INFINITY)));
        }
        free(c.begin);
    }
    free(replica);
    f->context = f->prompt + output / 2;
    return output;
}

int spot_serve_fit(struct spot_job_serve *serve, const struct spot_serve_sample *sample, size_t n,
                   int64_t replicas, int64_t max_batch, struct spot_err *err)
{
    struct spot_serve_sample *kept = spot_xcalloc(n, sizeof(*kept));
    struct fit f = { .s = kept, .most = (double)max_batch };

    *serve = spot_job_serve_absent;
    f.n = keep(sample, n, kept);
    if (f.n < SPOT_SERVE_FIT_LEAST) {
        free(kept);
        return spot_err_set(err, SPOT_EDATA,
                            "%zu requests with two tokens or more, expected at least %d", f.n,
                            SPOT_SERVE_FIT_LEAST);
    }
    f.n_token = spot_xcalloc(3 * f.n, sizeof(double));
    f.n_first = f.n_token + f.n;
    f.n_join = f.n_first + f.n;
    serve->output_token = llround(measure(&f, (size_t)replicas));
    for (int turn = 0; turn < TURNS; turn++) { /* each is taken off what the other is fitted to */
        fit_tokens(&f);
        fit_prompts(&f);
    }
    serve->is_given = true;
    serve->layers = serve->stage_layers = 1;
    serve->max_batch = max_batch;
    serve->parts_add_up = true; /* one replica as a whole: it computes a batch's parts in turn */
    serve->prompt_token = llround(f.prompt);
    fill_cells(&f, serve);
    fit_spread(&f, serve);
    free(f.n_token), free(kept);
    return 0;
}
