/* SPDX-License-Identifier: MIT */
#include "peers/spotserve.h"

#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/serve_plan.h"
#include "trace/load_seen.h"

enum { ALTERNATIVES = 8 };

/* True if the rule prefers a to b; false if they are equal. */
static bool is_better(const struct spot_serve_choice *a, const struct spot_serve_choice *b)
{
    if (a->keeps_up != b->keeps_up)
        return a->keeps_up;
    return a->keeps_up ? a->time.request_s < b->time.request_s
                       : a->request_per_s > b->request_per_s;
}

static bool has_degree(const struct spot_job_serve *s, int64_t M)
{
    for (size_t i = 0; i < s->n_cell; i++)
        if (s->cell[i].M == M)
            return true;
    return false;
}

/* True if a pipeline may have P stages of M ranks. */
static bool is_allowed(const struct spot_job_serve *s, int64_t M, int64_t P)
{
    return P * M >= s->gpus_min && s->stage_layers % P == 0;
}

typedef void see_fn(const struct spot_serve_choice *choice, void *user);

/* Visit every configuration in the artifact's order. */
static void each(const struct spot_job_serve *s, int64_t gpus, double rate_per_s, see_fn *see,
                 void *user)
{
    struct spot_serve_choice c;
    struct spot_serve_shape *const g = &c.shape;

    for (g->M = 1; g->M <= gpus; g->M *= 2) {
        if (!has_degree(s, g->M))
            continue;
        for (g->B = 1; g->B <= s->max_batch; g->B *= 2)
            for (g->prefill_parts = 1; g->prefill_parts <= g->B; g->prefill_parts *= 2)
                for (g->decode_parts = 1; g->decode_parts <= g->B; g->decode_parts *= 2)
                    for (g->P = 1; g->P <= s->stage_layers && g->P * g->M <= gpus; g->P++) {
                        if (!is_allowed(s, g->M, g->P) || spot_serve_time(s, g, &c.time))
                            continue;
                        c.D = gpus / (g->P * g->M);
                        c.request_per_s = (double)(c.D * g->B) / c.time.request_s;
                        c.keeps_up = c.request_per_s >= rate_per_s;
                        see(&c, user);
                    }
    }
}

struct best {
    struct spot_serve_choice *choice;
    bool has;
};

static void keep_best(const struct spot_serve_choice *c, void *user)
{
    struct best *b = user;

    if (!b->has || is_better(c, b->choice))
        *b->choice = *c;
    b->has = true;
}

int spot_serve_choose(const struct spot_job_serve *serve, int64_t gpus, double rate_per_s,
                      struct spot_serve_choice *choice)
{
    struct best b = { .choice = choice };

    each(serve, gpus, rate_per_s, keep_best, &b);
    return b.has ? 0 : -1;
}

struct list {
    struct spot_serve_choice *choice;
    size_t n, cap;
};

static void keep_each(const struct spot_serve_choice *c, void *user)
{
    struct list *l = user;

    for (size_t i = 0; i < l->n; i++)
        if (l->choice[i].shape.M == c->shape.M && l->choice[i].shape.P == c->shape.P) {
            if (is_better(c, &l->choice[i]))
                l->choice[i] = *c;
            return;
        }
    l->choice = spot_xgrow(l->choice, &l->cap, l->n + 1, sizeof(*l->choice));
    l->choice[l->n++] = *c;
}

static int by_rule(const void *a, const void *b)
{
    const struct spot_serve_choice *x = a, *y = b;

    if (is_better(x, y) || is_better(y, x))
        return is_better(x, y) ? -1 : 1;
    if (x->shape.M != y->shape.M)
        return x->shape.M < y->shape.M ? -1 : 1;
    return x->shape.P < y->shape.P ? -1 : x->shape.P > y->shape.P;
}

struct spot_serve_choice *spot_serve_choices(const struct spot_job_serve *serve, int64_t gpus,
                                             double rate_per_s, size_t *n)
{
    struct list l = { 0 };

    each(serve, gpus, rate_per_s, keep_each, &l);
    *n = l.n;
    if (!l.choice)
        l.choice = spot_xcalloc(1, sizeof(*l.choice));
    qsort(l.choice, l.n, sizeof(*l.choice), by_rule);
    return l.choice;
}

/* --- the decision --- */

struct spot_decider {
    struct spot_serve_rule rule;
    double time_s, rate_per_s;
    int64_t instances;
};

static struct spot_decider *open_rule(const struct spot_rule *rule)
{
    struct spot_decider *d = spot_xcalloc(1, sizeof(*d));

    d->rule = *rule->serve;
    return d;
}

static int observe(struct spot_decider *d, const struct spot_seen *seen, struct spot_err *err)
{
    const struct spot_serve_seen *s = seen->serve;

    (void)err;
    d->time_s = seen->time_s;
    d->instances = seen->there;
    d->rate_per_s = s->rate_per_s >= 0
                        ? s->rate_per_s
                        : spot_load_rate_seen(s->load, s->since_s, seen->time_s, d->rule.window_s);
    return 0;
}

static int64_t instances_of(const struct spot_job_serve *s, const struct spot_serve_choice *c)
{
    return (c->D * c->shape.P * c->shape.M + s->gpus - 1) / s->gpus;
}

/* Fill in the grid and the expectations. */
static void fill(struct spot_plan_doc *doc, const struct spot_decider *q,
                 const struct spot_serve_choice *c)
{
    const struct spot_job_cost *cost = &q->rule.job->cost;
    const int64_t used = instances_of(&q->rule.job->serve, c);

    doc->kind = SPOT_PLAN_SERVE;
    doc->job = q->rule.job->name;
    doc->time_s = q->time_s;
    doc->epoch = -1;
    doc->next = (struct spot_grid){ c->D, c->shape.P, c->shape.M };
    doc->micro_batch = c->shape.B;
    doc->prefill_parts = c->shape.prefill_parts;
    doc->decode_parts = c->shape.decode_parts;
    doc->spares = q->instances - used;
    doc->expected = (struct spot_plan_expected){
        .requests_per_s = c->request_per_s,
        .latency_s = c->time.request_s,
        .rate_per_s = q->rate_per_s,
        .usd_per_h = cost->usd_per_h >= 0 ? cost->usd_per_h * (double)q->instances : -1,
        .usd_per_sample = -1,
    };
}

static void explain(struct spot_serve_plan *plan, const struct spot_decider *q,
                    const struct spot_serve_choice *c)
{
    const struct spot_job_serve *s = &q->rule.job->serve;
    const int64_t gpus = q->instances * s->gpus, used = c->D * c->shape.P * c->shape.M;

    if (c->keeps_up)
        spot_serve_plan_why(plan,
                            "%.4g requests/s cover the %.4g that come: of what keeps up, this "
                            "answers a request soonest, in %.3f s",
                            c->request_per_s, q->rate_per_s, c->time.request_s);
    else
        spot_serve_plan_why(plan,
                            "nothing keeps up with %.4g requests/s on %lld GPUs: this answers "
                            "most, %.4g/s, and the queue grows",
                            q->rate_per_s, (long long)gpus, c->request_per_s);
    spot_serve_plan_why(
        plan,
        "a batch of %lld takes %.3f s for its prompts of %lld tokens in %lld part%s and %.4g s for "
        "each of %lld tokens in %lld; no queue counted",
        (long long)c->shape.B, c->time.prefill_s, (long long)s->prompt_token,
        (long long)c->shape.prefill_parts, c->shape.prefill_parts == 1 ? "" : "s", c->time.decode_s,
        (long long)s->output_token, (long long)c->shape.decode_parts);
    if (c->shape.B < s->max_batch)
        spot_serve_plan_why(plan,
                            "B %lld below max_batch %lld: SpotServe's artifact would run this at "
                            "%lld, with the latency of another configuration",
                            (long long)c->shape.B, (long long)s->max_batch,
                            (long long)s->max_batch);
    if (used < gpus)
        spot_serve_plan_why(plan, "%lld of %lld GPUs idle: the rule has no price for them",
                            (long long)(gpus - used), (long long)gpus);
}

static void list_others(struct spot_serve_plan *plan, const struct spot_decider *q,
                        const struct spot_serve_choice *choice, size_t n)
{
    plan->alternative = spot_xcalloc(ALTERNATIVES, sizeof(*plan->alternative));
    for (size_t i = 1; i < n && i <= ALTERNATIVES; i++) {
        const struct spot_serve_choice *c = &choice[i];

        plan->alternative[i - 1] = (struct spot_plan_alternative){
            .d = c->D,
            .p = c->shape.P,
            .m = c->shape.M,
            .b = c->shape.B,
            .spares = q->instances - instances_of(&q->rule.job->serve, c),
            .requests_per_s = c->request_per_s,
            .latency_s = c->time.request_s,
            .why = c->keeps_up
                       ? spot_serve_plan_say(plan, "%.3f s later with an answer",
                                             c->time.request_s - choice[0].time.request_s)
                       : spot_serve_plan_say(plan, "%.4g requests/s, %.4g below the rate",
                                             c->request_per_s, q->rate_per_s - c->request_per_s),
        };
        plan->doc.n_alternative = i;
    }
    plan->doc.alternative = plan->alternative;
}

static int decide(struct spot_decider *d, struct spot_action *action, const struct spot_told *told,
                  struct spot_err *err)
{
    const struct spot_job_serve *s = &d->rule.job->serve;
    struct spot_serve_plan *plan = told ? told->serve : NULL;
    size_t n;
    struct spot_serve_choice *choice =
        spot_serve_choices(s, d->instances * s->gpus, d->rate_per_s, &n);
    const int rc = n ? 0 : spot_serve_plan_refuse(d->rule.job, d->instances, err);

    if (!rc)
        action->serve =
            (struct spot_serve_offer){ .D = choice[0].D,
                                       .shape = choice[0].shape,
                                       .instances = instances_of(s, &choice[0]),
                                       .spares = d->instances - instances_of(s, &choice[0]) };
    if (plan)
        *plan = (struct spot_serve_plan){ 0 };
    if (!rc && plan) {
        fill(&plan->doc, d, &choice[0]);
        explain(plan, d, &choice[0]);
        list_others(plan, d, choice, n);
    }
    free(choice);
    return rc;
}

static void close_rule(struct spot_decider *d)
{
    free(d);
}

const struct spot_policy spot_policy_spotserve = {
    .kind = "serve",
    .name = "spotserve",
    .summary = "SpotServe's rule: least latency that keeps up, without a queue",
    .open = open_rule,
    .observe = observe,
    .decide = decide,
    .close = close_rule,
};
