/* SPDX-License-Identifier: MIT */
/* Scores of the joint distribution of losses and gains, beside two simpler ones: its marginals
 * taken as independent, and the table of the pairs seen so far. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/out.h"
#include "common/xalloc.h"
#include "forecast/backtest.h"
#include "forecast/joint.h"
#include "predict.h"

struct scores {
    double joint, independent, table;
    size_t n;
};

/* Pairs seen so far with Laplace's half for each cell of the triangle that is possible. */
static double table_score(const struct spot_count_grid *g, size_t origin, int most)
{
    const int now = g->y[origin];
    const double n_cell = (now + 1.0) * (most + 1.0);
    double same = 0.5 / n_cell, all = 0.5;

    for (size_t i = 1; i <= origin; i++) {
        all += 1;
        same += g->lost[i] == g->lost[origin + 1] && g->gained[i] == g->gained[origin + 1];
    }
    return -log((1 - 1e-6) * same / all + 1e-6);
}

static struct scores score_series(const struct options *options, const struct spot_count_grid *g,
                                  const struct entry *entry, const size_t *origin, size_t n_origin)
{
    const size_t room = ((size_t)g->cap + 1) * (SPOT_TURNOVER_MAX + 1);
    struct spot_joint_cell *cell = spot_xcalloc(room, sizeof(*cell));
    double *prob = spot_xcalloc((size_t)options->horizon * ((size_t)g->cap + 1), sizeof(*prob));
    struct spot_turnover turnover = { 0 };
    struct spot_backtest_view view = { 0 };
    struct scores sum = { 0 };
    size_t next = 0;

    for (size_t k = 0; k < n_origin; k++) {
        const size_t after = origin[k] + 1;
        size_t n_cell;

        for (; next <= origin[k]; next++)
            if (next)
                spot_turnover_observe(&turnover, g->lost[next], g->gained[next]);
        spot_backtest_look(&view, g, entry->model, &entry->spec, origin[k]);
        spot_predictor_predict(view.predictor, prob);
        n_cell = spot_joint(&turnover, prob, g->y[origin[k]], view.cap, cell);
        sum.joint += spot_joint_score(cell, n_cell, g->lost[after], g->gained[after]);
        sum.independent +=
            spot_joint_score_independent(cell, n_cell, g->lost[after], g->gained[after]);
        sum.table += table_score(g, origin[k], view.cap);
        sum.n++;
    }
    spot_backtest_view_release(&view);
    free(prob);
    free(cell);
    return sum;
}

/* For people to 4 digits, as the scores of counts; else as it is. */
static void put_score(struct spot_table *table, enum spot_format format, double score)
{
    if (format == SPOT_FORMAT_TABLE)
        spot_table_fixed(table, score, 4);
    else
        spot_table_real(table, score);
}

static void put_row(struct spot_table *table, enum spot_format format, const char *series,
                    const char *model, const struct scores *s)
{
    const double n = (double)s->n;

    spot_table_text(table, series);
    spot_table_text(table, model);
    spot_table_int(table, (long long)s->n);
    put_score(table, format, s->joint / n);
    put_score(table, format, s->independent / n);
    put_score(table, format, s->table / n);
}

int joint_run(const struct options *options, char *const *path, size_t n_path,
              struct spot_prov *prov, struct spot_err *err)
{
    static const struct spot_column column[] = {
        { "series", false }, { "model", false },      { "origins", true },
        { "joint", true },   { "independent", true }, { "table", true },
    };
    const enum spot_format format =
        options->format == SPOT_FORMAT_AUTO ? SPOT_FORMAT_CSV : options->format;
    struct walk walk;
    struct spot_table table;
    struct spot_out out;
    int rc = walk_open(&walk, options, path, n_path, prov, err);

    spot_table_init(&table, column, sizeof(column) / sizeof(column[0]));
    while (!rc && (rc = walk_next(&walk, err)) > 0) {
        rc = 0;
        for (size_t m = 0; m < walk.entries.n; m++) {
            const struct entry *entry = &walk.entries.entry[m];
            const struct scores s =
                score_series(options, walk.grid, entry, walk.origin, walk.n_origin);

            put_row(&table, format, walk.series, entry->text, &s);
        }
    }
    walk_close(&walk);
    if (!rc && !(rc = spot_out_open(&out, options->common.output, err))) {
        spot_table_print(&table, out.file, format);
        rc = spot_out_finish(&out, 0, err);
    }
    spot_table_release(&table);
    return rc;
}
