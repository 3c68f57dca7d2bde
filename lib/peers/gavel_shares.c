/* SPDX-License-Identifier: MIT */
/* Gavel's shares (gavel.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "peers/gavel.h"
#include "plan/share_level.h"

/* --- shares computed directly --- */

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

void spot_gavel_proportional_rate(const struct spot_share_problem *p, double *per_s)
{
    double x[64] = { 0 };

    proportional_part(p, x);
    for (size_t i = 0; i < p->n_job; i++)
        per_s[i] = spot_share_rate(p, i, x);
}

/* If the proportional shares of jobs with several workers exceed the capacity, all shrink by the
 * same factor. */
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
            spot_share_isolated_part(p, i, a->x + i * p->n_type);
        else
            proportional_part(p, a->x + i * p->n_type);
    if (!is_isolated)
        fit(p, a->x);
    a->objective = INFINITY;
    for (size_t i = 0; i < p->n_job; i++)
        a->objective = fmin(a->objective, spot_share_rate(p, i, a->x + i * p->n_type));
}

/* A job for which there is no room stops the queue; a job with room only on types where it cannot
 * run is skipped. */
static void fifo(const struct spot_share_problem *p, struct spot_share_answer *a)
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

            if (free_workers[j] >= scale && rate > best) {
                best = rate;
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

/* --- shares computed by a linear program --- */

static int max_min(const struct spot_share_problem *p, bool all, struct spot_share_answer *a,
                   struct spot_err *err)
{
    double *gain = spot_xcalloc(p->n_job * p->n_type, sizeof(double));
    double *base = spot_xcalloc(p->n_job, sizeof(double));
    int rc;

    spot_gavel_proportional_rate(p, base);
    for (size_t i = 0; i < p->n_job; i++)
        for (size_t j = 0; j < p->n_type; j++) {
            const double rate = p->rate[i * p->n_type + j];

            gain[i * p->n_type + j] =
                rate > 0 ? rate / base[i] * (double)p->want[i].scale / p->want[i].weight : 0;
        }
    rc = spot_share_level(p, gain, all, NULL, a, err);
    free(gain);
    free(base);
    return rc;
}

/* The greatest ratio of the time to completion to that of an isolated part. */
static double worst_ratio(const struct spot_share_problem *p, const double *isolated_s,
                          const double *x)
{
    double worst = 0;

    for (size_t i = 0; i < p->n_job; i++)
        worst = fmax(
            worst, (p->want[i].age_s + p->want[i].left / spot_share_rate(p, i, x + i * p->n_type)) /
                       isolated_s[i]);
    return worst;
}

/* A bound: if no shares give all jobs more than `most` times the speed that ratio rho requires,
 * some job stays above the returned ratio. */
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

/* At ratio rho a job requires left / (rho * isolated - age) steps/s. Returns how much less all jobs
 * require at rho than at `at`, weighted by the prices at `at`. If that exceeds the bound there, no
 * shares give this ratio to all. */
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

/* The least ratio below `high` that the prices at `at` do not rule out. */
static double next_ratio(const struct spot_share_problem *p, const double *isolated_s,
                         const double *weight, double at, double most, double high)
{
    double low = 0, floor = 0;

    for (size_t i = 0; i < p->n_job; i++) /* the job's time already has that ratio */
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

/* weight NULL: of equal shares choose those that leave jobs where they run as far as possible. */
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

/* At ratio rho job i must run at left / (rho * isolated - age) steps/s. The largest common multiple
 * of these speeds that is possible is 1 at the optimum. Its prices rule out ratios: the least
 * remaining one is tried next, from below except for the first; the shares that attain the multiple
 * give a ratio from above. */
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

static int dispatch(const struct spot_share_problem *p, enum spot_gavel_policy policy,
                    struct spot_share_answer *a, struct spot_err *err)
{
    switch (policy) {
    case SPOT_GAVEL_MAX_MIN_PERF:
        return max_min(p, false, a, err);
    case SPOT_GAVEL_WATER_FILLING:
        return max_min(p, true, a, err);
    case SPOT_GAVEL_FTF:
        return finish_time(p, a, err);
    case SPOT_GAVEL_SUM_THROUGHPUT:
        return sum(p, false, false, a, err);
    case SPOT_GAVEL_COST:
    case SPOT_GAVEL_COST_SLO:
        return sum(p, true, policy == SPOT_GAVEL_COST_SLO, a, err);
    case SPOT_GAVEL_FIFO_PERF:
        fifo(p, a);
        return 0;
    case SPOT_GAVEL_ISOLATED:
    case SPOT_GAVEL_PROPORTIONAL:
        parts(p, policy == SPOT_GAVEL_ISOLATED, a);
        return 0;
    default:
        return spot_err_set(err, SPOT_EUSAGE, "policy %d has no shares", (int)policy);
    }
}

int spot_gavel_allocate(const struct spot_share_problem *p, enum spot_gavel_policy policy,
                        struct spot_share_answer *a, struct spot_err *err)
{
    int rc;

    if (policy == SPOT_GAVEL_MAKESPAN && p->n_job)
        return spot_share_makespan(p, a, err);
    if (spot_share_answer_init(p, a, err))
        return -1;
    rc = p->n_job ? dispatch(p, policy, a, err) : 0;
    if (rc)
        spot_share_answer_release(a);
    return rc;
}
