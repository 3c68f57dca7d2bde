/* SPDX-License-Identifier: MIT */
#include "train/history.h"

#include <math.h>

static void thin_out(struct spot_history *h)
{
    for (size_t i = 0; 2 * i < h->n_point; i++)
        h->point[i] = h->point[2 * i];
    h->n_point = (h->n_point + 1) / 2;
    h->every *= 2;
}

static void forget_from(struct spot_history *h, int64_t step)
{
    while (h->n_point && h->point[h->n_point - 1].step >= step)
        h->n_point--;
}

void spot_history_add(struct spot_history *h, const struct spot_history_point *point)
{
    if (!h->every)
        h->every = h->n_skipped = 1; /* the first one is kept */
    if (point->step <= h->last.step)
        forget_from(h, point->step);
    h->last = *point;
    if (h->n_skipped < h->every) {
        h->n_skipped++;
        return;
    }
    if (h->n_point == SPOT_HISTORY_POINTS)
        thin_out(h);
    h->point[h->n_point++] = *point;
    h->n_skipped = 1;
}

void spot_history_add_pause(struct spot_history *h, const struct spot_history_pause *pause)
{
    h->pause[h->n_pause++ % SPOT_HISTORY_PAUSES] = *pause;
}

/* Rounded: precise enough for a plot, and short. */
static void put_point(const struct spot_history_point *p, struct spot_jw *jw)
{
    spot_jw_array(jw, NULL);
    spot_jw_real(jw, NULL, rint(p->time_s * 1e3) / 1e3);
    spot_jw_int(jw, NULL, p->step);
    spot_jw_real(jw, NULL, rint(p->loss * 1e6) / 1e6);
    spot_jw_real(jw, NULL, rint(p->step_s * 1e6) / 1e6);
    spot_jw_int(jw, NULL, (int64_t)p->n_member);
    spot_jw_int(jw, NULL, p->grid.D);
    spot_jw_int(jw, NULL, p->grid.P);
    spot_jw_int(jw, NULL, p->grid.M);
    spot_jw_end(jw);
}

static void put_pause(const struct spot_history_pause *p, struct spot_jw *jw)
{
    spot_jw_array(jw, NULL);
    spot_jw_real(jw, NULL, rint(p->time_s * 1e3) / 1e3);
    spot_jw_real(jw, NULL, rint(p->pause_s * 1e6) / 1e6);
    spot_jw_int(jw, NULL, p->step);
    spot_jw_str(jw, NULL, p->cause);
    spot_jw_end(jw);
}

void spot_history_put(const struct spot_history *h, struct spot_jw *jw)
{
    const size_t n = h->n_pause < SPOT_HISTORY_PAUSES ? h->n_pause : SPOT_HISTORY_PAUSES;

    spot_jw_array(jw, "points");
    for (size_t i = 0; i < h->n_point; i++)
        put_point(&h->point[i], jw);
    if (h->n_point && h->point[h->n_point - 1].step < h->last.step)
        put_point(&h->last, jw);
    spot_jw_end(jw);
    spot_jw_array(jw, "pauses");
    for (size_t i = h->n_pause - n; i < h->n_pause; i++)
        put_pause(&h->pause[i % SPOT_HISTORY_PAUSES], jw);
    spot_jw_end(jw);
}
