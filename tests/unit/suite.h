/* SPDX-License-Identifier: MIT */
/* suite.h - run one case as a program that writes TAP; end processes that a test forks. */
#ifndef SPOT_TESTS_SUITE_H
#define SPOT_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef SPOT_COVERAGE /* not unistd.h, whose names are some tests' own */
void __gcov_dump(void);
void __gcov_reset(void);
_Noreturn void _exit(int status);
int execvp(const char *file, char *const *argv);
int execvpe(const char *file, char *const *argv, char *const *envp);
extern char **environ;
#endif

/* End a process that a test forked: nothing of its parent's is flushed or released, but lines that
 * ran here count. */
static inline _Noreturn void leave(int status)
{
#ifdef SPOT_COVERAGE
    __gcov_dump();
#endif
    _Exit(status);
}

#ifdef SPOT_COVERAGE
/* In place of libc's: lines that ran in a process which the library ends, or makes another program
 * of, count too. */
_Noreturn void _exit(int status)
{
    leave(status);
}

int execvp(const char *file, char *const *argv)
{
    __gcov_dump();
    __gcov_reset();
    return execvpe(file, argv, environ);
}
#endif

/* Check writes to a file where each assertion held, to tell the place of a crash. Tests that ask a
 * million times spent most of their time with that. */
#undef ck_assert_msg
#define ck_assert_msg(expr, ...) \
    ((expr) ? (void)0            \
            : _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #expr "' failed", __VA_ARGS__))

/* A test is of its suite by being there: add_tests adds those of the file, in its order, that main
 * does not add itself, such as with a loop. */
enum { SUITE_TESTS_MAX = 256 };
static struct {
    const TTest *test[SUITE_TESTS_MAX];
    size_t n;
} suite_rest;

static inline void suite_list(const TTest *test)
{
    if (suite_rest.n == SUITE_TESTS_MAX)
        abort();
    suite_rest.test[suite_rest.n++] = test;
}

static inline const TTest *suite_take(const TTest *test)
{
    for (size_t i = 0; i < suite_rest.n; i++)
        if (suite_rest.test[i] == test)
            suite_rest.test[i] = NULL;
    return test;
}

#undef START_TEST
#define START_TEST(name)                                                        \
    static void name##_fn(int _i CK_ATTRIBUTE_UNUSED);                          \
    static const TTest name##_ttest = { #name, name##_fn, __FILE__, __LINE__ }; \
    static const TTest *const name CK_ATTRIBUTE_UNUSED = &name##_ttest;         \
    __attribute__((constructor)) static void name##_list(void)                  \
    {                                                                           \
        suite_list(&name##_ttest);                                              \
    }                                                                           \
    static void name##_fn(int _i CK_ATTRIBUTE_UNUSED)
#undef tcase_add_test
#define tcase_add_test(tc, test) _tcase_add_test((tc), suite_take(test), 0, 0, 0, 1)
#undef tcase_add_loop_test
#define tcase_add_loop_test(tc, test, from, to) \
    _tcase_add_test((tc), suite_take(test), 0, 0, (from), (to))

static inline TCase *add_tests(TCase *tc)
{
    for (size_t i = 0; i < suite_rest.n; i++)
        if (suite_rest.test[i])
            tcase_add_test(tc, suite_rest.test[i]);
    return tc;
}

/* Whether that tier of tests runs (tests/tally). */
static inline bool in_tier(const char *tier)
{
    const char *const all = getenv("SPOT_TIER");

    return all && strstr(all, tier); /* no name is a part of another */
}

/* Whole products and many seeds: `make check-long`. Otherwise a part that meets every value of each
 * factor, and each pair of those that matter together. */
static inline bool is_long(void)
{
    return in_tier("long");
}

/* With the time limit that the case has. */
static inline int run_case(const char *name, TCase *tc)
{
    Suite *suite = suite_create(name);
    SRunner *runner;
    int n_failed;

    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A build that counts lines is several times as slow. */
#ifdef SPOT_COVERAGE
enum { SUITE_TIMEOUT_S = 900 };
#else
enum { SUITE_TIMEOUT_S = 300 };
#endif

static inline int run_suite(const char *name, TCase *tc)
{
    tcase_set_timeout(tc, is_long() ? 900 : SUITE_TIMEOUT_S);
    return run_case(name, tc);
}

#endif /* SPOT_TESTS_SUITE_H */
