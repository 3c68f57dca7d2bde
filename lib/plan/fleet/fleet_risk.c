/* SPDX-License-Identifier: MIT */
/* Branch and bound over the master program of fleet_master.c, best bound first. Both counts and
 * sums of counts by type are split, since offers of a type often differ only in their zone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/xalloc.h"
#include "plan/fleet/fleet_risk_state.h"

static const double stall_share = 3e-4;
enum { ROUNDS_OF_NODE = 3, ROUNDS_OF_ROOT = 8, ROUND_UP_EACH = 16 };

struct node {
    double bound;
    double *range;                 /* [2 * n_whole] lower and upper limits */
    struct spot_fleet_split split; /* the split that made the node */
};

struct search {
    struct spot_fleet_master master;
    struct spot_fleet_branch branch;
    struct node *open; /* heap, least bound first */
    size_t n_open, cap_open;
    double best_usd; /* cost of `best` */
    int64_t *best;   /* [n_offer] */
    bool has_best;
    size_t n_node;
    double *x;         /* [n_offer] scratch */
    double least_left; /* least bound of the nodes that were discarded */
    double started_s;
};

static double cpu_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- heap --- */

static void push(struct search *s, struct node node)
{
    size_t at = s->n_open++;

    s->open = spot_xgrow(s->open, &s->cap_open, s->n_open, sizeof(*s->open));
    for (; at && s->open[(at - 1) / 2].bound > node.bound; at = (at - 1) / 2)
        s->open[at] = s->open[(at - 1) / 2];
    s->open[at] = node;
}

static struct node pop(struct search *s)
{
    const struct node first = s->open[0], last = s->open[--s->n_open];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < s->n_open) {
        child += child + 1 < s->n_open && s->open[child + 1].bound < s->open[child].bound;
        if (s->open[child].bound >= last.bound)
            break;
        s->open[at] = s->open[child];
        at = child;
    }
    s->open[at] = last;
    return first;
}

/* --- fleets within the limit --- */

static bool is_kept(struct search *s)
{
    struct spot_fleet_master *m = &s->master;
    const double limit = m->risk->unserved + 1e-9;

    for (size_t c = 0; c < m->risk->n_cap; c++) {
        double sum = 0;

        for (size_t k = 0; k < m->risk->n_offer; k++)
            sum += m->risk->cap[c].is_in[k] ? s->x[k] : 0;
        if (sum > (double)m->risk->cap[c].most)
            return false;
    }
    return !spot_fleet_scenes_is_over(&m->scenes, &m->recourse, s->x, limit) &&
           spot_fleet_scenes_below(&m->scenes, &m->recourse, s->x) <= limit &&
           spot_fleet_scenes_evaluate(&m->scenes, &m->recourse, s->x) <= limit;
}

static double cost_of(const struct search *s)
{
    double usd = 0;

    for (size_t k = 0; k < s->master.risk->n_offer; k++)
        usd += s->x[k] * s->master.risk->usd_per_h[k];
    return usd;
}

static void keep(struct search *s)
{
    const double usd = cost_of(s);

    if (s->has_best && usd >= s->best_usd - 1e-12)
        return;
    s->has_best = true;
    s->best_usd = usd;
    for (size_t k = 0; k < s->master.risk->n_offer; k++)
        s->best[k] = llround(s->x[k]);
}

/* Remove machines that are not needed, the most expensive first; then swap one for a cheaper one
 * while that helps. */
static void improve(struct search *s)
{
    const struct spot_fleet_risk *p = s->master.risk;
    bool again = true;

    while (again) {
        size_t out = SIZE_MAX, in = SIZE_MAX;
        double most = 1e-12;

        for (size_t k = 0; k < p->n_offer; k++) {
            if (s->x[k] < 1)
                continue;
            s->x[k] -= 1;
            if (p->usd_per_h[k] > most && is_kept(s)) {
                most = p->usd_per_h[k];
                out = k;
                in = SIZE_MAX;
            }
            for (size_t j = 0; j < p->n_offer; j++) {
                if (p->usd_per_h[k] - p->usd_per_h[j] <= most || s->x[j] >= s->master.most[j])
                    continue;
                s->x[j] += 1;
                if (is_kept(s)) {
                    most = p->usd_per_h[k] - p->usd_per_h[j];
                    out = k;
                    in = j;
                }
                s->x[j] -= 1;
            }
            s->x[k] += 1;
        }
        again = out != SIZE_MAX;
        if (again)
            s->x[out] -= 1;
        if (again && in != SIZE_MAX)
            s->x[in] += 1;
    }
    keep(s);
}

/* Round the program's solution up and improve it. */
static void round_up(struct search *s)
{
    const double *x = spot_lp_x(s->master.lp);

    for (size_t k = 0; k < s->master.risk->n_offer; k++)
        s->x[k] = fmin(s->master.most[k], ceil(x[k] - SPOT_FLEET_WHOLE_WITHIN));
    if (is_kept(s))
        improve(s);
}

/* --- nodes --- */

static double target(const struct search *s)
{
    const double most = s->master.risk->usd_most;

    if (s->has_best)
        return s->best_usd / (1 + s->master.risk->gap) - 1e-9;
    return most > 0 ? most - 1e-9 : s->master.usd_per_h_most * (1 + 1e-9) + 1e-9;
}

enum solved { NO_USE, SOLVED, UNSOLVED };

/* Solve a node, adding cuts. Cuts at fractional counts only improve the bound; they stop once they
 * no longer do. If the solver fails, the bound of the parent still holds. */
static enum solved solve_node(struct search *s, struct node *node, bool is_root)
{
    struct spot_fleet_master *m = &s->master;
    double before = 0;

    spot_fleet_master_forget(m);
    for (size_t j = 0; j < m->n_whole; j++)
        spot_lp_range(m->lp, j, node->range[2 * j], node->range[2 * j + 1]);
    for (size_t round = 0;; round++) {
        bool is_whole;

        if (spot_lp_solve(m->lp, 0, 0) != SPOT_LP_OPTIMAL)
            return UNSOLVED;
        node->bound = fmax(node->bound, spot_lp_proven(m->lp, spot_lp_dual(m->lp)));
        if (node->bound >= target(s))
            return NO_USE;
        is_whole = spot_fleet_branch_column(&s->branch, spot_lp_x(m->lp)) == SIZE_MAX;
        if (!is_whole &&
            (is_root ? round % ROUNDS_OF_ROOT == ROUNDS_OF_ROOT - 1 : round >= ROUNDS_OF_NODE)) {
            if (!is_root || node->bound < before * (1 + stall_share))
                return SOLVED;
            before = node->bound;
        }
        if (!spot_fleet_master_separate(m, is_root || is_whole))
            return SOLVED;
    }
}

static void split(struct search *s, const struct node *node, size_t j, double at)
{
    const size_t n = 2 * s->master.n_whole;

    for (int up = 0; up < 2; up++) {
        const double to = up ? floor(at) + 1 : floor(at);
        struct node child = { node->bound,
                              spot_xcalloc(n, sizeof(double)),
                              { j, up, fabs(to - at), node->bound } };

        memcpy(child.range, node->range, n * sizeof(double));
        child.range[2 * j + !up] = to;
        if (child.range[2 * j] <= child.range[2 * j + 1])
            push(s, child);
        else
            free(child.range);
    }
}

/* The column with the widest range; SIZE_MAX: one fleet is left. */
static size_t widest(const struct search *s, const struct node *node)
{
    size_t best = SIZE_MAX;
    double most = 0;

    for (size_t j = 0; j < s->master.risk->n_offer; j++)
        if (node->range[2 * j + 1] - node->range[2 * j] > most) {
            most = node->range[2 * j + 1] - node->range[2 * j];
            best = j;
        }
    return best;
}

/* If the program's counts are whole they are tried. If they fail (perhaps narrowly), or there are
 * none, the ranges are halved until one fleet is left. */
static void visit(struct search *s, struct node *node)
{
    const enum solved solved = solve_node(s, node, !s->n_node++);
    const double *x = spot_lp_x(s->master.lp);
    size_t j;

    spot_fleet_branch_learn(&s->branch, &node->split, node->bound);
    if (solved == NO_USE) {
        s->least_left = fmin(s->least_left, node->bound);
        return;
    }
    j = solved == SOLVED ? spot_fleet_branch_column(&s->branch, x) : SIZE_MAX;
    if (j != SIZE_MAX) {
        if (!s->has_best || s->n_node == 1 || s->n_node % ROUND_UP_EACH == 0)
            round_up(s);
        split(s, node, j, x[j]);
        return;
    }
    j = widest(s, node);
    for (size_t k = 0; k < s->master.risk->n_offer; k++)
        s->x[k] = solved == SOLVED ? round(x[k]) : node->range[2 * k + 1];
    if (is_kept(s)) {
        keep(s);
        if (solved == SOLVED)
            return;
    }
    if (j != SIZE_MAX)
        split(s, node, j, floor((node->range[2 * j] + node->range[2 * j + 1]) / 2));
}

static double least_open(const struct search *s)
{
    const double bound = fmin(s->least_left, s->n_open ? s->open[0].bound : HUGE_VAL);

    return s->has_best ? fmin(bound, s->best_usd) : bound;
}

static void explore(struct search *s)
{
    const double limit_s = s->master.risk->limit_s;
    struct node root = { .range = spot_xcalloc(2 * s->master.n_whole, sizeof(double)) };

    for (size_t j = 0; j < s->master.n_whole; j++)
        root.range[2 * j + 1] = s->master.most[j];
    push(s, root);
    while (s->n_open && s->open[0].bound < target(s) &&
           (limit_s <= 0 || cpu_s() - s->started_s < limit_s)) {
        struct node node = pop(s);

        visit(s, &node);
        free(node.range);
    }
}

/* --- the answer --- */

static void report(struct search *s, struct spot_fleet_risk_answer *a)
{
    const struct spot_fleet_risk *p = s->master.risk;
    struct spot_fleet_promise promise;

    a->count = spot_xcalloc(p->n_offer, sizeof(*a->count));
    a->share = spot_xcalloc(p->n_bucket * p->n_type, sizeof(double));
    memcpy(a->count, s->best, p->n_offer * sizeof(*a->count));
    spot_fleet_risk_split(p, a->count, a->share);
    spot_fleet_risk_try(p, a->count, &promise);
    a->usd_per_h = s->best_usd;
    a->usd_per_h_paid = promise.usd_per_h_paid;
    a->bound = fmax(0, least_open(s));
    if (s->best_usd <= a->bound * (1 + 1e-12))
        a->bound = s->best_usd;
    a->cvar = promise.cvar;
    a->mean_unserved = promise.mean_unserved;
    a->short_prob = promise.short_prob;
    a->n_cut = s->master.n_made;
    a->n_node = s->n_node;
    a->n_recourse = s->master.recourse.n_solved;
}

/* The load that stays unserved, at a load of `part` times as much, with everything available:
 * computed as if each machine had 1 / part of its capacity. */
static double at_most(const struct spot_fleet_risk *risk, const double *most, double part)
{
    struct spot_fleet_risk scaled = *risk;
    struct spot_fleet_promise promise;
    int64_t *count = spot_xcalloc(risk->n_offer, sizeof(*count));

    scaled.rho = risk->rho / part;
    for (size_t k = 0; k < risk->n_offer; k++)
        count[k] = llround(most[k]);
    spot_fleet_risk_try(&scaled, count, &promise);
    free(count);
    return promise.cvar;
}

/* Offers of which more would help, according to the cuts of the worst scenarios. */
static void name_binding(const struct search *s, char *text, size_t room)
{
    const struct spot_fleet_risk *p = s->master.risk;
    const struct spot_fleet_master *m = &s->master;
    size_t used = 0;

    for (size_t k = 0; k < p->n_offer; k++) {
        double worth = 0;
        size_t cut = 0;

        for (size_t i = 0; i < m->scenes.n_bad; i++) {
            spot_fleet_capacity(p, m->scenes.there + m->scenes.order[i] * p->n_offer, s->x,
                                m->capacity);
            if (spot_fleet_recourse_below(&m->recourse, m->capacity, &cut) > 0)
                worth += m->recourse.price[cut * p->n_type + p->type[k]];
        }
        if (worth > 0 && used + 48 < room)
            used += (size_t)snprintf(text + used, room - used, "%s%.40s (%.0f)", used ? ", " : "",
                                     p->name[k], m->most[k]);
    }
}

static int tell_infeasible(struct search *s, double cvar, struct spot_err *err)
{
    const struct spot_fleet_risk *p = s->master.risk;
    double low = 0, high = 1, rate_per_s = 0;
    char binding[200] = "";

    for (size_t b = 0; b < p->n_bucket; b++)
        rate_per_s += p->rate_per_s[b];
    name_binding(s, binding, sizeof(binding));
    for (int i = 0; i < 20; i++) {
        const double part = (low + high) / 2;

        *(at_most(p, s->master.most, part) <= p->unserved ? &low : &high) = part;
    }
    return spot_err_set(
        err, SPOT_EINFEASIBLE,
        "everything available leaves %.4g of %.4g requests/s unserved in the worst "
        "%.4g %% of the scenarios, %.4g is allowed: binding are %s; %.4g requests/s "
        "would do",
        cvar, rate_per_s, 100 * (1 - p->tail), p->unserved, *binding ? binding : "what is there",
        floor(low * rate_per_s * 1e4) / 1e4);
}

/* Where limits on groups bind, not all of `most` can be had at once: then the value is only a lower
 * bound, and the search proves infeasibility. */
static double least_unserved(struct search *s)
{
    for (size_t k = 0; k < s->master.risk->n_offer; k++)
        s->x[k] = s->master.most[k];
    return spot_fleet_scenes_evaluate(&s->master.scenes, &s->master.recourse, s->x);
}

int spot_fleet_risk_solve(const struct spot_fleet_risk *risk, struct spot_fleet_risk_answer *answer,
                          struct spot_err *err)
{
    struct search s = { .started_s = cpu_s(), .least_left = HUGE_VAL };
    double least;
    int rc = 0;

    memset(answer, 0, sizeof(*answer));
    spot_fleet_master_init(&s.master, risk);
    spot_fleet_branch_init(&s.branch, risk->n_offer, s.master.n_whole);
    s.best = spot_xcalloc(risk->n_offer, sizeof(*s.best));
    s.x = spot_xcalloc(risk->n_offer, sizeof(double));
    least = least_unserved(&s);
    if (least > risk->unserved + 1e-9)
        rc = tell_infeasible(&s, least, err);
    else
        explore(&s);
    if (!rc && s.has_best)
        report(&s, answer);
    else if (!rc && s.n_open)
        rc = spot_err_set(err, SPOT_ESYS, "no fleet found in the time given");
    else if (!rc)
        rc = spot_err_set(
            err, SPOT_EINFEASIBLE,
            "no fleet within the caps of zones leaves %.4g or less unserved: allow more "
            "machines a zone, or more unserved",
            risk->unserved);
    while (s.n_open)
        free(s.open[--s.n_open].range);
    free(s.open);
    free(s.best);
    free(s.x);
    spot_fleet_branch_release(&s.branch);
    spot_fleet_master_release(&s.master);
    return rc;
}

void spot_fleet_risk_release(struct spot_fleet_risk_answer *answer)
{
    free(answer->count);
    free(answer->share);
    memset(answer, 0, sizeof(*answer));
}

void spot_fleet_risk_try(const struct spot_fleet_risk *risk, const int64_t *count,
                         struct spot_fleet_promise *promise)
{
    struct spot_fleet_recourse recourse;
    struct spot_fleet_scenes scenes;
    double *x = spot_xcalloc(risk->n_offer, sizeof(double));

    *promise = (struct spot_fleet_promise){ 0 };
    for (size_t k = 0; k < risk->n_offer; k++)
        x[k] = (double)count[k];
    spot_fleet_recourse_init(&recourse, risk);
    spot_fleet_scenes_init(&scenes, risk, x);
    promise->cvar = spot_fleet_scenes_evaluate(&scenes, &recourse, x);
    for (size_t w = 0; w < scenes.n; w++) {
        promise->mean_unserved += scenes.prob[w] * scenes.lost[w];
        promise->short_prob += scenes.lost[w] > 1e-9 ? scenes.prob[w] : 0;
        for (size_t k = 0; k < risk->n_offer; k++)
            promise->usd_per_h_paid += scenes.prob[w] * risk->usd_per_h[k] *
                                       fmin(x[k], scenes.there[w * risk->n_offer + k]);
    }
    spot_fleet_scenes_release(&scenes);
    spot_fleet_recourse_release(&recourse);
    free(x);
}

void spot_fleet_risk_split(const struct spot_fleet_risk *risk, const int64_t *count, double *share)
{
    struct spot_fleet_recourse recourse;
    double *capacity = spot_xcalloc(risk->n_type, sizeof(double));

    for (size_t k = 0; k < risk->n_offer; k++)
        capacity[risk->type[k]] += (double)count[k];
    spot_fleet_recourse_init(&recourse, risk);
    spot_fleet_recourse_split(&recourse, capacity, share);
    spot_fleet_recourse_release(&recourse);
    free(capacity);
}
