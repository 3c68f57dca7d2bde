/* SPDX-License-Identifier: MIT */
/* Goal: the part `async` of a job is read to the value, a job without one has no types, and each
 * thing that is wrong in it is told with its place.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/job_async.h"
#include "suite.h"

static char path[] = "/tmp/spot-job-async-XXXXXX";
static struct spot_job_async async;
static struct spot_err err;

/* Load a spot.job/1 with these members behind its schema. */
static int load(const char *members)
{
    FILE *const out = fopen(path, "w");

    ck_assert_ptr_nonnull(out);
    fprintf(out, "{\"schema\":\"spot.job/1\",\"name\":\"dnn\",%s}\n", members);
    ck_assert_int_eq(fclose(out), 0);
    return spot_job_async_load(&async, path, &err);
}

#define NUMBERS                                                                    \
    "\"param_byte\":4e8,\"worker_byte_per_s\":1e9,\"server_byte_per_s\":2e9,"      \
    "\"pcie_byte_per_s\":3e9,\"alpha\":0.5,\"beta\":-1,\"gamma1\":1,\"gamma2\":2," \
    "\"gamma3\":-3,\"gamma5\":5,\"types\":"
#define TYPE(name) \
    "{\"instance_type\":\"" name "\",\"gpus\":4,\"batch_per_gpu\":32,\"iter_s\":0.25}"
#define JOB(types) "\"kind\":\"train\",\"async\":{" NUMBERS types "}"

START_TEST(each_value_is_what_the_document_says)
{
    ck_assert_msg(!load(JOB("[" TYPE("p3") "," TYPE("g4") "]")), "%s", err.msg);
    ck_assert_str_eq(async.name, "dnn");
    ck_assert_double_eq(async.param_byte, 4e8);
    ck_assert_double_eq(async.pcie_byte_per_s, 3e9);
    ck_assert_double_eq(async.beta, -1);
    ck_assert_double_eq(async.gamma3, -3);
    ck_assert_double_eq(async.gamma4, 0); /* not told */
    ck_assert_uint_eq(async.n_type, 2);
    ck_assert_str_eq(async.type[0].instance_type, "p3");
    ck_assert_str_eq(async.type[1].instance_type, "g4");
    ck_assert_int_eq(async.type[1].gpus, 4);
    ck_assert_double_eq(async.type[1].iter_s, 0.25);
    ck_assert_double_eq(async.type[1].comp_s, 0);
    spot_job_async_release(&async);
    ck_assert_uint_eq(async.n_type, 0);
}
END_TEST

START_TEST(a_job_without_the_part_has_no_types)
{
    ck_assert_msg(!load("\"kind\":\"train\""), "%s", err.msg);
    ck_assert_uint_eq(async.n_type, 0);
    spot_job_async_release(&async);
}
END_TEST

static void ck_refused(const char *members, const char *why)
{
    err = (struct spot_err){ 0 };
    ck_assert_int_eq(load(members), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, why), "not '%s' but '%s'", why, err.msg);
    ck_assert_ptr_null(async.type);
}

START_TEST(what_is_wrong_is_told_with_its_place)
{
    ck_refused("\"kind\":\"serve\"", "/kind: expected 'train'");
    ck_refused("\"async\":{}", "/kind: expected 'train'");
    ck_refused("\"kind\":\"train\",\"async\":7", "/async");
    ck_refused("\"kind\":\"train\",\"async\":{\"param_byte\":0}", "/async/param_byte");
    ck_refused(JOB("[]"), "/async/types: has none");
    ck_refused(JOB("{}"), "/async/types");
    ck_refused(JOB("[" TYPE("p3") ",{\"instance_type\":\"x\",\"gpus\":0}]"), "/async/types/1/gpus");
    ck_refused(JOB("[" TYPE("p3") "," TYPE("g4") "," TYPE("p3") "]"),
               "/async/types/2: 'p3' is named twice");
    ck_assert_int_eq(spot_job_async_load(&async, "/nowhere/at/all", &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("job_async");
    int fd, rc;

    fd = mkstemp(path);
    if (fd < 0)
        return 77;
    close(fd);
    tcase_add_test(tc, each_value_is_what_the_document_says);
    tcase_add_test(tc, a_job_without_the_part_has_no_types);
    tcase_add_test(tc, what_is_wrong_is_told_with_its_place);
    rc = run_suite("job_async", tc);
    unlink(path);
    return rc;
}
