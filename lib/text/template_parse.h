/* SPDX-License-Identifier: MIT */
/* template_parse.h - the parser of expressions, for use by the parser of statements. Only the first
 * error is kept (spot_tlex_fail); all functions continue to the end. */
#ifndef SPOT_TEXT_TEMPLATE_PARSE_H
#define SPOT_TEXT_TEMPLATE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "text/template_lex.h"
#include "text/template_state.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_tparser {
    struct spot_tlex lex;
    struct spot_template *t;
    uint32_t depth, n_loop;
    bool is_scoped; /* inside of a loop or a macro */
};

/* Report an error at the current token. */
void spot_tp_fail(struct spot_tparser *p, const char *what);
struct spot_tnode *spot_tp_new_node(struct spot_tparser *p, enum spot_tnode_type type);
bool spot_tp_is(const struct spot_tparser *p, int type);
bool spot_tp_is_name(const struct spot_tparser *p, const char *name);
bool spot_tp_accept(struct spot_tparser *p, int type);
bool spot_tp_accept_name(struct spot_tparser *p, const char *name);
void spot_tp_expect(struct spot_tparser *p, int type, const char *what);
bool spot_tp_deeper(struct spot_tparser *p);
uint32_t spot_tp_name_of(struct spot_tparser *p, struct spot_tv name);
struct spot_tnode *spot_tp_name(struct spot_tparser *p);
struct spot_tnode *spot_tp_tuple(struct spot_tparser *p,
                                 struct spot_tnode *(*item)(struct spot_tparser *p));
struct spot_tnode *spot_tp_expression(struct spot_tparser *p);
struct spot_tnode *spot_tp_or(struct spot_tparser *p);
struct spot_tnode *spot_tp_attribute(struct spot_tparser *p, struct spot_tnode *of);
struct spot_tnode *spot_tp_filter(struct spot_tparser *p, struct spot_tnode *of);
struct spot_tnode *spot_tp_arguments(struct spot_tparser *p, bool is_macro);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_TEMPLATE_PARSE_H */
