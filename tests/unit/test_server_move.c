/* SPDX-License-Identifier: MIT */
/* lane: wait */
#define _GNU_SOURCE /* mkdtemp, strndup, syscall */
#include "serve_rig.h"

/* Goal: workers that leave, are killed, stand still or join, and plans that change what replicas
 * are made of, change no word of an answer under way; pages go from the one that leaves to the one
 * that goes on, or are there as copies, of stages and of tensor groups too. */

/* Two replicas, each with some of the answers. */
static void begin(const struct spot_server_options *o)
{
    start_server(o);
    start_workers((int)(2 * o->P * o->M), 2);
    ask_in_the_middle("");
}

static void end(void)
{
    set_pace(0);
    expect_all("model");
    end_well();
}

static const struct {
    uint32_t P, M;
} cut[] = { { 1, 1 }, { 2, 2 } };
enum { CUTS = sizeof(cut) / sizeof(cut[0]) };

/* --- one goes --- */

START_TEST(pages_of_a_worker_that_leaves_go_to_who_goes_on)
{
    struct spot_server_options o = serving();

    o.P = cut[_i].P;
    o.M = cut[_i].M;
    begin(&o);
    kill(rig.worker[0], SIGTERM);
    UNTIL(metric("spot_serve_moves_with_pages_total") >= 1);
    UNTIL(metric("spot_serve_tokens_from_pages_total") > 16);
    ck_assert_int_eq(end_of(&rig.worker[0]), 75); /* nothing is lost */
    ck_assert(metric("spot_serve_page_bytes_per_second") > 0);
    UNTIL(metric("spot_serve_preemptions_total") >= 1); /* the server may read of the end later */
    end();
}
END_TEST

START_TEST(a_buddy_has_copies_of_the_pages_of_a_worker_that_is_killed)
{
    struct spot_server_options o = serving();

    o.P = cut[_i].P;
    o.M = cut[_i].M;
    o.has_buddies = true;
    begin(&o);
    ck_assert_int_eq(strike(0, SIGKILL), -SIGKILL);
    UNTIL(metric("spot_serve_tokens_from_pages_total") > 16);
    ck_assert(metric("spot_serve_moves_total") >= 1);
    ck_assert(metric("spot_serve_moves_with_pages_total") == 0); /* nobody was there to give them */
    end();
}
END_TEST

START_TEST(without_copies_a_killed_worker_costs_time_and_no_word)
{
    struct spot_server_options o = serving();

    begin(&o);
    ck_assert_int_eq(strike(1, SIGKILL), -SIGKILL);
    UNTIL(metric("spot_serve_replicas") == 1);
    ck_assert(metric("spot_serve_preemptions_total") == 1);
    start_worker(2);
    UNTIL(metric("spot_serve_replicas") == 2);
    ck_assert(metric("spot_serve_tokens_from_pages_total") == 0);
    end();
}
END_TEST

/* An only worker that leaves hands over to nobody: its answers wait for who comes. */
START_TEST(who_comes_goes_on_with_what_nobody_has)
{
    struct spot_server_options o = serving();

    start_server(&o);
    start_workers(1, 1);
    ask_in_the_middle("");
    ck_assert_int_eq(strike(0, SIGKILL), -SIGKILL);
    UNTIL(metric("spot_serve_choices_queued") == ASKED);
    start_worker(1);
    end();
}
END_TEST

/* --- replicas of several --- */

START_TEST(what_is_left_of_two_replicas_becomes_one)
{
    struct spot_server_options o = serving();

    o.P = 2;
    start_server(&o);
    for (int i = 0; i < 4; i++) { /* two and two, as they come */
        start_worker(i);
        UNTIL(metric("spot_joins_total") == i + 1);
    }
    UNTIL(metric("spot_serve_replicas") == 2);
    ask_in_the_middle("");
    kill(rig.worker[0], SIGKILL);
    kill(rig.worker[3], SIGKILL);
    end_of(&rig.worker[0]);
    end_of(&rig.worker[3]);
    UNTIL(metric("spot_serve_replicas") == 1 && metric("spot_serve_preemptions_total") >= 2);
    end();
}
END_TEST

START_TEST(a_prompt_of_several_choices_is_shared_by_all_members)
{
    struct spot_server_options o = serving();
    static const char body[] =
        "{\"model\": \"model\", \"prompt\": \"The same prompt of two pages for all of them\", "
        "\"max_tokens\": 30, \"temperature\": 0, \"n\": 4}";
    char *const want = wanted("model", "The same prompt of two pages for all of them", 30);
    const struct talk *k;

    o.P = 2;
    o.M = 2;
    start_server(&o);
    start_workers(4, 1);
    k = ask("POST", "/v1/completions", body);
    EXPECT_TEXT(talk_body(k), "choices.0.text", want);
    EXPECT_TEXT(talk_body(k), "choices.1.text", want);
    EXPECT_TEXT(talk_body(k), "choices.3.text", want);
    free(want);
    end_well();
}
END_TEST

/* Sequences that must give their pages up are computed again. */
START_TEST(a_cache_of_one_context_serves_several)
{
    struct spot_server_options o = serving();

    o.P = 2;
    o.kv_byte = CONTEXT / SPOT_INFER_PAGE * 6144; /* three of the four layers */
    start_server(&o);
    start_workers(2, 1);
    ask_all("");
    expect_all("model");
    ck_assert(metric("spot_serve_kv_pages") == CONTEXT / SPOT_INFER_PAGE);
    end_well();
}
END_TEST

/* --- plans --- */

static int replan(const char *next, const char *more, struct spot_buf *answer)
{
    static int time_s;
    char text[512];
    struct spot_err err;
    int rc;

    snprintf(text, sizeof(text),
             "{\"schema\":\"spot.plan/1\",\"kind\":\"serve\",\"job\":\"x\",\"time_s\":%d,\"next\":"
             "{%s}%s}",
             ++time_s, next, more);
    spot_buf_release(answer);
    rc =
        spot_client_ask(at_dir("join"), NULL, 0, SPOT_MSG_REPLAN, text, strlen(text), answer, &err);
    ck_assert_msg(rc >= 0, "%s", err.msg);
    spot_buf_add(answer, "", 1);
    return rc;
}

static void expect_refused(const char *next, const char *text)
{
    struct spot_buf answer = { 0 };

    ck_assert_int_ne(replan(next, "", &answer), 0);
    ck_assert_msg(strstr((const char *)answer.data, text), "%s", (const char *)answer.data);
    spot_buf_release(&answer);
}

START_TEST(plans_change_replicas_and_no_word)
{
    struct spot_server_options o = serving();
    struct spot_buf answer = { 0 };

    start_server(&o);
    start_workers(4, 4);
    ask_in_the_middle("");
    ck_assert_int_eq(replan("\"D\":1,\"P\":2,\"M\":2,\"B\":2", "", &answer), 0);
    UNTIL(status_number("P") == 2 || metric("spot_serve_replicas") == 1);
    expect_refused("\"D\":1,\"P\":1,\"M\":3,\"B\":1",
                   "a tensor group of 3: must be a power of two");
    expect_refused("\"D\":1,\"P\":5,\"M\":1,\"B\":1", "5 stages of a model of 4 layers");
    ck_assert_int_eq(replan("\"D\":0,\"P\":0,\"M\":1,\"B\":1", "", &answer),
                     0); /* stop, and keep */
    UNTIL(metric("spot_serve_replicas") == 0);
    ck_assert_int_eq(replan("\"D\":2,\"P\":1,\"M\":1,\"B\":2", "", &answer), 0);
    UNTIL(metric("spot_serve_replicas") == 2);
    spot_buf_release(&answer);
    end();
}
END_TEST

START_TEST(a_plan_to_train_is_refused)
{
    struct spot_server_options o = serving();
    static const char text[] =
        "{\"schema\":\"spot.plan/1\",\"job\":\"x\",\"time_s\":1,\"next\":{\"D\":1,\"P\":1}}";
    struct spot_buf answer = { 0 };
    struct spot_err err;

    start_server(&o);
    UNTIL(talk_status(ask("GET", "/health", "")) == 503);
    ck_assert_int_ne(spot_client_ask(at_dir("join"), NULL, 0, SPOT_MSG_REPLAN, text, strlen(text),
                                     &answer, &err),
                     0);
    spot_buf_add(&answer, "", 1);
    ck_assert_str_eq((const char *)answer.data, "the plan is not for serving, but this job serves");
    spot_buf_release(&answer);
    end_well();
}
END_TEST

/* What the status says of the load of a worker; -1: nothing. */
static double load_of(const char *name)
{
    char *const text = status();
    double load = -1;

    for (int i = 0; i < 2; i++) {
        char path[32], *of;

        snprintf(path, sizeof(path), "members.%d.name", i);
        of = text_in(text, path);
        snprintf(path, sizeof(path), "members.%d.load", i);
        if (of && !strcmp(of, name))
            load = number_in(text, path);
        free(of);
    }
    free(text);
    return load;
}

START_TEST(who_has_three_times_the_weight_takes_three_times_the_load)
{
    struct spot_server_options o = serving();

    write_text(in_dir("plan.json"),
               "{\"schema\":\"spot.plan/1\",\"kind\":\"serve\",\"job\":\"x\",\"time_s\":1,\"next\":"
               "{\"D\":2,\"P\":1,\"M\":1,\"B\":4},\"weights\":[{\"node\":\"w1\",\"weight\":3}]}");
    o.group.plan = in_dir("plan.json");
    start_server(&o);
    start_workers(2, 2);
    ask_in_the_middle("");
    ck_assert_double_ge(load_of("w1"), 3); /* of four; without a weight 2 */
    end();
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("server_move");

    be_worker(argc, argv);
    make_dir();
    tcase_add_loop_test(tc, pages_of_a_worker_that_leaves_go_to_who_goes_on, 0, CUTS);
    tcase_add_loop_test(tc, a_buddy_has_copies_of_the_pages_of_a_worker_that_is_killed, 0, CUTS);
    tcase_add_test(tc, without_copies_a_killed_worker_costs_time_and_no_word);
    tcase_add_test(tc, who_comes_goes_on_with_what_nobody_has);
    tcase_add_test(tc, what_is_left_of_two_replicas_becomes_one);
    tcase_add_test(tc, a_prompt_of_several_choices_is_shared_by_all_members);
    tcase_add_test(tc, a_cache_of_one_context_serves_several);
    tcase_add_test(tc, plans_change_replicas_and_no_word);
    tcase_add_test(tc, a_plan_to_train_is_refused);
    tcase_add_test(tc, who_has_three_times_the_weight_takes_three_times_the_load);
    return run_server_suite("server_move", tc);
}
