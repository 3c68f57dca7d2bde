/* SPDX-License-Identifier: MIT */
#include "forecast/neighbours.h"

#include <limits.h>
#include <math.h>

static const double DAY_S = 86400, OWN_PER_H = 0.05, SHOCK_PER_H = 0.05, REACH = 0.5, LOSSES = 2;

/* Probabilities per window: of a shock; that it takes an instance; of a single loss. */
struct law {
    double shock, reach, own;
};

/* Observed statistics of one or several series, to which a law is fitted. */
struct moments {
    double windows[2], share[2], lost, together;
};

/* Number of intervals in a window. */
static int width_of(double interval_s)
{
    return (int)fmax(1, round(SPOT_NEIGHBOURS_WINDOW_S / interval_s));
}

static void close_window(struct spot_neighbours *s)
{
    const double n = s->there, k = s->gone < s->there ? s->gone : s->there;
    double share = 1;

    for (int of = 0; of < 2 && n > of; of++) {
        share *= fmax(k - of, 0) / (n - of);
        s->windows[of] += 1;
        s->share[of] += share;
    }
}

/* Losses of several instances count as joint; a single one does if the previous or next loss is
 * near. */
static void see_together(struct spot_neighbours *s, double interval_s, int before, int lost)
{
    const bool is_near = s->since && s->since * interval_s <= SPOT_NEIGHBOURS_WINDOW_S;

    s->since += s->since && s->since < INT_MAX;
    if (!lost || before < 2)
        return;
    s->lost += lost;
    s->together += is_near && s->lone ? 1 : 0;
    s->together += lost > 1 || is_near ? lost : 0;
    s->lone = lost == 1 && !is_near;
    s->since = 1;
}

void spot_neighbours_observe(struct spot_neighbours *seen, double interval_s, int before, int lost)
{
    struct spot_neighbours *s = seen;

    see_together(s, interval_s, before, lost);
    if (!s->left) {
        s->left = width_of(interval_s);
        s->there = before;
        s->gone = 0;
    }
    s->gone += lost < s->there ? lost : s->there;
    if (!--s->left)
        close_window(s);
}

bool spot_neighbours_is_sound(const struct spot_neighbours *seen)
{
    const struct spot_neighbours *s = seen;
    bool is_sound = s->lost >= 0 && s->together >= 0 && s->together <= s->lost &&
                    isfinite(s->lost) && s->there >= 0 && s->gone >= 0 && s->gone <= INT_MAX / 2 &&
                    s->left >= 0 && s->since >= 0 && (s->lone == 0 || s->lone == 1);

    for (int of = 0; of < 2; of++)
        is_sound &= isfinite(s->windows[of]) && s->windows[of] >= 0 && s->share[of] >= 0 &&
                    s->share[of] <= s->windows[of];
    return is_sound;
}

static struct moments of_law(struct law law, double windows)
{
    const double both = 1 - (1 - law.own) * (1 - law.reach), by_shock = law.shock * law.reach;
    struct moments m = { .lost = LOSSES, .together = LOSSES * by_shock / (by_shock + law.own) };

    for (int of = 0; of < 2; of++) {
        m.windows[of] = windows;
        m.share[of] =
            windows * (law.shock * pow(both, of + 1) + (1 - law.shock) * pow(law.own, of + 1));
    }
    return m;
}

static void add(struct moments *m, const struct spot_neighbours *seen)
{
    for (int of = 0; of < 2; of++) {
        m->windows[of] += seen->windows[of];
        m->share[of] += seen->share[of];
    }
    m->lost += seen->lost;
    m->together += seen->together;
}

static struct law solve(const struct moments *m)
{
    const double one = m->share[0] / m->windows[0], two = m->share[1] / m->windows[1];
    const double by_shock = fmax(one * m->together / m->lost, 1e-12);
    struct law law = { .own = fmax(one - by_shock, 1e-9) };

    law.reach = fmin(fmax(two / by_shock, 0.01), 0.999);
    law.shock = fmin(by_shock / law.reach, 0.5);
    return law;
}

/* Conversions between rates per hour and probabilities per window. */
static double in_window(double per_h, double s)
{
    return -expm1(-per_h * s / 3600);
}

static double per_h_of(double chance, double s)
{
    return -log1p(-chance) * 3600 / s;
}

void spot_neighbours_law(const struct spot_neighbours *const *seen, size_t n, double interval_s,
                         struct spot_forecast_shock *shock)
{
    const double s = width_of(interval_s) * interval_s, day = DAY_S / s;
    struct law all = { in_window(SHOCK_PER_H, s), REACH, in_window(OWN_PER_H, s) };
    struct moments m = of_law(all, day);

    for (size_t i = 0; i < n; i++)
        add(&m, seen[i]);
    all = solve(&m);
    for (size_t i = 0; i < n; i++) {
        struct law own;

        m = of_law(all, day);
        add(&m, seen[i]);
        own = solve(&m);
        shock[i] = (struct spot_forecast_shock){
            .own_per_h = per_h_of(own.own, s),
            .shock_per_h = per_h_of(own.shock, s),
            .reach = own.reach,
            .together = seen[i]->lost > 0 ? seen[i]->together / seen[i]->lost : 0,
        };
    }
}
