/* SPDX-License-Identifier: MIT */
/* Templates parsed to a tree, by Jinja's own grammar: statements. */
#include "text/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "text/template_parse.h"

typedef struct spot_tnode node;

static node *parse_body(struct spot_tparser *p);

static void expect_close(struct spot_tparser *p)
{
    if (!spot_tp_is(p, SPOT_TTOKEN_CLOSE))
        spot_tp_fail(p, "expected the end of the tag");
}

/* --- statements ------------------------------------------------------------------------- */

static node *parse_target_name(struct spot_tparser *p)
{
    node *const n = spot_tp_name(p);

    return spot_tp_is(p, '.') ? spot_tp_attribute(p, n) : n;
}

static node *parse_target(struct spot_tparser *p)
{
    const bool has_parentheses = spot_tp_accept(p, '(');
    node *const n = spot_tp_tuple(p, parse_target_name);

    if (has_parentheses)
        spot_tp_expect(p, ')', "')'");
    return n;
}

/* Parses a body up to a tag of this name, and that tag. */
static node *parse_until(struct spot_tparser *p, const char *name)
{
    node *body;
    char text[64];

    expect_close(p);
    body = parse_body(p);
    snprintf(text, sizeof(text), "expected '%s'", name);
    if (!spot_tp_accept_name(p, name))
        spot_tp_fail(p, text);
    return body;
}

static node *parse_if(struct spot_tparser *p)
{
    node *const first = spot_tp_new_node(p, SPOT_TN_IF), *n = first;

    n->a = spot_tp_tuple(p, spot_tp_expression);
    expect_close(p);
    n->b = parse_body(p);
    while (spot_tp_is_name(p, "elif")) {
        n->d = spot_tp_new_node(p, SPOT_TN_IF);
        n = n->d;
        spot_tp_accept_name(p, "elif");
        n->a = spot_tp_tuple(p, spot_tp_expression);
        expect_close(p);
        n->b = parse_body(p);
    }
    if (spot_tp_accept_name(p, "else"))
        n->c = parse_until(p, "endif");
    else if (!spot_tp_accept_name(p, "endif"))
        spot_tp_fail(p, "expected 'elif', 'else' or 'endif'");
    return first;
}

static node *parse_for(struct spot_tparser *p)
{
    const bool was_scoped = p->is_scoped;
    node *const n = spot_tp_new_node(p, SPOT_TN_FOR);

    n->name = spot_tp_name_of(p, spot_tv_text("loop", 4));
    n->a = parse_target(p);
    if (!spot_tp_accept_name(p, "in"))
        spot_tp_fail(p, "expected 'in'");
    n->b = spot_tp_tuple(p, spot_tp_or);
    n->d = spot_tp_accept_name(p, "if") ? spot_tp_expression(p) : NULL;
    if (spot_tp_is_name(p, "recursive"))
        spot_tp_fail(p, "recursive loops are not supported");
    expect_close(p);
    p->n_loop++;
    p->is_scoped = true;
    n->c = parse_body(p);
    p->n_loop--;
    if (spot_tp_accept_name(p, "else"))
        n->e = parse_until(p, "endfor");
    else if (!spot_tp_accept_name(p, "endfor"))
        spot_tp_fail(p, "expected 'else' or 'endfor'");
    p->is_scoped = was_scoped;
    return n;
}

static node *parse_set(struct spot_tparser *p)
{
    node *const n = spot_tp_new_node(p, SPOT_TN_SET);

    n->a = parse_target(p);
    if (spot_tp_accept(p, '=')) {
        n->b = spot_tp_tuple(p, spot_tp_expression);
        return n;
    }
    if (n->a->type == SPOT_TN_TUPLE)
        spot_tp_fail(p, "expected '='");
    n->b = spot_tp_new_node(p, SPOT_TN_CONST);
    while (spot_tp_accept(p, '|'))
        n->b = spot_tp_filter(p, n->b);
    n->c = parse_until(p, "endset");
    if (!n->c)
        n->c = spot_tp_new_node(p, SPOT_TN_DATA);
    return n;
}

static node *parse_macro(struct spot_tparser *p)
{
    const uint32_t n_loop = p->n_loop;
    node *const n = spot_tp_name(p);

    n->type = SPOT_TN_MACRO;
    if (p->is_scoped)
        spot_tp_fail(p, "a macro inside of a loop or a macro is not supported");
    spot_tp_expect(p, '(', "'('");
    n->b = spot_tp_arguments(p, true);
    p->n_loop = 0;
    p->is_scoped = true;
    n->c = parse_until(p, "endmacro");
    p->n_loop = n_loop;
    p->is_scoped = false;
    return n;
}

/* Parses a statement within a tag. NULL: the tag does not begin a statement. */
static node *parse_statement(struct spot_tparser *p)
{
    node *n;

    if (spot_tp_accept_name(p, "if"))
        return parse_if(p);
    if (spot_tp_accept_name(p, "for"))
        return parse_for(p);
    if (spot_tp_accept_name(p, "set"))
        return parse_set(p);
    if (spot_tp_accept_name(p, "macro"))
        return parse_macro(p);
    if (spot_tp_accept_name(p, "generation")) {
        n = spot_tp_new_node(p, SPOT_TN_SCOPE);
        n->c = parse_until(p, "endgeneration");
        return n;
    }
    if (!spot_tp_is_name(p, "break") && !spot_tp_is_name(p, "continue"))
        return NULL;
    n = spot_tp_new_node(p, spot_tp_is_name(p, "break") ? SPOT_TN_BREAK : SPOT_TN_CONTINUE);
    if (!p->n_loop)
        spot_tp_fail(p, "outside of a loop");
    spot_tp_accept(p, SPOT_TTOKEN_NAME);
    return n;
}

/* Parses up to a tag that begins no statement, whose name is then the current token; CLOSE at the
 * end of the template. */
static node *parse_body(struct spot_tparser *p)
{
    const uint32_t depth = p->depth;
    node *first = NULL, **end = &first, *n;

    while (!p->lex.has_failed && spot_tp_deeper(p)) {
        const struct spot_tv data = spot_tlex_data(&p->lex);

        if (data.n) {
            *end = spot_tp_new_node(p, SPOT_TN_DATA);
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
            n = spot_tp_new_node(p, SPOT_TN_PRINT);
            n->a = spot_tp_tuple(p, spot_tp_expression);
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

/* Normalises line ends like Jinja, and drops the last one. */
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
    struct spot_tparser p = { .t = t, .lex = { .source = source, .err = err, .line = 1 } };

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
