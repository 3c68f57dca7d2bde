/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/out.h"
#include "forecast/forecast_make.h"
#include "forecast/forecaster.h"
#include "forecast/pmf.h"
#include "forecast/tracked.h"
#include "model/forecast_doc.h"
#include "predict.h"

static void print_rows(const struct spot_forecast *forecast, enum spot_format format, FILE *out)
{
    struct spot_table table;

    spot_table_init(&table,
                    "zone,instance_type,time_s#,now#,cap#,step#,mean#,p10#,p50#,p90#,drop#");
    for (size_t i = 0; i < forecast->n_series; i++) {
        const struct spot_forecast_series *s = &forecast->series[i];

        for (int64_t step = 1; step <= forecast->horizon; step++) {
            spot_table_add(&table, "%s %s %g %lld %lld %lld %.3f %lld %lld %lld %.4f", s->zone,
                           s->instance_type, s->time_s, (long long)s->now, (long long)s->cap,
                           (long long)step, s->mean[step - 1],
                           (long long)(spot_forecast_quantile(s, step, 0.1)),
                           (long long)(spot_forecast_quantile(s, step, 0.5)),
                           (long long)(spot_forecast_quantile(s, step, 0.9)),
                           spot_pmf_below(spot_forecast_at(s, step), (int)s->now));
        }
    }
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

static int write_out(const struct options *options, const struct spot_forecast *forecast,
                     const struct spot_prov *prov, struct spot_err *err)
{
    struct spot_out out;
    int rc = 0;

    if (spot_out_open(&out, options->common.output, err))
        return -1;
    if (options->format == SPOT_FORMAT_JSON || options->format == SPOT_FORMAT_AUTO)
        rc = spot_forecast_write(forecast, out.file, prov, err);
    else
        print_rows(forecast, options->format, out.file);
    return spot_out_finish(&out, rc, err);
}

/* One panel for each of the first series. */
static int plot_fans(const struct options *options, const struct spot_count_grids *grids,
                     const struct spot_forecast *forecast, struct spot_err *err)
{
    struct spot_figure panel[SPOT_PLOT_PANELS_MAX] = { 0 };
    struct fan fan[SPOT_PLOT_PANELS_MAX];
    const size_t n = grids->n < SPOT_PLOT_PANELS_MAX ? grids->n : SPOT_PLOT_PANELS_MAX;
    int rc;

    for (size_t i = 0; i < n; i++) {
        fan_make(&fan[i], &grids->grid[i], grids->grid[i].n - 1, forecast->series[i].prob,
                 (int)forecast->horizon, forecast->model);
        panel[i] = fan[i].figure;
    }
    rc = spot_plot_panels(panel, n, options->plot, err);
    for (size_t i = 0; i < n; i++)
        fan_release(&fan[i]);
    return rc;
}

static int show(const struct options *options, const struct spot_count_grids *grids,
                const struct spot_forecast *forecast, const struct spot_prov *prov,
                struct spot_err *err)
{
    if (options->plot && plot_fans(options, grids, forecast, err))
        return -1;
    return spot_plot_takes_stdout(options->plot, options->common.output)
               ? 0
               : write_out(options, forecast, prov, err);
}

static int load(struct inputs *inputs, struct spot_count_grids *grids,
                const struct options *options, char *const *path, size_t n_path,
                const struct spot_trackeds *known, struct spot_prov *prov, struct spot_err *err)
{
    if (options->is_load)
        return n_path > 1 ? spot_err_set(err, SPOT_EUSAGE, "unexpected operand '%s'", path[1])
                          : requests_load(grids, options, path[0], prov, err);
    if (inputs_load(inputs, path, n_path, prov, err))
        return -1;
    if (!inputs->counts.n_series)
        return spot_err_set(err, SPOT_EDATA, "%s: requests no instance, and there are no counts",
                            inputs->source);
    return grids_make(grids, options, &inputs->counts, inputs->source, false, known, err);
}

static void forecast_all(struct spot_forecast *forecast, const struct spot_forecaster *model,
                         const struct spot_fc_spec *spec, struct spot_trackeds *trackeds,
                         const struct inputs *inputs, const struct spot_count_grids *grids,
                         const struct options *options)
{
    spot_forecast_make(forecast, model, spec, trackeds, grids, options->state, !options->is_load);
    spot_probes_tell(&inputs->learned, forecast);
}

int forecast_run(const struct options *options, char *const *path, size_t n_path,
                 struct spot_prov *prov, struct spot_err *err)
{
    struct spot_fc_spec spec = options_spec(options);
    const struct spot_tracked_key key = options_key(options);
    const struct spot_forecaster *model = spot_forecaster_find(options->model, &spec, err);
    struct spot_forecast forecast = { .interval_s = options->interval_s,
                                      .horizon = (int64_t)options->horizon,
                                      .model = options->model };
    struct spot_trackeds trackeds = { 0 };
    struct spot_count_grids grids = { 0 };
    struct inputs inputs = { 0 };
    int rc;

    if (!model)
        return -1;
    rc =
        options->state ? spot_trackeds_load(&trackeds, options->state, &key, model, &spec, err) : 0;
    if (!rc)
        rc = load(&inputs, &grids, options, path, n_path, &trackeds, prov, err);
    if (!rc) {
        forecast_all(&forecast, model, &spec, &trackeds, &inputs, &grids, options);
        rc = show(options, &grids, &forecast, prov, err);
    }
    if (!rc && options->state)
        rc = spot_trackeds_save(&trackeds, options->state, &key, err);
    spot_forecast_release(&forecast);
    spot_count_grids_release(&grids);
    spot_trackeds_release(&trackeds);
    inputs_release(&inputs);
    return rc;
}
