/* SPDX-License-Identifier: MIT */
#include "plan/serve_queue_model.h"

#include <float.h>
#include <math.h>

/* Utilisation: rate S / (D B); from 1 on the queue grows. */
static double load_of(const struct spot_serve_station *s)
{
    return s->rate_per_s * s->service_s / ((double)s->replicas * (double)s->batch);
}

/* The probability that a request waits: Erlang's B by recurrence, and C from it. Batches form only
 * while all replicas are busy, so up to then replicas serve single requests. Of a burst, only as
 * many requests as there are replicas do not wait. */
double spot_serve_station_busy(const struct spot_serve_station *s)
{
    const double offered = s->rate_per_s * s->service_s, n = (double)s->replicas;
    double blocked = 1;

    if (offered >= n)
        return 1;
    for (int64_t i = 1; i <= s->replicas; i++)
        blocked = offered * blocked / ((double)i + offered * blocked);
    return fmax(blocked / (1 - offered / n * (1 - blocked)), 1 - n / fmax(s->dispersion, n));
}

/* ln E[z^A] of the number of arrivals A, with the given mean and ratio of variance to mean. */
static double log_pgf(double mean, double dispersion, double z)
{
    if (fabs(dispersion - 1) < 1e-6)
        return mean * (z - 1);
    if (dispersion > 1) { /* negative binomial: size mean / (d - 1), probability of success 1 / d */
        const double inside = 1 - (dispersion - 1) * (z - 1);

        return inside > 0 ? -mean / (dispersion - 1) * log(inside) : INFINITY;
    }
    /* binomial: mean / (1 - d) trials, each with probability 1 - d */
    return mean / (1 - dispersion) * log1p((1 - dispersion) * (z - 1));
}

/* ln of the z > 1 with E[z^A] = z^B, which exists if E[A] < B. Bisection. */
static double decay(double mean, double dispersion, double batch)
{
    double low = 0, high = 64;

    if (dispersion > 1)
        high = fmin(high, log1p(1 / (dispersion - 1)));
    for (int i = 0; i < 48; i++) {
        const double middle = (low + high) / 2;

        if (log_pgf(mean, dispersion, exp(middle)) < batch * middle)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* d ln E[z^A] / dz. */
static double slope(double mean, double dispersion, double z)
{
    return mean / (1 - (dispersion - 1) * (z - 1));
}

/* P(at least one batch is ahead), from the pole z of the generating function of the queue after a
 * start, with the other roots approximated by those of z^B = 1, and from earlier arrivals in the
 * same period. Exact for B = 1. */
static double ahead(double mean, double dispersion, double batch, double root)
{
    const double z = exp(root), full = exp(batch * root);
    const double inner = (full - 1) / (batch * (z - 1));
    const double pull = full * slope(mean, dispersion, z) - batch * full / z;
    const double same = (full - 1) / (mean * (z - 1));

    if (root > 15) /* regular arrivals never fill another batch */
        return 0;
    return pull > 0 ? fmin((batch - mean) * inner / pull * same / full, 1) : 1;
}

/* A request waits for the next start, and one whole period for each full batch ahead of it. */
struct spot_serve_waits spot_serve_waits_of(const struct spot_serve_station *s)
{
    const double period_s = s->service_s / (double)s->replicas, batch = (double)s->batch;
    const double mean = s->rate_per_s * period_s, dispersion = fmax(s->dispersion, 0.02);
    struct spot_serve_waits w = { .service_s = s->service_s,
                                  .period_s = period_s,
                                  .replicas = (double)s->replicas,
                                  .load = load_of(s) };
    double root;

    if (w.load >= 1 || !(w.load > 0))
        return w;
    root = decay(mean, dispersion, batch);
    w.spread = s->is_paced ? 0 : fmin(dispersion, 1);
    w.busy = spot_serve_station_busy(s);
    w.behind = fmin(ahead(mean, dispersion, batch, root), exp(-root * (batch - 1) / batch));
    w.stay = exp(-batch * root);
    return w;
}

/* P(the next start is more than x away). */
static double residual(const struct spot_serve_waits *w, double x)
{
    const double turn = x < w->period_s ? 1 - x / w->period_s : 0;
    const bool is_apart = w->spread > 0 && x < w->service_s;
    const double alone = is_apart ? pow(1 - x / w->service_s, w->replicas) : 0;

    return x <= 0 ? 1 : w->spread * alone + (1 - w->spread) * turn;
}

/* P(wait > x). Starts more than 40 periods away are ignored, and so are summands below the last
 * digit of the sum, which would not change it. */
static double tail(const struct spot_serve_waits *w, double x)
{
    const double whole = floor(x / w->period_s), first = fmax(whole - 40, 1);
    const double one = w->busy * w->behind;
    double more = one * pow(w->stay, first - 1); /* P(at least j batches are ahead) */
    double sum = w->busy * (1 - w->behind) * residual(w, x);

    for (double j = first; j <= whole; j++) {
        if (more * (1 - w->stay) > sum * DBL_EPSILON / 4)
            sum += more * (1 - w->stay) * residual(w, x - j * w->period_s);
        more *= w->stay;
    }
    return fmin(sum + more, 1);
}

/* The x with P(wait > x) = 1 - percentile. */
static double wait_of(const struct spot_serve_waits *w, double percentile)
{
    double low = 0, high;

    if (tail(w, 0) <= 1 - percentile)
        return 0;
    high = w->service_s + w->period_s * (1 - log(1 - percentile) * 4 / fmax(-log(w->stay), 1e-9));
    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;

        if (tail(w, middle) > 1 - percentile)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

double spot_serve_waits_percentile(const struct spot_serve_waits *w, double percentile)
{
    return w->load >= 1 ? INFINITY : w->load > 0 ? wait_of(w, percentile) : 0;
}

double spot_serve_waits_mean(const struct spot_serve_waits *w)
{
    double next_s;

    if (w->load >= 1 || !(w->load > 0))
        return w->load >= 1 ? INFINITY : 0;
    next_s = w->spread * w->service_s / (w->replicas + 1) + (1 - w->spread) * w->period_s / 2;
    return w->busy * (next_s + w->behind / (1 - w->stay) * w->period_s);
}

/* A period of mean S / D has m arrivals on average; if periods vary, the variance of their number
 * grows by m^2 scv. */
double spot_serve_station_dispersion(const struct spot_serve_station *s, double scv)
{
    return s->dispersion + s->rate_per_s * s->service_s / (double)s->replicas * scv;
}

/* P(wait + service > x). */
static double beyond(const struct spot_serve_waits *w, const double *after_s, const double *share,
                     size_t n, double x)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += share[i] * (after_s[i] > x ? 1 : w ? tail(w, x - after_s[i]) : 0);
    return sum;
}

double spot_serve_waits_sojourn(const struct spot_serve_waits *w, const double *after_s,
                                const double *share, size_t n, double percentile)
{
    const bool is_empty = !(w->load > 0);
    double low = 0, high = 0;

    if (w->load >= 1)
        return INFINITY;
    for (size_t i = 0; i < n; i++)
        high = fmax(high, after_s[i]);
    high += is_empty ? 0 : wait_of(w, 1 - (1 - percentile) / 2);
    while (beyond(is_empty ? NULL : w, after_s, share, n, high) > 1 - percentile)
        high *= 1.5;
    for (int i = 0; i < 14; i++) {
        const double middle = (low + high) / 2;

        if (beyond(is_empty ? NULL : w, after_s, share, n, middle) > 1 - percentile)
            low = middle;
        else
            high = middle;
    }
    return high;
}
