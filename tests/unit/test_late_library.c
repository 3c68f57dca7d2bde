/* SPDX-License-Identifier: MIT */
/* Goal: a library that is opened late has all that is asked of it, or says what it lacks. */
#define _GNU_SOURCE /* mkdtemp */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/late_library.h"
#include "suite.h"

#define EACH_FUNCTION(x) x(cos) x(hypot)
SPOT_LATE_TABLE(EACH_FUNCTION)

START_TEST(its_functions_are_called_through_the_table)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_late_library("libm.so.6", api_name, 2, &api, &err), "%s", err.msg);
    ck_assert_double_eq(api.cos(0), 1);
    ck_assert_double_eq(api.hypot(3, 4), 5);
}
END_TEST

START_TEST(a_library_that_is_not_there_is_named)
{
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_late_library("libnone.so.9", NULL, 0, NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(err.msg, "libnone.so.9"));
}
END_TEST

START_TEST(a_function_that_it_lacks_is_named)
{
    const char *const name = "no_such_function";
    void *none = NULL;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_late_library("libm.so.6", &name, 1, &none, &err), -1);
    ck_assert_str_eq(err.msg, "libm.so.6 lacks no_such_function");
    ck_assert_ptr_null(none);
}
END_TEST

/* A file in every place, taken away one by one: which is found, in that order. */
START_TEST(libraries_of_cuda_are_found_where_toolkits_and_wheels_put_them)
{
    static const char *const place[][2] = {
        { "CUDA_HOME", "cuda/lib64" },
        { "VIRTUAL_ENV", "venv/lib/python3.12/site-packages/nvidia/none/lib" },
        { "CONDA_PREFIX", "conda/lib/python3.9/site-packages/nvidia/none/lib" },
        { "PATH", "python/lib/python3.13/dist-packages/nvidia/none/lib" },
        { "HOME", "home/.local/lib/python3.11/site-packages/nvidia/none/lib" },
    };
    enum { N = sizeof(place) / sizeof(place[0]) };
    char *const way = strdup(getenv("PATH"));
    char dir[] = "/tmp/spot-late-XXXXXX", path[SPOT_LATE_PATH], text[512], at[N][512];

    ck_assert(mkdtemp(dir));
    for (int i = 0; i < N; i++) {
        snprintf(at[i], sizeof(at[i]), "%s/%s/libnone.so.1", dir, place[i][1]);
        for (char *slash = at[i] + strlen(dir) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
            *slash = '\0';
            ck_assert(!mkdir(at[i], 0700) || errno == EEXIST);
        }
        fclose(fopen(at[i], "w"));
        snprintf(text, sizeof(text), "%s/%.*s%s", dir, (int)strcspn(place[i][1], "/"), place[i][1],
                 i == 3 ? "/bin" : "");
        setenv(place[i][0], text, 1);
    }
    snprintf(text, sizeof(text), "%s/python/bin", dir);
    ck_assert_int_eq(mkdir(text, 0700), 0);
    snprintf(text, sizeof(text), "%s/python/bin/python3", dir);
    fclose(fopen(text, "w"));
    for (int i = 0; i < N; i++) {
        ck_assert_str_eq(spot_late_find_cuda("SPOT_NONE", "libnone.so.1", path), at[i]);
        ck_assert_int_eq(unlink(at[i]), 0);
    }
    ck_assert_str_eq(spot_late_find_cuda("SPOT_NONE", "libnone.so.1", path), "libnone.so.1");
    setenv("SPOT_NONE", "/some/where.so", 1);
    ck_assert_str_eq(spot_late_find_cuda("SPOT_NONE", "libnone.so.1", path), "/some/where.so");
    ck_assert_str_eq(spot_late_find_cuda("SPOT_NO", "libm.so.6", path), "libm.so.6");
    ck_assert(strstr(spot_late_cuda_places(), "$CUDA_HOME"));
    setenv("PATH", way, 1);
    snprintf(text, sizeof(text), "rm -r '%s'", dir);
    ck_assert_int_eq(system(text), 0);
    free(way);
}
END_TEST

int main(void)
{
    return run_suite("late_library", add_tests(tcase_create("late_library")));
}
