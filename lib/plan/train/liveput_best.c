/* SPDX-License-Identifier: MIT */
/* The best target of an outcome, and when it has to be searched for again.
 *
 * From one sweep to the next no other target gains more than the largest move of the values of its
 * count. As long as a bound of the others, with these moves added up since, is below the present
 * value of the one that was the best, no other target is examined. The result is exactly that of a
 * search over all targets. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

struct spot_liveput_memo {
    struct spot_liveput_found *found; /* [n], in the order in which every sweep asks for them */
    size_t n, cap, at;
    bool keeps;
};

void spot_liveput_memo_open(struct spot_liveput_dp *dp, bool keeps)
{
    dp->memo = spot_xcalloc(1, sizeof(*dp->memo));
    dp->memo->keeps = keeps;
}

void spot_liveput_memo_close(struct spot_liveput_dp *dp)
{
    free(dp->memo->found);
    free(dp->memo);
    dp->memo = NULL;
}

void spot_liveput_memo_sweep(struct spot_liveput_dp *dp)
{
    dp->memo->at = 0;
}

void spot_liveput_found_forget(struct spot_liveput_dp *dp)
{
    memset(dp->moved, 0,
           SPOT_CHAIN_CONTEXTS * (size_t)(dp->n_max - dp->n_low + 1) * sizeof(double));
    dp->era++;
}

struct spot_liveput_found *spot_liveput_memo_next(struct spot_liveput_dp *dp)
{
    struct spot_liveput_memo *m = dp->memo;

    if (!m)
        return NULL;
    if (!m->keeps)
        m->at = m->n = 0;
    if (m->at == m->n) {
        m->found = spot_xgrow(m->found, &m->cap, m->n + 1, sizeof(*m->found));
        m->found[m->n++] = (struct spot_liveput_found){ .other = INFINITY };
    }
    return &m->found[m->at++];
}

void spot_liveput_found_keep(struct spot_liveput_found *f, double moved,
                             const struct spot_liveput_race *race)
{
    f->rank = race->rank;
    f->gain = race->gain;
    f->other = race->second - moved;
}

/* One outcome of a gain, and the values after it. */
struct ahead {
    const struct spot_liveput_gain *gain;
    int i;
    struct spot_liveput_outcome outcome;
    const double *value;
};

static void enter(struct spot_liveput_dp *dp, const struct ahead *a, int r,
                  struct spot_liveput_race *race)
{
    const double gain = spot_liveput_gain_at(dp, a->gain, a->i, r);
    const double x = a->outcome.at
                         ? spot_liveput_worth(&a->outcome, a->value, (size_t)dp->n_grid + 1, r)
                         : gain + a->value[r];

    spot_liveput_enter(race, r, gain, x);
}

/* During a sweep: the targets up to the first that cannot win. */
static void run_sorted(struct spot_liveput_dp *dp, const struct ahead *a, int n2,
                       struct spot_liveput_race *race)
{
    const struct spot_liveput_found *f = &a->gain->found[a->i];
    const int from = a->gain->from, first = a->gain->is_loss && f->era ? f->rank : from;
    struct spot_liveput_hunt hunt = spot_liveput_hunt(dp, from, first, a->value, n2);

    for (int r; (r = spot_liveput_hunt_next(&hunt, race->best)) >= 0;)
        enter(dp, a, r, race);
    race->second = hunt.left > race->second ? hunt.left : race->second;
}

/* Uses what was found alone where possible: gains are scattered in memory and slow to read. */
double spot_liveput_best(struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain, int i,
                         const double *value, int n2, int *rank)
{
    const struct ahead a = { gain, i, spot_liveput_outcome_of(gain, i, dp->n_grid), value };
    const bool is_sweep = dp->memo && !dp->tries_all;
    /* a gain without losses is that of many counts */
    struct spot_liveput_found *f = is_sweep && gain->is_loss ? &gain->found[i] : NULL;
    const double moved = f ? dp->moved[spot_liveput_block(dp, value)] : 0;
    /* x + -0 is x */
    struct spot_liveput_race race = { value[dp->n_grid], -INFINITY, -0.0, dp->n_grid };

    if (f && f->era == dp->era) {
        const double x =
            a.outcome.at && f->rank < dp->n_grid
                ? spot_liveput_worth(&a.outcome, value, (size_t)dp->n_grid + 1, f->rank)
                : f->gain + value[f->rank];

        if (spot_liveput_found_holds(f, moved, x)) {
            *rank = f->rank;
            return x;
        }
    }
    if (is_sweep)
        run_sorted(dp, &a, n2, &race);
    for (int r = 0; !is_sweep && r < dp->n_fit[n2]; r++)
        enter(dp, &a, r, &race);
    *rank = race.rank;
    if (f) {
        f->era = dp->era;
        spot_liveput_found_keep(f, moved, &race);
    }
    return race.best;
}
