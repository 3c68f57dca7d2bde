/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <stdlib.h>

#include "live_rig.h"
#include "model/report.h"

/* Goal: who gets which part of the state, and when, changes no bit: state that moves ahead of a new
 * grid moves beside steps and not in a pause; a buddy or a spare that comes later gets its part the
 * same way; a plan's places are kept, and one that cannot be is told; a plan in a file is read
 * again when it changes, and a bad one leaves that in force. */

/* How often the log has a text; it may not be there yet. */
static int count(const char *log, const char *text)
{
    static char line[1 << 16];
    FILE *const in = fopen(log, "r");
    int n = 0;

    while (in && fgets(line, sizeof(line), in))
        n += strstr(line, text) != NULL;
    if (in)
        fclose(in);
    return n;
}

static void wait_for_event(const char *log, const char *text)
{
    for (int k = 0; k < 12000 && !count(log, text); k++)
        spot_clock_sleep(0.005);
    ck_assert_msg(count(log, text) > 0, "no '%s' in the log", text);
}

/* Of numbers behind a key, over the log. */
static double sum(const char *log, const char *key)
{
    static char line[1 << 16];
    FILE *const in = fopen(log, "r");
    double s = 0;

    ck_assert_ptr_nonnull(in);
    while (fgets(line, sizeof(line), in)) {
        const char *const at = strstr(line, key);

        s += at ? strtod(at + strlen(key), NULL) : 0;
    }
    fclose(in);
    return s;
}

/* The first change of places after a notice: good until the next call. */
static const char *move_on_notice(const char *log)
{
    static char line[1 << 16];
    FILE *const in = fopen(log, "r");
    bool is_told = false;

    ck_assert_ptr_nonnull(in);
    while (fgets(line, sizeof(line), in) && !(is_told && strstr(line, "\"migrate\"")))
        is_told |= strstr(line, "\"notice\"") != NULL;
    fclose(in);
    return line;
}

/* All of them work in a grid of 1x2, or for it; who comes late to a busy machine finds another one.
 */
static void wait_for_stages(const char *log, int n_member)
{
    char text[64];
    int n;

    snprintf(text, sizeof(text), "\"D\":1,\"P\":2,\"M\":1,\"members\":%d,", n_member);
    wait_for_event(log, text);
    n = count(log, "\"committed\"");
    for (int k = 0; k < 12000 && count(log, "\"committed\"") == n; k++)
        spot_clock_sleep(0.005);
}

static struct spot_trainer_options placed(const char *name, uint32_t D, uint32_t P)
{
    struct spot_trainer_options o = job(0, D, P, 1);
    char log[64];

    snprintf(log, sizeof(log), "%s.log", name);
    o.state = in_dir("", name);
    o.events = in_dir("", log);
    o.precopy_byte = 0;
    o.grace_s = 60;
    return o;
}

static void wait_for_grid(const struct running *r, int D, int P)
{
    char text[64];

    snprintf(text, sizeof(text), "\"D\": %d,\n  \"P\": %d,\n  \"M\": 1,\n  \"want", D, P);
    wait_for(r, text);
}

static void wait_for_all(const pid_t *worker, size_t n)
{
    for (size_t i = 0; i < n; i++)
        waitpid(worker[i], NULL, 0);
}

START_TEST(from_grid_to_grid_by_plans_without_a_move_in_between)
{
    static const int to[][2] = { { 1, 2 }, { 2, 2 }, { 1, 4 }, { 2, 1 }, { 1, 1 } };
    struct spot_trainer_options o = placed("ahead", 1, 1);
    struct running r;
    pid_t worker[4];
    char answer[4096];

    o.no_buddies = true;
    begin_running(&r, &o, "ahead.socket");
    for (uint64_t i = 0; i < 4; i++)
        worker[i] = start_worker(&r, i);
    wait_for_event(o.events, "\"committed\"");
    for (size_t k = 0; k < sizeof(to) / sizeof(to[0]); k++) {
        ck_assert_int_eq(give_plan(&r, SPOT_MSG_REPLAN, 1e9 + (double)k, to[k][0], to[k][1], answer,
                                   sizeof(answer)),
                         0);
        wait_for_grid(&r, to[k][0], to[k][1]);
    }
    expect_stopped(&r, &o);
    wait_for_all(worker, 4);
    ck_assert_double_gt(sum(in_dir("", "ahead.log"), "\"precopy_byte\":"), 0);
    ck_assert_double_eq(sum(in_dir("", "ahead.log"), "\"moved_byte\":"), 0);
}
END_TEST

/* One works alone without a buddy; who joins becomes that, beside the steps; then the owner dies.
 */
START_TEST(a_buddy_that_comes_later_has_its_stage_when_the_owner_is_killed)
{
    struct spot_trainer_options o = placed("buddy", 1, 1);
    struct running r;
    pid_t worker[2];
    struct outcome got;

    begin_running(&r, &o, "buddy.socket");
    worker[0] = start_worker(&r, 0);
    wait_for_event(o.events, "\"committed\"");
    worker[1] = start_worker(&r, 1);
    wait_for_event(o.events, "\"buddies\":[\"local-1\"]");
    end_worker(worker[0], SIGKILL);
    wait_for_event(o.events, "\"lost\"");
    wait_for(&r, "\"phase\": \"run\"");
    got = expect_stopped(&r, &o);
    wait_for_all(worker + 1, 1);
    ck_assert_msg(strstr(got.warned, "last copy") == NULL, "%s", got.warned);
    ck_assert_int_eq(count(in_dir("", "buddy.log"), "\"rolled_back\""), 0);
}
END_TEST

/* --- notices --- */

/* A grid of 1x2 without buddies, and n members that hold nothing. */
static void begin_stages(struct running *r, struct spot_trainer_options *o, const char *name,
                         double grace_s, pid_t *worker, uint64_t n)
{
    char socket[64];

    *o = placed(name, 1, 2);
    o->no_buddies = true;
    o->grace_s = grace_s;
    o->config.shape.n_layer = 14; /* bundles enough for a handover of several steps */
    snprintf(socket, sizeof(socket), "%s.socket", name);
    begin_running(r, o, socket);
    for (uint64_t i = 0; i < 2; i++)
        worker[i] = start_worker(r, i);
    wait_for_stages(o->events, 2);
    for (uint64_t i = 2; i < 2 + n; i++)
        worker[i] = start_worker(r, i);
    for (uint64_t i = 2; i < 2 + n; i++) {
        char text[64];

        snprintf(text, sizeof(text), "\"name\": \"local-%d\"", (int)i);
        wait_for(r, text);
    }
}

static void expect_nothing_lost(const char *log)
{
    ck_assert_int_eq(count(log, "\"rolled_back\""), 0);
    ck_assert_int_eq(count(log, "\"lost\""), 0);
}

static const struct {
    const char *name;
    double grace_s; /* 0: not known */
    bool is_ahead;
} leaving[] = { { "long", 60, true }, { "untold", 0, false }, { "short", 0.001, false } };

/* Moves beside the steps where the deadline allows it, else at once; the leaver works on. A spare
 * that is slow to answer or to take may get the rest, or its place, later. */
START_TEST(one_that_leaves_hands_over_before_it_is_gone)
{
    struct spot_trainer_options o;
    struct running r;
    pid_t worker[3];
    char log[160];
    const char *move;

    begin_stages(&r, &o, leaving[_i].name, leaving[_i].grace_s, worker, 1);
    strcpy(log, o.events);
    end_worker(worker[0], SIGTERM);
    wait_for_grid(&r, 1, 2);
    wait_for(&r, "\"phase\": \"run\"");
    expect_stopped(&r, &o);
    wait_for_all(worker + 1, 2);
    expect_nothing_lost(log);
    move = move_on_notice(log);
    ck_assert_msg(strstr(move, "\"migrate\"") &&
                      (strstr(move, "\"precopy_byte\":") != NULL) == leaving[_i].is_ahead,
                  "%s", move);
    ck_assert_msg((strstr(move, "\"moved_byte\":0,") != NULL) == leaving[_i].is_ahead, "%s", move);
}
END_TEST

static const struct {
    const char *name;
    int who; /* is told meanwhile: the other member of the grid, an heir, or the first again */
} meanwhile[] = { { "both", 1 }, { "heir", 2 }, { "again", 0 } };

START_TEST(a_notice_while_state_is_handed_over_loses_nothing)
{
    const int who = meanwhile[_i].who;
    struct spot_trainer_options o;
    struct running r;
    pid_t worker[4];
    char log[160];

    begin_stages(&r, &o, meanwhile[_i].name, 60, worker, 2);
    strcpy(log, o.events);
    ck_assert_int_eq(kill(worker[0], SIGTERM), 0);
    wait_for_event(log, "\"precopy_byte\"");
    if (who)
        end_worker(worker[who], SIGTERM);
    else
        (void)kill(worker[0], SIGTERM); /* it may have left */
    waitpid(worker[0], NULL, 0);
    wait_for_grid(&r, 1, 2);
    wait_for(&r, "\"phase\": \"run\"");
    expect_stopped(&r, &o);
    for (int i = 1; i < 4; i++)
        if (i != who)
            waitpid(worker[i], NULL, 0);
    expect_nothing_lost(log);
}
END_TEST

START_TEST(the_last_worker_makes_the_state_durable_before_it_goes)
{
    struct spot_trainer_options o = placed("last", 1, 1);
    struct running r;
    pid_t worker[2];
    char log[160];

    o.durable_every_s = 3600;
    strcpy(log, o.events);
    begin_running(&r, &o, "last.socket");
    worker[0] = start_worker(&r, 0);
    wait_for_event(log, "\"step\":20,");
    end_worker(worker[0], SIGTERM);
    ck_assert_int_eq(count(log, "\"durable\""), 1);
    worker[1] = start_worker(&r, 1);
    wait_for(&r, "\"phase\": \"run\"");
    expect_stopped(&r, &o);
    wait_for_all(worker + 1, 1);
    expect_nothing_lost(log);
}
END_TEST

/* A stage that one member has and another mirrors is not lost with the first. */
START_TEST(a_buddy_saves_the_steps_of_the_last_holder)
{
    struct spot_trainer_options o = placed("mirror", 1, 2);
    struct running r;
    pid_t worker[3];
    char log[160];

    o.durable_every_s = 3600;
    strcpy(log, o.events);
    begin_running(&r, &o, "mirror.socket");
    for (uint64_t i = 0; i < 3; i++)
        worker[i] = start_worker(&r, i);
    wait_for_stages(log, 3);
    end_worker(worker[0], SIGKILL);
    wait_for_event(log, "\"lost\"");
    wait_for_grid(&r, 1, 2);
    wait_for(&r, "\"phase\": \"run\"");
    expect_stopped(&r, &o);
    wait_for_all(worker + 1, 2);
    ck_assert_int_eq(count(log, "\"rolled_back\""), 0);
}
END_TEST

/* --- places of a plan --- */

static const char placed_plan[] =
    "{\"schema\":\"spot.plan/1\",\"kind\":\"train\",\"job\":\"\",\"time_s\":%.0f,"
    "\"next\":{\"D\":1,\"P\":2,\"M\":1,\"B\":1},\"place\":["
    "{\"node\":\"local-%d\",\"d\":0,\"p\":0,\"m\":0},{\"node\":\"local-%d\",\"d\":0,\"p\":1,"
    "\"m\":0}]}";

static int place(const struct running *r, double time_s, int first, int second)
{
    char text[512], answer[4096];

    snprintf(text, sizeof(text), placed_plan, time_s, first, second);
    return ask(r, SPOT_MSG_REPLAN, text, answer, sizeof(answer));
}

/* As the status has a member with a place. */
static void wait_for_place(const struct running *r, const char *name, int p)
{
    char text[128];

    snprintf(text, sizeof(text), "\"name\": \"%s\",\n      \"d\": 0,\n      \"p\": %d,", name, p);
    wait_for(r, text);
}

START_TEST(places_of_a_plan_are_kept_and_those_of_nobody_are_told)
{
    struct spot_trainer_options o = placed("pinned", 1, 2);
    struct running r;
    pid_t worker[3];
    struct outcome got;

    o.precopy_byte = -1;
    begin_running(&r, &o, "pinned.socket");
    for (uint64_t i = 0; i < 3; i++)
        worker[i] = start_worker(&r, i);
    wait_for_event(o.events, "\"committed\"");
    ck_assert_int_eq(place(&r, 1e9, 2, 0), 0);
    wait_for_place(&r, "local-2", 0);
    wait_for_place(&r, "local-0", 1);
    ck_assert_int_eq(place(&r, 1e9 + 1, 0, 2), 0); /* the other way round */
    wait_for_place(&r, "local-0", 0);
    wait_for_place(&r, "local-2", 1);
    ck_assert_int_eq(place(&r, 1e9 + 2, 0, 2), 0); /* the same once more */
    ck_assert_int_eq(place(&r, 1e9 + 3, 7, 1), 0); /* nobody is called so */
    wait_for_place(&r, "local-1", 1);
    got = expect_stopped(&r, &o);
    wait_for_all(worker, 3);
    ck_assert_msg(strstr(got.warned, "the plan gives 'local-7' the place d 0, p 0, m 0, but no "
                                     "member of that name is available") != NULL,
                  "%s", got.warned);
}
END_TEST

/* --- a plan in a file --- */

static void write_plan(const char *path, const char *text)
{
    char fresh[200];
    FILE *out;

    snprintf(fresh, sizeof(fresh), "%s.new", path);
    out = fopen(fresh, "w");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
    ck_assert_int_eq(rename(fresh, path), 0);
}

static void write_grid(const char *path, double time_s, int D, int P)
{
    char text[512];

    snprintf(text, sizeof(text), plan_text, time_s, D, P);
    write_plan(path, text);
}

static char warned_path[160]; /* gets a line for each warning of the coordinator */

static void warn_to_file(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void warn_to_file(const char *fmt, ...)
{
    FILE *const out = fopen(warned_path, "a");
    va_list ap;

    va_start(ap, fmt);
    vfprintf(out, fmt, ap);
    va_end(ap);
    fputs("\n", out);
    fclose(out);
}

START_TEST(a_plan_in_a_file_is_read_again_and_a_bad_one_changes_nothing)
{
    struct spot_trainer_options o = placed("filed", 0, 0);
    struct running r;
    pid_t worker[2];
    char plan[160];

    strcpy(warned_path, in_dir("", "warned"));
    strcpy(plan, in_dir("", "plan.json"));
    o.warn = warn_to_file;
    o.plan = plan;
    write_grid(o.plan, 1, 1, 2);
    begin_running(&r, &o, "filed.socket");
    for (uint64_t i = 0; i < 2; i++)
        worker[i] = start_worker(&r, i);
    wait_for_grid(&r, 1, 2);
    write_grid(o.plan, 2, 2, 1);
    wait_for_grid(&r, 2, 1);
    write_plan(o.plan, "{\"schema\":");
    wait_for_event(warned_path, "plan.json:1:");
    write_grid(o.plan, 3, 99, 1);
    wait_for_event(warned_path, "the plan asks for 99x1: the job has 4 microbatches in a step");
    write_grid(o.plan, 1, 1, 2); /* older than what is in force */
    wait_for_event(warned_path, "the plan is of 1 s, older than the previous plan of 2 s");
    wait_for_grid(&r, 2, 1);
    write_grid(o.plan, 4, 0, 0);
    wait_for(&r, "\"suspended\": true");
    write_grid(o.plan, 5, 1, 2);
    wait_for_grid(&r, 1, 2);
    expect_stopped(&r, &o);
    wait_for_all(worker, 2);
    ck_assert_int_eq(count(warned_path, "; the plan in force stays"), 3);
}
END_TEST

START_TEST(a_plan_that_is_no_file_or_of_another_kind_is_refused_as_the_job_begins)
{
    struct spot_trainer_options o = job(1, 0, 0, 0);
    struct outcome got;

    o.plan = "/dev/null";
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EUSAGE);
    ck_assert_msg(strstr(got.err.msg, "--plan must be a file, '/dev/null' is not") != NULL, "%s",
                  got.err.msg);
    o.plan = in_dir("", "serve.json");
    write_plan(o.plan, "{\"schema\":\"spot.plan/1\",\"kind\":\"serve\",\"job\":\"\",\"time_s\":1,"
                       "\"next\":{\"D\":1,\"P\":1,\"M\":1,\"B\":1}}");
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "the plan is for serving, but this job trains") != NULL, "%s",
                  got.err.msg);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, from_grid_to_grid_by_plans_without_a_move_in_between);
    tcase_add_test(tc, a_buddy_that_comes_later_has_its_stage_when_the_owner_is_killed);
    tcase_add_loop_test(tc, one_that_leaves_hands_over_before_it_is_gone, 0,
                        sizeof(leaving) / sizeof(leaving[0]));
    tcase_add_loop_test(tc, a_notice_while_state_is_handed_over_loses_nothing, 0,
                        sizeof(meanwhile) / sizeof(meanwhile[0]));
    tcase_add_test(tc, the_last_worker_makes_the_state_durable_before_it_goes);
    tcase_add_test(tc, a_buddy_saves_the_steps_of_the_last_holder);
    tcase_add_test(tc, places_of_a_plan_are_kept_and_those_of_nobody_are_told);
    tcase_add_test(tc, a_plan_in_a_file_is_read_again_and_a_bad_one_changes_nothing);
    tcase_add_test(tc, a_plan_that_is_no_file_or_of_another_kind_is_refused_as_the_job_begins);
    return run_job_suite("job_placed", tc);
}
