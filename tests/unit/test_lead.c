/* SPDX-License-Identifier: MIT */
/* Goal: of several coordinators one leads, with a record that the next one reads. A leader that
 * overslept its lease goes on if nobody followed, and writes nothing if somebody did; without a
 * quorum it waits, and is not told that it leads; the prefix of another job is refused. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "cluster/find_leader.h"
#include "cluster/lead.h"
#include "etcd_rig.h"

static struct spot_etcd_entry record;
static struct spot_err err;
static _Atomic int n_warned, n_ticked, n_stop;
static char url[320];

static void warned(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void warned(const char *fmt, ...)
{
    (void)fmt;
    n_warned++;
}

static void ticked(void *user)
{
    (void)user;
    n_ticked++;
}

static int stops(void)
{
    return n_stop;
}

static struct spot_lead *candidate(void)
{
    const struct spot_lead_options options = {
        .store = url, .lease_s = 1, .warn = warned, .tick = ticked, .stops = stops
    };
    struct spot_lead *const lead = spot_lead_new(&options, &err);

    ck_assert_ptr_nonnull(lead);
    return lead;
}

static void up(void)
{
    etcd_up();
    etcd_url(url, sizeof(url));
    n_warned = n_ticked = n_stop = 0;
}

/* Within some leases; a busy machine may lose one at any time. */
static void lead_soon(struct spot_lead *lead, const char *address)
{
    int rc = 0;

    for (int i = 0; rc <= 0 && i < 1200; i++) {
        rc = spot_lead_try(lead, address, "job", &record, &err);
        if (rc <= 0)
            spot_clock_sleep(.05);
    }
    ck_assert_int_eq(rc, 1);
}

START_TEST(one_leads_and_the_next_reads_its_record)
{
    struct spot_lead *const a = candidate(), *const b = candidate();
    char text[SPOT_ADDRESS_MAX + 8];

    ck_assert_ptr_null(spot_leader_find(url, text, &err));
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_str_eq(spot_leader_find("unix:j", text, &err), "unix:j");
    lead_soon(a, "here:1");
    ck_assert_int_eq(record.created, 0);
    ck_assert_int_eq(spot_lead_try(b, "there:2", "job", &record, &err), 0);
    ck_assert_str_eq(spot_leader_find(url, text, &err), "here:1");
    ck_assert_int_eq(spot_lead_put(a, "one", &err), 0);
    ck_assert_int_eq(spot_lead_put(a, "two", &err), 0);
    spot_clock_sleep(3); /* the keeper renews */
    ck_assert_int_eq(spot_lead_hold(a, &err), 0);
    ck_assert_int_eq(spot_lead_put(a, "three", &err), 0);
    spot_lead_free(a); /* it resigns */
    lead_soon(b, "there:2");
    ck_assert_str_eq(record.value, "three");
    ck_assert_int_eq(spot_lead_put(b, "four", &err), 0);
    spot_lead_free(b);
}
END_TEST

START_TEST(the_prefix_of_another_job_is_refused)
{
    struct spot_lead *const a = candidate(), *const b = candidate();

    lead_soon(a, "here:1");
    spot_lead_free(a);
    ck_assert_int_eq(spot_lead_try(b, "there:2", "another", &record, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "job; this one is another"));
    lead_soon(b, "there:2"); /* it did not keep the lead */
    spot_lead_free(b);
}
END_TEST

/* A leader whose process stops for longer than its lease: in a process of its own, which goes on
 * after the signal. Its exit status is how many puts went well after that. */
static pid_t frozen(const char *address, int go[2])
{
    const pid_t pid = fork();
    char byte;

    if (pid)
        return pid;
    {
        struct spot_lead *const lead = candidate();
        int n = 0;

        lead_soon(lead, address);
        if (spot_lead_put(lead, "before", &err))
            _exit(100);
        (void)!write(go[1], "", 1);
        while (read(go[0], &byte, 1) != 1 || byte != 'g') /* which comes while it is stopped */
            ;
        for (int i = 0; i < 3; i++)
            n += !spot_lead_put(lead, "after", &err);
        if (n < 3 && err.code != SPOT_EPREEMPTED)
            _exit(101);
        spot_lead_free(lead);
        _exit(n);
    }
}

static int thaw(bool with_successor)
{
    struct spot_lead *b;
    int to[2], from[2], status, go[2];
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe(to), 0);
    ck_assert_int_eq(pipe(from), 0);
    go[0] = to[0], go[1] = from[1];
    pid = frozen("here:1", go);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(read(from[0], &byte, 1), 1);
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(write(to[1], "g", 1), 1);
    b = candidate();
    if (with_successor) {
        lead_soon(b, "there:2");
        ck_assert_str_eq(record.value, "before");
        ck_assert_int_eq(spot_lead_put(b, "next", &err), 0);
    } else {
        spot_clock_sleep(5); /* its lease ends */
    }
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (with_successor)
        ck_assert_int_eq(spot_lead_put(b, "last", &err), 0);
    spot_lead_free(b);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(a_leader_that_froze_writes_nothing_after_its_successor)
{
    struct spot_etcd *const store = etcd_store();

    ck_assert_int_eq(thaw(true), 0);
    ck_assert_int_eq(spot_etcd_get(store, "log", &record, &err), 1);
    ck_assert_str_eq(record.value, "last");
    spot_etcd_close(store);
}
END_TEST

START_TEST(a_leader_that_froze_goes_on_where_nobody_followed)
{
    ck_assert_int_eq(thaw(false), 3);
}
END_TEST

static void *cont_later(void *user)
{
    (void)user;
    for (int i = 0; i < 3000 && n_warned < 1; i++)
        spot_clock_sleep(.02); /* until it has said that it pauses */
    etcd_signal(1, SIGCONT);
    etcd_signal(2, SIGCONT);
    return NULL;
}

START_TEST(without_a_quorum_a_leader_waits_and_goes_on)
{
    struct spot_lead *const a = candidate();
    pthread_t thread;

    lead_soon(a, "here:1");
    ck_assert_int_eq(spot_lead_put(a, "one", &err), 0);
    etcd_signal(1, SIGSTOP);
    etcd_signal(2, SIGSTOP);
    ck_assert_int_eq(pthread_create(&thread, NULL, cont_later, NULL), 0);
    ck_assert_int_eq(spot_lead_put(a, "two", &err), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(n_warned, 2); /* it pauses, it goes on */
    ck_assert_int_gt(n_ticked, 0);
    ck_assert_int_eq(spot_lead_put(a, "three", &err), 0);
    spot_lead_free(a);
}
END_TEST

START_TEST(without_a_quorum_a_wish_to_stop_is_heard)
{
    struct spot_lead *const a = candidate();

    lead_soon(a, "here:1");
    etcd_signal(1, SIGSTOP);
    etcd_signal(2, SIGSTOP);
    n_stop = 1;
    ck_assert_int_eq(spot_lead_put(a, "one", &err), -1);
    ck_assert_int_eq(err.code, SPOT_EPREEMPTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "stopped while the store did not answer"));
    spot_lead_free(a);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    if (!etcd_is_there()) {
        puts("1..0 # SKIP no etcd (Debian: etcd-server)");
        return 0;
    }
    tcase_add_checked_fixture(tc, up, etcd_down);
    tcase_add_test(tc, one_leads_and_the_next_reads_its_record);
    tcase_add_test(tc, the_prefix_of_another_job_is_refused);
    tcase_add_test(tc, a_leader_that_froze_writes_nothing_after_its_successor);
    tcase_add_test(tc, a_leader_that_froze_goes_on_where_nobody_followed);
    tcase_add_test(tc, without_a_quorum_a_leader_waits_and_goes_on);
    tcase_add_test(tc, without_a_quorum_a_wish_to_stop_is_heard);
    return run_suite("lead", tc);
}
