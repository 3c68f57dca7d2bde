/* SPDX-License-Identifier: MIT */
#include "replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"
#include "common/json_writer.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "trace/load_stats.h"

/* --- numbers --- */

static void put_lengths(struct spot_jw *jw, const char *key, const struct spot_load_lengths *l)
{
    spot_jw_object(jw, key);
    spot_jw_real(jw, "mean", l->mean);
    spot_jw_real(jw, "cv", l->cv);
    spot_jw_int(jw, "min", l->min);
    spot_jw_int(jw, "p50", l->p50);
    spot_jw_int(jw, "p90", l->p90);
    spot_jw_int(jw, "p99", l->p99);
    spot_jw_int(jw, "max", l->max);
    spot_jw_end(jw);
}

static void put_counts(struct spot_jw *jw, const struct spot_load_counts *c)
{
    size_t n = 0;

    spot_jw_object(jw, NULL);
    spot_jw_real(jw, "bin_s", c->bin_s);
    spot_jw_int(jw, "bins", (int64_t)c->n);
    spot_jw_known(jw, "dispersion", c->dispersion);
    spot_jw_known(jw, "peak_per_s", c->peak_per_s);
    while (n < SPOT_LOAD_LAGS && !isnan(c->autocorrelation[n]))
        n++;
    spot_jw_reals(jw, "autocorrelation", c->autocorrelation, n);
    spot_jw_end(jw);
}

static int print_json(const struct replay_describe_load *ask, const struct spot_load *load,
                      const struct spot_load_stats *s, FILE *out, struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-replay describe",
                              .seed = ask->common->seed,
                              .is_off = !ask->common->provenance };
    struct spot_jw jw;

    spot_prov_add(&prov, ask->path && strcmp(ask->path, "-") != 0 ? ask->path : "<stdin>",
                  load->xxh3);
    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.load", 1, &prov);
    spot_jw_int(&jw, "requests", (int64_t)s->n);
    spot_jw_real(&jw, "start_s", s->start_s);
    spot_jw_real(&jw, "end_s", s->end_s);
    spot_jw_known(&jw, "rate_per_s", s->rate_per_s);
    spot_jw_known(&jw, "gap_cv", s->gap_cv);
    spot_jw_known(&jw, "gap_autocorrelation", s->gap_autocorrelation);
    spot_jw_array(&jw, "counts");
    for (size_t k = 0; k < SPOT_LOAD_WIDTHS; k++)
        if (s->counts[k].n)
            put_counts(&jw, &s->counts[k]);
    spot_jw_end(&jw);
    put_lengths(&jw, "prompt_tokens", &s->prompt);
    put_lengths(&jw, "output_tokens", &s->output);
    spot_jw_known(&jw, "length_correlation", s->length_correlation);
    spot_jw_known(&jw, "output_tokens_per_s", s->token_per_s);
    spot_jw_end(&jw);
    spot_prov_release(&prov);
    return spot_jw_close(&jw, err);
}

static void add_lengths(struct spot_table *table, const struct spot_load_lengths *l)
{
    spot_table_add(table, "%g %g %d %d %d %d %d", l->mean, l->cv, l->min, l->p50, l->p90, l->p99,
                   l->max);
}

/* All numbers in one row. */
static void print_row(const struct spot_load_stats *s, FILE *out, enum spot_format format)
{
    struct spot_table table;

    spot_table_init(&table,
                    "requests#,start_s#,end_s#,rate_per_s#,gap_cv#,gap_autocorrelation#,"
                    "dispersion_1s#,peak_1s_per_s#,autocorrelation_1s#,"
                    "dispersion_10s#,peak_10s_per_s#,autocorrelation_10s#,"
                    "dispersion_60s#,peak_60s_per_s#,autocorrelation_60s#,"
                    "dispersion_600s#,peak_600s_per_s#,autocorrelation_600s#,"
                    "prompt_mean#,prompt_cv#,prompt_min#,prompt_p50#,prompt_p90#,prompt_p99#,"
                    "prompt_max#,output_mean#,output_cv#,output_min#,output_p50#,output_p90#,"
                    "output_p99#,output_max#,length_correlation#,output_tokens_per_s#");
    spot_table_add(&table, "%zu %g %g %g %g %g", s->n, s->start_s, s->end_s, s->rate_per_s,
                   s->gap_cv, s->gap_autocorrelation);
    for (size_t k = 0; k < SPOT_LOAD_WIDTHS; k++)
        spot_table_add(&table, "%g %g %g", s->counts[k].dispersion, s->counts[k].peak_per_s,
                       s->counts[k].autocorrelation[0]);
    add_lengths(&table, &s->prompt);
    add_lengths(&table, &s->output);
    spot_table_add(&table, "%g %g", s->length_correlation, s->token_per_s);
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

/* --- tables for people --- */

static void put_few(struct spot_table *table, double x)
{
    char text[32] = "-";

    if (!isnan(x))
        snprintf(text, sizeof(text), fabs(x) >= 1000 ? "%.0f" : "%.3g", x);
    spot_table_add(table, "%s", text);
}

static void print_counts(const struct spot_load_stats *s, FILE *out, enum spot_format format)
{
    struct spot_table table;

    spot_table_init(&table,
                    "arrivals in,bins#,dispersion#,peak/s#,r of neighbours#,r 3 on#,r 6 on#");
    for (size_t k = 0; k < SPOT_LOAD_WIDTHS; k++) {
        const struct spot_load_counts *c = &s->counts[k];
        char text[32];

        snprintf(text, sizeof(text), "%.0f s", c->bin_s);
        spot_table_add(&table, "%s %lld", text, (long long)c->n);
        put_few(&table, c->dispersion);
        put_few(&table, c->peak_per_s);
        put_few(&table, c->autocorrelation[0]);
        put_few(&table, c->autocorrelation[2]);
        put_few(&table, c->autocorrelation[5]);
    }
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

static void print_lengths(const struct spot_load_stats *s, FILE *out, enum spot_format format)
{
    const struct spot_load_lengths *const l[] = { &s->prompt, &s->output };
    struct spot_table table;

    spot_table_init(&table, "tokens,mean#,cv#,min#,p50#,p90#,p99#,max#");
    for (int i = 0; i < 2; i++) {
        spot_table_add(&table, "%s %.1f %.2f %lld %lld %lld %lld %lld", i ? "output" : "prompt",
                       l[i]->mean, l[i]->cv, (long long)l[i]->min, (long long)l[i]->p50,
                       (long long)l[i]->p90, (long long)l[i]->p99, (long long)l[i]->max);
    }
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

static void print_table(const struct spot_load_stats *s, FILE *out, enum spot_format format)
{
    struct spot_table table;

    spot_table_init(
        &table, "requests#,hours#,per s#,output tokens/s#,cv of gaps#,r of gaps#,r of lengths#");
    spot_table_add(&table, "%lld %.2f", (long long)s->n, (s->end_s - s->start_s) / 3600);
    put_few(&table, s->rate_per_s);
    put_few(&table, s->token_per_s);
    put_few(&table, s->gap_cv);
    put_few(&table, s->gap_autocorrelation);
    put_few(&table, s->length_correlation);
    spot_table_print(&table, out, format);
    spot_table_release(&table);
    putc('\n', out);
    print_counts(s, out, format);
    putc('\n', out);
    print_lengths(s, out, format);
}

/* --- a picture --- */

enum { RATE_POINTS = 240, LENGTH_POINTS = 400 };

/* Requests per second over time, in bins of whole seconds if there are enough of those. */
static void take_rate(const struct spot_load *load, double *x, double *y)
{
    const double start_s = load->time_s[0];
    const double span_s = fmax(load->time_s[load->n - 1] - start_s, 1e-6);
    const double bin_s = span_s * (1 + 1e-9) / RATE_POINTS;

    spot_load_count(load, start_s, bin_s, RATE_POINTS, y);
    for (size_t i = 0; i < RATE_POINTS; i++) {
        x[i] = (start_s + (double)i * bin_s) / 3600;
        y[i] /= bin_s;
    }
}

/* The share of requests of at most length x, at evenly spaced ranks. The longest is left out, as it
 * would compress the rest of the axis. */
static void take_lengths(const int32_t *token, size_t n, double *x, double *y)
{
    int32_t *sorted = spot_load_sorted(token, n);

    for (size_t i = 0; i < LENGTH_POINTS; i++) {
        y[i] = 0.99 * (double)(i + 1) / LENGTH_POINTS;
        x[i] = sorted[(size_t)ceil(y[i] * (double)n) - 1];
    }
    free(sorted);
}

static int draw(const struct replay_describe_load *ask, const struct spot_load *load,
                const struct spot_load_stats *s, struct spot_err *err)
{
    double *xy = spot_xcalloc(2 * (size_t)RATE_POINTS + 4 * (size_t)LENGTH_POINTS, sizeof(*xy));
    double *prompt = xy + 2 * (size_t)RATE_POINTS, *output = prompt + 2 * (size_t)LENGTH_POINTS;
    const struct spot_series rate = {
        .label = "-", .style = SPOT_SERIES_STEP, .n = RATE_POINTS, .x = xy, .y = xy + RATE_POINTS
    };
    const struct spot_series length[] = { { .label = "prompt",
                                            .style = SPOT_SERIES_LINE,
                                            .n = LENGTH_POINTS,
                                            .x = prompt,
                                            .y = prompt + LENGTH_POINTS },
                                          { .label = "output",
                                            .style = SPOT_SERIES_LINE,
                                            .n = LENGTH_POINTS,
                                            .x = output,
                                            .y = output + LENGTH_POINTS } };
    char title[160], cv[32] = "-";
    const struct spot_figure panel[] = { { .title = title,
                                           .x_label = "time (h)",
                                           .y_label = "requests per s",
                                           .made_by = "spot-replay describe --plot",
                                           .series = &rate,
                                           .n_series = 1 },
                                         { .title =
                                               "lengths of requests, the longest hundredth aside",
                                           .x_label = "tokens",
                                           .y_label = "share that is no longer",
                                           .series = length,
                                           .n_series = 2 } };
    int rc;

    if (!isnan(s->gap_cv))
        snprintf(cv, sizeof(cv), "%.3g", s->gap_cv);
    snprintf(title, sizeof(title), "%zu requests in %.3g h; the times between them have a CV of %s",
             s->n, (s->end_s - s->start_s) / 3600, cv);
    take_rate(load, xy, xy + RATE_POINTS);
    take_lengths(load->prompt_token, load->n, prompt, prompt + LENGTH_POINTS);
    take_lengths(load->output_token, load->n, output, output + LENGTH_POINTS);
    rc = spot_plot_panels(panel, 2, ask->plot, err);
    free(xy);
    return rc;
}

/* --- the command --- */

static int print(const struct replay_describe_load *ask, const struct spot_load *load,
                 const struct spot_load_stats *s, struct spot_err *err)
{
    const enum spot_format format =
        spot_format_settle(ask->format, ask->common->output, SPOT_FORMAT_JSON);
    struct spot_out out;
    int rc = 0;

    if (spot_out_open(&out, ask->common->output, err))
        return -1;
    if (format == SPOT_FORMAT_JSON)
        rc = print_json(ask, load, s, out.file, err);
    else if (format == SPOT_FORMAT_TABLE || format == SPOT_FORMAT_MD)
        print_table(s, out.file, format);
    else
        print_row(s, out.file, format);
    return spot_out_finish(&out, rc, err);
}

int describe_load(const struct replay_describe_load *ask, struct spot_err *err)
{
    struct spot_load load;
    struct spot_load_stats stats;
    int rc;

    if (spot_load_read_path(&load, ask->path, ask->context, err))
        return -1;
    if (ask->from_s >= 0 || ask->to_s >= 0) {
        rc = spot_load_cut(&load, ask->from_s < 0 ? 0 : ask->from_s,
                           ask->to_s < 0 ? INFINITY : ask->to_s, err);
        if (rc)
            return rc;
    }
    spot_load_stats(&load, &stats);
    rc = ask->plot ? draw(ask, &load, &stats, err) : 0;
    if (!rc && !spot_plot_takes_stdout(ask->plot, ask->common->output))
        rc = print(ask, &load, &stats, err);
    spot_load_release(&load);
    return rc;
}
