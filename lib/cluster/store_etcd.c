/* SPDX-License-Identifier: MIT */
#include "cluster/store_etcd.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/endpoint.h"
#include "comm/http_client.h"
#include "common/base64.h"
#include "common/clock.h"
#include "common/json_writer.h"
#include "common/utf8.h"
#include "common/xalloc.h"

enum {
    KEY_MAX = SPOT_ETCD_PREFIX_MAX + SPOT_ETCD_NAME_MAX + 1,
    KEY_TEXT = SPOT_BASE64_SIZE(KEY_MAX),
    VALUE_TEXT = SPOT_BASE64_SIZE(SPOT_ETCD_VALUE_MAX),
    BODY_MAX = VALUE_TEXT + 8 * KEY_TEXT,
};

struct spot_etcd {
    struct spot_etcd_where where;
    struct spot_http_client *http;
    double limit_s;
    void (*tick)(void *user);
    void *user;
    size_t at; /* the member that answered last */
    /* for the pending request */
    bool is_answered;
    int rc;
    struct spot_err why;
    struct spot_etcd_answer answer;
    char body[BODY_MAX];
    char name[SPOT_STORE_USER_MAX], password[SPOT_STORE_USER_MAX]; /* "": no password */
    char token[SPOT_ETCD_TOKEN_MAX]; /* obtained with the password; "": none */
};

/* --- addresses --------------------------------------------------------------- */

/* HOST:PORT or [IPV6]:PORT of any machine, whose TLS certificate must have that name. */
static bool is_abroad(const char *text)
{
    static const char names[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";
    const bool is_six = *text == '[';
    const size_t n = strspn(text + is_six, is_six ? "0123456789abcdefABCDEF:." : names);
    const char *const port = text + is_six + n + is_six;
    char *end;

    return n && (!is_six || text[1 + n] == ']') && *port == ':' && port[1] >= '1' &&
           port[1] <= '9' && strtol(port + 1, &end, 10) <= 65535 && !*end;
}

static int add_member(struct spot_etcd_where *where, const char *text, size_t n,
                      struct spot_err *err)
{
    char address[SPOT_ETCD_URL_MAX - sizeof("https://") + 1];
    struct spot_endpoint at;

    if (where->n_url == SPOT_ETCD_MEMBERS_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "expected at most %d members of etcd",
                            SPOT_ETCD_MEMBERS_MAX);
    snprintf(address, sizeof(address), "%.*s", (int)(n < sizeof(address) ? n : 0), text);
    if (!memchr(address, ':', strlen(address)) || !strncmp(address, "unix:", 5) ||
        (where->secret.ca && !is_abroad(address)))
        return spot_err_set(err, SPOT_EUSAGE, "expected HOST:PORT of etcd, got '%.*s'",
                            (int)(n < 100 ? n : 100), text);
    if (!where->secret.ca && spot_endpoint_parse(address, &at, err))
        return -1;
    snprintf(where->url[where->n_url++], SPOT_ETCD_URL_MAX, "%s://%s",
             where->secret.ca ? "https" : "http", address);
    return 0;
}

int spot_etcd_where_parse(const char *text, struct spot_etcd_where *where, struct spot_err *err)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._-/";
    static const char scheme[] = "etcd://";
    const char *p = text, *prefix;
    size_t n;

    memset(where, 0, sizeof(*where));
    if (strncmp(text, scheme, sizeof(scheme) - 1) != 0)
        return spot_err_set(err, SPOT_EUSAGE,
                            "expected etcd://HOST:PORT[,HOST:PORT...]/PREFIX, got '%.100s'", text);
    if (spot_store_secret_find(&where->secret, err))
        return -1;
    do {
        p += where->n_url ? 1 : sizeof(scheme) - 1;
        n = strcspn(p, ",/");
        if (add_member(where, p, n, err))
            return -1;
        p += n;
    } while (*p == ',');
    prefix = *p ? p + 1 : p;
    n = strlen(prefix);
    if (!n || n >= SPOT_ETCD_PREFIX_MAX || strspn(prefix, letters) != n)
        return spot_err_set(err, SPOT_EUSAGE,
                            "expected a /PREFIX of fewer than %d letters, digits and ._-/ after "
                            "etcd's members, got '%.100s'",
                            SPOT_ETCD_PREFIX_MAX, p);
    memcpy(where->prefix, prefix, n + 1);
    return 0;
}

struct spot_etcd *spot_etcd_open(const struct spot_etcd_where *where, double limit_s,
                                 struct spot_err *err)
{
    struct spot_etcd *const store = spot_xcalloc(1, sizeof(*store));

    store->where = *where;
    store->limit_s = limit_s;
    if (where->secret.user_file &&
        spot_store_secret_user(where->secret.user_file, store->name, store->password, err)) {
        free(store);
        return NULL;
    }
    store->http = where->secret.ca
                      ? spot_http_client_new_tls(&(struct spot_http_tls){ where->secret.ca,
                                                                          where->secret.cert,
                                                                          where->secret.key },
                                                 err)
                      : spot_http_client_new(err);
    if (store->http)
        return store;
    free(store);
    return NULL;
}

void spot_etcd_close(struct spot_etcd *store)
{
    if (!store)
        return;
    spot_http_client_free(store->http);
    free(store);
}

void spot_etcd_set_limit(struct spot_etcd *store, double limit_s)
{
    store->limit_s = limit_s;
}

void spot_etcd_on_wait(struct spot_etcd *store, void (*tick)(void *user), void *user)
{
    store->tick = tick;
    store->user = user;
}

/* --- a request ---------------------------------------------------------- */

/* Reads a refusal that etcd sends as plain text, before its JSON gateway. */
static int refused_in_words(const struct spot_http_reply *reply, struct spot_err *err)
{
    char words[128];
    const size_t n = spot_utf8_cut(reply->body, sizeof(words) - 1);

    memcpy(words, reply->body, n);
    words[n] = '\0';
    words[strcspn(words, "\r\n")] = '\0';
    spot_utf8_make_plain(words);
    return spot_err_set(err, SPOT_EDATA, "etcd: status %ld: %s", reply->status, words);
}

static void answered(void *user, const struct spot_http_reply *reply)
{
    struct spot_etcd *const store = user;

    store->is_answered = true;
    if (!reply->status) {
        store->rc = spot_err_set(&store->why, SPOT_ESYS, "%s", reply->why);
        return;
    }
    if (reply->status != 200 && *reply->body != '{') {
        store->rc = refused_in_words(reply, &store->why);
        return;
    }
    store->rc = spot_etcd_answer_read(reply->body, reply->n_byte, &store->answer, &store->why);
    if (!store->rc && reply->status != 200)
        store->rc = spot_err_set(&store->why, SPOT_EDATA, "etcd: status %ld", reply->status);
}

static const double tick_s = 0.1;
static const double password_s = 3; /* etcd hashes passwords slowly on purpose */

static double part_s(const struct spot_etcd *store)
{
    return store->limit_s / (double)store->where.n_url;
}

/* Sends a request to one member. */
static int ask_once(struct spot_etcd *store, const char *path, const char *body, double limit_s,
                    struct spot_err *err)
{
    char token[sizeof("Authorization: ") + SPOT_ETCD_TOKEN_MAX];
    char url[SPOT_HTTP_URL_MAX];
    const struct spot_http_ask ask = { .method = "POST",
                                       .url = url,
                                       .header = { "Content-Type: application/json",
                                                   store->token[0] ? token : NULL },
                                       .body = body,
                                       .connect_s = limit_s,
                                       .limit_s = limit_s };

    snprintf(token, sizeof(token), "Authorization: %s", store->token);
    snprintf(url, sizeof(url), "%s%s", store->where.url[store->at], path);
    store->is_answered = false;
    if (spot_http_client_ask(store->http, &ask, answered, store, err))
        return -1;
    while (!store->is_answered) {
        if (spot_http_client_wait(store->http, NULL, 0, store->tick ? tick_s : limit_s, err))
            return -1;
        if (store->tick && !store->is_answered)
            store->tick(store->user);
    }
    if (store->rc)
        *err = store->why;
    return store->rc;
}

/* Exchanges the password for a token, which is sent with all requests. */
static int authenticate(struct spot_etcd *store, struct spot_err *err)
{
    char *body = NULL;
    size_t n = 0;
    FILE *const out = open_memstream(&body, &n);
    struct spot_jw jw;
    int rc;

    if (!out)
        return spot_err_sys(err, "cannot ask etcd");
    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "name", store->name);
    spot_jw_str(&jw, "password", store->password);
    spot_jw_end(&jw);
    rc = spot_jw_close(&jw, err);
    fclose(out);
    store->token[0] = '\0';
    if (!rc)
        rc = ask_once(store, "/v3/auth/authenticate", body, fmax(password_s, part_s(store)), err);
    free(body);
    if (!rc && !store->answer.token[0])
        rc = spot_err_set(err, SPOT_EDATA, "expected a token of etcd, got none");
    if (!rc)
        memcpy(store->token, store->answer.token, sizeof(store->token));
    return rc;
}

/* True if the token is no longer valid: it expires after minutes, and when its member restarts or
 * its rules change. */
static bool is_stale(const struct spot_etcd *store, const struct spot_err *why)
{
    return store->token[0] && (strstr(why->msg, "invalid auth token") ||
                               strstr(why->msg, "revision of auth store is old"));
}

static int ask_member(struct spot_etcd *store, const char *path, struct spot_err *err)
{
    if (store->name[0] && !store->token[0] && authenticate(store, err))
        return -1;
    if (!ask_once(store, path, store->body, part_s(store), err))
        return 0;
    if (!is_stale(store, err))
        return -1;
    return authenticate(store, err) ? -1 : ask_once(store, path, store->body, part_s(store), err);
}

/* Tries the members in turn until one answers. If none answers the request may still have been
 * executed, and if a member was silent, more than once. */
static int ask(struct spot_etcd *store, const char *path, struct spot_err *err)
{
    const size_t n = store->where.n_url;
    struct spot_err why = { 0 };

    for (size_t i = 0; i < n; i++) {
        if (!ask_member(store, path, &why))
            return 0;
        store->at = (store->at + 1) % n;
    }
    return spot_err_set(err, SPOT_ESYS, "expected an answer of etcd at %s%s, got: %s",
                        store->where.url[store->at], n > 1 ? " or another member" : "", why.msg);
}

static void key_text(const struct spot_etcd *store, const char *name, char text[KEY_TEXT])
{
    char key[KEY_MAX];
    const int n =
        snprintf(key, sizeof(key), "%s/%.*s", store->where.prefix, SPOT_ETCD_NAME_MAX - 1, name);

    spot_base64_encode(key, (size_t)n, text);
}

/* Returns 1, 0 if it does not exist, -1 with *err. */
int spot_etcd_get(struct spot_etcd *store, const char *name, struct spot_etcd_entry *entry,
                  struct spot_err *err)
{
    char key[KEY_TEXT];

    key_text(store, name, key);
    snprintf(store->body, sizeof(store->body), "{\"key\":\"%s\"}", key);
    if (ask(store, "/v3/kv/range", err))
        return -1;
    *entry = store->answer.entry[0];
    return entry->created ? 1 : 0;
}

/* --- the lease ----------------------------------------------------------- */

static const char leader_name[] = "leader";

int spot_etcd_leader(struct spot_etcd *store, struct spot_etcd_entry *entry, struct spot_err *err)
{
    return spot_etcd_get(store, leader_name, entry, err);
}

/* Grants a lease, which is counted here from before the request, so that it ends no later here than
 * in etcd. */
static int grant(struct spot_etcd *store, unsigned lease_s, struct spot_etcd_lead *lead,
                 struct spot_err *err)
{
    const double now_s = spot_clock_s();

    snprintf(store->body, sizeof(store->body), "{\"TTL\":\"%u\"}", lease_s);
    if (ask(store, "/v3/lease/grant", err))
        return -1;
    if (!store->answer.lease || !store->answer.ttl_s)
        return spot_err_set(err, SPOT_EDATA, "expected a lease of etcd, got none");
    *lead = (struct spot_etcd_lead){ .lease = store->answer.lease,
                                     .until_s = now_s + (double)store->answer.ttl_s };
    return 0;
}

int spot_etcd_resign(struct spot_etcd *store, struct spot_etcd_lead *lead, struct spot_err *err)
{
    snprintf(store->body, sizeof(store->body), "{\"ID\":\"%" PRId64 "\"}", lead->lease);
    lead->until_s = 0;
    return ask(store, "/v3/lease/revoke", err);
}

/* Creates the leader's key if it does not exist. */
static int create(struct spot_etcd *store, const char *address, int64_t lease, struct spot_err *err)
{
    const size_t n = strlen(address);
    char key[KEY_TEXT], value[VALUE_TEXT];

    if (n > SPOT_ETCD_VALUE_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "expected an address of at most %d bytes, got %zu",
                            SPOT_ETCD_VALUE_MAX, n);
    key_text(store, leader_name, key);
    spot_base64_encode(address, n, value);
    snprintf(store->body, sizeof(store->body),
             "{\"compare\":[{\"target\":\"CREATE\",\"key\":\"%s\",\"create_revision\":\"0\"}],"
             "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
             "\"}}],\"failure\":[{\"request_range\":{\"key\":\"%s\"}}]}",
             key, key, value, lease, key);
    return ask(store, "/v3/kv/txn", err);
}

int spot_etcd_lead(struct spot_etcd *store, const char *address, unsigned lease_s,
                   struct spot_etcd_lead *lead, struct spot_etcd_entry *leader,
                   struct spot_err *err)
{
    const struct spot_etcd_answer *const a = &store->answer;
    const int is_led = spot_etcd_leader(store, leader, err);

    if (is_led)
        return is_led < 0 ? -1 : 0;
    if (grant(store, lease_s, lead, err) || create(store, address, lead->lease, err))
        return -1;
    if (a->is_done)
        lead->created = a->revision;
    else if (a->n_entry && a->entry[0].lease == lead->lease)
        lead->created = a->entry[0].created; /* an earlier try succeeded, but its answer was lost */
    else
        *leader = a->entry[0];
    if (lead->created)
        return 1;
    (void)spot_etcd_resign(store, lead, NULL); /* on failure it expires by itself */
    return 0;
}

int spot_etcd_keep(struct spot_etcd *store, struct spot_etcd_lead *lead, struct spot_err *err)
{
    const double now_s = spot_clock_s();

    snprintf(store->body, sizeof(store->body), "{\"ID\":\"%" PRId64 "\"}", lead->lease);
    if (ask(store, "/v3/lease/keepalive", err))
        return -1;
    lead->until_s = store->answer.ttl_s ? now_s + (double)store->answer.ttl_s : 0;
    return store->answer.ttl_s ? 1 : 0;
}

/* --- records ------------------------------------------------------------- */

static int compare_and_put(struct spot_etcd *store, int64_t created, const char *name,
                           const char *value, int64_t changed, struct spot_err *err)
{
    char leader[KEY_TEXT], key[KEY_TEXT], text[VALUE_TEXT];

    key_text(store, leader_name, leader);
    key_text(store, name, key);
    spot_base64_encode(value, strlen(value), text);
    snprintf(store->body, sizeof(store->body),
             "{\"compare\":[{\"target\":\"CREATE\",\"key\":\"%s\",\"create_revision\":\"%" PRId64
             "\"},{\"target\":\"MOD\",\"key\":\"%s\",\"mod_revision\":\"%" PRId64 "\"}],"
             "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\"}}],\"failure\":["
             "{\"request_range\":{\"key\":\"%s\"}},{\"request_range\":{\"key\":\"%s\"}}]}",
             leader, created, key, changed, key, text, leader, key);
    return ask(store, "/v3/kv/txn", err);
}

int spot_etcd_put(struct spot_etcd *store, const struct spot_etcd_lead *lead, const char *name,
                  const char *value, int64_t *changed, struct spot_err *err)
{
    const struct spot_etcd_answer *const a = &store->answer;

    if (strlen(value) > SPOT_ETCD_VALUE_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "expected a record of at most %d bytes, got %zu",
                            SPOT_ETCD_VALUE_MAX, strlen(value));
    if (compare_and_put(store, lead->created, name, value, *changed, err))
        return -1;
    if (a->is_done) {
        *changed = a->revision;
        return 1;
    }
    if (a->n_entry != 2)
        return spot_err_set(err, SPOT_ESYS, "expected etcd to return the leader and '%s'", name);
    if (a->entry[0].created != lead->created)
        return 0;
    if (a->entry[1].changed > *changed && !strcmp(a->entry[1].value, value)) {
        *changed = a->entry[1].changed; /* an earlier try succeeded, but its answer was lost */
        return 1;
    }
    return spot_err_set(err, SPOT_EDATA,
                        "expected '%s' at revision %" PRId64 " of etcd, got %" PRId64, name,
                        *changed, a->entry[1].changed);
}

int spot_etcd_claim(struct spot_etcd *store, const struct spot_etcd_lead *lead,
                    const char *identity, struct spot_err *err)
{
    struct spot_etcd_entry job;
    const int is_there = spot_etcd_get(store, "job", &job, err);

    if (is_there < 0)
        return -1;
    if (!is_there)
        return spot_etcd_put(store, lead, "job", identity, &job.changed, err);
    if (!strcmp(job.value, identity))
        return 1;
    return spot_err_set(err, SPOT_EDATA, "expected etcd's '%s' to be job %.64s's, got %.64s's",
                        store->where.prefix, identity, job.value);
}
