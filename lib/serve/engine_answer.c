/* SPDX-License-Identifier: MIT */
/* Parses answers of engines. */
#define _GNU_SOURCE /* memmem */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "serve/engine_preset.h"

void spot_engine_event_release(struct spot_engine_event *e)
{
    free(e->token);
    spot_buf_release(&e->text);
}

static struct spot_token *add_token(struct spot_engine_event *e, uint32_t id)
{
    e->token = spot_xgrow(e->token, &e->cap_token, e->n_token + 1, sizeof(*e->token));
    e->token[e->n_token] = (struct spot_token){ .id = id };
    return &e->token[e->n_token++];
}

static void add_top(struct spot_token *t, uint32_t id, double logprob)
{
    if (t->n_top < SPOT_REQUEST_LOGPROBS_MAX)
        t->top[t->n_top++] = (struct spot_top){ .id = id, .logprob = logprob };
}

/* Returns 0, or -1 if the value is not a token. */
static int read_id(const struct spot_json_value *v, uint32_t *id)
{
    const int64_t value = spot_json_is_integer(v) ? spot_json_integer(v) : -1;

    *id = (uint32_t)value;
    return value < 0 || value > INT32_MAX ? -1 : 0;
}

static int read_ids(const struct spot_json_value *ids, struct spot_engine_event *e)
{
    const struct spot_json_value *entry;
    size_t i;
    uint32_t id;

    spot_json_array_foreach(ids, i, entry)
    {
        if (read_id(entry, &id))
            return -1;
        (void)add_token(e, id);
    }
    return 0;
}

/* "token_id:17" */
static int read_named_id(const char *name, uint32_t *id)
{
    static const char prefix[] = "token_id:";
    char *end;

    if (!name || strncmp(name, prefix, sizeof(prefix) - 1) != 0)
        return -1;
    *id = (uint32_t)strtoul(name + sizeof(prefix) - 1, &end, 10);
    return *end ? -1 : 0;
}

static void read_openai_logprobs(const struct spot_json_value *l, struct spot_engine_event *e)
{
    const struct spot_json_value *const own = spot_json_get(l, "token_logprobs");
    const struct spot_json_value *const tops = spot_json_get(l, "top_logprobs");

    for (size_t i = 0; i < e->n_token && i < spot_json_array_size(own); i++) {
        const struct spot_json_value *const top = spot_json_entry(tops, i), *member;
        const char *key;
        uint32_t id;

        e->token[i].logprob = spot_json_number(spot_json_entry(own, i));
        for (size_t k = 0; (member = spot_json_member(top, k, &key)); k++)
            if (!read_named_id(key, &id))
                add_top(&e->token[i], id, spot_json_number(member));
    }
}

static enum spot_engine_end end_of(const char *why)
{
    if (!why || !*why || !strcmp(why, "none"))
        return SPOT_ENGINE_GOES_ON;
    return !strcmp(why, "length") || !strcmp(why, "limit") ? SPOT_ENGINE_LENGTH : SPOT_ENGINE_STOP;
}

static int read_openai(const struct spot_json_value *root, struct spot_engine_event *e)
{
    const struct spot_json_value *const choices = spot_json_get(root, "choices");
    const struct spot_json_value *const choice = spot_json_entry(choices, 0);
    const char *const text = spot_json_text(spot_json_get(choice, "text"));

    if (!spot_json_is_array(choices))
        return -1;
    if (!choice) /* of the usage */
        return 0;
    if (!text || read_ids(spot_json_get(choice, "token_ids"), e))
        return -1;
    read_openai_logprobs(spot_json_get(choice, "logprobs"), e);
    spot_buf_add(&e->text, text, strlen(text));
    e->end = end_of(spot_json_text(spot_json_get(choice, "finish_reason")));
    return 0;
}

static void read_llama_logprobs(const struct spot_json_value *all, struct spot_engine_event *e)
{
    for (size_t i = 0; i < e->n_token && i < spot_json_array_size(all); i++) {
        const struct spot_json_value *const one = spot_json_entry(all, i), *top;
        size_t k;
        uint32_t id;

        e->token[i].logprob = spot_json_number(spot_json_get(one, "logprob"));
        spot_json_array_foreach(spot_json_get(one, "top_logprobs"), k, top)
        {
            if (!read_id(spot_json_get(top, "id"), &id))
                add_top(&e->token[i], id, spot_json_number(spot_json_get(top, "logprob")));
        }
    }
}

static int read_llama(const struct spot_json_value *root, struct spot_engine_event *e)
{
    const char *const text = spot_json_text(spot_json_get(root, "content"));
    const struct spot_json_value *const n = spot_json_get(root, "tokens_predicted");

    if (!text || read_ids(spot_json_get(root, "tokens"), e))
        return -1;
    read_llama_logprobs(spot_json_get(root, "completion_probabilities"), e);
    spot_buf_add(&e->text, text, strlen(text));
    e->n_all = spot_json_is_integer(n) ? spot_json_integer(n) : -1;
    if (spot_json_is_true(spot_json_get(root, "stop"))) {
        e->end = end_of(spot_json_text(spot_json_get(root, "stop_type")));
        e->end = e->end == SPOT_ENGINE_GOES_ON ? SPOT_ENGINE_STOP : e->end;
    }
    return 0;
}

/* Depending on SGLang's options its events have all ids so far, or only the new ones; the count
 * shows which. */
static int read_sglang(const struct spot_json_value *root, struct spot_engine_event *e)
{
    const struct spot_json_value *const meta = spot_json_get(root, "meta_info");
    const struct spot_json_value *const n = spot_json_get(meta, "completion_tokens");
    const struct spot_json_value *const why = spot_json_get(meta, "finish_reason");
    const struct spot_json_value *const own = spot_json_get(meta, "output_token_logprobs");
    const struct spot_json_value *const tops = spot_json_get(meta, "output_top_logprobs");
    const char *const type = spot_json_text(spot_json_get(why, "type"));

    if (!spot_json_is_integer(n) || read_ids(spot_json_get(root, "output_ids"), e) ||
        (type && !strcmp(type, "abort")))
        return -1;
    e->n_all = spot_json_integer(n);
    if (e->n_all < (int64_t)e->n_token)
        return -1;
    e->n_before = e->n_all - (int64_t)e->n_token;
    for (size_t i = 0; i < e->n_token && i < spot_json_array_size(own); i++) {
        const struct spot_json_value *top;
        size_t k;
        uint32_t id;

        e->token[i].logprob = spot_json_number(spot_json_entry(spot_json_entry(own, i), 0));
        spot_json_array_foreach(spot_json_entry(tops, i), k, top)
        {
            if (!read_id(spot_json_entry(top, 1), &id))
                add_top(&e->token[i], id, spot_json_number(spot_json_entry(top, 0)));
        }
    }
    e->end = end_of(type);
    return 0;
}

static int read_tgi(const struct spot_json_value *root, struct spot_engine_event *e)
{
    const struct spot_json_value *const token = spot_json_get(root, "token");
    const char *const text = spot_json_text(spot_json_get(token, "text"));
    const struct spot_json_value *const details = spot_json_get(root, "details");

    if (!text)
        return -1;
    if (!spot_json_is_true(spot_json_get(token, "special")))
        spot_buf_add(&e->text, text, strlen(text));
    e->end = end_of(spot_json_text(spot_json_get(details, "finish_reason")));
    if (e->end == SPOT_ENGINE_GOES_ON && spot_json_text(spot_json_get(root, "generated_text")))
        e->end = SPOT_ENGINE_STOP;
    return 0;
}

static int read_ollama(const struct spot_json_value *root, struct spot_engine_event *e)
{
    const char *const text = spot_json_text(spot_json_get(root, "response"));

    if (!text)
        return -1;
    spot_buf_add(&e->text, text, strlen(text));
    if (spot_json_is_true(spot_json_get(root, "done"))) {
        e->end = end_of(spot_json_text(spot_json_get(root, "done_reason")));
        e->end = e->end == SPOT_ENGINE_GOES_ON ? SPOT_ENGINE_STOP : e->end;
    }
    return 0;
}

static int read_answer(const struct spot_engine_preset *p, const struct spot_json_value *root,
                       struct spot_engine_event *e)
{
    switch (p->dialect) {
    case SPOT_ENGINE_VLLM:
    case SPOT_ENGINE_TRANSFORMERS:
        return read_openai(root, e);
    case SPOT_ENGINE_LLAMA:
        return read_llama(root, e);
    case SPOT_ENGINE_SGLANG:
        return read_sglang(root, e);
    case SPOT_ENGINE_TGI:
        return read_tgi(root, e);
    case SPOT_ENGINE_OLLAMA:
        return read_ollama(root, e);
    }
    return -1;
}

/* The text of {"error": TEXT}, {"error": {"message": TEXT}} or FastAPI's {"detail": TEXT}. */
static const char *error_of(const struct spot_json_value *root)
{
    const struct spot_json_value *const detail = spot_json_get(root, "detail");
    const struct spot_json_value *const error = detail ? detail : spot_json_get(root, "error");
    const char *const text = spot_json_text(spot_json_get(error, "message"));

    if (!error || spot_json_is_null(error))
        return NULL;
    return text ? text : spot_json_text(error) ? spot_json_text(error) : "an error";
}

/* Replace escaped NUL bytes, which documents here must not contain but a model's token may, by
 * U+FFFD; the text does not matter if ids are given. An escape begins after an even number of
 * backslashes. */
static void without_nul(struct spot_buf *text)
{
    for (size_t i = 0; i + 6 <= text->n; i += 1 + (text->data[i] == '\\'))
        if (!memcmp(text->data + i, "\\u0000", 6))
            memcpy(text->data + i, "\\ufffd", 6);
}

int spot_engine_event_read(const struct spot_engine_preset *p, const char *text, size_t n_byte,
                           struct spot_engine_event *e, struct spot_err *err)
{
    struct spot_buf sound = { 0 };
    struct spot_json_doc doc;
    const char *why;
    int rc = 0;

    e->n_token = 0;
    e->text.n = 0;
    e->n_before = e->n_all = -1;
    e->end = SPOT_ENGINE_GOES_ON;
    if (memmem(text, n_byte, "\\u0000", 6)) {
        spot_buf_add(&sound, text, n_byte);
        without_nul(&sound);
        text = (const char *)sound.data;
    }
    rc = spot_json_parse(&doc, text, n_byte, "the engine's answer", err);
    spot_buf_release(&sound);
    if (rc)
        return -1;
    why = error_of(doc.root);
    if (why)
        rc = spot_err_set(err, SPOT_EDATA, "the engine reports: %.150s", why);
    else if (read_answer(p, doc.root, e))
        rc = spot_err_set(err, SPOT_EDATA, "the engine's answer is not in the format of %s",
                          p->name);
    spot_json_release(&doc);
    return rc;
}
