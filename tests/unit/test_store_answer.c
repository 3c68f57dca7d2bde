/* SPDX-License-Identifier: MIT */
/* Goal: what etcd says is read as it means it, and what is none of it is refused by name; a write
 * whose answer was lost is told from one that another did. */
#define _XOPEN_SOURCE 700 /* mkstemp */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/store_etcd.h"
#include "comm/endpoint.h"
#include "common/base64.h"
#include "suite.h"

static struct spot_etcd_answer a;
static struct spot_err err;

/* RFC 4648, section 10 */
static const char *const vectors[][2] = {
    { "", "" },
    { "f", "Zg==" },
    { "f\157", "Zm8=" },
    { "foo", "Zm9v" },
    { "foob", "Zm9vYg==" },
    { "fooba", "Zm9vYmE=" },
    { "foobar", "Zm9vYmFy" },
};

START_TEST(base64_is_that_of_the_standard)
{
    const char *const plain = vectors[_i][0], *const text = vectors[_i][1];
    char got[16], data[16];
    size_t n;

    spot_base64_encode(plain, strlen(plain), got);
    ck_assert_str_eq(got, text);
    ck_assert(spot_base64_decode(text, strlen(text), data, strlen(plain), &n));
    ck_assert_mem_eq(data, plain, strlen(plain));
    ck_assert_int_eq(n, strlen(plain));
    if (n)
        ck_assert(!spot_base64_decode(text, strlen(text), data, strlen(plain) - 1, &n));
}
END_TEST

static const char *const not_base64[] = { "Z",    "Zg=",      "Zg",    "Zh==", "Zm9=", "Z===",
                                          "====", "Zg==Zg==", "Zm9\n", " Zm9", "Zm-v", "Zm9v " };

START_TEST(what_is_not_written_so_is_none)
{
    char data[16];
    size_t n;

    ck_assert(!spot_base64_decode(not_base64[_i], strlen(not_base64[_i]), data, 16, &n));
}
END_TEST

static const struct where_case {
    const char *text;
    size_t n_url;
    const char *last, *prefix;
} wheres[] = {
    { "etcd://127.0.0.1:2379/job", 1, "http://127.0.0.1:2379", "job" },
    { "etcd://127.0.0.1:1,[::1]:2/a/b-c_d.e", 2, "http://[::1]:2", "a/b-c_d.e" },
    { "etcd://127.0.0.1:2379", 0, NULL, NULL },
    { "etcd://127.0.0.1:2379/", 0, NULL, NULL },
    { "etcd://127.0.0.1:2379/a b", 0, NULL, NULL },
    { "etcd://127.0.0.1:2379/a\"", 0, NULL, NULL },
    { "etcd://127.0.0.1:2379,/a", 0, NULL, NULL },
    { "etcd:///a", 0, NULL, NULL },
    { "etcd://unix:x/a", 0, NULL, NULL },
    { "etcd://10.0.0.1:2379/a", 0, NULL, NULL },
    { "etcd://127.0.0.1/a", 0, NULL, NULL },
    { "http://127.0.0.1:2379/a", 0, NULL, NULL },
    { "etcd://[::1]:1,[::1]:1,[::1]:1,[::1]:1,[::1]:1,[::1]:1,[::1]:1,[::1]:1/a", 0, NULL, NULL },
    { "", 0, NULL, NULL },
};

START_TEST(members_are_named_before_the_prefix)
{
    const struct where_case *const c = &wheres[_i];
    struct spot_etcd_where where;

    if (!c->n_url) {
        ck_assert_int_eq(spot_etcd_where_parse(c->text, &where, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EUSAGE);
        return;
    }
    ck_assert_int_eq(spot_etcd_where_parse(c->text, &where, &err), 0);
    ck_assert_int_eq(where.n_url, c->n_url);
    ck_assert_str_eq(where.url[c->n_url - 1], c->last);
    ck_assert_str_eq(where.prefix, c->prefix);
}
END_TEST

/* With TLS members may be anywhere, and what is in the URL is what it says. */
static const struct where_case abroad[] = {
    { "etcd://etcd-1.example.org:2379/job", 1, "https://etcd-1.example.org:2379", "job" },
    { "etcd://10.0.0.1:2379,[fd00::1]:2/a", 2, "https://[fd00::1]:2", "a" },
    { "etcd://me@host:2379/a", 0, NULL, NULL },
    { "etcd://host/a", 0, NULL, NULL },
    { "etcd://host:0/a", 0, NULL, NULL },
    { "etcd://host:70000/a", 0, NULL, NULL },
    { "etcd://host:7x/a", 0, NULL, NULL },
    { "etcd://[fd00::1:2379/a", 0, NULL, NULL },
    { "etcd://[host]:2379/a", 0, NULL, NULL },
    { "etcd://:2379/a", 0, NULL, NULL },
    { "etcd://ho st:2379/a", 0, NULL, NULL },
    { "etcd://h?x=:2379/a", 0, NULL, NULL },
    { "etcd://unix:2379/a", 0, NULL, NULL },
};

START_TEST(with_tls_members_are_anywhere)
{
    struct spot_etcd_where where;
    const struct where_case *const c = &abroad[_i];
    char text[400];

    setenv(SPOT_STORE_CA_ENV, "ca.pem", 1);
    ck_assert_int_eq(spot_etcd_where_parse(c->text, &where, &err), c->n_url ? 0 : -1);
    if (c->n_url) {
        ck_assert_str_eq(where.url[c->n_url - 1], c->last);
        ck_assert_str_eq(where.secret.ca, "ca.pem");
        ck_assert_ptr_null(where.secret.cert);
    }
    snprintf(text, sizeof(text), "etcd://%0200d:1/a", 0);
    ck_assert_int_eq(spot_etcd_where_parse(text, &where, &err), -1);
    unsetenv(SPOT_STORE_CA_ENV);
}
END_TEST

START_TEST(files_that_go_together)
{
    struct spot_store_secret secret;

    setenv(SPOT_STORE_CERT_ENV, "c", 1);
    setenv(SPOT_STORE_CA_ENV, "a", 1);
    ck_assert_int_eq(spot_store_secret_find(&secret, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    setenv(SPOT_STORE_KEY_ENV, "k", 1);
    ck_assert_int_eq(spot_store_secret_find(&secret, &err), 0);
    ck_assert_str_eq(secret.key, "k");
    setenv(SPOT_STORE_CA_ENV, "", 1);
    ck_assert_int_eq(spot_store_secret_find(&secret, &err), -1);
    unsetenv(SPOT_STORE_CERT_ENV);
    unsetenv(SPOT_STORE_KEY_ENV);
    unsetenv(SPOT_STORE_CA_ENV);
}
END_TEST

static const struct password_case {
    const char *text, *name, *password;
} passwords[] = {
    { "me:secret\n", "me", "secret" },
    { "me:a:b\"c\r\n", "me", "a:b\"c" },
    { "me:no newline", "me", "no newline" },
    { "", NULL, NULL },
    { "\n", NULL, NULL },
    { "me", NULL, NULL },
    { "me:\n", NULL, NULL },
    { ":secret\n", NULL, NULL },
};

START_TEST(a_password_has_a_name_and_one_reader)
{
    const struct password_case *const c = &passwords[_i];
    char name[SPOT_STORE_USER_MAX], password[SPOT_STORE_USER_MAX];
    char path[] = "/tmp/spot-user-XXXXXX";
    const int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, c->text, strlen(c->text)), (ssize_t)strlen(c->text));
    ck_assert_int_eq(spot_store_secret_user(path, name, password, &err), c->name ? 0 : -1);
    if (c->name) {
        ck_assert_str_eq(name, c->name);
        ck_assert_str_eq(password, c->password);
    }
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(spot_store_secret_user(path, name, password, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "others may read it"));
    close(fd);
    unlink(path);
    ck_assert_int_eq(spot_store_secret_user(path, name, password, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

static int read_answer(const char *text)
{
    return spot_etcd_answer_read(text, strlen(text), &a, &err);
}

#define HEAD "\"header\":{\"cluster_id\":\"14841639068965178418\",\"revision\":\"7\"}"

START_TEST(answers_are_read)
{
    ck_assert_int_eq(read_answer("{" HEAD ",\"ID\":\"7587848390229406988\",\"TTL\":\"5\"}"), 0);
    ck_assert(a.lease == 7587848390229406988 && a.ttl_s == 5 && a.revision == 7);
    ck_assert_int_eq(read_answer("{\"result\":{" HEAD ",\"ID\":\"3\"}}"), 0);
    ck_assert(a.lease == 3 && a.ttl_s == 0);
    ck_assert_int_eq(read_answer("{" HEAD ",\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"2\","
                                 "\"mod_revision\":\"5\",\"value\":\"Zm9v\",\"lease\":\"9\"}],"
                                 "\"count\":\"1\"}"),
                     0);
    ck_assert(a.n_entry == 1 && a.entry[0].created == 2 && a.entry[0].changed == 5 &&
              a.entry[0].lease == 9);
    ck_assert_str_eq(a.entry[0].value, "foo");
    ck_assert_int_eq(read_answer("{" HEAD ",\"succeeded\":true,\"responses\":[{\"response_put\":{"
                                 "\"header\":{\"revision\":\"7\"}}}]}"),
                     0);
    ck_assert(a.is_done && !a.n_entry);
    ck_assert_int_eq(read_answer("{" HEAD ",\"responses\":[{\"response_range\":{}},"
                                 "{\"response_range\":{\"kvs\":[{\"create_revision\":\"1\","
                                 "\"mod_revision\":\"1\"}]}}]}"),
                     0);
    ck_assert(!a.is_done && a.n_entry == 2 && !a.entry[0].created && a.entry[1].created == 1);
    ck_assert_str_eq(a.entry[1].value, "");
    ck_assert_str_eq(a.token, "");
    ck_assert_int_eq(read_answer("{" HEAD ",\"token\":\"vGE.2\"}"), 0);
    ck_assert_str_eq(a.token, "vGE.2");
}
END_TEST

#define KV(text) "{" HEAD ",\"kvs\":[{" text "}]}"

static const char *const wrong[] = {
    "",
    "[]",
    "{}",
    "<html>",
    "{\"header\":7}",
    "{\"header\":{\"revision\":7}}",
    "{\"header\":{\"revision\":\"-7\"}}",
    "{\"header\":{\"revision\":\"9223372036854775808\"}}",
    "{\"header\":{\"revision\":\"7x\"}}",
    "{\"error\":7}",
    KV("\"create_revision\":\"0\",\"mod_revision\":\"5\""),
    KV("\"create_revision\":\"6\",\"mod_revision\":\"5\""),
    KV("\"create_revision\":\"1\",\"mod_revision\":\"5\",\"value\":\"a\""),
    KV("\"create_revision\":\"1\",\"mod_revision\":\"5\",\"value\":1"),
    "{" HEAD ",\"kvs\":[{},{}]}",
    "{" HEAD ",\"kvs\":{}}",
    "{" HEAD ",\"responses\":{}}",
    "{" HEAD ",\"token\":7}",
    "{" HEAD ",\"token\":\"a\\r\\nX: y\"}",
    "{" HEAD ",\"responses\":[{\"response_range\":{}},{\"response_range\":{}},"
    "{\"response_range\":{}}]}",
};

START_TEST(what_is_no_answer_is_refused)
{
    ck_assert_int_eq(read_answer(wrong[_i]), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

START_TEST(an_error_is_told_in_its_words)
{
    ck_assert_int_eq(read_answer("{\"error\":\"etcdserver: no\\u001b leader\",\"code\":14}"), -1);
    ck_assert_str_eq(err.msg, "etcd: etcdserver: no? leader");
    ck_assert_int_eq(read_answer("{\"error\":{\"message\":\"too old\"}}"), -1);
    ck_assert_str_eq(err.msg, "etcd: too old");
}
END_TEST

/* --- a server that says what it is told, a connection for each ------------- */

static struct script {
    const char *body[4]; /* "": hang up without an answer */
    size_t n;
    int listener;
    pthread_t thread;
} script;

static void say(int fd, const char *body)
{
    char question[8192], text[1024];
    size_t n = 0;
    ssize_t some;
    int m;

    do { /* to the end of the question: a JSON object of one line */
        if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 60000) != 1)
            return;
        some = read(fd, question + n, sizeof(question) - 1 - n);
        n += some > 0 ? (size_t)some : 0;
        question[n] = '\0';
    } while (some > 0 && (!strstr(question, "\r\n\r\n") || question[n - 1] != '}'));
    m = snprintf(text, sizeof(text),
                 "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(body), body);
    if (*body)
        ck_assert_int_eq(write(fd, text, (size_t)m), m);
}

static void *serve(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < script.n; i++) {
        int fd;

        poll(&(struct pollfd){ .fd = script.listener, .events = POLLIN }, 1, 60000);
        fd = spot_endpoint_accept(script.listener);
        if (fd < 0)
            return NULL;
        say(fd, script.body[i]);
        close(fd);
    }
    return NULL;
}

/* Two members, which are one server. */
static struct spot_etcd *begin(const char *first, const char *second)
{
    struct spot_etcd_where where;
    struct spot_endpoint at;
    char text[128];

    script = (struct script){ .body = { first, second }, .n = second ? 2 : 1 };
    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &at, NULL), 0);
    script.listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(script.listener, 0);
    snprintf(text, sizeof(text), "etcd://127.0.0.1:%d,127.0.0.1:%d/p", at.port, at.port);
    ck_assert_int_eq(spot_etcd_where_parse(text, &where, NULL), 0);
    ck_assert_int_eq(pthread_create(&script.thread, NULL, serve, NULL), 0);
    return spot_etcd_open(&where, 40, NULL);
}

static void end(struct spot_etcd *store)
{
    pthread_join(script.thread, NULL);
    spot_etcd_close(store);
    close(script.listener);
}

#define SEEN(created, value)                                                                  \
    "{" HEAD ",\"responses\":[{\"response_range\":{\"kvs\":[{\"create_revision\":\"" created  \
    "\",\"mod_revision\":\"5\"}]}},{\"response_range\":{\"kvs\":[{\"create_revision\":\"6\"," \
    "\"mod_revision\":\"6\",\"value\":\"" value "\"}]}}]}"

static const struct lost_case {
    const char *second;
    int rc;
    int64_t changed;
} losts[] = {
    { SEEN("5", "Zm9v"), 1, 6 },                      /* ours: it was done at once */
    { SEEN("5", "Zm9vYg=="), -1, 0 },                 /* another value */
    { SEEN("4", "Zm9v"), 0, 0 },                      /* another leads */
    { "{" HEAD ",\"succeeded\":true}", 1, 7 },        /* the first never came */
    { "{" HEAD ",\"succeeded\":false}", -1, 0 },      /* tells nothing */
    { "{\"error\":\"etcdserver: stopped\"}", -1, 0 }, /* nor does this */
    { "", -1, 0 },
};

START_TEST(a_write_whose_answer_was_lost_is_found)
{
    const struct spot_etcd_lead lead = { .lease = 9, .created = 5 };
    struct spot_etcd *const store = begin("", losts[_i].second);
    int64_t changed = 0;

    ck_assert_int_eq(spot_etcd_put(store, &lead, "step", "foo", &changed, &err), losts[_i].rc);
    ck_assert_int_eq(changed, losts[_i].changed);
    end(store);
}
END_TEST

START_TEST(a_prefix_of_another_job_is_refused)
{
    const struct spot_etcd_lead lead = { .lease = 9, .created = 5 };
    struct spot_etcd *const store =
        begin(KV("\"create_revision\":\"1\",\"mod_revision\":\"1\",\"value\":\"Zm9v\""), NULL);

    ck_assert_int_eq(spot_etcd_claim(store, &lead, "bar", &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_str_eq(err.msg, "expected etcd's 'p' to be job bar's, got foo's");
    end(store);
}
END_TEST

#define N(array) (int)(sizeof(array) / sizeof((array)[0]))

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, base64_is_that_of_the_standard, 0, N(vectors));
    tcase_add_loop_test(tc, what_is_not_written_so_is_none, 0, N(not_base64));
    tcase_add_loop_test(tc, members_are_named_before_the_prefix, 0, N(wheres));
    tcase_add_loop_test(tc, with_tls_members_are_anywhere, 0, N(abroad));
    tcase_add_loop_test(tc, a_password_has_a_name_and_one_reader, 0, N(passwords));
    tcase_add_loop_test(tc, what_is_no_answer_is_refused, 0, N(wrong));
    tcase_add_loop_test(tc, a_write_whose_answer_was_lost_is_found, 0, N(losts));
    add_tests(tc);
    return run_suite("store_answer", tc);
}
