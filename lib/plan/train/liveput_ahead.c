/* SPDX-License-Identifier: MIT */
/* The steps of a forecast, backwards from the values after them. Within the forecast states differ
 * by count only; contexts matter only after it. At its end each count gets the mean over its
 * contexts. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/horizon.h"
#include "plan/train/liveput_inner.h"

static const double LIKELY = 1e-5; /* for less likely counts the values are not updated */
static const double EVENT = 1e-5;  /* less likely changes are ignored */

/* weight[] of the contexts after the forecast, at count i; the calm contexts count as one there. */
static void weigh(const struct spot_horizon *h, size_t i, int n_context, double *weight)
{
    const double *of = h->context + i * (size_t)h->n_context;

    memset(weight, 0, (size_t)n_context * sizeof(*weight));
    for (int c = 0; c < h->n_context; c++)
        weight[n_context == h->n_context ? c : n_context > 1 && c >= SPOT_CHAIN_RECENT] += of[c];
}

/* out: values of a single context; zeros if nothing comes after. */
static void mix(const struct spot_liveput_dp *dp, const struct spot_horizon *h, const double *tail,
                int n_context, double *out)
{
    const size_t block = (size_t)dp->n_node * ((size_t)dp->n_grid + 1);
    const size_t counts = (size_t)(dp->n_max - dp->n_low + 1);
    double weight[SPOT_CHAIN_CONTEXTS];

    for (size_t i = 0; i < counts; i++) {
        weigh(h, i, n_context, weight);
        for (size_t k = 0; k < block; k++) {
            double sum = 0;

            for (int c = 0; c < n_context && sum > SPOT_LIVEPUT_NEVER; c++) {
                const double v = tail[((size_t)c * counts + i) * block + k];

                sum = v <= SPOT_LIVEPUT_NEVER ? v : sum + weight[c] * v;
            }
            out[i * block + k] = sum;
        }
    }
}

int spot_liveput_step_events(const struct spot_horizon *h, int step, int count,
                             struct spot_liveput_event *event)
{
    const double *next = spot_horizon_next(h, step, count);
    double sum = next[count - h->n_low];
    int n_event = 1;

    event[0] = (struct spot_liveput_event){ 0, sum };
    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++)
        for (int way = -1; way <= 1; way += 2) {
            const int to = count + way * k;

            if (to < h->n_low || to > h->n_max || next[to - h->n_low] < EVENT)
                continue;
            event[n_event].change = way * k;
            event[n_event++].prob = next[to - h->n_low];
            sum += next[to - h->n_low];
        }
    for (int e = 0; e < n_event; e++)
        event[e].prob /= sum;
    return n_event;
}

static void sweep(struct spot_liveput_dp *dp, const struct spot_horizon *h, int step,
                  struct spot_liveput_space *space)
{
    const size_t block = (size_t)dp->n_node * ((size_t)dp->n_grid + 1);
    const bool is_plain = spot_liveput_is_plain(dp);
    double *swap;

    spot_liveput_memo_open(dp, false);
    spot_liveput_memo_sweep(dp);
    spot_liveput_space_turn(dp, space);
    spot_liveput_targets_turn(dp);
    for (int n = dp->n_low; n <= dp->n_max; n++) {
        struct spot_liveput_dists dists = { 0 };

        if (spot_horizon_mass(h, step - 1, n) < LIKELY) {
            memcpy(dp->next + spot_liveput_value_at(dp, 0, n),
                   dp->value + spot_liveput_value_at(dp, 0, n), block * sizeof(*dp->next));
            continue;
        }
        dists.n_event = spot_liveput_step_events(h, step, n, dists.event);
        dists.way[0] = (struct spot_liveput_way){ dists.event[0].prob, 1, 1 };
        if (space->step)
            spot_liveput_step_count(space->step, &dists, n, space);
        else if (is_plain)
            spot_liveput_plain(dp, &dists, n);
        for (int r = 0; !space->step && !is_plain && r <= dp->n_grid; r++)
            if (spot_liveput_may_run(dp, n, r))
                spot_liveput_back_up(dp, &dists, n, r, space);
    }
    spot_liveput_memo_close(dp);
    spot_liveput_moved(dp);
    spot_liveput_shut(dp, dp->next);
    swap = dp->value;
    dp->value = dp->next;
    dp->next = swap;
}

void spot_liveput_dp_ahead(struct spot_liveput_dp *dp, const struct spot_horizon *h, int first,
                           int last, bool ends)
{
    const size_t block = (size_t)dp->n_node * ((size_t)dp->n_grid + 1);
    const size_t n = (size_t)(dp->n_max - dp->n_low + 1) * block + (size_t)dp->n_grid + 1;
    struct spot_liveput_space space;

    dp->tail_value = dp->value;
    dp->tail_next = dp->next;
    dp->tail_context = dp->n_context;
    dp->value = spot_xcalloc(n, sizeof(*dp->value));
    dp->next = spot_xcalloc(n, sizeof(*dp->next));
    dp->n_context = 1;
    if (!ends)
        mix(dp, h, dp->tail_value, dp->tail_context, dp->value);
    spot_liveput_shut(dp, dp->value);
    spot_liveput_found_forget(dp);
    spot_liveput_space_init(dp, &space);
    for (int step = last < h->n_step ? last : h->n_step; step > first; step--)
        sweep(dp, h, step, &space);
    spot_liveput_space_release(dp, &space);
}

void spot_liveput_dp_back(struct spot_liveput_dp *dp)
{
    free(dp->value);
    free(dp->next);
    spot_liveput_found_forget(dp);
    dp->value = dp->tail_value;
    dp->next = dp->tail_next;
    dp->n_context = dp->tail_context;
    dp->tail_value = dp->tail_next = NULL;
}
