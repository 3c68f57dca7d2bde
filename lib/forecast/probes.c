/* SPDX-License-Identifier: MIT */
#include "forecast/probes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "trace/region.h"

enum { HOUR_S = 3600 };

/* --- answers --- */

struct answers {
    struct spot_capacity_seen *seen;
    size_t n, cap;
};

static void add(struct answers *a, double time_s, bool is_granted)
{
    a->seen = spot_xgrow(a->seen, &a->cap, a->n + 1, sizeof(*a->seen));
    a->seen[a->n++] = (struct spot_capacity_seen){ time_s, is_granted, 0 };
}

static void add_counts(struct answers *a, const struct spot_trace_series *s)
{
    for (size_t i = 1; i < s->n; i++) {
        if (s->available[i] > s->available[i - 1])
            add(a, s->time_s[i], true);
        else if (!s->available[i] && s->available[i - 1])
            add(a, s->time_s[i], false);
    }
}

static const struct spot_trace_series *counts_of(const struct spot_trace *counts,
                                                 const struct spot_probe_series *s)
{
    for (size_t i = 0; counts && i < counts->n_series; i++)
        if (!strcmp(counts->series[i].zone, s->zone) &&
            !strcmp(counts->series[i].instance_type, s->instance_type))
            return &counts->series[i];
    return NULL;
}

static int earlier(const void *a, const void *b)
{
    const struct spot_capacity_seen *x = a, *y = b;

    return x->time_s != y->time_s ? (x->time_s > y->time_s) - (x->time_s < y->time_s)
                                  : (int)y->is_granted - (int)x->is_granted;
}

static struct answers answers_of(const struct spot_probe_series *s, const struct spot_trace *counts)
{
    const struct spot_trace_series *c = counts_of(counts, s);
    struct answers a = { 0 };

    for (size_t i = 0; i < s->n; i++)
        if (s->row[i].asked)
            add(&a, s->row[i].time_s, s->row[i].granted > 0);
    if (a.n && c)
        add_counts(&a, c);
    if (a.n)
        qsort(a.seen, a.n, sizeof(*a.seen), earlier);
    return a;
}

/* --- scores --- */

/* Clouds score from 1 to 10: AWS says of 10 that a request is highly likely to succeed, of 1 that
 * it is not. So the scale is absolute, with its middle at the mean market. */
static const double SCORE_MIDDLE = 5.5, SCORE_UNIT = 3;

/* True if the entry is a score of the place or of its region. A score holds from its time on; the
 * newest counts. */
static bool scores(const struct spot_probe_series *told, const struct spot_probe_series *place)
{
    const size_t n = spot_region_length(place->zone);

    if (strcmp(told->instance_type, place->instance_type) != 0)
        return false;
    return !strcmp(told->zone, place->zone) ||
           (strlen(told->zone) == n && !strncmp(told->zone, place->zone, n));
}

/* Add the score that holds at each answer; returns the newest. */
static double add_scores(struct answers *a, const struct spot_probe_trace *trace,
                         const struct spot_probe_series *place)
{
    double *at_s = spot_xcalloc(a->n + 1, sizeof(*at_s)), newest = 0;

    for (size_t i = 0; i <= a->n; i++)
        at_s[i] = -INFINITY;
    for (size_t t = 0; t < trace->n_series; t++) {
        const struct spot_probe_series *told = &trace->series[t];
        double score = NAN, time_s = -INFINITY;
        size_t row = 0;

        if (!scores(told, place))
            continue;
        for (size_t i = 0; i <= a->n; i++) {
            for (; row < told->n && (i == a->n || told->row[row].time_s <= a->seen[i].time_s);
                 row++)
                if (!isnan(told->row[row].score)) {
                    score = (fmin(fmax(told->row[row].score, 1), 10) - SCORE_MIDDLE) / SCORE_UNIT;
                    time_s = told->row[row].time_s;
                }
            if (isnan(score) || time_s < at_s[i])
                continue;
            *(i < a->n ? &a->seen[i].score : &newest) = score;
            at_s[i] = time_s;
        }
    }
    free(at_s);
    return newest;
}

/* True for a region whose zones are listed too: it only gives scores for them and is no place
 * itself. */
static bool is_region_of_others(const struct spot_probe_trace *trace, size_t i)
{
    for (size_t k = 0; k < trace->n_series; k++)
        if (k != i && scores(&trace->series[i], &trace->series[k]))
            return true;
    return false;
}

/* --- learning --- */

static double end_of(const struct spot_trace *counts)
{
    double end_s = 0;

    for (size_t i = 0; counts && i < counts->n_series; i++)
        end_s = fmax(end_s, counts->series[i].time_s[counts->series[i].n - 1]);
    return end_s;
}

/* Take the logarithms of the scores, relative to their mean. */
static void take_advice(struct spot_probes *p, const struct spot_advice *advice)
{
    double sum = 0, n = 0;

    for (size_t i = 0; i < p->n; i++) {
        const double per_h =
            spot_advice_per_h(advice, p->probed[i].zone, p->probed[i].instance_type);

        p->probed[i].place.advice = per_h > 0 ? log(per_h) : NAN;
        if (per_h > 0)
            sum += log(per_h), n++;
    }
    for (size_t i = 0; i < p->n; i++) {
        double *x = &p->probed[i].place.advice;

        *x = isnan(*x) ? 0 : *x - sum / n;
    }
}

static void fit(struct spot_probes *p)
{
    struct spot_capacity_place *place = spot_xcalloc(p->n + 1, sizeof(*place));

    for (size_t i = 0; i < p->n; i++)
        place[i] = p->probed[i].place;
    spot_capacity_fit(&p->market, place, p->n);
    for (size_t i = 0; i < p->n; i++) {
        p->probed[i].place = place[i];
        spot_capacity_filter(&p->market, &place[i], p->now_s, p->probed[i].p);
    }
    free(place);
}

/* True if the trace has only scores, and no requests. */
static bool is_of_scores(const struct spot_probe_trace *trace)
{
    for (size_t i = 0; i < trace->n_series; i++)
        for (size_t k = 0; k < trace->series[i].n; k++)
            if (trace->series[i].row[k].asked)
                return false;
    return true;
}

void spot_probes_learn(struct spot_probes *probes, const struct spot_probe_trace *trace,
                       const struct spot_trace *counts, const struct spot_advice *advice)
{
    const bool is_score = is_of_scores(trace);

    *probes = (struct spot_probes){ .now_s = fmax(trace->end_s, end_of(counts)) };
    probes->probed = spot_xcalloc(trace->n_series + 1, sizeof(*probes->probed));
    for (size_t i = 0; i < trace->n_series; i++) {
        const struct spot_probe_series *s = &trace->series[i];
        struct answers a = answers_of(s, counts);
        double score;

        if (!a.n && is_region_of_others(trace, i))
            continue;
        score = add_scores(&a, trace, s);
        probes->probed[probes->n++] = (struct spot_probed){
            .zone = s->zone,
            .instance_type = s->instance_type,
            .place = { .seen = a.seen, .n = a.n, .score = score, .loss_level = 1, .gain_level = 1 },
            .age_s = a.n        ? probes->now_s - a.seen[a.n - 1].time_s
                     : is_score ? probes->now_s - s->row[s->n - 1].time_s
                                : NAN,
            .usd_per_h = spot_probe_usd_per_h(s, probes->now_s),
            .owned = a.seen,
        };
    }
    if (advice)
        take_advice(probes, advice);
    fit(probes);
}

void spot_probes_release(struct spot_probes *probes)
{
    for (size_t i = 0; i < probes->n; i++)
        free(probes->probed[i].owned);
    free(probes->probed);
    memset(probes, 0, sizeof(*probes));
}

/* --- output --- */

/* Add the expected counts as a series. is_score: a place known only by its score counts as 0 of 1.
 */
static int count_series(struct spot_trace_builder *builder, size_t series,
                        const struct spot_probe_series *s, bool is_score, struct spot_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct spot_trace_row row = { .series = series,
                                            .zone = s->zone,
                                            .instance_type = s->instance_type,
                                            .time_s = s->row[i].time_s,
                                            .available = s->row[i].granted,
                                            .requested = is_score ? 1 : s->row[i].asked,
                                            .price_usd_per_h = NAN,
                                            .kind = SPOT_TRACE_COUNT };

        if ((s->row[i].asked || (is_score && !isnan(s->row[i].score))) &&
            spot_trace_build(builder, &row, err))
            return -1;
    }
    return 0;
}

int spot_probes_count(struct spot_trace *counts, const struct spot_probe_trace *trace,
                      struct spot_err *err)
{
    struct spot_trace_builder builder = { .trace = counts,
                                          .source = "probes",
                                          .series_cap = counts->n_series };
    const bool is_score = is_of_scores(trace);

    for (size_t i = 0; i < trace->n_series; i++)
        if ((!is_score || !is_region_of_others(trace, i)) &&
            count_series(&builder, counts->n_series, &trace->series[i], is_score, err))
            return -1;
    if (counts->n_series)
        spot_trace_find_span(counts);
    return 0;
}

static struct spot_forecast_start *start_of(const struct spot_probes *probes,
                                            const struct spot_probed *x,
                                            const struct spot_forecast *forecast)
{
    struct spot_forecast_start *start = spot_xcalloc(1, sizeof(*start));

    start->granted = spot_capacity_granted(&probes->market, x->p);
    start->stays_1h = spot_capacity_stays(&probes->market, &x->place, x->p, HOUR_S);
    start->probe_age_s = x->age_s;
    start->probes = (int64_t)x->place.n;
    start->usd_per_h = x->usd_per_h;
    start->stays = spot_xcalloc((size_t)forecast->horizon, sizeof(double));
    for (int64_t k = 0; k < forecast->horizon; k++)
        start->stays[k] = spot_capacity_stays(&probes->market, &x->place, x->p,
                                              (double)(k + 1) * forecast->interval_s);
    return start;
}

void spot_probes_tell(const struct spot_probes *probes, struct spot_forecast *forecast)
{
    for (size_t i = 0; i < forecast->n_series; i++) {
        struct spot_forecast_series *s = &forecast->series[i];

        for (size_t k = 0; k < probes->n && !s->start; k++)
            if (!isnan(probes->probed[k].age_s) && !strcmp(s->zone, probes->probed[k].zone) &&
                !strcmp(s->instance_type, probes->probed[k].instance_type))
                s->start = start_of(probes, &probes->probed[k], forecast);
    }
}
