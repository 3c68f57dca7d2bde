/* SPDX-License-Identifier: MIT */
#include "plan/train_plan.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/liveput.h"
#include "plan/train/train_score.h"
#include "plan/train_why.h"

/* --- expectations of each grid --- */

static double at_least_zero(double x)
{
    return x > 0 ? x : 0;
}

int spot_train_staying(const struct spot_train_question *q)
{
    if (q->is_next)
        return q->dist->now + (q->n_announced ? q->announced[0] : 0);
    return q->dist->now - q->leaving;
}

bool spot_train_may_exceed(const struct spot_train_question *q)
{
    return q->is_next && !q->n_announced && !q->tells_gains;
}

/* The distribution of how many of the staying instances are lost; each number once. */
struct losses {
    int *lost;             /* [n], ascending */
    double *prob;          /* [n] */
    double *hold, *before; /* [n] scratch of judge() */
    int n;
};

static void losses_init(struct losses *l, const struct spot_train_question *q)
{
    const struct spot_change_dist *dist = q->dist;
    const int stay = spot_train_staying(q);

    l->n = 0;
    l->lost = spot_xcalloc(dist->n_change, sizeof(*l->lost));
    l->prob = spot_xcalloc(3 * dist->n_change, sizeof(*l->prob));
    l->hold = l->prob + dist->n_change;
    l->before = l->hold + dist->n_change;
    for (size_t i = 0; i < dist->n_change; i++) { /* sorted by lost */
        const int lost = dist->change[i].lost < stay ? dist->change[i].lost : stay;

        assert(!l->n || lost >= l->lost[l->n - 1]);
        if (!l->n || l->lost[l->n - 1] != lost)
            l->lost[l->n++] = lost;
        l->prob[l->n - 1] += dist->change[i].prob;
    }
}

static void losses_release(struct losses *l)
{
    free(l->lost);
    free(l->prob);
}

/* Evaluate D x P by the joint distribution: P[M >= m] for each number of victims. The liveput
 * solver needs every m for the expected samples; the other solvers compute these themselves and
 * only need m = D and m = 1. */
static void judge(struct spot_train_choice *c, const struct spot_train_question *q,
                  struct losses *l)
{
    const struct spot_liveput g = { c->d, c->p, spot_train_staying(q) - c->d * c->p, 0 };
    const int by = q->solver == SPOT_SOLVER_LIVEPUT || c->d == 1 ? 1 : c->d - 1;

    c->samples_per_s = c->loss_prob = c->break_prob = 0;
    memset(l->before, 0, (size_t)l->n * sizeof(*l->before));
    for (int m = c->d; m >= 1; m -= by) {
        const double rate = at_least_zero(spot_throughput_at(q->throughput, m, c->p));

        spot_liveput_hold_many(&g, m, l->lost, l->n, l->hold);
        for (int i = 0; i < l->n; i++) {
            if (l->hold[i] > l->before[i])
                c->samples_per_s += l->prob[i] * (l->hold[i] - l->before[i]) * rate;
            c->break_prob += m == c->d ? l->prob[i] * (1 - l->hold[i]) : 0;
            c->loss_prob += m == 1 ? l->prob[i] * (1 - l->hold[i])
                                   : 0; /* M = 0: a stage has lost all replicas */
            l->before[i] = l->hold[i];
        }
    }
}

static int best_first(const void *a, const void *b)
{
    const struct spot_train_choice *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->p != y->p ? (x->p > y->p) - (x->p < y->p) : (x->d > y->d) - (x->d < y->d);
}

static void judge_all(struct spot_train_plan *plan, const struct spot_train_question *q,
                      const int *grid, int n_grid)
{
    const struct spot_throughput *t = q->throughput;
    const double price = q->job->cost.usd_per_h;
    struct losses losses;

    losses_init(&losses, q);
    plan->choice = spot_xcalloc((size_t)n_grid, sizeof(*plan->choice));
    for (int i = 0; i < n_grid; i++) {
        struct spot_train_choice c = { .d = grid[i] / (t->p_max + 1),
                                       .p = grid[i] % (t->p_max + 1) };

        c.spares = spot_train_staying(q) - c.d * c.p;
        c.raw = spot_throughput_at(t, c.d, c.p);
        if (c.raw <= 0 || (c.spares < q->spares_min && !spot_train_may_exceed(q)))
            continue;
        if (c.spares < 0)
            /* it waits for more instances; those present are evaluated when the number is known */
            c.spares = 0;
        else if (!q->is_terse || q->max_loss_prob < 1)
            judge(&c, q, &losses);
        c.score = c.samples_per_s;
        if (q->objective != SPOT_OBJECTIVE_SAMPLES)
            c.spares = q->spares_min;
        c.usd_per_h = price < 0 ? -1 : price * (c.d * c.p + c.spares);
        if (c.loss_prob <= q->max_loss_prob)
            plan->choice[plan->n_choice++] = c;
    }
    losses_release(&losses);
}

/* Convert scores from samples to the objective. */
static void weigh(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    for (size_t i = 0; i < plan->n_choice && q->objective != SPOT_OBJECTIVE_SAMPLES; i++)
        plan->choice[i].score =
            spot_train_worth(q, plan->choice[i].samples_per_s, plan->choice[i].usd_per_h);
    qsort(plan->choice, plan->n_choice, sizeof(*plan->choice), best_first);
}

/* An upper bound for all grids: the fastest grid for the count at the end of the interval. */
static double bound_of(const struct spot_train_question *q)
{
    const struct spot_change_dist *dist = q->dist;
    double sum = 0;
    int d, p;

    for (size_t i = 0; i < dist->n_change; i++) {
        const int n = dist->now - dist->change[i].lost + dist->change[i].gained;
        const int left = n > q->leaving ? n - q->leaving : 0;

        sum += dist->change[i].prob * spot_throughput_best(q->throughput, left, &d, &p);
    }
    return sum;
}

static int most_samples_first(const void *a, const void *b)
{
    const struct spot_train_choice *x = a, *y = b;

    if (x->samples_per_s != y->samples_per_s)
        return x->samples_per_s > y->samples_per_s ? -1 : 1;
    return best_first(a, b);
}

/* List the alternatives, ordered by the number that is shown for them: samples_per_s, or the
 * objective. The chosen grid comes first in either case, since the dynamic program looks beyond the
 * horizon that is shown. */
static void fill_alternatives(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    const struct spot_train_choice *best = &plan->choice[0];
    const size_t n = plan->n_choice > 9 ? 8 : plan->n_choice ? plan->n_choice - 1 : 0;
    const char *later = q->solver == SPOT_SOLVER_LIVEPUT ? "" : ", changing again when that pays";

    if (n && q->objective == SPOT_OBJECTIVE_SAMPLES)
        qsort(plan->choice + 1, plan->n_choice - 1, sizeof(*plan->choice), most_samples_first);
    plan->doc.alternative = spot_xcalloc(n, sizeof(*plan->doc.alternative));
    plan->doc.n_alternative = n;
    for (size_t i = 0; i < n; i++) {
        const struct spot_train_choice *c = &plan->choice[i + 1];
        const double less =
            best->samples_per_s > 0 ? 100 * (1 - c->samples_per_s / best->samples_per_s) : 0;

        plan->doc.alternative[i] = (struct spot_plan_alternative){
            .d = c->d,
            .p = c->p,
            .spares = c->spares,
            .samples_per_s = c->samples_per_s,
            .loss_prob = c->loss_prob,
            .undisturbed_samples_per_s = c->raw,
            .from = spot_train_source(q, c),
            .why = spot_train_say(
                plan,
                "%.3g %% %s expected%s; %.6g samples/s while it runs%s, risk of a lost "
                "stage %.3g",
                fabs(less), less < 0 ? "more" : "less", later, c->raw, spot_train_by_what(q, c),
                c->loss_prob),
        };
    }
}

/* Record whether the fitted curve was used. */
static void fill_curve(struct spot_plan_expected *e, const struct spot_throughput *t)
{
    const bool is_trusted = spot_step_curve_is_trusted(&t->curve);

    if (!t->curve.n_point)
        return;
    e->law_miss = fmin(t->curve.miss_max, 1e15);
    e->law = t->source == SPOT_THROUGHPUT_TABLE   ? "unused"
             : is_trusted                         ? "trusted"
             : t->source == SPOT_THROUGHPUT_CURVE ? "asked"
                                                  : "mistrusted";
}

static void fill_expected(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    struct spot_plan_expected *e = &plan->doc.expected;

    e->usd_per_h =
        q->job->cost.usd_per_h < 0 ? -1 : q->job->cost.usd_per_h * (double)plan->doc.spares;
    e->usd_per_sample = -1;
    fill_curve(e, q->throughput);
    if (!plan->n_choice)
        return;
    e->usd_per_h = plan->choice[0].usd_per_h;
    e->samples_per_s = plan->choice[0].samples_per_s;
    e->undisturbed_samples_per_s = plan->choice[0].raw;
    e->from = spot_train_source(q, &plan->choice[0]);
    e->loss_prob = plan->choice[0].loss_prob;
    if (e->usd_per_h >= 0 && e->samples_per_s > 0)
        e->usd_per_sample = e->usd_per_h / 3600 / e->samples_per_s;
}

/* The most likely count of each later interval, and the fastest grid for it. */
static void fill_path(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    const struct spot_change_dist *dist = q->dist;

    plan->doc.path = spot_xcalloc((size_t)dist->horizon, sizeof(*plan->doc.path));
    plan->doc.n_path = (size_t)dist->horizon;
    for (int h = 0; h < dist->horizon; h++) {
        const double *pmf = dist->count + (size_t)h * (size_t)(dist->cap + 1);
        int mode = 0, d, p;

        for (int n = 1; n <= dist->cap; n++)
            mode = pmf[n] > pmf[mode] ? n : mode;
        spot_throughput_best(q->throughput, mode, &d, &p);
        plan->doc.path[h] = (struct spot_plan_path){ d, p, pmf[mode] > 1 ? 1 : pmf[mode] };
    }
}

/* If even the best grid does not pay, say so. */
static bool is_worse_than_nothing(struct spot_train_plan *plan, const struct spot_train_question *q,
                                  double suspend)
{
    const struct spot_train_choice *c = &plan->choice[0];

    if (q->objective == SPOT_OBJECTIVE_MIX && c->score < 0)
        spot_train_because(
            plan, spot_train_say(
                      plan,
                      "suspend: the best grid, %d x %d, gives %.6g samples/s, worth %.4g usd/h; "
                      "its machines cost %.4g usd/h",
                      c->d, c->p, c->samples_per_s, c->samples_per_s * q->usd_per_sample * 3600,
                      c->usd_per_h));
    else if (q->objective == SPOT_OBJECTIVE_SAMPLES && suspend > c->score)
        spot_train_because(
            plan, spot_train_say(
                      plan,
                      "suspend: the change to the best grid, %d x %d, takes %.4g s; to wait for "
                      "the next change costs less",
                      c->d, c->p, c->cost_s));
    else
        return false;
    return true;
}

/* Evaluate, score and sort the choices. */
static int rank(struct spot_train_plan *plan, const struct spot_train_question *q,
                struct spot_err *err)
{
    double suspend = -INFINITY;
    int *grid, n_grid, rc = 0;

    if (q->objective != SPOT_OBJECTIVE_SAMPLES && q->job->cost.usd_per_h < 0)
        return spot_err_set(err, SPOT_EDATA, "job '%.64s' has no /cost/usd_per_h to plan by",
                            q->job->name);
    n_grid = spot_train_grids(q, &grid);
    judge_all(plan, q, grid, n_grid);
    plan->doc.bound = bound_of(q);
    if (q->solver != SPOT_SOLVER_LIVEPUT)
        rc = spot_train_score(plan->choice, plan->n_choice, q, grid, n_grid, &plan->doc.bound,
                              &suspend, err);
    free(grid);
    if (rc)
        return -1;
    weigh(plan, q);
    if (plan->n_choice && is_worse_than_nothing(plan, q, suspend))
        plan->n_choice = 0;
    return 0;
}

int spot_train_plan_make(struct spot_train_plan *plan, const struct spot_train_question *q,
                         struct spot_err *err)
{
    struct spot_plan_doc *doc = &plan->doc;

    memset(plan, 0, sizeof(*plan));
    doc->why = spot_xcalloc(SPOT_PLAN_WHY_MAX, sizeof(*doc->why));
    if (rank(plan, q, err)) {
        spot_train_plan_release(plan);
        return -1;
    }
    doc->job = q->job->name;
    doc->time_s = q->time_s;
    doc->epoch = -1;
    doc->next = (struct spot_grid){ .M = 1 };
    doc->micro_batch = q->job->micro_batch;
    doc->spares = spot_train_staying(q);
    if (q->is_terse) {
        if (plan->n_choice)
            doc->next = (struct spot_grid){ plan->choice[0].d, plan->choice[0].p, 1 };
        return 0;
    }
    if (plan->n_choice) {
        doc->next.D = plan->choice[0].d;
        doc->next.P = plan->choice[0].p;
        doc->spares = plan->choice[0].spares;
        spot_train_why(plan, q);
    } else {
        spot_train_why_suspend(plan, q);
        if (q->objective == SPOT_OBJECTIVE_MIX)
            doc->spares =
                q->spares_min < spot_train_staying(q) ? q->spares_min : spot_train_staying(q);
    }
    fill_expected(plan, q);
    fill_path(plan, q);
    fill_alternatives(plan, q);
    doc->bound = fmax(doc->bound, doc->expected.samples_per_s);
    doc->gap = doc->bound > 0 ? (doc->bound - doc->expected.samples_per_s) / doc->bound : 0;
    return 0;
}

void spot_train_plan_release(struct spot_train_plan *plan)
{
    for (size_t i = 0; i < plan->n_text; i++)
        free(plan->text[i]);
    free(plan->text);
    free(plan->choice);
    spot_plan_doc_release(&plan->doc);
    memset(plan, 0, sizeof(*plan));
}
