/* SPDX-License-Identifier: MIT */
/* The least cost of a fleet when the trace is known. The number of replicas that answer in a zone
 * in a tick is the minimum of those that ran in it and in the `cold` ticks before. So a state is,
 * for each zone and on demand, the minimum over the last tick, over the last two, ... over the last
 * `cold`: a row that never rises. For a given price of a missed tick the cheapest path is a dynamic
 * program, and price * (misses - allowed) + cost of that path is at most the cost of every fleet
 * that misses no more than allowed: the Lagrangian bound of the integer program, at least as strong
 * as that of its linear relaxation. It is exact for each price and for any cold start, as long as
 * there are few states. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/fleet_play.h"

enum { STEPS_MAX = 1 << 18, CELLS_MAX = 1 << 27, HALVINGS = 24, ROWS_MAX = 4096 };

/* Possible recent numbers of running replicas in a zone. */
struct zone {
    int most;
    size_t n_row;
    int *row;     /* [n_row][cold], each row never rising; the first is all zero */
    size_t *next; /* [n_row][most + 1] the row after one more tick */
};

struct program {
    const struct spot_fleet_play *play;
    struct zone *zone; /* [n_zone + 1], the last one is on demand */
    size_t n_state, n_fleet;
    int *fleet;      /* [n_fleet][n_zone + 1] replicas that run in a tick */
    double *usd;     /* [n_fleet] per tick */
    uint32_t *next;  /* [n_state][n_fleet] the state after it */
    uint16_t *ready; /* [n_state][n_fleet] replicas that answer */
    uint32_t *from;  /* [n_tick][n_state] previous state * n_fleet + fleet */
    size_t *path;    /* [n_tick] previous state * n_fleet + fleet */
    double misses, cost;
};

static bool fits(const struct program *p, size_t fleet, size_t t)
{
    const size_t n = p->play->n_zone;

    for (size_t z = 0; z < n; z++)
        if (p->fleet[fleet * (n + 1) + z] > p->play->count[t * n + z])
            return false;
    return true;
}

/* --- states --- */

/* The row of minima after a tick with `now` replicas: `to` [cold]. */
static void push(const int *row, size_t cold, int now, int *to)
{
    for (size_t j = 0; j < cold; j++)
        to[j] = j && row[j - 1] < now ? row[j - 1] : now;
}

/* Enumerate all rows of `cold` numbers up to `most` that never rise; false: too many. */
static bool list_rows(struct zone *zone, size_t cold)
{
    size_t cap = 0;
    int *row = spot_xcalloc(cold + 1, sizeof(*row));
    size_t j = 0;

    while (j < cold || !zone->n_row) {
        zone->row = spot_xgrow(zone->row, &cap, (zone->n_row + 1) * (cold + 1), sizeof(int));
        memcpy(zone->row + zone->n_row++ * cold, row, cold * sizeof(int));
        if (zone->n_row > ROWS_MAX)
            break;
        for (j = cold; j-- > 0;) /* the last entry that may rise: it is below its neighbour */
            if (row[j] < (j ? row[j - 1] : zone->most))
                break;
        if (j >= cold)
            break;
        row[j]++;
        memset(row + j + 1, 0, (cold - j - 1) * sizeof(*row));
    }
    free(row);
    return zone->n_row <= ROWS_MAX;
}

static void link_rows(struct zone *zone, size_t cold)
{
    const size_t wide = (size_t)zone->most + 1;
    int *to = spot_xcalloc(cold + 1, sizeof(*to));

    zone->next = spot_xcalloc(zone->n_row * wide, sizeof(*zone->next));
    for (size_t i = 0; i < zone->n_row; i++)
        for (size_t now = 0; now < wide; now++) {
            size_t *next = &zone->next[i * wide + now];

            push(zone->row + i * cold, cold, (int)now, to);
            while (memcmp(zone->row + *next * cold, to, cold * sizeof(int)) != 0)
                ++*next;
        }
    free(to);
}

static void fill_fleets(struct program *p)
{
    const struct spot_fleet_play *play = p->play;
    const size_t n = play->n_zone;

    for (size_t i = 0; i < p->n_fleet; i++) {
        size_t rest = i;

        for (size_t z = 0; z <= n; z++) {
            const size_t wide = (size_t)p->zone[z].most + 1;
            const int k = (int)(rest % wide);

            rest /= wide;
            p->fleet[i * (n + 1) + z] = k;
            p->usd[i] +=
                k * (z < n ? play->usd_per_h[z] : play->on_demand_usd_per_h) * play->tick_s / 3600;
        }
    }
}

static void fill_steps(struct program *p)
{
    const size_t n = p->play->n_zone, cold = p->play->cold;

    for (size_t a = 0; a < p->n_state; a++)
        for (size_t f = 0; f < p->n_fleet; f++) {
            size_t rest = a, stride = 1, next = 0;
            int ready = 0;

            for (size_t z = 0; z <= n; z++) {
                const struct zone *zone = &p->zone[z];
                const size_t row = rest % zone->n_row;
                const int now = p->fleet[f * (n + 1) + z];
                const int least = cold ? zone->row[row * cold + cold - 1] : now;

                rest /= zone->n_row;
                ready += least < now ? least : now;
                next += stride * zone->next[row * ((size_t)zone->most + 1) + (size_t)now];
                stride *= zone->n_row;
            }
            p->ready[a * p->n_fleet + f] = (uint16_t)ready;
            p->next[a * p->n_fleet + f] = (uint32_t)next;
        }
}

static int most_in(const struct spot_fleet_play *play, size_t z)
{
    int most = z < play->n_zone ? 0 : play->wanted;

    for (size_t t = 0; z < play->n_zone && t < play->n_tick; t++)
        if (play->count[t * play->n_zone + z] > most)
            most = play->count[t * play->n_zone + z];
    return most < play->wanted ? most : play->wanted;
}

static int prepare(struct program *p, struct spot_err *err)
{
    const struct spot_fleet_play *play = p->play;

    p->n_state = p->n_fleet = 1;
    p->zone = spot_xcalloc(play->n_zone + 1, sizeof(*p->zone));
    for (size_t z = 0; z <= play->n_zone; z++) {
        p->zone[z].most = most_in(play, z);
        if (list_rows(&p->zone[z], play->cold)) {
            p->n_state *= p->zone[z].n_row;
            p->n_fleet *= (size_t)p->zone[z].most + 1;
        }
        if (p->zone[z].n_row > ROWS_MAX || p->n_state * p->n_fleet > STEPS_MAX ||
            p->n_state * play->n_tick > CELLS_MAX)
            return spot_err_set(
                err, SPOT_EINFEASIBLE,
                "omniscient needs more than %d transitions per tick with a cold start of %zu "
                "ticks: use fewer zones or replicas, or a longer --tick",
                STEPS_MAX, play->cold);
        link_rows(&p->zone[z], play->cold);
    }
    p->fleet = spot_xcalloc(p->n_fleet * (play->n_zone + 1), sizeof(int));
    p->usd = spot_xcalloc(p->n_fleet, sizeof(double));
    p->next = spot_xcalloc(p->n_state * p->n_fleet, sizeof(*p->next));
    p->ready = spot_xcalloc(p->n_state * p->n_fleet, sizeof(*p->ready));
    p->from = spot_xcalloc(p->n_state * play->n_tick, sizeof(*p->from));
    p->path = spot_xcalloc(play->n_tick, sizeof(*p->path));
    fill_fleets(p);
    fill_steps(p);
    return 0;
}

static void close_program(struct program *p)
{
    for (size_t z = 0; z <= p->play->n_zone; z++) {
        free(p->zone[z].row);
        free(p->zone[z].next);
    }
    free(p->zone);
    free(p->fleet);
    free(p->usd);
    free(p->next);
    free(p->ready);
    free(p->from);
    free(p->path);
}

/* --- the program --- */

/* The least number of replicas that serves the load of a tick. */
static int least_at(const struct program *p, size_t t)
{
    return p->play->load ? (int)ceil(p->play->load[t] - 1e-9) : p->play->wanted;
}

/* State 0, with no replicas, is the one before the first tick. */
static void walk_back(struct program *p, const double *best)
{
    size_t at = 0;

    for (size_t i = 1; i < p->n_state; i++)
        at = best[i] < best[at] ? i : at;
    p->misses = p->cost = 0;
    for (size_t t = p->play->n_tick; t-- > 0;) {
        const size_t step = p->from[t * p->n_state + at];

        p->path[t] = step;
        p->cost += p->usd[step % p->n_fleet];
        p->misses += p->ready[step] < least_at(p, t);
        at = step / p->n_fleet;
    }
}

/* Try every fleet of a tick from every state. */
static void relax(struct program *p, size_t t, double price, const double *best, double *next)
{
    const int least = least_at(p, t);
    uint32_t *from = p->from + t * p->n_state;

    for (size_t b = 0; b < p->n_state; b++)
        next[b] = HUGE_VAL;
    for (size_t f = 0; f < p->n_fleet; f++)
        for (size_t a = 0; fits(p, f, t) && a < p->n_state; a++) {
            const size_t step = a * p->n_fleet + f, b = p->next[step];
            const double usd = best[a] + p->usd[f] + (p->ready[step] >= least ? 0 : price);

            if (usd < next[b]) {
                next[b] = usd;
                from[b] = (uint32_t)step;
            }
        }
}

/* Find the cheapest path if a missed tick costs `price`. */
static void solve(struct program *p, double price)
{
    const size_t n = p->n_state;
    double *best = spot_xcalloc(2 * n, sizeof(double)), *next = best + n, *both = best;

    for (size_t i = 1; i < n; i++)
        best[i] = HUGE_VAL;
    for (size_t t = 0; t < p->play->n_tick; t++) {
        double *old = best;

        relax(p, t, price, best, next);
        best = next;
        next = old;
    }
    walk_back(p, best);
    free(both);
}

/* The ready replicas of a fleet, spot and on demand separately. */
static void answer(const struct program *p, size_t step, struct spot_fleet_step *s)
{
    const size_t n = p->play->n_zone, cold = p->play->cold;
    const int *now = p->fleet + step % p->n_fleet * (n + 1);
    size_t rest = step / p->n_fleet;

    for (size_t z = 0; z <= n; z++) {
        const struct zone *zone = &p->zone[z];
        const int least = cold ? zone->row[rest % zone->n_row * cold + cold - 1] : now[z];

        rest /= zone->n_row;
        *(z < n ? &s->spot_ready : &s->on_demand_ready) += least < now[z] ? least : now[z];
        *(z < n ? &s->spot : &s->on_demand) += now[z];
    }
}

static void count_launches(struct spot_fleet_result *r, const int *old, const int *now, size_t n)
{
    for (size_t z = 0; z <= n; z++)
        if (now[z] > old[z])
            *(z < n ? &r->spot_launches : &r->on_demand_launches) += (size_t)(now[z] - old[z]);
}

static void report(const struct program *p, struct spot_fleet_result *r,
                   struct spot_fleet_step *step, int32_t *in_zone)
{
    const struct spot_fleet_play *play = p->play;
    const size_t n = play->n_zone;
    const int *old = p->fleet; /* a fleet of no replicas */
    double backlog = 0;

    for (size_t t = 0; t < play->n_tick; t++) {
        const size_t fleet = p->path[t] % p->n_fleet;
        const int *now = p->fleet + fleet * (n + 1);
        struct spot_fleet_step s = { .usd = p->usd[fleet] };
        double short_of = play->load ? play->load[t] : play->wanted;

        answer(p, p->path[t], &s);
        for (size_t z = 0; in_zone && z < n; z++)
            in_zone[t * n + z] = now[z];
        count_launches(r, old, now, n);
        short_of -= s.spot_ready + s.on_demand_ready;
        r->availability += short_of <= 0;
        s.ready_first = s.spot_ready + s.on_demand_ready;
        s.unserved = fmax(0, short_of);
        r->unserved_share += s.unserved;
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
            rc = spot_err_set(
                err, SPOT_EINFEASIBLE,
                "an availability of %g cannot be reached: %g ticks are lost whatever runs",
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
    close_program(&p);
    return rc;
}
