/* SPDX-License-Identifier: MIT */
/* engine_preset.h - the HTTP interfaces of foreign engines, which complete a prompt. Each kind has
 * a row; kinds with the same dialect have the same bodies and answers. All end a completion when
 * its connection is closed.
 */
#ifndef SPOT_SERVE_ENGINE_PRESET_H
#define SPOT_SERVE_ENGINE_PRESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "serve/completion.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_engine_dialect {
    SPOT_ENGINE_VLLM,         /* /v1/completions, server-sent events */
    SPOT_ENGINE_TRANSFORMERS, /* the same, with sampling parameters of its own library */
    SPOT_ENGINE_LLAMA,        /* /completion */
    SPOT_ENGINE_SGLANG,       /* /generate */
    SPOT_ENGINE_TGI,          /* /generate_stream */
    SPOT_ENGINE_OLLAMA,       /* /api/generate, JSON Lines */
};

struct spot_engine_preset {
    const char *name;
    const char *words; /* words of its command, separated by blanks: "vllm" of "vllm serve M" */
    enum spot_engine_dialect dialect;
    const char *health, *complete; /* paths; health answers 200 once it can complete */
    const char *about;             /* path that returns the model and the context */
    const char *only_here;         /* only this kind answers this path with 200; NULL: none */
    /* accepts and returns token ids, and supports grammars, biases and ignored end tokens */
    bool takes_ids;
};

/* A kind by its name, NULL: unknown. Below: by its index from 0, NULL past the last. */
const struct spot_engine_preset *spot_engine_preset_find(const char *name);
/* The kind whose word equals, or begins, the first matching word of a command, ignoring
 * directories. */
const struct spot_engine_preset *spot_engine_preset_of(const char *command);
const struct spot_engine_preset *spot_engine_preset_at(size_t i);

/* Information about an engine, from the answer of `about`. */
struct spot_engine_about {
    char model[256];   /* the first model that it names; "": none */
    int64_t n_context; /* context in tokens; 0: not reported */
};
/* `wanted`: choose this of several models, NULL: any. Returns 0, or -1 with *err (SPOT_EDATA) for
 * an invalid answer or a missing model. */
int spot_engine_about_read(const struct spot_engine_preset *preset, const char *wanted,
                           const char *body, size_t n_byte, struct spot_engine_about *about,
                           struct spot_err *err);

/* --- a completion ----------------------------------------------------------- */

struct spot_engine_ask {
    const struct spot_request *request; /* one prompt */
    const char *model;
    const uint32_t *token; /* [n] tokens so far, after the prompt */
    size_t n;
    int64_t n_most;   /* tokens of this answer */
    bool ignores_end; /* in it */
    bool is_text;     /* prompt and tokens are bytes (completion.h, pieces) */
    bool is_whole;    /* not as a stream */
    uint32_t seed;
    const void *grammar; /* [n_grammar] grammar of the rest; n_grammar 0: none */
    size_t n_grammar;
};
void spot_engine_put_body(const struct spot_engine_preset *preset,
                          const struct spot_engine_ask *ask, struct spot_buf *out);
/* Returns 0, or -1 with *err (SPOT_EDATA) if this kind of engine does not support the request. */
int spot_engine_check(const struct spot_engine_preset *preset, const struct spot_request *request,
                      bool is_text, struct spot_err *err);

enum spot_engine_end { SPOT_ENGINE_GOES_ON, SPOT_ENGINE_STOP, SPOT_ENGINE_LENGTH };

/* An event of a stream, or a whole answer. */
struct spot_engine_event {
    struct spot_token *token; /* [n_token] */
    size_t n_token, cap_token;
    int64_t n_before; /* tokens of this answer before these; -1: not known */
    int64_t n_all;    /* all tokens so far, including those without reported ids; -1: not known */
    struct spot_buf text;
    enum spot_engine_end end;
};
void spot_engine_event_release(struct spot_engine_event *e);
/* Returns 0, or -1 with *err (SPOT_EDATA): an error reported by the engine, or an invalid event.
 */
int spot_engine_event_read(const struct spot_engine_preset *preset, const char *text, size_t n_byte,
                           struct spot_engine_event *event, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_ENGINE_PRESET_H */
