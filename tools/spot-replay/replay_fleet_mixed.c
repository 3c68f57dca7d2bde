/* SPDX-License-Identifier: MIT */
/* spot-replay fleet --demand: machine types mixed, compared with each type alone and with the least
 * cost when the trace is known. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"
#include "common/xalloc.h"
#include "model/catalogue.h"
#include "peers/registry.h"
#include "peers/spothedge.h"
#include "replay_fleet.h"

struct replay_mixed_price { /* a row of the catalogue */
    char *type, *zone;
    double spot, on_demand; /* usd/h, <= 0: not sold */
};

/* --- input --- */

static int on_price(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    struct replay_mixed *m = user;

    (void)err;
    m->price = spot_xgrow(m->price, &m->cap_price, m->n_price + 1, sizeof(*m->price));
    m->price[m->n_price++] =
        (struct replay_mixed_price){ spot_xstrdup(row->type), spot_xstrdup(row->zone),
                                     row->usd_per_h[true], row->usd_per_h[false] };
    return 0;
}

/* The number of a type; a new type gets a number. */
static int find_type(struct replay_mixed *m, const char *name, size_t *type, struct spot_err *err)
{
    for (*type = 0; *type < m->play.n_type; ++*type)
        if (!strcmp(m->type[*type], name))
            return 0;
    if (m->play.n_type == SPOT_MIXED_TYPES_MAX)
        return spot_err_set(err, SPOT_EDATA, "more than %d instance types", SPOT_MIXED_TYPES_MAX);
    m->type[m->play.n_type++] = name;
    return 0;
}

static int add_offer(struct replay_mixed *m, const char *zone, const char *type, double usd_per_h,
                     struct spot_err *err)
{
    struct spot_mixed_offer offer = { .zone = zone, .usd_per_h = usd_per_h };

    if (m->play.n_offer == SPOT_MIXED_OFFERS_MAX)
        return spot_err_set(err, SPOT_EDATA, "more than %d offers", SPOT_MIXED_OFFERS_MAX);
    if (find_type(m, type, &offer.type, err))
        return -1;
    m->offer[m->play.n_offer++] = offer;
    return 0;
}

/* The spot price of a series: that of its zone, else the one without a zone. */
static double spot_price(const struct replay_mixed *m, const struct spot_trace_series *series)
{
    double usd_per_h = 0;

    for (size_t i = m->n_price; i-- > 0;)
        if (!strcmp(m->price[i].type, series->instance_type) &&
            (!strcmp(m->price[i].zone, series->zone) || (!*m->price[i].zone && !(usd_per_h > 0))))
            usd_per_h = m->price[i].spot;
    return usd_per_h;
}

static int add_offers(struct replay_mixed *m, struct spot_err *err)
{
    for (size_t i = 0; i < m->trace->n_series; i++) {
        const struct spot_trace_series *series = &m->trace->series[i];
        const double usd_per_h = spot_price(m, series);

        if (!*series->instance_type)
            return spot_err_set(err, SPOT_EDATA,
                                "%s: instance_type is missing: the prices of '%s' are by it",
                                m->o->trace, m->o->catalogue);
        if (!(usd_per_h > 0))
            return spot_err_set(err, SPOT_EDATA, "%s has no spot price of '%s' in '%s'",
                                m->o->catalogue, series->instance_type, series->zone);
        if (add_offer(m, series->zone, series->instance_type, usd_per_h, err))
            return -1;
    }
    m->play.n_spot = m->play.n_offer;
    for (size_t i = 0; i < m->n_price; i++) {
        const struct replay_mixed_price *p = &m->price[i];
        size_t k = m->play.n_spot;

        while (k < m->play.n_offer && strcmp(m->type[m->offer[k].type], p->type) != 0)
            k++;
        if (k < m->play.n_offer) /* the cheapest of several zones */
            m->offer[k].usd_per_h = p->on_demand > 0 && p->on_demand < m->offer[k].usd_per_h
                                        ? p->on_demand
                                        : m->offer[k].usd_per_h;
        else if (p->on_demand > 0 && add_offer(m, NULL, p->type, p->on_demand, err))
            return -1;
    }
    m->play.offer = m->offer;
    m->play.type = m->type;
    return 0;
}

/* Fill in the requests of each bucket. */
static void fill_load(struct replay_mixed *m)
{
    const size_t n_tick = m->play.n_tick, n = m->play.n_bucket;
    double *work = spot_xcalloc(m->load.n, sizeof(*work));
    double *came = spot_xcalloc(2 * n_tick, sizeof(*came)), *seen = came + n_tick;

    m->came = spot_xcalloc(2 * n_tick * n, sizeof(double));
    m->seen = m->came + n_tick * n;
    for (size_t b = 0; b < n; b++) {
        struct replay_work w;

        for (size_t i = 0; i < m->load.n; i++)
            work[i] = spot_demand_nearest(&m->demand, m->load.prompt_token[i],
                                          m->load.output_token[i]) == b;
        replay_work_init(&w, &m->load, work, m->o->tick_s);
        replay_work_rates(&w, m->o, n_tick, came, seen);
        replay_work_release(&w);
        for (size_t t = 0; t < n_tick; t++) {
            m->came[t * n + b] = came[t];
            m->seen[t * n + b] = seen[t];
        }
    }
    m->play.load_per_s = m->came;
    m->play.seen_per_s = m->seen;
    free(work);
    free(came);
}

static int read_demand(struct replay_mixed *m, struct spot_err *err)
{
    const size_t n_type = m->play.n_type;

    if (spot_json_load_path(&m->json, m->o->demand, err) ||
        spot_demand_read(&m->json, &m->demand, err) ||
        spot_load_read_path(&m->load, m->o->load, 0, err))
        return -1;
    if (m->demand.n_bucket > SPOT_MIXED_BUCKETS_MAX)
        return spot_json_fail(&m->json, "/buckets", err, "more than %d", SPOT_MIXED_BUCKETS_MAX);
    m->play.n_bucket = m->demand.n_bucket;
    m->per_s = spot_xcalloc(m->play.n_bucket * n_type, sizeof(double));
    for (size_t b = 0; b < m->play.n_bucket; b++)
        for (size_t g = 0; g < n_type; g++)
            m->per_s[b * n_type + g] = spot_demand_per_s(&m->demand.bucket[b], m->type[g]);
    m->play.per_s = m->per_s;
    fill_load(m);
    return 0;
}

/* The cost of the load alone, on demand; an error if there are requests of a size that nothing
 * serves. */
static int weigh(struct replay_mixed *m, struct spot_err *err)
{
    const struct spot_mixed_play *play = &m->play;

    for (size_t b = 0; b < play->n_bucket; b++) {
        const double least = spot_mixed_request_usd(play, b, play->n_spot);
        double came = 0;

        for (size_t t = 0; t < play->n_tick; t++)
            came += play->load_per_s[t * play->n_bucket + b] * play->tick_s;
        if (came > 0 && !isfinite(least))
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "no type that is sold on demand answers requests of bucket %zu%s%s",
                                b, m->demand.bucket[b].name ? ", " : "",
                                m->demand.bucket[b].name ? m->demand.bucket[b].name : "");
        m->load_usd += came > 0 ? came * least : 0;
    }
    return 0;
}

/* --- policies --- */

struct replay_mixed_row *replay_mixed_new_row(struct replay_mixed *m, const char *policy,
                                              const char *type)
{
    struct replay_mixed_row *row = &m->row[m->n_row++];

    snprintf(row->name, sizeof(row->name), "%s%s%.60s", policy, type ? ":" : "", type ? type : "");
    spot_mixed_init(&m->play, &row->run);
    return row;
}

/* Play spot alone; if all policies were asked for, one that cannot be played is left out. */
static int play_spot(struct replay_mixed *m, const char *name, struct spot_err *err)
{
    struct replay_mixed_row *row = replay_mixed_new_row(m, name, NULL);

    if (!spot_mixed_spot(&m->play, &row->run, err))
        return 0;
    if (strcmp(m->o->policy, "all") != 0)
        return -1;
    spot_tool_warn("left out: %s: %s", name, err->msg);
    spot_mixed_release(&row->run);
    m->n_row--;
    return 0;
}

/* Play each type by itself, then mixed. */
static int play_policy(struct replay_mixed *m, const struct spot_fleet_player *policy,
                       struct spot_err *err)
{
    if (replay_mixed_alone(m, policy, err))
        return -1;
    if (policy == &spot_fleet_peers[SPOT_FLEET_HEDGE])
        return 0;
    if (policy == &spot_fleet_players[SPOT_FLEET_SPOT])
        return play_spot(m, policy->name, err);
    return spot_mixed_on_demand(&m->play, policy == &spot_fleet_players[SPOT_FLEET_PEAK],
                                &replay_mixed_new_row(m, policy->name, NULL)->run, err);
}

static int play_all(struct replay_mixed *m, struct spot_err *err)
{
    static const struct spot_fleet_player *const mixed[] = {
        &spot_fleet_players[SPOT_FLEET_ON_DEMAND], &spot_fleet_players[SPOT_FLEET_PEAK],
        &spot_fleet_peers[SPOT_FLEET_HEDGE], &spot_fleet_players[SPOT_FLEET_SPOT]
    };
    const bool is_all = !strcmp(m->o->policy, "all");
    const void *row[REPLAY_FLEET_POLICIES_MAX];
    size_t n;

    if (spot_registry_read("fleet", m->o->policy, REPLAY_FLEET_POLICIES_MAX, row, &n, err))
        return -1;
    for (size_t i = 0; i < sizeof(mixed) / sizeof(mixed[0]); i++)
        for (size_t k = 0; k < n; k++) {
            if (row[k] == mixed[i] && play_policy(m, mixed[i], err))
                return -1;
            row[k] = row[k] == mixed[i] ? NULL : row[k];
        }
    for (size_t k = 0; !is_all && k < n; k++)
        if (row[k])
            return spot_err_set(err, SPOT_EUSAGE,
                                "--policy with --demand is of on-demand, on-demand-peak, spothedge "
                                "and spot, once each, not '%.40s'",
                                ((const struct spot_fleet_player *)row[k])->name);
    return 0;
}

/* --- output --- */

static double requests(const struct spot_mixed_play *play)
{
    double sum = 0;

    for (size_t i = 0; i < play->n_tick * play->n_bucket; i++)
        sum += play->load_per_s[i] * play->tick_s;
    return sum;
}

/* The least cost of fleets that leave as much unserved as each policy, or as the aim; for the aim
 * also if only the distribution of the load is known. */
static void prove(struct replay_mixed *m)
{
    const double came = requests(&m->play), aim = came * m->play.unserved;
    struct spot_mixed_bound *bound;
    struct spot_mixed_dist dist;

    m->bound = spot_mixed_bound_new(&m->play, NULL);
    spot_mixed_bound_climb(m->bound, aim);
    for (size_t i = 0; i < m->n_row; i++)
        spot_mixed_bound_climb(m->bound, came * m->row[i].run.unserved_share);
    spot_mixed_dist_init(&m->play, &dist);
    bound = spot_mixed_bound_new(&m->play, &dist);
    spot_mixed_bound_climb(bound, aim);
    m->law_usd = spot_mixed_bound_at(bound, aim);
    spot_mixed_bound_free(bound);
    spot_mixed_dist_release(&dist);
}

/* Add the least cost for the aim. */
static void add_least(struct spot_table *table, const struct replay_mixed *m, const char *name,
                      double usd, double bound)
{
    spot_table_add(table, "%s %s %G %G %G %s %s %G %G", name, "", usd / m->load_usd, usd,
                   m->play.unserved, "", "", bound, usd / fmax(bound, 1e-300));
}

/* Add for each policy the least cost of any fleet that leaves no more unserved; last, the least
 * cost for the aim. */
static void add_totals(struct spot_table *table, const struct replay_mixed *m)
{
    const double came = requests(&m->play);
    const double aim = spot_mixed_bound_at(m->bound, came * m->play.unserved);

    for (size_t i = 0; i < m->n_row; i++) {
        const struct spot_mixed_run *run = &m->row[i].run;
        const double bound = spot_mixed_bound_at(m->bound, came * run->unserved_share);

        spot_table_add(table, "%s %G %G %G %G %G %lld %G %G", m->row[i].name, run->availability,
                       run->total_usd / m->load_usd, run->total_usd, run->unserved_share,
                       run->on_demand_usd / fmax(run->total_usd, 1e-300), (long long)run->preempted,
                       bound, run->total_usd / fmax(bound, 1e-300));
    }
    add_least(table, m, "known-law", m->law_usd, aim);
    add_least(table, m, "omniscient", aim, aim);
}

static void add_steps(struct spot_table *table, const struct replay_mixed *m)
{
    for (size_t i = 0; i < m->n_row; i++)
        for (size_t t = 0; t < m->play.n_tick; t++) {
            const struct spot_mixed_run *run = &m->row[i].run;
            long long spot = 0, on_demand = 0, ready = 0;

            for (size_t k = 0; k < m->play.n_offer; k++)
                *(k < m->play.n_spot ? &spot : &on_demand) += run->held[t * m->play.n_offer + k];
            for (size_t g = 0; g < m->play.n_type; g++)
                ready += (long long)run->ready[t * m->play.n_type + g];
            spot_table_add(table, "%s %G %lld %lld %lld %G %G", m->row[i].name,
                           m->trace->start_s + (double)t * m->play.tick_s, spot, on_demand, ready,
                           run->left[t] / m->play.tick_s, run->usd[t]);
        }
}

static int print(const struct replay_mixed *m, struct spot_err *err)
{
    static const char total[] =
        "policy,availability#,cost_ratio#,usd#,unserved_share#,on_demand_share#,preempted#,"
        "bound_usd#,to_bound#";
    static const char step[] = "policy,time_s#,spot#,on_demand#,ready#,unserved_per_s#,usd#";
    struct spot_table table;

    if (spot_tool_table(&m->o->common, &table, m->o->steps ? step : total, err))
        return -1;
    (m->o->steps ? add_steps : add_totals)(&table, m);
    return spot_tool_table_write(&m->o->common, &table, 0, err);
}

static int draw(const struct replay_mixed *m, struct spot_err *err)
{
    const struct spot_mixed_play *play = &m->play;
    const struct replay_mixed_row *row = &m->row[m->n_row - 1];
    char(*name)[REPLAY_MIXED_NAME_BYTE] = spot_xcalloc(play->n_offer, sizeof(*name));
    const char *band[SPOT_MIXED_OFFERS_MAX];
    double *left = spot_xcalloc(play->n_tick, sizeof(*left));
    char title[160];
    int rc;

    for (size_t k = 0; k < play->n_offer; k++) {
        snprintf(name[k], sizeof(*name), "%.40s %.40s", m->type[play->offer[k].type],
                 play->offer[k].zone ? play->offer[k].zone : "on demand");
        band[k] = name[k];
    }
    for (size_t t = 0; t < play->n_tick; t++)
        left[t] = row->run.left[t] / play->tick_s;
    snprintf(title, sizeof(title), "%s: %.4f unserved for %.1f usd", row->name,
             row->run.unserved_share, row->run.total_usd);
    rc = replay_fleet_draw(m->o,
                           &(struct replay_fleet_picture){ .title = title,
                                                           .n_tick = play->n_tick,
                                                           .n_band = play->n_offer,
                                                           .band = band,
                                                           .held = row->run.held,
                                                           .unserved = left,
                                                           .usd = row->run.usd,
                                                           .unserved_title = "requests unserved",
                                                           .unserved_unit = "requests/s" },
                           err);
    free(name);
    free(left);
    return rc;
}

static void close_mixed(struct replay_mixed *m)
{
    for (size_t i = 0; i < m->n_price; i++) {
        free(m->price[i].type);
        free(m->price[i].zone);
    }
    for (size_t i = 0; i < m->n_row; i++)
        spot_mixed_release(&m->row[i].run);
    free(m->price);
    free(m->count);
    free(m->per_s);
    free(m->came);
    spot_mixed_bound_free(m->bound);
    spot_demand_release(&m->demand);
    spot_load_release(&m->load);
    spot_json_release(&m->json);
}

static int run(struct replay_mixed *m, struct spot_err *err)
{
    if (spot_catalogue_read(m->o->catalogue, on_price, m, NULL, err) || add_offers(m, err))
        return -1;
    m->count = replay_fleet_counts(m->trace, m->o->tick_s, m->play.n_tick);
    m->play.count = m->count;
    if (read_demand(m, err) || weigh(m, err) || play_all(m, err))
        return -1;
    if (m->o->plot && draw(m, err))
        return -1;
    if (spot_plot_takes_stdout(m->o->plot, m->o->common.output))
        return 0;
    if (!m->o->steps)
        prove(m);
    return print(m, err);
}

int replay_fleet_mixed(const struct replay_fleet_options *o, const struct spot_trace *trace,
                       size_t n_tick, struct spot_err *err)
{
    struct replay_mixed *m = spot_xcalloc(1, sizeof(*m));
    int rc;

    m->o = o;
    m->trace = trace;
    m->play = (struct spot_mixed_play){ .n_tick = n_tick,
                                        .tick_s = o->tick_s,
                                        .cold = (size_t)ceil(o->cold_s[0] / o->tick_s - 1e-9),
                                        .unserved = o->unserved,
                                        .rho = o->rho,
                                        .up_s = REPLAY_FLEET_UP_S,
                                        .down_s = REPLAY_FLEET_DOWN_S };
    rc = run(m, err);
    close_mixed(m);
    free(m);
    return rc;
}
