/* SPDX-License-Identifier: MIT */
/* ablate.c - spot-replay whose policy `spot` hears less of each forecast: linked before
 * spot_seen_at (ld --wrap), so that everything else is what ships. tests/bench/ablation.sh.
 *
 * ABLATE= nothing  the forecast as it is
 *         steps    its first step alone, and what the counts were seen to follow
 *         first    its first step alone, and that again and again
 *         age      levels change as often as seen so far, whenever they changed last
 *         zones    every zone by itself */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/seen.h"

enum { SERIES_MAX = 256 };

/* How often a series changed, as far as it was seen. */
struct past {
    const char *zone;
    int64_t now;
    double still[2], changed[2]; /* [0] losses, where there was one to lose; [1] gains */
    double size[2][SPOT_CHAIN_SIZE_MAX + 1];
};

const struct spot_forecast *__real_spot_seen_at(struct spot_seen_trace *t, double time_s,
                                                size_t *of);
const struct spot_forecast *__wrap_spot_seen_at(struct spot_seen_trace *t, double time_s,
                                                size_t *of);

static struct past past[SERIES_MAX];

static void count(struct past *p, const struct spot_forecast_series *s)
{
    const int64_t change = s->now - p->now, size = change < 0 ? -change : change;

    if (!p->zone) {
        *p = (struct past){ .zone = s->zone, .now = s->now };
        return;
    }
    if (p->now > 0)
        *(change < 0 ? &p->changed[0] : &p->still[0]) += 1;
    if (p->now < s->cap)
        *(change > 0 ? &p->changed[1] : &p->still[1]) += 1;
    if (change)
        p->size[change > 0][size < SPOT_CHAIN_SIZE_MAX ? size : SPOT_CHAIN_SIZE_MAX] += 1;
    p->now = s->now;
}

/* Half a case of each beside those seen; one at a time until a change was seen. */
static void law_of(const struct past *p, struct spot_count_law *law)
{
    double n[2] = { 0 };

    *law = (struct spot_count_law){ 0 };
    for (int c = 0; c < SPOT_CHAIN_CONTEXTS; c++) {
        law->loss[c] = (p->changed[0] + 0.5) / (p->changed[0] + p->still[0] + 1) / 2;
        law->gain[c] = (p->changed[1] + 0.5) / (p->changed[1] + p->still[1] + 1) / 2;
        if (p->changed[0] + p->still[0] > 0)
            law->loss[c] *= 2;
        if (p->changed[1] + p->still[1] > 0)
            law->gain[c] *= 2;
    }
    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++)
        n[0] += p->size[0][k], n[1] += p->size[1][k];
    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
        law->lost[k] = n[0] > 0 ? p->size[0][k] / n[0] : k == 1;
        law->gained[k] = n[1] > 0 ? p->size[1][k] / n[1] : k == 1;
    }
}

/* The distributions of a chain without a memory, and its changes. */
static void forget_age(struct spot_forecast *f, struct spot_forecast_series *s,
                       const struct past *p)
{
    const size_t wide = (size_t)s->cap + 1;
    double *from = spot_xcalloc(wide, sizeof(*from));
    struct spot_count_chain chain;
    struct spot_count_step step;
    struct spot_count_law law;

    law_of(p, &law);
    if (s->chain)
        law.context = s->chain->context;
    spot_count_chain_follow(&chain, &law, (int)s->cap);
    from[s->now] = 1;
    for (int64_t h = 0; h < f->horizon; h++) {
        double *to = s->prob + (size_t)h * wide;

        memset(to, 0, wide * sizeof(*to));
        s->mean[h] = 0;
        for (int n = 0; n <= (int)s->cap; n++) {
            spot_count_chain_step(&chain, n, law.context, &step);
            to[n] += from[n] * step.still;
            for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
                if (k <= n)
                    to[n - k] += from[n] * step.lost[k];
                if (n + k <= (int)s->cap)
                    to[n + k] += from[n] * step.gained[k];
            }
        }
        for (int n = 0; n <= (int)s->cap; n++)
            s->mean[h] += n * to[n];
        memcpy(from, to, wide * sizeof(*to));
    }
    free(from);
    if (s->chain)
        *s->chain = law;
    free(s->change);
    s->change = spot_xcalloc(wide, sizeof(*s->change));
    s->n_change = 0;
    for (int n = 0; n <= (int)s->cap; n++)
        if (s->prob[n] > 0)
            s->change[s->n_change++] =
                (struct spot_forecast_change){ n < (int)s->now ? (int)s->now - n : 0,
                                               n > (int)s->now ? n - (int)s->now : 0, s->prob[n] };
}

static int by_cell(const void *a, const void *b)
{
    const struct spot_forecast_change *x = a, *y = b;

    return x->lost != y->lost ? (x->lost > y->lost) - (x->lost < y->lost)
                              : (x->gained > y->gained) - (x->gained < y->gained);
}

const struct spot_forecast *__wrap_spot_seen_at(struct spot_seen_trace *t, double time_s,
                                                size_t *of)
{
    const char *const what = getenv("ABLATE");
    /* the replay's own, made anew at every call */
    struct spot_forecast *f = (struct spot_forecast *)(uintptr_t)__real_spot_seen_at(t, time_s, of);

    if (!f || !what || !*what || !strcmp(what, "nothing"))
        return f;
    for (size_t i = 0; i < f->n_series; i++)
        if (of[i] < SERIES_MAX)
            count(&past[of[i]], &f->series[i]);
    if (!strcmp(what, "steps") || !strcmp(what, "first"))
        f->horizon = 1;
    for (size_t i = 0; i < f->n_series; i++) {
        struct spot_forecast_series *s = &f->series[i];

        if (!strcmp(what, "first")) {
            free(s->chain);
            s->chain = NULL;
        }
        if (!strcmp(what, "age") && of[i] < SERIES_MAX) {
            forget_age(f, s, &past[of[i]]);
            qsort(s->change, s->n_change, sizeof(*s->change), by_cell);
        }
    }
    if (!strcmp(what, "zones"))
        f->n_region = 0;
    return f;
}
