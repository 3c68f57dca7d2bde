/* SPDX-License-Identifier: MIT */
/* Converts the prompts of a request, texts or tokens, to tokens. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/openai_body.h"

const char *spot_body_prompt_key(const struct spot_body *b)
{
    return b->api == SPOT_API_EMBEDDINGS ? "input" : "prompt";
}

static void take_tokens(struct spot_body *b, const struct spot_tokens *tokens)
{
    b->r->prompt = tokens->id;
    b->r->n_prompt = tokens->n;
    if (!tokens->n)
        spot_body_refuse(b, 400, spot_body_prompt_key(b), NULL, "The prompt has no tokens.");
}

/* --- prompts ------------------------------------------------------------------ */

static void add_ids(struct spot_body *b, const struct spot_json_value *list,
                    struct spot_tokens *tokens)
{
    const size_t n = spot_json_size(list);

    tokens->id = spot_xgrow(tokens->id, &tokens->cap, tokens->n + n, sizeof(*tokens->id));
    for (size_t i = 0; i < n; i++) {
        const struct spot_json_value *const v = spot_json_entry(list, i);

        if (!spot_json_is_integer(v) || spot_json_integer(v) < 0 ||
            spot_json_integer(v) >= b->options->n_vocabulary)
            spot_body_refuse(b, 400, spot_body_prompt_key(b), NULL,
                             "'%s' must be a text or tokens of 0 to %" PRId64 ".",
                             spot_body_prompt_key(b), b->options->n_vocabulary - 1);
        tokens->id[tokens->n++] = (uint32_t)spot_json_integer(v);
    }
}

/* Rejects a prompt of at least `n` tokens if that is too long. */
static bool is_too_long(struct spot_body *b, const char *param, size_t n_least)
{
    if (n_least <= (size_t)b->options->n_context)
        return false;
    spot_body_refuse(b, 400, param, "context_length_exceeded",
                     "This model's maximum context length is %" PRId64
                     " tokens. However, your %s resulted in at least %zu tokens.",
                     b->options->n_context, param, n_least);
    return true;
}

/* A text may be as long as a body. One that is longer than the context is not encoded: this is
 * detected by its bytes before, or by its tokens during, the encoding. */
static void encode(struct spot_body *b, const char *param, const char *text, size_t n,
                   struct spot_tokens *tokens)
{
    struct spot_bpe *const bpe = b->options->vocabulary->bpe;
    const size_t before = tokens->n;

    if (is_too_long(b, param, spot_bpe_least_tokens(bpe, n)))
        return;
    tokens->most = before + (size_t)b->options->n_context;
    spot_bpe_encode_named(bpe, text, n, tokens);
    (void)is_too_long(b, param, tokens->n - before);
}

static void add_some(const uint32_t *id, size_t n, struct spot_tokens *tokens)
{
    for (size_t i = 0; i < n; i++) {
        tokens->id = spot_xgrow(tokens->id, &tokens->cap, tokens->n + 1, sizeof(*tokens->id));
        tokens->id[tokens->n++] = id[i];
    }
}

static void add_begin(struct spot_body *b, struct spot_tokens *tokens)
{
    add_some(b->options->vocabulary->begin, b->options->vocabulary->n_begin, tokens);
}

/* Tokens that the tokenizer adds before a text are a part of it, unless add_special_tokens is
 * false. Names of added tokens become those tokens, as in other servers, since clients may apply
 * chat templates themselves.
 */
static void add_text(struct spot_body *b, const char *text, struct spot_tokens *tokens)
{
    const bool adds = spot_body_boolean(b, "add_special_tokens", true);

    if (adds)
        add_begin(b, tokens);
    encode(b, spot_body_prompt_key(b), text, strlen(text), tokens);
    if (adds && b->r->pool) /* a pooled text is not continued */
        add_some(b->options->vocabulary->after, b->options->vocabulary->n_after, tokens);
}

static void add_prompt(struct spot_body *b, const struct spot_json_value *v,
                       struct spot_tokens *tokens)
{
    const size_t before = tokens->n;

    if (spot_json_is_array(v))
        add_ids(b, v, tokens);
    else if (spot_json_text(v))
        add_text(b, spot_json_text(v), tokens);
    else
        spot_body_refuse(b, 400, spot_body_prompt_key(b), NULL,
                         "'%s' must be a text, an array of tokens, or an array of such.",
                         spot_body_prompt_key(b));
    if (b->r->pool)
        (void)is_too_long(b, spot_body_prompt_key(b), tokens->n - before);
    if (tokens->n == before)
        spot_body_refuse(b, 400, spot_body_prompt_key(b), NULL, "The prompt has no tokens.");
}

static void add_prompts(struct spot_body *b, const struct spot_json_value *list,
                        struct spot_tokens *tokens)
{
    struct spot_request *const r = b->r;
    const size_t n = spot_json_size(list);

    if (n * r->n_choice > SPOT_REQUEST_CHOICES_MAX) {
        spot_body_refuse(b, 400, spot_body_prompt_key(b), NULL,
                         "%zu prompts of %u choices: %d choices at most.", n, (unsigned)r->n_choice,
                         SPOT_REQUEST_CHOICES_MAX);
        return;
    }
    r->part_end = spot_xcalloc(n, sizeof(*r->part_end));
    for (; r->n_part < n && !b->status; r->n_part++) {
        add_prompt(b, spot_json_entry(list, r->n_part), tokens);
        r->part_end[r->n_part] = (uint32_t)tokens->n;
    }
    r->n_choice *= r->n_part;
}

void spot_body_read_prompt(struct spot_body *b)
{
    const struct spot_json_value *v = spot_body_member(b, spot_body_prompt_key(b));
    struct spot_tokens tokens = { 0 };

    if (spot_json_is_array(v) && spot_json_size(v) && !spot_json_is_integer(spot_json_entry(v, 0)))
        add_prompts(b, v, &tokens);
    else
        add_prompt(b, v, &tokens);
    take_tokens(b, &tokens);
}

/* A chat's template contains the beginning-of-text token, so it is added only if the client asks
 * for it. */
void spot_body_take_text(struct spot_body *b, const char *param, const char *text, size_t n)
{
    struct spot_tokens tokens = { 0 };

    if (spot_body_boolean(b, "add_special_tokens", false))
        add_begin(b, &tokens);
    encode(b, param, text, n, &tokens);
    take_tokens(b, &tokens);
}
