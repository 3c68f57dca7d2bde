/* SPDX-License-Identifier: MIT */
/* The decision of a shared cluster: which job runs where in the next round. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/decision.h"
#include "plan/share_round.h"

struct spot_decider {
    struct spot_share_rule rule;
    struct spot_share_plan plan;
    int64_t *count; /* [n_type] workers of each type that were observed */
    const struct spot_share_demand *demand;
    double now_s;
};

static struct spot_share_want want_of(const struct spot_share_job *doc,
                                      const struct spot_share_job_now *now, double time_s)
{
    return (struct spot_share_want){ .weight = doc->weight,
                                     .left = now->left,
                                     .age_s = time_s - doc->arrival_s,
                                     .isolated_s = now->isolated_s,
                                     .slo_left_s = doc->arrival_s + doc->slo_s - time_s,
                                     .scale = doc->scale,
                                     .on = now->on,
                                     .on_scale = now->on_scale,
                                     .unsaved = now->unsaved,
                                     .priority = doc->priority };
}

/* Set the time that the completed work of a job would have taken on its current isolated part. */
static void set_isolated(struct spot_share_view *v, const struct spot_share_rule *rule)
{
    double *per_s = spot_xcalloc(v->problem.n_job, sizeof(double));

    spot_share_isolated_rate(&v->problem, per_s);
    for (size_t k = 0; k < v->problem.n_job; k++)
        if (v->want[k].isolated_s < 0)
            v->want[k].isolated_s = (rule->jobs->job[v->job[k]].steps - v->want[k].left) / per_s[k];
    free(per_s);
}

void spot_share_view_init(struct spot_share_view *v, const struct spot_share_rule *rule,
                          const struct spot_share_seen *seen, double time_s)
{
    const size_t n_job = rule->jobs->n, n_type = rule->cluster->n;
    size_t n = 0;

    *v = (struct spot_share_view){ .job = spot_xcalloc(n_job, sizeof(*v->job)),
                                   .want = spot_xcalloc(n_job, sizeof(*v->want)),
                                   .type = spot_xcalloc(n_type, sizeof(*v->type)),
                                   .rate = spot_xcalloc(n_job * n_type, sizeof(double)) };
    for (size_t i = 0; i < n_job; i++)
        if (seen->job[i].is_there) {
            v->job[n] = i;
            v->want[n] = want_of(&rule->jobs->job[i], &seen->job[i], time_s);
            memcpy(v->rate + n * n_type, rule->rate + i * n_type, n_type * sizeof(double));
            n++;
        }
    for (size_t j = 0; j < n_type; j++) {
        const struct spot_share_type *type = &rule->cluster->type[j];

        v->type[j] =
            (struct spot_share_machines){ seen->count[j], type->usd_per_h, type->hazard_per_h };
    }
    v->problem = (struct spot_share_problem){ n, n_type, v->want, v->rate, v->type };
    set_isolated(v, rule);
}

void spot_share_view_release(struct spot_share_view *v)
{
    free(v->job);
    free(v->want);
    free(v->type);
    free(v->rate);
    *v = (struct spot_share_view){ 0 };
}

static struct spot_decider *open_as(const struct spot_rule *rule, enum spot_share_aim aim)
{
    struct spot_decider *d = spot_xcalloc(1, sizeof(*d));

    d->rule = *rule->share;
    d->rule.terms.aim = aim;
    d->count = spot_xcalloc(d->rule.cluster->n, sizeof(*d->count));
    return d;
}

static struct spot_decider *open_completion(const struct spot_rule *rule)
{
    return open_as(rule, SPOT_SHARE_AIM_COMPLETION);
}

static struct spot_decider *open_max_min(const struct spot_rule *rule)
{
    return open_as(rule, SPOT_SHARE_AIM_MAX_MIN);
}

static struct spot_decider *open_makespan(const struct spot_rule *rule)
{
    return open_as(rule, SPOT_SHARE_AIM_MAKESPAN);
}

static struct spot_decider *open_cost(const struct spot_rule *rule)
{
    return open_as(rule, SPOT_SHARE_AIM_COST);
}

static void forget(struct spot_decider *d)
{
    spot_share_view_release(&d->plan.view);
    spot_share_choice_release(&d->plan.choice);
    free(d->plan.way);
    d->plan = (struct spot_share_plan){ 0 };
}

static int share_observe(struct spot_decider *d, const struct spot_seen *seen, struct spot_err *err)
{
    (void)err;
    forget(d);
    d->demand = seen->share->demand;
    d->now_s = seen->time_s;
    memcpy(d->count, seen->share->count, d->rule.cluster->n * sizeof(*d->count));
    spot_share_view_init(&d->plan.view, &d->rule, seen->share, seen->time_s);
    return 0;
}

static int share_decide(struct spot_decider *d, struct spot_action *action,
                        const struct spot_told *told, struct spot_err *err)
{
    struct spot_share_plan *plan = &d->plan;

    (void)told;
    spot_share_choice_release(&plan->choice);
    free(plan->way);
    plan->n_way =
        spot_share_ways(d->rule.jobs, plan->view.job, plan->view.problem.n_job, d->rule.cluster,
                        d->count, d->rule.speeds, d->rule.rate, &plan->way);
    action->share = plan;
    if (d->rule.jobs->has_classes)
        return spot_share_classes(&plan->view.problem, plan->way, plan->n_way, &d->rule.terms,
                                  d->demand, d->now_s, &plan->choice, err);
    return spot_share_round(&plan->view.problem, plan->way, plan->n_way, &d->rule.terms,
                            &plan->choice, err);
}

static void share_close(struct spot_decider *d)
{
    forget(d);
    free(d->count);
    free(d);
}

#define ROW(as, text, opens)                                                   \
    {                                                                          \
        .kind = "share", .name = (as), .summary = (text), .open = (opens),     \
        .observe = share_observe, .decide = share_decide, .close = share_close \
    }

const struct spot_policy spot_policy_share[] = {
    [SPOT_SHARE_AIM_COMPLETION] =
        ROW("spot", "ours: least mean completion time; switches, hazards and scales are priced",
            open_completion),
    [SPOT_SHARE_AIM_MAX_MIN] = ROW("spot:max-min", "ours, for equal progress", open_max_min),
    [SPOT_SHARE_AIM_MAKESPAN] =
        ROW("spot:makespan", "ours, for the end of the last job", open_makespan),
    [SPOT_SHARE_AIM_COST] = ROW("spot:cost", "ours, for most steps of a usd", open_cost),
    { 0 },
};
