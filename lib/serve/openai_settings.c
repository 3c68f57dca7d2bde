/* SPDX-License-Identifier: MIT */
/* Reads the settings of sampling, stop conditions and output. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "common/xalloc.h"
#include "serve/openai_body.h"

enum { STOP_MAX = 1024 };

static void read_seed(struct spot_body *b)
{
    uint64_t *const to = &b->r->sample.seed;

    b->r->is_seeded = spot_body_member(b, "seed") != NULL;
    *to = (uint64_t)spot_body_integer(b, "seed", INT64_MIN, INT64_MAX, 0);
    if (!b->r->is_seeded && spot_random_bytes(to, sizeof(*to), NULL))
        spot_body_refuse(b, 500, NULL, NULL, "There are no random numbers.");
}

/* A member's key is the number of a token of the vocabulary. */
static bool read_token(const struct spot_body *b, const char *key, uint32_t *token)
{
    uint64_t n = 0;

    if (!*key || strlen(key) > 9 || strspn(key, "0123456789") != strlen(key) ||
        (key[0] == '0' && key[1])) /* "01" would be a duplicate of 1 */
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

static void read_logprobs(struct spot_body *b)
{
    int n_top;

    b->r->n_logprob = -1;
    if (b->api == SPOT_API_COMPLETIONS) {
        b->r->n_logprob = (int)spot_body_integer(b, "logprobs", 0, SPOT_REQUEST_LOGPROBS_MAX, -1);
        return;
    }
    n_top = (int)spot_body_integer(b, "top_logprobs", 0, SPOT_REQUEST_LOGPROBS_MAX, 0);
    if (spot_body_boolean(b, "logprobs", false))
        b->r->n_logprob = n_top;
    else if (n_top)
        spot_body_refuse(b, 400, "top_logprobs", NULL, "'top_logprobs' needs 'logprobs': true.");
}

static void read_stream(struct spot_body *b)
{
    const struct spot_json_value *const options = spot_body_member(b, "stream_options"), *v;
    const char *key;

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

static void read_stop_ids(struct spot_body *b)
{
    const struct spot_json_value *const v = spot_body_member(b, "stop_token_ids");
    const size_t n = spot_json_array_size(v);

    if (v && (!spot_json_is_array(v) || n > SPOT_REQUEST_STOP_IDS_MAX)) {
        spot_body_refuse(b, 400, "stop_token_ids", NULL,
                         "'stop_token_ids' must be an array of at most %d tokens.",
                         SPOT_REQUEST_STOP_IDS_MAX);
        return;
    }
    b->r->stop_id = spot_xcalloc(n, sizeof(*b->r->stop_id));
    for (size_t i = 0; i < n; i++) {
        const struct spot_json_value *const id = spot_json_entry(v, i);

        if (!spot_json_is_integer(id) || spot_json_integer(id) < 0 ||
            spot_json_integer(id) >= b->options->n_vocabulary)
            spot_body_refuse(b, 400, "stop_token_ids", NULL,
                             "'stop_token_ids' must be tokens of 0 to %" PRId64 ".",
                             b->options->n_vocabulary - 1);
        b->r->stop_id[b->r->n_stop_id++] = (uint32_t)spot_json_integer(id);
    }
}

static void read_choices(struct spot_body *b)
{
    uint32_t *const n = &b->r->n_choice;

    *n = (uint32_t)spot_body_integer(b, "n", 1, SPOT_REQUEST_N_MAX, 1);
    if (spot_body_integer(b, "best_of", 1, SPOT_REQUEST_N_MAX, *n) != *n)
        spot_body_refuse(b, 400, "best_of", NULL, "'best_of' other than 'n' is not supported.");
}

void spot_body_read_settings(struct spot_body *b)
{
    read_seed(b);
    read_biases(b);
    read_stop(b);
    read_stop_ids(b);
    read_logprobs(b);
    read_stream(b);
    read_choices(b);
}

/* --- after the prompt ------------------------------------------------------- */

static int64_t longest_prompt(const struct spot_request *r)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < r->n_part; i++) {
        const uint32_t n = r->part_end[i] - (i ? r->part_end[i - 1] : 0);

        most = n > most ? n : most;
    }
    return r->n_part ? most : (int64_t)r->n_prompt;
}

void spot_body_read_lengths(struct spot_body *b)
{
    const bool is_chat = b->api != SPOT_API_COMPLETIONS;
    const int64_t n_prompt = longest_prompt(b->r), room = b->options->n_context - n_prompt;
    const char *const key =
        spot_body_member(b, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens";

    b->r->n_token_max = spot_body_integer(b, key, !b->r->does_echo, INT32_MAX, is_chat ? room : 16);
    if (spot_body_integer(b, "max_tokens", 0, INT32_MAX, b->r->n_token_max) != b->r->n_token_max)
        spot_body_refuse(b, 400, "max_tokens", NULL,
                         "'max_tokens' and 'max_completion_tokens' differ.");
    if (!b->r->n_token_max && b->r->does_stream)
        spot_body_refuse(b, 400, key, NULL, "A stream of 0 tokens is not supported.");
    if (b->r->n_token_min > b->r->n_token_max)
        spot_body_refuse(b, 400, "min_tokens", NULL, "'min_tokens' is more than '%s'.", key);
    if (!b->status && (room < is_chat || b->r->n_token_max > room))
        spot_body_refuse(b, 400, is_chat ? "messages" : "prompt", "context_length_exceeded",
                         "This model's maximum context length is %" PRId64
                         " tokens. However, you requested %" PRId64 " tokens (%" PRId64
                         " in the prompt, %" PRId64 " to complete).",
                         b->options->n_context,
                         n_prompt + (b->r->n_token_max > 0 ? b->r->n_token_max : 0), n_prompt,
                         b->r->n_token_max > 0 ? b->r->n_token_max : 0);
}
