/* SPDX-License-Identifier: MIT */
/* template_run.h - functions that the renderers of expressions and of statements call from each
 * other. */
#ifndef SPOT_TEXT_TEMPLATE_RUN_H
#define SPOT_TEXT_TEMPLATE_RUN_H

#include "text/template_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Call a macro; returns its output. */
struct spot_tv spot_trender_macro(struct spot_tcall *c, const struct spot_tnode *macro);
/* Apply a chain of filters to `base`. */
struct spot_tv spot_trender_filters(struct spot_trender *r, const struct spot_tnode *e,
                                    struct spot_tv base);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_TEMPLATE_RUN_H */
