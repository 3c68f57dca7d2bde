/* SPDX-License-Identifier: MIT */
/* A back-off tree of contexts: for every step ahead, how the count changed after situations like
 * the current one, from general (any) to specific (this level, this long after the last change).
 * Source: the escape method of context-tree models (Witten and Bell 1991), on h-step changes. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/simd.h"
#include "forecast/models/models.h"
#include "forecast/pmf.h"

enum {
    LEVELS = 4, /* 0, below half of the cap, from half on, the cap */
    AGES = 8,   /* intervals since the last change: 1, 2, -4, -8, -16, -32, -64, more */
    MOVES = 7,  /* none yet, or down/up by 1, 2-3, 4 and more */
    ORDERS = 5, /* contexts that a situation belongs to, general to specific */
    KNOTS = 64, /* steps that have tables; steps between are mixtures of their neighbours */
    ALL_KNOTS = 16,
    RING = SPOT_FC_HORIZON_MAX + 1,
    LANES = 4, /* the last vector of a table may reach beyond it */
};

/* Vectors, at any address of a float. */
typedef float floats __attribute__((vector_size(32), aligned(4)));
typedef int ints __attribute__((vector_size(32)));

struct situation {
    int age, move; /* age in intervals; move 0..MOVES - 1 */
    int y;
};

/* A past moment, and its contexts other than the first. */
struct moment {
    uint32_t id[ORDERS - 1];
    int y;
};

struct context {
    struct situation now;
    size_t n;
    struct moment past[RING]; /* ring buffer by n */
    float count[];            /* [knots * contexts * (2 cap + 1)] of changes, offset by cap */
};

/* The steps 1..16, then about 25 % apart; the last one is the horizon. */
static int make_knots(int horizon, int knot[KNOTS])
{
    int n = 0;

    for (int h = 1; h < horizon && n < KNOTS - 1; h += h < ALL_KNOTS ? 1 : h / 4)
        knot[n++] = h;
    knot[n++] = horizon;
    return n;
}

static size_t contexts(const struct spot_fc_spec *spec)
{
    return 1 + LEVELS + LEVELS * AGES + LEVELS * AGES * MOVES + ((size_t)spec->cap + 1) * AGES * 3;
}

static size_t width_of(const struct spot_fc_spec *spec)
{
    return 2 * (size_t)spec->cap + 1;
}

size_t spot_context_state_byte(const struct spot_fc_spec *spec)
{
    int knot[KNOTS];

    return sizeof(struct context) +
           ((size_t)make_knots(spec->horizon, knot) * contexts(spec) * width_of(spec) + LANES) *
               sizeof(float);
}

static size_t level_class(int y, int cap)
{
    return y == 0 ? 0 : y == cap ? 3 : 2 * y < cap ? 1 : 2;
}

static size_t age_class(int age)
{
    size_t class = 0;

    for (int bound = 1; class < AGES - 1 && age > bound; bound *= 2)
        class ++;
    return class;
}

/* Indices of the contexts of a situation, from general to specific, without the first: that is 0.
 */
static void find_contexts(const struct spot_fc_spec *spec, const struct situation *s,
                          uint32_t id[ORDERS - 1])
{
    const size_t level = level_class(s->y, spec->cap), age = age_class(s->age);
    const size_t move = (size_t)s->move, direction = move == 0 ? 0 : move <= 3 ? 1 : 2;
    const size_t level_age = level * AGES + age;

    id[0] = (uint32_t)(1 + level);
    id[1] = (uint32_t)(1 + LEVELS + level_age);
    id[2] = (uint32_t)(1 + LEVELS + LEVELS * AGES + level_age * MOVES + move);
    id[3] = (uint32_t)(1 + LEVELS + LEVELS * AGES + LEVELS * AGES * MOVES +
                       ((size_t)s->y * AGES + age) * 3 + direction);
}

static float *table(const struct spot_fc_spec *spec, struct context *c, int knot, size_t id)
{
    return c->count + ((size_t)knot * contexts(spec) + id) * width_of(spec);
}

static int move_class(int change)
{
    const int size = change < 0 ? -change : change;
    const int class = size == 1 ? 1 : size <= 3 ? 2 : 3;

    return change < 0 ? class : class + 3;
}

void spot_context_observe(const struct spot_fc_spec *spec, void *state,
                          const struct spot_fc_past *past)
{
    struct context *c = state;
    const int y = past->y[past->n - 1];
    const size_t width = width_of(spec), at = c->n % RING;
    int knot[KNOTS];
    const int n_knot = make_knots(spec->horizon, knot);

    if (c->n && y != c->now.y)
        c->now = (struct situation){ 0, move_class(y - c->now.y), y };
    c->now.y = y;
    c->now.age++;
    for (int i = 0; i < n_knot && (size_t)knot[i] <= c->n; i++) {
        const size_t back = (size_t)knot[i];
        const struct moment *was = &c->past[at >= back ? at - back : at + RING - back];
        float *count = table(spec, c, i, 0) + y - was->y + spec->cap;

        count[0] += 1;
        for (int k = 0; k < ORDERS - 1; k++)
            count[was->id[k] * width] += 1;
    }
    c->past[at].y = y;
    find_contexts(spec, &c->now, c->past[at].id);
    c->n++;
}

/* The number of changes in a context, and of different ones; whole numbers, in lanes. */
SPOT_SIMD_INLINE void count_seen(const float *seen, size_t width, double *n, int *different)
{
    enum { AT_ONCE = 8 };
    floats sum = { 0 };
    ints some = { 0 };
    size_t at = 0;

    for (; at + AT_ONCE <= width; at += AT_ONCE) {
        const floats here = *(const floats *)(seen + at);

        sum += here;
        some -= here > 0;
    }
    for (int i = 0; at < width; i++, at++) {
        sum[i] += seen[at];
        some[i] += seen[at] > 0;
    }
    *n = *different = 0;
    for (int i = 0; i < AT_ONCE; i++) {
        *n += (double)sum[i];
        *different += some[i];
    }
}

/* All changes ever seen, and no change, lie in -*down..*up. */
static void find_seen(const float *all, int cap, int *down, int *up)
{
    *down = *up = cap;
    while (*down > 0 && all[cap - *down] <= 0)
        --*down;
    while (*up > 0 && all[cap + *up] <= 0)
        --*up;
}

/* Prefetch the tables of all contexts except the first, which is always the same one: they are far
 * apart in memory. */
static void fetch(const struct spot_fc_spec *spec, struct context *c, int knot,
                  const uint32_t id[ORDERS - 1])
{
    enum { LINE = 64 / sizeof(float) };

    for (int k = 0; k < ORDERS - 1; k++)
        for (size_t i = 0; i < width_of(spec); i += LINE)
            __builtin_prefetch(table(spec, c, knot, id[k]) + i);
}

/* The distribution of a step from its tables, general to specific: in each context,
 * distribution <- (counts + escape distribution) / (n + escape), with
 * escape = 2 sqrt(h) sqrt(distinct changes). */
/* The distribution of a step from its tables, general to specific: in each context,
 * distribution <- (counts + escape distribution) / (n + escape), with
 * escape = 2 sqrt(h) sqrt(distinct changes). */
SPOT_SIMD_INLINE void knot_dist_inline(const float *const at[ORDERS], int cap, int y, int h,
                                       double *p)
{
    double dist[2 * SPOT_FC_CAP_FINE + 1 + LANES];
    int down, up, end;

    find_seen(at[0], cap, &down, &up); /* a change seen in any context is seen in this one */
    end = cap - down + (down + up + LANES) / LANES * LANES;
    memset(dist + cap - down, 0, (size_t)(end - (cap - down)) * sizeof(*dist));
    dist[cap] = 1;
    for (int k = 0; k < ORDERS; k++) {
        const float *const seen = at[k];
        double n, escape;
        int different;

        count_seen(seen + cap - down, (size_t)(down + 1 + up), &n, &different);
        if (!different)
            continue;
        escape = 2 * sqrt(h) * sqrt(different);
        n += escape;
        for (int i = cap - down; i < end; i++)
            dist[i] = ((double)seen[i] + escape * dist[i]) / n;
    }
    memset(p, 0, ((size_t)cap + 1) * sizeof(*p));
    for (int d = -down; d <= up && d <= -y; d++)
        p[0] += dist[d + cap];
    for (int d = 1 - y > -down ? 1 - y : -down; d <= up && d < cap - y; d++)
        p[y + d] = dist[d + cap];
    for (int d = cap - y > 1 - y ? cap - y : 1 - y; d <= up; d++)
        p[cap] += dist[d + cap];
}

SPOT_SIMD_TWICE(knot_dist, (const float *const at[ORDERS], int cap, int y, int h, double *p),
                (at, cap, y, h, p))

void spot_context_predict(const struct spot_fc_spec *spec, void *state,
                          const struct spot_fc_past *past, double *prob)
{
    struct context *c = state;
    int knot[KNOTS];
    const int n_knot = make_knots(spec->horizon, knot);
    const uint32_t *const id = c->past[(c->n - 1) % RING].id;

    (void)past;
    for (int i = 0; i < n_knot; i++) {
        const float *at[ORDERS] = { table(spec, c, i, 0) };

        if (i + 1 < n_knot)
            fetch(spec, c, i + 1, id);
        for (int k = 1; k < ORDERS; k++)
            at[k] = table(spec, c, i, id[k - 1]);
        knot_dist(at, spec->cap, c->now.y, knot[i], spot_fc_row(spec, prob, knot[i]));
    }
    for (int i = 1; i < n_knot; i++)
        for (int h = knot[i - 1] + 1; h < knot[i]; h++) {
            const double share = (double)(h - knot[i - 1]) / (knot[i] - knot[i - 1]);
            double *p = spot_fc_row(spec, prob, h);

            memset(p, 0, ((size_t)spec->cap + 1) * sizeof(*p));
            spot_pmf_add(p, spot_fc_row(spec, prob, knot[i - 1]), spec->cap, 1 - share);
            spot_pmf_add(p, spot_fc_row(spec, prob, knot[i]), spec->cap, share);
        }
}

bool spot_context_is_sound(const struct spot_fc_spec *spec, const void *state)
{
    const struct context *c = state;
    const struct situation *s = &c->now;

    for (int i = 0; i < RING; i++) {
        if (c->past[i].y < 0 || c->past[i].y > spec->cap)
            return false;
        for (int k = 0; k < ORDERS - 1; k++)
            if (c->past[i].id[k] >= (uint32_t)contexts(spec))
                return false;
    }
    return s->y >= 0 && s->y <= spec->cap && s->age >= 0 && s->move >= 0 && s->move < MOVES;
}
