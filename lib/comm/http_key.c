/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* getline */
#include "comm/http_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "comm/endpoint.h"
#include "common/buf.h"
#include "common/hash.h"
#include "common/xalloc.h"

enum { KEYS_MAX = 1024, KEY_MAX = 256 };

struct key {
    char text[KEY_MAX]; /* padded with zeros */
};

struct spot_http_keys {
    size_t n;
    struct key key[KEYS_MAX];
};

/* What a line says without the blanks around it, which no client could send; "" for a comment. */
static const char *trim(char *line)
{
    static const char blank[] = " \t\r\n";
    size_t n;

    line += strspn(line, blank);
    if (*line == '#')
        return "";
    n = strlen(line);
    while (n && strchr(blank, line[n - 1]))
        n--;
    line[n] = 0;
    return line;
}

static int add_line(struct spot_http_keys *keys, char *line, size_t n_line, const char *path,
                    struct spot_err *err)
{
    const bool has_nul = strlen(line) != n_line;
    const char *const key = trim(line);
    const size_t n = strlen(key);

    if (has_nul)
        return spot_err_set(err, SPOT_EDATA, "%s: a line has a NUL: keys are texts", path);
    if (n >= KEY_MAX)
        return spot_err_set(err, SPOT_EDATA, "%s: a key has more than %d bytes", path, KEY_MAX - 1);
    if (n && keys->n == KEYS_MAX)
        return spot_err_set(err, SPOT_EDATA, "%s: there are more than %d keys", path, KEYS_MAX);
    if (n)
        memcpy(keys->key[keys->n++].text, key, n);
    return 0;
}

static int read_keys(struct spot_http_keys *keys, FILE *in, const char *path, struct spot_err *err)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;

    while (!rc && (n = getline(&line, &cap, in)) > 0)
        rc = add_line(keys, line, (size_t)n, path, err);
    if (!rc && ferror(in))
        rc = spot_err_sys(err, "cannot read %s", path);
    free(line);
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

static bool is_key(const struct spot_http_keys *keys, const char *text)
{
    struct key given = { { 0 } };
    unsigned n_equal = 0;

    if (strlen(text) >= KEY_MAX)
        return false;
    memcpy(given.text, text, strlen(text));
    for (size_t i = 0; i < keys->n; i++) {
        volatile unsigned char differs = 0;

        for (size_t k = 0; k < KEY_MAX; k++)
            differs = (unsigned char)(differs | (given.text[k] ^ keys->key[i].text[k]));
        n_equal += !differs;
    }
    return n_equal > 0;
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

    return !keys || (key && is_key(keys, key));
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
        return spot_err_set(err, SPOT_EUSAGE, "%s can be reached by others: that needs %s", address,
                            options);
    return 0;
}
