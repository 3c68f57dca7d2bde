/* SPDX-License-Identifier: MIT */
/* What the model is asked, from texts, tokens or messages to tokens. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/openai_body.h"

enum { MESSAGES_MAX = 4096 };

static void take_tokens(struct spot_body *b, const struct spot_tokens *tokens)
{
    b->r->prompt = tokens->id;
    b->r->n_prompt = tokens->n;
    if (!tokens->n)
        spot_body_refuse(b, 400, "prompt", NULL, "The prompt has no tokens.");
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
            spot_body_refuse(b, 400, "prompt", NULL,
                             "'prompt' must be a text or tokens of 0 to %" PRId64 ".",
                             b->options->n_vocabulary - 1);
        tokens->id[tokens->n++] = (uint32_t)spot_json_integer(v);
    }
}

/* Refuses a prompt that has at least so many tokens, if that is too many. */
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

/* Text may be as long as a body, but what is longer than the context is not encoded: not begun with
 * where its bytes tell, else ended once its tokens do. */
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

/* What the tokenizer puts before a text is a part of it, unless add_special_tokens is false. Names
 * of added tokens are those tokens, as in other servers: clients apply chat templates themselves.
 */
static void add_text(struct spot_body *b, const char *text, struct spot_tokens *tokens)
{
    const struct spot_vocabulary *const v = b->options->vocabulary;

    if (!spot_body_member(b, "add_special_tokens") || spot_body_boolean(b, "add_special_tokens"))
        for (size_t i = 0; i < v->n_begin; i++) {
            tokens->id = spot_xgrow(tokens->id, &tokens->cap, tokens->n + 1, sizeof(*tokens->id));
            tokens->id[tokens->n++] = v->begin[i];
        }
    encode(b, "prompt", text, strlen(text), tokens);
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
        spot_body_refuse(b, 400, "prompt", NULL,
                         "'prompt' must be a text, an array of tokens, or an array of such.");
    if (tokens->n == before)
        spot_body_refuse(b, 400, "prompt", NULL, "The prompt has no tokens.");
}

static void add_prompts(struct spot_body *b, const struct spot_json_value *list,
                        struct spot_tokens *tokens)
{
    struct spot_request *const r = b->r;
    const size_t n = spot_json_size(list);

    if (n * r->n_choice > SPOT_REQUEST_CHOICES_MAX) {
        spot_body_refuse(b, 400, "prompt", NULL, "%zu prompts of %u choices: %d choices at most.",
                         n, (unsigned)r->n_choice, SPOT_REQUEST_CHOICES_MAX);
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
    const struct spot_json_value *v = spot_body_member(b, "prompt");
    struct spot_tokens tokens = { 0 };

    if (spot_json_is_array(v) && spot_json_size(v) && !spot_json_is_integer(spot_json_entry(v, 0)))
        add_prompts(b, v, &tokens);
    else
        add_prompt(b, v, &tokens);
    take_tokens(b, &tokens);
}

/* --- messages ----------------------------------------------------------------- */

/* A text, or parts that are texts: to be freed; NULL: neither. */
static char *content_of(const struct spot_json_value *v)
{
    struct spot_buf text = { 0 };

    if (spot_json_text(v))
        return spot_xstrdup(spot_json_text(v));
    for (size_t i = 0; i < spot_json_array_size(v); i++) {
        const struct spot_json_value *const part = spot_json_entry(v, i);
        const char *const type = spot_json_text(spot_json_get(part, "type"));
        const char *const piece = spot_json_text(spot_json_get(part, "text"));

        if (!type || strcmp(type, "text") != 0 || !piece) {
            spot_buf_release(&text);
            return NULL;
        }
        spot_buf_add(&text, piece, strlen(piece));
    }
    if (!spot_json_array_size(v))
        return NULL;
    spot_buf_add(&text, "", 1);
    return (char *)text.data;
}

/* What we would leave out of the prompt is refused: calls of tools, names, images. */
static void check_message(struct spot_body *b, const struct spot_json_value *v, size_t i)
{
    static const char *const of_message[] = { "role", "content", NULL };
    static const char *const of_part[] = { "type", "text", NULL };
    const struct spot_json_value *const content = spot_json_get(v, "content");
    char where[64];

    snprintf(where, sizeof(where), "messages[%zu]", i);
    spot_body_check_members(b, v, of_message, where);
    for (size_t k = 0; k < spot_json_array_size(content); k++) {
        snprintf(where, sizeof(where), "messages[%zu].content[%zu]", i, k);
        spot_body_check_members(b, spot_json_entry(content, k), of_part, where);
    }
}

/* NULL: unknown. Newer clients call the system role "developer". */
static const char *role_of(const struct spot_json_value *v)
{
    const char *const role = spot_json_text(spot_json_get(v, "role"));

    return role && !strcmp(role, "developer") ? "system" : role;
}

/* What a template is given, as text: to be freed. */
static char *context_of(struct spot_body *b, const struct spot_json_value *list, size_t *n)
{
    struct spot_jw jw;
    char *text;
    FILE *const out = spot_xmemory_open(&text, n);

    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_array(&jw, "messages");
    for (size_t i = 0; i < spot_json_size(list); i++) {
        const struct spot_json_value *const v = spot_json_entry(list, i);
        const char *const role = role_of(v);
        char *const content = content_of(spot_json_get(v, "content"));

        check_message(b, v, i);
        if (!role || !content)
            spot_body_refuse(b, 400, "messages", NULL,
                             "Message %zu must have a role and a text as content.", i);
        spot_jw_object(&jw, NULL);
        spot_jw_str(&jw, "role", role ? role : "");
        spot_jw_str(&jw, "content", content ? content : "");
        spot_jw_end(&jw);
        free(content);
    }
    spot_jw_end(&jw);
    spot_jw_bool(&jw, "add_generation_prompt", true);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    return text;
}

static void render(struct spot_body *b, const struct spot_json_value *context)
{
    struct spot_tokens tokens = { 0 };
    struct spot_buf text = { 0 };
    struct spot_err err = { 0 };

    if (spot_chat_render(b->options->chat, context, &text, &err)) {
        spot_body_refuse(b, 400, "messages", NULL, "%s", err.msg);
    } else {
        encode(b, "messages", (const char *)text.data, text.n, &tokens);
        take_tokens(b, &tokens);
    }
    spot_buf_release(&text);
}

void spot_body_read_messages(struct spot_body *b)
{
    const struct spot_json_value *const list = spot_body_member(b, "messages");
    const size_t n = spot_json_array_size(list);
    struct spot_json_doc context;
    struct spot_err err;
    char *text;
    size_t n_text;

    if (!b->options->chat) {
        spot_body_refuse(b, 400, "messages", NULL,
                         "This model has no chat template that is known here: %s",
                         b->options->chat_why ? b->options->chat_why : "none is given");
        return;
    }
    if (!n || n > MESSAGES_MAX) {
        spot_body_refuse(b, 400, "messages", NULL,
                         "'messages' must be an array of 1 to %d messages.", MESSAGES_MAX);
        return;
    }
    text = context_of(b, list, &n_text);
    if (!b->status && spot_json_parse(&context, text, n_text, "messages", &err)) {
        spot_body_refuse(b, 400, "messages", NULL, "%s", err.msg);
    } else if (!b->status) {
        render(b, context.root);
        spot_json_release(&context);
    }
    free(text);
}
