/* SPDX-License-Identifier: MIT */
/* A mixture of experts: the MLP of a layer, in which each token goes through some of many.
 *
 * Rows, one for each token and expert that it chose, are sorted by expert, so that an expert's
 * weights are read once. A product of an expert is one of its rows alone, as if they were a run,
 * and each output is the same chain in any company. A token's outputs are weighed and added in
 * ascending order of its experts, in each shard; then come the sums over shards, as elsewhere. */
#include <string.h>

#include "engine/cpu/infer_pass.h"

void spot_infer_route(const struct spot_infer_work *w, int64_t t)
{
    struct spot_infer *const f = w->f;
    const struct spot_decoder *const d = &f->shape.kind;
    const int64_t c = f->shape.width, E = d->n_expert, K = d->n_chosen;
    const float *const router = spot_infer_own(w, "router.w", -1);
    float *const p = f->mixture.choice + t * E, *const share = f->mixture.share + t * K;
    float stat[2], sum = 0;
    int64_t n = 0;

    for (int64_t e = 0; e < E; e++)
        p[e] = f->vec->dot(f->norm + t * c, router + e * c, c);
    f->vec->softmax(p, E, E, 1, stat);
    for (int64_t k = 0; k < K; k++) { /* of equal ones the lower number; -1: taken */
        int64_t best = -1;

        for (int64_t e = 0; e < E; e++)
            if (p[e] >= 0 && (best < 0 || p[e] > p[best]))
                best = e;
        if (best < 0) /* no numbers: any will do */
            best = k;
        share[k] = p[best];
        f->mixture.chosen[t * K + k] = (int)best;
        p[best] = -1;
        sum += share[k];
    }
    for (int64_t k = 1; k < K; k++) /* in ascending order of experts */
        for (int64_t i = k;
             i > 0 && f->mixture.chosen[t * K + i] < f->mixture.chosen[t * K + i - 1]; i--) {
            const int e = f->mixture.chosen[t * K + i];
            const float s = share[i];

            f->mixture.chosen[t * K + i] = f->mixture.chosen[t * K + i - 1];
            share[i] = share[i - 1];
            f->mixture.chosen[t * K + i - 1] = e;
            share[i - 1] = s;
        }
    for (; d->is_renormed && n < K; n++)
        share[n] /= sum;
}

/* The rows of each expert, tokens in order. */
static void sort_rows(struct spot_infer *f)
{
    const int64_t E = f->shape.kind.n_expert, n = f->n_token * f->shape.kind.n_chosen;
    int64_t row = 0;

    for (int64_t e = 0; e < E; e++) {
        f->mixture.expert_row[e] = row;
        for (int64_t i = 0; i < n; i++)
            if (f->mixture.chosen[i] == e)
                f->mixture.row_choice[row++] = (int)i;
    }
    f->mixture.expert_row[E] = row;
}

/* The engine as a run of the rows of an expert alone sees it; returns how many they are. */
static int64_t view_of(const struct spot_infer *f, int64_t e, struct spot_infer *view)
{
    const int64_t row = f->mixture.expert_row[e], S = f->n_shard;

    *view = *f;
    view->packed += row * f->packed_row;
    view->q8.x += row * f->q8_blocks * SPOT_Q8_BLOCK;
    view->q8.scale += row * f->q8_blocks;
    view->q8.minus += row * f->q8_blocks;
    view->mixture.gathered += row * f->shape.width;
    view->pre += row * S * f->pre_stride;
    view->act += row * S * f->act_stride;
    return f->mixture.expert_row[e + 1] - row;
}

static const uint8_t *expert_of(const struct spot_infer_work *w, const char *name, int shard,
                                int64_t e, int64_t n_out, int64_t n_in)
{
    const int64_t n_panel = (n_out + SPOT_PANEL - 1) / SPOT_PANEL;

    return (const uint8_t *)spot_infer_own(w, name, shard) +
           (size_t)(e * n_panel) * spot_infer_panel_byte(w->f->type, n_in);
}

static void gather(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, K = f->shape.kind.n_chosen;
    int64_t job = 0;

    for (int64_t e = 0; e < f->shape.kind.n_expert; e++) {
        struct spot_infer view;
        const int64_t n = view_of(f, e, &view);

        for (int64_t i = 0; i < spot_infer_deals(n); i++) {
            if (job++ % w->n_thread != w->thread)
                continue;
            for (int64_t r = spot_infer_deal_begin(n, i); r < spot_infer_deal_begin(n, i + 1); r++)
                memcpy(view.mixture.gathered + r * c,
                       f->norm + f->mixture.row_choice[f->mixture.expert_row[e] + r] / K * c,
                       (size_t)c * sizeof(float));
            spot_infer_ready(&view, n, i, view.mixture.gathered, c, 0, 0, c);
        }
    }
    spot_infer_meet(w);
}

static void up(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, E = f->shape.kind.n_expert, S = f->n_shard;
    const int64_t n_out = spot_shape_pre(&f->shape) / f->shape.n_shard;
    const int64_t n_panel = (n_out + SPOT_PANEL - 1) / SPOT_PANEL;
    const size_t panel_byte = spot_infer_panel_byte(f->type, c);
    int64_t total = 0, begin, end, at = 0; /* in tiles of a panel */

    for (int64_t e = 0; e < E; e++)
        total +=
            S * n_panel * spot_infer_tiles(f->mixture.expert_row[e + 1] - f->mixture.expert_row[e]);
    spot_team_share(total, 1, w->thread, w->n_thread, &begin, &end);
    for (int64_t e = 0; e < E; e++) {
        struct spot_infer view;
        const int64_t n = view_of(f, e, &view), n_tile = spot_infer_tiles(n);

        for (int64_t i = 0; n && i < S * n_panel; i++, at += n_tile) {
            const int64_t s = i / n_panel, p = i % n_panel;
            const uint8_t *const panel =
                expert_of(w, "up.w", (int)s, e, n_out, c) + (size_t)p * panel_byte;

            if (at >= begin && at < end)
                spot_infer_panel(&view, panel, panel + panel_byte,
                                 &(struct spot_infer_rows){ view.mixture.gathered, c, c, 0, 0 }, n,
                                 view.pre + s * f->pre_stride + p * SPOT_PANEL, S * f->pre_stride);
        }
    }
    spot_infer_meet(w);
}

static void activate(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t n_in = spot_shape_ffn(&f->shape) / f->shape.n_shard, S = f->n_shard;
    const int64_t n_block = (n_in + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK;
    int64_t job = 0;

    for (int64_t e = 0; e < f->shape.kind.n_expert; e++) {
        struct spot_infer view;
        const int64_t n = view_of(f, e, &view);

        for (int64_t i = 0; i < spot_infer_deals(n) * S; i++) {
            const int64_t s = i % S, deal = i / S;

            if (job++ % w->n_thread != w->thread)
                continue;
            for (int64_t r = spot_infer_deal_begin(n, deal); r < spot_infer_deal_begin(n, deal + 1);
                 r++)
                spot_infer_activate(w, view.act + (r * S + s) * f->act_stride,
                                    view.pre + (r * S + s) * f->pre_stride, (int)s);
            spot_infer_ready(&view, n, deal, view.act + s * f->act_stride, S * f->act_stride,
                             s * n_in, s * n_block, n_in);
        }
    }
    spot_infer_meet(w);
}

/* Panel p of an expert's outputs joins those of its tokens: sum[shard][token][64]. */
static void add_expert(const struct spot_infer_work *w, int64_t e, int64_t p, float *sum)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, S = f->n_shard, K = f->shape.kind.n_chosen;
    const int64_t n_in = spot_shape_ffn(&f->shape) / f->shape.n_shard;
    const size_t panel_byte = spot_infer_panel_byte(f->type, n_in);
    const int64_t n_block = (n_in + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK;
    float *const part = sum + S * f->n_token * SPOT_PANEL;
    struct spot_infer view;
    const int64_t n = view_of(f, e, &view);

    for (int64_t s = 0; n && s < S; s++) {
        const uint8_t *const panel =
            expert_of(w, "down.w", (int)s, e, c, n_in) + (size_t)p * panel_byte;

        spot_infer_panel(&view, panel, panel + panel_byte,
                         &(struct spot_infer_rows){ view.act + s * f->act_stride, S * f->act_stride,
                                                    n_in, s * n_in, s * n_block },
                         n, part, SPOT_PANEL);
        for (int64_t r = 0; r < n; r++) {
            const int choice = f->mixture.row_choice[f->mixture.expert_row[e] + r];

            f->vec->scale(part + r * SPOT_PANEL, SPOT_PANEL, f->mixture.share[choice]);
            f->vec->add(sum + (s * f->n_token + choice / K) * SPOT_PANEL, part + r * SPOT_PANEL,
                        SPOT_PANEL);
        }
    }
}

static void down(const struct spot_infer_work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t n_panel = (f->shape.width + SPOT_PANEL - 1) / SPOT_PANEL, n = f->n_token;
    float *const sum = f->mixture.expert_sum[w->thread];
    int64_t p, end;

    spot_team_share(n_panel, 1, w->thread, w->n_thread, &p, &end);
    for (; p < end; p++) {
        memset(sum, 0, (size_t)(f->n_shard * n * SPOT_PANEL) * sizeof(*sum));
        for (int64_t e = 0; e < f->shape.kind.n_expert; e++)
            add_expert(w, e, p, sum);
        spot_infer_add_tree(f->vec, sum, n * SPOT_PANEL, f->n_shard, n * SPOT_PANEL);
        for (int64_t t = 0; t < n; t++)
            memcpy(f->sum + (t * n_panel + p) * SPOT_PANEL, sum + t * SPOT_PANEL,
                   SPOT_PANEL * sizeof(float));
    }
    spot_infer_meet(w);
    spot_infer_exchange(w, n * n_panel * SPOT_PANEL);
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
