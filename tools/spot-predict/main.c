/* SPDX-License-Identifier: MIT */
/* spot-predict - forecasts of the number of instances, as calibrated distributions. */

#include <string.h>
#include <unistd.h>

#include "cli/rows.h"
#include "forecast/forecaster.h"
#include "peers/parcae.h"
#include "predict.h"

/* Choose what is forecast, and the model unless one was given. */
static void choose_kind(struct options *options)
{
    options->is_load = !strcmp(options->kind, "load");
    options->is_price = !strcmp(options->kind, "price");
    if (!options->model)
        options->model = options->is_load ? "load" : options->is_price ? "best" : "pool";
    if (!options->models)
        options->models = options->is_load    ? "last,ma,ses,load"
                          : options->is_price ? "last,changes,steps,best"
                                              : "last,ses,arima,empirical,markov,birthdeath,knn,"
                                                "context,parcae,pool";
    if (!(options->interval_s > 0))
        options->interval_s = options->is_price ? 3600 : 60;
}

struct spot_fc_spec options_spec(const struct options *options)
{
    return (struct spot_fc_spec){ .horizon = (int)options->horizon,
                                  .day = 86400 / options->interval_s };
}

struct spot_tracked_key options_key(const struct options *options)
{
    return (struct spot_tracked_key){ .model = options->model,
                                      .interval_s = options->interval_s,
                                      .horizon = (int)options->horizon };
}

static int run_kind(const struct options *options, char *const *path, size_t n_path,
                    struct spot_prov *prov, struct spot_err *err)
{
    if (options->is_price)
        return options->is_backtest ? prices_backtest(options, path, n_path, prov, err)
                                    : prices_forecast(options, path[0], prov, err);
    if (options->is_backtest)
        return backtest_run(options, path, n_path, prov, err);
    if (options->next_probes)
        return next_probes_run(options, path, n_path, prov, err);
    return forecast_run(options, path, n_path, prov, err);
}

static int run(struct options *options, char *const *path, size_t n_path, struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-predict",
                              .seed = options->common.seed,
                              .is_off = !options->common.provenance };
    int rc;

    if (spot_format_parse(options->common.format, &options->format, err))
        return -1;
    if (options->format == SPOT_FORMAT_AUTO && !options->common.output && isatty(STDOUT_FILENO))
        options->format = SPOT_FORMAT_TABLE;
    choose_kind(options);
    rc = run_kind(options, path, n_path, &prov, err);
    spot_prov_release(&prov);
    return rc;
}

static struct options options = {
    .common = SPOT_TOOL_COMMON_DEFAULT,
    .horizon = 12,
    .kind = "availability",
    .origins = 220,
    .hour_usd = -1,
};

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "forecast" },
    SPOT_TEXT("kind", &options.kind, "name",
              "availability (default), load: arrivals of a request trace, or price"),
    SPOT_ROW_LENGTH(&options.interval_s),
    SPOT_U64("horizon", &options.horizon, "n", "steps ahead (default: 12)", 1, SPOT_FC_HORIZON_MAX),
    SPOT_U64("cap", &options.cap, "n",
             "most instances there can be (default: column requested, or the most)", 1,
             SPOT_FC_CAP_MAX),
    SPOT_TEXT("model", &options.model, "name",
              "NAME[@HISTORY] (default: pool; of load: load; of prices: best)"),
    SPOT_TEXT("state", &options.state, "file",
              "keep what was learned in this file; the trace then needs new rows only"),
    SPOT_ROW_PLOT(&options.plot),
    { SPOT_OPT_GROUP, .help = "probes" },
    SPOT_U64("next-probes", &options.next_probes, "n",
             "say which n places to ask next, by the worth of their answers", 1, 4096),
    SPOT_ROW_PROBE_USD(&options.probe_usd),
    SPOT_REAL("hour-usd", &options.hour_usd, "usd",
              "worth of an hour that stays (default: 3 times the median price told)", 0, 1e6),
    { SPOT_OPT_GROUP, .help = "backtest" },
    SPOT_FLAG("backtest", &options.is_backtest, "score models on the past of the traces"),
    SPOT_TEXT("models", &options.models, "names", "models to score (default: last, ..., pool)"),
    SPOT_U64("origins", &options.origins, "n", "forecasts per series, evenly spaced (default: 220)",
             1, 1e7),
    SPOT_SECS("from", &options.from_s, "time",
              "first forecast origin, time_s (never before the 30th interval)", 0, 1e11),
    SPOT_TEXT("dump", &options.dump, "file", "write every forecast and outcome as JSON Lines"),
    SPOT_TOOL_OPTIONS(&options.common),
    { SPOT_OPT_END },
};

static const struct spot_opt_need need[] = {
    { "model", "!backtest" },
    { "state|next-probes", "!backtest|kind load|kind price" },
    { "next-probes", "!state|plot" },
    { "probe-usd|hour-usd", "next-probes" },
    { "models|origins|from|dump", "backtest" },
    { "plot|cap", "!kind price" },
    { NULL, NULL },
};

static int predict(char **operand, size_t n, struct spot_err *err)
{
    if (n > 1 && !options.is_backtest && !strcmp(options.kind, "price"))
        return spot_err_set(err, SPOT_EUSAGE, "unexpected operand '%s'", operand[1]);
    if (spot_tool_stdin_is_idle(operand[0]))
        return spot_err_set(err, SPOT_EUSAGE, "no trace: name a file, or - for standard input");
    return run(&options, operand, n ? n : 1, err);
}

static const struct spot_cli command = {
    .name = "spot-predict",
    .need = need,
    .writes = (const char *const[]){ "state", "plot", "dump", "output", NULL },
    .n_operand_max = SPOT_OPERANDS_ANY,
    .choice =
        (const struct spot_opt_choice[]){ { "kind", "availability|load|price" }, { NULL, NULL } },
    .synopsis = "[options] [trace.csv] [probes.csv] [advice.csv]",
    .summary = "Forecast spot availability, load or prices as distributions.",
    .examples = "  spot-predict trace.csv | jq '.series[0].available[11]'\n"
                "  spot-predict --horizon 3 --format table trace.csv\n"
                "  spot-predict --next-probes 3 probes.csv\n"
                "  spot-predict --kind price --horizon 24 prices.csv\n",
    .option = option,
    .common = &options.common,
    .run = predict,
};

int main(int argc, char **argv)
{
    spot_forecasters_more = spot_peer_forecasters;
    return spot_tool_run(&command, argc, argv);
}
