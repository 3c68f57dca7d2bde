/* SPDX-License-Identifier: MIT */
/* The master program: least cost under rows that every fleet within the limit satisfies. At counts
 * x, the worst 1 - tail of the probability gives each scenario a weight; the mean of its cuts under
 * those weights is a lower bound of the CVaR at all counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/fleet/fleet_risk_state.h"

static const double violation_least = 1e-9;
enum { ROWS_KEPT = 60, LOOSE_MOST = 12 };

/* The column of unserved load above the limit, at a price that no fleet reaches: it makes the
 * program always solvable, and an infeasible limit is proven by a bound like everything else. */
static size_t excess_column(const struct spot_fleet_master *m)
{
    return m->n_whole;
}

/* The largest useful number of machines of offer k: its type alone serves all that it can. */
static double most_of(const struct spot_fleet_risk *p, size_t k)
{
    double load = 0, most;
    int32_t there = 0;

    for (size_t b = 0; b < p->n_bucket; b++)
        if (p->per_s[b * p->n_type + p->type[k]] > 0)
            load += p->rate_per_s[b] / p->per_s[b * p->n_type + p->type[k]];
    most = ceil(load / p->rho - 1e-9);
    for (size_t w = 0; w < p->n_scenario; w++)
        there = p->there[w * p->n_offer + k] > there ? p->there[w * p->n_offer + k] : there;
    most = fmin(most, there);
    for (size_t c = 0; c < p->n_cap; c++)
        if (p->cap[c].is_in[k])
            most = fmin(most, (double)p->cap[c].most);
    return p->quota[k] >= 0 ? fmin(most, (double)p->quota[k]) : most;
}

/* Find the types with more than one offer. */
static void find_sums(struct spot_fleet_master *m)
{
    const struct spot_fleet_risk *p = m->risk;
    size_t *n = spot_xcalloc(p->n_type, sizeof(*n)), *at = spot_xcalloc(p->n_type, sizeof(*at));

    m->n_whole = p->n_offer;
    m->sum = spot_xcalloc(p->n_offer, sizeof(*m->sum));
    for (size_t k = 0; k < p->n_offer; k++)
        n[p->type[k]]++;
    for (size_t g = 0; g < p->n_type; g++)
        at[g] = n[g] > 1 ? m->n_whole++ : 0;
    for (size_t k = 0; k < p->n_offer; k++)
        m->sum[k] = at[p->type[k]];
    free(n);
    free(at);
}

static void add_sums(struct spot_fleet_master *m)
{
    const struct spot_fleet_risk *p = m->risk;

    for (size_t i = p->n_offer; i < m->n_whole; i++) {
        size_t n = 0;

        m->column[n] = i;
        m->value[n++] = -1;
        for (size_t k = 0; k < p->n_offer; k++)
            if (m->sum[k] == i) {
                m->column[n] = k;
                m->value[n++] = 1;
            }
        spot_lp_row(m->lp, m->column, m->value, n, SPOT_LP_EQUAL, 0);
    }
    for (size_t c = 0; c < p->n_cap; c++) {
        size_t n = 0;

        for (size_t k = 0; k < p->n_offer; k++)
            if (p->cap[c].is_in[k]) {
                m->column[n] = k;
                m->value[n++] = 1;
            }
        spot_lp_row(m->lp, m->column, m->value, n, SPOT_LP_AT_MOST, (double)p->cap[c].most);
    }
}

static void put_row(struct spot_fleet_master *m, const struct spot_fleet_row *row)
{
    size_t n = 0;

    for (size_t k = 0; k < m->risk->n_offer; k++)
        if (row->value[k] > 0) {
            m->column[n] = k;
            m->value[n++] = row->value[k];
        }
    m->column[n] = excess_column(m);
    m->value[n++] = 1;
    spot_lp_row(m->lp, m->column, m->value, n, SPOT_LP_AT_LEAST, row->right);
}

static void build(struct spot_fleet_master *m)
{
    spot_lp_free(m->lp);
    m->lp = spot_lp_new(m->n_whole + 1);
    for (size_t k = 0; k < m->n_whole; k++) {
        spot_lp_range(m->lp, k, 0, m->most[k]);
        if (k < m->risk->n_offer)
            spot_lp_cost(m->lp, k, m->risk->usd_per_h[k]);
    }
    spot_lp_range(m->lp, excess_column(m), 0, 1 / m->unit);
    spot_lp_cost(m->lp, excess_column(m), 10 * (1 + m->usd_per_h_most));
    add_sums(m);
    for (size_t i = 0; i < m->n_row; i++)
        put_row(m, &m->row[i]);
}

void spot_fleet_master_forget(struct spot_fleet_master *m)
{
    size_t n = 0;

    if (m->n_row <= ROWS_KEPT)
        return;
    for (size_t i = 0; i < m->n_row; i++)
        if (m->row[i].loose < LOOSE_MOST)
            m->row[n++] = m->row[i];
        else
            free(m->row[i].value);
    m->n_row = n;
    build(m);
}

/* Count, for each row, how many times in succession it did not bind. */
static void watch_rows(struct spot_fleet_master *m, const double *x)
{
    for (size_t i = 0; i < m->n_row; i++) {
        struct spot_fleet_row *row = &m->row[i];
        double slack = x[excess_column(m)] - row->right;

        for (size_t k = 0; k < m->risk->n_offer; k++)
            slack += row->value[k] * x[k];
        row->loose = slack > 1e-7 ? row->loose + 1 : 0;
    }
}

void spot_fleet_master_init(struct spot_fleet_master *m, const struct spot_fleet_risk *risk)
{
    *m = (struct spot_fleet_master){ .risk = risk };
    find_sums(m);
    m->most = spot_xcalloc(m->n_whole, sizeof(double));
    for (size_t k = 0; k < risk->n_offer; k++) {
        m->most[k] = most_of(risk, k);
        if (m->sum[k])
            m->most[m->sum[k]] += m->most[k];
    }
    spot_fleet_recourse_init(&m->recourse, risk);
    spot_fleet_scenes_init(&m->scenes, risk, m->most);
    m->unit = fmax(risk->unserved, 1e-3);
    m->column = spot_xcalloc(m->n_whole + 1, sizeof(*m->column));
    m->value = spot_xcalloc(m->n_whole + 1, sizeof(double));
    m->capacity = spot_xcalloc(risk->n_type, sizeof(double));
    for (size_t k = 0; k < risk->n_offer; k++)
        m->usd_per_h_most += risk->usd_per_h[k] * m->most[k];
    build(m);
    m->cut = spot_xcalloc(m->scenes.n, sizeof(*m->cut));
}

void spot_fleet_master_release(struct spot_fleet_master *m)
{
    spot_fleet_recourse_release(&m->recourse);
    spot_fleet_scenes_release(&m->scenes);
    spot_lp_free(m->lp);
    free(m->most);
    free(m->sum);
    free(m->capacity);
    free(m->cut);
    for (size_t i = 0; i < m->n_row; i++)
        free(m->row[i].value);
    free(m->row);
    free(m->column);
    free(m->value);
    memset(m, 0, sizeof(*m));
}

/* Add the mean of the cuts of the worst scenarios, with each min(x, there) replaced by whichever of
 * the two it equals at x. Both are at least the minimum, so the row is valid everywhere. */
static void add_row(struct spot_fleet_master *m, const double *x)
{
    const struct spot_fleet_risk *p = m->risk;
    double left = 1 - p->tail;
    struct spot_fleet_row row = { spot_xcalloc(p->n_offer, sizeof(double)), -p->unserved / m->unit,
                                  0 };

    for (size_t i = 0; i < m->scenes.n_bad && left > 0; i++) {
        const size_t w = m->scenes.order[i];
        const int32_t *there = m->scenes.there + w * p->n_offer;
        const double *price = m->recourse.price + m->cut[w] * p->n_type;
        const double part = fmin(left, m->scenes.prob[w]) / (1 - p->tail) / m->unit;

        left -= m->scenes.prob[w];
        row.right += part * m->recourse.level[m->cut[w]];
        for (size_t k = 0; k < p->n_offer; k++)
            if (x[k] > there[k] - 1e-9)
                row.right -= part * price[p->type[k]] * there[k];
            else
                row.value[k] += part * price[p->type[k]];
    }
    m->row = spot_xgrow(m->row, &m->cap_row, m->n_row + 1, sizeof(*m->row));
    m->row[m->n_row++] = row;
    m->n_made++;
    put_row(m, &row);
}

bool spot_fleet_master_separate(struct spot_fleet_master *m, bool is_exact)
{
    const struct spot_fleet_risk *p = m->risk;
    const double *x = spot_lp_x(m->lp);
    const double limit = p->unserved + m->unit * x[excess_column(m)] + violation_least;
    const int n_pass = is_exact ? 2 : 1;

    watch_rows(m, x);
    for (int pass = 0; pass < n_pass; pass++) {
        for (size_t w = 0; w < m->scenes.n; w++) {
            spot_fleet_capacity(p, m->scenes.there + w * p->n_offer, x, m->capacity);
            if (pass)
                (void)spot_fleet_recourse_at(&m->recourse, m->capacity);
            m->scenes.lost[w] = spot_fleet_recourse_below(&m->recourse, m->capacity, &m->cut[w]);
        }
        if (spot_fleet_scenes_cvar(&m->scenes, p->tail) <= limit)
            continue;
        add_row(m, x);
        return true;
    }
    return false;
}
