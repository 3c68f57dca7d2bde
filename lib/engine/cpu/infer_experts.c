/* SPDX-License-Identifier: MIT */
/* A mixture of experts: the MLP of a layer, in which each token goes through some of many.
 *
 * Rows, one for each token and expert that it chose, are sorted by expert, so that an expert's
 * weights are read once. A product of an expert covers only its rows, and each output is the same
 * chain whatever the other rows are. A token's outputs are weighed and added in ascending order of
 * its experts, the shared one last, in each shard; then come the sums over shards, as elsewhere. */
#include <string.h>

#include "engine/cpu/infer_pass.h"

/* The sigmoid of a product, computed as the softmax of the product and 0. */
static float shared_share(const struct spot_infer_work *w, const float *x)
{
    const struct spot_vec *const vec = w->f->vec;
    float p[2] = { vec->dot(x, spot_infer_own(w, "shared_gate.w", -1), w->f->shape.width), 0 };
    float stat[2];

    vec->softmax(p, 2, 2, 1, stat);
    return p[0];
}

void spot_infer_route(const struct spot_infer_work *w, int64_t t)
{
    struct spot_infer *const f = w->f;
    const struct spot_decoder *const d = &f->shape.kind;
    const int64_t c = f->shape.width, E = d->n_expert, K = d->n_chosen;
    const int64_t row = t * spot_infer_chosen_of(&f->shape);
    const float *const router = spot_infer_own(w, "router.w", -1);
    float *const p = f->mixture.choice + t * spot_infer_experts_of(&f->shape);
    float *const share = f->mixture.share + row;
    int *const chosen = f->mixture.chosen + row;
    float stat[2], sum = 0;

    for (int64_t e = 0; e < E; e++)
        p[e] = f->vec->dot(f->norm + t * c, router + e * c, c);
    f->vec->softmax(p, E, E, 1, stat);
    for (int64_t k = 0; k < K; k++) { /* ties to the lower number; -1: already chosen */
        int64_t best = -1;

        for (int64_t e = 0; e < E; e++)
            if (p[e] >= 0 && (best < 0 || p[e] > p[best]))
                best = e;
        if (best < 0) /* only NaN: choose any */
            best = k;
        share[k] = p[best];
        chosen[k] = (int)best;
        p[best] = -1;
        sum += share[k];
    }
    for (int64_t k = 1; k < K; k++) /* in ascending order of experts */
        for (int64_t i = k; i > 0 && chosen[i] < chosen[i - 1]; i--) {
            const int e = chosen[i];
            const float s = share[i];

            chosen[i] = chosen[i - 1];
            share[i] = share[i - 1];
            chosen[i - 1] = e;
            share[i - 1] = s;
        }
    for (int64_t k = 0; d->is_renormed && k < K; k++)
        share[k] /= sum;
    if (d->shared_ffn) {
        chosen[K] = (int)E;
        share[K] = shared_share(w, f->norm + t * c);
    }
}

/* Sorts rows by expert, and the rows of an expert by token. */
static void sort_rows(struct spot_infer *f)
{
    const int64_t E = spot_infer_experts_of(&f->shape);
    const int64_t n = f->n_token * spot_infer_chosen_of(&f->shape);
    int64_t *const row = f->mixture.expert_row;

    memset(row, 0, (size_t)(E + 1) * sizeof(*row));
    for (int64_t i = 0; i < n; i++)
        row[f->mixture.chosen[i] + 1]++;
    for (int64_t e = 0; e < E; e++)
        row[e + 1] += row[e];
    for (int64_t i = 0; i < n; i++)
        f->mixture.row_choice[row[f->mixture.chosen[i]]++] = (int)i;
    for (int64_t e = E; e > 0; e--) /* each entry has moved to the end of its expert */
        row[e] = row[e - 1];
    row[0] = 0;
}

/* One expert in a run. */
struct expert {
    const char *up, *down;  /* names of its matrices */
    int64_t e;              /* its number */
    int64_t row, n;         /* its rows */
    int64_t n_act;          /* activations of a shard */
    int64_t pre_row, a_row; /* strides of a shard in pre and act */
    float *pre, *act;       /* address of the first row */
};

/* Moves *x to the next expert that has rows; a zeroed *x moves to the first. False: there is
 * none. */
static bool next_expert(const struct spot_infer *f, struct expert *x)
{
    const struct spot_decoder *const d = &f->shape.kind;
    const int64_t E = spot_infer_experts_of(&f->shape), S = f->n_shard;
    const int64_t *const row = f->mixture.expert_row;
    int64_t e = x->up ? x->e + 1 : 0;
    bool is_shared;

    if (x->up && !strcmp(x->up, "shared_up.w"))
        return false;
    while (e < E && row[e] == row[e + 1])
        e++;
    if (e == E)
        return false;
    is_shared = e == d->n_expert;
    *x = (struct expert){ .up = is_shared ? "shared_up.w" : "up.w",
                          .down = is_shared ? "shared_down.w" : "down.w",
                          .e = is_shared ? 0 : e,
                          .row = row[e],
                          .n = row[e + 1] - row[e],
                          .pre = f->pre,
                          .act = f->act };
    x->n_act = spot_shape_ffn(&f->shape) / f->shape.n_shard;
    x->pre +=
        x->row * S *
        spot_infer_stride(2 * x->n_act); /* rows before it do not belong to the shared expert */
    x->act += x->row * S * spot_infer_stride(x->n_act);
    if (is_shared)
        x->n_act = d->shared_ffn / f->shape.n_shard;
    x->pre_row = spot_infer_stride(2 * x->n_act);
    x->a_row = spot_infer_stride(x->n_act);
    return true;
}

/* Address of panel `p` of a matrix in own shard s. */
static const uint8_t *panel_of(const struct spot_infer_work *w, const char *name, int64_t s,
                               int64_t e, int64_t n_out, int64_t n_in, int64_t p)
{
    const int64_t n_panel = (n_out + SPOT_PANEL - 1) / SPOT_PANEL;

    return (const uint8_t *)spot_infer_own(w, name, (int)s) +
           (size_t)(e * n_panel + p) * spot_infer_panel_byte(w->f->type, n_in);
}

static struct spot_infer_rows act_of(const struct spot_infer *f, const struct expert *x, int64_t s)
{
    const int64_t n_block = (x->n_act + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK;

    return (struct spot_infer_rows){ x->act + s * x->a_row, f->n_shard * x->a_row, x->n_act,
                                     s * x->n_act,          s * n_block,           x->row };
}

static struct spot_infer_rows gathered_of(const struct spot_infer *f, const struct expert *x)
{
    const int64_t c = f->shape.width;

    return (struct spot_infer_rows){ f->mixture.gathered + x->row * c, c, c, 0, 0, x->row };
}

static void gather(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, K = spot_infer_chosen_of(&f->shape);
    struct expert x = { 0 };
    int64_t job = 0;

    while (next_expert(f, &x)) {
        const struct spot_infer_rows to = gathered_of(f, &x);

        for (int64_t i = 0; i < spot_infer_deals(x.n); i++) {
            if (job++ % w->n_thread != w->thread)
                continue;
            for (int64_t r = spot_infer_deal_begin(x.n, i); r < spot_infer_deal_begin(x.n, i + 1);
                 r++)
                memcpy(to.x + r * c, f->norm + f->mixture.row_choice[x.row + r] / K * c,
                       (size_t)c * sizeof(float));
            spot_infer_ready(f, &to, x.n, i);
        }
    }
    spot_infer_meet(w);
}

static void up(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, S = f->n_shard;
    const size_t panel_byte = spot_infer_panel_byte(f->type, c);
    int64_t total = 0, begin, end, at = 0; /* counted in tiles of a panel */

    for (struct expert x = { 0 }; next_expert(f, &x);)
        total += S * (x.pre_row / SPOT_PANEL) * spot_infer_tiles(x.n);
    spot_team_share(total, 1, w->thread, w->n_thread, &begin, &end);
    for (struct expert x = { 0 }; next_expert(f, &x);) {
        const int64_t n_panel = x.pre_row / SPOT_PANEL;
        const struct spot_infer_rows from = gathered_of(f, &x);

        for (int64_t i = 0; i < S * n_panel; i++, at += spot_infer_tiles(x.n)) {
            const int64_t s = i / n_panel, p = i % n_panel;
            const uint8_t *const panel = panel_of(w, x.up, s, x.e, 2 * x.n_act, c, p);

            if (at >= begin && at < end)
                spot_infer_panel(f, panel, panel + panel_byte, &from, x.n,
                                 x.pre + s * x.pre_row + p * SPOT_PANEL, S * x.pre_row);
        }
    }
    spot_infer_meet(w);
}

static void activate(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t S = f->n_shard;
    struct expert x = { 0 };
    int64_t job = 0;

    while (next_expert(f, &x))
        for (int64_t i = 0; i < spot_infer_deals(x.n) * S; i++) {
            const int64_t s = i % S, deal = i / S, end = spot_infer_deal_begin(x.n, deal + 1);
            const struct spot_infer_rows to = act_of(f, &x, s);

            if (job++ % w->n_thread != w->thread)
                continue;
            for (int64_t r = spot_infer_deal_begin(x.n, deal); r < end; r++)
                spot_infer_activate(w, to.x + r * to.stride, x.pre + (r * S + s) * x.pre_row,
                                    x.n_act, (int)s);
            spot_infer_ready(f, &to, x.n, deal);
        }
    spot_infer_meet(w);
}

/* Adds an expert's outputs of panels [p, end) and own shard s to those of its tokens:
 * sum[panel][token][64]. */
static void add_expert(const struct spot_infer_work *w, const struct expert *x, int64_t s,
                       int64_t p, int64_t end, float *sum, float *part)
{
    const struct spot_infer *const f = w->f;
    const int64_t K = spot_infer_chosen_of(&f->shape);
    const struct spot_infer_rows from = act_of(f, x, s);
    const size_t panel_byte = spot_infer_panel_byte(f->type, x->n_act);
    const uint8_t *panel = panel_of(w, x->down, s, x->e, f->shape.width, x->n_act, p);

    for (; p < end; p++, panel += panel_byte, sum += f->n_token * SPOT_PANEL) {
        spot_infer_panel(f, panel, panel + panel_byte, &from, x->n, part, SPOT_PANEL);
        for (int64_t r = 0; r < x->n; r++) {
            const int choice = f->mixture.row_choice[x->row + r];

            f->vec->scale(part + r * SPOT_PANEL, SPOT_PANEL, f->mixture.share[choice]);
            f->vec->add(sum + choice / K * SPOT_PANEL, part + r * SPOT_PANEL, SPOT_PANEL);
        }
    }
}

/* Computes as many panels at a time as have room for their sums in L2: all panels of the group that
 * belong to one expert are then read one after the other. */
static void down(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t n_panel = (f->shape.width + SPOT_PANEL - 1) / SPOT_PANEL;
    const int64_t n = f->n_token * SPOT_PANEL, S = f->n_shard;
    const int64_t fits = SPOT_INFER_SUMS / (S * n), group = fits > 0 ? fits : 1;
    float *const sum = f->mixture.expert_sum[w->thread];
    float *const part = sum + (fits > 0 ? SPOT_INFER_SUMS : S * n);
    int64_t p, end;

    spot_team_share(n_panel, 1, w->thread, w->n_thread, &p, &end);
    for (int64_t next; p < end; p = next) {
        const int64_t some = end - p < group ? end - p : group;

        next = p + some;
        memset(sum, 0, (size_t)(S * some * n) * sizeof(*sum));
        for (struct expert x = { 0 }; next_expert(f, &x);)
            for (int64_t s = 0; s < S; s++)
                add_expert(w, &x, s, p, next, sum + s * some * n, part);
        spot_infer_add_tree(f->vec, sum, some * n, f->n_shard, some * n);
        for (int64_t i = 0; i < some * f->n_token; i++)
            memcpy(f->sum + (i % f->n_token * n_panel + p + i / f->n_token) * SPOT_PANEL,
                   sum + i * SPOT_PANEL, SPOT_PANEL * sizeof(float));
    }
    spot_infer_meet(w);
    spot_infer_exchange(w, f->n_token * n_panel * SPOT_PANEL);
}

void spot_infer_experts(const struct spot_infer_work *w)
{
    if (w->thread == 0)
        sort_rows(w->f);
    spot_infer_meet(w);
    gather(w);
    up(w);
    activate(w);
    down(w);
}
