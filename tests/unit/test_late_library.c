/* SPDX-License-Identifier: MIT */
/* Goal: a library that is opened late has all that is asked of it, or says what it lacks. */
#include <math.h>
#include <string.h>

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

int main(void)
{
    TCase *const c = tcase_create("late_library");

    tcase_add_test(c, its_functions_are_called_through_the_table);
    tcase_add_test(c, a_library_that_is_not_there_is_named);
    tcase_add_test(c, a_function_that_it_lacks_is_named);
    return run_suite("late_library", c);
}
