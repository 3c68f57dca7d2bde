/* SPDX-License-Identifier: MIT */
#include "model/serve_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

enum { TERMS = 3, TURNS = 12, SHARING_MAX = SPOT_SERVE_SHARING_MAX };

/* --- progress on the replicas --- */

enum stage {
    ENDS,
    TELLS,
    BEGINS,
    STAGES
}; /* at equal times in this order: an end makes room first */

struct moment {
    double at_s;
    size_t sample;
    enum stage stage;
};

/* Progress of one replica up to a moment. Seconds are those that it would have taken alone on its
 * machine. "By the model" means with the current fit. */
struct passed {
    /* while no prompt was computed: time, passes by the model, and the sum over passes of the
     * requests sharing them */
    double token_s, token_pass, token_mate;
    /* while prompts were computed: time, and the time by the model */
    double spell_s, spell_law_s;
    double spell_pass; /* passes for requests with tokens meanwhile */
};

/* An interval in which a replica always had prompts to compute, one after another or together. */
struct spell {
    /* other_s: the part of it in passes for requests with tokens, by the model */
    double took_s, other_s;
    /* prompts that came to an idle replica (0 or 1), and prompts that met others */
    double alone, joined;
    double longer; /* tokens beyond the mean, summed over the prompts */
    double law_over_took;
};

struct replica {
    size_t n_token, n_prompt; /* current requests: with their first token, without it */
    struct passed passed;
    struct spell *spell; /* the last spell */
    double told_s;       /* time of the last pass that gave a first token */
};

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

/* Gaussian elimination over the terms that are used; the others are 0. False if terms can hardly be
 * told apart. */
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

/* Solve repeatedly, dropping the last term that is negative or not determined by the data. */
static void solve_positive(const struct squares *q, double *x)
{
    bool used[TERMS];

    for (int i = 0; i < TERMS; i++)
        used[i] = q->a[i][i] > 0;
    for (int left = TERMS; left; left--) {
        const bool is_solved = solve(q, used, x);
        int bad = -1;

        for (int i = 0; i < TERMS; i++)
            if (used[i] && (!is_solved || x[i] < 0))
                bad = i;
        if (bad < 0)
            return;
        used[bad] = false;
    }
    memset(x, 0, TERMS * sizeof(*x));
}

/* --- the fit --- */

/* terms of prompts; those that the data do not determine are dropped from the end */
enum term { ALONE, JOINED, LONGER };

struct fit {
    const struct spot_serve_sample *s;
    size_t n, n_replica;
    double most;            /* most requests on a replica at once */
    double prompt, context; /* mean prompt and mean context */
    double token[TERMS];    /* coefficients a, b, c of a pass */
    double first[TERMS];    /* by enum term: the pass of a prompt and its first token */
    double sharing[SHARING_MAX];
    bool shares_machine;
    struct moment *moment; /* [STAGES * n] sorted by time */
    size_t *seat;          /* [n] the replica that answered */
    struct replica *replica;
    struct passed *passed; /* [STAGES * n] progress of its replica at the moments of each request */
    size_t n_sharing;      /* number of replicas that can be busy at once and are distinguished */
    double *busy_s;        /* [n * n_sharing] seconds of an answer, by number of busy replicas */
    double *at_work_s;     /* [n_sharing] the same, summed from the start of the log */
    struct spell *spell;   /* [n_spell] in the order of their first prompts */
    size_t n_spell;
};

static double begin_of(const struct spot_serve_sample *s)
{
    return s->came_s + s->queue_s;
}

static double context_of(const struct spot_serve_sample *s)
{
    return (double)s->prompt_token + (double)s->output_token / 2;
}

static double token_s(const struct fit *f, double n, double context)
{
    return f->token[0] + f->token[1] * (n - 1) + f->token[2] * n * (context - f->context);
}

/* Seconds of a pass with a token for each of n requests at the mean context; 1 while nothing is
 * fitted yet. */
static double pass_s(const struct fit *f, size_t n)
{
    const double s = token_s(f, fmin((double)n, f->most), f->context);

    return s > 0 ? s : 1;
}

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->at_s < y->at_s || x->at_s > y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

/* The log does not say which replica answered, so each request goes to the least loaded one, as in
 * the server; which of equal ones does not matter. */
static void seat_all(struct fit *f)
{
    size_t *fill = spot_xcalloc(f->n_replica, sizeof(*fill));

    for (size_t i = 0; i < f->n; i++) {
        const struct spot_serve_sample *s = &f->s[i];

        f->moment[STAGES * i] = (struct moment){ begin_of(s), i, BEGINS };
        f->moment[STAGES * i + 1] = (struct moment){ s->came_s + s->ttft_s, i, TELLS };
        f->moment[STAGES * i + 2] = (struct moment){ s->came_s + s->e2e_s, i, ENDS };
    }
    qsort(f->moment, STAGES * f->n, sizeof(*f->moment), by_time);
    for (size_t k = 0; k < STAGES * f->n; k++) {
        const struct moment *m = &f->moment[k];
        size_t best = 0;

        for (size_t r = 1; r < f->n_replica && m->stage == BEGINS; r++)
            best = fill[r] < fill[best] ? r : best;
        if (m->stage == BEGINS)
            fill[f->seat[m->sample] = best]++;
        else if (m->stage == ENDS)
            fill[f->seat[m->sample]]--;
    }
    free(fill);
}

/* --- one pass over the log --- */

static void pass_time(const struct fit *f, struct replica *r, double s)
{
    struct passed *p = &r->passed;

    if (r->n_prompt) {
        p->spell_s += s;
        p->spell_law_s += s * r->spell->law_over_took;
        r->spell->took_s += s;
    } else if (r->n_token) {
        p->token_s += s;
        p->token_pass += s / pass_s(f, r->n_token);
        p->token_mate += s / pass_s(f, r->n_token) * (double)r->n_token;
    }
}

/* Begin a prompt. It waits for the current pass, of which half is left on average. */
static void begin_prompt(struct fit *f, struct replica *r, const struct spot_serve_sample *s)
{
    const bool is_alone = !r->n_prompt && !r->n_token;

    if (!r->n_prompt++) {
        r->spell = &f->spell[f->n_spell++];
        r->spell->took_s = 0;
        r->spell->alone = r->spell->joined = r->spell->longer = 0;
        r->spell->other_s = r->n_token ? pass_s(f, r->n_token) / 2 : 0;
        r->passed.spell_pass += r->n_token ? 0.5 : 0;
    }
    r->spell->alone += is_alone;
    r->spell->joined += !is_alone;
    r->spell->longer += (double)s->prompt_token - f->prompt;
}

/* Several prompts may end in one pass, although their tokens are reported at slightly different
 * times. */
static void tell_first(const struct fit *f, struct replica *r, double at_s)
{
    if (at_s > r->told_s + pass_s(f, 1) / 2) {
        r->spell->other_s += r->n_token ? pass_s(f, r->n_token) : 0;
        r->passed.spell_pass++;
        r->told_s = at_s;
    }
    r->n_prompt--;
    r->n_token++;
}

static size_t count_busy(const struct fit *f)
{
    size_t n = 0;

    for (size_t r = 0; r < f->n_replica; r++)
        n += f->replica[r].n_prompt + f->replica[r].n_token > 0;
    return n;
}

static void pass_to(struct fit *f, double s)
{
    const size_t busy = count_busy(f), at = (busy < f->n_sharing ? busy : f->n_sharing) - 1;

    if (!busy)
        return;
    f->at_work_s[at] += s;
    for (size_t r = 0; r < f->n_replica; r++)
        pass_time(f, &f->replica[r], s / f->sharing[at]);
}

static void note(struct fit *f, const struct moment *m)
{
    double *busy_s = f->busy_s + m->sample * f->n_sharing;

    f->passed[STAGES * m->sample + (size_t)m->stage] = f->replica[f->seat[m->sample]].passed;
    for (size_t k = 0; k < f->n_sharing && m->stage != TELLS; k++)
        busy_s[k] = m->stage == BEGINS ? f->at_work_s[k] : f->at_work_s[k] - busy_s[k];
}

static void walk(struct fit *f)
{
    double now_s = f->moment[0].at_s;

    f->n_spell = 0;
    memset(f->replica, 0, f->n_replica * sizeof(*f->replica));
    memset(f->at_work_s, 0, f->n_sharing * sizeof(*f->at_work_s));
    for (size_t r = 0; r < f->n_replica; r++)
        f->replica[r].told_s = -INFINITY;
    for (size_t k = 0; k < STAGES * f->n; k++) {
        const struct moment *m = &f->moment[k];
        struct replica *r = &f->replica[f->seat[m->sample]];

        pass_to(f, m->at_s - now_s);
        now_s = m->at_s;
        if (m->stage == BEGINS)
            begin_prompt(f, r, &f->s[m->sample]);
        else if (m->stage == TELLS)
            tell_first(f, r, now_s);
        else
            r->n_token--;
        note(f, m);
    }
}

/* The progress between two stages of an answer. */
static struct passed between(const struct fit *f, size_t i, enum stage from, enum stage to)
{
    const struct passed *a = &f->passed[STAGES * i + (size_t)from];
    const struct passed *b = &f->passed[STAGES * i + (size_t)to];

    return (struct passed){ b->token_s - a->token_s,         b->token_pass - a->token_pass,
                            b->token_mate - a->token_mate,   b->spell_s - a->spell_s,
                            b->spell_law_s - a->spell_law_s, b->spell_pass - a->spell_pass };
}

/* --- fits --- */

/* The number of passes of an answer in which no prompt was computed, and the mean number of
 * requests that shared them. */
static double plain_passes(const struct fit *f, size_t i, double *mates)
{
    const struct passed p = between(f, i, TELLS, ENDS);

    *mates = p.token_pass > 0 ? fmin(fmax(p.token_mate / p.token_pass, 1), f->most) : 1;
    return (double)(f->s[i].output_token - 1) - p.spell_pass;
}

static void fit_tokens(struct fit *f)
{
    struct squares q = { 0 };

    for (size_t i = 0; i < f->n; i++) {
        double mates;
        const double n = plain_passes(f, i, &mates);
        const double x[TERMS] = { 1, mates - 1, mates * (context_of(&f->s[i]) - f->context) };

        if (n >= 1)
            add_square(&q, x, between(f, i, TELLS, ENDS).token_s / n);
    }
    solve_positive(&q, f->token);
}

static double prompts_s(const struct fit *f, const struct spell *s)
{
    return f->first[ALONE] * s->alone + f->first[JOINED] * s->joined + f->first[LONGER] * s->longer;
}

static void fit_prompts(struct fit *f)
{
    struct squares q = { 0 };

    for (size_t k = 0; k < f->n_spell; k++) {
        const struct spell *s = &f->spell[k];
        const double x[TERMS] = { s->alone, s->joined, s->longer };

        add_square(&q, x, s->took_s - s->other_s);
    }
    solve_positive(&q, f->first);
    if (f->first[ALONE] <= 0) /* no prompt came alone, or none met others */
        f->first[ALONE] = f->first[JOINED];
    if (f->first[JOINED] <= 0)
        f->first[JOINED] = f->first[ALONE];
    for (size_t k = 0; k < f->n_spell; k++) {
        struct spell *s = &f->spell[k];

        s->law_over_took = s->took_s > 0 ? fmax(s->other_s + prompts_s(f, s), 0) / s->took_s : 1;
    }
}

/* The measured time of an answer, and its time by the model. */
static double took_s(const struct fit *f, size_t i, double *law_s)
{
    const struct passed p = between(f, i, BEGINS, ENDS);
    double mates;
    const double n = plain_passes(f, i, &mates);

    *law_s = fmax(fmax(n, 0) * token_s(f, mates, context_of(&f->s[i])) + p.spell_law_s, 1e-9);
    return p.token_s + p.spell_s;
}

/* Fit how much longer answers take while many replicas are busy. */
static void fit_sharing(struct fit *f)
{
    double took[SHARING_MAX] = { 0 }, law[SHARING_MAX] = { 0 }, least = 0;

    for (size_t i = 0; i < f->n; i++) {
        const double *busy_s = f->busy_s + i * f->n_sharing;
        double law_s, all_s = 0;
        const double s = took_s(f, i, &law_s);

        for (size_t k = 0; k < f->n_sharing; k++)
            all_s += busy_s[k];
        for (size_t k = 0; k < f->n_sharing && all_s > 0; k++) {
            took[k] += s * busy_s[k] / all_s;
            law[k] += law_s * busy_s[k] / all_s;
        }
    }
    for (size_t k = 0; k < f->n_sharing; k++) {
        if (law[k] > 0)
            f->sharing[k] *= took[k] / law[k];
        if (law[k] > 0 && least <= 0)
            least = f->sharing[k];
    }
    for (size_t k = 0; k < f->n_sharing && least > 0; k++)
        f->sharing[k] = fmax(law[k] > 0 ? f->sharing[k] / least : 1, k ? f->sharing[k - 1] : 1);
}

static void fill_spread(const struct fit *f, struct spot_job_serve *serve)
{
    double *ratio = spot_xcalloc(f->n, sizeof(*ratio)), mean = 0;

    for (size_t i = 0; i < f->n; i++) {
        double law_s;

        ratio[i] = took_s(f, i, &law_s);
        ratio[i] /= law_s;
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

/* Fill the profile. Prompts are computed one after another. Even if lengths have no effect, they
 * get a thousandth of the time. */
static void fill_cells(const struct fit *f, struct spot_job_serve *s)
{
    const double least = 1 - 1e-3, context = (double)s->prompt_token + (double)s->output_token / 2;
    const double alone_s = f->first[ALONE] - token_s(f, 1, f->prompt);
    const double slope = f->first[LONGER];

    s->cell = spot_xcalloc(16, sizeof(*s->cell));
    for (int64_t B = 1; B <= s->max_batch; B *= 2) {
        struct spot_serve_cell *c = &s->cell[s->n_cell++];

        *c = (struct spot_serve_cell){ .M = 1, .B = B };
        c->decode_s = fmax(token_s(f, (double)B, context), 1e-9);
        c->prefill_s =
            (double)B * fmax(alone_s + slope * ((double)s->prompt_token - f->prompt), 1e-9);
        c->prefill_token_s =
            fmin((double)B * slope, least * c->prefill_s / (double)s->prompt_token);
        if (slope > 0)
            c->decode_token_s = fmin((double)B * f->token[2], least * c->decode_s / context);
        if (f->first[ALONE] > 0)
            c->join = f->first[JOINED] / f->first[ALONE];
    }
}

static void fill_sharing(const struct fit *f, struct spot_job_serve *s)
{
    if (!f->shares_machine)
        return;
    s->n_sharing = f->n_sharing;
    s->sharing = spot_xcalloc(s->n_sharing, sizeof(*s->sharing));
    memcpy(s->sharing, f->sharing, s->n_sharing * sizeof(*s->sharing));
}

/* Keep the usable requests: those with times to the first token and after it. */
static size_t keep(const struct spot_serve_sample *s, size_t n, struct spot_serve_sample *kept)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++)
        if (s[i].output_token > 1 && s[i].queue_s >= 0 && s[i].ttft_s > s[i].queue_s &&
            s[i].e2e_s > s[i].ttft_s)
            kept[m++] = s[i];
    return m;
}

/* Compute the mean lengths; returns that of answers. */
static double take_means(struct fit *f)
{
    double output = 0;

    for (size_t i = 0; i < f->n; i++) {
        f->prompt += (double)f->s[i].prompt_token;
        output += (double)f->s[i].output_token;
    }
    f->prompt /= (double)f->n; /* exact if all are equal, so that no false slope appears */
    output /= (double)f->n;
    f->context = f->prompt + output / 2;
    return output;
}

static void take_memory(struct fit *f)
{
    f->n_sharing = f->n_replica < SHARING_MAX ? f->n_replica : SHARING_MAX;
    f->moment = spot_xcalloc(STAGES * f->n, sizeof(*f->moment));
    f->seat = spot_xcalloc(f->n, sizeof(*f->seat));
    f->replica = spot_xcalloc(f->n_replica, sizeof(*f->replica));
    f->passed = spot_xcalloc(STAGES * f->n, sizeof(*f->passed));
    f->busy_s = spot_xcalloc(f->n * f->n_sharing, sizeof(double));
    f->at_work_s = spot_xcalloc(f->n_sharing, sizeof(double));
    f->spell = spot_xcalloc(f->n, sizeof(*f->spell));
    for (size_t k = 0; k < f->n_sharing; k++)
        f->sharing[k] = 1;
}

static void release(struct fit *f)
{
    free(f->moment), free(f->seat), free(f->replica), free(f->passed);
    free(f->busy_s), free(f->at_work_s), free(f->spell);
}

int spot_serve_fit(struct spot_job_serve *serve, const struct spot_serve_logged *logged,
                   struct spot_err *err)
{
    struct spot_serve_sample *kept = spot_xcalloc(logged->n, sizeof(*kept));
    struct fit f = { .s = kept,
                     .n_replica = (size_t)logged->replicas,
                     .most = (double)logged->max_batch,
                     .shares_machine = logged->shares_machine };

    *serve = spot_job_serve_absent;
    f.n = keep(logged->sample, logged->n, kept);
    if (f.n < SPOT_SERVE_FIT_LEAST) {
        free(kept);
        return spot_err_set(err, SPOT_EDATA,
                            "%zu requests with two tokens or more, expected at least %d", f.n,
                            SPOT_SERVE_FIT_LEAST);
    }
    take_memory(&f);
    serve->output_token = llround(take_means(&f));
    seat_all(&f);
    /* alternate: each part is subtracted from what the other is fitted to */
    for (int turn = 0; turn < TURNS; turn++) {
        walk(&f);
        fit_tokens(&f);
        fit_prompts(&f);
        if (f.shares_machine)
            fit_sharing(&f);
    }
    serve->is_given = true;
    serve->layers = serve->stage_layers = 1;
    serve->max_batch = logged->max_batch;
    /* a replica as a whole: it computes the parts of a batch one after another */
    serve->parts_add_up = true;
    serve->prompt_token = llround(f.prompt);
    fill_cells(&f, serve);
    fill_sharing(&f, serve);
    fill_spread(&f, serve);
    release(&f);
    free(kept);
    return 0;
}
