/* SPDX-License-Identifier: MIT */
/* Instances of known age under a provider's hazard table. Counts show how many come and go, not
 * which: those that come together are a cohort of that age; of losses each cohort bears what the
 * table says, in expectation. The table's level is learned: its hazards times (losses + K) /
 * (losses it foretold + K), the posterior mean of a proportional hazards factor with a gamma
 * prior. Places that are empty fill at the rate seen so far. Source: proportional hazards (Cox
 * 1972), conjugate gamma prior (Clayton 1978); cohorts instead of instances are ours. */
#include "forecast/models/fc_hazard.h"

#include <math.h>
#include <stdint.h>

#include "forecast/hazard.h"
#include "forecast/models/fc_chain.h"
#include "forecast/models/models.h"

enum { COHORTS = 64, HALVINGS = 60 };

static const double WORTH = 5;         /* losses that the table counts for */
static const double NEGLIGIBLE = 1e-9; /* instances; hazard of one that cannot die */

struct cohort {
    int64_t born_at; /* values seen before; 0: its age is not known */
    double n;        /* instances, expected */
};

struct ages {
    int64_t now, n_cohort,
        n_loss; /* values seen; cohorts, the oldest first; intervals with losses */
    double died, foretold, born, missing;
    struct cohort cohort[COHORTS];
};

size_t spot_hazard_state_byte(const struct spot_fc_spec *spec)
{
    (void)spec;
    return sizeof(struct ages);
}

static double sum_at(const struct spot_fc_spec *spec, const struct cohort *c, double at)
{
    double interval_s;

    if (!spec->hazard)
        return 0;
    interval_s = 86400 / spec->day;
    return c->born_at ? spot_hazard_sum(spec->hazard, (at - (double)c->born_at) * interval_s)
                      : spot_hazard_sum_unknown(spec->hazard, (at - 1) * interval_s);
}

/* Instances lost of all cohorts if the hazards, step[], were `times` what they are. */
static double lost_of(const struct ages *s, const double *step, double times)
{
    double lost = 0;

    for (int64_t i = 0; i < s->n_cohort; i++)
        lost -= s->cohort[i].n * expm1(-times * step[i]);
    return lost;
}

/* The table's forecast for all cohorts, per interval lived. */
static double hazards_of(const struct ages *s, const double *step)
{
    double sum = 0;

    for (int64_t i = 0; i < s->n_cohort; i++)
        sum += s->cohort[i].n * step[i];
    return sum;
}

/* The multiple of the hazards under which as many are lost as were. */
static double times_for(const struct ages *s, const double *step, double lost)
{
    double low = -30, high = 60; /* binary logarithms */

    for (int i = 0; i < HALVINGS; i++) {
        const double mid = (low + high) / 2;

        if (lost_of(s, step, exp2(mid)) < lost)
            low = mid;
        else
            high = mid;
    }
    return exp2(high);
}

static void drop_empty(struct ages *s)
{
    int64_t n = 0;

    for (int64_t i = 0; i < s->n_cohort; i++)
        if (s->cohort[i].n > NEGLIGIBLE)
            s->cohort[n++] = s->cohort[i];
    s->n_cohort = n;
}

/* Add a cohort; if the space is full the two oldest of known age are merged. */
static void add_cohort(struct ages *s, int64_t born_at, double n)
{
    if (s->n_cohort == COHORTS) {
        struct cohort *a = &s->cohort[s->cohort[0].born_at ? 0 : 1];
        const double both = a[0].n + a[1].n;

        a[1].born_at =
            (int64_t)(((double)a[0].born_at * a[0].n + (double)a[1].born_at * a[1].n) / both);
        a[1].n = both;
        a[0].n = 0;
        drop_empty(s);
    }
    s->cohort[s->n_cohort++] = (struct cohort){ born_at, n };
}

/* A lost instance has lived for half of the interval, as actuaries assume. */
static void take_losses(const struct spot_fc_spec *spec, struct ages *s, int lost)
{
    double step[COHORTS], times;

    for (int64_t i = 0; i < s->n_cohort; i++) {
        const struct cohort *c = &s->cohort[i];
        const double end = sum_at(spec, c, (double)s->now + 1);

        step[i] = fmax(end - sum_at(spec, c, (double)s->now), NEGLIGIBLE);
    }
    s->foretold += 0.5 * hazards_of(s, step);
    if (lost) {
        times = times_for(s, step, lost);
        for (int64_t i = 0; i < s->n_cohort; i++)
            s->cohort[i].n *= exp(-times * step[i]);
    }
    s->foretold += 0.5 * hazards_of(s, step);
    s->died += lost;
    s->n_loss += lost > 0;
    drop_empty(s);
}

void spot_hazard_observe(const struct spot_fc_spec *spec, void *state,
                         const struct spot_fc_past *past)
{
    struct ages *s = state;
    const int y = past->y[past->n - 1];

    if (!s->now) {
        if (y)
            add_cohort(s, 0, y);
    } else {
        const int was = past->y[past->n - 2], gained = y > was ? y - was : 0;

        take_losses(spec, s, was > y ? was - y : 0);
        s->born += gained;
        s->missing += spec->cap - was;
        if (gained)
            add_cohort(s, s->now + 1, gained);
    }
    s->now++;
}

/* Share of today's instances that last for another h intervals. */
static double lasting(const struct spot_fc_spec *spec, const struct ages *s, double level, int h)
{
    double n = 0, last = 0;

    for (int64_t i = 0; i < s->n_cohort; i++) {
        const struct cohort *c = &s->cohort[i];
        const double ahead = sum_at(spec, c, (double)s->now + h) - sum_at(spec, c, (double)s->now);

        n += c->n;
        last += c->n * exp(-level * ahead);
    }
    return n > 0 ? last / n : 1;
}

/* The distributions, with empty places filled with probability `fill` an interval. */
static void find_dists(const struct spot_fc_spec *spec, const struct ages *s, int y, double fill,
                       double *prob)
{
    const struct cohort fresh = { s->now ? s->now : 1, 1 };
    const double level = (s->died + WORTH) / (s->foretold + WORTH);
    const double stay_young = exp(-level * sum_at(spec, &fresh, (double)s->now + 1));
    double full = 1, empty = 0, before = 1;

    for (int h = 1; h <= spec->horizon; h++) {
        const double now = lasting(spec, s, level, h), stay = before > 0 ? now / before : 0;

        full = full * stay + (1 - full * stay) * fill; /* P(a place is full | it was) */
        empty = empty * stay_young + (1 - empty * stay_young) * fill;
        spot_places_dist(spec->cap, y, full, empty, spot_fc_row(spec, prob, h));
        before = now;
    }
}

void spot_hazard_predict(const struct spot_fc_spec *spec, void *state,
                         const struct spot_fc_past *past, double *prob)
{
    const struct ages *s = state;

    find_dists(spec, s, past->y[past->n - 1], fmin((s->born + 0.5) / (s->missing + 10), 1), prob);
}

void spot_hazard_mix(const struct spot_fc_spec *spec, const void *state, int now, double *dist,
                     double *prob)
{
    const struct ages *s = state;
    const double weight = WORTH / (WORTH + (double)s->n_loss);

    find_dists(spec, s, now, 0, dist);
    for (int h = 1; h <= spec->horizon; h++) {
        const double *lasting_dist = spot_fc_row(spec, dist, h);
        double *p = spot_fc_row(spec, prob, h), no_more = 0;

        for (int k = 0; k <= now; k++)
            no_more += p[k];
        for (int k = 0; k <= now; k++)
            p[k] += weight * (no_more * lasting_dist[k] - p[k]);
    }
}

bool spot_hazard_is_sound(const struct spot_fc_spec *spec, const void *state)
{
    const struct ages *s = state;

    (void)spec;
    if (s->now < 1 || s->now > (int64_t)1 << 53 || s->n_cohort < 0 || s->n_cohort > COHORTS)
        return false;
    for (int64_t i = 0; i < s->n_cohort; i++)
        if (s->cohort[i].born_at < 0 || s->cohort[i].born_at > s->now || !(s->cohort[i].n >= 0))
            return false;
    return true;
}
