/* SPDX-License-Identifier: MIT */
/* spot-replay fleet: the load of each tick, and the replicas that an autoscaler derives from it. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/fleet_scale.h"
#include "replay_fleet.h"

void replay_work_init(struct replay_work *w, const struct spot_load *load, const double *work,
                      double tick_s)
{
    const double length_s = load->time_s[load->n - 1] - load->time_s[0];

    w->load = load;
    w->length_s = fmax(tick_s, length_s * (1 + 1 / fmax(1, (double)load->n - 1)));
    w->sum = spot_xcalloc(load->n + 1, sizeof(*w->sum));
    for (size_t i = 0; i < load->n; i++)
        w->sum[i + 1] = w->sum[i] + (work ? work[i] : 1);
}

void replay_work_release(struct replay_work *w)
{
    free(w->sum);
    *w = (struct replay_work){ 0 };
}

/* The load that has arrived up to a time. */
static double until(const struct replay_work *w, double time_s)
{
    const struct spot_load *load = w->load;
    const double rounds = floor(time_s / w->length_s),
                 at_s = load->time_s[0] + time_s - rounds * w->length_s;
    size_t low = 0, high = load->n;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        *(load->time_s[middle] < at_s ? &low : &high) =
            load->time_s[middle] < at_s ? middle + 1 : middle;
    }
    return rounds * w->sum[load->n] + w->sum[low];
}

void replay_work_rates(const struct replay_work *w, const struct replay_fleet_options *o,
                       size_t n_tick, double *came, double *seen)
{
    for (size_t t = 0; t < n_tick; t++) {
        const double now_s = (double)t * o->tick_s;
        const double window_s = t ? fmin(o->window_s, now_s) : o->tick_s;
        const double end_s = t ? now_s : o->tick_s;

        came[t] = (until(w, now_s + o->tick_s) - until(w, now_s)) / o->tick_s;
        seen[t] = (until(w, end_s) - until(w, end_s - window_s)) / window_s;
    }
}

/* Whole replicas for a load; at most INT32_MAX. */
static int32_t whole(double replicas)
{
    return (int32_t)fmin(INT32_MAX, ceil(replicas - 1e-9));
}

int32_t replay_autoscale(const struct replay_fleet_options *o, size_t n_tick, const double *came,
                         const double *seen, int32_t *asked)
{
    struct spot_fleet_scale scale = { 0 };
    int32_t held = 0, most = 1;

    for (size_t t = 0; t < n_tick; t++) {
        const int32_t want = whole(seen[t] / o->rho), comes = whole(came[t]);
        const enum spot_fleet_side side = want > held   ? SPOT_FLEET_UP
                                          : want < held ? SPOT_FLEET_DOWN
                                                        : SPOT_FLEET_SAME;

        if (spot_fleet_scale_step(&scale, side, !held, (double)t * o->tick_s, REPLAY_FLEET_UP_S,
                                  REPLAY_FLEET_DOWN_S))
            held = want;
        asked[t] = held;
        most = held > most ? held : most;
        most = comes > most ? comes : most;
    }
    return most;
}
