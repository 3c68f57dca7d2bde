/* SPDX-License-Identifier: MIT */
#include "sim/share_worth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

const char *const spot_share_tariff_name[] = {
    [SPOT_SHARE_USAGE] = "usage", [SPOT_SHARE_SUBSCRIPTION] = "subscription"
};
const char *const spot_share_stand_name[] = { [SPOT_SHARE_STAYS] = "shares",
                                              [SPOT_SHARE_TOO_SLOW] = "too-slow",
                                              [SPOT_SHARE_TOO_DEAR] = "too-dear" };

struct study {
    const struct spot_share_play *play;
    const struct spot_share_offer *offer;
    enum spot_share_policy policy;
    enum spot_share_tariff tariff;
    struct spot_share_worth *worth;
    struct spot_share_cluster cluster; /* of machines that are never reclaimed */
    size_t *user_of;                   /* [jobs] */
    double *run_s;                     /* [jobs] alone on demand */
    double term_s;                     /* of the reservation */
};

static const char *owner(const struct spot_share_job *job)
{
    return *job->user ? job->user : job->id;
}

/* --- users, and their costs alone ------------ */

static int by_name(const void *a, const void *b)
{
    const struct spot_share_user *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static void find_users(struct study *s)
{
    const struct spot_share_jobs *jobs = s->play->jobs;
    struct spot_share_worth *worth = s->worth;
    size_t n = 0;

    worth->user = spot_xcalloc(jobs->n, sizeof(*worth->user));
    for (size_t i = 0; i < jobs->n; i++)
        worth->user[i].name = owner(&jobs->job[i]);
    if (jobs->n)
        qsort(worth->user, jobs->n, sizeof(*worth->user), by_name);
    for (size_t i = 0; i < jobs->n; i++)
        if (!n || strcmp(worth->user[n - 1].name, worth->user[i].name) != 0)
            worth->user[n++].name = worth->user[i].name;
    worth->n_user = worth->n_member = n;
    for (size_t i = 0; i < jobs->n; i++) {
        const struct spot_share_user key = { .name = owner(&jobs->job[i]) };
        const struct spot_share_user *user =
            bsearch(&key, worth->user, n, sizeof(*worth->user), by_name);

        s->user_of[i] = (size_t)(user - worth->user);
    }
}

/* The type where its work is cheapest; of equal ones the fastest, then the first. */
static size_t cheapest(const struct study *s, size_t job, double *usd_per_step)
{
    const size_t n_type = s->play->cluster->n;
    const double *rate = s->play->rate + job * n_type;
    size_t best = n_type;

    for (size_t j = 0; j < n_type; j++) {
        const double usd = s->play->cluster->type[j].usd_per_h / 3600 *
                           (double)s->play->jobs->job[job].scale / rate[j];

        if (rate[j] > 0 && (best == n_type || usd < *usd_per_step ||
                            (usd <= *usd_per_step && rate[j] > rate[best]))) {
            best = j;
            *usd_per_step = usd;
        }
    }
    return best;
}

/* A loss takes half of what lies between two checkpoints and a new beginning. Machines are paid
 * while they are there, so not while one waits for them. */
static void price_alone(struct study *s, size_t i)
{
    const struct spot_share_play *play = s->play;
    const struct spot_share_job *job = &play->jobs->job[i];
    struct spot_share_user *user = &s->worth->user[s->user_of[i]];
    double usd_per_step = 0;
    const size_t j = cheapest(s, i, &usd_per_step);
    const double rate = play->rate[i * play->cluster->n + j];
    const double work_s = (job->steps - job->done) / rate;
    const double losses = play->cluster->type[j].hazard_per_h / 3600 * (double)job->scale * work_s;
    const double lost_s = losses * (play->switch_s + play->checkpoint_s / 2);

    s->run_s[i] = work_s + play->switch_s;
    user->n_job++;
    user->run_s += s->run_s[i];
    user->on_demand_usd += s->run_s[i] * rate * usd_per_step;
    user->spot_usd += (s->run_s[i] + lost_s) * rate * usd_per_step * s->offer->spot_price;
    user->spot_wait_s += lost_s + (1 + losses) * s->offer->spot_wait_s;
}

static void price_all_alone(struct study *s)
{
    struct spot_share_worth *worth = s->worth;

    for (size_t i = 0; i < s->play->jobs->n; i++)
        price_alone(s, i);
    for (size_t u = 0; u < worth->n_user; u++) {
        struct spot_share_user *user = &worth->user[u];

        user->takes_spot = user->spot_usd < user->on_demand_usd &&
                           user->spot_wait_s <= s->offer->patience * user->run_s;
        worth->own_usd += spot_share_alone_usd(user);
    }
}

/* --- what the shared cluster costs --- */

struct edge {
    double time_s;
    int64_t more;
};

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    if (x->time_s < y->time_s || x->time_s > y->time_s)
        return x->time_s > y->time_s ? 1 : -1;
    return (x->more > y->more) - (x->more < y->more);
}

/* Worker-seconds of a type above those that are reserved. */
static double above(const struct spot_share_outcome *o, size_t type, int64_t reserved,
                    struct edge *edge)
{
    double sum = 0;
    int64_t busy = 0;
    size_t n = 0;

    for (size_t k = 0; k < o->n_span; k++)
        if (o->span[k].type == type) {
            edge[n++] = (struct edge){ o->span[k].start_s, o->span[k].scale };
            edge[n++] = (struct edge){ o->span[k].end_s, -o->span[k].scale };
        }
    if (n)
        qsort(edge, n, sizeof(*edge), by_time);
    for (size_t k = 0; k < n; k++) {
        if (k && busy > reserved)
            sum += (double)(busy - reserved) * (edge[k].time_s - edge[k - 1].time_s);
        busy += edge[k].more;
    }
    return sum;
}

/* The reservation lasts from the first arrival until the last job ends when all share: it does not
 * end sooner because some leave. */
static void bill(struct study *s, const struct spot_share_outcome *o, struct spot_share_turn *turn)
{
    const struct spot_share_cluster *cluster = &s->cluster;
    struct edge *edge = spot_xcalloc(2 * o->n_span, sizeof(*edge));

    s->term_s = fmax(s->term_s, o->makespan_s - s->play->jobs->job[0].arrival_s);
    for (size_t j = 0; j < cluster->n; j++) {
        const double usd_per_s = cluster->type[j].usd_per_h / 3600;

        turn->reserved_usd +=
            s->term_s * usd_per_s * s->offer->reserved_price * (double)s->offer->reserved[j];
        turn->burst_usd += usd_per_s * above(o, j, s->offer->reserved[j], edge);
    }
    free(edge);
}

/* --- a turn --- */

/* The jobs of members; job[k] says which they are. */
struct membership {
    struct spot_share_jobs jobs;
    size_t *job;
    double *rate;
};

static void membership_init(struct membership *m, const struct study *s)
{
    const struct spot_share_jobs *all = s->play->jobs;
    const size_t n_type = s->play->cluster->n;

    *m = (struct membership){ .jobs.job = spot_xcalloc(all->n, sizeof(*all->job)),
                              .job = spot_xcalloc(all->n, sizeof(*m->job)),
                              .rate = spot_xcalloc(all->n * n_type, sizeof(double)) };
    for (size_t i = 0; i < all->n; i++)
        if (s->worth->user[s->user_of[i]].stand == SPOT_SHARE_STAYS) {
            const size_t k = m->jobs.n++;

            m->job[k] = i;
            m->jobs.job[k] = all->job[i];
            memcpy(m->rate + k * n_type, s->play->rate + i * n_type, n_type * sizeof(double));
        }
}

static void membership_release(struct membership *m)
{
    free(m->jobs.job);
    free(m->job);
    free(m->rate);
}

/* What each member pays and waits; his use, until it is priced, lies in usd. */
static void charge(struct study *s, const struct membership *m, const struct spot_share_outcome *o,
                   struct spot_share_turn *turn)
{
    struct spot_share_worth *worth = s->worth;
    double use = 0;

    for (size_t u = 0; u < worth->n_user; u++)
        if (worth->user[u].stand == SPOT_SHARE_STAYS)
            worth->user[u].usd = worth->user[u].wait_s = 0;
    for (size_t k = 0; k < m->jobs.n; k++) {
        const double wait_s = fmax(0, o->jct_s[k] - s->run_s[m->job[k]]);

        worth->user[s->user_of[m->job[k]]].wait_s += wait_s;
        turn->wait_s += wait_s / (double)m->jobs.n;
    }
    for (size_t k = 0; k < o->n_span; k++) {
        const struct spot_share_span *span = &o->span[k];
        const double usd = (span->end_s - span->start_s) / 3600 * (double)span->scale *
                           s->cluster.type[span->type].usd_per_h;

        worth->user[s->user_of[m->job[span->job]]].usd += usd;
        use += usd;
    }
    turn->index = (turn->reserved_usd + turn->burst_usd) / use;
    for (size_t u = 0; u < worth->n_user; u++) {
        struct spot_share_user *user = &worth->user[u];

        if (user->stand != SPOT_SHARE_STAYS)
            continue;
        user->usd = s->tariff == SPOT_SHARE_USAGE
                        ? user->usd * turn->index
                        : (turn->reserved_usd + turn->burst_usd) / (double)turn->n_member;
        user->turn = worth->n_turn;
    }
}

struct grievance {
    double size;
    size_t user;
    enum spot_share_stand stand;
};

static int by_size(const void *a, const void *b)
{
    const struct grievance *x = a, *y = b;

    if (x->size < y->size || x->size > y->size)
        return x->size > y->size ? -1 : 1;
    return (x->user > y->user) - (x->user < y->user);
}

/* How far beyond what he bears; above 1 he leaves. */
static struct grievance ask(const struct study *s, size_t u)
{
    const struct spot_share_user *user = &s->worth->user[u];
    const double slow = user->wait_s / (s->offer->patience * user->run_s);
    const double dear = user->usd / spot_share_alone_usd(user);

    return slow > dear ? (struct grievance){ slow, u, SPOT_SHARE_TOO_SLOW }
                       : (struct grievance){ dear, u, SPOT_SHARE_TOO_DEAR };
}

/* Of those that would leave the worse half does: the others may bear what is left to them. Returns
 * how many. */
static size_t defect(struct study *s, struct spot_share_turn *turn)
{
    struct spot_share_worth *worth = s->worth;
    struct grievance *g = spot_xcalloc(worth->n_user, sizeof(*g));
    size_t n = 0, n_gain = 0;

    for (size_t u = 0; u < worth->n_user; u++)
        if (worth->user[u].stand == SPOT_SHARE_STAYS) {
            g[n] = ask(s, u);
            n_gain += g[n].size < 1;
            n += g[n].size > 1 + 1e-9;
        }
    worth->n_gain = n_gain;
    if (n)
        qsort(g, n, sizeof(*g), by_size);
    n = (n + 1) / 2;
    for (size_t k = 0; k < n; k++) {
        worth->user[g[k].user].stand = g[k].stand;
        turn->too_slow += g[k].stand == SPOT_SHARE_TOO_SLOW;
        turn->too_dear += g[k].stand == SPOT_SHARE_TOO_DEAR;
    }
    worth->n_member -= n;
    free(g);
    return n;
}

static int one_turn(struct study *s, size_t *n_left, struct spot_err *err)
{
    struct spot_share_worth *worth = s->worth;
    struct spot_share_turn turn = { .n_member = worth->n_member };
    struct spot_share_play play = *s->play;
    struct spot_share_outcome o;
    struct membership m;
    int rc;

    membership_init(&m, s);
    play.jobs = &m.jobs;
    play.cluster = &s->cluster;
    play.rate = m.rate;
    rc = spot_share_play_run(&play, s->policy, &o, err);
    if (!rc) {
        worth->n_turn++;
        bill(s, &o, &turn);
        charge(s, &m, &o, &turn);
        *n_left = defect(s, &turn);
        worth->turn = spot_xgrow(worth->turn, &worth->cap_turn, worth->n_turn, sizeof(turn));
        worth->turn[worth->n_turn - 1] = turn;
        spot_share_outcome_release(&o);
    }
    membership_release(&m);
    return rc;
}

static int play_turns(struct study *s, struct spot_err *err)
{
    struct spot_share_worth *worth = s->worth;
    size_t n_left = 1;

    while (n_left && worth->n_member) {
        if (one_turn(s, &n_left, err))
            return -1;
        if (worth->n_turn > 1)
            continue;
        worth->n_gain_first = worth->n_gain;
        for (size_t u = 0; u < worth->n_user; u++) {
            worth->user[u].first_usd = worth->user[u].usd;
            worth->user[u].first_wait_s = worth->user[u].wait_s;
        }
    }
    if (!worth->n_member)
        worth->n_gain = 0;
    for (size_t u = 0; u < worth->n_user; u++)
        worth->usd += worth->user[u].stand == SPOT_SHARE_STAYS
                          ? worth->user[u].usd
                          : spot_share_alone_usd(&worth->user[u]);
    return 0;
}

int spot_share_worth_run(const struct spot_share_play *play, enum spot_share_policy policy,
                         enum spot_share_tariff tariff, const struct spot_share_offer *offer,
                         struct spot_share_worth *worth, struct spot_err *err)
{
    struct study s = { .play = play,
                       .offer = offer,
                       .policy = policy,
                       .tariff = tariff,
                       .worth = worth,
                       .cluster = *play->cluster,
                       .user_of = spot_xcalloc(play->jobs->n, sizeof(size_t)),
                       .run_s = spot_xcalloc(play->jobs->n, sizeof(double)) };
    int rc;

    *worth = (struct spot_share_worth){ 0 };
    s.cluster.type = spot_xcalloc(s.cluster.n, sizeof(*s.cluster.type));
    for (size_t j = 0; j < s.cluster.n; j++) {
        s.cluster.type[j] = play->cluster->type[j];
        s.cluster.type[j].hazard_per_h = 0;
    }
    find_users(&s);
    price_all_alone(&s);
    rc = play_turns(&s, err);
    free(s.cluster.type);
    free(s.user_of);
    free(s.run_s);
    if (rc)
        spot_share_worth_release(worth);
    return rc;
}

void spot_share_worth_release(struct spot_share_worth *worth)
{
    free(worth->user);
    free(worth->turn);
    *worth = (struct spot_share_worth){ 0 };
}
