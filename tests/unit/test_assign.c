/* SPDX-License-Identifier: MIT */
/* Goal: every answer is optimal (against all permutations, against recorded optima), canonical
 * among the optima, proved by prices; every refusal names lines that really cannot be matched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/rng.h"
#include "plan/assign.h"
#include "suite.h"

enum { SIDE = 7 };

struct random_case {
    int64_t cost[SIDE * SIDE];
    struct spot_assign_problem p;
};

static int below(struct spot_rng *rng, int n)
{
    return (int)spot_rng_below(rng, (uint64_t)n);
}

static void draw(struct random_case *c, struct spot_rng *rng, int side)
{
    static const int64_t size[] = {
        2, 5, 1000, 1000000, INT64_C(1) << 40, INT64_C(1) << 53, INT64_C(1) << 58, INT64_C(1) << 61
    };
    const int64_t hi = size[below(rng, 8)];
    const int shape = below(rng, 3);
    const int64_t lo = shape == 0 ? 0 : shape == 1 ? -hi : hi > 5 ? hi - 5 : 0;
    const int n = 1 + below(rng, side), m = below(rng, 2) ? n : 1 + below(rng, side);

    for (int k = 0; k < n * m; k++)
        c->cost[k] = below(rng, 100) < 12
                         ? SPOT_ASSIGN_FORBIDDEN
                         : lo + (int64_t)spot_rng_below(rng, (uint64_t)hi - (uint64_t)lo + 1);
    c->p = (struct spot_assign_problem){
        .n_row = n, .n_col = m, .cost = c->cost, .is_max = below(rng, 10) < 3
    };
}

struct best {
    bool is_found;
    spot_int128 cost;
    int n_stay;
    int col[SIDE];
};

/* Unmatched sorts behind every column. */
static int compare_lines(const int *a, const int *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i] != b[i])
            return (unsigned)a[i] < (unsigned)b[i] ? -1 : 1;
    return 0;
}

static void consider(const struct spot_assign_problem *p, const int *col, int n_matched,
                     struct best *best)
{
    struct best now = { true, 0, 0, { 0 } };

    if (n_matched < (p->n_row < p->n_col ? p->n_row : p->n_col))
        return;
    for (int i = 0; i < p->n_row; i++) {
        now.col[i] = col[i];
        now.cost += col[i] < 0 ? 0 : p->cost[i * p->n_col + col[i]];
        now.n_stay += col[i] == i;
    }
    if (best->is_found) {
        const spot_int128 less = p->is_max ? best->cost - now.cost : now.cost - best->cost;

        if (less > 0 || (less == 0 && (now.n_stay < best->n_stay ||
                                       (now.n_stay == best->n_stay &&
                                        compare_lines(now.col, best->col, p->n_row) >= 0))))
            return;
    }
    *best = now;
}

static void brute(const struct spot_assign_problem *p, int i, int n_matched, unsigned used,
                  int *col, struct best *best)
{
    if (i == p->n_row) {
        consider(p, col, n_matched, best);
        return;
    }
    for (int j = 0; j < p->n_col; j++)
        if (!(used & 1u << j) && p->cost[i * p->n_col + j] != SPOT_ASSIGN_FORBIDDEN) {
            col[i] = j;
            brute(p, i + 1, n_matched + 1, used | 1u << j, col, best);
        }
    if (p->n_row > p->n_col) {
        col[i] = -1;
        brute(p, i + 1, n_matched, used, col, best);
    }
}

/* The listed lines of the shorter side have no allowed partner beyond the listed ones. */
static void check_violator(const struct spot_assign_problem *p, const struct spot_assignment *a)
{
    const bool by_row = p->n_row <= p->n_col;

    ck_assert_int_gt(by_row ? a->n_bad_row : a->n_bad_col, by_row ? a->n_bad_col : a->n_bad_row);
    for (int i = 0; i < p->n_row; i++)
        for (int j = 0; j < p->n_col; j++) {
            bool in_row = false, in_col = false;

            for (int k = 0; k < a->n_bad_row; k++)
                in_row = in_row || a->bad_row[k] == i;
            for (int k = 0; k < a->n_bad_col; k++)
                in_col = in_col || a->bad_col[k] == j;
            if (by_row ? in_row && !in_col : in_col && !in_row)
                ck_assert_int_eq(p->cost[i * p->n_col + j], SPOT_ASSIGN_FORBIDDEN);
        }
}

static void compare_with_all(int n_case, int side, uint64_t seed)
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    for (int k = 0; k < n_case; k++) {
        struct random_case c;
        struct spot_assignment answer;
        struct best best = { false, 0, 0, { 0 } };
        int col[4 * SIDE];

        draw(&c, &rng, side);
        brute(&c.p, 0, 0, 0, col, &best);
        ck_assert_int_eq(spot_assign(&c.p, &answer, NULL), 0);
        ck_assert_int_eq(answer.is_feasible, best.is_found);
        if (best.is_found) {
            ck_assert(answer.cost == best.cost);
            ck_assert(spot_assign_verify(&c.p, &answer));
            ck_assert_msg(!compare_lines(answer.col_of_row, best.col, c.p.n_row),
                          "case %d is not the canonical optimum", k);
        } else {
            check_violator(&c.p, &answer);
        }
        spot_assignment_release(&answer);
    }
}

START_TEST(equals_every_permutation_in_cost_and_in_the_choice_among_ties)
{
    const char *wish = getenv("SPOT_TEST_CASES");

    compare_with_all(wish ? atoi(wish) : 20000, 5, 21);
    compare_with_all(wish ? atoi(wish) : 500, SIDE, 22);
}
END_TEST

/* Over all full matchings: the least costliest pair, then the least sum (signs turned to maximise).
 */
static void brute_bottleneck(const struct spot_assign_problem *p, int i, int n_matched,
                             unsigned used, int64_t largest, spot_int128 sum, struct best *best,
                             int64_t *best_largest)
{
    const int side = p->n_row < p->n_col ? p->n_row : p->n_col;

    if (i == p->n_row) {
        if (n_matched == side && (!best->is_found || largest < *best_largest ||
                                  (largest == *best_largest && sum < best->cost))) {
            *best = (struct best){ .is_found = true, .cost = sum };
            *best_largest = largest;
        }
        return;
    }
    for (int j = 0; j < p->n_col; j++) {
        const int64_t raw = p->cost[i * p->n_col + j];
        int64_t cost;

        if (used & 1u << j || raw == SPOT_ASSIGN_FORBIDDEN)
            continue;
        cost = p->is_max ? -raw : raw;
        brute_bottleneck(p, i + 1, n_matched + 1, used | 1u << j, cost > largest ? cost : largest,
                         sum + cost, best, best_largest);
    }
    if (p->n_row > p->n_col)
        brute_bottleneck(p, i + 1, n_matched, used, largest, sum, best, best_largest);
}

/* The problem without its pairs beyond `limit`, or from it on. */
static struct spot_assign_problem cut_at(const struct spot_assign_problem *p, int64_t limit,
                                         bool is_open, int64_t *cost)
{
    struct spot_assign_problem cut = *p;

    for (int k = 0; k < p->n_row * p->n_col; k++) {
        const int64_t c = p->cost[k];
        const bool is_in = p->is_max ? c > limit || (c == limit && !is_open)
                                     : c < limit || (c == limit && !is_open);

        cost[k] = is_in ? c : SPOT_ASSIGN_FORBIDDEN;
    }
    cut.cost = cost;
    return cut;
}

START_TEST(the_bottleneck_equals_that_of_every_permutation_and_is_proved)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 23, 0);
    for (int k = 0; k < 6000; k++) {
        struct random_case c;
        struct best best = { 0 };
        struct spot_assignment answer, proof;
        int64_t largest, want = 0, cost[SIDE * SIDE];
        struct spot_assign_problem cut;

        draw(&c, &rng, 6);
        brute_bottleneck(&c.p, 0, 0, 0, INT64_MIN, 0, &best, &want);
        ck_assert_int_eq(spot_assign_bottleneck(&c.p, &largest, &answer, &proof, NULL), 0);
        ck_assert_int_eq(answer.is_feasible, best.is_found);
        if (best.is_found) {
            ck_assert_int_eq(c.p.is_max ? -largest : largest, want);
            ck_assert((c.p.is_max ? -answer.cost : answer.cost) == best.cost);
            cut = cut_at(&c.p, largest, false, cost);
            ck_assert(spot_assign_verify(&cut, &answer));
            cut = cut_at(&c.p, largest, true, cost);
            ck_assert(!proof.is_feasible);
            check_violator(&cut, &proof);
        } else {
            check_violator(&c.p, &answer);
        }
        spot_assignment_release(&answer), spot_assignment_release(&proof);
    }
}
END_TEST

/* Too large for brute force: the certificate alone proves these, on every path of the code. */
START_TEST(large_answers_are_proved_by_their_prices)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 23, 0);
    for (int k = 0; k < 120; k++) {
        static int64_t cost[150 * 150];
        const int n = 1 + below(&rng, 150), m = below(&rng, 2) ? n : 1 + below(&rng, 150);
        const int kind = below(&rng, 5), low = 1 + below(&rng, 12);
        const struct spot_assign_problem p = { n, m, cost, below(&rng, 2), NULL, NULL };
        struct spot_assignment answer, again;

        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++)
                cost[i * m + j] = kind == 0   ? below(&rng, 1000000)
                                  : kind == 1 ? below(&rng, 3)
                                  : kind == 2 ? (int64_t)(i % low) * (j % 7) << 30
                                  : kind == 3 ? (int64_t)(i + 1) * (j + 1)
                                              : (INT64_C(1) << 60) + below(&rng, 100);
        ck_assert_int_eq(spot_assign(&p, &answer, NULL), 0);
        ck_assert(answer.is_feasible && spot_assign_verify(&p, &answer));
        ck_assert_int_eq(spot_assign(&p, &again, NULL), 0);
        ck_assert(!memcmp(answer.col_of_row, again.col_of_row, (size_t)n * sizeof(int)));
        answer.u[0]++;
        ck_assert(!spot_assign_verify(&p, &answer));
        spot_assignment_release(&answer);
        spot_assignment_release(&again);
    }
}
END_TEST

/* No allowed pair is cheaper than its prices, no line of the longer side has one above 0. */
static bool is_proved(const struct spot_assign_problem *p, const struct spot_assignment *a)
{
    const int sign = p->is_max ? -1 : 1;

    for (int i = 0; i < p->n_row; i++)
        for (int j = 0; j < p->n_col; j++) {
            const spot_int128 c = p->cost[i * p->n_col + j];

            if (c != SPOT_ASSIGN_FORBIDDEN && sign * (c - a->u[i] - a->v[j]) < 0)
                return false;
            if (p->n_row < p->n_col && sign * a->v[j] > 0)
                return false;
        }
    return true;
}

static int64_t draw_long(struct spot_rng *rng, int kind, int i, int j)
{
    switch (kind) {
    case 0:
        return below(rng, 1000000);
    case 1: /* lists are crowded by ties in some rows */
        return below(rng, i % 2 ? 300 : 3);
    case 2: /* searches go through nearly all rows */
        return (int64_t)(i + 1) * (j + 1);
    case 3: /* few partners */
        return i == j || below(rng, 30) == 0 ? below(rng, 50) : SPOT_ASSIGN_FORBIDDEN;
    default: /* some want the same columns, until their lists hold none of the best */
        return i >= 40 ? (i != j) * INT64_C(10000000)
                       : below(rng, 8000) + (i < 3 ? 0 : 1000 * (int64_t)j);
    }
}

START_TEST(prices_that_are_off_by_one_are_found_whatever_their_size)
{
    static const int64_t size[] = {
        4, INT64_C(1) << 55, (INT64_C(1) << 60) - 1, INT64_C(1) << 60, INT64_C(1) << 62, INT64_MAX
    };
    int n_good = 0, n_bad = 0;
    struct spot_rng rng;

    spot_rng_init(&rng, 31, 0);
    for (int k = 0; k < 3000; k++) {
        const int64_t hi = size[k % 6];
        int64_t cost[5 * 6];
        const struct spot_assign_problem p = { 5, 5 + k % 2, cost, k % 4 / 2, NULL, NULL };
        struct spot_assignment answer;
        const int i = below(&rng, 5), by = below(&rng, 2) ? 1 : -1;

        for (int c = 0; c < 30; c++)
            cost[c] = (below(&rng, 2) ? hi : -hi) - (below(&rng, 3) == 0);
        ck_assert_int_eq(spot_assign(&p, &answer, NULL), 0);
        ck_assert(spot_assign_verify(&p, &answer) && is_proved(&p, &answer));
        answer.u[i] += by, answer.v[answer.col_of_row[i]] -= by; /* the sum stays */
        ck_assert(spot_assign_verify(&p, &answer) == is_proved(&p, &answer));
        n_good += is_proved(&p, &answer);
        n_bad += !is_proved(&p, &answer);
        spot_assignment_release(&answer);
    }
    ck_assert(n_good > 100 && n_bad > 100);
}
END_TEST

static void check_recorded(const struct spot_json_value *root)
{
    const struct spot_json_value *rows = spot_json_get(root, "cost");
    const int n = (int)spot_json_integer(spot_json_get(root, "rows"));
    const int m = (int)spot_json_integer(spot_json_get(root, "cols"));
    int64_t *cost = calloc((size_t)n * (size_t)m + 1, sizeof *cost);
    const struct spot_assign_problem p = { n,    m,
                                           cost, spot_json_is_true(spot_json_get(root, "maximize")),
                                           NULL, NULL };
    struct spot_assignment answer;

    for (int k = 0; k < n * m; k++) {
        const struct spot_json_value *c =
            spot_json_entry(spot_json_entry(rows, (size_t)(k / m)), (size_t)(k % m));

        cost[k] = spot_json_is_null(c) ? SPOT_ASSIGN_FORBIDDEN : spot_json_integer(c);
    }
    ck_assert_int_eq(spot_assign(&p, &answer, NULL), 0);
    ck_assert_int_eq(answer.is_feasible, spot_json_is_true(spot_json_get(root, "feasible")));
    if (answer.is_feasible)
        ck_assert_int_eq((int64_t)answer.cost, spot_json_integer(spot_json_get(root, "optimal")));
    spot_assignment_release(&answer);
    free(cost);
}

/* An oracle for ties that shares nothing with the library: successive shortest paths on a square
 * matrix, and the canonical choice row by row, column by column, each tried by a solve. */
enum { TIED_SIDE = 20, LONG_SIDE = 300 };

#define NEVER 1000000000 /* a forbidden pair, costlier than any matching */

struct tied {
    int n;
    int64_t cost[LONG_SIDE][LONG_SIDE];
};

static int64_t least_sum(const struct tied *w)
{
    int64_t u[LONG_SIDE + 1] = { 0 }, v[LONG_SIDE + 1] = { 0 };
    int row[LONG_SIDE + 1] = { 0 }, way[LONG_SIDE + 1] = { 0 };

    for (int i = 1; i <= w->n; i++) {
        int64_t slack[LONG_SIDE + 1];
        bool is_done[LONG_SIDE + 1] = { false };
        int at = 0;

        row[0] = i;
        for (int j = 0; j <= w->n; j++)
            slack[j] = INT64_MAX;
        do {
            int64_t step = INT64_MAX;
            int next = 0;

            is_done[at] = true;
            for (int j = 1; j <= w->n; j++) {
                const int64_t c = w->cost[row[at] - 1][j - 1] - u[row[at]] - v[j];

                if (!is_done[j] && c < slack[j])
                    slack[j] = c, way[j] = at;
                if (!is_done[j] && slack[j] < step)
                    step = slack[j], next = j;
            }
            for (int j = 0; j <= w->n; j++)
                if (is_done[j])
                    u[row[j]] += step, v[j] -= step;
                else
                    slack[j] -= step;
            at = next;
        } while (row[at]);
        for (; at; at = way[at])
            row[at] = row[way[at]];
    }
    return -v[0];
}

/* Try the pairs of row i in order, unmatched last, until one leaves the sum; the others go. */
static int settle_row(struct tied *w, int i, int n_col, int64_t sum)
{
    for (int j = 0; j < w->n; j++) {
        int64_t was[LONG_SIDE];

        memcpy(was, w->cost[i], sizeof(was));
        for (int k = 0; k < w->n; k++)
            w->cost[i][k] = k == j ? was[k] : NEVER;
        if (was[j] != NEVER && least_sum(w) == sum)
            return j < n_col ? j : -1;
        memcpy(w->cost[i], was, sizeof(was));
    }
    ck_abort_msg("no pair of row %d keeps the sum", i);
}

/* Stays count less than any cost. Lines that fill up the square cost nothing. */
static void make_tied(const struct spot_assign_problem *p, struct tied *w)
{
    const int scale = TIED_SIDE + 1;

    w->n = p->n_row > p->n_col ? p->n_row : p->n_col;
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < w->n; j++) {
            const bool is_pair = i < p->n_row && j < p->n_col;
            const int64_t c = is_pair ? p->cost[i * p->n_col + j] : 0;

            w->cost[i][j] = c == SPOT_ASSIGN_FORBIDDEN
                                ? NEVER
                                : (p->is_max ? -c : c) * scale - (is_pair && p->stay[i] == j);
        }
}

static void draw_tied(struct spot_rng *rng, struct spot_assign_problem *p, int64_t *cost, int *stay)
{
    const int n = 2 + below(rng, TIED_SIDE - 1),
              m = below(rng, 2) ? n : 2 + below(rng, TIED_SIDE - 1);
    const int n_value = 1 + below(rng, 4), shape = below(rng, 3), shift = below(rng, m);

    *p = (struct spot_assign_problem){ n, m, cost, below(rng, 2), stay, NULL };
    for (int k = 0; k < n * m; k++)
        cost[k] = below(rng, 8) == 0 ? SPOT_ASSIGN_FORBIDDEN
                  : shape == 0       ? below(rng, n_value)
                  : shape == 1       ? (below(rng, 3) > 0) * (1 + below(rng, n_value))
                                     : (k / m / 3 * 5 + k % m / 4) % n_value;
    for (int i = 0; i < n; i++)
        stay[i] = i < m && below(rng, 6) ? (i + shift) % m : -1;
}

START_TEST(of_many_ties_the_canonical_one_is_chosen)
{
    int64_t cost[TIED_SIDE * TIED_SIDE];
    int stay[TIED_SIDE], n_done = 0;
    struct spot_rng rng;

    spot_rng_init(&rng, 37, 0);
    for (int k = 0; k < 1500; k++) {
        struct spot_assign_problem p;
        struct spot_assignment answer;
        struct tied w;

        draw_tied(&rng, &p, cost, stay);
        ck_assert_int_eq(spot_assign(&p, &answer, NULL), 0);
        make_tied(&p, &w);
        for (int i = 0; i < p.n_row && answer.is_feasible; i++)
            ck_assert_int_eq(answer.col_of_row[i], settle_row(&w, i, p.n_col, least_sum(&w)));
        n_done += answer.is_feasible;
        spot_assignment_release(&answer);
    }
    ck_assert_int_gt(n_done, 1000);
}
END_TEST

/* Lists of near columns are shorter than these rows. */
START_TEST(long_rows_cost_what_the_other_method_finds)
{
    static int64_t cost[LONG_SIDE * LONG_SIDE];
    static int stay[LONG_SIDE];
    static struct tied w;
    struct spot_rng rng;

    memset(stay, 0xff, sizeof stay); /* none */
    spot_rng_init(&rng, 29, 0);
    for (int k = 0; k < 100; k++) {
        const int n = 50 + below(&rng, 251), m = k % 3 ? n : 50 + below(&rng, 251);
        const struct spot_assign_problem p = { n, m, cost, k % 4 == 3, stay, NULL };
        const int sign = p.is_max ? -1 : 1;
        struct spot_assignment answer;

        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++)
                cost[i * m + j] = draw_long(&rng, k % 5, i, j);
        if (k % 10 == 3) /* two rows that want the same column */
            for (int j = 0; j < m; j++)
                cost[j] = cost[m + j] = j == 5 ? 1 : SPOT_ASSIGN_FORBIDDEN;
        ck_assert_int_eq(spot_assign(&p, &answer, NULL), 0);
        if (answer.is_feasible) {
            make_tied(&p, &w);
            ck_assert(is_proved(&p, &answer) && spot_assign_verify(&p, &answer));
            ck_assert(answer.cost * sign * (TIED_SIDE + 1) == least_sum(&w));
        } else {
            check_violator(&p, &answer);
        }
        ck_assert(answer.is_feasible || k % 5 == 3);
        spot_assignment_release(&answer);
    }
}
END_TEST

enum { SQUARE_MAX = 150 };

static void draw_square(struct spot_rng *rng, struct spot_assign_problem *p, int64_t *cost,
                        int *stay)
{
    const int n = 64 + below(rng, SQUARE_MAX - 63), n_value = 1 + below(rng, 12);
    const int shape = below(rng, 4), share = 1 + below(rng, 30),
              shift = below(rng, 2) * below(rng, n);
    const int64_t unit = below(rng, 2) ? 1 : 1 + below(rng, 1 << 20);
    const int64_t base = below(rng, 2) ? 0 : (INT64_C(1) << 40) - below(rng, 99);

    *p = (struct spot_assign_problem){ n, n, cost, below(rng, 2), stay, NULL };
    for (int k = 0; k < n * n; k++) {
        const int i = k / n, j = k % n;
        const int64_t c = shape == 0   ? below(rng, n_value)
                          : shape == 1 ? (below(rng, share) > 0) * (1 + below(rng, n_value))
                          : shape == 2 ? (i / 3 * 5 + j / 4) % n_value
                                       : (i * 7 / n) * (j * (1 + n_value) / n);

        cost[k] = below(rng, 9 * share) == 0 ? SPOT_ASSIGN_FORBIDDEN : base + unit * c;
    }
    for (int i = 0; i < n; i++)
        stay[i] = below(rng, 6) ? (i + shift) % n : -1;
}

/* Costs in a byte each are solved by matchings of all ties; one pair that is too costly for a byte,
 * and for any optimum, has the same costs solved by shortest paths. */
START_TEST(ties_are_solved_as_by_shortest_paths)
{
    static int64_t cost[SQUARE_MAX * SQUARE_MAX];
    static int8_t cell[SQUARE_MAX * SQUARE_MAX];
    int stay[SQUARE_MAX], n_done = 0;
    struct spot_rng rng;

    spot_rng_init(&rng, 41, 0);
    for (int k = 0; k < 400; k++) {
        struct spot_assign_problem p;
        struct spot_narrow narrow = { .cell = cell };
        struct spot_assignment a, b;
        size_t size;

        draw_square(&rng, &p, cost, stay);
        size = (size_t)p.n_row * (size_t)p.n_col;
        if (!p.is_max && spot_narrow_add(&narrow, cost, size))
            p.narrow = &narrow, p.cost = NULL;
        ck_assert_int_eq(spot_assign(&p, &a, NULL), 0);
        p.cost = cost;
        for (size_t at = 0; at < size; at++)
            if (cost[at] == SPOT_ASSIGN_FORBIDDEN)
                cost[at] = p.is_max ? -(INT64_C(1) << 44) : (INT64_C(1) << 44) + 1;
        ck_assert_int_eq(spot_assign(&p, &b, NULL), 0);
        if (a.is_feasible) {
            ck_assert(a.cost == b.cost && is_proved(&p, &a));
            ck_assert(!memcmp(a.col_of_row, b.col_of_row, (size_t)p.n_row * sizeof(int)));
        }
        n_done += a.is_feasible;
        spot_assignment_release(&a), spot_assignment_release(&b);
    }
    ck_assert_int_gt(n_done, 300);
}
END_TEST

/* A proof in units of narrow costs is refused like any other: off by one, off by half a unit. */
START_TEST(wrong_prices_of_narrow_costs_are_found)
{
    static int64_t cost[64 * 64];
    static int8_t cell[64 * 64];
    struct spot_narrow narrow = { .cell = cell };
    const struct spot_assign_problem p = { 64, 64, NULL, false, NULL, &narrow };
    struct spot_assignment a;

    for (int k = 0; k < 64 * 64; k++)
        cost[k] = 1000 + 10 * (k / 64 == k % 64 ? 2 : 3);
    ck_assert(spot_narrow_add(&narrow, cost, 64 * 64));
    ck_assert_int_eq(spot_assign(&p, &a, NULL), 0);
    ck_assert(a.is_feasible && a.cost == 64 * 1020);
    for (int by = -30; by <= 30; by++) {
        a.u[3] += by, a.v[3] -= by; /* the sum stays, and the chosen pair's */
        ck_assert(spot_assign_verify(&p, &a) == (by >= -10 && by <= 10));
        a.u[3] -= by, a.v[3] += by;
    }
    a.col_of_row[0] = 1, a.col_of_row[1] = 0;
    ck_assert(!spot_assign_verify(&p, &a));
    spot_assignment_release(&a);
}
END_TEST

START_TEST(reaches_the_recorded_optima)
{
    FILE *in = fopen("../shared/data/golden/migrate/assign.jsonl", "r");
    char *line = NULL;
    size_t cap = 0;
    int n = 0;

    if (!in)
        return;
    while (getline(&line, &cap, in) >= 0) {
        struct spot_json_doc doc;

        ck_assert_int_eq(spot_json_parse(&doc, line, strlen(line), "golden", NULL), 0);
        check_recorded(doc.root);
        spot_json_release(&doc);
        n++;
    }
    ck_assert_int_eq(n, 49);
    free(line);
    fclose(in);
}
END_TEST

START_TEST(sides_beyond_the_limit_are_refused)
{
    const struct spot_assign_problem p = { 1, SPOT_ASSIGN_SIDE_MAX + 1, NULL, false, NULL, NULL };
    struct spot_assignment answer;
    struct spot_err err;

    ck_assert_int_eq(spot_assign(&p, &answer, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    spot_assignment_release(&answer);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("assignments");

    tcase_set_timeout(tcase, 600);
    add_tests(tcase);
    return run_case("assign", tcase);
}
