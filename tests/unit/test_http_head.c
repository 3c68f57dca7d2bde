/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "comm/http_head.h"
#include "common/buf.h"
#include "suite.h"

/* Goal: a head is read as RFC 9112 has it, or refused: what a proxy in front could read otherwise
 * than this server never becomes a request. A body in chunks is the same however it is cut. */

static struct spot_http_head head;

/* A status, 0: it is read. -1: it is not whole. */
static int read_head(const char *text, size_t n)
{
    size_t n_seen = 0;
    const size_t size = spot_http_head_size(text, n, &n_seen);
    const char *why = NULL;
    int status;

    if (!size)
        return -1;
    if (size == SIZE_MAX)
        return 400;
    status = spot_http_head_read(&head, text, size, &why);
    ck_assert_msg(!status == !why, "%d and %s", status, why ? why : "(no reason)");
    return status;
}

static void teardown(void)
{
    spot_http_head_release(&head);
}

#define HOST       "Host: x\r\n"
#define GET        "GET / HTTP/1.1\r\n" HOST
#define POST       "POST / HTTP/1.1\r\n" HOST
#define TEXT(text) text, sizeof(text) - 1

static const struct {
    int status;
    const char *text;
    size_t n;
} odd[] = {
    /* 2.2: lines end in CRLF, and nothing else ends a line or is within one */
    { 400, TEXT("GET / HTTP/1.1\nHost: x\n\n") },
    { 400, TEXT("GET / HTTP/1.1\r\nHost: x\n\r\n") },
    { 400, TEXT("GET / HTTP/1.1\r\nHost: x\r\n\n") },
    { 400, TEXT("GET / HTTP/1.1\r\nHost: x\r\r\n\r\n") },
    { 400, TEXT(GET "A: b\rC: d\r\n\r\n") },
    { 400, TEXT(GET "\rA: b\r\n\r\n") },
    { 400, TEXT(GET "A: b\r\n\r\r\n\r\n") },
    { 400, TEXT("GET /\r HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET / HTTP/1.1\r\n A: b\r\n" HOST "\r\n") },
    { 400, TEXT(GET "A: b\0c\r\n\r\n") },
    { 400, TEXT("GET /a\0b HTTP/1.1\r\n" HOST "\r\n") },
    /* 2.3, 3: the request line */
    { 400, TEXT("GET\r\n" HOST "\r\n") },
    { 400, TEXT("GET /\r\n" HOST "\r\n") },
    { 400, TEXT("GET / HTTP/1.1 \r\n" HOST "\r\n") },
    { 400, TEXT("GET  / HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET /  HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT(" GET / HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET /a b HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET\t/\tHTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("G\x80T / HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET / http/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET / HTTP/1\r\n" HOST "\r\n") },
    { 400, TEXT("GET / HTTP/1.10\r\n" HOST "\r\n") },
    { 400, TEXT("GET / HTTP/1,1\r\n" HOST "\r\n") },
    { 505, TEXT("GET / HTTP/2.0\r\n" HOST "\r\n") },
    { 505, TEXT("GET / HTTP/0.9\r\n" HOST "\r\n") },
    { 0, TEXT("GET / HTTP/1.2\r\n" HOST "\r\n") },
    { 0, TEXT("g-t / HTTP/1.1\r\n" HOST "\r\n") },
    /* 3.2: the target, and Host */
    { 400, TEXT("GET a HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET /a#b HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET /%0 HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET /%zz HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET /a%00b HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET http:///a HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET http://u@x/a HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET ftp://x/a HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("CONNECT x:80 HTTP/1.1\r\n" HOST "\r\n") },
    { 400, TEXT("GET / HTTP/1.1\r\n\r\n") },
    { 400, TEXT("GET http://x/ HTTP/1.1\r\n\r\n") },
    { 400, TEXT(GET HOST "\r\n") },
    { 400, TEXT("GET / HTTP/1.0\r\n" HOST HOST "\r\n") },
    { 400, TEXT("GET / HTTP/1.1\r\nHost: a b\r\n\r\n") },
    { 400, TEXT("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n") },
    { 400, TEXT("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n") },
    { 400, TEXT("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n") },
    { 400, TEXT("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n") },
    { 400, TEXT("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n") },
    { 0, TEXT("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n") },
    { 0, TEXT("GET / HTTP/1.1\r\nHost:\r\n\r\n") },
    { 0, TEXT("GET / HTTP/1.0\r\n\r\n") },
    { 0, TEXT("OPTIONS * HTTP/1.1\r\n" HOST "\r\n") },
    /* 5: fields */
    { 400, TEXT("GET / HTTP/1.1\r\nHost : x\r\n\r\n") },
    { 400, TEXT(POST "Content-Length : 5\r\n\r\n") },
    { 400, TEXT(POST "Content-Length\t: 5\r\n\r\n") },
    { 400, TEXT(GET "A b: c\r\n\r\n") },
    { 400, TEXT(GET ": c\r\n\r\n") },
    { 400, TEXT(GET "no colon\r\n\r\n") },
    { 400, TEXT(GET "A: b\r\n c\r\n\r\n") },
    { 400, TEXT(POST "Content-Length: 5\r\n\t0\r\n\r\n") },
    { 400, TEXT(GET "A: b\x01\r\n\r\n") },
    { 400, TEXT(GET "A: b\x7f\r\n\r\n") },
    { 0, TEXT(GET "A:\t \xe4\t b \t\r\n!#$%&'*+-.^_`|~:\r\n\r\n") },
    /* 6: the length of the body */
    { 400, TEXT(POST "Content-Length: 5, 5\r\n\r\n") },
    { 400, TEXT(POST "Content-Length: +5\r\n\r\n") },
    { 400, TEXT(POST "Content-Length: -5\r\n\r\n") },
    { 400, TEXT(POST "Content-Length: 0x5\r\n\r\n") },
    { 400, TEXT(POST "Content-Length: 5 5\r\n\r\n") },
    { 400, TEXT(POST "Content-Length: 5.\r\n\r\n") },
    { 400, TEXT(POST "Content-Length:\r\n\r\n") },
    { 400, TEXT(POST "Content-Length: 5\r\ncontent-length: 5\r\n\r\n") },
    { 400, TEXT(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n") },
    { 400, TEXT(POST "transfer-encoding: chunked\r\nCONTENT-LENGTH: 5\r\n\r\n") },
    { 400, TEXT(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n") },
    { 400, TEXT(POST "Transfer-Encoding: chunked, chunked\r\n\r\n") },
    { 400, TEXT(POST "Transfer-Encoding: chunked, gzip\r\n\r\n") },
    { 400, TEXT(POST "Transfer-Encoding: xchunked\r\n\r\n") },
    { 400, TEXT(POST "Transfer-Encoding: chunked;a=b\r\n\r\n") },
    { 400, TEXT(POST "Transfer-Encoding: identity\r\n\r\n") },
    { 400, TEXT(POST "Transfer-Encoding:\r\n\r\n") },
    { 400, TEXT("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n") },
    { 413, TEXT(POST "Content-Length: 18446744073709551616\r\n\r\n") },
    { 413, TEXT(POST "Content-Length: 9223372036854775808\r\n\r\n") },
    { 417, TEXT(POST "Expect: 200-ok\r\n\r\n") },
    { 0, TEXT(POST "Content-Length: 000000000000000000000000005\r\n\r\n") },
};

START_TEST(what_could_be_read_in_two_ways_is_refused)
{
    const int status = read_head(odd[_i].text, odd[_i].n);

    ck_assert_msg(status == odd[_i].status, "%d, not %d: %s", status, odd[_i].status, odd[_i].text);
}
END_TEST

static const struct {
    const char *text, *path, *host;
    int64_t n_body;
    bool keeps_alive, expects;
} plain[] = {
    { GET "\r\n", "/", "x", 0, true, false },
    { "GET /a%2Fb%20c?d=%zz HTTP/1.1\r\n" HOST "\r\n", "/a/b c", "x", 0, true, false },
    { "GET http://Y:80/v1?x HTTP/1.1\r\n" HOST "\r\n", "/v1", "Y:80", 0, true, false },
    { "GET HTTPS://[::1] HTTP/1.1\r\n" HOST "\r\n", "/", "[::1]", 0, true, false },
    { "GET http://y?x HTTP/1.1\r\n" HOST "\r\n", "/", "y", 0, true, false },
    { "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "*", "x", 0, true, false },
    { POST "content-LENGTH: 0017 \r\n\r\n", "/", "x", 17, true, false },
    { POST "Transfer-Encoding: CHUNKED\r\n\r\n", "/", "x", SPOT_HTTP_CHUNKED, true, false },
    { GET "Connection: upgrade ,Close\r\n\r\n", "/", "x", 0, false, false },
    { GET "Connection: closed\r\n\r\n", "/", "x", 0, true, false },
    { "GET / HTTP/1.0\r\n\r\n", "/", NULL, 0, false, false },
    { "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "/", NULL, 0, true, false },
    { POST "Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n", "/", "x", 2, true, true },
};

START_TEST(a_head_says_what_is_asked)
{
    ck_assert_int_eq(read_head(plain[_i].text, strlen(plain[_i].text)), 0);
    ck_assert_str_eq(head.path, plain[_i].path);
    ck_assert_pstr_eq(head.host, plain[_i].host);
    ck_assert_int_eq(head.n_body, plain[_i].n_body);
    ck_assert_int_eq(head.keeps_alive, plain[_i].keeps_alive);
    ck_assert_int_eq(head.expects_continue, plain[_i].expects);
}
END_TEST

START_TEST(fields_are_found_by_name_without_the_blanks_around_them)
{
    static const char text[] = "PUT / HTTP/1.1\r\nhOST:\tx \r\nA: 1\r\na:2\r\nB:\r\n\r\n";

    ck_assert_int_eq(read_head(text, sizeof(text) - 1), 0);
    ck_assert_str_eq(head.method, "PUT");
    ck_assert_str_eq(spot_http_head_field(&head, "Host"), "x");
    ck_assert_str_eq(spot_http_head_field(&head, "A"), "1");
    ck_assert_str_eq(spot_http_head_field(&head, "b"), "");
    ck_assert_ptr_null(spot_http_head_field(&head, "C"));
}
END_TEST

START_TEST(fields_are_bounded)
{
    char text[SPOT_HTTP_FIELDS_MAX * 8 + 64] = GET;

    for (int i = 1; i < SPOT_HTTP_FIELDS_MAX; i++)
        strcat(text, "A: b\r\n");
    strcat(text, "\r\n");
    ck_assert_int_eq(read_head(text, strlen(text)), 0);
    spot_http_head_release(&head);
    strcpy(text + strlen(text) - 2, "A: b\r\n\r\n");
    ck_assert_int_eq(read_head(text, strlen(text)), 431);
}
END_TEST

START_TEST(a_head_is_whole_at_its_empty_line_however_it_comes)
{
    static const char text[] = GET "A: b\r\n\r\nGET";
    const size_t size = sizeof(text) - 4;
    size_t n_seen = 0;

    for (size_t n = 0; n < size; n++)
        ck_assert_uint_eq(spot_http_head_size(text, n, &n_seen), 0);
    ck_assert_uint_eq(spot_http_head_size(text, size, &n_seen), size);
}
END_TEST

/* --- chunks ------------------------------------------------------------------------ */

static const struct {
    const char *text;
    size_t n;
    int end; /* 1: it ends there, 0: more is to come, -1: malformed */
    const char *body;
} chunked[] = {
    { TEXT("0\r\n\r\n"), 1, "" },
    { TEXT("5\r\nhello\r\n0\r\n\r\n"), 1, "hello" },
    { TEXT("00a\r\n0123456789\r\n1\r\nx\r\n000\r\n\r\n"), 1, "0123456789x" },
    { TEXT("A\r\n0123\r\n6789\r\n0\r\n\r\n"), 1, "0123\r\n6789" },
    { TEXT("1;a;b=\"c d\"\r\nx\r\n0;z\r\n\r\n"), 1, "x" },
    { TEXT("0\r\nA: b\r\nContent-Length: 7\r\n\r\n"), 1, "" },
    { TEXT("5\r\nhell"), 0, "hell" },
    { TEXT("0\r\n"), 0, "" },
    { TEXT("\r\n"), -1, "" },
    { TEXT("+5\r\nhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT("-5\r\nhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT(" 5\r\nhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT("5 \r\nhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT("0x5\r\nhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT("5,5\r\nhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT("5\nhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT("5\rhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT("5;a\nhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT("5;a\0\r\nhello\r\n0\r\n\r\n"), -1, "" },
    { TEXT("5\r\nhello\n0\r\n\r\n"), -1, "hello" },
    { TEXT("5\r\nhello0\r\n\r\n"), -1, "hello" },
    { TEXT("5\r\nhello!\r\n0\r\n\r\n"), -1, "hello" },
    { TEXT("0\r\n\n"), -1, "" },
    { TEXT("0\r\n\rx"), -1, "" },
    { TEXT("0\r\nA : b\r\n\r\n"), -1, "" },
    { TEXT("0\r\n A: b\r\n\r\n"), -1, "" },
    { TEXT("0\r\nno colon\r\n\r\n"), -1, "" },
    { TEXT("0\r\nA: b\n\r\n"), -1, "" },
    { TEXT("fffffffffffffffff\r\n"), -1, "" },
    { TEXT("0000000000000000\r\n\r\n"), -1, "" },
};

START_TEST(a_body_in_chunks_is_the_same_in_pieces_of_any_size)
{
    for (size_t step = 1; step <= chunked[_i].n; step++) {
        struct spot_http_chunks c = { 0 };
        struct spot_buf body = { 0 };
        size_t at = 0;
        int rc = 0;

        while (!rc && at < chunked[_i].n) {
            size_t n = chunked[_i].n - at < step ? chunked[_i].n - at : step, n_part;
            const char *part;

            rc = spot_http_chunks_read(&c, chunked[_i].text + at, &n, &part, &n_part);
            if (n_part)
                spot_buf_add(&body, part, n_part);
            at += n;
        }
        ck_assert_int_eq(rc, chunked[_i].end);
        ck_assert_uint_eq(body.n, strlen(chunked[_i].body));
        ck_assert_mem_eq(body.data ? (const char *)body.data : "", chunked[_i].body, body.n);
        if (rc > 0)
            ck_assert_uint_eq(at, chunked[_i].n);
        spot_buf_release(&body);
    }
}
END_TEST

/* What is no body has bounds of its own. */
START_TEST(what_is_beside_the_chunks_is_bounded)
{
    static const char *const begin[] = { "1;", "0\r\nA:" };
    struct spot_http_chunks c = { 0 };
    const char *part;
    size_t n = strlen(begin[_i]), n_part, n_all = 0;
    int rc = spot_http_chunks_read(&c, begin[_i], &n, &part, &n_part);

    for (; !rc && n_all < 1 << 20; n_all += n)
        rc = spot_http_chunks_read(&c, "aaaa", (n = 4, &n), &part, &n_part);
    ck_assert_int_eq(rc, -1);
    ck_assert_uint_le(n_all, 16 << 10);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("http_head");

    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_loop_test(tc, what_could_be_read_in_two_ways_is_refused, 0,
                        sizeof(odd) / sizeof(*odd));
    tcase_add_loop_test(tc, a_head_says_what_is_asked, 0, sizeof(plain) / sizeof(*plain));
    tcase_add_loop_test(tc, a_body_in_chunks_is_the_same_in_pieces_of_any_size, 0,
                        sizeof(chunked) / sizeof(*chunked));
    tcase_add_loop_test(tc, what_is_beside_the_chunks_is_bounded, 0, 2);
    add_tests(tc);
    return run_suite("http_head", tc);
}
