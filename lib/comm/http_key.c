/* SPDX-License-Identifier: MIT */
#include "comm/http_key.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "comm/endpoint.h"
#include "common/buf.h"
#include "common/hash.h"
#include "common/xalloc.h"

enum { KEYS_MAX = 1024, KEY_MAX = 256, FILE_MAX_BYTE = 1 << 20 };

struct key {
    char text[KEY_MAX]; /* padded with zeros */
    float share;
    int priority;
};

struct spot_http_keys {
    size_t n;
    struct key key[KEYS_MAX];
};

/* State of reading a key file. */
struct reading {
    const char *path;
    unsigned long line;
    struct spot_err *err;
    unsigned long line_of[KEYS_MAX]; /* line of each key */
};

static int refuse(const struct reading *r, const char *what)
{
    return spot_err_at(r->err, r->path, r->line, 0, NULL, "%s", what);
}

/* Refuses keys that no client can send. */
static int check_key(const struct reading *r, const char *key, size_t n)
{
    if (memchr(key, '\0', n))
        return refuse(r, "a line has a NUL: keys are texts");
    if (n >= KEY_MAX)
        return refuse(r, "a key has more than 255 bytes");
    for (size_t i = 0; i < n; i++)
        if (key[i] < ' ' || key[i] > '~')
            return refuse(r, "a key has a byte that is not printable ASCII");
    if (n >= 7 && !strncasecmp(key, "Bearer ", 7))
        return refuse(r, "a key begins with 'Bearer', which clients send before it");
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* If the last word of line[*n] is NAME=NUMBER, removes it and stores the number. */
static bool take_term(const char *line, size_t *n, const char *name, double *value)
{
    char number[24], *end;
    size_t at = *n;

    while (at && !is_blank(line[at - 1]))
        at--;
    if (!at || *n - at < strlen(name) || strncmp(line + at, name, strlen(name)) != 0 ||
        *n - at - strlen(name) >= sizeof(number))
        return false;
    snprintf(number, sizeof(number), "%.*s", (int)(*n - at - strlen(name)),
             line + at + strlen(name));
    *value = strtod(number, &end);
    if (!*number || *end)
        *value = NAN;
    while (at && is_blank(line[at - 1]))
        at--;
    *n = at;
    return true;
}

static int take_terms(struct key *to, const struct reading *r, const char *line, size_t *n)
{
    double share = 1, priority = 0;

    while (take_term(line, n, "share=", &share) || take_term(line, n, "priority=", &priority))
        ;
    if (!(share >= 1e-3 && share <= 1e3))
        return refuse(r, "share= takes a number from 0.001 to 1000");
    if (!(priority >= -100 && priority <= 100) || priority > floor(priority))
        return refuse(r, "priority= takes a whole number from -100 to 100");
    to->share = (float)share;
    to->priority = (int)priority;
    return 0;
}

static int add_key(struct spot_http_keys *keys, struct reading *r, const char *key, size_t n)
{
    struct key *const to = &keys->key[keys->n < KEYS_MAX ? keys->n : 0];
    struct key terms = { .share = 1 };

    if (take_terms(&terms, r, key, &n) || check_key(r, key, n))
        return -1;
    if (keys->n == KEYS_MAX)
        return spot_err_set(r->err, SPOT_EDATA, "%s: there are more than %d keys", r->path,
                            KEYS_MAX);
    memcpy(to->text, key, n);
    to->share = terms.share;
    to->priority = terms.priority;
    for (size_t i = 0; i < keys->n; i++)
        if (!memcmp(keys->key[i].text, to->text, KEY_MAX))
            return spot_err_at(r->err, r->path, r->line, 0, NULL, "the same key as in line %lu",
                               r->line_of[i]);
    r->line_of[keys->n++] = r->line;
    return 0;
}

/* Blanks around a key are removed, because no client could send them. */
static int add_line(struct spot_http_keys *keys, struct reading *r, const char *line, size_t n)
{
    while (n && is_blank(line[n - 1]))
        n--;
    while (n && is_blank(*line)) {
        line++;
        n--;
    }
    return n && *line != '#' ? add_key(keys, r, line, n) : 0;
}

static int read_keys(struct spot_http_keys *keys, FILE *in, const char *path, struct spot_err *err)
{
    struct reading r = { .path = path, .err = err };
    char *const text = spot_xcalloc(FILE_MAX_BYTE + 1, 1);
    const size_t n = fread(text, 1, FILE_MAX_BYTE + 1, in);
    const char *at = text, *const end = text + n;
    int rc = 0;

    if (ferror(in))
        rc = spot_err_sys(err, "cannot read %s", path);
    else if (n > FILE_MAX_BYTE)
        rc = spot_err_set(err, SPOT_EDATA, "%s: larger than 1 MiB: not a file of keys", path);
    while (!rc && at < end) {
        const char *const stop = memchr(at, '\n', (size_t)(end - at));
        const size_t n_line = (size_t)((stop ? stop : end) - at);

        r.line++;
        rc = add_line(keys, &r, at, n_line);
        at += n_line + (stop != NULL);
    }
    free(text);
    return rc || keys->n ? rc : spot_err_set(err, SPOT_EDATA, "%s: contains no key", path);
}

struct spot_http_keys *spot_http_keys_load(const char *path, struct spot_err *err)
{
    struct spot_http_keys *const keys = spot_xcalloc(1, sizeof(*keys));
    FILE *const in = fopen(path, "re");
    const int rc = in ? read_keys(keys, in, path, err) : spot_err_sys(err, "%s", path);

    if (in)
        fclose(in);
    if (!rc)
        return keys;
    spot_http_keys_free(keys);
    return NULL;
}

void spot_http_keys_free(struct spot_http_keys *keys)
{
    free(keys);
}

/* The number of a key, from 1; 0: unknown key. */
static unsigned number_of(const struct spot_http_keys *keys, const char *text)
{
    struct key given = { .share = 1 };
    unsigned number = 0;

    if (strlen(text) >= KEY_MAX)
        return 0;
    memcpy(given.text, text, strlen(text));
    for (size_t i = 0; i < keys->n; i++) {
        volatile unsigned char differs = 0;

        for (size_t k = 0; k < KEY_MAX; k++)
            differs = (unsigned char)(differs | (given.text[k] ^ keys->key[i].text[k]));
        number += !differs * (unsigned)(i + 1);
    }
    return number;
}

/* The key that a request shows; NULL: none. */
static const char *key_of(const struct spot_http_call *call)
{
    static const char scheme[] = "Bearer ";
    const char *given = spot_http_header(call, "Authorization");

    if (!given || strncasecmp(given, scheme, sizeof(scheme) - 1) != 0)
        return NULL;
    given += sizeof(scheme) - 1;
    return given + strspn(given, " ");
}

bool spot_http_keys_admit(const struct spot_http_keys *keys, struct spot_http_call *call)
{
    const char *const key = keys ? key_of(call) : NULL;

    return !keys || (key && number_of(keys, key));
}

struct spot_http_terms spot_http_keys_terms(const struct spot_http_keys *keys,
                                            const struct spot_http_call *call)
{
    const char *const key = keys ? key_of(call) : NULL;
    const unsigned number = key ? number_of(keys, key) : 0;

    return number ? (struct spot_http_terms){ number, keys->key[number - 1].share,
                                              keys->key[number - 1].priority }
                  : (struct spot_http_terms){ .share = 1 };
}

uint64_t spot_http_keys_owner(const struct spot_http_keys *keys, const struct spot_http_call *call,
                              const char *what)
{
    const char *const key = keys ? key_of(call) : NULL;
    struct spot_buf text = { 0 };
    uint64_t owner;

    if (!key)
        return 0;
    spot_buf_add(&text, what, strlen(what) + 1);
    spot_buf_add(&text, key, strlen(key));
    owner = spot_hash64(text.data, text.n);
    spot_buf_release(&text);
    return owner;
}

int spot_http_check_reach(const char *address, const char *tls_cert, const char *tls_key,
                          const char *key_file, const char *options, struct spot_err *err)
{
    struct spot_endpoint at;

    if (spot_endpoint_parse_reach(address, SPOT_REACH_NUMERIC, &at, err))
        return -1;
    if (!spot_endpoint_is_private(&at) && (!tls_cert || !tls_key || !key_file))
        return spot_err_set(err, SPOT_EUSAGE,
                            "%s can be reached from other machines, which needs %s", address,
                            options);
    return 0;
}
