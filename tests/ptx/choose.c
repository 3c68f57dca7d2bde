/* SPDX-License-Identifier: MIT */
/* Tokens chosen from rows of logits, against the definition: probabilities in long double, sorted,
 * filtered, and one draw. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/infer_kernels.h"
#include "ptx/rig.h"

enum { STRIDE = 2400, N_NOISE = 3 };

struct token {
    float logit;
    int id;
    long double weight;
};

/* NaN last, the first of equal ones first. */
static int by_logit(const void *a, const void *b)
{
    const struct token *const x = a, *const y = b;

    if (isnan(x->logit) || isnan(y->logit))
        return isnan(x->logit) - isnan(y->logit);
    if (x->logit > y->logit || x->logit < y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

static int by_id(const void *a, const void *b)
{
    return ((const struct token *)a)->id - ((const struct token *)b)->id;
}

static int filtered(const struct spot_cuda_choice *c, const struct token *t, int n)
{
    const int k = c->top_k > 0 && c->top_k < n ? c->top_k : n;
    long double all = 0, sum = 0;
    int kept = 0;

    for (int i = 0; i < k; i++)
        all += t[i].weight;
    while (kept < k && (kept == 0 || sum < (long double)c->top_p * all) &&
           t[kept].weight >= (long double)c->min_p)
        sum += t[kept++].weight;
    return kept;
}

static int wanted(const struct spot_cuda_choice *c, const float *logit, int n)
{
    struct token t[STRIDE];
    long double all = 0, sum = 0;
    int m = 0;

    for (int i = 0; i < n; i++)
        t[i] = (struct token){ logit[i], i, 0 };
    qsort(t, (size_t)n, sizeof(t[0]), by_logit);
    while (m < n && !isnan(t[m].logit))
        m++;
    if (!m || !(c->scale > 0) || isinf(t[0].logit))
        return m ? t[0].id : 0;
    for (int i = 0; i < m; i++)
        t[i].weight =
            expl(((long double)t[i].logit - (long double)t[0].logit) * (long double)c->scale);
    if (c->top_k > 0 || c->top_p < 1 || c->min_p > 0)
        m = filtered(c, t, m);
    else
        qsort(t, (size_t)m, sizeof(t[0]), by_id);
    for (int i = 0; i < m; i++)
        all += t[i].weight;
    for (int i = 0; i < m; i++) {
        sum += t[i].weight;
        if (sum > (long double)c->noise * all)
            return t[i].id;
    }
    return -1;
}

/* Rows of one kind, each with all kinds of choices. */
static const struct spot_cuda_choice kinds[] = {
    { .scale = 0, .top_p = 1, .is_wanted = 1 },
    { .scale = 1, .top_p = 1, .is_wanted = 1 },
    { .scale = 1 / 0.7, .top_p = 0.8, .is_wanted = 1 },
    { .scale = 1, .top_p = 0.95, .top_k = 40, .is_wanted = 1 },
    { .scale = 1.5, .top_p = 1, .min_p = 0.05, .is_wanted = 1 },
    { .scale = 1, .top_p = 1, .top_k = 1000, .is_wanted = 1 },
    { .scale = 0.5, .top_p = 0.9, .min_p = 0.01, .top_k = 7, .is_wanted = 1 },
};
enum { N_KIND = sizeof(kinds) / sizeof(kinds[0]) };

static void rows_of(const float *row, int n, int least_sure)
{
    enum { N_ROW = N_KIND + 1 };
    struct spot_cuda_choice *const choice = ptx_memory(N_ROW * sizeof(*choice));
    struct spot_cuda_chosen *const chosen = ptx_memory(N_ROW * sizeof(*chosen));
    float *const logit = rig_room(SPOT_F32, (int64_t)N_ROW * STRIDE);
    int n_sure = 0;

    memset(choice, 0, N_ROW * sizeof(*choice)); /* the last row wants nothing */
    for (int i = 0; i < N_KIND; i++) {
        choice[i] = kinds[i];
        choice[i].noise = (rig_draw() + 1) / 2;
    }
    for (int i = 0; i < N_ROW; i++) {
        memcpy(logit + i * STRIDE, row, (size_t)n * sizeof(*row));
        for (int k = n; k < STRIDE; k++)
            logit[i * STRIDE + k] = 1e9F; /* behind the row, as of a padded vocabulary */
    }
    memset(chosen, 0xee, N_ROW * sizeof(*chosen));
    spot_cuda_infer_choose(chosen, choice, logit, N_ROW, n, STRIDE, NULL);
    for (int i = 0; i < N_KIND; i++) {
        n_sure += chosen[i].is_sure == 1;
        rig_equal("a row is marked", chosen[i].is_sure == 0 || chosen[i].is_sure == 1, 1);
        if (chosen[i].is_sure)
            rig_equal("the token of a choice", chosen[i].token, wanted(&choice[i], row, n));
    }
    rig_equal("enough choices are sure", n_sure >= least_sure, 1);
    rig_equal("a row that is not asked for", chosen[N_KIND].token, 0xeeeeeeee);
}

/* Sums of normal ones, so that few are large. */
static void draw_row(float *row, int n, double size)
{
    for (int i = 0; i < n; i++)
        row[i] = (float)(size * (rig_draw() + rig_draw() + rig_draw() + rig_draw()));
}

void rig_choose(enum spot_real real)
{
    float *const row = malloc(STRIDE * sizeof(*row));

    if (real == SPOT_BF16) { /* logits are fp32 */
        free(row);
        return;
    }
    for (int k = 0; k < N_NOISE; k++) {
        draw_row(row, 3, 2);
        rows_of(row, 3, N_KIND);
        draw_row(row, 300, 3);
        rows_of(row, 300, N_KIND);
        draw_row(row, 2300, 4);
        row[17] = row[2222] = NAN;
        row[5] = -INFINITY;
        rows_of(row, 2300, N_KIND);
    }
    for (int i = 0; i < 2300; i++) /* equal ones, of both zeros, whose first ones are kept */
        row[i] = i % 7 ? -0.0F : 0.0F;
    row[1999] = 3;
    rows_of(row, 2300, 2); /* the largest, and one of all: filters have no 1024 to look at */
    for (int i = 0; i < 300; i++)
        row[i] = (float)(i % 5);
    rows_of(row, 300, 5);
    row[250] = INFINITY;
    rows_of(row, 300, N_KIND);
    for (int i = 0; i < 300; i++)
        row[i] = NAN;
    rows_of(row, 300, N_KIND);
    row[250] = -INFINITY;
    rows_of(row, 300, N_KIND);
    free(row);
}
