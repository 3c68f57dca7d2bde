/* SPDX-License-Identifier: MIT */
/* Goal: with a real etcd of three members, one leads; who was led past writes no more, whatever its
 * clock says; without a quorum nobody leads anew and nothing is written. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <inttypes.h>

#include "comm/http_client.h"
#include "etcd_rig.h"

static struct spot_etcd_entry entry;
static struct spot_err err;

static int lead(struct spot_etcd *store, const char *who, struct spot_etcd_lead *held)
{
    return spot_etcd_lead(store, who, 1, held, &entry, &err);
}

/* Until it leads; nobody else is in the way for longer than a lease. */
static void lead_soon(struct spot_etcd *store, const char *who, struct spot_etcd_lead *held)
{
    int rc = 0;

    for (int i = 0; rc != 1 && i < 1200; i++) {
        rc = lead(store, who, held);
        if (rc != 1)
            spot_clock_sleep(.05);
    }
    ck_assert_int_eq(rc, 1);
}

START_TEST(one_leads_and_what_it_writes_is_read)
{
    struct spot_etcd *const a = etcd_store(), *const b = etcd_store();
    struct spot_etcd_lead by_a, by_b;
    int64_t changed = 0, stale = 0;

    ck_assert_int_eq(spot_etcd_get(a, "step", &entry, &err), 0);
    ck_assert_int_eq(spot_etcd_lead(a, "here:1", 60, &by_a, &entry, &err), 1);
    ck_assert_int_eq(spot_etcd_lead(b, "there:2", 60, &by_b, &entry, &err), 0);
    ck_assert_str_eq(entry.value, "here:1");
    ck_assert(entry.created == by_a.created && entry.lease == by_a.lease);
    ck_assert_int_eq(spot_etcd_put(a, &by_a, "step", "7", &changed, &err), 1);
    ck_assert_int_eq(spot_etcd_get(b, "step", &entry, &err), 1);
    ck_assert_str_eq(entry.value, "7");
    ck_assert_int_eq(entry.changed, changed);
    ck_assert_int_eq(spot_etcd_put(a, &by_a, "step", "8", &stale, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_int_eq(spot_etcd_claim(a, &by_a, "job-1", &err), 1);
    ck_assert_int_eq(spot_etcd_claim(a, &by_a, "job-1", &err), 1);
    ck_assert_int_eq(spot_etcd_claim(a, &by_a, "job-2", &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "job-1"));
    ck_assert_ptr_nonnull(strstr(err.msg, "job-2"));
    ck_assert_int_eq(spot_etcd_keep(a, &by_a, &err), 1);
    ck_assert_int_eq(spot_etcd_resign(a, &by_a, &err), 0);
    ck_assert_int_eq(spot_etcd_lead(b, "there:2", 60, &by_b, &entry, &err), 1);
    ck_assert_int_eq(spot_etcd_put(a, &by_a, "step", "9", &changed, &err), 0);
    ck_assert_int_eq(spot_etcd_get(b, "step", &entry, &err), 1);
    ck_assert_str_eq(entry.value, "7");
    ck_assert_int_eq(spot_etcd_resign(b, &by_b, &err), 0);
    spot_etcd_close(a);
    spot_etcd_close(b);
}
END_TEST

START_TEST(a_lease_that_is_not_kept_ends)
{
    struct spot_etcd *const a = etcd_store(), *const b = etcd_store();
    struct spot_etcd_lead by_a, by_b;
    int64_t changed = 0;

    lead_soon(a, "a", &by_a);
    lead_soon(b, "b", &by_b);
    ck_assert_double_le(by_a.until_s, spot_clock_s());
    ck_assert_int_eq(spot_etcd_keep(a, &by_a, &err), 0);
    ck_assert_int_eq(spot_etcd_put(a, &by_a, "late", "a", &changed, &err), 0);
    ck_assert_int_eq(spot_etcd_get(b, "late", &entry, &err), 0);
    spot_etcd_close(a);
    spot_etcd_close(b);
}
END_TEST

/* One more step, unless another leads. Which, is for etcd to say: who is late here asks nobody's
 * clock. */
static bool commit(struct spot_etcd *store, const struct spot_etcd_lead *held, const char *who,
                   int64_t *changed, int *step)
{
    char text[32];

    snprintf(text, sizeof(text), "%d %s", *step + 1, who);
    if (spot_etcd_put(store, held, "commit", text, changed, &err) != 1)
        return false;
    ++*step;
    return true;
}

/* Each leads in turn when the other's lease is over. A leader may oversleep its own at any time,
 * and then commits nothing; what it tries when another has led is refused always. */
START_TEST(steps_are_committed_once_by_leaders_that_oversleep)
{
    struct spot_etcd *const store[2] = { etcd_store(), etcd_store() };
    struct spot_etcd_lead held[2];
    int step = 0;
    int64_t changed = 0;

    lead_soon(store[0], "0", &held[0]);
    for (int round = 0; step < 4 && round < 20; round++) {
        const int me = round % 2, next = !me;
        int64_t seen;
        int mine;

        (void)commit(store[me], &held[me], me ? "1" : "0", &changed, &step);
        seen = changed;
        mine = step;
        lead_soon(store[next], next ? "1" : "0", &held[next]);
        ck_assert_int_eq(spot_etcd_get(store[next], "commit", &entry, &err), step ? 1 : 0);
        ck_assert_int_eq(strtol(entry.value, NULL, 10), step);
        if (round & 1) /* late before the next has written, or after */
            (void)commit(store[next], &held[next], next ? "1" : "0", &changed, &step);
        ck_assert(!commit(store[me], &held[me], "late", &seen, &mine));
    }
    ck_assert_int_ge(step, 4);
    ck_assert_int_eq(spot_etcd_get(store[0], "commit", &entry, &err), 1);
    ck_assert_int_eq(strtol(entry.value, NULL, 10), step);
    spot_etcd_close(store[0]);
    spot_etcd_close(store[1]);
}
END_TEST

START_TEST(members_die_and_without_a_quorum_nobody_leads)
{
    struct spot_etcd *const a = etcd_store(), *const b = etcd_store();
    struct spot_etcd_lead by_a, by_b;
    int64_t changed = 0;
    int rc = -1;

    ck_assert_int_eq(spot_etcd_lead(a, "a", 600, &by_a, &entry, &err), 1);
    etcd_signal(0, SIGKILL); /* which `a` asks first; it may have led etcd */
    for (int i = 0; rc < 0 && i < 20; i++)
        rc = spot_etcd_put(a, &by_a, "step", "1", &changed, &err);
    ck_assert_int_eq(rc, 1);
    etcd_signal(1, SIGSTOP);
    ck_assert_int_eq(spot_etcd_put(a, &by_a, "step", "2", &changed, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_int_eq(spot_etcd_keep(a, &by_a, &err), -1);
    ck_assert_int_eq(spot_etcd_lead(b, "b", 600, &by_b, &entry, &err), -1);
    etcd_signal(1, SIGCONT);
    rc = -1;
    for (int i = 0; rc < 0 && i < 20; i++)
        rc = spot_etcd_put(a, &by_a, "step", "2", &changed, &err);
    ck_assert_int_eq(rc, 1);
    ck_assert_int_eq(spot_etcd_lead(b, "b", 600, &by_b, &entry, &err), 0);
    ck_assert_int_eq(spot_etcd_get(b, "step", &entry, &err), 1);
    ck_assert_str_eq(entry.value, "2");
    ck_assert_int_eq(entry.changed, changed);
    spot_etcd_close(a);
    spot_etcd_close(b);
}
END_TEST

static void compacted(void *user, const struct spot_http_reply *reply)
{
    *(long *)user = reply->status;
}

static void compact(int64_t revision)
{
    struct spot_http_client *const client = spot_http_client_new(NULL);
    char url[192], body[64];
    const struct spot_http_ask ask = {
        .method = "POST", .url = url, .body = body, .connect_s = 20, .limit_s = 20
    };
    long status = -1;

    snprintf(url, sizeof(url), "%s/v3/kv/compaction", rig.where.url[0]);
    snprintf(body, sizeof(body), "{\"revision\":\"%" PRId64 "\",\"physical\":true}", revision);
    ck_assert_int_eq(spot_http_client_ask(client, &ask, compacted, &status, NULL), 0);
    while (status < 0)
        ck_assert_int_eq(spot_http_client_wait(client, NULL, 0, 20, NULL), 0);
    ck_assert_int_eq(status, 200);
    spot_http_client_free(client);
}

START_TEST(what_stands_outlives_a_compaction)
{
    struct spot_etcd *const a = etcd_store();
    struct spot_etcd_lead by_a;
    int64_t changed = 0;

    ck_assert_int_eq(spot_etcd_lead(a, "a", 600, &by_a, &entry, &err), 1);
    ck_assert_int_eq(spot_etcd_put(a, &by_a, "old", "1", &changed, &err), 1);
    changed = 0;
    ck_assert_int_eq(spot_etcd_put(a, &by_a, "step", "1", &changed, &err), 1);
    ck_assert_int_eq(spot_etcd_put(a, &by_a, "step", "2", &changed, &err), 1);
    compact(changed); /* the leader's key and `old` are of revisions before */
    ck_assert_int_eq(spot_etcd_get(a, "old", &entry, &err), 1);
    ck_assert_str_eq(entry.value, "1");
    ck_assert_int_eq(spot_etcd_put(a, &by_a, "step", "3", &changed, &err), 1);
    ck_assert_int_eq(spot_etcd_leader(a, &entry, &err), 1);
    ck_assert_int_eq(entry.created, by_a.created);
    spot_etcd_close(a);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    if (!etcd_is_there()) {
        puts("1..0 # SKIP no etcd (Debian: etcd-server)");
        return 0;
    }
    tcase_add_checked_fixture(tc, etcd_up, etcd_down);
    tcase_add_test(tc, one_leads_and_what_it_writes_is_read);
    tcase_add_test(tc, a_lease_that_is_not_kept_ends);
    tcase_add_test(tc, steps_are_committed_once_by_leaders_that_oversleep);
    tcase_add_test(tc, what_stands_outlives_a_compaction);
    tcase_add_test(tc, members_die_and_without_a_quorum_nobody_leads);
    return run_suite("store_etcd", tc);
}
