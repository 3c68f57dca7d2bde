/* SPDX-License-Identifier: MIT */
/* Goal: what a job says of itself is read whole, whatever kind of job it is, or refused: nothing is
 * made up for a key that is not there. That bounds are those of docs/schema/status.json is checked
 * by tests/lint/schema-tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/status_doc.h"
#include "suite.h"

#define HEAD "{\"schema\":\"spot.status/1\",\"time_s\":2,\"phase\":\"run\",\"epoch\":3,\"step\":5"
#define TAIL                                                                             \
    ",\"members\":[{\"member\":4,\"name\":\"a\",\"role\":\"spare\",\"leaving\":false}]," \
    "\"events\":[]}"
#define TRAIN \
    ",\"steps\":9,\"durable_step\":-1,\"D\":1,\"P\":2,\"M\":1,\"step_s\":0.5,\"tokens_per_s\":7"
#define SERVE                                                                                 \
    ",\"model\":\"m\",\"replicas\":2,\"requests\":1,\"running\":1,\"queued\":0,\"tokens\":8," \
    "\"preemptions\":0,\"tokens_per_s\":1"
#define EXEC                                                                                       \
    ",\"exec\":{\"run_id\":\"0123456789abcdef\",\"nodes\":2,\"world\":4,\"started\":1,\"done\":0," \
    "\"warm\":0,\"failures\":0,\"moves\":0,\"mirrored_byte\":0}"

static struct spot_status status;

static int parse(const char *text)
{
    static struct spot_err err;

    err = (struct spot_err){ 0 };
    return spot_status_parse(&status, text, strlen(text), "status", &err) ? -(int)err.code : 0;
}

START_TEST(each_kind_of_job_is_told_from_the_others)
{
    static const struct {
        const char *text;
        enum spot_status_work work;
    } job[] = { { HEAD TRAIN TAIL, SPOT_STATUS_TRAINS },
                { HEAD SERVE TAIL, SPOT_STATUS_SERVES },
                { HEAD EXEC TAIL, SPOT_STATUS_EXEC } };

    for (size_t i = 0; i < sizeof(job) / sizeof(*job); i++) {
        ck_assert_int_eq(parse(job[i].text), 0);
        ck_assert_int_eq(status.work, job[i].work);
        ck_assert_int_eq(status.step, 5);
        spot_status_release(&status);
    }
}
END_TEST

START_TEST(what_is_not_told_is_not_known)
{
    ck_assert_int_eq(parse(HEAD TRAIN TAIL), 0);
    ck_assert(isnan(status.loss) && isnan(status.eta_s) && isnan(status.plan_time_s));
    ck_assert_int_eq(status.want.D, 0);
    ck_assert_int_eq(status.durable_step, -1);
    ck_assert_uint_eq(status.n_member, 1);
    ck_assert_int_eq(status.member[0].d, -1);
    ck_assert(isnan(status.member[0].warm));
    ck_assert_str_eq(status.member[0].role, "spare");
    ck_assert_ptr_null(status.rollout.state);
    spot_status_release(&status);
}
END_TEST

START_TEST(what_no_job_says_is_refused)
{
    static const char *const text[] = {
        "{}",
        HEAD TAIL,
        HEAD ",\"steps\":9" TAIL,
        HEAD TRAIN ",\"want\":{\"D\":1}" TAIL,
        HEAD TRAIN ",\"members\":[{\"member\":1}],\"events\":[]}",
        HEAD TRAIN
        ",\"members\":[{\"member\":4,\"name\":\"a\",\"role\":\"spare\",\"leaving\":false,"
        "\"mirrors\":[1,\"x\"]}],\"events\":[]}",
        HEAD TRAIN ",\"members\":[]}",
    };

    for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++)
        ck_assert_int_eq(parse(text[i]), -SPOT_EDATA);
}
END_TEST

int main(void)
{
    return run_suite("status_doc", add_tests(tcase_create("core")));
}
