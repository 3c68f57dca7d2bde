/* SPDX-License-Identifier: MIT */
/* openai_state.h - OpenAI's documents, as written by the front. */
#ifndef SPOT_SERVE_OPENAI_STATE_H
#define SPOT_SERVE_OPENAI_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "serve/front.h"

#ifdef __cplusplus
extern "C" {
#endif

/* {"error": {message, type, param, code}}; param and code may be NULL. Returns status. */
int spot_openai_error(int status, const char *type, const char *param, const char *code,
                      struct spot_buf *out, const char *fmt, ...) SPOT_PRINTF(6, 7);

/* {"error": ...} for a request that was given up. Returns the status. */
int spot_openai_given_up(const struct spot_completion *c, struct spot_buf *out);

/* The chunk for one committed token of a stream. Includes its worker if requested, whose name is
 * NULL if not known. */
void spot_openai_chunk(const struct spot_front_options *options, const struct spot_completion *c,
                       uint32_t choice, size_t position, bool tells_worker, const char *worker,
                       struct spot_buf *out);
/* The last chunk of a stream with usage. */
void spot_openai_usage_chunk(const struct spot_front_options *options,
                             const struct spot_completion *c, struct spot_buf *out);
/* All models, or one; there is only one. */
void spot_openai_models(const struct spot_front_options *options, bool is_list, int64_t created_s,
                        struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_OPENAI_STATE_H */
