/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "plan/run_dist.h"

size_t spot_run_stage(size_t age)
{
    size_t stage = 0;

    while (age > 1 && stage + 1 < SPOT_RUN_STAGES) {
        age >>= 1;
        stage++;
    }
    return stage;
}

void spot_run_count_add(struct spot_run_count *count, bool is_up)
{
    if (count->age) {
        const size_t stage = spot_run_stage(count->age);

        count->seen[count->is_up][stage]++;
        count->ended[count->is_up][stage] += is_up != count->is_up;
    }
    count->age = is_up == count->is_up ? count->age + 1 : 1;
    count->is_up = is_up;
}

/* The probability that a run ends, from the counts and a prior of `weight` ended runs in weight /
 * prior ticks. */
static double learn(const struct spot_run_count *count, size_t up, size_t j, double prior,
                    double weight)
{
    return (weight + count->ended[up][j]) / (weight / prior + count->seen[up][j]);
}

/* Rate of ending times age, for runs 600 s * 2^j old, pooled over the zones of spot-traces that are
 * in avail-1-node-aws-02-15-2023 (four), preem-1-node-aws-04-22-2023 (two),
 * preem-4-node-aws-08-03-2023 and avail-16-node-aws-08-27-2023: 768 runs without spot, 763 with it.
 */
static double ending(bool is_up, double age_s)
{
    static const double rate[2][SPOT_RUN_STAGES] = {
        { 0.36, 0.55, 0.71, 0.72, 1.16, 1.59, 2.45 },
        { 0.40, 0.51, 0.66, 0.64, 0.78, 0.95, 1.25 },
    };
    const double at = fmin(fmax(log2(age_s / 600), 0), SPOT_RUN_STAGES - 1);
    const int j = (int)fmin(floor(at), SPOT_RUN_STAGES - 2);

    return rate[is_up][j] + (at - j) * (rate[is_up][j + 1] - rate[is_up][j]);
}

void spot_run_dist_learn_zone(struct spot_run_dist *dist, const struct spot_run_count *count,
                              double tick_s)
{
    /* prior weight of a stage, in ended runs; 2 to 16 gave similar results */
    static const double weight = 4;

    for (size_t up = 0; up < 2; up++)
        for (size_t j = 0; j < SPOT_RUN_STAGES; j++) {
            /* age in ticks at which the stage begins; its middle is at 1.5 times */
            const double age = ldexp(1, (int)j);
            const double prior = fmin(0.9, ending(up, age * tick_s) / (1.5 * age));

            dist->end_prob[up][j] = learn(count, up, j, prior, weight);
        }
}

/* Sum of squared errors of a chain that leaves "up" with probability a and "down" with probability
 * b. */
static double miss(double a, double b, bool is_up, const double *up, size_t n)
{
    double p = is_up, sum = 0;

    for (size_t k = 0; k < n; k++) {
        p = p * (1 - a) + (1 - p) * b;
        sum += (p - up[k]) * (p - up[k]);
    }
    return sum;
}

void spot_run_dist_fit(struct spot_run_dist *dist, bool is_up, const double *up, size_t n)
{
    double best[2] = { log(0.05), log(0.05) }, least = HUGE_VAL;

    /* a logarithmic grid, refined around the best point */
    for (double step = 1; step > 1e-4; step /= 2) {
        const double at[2] = { best[0], best[1] };

        for (int i = -6; i <= 6; i++)
            for (int k = -6; k <= 6; k++) {
                const double x = fmin(-0.01, fmax(-12, at[0] + i * step));
                const double y = fmin(-0.01, fmax(-12, at[1] + k * step));
                const double m = miss(exp(x), exp(y), is_up, up, n);

                if (m < least) {
                    least = m;
                    best[0] = x;
                    best[1] = y;
                }
            }
    }
    for (size_t j = 0; j < SPOT_RUN_STAGES; j++) {
        dist->end_prob[1][j] = exp(best[0]);
        dist->end_prob[0][j] = exp(best[1]);
    }
}

void spot_run_dist_fit_stays(struct spot_run_dist *dist, const double *stays, size_t n)
{
    double last = 0;

    for (size_t j = 0; j < SPOT_RUN_STAGES; j++) {
        const size_t from = ((size_t)1 << j) - 1, to = 2 * from + 1 < n ? 2 * from + 1 : n;
        const double before = from ? stays[(from < n ? from : n) - 1] : 1;

        if (from < n && before > 0)
            last = 1 - pow(fmin(1, stays[to - 1] / before), 1 / (double)(to - from));
        dist->end_prob[1][j] = fmin(1 - 1e-6, fmax(1e-6, last));
    }
}

double spot_run_dist_mean_end(const struct spot_run_dist *dist, bool is_up)
{
    double stays = 1, ticks = 0;

    for (size_t j = 0; j < SPOT_RUN_STAGES; j++) {
        const double end = dist->end_prob[is_up][j], whole = ldexp(1, (int)j);

        if (j + 1 == SPOT_RUN_STAGES) {
            ticks += stays / fmax(end, 1e-12);
        } else {
            ticks += stays * (end > 1e-12 ? (1 - pow(1 - end, whole)) / end : whole);
            stays *= pow(1 - end, whole);
        }
    }
    return 1 / ticks;
}
