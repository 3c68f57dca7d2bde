/* SPDX-License-Identifier: MIT */
/* Renders a template: its statements. */
#include <stdlib.h>

#include "common/xalloc.h"
#include "text/template_run.h"

typedef const struct spot_tnode node;

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static enum flow run(struct spot_trender *r, node *n);

/* --- variables ----------------------------------------------------------------------- */

static void set(struct spot_trender *r, uint32_t name, struct spot_tv value)
{
    if (r->is_scoped) {
        r->saved = spot_xgrow(r->saved, &r->saved_cap, r->n_saved + 1, sizeof(*r->saved));
        r->saved[r->n_saved++] = (struct spot_tsaved){ name, r->var[name] };
    }
    r->var[name] = value;
}

static void restore(struct spot_trender *r, size_t mark)
{
    while (r->n_saved > mark) {
        r->n_saved--;
        r->var[r->saved[r->n_saved].name] = r->saved[r->n_saved].value;
    }
}

static void swap(struct spot_trender *r, size_t i)
{
    const struct spot_tv value = r->var[r->saved[i].name];

    r->var[r->saved[i].name] = r->saved[i].value;
    r->saved[i].value = value;
}

static void assign(struct spot_trender *r, node *target, struct spot_tv value)
{
    struct spot_tv list;
    size_t n = 0;

    if (target->type == SPOT_TN_NAME) {
        set(r, target->name, value);
    } else if (target->type == SPOT_TN_ATTR) {
        list = spot_template_eval(r, target->a);
        if (list.kind == SPOT_TV_NAMESPACE)
            spot_tv_put(r, list, target->value, value);
        else
            spot_trender_fail(r, target, "cannot assign attribute on non-namespace object");
    } else {
        list = spot_tv_list(r, target, value);
        for (node *t = target->a; t && !r->has_failed; t = t->next, n++)
            if (n < spot_tv_size(list))
                assign(r, t, spot_tv_entry(r, list, n));
        if (n != spot_tv_size(list))
            spot_trender_fail(r, target, "%zu values for %zu names", spot_tv_size(list), n);
    }
}

/* --- statements ------------------------------------------------------------------------ */

static enum flow run_scoped(struct spot_trender *r, node *body)
{
    const bool was_scoped = r->is_scoped;
    const size_t mark = r->n_saved;
    enum flow flow;

    r->is_scoped = true;
    flow = run(r, body);
    restore(r, mark);
    r->is_scoped = was_scoped;
    return flow;
}

static struct spot_tv captured(struct spot_trender *r, node *body)
{
    struct spot_buf text = { 0 }, *const out = r->out;

    r->out = &text;
    (void)run_scoped(r, body);
    r->out = out;
    return spot_trender_text(r, &text);
}

struct spot_tv spot_trender_macro(struct spot_tcall *c, node *macro)
{
    struct spot_trender *const r = c->r;
    const size_t begin = r->begin, mark = r->n_saved;
    const bool was_scoped = r->is_scoped;
    struct spot_tv out = spot_tv_text("", 0);
    size_t i = 0, n_used = 0;

    if (!spot_trender_enter(r))
        return out;
    for (size_t k = mark; k > begin; k--) /* variables set by loops around the call are hidden */
        swap(r, k - 1);
    r->begin = mark;
    r->is_scoped = true;
    for (node *p = macro->b; p && !r->has_failed; p = p->next, i++) {
        size_t k = i;

        if (i >= c->n || spot_tv_is_text(c->name[i]))
            for (k = 0; k < c->n; k++)
                if (spot_tv_is_text(c->name[k]) && c->name[k].n == p->value.n &&
                    !memcmp(c->name[k].u.s, p->value.u.s, p->value.n))
                    break;
        n_used += k < c->n;
        set(r, p->name,
            k < c->n ? c->arg[k]
            : p->a   ? spot_template_eval(r, p->a)
                     : spot_tv_undefined(p->value.u.s, p->value.n));
    }
    if (n_used < c->n)
        spot_trender_fail(r, c->at, "the macro '%.*s' does not take all these arguments",
                          (int)macro->value.n, macro->value.u.s);
    if (!r->has_failed)
        out = captured(r, macro->c);
    restore(r, mark);
    for (size_t k = begin; k < mark; k++)
        swap(r, k);
    r->begin = begin;
    r->is_scoped = was_scoped;
    r->depth--;
    return out;
}

/* The items for which the loop's condition holds. */
static struct spot_tv chosen(struct spot_trender *r, node *n, struct spot_tv list)
{
    struct spot_tv out = spot_tv_new(r, SPOT_TV_LIST, spot_tv_size(list));
    uint32_t n_out = 0;

    for (size_t i = 0; i < spot_tv_size(list) && spot_trender_spend(r, 1); i++) {
        const size_t mark = r->n_saved;
        const struct spot_tv item = spot_tv_entry(r, list, i);

        assign(r, n->a, item);
        if (!r->has_failed && spot_tv_truth(spot_template_eval(r, n->d)) && n_out < out.n)
            out.u.item[n_out++] = item;
        restore(r, mark);
    }
    out.n = n_out;
    return out;
}

static void run_loop(struct spot_trender *r, node *n, struct spot_tv list)
{
    const struct spot_tv it = { .kind = SPOT_TV_LOOP,
                                .u.loop = spot_trender_memory(r, 1, sizeof(struct spot_tloop)) };
    struct spot_tloop *const loop = (struct spot_tloop *)(uintptr_t)it.u.loop;
    enum flow flow = FLOW_ON;

    if (!loop)
        return;
    loop->list = list;
    for (uint32_t i = 0; i < spot_tv_size(list) && flow != FLOW_BREAK && spot_trender_spend(r, 1);
         i++) {
        const size_t mark = r->n_saved;

        loop->at = i;
        set(r, n->name, it);
        assign(r, n->a, spot_tv_entry(r, list, i));
        flow = run(r, n->c);
        restore(r, mark);
    }
}

static void run_for(struct spot_trender *r, node *n)
{
    const bool was_scoped = r->is_scoped;
    struct spot_tv list = spot_tv_list(r, n->b, spot_template_eval(r, n->b));

    if (r->has_failed)
        return;
    r->is_scoped = true;
    if (n->d)
        list = chosen(r, n, list);
    if (!r->has_failed && spot_tv_size(list))
        run_loop(r, n, list);
    else if (!r->has_failed && n->e)
        (void)run_scoped(r, n->e);
    r->is_scoped = was_scoped;
}

static enum flow run_if(struct spot_trender *r, node *n)
{
    for (;; n = n->d) { /* the next node is an 'elif' */
        const bool is = spot_tv_truth(spot_template_eval(r, n->a));

        if (r->has_failed)
            return FLOW_ON;
        if (is || !n->d)
            return is ? run(r, n->b) : n->c ? run(r, n->c) : FLOW_ON;
    }
}

static enum flow run_one(struct spot_trender *r, node *n)
{
    struct spot_tv v;

    switch ((enum spot_tnode_type)n->type) {
    case SPOT_TN_DATA:
        spot_tv_print(r, n->value, r->out);
        break;
    case SPOT_TN_PRINT:
        v = spot_template_eval(r, n->a);
        if (!r->has_failed)
            spot_tv_print(r, v, r->out);
        break;
    case SPOT_TN_IF:
        return run_if(r, n);
    case SPOT_TN_FOR:
        run_for(r, n);
        break;
    case SPOT_TN_SET:
        v = n->c ? spot_trender_filters(r, n->b, captured(r, n->c)) : spot_template_eval(r, n->b);
        if (!r->has_failed)
            assign(r, n->a, v);
        break;
    case SPOT_TN_MACRO:
        set(r, n->name, (struct spot_tv){ .kind = SPOT_TV_MACRO, .u.macro = n });
        break;
    case SPOT_TN_SCOPE:
        return run_scoped(r, n->c);
    case SPOT_TN_BREAK:
        return FLOW_BREAK;
    case SPOT_TN_CONTINUE:
        return FLOW_CONTINUE;
    default:
        break;
    }
    return FLOW_ON;
}

static enum flow run(struct spot_trender *r, node *n)
{
    enum flow flow = FLOW_ON;

    if (!spot_trender_enter(r))
        return flow;
    for (; n && flow == FLOW_ON && spot_trender_spend(r, 1); n = n->next)
        flow = run_one(r, n);
    r->depth--;
    return flow;
}

/* --- rendering ----------------------------------------------------------------------------- */

static void set_context(struct spot_trender *r, const struct spot_template_input *input)
{
    for (size_t i = 0; i < r->t->n_name; i++) {
        const struct spot_tv name = r->t->name[i];
        const struct spot_tbuiltin *const b = spot_tbuiltin_find(SPOT_TUSE_FUNCTION, name);
        const struct spot_json_value *json = NULL;

        for (size_t k = 0; !json && k < 2; k++)
            if (input->values[k])
                json = spot_json_find(input->values[k], name.u.s, name.n);
        r->var[i] = json ? spot_tv_of_json(r, json)
                    : b  ? (struct spot_tv){ .kind = SPOT_TV_BUILTIN, .u.builtin = b }
                         : spot_tv_undefined(name.u.s, name.n);
    }
}

int spot_template_render(const struct spot_template *t, const struct spot_template_input *input,
                         struct spot_buf *out, struct spot_err *err)
{
    struct spot_buf text = { 0 };
    struct spot_trender r = { .t = t, .err = err, .now_s = input->now_s, .out = &text };

    r.var = spot_xcalloc(t->n_name, sizeof(*r.var));
    set_context(&r, input);
    if (t->first)
        (void)run(&r, t->first);
    if (!r.has_failed)
        spot_buf_add(out, text.data, text.n);
    spot_buf_release(&text);
    for (size_t i = 0; i < r.n_block; i++)
        free(r.block[i]);
    free(r.block);
    free(r.saved);
    free(r.var);
    return r.has_failed ? -1 : 0;
}
