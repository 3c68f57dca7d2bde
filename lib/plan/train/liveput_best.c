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
    double *moved; /* [n_context * counts] sum of unevenness so far */
};

void spot_liveput_memo_open(struct spot_liveput_dp *dp)
{
    struct spot_liveput_memo *m = spot_xcalloc(1, sizeof(*m));

    m->moved = spot_xcalloc((size_t)dp->n_context * (size_t)(dp->n_max - dp->n_low + 1),
                            sizeof(*m->moved));
    dp->memo = m;
}

void spot_liveput_memo_close(struct spot_liveput_dp *dp)
{
    free(dp->memo->found);
    free(dp->memo->moved);
    free(dp->memo);
    dp->memo = NULL;
}

void spot_liveput_memo_sweep(struct spot_liveput_dp *dp)
{
    dp->memo->at = 0;
}

void spot_liveput_memo_moved(struct spot_liveput_dp *dp, int context, int n, double unevenly)
{
    dp->memo->moved[context * (dp->n_max - dp->n_low + 1) + n - dp->n_low] += unevenly;
}

double spot_liveput_memo_sum(const struct spot_liveput_dp *dp, const double *value)
{
    return dp->memo
        ->moved[(size_t)(value - dp->value) / ((size_t)dp->n_node * ((size_t)dp->n_grid + 1))];
}

struct spot_liveput_found *spot_liveput_memo_next(struct spot_liveput_dp *dp)
{
    struct spot_liveput_memo *m = dp->memo;

    if (!m)
        return NULL;
    if (dp->tries_all)
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

/* The same during a solve: in the order of their upper bounds, up to the first target that cannot
 * win. */
static void run_sorted(struct spot_liveput_dp *dp, const struct ahead *a, int n2, struct race *race)
{
    const int from = a->gain->from;
    const size_t block = (size_t)dp->n_node * ((size_t)dp->n_grid + 1);
    const int context = (int)((size_t)(a->value - dp->value) / block) / (dp->n_max - dp->n_low + 1);
    const struct spot_liveput_target *target = spot_liveput_targets(dp, context, n2);

    if (from < dp->n_fit[n2])
        enter(race, from, worth(dp, a, from));
    for (int i = 0; i < dp->n_fit[n2]; i++) {
        const struct spot_liveput_target *x = &target[i];

        if (x->most + 1e-9 * fabs(x->most) <= race->best) {
            race->second = x->most > race->second ? x->most : race->second;
            return;
        }
        if (x->moved + 1e-9 * fabs(x->moved) <= race->best && spot_liveput_moves(dp, from, x->rank))
            race->second = x->moved > race->second ? x->moved : race->second;
        else if (x->rank != from)
            enter(race, x->rank, worth(dp, a, x->rank));
    }
}

/* The best target. f: what the last sweep found, or NULL; moved: the unevenness of value[] since
 * the first sweep. */
static double search(struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain, int i,
                     const double *value, int n2, int *rank, struct spot_liveput_found *f,
                     double moved)
{
    const struct ahead a = { gain, i, spot_liveput_outcome_of(gain, i, dp->n_grid), value };
    struct race race = { value[dp->n_grid], -INFINITY, dp->n_grid };

    if (f && moved < f->until)
        return worth(dp, &a, *rank = f->rank);
    if (f && !dp->tries_all)
        run_sorted(dp, &a, n2, &race);
    else
        run_all(dp, &a, n2, &race);
    *rank = race.rank;
    if (f) {
        f->rank = race.rank;
        f->n = a.outcome.at ? 0 : gain->n;
        f->prob = gain->prob[i];
        f->gain = race.rank < dp->n_grid ? a.outcome.of[race.rank] : -0.0; /* x + -0 is x */
        spot_liveput_found_keep(f, moved, race.best, race.best - race.second);
    }
    return race.best;
}

double spot_liveput_best(struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain, int i,
                         const double *value, int n2, int *rank)
{
    struct spot_liveput_found *f = spot_liveput_memo_next(dp);

    return search(dp, gain, i, value, n2, rank, f, f ? spot_liveput_memo_sum(dp, value) : 0);
}

/* Uses what was found alone where possible: gains are scattered in memory and slow to read. */
double spot_liveput_mean(struct spot_liveput_dp *dp, int n, int rank, int change,
                         const double *value)
{
    const struct spot_liveput_gain *gain = NULL;
    struct spot_liveput_found *f = spot_liveput_memo_next(dp);
    const double moved = f ? spot_liveput_memo_sum(dp, value) : 0;
    int n_outcome = f ? f->n : 0, to;
    double sum = 0;

    if (!n_outcome) {
        gain = spot_liveput_gain_of(dp, n, rank, change, false);
        n_outcome = gain->n;
    }
    for (int i = 0; i < n_outcome; i++) {
        f = i ? spot_liveput_memo_next(dp) : f;
        if (f && f->n && moved < f->until) {
            sum += f->prob * (f->gain + value[f->rank]);
            continue;
        }
        gain = gain ? gain : spot_liveput_gain_of(dp, n, rank, change, false);
        sum += gain->prob[i] * search(dp, gain, i, value, n + change, &to, f, moved);
    }
    return sum;
}
