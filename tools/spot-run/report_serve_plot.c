/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

#include "cli/plot.h"
#include "report_parts.h"

enum { BINS = 60 };

/* Marks for members with a notice, lost members and new members, at the height of the curves before
 * them. Returns the new number of series. */
static size_t add_marks(struct report_canvas *c, const struct spot_run *run, struct spot_series *s,
                        size_t n, bool is_named)
{
    const struct spot_serving *const r = &run->served;
    const double top = report_top(s, n);

    s[n++] = report_marks(c, is_named ? "notices" : "-", "#d98c00", r->notice_s, r->n_notice, top);
    s[n++] = report_marks(c, is_named ? "kills" : "-", "#c00000", r->kill_s, r->n_kill, top);
    s[n++] = report_marks(c, is_named ? "joins" : "-", "#1b9e77", r->join_s, r->n_join, top);
    if (run->n_resume)
        s[n++] = report_marks(c, is_named ? "coordinator restarts" : "-", "#555555", run->resume_s,
                              run->n_resume, top);
    return n;
}

static struct spot_series replicas(struct report_canvas *c, const struct spot_run *run)
{
    const struct spot_serving *const r = &run->served;
    struct spot_series s = report_curve(c, "replicas", SPOT_SERIES_STEP, r->n_replica + 1);

    for (size_t i = 0; i < r->n_replica; i++)
        report_point(c, &s, r->replica[i].time_s, (double)r->replica[i].n);
    if (s.n)
        report_point(c, &s, run->end_s, s.y[s.n - 1]);
    return s;
}

/* The mean number; a gap between two segments means that there were none. */
static struct spot_series choices(struct report_canvas *c, const struct spot_run *run,
                                  bool is_queued)
{
    const struct spot_serving *const r = &run->served;
    struct spot_series s = report_curve(c, is_queued ? "waiting" : "computed", SPOT_SERIES_STEP,
                                        2 * r->n_interval + 2);

    report_point(c, &s, 0, 0);
    for (size_t i = 0; i < r->n_interval; i++) {
        const struct spot_serving_interval *const at = &r->interval[i];

        report_point(c, &s, at->from_s, is_queued ? at->n_queued : at->n_running);
        if (i + 1 == r->n_interval || r->interval[i + 1].from_s > at->time_s + 0.1)
            report_point(c, &s, at->time_s, 0);
    }
    report_point(c, &s, run->end_s, 0);
    return s;
}

static double bin_s(const struct spot_run *run)
{
    return fmax(1, run->end_s / BINS);
}

static struct spot_series latency(struct report_canvas *c, const struct spot_run *run,
                                  enum spot_serving_time what, const char *label, double q)
{
    const double width_s = bin_s(run);
    struct spot_series s = report_curve(c, label, SPOT_SERIES_LINE, BINS + 1);

    for (int i = 0; i * width_s < run->end_s; i++) {
        const double y =
            spot_serving_quantile_s(&run->served, what, i * width_s, (i + 1) * width_s, q);

        if (isfinite(y))
            report_point(c, &s, (i + 0.5) * width_s, y);
    }
    return s;
}

static struct spot_series between(struct report_canvas *c, const struct spot_run *run,
                                  const char *label, double q)
{
    const struct spot_serving *const r = &run->served;
    const double width_s = bin_s(run);
    struct spot_series s = report_curve(c, label, SPOT_SERIES_LINE, BINS + 1);
    size_t k = 0;

    for (int i = 0; i * width_s < run->end_s; i++) {
        struct spot_histogram h = { .n = 0 };

        for (; k < r->n_interval && r->interval[k].time_s <= (i + 1) * width_s; k++)
            spot_histogram_merge(&h, &r->interval[k].between);
        if (h.n)
            report_point(c, &s, (i + 0.5) * width_s, 1e3 * spot_histogram_quantile_s(&h, q));
    }
    return s;
}

enum { PANELS = 4, SERIES = 6 };

static int draw(struct report_canvas *c, const struct spot_run *run, const char *path,
                struct spot_err *err)
{
    const struct spot_serving *const r = &run->served;
    struct spot_series s[PANELS][SERIES] = {
        { report_members(c, run), replicas(c, run) },
        { choices(c, run, false), choices(c, run, true) },
        { latency(c, run, SPOT_SERVING_TTFT, "P50", 0.5),
          latency(c, run, SPOT_SERVING_TTFT, "P99", 0.99) },
        { between(c, run, "P50", 0.5), between(c, run, "P99", 0.99) },
    };
    char title[120];
    struct spot_figure panel[PANELS] = {
        { .title = title, .y_label = "machines", .is_count = true },
        { .title = "Choices in flight", .y_label = "choices, on average" },
        { .title = "Time to first token, by when requests ended", .y_label = "time (s)" },
        { .title = "Between two tokens", .y_label = "time (ms)" },
    };

    snprintf(title, sizeof(title), "%zu preemption%s, %lld requests, %lld tokens",
             r->n_notice + r->n_kill, r->n_notice + r->n_kill == 1 ? "" : "s",
             (long long)spot_serving_requests(r), (long long)r->n_token);
    for (int i = 0; i < PANELS; i++) {
        panel[i].x_label = "time (s)";
        panel[i].series = s[i];
        panel[i].n_series = add_marks(c, run, s[i], 2, !i);
    }
    panel[0].made_by = "spot-run report --plot";
    return spot_plot_panels(panel, PANELS, path, err);
}

int report_serve_plot(const struct spot_run *run, const char *path, struct spot_err *err)
{
    struct report_canvas c = { .n_block = 0 };
    const int rc = draw(&c, run, path, err);

    report_canvas_release(&c);
    return rc;
}
