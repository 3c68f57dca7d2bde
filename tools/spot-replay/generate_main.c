/* SPDX-License-Identifier: MIT */
/* spot-replay generate - traces and loads from seeded models, of any length and number of zones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/csv_write.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "replay.h"
#include "trace/generate.h"
#include "trace/trace.h"
#include "trace/trace_write.h"

static struct {
    const char *kind, *profile, *law, *type;
    uint64_t n_zone, n_region, cap;
    double hours, interval_s;
    bool events, steps;
    struct replay_load load;
    struct spot_tool_common common;
} opt = { .kind = "trace",
          .profile = "typical",
          .n_zone = 1,
          .n_region = 1,
          .cap = 32,
          .interval_s = 60,
          .load = REPLAY_LOAD_DEFAULT,
          .common = SPOT_TOOL_COMMON_DEFAULT };

static const struct spot_opt_need need[] = {
    { "steps", "!events" },
    { "zones|regions|cap|interval|instance-type|steps|events|profile|law", "kind trace" },
    { "rate|requests|arrivals|swing|prompt-tokens|output-tokens|lengths|context", "kind load" },
    { "lengths", "!prompt-tokens" },
    { "lengths", "!output-tokens" },
    { NULL, NULL },
};

/* The machines of a zone by name, for the node form. */
struct roster {
    uint32_t *node; /* [n] numbers of the machines present */
    size_t n, cap;
    uint32_t n_named;
};

struct maker {
    struct spot_generator gen;
    struct spot_gen_net *net; /* [n_zone] */
    int32_t *last;            /* [n_zone] last value written, -1 before the first */
    struct roster *roster;    /* [n_zone] */
    struct spot_rng rng;      /* decides which machines leave */
    FILE *out;
};

static void put_zone(const struct maker *m, size_t zone)
{
    const struct spot_generator *gen = &m->gen;
    const size_t region = gen->zone[zone].region;
    size_t first = zone;

    while (first && gen->zone[first - 1].region == region)
        first--;
    fprintf(m->out, ",r%zuz%zu", region + 1, zone - first + 1);
    if (opt.type) {
        putc(',', m->out);
        spot_csv_put(m->out, opt.type, ',');
    }
    putc('\n', m->out);
}

static void put_counts(struct maker *m, double time_s, bool is_last)
{
    for (size_t i = 0; i < m->gen.n_zone; i++) {
        const int32_t now = m->gen.zone[i].available;

        if (opt.steps && now == m->last[i] && !is_last)
            continue;
        m->last[i] = now;
        spot_trace_put_real(m->out, time_s);
        fprintf(m->out, ",%d", now);
        put_zone(m, i);
    }
}

static void put_event(const struct maker *m, double time_s, const char *event, size_t zone,
                      uint32_t node)
{
    spot_trace_put_real(m->out, time_s);
    fprintf(m->out, ",%s,node%u", event, node);
    put_zone(m, zone);
}

/* Losses come first: a machine that arrives in the same interval is new. The names of a zone start
 * anew, and its roster follows the count even if the model lost machines that it had just gained.
 */
static void put_events(struct maker *m, double time_s)
{
    for (size_t i = 0; i < m->gen.n_zone; i++) {
        struct roster *r = &m->roster[i];
        const int32_t now = m->gen.zone[i].available;
        int32_t lost = m->net[i].lost;

        for (; lost && r->n; lost--) {
            const size_t victim = (size_t)spot_rng_below(&m->rng, r->n);

            put_event(m, time_s, "remove", i, r->node[victim]);
            r->n--;
            memmove(r->node + victim, r->node + victim + 1, (r->n - victim) * sizeof(*r->node));
        }
        r->node = spot_xgrow(r->node, &r->cap, (size_t)now, sizeof(*r->node));
        while (r->n < (size_t)now) {
            r->node[r->n++] = ++r->n_named;
            put_event(m, time_s, "add", i, r->n_named);
        }
    }
}

static void put_trace(struct maker *m)
{
    const double span_s = opt.hours * 3600;
    const size_t n = (size_t)floor(span_s / opt.interval_s * (1 + 1e-12)) + 1;

    fprintf(m->out, "time_s,%s,zone%s\n", opt.events ? "event,node" : "available",
            opt.type ? ",instance_type" : "");
    for (size_t i = 0; i < n; i++) {
        const double time_s = (double)i * opt.interval_s;

        if (i)
            spot_generator_step(&m->gen, opt.interval_s, m->net);
        if (opt.events)
            put_events(m, time_s);
        else
            put_counts(m, time_s, i + 1 == n);
    }
}

/* Parses NAME=VALUE,..., which overrides the profile's model. */
static int read_model(const char *list, struct spot_trace_model *model, struct spot_err *err)
{
    char *text = spot_xstrdup(list), *save = NULL;
    int rc = 0;

    for (char *item = strtok_r(text, ",", &save); item && !rc; item = strtok_r(NULL, ",", &save)) {
        char *value = strchr(item, '='), *stop;
        const struct spot_trace_model_field *f = spot_trace_model_field;
        double x;

        if (value)
            *value++ = '\0';
        while (f->name && strcmp(f->name, item) != 0)
            f++;
        x = value ? strtod(value, &stop) : NAN;
        if (!f->name)
            rc =
                spot_err_set(err, SPOT_EUSAGE, "--law has no '%.40s'; --law help lists them", item);
        else if (!value || !*value || *stop)
            rc = spot_err_set(err, SPOT_EUSAGE, "--law must be %s=NUMBER", item);
        else
            memcpy((char *)model + f->offset, &x, sizeof(x));
    }
    free(text);
    return rc;
}

static int run(struct spot_err *err)
{
    struct maker m = { 0 };
    struct spot_out out = { 0 };
    struct spot_trace_model model;

    if (spot_trace_model_profile(opt.profile, (int32_t)opt.cap, &model, err) ||
        (opt.law && read_model(opt.law, &model, err)) || spot_trace_model_check(&model, err))
        return -1;
    if (opt.n_region > opt.n_zone)
        return spot_err_set(err, SPOT_EUSAGE, "there are more --regions than --zones");
    if (spot_out_open(&out, opt.common.output, err))
        return -1;
    m.out = out.file;
    m.net = spot_xcalloc(opt.n_zone, sizeof(*m.net));
    m.last = spot_xcalloc(opt.n_zone, sizeof(*m.last));
    m.roster = spot_xcalloc(opt.n_zone, sizeof(*m.roster));
    for (size_t i = 0; i < opt.n_zone; i++)
        m.last[i] = -1;
    spot_rng_init(&m.rng, opt.common.seed, UINT64_MAX);
    spot_generator_init(&m.gen, &model, opt.n_zone, opt.n_region, (int32_t)opt.cap,
                        opt.common.seed);
    put_trace(&m);
    for (size_t i = 0; i < opt.n_zone; i++)
        free(m.roster[i].node);
    free(m.roster);
    free(m.last);
    free(m.net);
    spot_generator_release(&m.gen);
    return spot_out_finish(&out, 0, err);
}

/* --model help: list every parameter, its value in the chosen profile, and its range. */
static int list_model(struct spot_err *err)
{
    struct spot_table table;
    struct spot_trace_model model;

    if (spot_trace_model_profile(opt.profile, (int32_t)opt.cap, &model, err))
        return -1;
    spot_table_init(&table, "name,value#,min#,max#,meaning");
    for (const struct spot_trace_model_field *f = spot_trace_model_field; f->name; f++) {
        double x;

        memcpy(&x, (const char *)&model + f->offset, sizeof(x));
        spot_table_add(&table, "%s %g %g %g %s", f->name, x, f->min, f->max, f->meaning);
    }
    spot_table_print(&table, stdout, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
    return 0;
}

static int replay_generate(struct spot_err *err)
{
    if (!strcmp(opt.kind, "load"))
        return replay_generate_load(&opt.load, opt.hours > 0 || opt.load.n_request ? opt.hours : 12,
                                    &opt.common, err);
    if (!(opt.hours > 0))
        opt.hours = 12;
    return opt.law && !strcmp(opt.law, "help") ? list_model(err) : run(err);
}

const struct spot_cli replay_generate_command = {
    .name = "spot-replay generate",
    .brief = "make a trace or a load from a seeded model",
    .need = need,
    .reads = (const char *const[]){ "lengths", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .choice = (const struct spot_opt_choice[]){ { "format", "csv" },
                                                { "kind", "trace|load" },
                                                { NULL, NULL } },
    .synopsis = "[options]",
    .summary =
        "Write an availability trace drawn from a model of zones with bursts, batches, regional\n"
        "shocks and heavy-tailed pauses, or a load of requests. Equal options give equal bytes.",
    .examples = "  spot-replay generate --profile stormy --hours 24 --seed 7 -o trace.csv\n"
                "  spot-replay generate --zones 6 --regions 2 --law loss_per_h=4,burst=8\n"
                "  spot-replay generate --kind load --rate 2 --arrivals gamma:6 --hours 1\n",
    .option =
        (const struct spot_opt[]){
            SPOT_TEXT("kind", &opt.kind, "what", "trace: machines (default); load: requests"),
            SPOT_REAL("hours", &opt.hours, "h",
                      "length in hours (default: 12; none with --requests)", 0.001, 1e6),
            { SPOT_OPT_GROUP, .help = "shape of a trace" },
            SPOT_U64("zones", &opt.n_zone, "n",
                     "number of zones, named r1z1, r1z2, ... (default: 1)", 1,
                     SPOT_GENERATE_ZONES_MAX),
            SPOT_U64("regions", &opt.n_region, "n",
                     "number of regions; zones of one share shocks (default: 1)", 1,
                     SPOT_GENERATE_ZONES_MAX),
            SPOT_U64("cap", &opt.cap, "n", "machines of a full zone (default: 32)", 1,
                     SPOT_GENERATE_CAP_MAX),
            SPOT_ROW_SPACING(&opt.interval_s),
            SPOT_ROW_CHANGES(&opt.steps),
            SPOT_ROW_NODE_FORM(&opt.events),
            { SPOT_OPT_GROUP, .help = "law of a trace" },
            SPOT_TEXT("profile", &opt.profile, "name",
                      "calm, typical or stormy (default: typical)"),
            SPOT_TEXT("law", &opt.law, "list", "parameters, NAME=VALUE,...; --law help lists them"),
            { SPOT_OPT_GROUP, .help = "a load" },
            SPOT_REAL("rate", &opt.load.rate_per_s, "r",
                      "mean arrival rate, requests per second (default: 1)", 1e-6, 1e6),
            SPOT_U64("requests", &opt.load.n_request, "n", "stop after this many requests", 1,
                     SPOT_LOAD_ROWS_MAX),
            SPOT_TEXT("arrivals", &opt.load.arrivals, "law",
                      "poisson (default), gamma:CV, on-off:ON:OFF, spotserve:CV"),
            SPOT_TEXT("prompt-tokens", &opt.load.prompt, "law",
                      "N or lognormal:MEDIAN:SIGMA (default: 512)"),
            { SPOT_OPT_MORE, .help = "more of a load" },
            SPOT_TEXT("output-tokens", &opt.load.output, "law",
                      "output lengths, in the same form (default: 128)"),
            SPOT_TEXT("lengths", &opt.load.lengths, "file",
                      "draw both lengths from the requests of this load"),
            SPOT_ROW_CONTEXT(&opt.load.context),
            SPOT_TEXT("swing", &opt.load.swing, "share[:day[:peak]]",
                      "daily swing of the rate, length and peak of a day (24h:14h)"),
            { SPOT_OPT_MORE, .help = "more of a trace" },
            SPOT_ROW_INSTANCE_TYPE(&opt.type),
            SPOT_TOOL_OPTIONS_AS(&opt.common, "csv"),
            { SPOT_OPT_END },
        },
    .common = &opt.common,
    .run_alone = replay_generate,
};
