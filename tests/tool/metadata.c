/* SPDX-License-Identifier: MIT */
/* metadata - the metadata service of a cloud on loopback.
 *
 *   metadata DIR aws|gcp|azure       its address comes into DIR/endpoint
 *
 * What it says lies in DIR, which is read for each answer; put files there by renaming:
 *   instance-action, rebalance (AWS: 404 without), preempted, maintenance-event (GCP: FALSE, NONE),
 *   scheduledevents, name (Azure), token: the body, in which @+60@ and #+60# stand for the time in
 *   60 s (RFC 3339, HTTP)
 *   fault   a status such as 401 or 503, which all answers have
 * It keeps DIR/log, a line for each question: time, method, path; and DIR/posted, bodies.
 */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MAX = 16384 };

static const char *dir, *cloud;
static FILE *log_file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_token;

struct question {
    char text[TEXT_MAX], method[8], path[512], name[64];
    const char *body;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The file's text without its last newline; returns whether it is there. */
static bool get(const char *name, char *text, size_t size)
{
    char path[4096];
    FILE *in;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    *text = '\0';
    in = fopen(path, "r");
    if (!in)
        return false;
    n = fread(text, 1, size - 1, in);
    fclose(in);
    n -= n && text[n - 1] == '\n';
    text[n] = '\0';
    return true;
}

static void print_time(char *to, size_t size, double unix_s, bool is_http)
{
    const time_t t = (time_t)unix_s;
    struct tm tm;

    gmtime_r(&t, &tm);
    strftime(to, size, is_http ? "%a, %d %b %Y %H:%M:%S GMT" : "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* Put times in the place of @+60@ and #+60#. */
static void expand(char *text)
{
    char out[TEXT_MAX], *to = out;

    for (const char *p = text; *p && to < out + sizeof(out) - 64;) {
        char *end;
        const double ahead_s = *p == '@' || *p == '#' ? strtod(p + 1, &end) : 0;

        if ((*p == '@' || *p == '#') && end > p + 1 && *end == *p) {
            print_time(to, 40, now_s() + ahead_s, *p == '#');
            to += strlen(to);
            p = end + 1;
        } else {
            *to++ = *p++;
        }
    }
    *to = '\0';
    strcpy(text, out);
}

static void put(int fd, const char *data, size_t n)
{
    while (n) {
        const ssize_t some = send(fd, data, n, MSG_NOSIGNAL);

        if (some <= 0)
            return;
        data += some;
        n -= (size_t)some;
    }
}

static void answer(int fd, int status, const char *more, const char *body)
{
    char all[TEXT_MAX + 1024], at[40];

    print_time(at, sizeof(at), now_s(), true);
    snprintf(all, sizeof(all), "HTTP/1.1 %d Said\r\nDate: %s\r\n%sContent-Length: %zu\r\n\r\n%s",
             status, at, more, strlen(body), body);
    put(fd, all, strlen(all));
}

/* --- clouds -------------------------------------------------------------- */

static const char *header(const struct question *q, const char *name, char *text, size_t size)
{
    const size_t n = strlen(name);

    *text = '\0';
    for (const char *line = strstr(q->text, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (!strncasecmp(line, name, n) && line[n] == ':') {
            const char *v = line + n + 1 + strspn(line + n + 1, " ");

            snprintf(text, size, "%.*s", (int)strcspn(v, "\r\n"), v);
            break;
        }
    }
    return text;
}

static void give_token(int fd, const struct question *q)
{
    char ttl[32], token[64], more[128];

    header(q, "X-aws-ec2-metadata-token-ttl-seconds", ttl, sizeof(ttl));
    if (strcmp(q->method, "PUT") != 0 || atoi(ttl) < 1 || atoi(ttl) > 21600) {
        answer(fd, 400, "", "");
        return;
    }
    snprintf(more, sizeof(more), "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: %s\r\n", ttl);
    snprintf(token, sizeof(token), "token-%d==", ++n_token);
    answer(fd, 200, more, token);
}

static void be_aws(int fd, const struct question *q, char *body)
{
    char token[64], right[64];

    if (!strcmp(q->name, "token")) {
        give_token(fd, q);
        return;
    }
    header(q, "X-aws-ec2-metadata-token", token, sizeof(token));
    snprintf(right, sizeof(right), "token-%d==", n_token);
    if (strcmp(token, right) != 0)
        answer(fd, 401, "", "<html>no token</html>");
    else if (!get(q->name, body, TEXT_MAX))
        answer(fd, 404, "", "<html>none</html>");
    else {
        expand(body);
        answer(fd, 200, "", body);
    }
}

static void make_etag(const char *body, char *etag)
{
    unsigned h = 5381;

    for (; *body; body++)
        h = h * 33 + (unsigned char)*body;
    sprintf(etag, "%08x", h);
}

static void be_gcp(int fd, const struct question *q, char *body)
{
    const char *const last = strstr(q->path, "last_etag="), *const hold = strstr(q->path, "sec=");
    const double until_s = now_s() + (hold ? atof(hold + 4) : 60);
    char flavor[16], etag[16], more[96];
    bool waits = strstr(q->path, "wait_for_change=true") && last;

    header(q, "Metadata-Flavor", flavor, sizeof(flavor));
    if (strcmp(flavor, "Google") != 0) {
        answer(fd, 403, "", "missing Metadata-Flavor");
        return;
    }
    for (;;) {
        if (!get(q->name, body, TEXT_MAX))
            strcpy(body, !strcmp(q->name, "preempted") ? "FALSE" : "NONE");
        make_etag(body, etag);
        if (!waits || strncmp(last + 10, etag, 8) != 0 || now_s() > until_s)
            break;
        usleep(2000);
    }
    snprintf(more, sizeof(more), "Metadata-Flavor: Google\r\nETag: %s\r\n", etag);
    answer(fd, 200, more, body);
}

static void be_azure(int fd, const struct question *q, char *body)
{
    char is_meant[16];

    header(q, "Metadata", is_meant, sizeof(is_meant));
    if (strcmp(is_meant, "true") != 0) {
        answer(fd, 400, "", "{\"error\":\"Bad request\"}");
        return;
    }
    if (!strcmp(q->method, "POST")) {
        char path[4096];
        FILE *out;

        snprintf(path, sizeof(path), "%s/posted", dir);
        out = fopen(path, "a");
        fprintf(out, "%s\n", q->body);
        fclose(out);
        answer(fd, 200, "", "");
        return;
    }
    if (!get(q->name, body, TEXT_MAX))
        strcpy(body,
               !strcmp(q->name, "name") ? "here" : "{\"DocumentIncarnation\":1,\"Events\":[]}");
    expand(body);
    answer(fd, 200, "", body);
}

/* --- connections --------------------------------------------------------- */

/* One question with its body; returns whether there is one. */
static bool read_question(int fd, struct question *q)
{
    char length[16];
    size_t n = 0, n_body;
    char *end = NULL;

    while (!end) {
        const ssize_t some =
            n < sizeof(q->text) - 1 ? read(fd, q->text + n, sizeof(q->text) - 1 - n) : 0;

        if (some <= 0)
            return false;
        n += (size_t)some;
        q->text[n] = '\0';
        end = strstr(q->text, "\r\n\r\n");
    }
    n_body = strtoul(header(q, "Content-Length", length, sizeof(length)), NULL, 10);
    for (q->body = end + 4; n < (size_t)(q->body - q->text) + n_body;) {
        const ssize_t some =
            n < sizeof(q->text) - 1 ? read(fd, q->text + n, sizeof(q->text) - 1 - n) : 0;

        if (some <= 0)
            return false;
        n += (size_t)some;
        q->text[n] = '\0';
    }
    if (sscanf(q->text, "%7s %511s", q->method, q->path) != 2)
        return false;
    snprintf(q->name, sizeof(q->name), "%.*s", (int)strcspn(strrchr(q->path, '/') + 1, "?"),
             strrchr(q->path, '/') + 1);
    return true;
}

static bool is_ours(const struct question *q)
{
    static const char *const own[][2] = { { "aws", "/latest/" },
                                          { "gcp", "/computeMetadata/v1/" },
                                          { "azure", "/metadata/" } };

    for (size_t i = 0; i < 3; i++)
        if (!strcmp(cloud, own[i][0]))
            return !strncmp(q->path, own[i][1], strlen(own[i][1]));
    return false;
}

static void serve(int fd, const struct question *q)
{
    char body[TEXT_MAX], fault[16];

    pthread_mutex_lock(&lock);
    fprintf(log_file, "%.3f %s %s\n", now_s(), q->method, q->path);
    fflush(log_file);
    pthread_mutex_unlock(&lock);
    if (get("fault", fault, sizeof(fault)))
        answer(fd, atoi(fault), "", "<html>no</html>");
    else if (!is_ours(q))
        answer(fd, 404, "", "<html>what?</html>");
    else if (*cloud == 'g')
        be_gcp(fd, q, body);
    else if (cloud[1] == 'w')
        be_aws(fd, q, body);
    else
        be_azure(fd, q, body);
}

static void *connection(void *arg)
{
    const int fd = *(int *)arg;
    struct question *const q = calloc(1, sizeof(*q));

    free(arg);
    while (read_question(fd, q))
        serve(fd, q);
    close(fd);
    free(q);
    return NULL;
}

static int listen_here(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof(at);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char path[4096], temporary[4200];
    FILE *out;

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) || listen(fd, 64) ||
        getsockname(fd, (struct sockaddr *)&at, &n))
        return -1;
    snprintf(path, sizeof(path), "%s/endpoint", dir);
    snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    out = fopen(temporary, "w");
    if (!out || fprintf(out, "http://127.0.0.1:%d\n", ntohs(at.sin_port)) < 0 || fclose(out) ||
        rename(temporary, path))
        return -1;
    return fd;
}

int main(int argc, char **argv)
{
    char path[4096];
    int listener;

    if (argc != 3)
        return 2;
    dir = argv[1];
    cloud = argv[2];
    signal(SIGPIPE, SIG_IGN);
    snprintf(path, sizeof(path), "%s/log", dir);
    log_file = fopen(path, "w");
    listener = log_file ? listen_here() : -1;
    if (listener < 0) {
        perror(dir);
        return 4;
    }
    for (;;) {
        int *const fd = malloc(sizeof(*fd));
        pthread_t thread;

        *fd = accept(listener, NULL, NULL);
        if (*fd < 0 || pthread_create(&thread, NULL, connection, fd))
            return 4;
        pthread_detach(thread);
    }
}
