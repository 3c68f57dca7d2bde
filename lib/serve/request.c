/* SPDX-License-Identifier: MIT */
#include "serve/request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/tool_call.h"

void spot_request_release(struct spot_request *r)
{
    free(r->prompt);
    free(r->part_end);
    free(r->bias);
    for (size_t i = 0; i < r->n_stop; i++)
        free(r->stop[i]);
    free(r->stop_id);
    free(r->form);
    free(r->response);
    *r = (struct spot_request){ 0 };
}

struct spot_request spot_request_part(const struct spot_request *r, uint32_t choice,
                                      uint32_t *choice_of_part)
{
    struct spot_request part = *r;
    const uint32_t n = r->n_part ? r->n_choice / r->n_part : r->n_choice, k = choice / n;
    const size_t begin = k ? r->part_end[k - 1] : 0;

    *choice_of_part = r->is_seeded ? choice % n : choice;
    if (!r->n_part)
        return part;
    part.prompt = r->prompt + begin;
    part.n_prompt = r->part_end[k] - begin;
    part.part_end = NULL;
    part.n_part = 0;
    part.n_choice = n;
    return part;
}

size_t spot_request_n_echo(const struct spot_request *part)
{
    return part->does_echo && part->n_logprob >= 0 ? part->n_prompt - 1 : 0;
}

bool spot_request_stops_at(const struct spot_request *r, uint32_t token)
{
    for (size_t i = 0; i < r->n_stop_id; i++)
        if (r->stop_id[i] == token)
            return true;
    return false;
}

/* --- as bytes ----------------------------------------------------------------- */

enum {
    CHAT = 1,
    STREAM = 2,
    USAGE = 4,
    ECHO = 8,
    FORM = 16,
    NO_END = 32,
    PARTS = 64,
    SEED = 128,
    RESPONSE = 256,
    KEEP_STOP = 512,
    IDS = 1024,
    BASE64 = 2048,
    CHECK = 4096,
    FRESH = 8192,
};

static unsigned flags_of(const struct spot_request *r)
{
    return (r->is_chat ? CHAT : 0U) | (r->does_stream ? STREAM : 0U) |
           (r->wants_usage ? USAGE : 0U) | (r->does_echo ? ECHO : 0U) | (r->form ? FORM : 0U) |
           (r->ignores_end ? NO_END : 0U) | (r->n_part ? PARTS : 0U) | (r->is_seeded ? SEED : 0U) |
           (r->response ? RESPONSE : 0U) | (r->keeps_stop ? KEEP_STOP : 0U) |
           (r->tells_ids ? IDS : 0U) | (r->is_base64 ? BASE64 : 0U) |
           (r->needs_check ? CHECK : 0U) | (r->is_fresh ? FRESH : 0U);
}

static void put_sample(const struct spot_sample *s, struct spot_buf *out)
{
    spot_put_f64(out, s->temperature);
    spot_put_i64(out, s->top_k);
    spot_put_f64(out, s->top_p);
    spot_put_f64(out, s->min_p);
    spot_put_f64(out, s->repetition);
    spot_put_f64(out, s->presence);
    spot_put_f64(out, s->frequency);
    spot_put_u64(out, s->seed);
}

void spot_request_put(const struct spot_request *r, struct spot_buf *out)
{
    spot_put_text(out, r->id);
    spot_put_u32(out, flags_of(r));
    spot_put_i64(out, r->created_s);
    spot_put_u32(out, (uint32_t)r->n_prompt);
    for (size_t i = 0; i < r->n_prompt; i++)
        spot_put_u32(out, r->prompt[i]);
    if (r->n_part)
        spot_put_u32(out, r->n_part);
    for (uint32_t i = 0; i < r->n_part; i++)
        spot_put_u32(out, r->part_end[i]);
    put_sample(&r->sample, out);
    spot_put_u32(out, (uint32_t)r->n_bias);
    for (size_t i = 0; i < r->n_bias; i++) {
        spot_put_u32(out, r->bias[i].token);
        spot_put_f64(out, (double)r->bias[i].bias);
    }
    spot_put_u32(out, r->n_choice);
    spot_put_i64(out, r->n_token_max);
    spot_put_i64(out, r->n_logprob);
    spot_put_u32(out, (uint32_t)r->n_stop);
    for (size_t i = 0; i < r->n_stop; i++)
        spot_put_text(out, r->stop[i]);
    spot_put_i64(out, r->n_token_min);
    spot_put_u32(out, (uint32_t)r->n_stop_id);
    for (size_t i = 0; i < r->n_stop_id; i++)
        spot_put_u32(out, r->stop_id[i]);
    spot_put_u32(out, r->adapter);
    spot_put_u8(out, (uint8_t)r->pool);
    spot_put_u32(out, r->n_dimension);
    spot_put_u8(out, r->tool_form);
    if (r->form)
        spot_put_text(out, r->form);
    if (r->response)
        spot_put_text(out, r->response);
}

static void get_sample(struct spot_sample *s, struct spot_wire_in *in)
{
    s->temperature = spot_get_f64(in);
    s->top_k = spot_get_i64(in);
    s->top_p = spot_get_f64(in);
    s->min_p = spot_get_f64(in);
    s->repetition = spot_get_f64(in);
    s->presence = spot_get_f64(in);
    s->frequency = spot_get_f64(in);
    s->seed = spot_get_u64(in);
}

static void get_biases(struct spot_request *r, struct spot_wire_in *in)
{
    r->n_bias = spot_get_count(in, 12);
    if (r->n_bias > SPOT_REQUEST_BIASES_MAX)
        in->bad = true;
    if (in->bad)
        r->n_bias = 0;
    r->bias = spot_xcalloc(r->n_bias, sizeof(*r->bias));
    for (size_t i = 0; i < r->n_bias; i++) {
        r->bias[i].token = spot_get_u32(in);
        r->bias[i].bias = (float)spot_get_f64(in);
        if (!(fabsf(r->bias[i].bias) <= 100))
            in->bad = true;
    }
}

/* Read a text of any length, to be freed; NULL if it is missing or contains a NUL. */
static char *get_long(struct spot_wire_in *in)
{
    const uint32_t n = spot_get_count(in, 1);
    const uint8_t *const byte = spot_get_bytes(in, n);
    char *text;

    if (!byte || memchr(byte, 0, n)) {
        in->bad = true;
        return NULL;
    }
    text = spot_xcalloc((size_t)n + 1, 1);
    memcpy(text, byte, n);
    return text;
}

static void get_parts(struct spot_request *r, struct spot_wire_in *in)
{
    r->n_part = spot_get_count(in, 4);
    r->part_end = spot_xcalloc(r->n_part, sizeof(*r->part_end));
    for (uint32_t i = 0; i < r->n_part; i++) {
        r->part_end[i] = spot_get_u32(in);
        if (r->part_end[i] <= (i ? r->part_end[i - 1] : 0))
            in->bad = true;
    }
    if (!r->n_part || r->part_end[r->n_part - 1] != r->n_prompt)
        in->bad = true;
}

static void get_stop_ids(struct spot_request *r, struct spot_wire_in *in)
{
    r->n_stop_id = spot_get_count(in, 4);
    if (r->n_stop_id > SPOT_REQUEST_STOP_IDS_MAX)
        in->bad = true;
    if (in->bad)
        r->n_stop_id = 0;
    r->stop_id = spot_xcalloc(r->n_stop_id, sizeof(*r->stop_id));
    for (size_t i = 0; i < r->n_stop_id; i++)
        r->stop_id[i] = spot_get_u32(in);
}

static bool is_whole(const struct spot_request *r, const struct spot_wire_in *in)
{
    return !in->bad && *r->id && r->n_prompt && r->n_choice &&
           r->n_choice <= SPOT_REQUEST_CHOICES_MAX && r->n_token_max >= !r->does_echo &&
           r->n_token_min >= 0 && r->pool <= SPOT_POOL_MEAN && r->tool_form <= SPOT_TOOL_FORMS &&
           r->n_logprob >= -1 && r->n_logprob <= SPOT_REQUEST_LOGPROBS_MAX &&
           (!r->n_part || r->n_choice % r->n_part == 0);
}

int spot_request_get(struct spot_request *r, struct spot_wire_in *in)
{
    unsigned flags;
    uint32_t n_stop;

    *r = (struct spot_request){ 0 };
    spot_get_text(in, r->id, sizeof(r->id));
    flags = spot_get_u32(in);
    r->is_chat = flags & CHAT;
    r->does_stream = flags & STREAM;
    r->wants_usage = flags & USAGE;
    r->does_echo = flags & ECHO;
    r->ignores_end = flags & NO_END;
    r->is_seeded = flags & SEED;
    r->keeps_stop = flags & KEEP_STOP;
    r->tells_ids = flags & IDS;
    r->is_base64 = flags & BASE64;
    r->needs_check = flags & CHECK;
    r->is_fresh = flags & FRESH;
    r->created_s = spot_get_i64(in);
    r->n_prompt = spot_get_count(in, 4);
    r->prompt = spot_xcalloc(r->n_prompt, sizeof(*r->prompt));
    for (size_t i = 0; i < r->n_prompt; i++)
        r->prompt[i] = spot_get_u32(in);
    if (!in->bad && flags & PARTS)
        get_parts(r, in);
    get_sample(&r->sample, in);
    get_biases(r, in);
    r->n_choice = spot_get_u32(in);
    r->n_token_max = spot_get_i64(in);
    r->n_logprob = (int)spot_get_i64(in);
    n_stop = spot_get_count(in, 4);
    if (n_stop > SPOT_REQUEST_STOPS_MAX)
        in->bad = true;
    while (!in->bad && r->n_stop < n_stop) {
        if ((r->stop[r->n_stop] = get_long(in)))
            in->bad = !*r->stop[r->n_stop++];
    }
    r->n_token_min = spot_get_i64(in);
    get_stop_ids(r, in);
    r->adapter = spot_get_u32(in);
    r->pool = (enum spot_pool)spot_get_u8(in);
    r->n_dimension = spot_get_u32(in);
    r->tool_form = spot_get_u8(in);
    if (!in->bad && flags & FORM)
        r->form = get_long(in);
    if (!in->bad && flags & RESPONSE)
        r->response = get_long(in);
    if (is_whole(r, in))
        return 0;
    spot_request_release(r);
    return -1;
}
