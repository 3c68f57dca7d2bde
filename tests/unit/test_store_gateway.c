/* SPDX-License-Identifier: MIT */
/* Goal: what is asked of etcd's gateway, and what its answers mean, also those that a real one
 * gives once in a while: a token that is stale, an answer that was lost though all was done,
 * another who was faster, words of a proxy. Oracle: the scripts, after the documents of etcd's v3
 * API. */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <sys/stat.h>

#include "cluster/store_etcd.h"
#include "cluster/store_secret.h"
#include "service_rig.h"

/* One question, and what is answered; "": the connection is closed. */
struct turn {
    const char *path, *body, *token; /* what they have; NULL: anything. token "": none */
    int status;
    const char *answer;
};

static const struct turn *script;
static _Atomic int n_turn, at_turn;
static struct spot_etcd_where where;
static struct spot_err err;
static struct spot_etcd_entry entry;
static char user_file[64];

static bool play(const struct question *q, FILE *out)
{
    const struct turn *const t = &script[at_turn];

    ck_assert_msg(at_turn < n_turn, "%s %s is not expected", q->path, q->body);
    at_turn++;
    ck_assert_str_eq(q->method, "POST");
    ck_assert_str_eq(q->path, t->path);
    if (t->body)
        ck_assert_msg(strstr(q->body, t->body) != NULL, "no %s in %s", t->body, q->body);
    if (t->token)
        ck_assert_str_eq(question_header(q, "Authorization"), t->token);
    if (*t->answer)
        reply(out, t->status, "", t->answer);
    return true;
}

static struct spot_etcd *open_store(const struct turn *turn, int n)
{
    struct spot_etcd *store;
    char url[96];

    script = turn;
    n_turn = n;
    at_turn = 0;
    begin_service(play);
    snprintf(url, sizeof(url), "etcd://%.64s/p", service.url + strlen("http://"));
    ck_assert_msg(!spot_etcd_where_parse(url, &where, &err), "%s", err.msg);
    store = spot_etcd_open(&where, 5, &err);
    ck_assert_msg(store != NULL, "%s", err.msg);
    return store;
}

#define OPEN(script) open_store(script, (int)(sizeof(script) / sizeof(script[0])))

/* All of the script was played. */
static void close_store(struct spot_etcd *store)
{
    spot_etcd_close(store);
    end_service();
    ck_assert_int_eq(at_turn, n_turn);
}

static void expect_error(enum spot_code code, const char *text)
{
    ck_assert_int_eq(err.code, code);
    ck_assert_msg(strstr(err.msg, text) != NULL, "no '%s' in '%s'", text, err.msg);
}

/* --- a password --- */

static void write_user(const char *text, mode_t mode)
{
    FILE *out;

    strcpy(user_file, "/tmp/spot-user-XXXXXX");
    out = fdopen(mkstemp(user_file), "w");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
    ck_assert_int_eq(chmod(user_file, mode), 0);
    ck_assert_int_eq(setenv(SPOT_STORE_USER_ENV, user_file, 1), 0);
}

static void drop_user(void)
{
    ck_assert_int_eq(unsetenv(SPOT_STORE_USER_ENV), 0);
    ck_assert_int_eq(unlink(user_file), 0);
}

#define AUTH  "/v3/auth/authenticate"
#define RANGE "/v3/kv/range"
#define STALE                                                                \
    "{\"error\":\"etcdserver: invalid auth token\",\"code\":16,\"message\":" \
    "\"etcdserver: invalid auth token\"}"
#define NOTHING "{\"header\":{\"revision\":\"5\"}}"

START_TEST(a_token_goes_with_all_questions_and_is_renewed_when_it_is_stale)
{
    static const struct turn turn[] = {
        { AUTH, "{\"name\":\"root\",\"password\":\"a:b\"}", "", 200,
          "{\"header\":{},\"token\":\"t1\"}" },
        { RANGE, NULL, "t1", 200, NOTHING },
        { RANGE, NULL, "t1", 401, STALE },
        { AUTH, NULL, "", 200, "{\"header\":{},\"token\":\"t2\"}" },
        { RANGE, NULL, "t2", 200, NOTHING },
        { RANGE, NULL, "t2", 400,
          "{\"error\":\"etcdserver: revision of auth store is old\",\"code\":3,\"message\":"
          "\"etcdserver: revision of auth store is old\"}" },
        { AUTH, NULL, "", 200, "{\"header\":{}}" },
    };
    struct spot_etcd *store;

    write_user("root:a:b\n", 0600);
    store = OPEN(turn);
    ck_assert_int_eq(spot_etcd_get(store, "k", &entry, &err), 0);
    ck_assert_int_eq(spot_etcd_get(store, "k", &entry, &err), 0);
    ck_assert_int_eq(spot_etcd_get(store, "k", &entry, &err), -1);
    expect_error(SPOT_ESYS, "expected a token of etcd, got none");
    close_store(store);
    drop_user();
}
END_TEST

START_TEST(a_password_that_is_wrong_or_for_all_to_read_is_refused)
{
    static const struct turn turn[] = {
        { AUTH, NULL, "", 400,
          "{\"error\":\"etcdserver: authentication failed, invalid user ID or "
          "password\",\"code\":3,"
          "\"message\":\"etcdserver: authentication failed, invalid user ID or password\"}" },
    };
    struct spot_etcd *store;

    write_user("root:wrong", 0600);
    store = OPEN(turn);
    ck_assert_int_eq(spot_etcd_get(store, "k", &entry, &err), -1);
    expect_error(SPOT_ESYS, "invalid user ID or password");
    close_store(store);
    ck_assert_int_eq(chmod(user_file, 0644), 0);
    ck_assert_ptr_null(spot_etcd_open(&where, 1, &err));
    expect_error(SPOT_EUSAGE, "others may read it (mode 0644); chmod 600 it");
    drop_user();
    write_user("nobody\n", 0600);
    ck_assert_int_eq(spot_etcd_where_parse("etcd://127.0.0.1:1/p", &where, &err), 0);
    ck_assert_ptr_null(spot_etcd_open(&where, 1, &err));
    expect_error(SPOT_EUSAGE, "expected NAME:PASSWORD");
    drop_user();
}
END_TEST

/* --- answers --- */

START_TEST(what_is_no_answer_of_etcd_is_told_in_its_words)
{
    static const struct turn turn[] = {
        { RANGE, NULL, "", 502,
          "<html>\x1b[1m"
          "Bad Gateway\r\nfrom a proxy" },
        { RANGE, NULL, "", 500, "{\"header\":{}}" },
        { RANGE, NULL, "", 200, "" },
    };
    struct spot_etcd *const store = OPEN(turn);

    ck_assert_int_eq(spot_etcd_get(store, "k", &entry, &err), -1);
    expect_error(SPOT_ESYS, "etcd: status 502: <html>?[1mBad Gateway");
    ck_assert_ptr_null(strstr(err.msg, "from a proxy"));
    ck_assert_int_eq(spot_etcd_get(store, "k", &entry, &err), -1);
    expect_error(SPOT_ESYS, "etcd: status 500");
    ck_assert_int_eq(spot_etcd_get(store, "k", &entry, &err), -1);
    expect_error(SPOT_ESYS, "expected an answer of etcd at http://127.0.0.1:");
    close_store(store);
}
END_TEST

/* "b3RoZXI=" is base64 of "other" */
#define LEADER(lease, created)                                                                \
    "{\"header\":{\"revision\":\"9\"},\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":" \
    "\"eA==\",\"value\":\"b3RoZXI=\",\"create_revision\":\"" created                          \
    "\",\"mod_revision\":\"" created "\",\"lease\":\"" lease "\"}],\"count\":\"1\"}}]}"
#define GRANT   "/v3/lease/grant"
#define TXN     "/v3/kv/txn"
#define GRANTED "{\"header\":{},\"ID\":\"77\",\"TTL\":\"5\"}"

START_TEST(who_is_faster_leads_and_a_lost_answer_is_no_loss)
{
    static const struct turn turn[] = {
        /* another was faster */
        { RANGE, NULL, NULL, 200, NOTHING },
        { GRANT, "{\"TTL\":\"5\"}", NULL, 200, GRANTED },
        { TXN, "\"create_revision\":\"0\"", NULL, 200, LEADER("66", "8") },
        { "/v3/lease/revoke", "{\"ID\":\"77\"}", NULL, 200, "{\"header\":{}}" },
        /* the answer was lost, and the question asked again */
        { RANGE, NULL, NULL, 200, NOTHING },
        { GRANT, NULL, NULL, 200, GRANTED },
        { TXN, NULL, NULL, 200, LEADER("77", "9") },
        /* no lease */
        { RANGE, NULL, NULL, 200, NOTHING },
        { GRANT, NULL, NULL, 200, "{\"header\":{}}" },
        /* nobody answers the transaction */
        { RANGE, NULL, NULL, 200, NOTHING },
        { GRANT, NULL, NULL, 200, GRANTED },
        { TXN, NULL, NULL, 200, "" },
    };
    struct spot_etcd *const store = OPEN(turn);
    struct spot_etcd_lead lead = { 0 };

    ck_assert_int_eq(spot_etcd_lead(store, "here:1", 5, &lead, &entry, &err), 0);
    ck_assert_str_eq(entry.value, "other");
    ck_assert_int_eq(spot_etcd_lead(store, "here:1", 5, &lead, &entry, &err), 1);
    ck_assert_int_eq(lead.created, 9);
    ck_assert_int_eq(lead.lease, 77);
    ck_assert_int_eq(spot_etcd_lead(store, "here:1", 5, &lead, &entry, &err), -1);
    expect_error(SPOT_EDATA, "expected a lease of etcd, got none");
    ck_assert_int_eq(spot_etcd_lead(store, "here:1", 5, &lead, &entry, &err), -1);
    expect_error(SPOT_ESYS, "expected an answer of etcd at http://127.0.0.1:");
    close_store(store);
}
END_TEST

START_TEST(what_is_too_long_is_not_asked)
{
    static const struct turn turn[] = { { RANGE, NULL, NULL, 200, NOTHING },
                                        { GRANT, NULL, NULL, 200, GRANTED } };
    struct spot_etcd *const store = OPEN(turn);
    struct spot_etcd_lead lead = { .created = 1 };
    char text[SPOT_ETCD_VALUE_MAX + 2];
    int64_t changed = 0;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    ck_assert_int_eq(spot_etcd_put(store, &lead, "k", text, &changed, &err), -1);
    expect_error(SPOT_EUSAGE, "expected a record of at most 4096 bytes, got 4097");
    ck_assert_int_eq(spot_etcd_lead(store, text, 5, &lead, &entry, &err), -1);
    expect_error(SPOT_EUSAGE, "expected an address of at most 4096 bytes, got 4097");
    close_store(store);
}
END_TEST

#define ENTRIES(leader, value, changed)                                                            \
    "{\"header\":{\"revision\":\"9\"},\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"eA=" \
    "=\","                                                                                         \
    "\"value\":\"b3RoZXI=\",\"create_revision\":\"" leader "\",\"mod_revision\":\"" leader         \
    "\"}],\"count\":\"1\"}},{\"response_range\":{\"kvs\":[{\"key\":\"eQ==\",\"value\":\"" value    \
    "\",\"create_revision\":\"1\",\"mod_revision\":\"" changed "\"}],\"count\":\"1\"}}]}"

START_TEST(a_record_is_written_once_and_by_who_leads)
{
    static const struct turn turn[] = {
        { TXN, "\"mod_revision\":\"4\"", NULL, 200,
          "{\"header\":{\"revision\":\"6\"},"
          "\"succeeded\":true}" },
        { TXN, "\"mod_revision\":\"6\"", NULL, 200, ENTRIES("3", "b3RoZXI=", "8") },
        { TXN, NULL, NULL, 200, ENTRIES("3", "bmV3", "9") },
        { TXN, NULL, NULL, 200, ENTRIES("2", "b3RoZXI=", "8") },
        { TXN, NULL, NULL, 200, "{\"header\":{\"revision\":\"6\"}}" },
    };
    struct spot_etcd *const store = OPEN(turn);
    const struct spot_etcd_lead lead = { .created = 3 };
    int64_t changed = 4;

    ck_assert_int_eq(spot_etcd_put(store, &lead, "k", "one", &changed, &err), 1);
    ck_assert_int_eq(changed, 6);
    ck_assert_int_eq(spot_etcd_put(store, &lead, "k", "new", &changed, &err), -1);
    expect_error(SPOT_EDATA, "expected 'k' at revision 6 of etcd, got 8");
    ck_assert_int_eq(spot_etcd_put(store, &lead, "k", "new", &changed, &err), 1); /* "bmV3" */
    ck_assert_int_eq(changed, 9);
    ck_assert_int_eq(spot_etcd_put(store, &lead, "k", "new", &changed, &err), 0);
    ck_assert_int_eq(spot_etcd_put(store, &lead, "k", "new", &changed, &err), -1);
    expect_error(SPOT_ESYS, "expected etcd to return the leader and 'k'");
    close_store(store);
}
END_TEST

int main(void)
{
    return run_suite("store_gateway", add_tests(tcase_create("core")));
}
