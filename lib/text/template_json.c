/* SPDX-License-Identifier: MIT */
/* Values written as json.dumps() writes them. */
#include <stdio.h>

#include "common/utf8.h"
#include "text/template_state.h"

static void json_text(struct spot_trender *r, const struct spot_tv_json *how, struct spot_tv v,
                      struct spot_buf *out)
{
    static const char plain[] = "\"\\\n\r\t\b\f", escaped[] = "\"\\nrtbf";

    if (!spot_trender_spend(r, v.n / 16))
        return;
    spot_tv_say(out, "\"");
    for (size_t at = 0, length; at < v.n; at += length) {
        char text[16];
        uint32_t code;

        length = spot_utf8_char(v.u.s + at, v.n - at, &code);
        if (code && code < 0x80 && strchr(plain, (int)code)) {
            text[0] = '\\';
            text[1] = escaped[strchr(plain, (int)code) - plain];
            spot_buf_add(out, text, 2);
        } else if (code < 0x20 || (how->is_ascii && code >= 0x7F && code < 0x10000)) {
            snprintf(text, sizeof(text), "\\u%04x", (unsigned)code);
            spot_tv_say(out, text);
        } else if (how->is_ascii && code >= 0x10000) {
            snprintf(text, sizeof(text), "\\u%04x\\u%04x",
                     (unsigned)(0xD800 + ((code - 0x10000) >> 10)),
                     (unsigned)(0xDC00 + ((code - 0x10000) & 0x3FF)));
            spot_tv_say(out, text);
        } else {
            spot_buf_add(out, v.u.s + at, length);
        }
    }
    spot_tv_say(out, "\"");
}

static void json_break(const struct spot_trender *r, const struct spot_tv_json *how, uint32_t depth,
                       struct spot_buf *out)
{
    (void)r;
    if (!spot_tv_is_text(how->indent))
        return;
    spot_tv_say(out, "\n");
    for (uint32_t i = 0; i < depth; i++)
        spot_buf_add(out, how->indent.u.s, how->indent.n);
}

static void json_key(struct spot_trender *r, const struct spot_tnode *at,
                     const struct spot_tv_json *how, struct spot_tv key, struct spot_buf *out)
{
    if (spot_tv_is_text(key)) {
        json_text(r, how, key, out);
        return;
    }
    if (!spot_tv_is_number(key) && key.kind != SPOT_TV_NONE)
        spot_trender_fail(r, at, "a key is of type %s, expected a text", spot_tv_type(key));
    spot_tv_say(out, "\"");
    spot_tv_to_json(r, at, how, key, out);
    spot_tv_say(out, "\"");
}

/* The members of a dictionary in the order of their keys, as a list of pairs. */
static struct spot_tv sorted(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv v)
{
    const size_t n = spot_tv_size(v);
    struct spot_tv to = spot_tv_new(r, SPOT_TV_DICT, 0);

    for (size_t i = 0; i < n && !r->has_failed; i++) {
        struct spot_tv key, value = spot_tv_member(r, v, i, &key);
        uint32_t k;

        spot_tv_put(r, to, key, value);
        for (k = (uint32_t)i; k && spot_trender_spend(r, 1) && !r->has_failed &&
                              spot_tv_compare(r, at, key, to.u.dict->pair[k - 1][0]) < 0;
             k--)
            memcpy(to.u.dict->pair[k], to.u.dict->pair[k - 1], sizeof(*to.u.dict->pair));
        if (!r->has_failed) {
            to.u.dict->pair[k][0] = key;
            to.u.dict->pair[k][1] = value;
        }
    }
    return to;
}

static void json_container(struct spot_trender *r, const struct spot_tnode *at,
                           const struct spot_tv_json *how, struct spot_tv v, uint32_t depth,
                           struct spot_buf *out);

static void json_value(struct spot_trender *r, const struct spot_tnode *at,
                       const struct spot_tv_json *how, struct spot_tv v, uint32_t depth,
                       struct spot_buf *out)
{
    if (spot_tv_is_text(v))
        json_text(r, how, v, out);
    else if (v.kind == SPOT_TV_REAL)
        spot_tv_say_real(out, v.u.d, true);
    else if (v.kind == SPOT_TV_INT)
        spot_tv_say_int(out, v.u.i);
    else if (v.kind == SPOT_TV_BOOL)
        spot_tv_say(out, v.u.i ? "true" : "false");
    else if (v.kind == SPOT_TV_NONE)
        spot_tv_say(out, "null");
    else if ((spot_tv_is_sequence(v) && !v.is_lazy) || v.kind == SPOT_TV_DICT)
        json_container(r, at, how, v, depth, out);
    else
        spot_trender_fail(r, at, "Object of type %s is not JSON serializable", spot_tv_type(v));
}

static void json_container(struct spot_trender *r, const struct spot_tnode *at,
                           const struct spot_tv_json *how, struct spot_tv v, uint32_t depth,
                           struct spot_buf *out)
{
    const bool is_dict = v.kind == SPOT_TV_DICT;
    const size_t n = spot_tv_size(v);

    if (!spot_trender_enter(r))
        return;
    if (is_dict && how->sorts)
        v = sorted(r, at, v);
    spot_tv_say(out, is_dict ? "{" : "[");
    for (size_t i = 0; i < n && !r->has_failed && spot_trender_spend(r, 1); i++) {
        struct spot_tv key, value;

        value = is_dict ? spot_tv_member(r, v, i, &key) : spot_tv_entry(r, v, i);
        if (i)
            spot_buf_add(out, how->comma.u.s, how->comma.n);
        json_break(r, how, depth + 1, out);
        if (is_dict) {
            json_key(r, at, how, key, out);
            spot_buf_add(out, how->colon.u.s, how->colon.n);
        }
        json_value(r, at, how, value, depth + 1, out);
        if (out->n > SPOT_TEMPLATE_MEMORY_MAX)
            spot_trender_spend(r, SPOT_TEMPLATE_STEPS_MAX);
    }
    if (n)
        json_break(r, how, depth, out);
    spot_tv_say(out, is_dict ? "}" : "]");
    r->depth--;
}

void spot_tv_to_json(struct spot_trender *r, const struct spot_tnode *at,
                     const struct spot_tv_json *how, struct spot_tv v, struct spot_buf *out)
{
    json_value(r, at, how, v, 0, out);
}
