/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <signal.h>

#include "suite.h"
#include "twin.h"

/* Goal: the twin of CUDA bites: what a device leaves open, such as the order of warps and of blocks
 * and the time of a copy, comes out in more than one way; what a device may take amiss some day
 * ends the program today. Each case is a program of tests/twin/bites.cpp. */

static int (*bite)(const char *name);

static void find_bites(void)
{
    void *const so = dlopen(getenv("SPOT_CUDA_MODULE"), RTLD_NOW);

    ck_assert_msg(so, "%s", dlerror());
    *(void **)&bite = dlsym(so, "twin_bite");
    ck_assert(bite);
}

START_TEST(what_is_left_open_comes_in_more_than_one_way)
{
    find_bites();
    ck_assert_int_eq(bite("warps"), 2);
    ck_assert_int_ge(bite("blocks"), 3);
    ck_assert_int_gt(bite("pinned copy"), 0);
    ck_assert_int_gt(bite("pageable copy"), 0);
    ck_assert_int_gt(bite("late download"), 0);
}
END_TEST

START_TEST(shared_memory_holds_nothing_of_an_earlier_block)
{
    find_bites();
    ck_assert_int_eq(bite("shared"), 1);
}
END_TEST

START_TEST(a_question_that_is_answered_not_ready_leaves_an_error)
{
    find_bites();
    ck_assert_int_gt(bite("last error"), 0);
}
END_TEST

START_TEST(freeing_memory_waits_for_the_device)
{
    find_bites();
    ck_assert_int_eq(bite("free waits"), 1);
}
END_TEST

START_TEST(a_graph_repeats_what_was_recorded_and_a_recording_refuses_what_a_device_refuses)
{
    find_bites();
    ck_assert_int_eq(bite("graph"), 4);
    ck_assert_int_eq(bite("graph refusals"), 11);
}
END_TEST

/* Not of the twin, but of what lies on it: more shapes than a stage has; and an algorithm that was
 * chosen for a bias that happens to be aligned well, and met one that is not. */
START_TEST(products_of_many_shapes_and_of_parts_that_begin_anywhere)
{
    find_bites();
    ck_assert_int_eq(bite("many shapes"), 1);
    ck_assert_int_eq(bite("bias of a part"), 1);
}
END_TEST

/* A library that forgets terms in its first proposals, or in all; that does not support what is not
 * aligned, on top. */
static const char *const library[][2] = { { "0", "0" }, { "2", "0" }, { "9", "0" }, { "1", "1" } };
enum { N_LIBRARY = sizeof(library) / sizeof(library[0]) };

START_TEST(products_are_right_whatever_the_library_drops_or_refuses)
{
    setenv("SPOT_TWIN_BLAS_DROPS", library[_i][0], 1);
    setenv("SPOT_TWIN_BLAS_ALIGNED", library[_i][1], 1);
    find_bites();
    ck_assert_int_eq(bite("every product"), 64);
    unsetenv("SPOT_TWIN_BLAS_DROPS");
    unsetenv("SPOT_TWIN_BLAS_ALIGNED");
}
END_TEST

static const struct {
    const char *name;
    int signal;
} deadly[] = { { "host reads", SIGSEGV },   { "host writes", SIGSEGV },
               { "wrong kind", SIGABRT },   { "beyond", SIGABRT },
               { "large shared", SIGABRT }, { "recorded library", SIGABRT } };
enum { N_DEADLY = sizeof(deadly) / sizeof(deadly[0]) };

static void dies(int i)
{
    find_bites();
    bite(deadly[i].name);
}

START_TEST(the_host_cannot_reach_the_device)
{
    dies(_i);
}
END_TEST

START_TEST(what_no_device_allows_ends_the_program)
{
    dies(_i);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("twin");
    const char *const forks = getenv("CK_FORK");

    (void)argc;
#ifdef __SANITIZE_THREAD__
    puts("1..0 # skip fibers are more than ThreadSanitizer follows");
    return 0;
#endif
    setenv("SPOT_DEVICE_LOCKS", ".", 0);
    unsetenv("SPOT_CUDA_MODULE"); /* of the twin itself, not of a device */
    find_twin(argv[0]);
    tcase_add_test(tc, what_is_left_open_comes_in_more_than_one_way);
    tcase_add_test(tc, shared_memory_holds_nothing_of_an_earlier_block);
    tcase_add_test(tc, a_question_that_is_answered_not_ready_leaves_an_error);
    tcase_add_test(tc, freeing_memory_waits_for_the_device);
    tcase_add_test(tc,
                   a_graph_repeats_what_was_recorded_and_a_recording_refuses_what_a_device_refuses);
    tcase_add_test(tc, products_of_many_shapes_and_of_parts_that_begin_anywhere);
    tcase_add_loop_test(tc, products_are_right_whatever_the_library_drops_or_refuses, 0, N_LIBRARY);
    if (!forks || strcmp(forks, "no") != 0) { /* else who dies takes this program along */
        tcase_add_loop_test_raise_signal(tc, the_host_cannot_reach_the_device, SIGSEGV, 0, 2);
        tcase_add_loop_test_raise_signal(tc, what_no_device_allows_ends_the_program, SIGABRT, 2,
                                         N_DEADLY);
    }
    return run_suite("twin", tc);
}
