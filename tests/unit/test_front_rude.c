/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "common/clock.h"
#include "common/rng.h"
#include "front_rig.h"

/* Goal: each path has its methods; whoever asks for too much, has no key, speaks no HTTP or says
 * nothing gets an answer that says so, or none, and harms nobody else. */

static const char stream[] = "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":8,\"stream\":true}";

static void setup(void)
{
    rig_begin();
    rig_open();
}

/* --- what is refused ------------------------------------------------------------------- */

static const struct {
    const char *method, *path, *headers, *body, *says;
    int status;
} plain[] = {
    { "GET", "/v1/models", "", "", "\"id\":\"m\"", 200 },
    { "GET", "/v1/models/m", "", "", "\"object\":\"model\"", 200 },
    { "GET", "/v1/models/n", "", "", "model_not_found", 404 },
    { "GET", "/v1/models/n", "", "", "this server has 'm'", 404 },
    { "GET", "/health?x=1", "", "", "\"status\":\"ok\"", 200 },
    { "HEAD", "/health", "", "", "application/json", 200 },
    { "GET", "/metrics", "", "", "spot_up 1\n", 200 },
    { "GET", "/v1/streams/none", "", "", "stream_not_found", 404 },
    { "GET", "/v1/", "", "", "Unknown path", 404 },
    { "POST", "/v1/completionss", "", "{}", "Unknown path", 404 },
    { "HEAD", "/v1/streams/none", "", "", "application/json", 404 },
    { "OPTIONS", "/v1/streams/none", "", "", "Allow: GET, HEAD, DELETE, OPTIONS", 204 },
    { "DELETE", "/v1/streams/none", "", "", "stream_not_found", 404 },
    { "DELETE", "/v1/models", "", "", "Allow: GET", 405 },
    { "OPTIONS", "/v1/completions", "", "", "Allow: POST, OPTIONS", 204 },
    { "GET", "/v1/completions", "", "", "Allow: POST", 405 },
    { "PUT", "/v1/chat/completions", "", "{}", "Allow: POST", 405 },
    { "POST", "/v1/models", "", "{}", "Allow: GET", 405 },
    { "POST", "/v1/completions", "", "{\"model\":", "could not parse", 400 },
    { "POST", "/v1/completions", "", "", "could not parse", 400 },
    { "POST", "/v1/chat/completions", "Content-Type: application/json\r\n", "", "could not parse",
      400 },
    { "GET", "/v1/models/m%00x", "", "", "The target is malformed", 400 },
    { "GET", "http://localhost/v1/models/m", "", "", "\"id\":\"m\"", 200 },
    { "GET", "//v1/models/m", "", "", "\"id\":\"m\"", 200 },
    { "POST", "/v1/completions/", "", "{", "could not parse", 400 },
    { "GET", "/health/", "", "", "\"status\":\"ok\"", 200 },
    { "POST", "//v1/chat/completions/", "Content-Encoding: Identity\r\n", "{", "could not parse",
      400 },
    { "POST", "/v1/completions", "Content-Encoding: gzip\r\n", "\x1f\x8b", "Content-Encoding",
      415 },
    { "POST", "/v1/completions//", "", "{}", "Unknown path", 404 },
    { "POST", "/v1/chat/completions", "",
      "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", "no chat template",
      400 },
};

START_TEST(each_path_has_its_methods_and_answers)
{
    struct client k;

    client_once(&k, plain[_i].method, plain[_i].path, plain[_i].headers, plain[_i].body);
    ck_assert_msg(client_status(&k) == plain[_i].status && strstr(client_text(&k), plain[_i].says),
                  "%s %s: %s", plain[_i].method, plain[_i].path, client_text(&k));
    client_close(&k);
}
END_TEST

START_TEST(a_body_that_is_too_large_is_not_read)
{
    static char body[4 * RIG_BODY_MAX];
    struct client k;

    memset(body, ' ', sizeof(body) - 1);
    client_once(&k, "POST", "/v1/completions", "", body);
    ck_assert_int_eq(client_status(&k), 413);
    client_close(&k);
    body[RIG_BODY_MAX] = '\0'; /* as large as may be: what it says counts */
    client_once(&k, "POST", "/v1/completions", "", body);
    ck_assert_int_eq(client_status(&k), 400);
    client_close(&k);
}
END_TEST

static const struct {
    enum spot_admission admission;
    int status;
    const char *says;
} admission[] = { { SPOT_ADMIT_FULL, 429, "rate_limit_exceeded" },
                  { SPOT_ADMIT_NOBODY, 503, "No worker" },
                  { SPOT_ADMIT_DRAINING, 503, "shutting down" } };

START_TEST(who_is_not_admitted_hears_when_to_come_back)
{
    struct client k;

    rig.admission = rig.health = admission[_i].admission;
    client_once(&k, "POST", "/v1/completions", "", stream);
    ck_assert_int_eq(client_status(&k), admission[_i].status);
    ck_assert_ptr_nonnull(strstr(client_text(&k), admission[_i].says));
    ck_assert_ptr_nonnull(strstr(client_text(&k), "Retry-After: 7\r\n"));
    client_close(&k);
    client_once(&k, "GET", "/health", "", ""); /* a full queue is no illness */
    ck_assert_int_eq(client_status(&k), rig.health == SPOT_ADMIT_FULL ? 200 : 503);
    client_close(&k);
    ck_assert(spot_front_is_idle(rig_front));
}
END_TEST

START_TEST(a_front_that_drains_ends_what_runs_and_takes_nothing)
{
    struct client k, other;
    struct spot_completion *const c = rig_take(&k, stream);

    spot_front_drain(rig_front);
    client_once(&other, "POST", "/v1/completions", "", stream);
    ck_assert_int_eq(client_status(&other), 503);
    client_close(&other);
    client_once(&other, "GET", "/health", "", "");
    ck_assert_int_eq(client_status(&other), 503);
    client_close(&other);
    ck_assert(!spot_front_is_idle(rig_front));
    rig_commit(c, 0, 'E');
    client_hear(&k, "data: [DONE]");
    client_close(&k);
    for (int i = 0; i < RIG_TURNS && !spot_front_is_idle(rig_front); i++)
        rig_turn();
    ck_assert(spot_front_is_idle(rig_front));
}
END_TEST

/* --- keys -------------------------------------------------------------------------------- */

/* `n` keys key-0, key-1..; the file is removed by the caller. */
static void write_keys(char path[64], size_t n)
{
    FILE *f;

    snprintf(path, 64, "%s/keys", rig_dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "key-%zu%s\n", i, i % 2 ? "\r" : "");
    fclose(f);
    rig_options.api_key_file = path;
}

START_TEST(only_a_key_of_the_file_opens_the_door)
{
    static const struct {
        const char *header;
        int status;
    } try[] = { { "", 401 },
                { "Authorization: Bearer key-1\r\n", 200 },
                { "Authorization: Bearer key-2\r\n", 200 },
                { "Authorization: bearer key-2\r\n", 200 },
                { "authorization: BEARER  key-2\r\n", 200 },
                { "Authorization: Bearer key-3\r\n", 401 },
                { "Authorization: Bearerkey-2\r\n", 401 },
                { "Authorization: Bearer key-\r\n", 401 },
                { "Authorization: Bearer key-11\r\n", 401 },
                { "Authorization: Bearer \r\n", 401 },
                { "Authorization: Basic key-1\r\n", 401 },
                { "Authorization: key-1\r\n", 401 } };
    char path[64];
    struct client k;

    rig_begin();
    write_keys(path, 3);
    rig_open();
    unlink(path);
    for (size_t i = 0; i < sizeof(try) / sizeof(*try); i++) {
        client_once(&k, "GET", "/v1/models", try[i].header, "");
        ck_assert_msg(client_status(&k) == try[i].status, "%s: %s", try[i].header, client_text(&k));
        ck_assert((try[i].status == 401) == !!strstr(client_text(&k), "WWW-Authenticate: Bearer"));
        client_close(&k);
    }
    client_once(&k, "POST", "/v1/completions", "", stream);
    ck_assert_int_eq(client_status(&k), 401);
    ck_assert_uint_eq(rig.n, 0);
    client_close(&k);
    client_once(&k, "GET", "/health", "", ""); /* for balancers, who have none */
    ck_assert_int_eq(client_status(&k), 200);
    client_close(&k);
    rig_end_all();
}
END_TEST

/* Who knows its name alone, and has a key too, is no client of it. */
START_TEST(a_stream_is_of_the_key_that_asked_for_it)
{
    static const char *const other[] = { "Authorization: Bearer key-2\r\n",
                                         "Authorization: Bearer key-2\r\nLast-Event-ID: 0:0\r\n" };
    static const char own[] = "Authorization: Bearer key-1\r\nLast-Event-ID: 0:0\r\n";
    char path[64], at[128];
    struct client k, peer;
    struct spot_completion *c;

    rig_begin();
    write_keys(path, 3);
    rig_open();
    unlink(path);
    client_ask(&k, "POST", "/v1/completions", "Authorization: Bearer key-1\r\n", stream);
    client_hear(&k, "text/event-stream");
    c = rig.c[0];
    rig_commit(c, 0, 'a');
    rig_commit(c, 0, 'b');
    snprintf(at, sizeof(at), "/v1/streams/%s", c->request.id);
    for (int i = 0; i < 2; i++) {
        client_once(&peer, "GET", at, other[i], "");
        ck_assert_int_eq(client_status(&peer), 404);
        ck_assert_ptr_nonnull(strstr(client_text(&peer), "stream_not_found"));
        client_close(&peer);
        client_once(&peer, "HEAD", at, other[i], "");
        ck_assert_int_eq(client_status(&peer), 404);
        client_close(&peer);
    }
    ck_assert_uint_eq(rig.n_abandoned, 0);
    client_ask(&peer, "GET", at, own, "");
    client_hear(&peer, "id: 0:1");
    client_close(&peer);
    client_close(&k);
    rig_end_all();
}
END_TEST

/* Not a byte of these bodies is sent. */
static const char *const unsaid[] = { "Content-Length: 900000\r\n",
                                      "Transfer-Encoding: chunked\r\n",
                                      "Content-Length: 9\r\nExpect: 100-continue\r\n" };

START_TEST(a_body_of_who_has_no_key_is_not_awaited)
{
    char path[64], head[256];
    struct client k;

    rig_begin();
    write_keys(path, 1);
    rig_options.body_max_byte = 1 << 20;
    rig_open();
    unlink(path);
    snprintf(head, sizeof(head), "POST /v1/completions HTTP/1.1\r\nHost: x\r\n%s\r\n", unsaid[_i]);
    client_open(&k);
    client_send(&k, head, strlen(head));
    client_hear(&k, "invalid_api_key");
    ck_assert_int_eq(client_status(&k), 401);
    client_hear(&k, NULL); /* what else it sends would be its body */
    client_close(&k);
    rig_check_served();
    rig_end_all();
}
END_TEST

static const struct {
    const char *headers;
    int status;
} from[] = {
    { "Host: evil.example\r\n", 403 },
    { "Host: 127.0.0.1.evil.example:80\r\n", 403 },
    { "Host: localhost.evil.example\r\n", 403 },
    { "Host: 127.0.0.1:1\r\n", 200 },
    { "Host: Localhost\r\n", 200 },
    { "Host: [::1]:80\r\n", 200 },
    { "Host: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:1\r\n", 200 },
    { "Host: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:2\r\n", 403 },
    { "Host: localhost\r\nOrigin: https://evil.example\r\n", 403 },
    { "Host: localhost\r\nOrigin: null\r\n", 403 },
};

static int status_of(const char *headers)
{
    struct client k;
    char head[256];
    int status;

    snprintf(head, sizeof(head), "GET /v1/models HTTP/1.1\r\n%sConnection: close\r\n\r\n", headers);
    client_open(&k);
    client_send(&k, head, strlen(head));
    client_hear(&k, NULL);
    status = client_status(&k);
    client_close(&k);
    return status;
}

/* By TCP; a socket of Unix is out of a page's reach, and who asks for keys knows who asks. */
START_TEST(a_page_from_elsewhere_is_refused_where_no_key_is_asked_for)
{
    char path[64];

    rig_begin();
    rig_options.address = "127.0.0.1:0";
    rig_open();
    ck_assert_int_eq(status_of(from[_i].headers), from[_i].status);
    rig_close();
    write_keys(path, 1);
    rig_open();
    unlink(path);
    ck_assert_int_eq(status_of(from[_i].headers), 401);
    rig_end_all();
}
END_TEST

START_TEST(a_file_of_no_keys_or_too_many_is_refused)
{
    static const size_t n_key[] = { 0, 1025 };
    struct spot_err err = { 0 };
    char path[64];

    rig_begin();
    write_keys(path, n_key[_i]);
    ck_assert_ptr_null(spot_front_new(&rig_options, &rig_table, NULL, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, path));
    unlink(path);
    rig_end_all();
}
END_TEST

/* --- strangers ---------------------------------------------------------------------------- */

static const char *const malformed[] = {
    "GET\r\n\r\n",
    "GET /nothing HTTP/9.9\r\n\r\n",
    "GET /nothing HTTP/1.1\r\n\r\n",
    "GET /nothing HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
    "Content-Length: -1\r\n\r\n{}",
    "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
    "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"
};

START_TEST(what_is_not_http_is_refused_and_harms_nobody)
{
    struct spot_rng rng;
    struct client k;

    for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
        client_open(&k);
        client_send(&k, malformed[i], strlen(malformed[i]));
        shutdown(k.fd, SHUT_WR);
        client_hear(&k, NULL);
        ck_assert_msg(!client_status(&k) || client_status(&k) >= 400, "%s: %s", malformed[i],
                      client_text(&k));
        client_close(&k);
    }
    spot_rng_init(&rng, 1, 0);
    for (int i = 0; i < 200; i++) {
        unsigned char noise[300];

        for (size_t b = 0; b < sizeof(noise); b++)
            noise[b] = (unsigned char)spot_rng_below(&rng, 256);
        client_open(&k);
        client_send(&k, noise, sizeof(noise));
        rig_turn();
        client_close(&k);
    }
    rig_check_served();
    ck_assert_uint_eq(rig.n, 0);
}
END_TEST

START_TEST(headers_without_end_are_refused)
{
    static char line[1024];
    struct client k;

    memset(line, 'a', sizeof(line));
    memcpy(line + sizeof(line) - 4, ": b\n", 4);
    client_open(&k);
    client_send(&k, "GET /health HTTP/1.1\r\nHost: x\r\n", 31);
    for (int i = 0; i < 1000 && !k.is_ended; i++) {
        client_send(&k, line, sizeof(line));
        rig_turn();
        client_read(&k);
    }
    client_hear(&k, NULL);
    ck_assert_int_ne(client_status(&k), 200);
    client_close(&k);
    rig_check_served();
}
END_TEST

static const char *const silent[] = { "", "\r\n\r\n\r\n\r\n", "POST /v1/comp",
                                      "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                                      "Content-Length: 9\r\n\r\n{" };

/* Also who has ended its own side. */
START_TEST(who_says_nothing_more_is_hung_up_on)
{
    struct client k;

    rig_begin();
    rig_options.idle_s = 1;
    rig_open();
    client_open(&k);
    client_send(&k, silent[_i / 2], strlen(silent[_i / 2]));
    if (_i % 2)
        shutdown(k.fd, SHUT_WR);
    client_hear(&k, NULL);
    ck_assert_int_ne(client_status(&k), 200);
    client_close(&k);
    rig_check_served();
    rig_end_all();
}
END_TEST

/* What is never silent, and never done. */
static const char *const dribbled[] = { "GET /health HTTP/1.1\r\nHost: x\r\nX: ",
                                        "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                                        "Content-Length: 4000\r\n\r\n" };

START_TEST(who_dribbles_is_hung_up_on)
{
    struct client k;
    double began_s, said_s = 0;

    rig_begin();
    rig_options.idle_s = 1;
    rig_open();
    client_open(&k);
    client_send(&k, dribbled[_i], strlen(dribbled[_i]));
    for (began_s = spot_clock_s(); !k.is_ended; client_read(&k)) {
        ck_assert_double_lt(spot_clock_s() - began_s, 60);
        if (spot_clock_s() - said_s > 0.1) {
            client_send(&k, "a", 1);
            said_s = spot_clock_s();
        }
        rig_turn();
    }
    client_close(&k);
    rig_check_served();
    rig_end_all();
}
END_TEST

enum { LIMIT = 8 };

START_TEST(one_connection_too_many_waits_and_the_others_are_served)
{
    struct client k[LIMIT + 4];

    rig_begin();
    rig_options.n_connection_max = LIMIT;
    rig_open();
    for (int i = 0; i < LIMIT + 4; i++) {
        client_open(&k[i]);
        for (int t = 0; t < 10; t++)
            rig_turn();
    }
    for (int i = 0; i < LIMIT; i++) {
        client_send(&k[i], "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 33);
        client_hear(&k[i], "\"ok\"");
    }
    for (int i = 0; i < LIMIT + 4; i++)
        client_close(&k[i]);
    for (int t = 0; t < RIG_LOOKS; t++)
        rig_turn();
    rig_check_served(); /* those who went have left room */
    rig_end_all();
}
END_TEST

START_TEST(a_server_that_does_not_start_leaves_no_socket)
{
    struct spot_err err = { 0 };
    char pem[64];
    FILE *f;

    rig_begin();
    snprintf(pem, sizeof(pem), "%s/pem", rig_dir);
    f = fopen(pem, "w");
    ck_assert_ptr_nonnull(f);
    fputs("-----BEGIN NOTHING-----\n", f);
    fclose(f);
    rig_options.tls_cert = rig_options.tls_key = pem;
    ck_assert_ptr_null(spot_front_new(&rig_options, &rig_table, NULL, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_int_ne(access(rig_address + 5, F_OK), 0); /* behind "unix:" */
    unlink(pem);
    rig_end_all();
}
END_TEST

START_TEST(a_look_at_a_stream_is_no_reader)
{
    struct client k, look;
    struct spot_completion *const c = rig_take(&k, stream);
    char path[128];

    snprintf(path, sizeof(path), "/v1/streams/%s", c->request.id);
    client_once(&look, "HEAD", path, "", "");
    ck_assert_int_eq(client_status(&look), 200);
    ck_assert_str_eq(client_body(&look), "");
    client_close(&look);
    ck_assert_uint_eq(rig.n_abandoned, 0); /* k reads on */
    rig_commit(c, 0, 'a');
    client_hear(&k, "id: 0:0");
    client_close(&k);
}
END_TEST

START_TEST(a_stream_that_is_deleted_is_computed_no_more_and_its_readers_hear_it)
{
    struct client k, other;
    struct spot_completion *const c = rig_take(&k, stream);
    char path[128];

    rig_commit(c, 0, 'a');
    client_hear(&k, "id: 0:0");
    snprintf(path, sizeof(path), "/v1/streams/%s", c->request.id);
    client_once(&other, "DELETE", path, "", "");
    ck_assert_int_eq(client_status(&other), 200);
    client_close(&other);
    ck_assert_uint_eq(c->n_open, 0);
    ck_assert_uint_eq(c->choice[0].n_token, 1);
    client_hear(&k, "[DONE]");
    ck_assert_ptr_nonnull(strstr(client_text(&k), "\"error\""));
    client_close(&k);
    client_once(&other, "DELETE", path, "", ""); /* it stays deleted */
    ck_assert_int_eq(client_status(&other), 200);
    client_close(&other);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("front_rude");
    TCase *tc = rig_case(s, "open", setup, rig_end_all);

    tcase_add_loop_test(tc, each_path_has_its_methods_and_answers, 0,
                        sizeof(plain) / sizeof(*plain));
    tcase_add_test(tc, a_body_that_is_too_large_is_not_read);
    tcase_add_loop_test(tc, who_is_not_admitted_hears_when_to_come_back, 0, 3);
    tcase_add_test(tc, a_front_that_drains_ends_what_runs_and_takes_nothing);
    tcase_add_test(tc, what_is_not_http_is_refused_and_harms_nobody);
    tcase_add_test(tc, headers_without_end_are_refused);
    tcase_add_test(tc, a_look_at_a_stream_is_no_reader);
    tcase_add_test(tc, a_stream_that_is_deleted_is_computed_no_more_and_its_readers_hear_it);
    tc = rig_case(s, "own", NULL, NULL);
    tcase_add_test(tc, only_a_key_of_the_file_opens_the_door);
    tcase_add_test(tc, a_stream_is_of_the_key_that_asked_for_it);
    tcase_add_loop_test(tc, a_body_of_who_has_no_key_is_not_awaited, 0, 3);
    tcase_add_loop_test(tc, a_page_from_elsewhere_is_refused_where_no_key_is_asked_for, 0,
                        sizeof(from) / sizeof(*from));
    tcase_add_loop_test(tc, a_file_of_no_keys_or_too_many_is_refused, 0, 2);
    tcase_add_loop_test(tc, who_dribbles_is_hung_up_on, 0, 2);
    tcase_add_test(tc, one_connection_too_many_waits_and_the_others_are_served);
    tcase_add_test(tc, a_server_that_does_not_start_leaves_no_socket);
    tcase_add_loop_test(tc, who_says_nothing_more_is_hung_up_on, 0,
                        2 * sizeof(silent) / sizeof(*silent));
    return rig_run(s);
}
