/* SPDX-License-Identifier: MIT */
/* spot-replay serve: its tables, row by row. */
#include <math.h>
#include <stdlib.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "replay_serve.h"

const char replay_serve_total[] =
    "policy,requests#,finished#,lost#,repeated#,ttft_p50_s#,ttft_p99_s#,tbt_p50_s#,tbt_p99_s#,"
    "e2e_mean_s#,e2e_p50_s#,e2e_p90_s#,e2e_p99_s#,unanswered#,slo_share#,tokens#,usd#,"
    "usd_per_mtoken#,changes#,instance_h#,cached#";

const char replay_serve_step[] =
    "policy,time_s#,there#,held#,D#,P#,M#,arrived#,in_system#,e2e_p50_s#,e2e_p99_s#,unanswered#,"
    "usd#,losses#,decided_s#,usable#,waiting#,runs,asked_D#,asked_P#,asked_M#,spares#,state";

double replay_serve_rank(const double *x, size_t n, double share)
{
    const size_t k = (size_t)ceil(share * (double)n);

    return n ? x[k ? k - 1 : 0] : NAN;
}

size_t replay_serve_e2e(const struct replay_serve *s, const struct spot_serve_result *r,
                        size_t from, size_t to, double *e2e)
{
    size_t n = 0;

    for (size_t i = from; i < to; i++)
        if (!isnan(r->served[i].end_s))
            e2e[n++] = r->served[i].end_s - s->load.time_s[i];
    qsort(e2e, n, sizeof(*e2e), spot_num_compare);
    return n;
}

struct lists {
    double *ttft, *tbt, *e2e; /* [n], sorted */
    size_t n_ttft, n_tbt, n_e2e, n_met;
    double token, e2e_sum;
    double prompt, cached; /* tokens of prompts, and of those the cached ones */
};

static bool keeps(const struct spot_serve_limit *limit, double x)
{
    return !(limit->limit_s > 0) || x <= limit->limit_s;
}

static struct lists collect(const struct replay_serve *s, const struct spot_serve_result *r)
{
    const struct spot_load *load = &s->load;
    struct lists l = { .ttft = spot_xcalloc(load->n, sizeof(double)),
                       .tbt = spot_xcalloc(load->n, sizeof(double)),
                       .e2e = spot_xcalloc(load->n, sizeof(double)) };

    for (size_t i = 0; i < load->n; i++) {
        const struct spot_served *d = &r->served[i];
        const double ttft_s = d->first_token_s - load->time_s[i];
        const double e2e_s = d->end_s - load->time_s[i];

        if (s->until_end && !(d->end_s <= s->play.end_s))
            continue;
        if (!isnan(ttft_s))
            l.ttft[l.n_ttft++] = ttft_s;
        if (isnan(e2e_s))
            continue;
        l.e2e[l.n_e2e++] = e2e_s;
        l.e2e_sum += e2e_s;
        l.token += load->output_token[i];
        l.prompt += load->prompt_token[i];
        l.cached += d->cached_token;
        l.n_met += keeps(&s->play.slo.ttft, ttft_s) && keeps(&s->play.slo.e2e, e2e_s);
        if (load->output_token[i] > 1)
            l.tbt[l.n_tbt++] = (d->end_s - d->first_token_s) / (load->output_token[i] - 1);
    }
    qsort(l.ttft, l.n_ttft, sizeof(double), spot_num_compare);
    qsort(l.tbt, l.n_tbt, sizeof(double), spot_num_compare);
    qsort(l.e2e, l.n_e2e, sizeof(double), spot_num_compare);
    return l;
}

static double price_of(const struct replay_serve *s, const struct replay_served *c)
{
    const struct spot_job_cost *cost = &s->job.cost;

    return c->policy == SPOT_SERVE_ON_DEMAND ? cost->on_demand_usd_per_h : cost->usd_per_h;
}

static void add_row(struct spot_table *table, const struct replay_serve *s,
                    const struct replay_served *c)
{
    const struct spot_serve_result *r = &c->result;
    const double price = price_of(s, c);
    const double usd = price >= 0 ? price * r->instance_s / 3600 : NAN;
    struct lists l = collect(s, r);

    spot_table_add(table, "%s %lld %lld %lld %lld", c->name, (long long)s->load.n,
                   (long long)r->totals.finished, (long long)r->totals.lost,
                   (long long)r->totals.repeated);
    spot_table_add(
        table, "%.3e %.3e %.3e %.3e %.3e %.3e %.3e %.3e %.3e %.3e",
        replay_serve_rank(l.ttft, l.n_ttft, 0.5), replay_serve_rank(l.ttft, l.n_ttft, 0.99),
        replay_serve_rank(l.tbt, l.n_tbt, 0.5), replay_serve_rank(l.tbt, l.n_tbt, 0.99),
        l.n_e2e ? l.e2e_sum / (double)l.n_e2e : NAN, replay_serve_rank(l.e2e, l.n_e2e, 0.5),
        replay_serve_rank(l.e2e, l.n_e2e, 0.9), replay_serve_rank(l.e2e, l.n_e2e, 0.99),
        (double)(s->load.n - l.n_e2e) / (double)s->load.n,
        s->has_slo ? (double)l.n_met / (double)s->load.n : NAN);
    spot_table_add(table, "%lld %.3e %.3e %lld %.3e %.3e", (long long)l.token, usd,
                   l.token > 0 ? usd / l.token * 1e6 : NAN, (long long)r->changes,
                   r->instance_s / 3600, l.prompt > 0 ? l.cached / l.prompt : 0);
    free(l.ttft);
    free(l.tbt);
    free(l.e2e);
}

void replay_serve_print_totals(const struct replay_serve *s, struct spot_table *table)
{
    for (size_t k = 0; k < s->n_played; k++)
        add_row(table, s, &s->played[k]);
}

/* --- an interval --- */

struct interval {
    double from_s, to_s;
    size_t from, to; /* requests that arrived in it */
};

static size_t losses_in(const struct replay_serve *s, const struct interval *v)
{
    size_t n = 0;

    for (size_t i = 0; i < s->play.n_event; i++)
        n += !s->play.event[i].comes && s->play.event[i].time_s >= v->from_s &&
             s->play.event[i].time_s < v->to_s;
    return n;
}

/* Instance-seconds of an interval, from the steps; `at`: the step in force at its start. */
static double held_s(const struct spot_serve_result *r, const struct interval *v, size_t at)
{
    double sum = 0;

    for (; at < r->n_step && r->step[at].time_s < v->to_s; at++) {
        const double end_s = at + 1 < r->n_step ? r->step[at + 1].time_s : v->to_s;

        sum += (double)r->step[at].held *
               fmax(fmin(end_s, v->to_s) - fmax(r->step[at].time_s, v->from_s), 0);
    }
    return sum;
}

/* Add what was decided and its inputs; policies of other systems have none. */
static void add_decided(struct spot_table *table, const struct spot_serve_decided *d)
{
    char runs[3 * 21];

    if (!d) {
        for (int i = 0; i < 9; i++)
            spot_table_add(table, "%s", "");
        return;
    }
    snprintf(runs, sizeof(runs), "%lldx%lldx%lld", (long long)d->runs.D, (long long)d->runs.P,
             (long long)d->runs.M);
    spot_table_add(table, "%g %lld %lld %s %lld %lld %lld %lld %s", d->time_s, (long long)d->there,
                   (long long)d->waiting, runs, (long long)d->asked.D, (long long)d->asked.P,
                   (long long)d->asked.M, (long long)d->spares, d->state);
}

static void add_step(struct spot_table *table, const struct replay_serve *s,
                     const struct replay_served *c, const struct interval *v, size_t at,
                     long long in_system, double *e2e)
{
    static const struct spot_serve_step none = { 0 };
    const struct spot_serve_result *r = &c->result;
    const struct spot_serve_step *step = r->n_step ? &r->step[at] : &none;
    const size_t n = replay_serve_e2e(s, r, v->from, v->to, e2e);
    const double price = price_of(s, c);

    spot_table_add(table, "%s %g %lld %lld %lld %lld %lld %lld %lld", c->name, v->from_s,
                   (long long)step->there, (long long)step->held, (long long)step->D,
                   (long long)(step->D ? step->P : 0), (long long)(step->D ? step->M : 0),
                   (long long)(v->to - v->from), (long long)in_system);
    spot_table_add(table, "%.3e %.3e %.3e %.3e %zu", replay_serve_rank(e2e, n, 0.5),
                   replay_serve_rank(e2e, n, 0.99),
                   v->to > v->from ? (double)(v->to - v->from - n) / (double)(v->to - v->from) : 0,
                   price >= 0 ? price * held_s(r, v, at) / 3600 : NAN, losses_in(s, v));
}

static void add_steps(struct spot_table *table, const struct replay_serve *s,
                      const struct replay_served *c)
{
    const struct spot_load *load = &s->load;
    const struct spot_serve_result *r = &c->result;
    double *e2e = spot_xcalloc(load->n, sizeof(*e2e)), *end = spot_xcalloc(load->n, sizeof(*end));
    struct interval v = { .from_s = s->play.start_s };
    size_t n_end = 0, ended = 0, at = 0, made = 0;

    for (size_t i = 0; i < load->n; i++)
        if (!isnan(r->served[i].end_s))
            end[n_end++] = r->served[i].end_s;
    qsort(end, n_end, sizeof(*end), spot_num_compare);
    for (; v.from_s < s->play.end_s; v.from_s = v.to_s, v.from = v.to) {
        v.to_s = fmin(v.from_s + s->interval_s, s->play.end_s);
        while (v.to < load->n && load->time_s[v.to] < v.to_s)
            v.to++;
        while (ended < n_end && end[ended] < v.to_s)
            ended++;
        while (at + 1 < r->n_step && r->step[at + 1].time_s <= v.from_s)
            at++;
        while (made < r->n_decided && r->decided[made].time_s <= v.from_s)
            made++;
        add_step(table, s, c, &v, at, (long long)(v.to - ended), e2e);
        add_decided(table, made ? &r->decided[made - 1] : NULL);
    }
    free(e2e);
    free(end);
}

void replay_serve_print_steps(const struct replay_serve *s, struct spot_table *table)
{
    for (size_t k = 0; k < s->n_played; k++)
        add_steps(table, s, &s->played[k]);
}
