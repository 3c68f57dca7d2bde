/* SPDX-License-Identifier: MIT */
#include "common/threads.h"

#include <check.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "suite.h"

static atomic_int n_run;
static pthread_key_t key;
static atomic_int n_destroyed;

static void destroy(void *value)
{
    (void)value;
    spot_clock_sleep(0.001);
    atomic_fetch_add(&n_destroyed, 1);
}

static void work(void *arg)
{
    pthread_setspecific(key, arg);
    atomic_fetch_add(&n_run, 1);
}

START_TEST(joining_waits_for_the_destructors_of_every_thread)
{
    struct spot_threads threads = { NULL };
    int value;

    pthread_key_create(&key, destroy);
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(spot_threads_start(&threads, work, &value, NULL), 0);
    spot_threads_join(&threads);
    ck_assert_int_eq(atomic_load(&n_run), 200);
    ck_assert_int_eq(atomic_load(&n_destroyed), 200);
    ck_assert_ptr_null(threads.first);
    spot_threads_join(&threads);
    pthread_key_delete(key);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("threads");

    tcase_add_test(tc, joining_waits_for_the_destructors_of_every_thread);
    return run_suite("threads", tc);
}
