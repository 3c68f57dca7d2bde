/* SPDX-License-Identifier: MIT */
/* The plan as a figure: bytes between each pair of nodes, and when each link is busy. */

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cli/plot.h"
#include "common/xalloc.h"
#include "migrate.h"

enum { SIZES = 3, LINKS = 2 };

struct curve {
    double *x, *y;
    size_t n, cap;
};

static void add_point(struct curve *curve, double x, double y)
{
    size_t cap = curve->cap;

    curve->x = spot_xgrow(curve->x, &cap, curve->n + 1, sizeof(double));
    curve->y = spot_xgrow(curve->y, &curve->cap, curve->n + 1, sizeof(double));
    curve->x[curve->n] = x;
    curve->y[curve->n++] = y;
}

static void release(struct curve *curve, size_t n)
{
    for (size_t k = 0; k < n; k++)
        free(curve[k].x), free(curve[k].y);
}

/* Groups the pairs by size: at least half of the largest, at least an eighth, less. */
static void fill_matrix(const struct spot_migration_plan *plan, size_t n_node, struct curve *curve)
{
    double *byte = spot_xcalloc(n_node * n_node, sizeof *byte), most = 0;

    for (size_t k = 0; k < plan->n_move; k++) {
        const struct spot_migration_move *m = &plan->move[k];
        double *cell = &byte[(size_t)m->from * n_node + (size_t)m->to];

        *cell += (double)(m->end - m->begin);
        most = fmax(most, *cell);
    }
    for (size_t from = 0; from < n_node; from++)
        for (size_t to = 0; to < n_node; to++) {
            const double b = byte[from * n_node + to];

            if (b > 0)
                add_point(&curve[b >= most / 2   ? 0
                                 : b >= most / 8 ? 1
                                                 : 2],
                          (double)to, (double)from);
        }
    free(byte);
}

static void fill_gantt(const struct spot_migration_plan *plan, struct curve *curve)
{
    for (size_t k = 0; k < plan->n_move; k++) {
        const struct spot_migration_move *m = &plan->move[k];
        const double lane[LINKS] = { (double)m->from + 0.15, (double)m->to - 0.15 };

        for (int c = 0; c < LINKS; c++) {
            add_point(&curve[c], m->begin_s, lane[c]);
            add_point(&curve[c], m->end_s, lane[c]);
            add_point(&curve[c], NAN, NAN);
        }
    }
}

/* Append the curve to the panel; an empty one only if the panel would otherwise be empty. */
static void show(struct spot_figure *panel, struct spot_series *series, struct curve *curve,
                 const char *label, enum spot_series_style style, double width, bool is_last)
{
    if (!curve->n && (panel->n_series || !is_last))
        return;
    if (!curve->n)
        add_point(curve, 0, 0);
    series[panel->n_series++] = (struct spot_series){
        .label = label, .style = style, .n = curve->n, .x = curve->x, .y = curve->y, .width = width
    };
}

int moves_plot(const struct spot_migration_problem *problem, const struct spot_migration_plan *plan,
               const char *path, struct spot_err *err)
{
    static const char *const size_name[SIZES] = { "half of the most or more", "an eighth or more",
                                                  "less" };
    struct curve matrix[SIZES] = { { 0 } }, gantt[LINKS] = { { 0 } };
    struct spot_series matrix_series[SIZES], gantt_series[LINKS];
    char title[2][160];
    const size_t n_node = problem->cluster->n_node;
    const char **const name = spot_xcalloc(n_node, sizeof *name);
    struct spot_figure panel[2] = {
        { .title = title[0],
          .x_label = "receiver",
          .y_label = "sender",
          .series = matrix_series,
          .x_name = name,
          .y_name = name,
          .n_name = n_node },
        { .title = title[1],
          .x_label = "time (s)",
          .y_label = "node",
          .series = gantt_series,
          .y_name = name,
          .n_name = n_node },
    };
    int rc;

    for (size_t k = 0; k < n_node; k++)
        name[k] = problem->cluster->node[k].name;
    fill_matrix(plan, n_node, matrix);
    fill_gantt(plan, gantt);
    for (int k = 0; k < SIZES; k++)
        show(&panel[0], matrix_series, &matrix[k], size_name[k], SPOT_SERIES_DOT, 1.4 - 0.5 * k,
             k == SIZES - 1);
    show(&panel[1], gantt_series, &gantt[0], "sends", SPOT_SERIES_LINE, 6, false);
    show(&panel[1], gantt_series, &gantt[1], "receives", SPOT_SERIES_LINE, 6, true);
    snprintf(title[0], sizeof title[0], "%.4g GB travel, %.4g GB have no source",
             (double)plan->total_byte / 1e9, (double)plan->lost_byte / 1e9);
    snprintf(title[1], sizeof title[1],
             "shared links: %.4g s (bound %.4g s); one at a time: %.4g s", plan->makespan_s,
             plan->bound_s, plan->in_order_s);
    rc = spot_plot_panels(panel, 2, path, err);
    free(name);
    release(matrix, SIZES);
    release(gantt, LINKS);
    return rc;
}
