/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "common/rng.h"
#include "serve/fair_queue.h"
#include "serve/guess.h"
#include "suite.h"

/* Goal: who pays gets his share while he waits, whatever the others ask for, and no more than it
 * for having waited for nothing; what an answer will have is learnt from answers of its size. */

enum { PAYERS = 3, ITEMS = 400 };

struct item {
    uint32_t payer;
    double cost, tag;
    bool has_begun;
};

static struct item item[PAYERS * ITEMS];

static struct item *least(size_t n)
{
    struct item *best = NULL;

    for (size_t i = 0; i < n; i++)
        if (!item[i].has_begun && (!best || item[i].tag < best->tag))
            best = &item[i];
    return best;
}

/* All that wait have, for their shares, the same to one item of each: Goyal, Vin, Cheng, theorem 1.
 */
START_TEST(payers_that_wait_get_what_their_shares_say)
{
    static const double share[PAYERS] = { 1, 2, 5 }, most[PAYERS] = { 10, 300, 40 };
    struct spot_fair_queue q = { 0 };
    double got[PAYERS] = { 0 };
    struct spot_rng rng;
    size_t n = 0;

    spot_rng_init(&rng, 1, 0);
    for (int i = 0; i < ITEMS; i++)
        for (uint32_t p = 0; p < PAYERS; p++) {
            item[n] = (struct item){ .payer = p, .cost = 1 + most[p] * spot_rng_unit(&rng) };
            item[n].tag = spot_fair_queue_add(&q, p, share[p], item[n].cost);
            n++;
        }
    for (int k = 0; k < ITEMS / 2; k++) { /* none has run dry */
        struct item *const x = least(n);

        x->has_begun = true;
        spot_fair_queue_begin(&q, x->payer, x->tag);
        got[x->payer] += x->cost;
        for (uint32_t a = 0; a < PAYERS; a++)
            for (uint32_t b = 0; b < a; b++)
                ck_assert_double_le(fabs(got[a] / share[a] - got[b] / share[b]),
                                    (1 + most[a]) / share[a] + (1 + most[b]) / share[b]);
    }
    spot_fair_queue_release(&q);
}
END_TEST

START_TEST(who_waited_for_nothing_has_saved_nothing_up)
{
    struct spot_fair_queue q = { 0 };
    double first, second;

    for (int i = 0; i < 100; i++)
        spot_fair_queue_begin(&q, 1, spot_fair_queue_add(&q, 1, 1, 10));
    first = spot_fair_queue_add(&q, 1, 1, 10);
    second = spot_fair_queue_add(&q, 2, 1, 10);
    ck_assert_double_le(fabs(first - second), 10);
    ck_assert_double_eq_tol(spot_fair_queue_part(&q, 1, 1), 0.5, 1e-12);
    spot_fair_queue_leave(&q, 2);
    ck_assert_double_eq_tol(spot_fair_queue_part(&q, 1, 1), 1, 1e-12);
    ck_assert_uint_eq(spot_fair_queue_n(&q, 1), 1);
    spot_fair_queue_release(&q);
}
END_TEST

START_TEST(an_answer_is_expected_to_be_like_those_of_its_size)
{
    struct spot_output_guess g = { { 0 }, { 0 } };

    ck_assert_double_eq_tol(spot_output_guess_left(&g, 200, 0), 100, 1e-9);
    for (int i = 0; i < 50; i++) {
        spot_output_guess_note(&g, 200, 50);
        spot_output_guess_note(&g, 4000, 4000);
    }
    ck_assert_double_eq_tol(spot_output_guess_left(&g, 200, 0), 50, 1e-9);
    ck_assert_double_eq_tol(spot_output_guess_left(&g, 180, 10), 35, 1e-9); /* of its size */
    ck_assert_double_eq_tol(spot_output_guess_left(&g, 200, 120), 10, 1e-9);
    ck_assert_double_eq_tol(spot_output_guess_left(&g, 4000, 1000), 3000, 1e-9);
    ck_assert_double_eq_tol(spot_output_guess_left(&g, 200, 200), 0, 1e-9);
    for (int i = 0; i < 500; i++)
        spot_output_guess_note(&g, 200, 150); /* the times change */
    ck_assert_double_gt(spot_output_guess_left(&g, 200, 0), 145);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("fair_queue");

    tcase_add_test(c, payers_that_wait_get_what_their_shares_say);
    tcase_add_test(c, who_waited_for_nothing_has_saved_nothing_up);
    tcase_add_test(c, an_answer_is_expected_to_be_like_those_of_its_size);
    return run_case("fair_queue", c);
}
