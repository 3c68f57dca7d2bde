/* SPDX-License-Identifier: MIT */
/* Jobs of high priority and spot jobs on one cluster: GFS (Duan et al., ASPLOS 2026, arXiv
 * 2509.11134), and rules that do not forecast. In all of them a job of high priority keeps its
 * workers to its end, and takes those of spot jobs if too few are idle.
 *
 * GFS: spot jobs together have at most a quota of each type: eta x (workers - the demand of high
 * priority that is exceeded in the guaranteed hour with probability 1 - p). Every five minutes eta
 * follows the share of guaranteed hours that were broken: down in proportion if that is 1.5 times 1
 * - p or more, up to 1.5 times if it is half of that or less and a spot job has waited for an hour.
 * Large jobs are placed first. Of the running spot jobs those whose stop costs most are kept, as
 * long as the others have enough workers.
 *
 * Differences from the release (policy/spot_scheduler.py), to its benefit: the forecast is that of
 * class_demand.h in place of a linear network for each organisation; all workers of a job count
 * towards the quota; eta rises by 1.5 - e / (1 - p), where the release divides the other way round,
 * by zero if nothing was broken, also if no hour was observed, and is in 1 to 1.5; a stop costs the
 * work since the last checkpoint and a restart, not all run time. There are no nodes: a type is one
 * pool. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "peers/share_peers.h"

enum { GFS, NEWEST, LEAST_LOST, STATIC };

#define SURE     0.9
#define HOUR_S   3600.0
#define UPDATE_S 300.0
#define WINDOW_S (4 * HOUR_S) /* broken hours that eta looks at */
#define ETA_MIN  1.0 /* this range has the least waiting of those tried, with fewer evictions */
#define ETA_MAX  1.5
#define LENT     0.4 /* of a type, to spot jobs under `static-quota` */

/* A guaranteed hour that is over. */
struct hour {
    double time_s;
    size_t type;
    bool is_kept;
};

struct track {
    int on;
    double since_s; /* start of the guaranteed hour, or of the wait */
};

struct gfs {
    struct track *of; /* [n_job] */
    double *eta;      /* [n_type] */
    double updated_s;
    struct hour *hour;
    size_t n_hour, cap_hour;
};

/* One round. Jobs as in the view. */
struct placing {
    struct spot_share_state *s;
    struct spot_share_view v;
    int64_t *idle, *lent; /* [n_type] idle workers; those of spot jobs */
    int *on;              /* [n_job] -1: it waits */
    size_t *order;        /* [n_job] */
};

static void open_gfs(struct spot_share_state *s)
{
    struct gfs *g = spot_xcalloc(1, sizeof(*g));

    g->of = spot_xcalloc(s->n_job, sizeof(*g->of));
    g->eta = spot_xcalloc(s->n_type, sizeof(*g->eta));
    g->updated_s = -INFINITY;
    for (size_t i = 0; i < s->n_job; i++)
        g->of[i] = (struct track){ -1, s->play->jobs->job[i].arrival_s };
    for (size_t j = 0; j < s->n_type; j++)
        g->eta[j] = 1;
    s->own = g;
}

static void close_gfs(struct spot_share_state *s)
{
    struct gfs *g = s->own;

    free(g->of);
    free(g->eta);
    free(g->hour);
    free(g);
}

/* --- the quota --- */

static void add_hour(struct gfs *g, double time_s, int type, bool is_kept)
{
    g->hour = spot_xgrow(g->hour, &g->cap_hour, g->n_hour + 1, sizeof(*g->hour));
    g->hour[g->n_hour++] = (struct hour){ time_s, (size_t)type, is_kept };
}

/* Note the guaranteed hours that are over since the last round. */
static void follow(struct spot_share_state *s, struct gfs *g)
{
    for (size_t i = 0; i < s->n_arrived; i++) {
        const struct spot_share_run *job = &s->job[i];
        struct track *t = &g->of[i];

        if (s->play->jobs->job[i].priority != SPOT_SHARE_SPOT)
            continue;
        for (; t->on >= 0 && job->type == t->on && s->now_s - t->since_s >= HOUR_S;
             t->since_s += HOUR_S)
            add_hour(g, s->now_s, t->on, true);
        if (t->on == job->type)
            continue;
        if (t->on >= 0)
            add_hour(g, s->now_s, t->on, job->is_over);
        *t = (struct track){ job->type, s->now_s };
    }
}

static void update_eta(const struct spot_share_state *s, struct gfs *g, size_t type)
{
    double n = 0, broken = 0, ratio;
    bool waits = false;

    for (size_t k = g->n_hour; k-- > 0 && g->hour[k].time_s > s->now_s - WINDOW_S;)
        if (g->hour[k].type == type) {
            n++;
            broken += !g->hour[k].is_kept;
        }
    for (size_t i = 0; i < s->n_arrived; i++)
        waits |= s->job[i].is_active && g->of[i].on < 0 &&
                 s->play->jobs->job[i].priority == SPOT_SHARE_SPOT &&
                 s->now_s - g->of[i].since_s > HOUR_S;
    ratio = n > 0 ? broken / n / (1 - SURE) : 0;
    if (ratio >= 1.5)
        g->eta[type] = fmax(ETA_MIN, g->eta[type] / ratio);
    else if (ratio <= 0.5 && waits)
        g->eta[type] = fmin(ETA_MAX, g->eta[type] * (1.5 - ratio));
}

/* law: only for GFS; NULL: nothing is known yet. */
static double quota_of(const struct placing *p, size_t type, const struct spot_share_demand *law)
{
    const double count = (double)p->s->count[type];
    const struct gfs *g = p->s->own;

    if (p->s->player->kind == STATIC && p->s->play->jobs->has_classes)
        return LENT * count;
    return law ? g->eta[type] *
                     fmax(0, count - (double)spot_share_demand_quantile(law, type, 1, SURE))
               : count;
}

/* --- victims --- */

static double stop_cost(const struct placing *p, size_t k)
{
    const struct spot_share_want *want = &p->v.want[k];
    const double rate = p->v.rate[k * p->s->n_type + (size_t)want->on];

    if (p->s->player->kind == NEWEST)
        return p->s->now_s - p->s->job[p->v.job[k]].lease_s;
    return (want->unsaved / rate + p->s->play->switch_s) * (double)want->on_scale;
}

struct victim {
    size_t k;
    double cost;
};

static int by_cost(const void *a, const void *b)
{
    const struct victim *x = a, *y = b;

    if (x->cost < y->cost || x->cost > y->cost)
        return x->cost < y->cost ? -1 : 1;
    return (x->k < y->k) - (x->k > y->k);
}

static void stop(struct placing *p, size_t k)
{
    const size_t type = (size_t)p->on[k];

    p->idle[type] += p->v.want[k].on_scale;
    p->lent[type] -= p->v.want[k].on_scale;
    p->on[k] = -1;
}

/* Stop spot jobs until `need` workers of the type are idle, which must be possible. */
static void make_room(struct placing *p, size_t type, int64_t need)
{
    struct victim *victim = spot_xcalloc(p->v.problem.n_job, sizeof(*victim));
    int64_t room = p->idle[type] + p->lent[type];
    size_t n = 0;

    for (size_t k = 0; k < p->v.problem.n_job; k++)
        if (p->on[k] == (int)type && p->v.want[k].priority == SPOT_SHARE_SPOT)
            victim[n++] = (struct victim){ k, stop_cost(p, k) };
    if (n)
        qsort(victim, n, sizeof(*victim), by_cost);
    for (size_t i = n; p->s->player->kind == GFS && i-- > 0;) {
        if (room - p->v.want[victim[i].k].on_scale >= need)
            room -= p->v.want[victim[i].k].on_scale;
        else
            stop(p, victim[i].k);
    }
    for (size_t i = 0; i < n && p->idle[type] < need; i++)
        if (p->on[victim[i].k] >= 0)
            stop(p, victim[i].k);
    free(victim);
}

/* --- placement --- */

/* The fastest type with room for a job that waits, first where nothing has to stop; -1: none. A job
 * larger than the static quota runs alone. */
static int type_for(const struct placing *p, size_t k, const double *quota)
{
    const struct spot_share_want *want = &p->v.want[k];
    const bool is_high = want->priority == SPOT_SHARE_HIGH;

    for (int takes = 0; takes < (is_high ? 2 : 1); takes++) {
        double best = 0;
        int at = -1;

        for (size_t j = 0; j < p->s->n_type; j++) {
            const double rate = p->v.rate[k * p->s->n_type + j];

            if (rate > best && p->idle[j] + (takes ? p->lent[j] : 0) >= want->scale &&
                (is_high || (double)(p->lent[j] + want->scale) <= quota[j] + 1e-9 ||
                 (p->s->player->kind == STATIC && !p->lent[j]))) {
                best = rate;
                at = (int)j;
            }
        }
        if (at >= 0)
            return at;
    }
    return -1;
}

static void place(struct placing *p, size_t k, size_t type)
{
    const struct spot_share_want *want = &p->v.want[k];

    if (p->idle[type] < want->scale)
        make_room(p, type, want->scale);
    p->on[k] = (int)type;
    p->idle[type] -= want->scale;
    if (want->priority != SPOT_SHARE_HIGH)
        p->lent[type] += want->scale;
}

static void keep(struct placing *p, bool is_high)
{
    for (size_t k = 0; k < p->v.problem.n_job; k++) {
        const struct spot_share_want *want = &p->v.want[k];

        if ((want->priority == SPOT_SHARE_HIGH) == is_high && want->on >= 0 &&
            p->idle[want->on] >= want->on_scale)
            place(p, k, (size_t)want->on);
    }
}

/* GFS: large jobs first. */
static void sort_queue(struct placing *p)
{
    for (size_t k = 0; k < p->v.problem.n_job; k++) {
        size_t at = k;

        for (; p->s->player->kind == GFS && at > 0 &&
               p->v.want[p->order[at - 1]].scale < p->v.want[k].scale;
             at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = k;
    }
}

static void start(struct placing *p, bool is_high, const double *quota)
{
    for (size_t i = 0; i < p->v.problem.n_job; i++) {
        const size_t k = p->order[i];
        int type;

        if (p->on[k] >= 0 || (p->v.want[k].priority == SPOT_SHARE_HIGH) != is_high)
            continue;
        type = type_for(p, k, quota);
        if (type >= 0)
            place(p, k, (size_t)type);
    }
}

static void place_all(struct placing *p, const double *quota)
{
    struct spot_share_state *s = p->s;

    for (size_t k = 0; k < p->v.problem.n_job; k++)
        p->on[k] = -1;
    for (size_t j = 0; j < s->n_type; j++)
        p->idle[j] = s->count[j];
    sort_queue(p);
    keep(p, true);
    keep(p, false);
    start(p, true, quota);
    start(p, false, quota);
    for (size_t k = 0; k < p->v.problem.n_job; k++)
        if (p->on[k] >= 0)
            s->pick[s->n_pick++] =
                (struct spot_share_pick){ p->v.job[k], p->on[k], p->v.want[k].scale,
                                          p->v.rate[k * s->n_type + (size_t)p->on[k]] };
}

static int gfs_pick(struct spot_share_state *s, struct spot_err *err)
{
    const struct spot_share_demand *law = NULL;
    struct placing p = { .s = s };
    struct gfs *g = s->own;
    double *quota = spot_xcalloc(s->n_type, sizeof(*quota));

    (void)err;
    spot_share_view_of(s, &p.v);
    p.idle = spot_xcalloc(s->n_type, sizeof(*p.idle));
    p.lent = spot_xcalloc(s->n_type, sizeof(*p.lent));
    p.on = spot_xcalloc(p.v.problem.n_job, sizeof(*p.on));
    p.order = spot_xcalloc(p.v.problem.n_job, sizeof(*p.order));
    if (s->player->kind == GFS) {
        law = spot_share_demand_now(s);
        follow(s, g);
        for (size_t j = 0; j < s->n_type && s->now_s >= g->updated_s + UPDATE_S; j++)
            update_eta(s, g, j);
        if (s->now_s >= g->updated_s + UPDATE_S)
            g->updated_s = s->now_s;
    }
    for (size_t j = 0; j < s->n_type; j++)
        quota[j] = quota_of(&p, j, law);
    place_all(&p, quota);
    spot_share_view_release(&p.v);
    free(p.idle);
    free(p.lent);
    free(p.on);
    free(p.order);
    free(quota);
    return 0;
}

#define ROW(as, text, rule)                                                                \
    {                                                                                      \
        .name = (as), .about = (text), .pick = gfs_pick, .kind = (rule), .open = open_gfs, \
        .close = close_gfs                                                                 \
    }

const struct spot_share_player spot_gfs_players[] = {
    ROW("gfs", "two priorities: spot jobs within a quota of the predicted idle workers", GFS),
    ROW("static-quota", "two priorities: spot jobs on at most 40 % of each type", STATIC),
    ROW("evict-least", "two priorities: spot jobs on all idle workers; the least lost work stops",
        LEAST_LOST),
    ROW("evict-newest", "two priorities: the same; the newest spot job stops", NEWEST),
    { 0 },
};
