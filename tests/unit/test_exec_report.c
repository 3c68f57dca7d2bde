/* SPDX-License-Identifier: MIT */
/* lane: wait */
/* Goal: the report of a hosted job says of each round why it began, of several causes the first in
 * the order of the header; pauses are from commit to commit, and what became durable is counted by
 * place; all numbers are those that the story below has by hand.
 */
#include <math.h>

#include "model/exec_report.h"
#include "suite.h"

static struct spot_hosting h;

static void set_up(void)
{
    h = (struct spot_hosting){ 0 };
}

static void tear_down(void)
{
    spot_hosting_release(&h);
    ck_assert_ptr_null(h.round);
}

static void take(double time_s, enum spot_event_kind kind)
{
    spot_hosting_take(&h, &(struct spot_event){ .kind = kind, .time_s = time_s });
}

static void form(double time_s, int64_t restart, bool is_kept)
{
    spot_hosting_take(&h, &(struct spot_event){ .kind = SPOT_EVENT_FORMED,
                                                .time_s = time_s,
                                                .restart = restart,
                                                .grid = { .D = 2 + restart },
                                                .is_kept = is_kept });
}

static void at_step(double time_s, enum spot_event_kind kind, int64_t step)
{
    spot_hosting_take(&h, &(struct spot_event){ .kind = kind, .time_s = time_s, .step = step });
}

static void durable(double time_s, int64_t step, const char *where, int64_t byte, double lag_s)
{
    spot_hosting_take(&h, &(struct spot_event){ .kind = SPOT_EVENT_DURABLE,
                                                .time_s = time_s,
                                                .step = step,
                                                .where = where,
                                                .moved_byte = byte,
                                                .lag_s = lag_s });
}

/* A round that ends and the next one, after the causes that were taken. */
static enum spot_hosting_cause next_round(double end_s)
{
    take(end_s, SPOT_EVENT_QUIESCE);
    form(end_s + 1, (int64_t)h.n_round, false);
    return h.round[h.n_round - 1].cause;
}

START_TEST(a_round_began_for_the_first_of_its_causes)
{
    take(0, SPOT_EVENT_JOINED);
    take(0, SPOT_EVENT_FAILED); /* the first one is the start, whatever came before */
    form(0, 0, false);
    ck_assert_int_eq(h.round[0].cause, SPOT_HOSTING_START);
    ck_assert(isnan(h.round[0].ended_s));
    take(1, SPOT_EVENT_JOINED);
    ck_assert_int_eq(next_round(1), SPOT_HOSTING_JOIN);
    take(3, SPOT_EVENT_JOINED);
    take(3, SPOT_EVENT_LOST);
    take(3, SPOT_EVENT_NOTICE);
    ck_assert_int_eq(next_round(3), SPOT_HOSTING_KILL);
    take(5, SPOT_EVENT_LEFT); /* who left had a notice */
    take(5, SPOT_EVENT_JOINED);
    ck_assert_int_eq(next_round(5), SPOT_HOSTING_NOTICE);
    take(7, SPOT_EVENT_LOST);
    take(7, SPOT_EVENT_FAILED);
    ck_assert_int_eq(next_round(7), SPOT_HOSTING_FAILURE);
    ck_assert_int_eq(next_round(9), SPOT_HOSTING_OTHER);
    for (int cause = 0; cause < SPOT_HOSTING_CAUSES; cause++)
        ck_assert_uint_eq(spot_hosting_rounds(&h, (enum spot_hosting_cause)cause), 1);
    ck_assert_uint_eq(h.n_mark, 2 + 1 + 3 + 1 + 2); /* without who left, who was noticed before */
    ck_assert_double_eq(spot_hosting_down_s(&h), 5);
    ck_assert_int_eq(h.failures, 2);
}
END_TEST

START_TEST(ranks_that_go_on_make_no_round)
{
    take(0, SPOT_EVENT_EXEC);
    form(0, 0, false);
    take(2, SPOT_EVENT_EXEC);
    form(3, 0, true);
    ck_assert_uint_eq(h.n_round, 1);
    ck_assert_int_eq(h.kept, 1);
    ck_assert_int_eq(h.coordinators, 2);
    ck_assert_int_eq(h.round[0].nodes, 2);
    take(4, SPOT_EVENT_GIVEN_UP);
    ck_assert(h.has_given_up && !h.is_finished);
    take(4, SPOT_EVENT_FINISHED);
    ck_assert(h.is_finished);
}
END_TEST

/* Of an odd and of an even number of pauses. */
START_TEST(a_pause_is_from_the_last_commit_to_the_first_of_the_round)
{
    const double commit_s[] = { 10, 14, 17, 30 }; /* pauses 4, 3, 13 */
    struct spot_hosting_pauses p;

    form(0, 0, false);
    p = spot_hosting_pauses(&h, SPOT_HOSTING_JOIN);
    ck_assert(!p.n && isnan(p.median_s) && isnan(p.max_s));
    at_step(commit_s[0], SPOT_EVENT_STATE_COMMITTED, 1);
    for (int i = 1; i < 4; i++) {
        take(commit_s[i - 1] + 1, SPOT_EVENT_JOINED);
        (void)next_round(commit_s[i - 1] + 1);
        at_step(commit_s[i], SPOT_EVENT_STATE_COMMITTED, i + 1);
        if (i == 2) {
            p = spot_hosting_pauses(&h, SPOT_HOSTING_JOIN);
            ck_assert_uint_eq(p.n, 2);
            ck_assert_double_eq(p.median_s, 3.5);
            ck_assert_double_eq(p.max_s, 4);
        }
    }
    p = spot_hosting_pauses(&h, SPOT_HOSTING_JOIN);
    ck_assert_uint_eq(p.n, 3);
    ck_assert_double_eq(p.median_s, 4);
    ck_assert_double_eq(p.max_s, 13);
    p = spot_hosting_pauses(&h, SPOT_HOSTING_START); /* nothing was committed before it */
    ck_assert_uint_eq(p.n, 0);
    take(40, SPOT_EVENT_JOINED);
    (void)next_round(40); /* no commit yet */
    ck_assert_uint_eq(spot_hosting_pauses(&h, SPOT_HOSTING_JOIN).n, 3);
}
END_TEST

START_TEST(commits_are_counted_and_what_was_lost_of_them)
{
    form(0, 0, false);
    at_step(1, SPOT_EVENT_STATE_COMMITTED, 10);
    durable(2, 10, "memory", 100, 1);
    at_step(3, SPOT_EVENT_STATE_COMMITTED, 20);
    durable(4, 20, "memory", 50, 3);
    durable(5, 20, "disk", 7, 2);
    durable(6, 20, "store", 5, 4);
    durable(6, 20, NULL, 5, 4); /* of a log that is newer than this program */
    at_step(7, SPOT_EVENT_STATE_COMMITTED, 30);
    spot_hosting_take(&h, &(struct spot_event){
                              .kind = SPOT_EVENT_ROLLED_BACK, .from = 30, .to = 20, .time_s = 8 });
    at_step(9, SPOT_EVENT_STATE_RESTORED, 20);
    take(10, SPOT_EVENT_MIGRATE); /* of another kind of job */
    ck_assert_int_eq(h.commits, 3);
    ck_assert_int_eq(h.rollbacks, 1);
    ck_assert_int_eq(h.rolled_back, 10);
    ck_assert_int_eq(h.restores, 1);
    ck_assert_int_eq(h.step, 20);
    ck_assert_int_eq(h.durable[SPOT_HOSTING_MEMORY].count, 2);
    ck_assert_int_eq(h.durable[SPOT_HOSTING_MEMORY].step, 20);
    ck_assert_int_eq(h.durable[SPOT_HOSTING_MEMORY].moved_byte, 150);
    ck_assert_double_eq(h.durable[SPOT_HOSTING_MEMORY].lag_max_s, 3);
    ck_assert_int_eq(h.durable[SPOT_HOSTING_DISK].moved_byte, 7);
    ck_assert_double_eq(h.durable[SPOT_HOSTING_STORE].lag_max_s, 4);
    ck_assert_uint_eq(h.n_point, 3 + 4 + 1);
    ck_assert_int_eq(h.point[7].place, SPOT_HOSTING_PLACES);
    ck_assert_int_eq(h.point[7].step, 20);
    ck_assert_int_eq(h.point[3].place, SPOT_HOSTING_MEMORY);
}
END_TEST

START_TEST(causes_and_places_have_the_names_of_the_document)
{
    ck_assert_str_eq(spot_hosting_cause_name(SPOT_HOSTING_START), "start");
    ck_assert_str_eq(spot_hosting_cause_name(SPOT_HOSTING_OTHER), "other");
    ck_assert_str_eq(spot_hosting_place_name(SPOT_HOSTING_MEMORY), "memory");
    ck_assert_str_eq(spot_hosting_place_name(SPOT_HOSTING_STORE), "store");
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("exec_report");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("exec_report", tc);
}
