/* SPDX-License-Identifier: MIT */
#include "fleet/fleet_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

struct point {
    double time_s, usd_per_h, on_demand_usd_per_h;
    int64_t wanted, target, running;
};

/* Low, median, high: a 90 % interval. */
struct band {
    double time_s;
    int low, mid, high;
};

struct came {
    struct band of; /* the forecast made SPOT_FLEET_AHEAD steps before; time_s < 0: none */
    double time_s;
    int now;
};

struct series {
    char *zone, *type;
    struct came came[SPOT_FLEET_POINTS];
    size_t n_came;
    struct band due[SPOT_FLEET_AHEAD + 1]; /* forecasts of future times, oldest first */
    size_t n_due;
    struct band *fan; /* [n_fan] the newest forecast */
    size_t n_fan;
};

struct spot_fleet_history {
    struct spot_fleet_sums sum;
    struct point point[SPOT_FLEET_POINTS];
    size_t n;
    struct series series[SPOT_FLEET_SERIES];
    size_t n_series;
    double forecast_s;
};

struct spot_fleet_history *spot_fleet_history_new(void)
{
    struct spot_fleet_history *h = spot_xcalloc(1, sizeof(*h));

    h->forecast_s = -1;
    return h;
}

void spot_fleet_history_free(struct spot_fleet_history *h)
{
    for (size_t i = 0; h && i < h->n_series; i++) {
        free(h->series[i].zone);
        free(h->series[i].type);
        free(h->series[i].fan);
    }
    free(h);
}

/* Makes room for one more element by dropping old ones. */
static size_t make_room(void *all, size_t n, size_t size)
{
    char *const at = all;

    if (n < SPOT_FLEET_POINTS)
        return n;
    for (size_t i = 1; i < n / 2; i++)
        memcpy(at + i * size, at + 2 * i * size, size);
    return n / 2;
}

/* --- forecasts --- */

static struct series *series_of(struct spot_fleet_history *h, const char *zone, const char *type)
{
    struct series *s = h->series;

    while (s < h->series + h->n_series &&
           (strcmp(s->zone, zone) != 0 || strcmp(s->type, type) != 0))
        s++;
    if (s < h->series + h->n_series)
        return s;
    if (h->n_series == SPOT_FLEET_SERIES)
        return NULL;
    h->n_series++;
    s->zone = spot_xstrdup(zone);
    s->type = spot_xstrdup(type);
    return s;
}

static struct band band_of(const struct spot_forecast *f, const struct spot_forecast_series *from,
                           int64_t step)
{
    return (struct band){ from->time_s + (double)step * f->interval_s,
                          spot_forecast_quantile(from, step, 0.05),
                          spot_forecast_quantile(from, step, 0.5),
                          spot_forecast_quantile(from, step, 0.95) };
}

static void take_series(struct series *s, const struct spot_forecast *f,
                        const struct spot_forecast_series *from)
{
    const int64_t ahead = f->horizon < SPOT_FLEET_AHEAD ? f->horizon : SPOT_FLEET_AHEAD;
    struct came came = { .of.time_s = -1, .time_s = from->time_s, .now = (int)from->now };
    size_t old = 0;

    while (old < s->n_due && s->due[old].time_s <= from->time_s + 1e-6 * f->interval_s)
        came.of = s->due[old++];
    if (came.of.time_s < from->time_s - f->interval_s)
        came.of.time_s = -1; /* no observation was made at the forecast's step */
    s->n_due -= old;
    memmove(s->due, s->due + old, s->n_due * sizeof(*s->due));
    if (s->n_due <= SPOT_FLEET_AHEAD)
        s->due[s->n_due++] = band_of(f, from, ahead);
    s->n_came = make_room(s->came, s->n_came, sizeof(*s->came));
    s->came[s->n_came++] = came;
    free(s->fan);
    s->n_fan = (size_t)f->horizon;
    s->fan = spot_xcalloc(s->n_fan, sizeof(*s->fan));
    for (size_t i = 0; i < s->n_fan; i++)
        s->fan[i] = band_of(f, from, (int64_t)i + 1);
}

static void take_forecast(struct spot_fleet_history *h, const struct spot_forecast *f)
{
    if (!f->n_series || f->series[0].time_s <= h->forecast_s || f->horizon < 1)
        return;
    h->forecast_s = f->series[0].time_s;
    for (size_t i = 0; i < f->n_series; i++) {
        struct series *s = series_of(h, f->series[i].zone, f->series[i].instance_type);

        if (s)
            take_series(s, f, &f->series[i]);
    }
}

/* --- counts and money --- */

void spot_fleet_history_add(struct spot_fleet_history *h, const struct spot_fleet *fleet,
                            int64_t wanted, const struct spot_forecast *forecast)
{
    const struct spot_fleet_total t = spot_fleet_total(fleet);
    const struct point now = { .time_s = spot_fleet_elapsed_s(fleet),
                               .usd_per_h = t.usd_per_h,
                               .on_demand_usd_per_h = t.on_demand_usd_per_h,
                               .wanted = wanted < 0 ? t.target : wanted,
                               .target = t.target,
                               .running = t.running };

    if (h->n) {
        const struct point *const last = &h->point[h->n - 1];
        const double s = now.time_s - last->time_s;

        h->sum.watched_s += s;
        h->sum.served_s += last->running >= last->wanted ? s : 0;
        h->sum.usd += last->usd_per_h * s / 3600;
        h->sum.on_demand_usd += last->on_demand_usd_per_h * s / 3600;
    }
    h->n = make_room(h->point, h->n, sizeof(*h->point));
    h->point[h->n++] = now;
    if (forecast)
        take_forecast(h, forecast);
}

struct spot_fleet_sums spot_fleet_history_sums(const struct spot_fleet_history *h)
{
    return h->sum;
}

/* --- the document --- */

static void write_points(const struct spot_fleet_history *h, struct spot_jw *jw)
{
    spot_jw_array(jw, "points");
    for (size_t i = 0; i < h->n; i++) {
        const struct point *p = &h->point[i];

        spot_jw_array(jw, NULL);
        spot_jw_real(jw, NULL, p->time_s);
        spot_jw_int(jw, NULL, p->wanted);
        spot_jw_int(jw, NULL, p->target);
        spot_jw_int(jw, NULL, p->running);
        spot_jw_real(jw, NULL, p->usd_per_h);
        spot_jw_real(jw, NULL, p->on_demand_usd_per_h);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void write_band(struct spot_jw *jw, const struct band *b)
{
    spot_jw_int(jw, NULL, b->low);
    spot_jw_int(jw, NULL, b->mid);
    spot_jw_int(jw, NULL, b->high);
}

static void write_series(const struct series *s, struct spot_jw *jw)
{
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "zone", s->zone);
    spot_jw_str(jw, "instance_type", s->type);
    spot_jw_array(jw, "came"); /* time, available, and the earlier forecast, if any */
    for (size_t i = 0; i < s->n_came; i++) {
        spot_jw_array(jw, NULL);
        spot_jw_real(jw, NULL, s->came[i].time_s);
        spot_jw_int(jw, NULL, s->came[i].now);
        if (s->came[i].of.time_s >= 0)
            write_band(jw, &s->came[i].of);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_array(jw, "fan");
    for (size_t i = 0; i < s->n_fan; i++) {
        spot_jw_array(jw, NULL);
        spot_jw_real(jw, NULL, s->fan[i].time_s);
        write_band(jw, &s->fan[i]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_end(jw);
}

void spot_fleet_history_write(const struct spot_fleet_history *h, struct spot_jw *jw)
{
    write_points(h, jw);
    spot_jw_array(jw, "series");
    for (size_t i = 0; i < h->n_series; i++)
        write_series(&h->series[i], jw);
    spot_jw_end(jw);
}
