/* SPDX-License-Identifier: MIT */
/* template_state.h - a parsed template, and the values of a rendering; private to template*.c. */
#ifndef SPOT_TEXT_TEMPLATE_STATE_H
#define SPOT_TEXT_TEMPLATE_STATE_H

#include <stdbool.h>
#include <string.h>

#include "text/template.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- values ---------------------------------------------------------------------- */

enum spot_tv_kind {
    SPOT_TV_ABSENT, /* no argument */
    SPOT_TV_UNDEFINED,
    SPOT_TV_NONE,
    SPOT_TV_BOOL,
    SPOT_TV_INT,
    SPOT_TV_REAL,
    SPOT_TV_TEXT,
    SPOT_TV_LIST,
    SPOT_TV_TUPLE,
    SPOT_TV_DICT,
    SPOT_TV_NAMESPACE,
    SPOT_TV_LOOP,
    SPOT_TV_MACRO,
    SPOT_TV_BUILTIN, /* a function, or a method without its object */
};

/* Texts do not end with a NUL and may be parts of others. Lists and dictionaries are values of the
 * context, or created here; only namespaces among the latter can grow. */
struct spot_tv {
    uint8_t kind;
    bool is_json; /* of a list or dictionary: `json` */
    bool is_lazy; /* of a list: in Python it is an iterator, which is true even if it is empty */
    uint32_t n;   /* bytes, or entries */
    union {
        int64_t i; /* BOOL too */
        double d;
        const char *s; /* TEXT; UNDEFINED: its name */
        struct spot_tv *item;
        struct spot_tv_dict *dict;
        const struct spot_json_value *json;
        const struct spot_tloop *loop;
        const struct spot_tnode *macro;
        const struct spot_tbuiltin *builtin;
    } u;
};

struct spot_tv_dict {
    uint32_t n, cap;
    struct spot_tv (*pair)[2]; /* [n] */
};

struct spot_tloop {
    uint32_t at;
    struct spot_tv list;
};

/* --- the parsed template ------------------------------------------------------------ */

enum spot_tnode_type {
    /* expressions */
    SPOT_TN_CONST,
    SPOT_TN_NAME,
    SPOT_TN_LIST, /* LIST, TUPLE; a: the first entry */
    SPOT_TN_TUPLE,
    SPOT_TN_DICT,  /* a: the first PAIR */
    SPOT_TN_PAIR,  /* a: key, b: value */
    SPOT_TN_ATTR,  /* a . value */
    SPOT_TN_ITEM,  /* a [ b ] */
    SPOT_TN_SLICE, /* a [ b : c : d ] */
    SPOT_TN_CALL,  /* a ( b ); b: first of the ARG */
    SPOT_TN_ARG, /* [value =] a; op '*': all entries of list a, op '^': all pairs of dictionary a */
    SPOT_TN_FILTER, /* a | builtin ( b ) */
    SPOT_TN_TEST,   /* a is builtin ( b ) */
    SPOT_TN_NOT,    /* NOT, NEG, POS: the operand a */
    SPOT_TN_NEG,
    SPOT_TN_POS,
    SPOT_TN_BINARY, /* a op b */
    SPOT_TN_AND,
    SPOT_TN_OR,
    SPOT_TN_COMPARE, /* a compared with the chain b of COMPARE, each with op and right side a */
    SPOT_TN_COND,    /* b if a else c */
    /* statements */
    SPOT_TN_DATA,  /* value */
    SPOT_TN_PRINT, /* a */
    SPOT_TN_IF,    /* if a then b, else the elif d or the block c */
    SPOT_TN_FOR,   /* for a in b if d: c, else: e */
    SPOT_TN_SET,   /* a = b; or a = the output of c, passed through the filters b */
    SPOT_TN_MACRO, /* macro `value` ( b ), body c; b: first of the ARG, each with its default */
    SPOT_TN_SCOPE, /* c */
    SPOT_TN_BREAK,
    SPOT_TN_CONTINUE,
};

struct spot_tnode {
    uint8_t type;
    char op; /* + - * / % ^ ~, F: //; E: ==, N: !=, < > L: <= G: >= i: in, n: not in */
    uint32_t line, column;
    uint32_t name; /* of a variable, in t->name */
    struct spot_tv value;
    const struct spot_tbuiltin *builtin;
    struct spot_tnode *a, *b, *c, *d, *e, *next;
};

struct spot_template {
    char *source, *text; /* values and names point into the text */
    struct spot_tnode *first;
    struct spot_tnode **node; /* [n_node], for freeing */
    size_t n_node, node_cap;
    struct spot_tv *name; /* [n_name] of variables */
    size_t n_name, name_cap;
};

/* --- a rendering --------------------------------------------------------------------- */

/* A variable hidden by a scope, restored at its end. */
struct spot_tsaved {
    uint32_t name;
    struct spot_tv value;
};

struct spot_trender {
    const struct spot_template *t;
    struct spot_err *err;
    int64_t now_s;
    bool has_failed;
    uint32_t depth;
    size_t n_step, n_byte;
    struct spot_buf *out;
    struct spot_tv *var;       /* [n_name] */
    struct spot_tsaved *saved; /* [n_saved] */
    size_t n_saved, saved_cap;
    size_t begin;   /* saved[begin..] belongs to the running macro */
    bool is_scoped; /* inside a scope: a variable that is set is saved */
    void **block;   /* [n_block] memory of values, freed at the end */
    size_t n_block, block_cap, block_left, block_size;
};

/* Set an error at a node, unless there is one already. */
void spot_trender_fail(struct spot_trender *r, const struct spot_tnode *at, const char *fmt, ...)
    SPOT_PRINTF(3, 4);
/* Count work on n bytes or entries. Returns false when it was too much. */
bool spot_trender_spend(struct spot_trender *r, size_t n);
/* Zeroed memory until the end of the rendering; NULL past its limit. */
void *spot_trender_memory(struct spot_trender *r, size_t n, size_t size);
/* A text value with a copy of the buffer, which is released. */
struct spot_tv spot_trender_text(struct spot_trender *r, struct spot_buf *buf);
/* Enter a level of nesting; false: too deep. */
bool spot_trender_enter(struct spot_trender *r);

/* --- template_value.c ------------------------------------------------------------------ */

static inline struct spot_tv spot_tv_of(enum spot_tv_kind kind, size_t n)
{
    struct spot_tv v;

    memset(&v, 0, sizeof(v));
    v.kind = kind;
    v.n = (uint32_t)n;
    return v;
}

static inline struct spot_tv spot_tv_none(void)
{
    return spot_tv_of(SPOT_TV_NONE, 0);
}

static inline struct spot_tv spot_tv_bool(bool is)
{
    struct spot_tv v = spot_tv_of(SPOT_TV_BOOL, 0);

    v.u.i = is;
    return v;
}

static inline struct spot_tv spot_tv_int(int64_t i)
{
    struct spot_tv v = spot_tv_of(SPOT_TV_INT, 0);

    v.u.i = i;
    return v;
}

static inline struct spot_tv spot_tv_real(double d)
{
    struct spot_tv v = spot_tv_of(SPOT_TV_REAL, 0);

    v.u.d = d;
    return v;
}

static inline struct spot_tv spot_tv_text(const char *s, size_t n)
{
    struct spot_tv v = spot_tv_of(SPOT_TV_TEXT, n);

    v.u.s = s;
    return v;
}

static inline struct spot_tv spot_tv_undefined(const char *s, size_t n)
{
    struct spot_tv v = spot_tv_of(SPOT_TV_UNDEFINED, n);

    v.u.s = s;
    return v;
}

static inline bool spot_tv_is_text(struct spot_tv v)
{
    return v.kind == SPOT_TV_TEXT;
}

static inline bool spot_tv_is_sequence(struct spot_tv v)
{
    return v.kind == SPOT_TV_LIST || v.kind == SPOT_TV_TUPLE;
}

/* None, or no argument. */
static inline bool spot_tv_is_left_out(struct spot_tv v)
{
    return v.kind == SPOT_TV_ABSENT || v.kind == SPOT_TV_NONE;
}

static inline bool spot_tv_is_number(struct spot_tv v)
{
    return v.kind == SPOT_TV_BOOL || v.kind == SPOT_TV_INT || v.kind == SPOT_TV_REAL;
}

static inline bool spot_tv_says(struct spot_tv v, const char *text)
{
    return v.n == strlen(text) && !memcmp(v.u.s, text, v.n);
}

static inline double spot_tv_number(struct spot_tv v)
{
    return v.kind == SPOT_TV_REAL ? v.u.d : (double)v.u.i;
}

const char *spot_tv_type(struct spot_tv v); /* the name of the type in Python */
bool spot_tv_truth(struct spot_tv v);
struct spot_tv spot_tv_of_json(struct spot_trender *r, const struct spot_json_value *json);
/* Entries of a list, tuple or dictionary. */
size_t spot_tv_size(struct spot_tv v);
struct spot_tv spot_tv_entry(struct spot_trender *r, struct spot_tv list, size_t i);
struct spot_tv spot_tv_member(struct spot_trender *r, struct spot_tv dict, size_t i,
                              struct spot_tv *key);
/* Get the value of a key. Returns false if the dictionary does not have it. */
bool spot_tv_find(struct spot_trender *r, struct spot_tv dict, struct spot_tv key,
                  struct spot_tv *value);
void spot_tv_put(struct spot_trender *r, struct spot_tv dict, struct spot_tv key,
                 struct spot_tv value);
struct spot_tv spot_tv_new(struct spot_trender *r, enum spot_tv_kind kind, size_t n);
/* The items of a loop over the value, as a list; fails if it is not iterable. */
struct spot_tv spot_tv_list(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv v);
bool spot_tv_equals(struct spot_trender *r, struct spot_tv a, struct spot_tv b);
/* Compare: negative, 0, positive; fails if the values have no order. */
int spot_tv_compare(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv a,
                    struct spot_tv b);
/* Apply the operator of a comparison, see SPOT_TN_COMPARE. */
bool spot_tv_holds(struct spot_trender *r, const struct spot_tnode *at, char op, struct spot_tv a,
                   struct spot_tv b);
bool spot_tv_contains(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv whole,
                      struct spot_tv part);
/* Append the result of Python's str() or repr(). */
void spot_tv_print(struct spot_trender *r, struct spot_tv v, struct spot_buf *out);
void spot_tv_repr(struct spot_trender *r, struct spot_tv v, struct spot_buf *out);
struct spot_tv spot_tv_str(struct spot_trender *r, struct spot_tv v);

/* Append a text or a number as in that result; JSON has other names for NaN and infinities. */
static inline void spot_tv_say(struct spot_buf *out, const char *text)
{
    spot_buf_add(out, text, strlen(text));
}
void spot_tv_say_int(struct spot_buf *out, int64_t i);
void spot_tv_say_real(struct spot_buf *out, double d, bool is_json);

/* Arguments of json.dumps(). */
struct spot_tv_json {
    struct spot_tv indent, comma, colon; /* texts; indent NONE: on one line */
    bool is_ascii, sorts;
};

void spot_tv_to_json(struct spot_trender *r, const struct spot_tnode *at,
                     const struct spot_tv_json *how, struct spot_tv v, struct spot_buf *out);

/* Offset in bytes of character i of a text; the length of the text if i is beyond its end. */
size_t spot_tv_offset(struct spot_tv text, size_t i);
size_t spot_tv_length(struct spot_tv text); /* in characters */

/* --- filters, methods, functions and tests ---------------------------------------------- */

enum { SPOT_TARGS_MAX = 16 };

struct spot_tcall {
    struct spot_trender *r;
    const struct spot_tnode *at;
    struct spot_tv self;
    int how; /* selects one of several builtins with the same function */
    size_t n;
    struct spot_tv arg[SPOT_TARGS_MAX];  /* by position, or in the order given if .params is NULL */
    struct spot_tv name[SPOT_TARGS_MAX]; /* in that case its name; ABSENT: it has none */
};

enum spot_tuse {
    SPOT_TUSE_FILTER = 1,
    SPOT_TUSE_TEST = 2,
    SPOT_TUSE_TEXT = 4, /* a method of texts */
    SPOT_TUSE_DICT = 8,
    SPOT_TUSE_LIST = 16,
    SPOT_TUSE_LOOP = 32,
    SPOT_TUSE_FUNCTION = 64,
};

struct spot_tbuiltin {
    const char *name;
    int use;
    const char *params; /* "a,b": names of parameters, in order; NULL: any arguments */
    struct spot_tv (*call)(struct spot_tcall *c);
    int how;
};

/* The builtin of this name and use; NULL: there is none. */
const struct spot_tbuiltin *spot_tbuiltin_find(enum spot_tuse use, struct spot_tv name);
/* Tables of template_list.c and template_number.c, also searched by spot_tbuiltin_find; end with a
 * NULL name. */
extern const struct spot_tbuiltin spot_tbuiltin_lists[], spot_tbuiltin_numbers[];
/* Call a builtin with positional arguments. */
struct spot_tv spot_tbuiltin_call(const struct spot_tbuiltin *b, struct spot_tcall *c);

/* --- template_eval.c --------------------------------------------------------------------- */

/* object.name, or with is_item object[name]; UNDEFINED if there is none. */
struct spot_tv spot_tv_get(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv v,
                           struct spot_tv name, bool is_item);
/* "a.b.0" */
struct spot_tv spot_tv_path(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv v,
                            struct spot_tv path);
struct spot_tv spot_template_eval(struct spot_trender *r, const struct spot_tnode *e);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_TEMPLATE_STATE_H */
