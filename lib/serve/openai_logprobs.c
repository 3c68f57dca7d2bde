/* SPDX-License-Identifier: MIT */
/* Log probabilities in OpenAI's two formats. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"
#include "serve/openai_state.h"

/* The text of a token; of a special token its name. */
static struct spot_buf token_text(const struct spot_answer_part *p, uint32_t id)
{
    struct spot_buf text = { 0 };
    size_t n;
    const uint8_t *const name = spot_bpe_token(p->c->vocabulary->bpe, id, &n);

    if (!spot_detok_bytes(p->c->vocabulary->bpe, id, &text) && name)
        spot_buf_add(&text, name, n);
    return text;
}

static void put_token(const struct spot_answer_part *p, struct spot_jw *jw, const char *key,
                      uint32_t id)
{
    struct spot_buf text = token_text(p, id);

    spot_jw_text(jw, key, text.n ? text.data : (const void *)"", text.n);
    spot_buf_release(&text);
}

/* Probability 0 becomes OpenAI's lowest log probability. */
static double told(double logprob)
{
    return isfinite(logprob) ? logprob : -9999;
}

static bool is_characters(const struct spot_buf *text)
{
    size_t at = 0;

    while (at < text->n && text->data[at]) {
        uint32_t code;

        at += spot_utf8_char((const char *)text->data + at, text->n - at, &code);
        if (code == UINT32_MAX)
            return false;
    }
    return at == text->n;
}

/* A part of a character has the key "bytes:" followed by its bytes, as in OpenAI's API. */
static struct spot_buf token_key(const struct spot_answer_part *p, uint32_t id)
{
    struct spot_buf text = token_text(p, id), name = { 0 };

    if (is_characters(&text)) {
        spot_buf_add(&text, "", 1);
        return text;
    }
    spot_buf_add(&name, "bytes:", 6);
    for (size_t i = 0; i < text.n; i++) {
        char byte[5];

        snprintf(byte, sizeof(byte), "\\x%02x", text.data[i]);
        spot_buf_add(&name, byte, 4);
    }
    spot_buf_add(&name, "", 1);
    spot_buf_release(&text);
    return name;
}

/* An object with a key for each alternative: two tokens of one text are one key. */
static void put_top(const struct spot_answer_part *p, struct spot_jw *jw,
                    const struct spot_token *t)
{
    spot_jw_object(jw, NULL);
    for (uint32_t i = 0; i < t->n_top; i++) {
        struct spot_buf key = token_key(p, t->top[i].id);
        bool is_new = true;

        for (uint32_t k = 0; k < i && is_new; k++) {
            struct spot_buf other = token_key(p, t->top[k].id);

            is_new = strcmp((const char *)other.data, (const char *)key.data) != 0;
            spot_buf_release(&other);
        }
        if (is_new)
            spot_jw_real(jw, (const char *)key.data, told(t->top[i].logprob));
        spot_buf_release(&key);
    }
    spot_jw_end(jw);
}

/* The first token of an echoed prompt stands before all. */
static void put_offsets(const struct spot_answer_part *p, struct spot_jw *jw, bool has_first)
{
    if (has_first)
        spot_jw_int(jw, NULL, 0);
    for (size_t i = p->begin; i < p->end; i++)
        spot_jw_int(jw, NULL, p->h->offset[i]);
}

void spot_answer_part_put_logprobs(const struct spot_answer_part *p, struct spot_jw *jw)
{
    const bool has_first = p->c->request.does_echo && !p->begin; /* no token precedes it */

    if (p->c->request.n_logprob < 0) {
        spot_jw_null(jw, "logprobs");
        return;
    }
    spot_jw_object(jw, "logprobs");
    spot_jw_array(jw, "tokens");
    if (has_first)
        put_token(p, jw, NULL, spot_answer_part_prompt(p).prompt[0]);
    for (size_t i = p->begin; i < p->end; i++)
        put_token(p, jw, NULL, p->h->token[i].id);
    spot_jw_end(jw);
    spot_jw_array(jw, "token_logprobs");
    if (has_first)
        spot_jw_null(jw, NULL);
    for (size_t i = p->begin; i < p->end; i++)
        spot_jw_real(jw, NULL, told(p->h->token[i].logprob));
    spot_jw_end(jw);
    spot_jw_array(jw, "top_logprobs");
    if (has_first)
        spot_jw_null(jw, NULL);
    for (size_t i = p->begin; i < p->end; i++)
        put_top(p, jw, &p->h->token[i]);
    spot_jw_end(jw);
    spot_jw_array(jw, "text_offset");
    put_offsets(p, jw, has_first);
    spot_jw_end(jw);
    spot_jw_end(jw);
}

static void put_alternative(const struct spot_answer_part *p, struct spot_jw *jw, uint32_t id,
                            double logprob)
{
    struct spot_buf text = token_text(p, id);

    put_token(p, jw, "token", id);
    spot_jw_real(jw, "logprob", told(logprob));
    spot_jw_array(jw, "bytes");
    for (size_t i = 0; i < text.n; i++)
        spot_jw_int(jw, NULL, text.data[i]);
    spot_jw_end(jw);
    spot_buf_release(&text);
}

void spot_answer_part_put_chat_logprobs(const struct spot_answer_part *p, struct spot_jw *jw)
{
    if (p->c->request.n_logprob < 0) {
        spot_jw_null(jw, "logprobs");
        return;
    }
    spot_jw_object(jw, "logprobs");
    spot_jw_array(jw, "content");
    for (size_t i = p->begin; i < p->end; i++) {
        const struct spot_token *const t = &p->h->token[i];

        spot_jw_object(jw, NULL);
        put_alternative(p, jw, t->id, t->logprob);
        spot_jw_array(jw, "top_logprobs");
        for (uint32_t k = 0; k < t->n_top; k++) {
            spot_jw_object(jw, NULL);
            put_alternative(p, jw, t->top[k].id, t->top[k].logprob);
            spot_jw_end(jw);
        }
        spot_jw_end(jw);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_end(jw);
}
