/* SPDX-License-Identifier: MIT */
/* template_run.h - between the expressions and the statements of a rendering. */
#ifndef SPOT_TEXT_TEMPLATE_RUN_H
#define SPOT_TEXT_TEMPLATE_RUN_H

#include "text/template_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a macro writes. */
struct spot_tv spot_trender_macro(struct spot_tcall *c, const struct spot_tnode *macro);
/* `base` through a chain of filters. */
struct spot_tv spot_trender_filters(struct spot_trender *r, const struct spot_tnode *e,
                                    struct spot_tv base);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_TEMPLATE_RUN_H */
