/* SPDX-License-Identifier: MIT */
/* Expressions of templates, parsed to a tree by Jinja's own grammar. */
#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"
#include "text/template_parse.h"

enum { NAMES_MAX = 4096 };

typedef struct spot_tnode node;

static node *parse_unary(struct spot_tparser *p, bool has_filters);

void spot_tp_fail(struct spot_tparser *p, const char *what)
{
    spot_tlex_fail(&p->lex, p->lex.token.line, p->lex.token.column, "%s", what);
}

/* A new node with the position of the current token. */
node *spot_tp_new_node(struct spot_tparser *p, enum spot_tnode_type type)
{
    struct spot_template *const t = p->t;
    node *const n = spot_xcalloc(1, sizeof(*n));

    t->node = spot_xgrow(t->node, &t->node_cap, t->n_node + 1, sizeof(node *));
    t->node[t->n_node++] = n;
    if (t->n_node > SPOT_TEMPLATE_NODES_MAX)
        spot_tp_fail(p, "the template is too long");
    n->type = (uint8_t)type;
    n->line = p->lex.token.line;
    n->column = p->lex.token.column;
    return n;
}

static node *new_pair(struct spot_tparser *p, enum spot_tnode_type type, node *a, node *b)
{
    node *const n = spot_tp_new_node(p, type);

    n->a = a;
    n->b = b;
    return n;
}

bool spot_tp_is(const struct spot_tparser *p, int type)
{
    return p->lex.token.type == type;
}

bool spot_tp_is_name(const struct spot_tparser *p, const char *name)
{
    return spot_tp_is(p, SPOT_TTOKEN_NAME) && spot_tv_says(p->lex.token.value, name);
}

bool spot_tp_accept(struct spot_tparser *p, int type)
{
    const bool has = spot_tp_is(p, type) && !p->lex.has_failed;

    if (has)
        spot_tlex_next(&p->lex);
    return has;
}

bool spot_tp_accept_name(struct spot_tparser *p, const char *name)
{
    return spot_tp_is_name(p, name) && spot_tp_accept(p, SPOT_TTOKEN_NAME);
}

void spot_tp_expect(struct spot_tparser *p, int type, const char *what)
{
    char text[64];

    if (spot_tp_accept(p, type))
        return;
    snprintf(text, sizeof(text), "expected %s", what);
    spot_tp_fail(p, text);
}

bool spot_tp_deeper(struct spot_tparser *p)
{
    if (++p->depth > SPOT_TEMPLATE_DEPTH_MAX)
        spot_tp_fail(p, "nested too deep");
    return !p->lex.has_failed;
}

uint32_t spot_tp_name_of(struct spot_tparser *p, struct spot_tv name)
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
            spot_tp_fail(p, "more than 4096 names");
    }
    return (uint32_t)i;
}

/* Consumes the current token as a name. */
node *spot_tp_name(struct spot_tparser *p)
{
    node *const n = spot_tp_new_node(p, SPOT_TN_NAME);

    n->value = p->lex.token.value;
    if (spot_tp_is(p, SPOT_TTOKEN_NAME))
        n->name = spot_tp_name_of(p, n->value);
    spot_tp_expect(p, SPOT_TTOKEN_NAME, "a name");
    return n;
}

static const struct spot_tbuiltin *builtin_of(struct spot_tparser *p, enum spot_tuse use)
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
    spot_tp_accept(p, SPOT_TTOKEN_NAME);
    return b;
}

/* --- expressions ------------------------------------------------------------------------ */

/* Parses "a, b" and a closing bracket; *n: number of entries, *has_comma: a comma at the end. */
static node *parse_entries(struct spot_tparser *p, int close, size_t *n, bool *has_comma)
{
    node *first = NULL, **end = &first;

    *n = 0;
    *has_comma = false;
    while (!spot_tp_accept(p, close) && !p->lex.has_failed) {
        *end = spot_tp_expression(p);
        end = &(*end)->next;
        ++*n;
        *has_comma = spot_tp_accept(p, ',');
        if (!*has_comma && !spot_tp_is(p, close))
            spot_tp_fail(p, "expected ',' or the closing bracket");
    }
    return first;
}

static node *parse_brackets(struct spot_tparser *p)
{
    node *const list = spot_tp_new_node(p, SPOT_TN_LIST);
    const int close = spot_tp_accept(p, '(') ? ')' : ']';
    size_t n;
    bool has_comma;

    if (close == ']')
        spot_tp_accept(p, '[');
    list->a = parse_entries(p, close, &n, &has_comma);
    list->type = close == ']' ? SPOT_TN_LIST : SPOT_TN_TUPLE;
    return close == ')' && n == 1 && !has_comma ? list->a : list;
}

static node *parse_dict(struct spot_tparser *p)
{
    node *const dict = spot_tp_new_node(p, SPOT_TN_DICT), **end = &dict->a;

    spot_tp_accept(p, '{');
    while (!spot_tp_accept(p, '}') && !p->lex.has_failed) {
        node *const pair = spot_tp_new_node(p, SPOT_TN_PAIR);

        pair->a = spot_tp_expression(p);
        spot_tp_expect(p, ':', "':'");
        pair->b = spot_tp_expression(p);
        *end = pair;
        end = &pair->next;
        if (!spot_tp_accept(p, ',') && !spot_tp_is(p, '}'))
            spot_tp_fail(p, "expected ',' or '}'");
    }
    return dict;
}

static node *parse_constant(struct spot_tparser *p, struct spot_tv value)
{
    node *const n = spot_tp_new_node(p, SPOT_TN_CONST);

    n->value = value;
    spot_tlex_next(&p->lex);
    return n;
}

static node *parse_primary(struct spot_tparser *p)
{
    const struct spot_tv value = p->lex.token.value;
    node *n;

    if (spot_tp_is_name(p, "true") || spot_tp_is_name(p, "True"))
        return parse_constant(p, spot_tv_bool(true));
    if (spot_tp_is_name(p, "false") || spot_tp_is_name(p, "False"))
        return parse_constant(p, spot_tv_bool(false));
    if (spot_tp_is_name(p, "none") || spot_tp_is_name(p, "None"))
        return parse_constant(p, spot_tv_none());
    if (spot_tp_is(p, SPOT_TTOKEN_NAME))
        return spot_tp_name(p);
    if (spot_tp_is(p, SPOT_TTOKEN_NUMBER))
        return parse_constant(p, value);
    if (spot_tp_is(p, '(') || spot_tp_is(p, '['))
        return parse_brackets(p);
    if (spot_tp_is(p, '{'))
        return parse_dict(p);
    if (!spot_tp_is(p, SPOT_TTOKEN_TEXT)) {
        spot_tp_fail(p, "expected an expression");
        return spot_tp_new_node(p, SPOT_TN_CONST);
    }
    n = parse_constant(p, value);
    while (spot_tp_is(p, SPOT_TTOKEN_TEXT)) { /* adjacent texts are concatenated */
        n = new_pair(p, SPOT_TN_BINARY, n, parse_constant(p, p->lex.token.value));
        n->op = '~';
    }
    return n;
}

/* [value =] expression, ...: after the opening parenthesis. */
node *spot_tp_arguments(struct spot_tparser *p, bool is_macro)
{
    node *first = NULL, **end = &first;
    size_t n = 0;

    while (!spot_tp_accept(p, ')') && !p->lex.has_failed) {
        node *const arg = spot_tp_new_node(p, SPOT_TN_ARG);

        if (spot_tp_is(p, '*') || spot_tp_is(p, '^')) {
            arg->op = (char)p->lex.token.type;
            spot_tlex_next(&p->lex);
            if (is_macro)
                spot_tp_fail(p, "a macro of any number of arguments is not supported");
        }
        arg->a = is_macro ? spot_tp_name(p) : spot_tp_expression(p);
        if (is_macro) {
            arg->name = arg->a->name;
            arg->value = arg->a->value;
            arg->a = spot_tp_accept(p, '=') ? spot_tp_expression(p) : NULL;
        } else if (arg->a->type == SPOT_TN_NAME && spot_tp_accept(p, '=')) {
            arg->value = arg->a->value;
            arg->a = spot_tp_expression(p);
        }
        if (++n > SPOT_TARGS_MAX)
            spot_tp_fail(p, "more than 16 arguments");
        *end = arg;
        end = &arg->next;
        if (!spot_tp_accept(p, ',') && !spot_tp_is(p, ')'))
            spot_tp_fail(p, "expected ',' or ')'");
    }
    return first;
}

static node *parse_subscript(struct spot_tparser *p, node *of)
{
    node *const n = new_pair(p, SPOT_TN_ITEM, of, NULL);
    node **const part[] = { &n->b, &n->c, &n->d };
    size_t i = 0;

    spot_tp_accept(p, '[');
    for (;; i++) {
        if (!spot_tp_is(p, ':') && !spot_tp_is(p, ']'))
            *part[i] = spot_tp_expression(p);
        if (i == 2 || !spot_tp_accept(p, ':'))
            break;
    }
    if (i)
        n->type = SPOT_TN_SLICE;
    else if (!n->b)
        spot_tp_fail(p, "expected a subscript");
    spot_tp_expect(p, ']', "']'");
    return n;
}

node *spot_tp_attribute(struct spot_tparser *p, node *of)
{
    node *n = new_pair(p, SPOT_TN_ATTR, of, NULL);

    spot_tp_accept(p, '.');
    n->value = p->lex.token.value;
    if (spot_tp_is(p, SPOT_TTOKEN_NUMBER) && n->value.kind == SPOT_TV_INT) {
        n->type = SPOT_TN_ITEM;
        n->b = parse_constant(p, n->value);
    } else {
        spot_tp_expect(p, SPOT_TTOKEN_NAME, "a name behind '.'");
    }
    return n;
}

static node *parse_postfix(struct spot_tparser *p, node *n)
{
    const uint32_t depth = p->depth;

    while ((spot_tp_is(p, '.') || spot_tp_is(p, '[') || spot_tp_is(p, '(')) && spot_tp_deeper(p)) {
        if (spot_tp_is(p, '.')) {
            n = spot_tp_attribute(p, n);
        } else if (spot_tp_is(p, '[')) {
            n = parse_subscript(p, n);
        } else {
            n = new_pair(p, SPOT_TN_CALL, n, NULL);
            spot_tp_accept(p, '(');
            n->b = spot_tp_arguments(p, false);
        }
    }
    p->depth = depth;
    return n;
}

node *spot_tp_filter(struct spot_tparser *p, node *of)
{
    node *const n = new_pair(p, SPOT_TN_FILTER, of, NULL);

    n->builtin = builtin_of(p, SPOT_TUSE_FILTER);
    if (spot_tp_accept(p, '('))
        n->b = spot_tp_arguments(p, false);
    return n;
}

/* Parses a test, which may have one argument without parentheses. */
static node *parse_test(struct spot_tparser *p, node *of)
{
    const bool is_not = spot_tp_accept_name(p, "not");
    node *const n = new_pair(p, SPOT_TN_TEST, of, NULL);

    n->builtin = builtin_of(p, SPOT_TUSE_TEST);
    if (spot_tp_accept(p, '(')) {
        n->b = spot_tp_arguments(p, false);
    } else if ((spot_tp_is(p, SPOT_TTOKEN_NAME) || spot_tp_is(p, SPOT_TTOKEN_TEXT) ||
                spot_tp_is(p, SPOT_TTOKEN_NUMBER) || spot_tp_is(p, '[') || spot_tp_is(p, '{')) &&
               !spot_tp_is_name(p, "else") && !spot_tp_is_name(p, "or") &&
               !spot_tp_is_name(p, "and") && n->builtin && n->builtin->params &&
               *n->builtin->params) {
        n->b = spot_tp_new_node(p, SPOT_TN_ARG);
        n->b->a = parse_postfix(p, parse_primary(p));
    }
    return is_not ? new_pair(p, SPOT_TN_NOT, n, NULL) : n;
}

static node *parse_unary(struct spot_tparser *p, bool has_filters)
{
    const uint32_t depth = p->depth;
    node *n;

    if (!spot_tp_deeper(p))
        return spot_tp_new_node(p, SPOT_TN_CONST);
    if (spot_tp_accept(p, '-'))
        n = new_pair(p, SPOT_TN_NEG, parse_unary(p, false), NULL);
    else if (spot_tp_accept(p, '+'))
        n = new_pair(p, SPOT_TN_POS, parse_unary(p, false), NULL);
    else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    while (has_filters && spot_tp_deeper(p)) {
        if (spot_tp_accept(p, '|'))
            n = spot_tp_filter(p, n);
        else if (spot_tp_accept_name(p, "is"))
            n = parse_test(p, n);
        else if (spot_tp_is(p, '('))
            n = parse_postfix(p, n);
        else
            break;
    }
    p->depth = depth;
    return n;
}

/* Consumes the operator of a comparison; 0: none. */
static char accept_comparison(struct spot_tparser *p)
{
    static const char op[][2] = { "EE", "NN", "<<", ">>", "LL", "GG" };
    const struct spot_tlex before = p->lex;

    for (size_t i = 0; i < sizeof(op) / sizeof(op[0]); i++)
        if (spot_tp_accept(p, op[i][0]))
            return op[i][1];
    if (spot_tp_accept_name(p, "in"))
        return 'i';
    if (spot_tp_accept_name(p, "not")) {
        if (spot_tp_accept_name(p, "in"))
            return 'n';
        if (!p->lex.has_failed)
            p->lex = before;
    }
    return 0;
}

/* Ranks of left-associative operators, loosest first: "or", "and", prefix "not", comparisons, then
 * arithmetic. */
enum { RANK_OR, RANK_AND, RANK_NOT, RANK_COMPARE, RANK_SUM, RANK_POWER = 7 };

static node *parse_rank(struct spot_tparser *p, int rank);

static node *parse_compare(struct spot_tparser *p)
{
    node *const first = parse_rank(p, RANK_SUM), *compare = NULL, **end = NULL;
    char op;

    while ((op = accept_comparison(p))) {
        node *const n = spot_tp_new_node(p, SPOT_TN_COMPARE);

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

/* Consumes an operator of this rank; 0: another token. */
static char accept_operator(struct spot_tparser *p, int rank)
{
    static const char op[4][5] = { "+-", "~", "*/F%", "^" };
    const int type = p->lex.token.type;

    if (rank < RANK_NOT)
        return spot_tp_accept_name(p, rank == RANK_OR ? "or" : "and") ? '&' : '\0';
    return type < SPOT_TTOKEN_CLOSE && strchr(op[rank - RANK_SUM], type) && spot_tp_accept(p, type)
               ? (char)type
               : '\0';
}

static node *parse_rank(struct spot_tparser *p, int rank)
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
        if (!spot_tp_is_name(p, "not") || !spot_tp_deeper(p))
            return parse_rank(p, RANK_COMPARE);
        n = spot_tp_new_node(p, SPOT_TN_NOT);
        spot_tp_accept_name(p, "not");
        n->a = parse_rank(p, RANK_NOT);
        p->depth = depth;
        return n;
    }
    n = parse_rank(p, rank + 1);
    while (spot_tp_deeper(p) && (op = accept_operator(p, rank))) {
        n = new_pair(p, rank < RANK_NOT ? type[rank] : SPOT_TN_BINARY, n, NULL);
        n->op = op;
        n->b = parse_rank(p, rank + 1);
    }
    p->depth = depth;
    return n;
}

node *spot_tp_or(struct spot_tparser *p)
{
    return parse_rank(p, RANK_OR);
}

node *spot_tp_expression(struct spot_tparser *p)
{
    const uint32_t depth = p->depth;
    node *n;

    if (!spot_tp_deeper(p))
        return spot_tp_new_node(p, SPOT_TN_CONST);
    n = spot_tp_or(p);
    while (spot_tp_is_name(p, "if") && spot_tp_deeper(p)) {
        node *const cond = spot_tp_new_node(p, SPOT_TN_COND);

        spot_tp_accept_name(p, "if");
        cond->b = n;
        cond->a = spot_tp_or(p);
        cond->c = spot_tp_accept_name(p, "else") ? spot_tp_expression(p) : NULL;
        n = cond;
    }
    p->depth = depth;
    return n;
}

/* a, b without parentheses; `item` reads each. */
node *spot_tp_tuple(struct spot_tparser *p, node *(*item)(struct spot_tparser *p))
{
    node *const first = item(p), *tuple, **end;

    if (!spot_tp_is(p, ','))
        return first;
    tuple = new_pair(p, SPOT_TN_TUPLE, first, NULL);
    end = &first->next;
    while (spot_tp_accept(p, ',') && !spot_tp_is(p, SPOT_TTOKEN_CLOSE) && !spot_tp_is(p, '=') &&
           !spot_tp_is_name(p, "in")) {
        *end = item(p);
        end = &(*end)->next;
    }
    return tuple;
}
