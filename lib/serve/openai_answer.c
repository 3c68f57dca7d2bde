/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_writer.h"
#include "common/utf8.h"
#include "common/xalloc.h"
#include "serve/front.h"
#include "serve/openai_state.h"
#include "text/detok.h"

/* --- a document into a buffer ------------------------------------------------ */

struct page {
    struct spot_jw jw;
    FILE *f;
    char *text;
    size_t n;
};

static struct spot_jw *begin(struct page *p)
{
    p->text = NULL;
    p->f = open_memstream(&p->text, &p->n);
    if (!p->f)
        spot_no_memory("an answer");
    spot_jw_init(&p->jw, p->f, false);
    spot_jw_object(&p->jw, NULL);
    return &p->jw;
}

static void finish(struct page *p, struct spot_buf *out)
{
    spot_jw_end(&p->jw);
    spot_jw_close(&p->jw, NULL);
    fclose(p->f);
    spot_buf_add(out, p->text, p->n && p->text[p->n - 1] == '\n' ? p->n - 1 : p->n);
    free(p->text);
}

/* --- parts ------------------------------------------------------------------ */

static const char *finish_name(enum spot_finish finish)
{
    return finish == SPOT_FINISH_STOP ? "stop" : "length";
}

static void put_finish(struct spot_jw *jw, enum spot_finish finish)
{
    if (finish == SPOT_FINISH_NONE ||
        finish == SPOT_FINISH_CANCELLED) /* an error says the latter */
        spot_jw_null(jw, "finish_reason");
    else
        spot_jw_str(jw, "finish_reason", finish_name(finish));
}

/* Tokens [begin, end) of a choice. */
struct part {
    const struct spot_front_options *options;
    const struct spot_completion *c;
    const struct spot_choice *h;
    size_t begin, end;
};

/* Of a special token its name. */
static struct spot_buf token_text(const struct part *p, uint32_t id)
{
    struct spot_buf text = { 0 };
    size_t n;
    const uint8_t *const name = spot_bpe_token(p->c->vocabulary->bpe, id, &n);

    if (!spot_detok_bytes(p->c->vocabulary->bpe, id, &text) && name)
        spot_buf_add(&text, name, n);
    return text;
}

static void put_token(const struct part *p, struct spot_jw *jw, const char *key, uint32_t id)
{
    struct spot_buf text = token_text(p, id);

    spot_jw_text(jw, key, text.n ? text.data : (const void *)"", text.n);
    spot_buf_release(&text);
}

/* What has no logarithm is as improbable as OpenAI's least. */
static double told(double logprob)
{
    return isfinite(logprob) ? logprob : -9999;
}

static size_t text_begin(const struct part *p)
{
    return p->begin ? p->h->text_end[p->begin - 1] : 0;
}

static size_t text_end(const struct part *p)
{
    return p->end ? p->h->text_end[p->end - 1] : 0;
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

/* A part of a character has a key of its own: "bytes:" and they, as OpenAI writes it. */
static struct spot_buf token_key(const struct part *p, uint32_t id)
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
static void put_top(const struct part *p, struct spot_jw *jw, const struct spot_token *t)
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

/* --- the prompt, where it is echoed --- */

static struct spot_request prompt_of(const struct part *p)
{
    uint32_t k;

    return spot_request_part(&p->c->request, (uint32_t)(p->h - p->c->choice), &k);
}

static struct spot_buf prompt_text(const struct part *p)
{
    const struct spot_request r = prompt_of(p);
    struct spot_detokenizer d;
    struct spot_buf text = { 0 };

    spot_detok_init(&d, p->c->vocabulary->bpe, true, false);
    for (size_t i = 0; i < r.n_prompt; i++)
        spot_completion_echo(p->c->vocabulary, &r, i, &d, &text);
    spot_detok_release(&d);
    return text;
}

/* The first token of an echoed prompt stands before all. */
static void put_offsets(const struct part *p, struct spot_jw *jw, bool has_first)
{
    if (has_first)
        spot_jw_int(jw, NULL, 0);
    for (size_t i = p->begin; i < p->end; i++)
        spot_jw_int(jw, NULL, p->h->offset[i]);
}

static void put_logprobs(const struct part *p, struct spot_jw *jw)
{
    const bool has_first = p->c->request.does_echo && !p->begin; /* nothing came before it */

    if (p->c->request.n_logprob < 0) {
        spot_jw_null(jw, "logprobs");
        return;
    }
    spot_jw_object(jw, "logprobs");
    spot_jw_array(jw, "tokens");
    if (has_first)
        put_token(p, jw, NULL, prompt_of(p).prompt[0]);
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

static void put_alternative(const struct part *p, struct spot_jw *jw, uint32_t id, double logprob)
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

static void put_chat_logprobs(const struct part *p, struct spot_jw *jw)
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

/* The text of the part, the prompt's before the first where it is echoed. */
static void put_text(const struct part *p, struct spot_jw *jw, const char *key)
{
    struct spot_buf text = { 0 };

    if (p->c->request.does_echo && !p->begin)
        text = prompt_text(p);
    if (text_end(p) > text_begin(p))
        spot_buf_add(&text, p->h->text.data + text_begin(p), text_end(p) - text_begin(p));
    spot_jw_text(jw, key, text.n ? text.data : (const void *)"", text.n);
    spot_buf_release(&text);
}

static void put_head(struct spot_jw *jw, const struct spot_front_options *options,
                     const struct spot_completion *c, bool is_chunk)
{
    spot_jw_str(jw, "id", c->request.id);
    spot_jw_str(jw, "object",
                !c->request.is_chat ? "text_completion"
                : is_chunk          ? "chat.completion.chunk"
                                    : "chat.completion");
    spot_jw_int(jw, "created", c->request.created_s);
    spot_jw_str(jw, "model", options->model);
}

static void put_usage(struct spot_jw *jw, const struct spot_completion *c)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < c->request.n_choice; i++)
        n += (int64_t)(c->choice[i].n_token - (c->choice[i].n_token < c->choice[i].n_echo
                                                   ? c->choice[i].n_token
                                                   : c->choice[i].n_echo));
    spot_jw_object(jw, "usage");
    spot_jw_int(jw, "prompt_tokens", (int64_t)c->request.n_prompt);
    spot_jw_int(jw, "completion_tokens", n);
    spot_jw_int(jw, "total_tokens", (int64_t)c->request.n_prompt + n);
    spot_jw_end(jw);
}

/* --- whole answers ----------------------------------------------------------- */

static void put_choice(const struct part *p, struct spot_jw *jw, uint32_t index)
{
    spot_jw_object(jw, NULL);
    if (p->c->request.is_chat) {
        spot_jw_int(jw, "index", index);
        spot_jw_object(jw, "message");
        spot_jw_str(jw, "role", "assistant");
        put_text(p, jw, "content");
        spot_jw_null(jw, "refusal");
        spot_jw_end(jw);
        put_chat_logprobs(p, jw);
    } else {
        put_text(p, jw, "text");
        spot_jw_int(jw, "index", index);
        put_logprobs(p, jw);
    }
    put_finish(jw, p->h->finish);
    spot_jw_end(jw);
}

void spot_openai_answer(const struct spot_front_options *options, const struct spot_completion *c,
                        struct spot_buf *out)
{
    struct page page;
    struct spot_jw *const jw = begin(&page);

    put_head(jw, options, c, false);
    spot_jw_array(jw, "choices");
    for (uint32_t i = 0; i < c->request.n_choice; i++) {
        const struct part p = { options, c, &c->choice[i], 0, c->choice[i].n_token };

        put_choice(&p, jw, i);
    }
    spot_jw_end(jw);
    put_usage(jw, c);
    finish(&page, out);
}

/* --- streams ----------------------------------------------------------------- */

static void put_delta(const struct part *p, struct spot_jw *jw, uint32_t index)
{
    spot_jw_object(jw, NULL);
    if (p->c->request.is_chat) {
        spot_jw_int(jw, "index", index);
        spot_jw_object(jw, "delta");
        if (!p->begin)
            spot_jw_str(jw, "role", "assistant");
        put_text(p, jw, "content");
        spot_jw_end(jw);
        put_chat_logprobs(p, jw);
    } else {
        put_text(p, jw, "text");
        spot_jw_int(jw, "index", index);
        put_logprobs(p, jw);
    }
    put_finish(jw, p->end == p->h->n_token ? p->h->finish : SPOT_FINISH_NONE);
    spot_jw_end(jw);
}

void spot_openai_chunk(const struct spot_front_options *options, const struct spot_completion *c,
                       uint32_t choice, size_t position, bool tells_worker, const char *worker,
                       struct spot_buf *out)
{
    const struct part p = { options, c, &c->choice[choice], position, position + 1 };
    struct page page;
    struct spot_jw *const jw = begin(&page);

    put_head(jw, options, c, true);
    spot_jw_array(jw, "choices");
    put_delta(&p, jw, choice);
    spot_jw_end(jw);
    if (c->request.wants_usage)
        spot_jw_null(jw, "usage");
    if (tells_worker) {
        spot_jw_object(jw, "spot");
        if (worker)
            spot_jw_str(jw, "worker", worker);
        spot_jw_int(jw, "epoch", p.h->token[position].epoch);
        spot_jw_end(jw);
    }
    finish(&page, out);
}

void spot_openai_usage_chunk(const struct spot_front_options *options,
                             const struct spot_completion *c, struct spot_buf *out)
{
    struct page page;
    struct spot_jw *const jw = begin(&page);

    put_head(jw, options, c, true);
    spot_jw_array(jw, "choices");
    spot_jw_end(jw);
    put_usage(jw, c);
    finish(&page, out);
}

static void put_model(const struct spot_front_options *options, struct spot_jw *jw,
                      int64_t created_s)
{
    spot_jw_str(jw, "id", options->model);
    spot_jw_str(jw, "object", "model");
    spot_jw_int(jw, "created", created_s);
    spot_jw_str(jw, "owned_by", "spot");
    spot_jw_int(jw, "max_model_len", options->n_context);
}

void spot_openai_models(const struct spot_front_options *options, bool is_list, int64_t created_s,
                        struct spot_buf *out)
{
    struct page page;
    struct spot_jw *const jw = begin(&page);

    if (!is_list) {
        put_model(options, jw, created_s);
    } else {
        spot_jw_str(jw, "object", "list");
        spot_jw_array(jw, "data");
        spot_jw_object(jw, NULL);
        put_model(options, jw, created_s);
        spot_jw_end(jw);
        spot_jw_end(jw);
    }
    finish(&page, out);
}
