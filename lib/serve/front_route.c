/* SPDX-License-Identifier: MIT */
/* The paths of the API, and access to them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "comm/http_host.h"
#include "comm/http_page.h"
#include "common/version.h"
#include "common/xalloc.h"
#include "serve/front_state.h"
#include "serve/page.h"

static const char json[] = "application/json";

/* --- answers ------------------------------------------------------------------ */

typedef void handler(struct spot_front *f, struct spot_http_call *call, const char *rest);

static void models(struct spot_front *f, struct spot_http_call *call, const char *rest)
{
    struct spot_buf out = { 0 };
    char message[320];

    if (*rest && !spot_front_has_model(&f->options, rest, NULL)) {
        snprintf(message, sizeof(message), "The model does not exist: this server has '%.200s'.",
                 f->options.model);
        spot_front_answer_error(call, 404, "invalid_request_error", "model_not_found", message);
        return;
    }
    spot_openai_models(&f->options, *rest ? rest : NULL, f->began_s, &out);
    spot_http_answer(call, 200, json, out.data, out.n);
    spot_buf_release(&out);
}

static void say(struct spot_http_call *call, const char *text)
{
    spot_http_answer(call, 200, json, text, strlen(text));
}

/* Answers whether a request would be computed now. */
static void ready(struct spot_front *f, struct spot_http_call *call, const char *rest)
{
    const enum spot_admission now =
        f->is_draining ? SPOT_ADMIT_DRAINING : f->table->health(f->server);

    (void)rest;
    if (now == SPOT_ADMIT || now == SPOT_ADMIT_FULL)
        say(call, "{\"status\":\"ok\"}");
    else
        spot_front_answer_not_now(f, call, now);
}

/* Answers 200 as long as this loop runs, even without workers. */
static void live(struct spot_front *f, struct spot_http_call *call, const char *rest)
{
    (void)f;
    (void)rest;
    say(call, "{\"status\":\"ok\"}");
}

static void version(struct spot_front *f, struct spot_http_call *call, const char *rest)
{
    char text[96];

    (void)f;
    (void)rest;
    snprintf(text, sizeof(text), "{\"version\":\"%s\"}", spot_version());
    say(call, text);
}

static void metrics(struct spot_front *f, struct spot_http_call *call, const char *rest)
{
    struct spot_buf out = { 0 };

    (void)rest;
    f->table->metrics(f->server, &out);
    spot_http_answer(call, 200, "text/plain; version=0.0.4", out.data, out.n);
    spot_buf_release(&out);
}

/* The status shown by the page. */
static void status(struct spot_front *f, struct spot_http_call *call, const char *rest)
{
    char *text;
    size_t n;
    FILE *const memory = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    (void)rest;
    spot_jw_init(&jw, memory, false);
    spot_jw_object(&jw, NULL);
    f->table->status(f->server, &jw);
    spot_jw_end(&jw);
    spot_jw_close(&jw, NULL);
    spot_xmemory_close(memory);
    spot_http_answer(call, 200, json, text, n);
    free(text);
}

static void page(struct spot_front *f, struct spot_http_call *call, const char *rest)
{
    (void)f;
    (void)rest;
    if (spot_http_answer_page(call, spot_page_html, spot_page_html_byte, NULL))
        spot_front_answer_error(call, 500, "server_error", NULL, "There are no random numbers.");
}

/* --- paths -------------------------------------------------------------------- */

enum access {
    OPEN,     /* public: the answer contains nothing confidential */
    WITH_KEY, /* to clients with a key, where there are keys */
};

static const struct route {
    const char *path; /* a path that ends in / must be followed by more text */
    const char *method;
    enum access access;
    handler *answer; /* NULL: answers with a completion, in the format of `api` */
    enum spot_api api;
} routes[] = {
    { "/v1/completions", "POST", WITH_KEY, NULL, SPOT_API_COMPLETIONS },
    { "/v1/chat/completions", "POST", WITH_KEY, NULL, SPOT_API_CHAT },
    { "/v1/responses", "POST", WITH_KEY, NULL, SPOT_API_RESPONSES },
    { "/v1/embeddings", "POST", WITH_KEY, NULL, SPOT_API_EMBEDDINGS },
    { "/tokenize", "POST", WITH_KEY, NULL, SPOT_API_TOKENIZE },
    { "/detokenize", "POST", WITH_KEY, NULL, SPOT_API_DETOKENIZE },
    { "/v1/streams/", "GET", WITH_KEY, spot_front_rejoin, 0 },
    { "/v1/models", "GET", WITH_KEY, models, 0 },
    { "/v1/models/", "GET", WITH_KEY, models, 0 },
    { "/status", "GET", WITH_KEY, status, 0 },
    { "/metrics", "GET", WITH_KEY, metrics, 0 },
    { "/version", "GET", WITH_KEY, version, 0 },
    { "/health", "GET", OPEN, ready, 0 },
    { "/ready", "GET", OPEN, ready, 0 },
    { "/live", "GET", OPEN, live, 0 },
    { "/", "GET", OPEN, page, 0 }, /* the page asks the user for a key */
};

/* NULL if unknown. *rest gets the part after its path. Clients put a base that ends in a slash
 * before a path that begins with one, or end the path with one. */
static const struct route *route_of(const char *path, const char **rest)
{
    while (path[0] == '/' && path[1] == '/')
        path++;
    for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++) {
        const size_t n = strlen(routes[i].path);
        const bool has_more = n > 1 && routes[i].path[n - 1] == '/';

        *rest = path + n;
        if (!strncmp(path, routes[i].path, n) &&
            (has_more || !path[n] || (n > 1 && !strcmp(path + n, "/"))))
            return &routes[i];
    }
    return NULL;
}

static void answer(struct spot_front *f, struct spot_http_call *call, const struct route *r,
                   const char *rest)
{
    if (r->answer)
        r->answer(f, call, rest);
    else
        spot_front_complete(f, call, r->api);
}

/* --- access ----------------------------------------------------------------- */

/* True if the origin is listed as allowed. */
static bool is_listed(const struct spot_front *f, const char *origin)
{
    for (const char *at = f->options.cors; at && *at && origin;) {
        const size_t n = strcspn(at, ",");

        if ((n == 1 && *at == '*') || (n == strlen(origin) && !memcmp(at, origin, n)))
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* Allow a page of another origin to read the answer, and answer the browser's preflight request. */
static void allow_origin(const struct spot_front *f, struct spot_http_call *call)
{
    const char *const origin = spot_http_header(call, "Origin");
    const char *const asked = spot_http_header(call, "Access-Control-Request-Headers");

    if (!f->options.cors)
        return;
    spot_http_add_header(call, "Vary", "Origin");
    if (!is_listed(f, origin))
        return;
    spot_http_add_header(call, "Access-Control-Allow-Origin", origin);
    spot_http_add_header(call, "Access-Control-Expose-Headers", "Retry-After");
    if (strcmp(spot_http_method(call), "OPTIONS") != 0)
        return;
    spot_http_add_header(call, "Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS");
    spot_http_add_header(call, "Access-Control-Allow-Headers",
                         asked ? asked : "Authorization, Content-Type, Last-Event-ID");
    spot_http_add_header(call, "Access-Control-Max-Age", "600");
}

/* Without keys, requests of web pages in a local browser are rejected. They cannot reach a Unix
 * socket. */
static bool is_of_stranger(const struct spot_front *f, const struct spot_http_call *call)
{
    return !f->keys && spot_http_port(f->http) &&
           (!spot_http_host_is_address(call) ||
            (!spot_http_origin_is_own(call) && !is_listed(f, spot_http_header(call, "Origin"))));
}

static void refuse_stranger(struct spot_http_call *call)
{
    spot_front_answer_error(call, 403, "invalid_request_error", NULL,
                            "Without --api-key-file, Host must be localhost or an IP address, and "
                            "Origin none, this server, or of --cors-origin.");
}

bool spot_front_is_proof(const char *rest)
{
    const char *const slash = strchr(rest, '/');

    return slash && !strcmp(slash, "/proof");
}

/* True for the path of a stream, which accepts DELETE. */
static bool may_delete(const struct route *r, const char *rest)
{
    return r->answer == spot_front_rejoin && !spot_front_is_proof(rest);
}

static const char *methods_of(const struct route *r, const char *rest)
{
    return may_delete(r, rest) ? "GET, HEAD, DELETE, OPTIONS"
           : *r->method == 'G' ? "GET, HEAD, OPTIONS"
                               : "POST, OPTIONS";
}

static bool takes_method(const struct route *r, const char *rest, const char *method)
{
    return !strcmp(method, r->method) || (*r->method == 'G' && !strcmp(method, "HEAD")) ||
           (may_delete(r, rest) && !strcmp(method, "DELETE"));
}

static bool is_encoded(const struct spot_http_call *call)
{
    const char *const encoding = spot_http_header(call, "Content-Encoding");

    return encoding && *encoding && strcasecmp(encoding, "identity") != 0;
}

void spot_front_gate(void *user, struct spot_http_call *call)
{
    struct spot_front *const f = user;
    const char *rest;
    const struct route *const r = route_of(spot_http_path(call), &rest);
    const char *const method = spot_http_method(call);

    allow_origin(f, call);
    if (is_of_stranger(f, call)) {
        refuse_stranger(call);
    } else if (!r) {
        spot_front_answer_error(call, 404, "invalid_request_error", NULL, "Unknown path.");
    } else if (!strcmp(method, "OPTIONS")) {
        spot_http_add_header(call, "Allow", methods_of(r, rest));
        spot_http_answer(call, 204, json, NULL, 0);
    } else if (!takes_method(r, rest, method)) {
        spot_http_add_header(call, "Allow", r->method);
        spot_front_answer_error(call, 405, "invalid_request_error", NULL,
                                "Method not allowed for this path.");
    } else if (r->access == OPEN) {
        answer(f, call, r, rest);
    } else if (!spot_http_keys_admit(f->keys, call)) {
        spot_http_add_header(call, "WWW-Authenticate", "Bearer");
        spot_front_answer_error(call, 401, "invalid_request_error", "invalid_api_key",
                                "Incorrect API key provided.");
    } else if (is_encoded(call)) {
        spot_http_add_header(call, "Accept-Encoding", "identity");
        spot_front_answer_error(call, 415, "invalid_request_error", NULL,
                                "A body that is compressed is not read: send it without "
                                "Content-Encoding.");
    }
}

void spot_front_called(void *user, struct spot_http_call *call)
{
    const struct route *r;
    const char *rest;

    spot_front_gate(user, call);
    if (!spot_http_is_answered(call) && (r = route_of(spot_http_path(call), &rest)))
        answer(user, call, r, rest);
}
