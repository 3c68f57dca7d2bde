/* SPDX-License-Identifier: MIT */
#include "fleet/arrivals.h"

#include <math.h>
#include <string.h>

enum { ROWS_MAX = 100000 }; /* maximum rows between two samples */
static const double rest_share = 0.9;

/* True if the newest sample is redundant: it is equal to the one before and the one being added,
 * and close in time to the former. This keeps kept_s covered however often samples are taken. */
static bool newest_may_go(const struct spot_fleet_arrivals *a, const struct spot_fleet_look *look)
{
    const struct spot_fleet_look *const x = &a->look[a->n > 1 ? a->n - 2 : 0], *y = x + 1;

    return a->n > 1 && x->request == look->request && y->request == look->request &&
           x->open == look->open && y->open == look->open &&
           y->time_s - x->time_s < a->kept_s / SPOT_FLEET_LOOKS;
}

void spot_fleet_arrivals_add(struct spot_fleet_arrivals *a, const struct spot_fleet_look *look)
{
    size_t old = 0;

    if (a->n && look->request < a->look[a->n - 1].request)
        a->n = 0;
    a->n -= newest_may_go(a, look);
    /* Keeps the newest of the expired samples, since turns may take long. */
    while (a->n - old == SPOT_FLEET_LOOKS ||
           (old + 1 < a->n && a->look[old + 1].time_s < look->time_s - a->kept_s))
        old++;
    a->n -= old;
    memmove(a->look, a->look + old, a->n * sizeof(*a->look));
    a->look[a->n++] = *look;
}

bool spot_fleet_arrivals_came(const struct spot_fleet_arrivals *a, double window_s)
{
    size_t i = a->n;

    while (i > 1 && a->look[i - 1].time_s > a->look[a->n - 1].time_s - window_s)
        i--;
    return a->n && a->look[a->n - 1].request > a->look[i - 1].request;
}

bool spot_fleet_arrivals_is_at_rest(const struct spot_fleet_arrivals *a)
{
    const struct spot_fleet_look *const last = &a->look[a->n ? a->n - 1 : 0], *since = last;

    while (since > a->look && since[-1].request == last->request && !since[-1].open)
        since--;
    return !last->open && last->time_s - since->time_s >= rest_share * a->kept_s;
}

void spot_fleet_arrivals_write(const struct spot_fleet_arrivals *a, FILE *out)
{
    fputs("time_s,prompt_tokens,output_tokens\n", out);
    for (size_t i = 1; i < a->n; i++) {
        const struct spot_fleet_look *x = &a->look[i - 1], *y = &a->look[i];
        const int64_t n = y->request - x->request < ROWS_MAX ? y->request - x->request : ROWS_MAX;

        for (int64_t k = 1; k <= n; k++)
            fprintf(out, "%.3f,%.0f,%.0f\n",
                    x->time_s + (y->time_s - x->time_s) * (double)k / (double)n,
                    fmax(1, (double)(y->prompt_token - x->prompt_token) / (double)n),
                    fmax(1, (double)(y->output_token - x->output_token) / (double)n));
    }
}
