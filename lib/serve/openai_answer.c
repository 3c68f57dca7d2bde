/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/json_writer.h"
#include "common/xalloc.h"
#include "serve/adapter_list.h"
#include "serve/front.h"
#include "serve/openai_state.h"
#include "text/detok.h"

/* --- a document into a buffer ------------------------------------------------ */

struct spot_jw *spot_page_begin(struct spot_page *p)
{
    p->f = spot_xmemory_open(&p->text, &p->n);
    spot_jw_init(&p->jw, p->f, false);
    spot_jw_object(&p->jw, NULL);
    return &p->jw;
}

void spot_page_finish(struct spot_page *p, struct spot_buf *out)
{
    spot_jw_end(&p->jw);
    spot_jw_close(&p->jw, NULL);
    spot_xmemory_close(p->f);
    spot_buf_add(out, p->text, p->n && p->text[p->n - 1] == '\n' ? p->n - 1 : p->n);
    free(p->text);
}

/* --- parts ------------------------------------------------------------------ */

static void put_finish(struct spot_jw *jw, const struct spot_choice *h, bool is_last)
{
    if (!is_last || h->finish == SPOT_FINISH_NONE ||
        h->finish == SPOT_FINISH_CANCELLED) /* errors are reported in an error object */
        spot_jw_null(jw, "finish_reason");
    else
        spot_jw_str(jw, "finish_reason",
                    h->finish != SPOT_FINISH_STOP ? "length"
                    : h->calls.n_call             ? "tool_calls"
                                                  : "stop");
}

static size_t text_begin(const struct spot_answer_part *p)
{
    return p->begin ? p->h->text_end[p->begin - 1] : 0;
}

static size_t text_end(const struct spot_answer_part *p)
{
    return p->end ? p->h->text_end[p->end - 1] : 0;
}

/* --- the prompt, where it is echoed --- */

struct spot_request spot_answer_part_prompt(const struct spot_answer_part *p)
{
    uint32_t k;

    return spot_request_part(&p->c->request, (uint32_t)(p->h - p->c->choice), &k);
}

static struct spot_buf prompt_text(const struct spot_answer_part *p)
{
    const struct spot_request r = spot_answer_part_prompt(p);
    struct spot_detokenizer d;
    struct spot_buf text = { 0 };

    spot_detok_init(&d, p->c->vocabulary->bpe, true, false);
    for (size_t i = 0; i < r.n_prompt; i++)
        spot_completion_echo(p->c->vocabulary, &r, i, &d, &text);
    spot_detok_release(&d);
    return text;
}

/* Write the text of the part; the first part begins with the prompt if it is echoed. */
static void put_text(const struct spot_answer_part *p, struct spot_jw *jw, const char *key)
{
    struct spot_buf text = { 0 };

    if (p->c->request.does_echo && !p->begin)
        text = prompt_text(p);
    if (text_end(p) > text_begin(p))
        spot_buf_add(&text, p->h->text.data + text_begin(p), text_end(p) - text_begin(p));
    spot_jw_text(jw, key, text.n ? text.data : (const void *)"", text.n);
    spot_buf_release(&text);
}

void spot_openai_put_model_name(struct spot_jw *jw, const struct spot_front_options *options,
                                const struct spot_request *r)
{
    struct spot_adapter a;

    if (spot_adapter_at(options->adapters, r->adapter, &a))
        spot_jw_text(jw, "model", a.name, a.n_name);
    else
        spot_jw_str(jw, "model", options->model);
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
    spot_openai_put_model_name(jw, options, &c->request);
    if (c->vocabulary->fingerprint)
        spot_jw_str(jw, "system_fingerprint", c->vocabulary->fingerprint);
}

int64_t spot_openai_n_generated(const struct spot_completion *c)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < c->request.n_choice; i++)
        n += (int64_t)c->choice[i].n_counted;
    return n;
}

/* Counts each prompt once: its other choices reuse the first one's pages. */
int64_t spot_openai_n_cached(const struct spot_completion *c)
{
    const uint32_t n_part = c->request.n_part ? c->request.n_part : 1;
    int64_t n = 0;

    for (uint32_t i = 0; i < c->request.n_choice; i += c->request.n_choice / n_part)
        n += c->choice[i].n_token ? c->choice[i].token[0].n_cached : c->choice[i].n_state_cached;
    return n;
}

static void put_usage(struct spot_jw *jw, const struct spot_completion *c)
{
    const int64_t n = spot_openai_n_generated(c);

    spot_jw_object(jw, "usage");
    spot_jw_int(jw, "prompt_tokens", (int64_t)c->request.n_prompt);
    spot_jw_int(jw, "completion_tokens", n);
    spot_jw_int(jw, "total_tokens", (int64_t)c->request.n_prompt + n);
    spot_jw_object(jw, "prompt_tokens_details");
    spot_jw_int(jw, "cached_tokens", spot_openai_n_cached(c));
    spot_jw_end(jw);
    spot_jw_end(jw);
}

/* --- tokens ------------------------------------------------------------------ */

void spot_openai_put_ids(struct spot_jw *jw, const char *key, const uint32_t *id, size_t n)
{
    spot_jw_array(jw, key);
    for (size_t i = 0; i < n; i++)
        spot_jw_int(jw, NULL, id[i]);
    spot_jw_end(jw);
}

/* Written where vLLM has a prompt's ids: at the head of a chat, in each choice of a completion. */
static void put_prompt_ids(const struct spot_answer_part *p, struct spot_jw *jw)
{
    const struct spot_request prompt = spot_answer_part_prompt(p);

    if (p->c->request.tells_ids && !p->begin)
        spot_openai_put_ids(jw, "prompt_token_ids", prompt.prompt, prompt.n_prompt);
}

static void put_token_ids(const struct spot_answer_part *p, struct spot_jw *jw)
{
    if (!p->c->request.tells_ids)
        return;
    if (!p->c->request.is_chat)
        put_prompt_ids(p, jw);
    spot_jw_array(jw, "token_ids");
    for (size_t i = p->begin > p->h->n_echo ? p->begin : p->h->n_echo; i < p->end; i++)
        spot_jw_int(jw, NULL, p->h->token[i].id);
    spot_jw_end(jw);
}

/* --- calls of tools ----------------------------------------------------------- */

/* The id depends on the prompt, so that calls of one conversation differ even with the same
 * seed. */
void spot_openai_call_id(const struct spot_completion *c, uint32_t choice, uint32_t k,
                         char id[SPOT_CALL_ID_MAX])
{
    const struct spot_request *const r = &c->request;
    const uint64_t of[] = { spot_hash64(r->prompt, r->n_prompt * sizeof(*r->prompt)),
                            r->sample.seed, choice, k };
    const int n = spot_tool_form(r->tool_form)->id_byte;
    char hex[SPOT_HASH_HEX];

    spot_hash128_hex(spot_hash128(of, sizeof(of)), hex);
    snprintf(id, SPOT_CALL_ID_MAX, "%s%.*s", n ? "" : "call_", n ? n : 24, hex);
}

static size_t piece_begin(const struct spot_answer_part *p)
{
    return p->begin ? p->h->piece_end[p->begin - 1] : 0;
}

static size_t piece_end(const struct spot_answer_part *p)
{
    return p->end ? p->h->piece_end[p->end - 1] : 0;
}

/* Concatenates the pieces of one kind from `i` on that belong to one text; *i is then after
 * them. */
static struct spot_buf joined(const struct spot_answer_part *p, enum spot_piece_kind kind,
                              size_t *i)
{
    struct spot_buf text = { 0 };

    for (; *i < piece_end(p) && p->h->calls.piece[*i].kind == kind; ++*i)
        spot_buf_add(&text, p->h->text.data + p->h->calls.piece[*i].begin,
                     p->h->calls.piece[*i].end - p->h->calls.piece[*i].begin);
    return text;
}

static void put_buf(struct spot_jw *jw, const char *key, struct spot_buf *text)
{
    spot_jw_text(jw, key, text->n ? text->data : (const void *)"", text->n);
    spot_buf_release(text);
}

static void put_call(const struct spot_answer_part *p, struct spot_jw *jw, uint32_t choice,
                     uint32_t k, size_t *i)
{
    const bool begins = p->h->calls.piece[*i].kind == SPOT_PIECE_CALL;
    struct spot_buf text;
    char id[SPOT_CALL_ID_MAX];

    spot_jw_object(jw, NULL);
    spot_jw_int(jw, "index", k);
    if (begins) {
        spot_openai_call_id(p->c, choice, k, id);
        spot_jw_str(jw, "id", id);
        spot_jw_str(jw, "type", "function");
    }
    spot_jw_object(jw, "function");
    if (begins) {
        const struct spot_call_piece *const name = &p->h->calls.piece[(*i)++];

        spot_jw_text(jw, "name", p->h->text.data + name->begin, name->end - name->begin);
    }
    text = joined(p, SPOT_PIECE_ARGUMENTS, i);
    put_buf(jw, "arguments", &text);
    spot_jw_end(jw);
    spot_jw_end(jw);
}

/* Write the text of a part that is not in calls; false if there is none. */
static bool put_said(const struct spot_answer_part *p, struct spot_jw *jw)
{
    struct spot_buf text = { 0 };
    const bool has_calls = p->h->calls.n_call > 0;
    size_t n;

    for (size_t i = piece_begin(p); i < piece_end(p); i++) {
        const struct spot_call_piece *const piece = &p->h->calls.piece[i];

        if (piece->kind == SPOT_PIECE_TEXT)
            spot_buf_add(&text, p->h->text.data + piece->begin, piece->end - piece->begin);
    }
    n = text.n;
    if (n || !has_calls)
        put_buf(jw, "content", &text);
    else
        spot_buf_release(&text);
    return n || !has_calls;
}

static void put_calls(const struct spot_answer_part *p, struct spot_jw *jw, uint32_t choice)
{
    bool is_open = false;
    uint32_t k = 0;

    for (size_t i = 0; i < piece_begin(p); i++)
        k += p->h->calls.piece[i].kind == SPOT_PIECE_CALL;
    for (size_t i = piece_begin(p); i < piece_end(p);) {
        if (p->h->calls.piece[i].kind == SPOT_PIECE_TEXT) {
            i++;
            continue;
        }
        if (!is_open)
            spot_jw_array(jw, "tool_calls");
        is_open = true;
        k += p->h->calls.piece[i].kind == SPOT_PIECE_CALL;
        put_call(p, jw, choice, k - 1, &i);
    }
    if (is_open)
        spot_jw_end(jw);
}

/* The text of a chat, and its calls. In a whole message content is always there. */
static void put_message(const struct spot_answer_part *p, struct spot_jw *jw, uint32_t choice,
                        bool is_whole)
{
    if (!p->c->request.tool_form) {
        put_text(p, jw, "content");
        return;
    }
    if (!put_said(p, jw) && is_whole)
        spot_jw_null(jw, "content");
    put_calls(p, jw, choice);
}

/* --- whole answers ----------------------------------------------------------- */

/* `is_whole`: not a part of a stream. */
static void put_choice(const struct spot_answer_part *p, struct spot_jw *jw, uint32_t index,
                       bool is_whole)
{
    spot_jw_object(jw, NULL);
    if (p->c->request.is_chat) {
        spot_jw_int(jw, "index", index);
        spot_jw_object(jw, is_whole ? "message" : "delta");
        if (!p->begin)
            spot_jw_str(jw, "role", "assistant");
        put_message(p, jw, index, is_whole);
        if (is_whole)
            spot_jw_null(jw, "refusal");
        spot_jw_end(jw);
        spot_answer_part_put_chat_logprobs(p, jw);
    } else {
        put_text(p, jw, "text");
        spot_jw_int(jw, "index", index);
        spot_answer_part_put_logprobs(p, jw);
    }
    put_finish(jw, p->h, p->end == p->h->n_token);
    put_token_ids(p, jw);
    spot_jw_end(jw);
}

void spot_openai_answer(const struct spot_front_options *options, const struct spot_completion *c,
                        struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *jw;

    if (c->request.response) {
        spot_openai_response(options, c, out);
        return;
    }
    if (c->request.pool) {
        spot_openai_embeddings(options, c, out);
        return;
    }
    jw = spot_page_begin(&page);
    put_head(jw, options, c, false);
    spot_jw_array(jw, "choices");
    for (uint32_t i = 0; i < c->request.n_choice; i++) {
        const struct spot_answer_part p = { options, c, &c->choice[i], 0, c->choice[i].n_token };

        put_choice(&p, jw, i, true);
    }
    spot_jw_end(jw);
    if (c->request.is_chat)
        put_prompt_ids(&(struct spot_answer_part){ options, c, &c->choice[0], 0, 0 }, jw);
    put_usage(jw, c);
    spot_page_finish(&page, out);
}

/* --- streams ----------------------------------------------------------------- */

void spot_openai_chunk(const struct spot_front_options *options, const struct spot_completion *c,
                       uint32_t choice, size_t position, bool tells_worker, const char *worker,
                       struct spot_buf *out)
{
    const struct spot_answer_part p = { options, c, &c->choice[choice],
                                        spot_choice_piece_begin(c, choice, position),
                                        position + 1 };
    struct spot_page page;
    struct spot_jw *const jw = spot_page_begin(&page);

    put_head(jw, options, c, true);
    spot_jw_array(jw, "choices");
    put_choice(&p, jw, choice, false);
    spot_jw_end(jw);
    if (c->request.is_chat)
        put_prompt_ids(&p, jw);
    if (c->request.wants_usage)
        spot_jw_null(jw, "usage");
    if (tells_worker) {
        spot_jw_object(jw, "spot");
        if (worker)
            spot_jw_str(jw, "worker", worker);
        spot_jw_int(jw, "epoch", p.h->token[position].epoch);
        spot_jw_end(jw);
    }
    spot_page_finish(&page, out);
}

void spot_openai_usage_chunk(const struct spot_front_options *options,
                             const struct spot_completion *c, struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *const jw = spot_page_begin(&page);

    put_head(jw, options, c, true);
    spot_jw_array(jw, "choices");
    spot_jw_end(jw);
    put_usage(jw, c);
    spot_page_finish(&page, out);
}

static void put_model(const struct spot_front_options *options, struct spot_jw *jw,
                      const char *name, size_t n, bool is_adapter, int64_t created_s)
{
    spot_jw_text(jw, "id", name, n);
    spot_jw_str(jw, "object", "model");
    spot_jw_int(jw, "created", created_s);
    spot_jw_str(jw, "owned_by", "spot");
    if (is_adapter)
        spot_jw_str(jw, "parent", options->model);
    spot_jw_int(jw, "max_model_len", options->n_context);
    spot_jw_bool(jw, "chat", options->chat != NULL); /* whether there is a template */
}

static void put_models(const struct spot_front_options *options, struct spot_jw *jw,
                       const char *names, int64_t created_s)
{
    for (const char *at = names; at && *at;) {
        const size_t n = strcspn(at, ",");

        spot_jw_object(jw, NULL);
        put_model(options, jw, at, n, false, created_s);
        spot_jw_end(jw);
        at += n + (at[n] == ',');
    }
}

static void put_adapters(const struct spot_front_options *options, struct spot_jw *jw,
                         int64_t created_s)
{
    struct spot_adapter a;

    for (const char *at = options->adapters; (at = spot_adapter_next(at, &a));) {
        spot_jw_object(jw, NULL);
        put_model(options, jw, a.name, a.n_name, true, created_s);
        spot_jw_end(jw);
    }
}

void spot_openai_models(const struct spot_front_options *options, const char *name,
                        int64_t created_s, struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *const jw = spot_page_begin(&page);

    if (name) {
        put_model(options, jw, name, strlen(name),
                  spot_adapter_find(options->adapters, name, strlen(name)) > 0, created_s);
    } else {
        spot_jw_str(jw, "object", "list");
        spot_jw_array(jw, "data");
        put_models(options, jw, options->model, created_s);
        put_models(options, jw, options->aliases, created_s);
        put_adapters(options, jw, created_s);
        spot_jw_end(jw);
    }
    spot_page_finish(&page, out);
}
