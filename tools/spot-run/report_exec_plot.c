/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

#include "report_parts.h"

enum { PANELS = 3, SERIES = 10 };

/* Nodes of the current round; 0 between two rounds. */
static struct spot_series nodes(struct report_canvas *c, const struct spot_run *run)
{
    const struct spot_hosting *const h = &run->hosting;
    struct spot_series s = report_curve(c, "in the round", SPOT_SERIES_STEP, 2 * h->n_round + 2);

    report_point(c, &s, 0, 0);
    for (size_t i = 0; i < h->n_round; i++) {
        if (isfinite(h->round[i].ended_s))
            report_point(c, &s, h->round[i].ended_s, 0);
        report_point(c, &s, h->round[i].formed_s, (double)h->round[i].nodes);
    }
    report_point(c, &s, run->end_s, s.y[s.n - 1]);
    return s;
}

/* The newest step that is stored at some place, or that is committed. */
static struct spot_series steps(struct report_canvas *c, const struct spot_run *run, int place)
{
    static const char *const label[] = { "held by two nodes", "on the disk", "in the store",
                                         "committed" };
    const struct spot_hosting *const h = &run->hosting;
    struct spot_series s = report_curve(c, label[place], SPOT_SERIES_STEP, h->n_point + 1);

    for (size_t i = 0; i < h->n_point; i++)
        if (h->point[i].place == place)
            report_point(c, &s, h->point[i].time_s, (double)h->point[i].step);
    if (s.n)
        report_point(c, &s, run->end_s, s.y[s.n - 1]);
    return s;
}

static struct spot_series pauses(struct report_canvas *c, const struct spot_run *run,
                                 enum spot_hosting_cause cause)
{
    const struct spot_hosting *const h = &run->hosting;
    struct spot_series s =
        report_curve(c, spot_hosting_cause_name(cause), SPOT_SERIES_DOT, h->n_round);

    for (size_t i = 0; i < h->n_round; i++) {
        const struct spot_hosting_round *const r = &h->round[i];

        if (r->cause == cause && isfinite(r->commit_s) && isfinite(r->before_s))
            report_point(c, &s, r->formed_s, r->commit_s - r->before_s);
    }
    return s;
}

static struct spot_series causes(struct report_canvas *c, const struct spot_run *run,
                                 enum spot_hosting_cause cause, double top)
{
    static const struct {
        const char *label, *colour;
    } of[SPOT_HOSTING_CAUSES] = { [SPOT_HOSTING_FAILURE] = { "failures", "#7570b3" },
                                  [SPOT_HOSTING_KILL] = { "kills", "#c00000" },
                                  [SPOT_HOSTING_NOTICE] = { "notices", "#d98c00" },
                                  [SPOT_HOSTING_JOIN] = { "joins", "#1b9e77" } };
    const struct spot_hosting *const h = &run->hosting;
    struct spot_series s = report_curve(c, of[cause].label, SPOT_SERIES_MARK, h->n_mark);

    s.colour = of[cause].colour;
    for (size_t i = 0; i < h->n_mark; i++)
        if (h->mark[i].cause == cause)
            report_point(c, &s, h->mark[i].time_s, top);
    return s;
}

/* A line at 0 over the whole time, so that all panels have the same axis. */
static struct spot_series ground(struct report_canvas *c, const struct spot_run *run)
{
    struct spot_series s = report_curve(c, "-", SPOT_SERIES_LINE, 2);

    report_point(c, &s, 0, 0);
    report_point(c, &s, run->end_s, 0);
    s.width = 1;
    s.colour = "#555555";
    return s;
}

static size_t keep(struct spot_series *s, size_t n, struct spot_series more)
{
    if (more.n)
        s[n++] = more;
    return n;
}

static size_t draw_machines(struct report_canvas *c, const struct spot_run *run,
                            struct spot_series *s)
{
    size_t n = keep(s, 0, report_members(c, run));
    double top;

    n = keep(s, n, nodes(c, run));
    top = report_top(s, n);
    for (enum spot_hosting_cause k = SPOT_HOSTING_FAILURE; k <= SPOT_HOSTING_JOIN; k++)
        n = keep(s, n, causes(c, run, k, top));
    return run->n_resume ? keep(s, n,
                                report_marks(c, "coordinator restarts", "#555555", run->resume_s,
                                             run->n_resume, top))
                         : n;
}

static int draw(struct report_canvas *c, const struct spot_run *run, const char *path,
                struct spot_err *err)
{
    const struct spot_hosting *const h = &run->hosting;
    struct spot_series s[PANELS][SERIES];
    size_t n[PANELS] = { draw_machines(c, run, s[0]) };
    struct spot_figure panel[PANELS] = {
        { .y_label = "nodes", .made_by = "spot-run report --plot", .is_count = true },
        { .title = "Committed steps, and where they are held",
          .y_label = "step",
          .is_count = true },
        { .title = "From the last commit to the next, by why the round began",
          .y_label = "time (s)" },
    };
    char title[120];
    size_t n_panel = 0;

    for (int p = SPOT_HOSTING_PLACES; p >= 0; p--)
        n[1] = keep(s[1], n[1], steps(c, run, p));
    for (enum spot_hosting_cause k = SPOT_HOSTING_FAILURE; k < SPOT_HOSTING_CAUSES; k++)
        n[2] = keep(s[2], n[2], pauses(c, run, k));
    snprintf(title, sizeof(title), "%lld notice%s, %lld kill%s, %zu round%s, one training",
             (long long)run->n_notice, run->n_notice == 1 ? "" : "s", (long long)run->n_kill,
             run->n_kill == 1 ? "" : "s", h->n_round, h->n_round == 1 ? "" : "s");
    panel[0].title = title;
    for (int i = 0; i < PANELS; i++) {
        if (!n[i]) /* a command without commits */
            continue;
        n[i] = keep(s[i], n[i], ground(c, run));
        panel[i].x_label = "time (s)";
        panel[i].series = s[i];
        panel[i].n_series = n[i];
        panel[n_panel++] = panel[i];
    }
    return spot_plot_panels(panel, n_panel, path, err);
}

int report_exec_plot(const struct spot_run *run, const char *path, struct spot_err *err)
{
    struct report_canvas c = { .n_block = 0 };
    const int rc = draw(&c, run, path, err);

    report_canvas_release(&c);
    return rc;
}
