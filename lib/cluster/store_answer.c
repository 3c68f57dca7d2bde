/* SPDX-License-Identifier: MIT */
#include "cluster/store_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/json.h"
#include "common/utf8.h"

/* A number >= 0, as text; 0 if it is missing. */
static int get_int(const struct spot_json_doc *doc, const struct spot_json_value *object,
                   const char *key, int64_t *x, struct spot_err *err)
{
    const struct spot_json_value *const v = spot_json_get(object, key);
    const char *const text = spot_json_is_string(v) ? spot_json_text(v) : NULL;
    char *end;

    *x = 0;
    if (!v)
        return 0;
    if (!text || *text < '0' || *text > '9')
        return spot_json_fail(doc, "", err, "expected \"%s\" to be a number in a string", key);
    errno = 0;
    *x = strtoll(text, &end, 10);
    if (errno || *end)
        return spot_json_fail(doc, "", err, "expected \"%s\" to be a number of 63 bits", key);
    return 0;
}

static int read_value(const struct spot_json_doc *doc, const struct spot_json_value *kv,
                      struct spot_etcd_entry *e, struct spot_err *err)
{
    const struct spot_json_value *const v = spot_json_get(kv, "value");
    const char *const text = spot_json_is_string(v) ? spot_json_text(v) : "";

    if ((v && !spot_json_is_string(v)) ||
        !spot_base64_decode(text, strlen(text), e->value, SPOT_ETCD_VALUE_MAX, &e->n_byte))
        return spot_json_fail(doc, "", err, "expected a \"value\" of at most %d bytes in base64",
                              SPOT_ETCD_VALUE_MAX);
    e->value[e->n_byte] = '\0';
    return 0;
}

static int read_range(const struct spot_json_doc *doc, const struct spot_json_value *range,
                      struct spot_etcd_answer *a, struct spot_err *err)
{
    const struct spot_json_value *const all = spot_json_get(range, "kvs");
    struct spot_etcd_entry *const e = &a->entry[a->n_entry];
    const size_t n = spot_json_array_size(all);

    if (a->n_entry == SPOT_ETCD_ENTRIES_MAX || n > 1 || (all && !spot_json_is_array(all)))
        return spot_json_fail(doc, "", err, "expected at most one key of %d ranges",
                              SPOT_ETCD_ENTRIES_MAX);
    a->n_entry++;
    if (!n)
        return 0;
    if (get_int(doc, spot_json_entry(all, 0), "create_revision", &e->created, err) ||
        get_int(doc, spot_json_entry(all, 0), "mod_revision", &e->changed, err) ||
        get_int(doc, spot_json_entry(all, 0), "lease", &e->lease, err))
        return -1;
    if (!e->created || e->changed < e->created)
        return spot_json_fail(doc, "", err, "expected revisions of a key");
    return read_value(doc, spot_json_entry(all, 0), e, err);
}

static int read_responses(const struct spot_json_doc *doc, const struct spot_json_value *all,
                          struct spot_etcd_answer *a, struct spot_err *err)
{
    const struct spot_json_value *one, *range;
    size_t i;

    if (all && !spot_json_is_array(all))
        return spot_json_fail(doc, "", err, "expected an array \"responses\"");
    spot_json_array_foreach(all, i, one)
    {
        range = spot_json_get(one, "response_range");
        if (range && read_range(doc, range, a, err))
            return -1;
    }
    return 0;
}

/* The token is used in a header, so it must be visible ASCII. */
static int read_token(const struct spot_json_doc *doc, const struct spot_json_value *body,
                      struct spot_etcd_answer *a, struct spot_err *err)
{
    const struct spot_json_value *const v = spot_json_get(body, "token");
    const char *const text = spot_json_is_string(v) ? spot_json_text(v) : NULL;

    if (!v)
        return 0;
    if (!text || strlen(text) >= SPOT_ETCD_TOKEN_MAX)
        return spot_json_fail(doc, "", err, "expected a \"token\" of fewer than %d bytes",
                              SPOT_ETCD_TOKEN_MAX);
    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p > '~')
            return spot_json_fail(doc, "", err, "expected a \"token\" of plain letters");
    strcpy(a->token, text);
    return 0;
}

static int read_body(const struct spot_json_doc *doc, const struct spot_json_value *body,
                     struct spot_etcd_answer *a, struct spot_err *err)
{
    const struct spot_json_value *const header = spot_json_get(body, "header");

    if (!spot_json_is_object(header))
        return spot_json_fail(doc, "", err, "expected a \"header\" as etcd writes it");
    if (get_int(doc, header, "revision", &a->revision, err) ||
        get_int(doc, body, "ID", &a->lease, err) || get_int(doc, body, "TTL", &a->ttl_s, err) ||
        read_token(doc, body, a, err))
        return -1;
    a->is_done = spot_json_is_true(spot_json_get(body, "succeeded"));
    if (spot_json_get(body, "kvs"))
        return read_range(doc, body, a, err);
    return read_responses(doc, spot_json_get(body, "responses"), a, err);
}

static int fail_in_its_words(const struct spot_json_value *error, struct spot_err *err)
{
    const struct spot_json_value *const message =
        spot_json_is_object(error) ? spot_json_get(error, "message") : error;
    char words[256];
    size_t n;

    if (!spot_json_is_string(message))
        return spot_err_set(err, SPOT_EDATA, "etcd: an error without a message");
    n = spot_utf8_cut(spot_json_text(message), sizeof(words) - 1);
    memcpy(words, spot_json_text(message), n);
    words[n] = '\0';
    spot_utf8_make_plain(words);
    return spot_err_set(err, SPOT_EDATA, "etcd: %s", words);
}

int spot_etcd_answer_read(const char *text, size_t n, struct spot_etcd_answer *answer,
                          struct spot_err *err)
{
    const struct spot_json_value *error, *result;
    struct spot_json_doc doc;
    int rc;

    memset(answer, 0, sizeof(*answer));
    if (spot_json_parse(&doc, text, n, "etcd", err))
        return -1;
    error = spot_json_get(doc.root, "error");
    result = spot_json_get(doc.root, "result"); /* the wrapper of streamed answers */
    if (error)
        rc = fail_in_its_words(error, err);
    else
        rc = read_body(&doc, spot_json_is_object(result) ? result : doc.root, answer, err);
    spot_json_release(&doc);
    return rc;
}
