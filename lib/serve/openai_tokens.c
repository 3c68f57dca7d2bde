/* SPDX-License-Identifier: MIT */
/* /tokenize and /detokenize, with vLLM's names of members. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "serve/openai_body.h"
#include "serve/openai_state.h"
#include "text/detok.h"

enum { TOKENS_MAX = 1 << 20 }; /* of an answer */

static void put_name(const struct spot_body *b, struct spot_jw *jw, uint32_t id)
{
    const struct spot_bpe *const bpe = b->options->vocabulary->bpe;
    struct spot_buf text = { 0 };
    size_t n;
    const uint8_t *const name = spot_bpe_token(bpe, id, &n);

    if (!spot_detok_bytes(bpe, id, &text) && name)
        spot_buf_add(&text, name, n);
    spot_jw_text(jw, NULL, text.n ? text.data : (const void *)"", text.n);
    spot_buf_release(&text);
}

static void tell_tokens(const struct spot_body *b, struct spot_buf *out)
{
    const struct spot_request *const r = b->r;
    struct spot_page page;
    struct spot_jw *const jw = spot_page_begin(&page);

    spot_jw_int(jw, "count", (int64_t)r->n_prompt);
    spot_jw_int(jw, "max_model_len", b->options->n_context);
    spot_jw_array(jw, "tokens");
    for (size_t i = 0; i < r->n_prompt; i++)
        spot_jw_int(jw, NULL, r->prompt[i]);
    spot_jw_end(jw);
    if (spot_json_is_true(spot_body_member(b, "return_token_strs"))) {
        spot_jw_array(jw, "token_strs");
        for (size_t i = 0; i < r->n_prompt; i++)
            put_name(b, jw, r->prompt[i]);
        spot_jw_end(jw);
    }
    spot_page_finish(&page, out);
}

/* A prompt, or messages. Longer texts than the context are counted too. */
static void tokenize(struct spot_body *b)
{
    static const char *const of_prompt[] = { "model", "prompt", "add_special_tokens",
                                             "return_token_strs", NULL };
    static const char *const of_chat[] = { "model",
                                           "messages",
                                           "tools",
                                           "documents",
                                           "chat_template_kwargs",
                                           "add_generation_prompt",
                                           "continue_final_message",
                                           "add_special_tokens",
                                           "return_token_strs",
                                           NULL };
    const bool is_chat = spot_body_member(b, "messages") != NULL;
    const struct spot_json_value *const prompt = spot_body_member(b, "prompt");

    spot_body_check_members(b, b->doc.root, is_chat ? of_chat : of_prompt, "body");
    (void)spot_body_boolean(b, "return_token_strs", false);
    if (b->status)
        return;
    if (is_chat) {
        b->api = SPOT_API_CHAT;
        spot_body_read_tools(b);
        if (!b->status)
            spot_body_read_messages(b);
    } else if (!spot_json_text(prompt)) {
        spot_body_refuse(b, 400, "prompt", NULL, "'prompt' must be a text.");
    } else if (*spot_json_text(prompt)) {
        spot_body_read_prompt(b);
    }
}

static void detokenize(struct spot_body *b, struct spot_buf *out)
{
    static const char *const known[] = { "model", "tokens", NULL };
    const struct spot_json_value *const list = spot_body_member(b, "tokens");
    const struct spot_bpe *const bpe = b->options->vocabulary->bpe;
    struct spot_detokenizer d;
    struct spot_buf text = { 0 };
    struct spot_page page;

    spot_body_check_members(b, b->doc.root, known, "body");
    if (!spot_json_is_array(list))
        spot_body_refuse(b, 400, "tokens", NULL, "'tokens' must be an array of tokens.");
    spot_detok_init(&d, bpe, true, false);
    for (size_t i = 0; i < spot_json_array_size(list) && !b->status; i++) {
        const struct spot_json_value *const v = spot_json_entry(list, i);

        if (!spot_json_is_integer(v) || spot_json_integer(v) < 0 ||
            spot_json_integer(v) >= b->options->n_vocabulary)
            spot_body_refuse(b, 400, "tokens", NULL, "'tokens' must be tokens of 0 to %" PRId64 ".",
                             b->options->n_vocabulary - 1);
        else
            (void)spot_detok_push(&d, (uint32_t)spot_json_integer(v), &text);
    }
    spot_detok_end(&d, &text);
    spot_detok_release(&d);
    if (!b->status) {
        spot_jw_text(spot_page_begin(&page), "prompt", text.n ? text.data : (const void *)"",
                     text.n);
        spot_page_finish(&page, out);
    }
    spot_buf_release(&text);
}

int spot_openai_tokens(const struct spot_front_options *options, enum spot_api api,
                       const char *body, size_t n_byte, struct spot_buf *out)
{
    struct spot_front_options longer = *options;
    struct spot_request request = { .n_choice = 1 };
    struct spot_body b = { .options = &longer, .api = api, .r = &request, .error = out };
    struct spot_err err = { 0 };

    longer.n_context = TOKENS_MAX;
    if (spot_json_parse(&b.doc, body, n_byte, "body", &err))
        spot_body_refuse(&b, 400, NULL, NULL,
                         "We could not parse the JSON body of your request: %s", err.msg);
    else if (spot_body_check_model(&b), api == SPOT_API_DETOKENIZE)
        detokenize(&b, out);
    else
        tokenize(&b);
    longer.n_context = options->n_context;
    if (!b.status && api == SPOT_API_TOKENIZE)
        tell_tokens(&b, out);
    spot_json_release(&b.doc);
    spot_request_release(&request);
    return b.status ? b.status : 200;
}
