/* SPDX-License-Identifier: MIT */
#include "trace/generate.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

static const double STEP_MAX_S = 60, WARM_UP_S = 86400;
enum { REGION_STREAM = 1 << 20 }; /* random streams below this number belong to zones */

#define FIELD(name, meaning, min, max)                                        \
    {                                                                         \
#name, meaning, offsetof(struct spot_trace_model, name), (min), (max) \
    }
const struct spot_trace_model_field spot_trace_model_field[] = {
    FIELD(loss_per_h, "losses per hour of a full zone", 0, 3600),
    FIELD(loss_mean, "machines in a loss, mean", 1, SPOT_GENERATE_CAP_MAX),
    FIELD(loss_all, "share of losses that take all", 0, 1),
    FIELD(gain_per_h, "recoveries per hour of an empty zone", 0, 3600),
    FIELD(gain_mean, "machines in a recovery, mean", 1, SPOT_GENERATE_CAP_MAX),
    FIELD(gain_all, "share of recoveries up to the cap", 0, 1),
    FIELD(burst, "loss rate, busy over quiet", 1, 1000),
    FIELD(busy_share, "share of time that is busy", 0, 0.9),
    FIELD(busy_common, "part of it that a region shares", 0, 1),
    FIELD(busy_mean_s, "length of a busy spell, mean", 1, 1e7),
    FIELD(outage_mean_s, "pause after all is lost, mean", 0, 1e7),
    FIELD(tail, "Pareto exponent of both lengths", 1.05, 20),
    FIELD(shock_per_h, "regional shocks per hour", 0, 3600),
    FIELD(shock_reach, "share of a region's zones hit", 0, 1),
    { 0 },
};

int spot_trace_model_profile(const char *name, int32_t cap, struct spot_trace_model *model,
                             struct spot_err *err)
{
    /* loss_mean and gain_mean are given as 1 + a share of the cap. */
    static const struct {
        const char *name;
        struct spot_trace_model model;
    } profile[] = {
        { "calm", { 1.5, 0.03, 0, 12, 0.05, 0.2, 6, 0.2, 0.9, 7200, 600, 1.6, 0.05, 0.5 } },
        { "typical", { 10, 0.035, 0.01, 32, 0.03, 0.02, 4, 0.35, 0.9, 5400, 600, 1.6, 0.15, 0.6 } },
        { "stormy", { 14, 0.08, 0.05, 26, 0.06, 0.1, 5, 0.35, 0.9, 7200, 1500, 1.4, 0.4, 0.9 } },
    };

    for (size_t i = 0; i < sizeof(profile) / sizeof(profile[0]); i++)
        if (!strcmp(profile[i].name, name)) {
            *model = profile[i].model;
            model->loss_mean = 1 + model->loss_mean * cap;
            model->gain_mean = 1 + model->gain_mean * cap;
            return 0;
        }
    return spot_err_set(err, SPOT_EUSAGE, "unknown profile '%s': calm, typical or stormy", name);
}

int spot_trace_model_check(const struct spot_trace_model *model, struct spot_err *err)
{
    for (const struct spot_trace_model_field *f = spot_trace_model_field; f->name; f++) {
        char got[SPOT_NUM_TEXT], min[SPOT_NUM_TEXT], max[SPOT_NUM_TEXT];
        double x;

        memcpy(&x, (const char *)model + f->offset, sizeof(x));
        if (!(x >= f->min && x <= f->max))
            return spot_err_set(err, SPOT_EUSAGE, "%s must be between %s and %s, got %s", f->name,
                                spot_num_format(f->min, min), spot_num_format(f->max, max),
                                spot_num_format(x, got));
    }
    return 0;
}

/* A Pareto-distributed length with the given mean, truncated at 50 times the mean. */
static double heavy_length_s(struct spot_rng *rng, double mean_s, double tail)
{
    const double least_s = mean_s * (tail - 1) / tail;

    return fmin(least_s * pow(1 - spot_rng_unit(rng), -1 / tail), 50 * mean_s);
}

/* 1, 2, ... with the given mean. */
static int32_t geometric(struct spot_rng *rng, double mean)
{
    const double u = 1 - spot_rng_unit(rng); /* (0, 1] */

    if (mean <= 1)
        return 1;
    return 1 + (int32_t)fmin(floor(log(u) / log1p(-1 / mean)), SPOT_GENERATE_CAP_MAX);
}

static bool happens(struct spot_rng *rng, double rate_per_h, double step_s)
{
    return spot_rng_unit(rng) < -expm1(-rate_per_h * step_s / 3600);
}

static int32_t at_most(int32_t n, int32_t limit)
{
    return n < limit ? n : limit;
}

/* Alternate between on and off so that the source is on for `share` of the time. */
static void advance_spell(struct spot_spell *spell, struct spot_rng *rng,
                          const struct spot_trace_model *model, double share, double time_s)
{
    if (share <= 0)
        return;
    while (spell->until_s <= time_s) {
        spell->is_on = !spell->is_on;
        spell->until_s += heavy_length_s(
            rng, model->busy_mean_s * (spell->is_on ? 1 : (1 - share) / share), model->tail);
    }
}

static bool is_busy(const struct spot_generator *gen, const struct spot_gen_zone *zone)
{
    return zone->busy.is_on || gen->region[zone->region].busy.is_on;
}

/* Machines taken by an ordinary loss within step_s; 0: no loss. */
static int32_t lose(const struct spot_generator *gen, struct spot_gen_zone *zone, double step_s)
{
    const struct spot_trace_model *model = &gen->model;
    const double quiet_per_h =
        model->loss_per_h / (1 - model->busy_share + model->burst * model->busy_share);
    const double level = (double)zone->available / gen->cap;

    if (!happens(&zone->rng, level * quiet_per_h * (is_busy(gen, zone) ? model->burst : 1), step_s))
        return 0;
    if (spot_rng_unit(&zone->rng) >= model->loss_all)
        return at_most(geometric(&zone->rng, model->loss_mean), zone->available);
    zone->outage_until_s =
        gen->time_s + heavy_length_s(&zone->rng, model->outage_mean_s, model->tail);
    return zone->available;
}

static int32_t gain(const struct spot_generator *gen, struct spot_gen_zone *zone, double step_s)
{
    const struct spot_trace_model *model = &gen->model;
    const int32_t missing = gen->cap - zone->available;
    const double quiet_per_h =
        model->gain_per_h / (1 - model->busy_share + model->busy_share / model->burst);
    const double rate_per_h = quiet_per_h / (is_busy(gen, zone) ? model->burst : 1);

    if (gen->time_s < zone->outage_until_s ||
        !happens(&zone->rng, rate_per_h * missing / gen->cap, step_s))
        return 0;
    if (spot_rng_unit(&zone->rng) < model->gain_all)
        return missing;
    return at_most(geometric(&zone->rng, model->gain_mean), missing);
}

/* In a zone that is hit, each machine is lost with the probability `severity` of the shock. */
static int32_t suffer(const struct spot_generator *gen, struct spot_gen_zone *zone, double severity)
{
    int32_t n = 0;

    if (spot_rng_unit(&zone->rng) >= gen->model.shock_reach)
        return 0;
    for (int32_t i = 0; i < zone->available; i++)
        n += spot_rng_unit(&zone->rng) < severity;
    return n;
}

static void advance(struct spot_generator *gen, double step_s, struct spot_gen_net *net)
{
    /* each of the two kinds of spell leaves its share of the time quiet; together they fill
     * busy_share */
    const double quiet = 1 - gen->model.busy_share;
    const double common = 1 - pow(quiet, gen->model.busy_common);
    const double own = 1 - pow(quiet, 1 - gen->model.busy_common);

    gen->time_s += step_s;
    for (size_t r = 0; r < gen->n_region; r++) {
        struct spot_gen_region *region = &gen->region[r];

        advance_spell(&region->busy, &region->rng, &gen->model, common, gen->time_s);
        region->severity = 0;
        if (happens(&region->rng, gen->model.shock_per_h, step_s))
            region->severity = 0.3 + 0.7 * spot_rng_unit(&region->rng);
    }
    for (size_t i = 0; i < gen->n_zone; i++) {
        struct spot_gen_zone *zone = &gen->zone[i];
        const double severity = gen->region[zone->region].severity;
        int32_t lost, gained;

        advance_spell(&zone->busy, &zone->rng, &gen->model, own, gen->time_s);
        lost = severity > 0 ? suffer(gen, zone, severity) : lose(gen, zone, step_s);
        gained = lost ? 0 : gain(gen, zone, step_s);
        zone->available += gained - lost;
        assert(zone->available >= 0 && zone->available <= gen->cap);
        if (net)
            net[i] = (struct spot_gen_net){ net[i].lost + lost, net[i].gained + gained };
    }
}

void spot_generator_init(struct spot_generator *gen, const struct spot_trace_model *model,
                         size_t n_zone, size_t n_region, int32_t cap, uint64_t seed)
{
    assert(n_region >= 1 && n_region <= n_zone && n_zone <= SPOT_GENERATE_ZONES_MAX);
    assert(cap >= 1 && cap <= SPOT_GENERATE_CAP_MAX && !spot_trace_model_check(model, NULL));
    *gen = (struct spot_generator){
        .model = *model, .cap = cap, .time_s = -WARM_UP_S, .n_zone = n_zone, .n_region = n_region
    };
    gen->zone = spot_xcalloc(n_zone, sizeof(*gen->zone));
    gen->region = spot_xcalloc(n_region, sizeof(*gen->region));
    for (size_t r = 0; r < n_region; r++) {
        spot_rng_init(&gen->region[r].rng, seed, REGION_STREAM + r);
        gen->region[r].busy.until_s = -WARM_UP_S;
    }
    for (size_t i = 0; i < n_zone; i++) {
        gen->zone[i] = (struct spot_gen_zone){ .available = cap,
                                               .region = i * n_region / n_zone,
                                               .busy.until_s = -WARM_UP_S,
                                               .outage_until_s = -WARM_UP_S };
        spot_rng_init(&gen->zone[i].rng, seed, i);
    }
    while (gen->time_s < 0)
        advance(gen, STEP_MAX_S, NULL);
}

void spot_generator_step(struct spot_generator *gen, double interval_s, struct spot_gen_net *net)
{
    const int n_step = (int)fmax(ceil(interval_s / STEP_MAX_S), 1);

    if (net)
        memset(net, 0, gen->n_zone * sizeof(*net));
    for (int i = 0; i < n_step; i++)
        advance(gen, interval_s / n_step, net);
}

void spot_generator_release(struct spot_generator *gen)
{
    free(gen->zone);
    free(gen->region);
    *gen = (struct spot_generator){ 0 };
}
