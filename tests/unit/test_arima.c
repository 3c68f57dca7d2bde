/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/rng.h"
#include "forecast/arima.h"
#include "forecast/models/fc_ar.h"
#include "suite.h"

/* Goal: the likelihood is the exact one, the search ends on its highest hill, and forecasts follow
 * from the fit; compared with fits made elsewhere where those are at hand, else with a direct
 * evaluation of the multivariate normal density. */

static const char golden[] = "../shared/data/golden/arima";

enum { N_MAX = 1024, H = 12 };

struct series {
    double y[N_MAX];
    size_t n;
};

static int on_value(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct series *s = user;

    if (!strcmp(row->field[0], "NA")) {
        s->y[s->n++] = NAN;
        return 0;
    }
    return spot_csv_real(row, 0, -1e9, 1e9, &s->y[s->n++], err);
}

static void load_series(const char *name, struct series *s)
{
    static const char *const want[] = { "value" };
    struct spot_err err = { 0 };
    char path[512];
    FILE *in;

    s->n = 0;
    snprintf(path, sizeof(path), "%s/series/%s.csv", golden, name);
    in = fopen(path, "r");
    ck_assert_msg(in != NULL, "%s", path);
    ck_assert_msg(!spot_csv_read(in, path, want, 1, on_value, s, NULL, &err), "%s", err.msg);
    fclose(in);
}

struct tally {
    int n, bad;
    int n_higher; /* fits that end on a higher hill */
    int n_finer;  /* coefficients that differ where ours are likelier, if only in the 9th digit */
};

static size_t difference(struct series *s, int d)
{
    for (int k = 0; k < d; k++, s->n--)
        for (size_t i = 0; i + 1 < s->n; i++)
            s->y[i] = s->y[i + 1] - s->y[i];
    return s->n;
}

static void set_coefficients(struct spot_arma *arma, const double *coef)
{
    memcpy(arma->phi, coef, (size_t)arma->p * sizeof(*coef));
    memcpy(arma->theta, coef + arma->p, (size_t)arma->q * sizeof(*coef));
}

static double loglik_at(const struct spot_arima *fit, const double *coef, struct series *s)
{
    struct spot_arma arma = fit->arma;

    set_coefficients(&arma, coef);
    spot_arma_filter(&arma, s->y, difference(s, fit->d));
    return arma.loglik;
}

static bool is_close(double a, double b, double relative)
{
    return fabs(a - b) <= relative * fmax(fabs(b), 1e-3);
}

static int parse_order(const char *text, int *p, int *d, int *q)
{
    if (strlen(text) < 12 || strncmp(text, "arima(", 6) != 0)
        return -1;
    *p = text[6] - '0';
    *d = text[8] - '0';
    *q = text[10] - '0';
    return 0;
}

/* series model n coef values sigma2 loglik r_default_loglik .. reliable */
static int on_fit(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct tally *tally = user;
    struct series s;
    struct spot_arima fit;
    double loglik, r_loglik, reliable, want[8] = { 0 }, got[8];
    char *at;
    int p, d, q, n = 0;

    if (parse_order(row->field[1], &p, &d, &q) || spot_csv_real(row, 3, -1e9, 1e9, &loglik, err) ||
        spot_csv_real(row, 4, -1e9, 1e9, &r_loglik, err) ||
        spot_csv_real(row, 5, 0, 1, &reliable, err))
        return -1;
    if (!strcmp(row->field[0], "presidents") && d > 0)
        return 0; /* differencing across a gap is another likelihood */
    load_series(row->field[0], &s);
    spot_arima_fit(&fit, s.y, s.n, p, d, q, strstr(row->field[1], "+mean") != NULL);
    for (const char *text = row->field[2]; n < 8; text = at, n++) {
        want[n] = strtod(text, &at);
        if (at == text)
            break;
    }
    memcpy(got, fit.arma.phi, (size_t)p * sizeof(*got));
    memcpy(got + p, fit.arma.theta, (size_t)q * sizeof(*got));
    got[p + q] = fit.arma.mean;
    tally->n++;
    if (reliable < 1) {
        /* either figure may be wrong near a unit root, so the lower of the two is the bar */
        if (fit.arma.loglik < fmin(loglik, r_loglik) - 1e-6) {
            printf("# %s %s: loglik %.7f, R has %.7f\n", row->field[0], row->field[1],
                   fit.arma.loglik, r_loglik);
            tally->bad++;
        }
        return 0;
    }
    if (fit.arma.loglik > loglik + 1e-4) { /* a higher hill: coefficients are of another one */
        tally->n_higher++;
        return 0;
    }
    if (fit.arma.loglik < loglik - 1e-4) {
        printf("# %s %s: loglik %.7f, expected %.7f\n", row->field[0], row->field[1],
               fit.arma.loglik, loglik);
        tally->bad++;
    }
    for (int i = 0; i < n; i++)
        if (!is_close(got[i], want[i], 1e-4) && fit.arma.loglik <= loglik_at(&fit, want, &s)) {
            printf("# %s %s: coefficient %d is %.9g, expected %.9g\n", row->field[0], row->field[1],
                   i, got[i], want[i]);
            tally->bad++;
        } else if (!is_close(got[i], want[i], 1e-4)) {
            tally->n_finer++;
        }
    return 0;
}

static bool has_golden(void)
{
    char path[512];
    FILE *in;

    snprintf(path, sizeof(path), "%s/exact_ml_best_fit.csv", golden);
    in = fopen(path, "r");
    if (in)
        fclose(in);
    return in != NULL;
}

START_TEST(fits_agree_with_the_best_known_elsewhere)
{
    static const char *const want[] = { "series",           "model",   "values", "loglik",
                                        "r_default_loglik", "reliable" };
    struct tally tally = { 0 };
    struct spot_err err = { 0 };
    char path[512];
    FILE *in;

    if (!has_golden())
        return;
    snprintf(path, sizeof(path), "%s/exact_ml_best_fit.csv", golden);
    in = fopen(path, "r");
    ck_assert_msg(!spot_csv_read(in, path, want, 6, on_fit, &tally, NULL, &err), "%s", err.msg);
    fclose(in);
    printf("# %d fits, %d end on a higher hill, %d coefficients are finer\n", tally.n,
           tally.n_higher, tally.n_finer);
    ck_assert_int_gt(tally.n, 200);
    ck_assert_int_eq(tally.bad, 0);
}
END_TEST

struct forecasts {
    char series[64], model[64];
    double mean[H], se[H];
    int n, bad;
};

static struct reliable {
    char key[512][128];
    double coef[512][8];
    int n;
} reliable;

static int on_reliable(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    char *at;
    int n = 0;

    (void)user;
    (void)err;
    if (row->field[2][0] != '1' || reliable.n == 512)
        return 0;
    for (const char *text = row->field[3]; n < 8; text = at, n++) {
        reliable.coef[reliable.n][n] = strtod(text, &at);
        if (at == text)
            break;
    }
    snprintf(reliable.key[reliable.n++], sizeof(reliable.key[0]), "%s %s", row->field[0],
             row->field[1]);
    return 0;
}

static const double *find_reliable(const char *series, const char *model)
{
    char key[160];

    snprintf(key, sizeof(key), "%s %s", series, model);
    for (int i = 0; i < reliable.n; i++)
        if (!strcmp(reliable.key[i], key))
            return reliable.coef[i];
    return NULL;
}

/* Forecast from the coefficients given there, so that only the forecast is compared. */
static void forecast_there(struct forecasts *f, const double *coef, int p, int d, int q)
{
    struct series s, w;
    struct spot_arima fit = { .d = d };

    load_series(f->series, &s);
    w = s;
    fit.arma = (struct spot_arma){ .p = p, .q = q, .has_mean = strstr(f->model, "+mean") != NULL };
    set_coefficients(&fit.arma, coef);
    spot_arma_filter(&fit.arma, w.y, difference(&w, d));
    spot_arima_forecast(&fit, s.y, s.n, H, f->mean, f->se);
}

static int on_forecast(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct forecasts *f = user;
    const double *coef = find_reliable(row->field[0], row->field[1]);
    const double mean = strtod(row->field[3], NULL), se = strtod(row->field[4], NULL);
    int64_t h;
    int p, d, q;

    if (!coef)
        return 0;
    if (spot_csv_int(row, 2, 1, H, &h, err) || parse_order(row->field[1], &p, &d, &q))
        return -1;
    if (strcmp(f->series, row->field[0]) != 0 || strcmp(f->model, row->field[1]) != 0) {
        snprintf(f->series, sizeof(f->series), "%s", row->field[0]);
        snprintf(f->model, sizeof(f->model), "%s", row->field[1]);
        forecast_there(f, coef, p, d, q);
    }
    f->n++;
    if (!is_close(f->mean[h - 1], mean, 1e-4) || !is_close(f->se[h - 1], se, 1e-4)) {
        printf("# %s %s step %d: %.8g (%.8g), expected %.8g (%.8g)\n", f->series, f->model, (int)h,
               f->mean[h - 1], f->se[h - 1], mean, se);
        f->bad++;
    }
    return 0;
}

START_TEST(forecasts_agree_with_the_best_known_elsewhere)
{
    static const char *const fit_want[] = { "series", "model", "reliable", "values" };
    static const char *const want[] = { "series", "model", "h", "mean", "se" };
    static struct forecasts f;
    struct spot_err err = { 0 };
    char path[512];
    FILE *in;

    if (!has_golden())
        return;
    snprintf(path, sizeof(path), "%s/exact_ml_best_fit.csv", golden);
    in = fopen(path, "r");
    ck_assert_msg(!spot_csv_read(in, path, fit_want, 4, on_reliable, NULL, NULL, &err), "%s",
                  err.msg);
    fclose(in);
    snprintf(path, sizeof(path), "%s/exact_ml_best_forecast.csv", golden);
    in = fopen(path, "r");
    ck_assert_msg(in != NULL, "%s", path);
    ck_assert_msg(!spot_csv_read(in, path, want, 5, on_forecast, &f, NULL, &err), "%s", err.msg);
    fclose(in);
    printf("# %d forecasts compared\n", f.n);
    ck_assert_int_gt(f.n, 1000);
    ck_assert_int_eq(f.bad, 0);
}
END_TEST

/* --- oracles of our own --- */

/* log density of w under N(0, sigma2 G), sigma2 concentrated out, G from the autocovariances of a
 * long truncated moving average: none of the filter's algebra. */
static double dense_loglik(const struct spot_arma *arma, const double *w, int n)
{
    enum { LONG = 4000 };
    static double psi[LONG], gamma[64], chol[64 * 64];
    double s = 0, logdet = 0, x[64];

    for (int k = 0; k < LONG; k++) {
        psi[k] = k == 0 ? 1 : k <= arma->q ? arma->theta[k - 1] : 0;
        for (int i = 0; i < arma->p && i < k; i++)
            psi[k] += arma->phi[i] * psi[k - 1 - i];
    }
    for (int l = 0; l < n; l++) {
        gamma[l] = 0;
        for (int k = 0; k + l < LONG; k++)
            gamma[l] += psi[k] * psi[k + l];
    }
    for (int i = 0; i < n; i++) {
        x[i] = w[i];
        for (int j = 0; j <= i; j++) {
            double sum = gamma[i - j];

            for (int k = 0; k < j; k++)
                sum -= chol[i * n + k] * chol[j * n + k];
            chol[i * n + j] = j < i ? sum / chol[j * n + j] : sqrt(sum);
            x[i] -= j < i ? chol[i * n + j] * x[j] : 0;
        }
        x[i] /= chol[i * n + i];
        s += x[i] * x[i];
        logdet += 2 * log(chol[i * n + i]);
    }
    return -0.5 * n * (log(2 * 3.14159265358979323846 * s / n) + 1) - 0.5 * logdet;
}

START_TEST(filter_equals_the_dense_normal_density)
{
    struct spot_rng rng;
    double w[50], partial[4];

    spot_rng_init(&rng, 5, (uint64_t)_i);
    for (int trial = 0; trial < 6; trial++) {
        struct spot_arma arma = { .p = _i % 4, .q = _i / 4 };

        for (int i = 0; i < 4; i++)
            partial[i] = 1.6 * spot_rng_unit(&rng) - 0.8;
        spot_arma_from_partial(partial, arma.p, arma.phi);
        for (int i = 0; i < arma.q; i++)
            arma.theta[i] = 2 * spot_rng_unit(&rng) - 1;
        for (int i = 0; i < 50; i++)
            w[i] = spot_rng_normal(&rng);
        ck_assert_int_eq(spot_arma_filter(&arma, w, 50), 0);
        ck_assert_double_eq_tol(arma.loglik, dense_loglik(&arma, w, 50), 1e-8);
    }
}
END_TEST

START_TEST(closed_form_equals_the_best_of_a_fine_grid_and_the_search)
{
    struct spot_rng rng;
    double w[61], y[62] = { 0 }, best = -INFINITY;
    const int n = 3 + _i * 7;
    struct spot_arima fit;
    struct spot_ar1 ar;

    spot_rng_init(&rng, 6, (uint64_t)_i);
    for (int i = 0; i < n; i++) {
        w[i] = spot_rng_unit(&rng) < 0.5 ? 0 : floor(4 * spot_rng_normal(&rng)) + 1;
        y[i + 1] = y[i] + w[i];
    }
    ar = spot_ar1_fit(w, (size_t)n);
    for (int k = -9999; k <= 9999; k++) {
        struct spot_arma arma = { .p = 1, .phi = { k / 10000.0 } };

        spot_arma_filter(&arma, w, (size_t)n);
        best = fmax(best, arma.loglik);
    }
    ck_assert_double_ge(ar.loglik, best - 1e-12);
    ck_assert_double_le(ar.loglik, best + 1e-4);
    if (spot_arima_fit(&fit, y, (size_t)n + 1, 1, 1, 0, false))
        return;
    ck_assert_double_eq_tol(ar.phi, fit.arma.phi[0], 1e-6);
    ck_assert_double_eq_tol(ar.sigma2, fit.arma.sigma2, 1e-6);
}
END_TEST

START_TEST(a_series_without_variance_is_white_noise_of_none)
{
    static const double flat[] = { 4, 4, 4, 4, 4, 4, 4, 4 };
    double mean[3], se[3];
    struct spot_arima fit;

    ck_assert_int_eq(spot_arima_fit(&fit, flat, 8, 2, 1, 1, false), -1);
    spot_arima_forecast(&fit, flat, 8, 3, mean, se);
    for (int h = 0; h < 3; h++) {
        ck_assert_double_eq(mean[h], 4);
        ck_assert_double_eq(se[h], 0);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, filter_equals_the_dense_normal_density, 0, 16);
    tcase_add_loop_test(tc, closed_form_equals_the_best_of_a_fine_grid_and_the_search, 0, 9);
    add_tests(tc);
    return run_suite("arima", tc);
}
