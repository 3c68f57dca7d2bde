/* SPDX-License-Identifier: MIT */
/* Goal: a name is as good as any of its addresses. The resolver is ours. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "suite.h"

struct answer {
    struct addrinfo info;
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } address;
};

static struct addrinfo *add(struct addrinfo *next, const char *ip)
{
    struct answer *a = calloc(1, sizeof(*a));

    if (inet_pton(AF_INET6, ip, &a->address.in6.sin6_addr) == 1) {
        a->address.in6.sin6_family = AF_INET6;
        a->info.ai_addrlen = sizeof(a->address.in6);
    } else {
        ck_assert_int_eq(inet_pton(AF_INET, ip, &a->address.in.sin_addr), 1);
        a->address.in.sin_family = AF_INET;
        a->info.ai_addrlen = sizeof(a->address.in);
    }
    a->info.ai_addr = &a->address.any;
    a->info.ai_next = next;
    return &a->info;
}

/* In the place of the library's. "both": AAAA first, as resolvers answer; "none": nobody knows. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hint,
                struct addrinfo **list)
{
    (void)service;
    (void)hint;
    if (!strcmp(host, "none"))
        return EAI_NONAME;
    if (!strcmp(host, "both"))
        *list = add(add(NULL, "127.0.0.1"), "::1");
    else if (!strcmp(host, "many"))
        *list = add(add(add(NULL, "127.0.0.1"), "127.0.0.3"), "127.0.0.2");
    else
        *list = add(NULL, host);
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;

        free(list); /* the first member of its answer */
        list = next;
    }
}

START_TEST(a_name_is_reached_at_whichever_address_answers)
{
    static const char *const name[] = { "both", "many" };
    struct spot_endpoint at, reached;
    struct spot_err err = { 0 };
    char text[64], where[SPOT_ADDRESS_MAX + 8];
    int listener, fd;

    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &at, NULL), 0);
    listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(listener, 0);
    snprintf(text, sizeof(text), "%s:%u", name[_i], (unsigned)at.port);
    fd = spot_endpoint_dial(text, SPOT_REACH_NAMES, &reached, &err);
    ck_assert_msg(fd >= 0, "%s", err.msg);
    spot_endpoint_print(&reached, where);
    spot_endpoint_print(&at, text);
    ck_assert_str_eq(where, text);
    close(fd);
    close(listener);
}
END_TEST

START_TEST(a_name_at_which_nobody_answers_or_that_nobody_knows_is_an_error)
{
    struct spot_endpoint at;
    struct spot_err err = { 0 };
    char text[64];
    int listener;

    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &at, NULL), 0);
    listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(listener, 0);
    close(listener); /* a port of nobody */
    snprintf(text, sizeof(text), "both:%u", (unsigned)at.port);
    ck_assert_int_eq(spot_endpoint_dial(text, SPOT_REACH_NAMES, NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(err.msg, "cannot connect to 127.0.0.1:"));
    ck_assert_int_eq(spot_endpoint_dial("none:1", SPOT_REACH_NAMES, NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(err.msg, "cannot find the host of 'none:1'"));
}
END_TEST

START_TEST(without_a_key_nothing_but_this_machine_is_dialled)
{
    static const char *const bad[] = { "10.0.0.1:1",    "127.0.0.2:1",
                                       "0.0.0.0:1",     "[fd00::1]:1",
                                       "127.0.0.1",     "127.0.0.1:+1",
                                       "127.0.0.1:80 ", "127.0.0.1:99999999999999999999" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct spot_err err = { 0 };

        ck_assert_int_eq(spot_endpoint_dial(bad[i], SPOT_REACH_HERE, NULL, &err), -1);
        ck_assert_msg(err.code == SPOT_EUSAGE, "%s: %s", bad[i], err.msg);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, a_name_is_reached_at_whichever_address_answers, 0, 2);
    tcase_add_test(tc, a_name_at_which_nobody_answers_or_that_nobody_knows_is_an_error);
    tcase_add_test(tc, without_a_key_nothing_but_this_machine_is_dialled);
    return run_suite("dial", tc);
}
