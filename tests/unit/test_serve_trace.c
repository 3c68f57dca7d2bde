/* SPDX-License-Identifier: MIT */
/* Goal: the comings and goings of a trace become events of instances, each of which is there once.
 */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include <stdlib.h>
#include <string.h>

#include "sim/serve_play.h"
#include "suite.h"

static struct spot_serve_play play_of_trace(const char *text)
{
    struct spot_serve_play play = { 0 };
    struct spot_trace trace;
    struct spot_err err;
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

    ck_assert_msg(!spot_trace_load(&trace, in, "t", &err), "%s", err.msg);
    fclose(in);
    spot_serve_play_trace(&play, &trace, 1);
    spot_trace_release(&trace);
    return play;
}

START_TEST(a_trace_in_both_forms_gives_comings_and_goings)
{
    static const char count[] = "time_s,available,zone\n0,2,a\n5,3,a\n9,1,a\n2,1,b\n10,0,b\n";
    static const char node[] = "time_s,event,node\n0,add,x\n4,notice,x\n6,remove,x\n6,add,y\n";
    static const char *const text[] = { count, node };

    for (int k = 0; k < 2; k++) {
        const struct spot_serve_play play = play_of_trace(text[k]);
        int there = 0;

        ck_assert_uint_eq(play.n_event, k ? 3 : 7);
        for (size_t i = 0; i < play.n_event; i++) {
            ck_assert(!i || play.event[i].time_s >= play.event[i - 1].time_s);
            there += play.event[i].comes ? 1 : -1;
            for (size_t j = 0; j < i; j++) /* a name comes once */
                ck_assert(!play.event[i].comes || !play.event[j].comes ||
                          play.event[i].instance != play.event[j].instance);
        }
        ck_assert_int_eq(there, 1);
        ck_assert(k == 0 || !play.event[1].comes); /* at one time losses come first */
        free(play.event);
    }
}
END_TEST

START_TEST(who_comes_and_goes_at_one_time_was_never_there)
{
    static const char text[] = "time_s,event,node\n0,add,x\n6,add,z\n6,remove,z\n"
                               "7,remove,x\n7,add,x\n8,remove,x\n8,add,x\n8,remove,x\n9,add,y\n";
    static const struct {
        double time_s;
        bool comes;
    } want[] = { { 0, true }, { 7, false }, { 7, true }, { 8, false }, { 9, true } };
    const struct spot_serve_play play = play_of_trace(text);

    ck_assert_uint_eq(play.n_event, 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert(play.event[i].time_s == want[i].time_s && play.event[i].comes == want[i].comes);
    ck_assert_uint_eq(play.event[3].instance, play.event[2].instance);
    free(play.event);
}
END_TEST

START_TEST(who_comes_shortly_before_a_loss_comes_with_it)
{
    struct spot_serve_event event[] = {
        { 0, true, 0 },   { 10, true, 1 }, { 25, true, 2 },
        { 30, false, 0 }, { 31, true, 3 }, { 40, false, 1 },
    };
    static const struct spot_serve_event want[] = {
        { 0, true, 0 },  { 10, true, 1 },  { 30, false, 0 },
        { 30, true, 2 }, { 40, false, 1 }, { 40, true, 3 },
    };
    struct spot_serve_play play = { .event = event, .n_event = 6 };

    spot_serve_play_merge(&play, 9);
    for (int i = 0; i < 6; i++)
        ck_assert_msg(event[i].time_s == want[i].time_s && event[i].comes == want[i].comes &&
                          event[i].instance == want[i].instance,
                      "event %d: %g %d %u", i, event[i].time_s, event[i].comes,
                      (unsigned)event[i].instance);
}
END_TEST

int main(void)
{
    return run_suite("serve_trace", add_tests(tcase_create("serve_trace")));
}
