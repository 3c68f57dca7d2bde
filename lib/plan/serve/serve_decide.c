/* SPDX-License-Identifier: MIT */
/* The decision of serving: how many pipelines of which shape, and how many spares. */
#include "plan/serve_decide.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "plan/decision.h"
#include "plan/serve_plan.h"
#include "trace/load_seen.h"

/* Prior: one loss in ten hours of one instance. */
#define PRIOR_LOSSES     1.0
#define PRIOR_INSTANCE_S 36000.0
#define ANSWER_KEEPS_S   600.0

/* The fields of a question on which the validity of its answer depends. */
struct asked {
    double time_s;
    int64_t instances;
    struct spot_grid runs;
    double rate_per_s, dispersion, backlog;
    double loss_per_s, switch_s;
    double prompt_token, output_token; /* average lengths of prompts and of answers */
    unsigned long long rule;           /* hash of the rule */
};

struct spot_decider {
    struct spot_serve_rule rule;
    double time_s;
    int64_t instances;
    struct spot_serve_seen seen;
    struct asked asked;
    struct spot_serve_offer answer; /* the last answer; D = 0: none yet */
    /* restored from a saved state: only the grid, spares and pace are known */
    bool is_restored;
    struct spot_serve_length length[SPOT_SERVE_LENGTHS_MAX]; /* lengths of the latest answers */
};

static struct spot_decider *serve_open(const struct spot_rule *rule)
{
    struct spot_decider *d = spot_xcalloc(1, sizeof(*d));

    d->rule = *rule->serve;
    return d;
}

static int serve_observe(struct spot_decider *d, const struct spot_seen *seen, struct spot_err *err)
{
    if (seen->there < 0)
        return spot_err_set(err, SPOT_EUSAGE, "no count of instances");
    d->time_s = seen->time_s;
    d->instances = seen->there;
    d->seen = *seen->serve;
    if (d->seen.runs.D < 0)
        d->seen.runs = (struct spot_grid){ d->answer.D, d->answer.shape.P, d->answer.shape.M };
    return 0;
}

/* --- the question --- */

/* The request rate of the last window; the assumed rate fills the part of it that was not observed.
 */
static struct spot_serve_demand demand_of(const struct spot_decider *d)
{
    const struct spot_serve_seen *s = &d->seen;
    const struct spot_job_serve *serve = &d->rule.job->serve;
    const double elapsed_s = fmin(d->time_s - s->since_s, d->rule.window_s);
    const double prior_s = d->rule.window_s - elapsed_s;
    struct spot_serve_demand demand = { s->rate_per_s, s->dispersion, 0 };

    demand.backlog = fmax(s->waiting - (double)(s->runs.D * serve->max_batch), 0);
    if (s->rate_per_s >= 0)
        return demand;
    demand.rate_per_s = spot_load_rate_seen(s->load, s->since_s, d->time_s, d->rule.window_s);
    if (prior_s > 0) {
        const double prior = d->rule.rate_per_s > 0
                                 ? d->rule.rate_per_s
                                 : spot_serve_most(serve, d->instances * serve->gpus) / 2;

        demand.rate_per_s =
            (demand.rate_per_s * elapsed_s + prior * prior_s) / (elapsed_s + prior_s);
    }
    demand.dispersion = spot_load_dispersion_seen(s->load, s->since_s, d->time_s);
    return demand;
}

/* True if there is an SLO; without one, spares for instances that share a failure domain cost more
 * than they save (docs/design/19-serving.md). */
static bool has_slo(const struct spot_serve_rule *r)
{
    return r->slo.e2e.limit_s > 0 || r->slo.ttft.limit_s > 0;
}

static struct spot_serve_ask make_ask(struct spot_decider *d)
{
    const struct spot_serve_rule *r = &d->rule;
    const struct spot_serve_seen *s = &d->seen;
    const double n = fmax((double)d->instances, 1);
    const double learned = (s->lost + PRIOR_LOSSES) / (s->instance_s + PRIOR_INSTANCE_S);
    const double loss_per_s = s->loss_per_s >= 0 ? s->loss_per_s : learned;

    return (struct spot_serve_ask){
        .serve = &r->job->serve,
        .usd_per_h = r->job->cost.usd_per_h,
        .instances = d->instances,
        .demand = demand_of(d),
        .slo = r->slo,
        .length = d->length,
        .n_length = s->load && spot_serve_knows_lengths(&r->job->serve)
                        ? spot_load_lengths_seen(&r->job->serve, s->load, s->cached_token,
                                                 d->time_s, SPOT_SERVE_LENGTHS_MAX, d->length)
                        : 0,
        .loss_per_s = s->is_forewarned ? 0 : loss_per_s,
        .place = s->place,
        .n_place = has_slo(r) ? s->n_place : 0,
        .repair_s = r->boot_s + r->switch_s,
        .current_D = s->runs.D,
        .current = { .P = s->runs.P, .M = s->runs.M },
        .switch_s = s->switch_s,
        .stay_s = r->stay_s > 0 ? r->stay_s : fmin(fmax(1 / (loss_per_s * n), 60), 3600),
    };
}

/* A hash of the constant part of the question. */
static uint64_t hash_of(const struct spot_serve_rule *r)
{
    const struct {
        uint64_t job;
        double e2e[2], ttft[2], boot_s, stay_s;
    } all = { r->job->json.hash,
              { r->slo.e2e.percentile, r->slo.e2e.limit_s },
              { r->slo.ttft.percentile, r->slo.ttft.limit_s },
              r->boot_s,
              r->stay_s };

    return spot_hash64(&all, sizeof(all));
}

static struct asked asked_of(const struct spot_decider *d, const struct spot_serve_ask *ask)
{
    struct asked a = { .time_s = d->time_s,
                       .instances = ask->instances,
                       .runs = { ask->current_D, ask->current.P, ask->current.M },
                       .rate_per_s = ask->demand.rate_per_s,
                       .dispersion = ask->demand.dispersion,
                       .backlog = ask->demand.backlog,
                       .loss_per_s = ask->loss_per_s,
                       .switch_s = ask->switch_s,
                       .rule = hash_of(&d->rule) };

    for (size_t i = 0; i < ask->n_length; i++) {
        const struct spot_serve_length *l = &ask->length[i];

        a.prompt_token += (double)(l->prompt_token - l->cached_token) / (double)ask->n_length;
        a.output_token += (double)l->output_token / (double)ask->n_length;
    }
    return a;
}

static bool is_near(double a, double b, double share)
{
    return fabs(a - b) <= share * fmax(a, b);
}

/* True if there are enough instances for the shape of the answer. */
static bool is_there(const struct spot_serve_ask *ask, const struct spot_serve_offer *o)
{
    const int64_t each = spot_serve_unit_pipelines(ask->serve, &o->shape);

    return o->D / each * spot_serve_unit_instances(ask->serve, &o->shape) + o->spares <=
           ask->instances;
}

/* True if the last answer is still valid for this question. */
static bool is_answered(const struct spot_decider *d, const struct spot_serve_ask *ask)
{
    const struct asked *was = &d->asked, is = asked_of(d, ask);

    return d->answer.D && !d->seen.is_timeless && is.time_s >= was->time_s &&
           is.time_s - was->time_s < ANSWER_KEEPS_S && was->rule == is.rule &&
           is_there(ask, &d->answer) && was->instances == is.instances &&
           was->runs.D == is.runs.D && was->runs.P == is.runs.P && was->runs.M == is.runs.M &&
           is_near(was->rate_per_s, is.rate_per_s, 0.03) &&
           is_near(was->dispersion, is.dispersion, 0.1) &&
           is_near(was->loss_per_s, is.loss_per_s, 0.2) &&
           is_near(was->switch_s, is.switch_s, 0.1) &&
           is_near(was->prompt_token, is.prompt_token, 0.1) &&
           is_near(was->output_token, is.output_token, 0.1) &&
           fabs(was->backlog - is.backlog) <= (double)ask->serve->max_batch + 0.1 * was->backlog;
}

/* --- the answer --- */

static int ask_anew(struct spot_decider *d, const struct spot_serve_ask *ask, struct spot_err *err)
{
    struct spot_serve_offer best;

    if (spot_serve_offer_best(ask, &best))
        return spot_serve_plan_refuse(d->rule.job, d->instances, err);
    d->answer = best;
    d->asked = asked_of(d, ask);
    return 0;
}

static void say_cached(const struct spot_serve_ask *ask, struct spot_serve_plan *plan)
{
    double prompt = 0, cached = 0;

    for (size_t i = 0; i < ask->n_length; i++) {
        prompt += (double)ask->length[i].prompt_token;
        cached += (double)ask->length[i].cached_token;
    }
    spot_serve_plan_why(plan, "%.3g %% of the prompts' tokens are in a cache and not computed",
                        100 * cached / prompt);
}

/* Make the document: the answer first, then the best offer of every other shape. */
static void tell(struct spot_decider *d, const struct spot_serve_ask *ask, bool is_kept,
                 struct spot_serve_plan *plan)
{
    const double seen_s = d->time_s - d->seen.since_s;
    struct spot_serve_offer *list;
    size_t n, k = 0;

    list = spot_serve_offers(ask, &n);
    while (k + 1 < n &&
           (list[k].shape.P != d->answer.shape.P || list[k].shape.M != d->answer.shape.M))
        k++;
    for (; k; k--)
        list[k] = list[k - 1];
    list[0] = d->answer;
    spot_serve_plan_make(plan, d->rule.job, ask, list, n);
    plan->doc.time_s = d->time_s;
    if (is_kept)
        spot_serve_plan_why(plan,
                            "the answer of %.4g s ago is kept: what was asked is nearly the same",
                            d->time_s - d->asked.time_s);
    if (ask->n_length && d->seen.cached_token)
        say_cached(ask, plan);
    if (d->seen.rate_per_s < 0 && seen_s < d->rule.window_s)
        spot_serve_plan_why(
            plan, "arrivals were seen for %.4g s of a window of %.4g s: for the rest %s", seen_s,
            d->rule.window_s, "half of what can be answered at most is assumed");
    free(list);
}

static int serve_decide(struct spot_decider *d, struct spot_action *action,
                        const struct spot_told *told, struct spot_err *err)
{
    const struct spot_serve_ask ask = make_ask(d);
    const bool is_kept = is_answered(d, &ask);

    if (!is_kept && ask_anew(d, &ask, err))
        return -1;
    if (d->is_restored && is_kept && spot_serve_offer_complete(&ask, &d->answer))
        return spot_err_set(err, SPOT_EDATA, "the state's pipelines are not of this job");
    d->is_restored = false;
    action->serve = d->answer;
    if (told)
        tell(d, &ask, is_kept, told->serve);
    return 0;
}

/* --- saved state --- */

static void serve_save(const struct spot_decider *d, char *line)
{
    const struct asked *q = &d->asked;
    const struct spot_serve_offer *a = &d->answer;

    *line = '\0';
    if (a->D)
        snprintf(line, SPOT_DECISION_STATE_MAX,
                 "serve %.17g %lld %lldx%lldx%lld %.17g %.17g %.17g %.17g %.17g %.17g %.17g %llx "
                 "%lldx%lldx%lld %lld %.17g",
                 q->time_s, (long long)q->instances, (long long)q->runs.D, (long long)q->runs.P,
                 (long long)q->runs.M, q->rate_per_s, q->dispersion, q->backlog, q->loss_per_s,
                 q->switch_s, q->prompt_token, q->output_token, q->rule, (long long)a->D,
                 (long long)a->shape.P, (long long)a->shape.M, (long long)a->spares, a->pace_s);
}

static bool is_grid(int64_t D, int64_t P, int64_t M)
{
    return D >= 0 && D <= SPOT_GRID_MAX && P >= 0 && P <= SPOT_GRID_MAX && M >= 0 &&
           M <= SPOT_GRID_MAX;
}

static int serve_restore(struct spot_decider *d, const char *line, struct spot_err *err)
{
    long long there, runs[3], is[3], spares;
    struct asked q;
    double pace_s;
    int end = 0;

    if (!*line)
        return 0;
    /* all are counted. NOLINTNEXTLINE(cert-err34-c) */
    if (sscanf(line,
               "serve %lf %9lld %9lldx%9lldx%9lld %lf %lf %lf %lf %lf %lf %lf %16llx "
               "%9lldx%9lldx%9lld %9lld %lf%n",
               &q.time_s, &there, &runs[0], &runs[1], &runs[2], &q.rate_per_s, &q.dispersion,
               &q.backlog, &q.loss_per_s, &q.switch_s, &q.prompt_token, &q.output_token, &q.rule,
               &is[0], &is[1], &is[2], &spares, &pace_s, &end) != 18 ||
        line[end] || !isfinite(q.time_s) || !is_grid(runs[0], runs[1], runs[2]) ||
        !is_grid(is[0], is[1], is[2]) || is[0] * is[1] * is[2] < 1 || there < 0 || spares < 0 ||
        !isfinite(q.rate_per_s + q.dispersion + q.backlog + q.loss_per_s + q.switch_s +
                  q.prompt_token + q.output_token + pace_s))
        return spot_err_set(err, SPOT_EDATA, "'%.64s' is not a state of serving", line);
    q.instances = there;
    q.runs = (struct spot_grid){ runs[0], runs[1], runs[2] };
    d->asked = q;
    d->answer = (struct spot_serve_offer){
        .D = is[0], .shape = { .P = is[1], .M = is[2] }, .spares = spares, .pace_s = pace_s
    };
    d->is_restored = true;
    return 0;
}

static void serve_close(struct spot_decider *d)
{
    free(d);
}

const struct spot_policy spot_policy_serve = {
    "serve",
    "spot",
    "least price x P99, or the cheapest that keeps an SLO, by a model of the queue",
    serve_open,
    serve_observe,
    serve_decide,
    serve_save,
    serve_restore,
    serve_close,
};
