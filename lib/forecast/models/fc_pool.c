/* SPDX-License-Identifier: MIT */
/* The default model: a linear pool of small models that err in different ways; then a correction of
 * its odds, learned along the series (recal.h); then a mixture with the usual level and the newest
 * value (gate.h). The weights of the pool are fixed and were chosen once on public traces; weights
 * learned on the series itself did worse there. docs/design/05-forecast.md tells what else was
 * tried. */
#include <string.h>

#include "common/simd.h"
#include "forecast/gate.h"
#include "forecast/models/models.h"
#include "forecast/recal.h"

static const struct member {
    const char *name;
    int history;
    double weight[2]; /* with a cap above one, with a cap of one; 0: not used */
} member[] = {
    { "knn", 0, { 0.32, 0.15 } },     { "renewal", 0, { 0, 0.38 } },
    { "context", 0, { 0.21, 0.10 } }, { "arima", 12, { 0.14, 0.12 } },
    { "ses", 60, { 0.12, 0.12 } },    { "birthdeath", 60, { 0.09, 0.13 } },
    { "markov", 0, { 0.12, 0 } },
};

enum { MEMBERS = sizeof(member) / sizeof(member[0]) };

/* State: the correction, then the members' states one after another, then scratch for two
 * distributions: a member's, and the pool's own while it learns. The scratch is zero between calls.
 */
struct part {
    const struct spot_forecaster *model;
    struct spot_fc_spec spec;
    size_t state_byte;
    double weight;
};

static size_t align(size_t n_byte)
{
    return (n_byte + 63) / 64 * 64;
}

static struct part part_of(const struct spot_fc_spec *spec, const struct member *m)
{
    /* looking the names up takes time */
    static const struct spot_forecaster *_Atomic named[MEMBERS];
    struct part part = { named[m - member], *spec, 0, 0 };

    if (!part.model)
        named[m - member] = part.model = spot_forecaster_named(m->name);

    part.spec.history = m->history;
    part.weight = m->weight[spec->cap <= 1];
    if (part.weight > 0 && part.model->state_byte)
        part.state_byte = align(part.model->state_byte(&part.spec));
    return part;
}

static struct spot_fc_gate *gate_part(void *state)
{
    return (struct spot_fc_gate *)(void *)((char *)state + align(sizeof(struct spot_recal)));
}

static char *first_part(const struct spot_fc_spec *spec, void *state)
{
    return (char *)gate_part(state) + align(spot_fc_gate_byte(spec->cap));
}

static int learned_steps(const struct spot_fc_spec *spec)
{
    return spec->horizon < SPOT_RECAL_STEPS ? spec->horizon : SPOT_RECAL_STEPS;
}

size_t spot_pool_state_byte(const struct spot_fc_spec *spec)
{
    const size_t steps = (size_t)spec->horizon + (size_t)learned_steps(spec);
    size_t sum = align(sizeof(struct spot_recal)) + align(spot_fc_gate_byte(spec->cap)) +
                 steps * ((size_t)spec->cap + 1) * sizeof(double);

    for (int i = 0; i < MEMBERS; i++)
        sum += part_of(spec, &member[i]).state_byte;
    return sum;
}

/* The weight of half an observation for any count: what was never seen is not impossible. */
static double unseen_share(const struct spot_recal *recal)
{
    return 0.5 / ((double)recal->n + 50);
}

SPOT_SIMD_INLINE void add_weighted_inline(double *restrict sum, const double *restrict x, size_t n,
                                          double by)
{
    for (size_t k = 0; k < n; k++)
        sum[k] += by * x[k];
}

SPOT_SIMD_TWICE(add_weighted, (double *restrict sum, const double *restrict x, size_t n, double by),
                (sum, x, n, by))

/* Add the weighted mean over members for `horizon` steps, at most those of spec; `distribution` is
 * scratch of that size. */
static void add_members(const struct spot_fc_spec *spec, void *state,
                        const struct spot_fc_past *past, int horizon, double *dist, double *prob)
{
    const size_t n = (size_t)horizon * ((size_t)spec->cap + 1);
    const double unseen = unseen_share(state);
    char *at = first_part(spec, state);

    for (size_t k = 0; k < n; k++)
        prob[k] = unseen / (spec->cap + 1);
    for (int i = 0; i < MEMBERS; i++) {
        struct part part = part_of(spec, &member[i]);

        part.spec.horizon = horizon;
        if (part.weight <= 0)
            continue;
        part.model->predict(&part.spec, at, past, dist);
        add_weighted(prob, dist, n, (1 - unseen) * part.weight);
        at += part.state_byte;
    }
    memset(dist, 0, n * sizeof(*dist));
}

static double *room_of(const struct spot_fc_spec *spec, void *state)
{
    const size_t steps = (size_t)spec->horizon + (size_t)learned_steps(spec);
    char *end = (char *)state + spot_pool_state_byte(spec);

    return (double *)(void *)(end - steps * ((size_t)spec->cap + 1) * sizeof(double));
}

/* Keep the forecast made now, so that the correction can learn from its outcome. */
static void remember_dist(const struct spot_fc_spec *spec, void *state,
                          const struct spot_fc_past *past)
{
    const int horizon = learned_steps(spec);
    const size_t width = (size_t)spec->cap + 1;
    double *dist = room_of(spec, state), *prob = dist + (size_t)spec->horizon * width;

    add_members(spec, state, past, horizon, dist, prob);
    spot_recal_apply(state, spec->cap, spec->day, horizon, true, prob);
    spot_fc_gate_keep(gate_part(state), spec->cap, horizon, spot_recal_weight(state), prob);
    memset(prob, 0, (size_t)horizon * width * sizeof(*prob));
}

void spot_pool_observe(const struct spot_fc_spec *spec, void *state,
                       const struct spot_fc_past *past)
{
    char *at = first_part(spec, state);

    for (int i = 0; i < MEMBERS; i++) {
        const struct part part = part_of(spec, &member[i]);

        if (part.weight > 0 && part.model->observe)
            part.model->observe(&part.spec, at, past);
        at += part.state_byte;
    }
    spot_recal_observe(state, past->y[past->n - 1]);
    spot_fc_gate_observe(gate_part(state), spec->cap, learned_steps(spec), past);
    if (spot_recal_is_due(state))
        remember_dist(spec, state, past);
}

void spot_pool_predict(const struct spot_fc_spec *spec, void *state,
                       const struct spot_fc_past *past, double *prob)
{
    add_members(spec, state, past, spec->horizon, room_of(spec, state), prob);
    spot_recal_apply(state, spec->cap, spec->day, spec->horizon, false, prob);
    spot_fc_gate_apply(gate_part(state), spec->cap, spec->horizon, past, prob);
}

bool spot_pool_is_sound(const struct spot_fc_spec *spec, const void *state)
{
    const char *gate = (const char *)state + align(sizeof(struct spot_recal));
    const char *at = gate + align(spot_fc_gate_byte(spec->cap));

    if (!spot_fc_gate_is_sound((const struct spot_fc_gate *)(const void *)gate))
        return false;
    for (int i = 0; i < MEMBERS; i++) {
        const struct part part = part_of(spec, &member[i]);

        if (part.weight > 0 && part.model->is_sound && !part.model->is_sound(&part.spec, at))
            return false;
        at += part.state_byte;
    }
    return spot_recal_is_sound(state, spec->cap);
}
