/* SPDX-License-Identifier: MIT */
/* template.h - the subset of Jinja (https://jinja.palletsprojects.com) used by chat templates,
 * configured as in transformers: trim_blocks, lstrip_blocks, break and continue, generation blocks,
 * tojson without HTML escapes, raise_exception and strftime_now. Templates cannot read files or the
 * clock. A template is parsed once and rendered many times, from several threads at once.
 */
#ifndef SPOT_TEXT_TEMPLATE_H
#define SPOT_TEXT_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_TEMPLATE_MAX = 1 << 20,        /* bytes of a template */
    SPOT_TEMPLATE_NODES_MAX = 1 << 16,  /* approximate number of its tokens and tags */
    SPOT_TEMPLATE_DEPTH_MAX = 200,      /* depth of nesting, in a template and in values */
    SPOT_TEMPLATE_STEPS_MAX = 1 << 24,  /* of a rendering; long texts count as many */
    SPOT_TEMPLATE_MEMORY_MAX = 1 << 27, /* bytes of its output, and of its values */
};

struct spot_template;

/* `source` names it in messages. NULL with *err (SPOT_EDATA): source:line:column and the invalid or
 * unsupported syntax there. */
struct spot_template *spot_template_parse(const char *text, size_t n, const char *source,
                                          struct spot_err *err);
void spot_template_free(struct spot_template *t); /* may be NULL */

struct spot_template_input {
    const struct spot_json_value *values[2]; /* objects of variables, the first wins; NULL: none */
    int64_t now_s;                           /* for strftime_now, which is in UTC */
};

/* Append the result of rendering. Returns 0, or -1 with *err and nothing appended: SPOT_EDATA with
 * source:line:column, or the message that the template raises; SPOT_EINFEASIBLE beyond a limit
 * above. */
int spot_template_render(const struct spot_template *t, const struct spot_template_input *input,
                         struct spot_buf *out, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_TEMPLATE_H */
