/* SPDX-License-Identifier: MIT */
/* clang-format off */
/* load.c - clients of a server of completions: so many streams at once, each read to its end over
 * whatever breaks, and how long it took.
 *
 *   load ADDRESS [KEY=VALUE...]
 *   n=100        requests; request i is the same whoever asks, whenever
 *   clients=8    at once; rate=R: instead of waiting for an end they come by Poisson, R a second
 *   in=40 out=200  bytes of the prompt, tokens at most
 *   load=FILE    a request trace: when they come, from its first one on, and how long each is; instead of n, rate, in and out
 *   plain=0      1: all greedy, one choice, no log probabilities; else a mixture
 *   struck=FILE  lines: names of workers that were killed. A client whose last token came from one asks
 *                anew, from the start, as it must where a server goes on with nothing
 *   idle=0       connections that say nothing, beside
 *   ids=1        0: a server whose events have no ids, as others' have none: an event is a token
 *   lost=WORD    anew: an answer that breaks off is asked for from the start, as by those who retry whole
 *                requests; fail: it has failed
 *   stamp=0      1: texts are microseconds of CLOCK_MONOTONIC within ten seconds, told when they were said (engine.c)
 *   answers=FILE a line a choice: request, choice, tokens, finish, text, log probabilities
 *   gaps=FILE    a line for each wait above 20 ms between two events of a stream: its end, its length
 *
 * The last line has name=value pairs, times in ms. Exit 1 if a stream was lost, repeated a token or
 * left one out.
 */
/* clang-format on */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "trace/load_trace.h"

enum { CHOICES = 2, RETRY_MS = 50 };

struct choice {
    struct spot_buf text, logprob;
    long n; /* tokens heard */
    char finish[16];
};

struct stream {
    long request; /* -1: none */
    int fd;
    double due_s; /* when it (re)connects; 0: it is connected */
    double asked_s, first_s, last_s;
    char worker[32]; /* that computed its last token */
    char before[32]; /* and the one before it, left at left_s */
    double left_s;
    char id[64];          /* of the stream; "": not told yet */
    struct spot_buf in;   /* bytes that are no whole line yet */
    struct spot_buf line; /* of the events, without the frames of chunks */
    size_t chunk;         /* bytes left of a chunk */
    int status;           /* of the answer; 0: its head is not there */
    unsigned choice, position;
    bool is_chunked, has_failed;
    struct choice choices[CHOICES];
};

struct times {
    double *s;
    size_t n, cap;
};

static struct {
    long n, clients, in, out, plain, idle, ids, stamp;
    double rate;
    const char *answers, *gaps, *struck, *lost, *load;
} o = { .n = 100, .clients = 8, .in = 40, .out = 200, .ids = 1, .lost = "" };

static struct spot_endpoint at;
static struct spot_load trace; /* of load= */
static int poll_fd;
static FILE *answers, *gaps;
static struct times whole, first, gap, delay;
static long n_done, n_token, n_broken, n_refused, n_wrong, n_failed;

static void note(struct times *t, double s)
{
    t->s = spot_xgrow(t->s, &t->cap, t->n + 1, sizeof(*t->s));
    t->s[t->n++] = s;
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile_ms(const struct times *t, double q)
{
    return t->n ? 1e3 * t->s[(size_t)(q * (double)(t->n - 1))] : 0;
}

/* --- a request ------------------------------------------------------------------- */

static void put_body(struct spot_buf *out, long i)
{
    static const char words[] = "the line of a text that a small model learns and says again ";
    const long n_in = trace.n ? trace.prompt_token[i] : o.in;
    const long n_out = trace.n ? trace.output_token[i] : o.out;
    struct spot_rng rng;
    char head[512];
    int n;

    spot_rng_init(&rng, (uint64_t)i + 1, 0);
    n = snprintf(head, sizeof(head),
                 "{\"model\":\"model\",\"stream\":true,\"max_tokens\":%ld,\"seed\":%ld",
                 o.plain || trace.n ? n_out : 1 + (long)spot_rng_below(&rng, (size_t)n_out), i);
    spot_buf_add(out, head, (size_t)n);
    n = snprintf(head, sizeof(head), ",\"temperature\":%s%s%s,\"ignore_eos\":true,\"prompt\":\"",
                 o.plain || i % 2 ? "0" : "0.9", !o.plain && i % 5 == 0 ? ",\"n\":2" : "",
                 !o.plain && i % 3 == 0 ? ",\"logprobs\":2" : "");
    spot_buf_add(out, head, (size_t)n);
    for (long k = 0, from = (long)spot_rng_below(&rng, sizeof(words) - 1); k < n_in; k++)
        spot_buf_add(out, &words[(from + k) % (long)(sizeof(words) - 1)], 1);
    spot_buf_add(out, "\"}", 2);
}

static void say(const struct stream *s)
{
    struct spot_buf body = { 0 }, all = { 0 };
    char head[512];
    int n;

    if (*s->id) {
        n = snprintf(head, sizeof(head),
                     "GET /v1/streams/%s HTTP/1.1\r\nHost: localhost\r\nX-Spot-Worker: 1\r\n",
                     s->id);
        for (int i = 0; i < CHOICES; i++)
            if (s->choices[i].n)
                n += snprintf(head + n, sizeof(head) - (size_t)n, "%s%d:%ld",
                              strstr(head, "Last") ? "," : "Last-Event-ID: ", i,
                              s->choices[i].n - 1);
        n += snprintf(head + n, sizeof(head) - (size_t)n, "%s\r\n",
                      strstr(head, "Last") ? "\r\n" : "");
    } else {
        put_body(&body, s->request);
        n = snprintf(head, sizeof(head),
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Spot-Worker: 1\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                     body.n);
    }
    spot_buf_add(&all, head, (size_t)n);
    spot_buf_add(&all, body.data ? body.data : (const uint8_t *)"", body.n);
    (void)!send(s->fd, all.data, all.n, MSG_NOSIGNAL); /* small: it fits, or the server has gone */
    spot_buf_release(&all);
    spot_buf_release(&body);
}

static void forget_answer(struct stream *s)
{
    for (int i = 0; i < CHOICES; i++) {
        spot_buf_release(&s->choices[i].text);
        spot_buf_release(&s->choices[i].logprob);
        memset(&s->choices[i], 0, sizeof(s->choices[i]));
    }
    *s->id = *s->worker = *s->before = '\0';
}

static void hang_up(struct stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->status = 0;
    s->chunk = 0;
    s->in.n = s->line.n = 0;
}

static void connect_now(struct stream *s)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = s };

    s->due_s = 0;
    s->fd = spot_endpoint_connect(&at, NULL);
    if (s->fd < 0) {
        s->due_s = spot_clock_s() + 1e-3 * RETRY_MS;
        return;
    }
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, s->fd, &event);
    say(s);
}

static void begin(struct stream *s, long request, double asked_s)
{
    s->request = request;
    s->asked_s = asked_s;
    s->first_s = s->last_s = 0;
    connect_now(s);
}

static void put_answer(const struct stream *s)
{
    for (int i = 0; answers && i < CHOICES; i++)
        if (s->choices[i].n)
            fprintf(answers, "%ld %d %ld %s %.*s %.*s\n", s->request, i, s->choices[i].n,
                    s->choices[i].finish, (int)s->choices[i].text.n,
                    (const char *)s->choices[i].text.data, (int)s->choices[i].logprob.n,
                    s->choices[i].logprob.n ? (const char *)s->choices[i].logprob.data : "");
}

static void end(struct stream *s)
{
    if (!s->has_failed)
        note(&whole, spot_clock_s() - s->asked_s);
    n_failed += s->has_failed;
    s->has_failed = false;
    for (int i = 0; i < CHOICES; i++)
        n_token += s->choices[i].n;
    put_answer(s);
    hang_up(s);
    forget_answer(s);
    s->request = -1;
    n_done++;
}

static void break_off(struct stream *s)
{
    n_broken++;
    if (!strcmp(o.lost, "fail")) {
        s->has_failed = true;
        end(s);
        return;
    }
    if (!strcmp(o.lost, "anew"))
        forget_answer(s);
    hang_up(s);
    s->due_s = spot_clock_s() + 1e-3 * RETRY_MS;
}

/* --- events ---------------------------------------------------------------------- */

/* What lies between `from` and the first `to` behind it that is not escaped. */
static void keep(struct spot_buf *out, const char *line, const char *from, char to)
{
    const char *const begins = strstr(line, from), *p = begins ? begins + strlen(from) : NULL;

    if (!p)
        return;
    for (; *p && *p != to; p++) {
        spot_buf_add(out, p, 1);
        if (*p == '\\' && p[1])
            spot_buf_add(out, ++p, 1);
    }
}

static void hear_worker(struct stream *s, const char *name, size_t n)
{
    if (strlen(s->worker) == n && !memcmp(s->worker, name, n))
        return;
    memcpy(s->before, s->worker, sizeof(s->before));
    s->left_s = spot_clock_s();
    snprintf(s->worker, sizeof(s->worker), "%.*s", (int)n, name);
}

static void hear_stamp(const char *line)
{
    const char *const text = strstr(line, "\"text\":\"");
    char *end = NULL;
    const double said_s = text ? strtod(text + 8, &end) * 1e-6 : 0;

    if (text && end == text + 8 + 7)
        note(&delay, fmod(spot_clock_s() - said_s + 20, 10));
}

static void hear_data(struct stream *s, const char *line)
{
    struct choice *const h = &s->choices[s->choice % CHOICES];
    const double now_s = spot_clock_s();
    struct spot_buf word = { 0 };

    if (!o.ids)
        s->position = (unsigned)h->n;
    if ((long)s->position != h->n)
        n_wrong++;
    h->n = s->position + 1;
    if (s->first_s <= 0) {
        s->first_s = now_s;
        note(&first, now_s - s->asked_s);
    } else {
        note(&gap, now_s - s->last_s);
        if (gaps && now_s - s->last_s > 0.02)
            fprintf(gaps, "%.4f %.4f\n", now_s, now_s - s->last_s);
    }
    s->last_s = now_s;
    if (o.stamp)
        hear_stamp(line);
    keep(&h->text, line, "\"text\":\"", '"');
    keep(&h->logprob, line, "\"token_logprobs\":[", ']');
    keep(&word, line, "\"finish_reason\":\"", '"');
    if (word.n)
        snprintf(h->finish, sizeof(h->finish), "%.*s", (int)word.n, (const char *)word.data);
    word.n = 0;
    keep(&word, line, "\"id\":\"", '"');
    snprintf(s->id, sizeof(s->id), "%.*s", (int)word.n, (const char *)word.data);
    word.n = 0;
    keep(&word, line, "\"worker\":\"", '"');
    hear_worker(s, (const char *)word.data, word.n);
    spot_buf_release(&word);
}

/* false: the stream is over, one way or the other. */
static bool hear_line(struct stream *s, const char *line)
{
    if (sscanf(line, "id: %u:%u", &s->choice, &s->position) == 2)
        return true;
    if (!strcmp(line, "data: [DONE]")) {
        end(s);
        return false;
    }
    if (strstr(line, "\"code\":\"server_stopped\"")) /* it is broken off then, and gone on with */
        return true;
    if (!strncmp(line, "data: {\"error\"", 14)) {
        n_wrong++;
        fprintf(stderr, "request %ld: %s\n", s->request, line);
        end(s);
        return false;
    }
    if (!strncmp(line, "data: {", 7))
        hear_data(s, line);
    return true;
}

/* Bytes of the body, without the frames. */
static bool hear_body(struct stream *s, const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (data[i] != '\n') {
            spot_buf_add(&s->line, &data[i], 1);
            continue;
        }
        spot_buf_add(&s->line, "", 1);
        s->line.n = 0;
        if (!hear_line(s, (const char *)s->line.data))
            return false;
    }
    return true;
}

static bool hear_head(struct stream *s)
{
    char *const text = (char *)s->in.data;
    const char *const ends = memmem(text, s->in.n, "\r\n\r\n", 4);

    if (!ends)
        return false;
    s->status = atoi(text + 9);
    s->is_chunked = memmem(text, (size_t)(ends - text), "chunked", 7) != NULL;
    s->in.n -= (size_t)(ends + 4 - text);
    memmove(text, ends + 4, s->in.n);
    if (s->status == 200)
        return true;
    if (s->status == 429 || s->status == 503) {
        n_refused++;
        hang_up(s);
        s->due_s = spot_clock_s() + 1e-3 * RETRY_MS;
    } else {
        n_wrong++;
        fprintf(stderr, "request %ld: status %d\n", s->request, s->status);
        end(s);
    }
    return false;
}

/* The next frame of a chunk; false: it is not there, or the stream is over. */
static bool hear_chunk(struct stream *s)
{
    char *const text = (char *)s->in.data;
    size_t n;

    if (!s->is_chunked) {
        n = s->in.n;
        s->in.n = 0;
        return n && hear_body(s, text, n);
    }
    if (!s->chunk) {
        const char *const ends = memmem(text, s->in.n, "\r\n", 2);

        if (!ends)
            return false;
        n = (size_t)(ends + 2 - text);
        s->chunk = n > 2 ? strtoul(text, NULL, 16) : 0;
        s->in.n -= n;
        memmove(text, text + n, s->in.n);
        return true;
    }
    n = s->chunk < s->in.n ? s->chunk : s->in.n;
    if (!n || !hear_body(s, text, n))
        return false;
    s->chunk -= n;
    s->in.n -= n;
    memmove(text, text + n, s->in.n);
    return true;
}

static void hear(struct stream *s)
{
    char block[16384];
    const ssize_t got = read(s->fd, block, sizeof(block));

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        break_off(s);
        return;
    }
    spot_buf_add(&s->in, block, (size_t)got);
    if (!s->status && !hear_head(s))
        return;
    while (s->request >= 0 && hear_chunk(s))
        ;
}

/* --- all of them ----------------------------------------------------------------- */

static void be_idle(void)
{
    long n = 0;

    for (long i = 0; i < o.idle; i++) {
        const int fd = spot_endpoint_connect(&at, NULL);

        if (fd < 0)
            break;
        n++;
    }
    if (n)
        fprintf(stderr, "%ld idle connections\n", n);
    if (n < o.idle)
        n_wrong++;
}

/* Whoever comes by Poisson, or as a trace says, comes whether the others are done or not. */
static double next_s(struct spot_rng *rng, double before_s, long i)
{
    return trace.n ? before_s + (i < o.n ? trace.time_s[i] - trace.time_s[i - 1] : 0)
                   : before_s - log1p(-spot_rng_unit(rng)) / o.rate;
}

/* Its last token came from there, or did until a moment ago: word of a kill may come late. */
static bool was_at(const struct stream *s, const char *worker)
{
    return !strcmp(s->worker, worker) ||
           (!strcmp(s->before, worker) && spot_clock_s() - s->left_s < 1);
}

static void strike(struct stream *stream)
{
    static FILE *struck;
    char name[32];

    if (!struck)
        struck = fopen(o.struck, "r");
    while (struck && fscanf(struck, "%31s", name) == 1)
        for (long i = 0; i < o.clients; i++)
            if (stream[i].request >= 0 && stream[i].fd >= 0 && was_at(&stream[i], name)) {
                break_off(&stream[i]);
                forget_answer(&stream[i]);
            }
    if (struck)
        clearerr(struck);
}

static void run(struct stream *stream)
{
    struct epoll_event event[256];
    struct spot_rng rng;
    const bool is_open = o.rate > 0 || trace.n;
    double now_s = spot_clock_s(), come_s = now_s;
    long n_begun = 0;

    spot_rng_init(&rng, 1, 0);
    while (n_done < o.n) {
        int n;

        now_s = spot_clock_s();
        for (long i = 0; i < o.clients; i++) {
            struct stream *const s = &stream[i];

            if (s->request >= 0 && s->due_s > 0 && now_s >= s->due_s)
                connect_now(s);
            if (s->request >= 0 || n_begun == o.n || (is_open && come_s > now_s))
                continue;
            begin(s, n_begun++, is_open ? come_s : now_s);
            if (is_open)
                come_s = next_s(&rng, come_s, n_begun);
        }
        if (o.struck)
            strike(stream);
        n = epoll_wait(poll_fd, event, 256, 5);
        for (int i = 0; i < n; i++)
            hear(event[i].data.ptr);
    }
}

static void report(double took_s)
{
    double sum = 0;

    qsort(whole.s, whole.n, sizeof(double), by_time);
    qsort(first.s, first.n, sizeof(double), by_time);
    qsort(gap.s, gap.n, sizeof(double), by_time);
    qsort(delay.s, delay.n, sizeof(double), by_time);
    for (size_t i = 0; i < gap.n; i++)
        sum += gap.s[i];
    printf("requests=%ld tokens=%ld took_s=%.2f token_per_s=%.1f whole_p50=%.1f whole_p99=%.1f "
           "first_p50=%.1f first_p99=%.1f gap_p50=%.2f gap_p99=%.1f gap_most=%.1f gap_mean=%.2f "
           "broken=%ld refused=%ld wrong=%ld failed=%ld delay_p50=%.3f delay_p99=%.3f\n",
           n_done, n_token, took_s, (double)n_token / took_s, quantile_ms(&whole, 0.5),
           quantile_ms(&whole, 0.99), quantile_ms(&first, 0.5), quantile_ms(&first, 0.99),
           quantile_ms(&gap, 0.5), quantile_ms(&gap, 0.99), quantile_ms(&gap, 1),
           gap.n ? 1e3 * sum / (double)gap.n : 0, n_broken, n_refused, n_wrong, n_failed,
           quantile_ms(&delay, 0.5), quantile_ms(&delay, 0.99));
}

static void take(const char *word)
{
    static const struct {
        const char *key;
        long *value;
    } number[] = { { "n", &o.n },     { "clients", &o.clients }, { "in", &o.in },
                   { "out", &o.out }, { "plain", &o.plain },     { "idle", &o.idle },
                   { "ids", &o.ids }, { "stamp", &o.stamp } };
    const char *const equals = strchr(word, '=');
    const size_t n = equals ? (size_t)(equals - word) : 0;

    for (size_t i = 0; n && i < sizeof(number) / sizeof(*number); i++)
        if (strlen(number[i].key) == n && !strncmp(number[i].key, word, n)) {
            *number[i].value = atol(equals + 1);
            return;
        }
    if (n && !strncmp(word, "rate", n))
        o.rate = atof(equals + 1);
    else if (n && !strncmp(word, "answers", n))
        o.answers = equals + 1;
    else if (n && !strncmp(word, "gaps", n))
        o.gaps = equals + 1;
    else if (n && !strncmp(word, "load", n))
        o.load = equals + 1;
    else if (n && !strncmp(word, "lost", n))
        o.lost = equals + 1;
    else if (n && !strncmp(word, "struck", n))
        o.struck = equals + 1;
    else {
        fprintf(stderr, "load: what is %s?\n", word);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct spot_err err = { 0 };
    struct rlimit files;
    struct stream *stream;
    double began_s;

    for (int i = 2; i < argc; i++)
        take(argv[i]);
    if (argc < 2 || spot_endpoint_parse(argv[1], &at, &err)) {
        fprintf(stderr, "load: %s\n", argc < 2 ? "an address is missing" : err.msg);
        return 2;
    }
    if (o.load && spot_load_read_path(&trace, o.load, 0, &err)) {
        fprintf(stderr, "load: %s\n", err.msg);
        return 2;
    }
    if (o.load)
        o.n = (long)trace.n;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    answers = o.answers ? fopen(o.answers, "w") : NULL;
    gaps = o.gaps ? fopen(o.gaps, "w") : NULL;
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    stream = spot_xcalloc((size_t)o.clients, sizeof(*stream));
    for (long i = 0; i < o.clients; i++)
        stream[i].request = stream[i].fd = -1;
    be_idle();
    began_s = spot_clock_s();
    run(stream);
    report(spot_clock_s() - began_s);
    if (answers)
        fclose(answers);
    if (gaps)
        fclose(gaps);
    free(stream);
    spot_load_release(&trace);
    return n_wrong ? 1 : 0;
}
