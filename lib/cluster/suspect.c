/* SPDX-License-Identifier: MIT */
#include "cluster/suspect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { PAIR_PATIENCE = 2, SELF_PATIENCE = 3 }; /* epochs in a row that broke */

static const double remembered_s = 600;
static const double aside_s[] = { 20, 40, 640 }; /* the first time, the second time, later */

void spot_suspects_release(struct spot_suspects *s)
{
    free(s->suspect);
    free(s->pair);
    memset(s, 0, sizeof(*s));
}

struct spot_suspect *spot_suspects_find(const struct spot_suspects *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->suspect[i].name, name))
            return &s->suspect[i];
    return NULL;
}

bool spot_suspects_is_aside(const struct spot_suspects *s, const char *name)
{
    const struct spot_suspect *const suspect = spot_suspects_find(s, name);

    return suspect && suspect->aside_until_s > 0;
}

static size_t index_of(struct spot_suspects *s, const char *name)
{
    const struct spot_suspect *const known = spot_suspects_find(s, name);

    if (known)
        return (size_t)(known - s->suspect);
    s->suspect = spot_xgrow(s->suspect, &s->cap, s->n + 1, sizeof(*s->suspect));
    s->suspect[s->n] = (struct spot_suspect){ 0 };
    snprintf(s->suspect[s->n].name, sizeof(s->suspect[s->n].name), "%s", name);
    return s->n++;
}

static struct spot_suspect_pair *pair_of(struct spot_suspects *s, size_t a, size_t b)
{
    for (size_t i = 0; i < s->n_pair; i++)
        if (s->pair[i].a == a && s->pair[i].b == b)
            return &s->pair[i];
    s->pair = spot_xgrow(s->pair, &s->cap_pair, s->n_pair + 1, sizeof(*s->pair));
    s->pair[s->n_pair] = (struct spot_suspect_pair){ .a = a, .b = b };
    return &s->pair[s->n_pair++];
}

static void report_why(struct spot_suspect *suspect, const char *by, const char *of,
                       const char *why)
{
    if (!strcmp(by, of))
        snprintf(suspect->why, sizeof(suspect->why), "%s", why);
    else
        snprintf(suspect->why, sizeof(suspect->why), "%s does not reach %s: %s", by, of, why);
}

void spot_suspects_accuse(struct spot_suspects *s, const char *by, const char *of,
                          bool has_answered, const char *why, double now_s)
{
    const size_t i = index_of(s, by), k = index_of(s, of);
    struct spot_suspect_pair *const p = pair_of(s, i < k ? i : k, i < k ? k : i);

    report_why(&s->suspect[i], by, of, why);
    report_why(&s->suspect[k], by, of, why);
    if (!p->is_new) {
        p->n_broke += has_answered;
        p->is_strong = false;
    }
    p->is_new = true;
    p->is_strong |= !has_answered;
    p->last_s = now_s;
}

bool spot_suspects_has_news(const struct spot_suspects *s)
{
    for (size_t i = 0; i < s->n_pair; i++)
        if (s->pair[i].is_new)
            return true;
    return false;
}

bool spot_suspects_is_named(const struct spot_suspects *s, const char *name)
{
    for (size_t i = 0; i < s->n_pair; i++)
        if (s->pair[i].is_new && (!strcmp(s->suspect[s->pair[i].a].name, name) ||
                                  !strcmp(s->suspect[s->pair[i].b].name, name)))
            return true;
    return false;
}

/* --- judgement ----------------------------------------------------------- */

static bool counts(const struct spot_suspect_pair *p)
{
    return p->is_strong || p->n_broke >= (p->a == p->b ? SELF_PATIENCE : PAIR_PATIENCE);
}

static const struct spot_suspect_member *member_of(const struct spot_suspect_member *member,
                                                   size_t n_member, const char *name)
{
    for (size_t i = 0; i < n_member; i++)
        if (!strcmp(member[i].name, name))
            return &member[i];
    return NULL;
}

/* The weight of evidence against a suspect; its own report counts most. */
static size_t weight(const struct spot_suspects *s, size_t i)
{
    size_t n = 0;

    for (size_t k = 0; k < s->n_pair; k++) {
        const struct spot_suspect_pair *const p = &s->pair[k];

        if (counts(p) && (p->a == i || p->b == i))
            n += p->a == p->b ? s->n + 1 : 1;
    }
    return n;
}

static size_t choose(const struct spot_suspects *s, const struct spot_suspect_pair *p,
                     const struct spot_suspect_member *member, size_t n_member)
{
    const size_t wa = weight(s, p->a), wb = weight(s, p->b);
    const struct spot_suspect_member *const a = member_of(member, n_member, s->suspect[p->a].name);
    const struct spot_suspect_member *const b = member_of(member, n_member, s->suspect[p->b].name);

    if (wa != wb)
        return wa > wb ? p->a : p->b;
    if (a->is_missed != b->is_missed)
        return a->is_missed ? p->a : p->b;
    if (a->has_place != b->has_place)
        return a->has_place ? p->b : p->a;
    return a->id > b->id ? p->a : p->b;
}

/* A pair that must not work together, both of them present and eligible. */
static bool is_open(const struct spot_suspects *s, const struct spot_suspect_pair *p,
                    const struct spot_suspect_member *member, size_t n_member)
{
    const struct spot_suspect *const a = &s->suspect[p->a], *const b = &s->suspect[p->b];

    return p->is_new && counts(p) && a->aside_until_s <= 0 && b->aside_until_s <= 0 &&
           member_of(member, n_member, a->name) && member_of(member, n_member, b->name);
}

/* True if member i was set aside only because of pairs with this one. */
static bool is_cleared_by(const struct spot_suspects *s, size_t i, size_t guilty)
{
    bool is_its = false;

    for (size_t k = 0; k < s->n_pair; k++) {
        const struct spot_suspect_pair *const p = &s->pair[k];

        if (!counts(p) || (p->a != i && p->b != i))
            continue;
        if (p->a != guilty && p->b != guilty)
            return false;
        is_its = true;
    }
    return is_its;
}

static void set_aside(struct spot_suspects *s, size_t i, double now_s)
{
    struct spot_suspect *const guilty = &s->suspect[i];
    const int n_time = (int)(sizeof(aside_s) / sizeof(aside_s[0]));
    const int k = guilty->n_aside < n_time ? guilty->n_aside : n_time - 1;

    guilty->n_aside++;
    guilty->aside_s = now_s;
    guilty->aside_until_s = now_s + aside_s[k];
    for (size_t j = 0; j < s->n; j++)
        if (j != i && s->suspect[j].aside_until_s > 0 && !isinf(s->suspect[j].aside_until_s) &&
            is_cleared_by(s, j, i)) {
            s->suspect[j].aside_until_s = 0;
            s->suspect[j].n_aside--;
        }
}

/* The pair with the most accused member comes first, so that of a star the centre is removed. */
static const struct spot_suspect_pair *
heaviest(const struct spot_suspects *s, const struct spot_suspect_member *member, size_t n_member)
{
    const struct spot_suspect_pair *best = NULL;
    size_t most = 0;

    for (size_t i = 0; i < s->n_pair; i++) {
        const struct spot_suspect_pair *const p = &s->pair[i];
        size_t w, b;

        if (!is_open(s, p, member, n_member))
            continue;
        w = weight(s, p->a);
        b = weight(s, p->b);
        w = w > b ? w : b;
        if (!best || w > most) {
            best = p;
            most = w;
        }
    }
    return best;
}

static void forget_old(struct spot_suspects *s, double now_s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_pair; i++)
        if (now_s - s->pair[i].last_s <= remembered_s)
            s->pair[n++] = s->pair[i];
    s->n_pair = n;
    for (size_t i = 0; i < s->n; i++)
        if (s->suspect[i].aside_until_s > 0)
            return;
    if (!n)
        s->n = 0; /* nobody is accused any more */
}

/* Marks members that have died since: that explains why they were unreachable. */
static void close_round(struct spot_suspects *s, const struct spot_suspect_member *member,
                        size_t n_member)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_pair; i++) {
        const struct spot_suspect_pair *const p = &s->pair[i];

        if (p->is_new && (!member_of(member, n_member, s->suspect[p->a].name) ||
                          !member_of(member, n_member, s->suspect[p->b].name)))
            continue;
        s->pair[n] = *p;
        s->pair[n++].is_new = false;
    }
    s->n_pair = n;
}

size_t spot_suspects_judge(struct spot_suspects *s, const struct spot_suspect_member *member,
                           size_t n_member, double now_s)
{
    const struct spot_suspect_pair *p;
    size_t n = 0;

    forget_old(s, now_s);
    while ((p = heaviest(s, member, n_member))) {
        set_aside(s, choose(s, p, member, n_member), now_s);
        n++;
    }
    close_round(s, member, n_member);
    return n;
}

void spot_suspects_convict(struct spot_suspects *s, const char *name, const char *why, double now_s)
{
    const size_t i = index_of(s, name); /* may reallocate */
    struct spot_suspect *const guilty = &s->suspect[i];

    snprintf(guilty->why, sizeof(guilty->why), "%s", why);
    guilty->n_aside++;
    guilty->aside_s = now_s;
    guilty->aside_until_s = INFINITY;
}

bool spot_suspects_is_convicted(const struct spot_suspects *s, const char *name)
{
    const struct spot_suspect *const suspect = spot_suspects_find(s, name);

    return suspect && isinf(suspect->aside_until_s);
}

void spot_suspects_committed(struct spot_suspects *s)
{
    for (size_t i = 0; i < s->n_pair; i++)
        s->pair[i].n_broke = 0;
}

void spot_suspects_pardon(struct spot_suspects *s, const char *name)
{
    struct spot_suspect *const suspect = spot_suspects_find(s, name);

    if (suspect && !isinf(suspect->aside_until_s))
        suspect->aside_until_s = 0;
}
