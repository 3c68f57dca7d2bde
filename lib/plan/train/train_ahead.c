/* SPDX-License-Identifier: MIT */
/* The dynamic program of a plan: the steps of the forecast, by the chain nearest to how counts were
 * observed to change (horizon.h), then that chain for ever. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/horizon.h"
#include "plan/train/liveput_inner.h"
#include "plan/train/train_score.h"

enum { SWEEPS_MAX = 200 };
enum { MEETS = 200 }; /* intervals after which the frequencies of contexts are stationary */

struct spot_train_memory *spot_train_memory_new(void)
{
    return spot_xcalloc(1, sizeof(struct spot_train_memory));
}

void spot_train_forget(struct spot_train_memory *m)
{
    if (m->has_dp)
        spot_liveput_dp_release(&m->dp);
    if (m->has_table)
        spot_cost_table_release(&m->table);
    free(m->grid);
    memset(m, 0, sizeof(*m));
}

void spot_train_memory_free(struct spot_train_memory *m)
{
    if (m)
        spot_train_forget(m);
    free(m);
}

/* The probabilities after the forecast. What happened twelve or more intervals before hardly
 * matters, except for a lasting calm. So there are two contexts: the mean of those of recent
 * changes, weighted by how often each occurs, and the calm. */
static void tail_law(const struct spot_count_chain *chain, struct spot_count_law *tail)
{
    const struct spot_count_law *law = chain->law;
    double often[2][SPOT_CHAIN_RECENT] = { { 1 } };

    *tail = *law;
    tail->context = 0;
    memset(tail->loss, 0, sizeof(tail->loss));
    memset(tail->gain, 0, sizeof(tail->gain));
    for (int i = 0; i < MEETS; i++) {
        double *then = often[(i + 1) % 2];

        memset(then, 0, sizeof(often[0]));
        for (int c = 0; c < SPOT_CHAIN_RECENT; c++) {
            const double now = often[i % 2][c], loss = law->loss[c], gain = law->gain[c];

            then[spot_count_chain_after(c, -1)] += now * loss;
            then[spot_count_chain_after(c, 1)] += now * gain;
            then[spot_count_chain_after(c, 0)] += now * (1 - loss - gain);
        }
    }
    for (int c = 0; c < SPOT_CHAIN_RECENT; c++) {
        tail->loss[0] += often[MEETS % 2][c] * law->loss[c];
        tail->gain[0] += often[MEETS % 2][c] * law->gain[c];
    }
    tail->loss[1] = chain->context < SPOT_CHAIN_RECENT ? tail->loss[0] : law->loss[chain->context];
    tail->gain[1] = chain->context < SPOT_CHAIN_RECENT ? tail->gain[0] : law->gain[chain->context];
}

/* The known coming changes, and the count before and the state after them. */
struct known {
    int n_from, n, change[64]; /* n = 0: none is known, the grid is chosen before the change */
    int start, context;        /* after them */
};

static struct known known_of(const struct spot_train_question *q,
                             const struct spot_count_chain *chain, int n_context)
{
    const int missing = spot_train_missing(q);
    struct known k = { .n_from = q->dist->now + missing, .context = chain->context };

    if (!q->is_next) {
        k.n = 1;
        k.change[0] = -q->leaving - missing;
    } else if (q->n_announced || missing || (q->tells_losses && q->tells_gains)) {
        k.n = q->n_announced ? q->n_announced : 1;
        for (int i = 0; i < q->n_announced; i++)
            k.change[i] = q->announced[i];
        k.change[0] -= missing;
    }
    k.start = k.n_from;
    if (n_context == 1)
        k.context = 0;
    for (int i = 0; i < k.n; i++) { /* known gains after unknown losses may exceed the limit */
        const int most = spot_train_most(q) - k.start;

        k.change[i] = k.change[i] > most ? most : k.change[i] < -k.start ? -k.start : k.change[i];
        k.start += k.change[i];
        if (n_context > 1 && q->is_next)
            k.context = spot_count_chain_after(k.context, k.change[i]);
    }
    if (n_context > 1 && !q->is_next && q->leaving)
        k.context = spot_count_chain_after(k.context, -q->leaving);
    return k;
}

/* Compute the steps of the forecast that come after the known changes. */
static void make_horizon(const struct spot_train_question *q, const struct spot_count_chain *chain,
                         int n_context, const struct known *k, const struct spot_liveput_dp *dp,
                         struct spot_horizon *h)
{
    const struct spot_change_dist *dist = q->dist;
    const int skip = q->is_next ? k->n : 0;
    const int steps = dist->horizon > skip ? dist->horizon - skip : 0;
    const struct spot_horizon_goal goal = {
        .pmf = dist->count + (size_t)(dist->horizon - steps) * ((size_t)dist->cap + 1),
        .n = dist->cap + 1,
        .shift = k->start - dist->now,
    };

    spot_horizon_init(h, chain, n_context, dp->n_low, dp->n_max, dp->lost_max, k->start, k->context,
                      steps, &goal);
}

static bool is_same_chain(const struct spot_train_memory *m, const struct spot_count_chain *chain,
                          const struct spot_count_law *law)
{
    struct spot_count_law of = { 0 };
    struct spot_count_chain plain = *chain;

    if (law)
        of = *law;
    of.context = 0;
    plain.law = NULL;
    plain.context = plain.recent = 0;
    return !memcmp(&m->law, &of, sizeof(of)) && !memcmp(&m->chain, &plain, sizeof(plain));
}

static void keep_chain(struct spot_train_memory *m, const struct spot_count_chain *chain,
                       const struct spot_count_law *law)
{
    memset(&m->law, 0, sizeof(m->law));
    if (law)
        m->law = *law;
    m->law.context = 0;
    m->chain = *chain;
    m->chain.law = NULL;
    m->chain.context = m->chain.recent = 0;
}

/* The dynamic program with the values of what comes after the forecast. */
static struct spot_liveput_dp *have_tail(struct spot_train_memory *m,
                                         const struct spot_train_question *q,
                                         const struct spot_count_chain *chain,
                                         const struct spot_count_law *law)
{
    const bool has_notice = !q->is_next || (q->tells_losses && q->tells_gains);
    const bool sees_losses = q->is_next && q->tells_losses && !has_notice;
    const bool sees_victims = spot_train_sees_victims(q);
    struct spot_liveput_dp *dp = &m->dp;

    if (m->has_dp && (m->has_notice != has_notice || m->sees_losses != sees_losses ||
                      m->sees_victims != sees_victims)) {
        spot_liveput_dp_release(dp);
        m->has_dp = m->has_tail = false;
    }
    if (!m->has_dp) {
        spot_liveput_dp_init(dp, &m->table, q->dist->interval_s, has_notice);
        dp->sees_losses = sees_losses;
        dp->sees_victims = sees_victims;
        m->has_dp = true;
        m->has_notice = has_notice;
        m->sees_losses = sees_losses;
        m->sees_victims = sees_victims;
        /* with many instances, tracking unfinished migrations would take seconds */
        if (!sees_victims && (!q->is_next || m->table.n_max > 64))
            dp->node_per_span = 0;
    }
    if (m->has_tail && q->max_loss_prob >= 1 && is_same_chain(m, chain, law))
        return dp;
    free(dp->is_shut); /* values start from scratch: a plan does not depend on earlier questions */
    free(dp->value);
    free(dp->next);
    dp->value = dp->next = NULL;
    dp->n_context = law ? SPOT_LIVEPUT_TAIL_CONTEXTS : 1;
    dp->is_shut = spot_train_shut(q, q->dist->now, dp);
    spot_liveput_dp_solve(dp, chain, SWEEPS_MAX);
    keep_chain(m, chain, law);
    m->has_tail = q->max_loss_prob >= 1;
    return dp;
}

/* The distribution of the coming change, given that no change of a kind that is announced was
 * announced. */
static void leave_out(const struct spot_train_question *q, struct spot_count_step *s)
{
    double all = s->still;

    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
        s->lost[k] = q->tells_losses ? 0 : s->lost[k];
        s->gained[k] = q->tells_gains ? 0 : s->gained[k];
        all += s->lost[k] + s->gained[k];
    }
    s->still = all > 0 ? s->still / all : 1;
    for (int k = 1; all > 0 && k <= SPOT_CHAIN_SIZE_MAX; k++) {
        s->lost[k] /= all;
        s->gained[k] /= all;
    }
}

static void first_step(const struct spot_train_question *q, const struct spot_horizon *h,
                       struct spot_count_step *s)
{
    struct spot_liveput_event event[SPOT_LIVEPUT_EVENTS];
    const int n_event = h->n_step ? spot_liveput_step_events(h, 1, h->start, event) : 0;

    memset(s, 0, sizeof(*s));
    s->still = n_event ? 0 : 1;
    for (int e = 0; e < n_event; e++) {
        const int change = event[e].change;

        *(change < 0   ? &s->lost[-change]
          : change > 0 ? &s->gained[change]
                       : &s->still) += event[e].prob;
    }
    leave_out(q, s);
}

/* score[n_grid + 1] of running each grid. After the forecast come the values of the tail, or, if
 * `ends`, nothing after its step `last`. */
static void score_all(const struct spot_train_question *q, struct spot_liveput_dp *dp,
                      const struct spot_horizon *h, const struct known *k, int last, bool ends,
                      double *score)
{
    double *nothing = spot_xcalloc((size_t)dp->n_grid + 1, sizeof(*nothing));
    const int from = spot_cost_grid(dp->table, q->current_d, q->current_p);
    const struct spot_liveput_view view = {
        .n = k->n_from,
        .from = from,
        .carry_s = q->pending_s,
        .n_known = k->n,
        .change = k->change,
        /* the start of a new job is not charged */
        .cost_s = q->current_d || q->is_next ? NULL : nothing,
    };
    struct spot_count_step step;

    spot_liveput_dp_ahead(dp, h, k->n || !h->n_step ? 0 : 1, last, ends);
    if (k->n) {
        spot_liveput_dp_scores(dp, &view, score);
    } else {
        first_step(q, h, &step);
        spot_liveput_dp_scores_before(dp, k->n_from, from, q->pending_s, 0, &step, score);
    }
    spot_liveput_dp_back(dp);
    free(nothing);
}

/* The same over exactly the plan's horizon, which may be longer than the forecast. */
static void tell(const struct spot_train_question *q, struct spot_train_memory *m,
                 const struct spot_count_chain *chain, const struct spot_horizon *h,
                 const struct known *k, double *score)
{
    const int last = q->horizon - k->n;

    if (last > h->n_step) {
        spot_liveput_dp_finish(&m->dp, chain, last - h->n_step);
        m->has_tail = false;
    }
    score_all(q, &m->dp, h, k, last, last <= h->n_step, score);
}

/* An upper bound: the fastest grid at every interval of the horizon, with free changes; mean
 * samples/s. */
static double bound_of(const struct spot_train_question *q, const struct spot_horizon *h)
{
    double sum = 0;
    int d, p;

    for (int step = 0; step < q->horizon; step++) {
        const int at = step < h->n_step ? step : h->n_step;

        for (int n = h->n_low; n <= h->n_max; n++)
            if (spot_horizon_mass(h, at, n) > 0)
                sum += spot_horizon_mass(h, at, n) * spot_throughput_best(q->throughput, n, &d, &p);
    }
    return sum / q->horizon;
}

/* Fill in the cost and savings of the warm spares of a choice. */
static void tell_warm(struct spot_train_choice *c, const struct spot_train_question *q,
                      struct spot_cost_table *table)
{
    const int n = q->dist->now - q->leaving, g = spot_cost_grid(table, c->d, c->p);

    if (n <= c->d * c->p)
        return;
    c->warm = spot_cost_mirroring(table, n, g);
    c->mirror_share = 1 - spot_cost_rate(table, n, g) / table->samples_per_s[g];
    c->warm_saves_s = spot_cost_warm_saves_s(table, n, g, 1, g);
}

void spot_train_score_ahead(struct spot_train_choice *choice, size_t n_choice,
                            const struct spot_train_question *q, struct spot_train_memory *m,
                            double *bound, double *suspend)
{
    struct spot_cost_table *table = &m->table;
    const int lost = q->is_next ? 0 : q->leaving + spot_train_missing(q);
    double *score = spot_xcalloc(2 * ((size_t)table->n_grid + 1), sizeof(*score));
    double *told = score + table->n_grid + 1;
    const int n_context = q->dist->law ? SPOT_CHAIN_CONTEXTS : 1;
    struct spot_count_chain chain, tail;
    struct spot_count_law law;
    struct spot_liveput_dp *dp;
    struct spot_horizon h;
    struct known k;

    if (q->dist->law)
        spot_count_chain_follow(&chain, q->dist->law, q->dist->cap);
    else
        spot_train_chain(q->dist, q->dist->cap, table->lost_max, &chain);
    tail = chain;
    if (q->dist->law) {
        tail_law(&chain, &law);
        spot_count_chain_follow(&tail, &law, q->dist->cap);
    }
    dp = have_tail(m, q, &tail, q->dist->law ? &law : NULL);
    k = known_of(q, &chain, n_context);
    make_horizon(q, &chain, n_context, &k, dp, &h);
    score_all(q, dp, &h, &k, h.n_step, false, score);
    if (!q->is_terse)
        tell(q, m, &tail, &h, &k, told);
    *suspend = score[table->n_grid];
    for (size_t i = 0; i < n_choice; i++) {
        const int g = spot_cost_grid(table, choice[i].d, choice[i].p);
        const int from = spot_cost_grid(table, q->current_d, q->current_p);

        choice[i].cost_s = q->current_d ? spot_cost_row(table, k.n_from, from, lost)[g] : 0;
        choice[i].score = score[g];
        choice[i].samples_per_s = fmax(0, told[g] / (q->horizon * q->dist->interval_s));
        if (q->warm)
            tell_warm(&choice[i], q, table);
    }
    *bound = bound_of(q, &h);
    spot_horizon_release(&h);
    free(score);
    if (q->objective != SPOT_OBJECTIVE_SAMPLES)
        spot_train_hold(choice, n_choice, q, table);
}
