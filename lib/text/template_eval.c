/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
/* Renders a template: its expressions. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "text/template_run.h"
#include "text/template_state.h"

typedef const struct spot_tnode node;

/* --- state of a rendering ------------------------------------------------------------ */

void spot_trender_fail(struct spot_trender *r, const struct spot_tnode *at, const char *fmt, ...)
{
    char text[256];
    va_list args;

    if (r->has_failed)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    r->has_failed = true;
    spot_err_set(r->err, SPOT_EDATA, "%s:%u:%u: %s", r->t->source, (unsigned)at->line,
                 (unsigned)at->column, text);
}

static bool exceed(struct spot_trender *r, const char *what, long most)
{
    if (!r->has_failed)
        spot_err_set(r->err, SPOT_EINFEASIBLE, "%s: more than %ld %s", r->t->source, most, what);
    r->has_failed = true;
    return false;
}

bool spot_trender_spend(struct spot_trender *r, size_t n)
{
    r->n_step += n;
    if (r->n_step > SPOT_TEMPLATE_STEPS_MAX)
        return exceed(r, "steps", SPOT_TEMPLATE_STEPS_MAX);
    return !r->has_failed;
}

bool spot_trender_enter(struct spot_trender *r)
{
    if (r->depth >= SPOT_TEMPLATE_DEPTH_MAX)
        return exceed(r, "calls and values inside of each other", SPOT_TEMPLATE_DEPTH_MAX);
    r->depth++;
    return true;
}

void *spot_trender_memory(struct spot_trender *r, size_t n, size_t size)
{
    enum { BLOCK = 1 << 16 };
    const size_t need = (n * size + 15) / 16 * 16;
    char *memory;

    r->n_byte += need;
    if (n > SPOT_TEMPLATE_MEMORY_MAX || r->n_byte > SPOT_TEMPLATE_MEMORY_MAX) {
        exceed(r, "bytes", SPOT_TEMPLATE_MEMORY_MAX);
        return NULL;
    }
    if (!r->n_block || need > r->block_left) {
        const size_t room = need > BLOCK / 4 ? need : BLOCK;

        r->block = spot_xgrow(r->block, &r->block_cap, r->n_block + 1, sizeof(void *));
        r->block[r->n_block++] = spot_xcalloc(room + 1, 1);
        if (room != BLOCK &&
            r->n_block > 1) { /* after a large block the current one stays in use */
            void *const large = r->block[r->n_block - 1];

            r->block[r->n_block - 1] = r->block[r->n_block - 2];
            r->block[r->n_block - 2] = large;
            return large;
        }
        r->block_left = room;
        r->block_size = room;
    }
    memory = (char *)r->block[r->n_block - 1] + (r->block_size - r->block_left);
    r->block_left -= need;
    return memory;
}

struct spot_tv spot_trender_text(struct spot_trender *r, struct spot_buf *buf)
{
    char *const text = spot_trender_memory(r, buf->n, 1);
    struct spot_tv v = spot_tv_text("", 0);

    if (text && buf->n) {
        memcpy(text, buf->data, buf->n);
        v = spot_tv_text(text, buf->n);
    }
    spot_buf_release(buf);
    *buf = (struct spot_buf){ 0 };
    return v;
}

/* --- attributes ---------------------------------------------------------------------- */

static struct spot_tv loop_attribute(struct spot_trender *r, struct spot_tv v, struct spot_tv name)
{
    const struct spot_tloop *const loop = v.u.loop;
    const size_t n = spot_tv_size(loop->list), i = loop->at;
    const struct {
        const char *name;
        struct spot_tv value;
    } is[] = {
        { "index", spot_tv_int((int64_t)i + 1) },
        { "index0", spot_tv_int((int64_t)i) },
        { "revindex", spot_tv_int((int64_t)(n - i)) },
        { "revindex0", spot_tv_int((int64_t)(n - i) - 1) },
        { "first", spot_tv_bool(i == 0) },
        { "last", spot_tv_bool(i + 1 == n) },
        { "length", spot_tv_int((int64_t)n) },
    };

    for (size_t k = 0; k < sizeof(is) / sizeof(is[0]); k++)
        if (spot_tv_says(name, is[k].name))
            return is[k].value;
    if (spot_tv_says(name, "previtem") && i)
        return spot_tv_entry(r, loop->list, i - 1);
    if (spot_tv_says(name, "nextitem") && i + 1 < n)
        return spot_tv_entry(r, loop->list, i + 1);
    return spot_tv_undefined(name.u.s, name.n);
}

static struct spot_tv entry_at(struct spot_trender *r, struct spot_tv v, int64_t i)
{
    const int64_t n = (int64_t)(spot_tv_is_text(v) ? spot_tv_length(v) : spot_tv_size(v));
    size_t at;

    spot_trender_spend(r, spot_tv_is_text(v) ? v.n / 64 : 0);
    i += i < 0 ? n : 0;
    if (i < 0 || i >= n || v.is_lazy)
        return spot_tv_undefined("an entry beyond the end", 23);
    if (!spot_tv_is_text(v))
        return spot_tv_entry(r, v, (size_t)i);
    at = spot_tv_offset(v, (size_t)i);
    v = spot_tv_text(v.u.s + at, v.n - at);
    return spot_tv_text(v.u.s, spot_tv_offset(v, 1));
}

static struct spot_tv method(struct spot_tv v, struct spot_tv name)
{
    const enum spot_tuse use = spot_tv_is_text(v)       ? SPOT_TUSE_TEXT
                               : v.kind == SPOT_TV_DICT ? SPOT_TUSE_DICT
                               : spot_tv_is_sequence(v) ? SPOT_TUSE_LIST
                               : v.kind == SPOT_TV_LOOP ? SPOT_TUSE_LOOP
                                                        : 0;
    const struct spot_tbuiltin *const b = use ? spot_tbuiltin_find(use, name) : NULL;

    if (b)
        return (struct spot_tv){ .kind = SPOT_TV_BUILTIN, .u.builtin = b };
    return spot_tv_undefined(name.u.s, name.n);
}

struct spot_tv spot_tv_get(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv v,
                           struct spot_tv name, bool is_item)
{
    struct spot_tv value;

    if (v.kind == SPOT_TV_UNDEFINED) {
        spot_trender_fail(r, at, "'%.*s' is undefined", (int)(v.n < 80 ? v.n : 80), v.u.s);
        return v;
    }
    if ((spot_tv_is_text(v) || spot_tv_is_sequence(v)) &&
        (name.kind == SPOT_TV_INT || name.kind == SPOT_TV_BOOL))
        return entry_at(r, v, name.u.i);
    if (v.kind == SPOT_TV_DICT && !is_item) {
        value = method(v, name);
        if (value.kind == SPOT_TV_BUILTIN)
            return value;
    }
    if ((v.kind == SPOT_TV_DICT || v.kind == SPOT_TV_NAMESPACE) && spot_tv_find(r, v, name, &value))
        return value;
    if (!spot_tv_is_text(name))
        return spot_tv_undefined("an entry", 8);
    return v.kind == SPOT_TV_LOOP && method(v, name).kind != SPOT_TV_BUILTIN
               ? loop_attribute(r, v, name)
               : method(v, name);
}

struct spot_tv spot_tv_path(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv v,
                            struct spot_tv path)
{
    while (spot_tv_is_text(path)) {
        const char *const dot = memchr(path.u.s, '.', path.n);
        const size_t n = dot ? (size_t)(dot - path.u.s) : path.n;
        const struct spot_tv name = spot_tv_text(path.u.s, n);
        const bool is_number = n && n < 9 && strspn(path.u.s, "0123456789") >= n;

        v = spot_tv_get(r, at, v, is_number ? spot_tv_int(strtol(path.u.s, NULL, 10)) : name, true);
        if (!dot)
            return v;
        path = spot_tv_text(dot + 1, path.n - n - 1);
    }
    return spot_tv_get(r, at, v, path, true);
}

/* --- slices ------------------------------------------------------------------------------ */

static int64_t bound(struct spot_trender *r, node *e, int64_t absent)
{
    const struct spot_tv v = e ? spot_template_eval(r, e) : spot_tv_none();

    if (v.kind == SPOT_TV_INT || v.kind == SPOT_TV_BOOL)
        return v.u.i;
    if (v.kind != SPOT_TV_NONE)
        spot_trender_fail(r, e, "a bound of a slice is of type %s, expected int", spot_tv_type(v));
    return absent;
}

static int64_t clamped(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0)
        i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

static struct spot_tv slice(struct spot_trender *r, node *e)
{
    struct spot_tv v = spot_template_eval(r, e->a), list, out;
    const bool is_text = spot_tv_is_text(v);
    const int64_t step = bound(r, e->d, 1), none = INT64_MIN;
    const int64_t from = bound(r, e->b, none), to = bound(r, e->c, none);
    int64_t n, begin, end, count;
    struct spot_buf text = { 0 };

    if (!step || step == INT64_MIN)
        spot_trender_fail(r, e, "the step of a slice is zero");
    if (!is_text && (!spot_tv_is_sequence(v) || v.is_lazy)) {
        spot_trender_fail(r, e, "no slice of a value of type %s", spot_tv_type(v));
        return spot_tv_none();
    }
    if (r->has_failed || !spot_trender_spend(r, v.is_json ? 0 : v.n / 64))
        return spot_tv_none();
    n = (int64_t)(is_text ? spot_tv_length(v) : spot_tv_size(v));
    begin = from == none ? (step > 0 ? 0 : n - 1)
                         : clamped(from, n, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    end =
        to == none ? (step > 0 ? n : -1) : clamped(to, n, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    count = step > 0 ? (end > begin ? (end - begin - 1) / step + 1 : 0)
                     : (begin > end ? (begin - end - 1) / -step + 1 : 0);
    if (is_text && step == 1) {
        const size_t at = spot_tv_offset(v, (size_t)begin);

        v = spot_tv_text(v.u.s + at, v.n - at);
        return spot_tv_text(v.u.s, spot_tv_offset(v, (size_t)count));
    }
    list = is_text ? spot_tv_list(r, e, v) : v;
    out = spot_tv_new(r, v.kind == SPOT_TV_TUPLE ? SPOT_TV_TUPLE : SPOT_TV_LIST, (size_t)count);
    for (uint32_t i = 0; i < out.n && spot_trender_spend(r, 1); i++)
        out.u.item[i] = spot_tv_entry(r, list, (size_t)(begin + (int64_t)i * step));
    for (uint32_t i = 0; is_text && i < out.n && !r->has_failed; i++)
        spot_buf_add(&text, out.u.item[i].u.s, out.u.item[i].n);
    return is_text ? spot_trender_text(r, &text) : out;
}

/* --- operators ------------------------------------------------------------------------------ */

static struct spot_tv joined(struct spot_trender *r, struct spot_tv a, struct spot_tv b)
{
    char *const text = spot_trender_memory(r, (size_t)a.n + b.n, 1);

    spot_trender_spend(r, ((size_t)a.n + b.n) / 256);
    if (!text || !(a.n + b.n))
        return spot_tv_text("", 0);
    memcpy(text, a.u.s, a.n);
    memcpy(text + a.n, b.u.s, b.n);
    return spot_tv_text(text, (size_t)a.n + b.n);
}

static struct spot_tv appended(struct spot_trender *r, struct spot_tv a, struct spot_tv b)
{
    const size_t n = spot_tv_size(a), m = spot_tv_size(b);
    struct spot_tv out = spot_tv_new(r, (enum spot_tv_kind)a.kind, n + m);

    for (uint32_t i = 0; i < out.n && spot_trender_spend(r, 1); i++)
        out.u.item[i] = i < n ? spot_tv_entry(r, a, i) : spot_tv_entry(r, b, i - n);
    return out;
}

/* Repetition of texts and lists. */
static struct spot_tv times(struct spot_trender *r, struct spot_tv a, int64_t n)
{
    struct spot_tv out = spot_tv_is_text(a) ? a : spot_tv_new(r, (enum spot_tv_kind)a.kind, 0);
    struct spot_buf text = { 0 };

    if (n > SPOT_TEMPLATE_MEMORY_MAX || (n > 0 && (int64_t)a.n * n > SPOT_TEMPLATE_MEMORY_MAX)) {
        exceed(r, "bytes", SPOT_TEMPLATE_MEMORY_MAX);
        return out;
    }
    for (int64_t i = 0; i < n && spot_trender_spend(r, 1); i++) {
        if (spot_tv_is_text(a))
            spot_buf_add(&text, a.u.s, a.n);
        else
            out = appended(r, out, a);
    }
    return spot_tv_is_text(a) ? spot_trender_text(r, &text) : out;
}

static struct spot_tv real_binary(char op, double x, double y)
{
    switch (op) {
    case '+':
        return spot_tv_real(x + y);
    case '-':
        return spot_tv_real(x - y);
    case '*':
        return spot_tv_real(x * y);
    case '/':
        return spot_tv_real(x / y);
    case 'F':
        return spot_tv_real(floor(x / y));
    case '%':
        return spot_tv_real(x - floor(x / y) * y);
    default:
        return spot_tv_real(pow(x, y));
    }
}

/* Integers; a result beyond 64 bits, which Python would compute, is an error. */
static struct spot_tv int_binary(struct spot_trender *r, node *e, int64_t x, int64_t y)
{
    int64_t z = 0;
    bool is_over = false;

    if (e->op == '+')
        is_over = __builtin_add_overflow(x, y, &z);
    else if (e->op == '-')
        is_over = __builtin_sub_overflow(x, y, &z);
    else if (e->op == '*')
        is_over = __builtin_mul_overflow(x, y, &z);
    else if (e->op == '/' || (e->op == '^' && y < 0))
        return real_binary(e->op, (double)x, (double)y);
    else if (e->op == '^')
        for (z = 1; y > 0 && !is_over && spot_trender_spend(r, 1); y--)
            is_over = __builtin_mul_overflow(z, x, &z);
    else if (x == INT64_MIN && y == -1)
        is_over = true;
    else if (e->op == 'F')
        z = x / y - (x % y && (x < 0) != (y < 0));
    else
        z = x % y + (x % y && (x < 0) != (y < 0) ? y : 0);
    if (is_over)
        spot_trender_fail(r, e, "a number beyond 64 bits");
    return spot_tv_int(z);
}

static struct spot_tv binary(struct spot_trender *r, node *e)
{
    const struct spot_tv a = spot_template_eval(r, e->a), b = spot_template_eval(r, e->b);
    const char op[] = { e->op == '^' ? '*' : e->op == 'F' ? '/' : e->op, '\0' };

    if (r->has_failed)
        return a;
    if (e->op == '~')
        return joined(r, spot_tv_str(r, a), spot_tv_str(r, b));
    if (spot_tv_is_number(a) && spot_tv_is_number(b)) {
        if (strchr("/F%", e->op) && spot_tv_number(b) == 0)
            spot_trender_fail(r, e, "division by zero");
        else if (a.kind == SPOT_TV_REAL || b.kind == SPOT_TV_REAL)
            return real_binary(e->op, spot_tv_number(a), spot_tv_number(b));
        else
            return int_binary(r, e, a.u.i, b.u.i);
        return a;
    }
    if (e->op == '+' && spot_tv_is_text(a) && spot_tv_is_text(b))
        return joined(r, a, b);
    if (e->op == '+' && spot_tv_is_sequence(a) && a.kind == b.kind)
        return appended(r, a, b);
    if (e->op == '*' && (spot_tv_is_text(a) || spot_tv_is_sequence(a)) && b.kind == SPOT_TV_INT)
        return times(r, a, b.u.i);
    if (a.kind == SPOT_TV_UNDEFINED || b.kind == SPOT_TV_UNDEFINED) {
        const struct spot_tv u = a.kind == SPOT_TV_UNDEFINED ? a : b;

        spot_trender_fail(r, e, "'%.*s' is undefined", (int)(u.n < 80 ? u.n : 80), u.u.s);
    }
    spot_trender_fail(r, e, "'%s' of %s and %s is not supported", op, spot_tv_type(a),
                      spot_tv_type(b));
    return a;
}

bool spot_tv_holds(struct spot_trender *r, node *e, char op, struct spot_tv a, struct spot_tv b)
{
    switch (op) {
    case 'E':
        return spot_tv_equals(r, a, b);
    case 'N':
        return !spot_tv_equals(r, a, b);
    case 'i':
        return spot_tv_contains(r, e, b, a);
    case 'n':
        return !spot_tv_contains(r, e, b, a);
    case '<':
        return spot_tv_compare(r, e, a, b) < 0;
    case '>':
        return spot_tv_compare(r, e, a, b) > 0;
    case 'L':
        return spot_tv_compare(r, e, a, b) <= 0;
    default:
        return spot_tv_compare(r, e, a, b) >= 0;
    }
}

/* a < b < c */
static struct spot_tv compared(struct spot_trender *r, node *e)
{
    struct spot_tv left = spot_template_eval(r, e->a);
    bool is = true;

    for (node *n = e->b; n && is && !r->has_failed; n = n->next) {
        const struct spot_tv right = spot_template_eval(r, n->a);

        is = !r->has_failed && spot_tv_holds(r, n, n->op, left, right);
        left = right;
    }
    return spot_tv_bool(is);
}

static struct spot_tv signed_of(struct spot_trender *r, node *e)
{
    const struct spot_tv v = spot_template_eval(r, e->a);

    if (!spot_tv_is_number(v) || (v.kind != SPOT_TV_REAL && v.u.i == INT64_MIN))
        spot_trender_fail(r, e, "a sign before a value of type %s", spot_tv_type(v));
    else if (v.kind == SPOT_TV_REAL)
        return spot_tv_real(e->type == SPOT_TN_NEG ? -v.u.d : v.u.d);
    return spot_tv_int(e->type == SPOT_TN_NEG ? -v.u.i : v.u.i);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void add_argument(struct spot_tcall *c, struct spot_tv name, struct spot_tv v)
{
    if (c->n == SPOT_TARGS_MAX) {
        spot_trender_fail(c->r, c->at, "more than %d arguments", SPOT_TARGS_MAX);
        return;
    }
    c->name[c->n] = name;
    c->arg[c->n++] = v;
}

static void arguments(struct spot_tcall *c, node *arg)
{
    for (; arg && !c->r->has_failed; arg = arg->next) {
        const struct spot_tv v = spot_template_eval(c->r, arg->a);
        const bool is_dict = arg->op == '^' && v.kind == SPOT_TV_DICT;
        const struct spot_tv list = !arg->op || is_dict ? v : spot_tv_list(c->r, arg, v);

        if (!arg->op)
            add_argument(c, arg->value, v);
        for (size_t i = 0; arg->op && i < spot_tv_size(list) && !c->r->has_failed; i++) {
            struct spot_tv key = { .kind = SPOT_TV_ABSENT };
            const struct spot_tv part =
                is_dict ? spot_tv_member(c->r, v, i, &key) : spot_tv_entry(c->r, list, i);

            add_argument(c, key, part);
        }
    }
}

/* Calls a function, or a method of the value before the dot. */
static struct spot_tv call(struct spot_trender *r, node *e)
{
    struct spot_tcall c = { .r = r, .at = e, .self = { .kind = SPOT_TV_ABSENT } };
    struct spot_tv callee;

    if (e->a->type == SPOT_TN_ATTR || e->a->type == SPOT_TN_ITEM) {
        const bool is_item = e->a->type == SPOT_TN_ITEM;

        c.self = spot_template_eval(r, e->a->a);
        callee = spot_tv_get(r, e->a, c.self,
                             is_item ? spot_template_eval(r, e->a->b) : e->a->value, is_item);
    } else {
        callee = spot_template_eval(r, e->a);
    }
    arguments(&c, e->b);
    if (r->has_failed)
        return callee;
    if (callee.kind == SPOT_TV_MACRO)
        return spot_trender_macro(&c, callee.u.macro);
    if (callee.kind == SPOT_TV_BUILTIN)
        return spot_tbuiltin_call(callee.u.builtin, &c);
    if (callee.kind == SPOT_TV_UNDEFINED && c.self.kind != SPOT_TV_ABSENT)
        spot_trender_fail(r, e, "'%s' has no method '%.*s' that is known here",
                          spot_tv_type(c.self), (int)(callee.n < 40 ? callee.n : 40), callee.u.s);
    else if (callee.kind == SPOT_TV_UNDEFINED)
        spot_trender_fail(r, e, "unknown function '%.*s'", (int)(callee.n < 40 ? callee.n : 40),
                          callee.u.s);
    else
        spot_trender_fail(r, e, "a value of type %s is called", spot_tv_type(callee));
    return callee;
}

static struct spot_tv filtered(struct spot_trender *r, node *e, struct spot_tv self)
{
    struct spot_tcall c = { .r = r, .at = e, .self = self };

    arguments(&c, e->b);
    return r->has_failed ? c.self : spot_tbuiltin_call(e->builtin, &c);
}

struct spot_tv spot_trender_filters(struct spot_trender *r, node *e, struct spot_tv base)
{
    return e->type == SPOT_TN_FILTER ? filtered(r, e, spot_trender_filters(r, e->a, base)) : base;
}

/* --- literals --- */

static struct spot_tv literal(struct spot_trender *r, node *e)
{
    struct spot_tv v;
    size_t n = 0;

    for (node *i = e->a; i; i = i->next)
        n++;
    v = spot_tv_new(r,
                    e->type == SPOT_TN_DICT   ? SPOT_TV_DICT
                    : e->type == SPOT_TN_LIST ? SPOT_TV_LIST
                                              : SPOT_TV_TUPLE,
                    n);
    n = 0;
    for (node *i = e->a; i && !r->has_failed; i = i->next) {
        if (e->type == SPOT_TN_DICT) {
            const struct spot_tv key = spot_template_eval(r, i->a);

            spot_tv_put(r, v, key, spot_template_eval(r, i->b));
        } else {
            v.u.item[n++] = spot_template_eval(r, i);
        }
    }
    return v;
}

static struct spot_tv evaluated(struct spot_trender *r, node *e)
{
    struct spot_tv v;

    switch ((enum spot_tnode_type)e->type) {
    case SPOT_TN_CONST:
        return e->value;
    case SPOT_TN_NAME:
        return r->var[e->name];
    case SPOT_TN_LIST:
    case SPOT_TN_TUPLE:
    case SPOT_TN_DICT:
        return literal(r, e);
    case SPOT_TN_ATTR:
        return spot_tv_get(r, e, spot_template_eval(r, e->a), e->value, false);
    case SPOT_TN_ITEM:
        v = spot_template_eval(r, e->a);
        return spot_tv_get(r, e, v, spot_template_eval(r, e->b), true);
    case SPOT_TN_SLICE:
        return slice(r, e);
    case SPOT_TN_CALL:
        return call(r, e);
    case SPOT_TN_FILTER:
    case SPOT_TN_TEST:
        return filtered(r, e, spot_template_eval(r, e->a));
    case SPOT_TN_NOT:
        return spot_tv_bool(!spot_tv_truth(spot_template_eval(r, e->a)));
    case SPOT_TN_NEG:
    case SPOT_TN_POS:
        return signed_of(r, e);
    case SPOT_TN_BINARY:
        return binary(r, e);
    case SPOT_TN_AND:
        v = spot_template_eval(r, e->a);
        return spot_tv_truth(v) ? spot_template_eval(r, e->b) : v;
    case SPOT_TN_OR:
        v = spot_template_eval(r, e->a);
        return spot_tv_truth(v) ? v : spot_template_eval(r, e->b);
    case SPOT_TN_COMPARE:
        return compared(r, e);
    case SPOT_TN_COND:
        if (spot_tv_truth(spot_template_eval(r, e->a)))
            return spot_template_eval(r, e->b);
        return e->c ? spot_template_eval(r, e->c) : spot_tv_undefined("the rest of an 'if'", 19);
    default:
        return spot_tv_none();
    }
}

struct spot_tv spot_template_eval(struct spot_trender *r, node *e)
{
    struct spot_tv v = { .kind = SPOT_TV_NONE };

    if (!spot_trender_spend(r, 1) || !spot_trender_enter(r))
        return v;
    v = evaluated(r, e);
    r->depth--;
    return v;
}
