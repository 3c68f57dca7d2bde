/* SPDX-License-Identifier: MIT */
#include "plan/share_round.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/share/share_value.h"

void spot_share_choice_release(struct spot_share_choice *choice)
{
    free(choice->way);
    free(choice->value);
    free(choice->price);
    free(choice->risk);
    *choice = (struct spot_share_choice){ 0 };
}

/* Effective steps/s when machines are lost: each loss costs all workers of the job half a
 * checkpoint interval and a restart. */
static double surviving(const struct spot_share_problem *p, const struct spot_share_terms *terms,
                        const struct spot_share_way *way)
{
    const double losses_per_s = p->type[way->type].hazard_per_h / 3600 * (double)way->scale;
    const double lost_s = terms->switch_s + terms->checkpoint_s / 2;

    return way->rate / (1 + losses_per_s * lost_s);
}

enum { HOLD_ROUNDS = 10 };

/* The objective, with one number for each job whose meaning depends on it. */
struct aim {
    const struct spot_share_problem *problem;
    const struct spot_share_terms *terms;
    double *of_job; /* [n_job] */
    double *x;      /* [n_job][n_type] shares in the minimum-makespan program */
};

static bool stays(const struct spot_share_problem *p, const struct spot_share_way *way)
{
    const struct spot_share_want *want = &p->want[way->job];

    return want->on == (int)way->type && want->on_scale == way->scale;
}

/* The part of the remaining work that one round does. Staying counts more by the work that leaving
 * would lose, spread over hold_s. */
static double share_of_left(const struct aim *aim, const struct spot_share_way *way)
{
    const struct spot_share_terms *terms = aim->terms;
    const struct spot_share_want *want = &aim->problem->want[way->job];
    const double hold_s = terms->hold_s > 0 ? terms->hold_s : HOLD_ROUNDS * terms->round_s;
    const double rate = surviving(aim->problem, terms, way);
    const double kept = want->unsaved + rate * terms->switch_s;
    const double part = fmin(1, rate * terms->round_s / want->left);

    return part + (stays(aim->problem, way) ? kept / want->left * terms->round_s / hold_s : 0);
}

/* For the least mean completion time. Of jobs that cannot be divided, those of which a round does
 * the largest part of the remaining work go first (on one machine: the shortest). Where jobs may
 * take more workers than they use efficiently, that gives too many to the shortest: if speed is the
 * square root of the workers, the best shares follow the square root of the rank (Berg et al.,
 * heSRPT, 2020). The factor sqrt(remaining time) is a compromise between the two. */
static double completion(const struct aim *aim, const struct spot_share_way *way)
{
    const struct spot_share_want *want = &aim->problem->want[way->job];

    const double left_s = fmax(aim->terms->round_s, want->left / aim->of_job[way->job]);

    return want->weight * share_of_left(aim, way) * sqrt(left_s);
}

/* Alpha-fairness (alpha 4, close to max-min): the gain divided by the fourth power of progress so
 * far. */
static double fairness(const struct aim *aim, const struct spot_share_way *way)
{
    const struct spot_share_want *want = &aim->problem->want[way->job];
    const double round_s = aim->terms->round_s;
    const double progress = (want->isolated_s + round_s) / (want->age_s + round_s) / want->weight;
    const double rate = surviving(aim->problem, aim->terms, way);
    const double kept_s = aim->terms->switch_s + want->unsaved / rate;
    const double stay = stays(aim->problem, way) ? 1 + 2 * kept_s / round_s : 1;

    return rate / aim->of_job[way->job] * stay / pow(fmax(progress, 1e-3), 4);
}

/* Give workers to jobs where the minimum-makespan program places them, those first that must run
 * for most of the remaining time; elsewhere jobs only get idle workers. A running job continues
 * until another has much less slack. */
static double urgency(const struct aim *aim, const struct spot_share_way *way)
{
    const struct spot_share_problem *p = aim->problem;
    const double x = aim->x[way->job * p->n_type + way->type];
    const double here = x > 1e-6 ? 1 : 0.1 * way->rate / aim->of_job[way->job];
    double must = 0;

    for (size_t j = 0; j < p->n_type; j++)
        must += aim->x[way->job * p->n_type + j];
    if (must > 0.98)
        must += 2; /* the job has no slack at all */
    return (double)way->scale * here *
           (1 + must + (stays(p, way) ? aim->terms->switch_s > 0 ? 0.5 : 0.1 : 0));
}

enum { CHEAP = 125 }; /* a job takes steps of up to this cost, in percent of its cheapest */

/* Prefer steps that cost little more than the cheapest; near the limit of the SLO take any. */
static double thrift(const struct aim *aim, const struct spot_share_way *way)
{
    const struct spot_share_problem *p = aim->problem;
    const struct spot_share_want *want = &p->want[way->job];
    const double usd = p->type[way->type].usd_per_h * (double)way->scale / way->rate;
    const bool is_late = want->slo_left_s < 1.2 * want->left / way->rate + aim->terms->round_s;

    if (usd > aim->of_job[way->job] * CHEAP / 100 && !is_late)
        return 0;
    return want->weight * share_of_left(aim, way) * (usd > 0 ? aim->of_job[way->job] / usd : 1);
}

static double value_of(const struct aim *aim, const struct spot_share_way *way)
{
    switch (aim->terms->aim) {
    case SPOT_SHARE_AIM_MAKESPAN:
        return urgency(aim, way);
    case SPOT_SHARE_AIM_MAX_MIN:
        return fairness(aim, way);
    case SPOT_SHARE_AIM_COST:
        return thrift(aim, way);
    default:
        return completion(aim, way);
    }
}

/* Set of_job to what the objective needs: the best rate; steps/s of an isolated part; or the least
 * cost of a step. */
static int aim_init(struct aim *aim, const struct spot_share_way *way, size_t n_way,
                    struct spot_err *err)
{
    const struct spot_share_problem *p = aim->problem;
    struct spot_share_answer answer;

    aim->of_job = spot_xcalloc(p->n_job, sizeof(double));
    for (size_t w = 0; w < n_way; w++) {
        double *of_job = &aim->of_job[way[w].job];
        const double usd = p->type[way[w].type].usd_per_h * (double)way[w].scale / way[w].rate;

        if (aim->terms->aim == SPOT_SHARE_AIM_COST)
            *of_job = !w || way[w].job != way[w - 1].job ? usd : fmin(*of_job, usd);
        else
            *of_job = fmax(*of_job, way[w].rate);
    }
    if (aim->terms->aim == SPOT_SHARE_AIM_MAX_MIN)
        spot_share_isolated_rate(p, aim->of_job);
    if (aim->terms->aim != SPOT_SHARE_AIM_MAKESPAN)
        return 0;
    if (spot_share_makespan(p, &answer, err))
        return -1;
    aim->x = answer.x;
    free(answer.price);
    return 0;
}

int share_values(const struct spot_share_problem *p, const struct spot_share_way *way, size_t n_way,
                 const struct spot_share_terms *terms, struct spot_share_choice *choice,
                 struct spot_err *err)
{
    struct aim aim = { .problem = p, .terms = terms };
    int rc = aim_init(&aim, way, n_way, err);

    *choice = (struct spot_share_choice){ .way = spot_xcalloc(p->n_job, sizeof(ptrdiff_t)),
                                          .value = spot_xcalloc(n_way, sizeof(double)),
                                          .price = spot_xcalloc(p->n_type, sizeof(double)) };
    for (size_t w = 0; !rc && w < n_way; w++)
        choice->value[w] = way[w].rate > 0 ? value_of(&aim, &way[w]) : 0;
    free(aim.of_job);
    free(aim.x);
    if (rc)
        spot_share_choice_release(choice);
    return rc;
}

int spot_share_round(const struct spot_share_problem *p, const struct spot_share_way *way,
                     size_t n_way, const struct spot_share_terms *terms,
                     struct spot_share_choice *choice, struct spot_err *err)
{
    int64_t *count;

    if (share_values(p, way, n_way, terms, choice, err))
        return -1;
    count = spot_xcalloc(p->n_type, sizeof(*count));
    for (size_t j = 0; j < p->n_type; j++)
        count[j] = p->type[j].count;
    spot_share_market(way, n_way, p->n_job, count, p->n_type, choice);
    free(count);
    return 0;
}

struct ways {
    struct spot_share_way *way;
    size_t n, cap;
};

static void add_way(struct ways *ways, size_t job, size_t type, int64_t scale, double rate)
{
    if (!(rate > 0))
        return;
    ways->way = spot_xgrow(ways->way, &ways->cap, ways->n + 1, sizeof(*ways->way));
    ways->way[ways->n++] = (struct spot_share_way){ job, type, scale, rate };
}

size_t spot_share_ways(const struct spot_share_jobs *jobs, const size_t *job, size_t n_job,
                       const struct spot_share_cluster *cluster, const int64_t *count,
                       const struct spot_job_rates *throughput, const double *rate,
                       struct spot_share_way **way)
{
    struct ways ways = { 0 };

    for (size_t k = 0; k < n_job; k++) {
        const struct spot_share_job *doc = &jobs->job[job[k]];
        const struct spot_job_rates_row *row = NULL;
        const size_t n_row = throughput && doc->scale_min < doc->scale_max
                                 ? spot_job_rates_of(throughput, doc->kind, &row)
                                 : 0;

        for (size_t j = 0; j < cluster->n; j++) {
            if (doc->scale <= count[j])
                add_way(&ways, k, j, doc->scale, rate[job[k] * cluster->n + j]);
            for (size_t r = 0; r < n_row; r++)
                if (row[r].scale >= doc->scale_min && row[r].scale <= doc->scale_max &&
                    row[r].scale != doc->scale && row[r].scale <= count[j] &&
                    !strcmp(row[r].instance_type, cluster->type[j].name))
                    add_way(&ways, k, j, row[r].scale, row[r].steps_per_s);
        }
    }
    *way = ways.way;
    return ways.n;
}
