/* SPDX-License-Identifier: MIT */
/* The best target of an outcome, and when it has to be searched for again.
 *
 * From one sweep to the next the order of two targets of a count can change only as far as the
 * values of that count move unevenly (by different amounts). A target that was the best by a margin
 * stays the best until the unevenness, added up since, exceeds the margin; until then no other
 * target is examined. The result is exactly that of a search over all targets. */
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

double spot_liveput_memo_sum(const struct spot_liveput_dp *dp, const double *value)
{
    return dp->moved[(size_t)(value - dp->value) / ((size_t)dp->n_node * ((size_t)dp->n_grid + 1))];
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
        m->found[m->n++] = (struct spot_liveput_found){ .until = -INFINITY };
    }
    return &m->found[m->at++];
}

void spot_liveput_found_keep(struct spot_liveput_found *f, double moved, double best, double gap)
{
    const double rounding = 1e-9;

    f->until = moved + gap - rounding * fmax(1, fabs(best));
}

/* One outcome of a gain, and the values after it. */
struct ahead {
    const struct spot_liveput_gain *gain;
    int i;
    struct spot_liveput_outcome outcome;
    const double *value;
};

static double worth(struct spot_liveput_dp *dp, const struct ahead *a, int r)
{
    if (r == dp->n_grid) /* suspended */
        return a->value[r];
    return a->outcome.at ? spot_liveput_worth(&a->outcome, a->value, (size_t)dp->n_grid + 1, r)
                         : spot_liveput_gain_at(dp, a->gain, a->i, r) + a->value[r];
}

/* The best value so far, and an upper bound of all others. */
struct race {
    double best, second;
    int rank;
};

static void enter(struct race *race, int r, double x)
{
    if (x > race->best) {
        race->second = race->best;
        race->best = x;
        race->rank = r;
    } else if (x > race->second) {
        race->second = x;
    }
}

/* Examine all targets. */
static void run_all(struct spot_liveput_dp *dp, const struct ahead *a, int n2, struct race *race)
{
    for (int r = 0; r < dp->n_fit[n2]; r++)
        enter(race, r, worth(dp, a, r));
}

/* The same during a solve, up to the first target that cannot win. */
static void run_sorted(struct spot_liveput_dp *dp, const struct ahead *a, int n2, struct race *race)
{
    const size_t block = (size_t)dp->n_node * ((size_t)dp->n_grid + 1);
    const int context = (int)((size_t)(a->value - dp->value) / block) / (dp->n_max - dp->n_low + 1);
    struct spot_liveput_hunt hunt = spot_liveput_hunt(dp, a->gain->from, context, n2);

    for (int r; (r = spot_liveput_hunt_next(&hunt, race->best)) >= 0;)
        enter(race, r, worth(dp, a, r));
    race->second = hunt.left > race->second ? hunt.left : race->second;
}

double spot_liveput_best(struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain, int i,
                         const double *value, int n2, int *rank)
{
    const struct ahead a = { gain, i, spot_liveput_outcome_of(gain, i, dp->n_grid), value };
    const bool is_sweep = dp->memo && !dp->tries_all;
    /* a gain without losses is that of many counts */
    struct spot_liveput_found *f = is_sweep && gain->is_loss ? &gain->found[i] : NULL;
    const double moved = f ? spot_liveput_memo_sum(dp, value) : 0;
    struct race race = { value[dp->n_grid], -INFINITY, dp->n_grid };

    if (f && f->era == dp->era && moved < f->until) {
        *rank = f->rank;
        return a.outcome.at ? worth(dp, &a, f->rank) : f->gain + value[f->rank];
    }
    if (is_sweep)
        run_sorted(dp, &a, n2, &race);
    else
        run_all(dp, &a, n2, &race);
    *rank = race.rank;
    if (f) {
        f->rank = race.rank;
        f->era = dp->era;
        /* x + -0 is x */
        f->gain = race.rank < dp->n_grid ? spot_liveput_gain_at(dp, gain, i, race.rank) : -0.0;
        spot_liveput_found_keep(f, moved, race.best, race.best - race.second);
    }
    return race.best;
}
