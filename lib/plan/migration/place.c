/* SPDX-License-Identifier: MIT */
#include "plan/migration/place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign.h"
#include "plan/migration/place_bound.h"

enum { STEPS_PER_SCORE = 20 }; /* enumeration: tree nodes visited per placement scored */

struct search {
    const struct spot_place_problem *p;
    struct spot_place *best;
    int *now;      /* [n_position] the placement being built or changed */
    int *n_used;   /* [n_node] positions on each node */
    int n_slot;    /* number of slots of all usable nodes */
    int *slot;     /* [n_slot] the node of each */
    int64_t *rest; /* [n_position + 1] least bytes that positions q and later must receive */
    long n_step;   /* tree nodes left for the enumeration */
};

static int compare_real(double a, double b)
{
    if (fabs(a - b) <= SPOT_PLACE_EPSILON * fmax(fabs(a), fabs(b)))
        return 0;
    return a < b ? -1 : 1;
}

static int compare_score(const struct spot_place_score *a, const struct spot_place_score *b)
{
    int order = compare_real(a->makespan_s, b->makespan_s);

    if (!order)
        order = compare_real(a->usd, b->usd);
    if (!order)
        order = (a->byte > b->byte) - (a->byte < b->byte);
    return order ? order : (a->n_touched > b->n_touched) - (a->n_touched < b->n_touched);
}

static int slots_of(const struct spot_place_problem *p, int node)
{
    return !p->can_place[node] ? 0 : p->slots ? (int)p->slots[node] : 1;
}

static int64_t in_byte(const struct spot_place_problem *p, int q, int node)
{
    return p->in_byte[(size_t)q * p->n_node + node];
}

static double in_s(const struct spot_place_problem *p, int q, int node)
{
    return (double)in_byte(p, q, node) / p->in_byte_per_s[node];
}

/* Score s->now and keep it if it is the best so far; then returns true. */
static bool consider(struct search *s)
{
    const double give_up_s = s->best->n_scored ? s->best->score.makespan_s : INFINITY;
    struct spot_place_score score;

    for (int q = 0; q < s->p->n_position; q++)
        if (compare_real(in_s(s->p, q, s->now[q]), give_up_s) > 0)
            return false;
    score = s->p->score(s->p->user, s->now, give_up_s);
    if (s->best->n_scored++ && compare_score(&score, &s->best->score) >= 0)
        return false;
    s->best->score = score;
    memcpy(s->best->node_of_position, s->now, (size_t)s->p->n_position * sizeof(int));
    return true;
}

/* Minimum total bytes, position by position, among placements in which every receiver is done by
 * limit_s. Writes s->now and returns the bytes, or -1 if there is no such placement. */
static int64_t place_within(struct search *s, double limit_s)
{
    const struct spot_place_problem *p = s->p;
    const size_t n = (size_t)p->n_position, m = (size_t)s->n_slot;
    int64_t *cost = spot_xcalloc(n * m, sizeof *cost), total = -1;
    int *stay = spot_xcalloc(n, sizeof(int));
    const struct spot_assign_problem problem = {
        .n_row = p->n_position, .n_col = s->n_slot, .cost = cost, .stay = stay
    };
    struct spot_assignment answer;

    for (size_t q = 0; q < n; q++) {
        stay[q] = -1;
        for (size_t k = 0; k < m; k++)
            cost[q * m + k] = in_s(p, (int)q, s->slot[k]) <= limit_s
                                  ? in_byte(p, (int)q, s->slot[k])
                                  : SPOT_ASSIGN_FORBIDDEN;
    }
    if (!spot_assign(&problem, &answer, NULL) && answer.is_feasible) {
        total = (int64_t)answer.cost;
        for (size_t q = 0; q < n; q++)
            s->now[q] = s->slot[answer.col_of_row[q]];
    }
    spot_assignment_release(&answer);
    free(cost), free(stay);
    return total;
}

/* The least limit_s for which place_within finds a placement. The bits of times, none of which is
 * negative, are in their order as integers. */
static double bottleneck(struct search *s)
{
    const struct spot_place_problem *p = s->p;
    const size_t n = (size_t)p->n_position, m = (size_t)s->n_slot;
    int64_t *bits = spot_xcalloc(n * m, sizeof *bits), least;
    const struct spot_assign_problem problem = { .n_row = p->n_position,
                                                 .n_col = s->n_slot,
                                                 .cost = bits };
    double limit_s;

    for (size_t q = 0; q < n; q++)
        for (size_t k = 0; k < m; k++) {
            const double time_s = in_s(p, (int)q, s->slot[k]);

            memcpy(&bits[q * m + k], &time_s, sizeof time_s);
            if (!isfinite(time_s))
                bits[q * m + k] = SPOT_ASSIGN_FORBIDDEN;
        }
    spot_assign_threshold(&problem, &least);
    memcpy(&limit_s, &least, sizeof least);
    free(bits);
    return limit_s;
}

static bool is_proved(const struct search *s)
{
    return compare_real(s->best->score.makespan_s, s->best->bound_s) <= 0 &&
           s->best->score.usd <= 0 && s->best->score.byte <= s->best->bound_byte;
}

/* True if no placement that only exchanges nodes of one class, or positions of one class, comes
 * first lexicographically: empty nodes of a class are taken in ascending order, and so are the
 * nodes of positions of one class. */
static bool is_canonical(const struct search *s, int q, int node)
{
    const struct spot_place_problem *p = s->p;

    for (int i = 0; i < node && !s->n_used[node]; i++)
        if (slots_of(p, i) && !s->n_used[i] && p->node_class[i] == p->node_class[node])
            return false;
    for (int r = q - 1; r >= 0; r--)
        if (p->position_class[r] == p->position_class[q])
            return s->now[r] <= node;
    return true;
}

/* Enumerate the distinct placements of positions q and later after the given start, with bounds.
 * False when the budget is spent. */
static bool enumerate(struct search *s, int q, int64_t byte, double busiest_s)
{
    const struct spot_place_problem *p = s->p;
    const struct spot_place_score *best = &s->best->score;

    if (compare_real(busiest_s, best->makespan_s) > 0 ||
        (!p->slots && best->usd <= 0 && compare_real(best->makespan_s, s->best->bound_s) <= 0 &&
         byte + s->rest[q] > best->byte))
        return true;
    if (q == p->n_position) {
        if (s->best->n_scored >= p->score_max)
            return false;
        consider(s);
        return true;
    }
    for (int i = 0; i < p->n_node; i++) {
        bool is_done;

        if (s->n_used[i] >= slots_of(p, i) || !is_canonical(s, q, i))
            continue;
        if (++s->n_step > STEPS_PER_SCORE * p->score_max)
            return false;
        s->n_used[i]++;
        s->now[q] = i;
        is_done = enumerate(s, q + 1, byte + in_byte(p, q, i), fmax(busiest_s, in_s(p, q, i)));
        s->n_used[i]--;
        if (!is_done)
            return false;
    }
    return true;
}

static void find_rest(struct search *s)
{
    const struct spot_place_problem *p = s->p;

    for (int q = p->n_position - 1; q >= 0; q--) {
        int64_t least = INT64_MAX;

        for (int i = 0; i < p->n_node; i++)
            if (slots_of(p, i) && in_byte(p, q, i) < least)
                least = in_byte(p, q, i);
        s->rest[q] = s->rest[q + 1] + least;
    }
}

static void take_best(struct search *s)
{
    memcpy(s->now, s->best->node_of_position, (size_t)s->p->n_position * sizeof(int));
    memset(s->n_used, 0, (size_t)s->p->n_node * sizeof(int));
    for (int q = 0; q < s->p->n_position; q++)
        s->n_used[s->now[q]]++;
}

/* Exchange the nodes of q and r, or put node i, which has a free slot, on q. True if that is
 * better. */
static bool try_change(struct search *s, int q, int r, int i)
{
    const int old = s->now[q];

    if (r >= 0) {
        if (old == s->now[r] ||
            (!s->p->slots && s->p->node_class[old] == s->p->node_class[s->now[r]]))
            return false;
        s->now[q] = s->now[r];
        s->now[r] = old;
    } else {
        if (i == old || s->n_used[i] >= slots_of(s->p, i))
            return false;
        s->now[q] = i;
    }
    if (consider(s)) {
        take_best(s);
        return true;
    }
    if (r >= 0)
        s->now[r] = s->now[q];
    s->now[q] = old;
    return false;
}

/* The next position in the order of receive times, longest first, ties by index. */
static int next_busiest(const struct search *s, int last)
{
    const double limit = last < 0 ? INFINITY : in_s(s->p, last, s->now[last]);
    int best = -1;

    for (int q = 0; q < s->p->n_position; q++) {
        const double t = in_s(s->p, q, s->now[q]);

        if ((t < limit || (t == limit && q > last)) &&
            (best < 0 || t > in_s(s->p, best, s->now[best])))
            best = q;
    }
    return best;
}

static void climb(struct search *s)
{
    const long most = s->best->n_scored + s->p->climb_max;
    bool is_better = true;

    take_best(s);
    while (is_better && s->best->n_scored < most) {
        is_better = false;
        for (int q = next_busiest(s, -1); q >= 0 && !is_better; q = next_busiest(s, q)) {
            for (int r = 0; r < s->p->n_position && !is_better; r++)
                is_better = r != q && try_change(s, q, r, -1);
            for (int i = 0; i < s->p->n_node && !is_better; i++)
                is_better = try_change(s, q, -1, i);
            if (s->best->n_scored >= most)
                return;
        }
    }
}

/* spot_place_try_fn: score the placement. The last score stays that of this placement, for the cut.
 */
static double try_placement(void *user, const int *node_of_position)
{
    struct search *s = user;
    const size_t n_byte = (size_t)s->p->n_position * sizeof(int);
    struct spot_place_score score;

    score = s->p->score(s->p->user, node_of_position, INFINITY);
    s->best->n_scored++;
    if (compare_score(&score, &s->best->score) < 0) {
        s->best->score = score;
        memcpy(s->best->node_of_position, node_of_position, n_byte);
    }
    return s->best->score.makespan_s;
}

/* Raise the bound; if better placements were met on the way, improve the best of them. */
static void tighten(struct search *s)
{
    const struct spot_place_problem *p = s->p;
    const double before_s = s->best->score.makespan_s;

    if (!p->cut || p->slots || !p->bound_max || compare_real(before_s, s->best->bound_s) <= 0)
        return;
    p->score(p->user, s->best->node_of_position, INFINITY);
    s->best->bound_s =
        fmax(s->best->bound_s, spot_place_bound(p, s->best->bound_s, before_s, try_placement, s));
    if (s->best->score.makespan_s < before_s)
        climb(s);
}

/* Compute both start placements and their bounds. False if there is no placement. */
static bool start(struct search *s)
{
    struct spot_place *best = s->best;
    double limit_s;

    best->bound_byte = place_within(s, INFINITY);
    if (best->bound_byte < 0)
        return false;
    if (s->p->slots)
        best->bound_byte = s->p->byte_floor;
    consider(s);
    limit_s = bottleneck(s);
    best->bound_s = s->p->n_node ? (double)best->bound_byte / s->p->out_byte_per_s : 0;
    best->bound_s = fmax(fmax(limit_s, best->bound_s), s->p->floor_s);
    place_within(s, limit_s);
    consider(s);
    return true;
}

int spot_place_search(const struct spot_place_problem *p, struct spot_place *place,
                      struct spot_err *err)
{
    struct search s = { .p = p, .best = place };
    int rc = -1;

    *place = (struct spot_place){ 0 };
    for (int i = 0; i < p->n_node; i++)
        s.n_slot += slots_of(p, i);
    if (s.n_slot < p->n_position)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%d positions but only %d %s to take them",
                            p->n_position, s.n_slot, p->slots ? "slots" : "nodes");
    s.slot = spot_xcalloc((size_t)s.n_slot, sizeof(int));
    for (int i = 0, n = 0; i < p->n_node; i++)
        for (int k = 0; k < slots_of(p, i); k++)
            s.slot[n++] = i;
    place->node_of_position = spot_xcalloc((size_t)p->n_position, sizeof(int));
    s.now = spot_xcalloc((size_t)p->n_position, sizeof(int));
    s.n_used = spot_xcalloc((size_t)p->n_node, sizeof(int));
    s.rest = spot_xcalloc((size_t)p->n_position + 1, sizeof(int64_t));
    find_rest(&s);
    if (!start(&s)) {
        spot_err_set(err, SPOT_EINFEASIBLE, "no placement exists");
        spot_place_release(place);
        goto out;
    }
    place->is_exhaustive = is_proved(&s) || enumerate(&s, 0, 0, 0);
    if (!place->is_exhaustive) {
        climb(&s);
        tighten(&s);
    }
    rc = 0;
out:
    free(s.now), free(s.n_used), free(s.rest), free(s.slot);
    return rc;
}

void spot_place_release(struct spot_place *place)
{
    free(place->node_of_position);
    *place = (struct spot_place){ 0 };
}
