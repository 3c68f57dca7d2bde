/* SPDX-License-Identifier: MIT */
/* Filters, methods and tests of lists and dictionaries, and the functions. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "text/template_state.h"

typedef struct spot_tv value;
typedef struct spot_tcall call;

/* --- single items ---------------------------------------------------------------------- */

static value self_list(call *c)
{
    return spot_tv_list(c->r, c->at, c->self);
}

static value do_length(call *c)
{
    const value v = c->self;

    if (spot_tv_is_text(v)) {
        spot_trender_spend(c->r, v.n / 64);
        return spot_tv_int((int64_t)spot_tv_length(v));
    }
    if ((spot_tv_is_sequence(v) && !v.is_lazy) || v.kind == SPOT_TV_DICT)
        return spot_tv_int((int64_t)spot_tv_size(v));
    if (v.kind != SPOT_TV_UNDEFINED)
        spot_trender_fail(c->r, c->at, "object of type '%s' has no len()",
                          v.is_lazy ? "generator" : spot_tv_type(v));
    return spot_tv_int(0);
}

/* The first entry of a list, or the last. */
static value do_end(call *c)
{
    const value list = self_list(c);
    const size_t n = spot_tv_size(list);

    return n && !c->r->has_failed ? spot_tv_entry(c->r, list, c->how ? n - 1 : 0)
                                  : spot_tv_undefined("the first or last of none", 25);
}

static value do_default(call *c)
{
    const bool lacks =
        c->self.kind == SPOT_TV_UNDEFINED || (spot_tv_truth(c->arg[1]) && !spot_tv_truth(c->self));

    if (!lacks)
        return c->self;
    return c->arg[0].kind == SPOT_TV_ABSENT ? spot_tv_text("", 0) : c->arg[0];
}

static value do_attr(call *c)
{
    return spot_tv_get(c->r, c->at, c->self, c->arg[0], false);
}

/* --- lists of lists ------------------------------------------------------------------------ */

static value do_list(call *c)
{
    value list = self_list(c);

    list.is_lazy = false;
    list.kind = SPOT_TV_LIST;
    return list;
}

static value do_reverse(call *c)
{
    const value list = self_list(c);
    value out = spot_tv_new(c->r, SPOT_TV_LIST, spot_tv_size(list));
    struct spot_buf text = { 0 };

    for (uint32_t i = 0; i < out.n && spot_trender_spend(c->r, 1); i++)
        out.u.item[i] = spot_tv_entry(c->r, list, out.n - 1 - i);
    out.is_lazy = true;
    if (!spot_tv_is_text(c->self))
        return out;
    for (uint32_t i = 0; i < out.n && !c->r->has_failed; i++)
        spot_buf_add(&text, out.u.item[i].u.s, out.u.item[i].n);
    return spot_trender_text(c->r, &text);
}

static value pair_of(struct spot_trender *r, value a, value b)
{
    value pair = spot_tv_new(r, SPOT_TV_TUPLE, 2);

    if (pair.n == 2) {
        pair.u.item[0] = a;
        pair.u.item[1] = b;
    }
    return pair;
}

enum part { ITEMS, KEYS, VALUES };

static value do_parts(call *c)
{
    const enum part part = (enum part)c->how;
    value out;

    if (c->self.kind != SPOT_TV_DICT && c->self.kind != SPOT_TV_UNDEFINED)
        spot_trender_fail(c->r, c->at, "items of a value of type %s", spot_tv_type(c->self));
    out = spot_tv_new(c->r, SPOT_TV_LIST, c->self.kind == SPOT_TV_DICT ? spot_tv_size(c->self) : 0);
    for (uint32_t i = 0; i < out.n && spot_trender_spend(c->r, 1); i++) {
        value key, v = spot_tv_member(c->r, c->self, i, &key);

        out.u.item[i] = part == KEYS ? key : part == VALUES ? v : pair_of(c->r, key, v);
    }
    return out;
}

static value do_get(call *c)
{
    value v;

    if (spot_tv_find(c->r, c->self, c->arg[0], &v))
        return v;
    return c->arg[1].kind == SPOT_TV_ABSENT ? spot_tv_none() : c->arg[1];
}

/* --- order ------------------------------------------------------------------------------------ */

/* The sort key of an entry: itself or an attribute, in lower case unless case matters. */
static value key_of(call *c, value v, value attribute, bool minds_case)
{
    call of = { .r = c->r, .at = c->at };

    if (!spot_tv_is_left_out(attribute))
        v = spot_tv_path(c->r, c->at, v, attribute);
    if (minds_case || !spot_tv_is_text(v))
        return v;
    of.self = v;
    return spot_tbuiltin_call(spot_tbuiltin_find(SPOT_TUSE_TEXT, spot_tv_text("lower", 5)), &of);
}

/* Sorts list.item[n] by key[n], stably (insertion sort). */
static void sort(call *c, value key, value list, bool is_reverse)
{
    for (uint32_t i = 1; i < list.n; i++) {
        const value k = key.u.item[i], v = list.u.item[i];
        uint32_t at = i;

        for (; at && spot_trender_spend(c->r, 1); at--) {
            const int order = spot_tv_compare(c->r, c->at, k, key.u.item[at - 1]);

            if (is_reverse ? order <= 0 : order >= 0)
                break;
            key.u.item[at] = key.u.item[at - 1];
            list.u.item[at] = list.u.item[at - 1];
        }
        key.u.item[at] = k;
        list.u.item[at] = v;
        if (c->r->has_failed)
            break;
    }
}

static value sorted(call *c, value list, value attribute, bool minds_case, bool is_reverse)
{
    value out = spot_tv_new(c->r, SPOT_TV_LIST, spot_tv_size(list));
    value key = spot_tv_new(c->r, SPOT_TV_LIST, spot_tv_size(list));

    if (key.n != out.n)
        return key;
    for (uint32_t i = 0; i < out.n && spot_trender_spend(c->r, 1); i++) {
        out.u.item[i] = spot_tv_entry(c->r, list, i);
        key.u.item[i] = key_of(c, out.u.item[i], attribute, minds_case);
    }
    if (!c->r->has_failed)
        sort(c, key, out, is_reverse);
    return out;
}

static value do_sort(call *c)
{
    return sorted(c, self_list(c), c->arg[2], spot_tv_truth(c->arg[1]), spot_tv_truth(c->arg[0]));
}

static value do_dictsort(call *c) /* how: ITEMS */
{
    const bool by_value = spot_tv_is_text(c->arg[1]) && spot_tv_says(c->arg[1], "value");

    return sorted(c, do_parts(c), spot_tv_int(by_value), spot_tv_truth(c->arg[0]),
                  spot_tv_truth(c->arg[2]));
}

static value do_unique(call *c)
{
    const value list = self_list(c);
    value out = spot_tv_new(c->r, SPOT_TV_LIST, spot_tv_size(list));
    value key = spot_tv_new(c->r, SPOT_TV_LIST, out.n);
    uint32_t n = 0;

    for (uint32_t i = 0; i < out.n && !c->r->has_failed; i++) {
        const value v = spot_tv_entry(c->r, list, i);

        key.n = n;
        key.u.item[n] = key_of(c, v, c->arg[1], spot_tv_truth(c->arg[0]));
        if (!spot_tv_contains(c->r, c->at, key, key.u.item[n]))
            out.u.item[n++] = v;
    }
    out.n = n;
    out.is_lazy = true;
    return out;
}

/* The smallest or largest entry. */
static value do_extreme(call *c)
{
    const bool is_most = c->how;
    const value list = self_list(c);
    value best = spot_tv_undefined("the most of none", 16), best_key = best;

    for (size_t i = 0; i < spot_tv_size(list) && spot_trender_spend(c->r, 1); i++) {
        const value v = spot_tv_entry(c->r, list, i);
        const value key = key_of(c, v, c->arg[1], spot_tv_truth(c->arg[0]));
        const int order = i ? spot_tv_compare(c->r, c->at, key, best_key) : 0;

        if (!i || (is_most ? order > 0 : order < 0)) {
            best = v;
            best_key = key;
        }
    }
    return best;
}

static value do_sum(call *c)
{
    const value list = self_list(c);
    value sum = c->arg[1].kind == SPOT_TV_ABSENT ? spot_tv_int(0) : c->arg[1];

    for (size_t i = 0; i < spot_tv_size(list) && spot_trender_spend(c->r, 1); i++) {
        value v = spot_tv_entry(c->r, list, i);

        if (!spot_tv_is_left_out(c->arg[0]))
            v = spot_tv_path(c->r, c->at, v, c->arg[0]);
        if (!spot_tv_is_number(v) || !spot_tv_is_number(sum))
            spot_trender_fail(c->r, c->at, "a sum with a value of type %s", spot_tv_type(v));
        else if (v.kind == SPOT_TV_REAL || sum.kind == SPOT_TV_REAL)
            sum = spot_tv_real(spot_tv_number(sum) + spot_tv_number(v));
        else if (__builtin_add_overflow(sum.u.i, v.u.i, &sum.u.i))
            spot_trender_fail(c->r, c->at, "a number beyond 64 bits");
    }
    return sum;
}

/* The list, which is empty for a false value such as undefined or none. */
static value self_or_none(call *c)
{
    return spot_tv_truth(c->self) ? self_list(c) : spot_tv_new(c->r, SPOT_TV_LIST, 0);
}

/* --- choosing --- */

/* The test or filter named in argument i; later arguments are passed to it. */
static const struct spot_tbuiltin *named(call *c, enum spot_tuse use, size_t i, call *to)
{
    const struct spot_tbuiltin *const b =
        spot_tv_is_text(c->arg[i]) ? spot_tbuiltin_find(use, c->arg[i]) : NULL;

    if (!b)
        spot_trender_fail(c->r, c->at, "unknown %s '%.*s'",
                          use == SPOT_TUSE_TEST ? "test" : "filter",
                          spot_tv_is_text(c->arg[i]) ? (int)c->arg[i].n : 0,
                          spot_tv_is_text(c->arg[i]) ? c->arg[i].u.s : "");
    *to = (call){ .r = c->r, .at = c->at };
    for (size_t k = i + 1; k < c->n; k++) {
        to->name[to->n] = c->name[k];
        to->arg[to->n++] = c->arg[k];
    }
    return b;
}

enum { BY_ATTRIBUTE = 1, REJECTS = 2 };

static value do_choose(call *c)
{
    const bool has_attribute = c->how & BY_ATTRIBUTE, wants = !(c->how & REJECTS);
    const value list = self_or_none(c);
    const size_t at = has_attribute;
    value out = spot_tv_new(c->r, SPOT_TV_LIST, spot_tv_size(list));
    const struct spot_tbuiltin *test = NULL;
    uint32_t n = 0;
    call base, to;

    if (has_attribute && !c->n)
        spot_trender_fail(c->r, c->at, "expected the name of an attribute");
    if (c->n > at)
        test = named(c, SPOT_TUSE_TEST, at, &base);
    for (uint32_t i = 0; i < out.n && spot_trender_spend(c->r, 1); i++) {
        const value item = spot_tv_entry(c->r, list, i);
        value v = item;

        if (has_attribute)
            v = spot_tv_path(c->r, c->at, v, c->arg[0]);
        if (test) {
            to = base;
            to.self = v;
            v = spot_tbuiltin_call(test, &to);
        }
        if (spot_tv_truth(v) == wants)
            out.u.item[n++] = item;
    }
    out.n = n;
    out.is_lazy = true;
    return out;
}

/* map(filter, ...) or map(attribute=..., default=...) */
static value do_map(call *c)
{
    const value list = self_or_none(c);
    value out = spot_tv_new(c->r, SPOT_TV_LIST, spot_tv_size(list)), attribute = spot_tv_none(),
          absent = spot_tv_none();
    const struct spot_tbuiltin *filter = NULL;
    call base, to;

    for (size_t i = 0; i < c->n && spot_tv_is_text(c->name[0]); i++) {
        if (spot_tv_is_text(c->name[i]) && spot_tv_says(c->name[i], "attribute"))
            attribute = c->arg[i];
        else if (spot_tv_is_text(c->name[i]) && spot_tv_says(c->name[i], "default"))
            absent = c->arg[i];
    }
    if (attribute.kind == SPOT_TV_NONE)
        filter = named(c, SPOT_TUSE_FILTER, 0, &base);
    for (uint32_t i = 0; i < out.n && spot_trender_spend(c->r, 1); i++) {
        const value v = spot_tv_entry(c->r, list, i);

        if (filter) {
            to = base;
            to.self = v;
            out.u.item[i] = spot_tbuiltin_call(filter, &to);
        } else {
            out.u.item[i] = spot_tv_path(c->r, c->at, v, attribute);
            if (out.u.item[i].kind == SPOT_TV_UNDEFINED && absent.kind != SPOT_TV_NONE)
                out.u.item[i] = absent;
        }
    }
    out.is_lazy = true;
    return out;
}

/* --- tests --------------------------------------------------------------- */

/* Kinds of values, a bit each; NOT_LAZY excludes values that are iterators in Python. */
enum {
    NOT_LAZY = 1 << 30,
    NUMBERS = 1 << SPOT_TV_BOOL | 1 << SPOT_TV_INT | 1 << SPOT_TV_REAL,
    ITERABLES = 1 << SPOT_TV_TEXT | 1 << SPOT_TV_LIST | 1 << SPOT_TV_TUPLE | 1 << SPOT_TV_DICT |
                1 << SPOT_TV_UNDEFINED,
};

static value is_kind(call *c)
{
    return spot_tv_bool((c->how >> c->self.kind & 1) && !((c->how & NOT_LAZY) && c->self.is_lazy));
}

static value is_bool(call *c)
{
    return spot_tv_bool(c->self.kind == SPOT_TV_BOOL && c->self.u.i == c->how);
}

/* how: the operator between it and the argument. */
static value is_compared(call *c)
{
    return spot_tv_bool(spot_tv_holds(c->r, c->at, (char)c->how, c->self, c->arg[0]));
}

static int64_t whole(call *c, value v)
{
    if (v.kind != SPOT_TV_INT)
        spot_trender_fail(c->r, c->at, "a value of type %s, expected int", spot_tv_type(v));
    return v.u.i;
}

/* how: 1 odd, 0 even; -1: divisible by the argument. */
static value is_left(call *c)
{
    const int64_t by = c->how < 0 ? whole(c, c->arg[0]) : 2;

    if (by == 0 || by == -1)
        return spot_tv_bool(by != 0 && !c->r->has_failed);
    return spot_tv_bool((whole(c, c->self) % by != 0) == (c->how > 0));
}

/* --- functions ----------------------------------------------------------- */

static value do_range(call *c)
{
    const int64_t begin = c->n > 1 ? whole(c, c->arg[0]) : 0;
    const int64_t end = c->n ? whole(c, c->arg[c->n > 1]) : 0;
    const int64_t step = c->n > 2 ? whole(c, c->arg[2]) : 1;
    int64_t n = 0, i = begin;
    value out;

    if (!step || !c->n) {
        spot_trender_fail(c->r, c->at, "range() of no end, or of steps of 0");
        return spot_tv_none();
    }
    if (c->r->has_failed)
        return spot_tv_none();
    if (step > 0 ? end > begin : end < begin) {
        const uint64_t span =
            step > 0 ? (uint64_t)end - (uint64_t)begin : (uint64_t)begin - (uint64_t)end;
        const uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
        const uint64_t count = (span - 1) / by + 1; /* cppcheck-suppress zerodivcond */

        if (!spot_trender_spend(c->r, count < SIZE_MAX / 2 ? (size_t)count : SIZE_MAX / 2))
            return spot_tv_none();
        n = (int64_t)count;
    }
    out = spot_tv_new(c->r, SPOT_TV_LIST, (size_t)n);
    for (uint32_t k = 0; k < out.n; k++) {
        out.u.item[k] = spot_tv_int(i);
        i = (int64_t)((uint64_t)i + (uint64_t)step);
    }
    return out;
}

static value do_named_values(call *c)
{
    value out = spot_tv_new(c->r, (enum spot_tv_kind)c->how, 0);

    for (size_t i = 0; i < c->n && !c->r->has_failed; i++) {
        if (spot_tv_is_text(c->name[i])) {
            spot_tv_put(c->r, out, c->name[i], c->arg[i]);
        } else if (c->arg[i].kind == SPOT_TV_DICT) {
            for (size_t k = 0; k < spot_tv_size(c->arg[i]) && !c->r->has_failed; k++) {
                value key, v = spot_tv_member(c->r, c->arg[i], k, &key);

                spot_tv_put(c->r, out, key, v);
            }
        } else {
            spot_trender_fail(c->r, c->at, "expected NAME=VALUE or a dictionary");
        }
    }
    return out;
}

static value do_raise(call *c)
{
    const value text = spot_tv_str(c->r, c->arg[0]);

    if (!c->r->has_failed)
        spot_err_set(c->r->err, SPOT_EDATA, "%.*s", (int)(text.n < 400 ? text.n : 400), text.u.s);
    c->r->has_failed = true;
    return spot_tv_none();
}

static value do_strftime(call *c)
{
    const time_t now = (time_t)c->r->now_s;
    const value format = spot_tv_str(c->r, c->arg[0]);
    char pattern[128] = "", text[512];
    struct spot_buf out = { 0 };
    struct tm tm;

    if (format.n >= sizeof(pattern) || !gmtime_r(&now, &tm)) {
        spot_trender_fail(c->r, c->at, "a form of a time of more than 127 bytes");
        return spot_tv_none();
    }
    memcpy(pattern, format.u.s, format.n);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the format comes from the template */
    spot_buf_add(&out, text, strftime(text, sizeof(text), pattern, &tm));
#pragma GCC diagnostic pop
    return spot_trender_text(c->r, &out);
}

static value do_index(call *c)
{
    for (size_t i = 0; i < spot_tv_size(c->self) && spot_trender_spend(c->r, 1); i++)
        if (spot_tv_equals(c->r, spot_tv_entry(c->r, c->self, i), c->arg[0]))
            return spot_tv_int((int64_t)i);
    spot_trender_fail(c->r, c->at, "the value is not in the list");
    return spot_tv_none();
}

static value do_count(call *c)
{
    int64_t n = 0;

    for (size_t i = 0; i < spot_tv_size(c->self) && spot_trender_spend(c->r, 1); i++)
        n += spot_tv_equals(c->r, spot_tv_entry(c->r, c->self, i), c->arg[0]);
    return spot_tv_int(n);
}

static value do_cycle(call *c)
{
    if (!c->n)
        spot_trender_fail(c->r, c->at, "no items for cycling given");
    return c->n ? c->arg[c->self.u.loop->at % c->n] : spot_tv_none();
}

enum {
    FILTER = SPOT_TUSE_FILTER,
    TEST = SPOT_TUSE_TEST,
    DICT = SPOT_TUSE_DICT,
    LIST = SPOT_TUSE_LIST,
    LOOP = SPOT_TUSE_LOOP,
    FUNCTION = SPOT_TUSE_FUNCTION
};

const struct spot_tbuiltin spot_tbuiltin_lists[] = {
    { "length", FILTER, "", do_length, 0 },
    { "count", FILTER, "", do_length, 0 },
    { "first", FILTER, "", do_end, 0 },
    { "last", FILTER, "", do_end, 1 },
    { "default", FILTER, "default_value,boolean", do_default, 0 },
    { "d", FILTER, "default_value,boolean", do_default, 0 },
    { "attr", FILTER, "name", do_attr, 0 },
    { "list", FILTER, "", do_list, 0 },
    { "reverse", FILTER, "", do_reverse, 0 },
    { "items", FILTER | DICT, "", do_parts, ITEMS },
    { "keys", DICT, "", do_parts, KEYS },
    { "values", DICT, "", do_parts, VALUES },
    { "get", DICT, "key,default", do_get, 0 },
    { "sort", FILTER, "reverse,case_sensitive,attribute", do_sort, 0 },
    { "dictsort", FILTER, "case_sensitive,by,reverse", do_dictsort, 0 },
    { "unique", FILTER, "case_sensitive,attribute", do_unique, 0 },
    { "min", FILTER, "case_sensitive,attribute", do_extreme, 0 },
    { "max", FILTER, "case_sensitive,attribute", do_extreme, 1 },
    { "sum", FILTER, "attribute,start", do_sum, 0 },
    { "select", FILTER, NULL, do_choose, 0 },
    { "reject", FILTER, NULL, do_choose, REJECTS },
    { "selectattr", FILTER, NULL, do_choose, BY_ATTRIBUTE },
    { "rejectattr", FILTER, NULL, do_choose, BY_ATTRIBUTE | REJECTS },
    { "map", FILTER, NULL, do_map, 0 },
    { "defined", TEST, "", is_kind, (int)~(1U << SPOT_TV_UNDEFINED | 1U << 31 | NOT_LAZY) },
    { "undefined", TEST, "", is_kind, 1 << SPOT_TV_UNDEFINED },
    { "none", TEST, "", is_kind, 1 << SPOT_TV_NONE },
    { "string", TEST, "", is_kind, 1 << SPOT_TV_TEXT },
    { "mapping", TEST, "", is_kind, 1 << SPOT_TV_DICT },
    { "number", TEST, "", is_kind, NUMBERS },
    { "integer", TEST, "", is_kind, 1 << SPOT_TV_INT },
    { "float", TEST, "", is_kind, 1 << SPOT_TV_REAL },
    { "boolean", TEST, "", is_kind, 1 << SPOT_TV_BOOL },
    { "true", TEST, "", is_bool, 1 },
    { "false", TEST, "", is_bool, 0 },
    { "callable", TEST, "", is_kind, 1 << SPOT_TV_MACRO | 1 << SPOT_TV_BUILTIN },
    { "iterable", TEST, "", is_kind, ITERABLES },
    { "sequence", TEST, "", is_kind, ITERABLES | NOT_LAZY },
    { "eq", TEST, "b", is_compared, 'E' },
    { "equalto", TEST, "b", is_compared, 'E' },
    { "sameas", TEST, "b", is_compared, 'E' },
    { "==", TEST, "b", is_compared, 'E' },
    { "ne", TEST, "b", is_compared, 'N' },
    { "!=", TEST, "b", is_compared, 'N' },
    { "lt", TEST, "b", is_compared, '<' },
    { "lessthan", TEST, "b", is_compared, '<' },
    { "le", TEST, "b", is_compared, 'L' },
    { "gt", TEST, "b", is_compared, '>' },
    { "greaterthan", TEST, "b", is_compared, '>' },
    { "ge", TEST, "b", is_compared, 'G' },
    { "in", TEST, "seq", is_compared, 'i' },
    { "odd", TEST, "", is_left, 1 },
    { "even", TEST, "", is_left, 0 },
    { "divisibleby", TEST, "num", is_left, -1 },
    { "range", FUNCTION, NULL, do_range, 0 },
    { "namespace", FUNCTION, NULL, do_named_values, SPOT_TV_NAMESPACE },
    { "dict", FUNCTION, NULL, do_named_values, SPOT_TV_DICT },
    { "raise_exception", FUNCTION, "message", do_raise, 0 },
    { "strftime_now", FUNCTION, "format", do_strftime, 0 },
    { "index", LIST, "value", do_index, 0 },
    { "count", LIST, "value", do_count, 0 },
    { "cycle", LOOP, NULL, do_cycle, 0 },
    { NULL, 0, NULL, NULL, 0 },
};
