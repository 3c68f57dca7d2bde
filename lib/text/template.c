/* SPDX-License-Identifier: MIT */
/* Templates parsed to a tree, by Jinja's own grammar. */
#include "text/template.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "text/template_lex.h"

enum { NAMES_MAX = 4096 };

struct parser {
    struct spot_tlex lex;
    struct spot_template *t;
    uint32_t depth, n_loop;
    bool is_scoped; /* inside of a loop or a macro */
};

typedef struct spot_tnode node;

static node *parse_expression(struct parser *p);
static node *parse_or(struct parser *p);
static node *parse_unary(struct parser *p, bool has_filters);
static node *parse_body(struct parser *p);

static void fail(struct parser *p, const char *what)
{
    spot_tlex_fail(&p->lex, p->lex.token.line, p->lex.token.column, "%s", what);
}

/* With the place of the current token. */
static node *new_node(struct parser *p, enum spot_tnode_type type)
{
    struct spot_template *const t = p->t;
    node *const n = spot_xcalloc(1, sizeof(*n));

    t->node = spot_xgrow(t->node, &t->node_cap, t->n_node + 1, sizeof(node *));
    t->node[t->n_node++] = n;
    if (t->n_node > SPOT_TEMPLATE_NODES_MAX)
        fail(p, "the template is too long");
    n->type = (uint8_t)type;
    n->line = p->lex.token.line;
    n->column = p->lex.token.column;
    return n;
}

static node *new_pair(struct parser *p, enum spot_tnode_type type, node *a, node *b)
{
    node *const n = new_node(p, type);

    n->a = a;
    n->b = b;
    return n;
}

static bool is(const struct parser *p, int type)
{
    return p->lex.token.type == type;
}

static bool is_name(const struct parser *p, const char *name)
{
    return is(p, SPOT_TTOKEN_NAME) && spot_tv_says(p->lex.token.value, name);
}

static bool accept(struct parser *p, int type)
{
    const bool has = is(p, type) && !p->lex.has_failed;

    if (has)
        spot_tlex_next(&p->lex);
    return has;
}

static bool accept_name(struct parser *p, const char *name)
{
    return is_name(p, name) && accept(p, SPOT_TTOKEN_NAME);
}

static void expect(struct parser *p, int type, const char *what)
{
    char text[64];

    if (accept(p, type))
        return;
    snprintf(text, sizeof(text), "expected %s", what);
    fail(p, text);
}

static void expect_close(struct parser *p)
{
    if (!is(p, SPOT_TTOKEN_CLOSE))
        fail(p, "expected the end of the tag");
}

static bool deeper(struct parser *p)
{
    if (++p->depth > SPOT_TEMPLATE_DEPTH_MAX)
        fail(p, "nested too deep");
    return !p->lex.has_failed;
}

static uint32_t name_of(struct parser *p, struct spot_tv name)
{
    struct spot_template *const t = p->t;
    size_t i = 0;

    while (i < t->n_name &&
           (t->name[i].n != name.n || memcmp(t->name[i].u.s, name.u.s, name.n) != 0))
        i++;
    if (i == t->n_name) {
        t->name = spot_xgrow(t->name, &t->name_cap, i + 1, sizeof(*t->name));
        t->name[t->n_name++] = name;
        if (t->n_name > NAMES_MAX)
            fail(p, "more than 4096 names");
    }
    return (uint32_t)i;
}

/* The current token as a name, which is passed. */
static node *parse_name(struct parser *p)
{
    node *const n = new_node(p, SPOT_TN_NAME);

    n->value = p->lex.token.value;
    if (is(p, SPOT_TTOKEN_NAME))
        n->name = name_of(p, n->value);
    expect(p, SPOT_TTOKEN_NAME, "a name");
    return n;
}

static const struct spot_tbuiltin *builtin_of(struct parser *p, enum spot_tuse use)
{
    const struct spot_ttoken at = p->lex.token;
    const char *const kind = use == SPOT_TUSE_TEST ? "test" : "filter";
    const struct spot_tbuiltin *b = NULL;

    if (at.type == SPOT_TTOKEN_NAME)
        b = spot_tbuiltin_find(use, at.value);
    if (!b)
        spot_tlex_fail(&p->lex, at.line, at.column, "unknown %s '%.*s'", kind,
                       at.type == SPOT_TTOKEN_NAME ? (int)(at.value.n < 60 ? at.value.n : 60) : 0,
                       at.type == SPOT_TTOKEN_NAME ? at.value.u.s : "");
    accept(p, SPOT_TTOKEN_NAME);
    return b;
}

/* --- expressions ------------------------------------------------------------------------ */

/* "a, b" up to a closing bracket, which is passed; *n: how many, *has_comma: one at the end. */
static node *parse_entries(struct parser *p, int close, size_t *n, bool *has_comma)
{
    node *first = NULL, **end = &first;

    *n = 0;
    *has_comma = false;
    while (!accept(p, close) && !p->lex.has_failed) {
        *end = parse_expression(p);
        end = &(*end)->next;
        ++*n;
        *has_comma = accept(p, ',');
        if (!*has_comma && !is(p, close))
            fail(p, "expected ',' or the closing bracket");
    }
    return first;
}

static node *parse_brackets(struct parser *p)
{
    node *const list = new_node(p, SPOT_TN_LIST);
    const int close = accept(p, '(') ? ')' : ']';
    size_t n;
    bool has_comma;

    if (close == ']')
        accept(p, '[');
    list->a = parse_entries(p, close, &n, &has_comma);
    list->type = close == ']' ? SPOT_TN_LIST : SPOT_TN_TUPLE;
    return close == ')' && n == 1 && !has_comma ? list->a : list;
}

static node *parse_dict(struct parser *p)
{
    node *const dict = new_node(p, SPOT_TN_DICT), **end = &dict->a;

    accept(p, '{');
    while (!accept(p, '}') && !p->lex.has_failed) {
        node *const pair = new_node(p, SPOT_TN_PAIR);

        pair->a = parse_expression(p);
        expect(p, ':', "':'");
        pair->b = parse_expression(p);
        *end = pair;
        end = &pair->next;
        if (!accept(p, ',') && !is(p, '}'))
            fail(p, "expected ',' or '}'");
    }
    return dict;
}

static node *parse_constant(struct parser *p, struct spot_tv value)
{
    node *const n = new_node(p, SPOT_TN_CONST);

    n->value = value;
    spot_tlex_next(&p->lex);
    return n;
}

static node *parse_primary(struct parser *p)
{
    const struct spot_tv value = p->lex.token.value;
    node *n;

    if (is_name(p, "true") || is_name(p, "True"))
        return parse_constant(p, spot_tv_bool(true));
    if (is_name(p, "false") || is_name(p, "False"))
        return parse_constant(p, spot_tv_bool(false));
    if (is_name(p, "none") || is_name(p, "None"))
        return parse_constant(p, spot_tv_none());
    if (is(p, SPOT_TTOKEN_NAME))
        return parse_name(p);
    if (is(p, SPOT_TTOKEN_NUMBER))
        return parse_constant(p, value);
    if (is(p, '(') || is(p, '['))
        return parse_brackets(p);
    if (is(p, '{'))
        return parse_dict(p);
    if (!is(p, SPOT_TTOKEN_TEXT)) {
        fail(p, "expected an expression");
        return new_node(p, SPOT_TN_CONST);
    }
    n = parse_constant(p, value);
    while (is(p, SPOT_TTOKEN_TEXT)) { /* texts beside each other are one */
        n = new_pair(p, SPOT_TN_BINARY, n, parse_constant(p, p->lex.token.value));
        n->op = '~';
    }
    return n;
}

/* [value =] expression, ...: the opening parenthesis was passed. */
static node *parse_arguments(struct parser *p, bool is_macro)
{
    node *first = NULL, **end = &first;
    size_t n = 0;

    while (!accept(p, ')') && !p->lex.has_failed) {
        node *const arg = new_node(p, SPOT_TN_ARG);

        if (is(p, '*') || is(p, '^')) {
            arg->op = (char)p->lex.token.type;
            spot_tlex_next(&p->lex);
            if (is_macro)
                fail(p, "a macro of any number of arguments is not supported");
        }
        arg->a = is_macro ? parse_name(p) : parse_expression(p);
        if (is_macro) {
            arg->name = arg->a->name;
            arg->value = arg->a->value;
            arg->a = accept(p, '=') ? parse_expression(p) : NULL;
        } else if (arg->a->type == SPOT_TN_NAME && accept(p, '=')) {
            arg->value = arg->a->value;
            arg->a = parse_expression(p);
        }
        if (++n > SPOT_TARGS_MAX)
            fail(p, "more than 16 arguments");
        *end = arg;
        end = &arg->next;
        if (!accept(p, ',') && !is(p, ')'))
            fail(p, "expected ',' or ')'");
    }
    return first;
}

static node *parse_subscript(struct parser *p, node *of)
{
    node *const n = new_pair(p, SPOT_TN_ITEM, of, NULL);
    node **const part[] = { &n->b, &n->c, &n->d };
    size_t i = 0;

    accept(p, '[');
    for (;; i++) {
        if (!is(p, ':') && !is(p, ']'))
            *part[i] = parse_expression(p);
        if (i == 2 || !accept(p, ':'))
            break;
    }
    if (i)
        n->type = SPOT_TN_SLICE;
    else if (!n->b)
        fail(p, "expected a subscript");
    expect(p, ']', "']'");
    return n;
}

static node *parse_attribute(struct parser *p, node *of)
{
    node *n = new_pair(p, SPOT_TN_ATTR, of, NULL);

    accept(p, '.');
    n->value = p->lex.token.value;
    if (is(p, SPOT_TTOKEN_NUMBER) && n->value.kind == SPOT_TV_INT) {
        n->type = SPOT_TN_ITEM;
        n->b = parse_constant(p, n->value);
    } else {
        expect(p, SPOT_TTOKEN_NAME, "a name behind '.'");
    }
    return n;
}

static node *parse_postfix(struct parser *p, node *n)
{
    const uint32_t depth = p->depth;

    while ((is(p, '.') || is(p, '[') || is(p, '(')) && deeper(p)) {
        if (is(p, '.')) {
            n = parse_attribute(p, n);
        } else if (is(p, '[')) {
            n = parse_subscript(p, n);
        } else {
            n = new_pair(p, SPOT_TN_CALL, n, NULL);
            accept(p, '(');
            n->b = parse_arguments(p, false);
        }
    }
    p->depth = depth;
    return n;
}

static node *parse_filter(struct parser *p, node *of)
{
    node *const n = new_pair(p, SPOT_TN_FILTER, of, NULL);

    n->builtin = builtin_of(p, SPOT_TUSE_FILTER);
    if (accept(p, '('))
        n->b = parse_arguments(p, false);
    return n;
}

/* Tests take one argument without parentheses. */
static node *parse_test(struct parser *p, node *of)
{
    const bool is_not = accept_name(p, "not");
    node *const n = new_pair(p, SPOT_TN_TEST, of, NULL);

    n->builtin = builtin_of(p, SPOT_TUSE_TEST);
    if (accept(p, '(')) {
        n->b = parse_arguments(p, false);
    } else if ((is(p, SPOT_TTOKEN_NAME) || is(p, SPOT_TTOKEN_TEXT) || is(p, SPOT_TTOKEN_NUMBER) ||
                is(p, '[') || is(p, '{')) &&
               !is_name(p, "else") && !is_name(p, "or") && !is_name(p, "and") && n->builtin &&
               n->builtin->params && *n->builtin->params) {
        n->b = new_node(p, SPOT_TN_ARG);
        n->b->a = parse_postfix(p, parse_primary(p));
    }
    return is_not ? new_pair(p, SPOT_TN_NOT, n, NULL) : n;
}

static node *parse_unary(struct parser *p, bool has_filters)
{
    const uint32_t depth = p->depth;
    node *n;

    if (!deeper(p))
        return new_node(p, SPOT_TN_CONST);
    if (accept(p, '-'))
        n = new_pair(p, SPOT_TN_NEG, parse_unary(p, false), NULL);
    else if (accept(p, '+'))
        n = new_pair(p, SPOT_TN_POS, parse_unary(p, false), NULL);
    else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    while (has_filters && deeper(p)) {
        if (accept(p, '|'))
            n = parse_filter(p, n);
        else if (accept_name(p, "is"))
            n = parse_test(p, n);
        else if (is(p, '('))
            n = parse_postfix(p, n);
        else
            break;
    }
    p->depth = depth;
    return n;
}

/* The operator of a comparison, which is passed; 0: none. */
static char accept_comparison(struct parser *p)
{
    static const char op[][2] = { "EE", "NN", "<<", ">>", "LL", "GG" };
    const struct spot_tlex before = p->lex;

    for (size_t i = 0; i < sizeof(op) / sizeof(op[0]); i++)
        if (accept(p, op[i][0]))
            return op[i][1];
    if (accept_name(p, "in"))
        return 'i';
    if (accept_name(p, "not")) {
        if (accept_name(p, "in"))
            return 'n';
        if (!p->lex.has_failed)
            p->lex = before;
    }
    return 0;
}

/* Operators from the left, those that bind most behind: "or", "and", "not", comparisons, and of
 * each rank of `op` any; "not" stands before what it is about. */
enum { RANK_OR, RANK_AND, RANK_NOT, RANK_COMPARE, RANK_SUM, RANK_POWER = 7 };

static node *parse_rank(struct parser *p, int rank);

static node *parse_compare(struct parser *p)
{
    node *const first = parse_rank(p, RANK_SUM), *compare = NULL, **end = NULL;
    char op;

    while ((op = accept_comparison(p))) {
        node *const n = new_node(p, SPOT_TN_COMPARE);

        n->op = op;
        n->a = parse_rank(p, RANK_SUM);
        if (!compare) {
            compare = new_pair(p, SPOT_TN_COMPARE, first, NULL);
            end = &compare->b;
        }
        *end = n;
        end = &n->next;
    }
    return compare ? compare : first;
}

/* The operator of a rank, which is passed; 0: another token. */
static char accept_operator(struct parser *p, int rank)
{
    static const char op[4][5] = { "+-", "~", "*/F%", "^" };
    const int type = p->lex.token.type;

    if (rank < RANK_NOT)
        return accept_name(p, rank == RANK_OR ? "or" : "and") ? '&' : '\0';
    return type < SPOT_TTOKEN_CLOSE && strchr(op[rank - RANK_SUM], type) && accept(p, type)
               ? (char)type
               : '\0';
}

static node *parse_rank(struct parser *p, int rank)
{
    static const uint8_t type[] = { SPOT_TN_OR, SPOT_TN_AND };
    const uint32_t depth = p->depth;
    node *n;
    char op;

    if (rank > RANK_POWER)
        return parse_unary(p, true);
    if (rank == RANK_COMPARE)
        return parse_compare(p);
    if (rank == RANK_NOT) {
        if (!is_name(p, "not") || !deeper(p))
            return parse_rank(p, RANK_COMPARE);
        n = new_node(p, SPOT_TN_NOT);
        accept_name(p, "not");
        n->a = parse_rank(p, RANK_NOT);
        p->depth = depth;
        return n;
    }
    n = parse_rank(p, rank + 1);
    while (deeper(p) && (op = accept_operator(p, rank))) {
        n = new_pair(p, rank < RANK_NOT ? type[rank] : SPOT_TN_BINARY, n, NULL);
        n->op = op;
        n->b = parse_rank(p, rank + 1);
    }
    p->depth = depth;
    return n;
}

static node *parse_or(struct parser *p)
{
    return parse_rank(p, RANK_OR);
}

static node *parse_expression(struct parser *p)
{
    const uint32_t depth = p->depth;
    node *n;

    if (!deeper(p))
        return new_node(p, SPOT_TN_CONST);
    n = parse_or(p);
    while (is_name(p, "if") && deeper(p)) {
        node *const cond = new_node(p, SPOT_TN_COND);

        accept_name(p, "if");
        cond->b = n;
        cond->a = parse_or(p);
        cond->c = accept_name(p, "else") ? parse_expression(p) : NULL;
        n = cond;
    }
    p->depth = depth;
    return n;
}

/* a, b without parentheses; `item` reads each. */
static node *parse_tuple(struct parser *p, node *(*item)(struct parser *p))
{
    node *const first = item(p), *tuple, **end;

    if (!is(p, ','))
        return first;
    tuple = new_pair(p, SPOT_TN_TUPLE, first, NULL);
    end = &first->next;
    while (accept(p, ',') && !is(p, SPOT_TTOKEN_CLOSE) && !is(p, '=') && !is_name(p, "in")) {
        *end = item(p);
        end = &(*end)->next;
    }
    return tuple;
}

/* --- statements ------------------------------------------------------------------------- */

static node *parse_target_name(struct parser *p)
{
    node *const n = parse_name(p);

    return is(p, '.') ? parse_attribute(p, n) : n;
}

static node *parse_target(struct parser *p)
{
    const bool has_parentheses = accept(p, '(');
    node *const n = parse_tuple(p, parse_target_name);

    if (has_parentheses)
        expect(p, ')', "')'");
    return n;
}

/* A body up to a tag of this name, which is passed up to its own end. */
static node *parse_until(struct parser *p, const char *name)
{
    node *body;
    char text[64];

    expect_close(p);
    body = parse_body(p);
    snprintf(text, sizeof(text), "expected '%s'", name);
    if (!accept_name(p, name))
        fail(p, text);
    return body;
}

static node *parse_if(struct parser *p)
{
    node *const first = new_node(p, SPOT_TN_IF), *n = first;

    n->a = parse_tuple(p, parse_expression);
    expect_close(p);
    n->b = parse_body(p);
    while (is_name(p, "elif")) {
        n->d = new_node(p, SPOT_TN_IF);
        n = n->d;
        accept_name(p, "elif");
        n->a = parse_tuple(p, parse_expression);
        expect_close(p);
        n->b = parse_body(p);
    }
    if (accept_name(p, "else"))
        n->c = parse_until(p, "endif");
    else if (!accept_name(p, "endif"))
        fail(p, "expected 'elif', 'else' or 'endif'");
    return first;
}

static node *parse_for(struct parser *p)
{
    const bool was_scoped = p->is_scoped;
    node *const n = new_node(p, SPOT_TN_FOR);

    n->name = name_of(p, spot_tv_text("loop", 4));
    n->a = parse_target(p);
    if (!accept_name(p, "in"))
        fail(p, "expected 'in'");
    n->b = parse_tuple(p, parse_or);
    n->d = accept_name(p, "if") ? parse_expression(p) : NULL;
    if (is_name(p, "recursive"))
        fail(p, "recursive loops are not supported");
    expect_close(p);
    p->n_loop++;
    p->is_scoped = true;
    n->c = parse_body(p);
    p->n_loop--;
    if (accept_name(p, "else"))
        n->e = parse_until(p, "endfor");
    else if (!accept_name(p, "endfor"))
        fail(p, "expected 'else' or 'endfor'");
    p->is_scoped = was_scoped;
    return n;
}

static node *parse_set(struct parser *p)
{
    node *const n = new_node(p, SPOT_TN_SET);

    n->a = parse_target(p);
    if (accept(p, '=')) {
        n->b = parse_tuple(p, parse_expression);
        return n;
    }
    if (n->a->type == SPOT_TN_TUPLE)
        fail(p, "expected '='");
    n->b = new_node(p, SPOT_TN_CONST);
    while (accept(p, '|'))
        n->b = parse_filter(p, n->b);
    n->c = parse_until(p, "endset");
    if (!n->c)
        n->c = new_node(p, SPOT_TN_DATA);
    return n;
}

static node *parse_macro(struct parser *p)
{
    const uint32_t n_loop = p->n_loop;
    node *const n = parse_name(p);

    n->type = SPOT_TN_MACRO;
    if (p->is_scoped)
        fail(p, "a macro inside of a loop or a macro is not supported");
    expect(p, '(', "'('");
    n->b = parse_arguments(p, true);
    p->n_loop = 0;
    p->is_scoped = true;
    n->c = parse_until(p, "endmacro");
    p->n_loop = n_loop;
    p->is_scoped = false;
    return n;
}

/* Inside of a tag. NULL: not the beginning of a statement. */
static node *parse_statement(struct parser *p)
{
    node *n;

    if (accept_name(p, "if"))
        return parse_if(p);
    if (accept_name(p, "for"))
        return parse_for(p);
    if (accept_name(p, "set"))
        return parse_set(p);
    if (accept_name(p, "macro"))
        return parse_macro(p);
    if (accept_name(p, "generation")) {
        n = new_node(p, SPOT_TN_SCOPE);
        n->c = parse_until(p, "endgeneration");
        return n;
    }
    if (!is_name(p, "break") && !is_name(p, "continue"))
        return NULL;
    n = new_node(p, is_name(p, "break") ? SPOT_TN_BREAK : SPOT_TN_CONTINUE);
    if (!p->n_loop)
        fail(p, "outside of a loop");
    accept(p, SPOT_TTOKEN_NAME);
    return n;
}

/* Up to a tag that begins no statement: its name is the current token. At the end of the template
 * that is CLOSE. */
static node *parse_body(struct parser *p)
{
    const uint32_t depth = p->depth;
    node *first = NULL, **end = &first, *n;

    while (!p->lex.has_failed && deeper(p)) {
        const struct spot_tv data = spot_tlex_data(&p->lex);

        if (data.n) {
            *end = new_node(p, SPOT_TN_DATA);
            (*end)->value = data;
            end = &(*end)->next;
        }
        if (!p->lex.tag || p->lex.has_failed) {
            p->lex.token.type = SPOT_TTOKEN_CLOSE;
            break;
        }
        p->depth = depth + 1;
        if (p->lex.tag == '#')
            continue;
        spot_tlex_next(&p->lex);
        if (p->lex.tag == '{') {
            n = new_node(p, SPOT_TN_PRINT);
            n->a = parse_tuple(p, parse_expression);
        } else {
            n = parse_statement(p);
        }
        if (!n)
            break;
        expect_close(p);
        *end = n;
        end = &n->next;
        p->depth = depth;
    }
    p->depth = depth;
    return first;
}

/* Line ends as Jinja has them, without the last one. */
static size_t normalise(char *text, size_t n)
{
    size_t to = 0;

    for (size_t i = 0; i < n; i++) {
        text[to++] = text[i] == '\r' ? '\n' : text[i];
        i += text[i] == '\r' && i + 1 < n && text[i + 1] == '\n';
    }
    to -= to && text[to - 1] == '\n';
    text[to] = '\0';
    return to;
}

struct spot_template *spot_template_parse(const char *text, size_t n, const char *source,
                                          struct spot_err *err)
{
    struct spot_template *const t = spot_xcalloc(1, sizeof(*t));
    struct parser p = { .t = t, .lex = { .source = source, .err = err, .line = 1 } };

    t->source = spot_xstrdup(source);
    t->text = spot_xcalloc(n + 1, 1);
    if (n)
        memcpy(t->text, text, n);
    n = normalise(t->text, n);
    p.lex.begin = p.lex.at = t->text;
    p.lex.line_begin = t->text;
    p.lex.end = t->text + n;
    if (n > SPOT_TEMPLATE_MAX)
        spot_tlex_fail(&p.lex, 1, 1, "larger than %d bytes", SPOT_TEMPLATE_MAX);
    t->first = parse_body(&p);
    if (!p.lex.has_failed && p.lex.tag) {
        const struct spot_ttoken at = p.lex.token;
        const bool is_word = at.type == SPOT_TTOKEN_NAME;

        spot_tlex_fail(&p.lex, at.line, at.column, "unknown tag '%.*s'",
                       is_word ? (int)(at.value.n < 40 ? at.value.n : 40) : 0,
                       is_word ? at.value.u.s : "");
    }
    if (!p.lex.has_failed)
        return t;
    spot_template_free(t);
    return NULL;
}

void spot_template_free(struct spot_template *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_node; i++)
        free(t->node[i]);
    free(t->node);
    free(t->name);
    free(t->text);
    free(t->source);
    free(t);
}

bool spot_template_reads(const struct spot_template *t, const char *name)
{
    for (size_t i = 0; i < t->n_name; i++)
        if (spot_tv_says(t->name[i], name))
            return true;
    return false;
}
