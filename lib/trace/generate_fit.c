/* SPDX-License-Identifier: MIT */
#include "trace/generate_fit.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"

enum { QUIET, BUSY, ROUNDS = 200 };

/* What one interval of one zone showed. */
struct step {
    int32_t before, lost, gained; /* one of lost and gained is 0 */
    bool is_first;                /* of its zone */
    bool is_outage;               /* gains are held back, and say nothing about their rate */
    double busy;                  /* posterior probability */
};

struct fit {
    struct step *step; /* [n] */
    size_t n;
    int32_t cap;
    double interval_h;
    double loss[2], gain[2];         /* per hour of a full, an empty zone; by state */
    double enter, leave, first_busy; /* transitions per step */
    double log_likelihood;
};

/* --- sizes ------------------------------------------------------------------ */

/* A batch of min(Geometric(mean), most), or with probability `all` of `most`. */
static void fit_sizes(const struct fit *f, bool of_losses, double *mean, double *all)
{
    double p = 0.5, w = 0.05;

    for (int round = 0; round < ROUNDS; round++) {
        double n_all = 0, n = 0, exact = 0, trials = 0;

        for (size_t i = 0; i < f->n; i++) {
            const struct step *s = &f->step[i];
            const int32_t most = of_losses ? s->before : f->cap - s->before;
            const int32_t size = of_losses ? s->lost : s->gained;
            const double chance = w + (1 - w) * pow(1 - p, most - 1);
            const double from_all = size == most ? w / chance : 0;

            if (!size)
                continue;
            n++;
            n_all += from_all;
            exact += size < most;
            trials += size < most ? size : (1 - from_all) * (most - 1);
        }
        if (n < 1)
            break;
        w = n_all / n;
        p = trials > 0 ? fmin(fmax(exact / trials, 1e-6), 1) : 1;
    }
    *mean = fmin(1 / p, SPOT_GENERATE_CAP_MAX);
    *all = w < 1e-6 ? 0 : w;
}

/* --- rates and spells --------------------------------------------------------- */

static double level(const struct fit *f, const struct step *s)
{
    return (double)s->before / f->cap;
}

/* Probability of what a step showed in a state. */
static double chance(const struct fit *f, const struct step *s, int state)
{
    const double no_loss = exp(-f->loss[state] * level(f, s) * f->interval_h);
    const double no_gain =
        s->is_outage ? 1 : exp(-f->gain[state] * (1 - level(f, s)) * f->interval_h);

    if (s->lost)
        return fmax(1 - no_loss, 1e-300);
    if (s->is_outage)
        return no_loss;
    return fmax(no_loss * (s->gained ? 1 - no_gain : no_gain), 1e-300);
}

/* Forward-backward; fills step[].busy and the expected transitions. */
static void expect(struct fit *f, double *entered, double *left)
{
    double *forward = spot_xcalloc(f->n, sizeof(*forward)); /* of BUSY, given the past */
    double after[2] = { 1, 1 };

    f->log_likelihood = *entered = *left = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct step *s = &f->step[i];
        const double last = i ? forward[i - 1] : 0;
        const double prior =
            s->is_first ? f->first_busy : last * (1 - f->leave) + (1 - last) * f->enter;
        const double busy = prior * chance(f, s, BUSY);
        const double quiet = (1 - prior) * chance(f, s, QUIET);

        f->log_likelihood += log(busy + quiet);
        forward[i] = busy / (busy + quiet);
    }
    for (size_t i = f->n; i-- > 0;) {
        struct step *s = &f->step[i];
        const double busy = forward[i] * after[BUSY], quiet = (1 - forward[i]) * after[QUIET];
        const double b = after[BUSY] * chance(f, s, BUSY), q = after[QUIET] * chance(f, s, QUIET);
        double scale;

        s->busy = busy / (busy + quiet);
        if (s->is_first) {
            after[QUIET] = after[BUSY] = 1;
            continue;
        }
        scale = forward[i - 1] * (f->leave * q + (1 - f->leave) * b) +
                (1 - forward[i - 1]) * (f->enter * b + (1 - f->enter) * q);
        *entered += (1 - forward[i - 1]) * f->enter * b / scale;
        *left += forward[i - 1] * f->leave * q / scale;
        after[BUSY] = ((1 - f->leave) * b + f->leave * q) / scale;
        after[QUIET] = (f->enter * b + (1 - f->enter) * q) / scale;
    }
    free(forward);
}

/* One step of EM for a rate whose events are seen per interval: an event's
 * exposure is the expected part of the interval before it. */
static double better_rate(const struct fit *f, int state, bool of_losses)
{
    const double rate = of_losses ? f->loss[state] : f->gain[state];
    double n = 0, exposure_h = 0;

    for (size_t i = 0; i < f->n; i++) {
        const struct step *s = &f->step[i];
        const double share = of_losses ? level(f, s) : 1 - level(f, s);
        const double whole_h = share * f->interval_h;
        const double weight = state == BUSY ? s->busy : 1 - s->busy;
        const bool is_event = of_losses ? s->lost > 0 : s->gained > 0;

        if (whole_h <= 0 || (!of_losses && (s->lost || s->is_outage)))
            continue; /* a step with a loss says nothing about gains */
        n += is_event ? weight : 0;
        exposure_h += weight * (is_event ? 1 / rate - whole_h / expm1(rate * whole_h) : whole_h);
    }
    return exposure_h > 0 ? fmin(fmax(n / exposure_h, 1e-6), 3600) : rate;
}

static void maximise(struct fit *f, double entered, double left)
{
    double busy = 0, first = 0, n_first = 0;
    double loss[2], gain[2];

    for (size_t i = 0; i < f->n; i++) {
        busy += f->step[i].busy;
        first += f->step[i].is_first ? f->step[i].busy : 0;
        n_first += f->step[i].is_first;
    }
    for (int state = QUIET; state <= BUSY; state++) {
        loss[state] = better_rate(f, state, true);
        gain[state] = better_rate(f, state, false);
    }
    for (int state = QUIET; state <= BUSY; state++) {
        f->loss[state] = loss[state];
        f->gain[state] = gain[state];
    }
    f->enter = fmin(fmax(entered / fmax((double)f->n - busy, 1e-9), 1e-6), 0.5);
    f->leave = fmin(fmax(left / fmax(busy, 1e-9), 1e-6), 0.5);
    f->first_busy = fmin(fmax(first / n_first, 1e-3), 1 - 1e-3);
}

static void run_em(struct fit *f)
{
    double last = -INFINITY, entered, left;

    for (int round = 0; round < ROUNDS; round++) {
        expect(f, &entered, &left);
        if (f->log_likelihood - last < 1e-4)
            break;
        last = f->log_likelihood;
        maximise(f, entered, left);
    }
}

/* --- all of it ---------------------------------------------------------------- */

/* Cut every series into steps; an outage lasts from a loss of all to the next gain. */
static void take_steps(struct fit *f, const struct spot_trace *trace, double interval_s)
{
    size_t cap = 0;

    for (size_t k = 0; k < trace->n_series; k++) {
        const struct spot_trace_series *s = &trace->series[k];
        const size_t n = spot_trace_grid_n(s->time_s[0], trace->end_s, interval_s);
        int32_t *y = spot_xcalloc(n, sizeof(*y));
        bool is_outage = false;

        spot_trace_resample(s, s->time_s[0], interval_s, n, y);
        f->step = spot_xgrow(f->step, &cap, f->n + n, sizeof(*f->step));
        for (size_t i = 0; i < n; i++)
            y[i] = y[i] < f->cap ? y[i] : f->cap;
        for (size_t i = 1; i < n; i++) {
            const int32_t move = y[i] - y[i - 1];

            is_outage = is_outage && move <= 0;
            f->step[f->n++] = (struct step){ .before = y[i - 1],
                                             .lost = move < 0 ? -move : 0,
                                             .gained = move > 0 ? move : 0,
                                             .is_first = i == 1,
                                             .is_outage = is_outage && !y[i - 1] };
            is_outage = is_outage || (move < 0 && !y[i]);
        }
        free(y);
    }
}

/* Time at zero after a loss of all, less what the gain rate explains. */
static double outage_mean_s(const struct fit *f, double interval_s)
{
    double n_step = 0, n = 0, gain = fmax(f->gain[QUIET], f->gain[BUSY]);

    for (size_t i = 0; i < f->n; i++) {
        n_step += f->step[i].is_outage;
        n += f->step[i].lost && f->step[i].lost == f->step[i].before;
    }
    return n > 0 ? fmax(n_step / n * interval_s - 3600 / gain, 0) : 0;
}

static void fill_model(const struct fit *f, double interval_s, struct spot_trace_model *model)
{
    const double share = fmin(f->enter / (f->enter + f->leave), 0.9);
    const double burst = sqrt(f->loss[BUSY] / f->loss[QUIET] * f->gain[QUIET] / f->gain[BUSY]);

    model->loss_per_h = (1 - share) * f->loss[QUIET] + share * f->loss[BUSY];
    model->gain_per_h = (1 - share) * f->gain[QUIET] + share * f->gain[BUSY];
    model->burst = fmin(fmax(burst, 1), 1000);
    model->busy_share = burst > 1 ? share : 0;
    model->busy_mean_s = fmin(fmax(interval_s / f->leave, 1), 1e7);
    model->outage_mean_s = fmin(outage_mean_s(f, interval_s), 1e7);
    model->shock_per_h = 0;
    fit_sizes(f, true, &model->loss_mean, &model->loss_all);
    fit_sizes(f, false, &model->gain_mean, &model->gain_all);
}

int spot_trace_model_fit(const struct spot_trace *trace, double interval_s,
                         struct spot_trace_model *model, int32_t *cap, struct spot_err *err)
{
    struct fit f = { .interval_h = interval_s / 3600 }, one;
    double n_step = 0;
    size_t n_event = 0;

    for (size_t k = 0; k < trace->n_series; k++)
        n_step += 1 + floor((trace->end_s - trace->series[k].time_s[0]) / interval_s);
    if (spot_trace_check_grid(trace, n_step, interval_s, SPOT_TRACE_GRID_MAX / 2,
                              "less of the trace (--from, --to)", err))
        return -1;
    *cap = 1;
    for (size_t k = 0; k < trace->n_series; k++) {
        const int32_t peak = spot_trace_peak(&trace->series[k]);

        *cap = peak > *cap ? peak : *cap;
    }
    f.cap = *cap = *cap < SPOT_GENERATE_CAP_MAX ? *cap : SPOT_GENERATE_CAP_MAX;
    take_steps(&f, trace, interval_s);
    for (size_t i = 0; i < f.n; i++)
        n_event += f.step[i].lost || f.step[i].gained;
    if (!n_event) {
        free(f.step);
        return spot_err_set(err, SPOT_EINFEASIBLE, "nothing was lost or gained: no model fits");
    }
    if (spot_trace_model_profile("typical", *cap, model, err)) {
        free(f.step);
        return -1;
    }
    /* One state first: its rates seed the two. */
    one = f;
    one.loss[QUIET] = one.loss[BUSY] = one.gain[QUIET] = one.gain[BUSY] = 5;
    one.enter = one.leave = one.first_busy = 0.5;
    run_em(&one);
    f.loss[QUIET] = one.loss[QUIET] / 2, f.loss[BUSY] = one.loss[QUIET] * 2;
    f.gain[QUIET] = one.gain[QUIET] * 1.5, f.gain[BUSY] = one.gain[QUIET] / 1.5;
    f.enter = f.leave = fmin(interval_s / 1800, 0.2);
    f.first_busy = 0.5;
    run_em(&f);
    if (f.log_likelihood - one.log_likelihood < 2.5 * log((double)f.n)) {
        f = one; /* five parameters more are not worth it */
        f.leave = fmin(interval_s / 1800, 0.5);
        f.enter = 1e-9;
    }
    fill_model(&f, interval_s, model);
    free(f.step);
    return spot_trace_model_check(model, err);
}
