/* SPDX-License-Identifier: MIT */
/* Converts a body of OpenAI's API to a request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/random.h"
#include "serve/adapter_list.h"
#include "serve/openai_body.h"
#include "serve/tool_call.h"

bool spot_front_has_model(const struct spot_front_options *options, const char *name,
                          uint32_t *adapter)
{
    const size_t n = strlen(name);
    const uint32_t number = spot_adapter_find(options->adapters, name, n);

    if (adapter)
        *adapter = number;
    if (number || !strcmp(name, options->model))
        return true;
    for (const char *at = options->aliases; at && *at && n; at += *at == ',') {
        const size_t length = strcspn(at, ",");

        if (length == n && !memcmp(at, name, n))
            return true;
        at += length;
    }
    return false;
}

void spot_body_check_model(struct spot_body *b)
{
    const struct spot_json_value *const v = spot_body_member(b, "model");
    const char *const model = spot_json_text(v);

    if (v && !model)
        spot_body_refuse(b, 400, "model", NULL, "'model' must be a text.");
    else if (v && !spot_front_has_model(b->options, model, &b->r->adapter))
        spot_body_refuse(b, 404, "model", "model_not_found",
                         "The model '%.200s' does not exist: this server has '%.200s'.", model,
                         b->options->model);
}

static void name_request(struct spot_body *b)
{
    static const char *const start[] = { "cmpl-", "chatcmpl-", "resp_", "embd-" };
    uint8_t random[16];
    struct spot_request *const r = b->r;
    int n = snprintf(r->id, sizeof(r->id), "%s", start[b->api]);

    if (spot_random_bytes(random, sizeof(random), NULL)) {
        spot_body_refuse(b, 500, NULL, NULL, "There are no random numbers.");
        return;
    }
    for (size_t i = 0; i < sizeof(random); i++)
        n += snprintf(r->id + n, sizeof(r->id) - (size_t)n, "%02x", random[i]);
    r->is_chat = b->api == SPOT_API_CHAT || b->api == SPOT_API_RESPONSES;
    r->created_s = (int64_t)time(NULL);
}

/* Reject more choices than the queue holds, which would be told to retry for ever. */
static void check_choices(struct spot_body *b)
{
    const uint32_t most = b->options->n_choice_max;

    if (most && b->r->n_choice > most)
        spot_body_refuse(b, 400, b->r->n_part ? spot_body_prompt_key(b) : "n", NULL,
                         "%u choices: this server takes %u at most (its --queue).",
                         (unsigned)b->r->n_choice, (unsigned)most);
}

static void check_together(struct spot_body *b)
{
    const struct spot_request *const r = b->r;

    if (r->does_echo && r->n_logprob >= 0 && r->form)
        spot_body_refuse(b, 400, "echo", NULL,
                         "'echo' with 'logprobs' and a form of the text is not supported.");
    if (r->ignores_end && r->form)
        spot_body_refuse(b, 400, "ignore_eos", NULL,
                         "'ignore_eos' with a form of the text is not supported.");
    if (r->needs_check && !b->options->may_verify)
        spot_body_refuse(b, 400, "verify", NULL, "'verify' needs a server with --verify.");
}

static void read_body(struct spot_body *b)
{
    spot_body_read_keys(b);
    spot_body_check_model(b);
    spot_body_read_settings(b);
    if (!b->status)
        spot_body_read_form(b);
    if (!b->status && b->api != SPOT_API_COMPLETIONS)
        spot_body_read_tools(b);
    if (b->r->response && !b->r->tool_form)
        b->r->tool_form = SPOT_TOOL_NONE;
    check_together(b);
    if (!b->status && b->api != SPOT_API_COMPLETIONS)
        spot_body_read_messages(b);
    else if (!b->status)
        spot_body_read_prompt(b);
    check_choices(b);
    if (!b->status)
        spot_body_read_lengths(b);
    if (!b->status)
        name_request(b);
}

static void read_embedding(struct spot_body *b)
{
    spot_body_read_embedding(b);
    if (!b->status)
        check_choices(b);
    if (!b->status)
        name_request(b);
}

static int read_text(struct spot_body *b, const char *text, size_t n_byte)
{
    struct spot_err err = { 0 };

    b->text = text;
    b->n_byte = n_byte;
    if (!spot_json_parse(&b->doc, text, n_byte, "body", &err))
        return 0;
    spot_body_refuse(b, 400, NULL, NULL, "We could not parse the JSON body of your request: %s",
                     err.msg);
    return -1;
}

/* A response is translated to a chat. */
static void read_response(struct spot_body *b)
{
    size_t n;
    char *told = NULL, *const chat = spot_body_chat_of_response(b, &n, &told);

    spot_json_release(&b->doc);
    b->r->response = told;
    if (chat && !read_text(b, chat, n))
        read_body(b);
    free(chat);
}

int spot_openai_parse(const struct spot_front_options *options, enum spot_api api, const char *body,
                      size_t n_byte, struct spot_request *request, struct spot_buf *error)
{
    struct spot_body b = { .options = options, .api = api, .r = request, .error = error };

    *request = (struct spot_request){ 0 };
    if (read_text(&b, body, n_byte))
        return b.status;
    if (api == SPOT_API_RESPONSES)
        read_response(&b);
    else if (api == SPOT_API_EMBEDDINGS)
        read_embedding(&b);
    else
        read_body(&b);
    spot_json_release(&b.doc);
    if (b.status)
        spot_request_release(request);
    return b.status;
}
