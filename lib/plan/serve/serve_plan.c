/* SPDX-License-Identifier: MIT */
#include "plan/serve_plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/xalloc.h"

enum { ALTERNATIVES = 8, TEXT_MAX_BYTE = 320 };

static const char *say(struct spot_serve_plan *plan, const char *fmt, va_list ap)
{
    char text[TEXT_MAX_BYTE];

    vsnprintf(text, sizeof(text), fmt, ap);
    plan->text = spot_xrealloc(plan->text, plan->n_text + 1, sizeof(*plan->text));
    plan->text[plan->n_text] = spot_xstrdup(text);
    return plan->text[plan->n_text++];
}

const char *spot_serve_plan_say(struct spot_serve_plan *plan, const char *fmt, ...)
{
    const char *text;
    va_list ap;

    va_start(ap, fmt);
    text = say(plan, fmt, ap);
    va_end(ap);
    return text;
}

void spot_serve_plan_why(struct spot_serve_plan *plan, const char *fmt, ...)
{
    va_list ap;

    plan->why = spot_xrealloc(plan->why, plan->doc.n_why + 1, sizeof(*plan->why));
    va_start(ap, fmt);
    plan->why[plan->doc.n_why++] = say(plan, fmt, ap);
    va_end(ap);
    plan->doc.why = plan->why;
}

static double finite_or(double x, double other)
{
    return isfinite(x) ? x : other;
}

static void fill(struct spot_plan_doc *doc, const struct spot_job_doc *job,
                 const struct spot_serve_ask *ask, const struct spot_serve_offer *o)
{
    doc->kind = SPOT_PLAN_SERVE;
    doc->job = job->name;
    doc->epoch = -1;
    doc->next = (struct spot_grid){ o->D, o->shape.P, o->shape.M };
    doc->micro_batch = o->shape.B;
    doc->prefill_parts = o->shape.prefill_parts;
    doc->decode_parts = o->shape.decode_parts;
    doc->spares = o->spares;
    doc->expected = (struct spot_plan_expected){
        .requests_per_s = o->request_per_s,
        .latency_s = o->request_s,
        .e2e_p99_s = finite_or(o->p99_s, 0),
        .rate_per_s = ask->demand.rate_per_s,
        .usd_per_h = ask->usd_per_h >= 0 ? o->usd_per_h : -1,
        .usd_per_sample = -1,
    };
}

/* Dollars per thousand requests, with everything that is held paid for. */
static double usd_per_1000(const struct spot_serve_ask *ask, const struct spot_serve_offer *o)
{
    return o->usd_per_h / 3600 / fmin(ask->demand.rate_per_s, o->request_per_s) * 1000;
}

static double share(double is_s, const struct spot_serve_limit *limit)
{
    return limit->limit_s > 0 ? is_s / limit->limit_s : 0;
}

static void say_queue(struct spot_serve_plan *plan, const struct spot_serve_ask *ask,
                      const struct spot_serve_offer *o)
{
    const struct spot_serve_limit *slow =
        share(o->e2e_s, &ask->slo.e2e) > share(o->ttft_s, &ask->slo.ttft) ? &ask->slo.e2e
                                                                          : &ask->slo.ttft;
    const bool has_slo = ask->slo.e2e.limit_s > 0 || ask->slo.ttft.limit_s > 0;

    if (!isfinite(o->e2e_s)) {
        spot_serve_plan_why(plan,
                            "%.4g requests/s come and nothing here keeps up: this answers "
                            "most, %.4g/s, and the queue grows",
                            ask->demand.rate_per_s, o->request_per_s);
        return;
    }
    spot_serve_plan_why(plan,
                        "%.0f %% of what it can answer comes: %.3g s end to end for 99 of "
                        "100 requests, %.3g s on average, %.3g s without a queue",
                        100 * o->load, o->p99_s, o->mean_s, o->request_s);
    if (!has_slo)
        spot_serve_plan_why(plan, "no --slo: a percent of price is worth a percent of P99");
    else if (o->keeps_slo)
        spot_serve_plan_why(plan, "the cheapest that keeps the SLO; %s is what binds",
                            slow == &ask->slo.e2e ? "the end" : "the first token");
    else
        spot_serve_plan_why(plan,
                            "nothing here keeps the SLO: this misses it least, %.3g s "
                            "where %.3g s are asked for",
                            slow == &ask->slo.e2e ? o->e2e_s : o->ttft_s, slow->limit_s);
}

static void say_instances(struct spot_serve_plan *plan, const struct spot_serve_ask *ask,
                          const struct spot_serve_offer *o)
{
    const long long idle = (long long)(ask->instances - o->instances - o->spares);

    if (ask->usd_per_h >= 0 && ask->demand.rate_per_s > 0)
        spot_serve_plan_why(plan,
                            "%.4g USD/h for %lld instances and %lld spare: %.4g USD "
                            "for 1,000 requests",
                            o->usd_per_h, (long long)o->instances, (long long)o->spares,
                            usd_per_1000(ask, o));
    if (o->spares)
        spot_serve_plan_why(plan,
                            "%lld spare: an instance is lost each %.3g h, and another "
                            "takes %.3g s to come",
                            (long long)o->spares, 1 / ask->loss_per_s / 3600, ask->repair_s);
    if (idle > 0)
        spot_serve_plan_why(plan,
                            "%lld instance%s of %lld not needed: give back what is "
                            "paid for",
                            idle, idle == 1 ? "" : "s", (long long)ask->instances);
    if (o->pace_s > 0)
        spot_serve_plan_why(plan,
                            "replicas begin in turn, a batch that is not full each "
                            "%.3g s at most",
                            o->pace_s);
    if (ask->current_D && o->is_current)
        spot_serve_plan_why(plan,
                            "what runs is kept: nothing is better by more than a change is worth");
    else if (ask->current_D)
        spot_serve_plan_why(plan, "a change from %lldx%lldx%lld: %s", (long long)ask->current_D,
                            (long long)ask->current.P, (long long)ask->current.M,
                            o->shape.P == ask->current.P && o->shape.M == ask->current.M
                                ? "the others go on"
                                : "all pause, which is counted");
}

static const char *compare(struct spot_serve_plan *plan, const struct spot_serve_offer *o,
                           const struct spot_serve_offer *best)
{
    if (!isfinite(o->e2e_s))
        return spot_serve_plan_say(plan, "the queue grows");
    if (!o->keeps_slo && best->keeps_slo)
        return spot_serve_plan_say(plan, "misses the SLO: %.3g s", o->e2e_s);
    return spot_serve_plan_say(plan, "%+.0f %% P99, %+.0f %% price",
                               100 * (o->p99_s / best->p99_s - 1),
                               100 * (o->usd_per_h / best->usd_per_h - 1));
}

static void list_others(struct spot_serve_plan *plan, const struct spot_serve_offer *offer,
                        size_t n)
{
    plan->alternative = spot_xcalloc(ALTERNATIVES, sizeof(*plan->alternative));
    for (size_t i = 1; i < n && i <= ALTERNATIVES; i++) {
        const struct spot_serve_offer *o = &offer[i];

        plan->alternative[i - 1] = (struct spot_plan_alternative){
            .d = o->D,
            .p = o->shape.P,
            .m = o->shape.M,
            .b = o->shape.B,
            .spares = o->spares,
            .requests_per_s = o->request_per_s,
            .latency_s = o->request_s,
            .why = compare(plan, o, &offer[0]),
        };
        plan->doc.n_alternative = i;
    }
    plan->doc.alternative = plan->alternative;
}

void spot_serve_plan_make(struct spot_serve_plan *plan, const struct spot_job_doc *job,
                          const struct spot_serve_ask *ask, const struct spot_serve_offer *offer,
                          size_t n)
{
    *plan = (struct spot_serve_plan){ 0 };
    fill(&plan->doc, job, ask, &offer[0]);
    say_queue(plan, ask, &offer[0]);
    say_instances(plan, ask, &offer[0]);
    list_others(plan, offer, n);
}

/* Say what the weights alone take of each GPU, where their size is known. */
static void say_weights(const struct spot_job_serve *s, int64_t instances, char *text,
                        size_t n_byte)
{
    const double gpus = (double)(instances * s->gpus);
    const int n = s->model_byte ? snprintf(text, n_byte, "; its weights are %.4g GB",
                                           1e-9 * (double)s->model_byte)
                                : 0;

    if (n && gpus > 0)
        snprintf(text + n, n_byte - (size_t)n, ", %.4g GB or more of each GPU there is",
                 1e-9 * (double)s->model_byte / gpus);
}

/* If a document cannot express so large a D P M, fewer replicas are used. */
int spot_serve_plan_refuse(const struct spot_job_doc *job, int64_t instances, struct spot_err *err)
{
    const struct spot_job_serve *s = &job->serve;
    const int64_t least = spot_serve_least_gpus(s);
    char weights[96] = "";

    say_weights(s, instances, weights, sizeof(weights));

    if (!least)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "no M of the profile with a P that divides %lld layers has the %lld "
                            "GPUs that hold the model",
                            (long long)s->stage_layers, (long long)s->gpus_min);
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "%lld instance%s of %lld GPU%s cannot hold the model; %lld would do%s",
                        (long long)instances, instances == 1 ? "" : "s", (long long)s->gpus,
                        s->gpus == 1 ? "" : "s", (long long)((least + s->gpus - 1) / s->gpus),
                        weights);
}

void spot_serve_plan_release(struct spot_serve_plan *plan)
{
    for (size_t i = 0; i < plan->n_text; i++)
        free(plan->text[i]);
    free(plan->text);
    free(plan->why);
    free(plan->alternative);
    *plan = (struct spot_serve_plan){ 0 };
}
