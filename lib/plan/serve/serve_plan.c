/* SPDX-License-Identifier: MIT */
#include "plan/serve_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "model/job_doc.h"

enum { ALTERNATIVES = 8, WHY_MAX = 8, TEXT_MAX_BYTE = 320 };

const char *spot_serve_plan_say(struct spot_serve_plan *plan, const char *fmt, ...)
{
    char text[TEXT_MAX_BYTE];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    plan->text = spot_xrealloc(plan->text, plan->n_text + 1, sizeof(*plan->text));
    plan->text[plan->n_text] = spot_xstrdup(text);
    return plan->text[plan->n_text++];
}

static int64_t instances_of(const struct spot_job_serve *s, const struct spot_serve_choice *c)
{
    return (c->D * c->shape.P * c->shape.M + s->gpus - 1) / s->gpus;
}

/* What it needs to run, and what it does with that. */
static void fill(struct spot_plan_doc *doc, const struct spot_serve_question *q,
                 const struct spot_serve_choice *c)
{
    const struct spot_job_cost *cost = &q->job->cost;
    const int64_t used = instances_of(&q->job->serve, c);

    doc->kind = SPOT_PLAN_SERVE;
    doc->job = q->job->name;
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

static void explain(struct spot_serve_plan *plan, const struct spot_serve_question *q,
                    const struct spot_serve_choice *c)
{
    const struct spot_job_serve *s = &q->job->serve;
    const int64_t gpus = q->instances * s->gpus, used = c->D * c->shape.P * c->shape.M;
    size_t n = 0;

    plan->why = spot_xcalloc(WHY_MAX, sizeof(*plan->why));
    plan->why[n++] =
        c->keeps_up
            ? spot_serve_plan_say(plan,
                                  "%.4g requests/s cover the %.4g that come: of what keeps up, "
                                  "this answers a request soonest, in %.3f s",
                                  c->request_per_s, q->rate_per_s, c->time.request_s)
            : spot_serve_plan_say(plan,
                                  "nothing keeps up with %.4g requests/s on %lld GPUs: this "
                                  "answers most, %.4g/s, and the queue grows",
                                  q->rate_per_s, (long long)gpus, c->request_per_s);
    plan->why[n++] = spot_serve_plan_say(
        plan,
        "a batch of %lld takes %.3f s for its prompts of %lld tokens in %lld "
        "part%s and %.4g s for each of %lld tokens in %lld; no queue counted",
        (long long)c->shape.B, c->time.prefill_s, (long long)s->prompt_token,
        (long long)c->shape.prefill_parts, c->shape.prefill_parts == 1 ? "" : "s", c->time.decode_s,
        (long long)s->output_token, (long long)c->shape.decode_parts);
    if (c->shape.B < s->max_batch)
        plan->why[n++] = spot_serve_plan_say(
            plan,
            "B %lld below max_batch %lld: SpotServe's artifact would run this at "
            "%lld, with the latency of another configuration",
            (long long)c->shape.B, (long long)s->max_batch, (long long)s->max_batch);
    if (used < gpus)
        plan->why[n++] =
            spot_serve_plan_say(plan, "%lld of %lld GPUs idle: the rule has no price for them",
                                (long long)(gpus - used), (long long)gpus);
    plan->doc.why = plan->why;
    plan->doc.n_why = n;
}

static void list_others(struct spot_serve_plan *plan, const struct spot_serve_question *q,
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
            .spares = q->instances - instances_of(&q->job->serve, c),
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

/* Of weights whose size is known: what they alone take of each GPU there is. */
static void say_weights(const struct spot_serve_question *q, char *text, size_t n_byte)
{
    const struct spot_job_serve *s = &q->job->serve;
    const double gpus = (double)(q->instances * s->gpus);
    const int n = s->model_byte ? snprintf(text, n_byte, "; its weights are %.4g GB",
                                           1e-9 * (double)s->model_byte)
                                : 0;

    if (n && gpus > 0)
        snprintf(text + n, n_byte - (size_t)n, ", %.4g GB or more of each GPU there is",
                 1e-9 * (double)s->model_byte / gpus);
}

/* Where D P M is beyond what a document can say, fewer replicas are. */
int spot_serve_plan_refuse(const struct spot_serve_question *q, struct spot_err *err)
{
    const struct spot_job_serve *s = &q->job->serve;
    const int64_t least = spot_serve_least_gpus(s);
    char weights[96] = "";

    say_weights(q, weights, sizeof(weights));

    if (!least)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "no M of the profile with a P that divides %lld layers has the %lld "
                            "GPUs that hold the model",
                            (long long)s->stage_layers, (long long)s->gpus_min);
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "%lld instance%s of %lld GPU%s cannot hold the model; %lld would do%s",
                        (long long)q->instances, q->instances == 1 ? "" : "s", (long long)s->gpus,
                        s->gpus == 1 ? "" : "s", (long long)((least + s->gpus - 1) / s->gpus),
                        weights);
}

static int plan_by_rule(struct spot_serve_plan *plan, const struct spot_serve_question *q,
                        struct spot_err *err)
{
    size_t n;
    struct spot_serve_choice *choice =
        spot_serve_choices(&q->job->serve, q->instances * q->job->serve.gpus, q->rate_per_s, &n);
    int rc = 0;

    if (!n) {
        rc = spot_serve_plan_refuse(q, err);
    } else {
        fill(&plan->doc, q, &choice[0]);
        explain(plan, q, &choice[0]);
        list_others(plan, q, choice, n);
    }
    free(choice);
    return rc;
}

int spot_serve_plan_make(struct spot_serve_plan *plan, const struct spot_serve_question *q,
                         struct spot_err *err)
{
    *plan = (struct spot_serve_plan){ 0 };
    return q->solver == SPOT_SERVE_SOLVER_SPOT ? spot_serve_plan_ours(plan, q, err)
                                               : plan_by_rule(plan, q, err);
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
