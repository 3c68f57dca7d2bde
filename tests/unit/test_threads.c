/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include "common/threads.h"

#include <check.h>
#include <signal.h>
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

static void *report_mask(void *mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, mask);
    return NULL;
}

START_TEST(a_thread_takes_no_signals_but_those_of_its_own_faults)
{
    static const int blocked[] = { SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1, SIGCHLD, SIGALRM };
    static const int open[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
    sigset_t theirs, before, after;
    pthread_t thread;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    ck_assert_int_eq(spot_thread_start(&thread, report_mask, &theirs, NULL), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++) {
        ck_assert(sigismember(&theirs, blocked[i]));
        ck_assert_int_eq(sigismember(&after, blocked[i]), sigismember(&before, blocked[i]));
    }
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
        ck_assert(!sigismember(&theirs, open[i]));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("threads");

    tcase_add_test(tc, joining_waits_for_the_destructors_of_every_thread);
    tcase_add_test(tc, a_thread_takes_no_signals_but_those_of_its_own_faults);
    return run_suite("threads", tc);
}
