/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "cluster/recovery.h"
#include "suite.h"

/* Goal: by brute force over every small case, the newest whole step is the one that the definition
 * gives, and a restarted coordinator waits exactly when somebody who is not here could, for all
 * that it knows, bring a newer step: never for nothing, never too short. */

enum { UNITS = 2, STEPS = 3, MEMBERS = 4 };

/* The i-th assignment of a step -1..STEPS-1 to each of n copies. */
static void deal(int64_t *held, size_t n, unsigned i)
{
    for (size_t k = 0; k < n; k++, i /= STEPS + 1)
        held[k] = (int64_t)(i % (STEPS + 1)) - 1;
}

static unsigned n_deals(size_t n)
{
    unsigned all = 1;

    while (n--)
        all *= STEPS + 1;
    return all;
}

/* By the definition: the largest step that is 0, durable, or held unit by unit. */
static int64_t newest_by_definition(const int64_t *held, size_t n_member, int64_t durable)
{
    for (int64_t step = STEPS - 1; step > 0; step--) {
        size_t n_unit = 0;

        for (size_t u = 0; u < UNITS; u++) {
            bool has = false;

            for (size_t i = 0; i < n_member; i++)
                has |= held[i * UNITS + u] == step;
            n_unit += has;
        }
        if (n_unit == UNITS || step == durable)
            return step;
    }
    return 0;
}

START_TEST(the_newest_step_is_the_one_of_the_definition)
{
    int64_t held[MEMBERS * UNITS];

    for (size_t n = 0; n <= 3; n++)
        for (unsigned i = 0; i < n_deals(n * UNITS); i++)
            for (int64_t durable = -1; durable < STEPS; durable++) {
                deal(held, n * UNITS, i);
                ck_assert_int_eq(spot_recovery_newest(held, n, UNITS, durable),
                                 newest_by_definition(held, n, durable));
            }
}
END_TEST

/* Copies newer than the disk are never thrown away for an older whole step, wherever they lie. */
START_TEST(of_many_units_one_that_is_missing_spoils_its_step_alone)
{
    enum { N = 7 };
    int64_t held[2 * N];

    for (size_t missing = 0; missing < N; missing++) {
        for (size_t u = 0; u < N; u++) {
            held[u] = u == missing ? 40 : 60;
            held[N + u] = 50;
        }
        ck_assert_int_eq(spot_recovery_newest(held, 2, N, 30), 50);
        ck_assert_int_eq(spot_recovery_newest(held, 1, N, 30), 30);
        ck_assert_int_eq(spot_recovery_newest(held, 2, N, 55), 55);
        held[N + missing] = 60;
        ck_assert_int_eq(spot_recovery_newest(held, 2, N, 55), 60);
    }
}
END_TEST

/* Could the absent, with any copies that nothing known rules out, make a newer step whole? */
static bool could_be_newer(const int64_t *here, size_t n_here, size_t n_absent, int64_t limit,
                           int64_t durable)
{
    const int64_t now = newest_by_definition(here, n_here, durable);
    int64_t all[MEMBERS * UNITS];

    memcpy(all, here, n_here * UNITS * sizeof(*all));
    for (unsigned i = 0; i < n_deals(n_absent * UNITS); i++) {
        bool fits = true;

        deal(&all[n_here * UNITS], n_absent * UNITS, i);
        for (size_t k = n_here * UNITS; k < (n_here + n_absent) * UNITS; k++)
            fits &= all[k] <= limit;
        if (fits && newest_by_definition(all, n_here + n_absent, durable) > now)
            return true;
    }
    return false;
}

/* The log tells of `logged` and its holders: those who are absent have nothing newer. Where a copy
 * shows that the log lacks lines, somebody unknown may have all up to that copy's step. */
START_TEST(it_waits_exactly_while_somebody_absent_could_bring_a_newer_step)
{
    int64_t here[MEMBERS * UNITS];
    int n_wait = 0, n_go = 0;

    for (size_t n = 0; n <= 2; n++)
        for (size_t n_absent = 0; n_absent <= 2; n_absent++)
            for (unsigned i = 0; i < n_deals(n * UNITS); i++)
                for (int64_t logged = 0; logged < STEPS; logged++)
                    for (int64_t durable = -1; durable <= logged; durable++) {
                        struct spot_recovery r = { .logged = logged,
                                                   .held_max = -1,
                                                   .n_absent = n_absent };
                        bool is_cut, want;

                        deal(here, n * UNITS, i);
                        for (size_t k = 0; k < n * UNITS; k++)
                            r.held_max = here[k] > r.held_max ? here[k] : r.held_max;
                        r.newest = spot_recovery_newest(here, n, UNITS, durable);
                        is_cut = r.held_max > logged;
                        want = could_be_newer(here, n, is_cut && !n_absent ? 1 : n_absent,
                                              is_cut ? r.held_max : logged, durable);
                        ck_assert_int_eq(spot_recovery_waits(&r), want);
                        n_wait += want;
                        n_go += !want;
                    }
    ck_assert_int_gt(n_wait, 1000);
    ck_assert_int_gt(n_go, 1000);
}
END_TEST

int main(void)
{
    return run_suite("recovery", add_tests(tcase_create("core")));
}
