/* SPDX-License-Identifier: MIT */
/* Minimises the largest single cost: binary search over the distinct costs, solving an assignment
 * for each threshold; then the least sum under the threshold found. */
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "plan/assign.h"

struct search {
    const struct spot_assign_problem *problem;
    size_t n_pair;
    int64_t *cost;  /* [n_pair] costs of the problem, forbidden above the threshold */
    int64_t *value; /* distinct costs, best first */
    size_t n_value;
};

static int descending(const void *a, const void *b)
{
    return spot_num_compare_int64(b, a);
}

static void list_values(struct search *s)
{
    size_t n = 0;

    for (size_t k = 0; k < s->n_pair; k++)
        if (s->problem->cost[k] != SPOT_ASSIGN_FORBIDDEN)
            s->value[n++] = s->problem->cost[k];
    if (n)
        qsort(s->value, n, sizeof *s->value,
              s->problem->is_max ? descending : spot_num_compare_int64);
    for (size_t k = 0; k < n; k++)
        if (!k || s->value[k] != s->value[s->n_value - 1])
            s->value[s->n_value++] = s->value[k];
}

/* Solve with the n best distinct costs only; if `plain`, all of them count the same. */
static int solve(struct search *s, size_t n, bool plain, struct spot_assignment *answer,
                 struct spot_err *err)
{
    const bool is_max = s->problem->is_max;
    struct spot_assign_problem problem = *s->problem;

    for (size_t k = 0; k < s->n_pair; k++) {
        const int64_t cost = s->problem->cost[k];
        const bool is_in = n && cost != SPOT_ASSIGN_FORBIDDEN &&
                           (is_max ? cost >= s->value[n - 1] : cost <= s->value[n - 1]);

        s->cost[k] = !is_in ? SPOT_ASSIGN_FORBIDDEN : plain ? 0 : cost;
    }
    problem.cost = s->cost;
    return spot_assign(&problem, answer, err);
}

/* The least number of distinct costs that allows a full matching; n_value + 1 if there is none. */
static int count_needed(struct search *s, size_t *needed, struct spot_err *err)
{
    size_t low = 0, high = s->n_value + 1;

    while (low < high) {
        const size_t mid = (low + high) / 2;
        struct spot_assignment answer;
        bool is_enough;

        if (solve(s, mid, true, &answer, err))
            return -1;
        is_enough = answer.is_feasible;
        spot_assignment_release(&answer);
        if (is_enough)
            high = mid;
        else
            low = mid + 1;
    }
    *needed = low;
    return 0;
}

int spot_assign_bottleneck(const struct spot_assign_problem *problem, int64_t *largest,
                           struct spot_assignment *answer, struct spot_assignment *proof,
                           struct spot_err *err)
{
    struct search s = { .problem = problem,
                        .n_pair = (size_t)problem->n_row * (size_t)problem->n_col };
    size_t n;
    int rc = -1;

    *answer = *proof = (struct spot_assignment){ 0 };
    *largest = 0;
    s.cost = spot_xcalloc(s.n_pair, sizeof *s.cost);
    s.value = spot_xcalloc(s.n_pair, sizeof *s.value);
    list_values(&s);
    if (!count_needed(&s, &n, err)) {
        rc = solve(&s, n < s.n_value ? n : s.n_value, false, answer, err);
        if (!rc && n && n <= s.n_value) {
            *largest = s.value[n - 1];
            rc = solve(&s, n - 1, true, proof, err);
        }
    }
    free(s.cost), free(s.value);
    return rc;
}
