/* SPDX-License-Identifier: MIT */
/* spot-replay price - what a job pays on recorded spot prices, in one place or moving. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/xalloc.h"
#include "model/catalogue.h"
#include "peers/price_sim.h"
#include "peers/registry.h"
#include "replay.h"
#include "trace/price_trace.h"
#include "trace/region.h"

static struct options {
    struct spot_tool_common common;
    const char *trace, *catalogue, *policy;
    double work_s, restart_s, egress_usd, loss_per_h;
    uint64_t starts;
} o = { .common = SPOT_TOOL_COMMON_DEFAULT, .policy = "all", .starts = 30 };

/* Prices must go on after the last start. */
enum { REST_DAYS = 5 };

enum { TYPES_MAX = 256 };

struct type {
    char *name;
    int64_t gpus;
    double speed;
};

struct session {
    struct type type[TYPES_MAX];
    size_t n_type;
    struct spot_price_offer *offer;
    struct spot_price_change *change;
    struct spot_price_history history;
    size_t cap_offer, cap_change;
    enum spot_price_policy policy[SPOT_PRICE_POLICIES];
    size_t n_policy;
    int64_t *day;
    size_t n_day;
};

static int on_type(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    struct session *s = user;

    if (s->n_type == TYPES_MAX)
        return spot_csv_fail(row->csv, SPOT_CATALOGUE_TYPE, err, "more than %d types", TYPES_MAX);
    if (row->gpus < 1)
        return spot_csv_fail(row->csv, SPOT_CATALOGUE_GPUS, err, "expected at least 1");
    s->type[s->n_type++] = (struct type){ spot_xstrdup(row->type), row->gpus, row->speed };
    return 0;
}

/* A new offer; SIZE_MAX: its type is not asked for. */
static size_t add_offer(struct session *s, const char *zone, const char *type)
{
    const size_t n = s->history.n_offer;
    int region = (int)n;
    size_t rank = 0;

    for (size_t k = n; k-- > 0;)
        if (spot_region_is_same(s->offer[k].zone, zone))
            region = s->offer[k].region;
    while (rank < s->n_type && strcmp(s->type[rank].name, type) != 0)
        rank++;
    if (rank == s->n_type)
        return SIZE_MAX;
    s->offer = spot_xgrow(s->offer, &s->cap_offer, n + 1, sizeof(*s->offer));
    s->offer[n] = (struct spot_price_offer){ .zone = spot_xstrdup(zone),
                                             .type = s->type[rank].name,
                                             .rank = rank,
                                             .gpus = s->type[rank].gpus,
                                             .speed = s->type[rank].speed,
                                             .region = region };
    return s->history.n_offer++;
}

/* All changes of a series, if it is of spot. */
static void add_series(struct session *s, const struct spot_price_series *series)
{
    size_t offer;

    if (!series->is_spot)
        return;
    offer = add_offer(s, series->zone, series->instance_type);
    if (offer == SIZE_MAX)
        return;
    for (size_t i = 0; i < series->n; i++) {
        const double time_s = series->row[i].time_s;

        if (i + 1 < series->n && series->row[i + 1].time_s <= 0)
            continue; /* another one is in force when the first day begins */
        s->change =
            spot_xgrow(s->change, &s->cap_change, s->history.n_change + 1, sizeof(*s->change));
        s->change[s->history.n_change++] =
            (struct spot_price_change){ fmax(time_s, 0), series->row[i].usd_per_h, offer };
    }
}

static int read_prices(struct session *s, struct spot_err *err)
{
    struct spot_price_trace trace;
    const char *source;
    FILE *in = spot_tool_open(o.trace, &source, err);
    int rc;

    if (!in)
        return -1;
    rc = spot_price_trace_read(&trace, in, source, err);
    if (in != stdin)
        fclose(in);
    for (size_t i = 0; !rc && i < trace.n_series; i++)
        add_series(s, &trace.series[i]);
    spot_price_trace_release(&trace);
    return rc;
}

static int earlier(const void *a, const void *b)
{
    const struct spot_price_change *x = a, *y = b;

    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->offer != y->offer ? (x->offer > y->offer ? -1 : 1)
                                : (x->usd_per_h > y->usd_per_h) - (x->usd_per_h < y->usd_per_h);
}

static int read_all(struct session *s, struct spot_err *err)
{
    if (spot_catalogue_read(o.catalogue, on_type, s, NULL, err) || read_prices(s, err))
        return -1;
    if (!s->history.n_change)
        return spot_err_set(err, SPOT_EDATA, "%s: no spot price of a type of %s", o.trace,
                            o.catalogue);
    qsort(s->change, s->history.n_change, sizeof(*s->change), earlier);
    s->history.offer = s->offer;
    s->history.change = s->change;
    s->n_day = spot_price_days(&s->history, NULL, 0);
    s->day = spot_xcalloc(s->n_day + 1, sizeof(*s->day));
    spot_price_days(&s->history, s->day, s->n_day);
    if (s->n_day <= REST_DAYS)
        return spot_err_set(
            err, SPOT_EDATA,
            "%s: a type of one GPU has prices of %zu days, and %d must follow the last start",
            o.trace, s->n_day, REST_DAYS);
    return 0;
}

static int read_policies(struct session *s, struct spot_err *err)
{
    const void *row[SPOT_PRICE_POLICIES];

    if (spot_registry_read("price", o.policy, SPOT_PRICE_POLICIES, row, &s->n_policy, err))
        return -1;
    for (size_t i = 0; i < s->n_policy; i++)
        s->policy[i] =
            (enum spot_price_policy)((const struct spot_price_row *)row[i] - spot_price_row);
    return 0;
}

/* --- output --- */

static int add_row(struct spot_table *table, const struct session *s, enum spot_price_policy policy,
                   struct spot_err *err)
{
    const size_t end = s->n_day - REST_DAYS, first = end > o.starts ? end - o.starts : 0;
    const double n = (double)(end - first);
    double sum[3] = { 0 }, least = INFINITY, most = 0;
    int64_t cut = 0;

    for (size_t i = first; i < end; i++) {
        const struct spot_price_job job = { .work_h = o.work_s / 3600,
                                            .restart_h = o.restart_s / 3600,
                                            .egress_usd = o.egress_usd,
                                            .loss_per_h = o.loss_per_h,
                                            .start_day = s->day[i] };
        struct spot_price_result r;

        if (spot_price_play(&s->history, &job, policy, &r, err))
            return -1;
        sum[0] += r.usd / n;
        sum[1] += r.hours / n;
        sum[2] += (double)r.moves / n;
        least = fmin(least, r.usd);
        most = fmax(most, r.usd);
        cut += r.is_cut;
    }
    spot_table_text(table, spot_price_row[policy].name);
    spot_table_rounded(table, sum[0], 4);
    spot_table_rounded(table, least, 4);
    spot_table_rounded(table, most, 4);
    spot_table_rounded(table, sum[1], 4);
    spot_table_rounded(table, sum[2], 4);
    spot_table_int(table, (long long)(end - first));
    spot_table_int(table, (long long)cut);
    return 0;
}

static int print(const struct session *s, struct spot_err *err)
{
    static const struct spot_column column[] = {
        { "policy", false }, { "usd", true },   { "usd_min", true }, { "usd_max", true },
        { "hours", true },   { "moves", true }, { "starts", true },  { "cut", true },
    };
    struct spot_table table;
    int rc = 0;

    if (spot_tool_table(&o.common, &table, column, sizeof(column) / sizeof(column[0]), err))
        return -1;
    for (size_t i = 0; !rc && i < s->n_policy; i++)
        rc = add_row(&table, s, s->policy[i], err);
    return spot_tool_table_write(&o.common, &table, rc, err);
}

static int replay_price(struct spot_err *err)
{
    struct session s = { 0 };
    int rc;

    if (!strcmp(o.policy, "list")) {
        replay_list("price");
        return 0;
    }
    if (!o.trace || !o.catalogue || !(o.work_s > 0))
        return spot_err_set(err, SPOT_EUSAGE, "--trace, --catalogue and --work are needed");
    rc = read_policies(&s, err) || read_all(&s, err) || print(&s, err) ? -1 : 0;
    for (size_t k = 0; k < s.history.n_offer; k++)
        free((char *)(uintptr_t)s.offer[k].zone);
    for (size_t k = 0; k < s.n_type; k++)
        free(s.type[k].name);
    free(s.offer);
    free(s.change);
    free(s.day);
    return rc;
}

const struct spot_cli replay_price_command = {
    .name = "spot-replay price",
    .brief = "cost of a job at recorded spot prices, in one place or moving",
    .reads = (const char *const[]){ "trace", "catalogue", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .choice =
        (const struct spot_opt_choice[]){ { "format", "csv|tsv|jsonl|table|md" }, { NULL, NULL } },
    .synopsis = "--trace prices.csv --catalogue types.csv --work 96h [options]",
    .summary =
        "Compute the cost of a job on one GPU at recorded spot prices, in one place or moving.",
    .examples = "  spot-replay price --trace p.csv --catalogue types.csv --work 96h\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "the job" },
            { SPOT_OPT_STRING, 't', "trace", &o.trace, "file", "price trace (CSV, required)", 0,
              0 },
            SPOT_TEXT("catalogue", &o.catalogue, "file",
                      "CSV of instance_type, gpus, speed of the job on one GPU (required)"),
            SPOT_ROW_WORK(&o.work_s),
            SPOT_ROW_RESTART(&o.restart_s),
            SPOT_ROW_EGRESS(&o.egress_usd),
            SPOT_ROW_LOSSES_PER_H(&o.loss_per_h),
            { SPOT_OPT_GROUP, .help = "how" },
            SPOT_ROW_POLICIES(&o.policy),
            SPOT_U64("starts", &o.starts, "n",
                     "number of days on which the job starts (default: 30)", 1, 10000),
            SPOT_TOOL_OPTIONS_AS(&o.common, "csv, tsv, jsonl, table or md"),
            { SPOT_OPT_END },
        },
    .common = &o.common,
    .run_alone = replay_price,
};
