/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/out.h"
#include "common/xalloc.h"
#include "predict.h"

struct result *results_add(struct results *results, const char *series, const char *model,
                           size_t n_origin, size_t horizon)
{
    struct result *r;

    results->result =
        spot_xgrow(results->result, &results->cap, results->n + 1, sizeof(*results->result));
    r = &results->result[results->n++];
    *r = (struct result){ .series = spot_xstrdup(series), .model = model, .n_origin = n_origin };
    r->step = spot_xcalloc(horizon, sizeof(*r->step));
    return r;
}

void results_release(struct results *results)
{
    for (size_t i = 0; i < results->n; i++) {
        free(results->result[i].series);
        free(results->result[i].step);
        free(results->result[i].pinball);
    }
    free(results->result);
}

struct spot_score result_total(const struct result *result, uint64_t horizon)
{
    struct spot_score sum = { 0 };

    for (uint64_t h = 0; h < horizon; h++)
        spot_score_merge(&sum, &result->step[h]);
    return sum;
}

static void put_row(struct spot_table *table, const struct result *r, const char *step,
                    const struct spot_score *s, double pinball)
{
    const double n = (double)s->n;

    spot_table_add(table, "%s %s %s %lld %g %g %g %g %.2f", r->series, r->model, step,
                   (long long)r->n_origin, s->abs_sum / n, s->crps_sum / n, s->brier_sum / n,
                   s->cover_sum / n, r->us_per_origin);
    if (r->pinball)
        spot_table_add(table, "%g", pinball / n);
}

static void print_rows(const struct options *options, const struct results *results, FILE *out)
{
    struct spot_table table;
    char step[24];

    spot_table_init(&table,
                    "series,model,step,origins#,mae#,crps#,brier_drop#,cover80#,us_per_origin#");
    if (results->n && results->result[0].pinball)
        spot_table_column(&table, "pinball", true);
    for (size_t i = 0; i < results->n; i++) {
        const struct result *r = &results->result[i];
        const struct spot_score all = result_total(r, options->horizon);
        double pinball = 0;

        for (uint64_t h = 0; h < options->horizon; h++) {
            snprintf(step, sizeof(step), "%d", (int)h + 1);
            put_row(&table, r, step, &r->step[h], r->pinball ? r->pinball[h] : 0);
            pinball += r->pinball ? r->pinball[h] : 0;
        }
        put_row(&table, r, "all", &all, pinball);
    }
    spot_table_print(&table, out,
                     options->format == SPOT_FORMAT_AUTO ? SPOT_FORMAT_CSV : options->format);
    spot_table_release(&table);
}

/* --- the table of ratios --- */

enum measure { MAE, CRPS, BRIER };

static double measure_of(const struct spot_score *s, enum measure m)
{
    const double sum = m == MAE ? s->abs_sum : m == CRPS ? s->crps_sum : s->brier_sum;

    return sum / (double)s->n;
}

static const struct result *find_result(const struct results *results, const char *series,
                                        const char *model)
{
    for (size_t i = 0; i < results->n; i++)
        if (!strcmp(results->result[i].series, series) && !strcmp(results->result[i].model, model))
            return &results->result[i];
    return NULL;
}

/* The score divided by that of `last` on the same series; NaN without that one, or if both are 0.
 */
static double ratio(const struct options *options, const struct results *results,
                    const struct result *r, enum measure m)
{
    const struct result *last = find_result(results, r->series, "last");
    struct spot_score mine, theirs;

    if (!last)
        return NAN;
    mine = result_total(r, options->horizon);
    theirs = result_total(last, options->horizon);
    return measure_of(&mine, m) / measure_of(&theirs, m);
}

static void put_ratio(struct spot_table *table, double value)
{
    if (isfinite(value))
        spot_table_add(table, "%.3f", value);
    else
        spot_table_add(table, "%s", "-");
}

/* The geometric mean over series of a model's ratio. */
static double mean_ratio(const struct options *options, const struct results *results,
                         const char *model, enum measure m)
{
    double sum = 0, n = 0;

    for (size_t i = 0; i < results->n; i++) {
        const double x = ratio(options, results, &results->result[i], m);

        if (strcmp(results->result[i].model, model) != 0 || !isfinite(x) || x <= 0)
            continue;
        sum += log(x);
        n++;
    }
    return n > 0 ? exp(sum / n) : NAN;
}

static void put_ratios(struct spot_table *table, const struct options *options,
                       const struct results *results, const struct result *r)
{
    const struct spot_score all = result_total(r, options->horizon);

    spot_table_add(table, "%s %s %lld %.4f", r->series, r->model, (long long)r->n_origin,
                   measure_of(&all, CRPS));
    for (int m = MAE; m <= BRIER; m++)
        put_ratio(table, ratio(options, results, r, (enum measure)m));
    spot_table_add(table, "%.3f %.1f", all.cover_sum / (double)all.n, r->us_per_origin);
}

/* Models of the first series: all series have the same. */
static size_t n_models(const struct results *results)
{
    size_t n = 0;

    while (n < results->n && !strcmp(results->result[n].series, results->result[0].series))
        n++;
    return n;
}

static void print_table(const struct options *options, const struct results *results, FILE *out)
{
    struct spot_table table;

    spot_table_init(
        &table,
        "series,model,origins#,crps#,mae/last#,crps/last#,brier/last#,cover80#,us_per_origin#");
    for (size_t i = 0; i < results->n; i++)
        put_ratios(&table, options, results, &results->result[i]);
    for (size_t i = 0; i < n_models(results); i++) {
        const char *model = results->result[i].model;

        spot_table_add(&table, "%s %s %s %s", "geometric mean", model, "", "");
        for (int m = MAE; m <= BRIER; m++)
            put_ratio(&table, mean_ratio(options, results, model, (enum measure)m));
        spot_table_add(&table, "%s %s", "", "");
    }
    spot_table_print(&table, out, options->format);
    spot_table_release(&table);
}

static int write_out(const struct options *options, const struct results *results, FILE *out,
                     struct spot_err *err)
{
    if (options->format == SPOT_FORMAT_TABLE || options->format == SPOT_FORMAT_MD)
        print_table(options, results, out);
    else if (options->format == SPOT_FORMAT_JSON)
        return spot_err_set(err, SPOT_EUSAGE, "--backtest writes csv, jsonl, tsv, table or md");
    else
        print_rows(options, results, out);
    return 0;
}

int results_save(const struct options *options, const struct results *results, struct spot_err *err)
{
    struct spot_out out;

    if (spot_out_open(&out, options->common.output, err))
        return -1;
    return spot_out_finish(&out, write_out(options, results, out.file, err), err);
}
