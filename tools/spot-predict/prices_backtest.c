/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json_writer.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "forecast/backtest.h"
#include "predict.h"

struct models {
    size_t n;
    char *text[MODELS_MAX];
    struct spot_price_predictor predictor[MODELS_MAX];
};

/* A series and the origins of its forecasts. */
struct scored {
    const struct options *options;
    const double *y;
    size_t n, n_origin;
    const size_t *origin;
    double start_s;
    char label[512];
    FILE *dump;
};

static int parse_models(struct models *m, const struct options *options, struct spot_err *err)
{
    const char *at = options->models;

    for (; *at; at += strcspn(at, ","), at += *at == ',') {
        const size_t length = strcspn(at, ",");

        if (m->n == MODELS_MAX)
            return spot_err_set(err, SPOT_EUSAGE, "more than %d models", MODELS_MAX);
        m->text[m->n] = spot_xcalloc(length + 1, 1);
        memcpy(m->text[m->n], at, length);
        m->n++;
        if (prices_model(options, m->text[m->n - 1], &m->predictor[m->n - 1], err))
            return -1;
    }
    return m->n ? 0 : spot_err_set(err, SPOT_EUSAGE, "--models names no model");
}

static void dump_dist(const struct scored *s, const char *model, size_t o, size_t h,
                      const struct spot_price_dist *d)
{
    double *x = spot_xcalloc(2 * d->n, sizeof(double));
    struct spot_jw jw;

    for (size_t i = 0; i < d->n; i++) {
        x[i] = d->point[i].usd_per_h;
        x[d->n + i] = d->point[i].prob;
    }
    spot_jw_init(&jw, s->dump, false);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "series", s->label);
    spot_jw_str(&jw, "model", model);
    spot_jw_real(&jw, "origin_s", s->start_s + (double)o * s->options->interval_s);
    spot_jw_int(&jw, "step", (int64_t)h);
    spot_jw_real(&jw, "now", s->y[o]);
    spot_jw_real(&jw, "y", s->y[o + h]);
    spot_jw_reals(&jw, "usd_per_h", x, d->n);
    spot_jw_reals(&jw, "p", x + d->n, d->n);
    spot_jw_end(&jw);
    putc('\n', s->dump);
    free(x);
}

static void score_model(const struct scored *s, const char *text,
                        struct spot_price_predictor predictor, struct result *r)
{
    struct spot_price_dist *dist = spot_xcalloc(predictor.horizon, sizeof(*dist));
    double cpu_s = 0;

    predictor.y = s->y;
    for (size_t k = 0; k < s->n_origin; k++) {
        const size_t o = s->origin[k];

        cpu_s -= spot_clock_cpu_s();
        spot_price_predictor_predict(&predictor, o, dist);
        cpu_s += spot_clock_cpu_s();
        for (size_t h = 1; h <= predictor.horizon; h++) {
            spot_price_dist_score(&dist[h - 1], s->y[o], s->y[o + h], &r->step[h - 1],
                                  &r->pinball[h - 1]);
            if (s->dump)
                dump_dist(s, text, o, h, &dist[h - 1]);
        }
    }
    r->us_per_origin = 1e6 * cpu_s / (double)s->n_origin;
    for (size_t h = 0; h < predictor.horizon; h++)
        spot_price_dist_release(&dist[h]);
    free(dist);
    spot_price_predictor_release(&predictor);
}

static void score_series(const struct scored *s, const struct models *m, struct results *results)
{
    for (size_t i = 0; i < m->n; i++) {
        struct result *r =
            results_add(results, s->label, m->text[i], s->n_origin, (size_t)s->options->horizon);

        r->pinball = spot_xcalloc((size_t)s->options->horizon, sizeof(double));
        score_model(s, m->text[i], m->predictor[i], r);
    }
}

/* Series too short for any origin are left out, with a warning. */
static int score_file(const struct options *options, const char *path, bool is_one,
                      const struct models *m, struct results *results, FILE *dump,
                      struct spot_prov *prov, struct spot_err *err)
{
    size_t *origin = spot_xcalloc((size_t)options->origins, sizeof(*origin));
    struct scored s = { .options = options, .origin = origin, .dump = dump };
    struct spot_price_trace trace;
    int rc = prices_load(&trace, path, prov, err);

    for (size_t i = 0; !rc && i < trace.n_series; i++) {
        const struct spot_price_series *p = &trace.series[i];
        struct spot_count_grid grid = { .interval_s = options->interval_s };
        double *y = prices_grid(options, &trace, i, true, &grid.n, &grid.start_s, err);

        if (!y) {
            rc = -1;
            break;
        }
        s.y = y;
        s.n = grid.n;
        s.start_s = grid.start_s;
        snprintf(s.label, sizeof(s.label), "%s%s%.150s %.150s %s", is_one ? "" : path,
                 is_one ? "" : ":", p->zone, p->instance_type, prices_market(p));
        s.n_origin = spot_backtest_origins(&grid, (size_t)options->horizon, options->from_s,
                                           (size_t)options->origins, origin);
        if (s.n_origin)
            score_series(&s, m, results);
        else
            spot_tool_warn("series %s: %zu intervals are too few to score", s.label, s.n);
        free(y);
    }
    spot_price_trace_release(&trace);
    free(origin);
    return rc;
}

int prices_backtest(const struct options *options, char *const *path, size_t n_path,
                    struct spot_prov *prov, struct spot_err *err)
{
    struct models *m = spot_xcalloc(1, sizeof(*m));
    struct results results = { 0 };
    struct spot_out dump = { 0 };
    int rc = parse_models(m, options, err);

    if (!rc && options->dump)
        rc = spot_out_open(&dump, options->dump, err);
    for (size_t i = 0; !rc && i < n_path; i++)
        rc = score_file(options, path[i], n_path == 1, m, &results, dump.file, prov, err);
    if (!rc && !results.n)
        rc = spot_err_set(err, SPOT_EINFEASIBLE,
                          "no series has an origin after its %dth interval (or --from) with %d "
                          "steps to come",
                          SPOT_BACKTEST_ORIGIN_MIN, (int)options->horizon);
    if (options->dump && dump.file)
        rc = spot_out_finish(&dump, rc, err);
    if (!rc)
        rc = results_save(options, &results, err);
    results_release(&results);
    for (size_t i = 0; i < m->n; i++)
        free(m->text[i]);
    free(m);
    return rc;
}
