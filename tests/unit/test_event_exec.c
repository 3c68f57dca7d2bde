/* SPDX-License-Identifier: MIT */
/* Goal: the log of a job that runs a foreign command is read in its order, and a line that does not
 * fit there is refused by line, key and reason; so is a line that is no event. */
#include "doc_rig.h"
#include "model/event.h"
#include "model/event_order.h"

#define LINE(event, epoch, step, rest)                                                    \
    "{\"schema\":\"spot.event/1\",\"event\":\"" event "\",\"time_s\":1,\"epoch\":" #epoch \
    ",\"step\":" #step rest "}"

/* Two machines, of which one is told to go and one is lost; another coordinator that goes on. */
static const char *const hosted[] = {
    LINE("exec", 0, 0, ",\"ranks\":2,\"nodes_min\":1,\"nodes_max\":4"),
    LINE("joined", 0, 0, ",\"member\":1,\"members\":1"),
    LINE("joined", 0, 0, ",\"member\":2,\"members\":2"),
    LINE("quiesce", 1, 0, ""),
    LINE("formed", 1, 0, ",\"D\":2,\"P\":1,\"members\":2,\"restart\":0,\"world\":4"),
    LINE("ledger", 1, 0,
         ",\"dataset_size\":9,\"global_batch\":2,\"seed\":1,\"rest\":\"drop\",\"order\":\"seed\""),
    LINE("restored", 1, 30, ",\"restart\":0,\"nodes\":2,\"from\":25"),
    LINE("committed", 1, 40, ",\"restart\":0,\"nodes\":2,\"byte\":100"),
    LINE("durable", 1, 40, ",\"where\":\"store\",\"moved_byte\":100"),
    LINE("notice", 1, 0, ",\"member\":1"),
    LINE("quiesce", 2, 1, ""),
    LINE("left", 2, 1, ",\"member\":1"),
    LINE("formed", 2, 1, ",\"D\":1,\"P\":1,\"members\":1,\"restart\":1,\"kept\":true"),
    LINE("rolled_back", 2, 1, ",\"from\":40,\"to\":30"),
    LINE("failed", 2, 1, ",\"name\":\"w2\",\"rank\":0,\"status\":1,\"failures\":1"),
    LINE("lost", 2, 1, ",\"member\":2"),
    LINE("given_up", 2, 1, ",\"started\":2,\"failures\":1"),
    LINE("exec", 2, 1, ",\"ranks\":2,\"nodes_min\":1,\"nodes_max\":4"),
    LINE("joined", 2, 1, ",\"member\":1,\"members\":1"),
    LINE("quiesce", 3, 1, ""),
    LINE("formed", 3, 1, ",\"D\":1,\"P\":1,\"members\":1,\"restart\":2"),
    LINE("finished", 3, 2, ",\"started\":3,\"failures\":1"),
};
enum { HOSTED = sizeof(hosted) / sizeof(hosted[0]) };

/* The lines, one of them another, to where they are refused: returns how many were taken. */
static size_t take(const char *const *line, size_t n, size_t other, const char *text,
                   struct spot_err *err)
{
    struct spot_event_order order = { 0 };
    struct spot_event_log log = { .source = "log", .order = &order };
    struct spot_event e;
    char *all = NULL;
    size_t n_byte, taken = 0;
    FILE *const out = open_memstream(&all, &n_byte);
    int rc;

    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s\n", i == other ? text : line[i]);
    fclose(out);
    log.in = opened(all);
    while ((rc = spot_event_next(&log, &e, err)) > 0)
        taken++;
    ck_assert(rc == 0 || err->code == SPOT_EDATA);
    ck_assert(rc || log.end_byte == n_byte); /* where a resumed run writes on */
    fclose(log.in);
    free(all);
    spot_event_log_release(&log);
    spot_event_order_release(&order);
    return taken;
}

START_TEST(the_log_of_a_command_goes_on_when_another_coordinator_does)
{
    struct spot_err err = { 0 };

    ck_assert_msg(take(hosted, HOSTED, HOSTED, NULL, &err) == HOSTED, "%s", err.msg);
}
END_TEST

static const struct {
    size_t at;
    const char *line, *want;
} misplaced[] = {
    { 1, LINE("joined", 0, 0, ",\"member\":1,\"members\":2"),
      "/members: expected 1, counted from the lines above, got 2" },
    { 2, LINE("joined", 0, 0, ",\"member\":1,\"members\":2"),
      "/member: 1 was the number of another member" },
    { 3, LINE("quiesce", 0, 0, ""), "/epoch: expected more than 0, that of the line above" },
    { 3, LINE("formed", 0, 0, ",\"D\":2,\"P\":1,\"members\":2,\"restart\":0"),
      "/event: 'formed' without the 'quiesce' of its epoch before it, or said twice" },
    { 4, LINE("committed", 1, 4, ",\"restart\":0,\"nodes\":2,\"byte\":1"),
      "/event: 'committed' without the 'formed' of its epoch before it, or said twice" },
    { 4, LINE("formed", 0, 0, ",\"D\":2,\"P\":1,\"members\":2,\"restart\":0"),
      "/epoch: 0 is before 1, that of the line above" },
    { 4, LINE("formed", 1, 0, ",\"D\":2,\"P\":1,\"members\":2"),
      "/: a 'formed' of a command needs \"restart\"" },
    { 4, LINE("formed", 1, 0, ",\"D\":3,\"P\":1,\"members\":2,\"restart\":0"),
      "/D: 3 nodes of 2 members" },
    { 5, LINE("step", 1, 1, ""), "/event: 'step' in the log of a job that runs a command" },
    { 5, LINE("serving", 1, 0, ",\"model\":\"m\""),
      "/event: 'serving' in the log of a job that runs a command" },
    { 7, LINE("committed", 1, 40, ",\"restart\":1,\"nodes\":2,\"byte\":1"),
      "/restart: expected 0, the round that runs, got 1" },
    { 9, LINE("notice", 1, 0, ",\"member\":3"), "/member: 3 did not join, or is gone" },
    { 9, LINE("left", 1, 0, ",\"member\":1"), "/event: 'left' without a 'notice' of member 1" },
    { 10, LINE("notice", 1, 0, ",\"member\":1"), "/event: a second 'notice' of member 1" },
    { 13, LINE("rolled_back", 2, 1, ",\"from\":30,\"to\":30"), "/to: expected less than 30" },
    { 13, LINE("rolled_back", 1, 1, ",\"from\":40,\"to\":30"),
      "/epoch: 1 is before 2, that of the line above" },
    { 15, LINE("lost", 1, 1, ",\"member\":2"), "/epoch: 1 is before 2, that of the line above" },
    { 17, LINE("exec", 1, 1, ",\"ranks\":2,\"nodes_min\":1,\"nodes_max\":4"),
      "/epoch: 1 is before 2, that of the line above" },
    { 18, LINE("joined", 1, 1, ",\"member\":1,\"members\":1"),
      "/epoch: 1 is before 2, that of the line above" },
    { 18, LINE("lost", 2, 1, ",\"member\":2"), "/member: 2 did not join, or is gone" },
    { 21, LINE("finished", 2, 2, ",\"started\":3,\"failures\":1"),
      "/epoch: 2 is before 3, that of the line above" },
};

/* "log:LINE:COLUMN: " and what is wanted. */
static void expect_at(const struct spot_err *err, size_t line, const char *want)
{
    char where[32];

    snprintf(where, sizeof(where), "log:%zu:", line);
    ck_assert_msg(!strncmp(err->msg, where, strlen(where)), "%s", err->msg);
    ck_assert_str_eq(strstr(err->msg, ": ") + 2, want);
}

START_TEST(a_line_that_does_not_fit_is_refused_where_it_is)
{
    struct spot_err err = { 0 };

    ck_assert_uint_eq(take(hosted, HOSTED, misplaced[_i].at, misplaced[_i].line, &err),
                      misplaced[_i].at);
    expect_at(&err, misplaced[_i].at + 1, misplaced[_i].want);
}
END_TEST

/* --- of other kinds of jobs --- */

static const char *const trained[] = {
    LINE("joined", 0, 0, ",\"member\":1,\"members\":1"),
    LINE("quiesce", 1, 0, ""),
    LINE("migrate", 1, 0, ",\"restored_byte\":0"),
    LINE("formed", 1, 0, ",\"D\":1,\"P\":1,\"members\":1"),
    LINE("step", 1, 1, ""),
    LINE("committed", 1, 1, ",\"loss\":1,\"loss_hex\":\"3f800000\",\"samples\":[0,1]"),
    LINE("quiesce", 2, 1, ""),
    LINE("rolled_back", 2, 0, ",\"from\":1,\"to\":0"),
    LINE("migrate", 2, 0, ",\"restored_byte\":0"),
};

static const char *const served[] = {
    LINE("serving", 0, 0, ",\"model\":\"m\""),
    LINE("request", 0, 0,
         ",\"came_s\":0,\"e2e_s\":1,\"id\":\"r\",\"finish\":\"done\",\"prompt_tokens\":1,"
         "\"output_tokens\":1,\"choices\":1"),
    LINE("token", 0, 1,
         ",\"requests\":1,\"refused\":0,\"output_tokens\":1,\"interval_s\":1,\"running\":0,"
         "\"queued\":0,\"replicas\":1,\"moves\":0,\"again_tokens\":0,\"paged_tokens\":0,"
         "\"between\":[1]"),
};

static const struct {
    const char *const *log;
    size_t n, at;
    const char *line, *want;
} other[] = {
    { trained, 9, 1, LINE("exec", 0, 0, ",\"ranks\":2,\"nodes_min\":1,\"nodes_max\":4"),
      "/event: 'exec' in the log of another kind of job" },
    { trained, 9, 1, LINE("serving", 0, 0, ",\"model\":\"m\""),
      "/event: 'serving' in the log of a job that trains" },
    { trained, 9, 4, LINE("failed", 1, 0, ",\"name\":\"w\",\"rank\":0,\"failures\":1"),
      "/event: 'failed' in the log of a job that trains" },
    { trained, 9, 5,
      LINE("committed", 1, 0, ",\"loss\":1,\"loss_hex\":\"3f800000\",\"samples\":[]"),
      "/step: step 0 cannot be committed" },
    { trained, 9, 5, LINE("committed", 1, 1, ",\"loss\":1,\"loss_hex\":\"3f8\",\"samples\":[]"),
      "/loss_hex: expected 8 hex digits, got \"3f8\"" },
    { trained, 9, 5, LINE("committed", 1, 1, ",\"loss\":1,\"loss_hex\":\"3f800000\""),
      "/: lacks the key 'samples'" },
    { trained, 9, 5,
      LINE("committed", 1, 1, ",\"loss\":1,\"loss_hex\":\"3f800000\",\"samples\":[0,-1]"),
      "/samples/1: expected a sample number, an integer in [0, 2^53]" },
    { trained, 9, 7, LINE("rolled_back", 2, 1, ",\"from\":1,\"to\":1"),
      "/to: expected less than 1" },
    { trained, 9, 3, "{\"schema\":\"spot.event/2\",\"event\":\"formed\",\"time_s\":1}",
      "/schema: expected \"spot.event/1\", got \"spot.event/2\"" },
    { trained, 9, 3,
      "{\"schema\":\"spot.event/1\",\"event\":\"quiesce\",\"time_s\":0,"
      "\"epoch\":2,\"step\":0}",
      "/time_s: 0 is before 1, the time of an event above" },
    { served, 3, 1, LINE("serving", 0, 0, ",\"model\":\"m\""), "/event: 'serving' said twice" },
    { served, 3, 1,
      LINE("request", 0, 0,
           ",\"came_s\":0,\"e2e_s\":1,\"id\":\"r\",\"finish\":\"gone\",\"prompt_tokens\":1,"
           "\"output_tokens\":1,\"choices\":1"),
      "/finish: expected \"done\" or \"cancelled\", got 'gone'" },
    { served, 3, 2,
      LINE("token", 0, 1,
           ",\"requests\":1,\"refused\":0,\"output_tokens\":1,\"interval_s\":1,\"running\":0,"
           "\"queued\":0,\"replicas\":1,\"moves\":0,\"again_tokens\":0,\"paged_tokens\":0,"
           "\"between\":[1,0.5]"),
      "/between/1: expected a sample count, an integer in [0, 2^53]" },
};

START_TEST(a_log_is_of_one_kind_of_job_and_each_event_has_what_its_kind_tells)
{
    struct spot_err err = { 0 };

    ck_assert_msg(take(other[_i].log, other[_i].n, other[_i].n, NULL, &err) == other[_i].n, "%s",
                  err.msg);
    ck_assert_uint_eq(take(other[_i].log, other[_i].n, other[_i].at, other[_i].line, &err),
                      other[_i].at);
    expect_at(&err, other[_i].at + 1, other[_i].want);
}
END_TEST

START_TEST(events_of_a_cloud_or_of_a_later_version_are_passed_over)
{
    static const char *const line[] = {
        LINE("exec", 0, 0, ",\"ranks\":2,\"nodes_min\":1,\"nodes_max\":4"),
        "{\"schema\":\"spot.event/1\",\"event\":\"rebalance\",\"time_s\":0,\"epoch\":\"a\"}",
        LINE("joined", 0, 0, ",\"member\":1,\"members\":1,\"colour\":[]"),
    };
    struct spot_err err = { 0 };

    ck_assert_msg(take(line, 3, 3, NULL, &err) == 3, "%s", err.msg);
}
END_TEST

START_TEST(a_line_that_is_no_json_is_named_and_an_empty_one_passed_over)
{
    char spaced[512];
    struct spot_err err = { 0 };

    snprintf(spaced, sizeof(spaced), " \t\n\r\n%s", hosted[1]);
    ck_assert_msg(take(hosted, HOSTED, 1, spaced, &err) == HOSTED, "%s", err.msg);
    ck_assert_uint_eq(take(hosted, HOSTED, 0, "time_s,event", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "; a log is JSON Lines of spot.event/1"));
    ck_assert_uint_eq(take(hosted, HOSTED, 1, "time_s,event", &err), 1);
    ck_assert_msg(!strncmp(err.msg, "log:2:", 6), "%s", err.msg);
    ck_assert_ptr_null(strstr(err.msg, "JSON Lines"));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, a_line_that_does_not_fit_is_refused_where_it_is, 0,
                        sizeof(misplaced) / sizeof(misplaced[0]));
    tcase_add_loop_test(tc, a_log_is_of_one_kind_of_job_and_each_event_has_what_its_kind_tells, 0,
                        sizeof(other) / sizeof(other[0]));
    add_tests(tc);
    return run_suite("event_exec", tc);
}
