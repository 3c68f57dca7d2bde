/* SPDX-License-Identifier: MIT */
#include "predict.h"

#include <stdlib.h>
#include <string.h>

#include "common/json_writer.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "forecast/backtest.h"

/* --- one model on one series --- */

struct job {
    const struct options *options;
    const struct spot_count_grid *grid;
    const struct entry *entry;
    const char *series;
    const size_t *origin; /* [n_origin] index of the newest known value at each origin */
    size_t n_origin;
    FILE *dump;      /* NULL: none */
    struct fan *fan; /* receives the last forecast; NULL: not wanted */
};

static void dump_dist(void *user, size_t origin, int step, const double *p)
{
    const struct job *job = user;
    const struct spot_count_grid *g = job->grid;
    struct spot_jw jw;

    spot_jw_init(&jw, job->dump, false);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "series", job->series);
    spot_jw_str(&jw, "model", job->entry->text);
    spot_jw_real(&jw, "origin_s", g->start_s + (double)origin * g->interval_s);
    spot_jw_int(&jw, "step", step);
    spot_jw_int(&jw, "now", g->y[origin]);
    spot_jw_int(&jw, "y", g->y[origin + (size_t)step]);
    spot_jw_reals(&jw, "p", p, (size_t)g->cap + 1);
    spot_jw_end(&jw);
    putc('\n', job->dump);
}

static void run_job(struct job *job, struct result *result)
{
    const struct spot_backtest b = { .grid = job->grid,
                                     .model = job->entry->model,
                                     .spec = job->entry->spec,
                                     .origin = job->origin,
                                     .n_origin = job->n_origin,
                                     .dist = job->dump ? dump_dist : NULL,
                                     .user = job };
    double *prob =
        spot_xcalloc((size_t)b.spec.horizon * ((size_t)job->grid->cap + 1), sizeof(*prob));

    result->us_per_origin = 1e6 * spot_backtest_run(&b, result->step, prob);
    if (job->fan)
        fan_make(job->fan, job->grid, job->origin[job->n_origin - 1], prob, b.spec.horizon,
                 job->entry->text);
    free(prob);
}

/* --- all models and series --- */

/* The figure shows the last model on the first series. */
static void run_series(const struct walk *walk, struct results *results, FILE *dump,
                       struct fan *fan)
{
    for (size_t m = 0; m < walk->entries.n; m++) {
        struct job job = { .options = walk->options,
                           .grid = walk->grid,
                           .entry = &walk->entries.entry[m],
                           .series = walk->series,
                           .origin = walk->origin,
                           .n_origin = walk->n_origin,
                           .dump = dump,
                           .fan = !fan->data && m + 1 == walk->entries.n ? fan : NULL };

        run_job(&job, results_add(results, job.series, job.entry->text, job.n_origin,
                                  (size_t)job.options->horizon));
    }
}

int backtest_run(const struct options *options, char *const *path, size_t n_path,
                 struct spot_prov *prov, struct spot_err *err)
{
    struct results results = { 0 };
    struct spot_out dump = { 0 };
    struct fan fan = { 0 };
    struct walk walk;
    int rc = walk_open(&walk, options, path, n_path, prov, err);

    if (!rc && options->dump)
        rc = spot_out_open(&dump, options->dump, err);
    while (!rc && (rc = walk_next(&walk, err)) > 0) {
        run_series(&walk, &results, dump.file, &fan);
        rc = 0;
    }
    if (options->dump && dump.file)
        rc = spot_out_finish(&dump, rc, err);
    if (!rc && options->plot)
        rc = calibration_plot(options, &results, walk.entries.n, &fan, err);
    if (!rc && !spot_plot_takes_stdout(options->plot, options->common.output))
        rc = results_save(options, &results, err);
    fan_release(&fan);
    results_release(&results);
    walk_close(&walk);
    return rc;
}
