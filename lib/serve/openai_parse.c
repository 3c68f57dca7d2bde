/* SPDX-License-Identifier: MIT */
/* A body of OpenAI's API to a request. What they have and we have not is refused by name, unless
 * its value asks for nothing. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json.h"
#include "common/random.h"
#include "common/xalloc.h"
#include "serve/front.h"
#include "serve/grammar.h"
#include "serve/openai_body.h"
#include "serve/openai_state.h"

enum { STOP_MAX = 1024 };

/* --- errors ----------------------------------------------------------------- */

int spot_openai_error(int status, const char *type, const char *param, const char *code,
                      struct spot_buf *out, const char *fmt, ...)
{
    char message[1024], *text = NULL;
    size_t n = 0;
    FILE *const f = open_memstream(&text, &n);
    struct spot_jw jw;
    va_list ap;

    if (!f)
        spot_no_memory("an answer");
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    spot_jw_init(&jw, f, false);
    spot_jw_object(&jw, NULL);
    spot_jw_object(&jw, "error");
    spot_jw_str(&jw, "message", message);
    spot_jw_str(&jw, "type", type);
    if (param)
        spot_jw_str(&jw, "param", param);
    else
        spot_jw_null(&jw, "param");
    if (code)
        spot_jw_str(&jw, "code", code);
    else
        spot_jw_null(&jw, "code");
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    spot_jw_close(&jw, NULL);
    fclose(f);
    spot_buf_add(out, text, n);
    free(text);
    return status;
}

int spot_openai_given_up(const struct spot_completion *c, struct spot_buf *out)
{
    return spot_openai_error(500, "server_error", NULL, NULL, out,
                             "The server gave this request up before its end%s%s.",
                             c->why ? ": " : "", c->why ? c->why : "");
}

void spot_body_refuse(struct spot_body *b, int status, const char *param, const char *code,
                      const char *fmt, ...)
{
    char message[768];
    va_list ap;

    if (b->status)
        return;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    b->status =
        spot_openai_error(status, "invalid_request_error", param, code, b->error, "%s", message);
}

/* --- members ---------------------------------------------------------------- */

const struct spot_json_value *spot_body_member(const struct spot_body *b, const char *key)
{
    const struct spot_json_value *const v = spot_json_get(b->doc.root, key);

    return spot_json_is_null(v) ? NULL : v;
}

static double number(struct spot_body *b, const char *key, double min, double max, double otherwise)
{
    const struct spot_json_value *const v = spot_body_member(b, key);

    if (!v)
        return otherwise;
    if (!spot_json_is_number(v) || !(spot_json_number(v) >= min && spot_json_number(v) <= max)) {
        spot_body_refuse(b, 400, key, NULL, "'%s' must be a number of %g to %g.", key, min, max);
        return otherwise;
    }
    return spot_json_number(v);
}

static int64_t integer(struct spot_body *b, const char *key, int64_t min, int64_t max,
                       int64_t otherwise)
{
    const struct spot_json_value *const v = spot_body_member(b, key);

    if (!v)
        return otherwise;
    if (!spot_json_is_integer(v) || spot_json_integer(v) < min || spot_json_integer(v) > max) {
        spot_body_refuse(b, 400, key, NULL,
                         "'%s' must be an integer of %" PRId64 " to %" PRId64 ".", key, min, max);
        return otherwise;
    }
    return spot_json_integer(v);
}

bool spot_body_boolean(struct spot_body *b, const char *key)
{
    const struct spot_json_value *const v = spot_body_member(b, key);

    if (v && !spot_json_is_boolean(v))
        spot_body_refuse(b, 400, key, NULL, "'%s' must be true or false.", key);
    return spot_json_is_true(v);
}

/* Null, false, and what is empty. */
static bool is_nothing(const struct spot_json_value *v)
{
    const char *const text = spot_json_text(v);

    return spot_json_is_null(v) || spot_json_is_false(v) || (text && !*text) ||
           ((spot_json_is_object(v) || spot_json_is_array(v)) && !spot_json_size(v));
}

void spot_body_check_members(struct spot_body *b, const struct spot_json_value *object,
                             const char *const *known, const char *where)
{
    const struct spot_json_value *v;
    const char *key;

    for (size_t i = 0; (v = spot_json_member(object, i, &key)) && !b->status; i++) {
        size_t k = 0;
        char name[160];

        while (known[k] && strcmp(known[k], key) != 0)
            k++;
        snprintf(name, sizeof(name), "%s.%.80s", where, key);
        if (!known[k] && !is_nothing(v))
            spot_body_refuse(b, 400, name, NULL, "'%s' is not supported by this server.", name);
    }
}

/* --- what is known ---------------------------------------------------------- */

enum use { BOTH, COMPLETIONS, CHAT, NOTHING, NONE };

/* NOTHING: it changes no token. NONE: only a value that asks for nothing is taken. */
static enum use use_of(const char *key)
{
    static const struct {
        const char *key;
        enum use use;
    } known[] = {
        { "model", BOTH },
        { "temperature", BOTH },
        { "top_p", BOTH },
        { "top_k", BOTH },
        { "min_p", BOTH },
        { "repetition_penalty", BOTH },
        { "presence_penalty", BOTH },
        { "frequency_penalty", BOTH },
        { "logit_bias", BOTH },
        { "seed", BOTH },
        { "stop", BOTH },
        { "ignore_eos", BOTH },
        { "n", BOTH },
        { "max_tokens", BOTH },
        { "stream", BOTH },
        { "stream_options", BOTH },
        { "response_format", BOTH },
        { "logprobs", BOTH },
        { "best_of", COMPLETIONS },
        { "prompt", COMPLETIONS },
        { "echo", COMPLETIONS },
        { "add_special_tokens", COMPLETIONS },
        { "messages", CHAT },
        { "max_completion_tokens", CHAT },
        { "top_logprobs", CHAT },
        { "user", NOTHING },
        { "metadata", NOTHING },
        { "store", NOTHING },
        { "service_tier", NOTHING },
        { "safety_identifier", NOTHING },
        { "prompt_cache_key", NOTHING },
        { "suffix", NONE },
        { "tools", NONE },
        { "tool_choice", NONE },
        { "parallel_tool_calls", NONE },
        { "functions", NONE },
        { "function_call", NONE },
        { "modalities", NONE },
        { "audio", NONE },
        { "prediction", NONE },
        { "reasoning_effort", NONE },
        { "web_search_options", NONE },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(known[i].key, key))
            return known[i].use;
    return (enum use) - 1;
}

static bool is_text(const struct spot_json_value *v, const char *text)
{
    return spot_json_text(v) && !strcmp(spot_json_text(v), text);
}

/* Clients send defaults: how to choose among no tools, text and nothing else. */
static bool asks_for_nothing(const char *key, const struct spot_json_value *v)
{
    if (!strcmp(key, "parallel_tool_calls") && spot_json_is_boolean(v))
        return true;
    if (!strcmp(key, "tool_choice") || !strcmp(key, "function_call"))
        return is_nothing(v) || is_text(v, "none") || is_text(v, "auto");
    if (!strcmp(key, "modalities") && spot_json_array_size(v) == 1)
        return is_text(spot_json_entry(v, 0), "text");
    if (!strcmp(key, "reasoning_effort"))
        return is_nothing(v) || is_text(v, "none");
    if (!strcmp(key, "web_search_options")) /* {} searches */
        return spot_json_is_null(v);
    return is_nothing(v);
}

static void check_keys(struct spot_body *b, bool is_chat)
{
    const struct spot_json_value *v;
    const char *key;

    for (size_t i = 0; (v = spot_json_member(b->doc.root, i, &key)) && !b->status; i++) {
        const enum use use = use_of(key);

        if (spot_json_is_null(v))
            continue;
        if ((int)use < 0 || use == (is_chat ? COMPLETIONS : CHAT))
            spot_body_refuse(b, 400, NULL, NULL, "Unrecognized request argument supplied: %s", key);
        else if (use == NONE && !asks_for_nothing(key, v))
            spot_body_refuse(b, 400, key, NULL, "'%s' is not supported by this server.", key);
    }
}

/* --- settings --------------------------------------------------------------- */

static void read_sample(struct spot_body *b)
{
    struct spot_sample *const s = &b->r->sample;
    const struct spot_json_value *const seed = spot_body_member(b, "seed");

    *s = spot_sample_plain;
    s->temperature = number(b, "temperature", 0, 2, 1);
    s->top_p = number(b, "top_p", 0, 1, 1);
    s->top_k = integer(b, "top_k", -1, INT32_MAX, 0);
    s->top_k = s->top_k < 0 ? 0 : s->top_k;
    s->min_p = number(b, "min_p", 0, 1, 0);
    s->repetition = number(b, "repetition_penalty", 0.01, 100, 1);
    s->presence = number(b, "presence_penalty", -2, 2, 0);
    s->frequency = number(b, "frequency_penalty", -2, 2, 0);
    if (seed && !spot_json_is_integer(seed))
        spot_body_refuse(b, 400, "seed", NULL, "'seed' must be an integer.");
    b->r->is_seeded = seed != NULL;
    s->seed = (uint64_t)spot_json_integer(seed);
    if (!seed && spot_random_bytes(&s->seed, sizeof(s->seed), NULL))
        spot_body_refuse(b, 500, NULL, NULL, "There are no random numbers.");
}

/* A member's key is the number of a token of the vocabulary. */
static bool read_token(const struct spot_body *b, const char *key, uint32_t *token)
{
    uint64_t n = 0;

    if (!*key || strlen(key) > 9 || strspn(key, "0123456789") != strlen(key) ||
        (key[0] == '0' && key[1])) /* "01" would be 1 once more */
        return false;
    for (; *key; key++)
        n = n * 10 + (uint64_t)(*key - '0');
    *token = (uint32_t)n;
    return n < (uint64_t)b->options->n_vocabulary;
}

static int by_token(const void *a, const void *b)
{
    const uint32_t x = ((const struct spot_token_bias *)a)->token,
                   y = ((const struct spot_token_bias *)b)->token;

    return (x > y) - (x < y);
}

static void read_biases(struct spot_body *b)
{
    const struct spot_json_value *const v = spot_body_member(b, "logit_bias"), *bias;
    struct spot_request *const r = b->r;
    const size_t n = v && spot_json_is_object(v) ? spot_json_size(v) : 0;
    const char *key;

    if (v && (!spot_json_is_object(v) || n > SPOT_REQUEST_BIASES_MAX)) {
        spot_body_refuse(b, 400, "logit_bias", NULL,
                         "'logit_bias' must be an object of at most %d tokens.",
                         SPOT_REQUEST_BIASES_MAX);
        return;
    }
    r->bias = spot_xcalloc(n, sizeof(*r->bias));
    for (; r->n_bias < n && !b->status; r->n_bias++) {
        struct spot_token_bias *const to = &r->bias[r->n_bias];

        bias = spot_json_member(v, r->n_bias, &key);
        to->bias = (float)spot_json_number(bias);
        if (!read_token(b, key, &to->token))
            spot_body_refuse(b, 400, "logit_bias", NULL,
                             "'logit_bias' has the key '%s', which is not a token of this model.",
                             key);
        else if (!spot_json_is_number(bias) || !(fabs(spot_json_number(bias)) <= 100))
            spot_body_refuse(b, 400, "logit_bias", NULL,
                             "'logit_bias' of token %s must be a number of -100 to 100.", key);
    }
    qsort(r->bias, r->n_bias, sizeof(*r->bias), by_token);
}

static void add_stop(struct spot_body *b, const struct spot_json_value *v)
{
    const char *const text = spot_json_text(v);

    if (!text || !*text || strlen(text) > STOP_MAX || b->r->n_stop == SPOT_REQUEST_STOPS_MAX)
        spot_body_refuse(b, 400, "stop", NULL,
                         "'stop' must be a text or up to %d texts of 1 to %d bytes.",
                         SPOT_REQUEST_STOPS_MAX, STOP_MAX);
    else
        b->r->stop[b->r->n_stop++] = spot_xstrdup(text);
}

static void read_stop(struct spot_body *b)
{
    const struct spot_json_value *const v = spot_body_member(b, "stop");

    if (v && !spot_json_is_array(v))
        add_stop(b, v);
    for (size_t i = 0; i < spot_json_array_size(v); i++)
        add_stop(b, spot_json_entry(v, i));
}

static void read_logprobs(struct spot_body *b, bool is_chat)
{
    int n_top;

    b->r->n_logprob = -1;
    if (!is_chat) {
        b->r->n_logprob = (int)integer(b, "logprobs", 0, SPOT_REQUEST_LOGPROBS_MAX, -1);
        return;
    }
    n_top = (int)integer(b, "top_logprobs", 0, SPOT_REQUEST_LOGPROBS_MAX, 0);
    if (spot_body_boolean(b, "logprobs"))
        b->r->n_logprob = n_top;
    else if (n_top)
        spot_body_refuse(b, 400, "top_logprobs", NULL, "'top_logprobs' needs 'logprobs': true.");
}

static void read_stream(struct spot_body *b)
{
    const struct spot_json_value *const options = spot_body_member(b, "stream_options"), *v;
    const char *key;

    b->r->does_stream = spot_body_boolean(b, "stream");
    if (!options)
        return;
    if (!spot_json_is_object(options) || (spot_json_size(options) && !b->r->does_stream))
        spot_body_refuse(b, 400, "stream_options", NULL,
                         "'stream_options' is an object beside 'stream': true.");
    for (size_t i = 0; (v = spot_json_member(options, i, &key)); i++)
        if (strcmp(key, "include_usage") != 0 && strcmp(key, "include_obfuscation") != 0)
            spot_body_refuse(b, 400, "stream_options", NULL,
                             "Unknown parameter: 'stream_options.%s'.", key);
        else if (!spot_json_is_null(v) && !spot_json_is_boolean(v))
            spot_body_refuse(b, 400, "stream_options", NULL,
                             "'stream_options.%s' must be true or false.", key);
    b->r->wants_usage = spot_json_is_true(spot_json_get(options, "include_usage"));
}

/* --- the form of the text --------------------------------------------------- */

/* The text of a value as it came: from its place to the bracket that closes it. */
static char *raw(const struct spot_body *b, const struct spot_json_value *v)
{
    const size_t begin = spot_json_place(v);
    size_t at = begin;
    int depth = 0;
    bool is_text = false;
    char *out;

    do {
        const char c = b->text[at];

        if (is_text && c == '\\')
            at++;
        else if (c == '"')
            is_text = !is_text;
        else if (!is_text)
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        at++;
    } while (depth && at < b->n_byte);
    out = spot_xcalloc(at - begin + 1, 1);
    memcpy(out, b->text + begin, at - begin);
    return out;
}

static void take_schema(struct spot_body *b, char *schema)
{
    struct spot_err err = { 0 };

    b->r->schema = schema;
    if (spot_grammar_check(schema, strlen(schema), &err))
        spot_body_refuse(b, 400, "response_format", NULL, "Invalid schema for response_format: %s",
                         err.msg);
}

static void read_format(struct spot_body *b)
{
    const struct spot_json_value *const v = spot_body_member(b, "response_format");
    static const char *const of_schema[] = { "type", "json_schema", NULL };
    static const char *const of_json_schema[] = { "name", "description", "schema", "strict", NULL };
    const struct spot_json_value *const type = spot_json_get(v, "type");
    const struct spot_json_value *const json_schema = spot_json_get(v, "json_schema");
    const struct spot_json_value *const schema = spot_json_get(json_schema, "schema");
    const bool has_schema = is_text(type, "json_schema");

    if (!v)
        return;
    /* a schema in another place would constrain nothing */
    spot_body_check_members(b, v, has_schema ? of_schema : (const char *[]){ "type", NULL },
                            "response_format");
    spot_body_check_members(b, json_schema, of_json_schema, "response_format.json_schema");
    if (b->status || is_text(type, "text"))
        return;
    if (is_text(type, "json_object"))
        take_schema(b, spot_xstrdup("{}"));
    else if (has_schema && spot_json_is_object(schema))
        take_schema(b, raw(b, schema));
    else
        spot_body_refuse(
            b, 400, "response_format", NULL,
            "'response_format' must have the type text, json_object, or json_schema with "
            "json_schema.schema.");
}

/* --- the whole -------------------------------------------------------------- */

static void read_model(struct spot_body *b)
{
    const char *const model = spot_json_text(spot_body_member(b, "model"));

    if (!model)
        spot_body_refuse(b, 400, "model", NULL, "you must provide a model parameter");
    else if (strcmp(model, b->options->model) != 0)
        spot_body_refuse(b, 404, "model", "model_not_found",
                         "The model '%.200s' does not exist: this server has '%.200s'.", model,
                         b->options->model);
}

static int64_t longest_prompt(const struct spot_request *r)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < r->n_part; i++) {
        const uint32_t n = r->part_end[i] - (i ? r->part_end[i - 1] : 0);

        most = n > most ? n : most;
    }
    return r->n_part ? most : (int64_t)r->n_prompt;
}

static void read_lengths(struct spot_body *b, bool is_chat)
{
    const int64_t n_prompt = longest_prompt(b->r), room = b->options->n_context - n_prompt;
    const char *const key =
        spot_body_member(b, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens";

    b->r->n_token_max = integer(b, key, !b->r->does_echo, INT32_MAX, is_chat ? room : 16);
    if (integer(b, "max_tokens", 0, INT32_MAX, b->r->n_token_max) != b->r->n_token_max)
        spot_body_refuse(b, 400, "max_tokens", NULL,
                         "'max_tokens' and 'max_completion_tokens' differ.");
    if (!b->r->n_token_max && b->r->does_stream)
        spot_body_refuse(b, 400, key, NULL, "A stream of 0 tokens is not supported.");
    if (!b->status && (room < is_chat || b->r->n_token_max > room))
        spot_body_refuse(b, 400, is_chat ? "messages" : "prompt", "context_length_exceeded",
                         "This model's maximum context length is %" PRId64
                         " tokens. However, you requested %" PRId64 " tokens (%" PRId64
                         " in the prompt, %" PRId64 " to complete).",
                         b->options->n_context,
                         n_prompt + (b->r->n_token_max > 0 ? b->r->n_token_max : 0), n_prompt,
                         b->r->n_token_max > 0 ? b->r->n_token_max : 0);
}

static void name_request(struct spot_body *b, bool is_chat)
{
    uint8_t random[16];
    struct spot_request *const r = b->r;
    int n = snprintf(r->id, sizeof(r->id), "%s-", is_chat ? "chatcmpl" : "cmpl");

    if (spot_random_bytes(random, sizeof(random), NULL)) {
        spot_body_refuse(b, 500, NULL, NULL, "There are no random numbers.");
        return;
    }
    for (size_t i = 0; i < sizeof(random); i++)
        n += snprintf(r->id + n, sizeof(r->id) - (size_t)n, "%02x", random[i]);
    r->is_chat = is_chat;
    r->created_s = (int64_t)time(NULL);
}

/* More than the queue holds would be told to retry for ever. */
static void check_choices(struct spot_body *b)
{
    const uint32_t most = b->options->n_choice_max;

    if (most && b->r->n_choice > most)
        spot_body_refuse(b, 400, b->r->n_part ? "prompt" : "n", NULL,
                         "%u choices: this server takes %u at most (its --queue).",
                         (unsigned)b->r->n_choice, (unsigned)most);
}

static void check_together(struct spot_body *b)
{
    const struct spot_request *const r = b->r;

    if (r->does_echo && r->n_logprob >= 0 && r->schema)
        spot_body_refuse(b, 400, "echo", NULL,
                         "'echo' with 'logprobs' and 'response_format' is not supported.");
    if (r->ignores_end && r->schema)
        spot_body_refuse(b, 400, "ignore_eos", NULL,
                         "'ignore_eos' with 'response_format' is not supported.");
}

static void read_body(struct spot_body *b, bool is_chat)
{
    check_keys(b, is_chat);
    read_model(b);
    read_sample(b);
    read_biases(b);
    read_stop(b);
    read_logprobs(b, is_chat);
    read_stream(b);
    b->r->n_choice = (uint32_t)integer(b, "n", 1, SPOT_REQUEST_CHOICES_MAX, 1);
    if (integer(b, "best_of", 1, SPOT_REQUEST_CHOICES_MAX, b->r->n_choice) != b->r->n_choice)
        spot_body_refuse(b, 400, "best_of", NULL, "'best_of' other than 'n' is not supported.");
    if (!is_chat)
        b->r->does_echo = spot_body_boolean(b, "echo");
    b->r->ignores_end = spot_body_boolean(b, "ignore_eos");
    if (!b->status)
        read_format(b);
    check_together(b);
    if (!b->status && is_chat)
        spot_body_read_messages(b);
    else if (!b->status)
        spot_body_read_prompt(b);
    check_choices(b);
    if (!b->status)
        read_lengths(b, is_chat);
    if (!b->status)
        name_request(b, is_chat);
}

int spot_openai_parse(const struct spot_front_options *options, bool is_chat, const char *body,
                      size_t n_byte, struct spot_request *request, struct spot_buf *error)
{
    struct spot_body b = {
        .options = options, .text = body, .n_byte = n_byte, .r = request, .error = error
    };
    struct spot_err err = { 0 };

    *request = (struct spot_request){ 0 };
    if (spot_json_parse(&b.doc, body, n_byte, "body", &err)) {
        spot_body_refuse(&b, 400, NULL, NULL,
                         "We could not parse the JSON body of your request: %s", err.msg);
        return b.status;
    }
    read_body(&b, is_chat);
    spot_json_release(&b.doc);
    if (b.status)
        spot_request_release(request);
    return b.status;
}
