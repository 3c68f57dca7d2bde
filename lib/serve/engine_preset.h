/* SPDX-License-Identifier: MIT */
/* engine_preset.h - how other people's engines name things.
 *
 * An engine is somebody's HTTP server that completes a prompt. Each kind has a row; those of a
 * dialect have the same bodies and answers. All end a completion when its connection is closed.
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
    SPOT_ENGINE_TRANSFORMERS, /* the same; how it samples is told as of its own library */
    SPOT_ENGINE_LLAMA,        /* /completion */
    SPOT_ENGINE_SGLANG,       /* /generate */
    SPOT_ENGINE_TGI,          /* /generate_stream */
    SPOT_ENGINE_OLLAMA,       /* /api/generate, JSON Lines */
};

struct spot_engine_preset {
    const char *name;
    const char *words; /* of its command, separated by blanks: "vllm" of "vllm serve M" */
    enum spot_engine_dialect dialect;
    const char *health, *complete; /* paths; health answers 200 once it can complete */
    const char *about;             /* tells the model and the context */
    const char *only_here;         /* this path answers 200 with this kind alone; NULL: none */
    /* prompts of token ids, and gives them back; and grammars, biases, ends that are ignored */
    bool takes_ids;
};

/* NULL: there is no such kind; i counts from 0, NULL behind the last. */
const struct spot_engine_preset *spot_engine_preset_find(const char *name);
/* Of the first word of a command, without directories, that is one of a kind or begins with it. */
const struct spot_engine_preset *spot_engine_preset_of(const char *command);
const struct spot_engine_preset *spot_engine_preset_at(size_t i);

/* What an engine says about itself, from the answer of `about`. */
struct spot_engine_about {
    char model[256];   /* ""; the first it names */
    int64_t n_context; /* 0: not told */
};
/* `wanted`: this of several models, NULL: any. Returns 0, or -1 with *err (SPOT_EDATA): it is no
 * answer of an engine, or does not have that model. */
int spot_engine_about_read(const struct spot_engine_preset *preset, const char *wanted,
                           const char *body, size_t n_byte, struct spot_engine_about *about,
                           struct spot_err *err);

/* --- a completion ----------------------------------------------------------- */

struct spot_engine_ask {
    const struct spot_request *request; /* one prompt */
    const char *model;
    const uint32_t *token; /* [n] so far, behind the prompt */
    size_t n;
    int64_t n_most;   /* tokens of this answer */
    bool ignores_end; /* in it */
    bool is_text;     /* prompt and tokens are bytes (completion.h, pieces) */
    bool is_whole;    /* not as a stream */
    uint32_t seed;
    const void *grammar; /* [n_grammar] of what may follow; n_grammar 0: anything */
    size_t n_grammar;
};
void spot_engine_put_body(const struct spot_engine_preset *preset,
                          const struct spot_engine_ask *ask, struct spot_buf *out);
/* Returns 0, or -1 with *err (SPOT_EDATA): the engine cannot be asked this. */
int spot_engine_check(const struct spot_engine_preset *preset, const struct spot_request *request,
                      bool is_text, struct spot_err *err);

enum spot_engine_end { SPOT_ENGINE_GOES_ON, SPOT_ENGINE_STOP, SPOT_ENGINE_LENGTH };

/* An event of a stream, or a whole answer. */
struct spot_engine_event {
    struct spot_token *token; /* [n_token] */
    size_t n_token, cap_token;
    int64_t n_before; /* tokens of this answer before these; -1: not told */
    int64_t n_all;    /* with these, and those whose ids it did not tell; -1: not told */
    struct spot_buf text;
    enum spot_engine_end end;
};
void spot_engine_event_release(struct spot_engine_event *e);
/* Returns 0, or -1 with *err (SPOT_EDATA): an error of the engine, or nothing that it should say.
 */
int spot_engine_event_read(const struct spot_engine_preset *preset, const char *text, size_t n_byte,
                           struct spot_engine_event *event, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_ENGINE_PRESET_H */
