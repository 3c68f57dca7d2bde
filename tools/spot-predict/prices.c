/* SPDX-License-Identifier: MIT */
#include "predict.h"

#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "model/price_doc.h"

enum { GRID_MAX = 1 << 22, QUANTILES = 7 };
static const double quantile[QUANTILES] = { 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95 };

int prices_load(struct spot_price_trace *trace, const char *path, struct spot_prov *prov,
                struct spot_err *err)
{
    const char *source;
    FILE *in = spot_tool_open(path, &source, err);
    int rc;

    memset(trace, 0, sizeof(*trace));
    if (!in)
        return -1;
    rc = spot_price_trace_read(trace, in, source, err);
    if (in != stdin)
        fclose(in);
    if (!rc)
        spot_prov_add(prov, path && strcmp(path, "-") != 0 ? path : source, trace->xxh3);
    return rc;
}

int prices_model(const struct options *options, const char *text,
                 struct spot_price_predictor *predictor, struct spot_err *err)
{
    const size_t length = strcspn(text, "@");
    int m = 0;

    memset(predictor, 0, sizeof(*predictor));
    predictor->horizon = (size_t)options->horizon;
    predictor->history = SPOT_PRICE_HISTORY;
    if (predictor->horizon > SPOT_PRICE_HORIZON_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "--horizon: prices are forecast at most %d steps",
                            SPOT_PRICE_HORIZON_MAX);
    while (m < SPOT_PRICE_MODELS && (strlen(spot_price_model_name[m]) != length ||
                                     strncmp(spot_price_model_name[m], text, length) != 0))
        m++;
    if (m == SPOT_PRICE_MODELS)
        return spot_err_set(err, SPOT_EUSAGE,
                            "no price model '%.40s': expected last, changes, steps or best", text);
    predictor->model = (enum spot_price_model)m;
    if (text[length]) {
        double history;

        if (spot_num_parse(text + length + 1, &history) || history < 2 || history >= SPOT_FC_PAST ||
            history > (double)(size_t)history)
            return spot_err_set(err, SPOT_EUSAGE, "'%.40s': a history is 2 to %d intervals", text,
                                SPOT_FC_PAST - 1);
        predictor->history = (size_t)history;
    }
    return 0;
}

double *prices_grid(const struct options *options, const struct spot_price_trace *trace, size_t i,
                    bool from_start, size_t *n, double *start_s, struct spot_err *err)
{
    double *y = spot_price_grid(&trace->series[i], options->interval_s, from_start, trace->end_s,
                                GRID_MAX, n, start_s);

    if (!y)
        spot_err_set(err, SPOT_EDATA,
                     "series %.60s %.60s: more than %d intervals of %g s: give a larger --interval",
                     trace->series[i].zone, trace->series[i].instance_type, GRID_MAX,
                     options->interval_s);
    return y;
}

const char *prices_market(const struct spot_price_series *series)
{
    return series->is_spot ? "spot" : "on_demand";
}

static void fill_step(const struct spot_price_dist *dist, double now, struct spot_price_step *step,
                      double *price)
{
    step->mean_usd_per_h = spot_price_dist_mean(dist);
    step->lower_prob = spot_price_dist_below(dist, now);
    step->higher_prob = 1 - spot_price_dist_at_most(dist, now);
    step->higher_prob = step->higher_prob < 1e-12 ? 0 : step->higher_prob;
    for (size_t k = 0; k < QUANTILES; k++)
        price[k] = spot_price_dist_quantile(dist, quantile[k]);
}

static void fill_entry(const struct spot_price_trace *trace, size_t i,
                       struct spot_price_predictor *predictor, size_t n, struct spot_price_entry *e)
{
    const struct spot_price_series *s = &trace->series[i];
    struct spot_price_dist *dist = spot_xcalloc(predictor->horizon, sizeof(*dist));
    const double now = predictor->y[n - 1];

    *e = (struct spot_price_entry){ .zone = s->zone,
                                    .instance_type = s->instance_type,
                                    .market = prices_market(s),
                                    .time_s = trace->end_s,
                                    .now_usd_per_h = now };
    e->step = spot_xcalloc(predictor->horizon, sizeof(*e->step));
    e->quantile_usd_per_h = spot_xcalloc(predictor->horizon * QUANTILES, sizeof(double));
    for (size_t k = 1; k < n; k++)
        e->n_change +=
            predictor->y[k] < predictor->y[k - 1] || predictor->y[k] > predictor->y[k - 1];
    e->model = spot_price_model_name[spot_price_predictor_choice(predictor, n - 1)];
    spot_price_predictor_predict(predictor, n - 1, dist);
    for (size_t h = 0; h < predictor->horizon; h++) {
        fill_step(&dist[h], now, &e->step[h], e->quantile_usd_per_h + h * QUANTILES);
        e->step[h].step = (int64_t)h + 1;
        e->mean_usd_per_h += e->step[h].mean_usd_per_h / (double)predictor->horizon;
        spot_price_dist_release(&dist[h]);
    }
    free(dist);
}

static int forecast_all(const struct options *options, const struct spot_price_trace *trace,
                        struct spot_price_doc *doc, struct spot_err *err)
{
    doc->series = spot_xcalloc(trace->n_series, sizeof(*doc->series));
    for (size_t i = 0; i < trace->n_series; i++) {
        struct spot_price_predictor predictor;
        double start_s;
        size_t n;
        double *y = prices_grid(options, trace, i, false, &n, &start_s, err);

        if (!y || prices_model(options, options->model, &predictor, err)) {
            free(y);
            return -1;
        }
        predictor.y = y;
        fill_entry(trace, i, &predictor, n, &doc->series[doc->n_series++]);
        spot_price_predictor_release(&predictor);
        free(y);
    }
    return 0;
}

static void print_rows(const struct spot_price_doc *doc, enum spot_format format, FILE *out)
{
    struct spot_table table;

    spot_table_init(
        &table, "zone,instance_type,market,time_s#,now_usd_per_h#,step#,mean_usd_per_h#,p05#,p10#,"
                "p25#,p50#,p75#,p90#,p95#,lower#,higher#");
    table.format = format;
    for (size_t i = 0; i < doc->n_series; i++) {
        const struct spot_price_entry *e = &doc->series[i];

        for (int64_t h = 0; h < doc->horizon; h++) {
            const struct spot_price_step *s = &e->step[h];
            double x[1 + QUANTILES] = { s->mean_usd_per_h };

            memcpy(x + 1, e->quantile_usd_per_h + h * QUANTILES, QUANTILES * sizeof(double));
            spot_table_add(&table, "%s %s %s %g %g %lld", e->zone, e->instance_type, e->market,
                           e->time_s, e->now_usd_per_h, (long long)s->step);
            for (size_t k = 0; k <= QUANTILES; k++)
                spot_table_add(&table, "%.4e", x[k]);
            spot_table_add(&table, "%.4f %.4f", s->lower_prob, s->higher_prob);
        }
    }
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

static int write_out(const struct options *options, const struct spot_price_doc *doc,
                     const struct spot_prov *prov, struct spot_err *err)
{
    struct spot_out out;
    int rc = 0;

    if (spot_out_open(&out, options->common.output, err))
        return -1;
    if (options->format == SPOT_FORMAT_JSON || options->format == SPOT_FORMAT_AUTO)
        rc = spot_price_write(doc, out.file, prov, err);
    else
        print_rows(doc, options->format, out.file);
    return spot_out_finish(&out, rc, err);
}

int prices_forecast(const struct options *options, const char *path, struct spot_prov *prov,
                    struct spot_err *err)
{
    struct spot_price_doc doc = { .interval_s = options->interval_s,
                                  .horizon = (int64_t)options->horizon,
                                  .model = options->model,
                                  .n_quantile = QUANTILES };
    struct spot_price_trace trace = { 0 };
    struct spot_price_predictor predictor;
    int rc;

    memcpy(doc.quantile, quantile, sizeof(quantile));
    rc = prices_model(options, options->model, &predictor, err);
    rc = rc ? rc : prices_load(&trace, path, prov, err);
    rc = rc ? rc : forecast_all(options, &trace, &doc, err);
    rc = rc ? rc : write_out(options, &doc, prov, err);
    spot_price_release(&doc);
    spot_price_trace_release(&trace);
    return rc;
}
