/* SPDX-License-Identifier: MIT */
/* trace_family.h - seeded traces of counts for judging planners: families that differ in what makes
 * a planner regret its choice. What a trace is depends on its parameters alone. */
#ifndef SPOT_TESTS_TRACE_FAMILY_H
#define SPOT_TESTS_TRACE_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rng.h"

enum family {
    FAMILY_WALK,     /* single losses and gains, drawn towards a level */
    FAMILY_STORMS,   /* calm and stormy spells take turns */
    FAMILY_BLACKOUT, /* most of it goes at once and comes back piece by piece */
    FAMILY_LEVELS,   /* two levels take turns: whoever invests in one is caught by the other */
    FAMILY_ECHO,     /* a loss is followed by another soon after, and by its replacement */
    FAMILIES,
    FAMILY_TIMETABLE = FAMILIES, /* levels in turn, each for as long, again and again */
};

/* All shares are of the largest count, all durations in intervals. */
struct family_spec {
    enum family family;
    uint64_t seed;
    int most, n;       /* largest count, intervals */
    double level;      /* what the count is drawn to */
    double low;        /* the bottom of a blackout, or the lower level */
    double busy, calm; /* chance of a change in an interval, of storms and of calm */
    double dwell;      /* mean length of a spell */
    double size;       /* mean size of a change */
};

static inline int family_size(struct spot_rng *rng, double mean)
{
    int k = 1;

    while (k < 64 && spot_rng_unit(rng) < 1 - 1 / (mean < 1 ? 1 : mean))
        k++;
    return k;
}

/* A loss or gain with the chance `busy`, more likely towards `level`. */
static inline int family_step(struct spot_rng *rng, const struct family_spec *s, int n,
                              double level, double busy)
{
    const double at = (double)n / s->most, up = 0.5 + 0.8 * (level - at);

    if (spot_rng_unit(rng) >= busy)
        return n;
    return spot_rng_unit(rng) < up ? n + family_size(rng, s->size) : n - family_size(rng, s->size);
}

/* count[s->n] within 0..s->most. */
static inline void family_draw(const struct family_spec *s, int *count)
{
    struct spot_rng rng;
    int n = (int)(s->level * s->most + 0.5), owed = 0, echo = 0, wait = 0;
    bool spell = false;

    spot_rng_init(&rng, s->seed, (uint64_t)s->family);
    for (int i = 0; i < s->n; i++) {
        const bool turn = spot_rng_unit(&rng) < 1 / s->dwell;
        const int before = n;

        spell = turn ? !spell : spell;
        if (s->family == FAMILY_LEVELS) {
            if (turn)
                n = (int)((spell ? s->low : s->level) * s->most + 0.5);
            n = family_step(&rng, s, n, spell ? s->low : s->level, s->calm);
        } else if (s->family == FAMILY_BLACKOUT && turn && spell) {
            n = (int)(s->low * s->most);
        } else if (s->family == FAMILY_ECHO) {
            if (echo && !--wait) {
                n -= echo;
                echo = 0;
            } else if (owed && spot_rng_unit(&rng) < s->busy) {
                n += family_size(&rng, s->size);
            } else {
                n = family_step(&rng, s, n, s->level, s->calm);
            }
            if (n < before && !echo && spot_rng_unit(&rng) < 0.5) {
                echo = family_size(&rng, s->size);
                wait = 1 + (int)spot_rng_below(&rng, 4);
            }
            owed = n < (int)(s->level * s->most);
        } else {
            n = family_step(&rng, s, n, s->level, spell ? s->busy : s->calm);
        }
        n = n < 0 ? 0 : n > s->most ? s->most : n;
        count[i] = n;
    }
}

/* The parameters of trace k of a protocol: scales and families in turn, the rest drawn. */
static inline struct family_spec family_nth(uint64_t seed, int k, int n)
{
    static const int scale[] = { 4, 8, 12, 16, 24, 32, 48, 64 };
    struct family_spec s = { .family = (enum family)(k / 8 % FAMILIES),
                             .seed = spot_rng_mix(seed, (uint64_t)k),
                             .most = scale[k % 8],
                             .n = n };
    struct spot_rng rng;

    spot_rng_init(&rng, s.seed, 99);
    s.level = 0.5 + 0.45 * spot_rng_unit(&rng);
    s.low = s.level * (0.85 * spot_rng_unit(&rng));
    s.busy = 0.15 + 0.5 * spot_rng_unit(&rng);
    s.calm = 0.01 + 0.2 * spot_rng_unit(&rng) * spot_rng_unit(&rng);
    s.dwell = 6 + 90 * spot_rng_unit(&rng);
    s.size = 1 + s.most / 16.0 * spot_rng_unit(&rng);
    return s;
}

/* Trace k of a protocol of large changes: storms of correlated losses, blackouts, two levels and
 * echoes in turn, a mean change or a fall of a third of the largest count or more, 9..24 from 32
 * on. */
static inline struct family_spec family_large(uint64_t seed, int k, int n)
{
    static const int scale[] = { 4, 32, 8, 24, 48, 12, 32, 16, 24, 32, 16, 64, 24, 32, 48, 64 };
    struct family_spec s = { .family = FAMILY_STORMS + (enum family)((k + k / 20) % 4),
                             .seed = spot_rng_mix(seed, (uint64_t)k),
                             .most = scale[k % 16],
                             .n = n };
    const double third = s.most / 3.0;
    struct spot_rng rng;

    spot_rng_init(&rng, s.seed, 98);
    s.level = 0.7 + 0.25 * spot_rng_unit(&rng);
    s.low = (s.level - 0.34) * spot_rng_unit(&rng);
    s.busy = 0.1 + 0.3 * spot_rng_unit(&rng);
    s.calm = 0.01 + 0.1 * spot_rng_unit(&rng);
    s.dwell = 6 + 60 * spot_rng_unit(&rng);
    s.size = 1 + (third < 16 ? third : 16) * spot_rng_unit(&rng);
    return s;
}

/* Trace k of a timetable: three to five levels in turn, each for 5 to 12 intervals, now and then
 * one more or less. */
static inline void family_timetable(uint64_t seed, int k, int n, int *count)
{
    struct spot_rng rng;
    int level[5], n_level, dwell, off = 0;

    spot_rng_init(&rng, spot_rng_mix(seed, (uint64_t)k), FAMILY_TIMETABLE);
    n_level = 3 + (int)spot_rng_below(&rng, 3);
    dwell = 5 + (int)spot_rng_below(&rng, 8);
    for (int i = 0; i < n_level; i++)
        level[i] = 4 + (int)spot_rng_below(&rng, 27);
    for (int i = 0; i < n; i++) {
        if (spot_rng_unit(&rng) < 0.02)
            off = (int)spot_rng_below(&rng, 3) - 1;
        count[i] = level[i / dwell % n_level] + off;
    }
}

#endif /* SPOT_TESTS_TRACE_FAMILY_H */
