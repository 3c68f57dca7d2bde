/* SPDX-License-Identifier: MIT */
/* The least cost of a fleet with the trace known. A state is how many run in each zone and on
 * demand; with a cold start of a tick at most, what answers depends on two states that follow each
 * other. For a price of a missed tick the cheapest path is a dynamic program, and price * (misses -
 * allowed) + cost of that path is below the cost of every fleet that misses no more than allowed:
 * the bound of the integer program's Lagrangian, not weaker than that of its relaxation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/fleet_state.h"

enum { STATES_MAX = 512, CELLS_MAX = 1 << 28, HALVINGS = 24 };

struct program {
    const struct spot_fleet_play *play;
    size_t n_state;
    int *in_zone;   /* [n_state][n_zone + 1], the last is on demand */
    double *usd;    /* [n_state] a tick */
    uint8_t *ready; /* [n_state][n_state] that answer: before, now */
    uint16_t *from; /* [n_tick][n_state] */
    size_t *path;   /* [n_tick] */
    double misses, cost;
};

static bool fits(const struct program *p, size_t state, size_t t)
{
    const size_t n = p->play->n_zone;

    for (size_t z = 0; z < n; z++)
        if (p->in_zone[state * (n + 1) + z] > p->play->count[t * n + z])
            return false;
    return true;
}

static void fill_states(struct program *p, const int *most)
{
    const struct spot_fleet_play *play = p->play;
    const size_t n = play->n_zone;

    for (size_t i = 0; i < p->n_state; i++) {
        size_t rest = i;

        for (size_t z = 0; z <= n; z++) {
            const int k = (int)(rest % (size_t)(most[z] + 1));

            rest /= (size_t)(most[z] + 1);
            p->in_zone[i * (n + 1) + z] = k;
            p->usd[i] +=
                k * (z < n ? play->usd_per_h[z] : play->on_demand_usd_per_h) * play->tick_s / 3600;
        }
    }
    for (size_t a = 0; a < p->n_state; a++)
        for (size_t b = 0; b < p->n_state; b++) {
            int ready = 0;

            for (size_t z = 0; z <= n; z++) {
                const int before = p->in_zone[a * (n + 1) + z], now = p->in_zone[b * (n + 1) + z];

                ready += play->cold && before < now ? before : now;
            }
            p->ready[a * p->n_state + b] = (uint8_t)ready;
        }
}

static int prepare(struct program *p, struct spot_err *err)
{
    const struct spot_fleet_play *play = p->play;
    int most[SPOT_FLEET_ZONES_MAX + 1];

    p->n_state = 1;
    for (size_t z = 0; z <= play->n_zone; z++) {
        most[z] = z < play->n_zone ? 0 : play->wanted;
        for (size_t t = 0; z < play->n_zone && t < play->n_tick; t++)
            most[z] = play->count[t * play->n_zone + z] > most[z]
                          ? play->count[t * play->n_zone + z]
                          : most[z];
        most[z] = most[z] < play->wanted ? most[z] : play->wanted;
        p->n_state *= (size_t)most[z] + 1;
        if (play->cold > 1 || p->n_state > STATES_MAX || p->n_state * play->n_tick > CELLS_MAX)
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "omniscient needs a cold start of one tick at most and %d fleets "
                                "at most: fewer zones or replicas",
                                STATES_MAX);
    }
    p->in_zone = spot_xcalloc(p->n_state * (play->n_zone + 1), sizeof(int));
    p->usd = spot_xcalloc(p->n_state, sizeof(double));
    p->ready = spot_xcalloc(p->n_state * p->n_state, 1);
    p->from = spot_xcalloc(p->n_state * play->n_tick, sizeof(*p->from));
    p->path = spot_xcalloc(play->n_tick, sizeof(*p->path));
    fill_states(p, most);
    return 0;
}

/* Replicas that serve a tick's load. */
static int least_at(const struct program *p, size_t t)
{
    return p->play->load ? (int)ceil(p->play->load[t] - 1e-9) : p->play->wanted;
}

/* State 0 runs nothing: what was before the first tick. */
static void walk_back(struct program *p, const double *best)
{
    size_t at = 0;

    for (size_t i = 1; i < p->n_state; i++)
        at = best[i] < best[at] ? i : at;
    p->misses = p->cost = 0;
    for (size_t t = p->play->n_tick; t-- > 0;) {
        const size_t before = p->from[t * p->n_state + at];

        p->path[t] = at;
        p->cost += p->usd[at];
        p->misses += p->ready[before * p->n_state + at] < least_at(p, t);
        at = before;
    }
}

/* The cheapest path where a missed tick costs `price`. */
static void solve(struct program *p, double price)
{
    const size_t n = p->n_state;
    double *best = spot_xcalloc(2 * n, sizeof(double)), *next = best + n, *both = best;

    for (size_t i = 1; i < n; i++)
        best[i] = HUGE_VAL;
    for (size_t t = 0; t < p->play->n_tick; t++) {
        const int least = least_at(p, t);
        double *old = best;

        for (size_t b = 0; b < n; b++) {
            next[b] = HUGE_VAL;
            for (size_t a = 0; fits(p, b, t) && a < n; a++) {
                const double usd = best[a] + p->usd[b] + (p->ready[a * n + b] >= least ? 0 : price);

                if (usd < next[b]) {
                    next[b] = usd;
                    p->from[t * n + b] = (uint16_t)a;
                }
            }
        }
        best = next;
        next = old;
    }
    walk_back(p, best);
    free(both);
}

static void report(const struct program *p, struct spot_fleet_result *r,
                   struct spot_fleet_step *step, int32_t *in_zone)
{
    const struct spot_fleet_play *play = p->play;
    const size_t n = play->n_zone;
    const int *old = p->in_zone; /* nothing */
    double backlog = 0;

    for (size_t t = 0; t < play->n_tick; t++) {
        const int *now = p->in_zone + p->path[t] * (n + 1);
        struct spot_fleet_step s = { .on_demand = now[n], .usd = p->usd[p->path[t]] };
        double load = play->load ? play->load[t] : play->wanted, short_of;

        for (size_t z = 0; z <= n; z++) {
            const int ready = play->cold && old[z] < now[z] ? old[z] : now[z];

            *(z < n ? &s.spot_ready : &s.on_demand_ready) += ready;
            s.spot += z < n ? now[z] : 0;
            if (z < n && in_zone)
                in_zone[t * n + z] = now[z];
            if (now[z] > old[z])
                *(z < n ? &r->spot_launches : &r->on_demand_launches) += (size_t)(now[z] - old[z]);
        }
        short_of = load - s.spot_ready - s.on_demand_ready;
        r->availability += short_of <= 0;
        r->unserved_share += fmax(0, short_of);
        backlog = fmax(0, backlog + short_of);
        r->wait_s += play->load ? backlog * play->tick_s : 0;
        r->usd += s.usd;
        r->on_demand_share += now[n] * play->on_demand_usd_per_h * play->tick_s / 3600;
        if (step)
            step[t] = s;
        old = now;
    }
}

int spot_fleet_omniscient(const struct spot_fleet_play *play, struct spot_fleet_result *result,
                          struct spot_fleet_step *step, int32_t *in_zone, struct spot_err *err)
{
    struct program p = { .play = play };
    const double allowed = floor((1 - play->availability) * (double)play->n_tick + 1e-9);
    double low = 0, high = 1e5 * play->on_demand_usd_per_h * play->tick_s / 3600;
    int rc = prepare(&p, err);

    if (!rc) {
        solve(&p, high);
        if (p.misses > allowed)
            rc =
                spot_err_set(err, SPOT_EINFEASIBLE,
                             "an availability of %g cannot be had: %g ticks are lost whatever runs",
                             play->availability, p.misses);
    }
    for (int i = 0; !rc && i < HALVINGS && high > low * (1 + 1e-6); i++) {
        const double price = i < 12 && low == 0 ? high / 8 : (low + high) / 2;

        solve(&p, price);
        result->bound_usd = fmax(result->bound_usd, p.cost + price * (p.misses - allowed));
        *(p.misses > allowed ? &low : &high) = price;
    }
    if (!rc) {
        solve(&p, high);
        report(&p, result, step, in_zone);
    }
    free(p.in_zone);
    free(p.usd);
    free(p.ready);
    free(p.from);
    free(p.path);
    return rc;
}
