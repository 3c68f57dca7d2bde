/* SPDX-License-Identifier: MIT */
/* spot-replay serve: the figure. */
#include <math.h>
#include <stdlib.h>

#include "cli/plot.h"
#include "common/xalloc.h"
#include "replay_serve.h"

enum { CDF_POINTS = 300, LABEL = 96, DRAWN_MAX = 8, SERIES = 2 * DRAWN_MAX + 2 };

/* A policy has the same colour in all panels. */
static const char *const colour[DRAWN_MAX] = { "#1b6fb5", "#d95f02", "#1b9e77", "#7570b3",
                                               "#e7298a", "#a6761d", "#66a61e", "#333333" };

/* Points of all panels; freed together. */
struct canvas {
    double *block[4 * SERIES];
    size_t n_block;
};

static double *points(struct canvas *c, size_t n)
{
    return c->block[c->n_block++] = spot_xcalloc(n, sizeof(double));
}

/* Write the policy's name and the numbers that are not percentiles. */
static void say(char label[LABEL], const struct replay_serve *s, const struct replay_served *p)
{
    const double share = (double)p->result.totals.lost / (double)s->load.n;

    snprintf(label, LABEL, share > 0 ? "%s, %.3g %% unanswered" : "%s", p->name, 100 * share);
}

/* P99 of the requests that arrived in each interval. */
static struct spot_series latency(struct canvas *c, const struct replay_serve *s,
                                  const struct replay_served *p, const char *label)
{
    const size_t n = (size_t)ceil((s->play.end_s - s->play.start_s) / s->interval_s);
    double *x = points(c, n), *y = points(c, n);
    double *e2e = spot_xcalloc(s->load.n, sizeof(*e2e));
    struct spot_series series = { .label = label, .style = SPOT_SERIES_LINE, .x = x, .y = y };
    size_t from = 0, to = 0;

    for (size_t k = 0; k < n; k++, from = to) {
        const double end_s = s->play.start_s + (double)(k + 1) * s->interval_s;
        size_t n_e2e;

        while (to < s->load.n && s->load.time_s[to] < end_s)
            to++;
        n_e2e = replay_serve_e2e(s, &p->result, from, to, e2e);
        if (!n_e2e)
            continue;
        x[series.n] = (end_s - s->interval_s / 2) / 60;
        y[series.n++] = replay_serve_rank(e2e, n_e2e, 0.99);
    }
    free(e2e);
    return series;
}

/* A line at each time at which instances were lost. */
static struct spot_series losses(struct canvas *c, const struct replay_serve *s, double top)
{
    double *x = points(c, s->play.n_event + 1), *y = points(c, s->play.n_event + 1);
    size_t n = 0;

    for (size_t i = 0; i < s->play.n_event; i++) {
        const double at = s->play.event[i].time_s / 60;

        if (s->play.event[i].comes || (n && x[n - 1] >= at))
            continue;
        x[n] = at;
        y[n++] = top;
    }
    return (struct spot_series){ .label = "instances lost",
                                 .style = SPOT_SERIES_MARK,
                                 .n = n,
                                 .x = x,
                                 .y = y,
                                 .colour = "#999999" };
}

static struct spot_series instances(struct canvas *c, const struct replay_serve *s,
                                    const struct replay_served *p, bool is_held)
{
    const struct spot_serve_result *r = &p->result;
    double *x = points(c, r->n_step + 1), *y = points(c, r->n_step + 1);

    for (size_t i = 0; i < r->n_step; i++) {
        x[i] = r->step[i].time_s / 60;
        y[i] = (double)(is_held ? r->step[i].held : r->step[i].there);
    }
    x[r->n_step] = s->play.end_s / 60;
    y[r->n_step] = r->n_step ? y[r->n_step - 1] : 0;
    return (struct spot_series){ .label = is_held ? p->name : "there",
                                 .style = SPOT_SERIES_STEP,
                                 .n = r->n_step + 1,
                                 .x = x,
                                 .y = y,
                                 .width = is_held ? 0 : 6,
                                 .colour = is_held ? NULL : "#dddddd" };
}

static struct spot_series spread(struct canvas *c, const struct replay_serve *s,
                                 const struct replay_served *p)
{
    double *x = points(c, CDF_POINTS), *y = points(c, CDF_POINTS);
    double *e2e = spot_xcalloc(s->load.n, sizeof(*e2e));
    const size_t n = replay_serve_e2e(s, &p->result, 0, s->load.n, e2e);

    for (size_t i = 0; i < CDF_POINTS && n; i++) {
        y[i] = (double)(i + 1) / CDF_POINTS;
        x[i] = replay_serve_rank(e2e, n, y[i]);
    }
    free(e2e);
    return (struct spot_series){
        .label = p->name, .style = SPOT_SERIES_LINE, .n = n ? CDF_POINTS : 0, .x = x, .y = y
    };
}

int replay_serve_draw(const struct replay_serve *s, const char *path, struct spot_err *err)
{
    struct spot_series time[SERIES], there[SERIES], share[SERIES];
    size_t n_time = 0, n_there = 0, n_share = 0;
    struct canvas c = { .n_block = 0 };
    struct spot_figure panel[3];
    char label[DRAWN_MAX][LABEL];
    double top = 0;
    int rc;

    if (s->n_played > DRAWN_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "--plot draws %d policies, got %zu", DRAWN_MAX,
                            s->n_played);
    for (size_t k = 0; k < s->n_played; k++) {
        const struct replay_served *p = &s->played[k];

        say(label[k], s, p);
        time[n_time++] = latency(&c, s, p, label[k]);
        for (size_t i = 0; i < time[n_time - 1].n; i++)
            top = fmax(top, time[n_time - 1].y[i]);
        if (!n_there && p->policy != SPOT_SERVE_ON_DEMAND)
            there[n_there++] = instances(&c, s, p, false);
        there[n_there++] = instances(&c, s, p, true);
        share[n_share++] = spread(&c, s, p);
        time[n_time - 1].colour = there[n_there - 1].colour = share[n_share - 1].colour = colour[k];
    }
    time[n_time++] = losses(&c, s, top);
    panel[0] = (struct spot_figure){ .title = "P99 of requests by when they came",
                                     .x_label = "time (min)",
                                     .y_label = "end to end (s)",
                                     .made_by = "spot-replay serve --plot",
                                     .series = time,
                                     .n_series = n_time };
    panel[1] = (struct spot_figure){ .title = "instances that are there, and held",
                                     .x_label = "time (min)",
                                     .y_label = "instances",
                                     .series = there,
                                     .n_series = n_there,
                                     .is_count = true };
    panel[2] = (struct spot_figure){ .title = "how long requests took",
                                     .x_label = "end to end (s)",
                                     .y_label = "share that took no longer",
                                     .series = share,
                                     .n_series = n_share };
    rc = spot_plot_panels(panel, 3, path, err);
    for (size_t i = 0; i < c.n_block; i++)
        free(c.block[i]);
    return rc;
}
