/* SPDX-License-Identifier: MIT */
/* spot-replay describe - properties of a trace or a load. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/plot.h"
#include "cli/rows.h"
#include "cli/spark.h"
#include "cli/tool.h"
#include "common/json_writer.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "replay.h"
#include "trace/trace.h"
#include "trace/trace_stats.h"

enum { SLICES = 40, PAIRS_MAX = 64 };

static struct {
    const char *kind, *plot;
    double from_s, to_s;
    uint64_t scale, context;
    struct spot_tool_common common;
} opt = {
    .kind = "trace", .from_s = -1, .to_s = -1, .scale = 1, .common = SPOT_TOOL_COMMON_DEFAULT
};

static void put_trend(struct spot_table *table, const struct spot_trace *trace, size_t k)
{
    double mean[SLICES];
    char *text = NULL;
    size_t n_byte;
    FILE *out = spot_xmemory_open(&text, &n_byte);

    spot_trace_slices(&trace->series[k], trace->start_s, trace->end_s, SLICES, mean);
    spot_spark(out, mean, SLICES, false);
    spot_xmemory_close(out);
    spot_table_add(table, "%s", text);
    free(text);
}

/* For people: one line per series. */
static void print_table(const struct spot_trace *trace, const struct spot_trace_stats *stats,
                        FILE *out, enum spot_format format)
{
    struct spot_table table;

    spot_table_init(&table,
                    "series,hours#,mean#,min#,max#,there#,losses#,batch#,largest#,gains#,batch#,"
                    "lost/machine-h#,quiet min#,longest#,trend");
    for (size_t k = 0; k < trace->n_series; k++) {
        const struct spot_trace_stats *s = &stats[k];
        char label[SPOT_TRACE_LABEL];

        spot_table_add(
            &table, "%s %.1f %.2f %lld %lld %.3f %lld %.2f %.0f %lld %.2f %.3f %.1f %.0f",
            spot_trace_label(&trace->series[k], label), (s->end_s - s->start_s) / 3600, s->mean,
            (long long)s->min, (long long)s->max, s->there_share, (long long)s->lost.n,
            s->lost.size_mean, s->lost.size_max, (long long)s->gained.n, s->gained.size_mean,
            s->lost_per_machine_h, s->run_median_s / 60, s->run_max_s / 60);
        put_trend(&table, trace, k);
    }
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

static void print_pairs(const struct spot_trace *trace, FILE *out, enum spot_format format)
{
    char label[PAIRS_MAX][SPOT_TRACE_LABEL];
    struct spot_trace_together together;
    struct spot_table table;
    const size_t n = trace->n_series;

    if (n < 2)
        return;
    if (n <= PAIRS_MAX) {
        spot_table_init(&table, "correlation");
        for (size_t k = 0; k < n; k++)
            spot_table_column(&table, spot_trace_label(&trace->series[k], label[k]), true);
        for (size_t k = 0; k < n; k++) {
            spot_table_add(&table, "%s", label[k]);
            for (size_t j = 0; j < n; j++)
                spot_table_add(
                    &table, "%.2f",
                    spot_trace_correlation(&trace->series[k], &trace->series[j], trace->end_s));
        }
        putc('\n', out);
        spot_table_print(&table, out, format);
        spot_table_release(&table);
    }
    spot_trace_together(trace, &together);
    fprintf(out, "\nno machine in any series: %.4g of the time, %.4g if they were independent\n",
            together.none_share, together.none_if_independent);
}

static void print_csv(const struct spot_trace *trace, const struct spot_trace_stats *stats,
                      FILE *out, enum spot_format format)
{
    struct spot_table table;

    spot_table_init(
        &table, "zone,instance_type,rows#,start_s#,end_s#,interval_s#,mean#,min#,max#,there_share#,"
                "losses#,lost_machines#,lost_per_h#,lost_size_mean#,lost_size_p50#,lost_size_p90#,"
                "lost_size_max#,gains#,gained_machines#,gained_per_h#,gained_size_mean#,"
                "gained_size_p50#,gained_size_p90#,gained_size_max#,lost_per_machine_h#,runs#,"
                "run_mean_s#,run_median_s#,run_max_s#,run_cv#,price_mean_usd_per_h#");
    for (size_t k = 0; k < trace->n_series; k++) {
        const struct spot_trace_stats *s = &stats[k];
        const struct spot_trace_moves *const moves[] = { &s->lost, &s->gained };

        spot_table_add(&table, "%s %s %lld %g %g %g %g %lld %lld %g", trace->series[k].zone,
                       trace->series[k].instance_type, (long long)s->n_row, s->start_s, s->end_s,
                       s->interval_s, s->mean, (long long)s->min, (long long)s->max,
                       s->there_share);
        for (int i = 0; i < 2; i++) {
            spot_table_add(&table, "%lld %lld %g %g %g %g %g", (long long)moves[i]->n,
                           (long long)moves[i]->machines, moves[i]->per_h, moves[i]->size_mean,
                           moves[i]->size_p50, moves[i]->size_p90, moves[i]->size_max);
        }
        spot_table_add(&table, "%g %lld %g %g %g %g %g", s->lost_per_machine_h, (long long)s->n_run,
                       s->run_mean_s, s->run_median_s, s->run_max_s, s->run_cv,
                       s->price_mean_usd_per_h);
    }
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

static void put_moves(struct spot_jw *jw, const char *key, const struct spot_trace_moves *m)
{
    spot_jw_object(jw, key);
    spot_jw_int(jw, "events", (int64_t)m->n);
    spot_jw_int(jw, "machines", m->machines);
    spot_jw_known(jw, "per_h", m->per_h);
    spot_jw_known(jw, "size_mean", m->size_mean);
    spot_jw_known(jw, "size_p50", m->size_p50);
    spot_jw_known(jw, "size_p90", m->size_p90);
    spot_jw_known(jw, "size_max", m->size_max);
    spot_jw_end(jw);
}

static void put_series(struct spot_jw *jw, const struct spot_trace_series *series,
                       const struct spot_trace_stats *s)
{
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "zone", series->zone);
    spot_jw_str(jw, "instance_type", series->instance_type);
    spot_jw_int(jw, "rows", (int64_t)s->n_row);
    spot_jw_real(jw, "start_s", s->start_s);
    spot_jw_real(jw, "end_s", s->end_s);
    spot_jw_real(jw, "interval_s", s->interval_s);
    spot_jw_real(jw, "mean", s->mean);
    spot_jw_int(jw, "min", s->min);
    spot_jw_int(jw, "max", s->max);
    spot_jw_real(jw, "there_share", s->there_share);
    put_moves(jw, "lost", &s->lost);
    put_moves(jw, "gained", &s->gained);
    spot_jw_known(jw, "lost_per_machine_h", s->lost_per_machine_h);
    spot_jw_object(jw, "run");
    spot_jw_int(jw, "n", (int64_t)s->n_run);
    spot_jw_known(jw, "mean_s", s->run_mean_s);
    spot_jw_known(jw, "median_s", s->run_median_s);
    spot_jw_known(jw, "max_s", s->run_max_s);
    spot_jw_known(jw, "cv", s->run_cv);
    spot_jw_end(jw);
    spot_jw_known(jw, "price_mean_usd_per_h", s->price_mean_usd_per_h);
    spot_jw_end(jw);
}

static void put_pairs(struct spot_jw *jw, const struct spot_trace *trace)
{
    struct spot_trace_together together;

    spot_jw_array(jw, "correlation");
    for (size_t a = 0; a < trace->n_series && trace->n_series <= PAIRS_MAX; a++)
        for (size_t b = a + 1; b < trace->n_series; b++) {
            const double r =
                spot_trace_correlation(&trace->series[a], &trace->series[b], trace->end_s);

            if (isnan(r))
                continue;
            spot_jw_object(jw, NULL);
            spot_jw_int(jw, "a", (int64_t)a);
            spot_jw_int(jw, "b", (int64_t)b);
            spot_jw_real(jw, "r", r);
            spot_jw_end(jw);
        }
    spot_jw_end(jw);
    spot_trace_together(trace, &together);
    spot_jw_object(jw, "together");
    spot_jw_real(jw, "start_s", together.start_s);
    spot_jw_real(jw, "end_s", together.end_s);
    spot_jw_real(jw, "none_share", together.none_share);
    spot_jw_real(jw, "none_if_independent", together.none_if_independent);
    spot_jw_end(jw);
}

static int print_json(const struct spot_trace *trace, const struct spot_trace_stats *stats,
                      const char *source, FILE *out, struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-replay describe",
                              .seed = opt.common.seed,
                              .is_off = !opt.common.provenance };
    struct spot_jw jw;

    spot_prov_add(&prov, source, trace->xxh3);
    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.describe", 1, &prov);
    spot_jw_array(&jw, "series");
    for (size_t k = 0; k < trace->n_series; k++)
        put_series(&jw, &trace->series[k], &stats[k]);
    spot_jw_end(&jw);
    if (trace->n_series > 1)
        put_pairs(&jw, trace);
    spot_jw_end(&jw);
    spot_prov_release(&prov);
    return spot_jw_close(&jw, err);
}

static int print(const struct spot_trace *trace, const struct spot_trace_stats *stats,
                 const char *source, enum spot_format format, struct spot_err *err)
{
    struct spot_out out;
    int rc = 0;

    if (spot_out_open(&out, opt.common.output, err))
        return -1;
    if (format == SPOT_FORMAT_AUTO)
        format = isatty(fileno(out.file)) ? SPOT_FORMAT_TABLE : SPOT_FORMAT_JSON;
    if (format == SPOT_FORMAT_JSON) {
        rc = print_json(trace, stats, source, out.file, err);
    } else if (format == SPOT_FORMAT_TABLE || format == SPOT_FORMAT_MD) {
        print_table(trace, stats, out.file, format);
        print_pairs(trace, out.file, format);
    } else {
        print_csv(trace, stats, out.file, format);
    }
    return spot_out_finish(&out, rc, err);
}

/* The step curve of a series up to the end of the trace: x[n + 1] hours, y[n + 1] machines. */
static void take_steps(const struct spot_trace_series *s, double end_s, double *x, double *y)
{
    for (size_t i = 0; i <= s->n; i++) {
        x[i] = (i < s->n ? s->time_s[i] : end_s) / 3600;
        y[i] = s->available[i < s->n ? i : s->n - 1];
    }
}

/* The mean over all series at 1,000 times: x[n] hours, y[n] machines. */
static void take_mean(const struct spot_trace *trace, size_t n, double *x, double *y)
{
    for (size_t i = 0; i < n; i++) {
        const double share = (double)i / (double)(n - 1);
        const double time_s = trace->start_s + share * (trace->end_s - trace->start_s);

        x[i] = time_s / 3600;
        for (size_t k = 0; k < trace->n_series; k++)
            y[i] += spot_trace_at(&trace->series[k], time_s) / (double)trace->n_series;
    }
}

enum { CURVES_IN_ONE = 3, MEAN_POINTS = 1000 };

/* Several step curves in one panel cannot be told apart: draw one panel for each, with the mean of
 * all in the background. */
static int draw_panels(const struct spot_trace *trace, struct spot_figure *figure,
                       struct spot_err *err)
{
    const size_t n = figure->n_series;
    double *mean = spot_xcalloc(2 * (size_t)MEAN_POINTS, sizeof(*mean));
    struct spot_series *all = spot_xcalloc(n + 1, sizeof(*all));
    char title[320];
    int rc;

    snprintf(title, sizeof(title), "%s; grey: the mean of all", figure->title);
    take_mean(trace, MEAN_POINTS, mean, mean + MEAN_POINTS);
    all[0] = (struct spot_series){ .label = "mean of all",
                                   .style = SPOT_SERIES_STEP,
                                   .n = MEAN_POINTS,
                                   .x = mean,
                                   .y = mean + MEAN_POINTS };
    memcpy(all + 1, figure->series, n * sizeof(*all));
    figure->title = title;
    figure->series = all;
    figure->n_series = n + 1;
    rc = spot_plot_multiples(figure, opt.plot, err);
    free(all);
    free(mean);
    return rc;
}

static int draw(const struct spot_trace *trace, const struct spot_trace_stats *stats,
                struct spot_err *err)
{
    enum { DRAWN_MAX = SPOT_PLOT_MULTIPLES_MAX - 1 };
    const size_t n = trace->n_series < DRAWN_MAX ? trace->n_series : (size_t)DRAWN_MAX;
    struct spot_series curve[DRAWN_MAX];
    double *xy[DRAWN_MAX];
    char label[DRAWN_MAX][SPOT_TRACE_LABEL], title[256];
    struct spot_figure figure;
    size_t lost = 0;
    int rc;

    for (size_t k = 0; k < trace->n_series; k++)
        lost += stats[k].lost.n;
    if (trace->n_series > n)
        spot_tool_warn("the figure shows the first %zu of %zu series", n, trace->n_series);
    snprintf(title, sizeof(title), "machines were lost %zu time%s in %.3g h", lost,
             lost == 1 ? "" : "s", (trace->end_s - trace->start_s) / 3600);
    for (size_t k = 0; k < n; k++) {
        const struct spot_trace_series *s = &trace->series[k];

        xy[k] = spot_xcalloc(2 * (s->n + 1), sizeof(**xy));
        take_steps(s, trace->end_s, xy[k], xy[k] + s->n + 1);
        curve[k] = (struct spot_series){ .label = spot_trace_label(s, label[k]),
                                         .style = SPOT_SERIES_STEP,
                                         .n = s->n + 1,
                                         .x = xy[k],
                                         .y = xy[k] + s->n + 1 };
    }
    figure = (struct spot_figure){ .title = title,
                                   .x_label = "time (h)",
                                   .y_label = "machines",
                                   .made_by = "spot-replay describe --plot",
                                   .series = curve,
                                   .n_series = n,
                                   .is_count = true };
    rc = n > CURVES_IN_ONE ? draw_panels(trace, &figure, err) : spot_plot(&figure, opt.plot, err);
    for (size_t k = 0; k < n; k++)
        free(xy[k]);
    return rc;
}

static int run(const char *path, enum spot_format format, struct spot_err *err)
{
    struct spot_trace trace;
    struct spot_trace_stats *stats;
    bool is_drawn;
    int rc = -1;

    if (spot_trace_load_path(&trace, path, err))
        return -1;
    stats = spot_xcalloc(trace.n_series, sizeof(*stats));
    if ((opt.from_s >= 0 || opt.to_s >= 0) &&
        spot_trace_cut(&trace, opt.from_s < 0 ? trace.start_s : opt.from_s,
                       opt.to_s < 0 ? trace.end_s : opt.to_s, err))
        goto out;
    spot_trace_scale(&trace, (int32_t)opt.scale);
    for (size_t k = 0; k < trace.n_series; k++)
        spot_trace_stats(&trace.series[k], trace.end_s, &stats[k]);
    is_drawn = spot_plot_takes_stdout(opt.plot, opt.common.output);
    rc = opt.plot ? draw(&trace, stats, err) : 0;
    if (!rc && !is_drawn)
        rc = print(&trace, stats, path && strcmp(path, "-") != 0 ? path : "<stdin>", format, err);
out:
    free(stats);
    spot_trace_release(&trace);
    return rc;
}

static int replay_describe(char **operand, size_t n, struct spot_err *err)
{
    const bool is_load = !strcmp(opt.kind, "load");
    enum spot_format format;

    (void)n;
    if (spot_tool_stdin_is_idle(operand[0]))
        return spot_err_set(err, SPOT_EUSAGE, "no %s: name a file, or - for stdin", opt.kind);
    if (spot_format_parse(opt.common.format, &format, err))
        return -1;
    if (opt.from_s >= 0 && opt.to_s >= 0 && opt.from_s > opt.to_s)
        return spot_err_set(err, SPOT_EUSAGE, "--from %.15g s is after --to %.15g s", opt.from_s,
                            opt.to_s);
    if (is_load)
        return describe_load(&(struct replay_describe_load){ .path = operand[0],
                                                             .plot = opt.plot,
                                                             .from_s = opt.from_s,
                                                             .to_s = opt.to_s,
                                                             .context = (int64_t)opt.context,
                                                             .format = format,
                                                             .common = &opt.common },
                             err);
    return run(operand[0], format, err);
}

const struct spot_cli replay_describe_command = {
    .name = "spot-replay describe",
    .brief = "show what a trace or a load is like",
    .need = (const struct spot_opt_need[]){ { "scale", "kind trace" },
                                            { "context", "kind load" },
                                            { NULL, NULL } },
    .writes = (const char *const[]){ "output", "plot", NULL },
    .choice = (const struct spot_opt_choice[]){ { "kind", "trace|load" }, { NULL, NULL } },
    .n_operand_max = 1,
    .synopsis = "[options] [trace.csv]",
    .summary =
        "Summarise an availability trace: how many machines, how many were lost and gained\n"
        "at once, how long nothing changed, and how far zones fall together. Of a load: rate,\n"
        "burstiness and lengths.",
    .examples = "  spot-replay describe examples/traces/typical.csv\n"
                "  spot-replay describe --plot zones.svg --format json examples/traces/zones.csv\n"
                "  spot-replay describe --kind load --plot - requests.csv\n",
    .option =
        (const struct spot_opt[]){
            SPOT_TEXT("kind", &opt.kind, "what", "trace: machines (default); load: requests"),
            { SPOT_OPT_GROUP, .help = "range" },
            SPOT_ROW_FROM(&opt.from_s),
            SPOT_ROW_TO(&opt.to_s),
            SPOT_ROW_SCALE(&opt.scale),
            SPOT_ROW_CONTEXT(&opt.context),
            { SPOT_OPT_GROUP, .help = "output" },
            SPOT_ROW_PLOT(&opt.plot),
            SPOT_TOOL_OPTIONS(&opt.common),
            { SPOT_OPT_END },
        },
    .common = &opt.common,
    .run = replay_describe,
};
