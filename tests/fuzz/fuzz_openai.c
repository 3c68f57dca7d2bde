/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "serve/front.h"
#include "serve/openai_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no body crashes its reader; one that is taken gives a request that survives the wire, and
 * an answer that is JSON whatever its tokens are. The first byte says which API it is of, and how
 * the model writes calls. */

enum { CONTEXT = 64, TOKENS_MAX = 48, APIS = SPOT_API_DETOKENIZE + 1 };

static const uint32_t end_token = 'E';

static struct spot_front_options *options(void)
{
    static const char template[] =
        "{\"chat_template\":\"{% for message in messages %}{{'<|im_start|>' + message['role'] + "
        "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}\"}";
    static struct spot_front_options o = {
        .model = "m", .n_context = CONTEXT, .adapters = "a=x", .n_state = 8, .pool = SPOT_POOL_LAST
    };
    static struct spot_vocabulary vocabulary = { .end = &end_token, .n_end = 1 };

    if (vocabulary.bpe)
        return &o;
    vocabulary.bpe = spot_bpe_of_bytes();
    o.vocabulary = &vocabulary;
    o.n_vocabulary = 256;
    o.chat = spot_chat_parse(template, sizeof(template) - 1, "fuzz", NULL);
    return &o;
}

static void check_wire(const struct spot_request *r)
{
    struct spot_buf once = { 0 }, twice = { 0 };
    struct spot_request copy;
    struct spot_wire_in in;

    spot_request_put(r, &once);
    in = (struct spot_wire_in){ .at = once.data, .end = once.data + once.n };
    if (spot_request_get(&copy, &in))
        abort();
    spot_request_put(&copy, &twice);
    if (twice.n != once.n)
        abort();
    spot_request_release(&copy);
    spot_buf_release(&once);
    spot_buf_release(&twice);
}

static void check_json(struct spot_buf *text)
{
    struct spot_json_doc doc;

    if (spot_json_parse(&doc, (const char *)text->data, text->n, "answer", NULL))
        abort();
    spot_json_release(&doc);
    spot_buf_release(text);
}

/* Tokens and alternatives from the input itself. */
static void check_answer(struct spot_request *take, const uint8_t *data, size_t size)
{
    struct spot_completion *const c = spot_completion_new(take, options()->vocabulary);
    struct spot_buf answer = { 0 };

    for (size_t i = 0; i < size && i < TOKENS_MAX; i++) {
        struct spot_token t = { .id = data[size - 1 - i], .logprob = -1 };

        while (c->request.n_logprob > 0 && t.n_top < (uint32_t)c->request.n_logprob) {
            t.top[t.n_top].id = data[(i + t.n_top) % size];
            t.n_top++;
        }
        (void)spot_completion_append(c, 0, i, &t);
    }
    for (uint32_t i = 0; i < c->request.n_choice && c->request.pool; i++) {
        const float state[8] = { data[i % size], 1 };

        (void)spot_completion_set_state(c, i, state, 8, 0);
    }
    for (uint32_t i = 0; i < c->request.n_choice; i++)
        spot_completion_finish(c, i, SPOT_FINISH_LENGTH);
    spot_openai_answer(options(), c, &answer);
    check_json(&answer);
    spot_completion_unref(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_request request;
    struct spot_buf error = { 0 };

    if (!size)
        return 0;
    options()->tool_form = data[0] / APIS % (SPOT_TOOL_FORMS + 1);
    if (data[0] % APIS >= SPOT_API_TOKENIZE) {
        (void)spot_openai_tokens(options(), (enum spot_api)(data[0] % APIS), (const char *)data + 1,
                                 size - 1, &error);
        if (error.n && memmem(error.data, error.n, "\\u0000", 6)) /* a byte that is not read here */
            spot_buf_release(&error);
        else
            check_json(&error);
        return 0;
    }
    if (spot_openai_parse(options(), (enum spot_api)(data[0] % APIS), (const char *)data + 1,
                          size - 1, &request, &error)) {
        check_json(&error);
        return 0;
    }
    check_wire(&request);
    check_answer(&request, data, size);
    return 0;
}
