/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "cluster/suspect.h"
#include "suite.h"

/* Goal: of members that do not reach each other the right one is set aside. Every small job in
 * which one member cannot be reached, with every order in which the others may find that out;
 * random graphs of who reaches whom, of which no pair may be left to work together; bad luck is no
 * guilt. */

enum { N_MAX = 5 };

static struct spot_suspects suspects;
static struct spot_suspect_member member[N_MAX];
static char name[N_MAX][16];
static double now_s;

static void begin(int n)
{
    now_s = 1000;
    for (int i = 0; i < n; i++) {
        snprintf(name[i], sizeof(name[i]), "w%d", i);
        member[i] = (struct spot_suspect_member){ .name = name[i],
                                                  .id = (uint32_t)i + 1,
                                                  .has_place = true };
    }
}

static bool is_aside(int i)
{
    return spot_suspects_is_aside(&suspects, name[i]);
}

static size_t judge(int n)
{
    return spot_suspects_judge(&suspects, member, (size_t)n, now_s++);
}

static void accuse(int by, int of, bool has_answered)
{
    spot_suspects_accuse(&suspects, name[by], name[of], has_answered, "why", now_s);
}

/* Those of the others whose bit is set, and who may still work, do not reach the bad one. Is there
 * such a pair? */
static bool fail_with(int n, int bad, unsigned who)
{
    bool any = false;

    for (int i = 0; i < n; i++)
        if (i != bad && (who >> i & 1) && !is_aside(i) && !is_aside(bad)) {
            accuse(i > bad ? i : bad, i > bad ? bad : i, false); /* the younger connects */
            any = true;
        }
    return any;
}

/* All ways in which three epochs may fail; each member tells of it, or is too slow to. */
static void check_bad(int n, int bad, bool has_witness)
{
    const unsigned all = 1u << n;

    for (unsigned way = 0; way < all * all * all; way++) {
        int n_failed = 0;

        begin(n);
        member[bad].is_missed = has_witness;
        for (int epoch = 0; epoch < 3; epoch++)
            if (fail_with(n, bad, way / (epoch == 0 ? 1 : epoch == 1 ? all : all * all) % all)) {
                judge(n);
                n_failed++;
                if (has_witness)
                    ck_assert(is_aside(bad));
            }
        ck_assert_int_le(n_failed, has_witness ? 1 : 2);
        if (n_failed == 2 || (has_witness && n_failed))
            for (int i = 0; i < n; i++)
                ck_assert_msg(is_aside(i) == (i == bad), "n %d, bad %d, way %u: %d", n, bad, way,
                              i);
        spot_suspects_release(&suspects);
    }
}

START_TEST(whoever_cannot_be_reached_is_found_in_two_epochs_and_nobody_else_pays)
{
    for (int n = 2; n <= N_MAX; n++)
        for (int bad = 0; bad < n; bad++)
            for (int witness = 0; witness < 2; witness++)
                check_bad(n, bad, witness);
}
END_TEST

START_TEST(when_all_tell_one_epoch_is_enough)
{
    for (int n = 3; n <= N_MAX; n++)
        for (int bad = 0; bad < n; bad++) {
            begin(n);
            ck_assert(fail_with(n, bad, ~0u));
            ck_assert_uint_eq(judge(n), 1);
            ck_assert(is_aside(bad));
            spot_suspects_release(&suspects);
        }
}
END_TEST

START_TEST(of_any_graph_no_torn_pair_is_left_to_work_together)
{
    for (unsigned graph = 0; graph < 1u << (N_MAX * (N_MAX - 1) / 2); graph++) {
        int edge = 0;

        begin(N_MAX);
        for (int a = 0; a < N_MAX; a++)
            for (int b = a + 1; b < N_MAX; b++, edge++)
                if (graph >> edge & 1)
                    accuse(b, a, false);
        ck_assert(spot_suspects_has_news(&suspects) == (graph != 0));
        judge(N_MAX);
        ck_assert(!spot_suspects_has_news(&suspects));
        edge = 0;
        for (int a = 0; a < N_MAX; a++)
            for (int b = a + 1; b < N_MAX; b++, edge++)
                ck_assert(!(graph >> edge & 1) || is_aside(a) || is_aside(b));
        for (int i = 0; i < N_MAX; i++) { /* and nobody is for nothing */
            bool is_torn = false;

            edge = 0;
            for (int a = 0; a < N_MAX; a++)
                for (int b = a + 1; b < N_MAX; b++, edge++)
                    is_torn |= (graph >> edge & 1) && (a == i || b == i);
            ck_assert(is_torn || !is_aside(i));
        }
        spot_suspects_release(&suspects);
    }
}
END_TEST

START_TEST(a_connection_that_broke_once_is_bad_luck_twice_in_a_row_it_is_not)
{
    begin(3);
    for (int k = 0; k < 10; k++) {
        accuse(1, 0, true);
        accuse(0, 1, true); /* both ends tell */
        ck_assert_uint_eq(judge(3), 0);
        spot_suspects_committed(&suspects);
    }
    for (int k = 0; k < 2; k++) {
        accuse(1, 0, true);
        ck_assert_uint_eq(judge(3), (size_t)k);
    }
    ck_assert(is_aside(1));
    spot_suspects_release(&suspects);
}
END_TEST

START_TEST(who_accuses_itself_goes_and_who_has_a_place_stays)
{
    begin(3);
    accuse(1, 0, false);
    accuse(2, 0, false);
    accuse(1, 1, false); /* it has no descriptor left */
    judge(3);
    ck_assert(is_aside(1) && is_aside(0) && !is_aside(2)); /* 2 does not reach 0 either way */
    spot_suspects_release(&suspects);
    begin(2);
    member[0].has_place = false;
    accuse(1, 0, false);
    judge(2);
    ck_assert(is_aside(0) && !is_aside(1));
    spot_suspects_release(&suspects);
}
END_TEST

START_TEST(the_dead_are_no_evidence)
{
    begin(3);
    accuse(2, 0, false);
    accuse(1, 0, false);
    ck_assert_uint_eq(spot_suspects_judge(&suspects, member + 1, 2, now_s), 0); /* 0 is gone */
    accuse(2, 1, false);
    judge(3);
    ck_assert(is_aside(2) && !is_aside(1) && !is_aside(0));
    spot_suspects_release(&suspects);
}
END_TEST

START_TEST(names_count_across_joins_and_time_grows_until_all_is_forgotten)
{
    static const double want_s[] = { 20, 40, 640, 640 };

    begin(2);
    for (int k = 0; k < 4; k++) {
        const struct spot_suspect *s;

        member[1].id = (uint32_t)(10 + k); /* it joined anew */
        accuse(1, 0, false);
        ck_assert_uint_eq(judge(2), 1);
        s = spot_suspects_find(&suspects, name[1]);
        ck_assert_int_eq(s->n_aside, k + 1);
        ck_assert_double_eq(s->aside_until_s - s->aside_s, want_s[k]);
        ck_assert_str_eq(s->why, "w1 does not reach w0: why");
        spot_suspects_pardon(&suspects, name[1]);
        ck_assert(!is_aside(1));
    }
    now_s += 700;
    judge(2);
    ck_assert_ptr_null(spot_suspects_find(&suspects, name[1]));
    spot_suspects_release(&suspects);
}
END_TEST

START_TEST(who_was_proved_guilty_stays_aside_for_good)
{
    begin(2);
    for (int i = 0; i < 20; i++) /* names move as they become more */
        spot_suspects_convict(&suspects, i % 2 ? "other" : name[0], "wrong sums", now_s);
    ck_assert(spot_suspects_is_aside(&suspects, name[0]));
    ck_assert(spot_suspects_is_convicted(&suspects, name[0]));
    spot_suspects_pardon(&suspects, name[0]);
    now_s += 1e6;
    judge(2);
    ck_assert(spot_suspects_is_convicted(&suspects, name[0]));
    ck_assert(!spot_suspects_is_aside(&suspects, name[1]));
    ck_assert(!spot_suspects_is_convicted(&suspects, name[1]));
    spot_suspects_release(&suspects);
}
END_TEST

int main(void)
{
    return run_suite("suspect", add_tests(tcase_create("core")));
}
