/* SPDX-License-Identifier: MIT */
/* The members that a body may have. Members of OpenAI's or vLLM's API that are not implemented here
 * are rejected by name, unless their value has no effect. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serve/openai_body.h"

/* --- members ------------------------------------------------------------------ */

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

int64_t spot_body_integer(struct spot_body *b, const char *key, int64_t min, int64_t max,
                          int64_t otherwise)
{
    const struct spot_json_value *const v = spot_body_member(b, key);
    const double real = v && spot_json_is_number(v) ? spot_json_number(v) : 0.5;
    int64_t n;

    if (!v)
        return otherwise;
    /* languages with a single type of numbers write 16 as 16.0 or 1.6e1 */
    n = spot_json_is_integer(v) ? spot_json_integer(v) : (int64_t)(fabs(real) < 1e15 ? real : 0);
    if ((!spot_json_is_integer(v) && fabs((double)n - real) > 0) || n < min || n > max) {
        spot_body_refuse(b, 400, key, NULL,
                         "'%s' must be an integer of %" PRId64 " to %" PRId64 ".", key, min, max);
        return otherwise;
    }
    return n;
}

bool spot_body_boolean(struct spot_body *b, const char *key, bool otherwise)
{
    const struct spot_json_value *const v = spot_body_member(b, key);

    if (v && !spot_json_is_boolean(v))
        spot_body_refuse(b, 400, key, NULL, "'%s' must be true or false.", key);
    return v ? spot_json_is_true(v) : otherwise;
}

bool spot_json_is_word(const struct spot_json_value *v, const char *text)
{
    return spot_json_text(v) && !strcmp(spot_json_text(v), text);
}

bool spot_json_is_nothing(const struct spot_json_value *v)
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
        if (!known[k] && !spot_json_is_nothing(v))
            spot_body_refuse(b, 400, name, NULL, "'%s' is not supported by this server.", name);
    }
}

/* --- known members -------------------------------------------------------- */

enum use { BOTH, COMPLETIONS, CHAT, NOTHING, NONE };
enum kind { OTHERS, NUMBER, INTEGER, FLAG }; /* OTHERS: read elsewhere */

#define AT(member) offsetof(struct spot_request, member)

/* NOTHING: ignored, it changes no token. NONE: accepted only with a value that has no effect. */
static const struct parameter {
    const char *key;
    enum use use;
    enum kind kind;
    size_t at;
    double min, max, otherwise;
} known[] = {
    { "temperature", BOTH, NUMBER, AT(sample.temperature), 0, 2, 1 },
    { "top_p", BOTH, NUMBER, AT(sample.top_p), 0, 1, 1 },
    { "top_k", BOTH, INTEGER, AT(sample.top_k), -1, INT32_MAX, 0 },
    { "min_p", BOTH, NUMBER, AT(sample.min_p), 0, 1, 0 },
    { "repetition_penalty", BOTH, NUMBER, AT(sample.repetition), 0.01, 100, 1 },
    { "presence_penalty", BOTH, NUMBER, AT(sample.presence), -2, 2, 0 },
    { "frequency_penalty", BOTH, NUMBER, AT(sample.frequency), -2, 2, 0 },
    { "min_tokens", BOTH, INTEGER, AT(n_token_min), 0, INT32_MAX, 0 },
    { "ignore_eos", BOTH, FLAG, AT(ignores_end), 0, 0, 0 },
    { "include_stop_str_in_output", BOTH, FLAG, AT(keeps_stop), 0, 0, 0 },
    { "return_token_ids", BOTH, FLAG, AT(tells_ids), 0, 0, 0 },
    { "stream", BOTH, FLAG, AT(does_stream), 0, 0, 0 },
    { "verify", BOTH, FLAG, AT(needs_check), 0, 0, 0 },
    { "echo", COMPLETIONS, FLAG, AT(does_echo), 0, 0, 0 },
    { .key = "model", .use = BOTH },
    { .key = "logit_bias", .use = BOTH },
    { .key = "seed", .use = BOTH },
    { .key = "stop", .use = BOTH },
    { .key = "stop_token_ids", .use = BOTH },
    { .key = "n", .use = BOTH },
    { .key = "max_tokens", .use = BOTH },
    { .key = "stream_options", .use = BOTH },
    { .key = "response_format", .use = BOTH },
    { .key = "guided_json", .use = BOTH },
    { .key = "guided_regex", .use = BOTH },
    { .key = "guided_choice", .use = BOTH },
    { .key = "structured_outputs", .use = BOTH },
    { .key = "logprobs", .use = BOTH },
    { .key = "add_special_tokens", .use = BOTH },
    { .key = "best_of", .use = COMPLETIONS },
    { .key = "prompt", .use = COMPLETIONS },
    { .key = "messages", .use = CHAT },
    { .key = "tools", .use = CHAT },
    { .key = "tool_choice", .use = CHAT },
    { .key = "parallel_tool_calls", .use = CHAT },
    { .key = "max_completion_tokens", .use = CHAT },
    { .key = "top_logprobs", .use = CHAT },
    { .key = "chat_template_kwargs", .use = CHAT },
    { .key = "documents", .use = CHAT },
    { .key = "add_generation_prompt", .use = CHAT },
    { .key = "continue_final_message", .use = CHAT },
    { .key = "user", .use = NOTHING },
    { .key = "metadata", .use = NOTHING },
    { .key = "store", .use = NOTHING },
    { .key = "service_tier", .use = NOTHING },
    { .key = "safety_identifier", .use = NOTHING },
    { .key = "prompt_cache_key", .use = NOTHING },
    { .key = "suffix", .use = NONE },
    { .key = "functions", .use = NONE },
    { .key = "function_call", .use = NONE },
    { .key = "modalities", .use = NONE },
    { .key = "audio", .use = NONE },
    { .key = "prediction", .use = NONE },
    { .key = "reasoning_effort", .use = NONE },
    { .key = "web_search_options", .use = NONE },
    { .key = "use_beam_search", .use = NONE },
    { .key = "guided_grammar", .use = NONE },
    { .key = "chat_template", .use = NONE },
    { .key = "prompt_logprobs", .use = NONE },
};

/* NULL: unknown. */
static const struct parameter *find(const char *key)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(known[i].key, key))
            return &known[i];
    return NULL;
}

/* True for values without effect: clients send defaults, such as text output only. */
static bool asks_for_nothing(const char *key, const struct spot_json_value *v)
{
    if (!strcmp(key, "function_call"))
        return spot_json_is_nothing(v) || spot_json_is_word(v, "none") ||
               spot_json_is_word(v, "auto");
    if (!strcmp(key, "modalities") && spot_json_array_size(v) == 1)
        return spot_json_is_word(spot_json_entry(v, 0), "text");
    if (!strcmp(key, "reasoning_effort"))
        return spot_json_is_nothing(v) || spot_json_is_word(v, "none");
    if (!strcmp(key, "web_search_options")) /* {} requests a search */
        return spot_json_is_null(v);
    return spot_json_is_nothing(v);
}

static void check_keys(struct spot_body *b)
{
    const enum use other = b->api == SPOT_API_COMPLETIONS ? CHAT : COMPLETIONS;
    const struct spot_json_value *v;
    const char *key;

    for (size_t i = 0; (v = spot_json_member(b->doc.root, i, &key)) && !b->status; i++) {
        const struct parameter *const p = find(key);

        if (spot_json_is_null(v))
            continue;
        if (!p || p->use == other)
            spot_body_refuse(b, 400, NULL, NULL, "Unrecognized request argument supplied: %s", key);
        else if (p->use == NONE && !asks_for_nothing(key, v))
            spot_body_refuse(b, 400, key, NULL, "'%s' is not supported by this server.", key);
    }
}

static void read_parameter(struct spot_body *b, const struct parameter *p)
{
    void *const to = (char *)b->r + p->at;

    if (p->kind == NUMBER)
        *(double *)to = number(b, p->key, p->min, p->max, p->otherwise);
    else if (p->kind == INTEGER)
        *(int64_t *)to =
            spot_body_integer(b, p->key, (int64_t)p->min, (int64_t)p->max, (int64_t)p->otherwise);
    else if (p->kind == FLAG)
        *(bool *)to = spot_body_boolean(b, p->key, false);
}

void spot_body_read_keys(struct spot_body *b)
{
    check_keys(b);
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        read_parameter(b, &known[i]);
    if (b->r->sample.top_k < 0)
        b->r->sample.top_k = 0;
}
