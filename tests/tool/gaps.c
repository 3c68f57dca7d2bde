/* SPDX-License-Identifier: MIT */
/* gaps.c - how long a stream waits beside the worst that other clients can ask.
 *
 *   gaps vocabulary >tokenizer.json    of tests/unit/large_vocabulary.h
 *   gaps ADDRESS MODEL                 where spot-run serve --http listens
 *
 * Reads a stream alone, then beside each attack, and prints a line each: its name, the chunks read,
 * the median gap between two of them and the longest, in milliseconds.
 */
#define _GNU_SOURCE /* memmem */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/large_vocabulary.h"
#include "comm/endpoint.h"
#include "common/clock.h"

enum { BODY = 8 << 20, AT_ONCE = 4, ROUNDS = 2, STREAMS = 1000, ALONE = 200, GAPS_MAX = 1 << 20 };

static const char *address, *model;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "gaps: %s\n", what);
    exit(1);
}

static int ask(const char *head, const char *body, size_t n)
{
    struct spot_endpoint at;
    struct spot_err err = { 0 };
    char text[512];
    int fd;

    if (spot_endpoint_parse(address, &at, &err) || (fd = spot_endpoint_connect(&at, &err)) < 0)
        fail(err.msg);
    (void)fcntl(fd, F_SETFL, 0); /* it waits */
    snprintf(text, sizeof(text),
             "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
             head, n);
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        fail("cannot ask");
    for (size_t sent = 0; sent < n;) {
        const ssize_t put = send(fd, body + sent, n - sent, MSG_NOSIGNAL);

        if (put <= 0)
            break; /* it was refused while it was sent */
        sent += (size_t)put;
    }
    return fd;
}

/* --- what others ask ------------------------------------------------------------- */

static void begin(FILE *f)
{
    fprintf(f, "{\"model\":\"%s\",\"temperature\":0,\"ignore_eos\":true", model);
}

static void repeat(FILE *f, const char *text, const char *between, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s%s", i ? between : "", text);
}

static void ids(FILE *f)
{
    fputs(",\"prompt\":[", f);
    repeat(f, "1", ",", BODY / 2 - 100);
    fputs("]}", f);
}

static void members(FILE *f)
{
    fputs(",\"max_tokens\":1,\"prompt\":\"a\",\"metadata\":{\"k\":0", f);
    for (int i = 0; i < BODY / 11; i++)
        fprintf(f, ",\"%d\":1", i);
    fputs("}}", f);
}

static void letters(FILE *f)
{
    fputs(",\"prompt\":\"", f);
    for (int i = 0; i < 60000; i++)
        fputc('a' + (i * (i % 97) + i / 3) % 26, f);
    fputs("\"}", f);
}

static void prompts(FILE *f)
{
    fputs(",\"max_tokens\":1,\"prompt\":[", f);
    for (int i = 0; i < 100; i++) {
        fputs(i ? ",\"" : "\"", f);
        repeat(f, "word and ", "", 60);
        fputs("\"", f);
    }
    fputs("]}", f);
}

static void schema(FILE *f, const char *text)
{
    begin(f);
    fprintf(f,
            ",\"max_tokens\":20,\"prompt\":\"a\",\"response_format\":{\"type\":\"json_schema\","
            "\"json_schema\":{\"name\":\"a\",\"schema\":%s}}}",
            text);
}

static void schemas(FILE *f)
{
    char text[1 << 17], *at = text;

    at += sprintf(at, "{\"type\":\"object\",\"properties\":{\"p\":true");
    for (int i = 0; i < 500; i++)
        at += sprintf(at, ",\"p%d\":{\"type\":\"string\"}", i);
    at += sprintf(at, "},\"required\":[\"p\"");
    while (at < text + 100000)
        at += sprintf(at, ",\"p7\"");
    sprintf(at, "]}");
    schema(f, text);
}

static void patterns(FILE *f)
{
    char text[2048], *at = text + sprintf(text, "{\"type\":\"string\",\"pattern\":\"^(");

    for (char c = 'a'; c <= 'z'; c++)
        at += sprintf(at, "%s(.*%c.{0,60000})*", c > 'a' ? "|" : "", c);
    sprintf(at, ")*$\"}");
    schema(f, text);
}

static void echo(FILE *f)
{
    fputs(",\"max_tokens\":0,\"echo\":true,\"logprobs\":5,\"prompt\":[", f);
    repeat(f, "1", ",", 100);
    fputs("]}", f);
}

static void answers(FILE *f)
{
    fputs(",\"max_tokens\":40,\"n\":4,\"logprobs\":20,\"prompt\":\"a\"}", f);
}

static void stops(FILE *f)
{
    fputs(",\"max_tokens\":100,\"prompt\":\"a\",\"logit_bias\":{\"97\":100},\"stop\":[", f);
    for (int i = 0; i < 16; i++) {
        fputs(i ? ",\"" : "\"", f);
        repeat(f, "a", "", 512);
        repeat(f, "b", "", 512);
        fputs("\"", f);
    }
    fputs("]}", f);
}

static const struct attack {
    const char *name, *head;
    void (*write)(FILE *f);
    int times;
} attack[] = {
    { "ids", "POST /v1/completions", ids, 1 },
    { "members", "POST /v1/completions", members, 1 },
    { "letters", "POST /v1/completions", letters, 10 },
    { "prompts", "POST /v1/completions", prompts, 1 },
    { "schemas", "POST /v1/completions", schemas, 10 },
    { "patterns", "POST /v1/completions", patterns, 10 },
    { "echo", "POST /v1/completions", echo, 1 },
    { "answers", "POST /v1/completions", answers, 1 },
    { "stops", "POST /v1/completions", stops, 1 },
    { "metrics", "GET /metrics", NULL, 50 },
    { "models", "GET /v1/models", NULL, 50 },
};

/* In a process of its own: some at once, in rounds. */
static _Noreturn void attack_now(const struct attack *a)
{
    char *body = NULL, block[65536];
    size_t n = 0;
    FILE *const f = open_memstream(&body, &n);

    if (a->write && a->write != schemas && a->write != patterns)
        begin(f);
    if (a->write)
        a->write(f);
    fclose(f);
    for (int i = 0; i < ROUNDS * a->times; i++) {
        int fd[AT_ONCE];

        for (int k = 0; k < AT_ONCE; k++)
            fd[k] = ask(a->head, body, n);
        for (int k = 0; k < AT_ONCE; k++) {
            while (read(fd[k], block, sizeof(block)) > 0)
                continue;
            close(fd[k]);
        }
    }
    _exit(0);
}

/* --- the stream ------------------------------------------------------------------ */

static double gap[GAPS_MAX];
static size_t n_gap;

static int begin_stream(void)
{
    char body[512];

    return ask(
        "POST /v1/completions", body,
        (size_t)snprintf(body, sizeof(body),
                         "{\"model\":\"%s\",\"prompt\":\"a\",\"stream\":true,\"max_tokens\":500,"
                         "\"ignore_eos\":true,\"temperature\":0}",
                         model));
}

/* One stream. Returns whether the other process is there still. */
static bool read_stream(pid_t other)
{
    const int fd = begin_stream();
    double last_s = 0;
    char block[1024];
    ssize_t got;
    bool is_there = other > 0;

    while ((got = read(fd, block, sizeof(block))) > 0) {
        const double now_s = spot_clock_s();

        if (!memmem(block, (size_t)got, "data: ", 6))
            continue;
        if (last_s > 0 && n_gap < GAPS_MAX)
            gap[n_gap++] = now_s - last_s;
        last_s = now_s;
        if (is_there && waitpid(other, NULL, WNOHANG) == other)
            is_there = false;
    }
    close(fd);
    return is_there;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void tell(const char *name)
{
    if (!n_gap)
        fail("the stream says nothing");
    qsort(gap, n_gap, sizeof(*gap), by_value);
    printf("%-10s %6zu chunks, gaps: median %8.3f ms, longest %8.3f ms\n", name, n_gap,
           1e3 * gap[n_gap / 2], 1e3 * gap[n_gap - 1]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "vocabulary")) {
        large_vocabulary_write(stdout, LARGE_ADDED);
        return 0;
    }
    if (argc != 3)
        fail("expected an address and a model");
    address = argv[1];
    model = argv[2];
    for (int i = 0; i < STREAMS && n_gap < ALONE; i++) /* a slow reader hears many tokens at once */
        (void)read_stream(0);
    tell("alone");
    for (size_t i = 0; i < sizeof(attack) / sizeof(*attack); i++) {
        const pid_t other = fork();

        if (!other)
            attack_now(&attack[i]);
        n_gap = 0;
        while (read_stream(other))
            continue;
        tell(attack[i].name);
    }
    return 0;
}
