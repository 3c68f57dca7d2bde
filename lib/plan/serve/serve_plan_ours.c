/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/serve_plan.h"

enum { ALTERNATIVES = 8, WHY_MAX = 12 };

static double finite_or(double x, double other)
{
    return isfinite(x) ? x : other;
}

static void fill(struct spot_plan_doc *doc, const struct spot_serve_question *q,
                 const struct spot_serve_offer *o)
{
    doc->kind = SPOT_PLAN_SERVE;
    doc->job = q->job->name;
    doc->time_s = q->time_s;
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
        .rate_per_s = q->rate_per_s,
        .usd_per_h = q->job->cost.usd_per_h >= 0 ? o->usd_per_h : -1,
        .usd_per_sample = -1,
    };
}

/* Dollars of a thousand requests, all that is held paid. */
static double usd_per_1000(const struct spot_serve_question *q, const struct spot_serve_offer *o)
{
    return o->usd_per_h / 3600 / fmin(q->rate_per_s, o->request_per_s) * 1000;
}

struct whys {
    struct spot_serve_plan *plan;
    size_t n;
};

static void add(struct whys *w, const char *text)
{
    w->plan->why[w->n++] = text;
}

static double share(double is_s, const struct spot_serve_limit *limit)
{
    return limit->limit_s > 0 ? is_s / limit->limit_s : 0;
}

static void say_queue(struct whys *w, const struct spot_serve_question *q,
                      const struct spot_serve_offer *o)
{
    struct spot_serve_plan *plan = w->plan;
    const struct spot_serve_limit *slow =
        share(o->e2e_s, &q->ask.slo.e2e) > share(o->ttft_s, &q->ask.slo.ttft) ? &q->ask.slo.e2e
                                                                              : &q->ask.slo.ttft;
    const bool has_slo = q->ask.slo.e2e.limit_s > 0 || q->ask.slo.ttft.limit_s > 0;

    if (!isfinite(o->e2e_s)) {
        add(w, spot_serve_plan_say(plan,
                                   "%.4g requests/s come and nothing here keeps up: this answers "
                                   "most, %.4g/s, and the queue grows",
                                   q->rate_per_s, o->request_per_s));
        return;
    }
    add(w, spot_serve_plan_say(plan,
                               "%.0f %% of what it can answer comes: %.3g s end to end for 99 of "
                               "100 requests, %.3g s on average, %.3g s without a queue",
                               100 * o->load, o->p99_s, o->mean_s, o->request_s));
    if (!has_slo)
        add(w, "no --slo: a percent of price is worth a percent of P99");
    else if (o->keeps_slo)
        add(w, spot_serve_plan_say(plan, "the cheapest that keeps the SLO; %s is what binds",
                                   slow == &q->ask.slo.e2e ? "the end" : "the first token"));
    else
        add(w, spot_serve_plan_say(plan,
                                   "nothing here keeps the SLO: this misses it least, %.3g s "
                                   "where %.3g s are asked for",
                                   slow == &q->ask.slo.e2e ? o->e2e_s : o->ttft_s, slow->limit_s));
}

static void say_instances(struct whys *w, const struct spot_serve_question *q,
                          const struct spot_serve_offer *o)
{
    struct spot_serve_plan *plan = w->plan;
    const long long idle = (long long)(q->instances - o->instances - o->spares);

    if (q->job->cost.usd_per_h >= 0)
        add(w, spot_serve_plan_say(plan,
                                   "%.4g USD/h for %lld instances and %lld spare: %.4g USD "
                                   "for 1,000 requests",
                                   o->usd_per_h, (long long)o->instances, (long long)o->spares,
                                   usd_per_1000(q, o)));
    if (o->spares)
        add(w, spot_serve_plan_say(plan,
                                   "%lld spare: an instance is lost each %.3g h, and another "
                                   "takes %.3g s to come",
                                   (long long)o->spares, 1 / q->ask.loss_per_s / 3600,
                                   q->ask.repair_s));
    if (idle > 0)
        add(w, spot_serve_plan_say(plan,
                                   "%lld instance%s of %lld not needed: give back what is "
                                   "paid for",
                                   idle, idle == 1 ? "" : "s", (long long)q->instances));
    if (o->pace_s > 0)
        add(w, spot_serve_plan_say(plan,
                                   "replicas begin in turn, a batch that is not full each "
                                   "%.3g s at most",
                                   o->pace_s));
    if (q->ask.current_D)
        add(w, o->is_current
                   ? "what runs is kept: nothing is better by more than a change is worth"
                   : spot_serve_plan_say(
                         plan, "a change from %lldx%lldx%lld: %s", (long long)q->ask.current_D,
                         (long long)q->ask.current.P, (long long)q->ask.current.M,
                         o->shape.P == q->ask.current.P && o->shape.M == q->ask.current.M
                             ? "the others go on"
                             : "all pause, which is counted"));
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

int spot_serve_plan_ours(struct spot_serve_plan *plan, const struct spot_serve_question *q,
                         struct spot_err *err)
{
    struct spot_serve_ask ask = q->ask;
    struct whys w = { .plan = plan };
    struct spot_serve_offer *offer;
    size_t n;

    ask.serve = &q->job->serve;
    ask.usd_per_h = q->job->cost.usd_per_h;
    ask.instances = q->instances;
    ask.demand.rate_per_s = q->rate_per_s;
    offer = spot_serve_offers(&ask, &n);
    if (n) {
        fill(&plan->doc, q, &offer[0]);
        plan->why = spot_xcalloc(WHY_MAX, sizeof(*plan->why));
        say_queue(&w, q, &offer[0]);
        say_instances(&w, q, &offer[0]);
        plan->doc.why = plan->why;
        plan->doc.n_why = w.n;
        list_others(plan, offer, n);
    }
    free(offer);
    return n ? 0 : spot_serve_plan_refuse(q, err);
}
