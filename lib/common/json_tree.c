/* SPDX-License-Identifier: MIT */
#include "common/json_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "common/xalloc.h"

/* Objects with more members than this store, before the first member, the member indices sorted by
 * key. */
enum { INDEX_ABOVE = 8, KIND_BITS = 3 };

typedef struct spot_json_value value;

/* --- values ------------------------------------------------------------------ */

static enum spot_json_kind kind_of(const value *v)
{
    return (enum spot_json_kind)(v->place_kind & ((1U << KIND_BITS) - 1));
}

static bool is_container(const value *v)
{
    return v && (kind_of(v) == SPOT_JSON_OBJECT || kind_of(v) == SPOT_JSON_ARRAY);
}

bool spot_json_is(const value *v, enum spot_json_kind kind)
{
    return v && kind_of(v) == kind;
}

size_t spot_json_place(const value *v)
{
    return v->place_kind >> KIND_BITS;
}

size_t spot_json_size(const value *v)
{
    return is_container(v) ? v->part[0] : 0;
}

static value *first_of(const value *v)
{
    /* the tree owns the values, so the cast is safe. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return (value *)(uintptr_t)v + v->part[1];
}

value *spot_json_entry(const value *v, size_t i)
{
    return spot_json_is(v, SPOT_JSON_ARRAY) && i < v->part[0] ? first_of(v) + i : NULL;
}

value *spot_json_member(const value *v, size_t i, const char **key)
{
    value *at;

    if (!spot_json_is(v, SPOT_JSON_OBJECT) || i >= v->part[0])
        return NULL;
    at = first_of(v) + 2 * i;
    if (key)
        *key = spot_json_text(at);
    return at + 1;
}

const char *spot_json_text(const value *v)
{
    const char *text = NULL;

    if (spot_json_is(v, SPOT_JSON_STRING))
        memcpy(&text, v->part, sizeof(text));
    return text;
}

int64_t spot_json_integer(const value *v)
{
    int64_t x = 0;

    if (spot_json_is(v, SPOT_JSON_INTEGER))
        memcpy(&x, v->part, sizeof(x));
    return x;
}

double spot_json_number(const value *v)
{
    double x = (double)spot_json_integer(v);

    if (spot_json_is(v, SPOT_JSON_REAL))
        memcpy(&x, v->part, sizeof(x));
    return x;
}

/* --- members by key --------------------------------------------------------------- */

static size_t index_size(size_t n)
{
    return n > INDEX_ABOVE ? (n + 2) / 3 : 0; /* three numbers to a value */
}

static uint32_t *index_of(const value *object)
{
    return (uint32_t *)(void *)(first_of(object) - index_size(object->part[0]));
}

static const char *key_of(const value *object, size_t i)
{
    return spot_json_text(first_of(object) + 2 * i);
}

/* Moves an entry down the heap until neither child has a greater key. */
static void sift(const value *object, uint32_t *order, size_t at, size_t n)
{
    const uint32_t moved = order[at];
    size_t child;

    for (; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n &&
            strcmp(key_of(object, order[child]), key_of(object, order[child + 1])) < 0)
            child++;
        if (strcmp(key_of(object, order[child]), key_of(object, moved)) <= 0)
            break;
        order[at] = order[child];
    }
    order[at] = moved;
}

/* Heap sort: in place, n log n in the worst case. */
static void make_index(const value *object)
{
    uint32_t *const order = index_of(object);
    const size_t n = object->part[0];

    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n / 2; i-- > 0;)
        sift(object, order, i, n);
    for (size_t left = n; left-- > 1;) {
        const uint32_t last = order[left];

        order[left] = order[0];
        order[0] = last;
        sift(object, order, 0, left);
    }
}

/* Compares key[n] and `other` like strcmp. */
static int compare(const char *key, size_t n, const char *other)
{
    const int rc = strncmp(key, other, n);

    return rc ? rc : other[n] ? -1 : 0;
}

value *spot_json_find(const value *v, const char *key, size_t n)
{
    const uint32_t *order;
    size_t low = 0, high = spot_json_size(v);

    if (!spot_json_is(v, SPOT_JSON_OBJECT))
        return NULL;
    if (high <= INDEX_ABOVE) {
        while (low < high && compare(key, n, key_of(v, low)) != 0)
            low++;
        return low < high ? spot_json_member(v, low, NULL) : NULL;
    }
    order = index_of(v);
    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (compare(key, n, key_of(v, order[mid])) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < v->part[0] && !compare(key, n, key_of(v, order[low]))
               ? spot_json_member(v, order[low], NULL)
               : NULL;
}

void spot_json_drop_nulls(value *object)
{
    value *const first = first_of(object);
    uint32_t n = 0;

    if (!spot_json_is(object, SPOT_JSON_OBJECT))
        return;
    for (uint32_t i = 0; i < object->part[0]; i++) {
        value *const from = first + 2 * (size_t)i, *const to = first + 2 * (size_t)n;

        if (spot_json_is(from + 1, SPOT_JSON_NULL))
            continue;
        memmove(to, from, 2 * sizeof(*to));
        if (is_container(to + 1))
            to[1].part[1] += 2 * (i - n);
        n++;
    }
    object->part[0] = n;
    if (n > INDEX_ABOVE)
        make_index(object);
}

/* A member whose key occurs twice; NULL: all keys differ. */
static const value *second_of_a_key(const value *object)
{
    const size_t n = object->part[0];
    const uint32_t *order;

    if (n > INDEX_ABOVE) {
        order = index_of(object);
        for (size_t i = 1; i < n; i++)
            if (!strcmp(key_of(object, order[i - 1]), key_of(object, order[i])))
                return first_of(object) +
                       2 * (size_t)(order[i] > order[i - 1] ? order[i] : order[i - 1]);
        return NULL;
    }
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(key_of(object, i), key_of(object, k)))
                return first_of(object) + 2 * i;
    return NULL;
}

/* --- building, of text that the scan has accepted ------------------------------------- */

struct level {
    value *self, *next; /* the next child */
    uint32_t left;      /* children still to be added */
};

struct build {
    char *text;
    size_t at;
    value *free_value;
    char *free_char; /* for the decoded strings */
    int depth;
    struct level open[SPOT_JSON_SCAN_DEPTH];
    const struct spot_json_count *count;
    size_t n_container, n_many; /* so far */
    struct spot_json_wrong *wrong;
};

static void skip_space(struct build *b)
{
    b->at += strspn(b->text + b->at, " \t\r\n");
}

static void set(value *v, size_t place, enum spot_json_kind kind, const void *part)
{
    v->place_kind = (uint32_t)place << KIND_BITS | (uint32_t)kind;
    memcpy(v->part, part, sizeof(v->part));
}

static uint32_t hex4(const char *at)
{
    uint32_t code = 0;

    for (int i = 0; i < 4; i++)
        code = 16 * code + (uint32_t)(at[i] <= '9' ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
    return code;
}

/* Decodes an escape from its backslash on; returns the position after it. */
static const char *decode_escape(const char *at, char **out)
{
    static const char letter[] = "bfnrt", meaning[] = "\b\f\n\r\t";
    const char *const found = strchr(letter, at[1]);
    uint32_t code;

    if (at[1] != 'u') {
        *(*out)++ = found ? meaning[found - letter] : at[1];
        return at + 2;
    }
    code = hex4(at + 2);
    at += 6;
    if (code >= 0xD800 && code <= 0xDBFF) {
        code = 0x10000 + ((code & 0x3FF) << 10 | (hex4(at + 2) & 0x3FF));
        at += 6;
    }
    *out += spot_utf8_put(code, *out);
    return at;
}

/* Decodes the string that begins at `begin` into a separate buffer. Called at its first
 * backslash. */
static const char *decode(struct build *b, const char *begin, const char **end)
{
    char *const text = b->free_char, *out = text;
    const char *at = begin;

    while (*at != '"')
        if (*at == '\\')
            at = decode_escape(at, &out);
        else
            *out++ = *at++;
    *out++ = '\0';
    b->free_char = out;
    *end = at;
    return text;
}

static void put_string(struct build *b, value *v)
{
    char *const begin = b->text + b->at + 1;
    const char *text = begin, *end = begin + strcspn(begin, "\"\\");

    if (*end == '\\')
        text = decode(b, begin, &end);
    else
        begin[end - begin] = '\0';
    set(v, b->at, SPOT_JSON_STRING, &text);
    b->at = (size_t)(end - b->text) + 1;
}

static int fail(const struct build *b, size_t at, const char *what, const char *of,
                const char *behind)
{
    b->wrong->at = at;
    snprintf(b->wrong->what, sizeof(b->wrong->what), "%s%.40s%s", what, of, behind);
    return -1;
}

static int put_number(struct build *b, value *v)
{
    char *const text = b->text + b->at;
    const size_t n = strspn(text, "+-.0123456789eE");
    const char behind = text[n];
    bool is_integer = strspn(text, "-0123456789") == n;
    int64_t whole = 0;
    double real = 0;

    text[n] = '\0';
    errno = 0;
    if (is_integer)
        whole = strtoimax(text, NULL, 10);
    is_integer = is_integer && !errno;
    if (!is_integer)
        real = strtod(text, NULL);
    if (!isfinite(real))
        return fail(b, b->at, "the number ", text, " is too large");
    text[n] = behind;
    if (is_integer)
        set(v, b->at, SPOT_JSON_INTEGER, &whole);
    else
        set(v, b->at, SPOT_JSON_REAL, &real);
    b->at += n;
    return 0;
}

static void put_word(struct build *b, value *v)
{
    static const uint32_t none[2] = { 0, 0 };
    const char c = b->text[b->at];

    set(v, b->at, c == 't' ? SPOT_JSON_TRUE : c == 'f' ? SPOT_JSON_FALSE : SPOT_JSON_NULL, none);
    b->at += c == 'f' ? 5 : 4;
}

static void put_key(struct build *b)
{
    skip_space(b);
    put_string(b, b->open[b->depth - 1].next++);
    skip_space(b);
    b->at++; /* the colon */
}

static uint32_t next_count(struct build *b)
{
    const uint8_t n = b->count->n_child[b->n_container++];

    return n < SPOT_JSON_SCAN_MANY ? n : b->count->many[b->n_many++].n_child;
}

static void open_container(struct build *b, value *v)
{
    const bool is_object = b->text[b->at] == '{';
    const uint32_t n = next_count(b);
    value *const first = b->free_value + (is_object ? index_size(n) : 0);
    const uint32_t part[2] = { n, (uint32_t)(first - v) };

    set(v, b->at++, is_object ? SPOT_JSON_OBJECT : SPOT_JSON_ARRAY, part);
    b->free_value = first + (is_object ? 2 : 1) * (size_t)n;
    b->open[b->depth++] = (struct level){ v, first, n };
}

static int close_container(struct build *b)
{
    const value *const v = b->open[--b->depth].self, *twice;

    skip_space(b);
    b->at++;
    if (kind_of(v) != SPOT_JSON_OBJECT)
        return 0;
    if (v->part[0] > INDEX_ABOVE)
        make_index(v);
    twice = second_of_a_key(v);
    return twice ? fail(b, spot_json_place(twice), "duplicate key '", spot_json_text(twice), "'")
                 : 0;
}

/* Stores a value; for a container, the part before its first child. */
static int put_value(struct build *b, value *v)
{
    const char c = b->text[b->at];

    if (c == '{' || c == '[')
        open_container(b, v);
    else if (c == '"')
        put_string(b, v);
    else if (c == '-' || (c >= '0' && c <= '9'))
        return put_number(b, v);
    else
        put_word(b, v);
    return 0;
}

static int build(struct build *b, value *root)
{
    value *v = root;

    for (;;) {
        struct level *l;

        skip_space(b);
        if (put_value(b, v))
            return -1;
        while (b->depth && !b->open[b->depth - 1].left)
            if (close_container(b))
                return -1;
        if (!b->depth)
            return 0;
        l = &b->open[b->depth - 1];
        if (l->left < l->self->part[0]) { /* not its first child */
            skip_space(b);
            b->at++; /* the comma */
        }
        l->left--;
        if (kind_of(l->self) == SPOT_JSON_OBJECT)
            put_key(b);
        v = l->next++;
    }
}

static size_t values_of(const struct spot_json_count *c)
{
    /* rounding up wastes up to two thirds of a value per index */
    return 1 + c->n_entry + 2 * c->n_member + c->n_index / 3 + c->n_index / INDEX_ABOVE;
}

int spot_json_tree_build(struct spot_json_tree *tree, char *text, size_t n, int depth_max,
                         struct spot_json_wrong *wrong)
{
    struct spot_json_count count;
    struct build b = { .text = text, .count = &count, .wrong = wrong };
    int rc = spot_json_scan(text, n, depth_max, INDEX_ABOVE, &count, wrong);

    memset(tree, 0, sizeof(*tree));
    if (!rc) {
        tree->value = spot_xcalloc(values_of(&count), sizeof(*tree->value));
        tree->decoded = spot_xcalloc(count.n_escaped, 1);
        b.free_value = tree->value + 1;
        b.free_char = tree->decoded;
        rc = build(&b, tree->value);
    }
    spot_json_count_release(&count);
    if (rc)
        spot_json_tree_release(tree);
    return rc;
}

void spot_json_tree_release(struct spot_json_tree *tree)
{
    free(tree->value);
    free(tree->decoded);
    memset(tree, 0, sizeof(*tree));
}
