/* SPDX-License-Identifier: MIT */
#include "forecast/next_probes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { HOUR_S = 3600 };

/* A value that a place may have later. */
struct atom {
    double usd, chance;
    size_t place;
};

static int dearest_first(const void *a, const void *b)
{
    const struct atom *x = a, *y = b;

    if (x->usd != y->usd)
        return x->usd > y->usd ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* The expected largest value: values in descending order, each with the probability that a place
 * has it and none has a larger one. */
static double mean_of_best(struct atom *atom, size_t n_atom, double floor_usd, double *left,
                           size_t n)
{
    double mean = 0, none = 1; /* P(no value so far) */

    for (size_t i = 0; i < n; i++)
        left[i] = 1;
    qsort(atom, n_atom, sizeof(*atom), dearest_first);
    for (size_t i = 0; i < n_atom && atom[i].usd > floor_usd; i++) {
        double *of = &left[atom[i].place];
        const double share = *of > 0 ? atom[i].chance / *of : 1;

        mean += none * share * atom[i].usd;
        none *= 1 - share;
        *of -= atom[i].chance;
        if (share >= 1 || *of <= 1e-15)
            return mean;
    }
    return mean + none * floor_usd;
}

double spot_next_value(const struct spot_next_place *place, const bool *is_asked, size_t n)
{
    struct atom *atom = spot_xcalloc(2 * n + 1, sizeof(*atom));
    double *left = spot_xcalloc(n + 1, sizeof(*left)), floor_usd = 0, mean;
    size_t n_atom = 0;

    for (size_t i = 0; i < n; i++) {
        if (!is_asked[i]) {
            floor_usd = fmax(floor_usd, place[i].now_usd);
            continue;
        }
        atom[n_atom++] = (struct atom){ place[i].yes_usd, place[i].yes, i };
        atom[n_atom++] = (struct atom){ place[i].no_usd, 1 - place[i].yes, i };
    }
    mean = mean_of_best(atom, n_atom, floor_usd, left, n);
    free(atom);
    free(left);
    return mean;
}

size_t spot_next_probes(const struct spot_next_place *place, size_t n, double cost_usd,
                        size_t n_max, struct spot_next_probe *probe)
{
    bool *is_asked = spot_xcalloc(n + 1, sizeof(*is_asked));
    double value = spot_next_value(place, is_asked, n);
    size_t n_probe = 0;

    while (n_probe < n_max) {
        double best = cost_usd + 1e-12;
        size_t at = SIZE_MAX;

        for (size_t i = 0; i < n; i++) {
            double adds;

            if (is_asked[i])
                continue;
            is_asked[i] = true;
            adds = spot_next_value(place, is_asked, n) - value;
            is_asked[i] = false;
            if (adds > best) {
                best = adds;
                at = i;
            }
        }
        if (at == SIZE_MAX)
            break;
        is_asked[at] = true;
        value += best;
        probe[n_probe++] = (struct spot_next_probe){ at, best };
    }
    free(is_asked);
    return n_probe;
}

static double worth(const struct spot_probes *probes, const struct spot_probed *x, const double *p,
                    double hour_usd, double price_usd_per_h)
{
    const double granted = spot_capacity_granted(&probes->market, p);

    return granted * (hour_usd * spot_capacity_stays(&probes->market, &x->place, p, HOUR_S) -
                      price_usd_per_h);
}

struct spot_next_place spot_next_place_of(const struct spot_probes *probes,
                                          const struct spot_probed *probed, double hour_usd,
                                          double price_usd_per_h)
{
    const struct spot_capacity *m = &probes->market;
    struct spot_next_place place = { .now_usd = worth(probes, probed, probed->p, hour_usd,
                                                      price_usd_per_h) };
    double p[2][SPOT_CAPACITY_STATES];

    place.yes = spot_capacity_granted(m, probed->p) + m->false_yes * probed->p[SPOT_CAPACITY_NONE];
    for (int answer = 0; answer < 2; answer++) {
        memcpy(p[answer], probed->p, sizeof(p[answer]));
        spot_capacity_hear(m, answer, p[answer]);
    }
    place.no_usd = worth(probes, probed, p[0], hour_usd, price_usd_per_h);
    place.yes_usd = worth(probes, probed, p[1], hour_usd, price_usd_per_h);
    return place;
}
