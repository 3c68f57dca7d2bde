/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/share.h"
#include "plan/share/share_level.h"

const char *const spot_share_policy_name[] = {
    [SPOT_SHARE_SPOT] = "spot",
    [SPOT_SHARE_SPOT_MAX_MIN] = "spot:max-min",
    [SPOT_SHARE_SPOT_MAKESPAN] = "spot:makespan",
    [SPOT_SHARE_SPOT_COST] = "spot:cost",
    [SPOT_SHARE_MAX_MIN] = "max-min",
    [SPOT_SHARE_MAX_MIN_PERF] = "max-min-perf",
    [SPOT_SHARE_WATER_FILLING] = "water-filling",
    [SPOT_SHARE_FTF] = "finish-time-fairness",
    [SPOT_SHARE_MAKESPAN] = "makespan",
    [SPOT_SHARE_SUM_THROUGHPUT] = "sum-throughput",
    [SPOT_SHARE_COST] = "cost",
    [SPOT_SHARE_COST_SLO] = "cost-slo",
    [SPOT_SHARE_FIFO] = "fifo",
    [SPOT_SHARE_FIFO_PERF] = "fifo-perf",
    [SPOT_SHARE_ISOLATED] = "isolated",
    [SPOT_SHARE_PROPORTIONAL] = "proportional",
    [SPOT_SHARE_HADAR] = "hadar",
};

const char *const spot_share_policy_about[] = {
    [SPOT_SHARE_SPOT] = "ours: least mean completion time; switches, hazards and scales are priced",
    [SPOT_SHARE_SPOT_MAX_MIN] = "ours, for equal progress",
    [SPOT_SHARE_SPOT_MAKESPAN] = "ours, for the end of the last job",
    [SPOT_SHARE_SPOT_COST] = "ours, for most steps of a usd",
    [SPOT_SHARE_MAX_MIN] = "greatest least share of time, whatever the speeds",
    [SPOT_SHARE_MAX_MIN_PERF] = "greatest least speed, as a share of the proportional one's (LAS)",
    [SPOT_SHARE_WATER_FILLING] = "the same, then the second least, and so on",
    [SPOT_SHARE_FTF] = "least greatest ratio of time to end, to that of an isolated part",
    [SPOT_SHARE_MAKESPAN] = "least time until all are done",
    [SPOT_SHARE_SUM_THROUGHPUT] = "most steps per second over all jobs",
    [SPOT_SHARE_COST] = "most steps per second and usd per hour, summed over jobs",
    [SPOT_SHARE_COST_SLO] = "the same, with each job's SLO met where all can be",
    [SPOT_SHARE_FIFO] = "by arrival, each where most workers are free",
    [SPOT_SHARE_FIFO_PERF] = "by arrival, each where it is fastest of what is free",
    [SPOT_SHARE_ISOLATED] = "an equal part of every type for each job",
    [SPOT_SHARE_PROPORTIONAL] = "the same, in wall time",
    [SPOT_SHARE_HADAR] = "Hadar: prices that rise with use, tasks of a job on several types",
};

int spot_share_policy_find(const char *name, enum spot_share_policy *policy)
{
    for (int p = 0; p < SPOT_SHARE_POLICIES; p++)
        if (!strcmp(name, spot_share_policy_name[p])) {
            *policy = (enum spot_share_policy)p;
            return 0;
        }
    return -1;
}

void spot_share_answer_release(struct spot_share_answer *answer)
{
    free(answer->x);
    free(answer->price);
    *answer = (struct spot_share_answer){ 0 };
}

static double rate_of(const struct spot_share_problem *p, size_t i, const double *x)
{
    double sum = 0;

    for (size_t j = 0; j < p->n_type; j++)
        sum += p->rate[i * p->n_type + j] * x[j];
    return sum;
}

/* --- parts without a program --- */

/* Summed from the last type: ties of the released scheduler are decided by the last digit, and it
 * sums k80, p100, v100 where it fills v100, p100, k80. */
static void isolated_part(const struct spot_share_problem *p, size_t i, double *x)
{
    double sum = 0;

    for (size_t j = p->n_type; j-- > 0;) {
        x[j] = (double)p->type[j].count / (double)p->n_job / (double)p->want[i].scale;
        sum += x[j];
    }
    for (size_t j = 0; j < p->n_type; j++)
        x[j] /= fmax(sum, 1);
}

static void proportional_part(const struct spot_share_problem *p, double *x)
{
    double sum = 0;

    for (size_t j = 0; j < p->n_type; j++) {
        x[j] = (double)p->type[j].count / (double)p->n_job;
        sum += x[j];
    }
    for (size_t j = 0; j < p->n_type; j++)
        x[j] /= sum;
}

void spot_share_isolated_rate(const struct spot_share_problem *p, double *per_s)
{
    double x[64] = { 0 };

    for (size_t i = 0; i < p->n_job; i++) {
        isolated_part(p, i, x);
        per_s[i] = rate_of(p, i, x);
    }
}

void spot_share_proportional_rate(const struct spot_share_problem *p, double *per_s)
{
    double x[64] = { 0 };

    proportional_part(p, x);
    for (size_t i = 0; i < p->n_job; i++)
        per_s[i] = rate_of(p, i, x);
}

/* The proportional part of several workers is more than there is: all shrink alike. */
static void fit(const struct spot_share_problem *p, double *x)
{
    double worst = 1;

    for (size_t j = 0; j < p->n_type; j++) {
        double sum = 0;

        for (size_t i = 0; i < p->n_job; i++)
            sum += x[i * p->n_type + j] * (double)p->want[i].scale;
        if (p->type[j].count)
            worst = fmax(worst, sum / (double)p->type[j].count);
    }
    for (size_t i = 0; i < p->n_job * p->n_type; i++)
        x[i] /= worst;
}

static void parts(const struct spot_share_problem *p, bool is_isolated, struct spot_share_answer *a)
{
    for (size_t i = 0; i < p->n_job; i++)
        if (is_isolated)
            isolated_part(p, i, a->x + i * p->n_type);
        else
            proportional_part(p, a->x + i * p->n_type);
    if (!is_isolated)
        fit(p, a->x);
    a->objective = INFINITY;
    for (size_t i = 0; i < p->n_job; i++)
        a->objective = fmin(a->objective, rate_of(p, i, a->x + i * p->n_type));
}

/* A job that finds no room stops the queue; a job that finds room only where it cannot run is
 * skipped. */
static void fifo(const struct spot_share_problem *p, bool by_rate, struct spot_share_answer *a)
{
    int64_t *free_workers = spot_xcalloc(p->n_type, sizeof(*free_workers));

    for (size_t j = 0; j < p->n_type; j++)
        free_workers[j] = p->type[j].count;
    for (size_t i = 0; i < p->n_job; i++) {
        const int64_t scale = p->want[i].scale;
        double best = -1;
        size_t at = p->n_type;

        for (size_t j = 0; j < p->n_type; j++) {
            const double rate = p->rate[i * p->n_type + j];
            const double value = by_rate ? rate : rate > 0 ? (double)free_workers[j] : 0;

            if (free_workers[j] >= scale && value > best) {
                best = value;
                at = j;
            }
        }
        if (at == p->n_type)
            break;
        if (p->rate[i * p->n_type + at] > 0) {
            a->x[i * p->n_type + at] = 1;
            free_workers[at] -= scale;
            a->objective += p->rate[i * p->n_type + at];
        }
    }
    free(free_workers);
}

/* --- parts by a program --- */

/* In wall time: every type is as fast. */
static int max_min(const struct spot_share_problem *p, bool by_rate, bool all,
                   struct spot_share_answer *a, struct spot_err *err)
{
    double *gain = spot_xcalloc(p->n_job * p->n_type, sizeof(double));
    double *base = spot_xcalloc(p->n_job, sizeof(double));
    int rc;

    spot_share_proportional_rate(p, base);
    for (size_t i = 0; i < p->n_job; i++)
        for (size_t j = 0; j < p->n_type; j++) {
            const double rate = p->rate[i * p->n_type + j];
            const double part = by_rate ? rate / base[i] : 1; /* the proportional part's sum is 1 */

            gain[i * p->n_type + j] =
                rate > 0 ? part * (double)p->want[i].scale / p->want[i].weight : 0;
        }
    rc = spot_share_level(p, gain, all, NULL, a, err);
    free(gain);
    free(base);
    return rc;
}

static int makespan(const struct spot_share_problem *p, struct spot_share_answer *a,
                    struct spot_err *err)
{
    double *gain = spot_xcalloc(p->n_job * p->n_type, sizeof(double));
    int rc;

    for (size_t i = 0; i < p->n_job; i++)
        for (size_t j = 0; j < p->n_type; j++)
            gain[i * p->n_type + j] = p->rate[i * p->n_type + j] / p->want[i].left;
    rc = spot_share_level(p, gain, false, NULL, a, err);
    if (!rc) { /* levels are shares of all that is left in a second */
        const double per_s = a->objective;

        a->objective = 1 / per_s;
        a->bound = a->bound > 0 ? 1 / a->bound : 0;
        for (size_t j = 0; j < p->n_type; j++)
            a->price[j] /= per_s * per_s; /* seconds saved by one more worker */
    }
    free(gain);
    return rc;
}

/* Greatest ratio of the time to the end to that of an isolated part. */
static double worst_ratio(const struct spot_share_problem *p, const double *isolated_s,
                          const double *x)
{
    double worst = 0;

    for (size_t i = 0; i < p->n_job; i++)
        worst =
            fmax(worst, (p->want[i].age_s + p->want[i].left / rate_of(p, i, x + i * p->n_type)) /
                            isolated_s[i]);
    return worst;
}

/* Nothing makes more than `most` times what ratio rho asks of each job: some job stays above this.
 */
static double least_ratio(const struct spot_share_problem *p, const double *isolated_s, double rho,
                          double most)
{
    double least = rho;

    for (size_t i = 0; i < p->n_job; i++) {
        const double age_s = p->want[i].age_s;

        least = fmin(least, (age_s + (rho * isolated_s[i] - age_s) / most) / isolated_s[i]);
    }
    return least;
}

/* What a job asks at ratio rho is left / (rho * isolated - age) steps/s: what it may ask less at
 * rho than at `at`, weighed as the prices at `at` do. Where this is above the bound there, no
 * shares give that ratio to all. */
static double asked(const struct spot_share_problem *p, const double *isolated_s,
                    const double *weight, double at, double rho)
{
    double sum = 0;

    for (size_t i = 0; i < p->n_job; i++)
        if (weight[i] > 0) {
            const double age_s = p->want[i].age_s;

            sum += weight[i] * (at * isolated_s[i] - age_s) / (rho * isolated_s[i] - age_s);
        }
    return sum;
}

/* The least ratio that the prices at `at` do not rule out, below `high`. */
static double next_ratio(const struct spot_share_problem *p, const double *isolated_s,
                         const double *weight, double at, double most, double high)
{
    double low = 0, floor = 0;

    for (size_t i = 0; i < p->n_job; i++) /* it is as late as that already */
        floor = fmax(floor, p->want[i].age_s / isolated_s[i]);
    low = floor;
    for (int turn = 0; turn < 100; turn++) {
        const double middle = (low + high) / 2;

        if (middle <= floor || asked(p, isolated_s, weight, at, middle) > most)
            low = middle;
        else
            high = middle;
    }
    return high > floor * (1 + 1e-9) ? high : floor * (1 + 1e-9);
}

static bool any_runs(const struct spot_share_problem *p)
{
    for (size_t i = 0; i < p->n_job; i++)
        if (p->want[i].on >= 0)
            return true;
    return false;
}

/* weight NULL: of equal shares those that move least. */
static int level_at(const struct spot_share_problem *p, const double *isolated_s, double rho,
                    double *weight, struct spot_share_answer *a, struct spot_err *err)
{
    double *gain = spot_xcalloc(p->n_job * p->n_type, sizeof(double));
    int rc;

    for (size_t i = 0; i < p->n_job * p->n_type; i++) {
        const struct spot_share_want *want = &p->want[i / p->n_type];

        gain[i] = p->rate[i] * (rho * isolated_s[i / p->n_type] - want->age_s) / want->left;
    }
    rc = spot_share_level(p, gain, false, weight, a, err);
    free(gain);
    return rc;
}

/* At ratio rho job i has to make left / (rho * isolated - age) steps/s. The greatest common
 * multiple of these is 1 at the optimum, and its prices say which ratios cannot be: the least that
 * they leave is tried next, from below but for the first, and what attains the multiple there has
 * a ratio from above. */
static int finish_time(const struct spot_share_problem *p, struct spot_share_answer *a,
                       struct spot_err *err)
{
    const size_t n = p->n_job * p->n_type;
    double *isolated_s = spot_xcalloc(p->n_job, sizeof(double));
    double *weight = spot_xcalloc(p->n_job, sizeof(double));
    double *x = spot_xcalloc(n, sizeof(double));
    double rho, best, bound = 0;
    int rc = 0;

    spot_share_isolated_rate(p, isolated_s);
    for (size_t i = 0; i < p->n_job; i++)
        isolated_s[i] = p->want[i].isolated_s + p->want[i].left / isolated_s[i];
    parts(p, true, a);
    memcpy(x, a->x, n * sizeof(*x));
    rho = best = worst_ratio(p, isolated_s, x);
    for (int turn = 0; !rc && turn < 60 && best > bound * (1 + 1e-9); turn++) {
        rc = level_at(p, isolated_s, rho, weight, a, err);
        bound = fmax(bound, least_ratio(p, isolated_s, rho, a->bound));
        if (!rc && worst_ratio(p, isolated_s, a->x) < best) {
            best = worst_ratio(p, isolated_s, a->x);
            memcpy(x, a->x, n * sizeof(*x));
        }
        rho = next_ratio(p, isolated_s, weight, rho, a->bound, best);
    }
    if (!rc && any_runs(p))
        rc = level_at(p, isolated_s, best, NULL, a, err);
    else
        memcpy(a->x, x, n * sizeof(*x));
    a->objective = rc ? 0 : worst_ratio(p, isolated_s, a->x);
    a->bound = bound;
    free(isolated_s);
    free(weight);
    free(x);
    return rc;
}

static int sum(const struct spot_share_problem *p, bool by_cost, bool has_slo,
               struct spot_share_answer *a, struct spot_err *err)
{
    double *gain = spot_xcalloc(p->n_job * p->n_type, sizeof(double));
    double *floor = spot_xcalloc(p->n_job, sizeof(double));
    int rc;

    for (size_t i = 0; i < p->n_job * p->n_type; i++) {
        const double usd = p->type[i % p->n_type].usd_per_h;

        gain[i] = p->rate[i] / (by_cost && usd > 0 ? usd : 1);
    }
    for (size_t i = 0; i < p->n_job; i++)
        floor[i] = p->want[i].slo_left_s > 0 ? p->want[i].left / p->want[i].slo_left_s : 0;
    rc = spot_share_sum(p, gain, has_slo ? floor : NULL, a, err);
    if (rc == 1) {
        a->is_slo_dropped = true;
        rc = spot_share_sum(p, gain, NULL, a, err);
    }
    free(gain);
    free(floor);
    return rc;
}

static int dispatch(const struct spot_share_problem *p, enum spot_share_policy policy,
                    struct spot_share_answer *a, struct spot_err *err)
{
    switch (policy) {
    case SPOT_SHARE_MAX_MIN:
        return max_min(p, false, false, a, err);
    case SPOT_SHARE_MAX_MIN_PERF:
        return max_min(p, true, false, a, err);
    case SPOT_SHARE_WATER_FILLING:
        return max_min(p, true, true, a, err);
    case SPOT_SHARE_FTF:
        return finish_time(p, a, err);
    case SPOT_SHARE_MAKESPAN:
        return makespan(p, a, err);
    case SPOT_SHARE_SUM_THROUGHPUT:
        return sum(p, false, false, a, err);
    case SPOT_SHARE_COST:
    case SPOT_SHARE_COST_SLO:
        return sum(p, true, policy == SPOT_SHARE_COST_SLO, a, err);
    case SPOT_SHARE_FIFO:
    case SPOT_SHARE_FIFO_PERF:
        fifo(p, policy == SPOT_SHARE_FIFO_PERF, a);
        return 0;
    case SPOT_SHARE_ISOLATED:
    case SPOT_SHARE_PROPORTIONAL:
        parts(p, policy == SPOT_SHARE_ISOLATED, a);
        return 0;
    default:
        return spot_err_set(err, SPOT_EUSAGE, "'%s' has no shares", spot_share_policy_name[policy]);
    }
}

int spot_share_allocate(const struct spot_share_problem *p, enum spot_share_policy policy,
                        struct spot_share_answer *a, struct spot_err *err)
{
    int rc;

    *a = (struct spot_share_answer){ .bound = NAN };
    for (size_t i = 0; i < p->n_job; i++) {
        bool runs = false;

        for (size_t j = 0; j < p->n_type; j++)
            runs |= p->rate[i * p->n_type + j] > 0;
        if (!runs)
            return spot_err_set(err, SPOT_EINFEASIBLE, "job %zu runs on no type", i);
    }
    a->x = spot_xcalloc(p->n_job * p->n_type, sizeof(double));
    a->price = spot_xcalloc(p->n_type, sizeof(double));
    for (size_t j = 0; j < p->n_type; j++)
        a->price[j] = NAN;
    rc = p->n_job ? dispatch(p, policy, a, err) : 0;
    if (rc)
        spot_share_answer_release(a);
    return rc;
}
