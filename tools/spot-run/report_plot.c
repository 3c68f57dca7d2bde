/* SPDX-License-Identifier: MIT */
#include "report_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/plot.h"
#include "common/xalloc.h"

enum { DOTS = 500 }; /* resolution of the time axis */

struct curve {
    double *x, *y;
    size_t n;
};

static struct curve new_curve(size_t n)
{
    return (struct curve){ .x = spot_xcalloc(n + 1, sizeof(double)),
                           .y = spot_xcalloc(n + 1, sizeof(double)) };
}

static void add_point(struct curve *c, double x, double y)
{
    c->x[c->n] = x;
    c->y[c->n++] = y;
}

static struct spot_series as_series(const struct curve *c, const char *label,
                                    enum spot_series_style style, double width)
{
    return (struct spot_series){
        .label = label, .style = style, .n = c->n, .x = c->x, .y = c->y, .width = width
    };
}

/* A step curve: each value holds until the next, the last one until the end of the run. */
static struct curve count_curve(const struct spot_run *run, const struct spot_count_change *change,
                                size_t n)
{
    struct curve c = new_curve(n + 1);

    for (size_t i = 0; i < n; i++)
        add_point(&c, change[i].time_s, (double)change[i].n);
    if (n)
        add_point(&c, run->end_s, (double)change[n - 1].n);
    return c;
}

/* Starts at 0 at the start of the log. */
static struct curve step_curve(const struct spot_run *run)
{
    struct curve c = new_curve(run->n_step + 2);

    add_point(&c, 0, 0);
    for (size_t i = 0; i < run->n_step; i++)
        add_point(&c, run->step[i].time_s, (double)run->step[i].n);
    add_point(&c, run->end_s, c.y[c.n - 1]);
    return c;
}

/* An outage shorter than a dot of the figure is not drawn: its line down and up would suggest a
 * longer one. */
static bool is_seen(const struct spot_run *run, const struct spot_outage *outage)
{
    return outage->to_s - outage->from_s >= run->end_s / DOTS;
}

/* Add the outages that begin before time_s, from number *next on: the grid is 0 during them, and
 * afterwards what the next change says. */
static void add_outages(struct curve *c, const struct spot_run *run, double time_s, size_t *next)
{
    for (; *next < run->n_outage && run->outage[*next].from_s < time_s; ++*next)
        if (is_seen(run, &run->outage[*next]))
            add_point(c, run->outage[*next].from_s, 0);
}

static struct curve grid_curve(const struct spot_run *run, bool depth)
{
    struct curve c = new_curve(run->n_grid + run->n_outage + 1);
    size_t next = 0;

    for (size_t i = 0; i < run->n_grid; i++) {
        const struct spot_grid_change *g = &run->grid[i];

        add_outages(&c, run, g->time_s, &next);
        add_point(&c, g->time_s, (double)(depth ? g->grid.P : spot_grid_size(&g->grid)));
    }
    add_outages(&c, run, run->end_s, &next);
    if (c.n)
        add_point(&c, run->end_s, c.y[c.n - 1]);
    return c;
}

/* Marks at the height of the number of machines. */
static struct curve resume_curve(const struct spot_run *run)
{
    struct curve c = new_curve(run->n_resume);
    int64_t most = 1;

    for (size_t i = 0; i < run->n_member; i++)
        most = run->member[i].n > most ? run->member[i].n : most;
    for (size_t i = 0; i < run->n_resume; i++)
        add_point(&c, run->resume_s[i], (double)most);
    return c;
}

static struct curve loss_curve(const struct spot_run *run)
{
    struct curve c = new_curve(run->n_commit);

    for (size_t i = 0; i < run->n_commit; i++)
        if (!run->commit[i].is_void)
            add_point(&c, (double)run->commit[i].step, run->commit[i].loss);
    return c;
}

static struct curve val_curve(const struct spot_run *run)
{
    struct curve c = new_curve(run->n_val);

    for (size_t i = 0; i < run->n_val; i++)
        add_point(&c, (double)run->val[i].step, run->val[i].loss);
    return c;
}

/* Marks at the height of the loss at that time; a change before any step is not drawn. */
static struct curve lr_change_curve(const struct spot_run *run)
{
    struct curve c = new_curve(run->n_lr_change);

    for (size_t i = 0; i < run->n_lr_change; i++)
        for (size_t k = run->n_commit; k-- > 0;)
            if (!run->commit[k].is_void && run->commit[k].step == run->lr_change[i].after + 1) {
                add_point(&c, (double)run->commit[k].step, run->commit[k].loss);
                break;
            }
    return c;
}

int report_plot(const struct spot_run *run, const struct spot_run *reference, const char *path,
                struct spot_err *err)
{
    struct curve c[] = { count_curve(run, run->member, run->n_member),
                         grid_curve(run, false),
                         grid_curve(run, true),
                         step_curve(run),
                         loss_curve(reference ? reference : run),
                         loss_curve(run),
                         resume_curve(run),
                         lr_change_curve(run),
                         val_curve(run) };
    const struct spot_series machines[] = {
        as_series(&c[0], "members", SPOT_SERIES_STEP, 1),
        as_series(&c[1], "in the grid", SPOT_SERIES_STEP, 2),
        as_series(&c[2], "stages P", SPOT_SERIES_STEP, 1),
        { "coordinator restarts", SPOT_SERIES_MARK, c[6].n, c[6].x, c[6].y, NULL, 2, "#555555" },
    };
    const struct spot_series steps[] = { as_series(&c[3], "this run", SPOT_SERIES_STEP, 2) };
    const struct spot_series loss[] = {
        as_series(&c[4], reference ? "undisturbed" : "loss", SPOT_SERIES_LINE, reference ? 6 : 1),
        as_series(&c[5], "this run", SPOT_SERIES_LINE, 1),
        as_series(&c[8], "validation", SPOT_SERIES_LINE, 2),
        { "learning rate changed", SPOT_SERIES_MARK, c[7].n, c[7].x, c[7].y, NULL, 2, "#555555" },
    };
    struct spot_series shown[4];
    size_t n_shown = 0;

    for (size_t i = 0; i < sizeof(loss) / sizeof(loss[0]); i++)
        if (i == 0 || (i == 1 && reference) || (i == 2 && c[8].n) || (i == 3 && c[7].n))
            shown[n_shown++] = loss[i];
    const int64_t n_preemption = run->n_notice + run->n_kill;
    char title[96];
    struct spot_figure panel[] = {
        { .title = title,
          .x_label = "time (s)",
          .y_label = "machines",
          .made_by = "spot-run report --plot",
          .series = machines,
          .n_series = run->n_resume ? 4 : 3,
          .is_count = true },
        { .title = "Committed steps",
          .x_label = "time (s)",
          .y_label = "step",
          .series = steps,
          .n_series = 1,
          .is_count = true },
        { .title = reference ? "The loss, step by step, is that of the undisturbed run" : "Loss",
          .x_label = "step",
          .y_label = run->is_of_bytes ? "loss (nats per byte)" : "loss (nats per token)",
          .series = shown,
          .n_series = n_shown },
    };
    int rc;

    snprintf(title, sizeof(title), "%lld preemption%s, %zu grid%s, one training",
             (long long)n_preemption, n_preemption == 1 ? "" : "s", run->n_grid,
             run->n_grid == 1 ? "" : "s");
    rc = spot_plot_panels(panel, 3, path, err);
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        free(c[i].x);
        free(c[i].y);
    }
    return rc;
}
