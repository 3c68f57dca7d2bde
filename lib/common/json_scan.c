/* SPDX-License-Identifier: MIT */
#include "common/json_scan.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* What jansson 2.13 and 2.14 keep on a machine of 64 bits, in chunks of glibc's malloc(). */
enum {
    NUMBER_BYTE = 32,  /* integer or real; true, false and null are shared */
    STRING_BYTE = 48,  /* beside its text */
    ARRAY_BYTE = 128,  /* with room for eight */
    OBJECT_BYTE = 224, /* the same */
    PAIR_BYTE = 65,    /* of an object's member, beside its key */
    ROOM = 8,
    SLOT_BYTE = 24,   /* of an array beyond that: room doubles, and the old one is copied */
    BUCKET_BYTE = 48, /* of an object */
    DEPTH_MAX = 64,
};

struct scan {
    const char *text;
    size_t at, line_start;
    unsigned long line;
    int depth;
    uint32_t n_child[DEPTH_MAX + 1]; /* of the containers that are open */
    bool is_object[DEPTH_MAX + 1];
    size_t tree_byte;
    size_t string_byte; /* of the string before, with its quotes and a NUL, while it may still be a
                         * key; 0: there is none */
};

static size_t chunk(size_t n_byte)
{
    const size_t n = (n_byte + 8 + 15) & ~(size_t)15;

    return n < 32 ? 32 : n;
}

/* One more value in the container that is open. */
static void add_child(struct scan *s, size_t n_byte)
{
    s->tree_byte += n_byte;
    if (++s->n_child[s->depth] > ROOM)
        s->tree_byte += s->is_object[s->depth] ? BUCKET_BYTE : SLOT_BYTE;
}

static void open_container(struct scan *s, bool is_object)
{
    add_child(s, is_object ? OBJECT_BYTE : ARRAY_BYTE);
    s->depth++;
    if (s->depth <= DEPTH_MAX) {
        s->n_child[s->depth] = 0;
        s->is_object[s->depth] = is_object;
    }
}

/* From the opening quote to the closing one, or to the end of the text. */
static void take_string(struct scan *s, size_t n_byte)
{
    const size_t begin = ++s->at;

    for (; s->at < n_byte && s->text[s->at] != '"' && s->text[s->at] && s->text[s->at] != '\n';
         s->at++)
        if (s->text[s->at] == '\\' && s->at + 1 < n_byte && s->text[s->at + 1] &&
            s->text[s->at + 1] != '\n')
            s->at++;
    s->string_byte = s->at - begin + 3;
    add_child(s, STRING_BYTE + chunk(s->string_byte));
}

/* The string before was a key: a member of the object, not a value. */
static void take_colon(struct scan *s)
{
    if (!s->string_byte)
        return; /* no JSON */
    s->tree_byte -= STRING_BYTE + chunk(s->string_byte);
    s->tree_byte += chunk(PAIR_BYTE + s->string_byte - 3);
    if (s->n_child[s->depth]-- > ROOM)
        s->tree_byte -= s->is_object[s->depth] ? BUCKET_BYTE : SLOT_BYTE;
}

static bool is_in_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '+' || c == '.';
}

/* A number, or a word that is shared. */
static void take_word(struct scan *s, size_t n_byte)
{
    const char c = s->text[s->at];

    add_child(s, c == '-' || (c >= '0' && c <= '9') ? NUMBER_BYTE : 0);
    while (s->at + 1 < n_byte && is_in_word(s->text[s->at + 1]))
        s->at++;
}

static void take(struct scan *s, size_t n_byte)
{
    const char c = s->text[s->at];

    switch (c) {
    case '\n':
        s->line++;
        s->line_start = s->at + 1;
        return;
    case ' ':
    case '\t':
    case '\r':
        return;
    case '"':
        take_string(s, n_byte);
        return;
    case ':':
        take_colon(s);
        break;
    case '{':
    case '[':
        open_container(s, c == '{');
        break;
    case '}':
    case ']':
        s->depth -= s->depth > 0;
        break;
    case ',':
        break;
    default:
        take_word(s, n_byte);
    }
    s->string_byte = 0;
}

static int fail(const struct scan *s, const char *source, struct spot_err *err, const char *what,
                unsigned long limit, const char *unit)
{
    /* a limit of 0 is none, and prints nothing */
    return spot_err_set(err, SPOT_EDATA, "%s:%lu:%zu: %s%.0lu%s", source, s->line,
                        s->at - s->line_start + 1, what, limit, unit);
}

int spot_json_scan(const char *text, size_t n_byte, int depth_max, size_t tree_max,
                   const char *source, unsigned long line, size_t *tree_byte, struct spot_err *err)
{
    struct scan s = { .text = text, .line = line };

    assert(depth_max >= 1 && depth_max <= DEPTH_MAX);
    for (; s.at < n_byte; s.at++) {
        take(&s, n_byte);
        if (s.at < n_byte && !text[s.at]) /* jansson takes one after a number for a blank */
            return fail(&s, source, err, "a NUL byte", 0, "");
        if (s.at < n_byte && text[s.at] == '\n' && s.line_start != s.at + 1) { /* in a string */
            s.line++;
            s.line_start = s.at + 1;
        }
        if (s.depth > depth_max)
            return fail(&s, source, err, "nested deeper than ", (unsigned long)depth_max, "");
        if (s.tree_byte > tree_max)
            return fail(&s, source, err, "up to here its values take more than ",
                        (unsigned long)(tree_max >> 20),
                        " MiB, too much for a document of this length");
    }
    if (tree_byte)
        *tree_byte = s.tree_byte;
    return 0;
}
