/* SPDX-License-Identifier: MIT */
/* How many instances to hold, and which grid to run on them: spares are a decision with a price. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/liveput_dp.h"
#include "plan/train/train_score.h"

/* Mean count over the horizon if up to `held` instances are held, without those lost and not yet
 * replaced. */
static double mean_count(const struct spot_count_chain *chain, int held, int horizon)
{
    double *pmf = spot_xcalloc(2 * ((size_t)held + 1), sizeof(*pmf)), *next = pmf + held + 1;
    double *memory = pmf, sum = 0;

    pmf[held] = 1;
    for (int h = 0; h < horizon; h++) {
        double *swap = pmf;

        for (int n = 0; n <= held; n++)
            sum += n * pmf[n];
        spot_train_step_count(chain, held, pmf, next);
        pmf = next;
        next = swap;
    }
    free(memory);
    return sum / horizon;
}

/* Hold `held` instances for every choice that fits and is better with them. score[] by grid:
 * samples over the horizon. */
static void consider(struct spot_train_choice *choice, size_t n_choice,
                     const struct spot_train_question *q, const struct spot_cost_table *table,
                     int held, const double *score, double usd_per_h)
{
    const double horizon_s = q->horizon * q->dist->interval_s;

    for (size_t i = 0; i < n_choice; i++) {
        struct spot_train_choice *c = &choice[i];
        const int grid = spot_cost_grid(table, c->d, c->p);
        const double x = fmax(0, score[grid] / horizon_s);
        const int spares = held - c->d * c->p;

        if (spares < q->spares_min)
            continue;
        if (spares > q->spares_min && spot_train_worth(q, x, usd_per_h) <=
                                          spot_train_worth(q, c->samples_per_s, c->usd_per_h))
            continue;
        c->spares = spares;
        c->samples_per_s = x;
        c->usd_per_h = usd_per_h;
    }
}

void spot_train_hold(struct spot_train_choice *choice, size_t n_choice,
                     const struct spot_train_question *q, struct spot_cost_table *table)
{
    const int missing = spot_train_missing(q), change = -q->leaving - missing;
    const int staying = q->dist->now - q->leaving;
    double *by_rank = spot_xcalloc(3 * ((size_t)table->n_grid + 1), sizeof(*by_rank));
    double *score = by_rank + table->n_grid + 1, *nothing = score + table->n_grid + 1;
    const struct spot_liveput_view view = {
        .n = q->dist->now + missing,
        .from = spot_cost_grid(table, q->current_d, q->current_p),
        .n_known = 1,
        .change = &change,
        /* a job that runs nowhere yet pays for no change */
        .cost_s = q->current_d ? NULL : nothing,
    };
    struct spot_liveput_dp dp;

    spot_liveput_dp_init(&dp, table, q->dist->interval_s, true);
    dp.n_context = 1; /* one distribution for all contexts */
    for (int held = table->n_low > 1 ? table->n_low : 1; held <= staying; held++) {
        struct spot_count_chain chain;

        free(dp.is_shut);
        dp.is_shut = spot_train_shut(q, held, &dp);
        spot_train_chain(q->dist, held, table->lost_max, &chain);
        spot_liveput_dp_finish(&dp, &chain, q->horizon - 1);
        spot_liveput_known(&dp, &view, spot_liveput_dp_value(&dp, 0, held), by_rank);
        for (int r = 0; r < table->n_grid; r++)
            score[dp.by_size[r]] = by_rank[r];
        consider(choice, n_choice, q, table, held, score,
                 q->job->cost.usd_per_h * mean_count(&chain, held, q->horizon));
    }
    spot_liveput_dp_release(&dp);
    free(by_rank);
}
