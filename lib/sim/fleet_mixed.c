/* SPDX-License-Identifier: MIT */
#include "sim/fleet_mixed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/fleet.h"
#include "plan/fleet_route.h"
#include "plan/fleet_scale.h"

void spot_mixed_init(const struct spot_mixed_play *play, struct spot_mixed_run *run)
{
    *run = (struct spot_mixed_run){ 0 };
    run->held = spot_xcalloc(play->n_tick * play->n_offer, sizeof(*run->held));
    run->ready = spot_xcalloc(play->n_tick * play->n_type, sizeof(*run->ready));
    run->left = spot_xcalloc(play->n_tick, sizeof(*run->left));
    run->usd = spot_xcalloc(play->n_tick, sizeof(*run->usd));
}

void spot_mixed_release(struct spot_mixed_run *run)
{
    free(run->held);
    free(run->ready);
    free(run->left);
    free(run->usd);
    *run = (struct spot_mixed_run){ 0 };
}

void spot_mixed_account(const struct spot_mixed_play *play, struct spot_mixed_run *run)
{
    struct spot_fleet_route *route =
        spot_fleet_route_new(play->per_s, play->n_bucket, play->n_type);
    const double hours = play->tick_s / 3600;
    double came = 0, left = 0, served = 0;

    for (size_t t = 0; t < play->n_tick; t++) {
        const double *load = play->load_per_s + t * play->n_bucket;

        run->left[t] =
            play->tick_s * spot_fleet_route_left(route, load, run->ready + t * play->n_type);
        for (size_t b = 0; b < play->n_bucket; b++)
            came += load[b] * play->tick_s;
        left += run->left[t];
        served += !(run->left[t] > 0);
        run->usd[t] = 0;
        for (size_t k = 0; k < play->n_offer; k++) {
            const double usd = run->held[t * play->n_offer + k] * play->offer[k].usd_per_h * hours;

            run->usd[t] += usd;
            run->on_demand_usd += play->offer[k].zone ? 0 : usd;
        }
        run->total_usd += run->usd[t];
    }
    run->unserved_share = left / fmax(came, 1e-300);
    run->availability = served / (double)play->n_tick;
    spot_fleet_route_free(route);
}

int32_t spot_mixed_most_there(const struct spot_mixed_play *play, size_t offer)
{
    int32_t most = 0;

    for (size_t t = 0; t < play->n_tick; t++)
        if (play->count[t * play->n_spot + offer] > most)
            most = play->count[t * play->n_spot + offer];
    return most;
}

double spot_mixed_request_usd(const struct spot_mixed_play *play, size_t bucket, size_t first)
{
    double least = HUGE_VAL;

    for (size_t k = first; k < play->n_offer; k++) {
        const double per_s = play->per_s[bucket * play->n_type + play->offer[k].type];

        if (per_s > 0)
            least = fmin(least, play->offer[k].usd_per_h / 3600 / per_s);
    }
    return least;
}

/* --- on demand --- */

struct buyer {
    const struct spot_mixed_play *play;
    struct spot_fleet_offer *offer; /* [n_demand_offer] */
    double *per_s;                  /* [n_bucket][n_demand_offer] */
    size_t n;
};

static void open_buyer(struct buyer *s, const struct spot_mixed_play *play)
{
    s->play = play;
    s->n = play->n_offer - play->n_spot;
    s->offer = spot_xcalloc(s->n, sizeof(*s->offer));
    s->per_s = spot_xcalloc(play->n_bucket * s->n, sizeof(double));
    for (size_t i = 0; i < s->n; i++) {
        const struct spot_mixed_offer *offer = &play->offer[play->n_spot + i];

        s->offer[i] = (struct spot_fleet_offer){ play->type[offer->type], offer->usd_per_h, -1 };
        for (size_t b = 0; b < play->n_bucket; b++)
            s->per_s[b * s->n + i] = play->per_s[b * play->n_type + offer->type];
    }
}

/* The cheapest mix for given rates: count[n]. Returns its usd/h, or -1 with *err. */
static double buy(const struct buyer *s, const double *rate_per_s, int64_t *count,
                  struct spot_err *err)
{
    const struct spot_fleet_demand demand = { .n_bucket = s->play->n_bucket,
                                              .n_offer = s->n,
                                              .rate_per_s = rate_per_s,
                                              .per_s = s->per_s,
                                              .offer = s->offer,
                                              .rho = s->play->rho };
    struct spot_fleet_answer answer = { 0 };
    double usd_per_h = -1;

    if (!spot_fleet_serve(&demand, 0, &answer, err)) {
        memcpy(count, answer.count, s->n * sizeof(*count));
        usd_per_h = answer.usd_per_h;
    }
    spot_fleet_release(&answer);
    return usd_per_h;
}

/* True if these numbers of machines serve these rates at rho. */
static bool is_enough(const struct buyer *s, struct spot_fleet_route *route, const int64_t *count,
                      const double *rate_per_s)
{
    double capacity[SPOT_MIXED_TYPES_MAX] = { 0 };

    for (size_t i = 0; i < s->n; i++)
        capacity[s->play->offer[s->play->n_spot + i].type] += s->play->rho * (double)count[i];
    return !(spot_fleet_route_left(route, rate_per_s, capacity) > 0);
}

/* Hold these counts from now on. New machines answer after the cold start, so until then the
 * machines held throughout count. */
static void hold(const struct buyer *s, const int64_t *count, size_t t, struct spot_mixed_run *run)
{
    const struct spot_mixed_play *play = s->play;

    for (size_t i = 0; i < s->n; i++) {
        const size_t k = play->n_spot + i;
        int32_t least = count[i] < INT32_MAX ? (int32_t)count[i] : INT32_MAX;

        run->held[t * play->n_offer + k] = least;
        for (size_t back = 1; back <= play->cold; back++) {
            const int32_t then = t < back ? 0 : run->held[(t - back) * play->n_offer + k];

            least = then < least ? then : least;
        }
        run->ready[t * play->n_type + play->offer[k].type] += least;
    }
}

static int follow(const struct buyer *s, int64_t *held, int64_t *want, struct spot_mixed_run *run,
                  struct spot_err *err)
{
    const struct spot_mixed_play *play = s->play;
    struct spot_fleet_route *route =
        spot_fleet_route_new(play->per_s, play->n_bucket, play->n_type);
    struct spot_fleet_scale scale = { 0 };
    double held_usd = 0, usd = 0;

    for (size_t t = 0; usd >= 0 && t < play->n_tick; t++) {
        const double *seen = play->seen_per_s + t * play->n_bucket;
        const double now_s = (double)t * play->tick_s;
        enum spot_fleet_side side;

        if ((usd = buy(s, seen, want, err)) < 0)
            break;
        side = !is_enough(s, route, held, seen) ? SPOT_FLEET_UP
               : usd < held_usd                 ? SPOT_FLEET_DOWN
                                                : SPOT_FLEET_SAME;
        if (spot_fleet_scale_step(&scale, side, !(held_usd > 0), now_s, play->up_s, play->down_s)) {
            memcpy(held, want, s->n * sizeof(*held));
            held_usd = usd;
        }
        hold(s, held, t, run);
    }
    spot_fleet_route_free(route);
    return usd < 0 ? -1 : 0;
}

/* A constant fleet for the maximum of each size; the machines get no reserve beyond rho. */
static int stand(struct buyer *s, int64_t *count, struct spot_mixed_run *run, struct spot_err *err)
{
    const struct spot_mixed_play *play = s->play;
    double *most = spot_xcalloc(play->n_bucket, sizeof(double));
    int rc;

    for (size_t t = 0; t < play->n_tick; t++)
        for (size_t b = 0; b < play->n_bucket; b++)
            most[b] = fmax(most[b], play->rho * play->load_per_s[t * play->n_bucket + b]);
    rc = buy(s, most, count, err) < 0 ? -1 : 0;
    for (size_t t = 0; !rc && t < play->n_tick; t++)
        hold(s, count, t, run);
    free(most);
    return rc;
}

int spot_mixed_on_demand(const struct spot_mixed_play *play, bool is_peak,
                         struct spot_mixed_run *run, struct spot_err *err)
{
    struct buyer s = { 0 };
    int64_t *held, *want;
    int rc;

    open_buyer(&s, play);
    held = spot_xcalloc(2 * s.n + 1, sizeof(*held));
    want = held + s.n;
    rc = is_peak ? stand(&s, held, run, err) : follow(&s, held, want, run, err);
    if (!rc)
        spot_mixed_account(play, run);
    free(s.offer);
    free(s.per_s);
    free(held);
    return rc;
}
