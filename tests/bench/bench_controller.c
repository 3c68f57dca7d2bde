/* SPDX-License-Identifier: MIT */
/* bench_controller - processor time of a turn of a live fleet, without its commands: observe,
 * decide, write the state, take in the results. Half of the machines leave and are replaced.
 *
 *   bench_controller [MACHINES [ZONES]]    (default: 1000 100) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/xalloc.h"
#include "fleet/tick.h"

enum { TURNS = 20, BYTES = 96 };

struct cloud {
    struct spot_fleet_listed *listed;
    size_t n, n_ever, n_state;
    double now_s;
};

static char *say(const char *what, size_t i)
{
    char *text = spot_xcalloc(BYTES, 1);

    snprintf(text, BYTES, "%s-%017zx", what, i);
    return text;
}

static double now_s(void *user)
{
    return ((struct cloud *)user)->now_s;
}

static int save(void *user, const char *text, size_t n, struct spot_err *err)
{
    (void)text;
    (void)err;
    ((struct cloud *)user)->n_state = n;
    return 0;
}

static int list(void *user, const struct spot_fleet_listed **listed, size_t *n,
                struct spot_err *err)
{
    struct cloud *c = user;

    (void)err;
    *listed = c->listed;
    *n = c->n;
    return 0;
}

static int run(void *user, const struct spot_fleet_action *action, size_t n,
               struct spot_fleet_outcome *result, struct spot_err *err)
{
    struct cloud *c = user;

    (void)err;
    for (size_t i = 0; i < n; i++) {
        const struct spot_fleet_action *a = &action[i];

        result[i].is_done = true;
        if (a->verb != SPOT_FLEET_LAUNCHES)
            continue;
        result[i].id = spot_xcalloc((size_t)a->count, sizeof(char *));
        for (int64_t k = 0; k < a->count; k++, c->n++, c->n_ever++) {
            result[i].id[result[i].n_id++] = say("i", c->n_ever);
            c->listed = realloc(c->listed, (c->n + 1) * sizeof(*c->listed));
            c->listed[c->n] = (struct spot_fleet_listed){ say("i", c->n_ever),
                                                          spot_xstrdup(a->token),
                                                          spot_xstrdup(a->zone),
                                                          spot_xstrdup(a->type),
                                                          false,
                                                          SPOT_FLEET_RUNNING };
        }
    }
    return 0;
}

/* Half of them leave; those that left are gone. */
static void take_away(struct cloud *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        if (c->listed[i].life == SPOT_FLEET_RUNNING)
            c->listed[n++] = c->listed[i];
    c->n = n;
    for (size_t i = 0; i < n; i += 2)
        c->listed[i].life = SPOT_FLEET_LEAVING;
}

static double ms(void)
{
    struct timespec at;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000,
                 n_zone = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
    struct spot_plan_buy *buy = spot_xcalloc(n_zone, sizeof(*buy));
    const struct spot_fleet_setting set = { .name = "bench",
                                            .max_usd_per_h = INFINITY,
                                            .settle_s = 60,
                                            .start_s = 1800,
                                            .pause_s = 30,
                                            .longest_s = 900,
                                            .wall_s = 1e9 };
    struct cloud c = { .now_s = 1 };
    const struct spot_fleet_world world = { now_s, save, list, NULL, run, &c };
    struct spot_fleet *fleet = spot_fleet_new(&set, 1, 0);
    struct spot_err err;
    double most = 0, sum = 0;

    for (size_t z = 0; z < n_zone; z++)
        buy[z] = (struct spot_plan_buy){ say("zone", z), "gpu", false, (int64_t)(n / n_zone) };
    if (spot_fleet_set_target(fleet, buy, n_zone, &err) ||
        spot_fleet_tick(fleet, &world, NULL, &err))
        return 1;
    for (int i = 0; i < TURNS; i++) {
        double took = ms();

        take_away(&c);
        c.now_s += 30;
        took = ms();
        if (spot_fleet_tick(fleet, &world, NULL, &err))
            return 1;
        took = ms() - took;
        most = fmax(most, took);
        sum += took;
    }
    printf("%zu machines, %zu zones: %.1f ms a turn, %.1f at most, state %zu bytes\n", n, n_zone,
           sum / TURNS, most, c.n_state);
    return 0;
}
