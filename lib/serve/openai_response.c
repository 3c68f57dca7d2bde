/* SPDX-License-Identifier: MIT */
/* Answers of /v1/responses: a list of items, each a message or a function call, and the events of
 * its growth. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "serve/openai_state.h"

/* --- items ------------------------------------------------------------------------ */

/* Pieces [begin, end) of the text; the first one determines the kind of item. */
struct item {
    const struct spot_completion *c;
    size_t begin, end;
    uint32_t index, call;
    const char *status;
};

static const struct spot_call_piece *piece_of(const struct spot_completion *c, size_t i)
{
    return &c->choice[0].calls.piece[i];
}

static bool is_message(const struct item *t)
{
    return piece_of(t->c, t->begin)->kind == SPOT_PIECE_TEXT;
}

static void put_piece(struct spot_jw *jw, const char *key, const struct spot_completion *c,
                      size_t i)
{
    const struct spot_call_piece *const p = piece_of(c, i);

    spot_jw_text(jw, key, c->choice[0].text.data + p->begin, p->end - p->begin);
}

/* The text of a message, or the arguments of a call. */
static void put_all(struct spot_jw *jw, const char *key, const struct item *t)
{
    struct spot_buf text = { 0 };

    for (size_t i = t->begin; i < t->end; i++) {
        const struct spot_call_piece *const p = piece_of(t->c, i);

        if (p->kind != SPOT_PIECE_CALL)
            spot_buf_add(&text, t->c->choice[0].text.data + p->begin, p->end - p->begin);
    }
    spot_jw_text(jw, key, text.n ? text.data : (const void *)"", text.n);
    spot_buf_release(&text);
}

static void put_item_id(struct spot_jw *jw, const char *key, const struct item *t)
{
    const char *const of_request = strchr(t->c->request.id, '_');
    char id[80];

    snprintf(id, sizeof(id), "%s%s_%u", is_message(t) ? "msg" : "fc", of_request ? of_request : "_",
             (unsigned)t->index);
    spot_jw_str(jw, key, id);
}

static void put_part(struct spot_jw *jw, const char *key, const struct item *t)
{
    spot_jw_object(jw, key);
    spot_jw_str(jw, "type", "output_text");
    put_all(jw, "text", t);
    spot_jw_array(jw, "annotations");
    spot_jw_end(jw);
    spot_jw_array(jw, "logprobs");
    spot_jw_end(jw);
    spot_jw_end(jw);
}

/* `is_full`: with its content. */
static void put_item(struct spot_jw *jw, const char *key, const struct item *t, bool is_full)
{
    char id[SPOT_CALL_ID_MAX];

    spot_jw_object(jw, key);
    put_item_id(jw, "id", t);
    spot_jw_str(jw, "status", t->status);
    if (is_message(t)) {
        spot_jw_str(jw, "type", "message");
        spot_jw_str(jw, "role", "assistant");
        spot_jw_array(jw, "content");
        if (is_full)
            put_part(jw, NULL, t);
        spot_jw_end(jw);
    } else {
        spot_jw_str(jw, "type", "function_call");
        spot_openai_call_id(t->c, 0, t->call, id);
        spot_jw_str(jw, "call_id", id);
        put_piece(jw, "name", t->c, t->begin);
        if (is_full)
            put_all(jw, "arguments", t);
        else
            spot_jw_str(jw, "arguments", "");
    }
    spot_jw_end(jw);
}

/* True if a piece begins a new item, after one that begins with piece `begin`. */
static bool begins_item(const struct spot_completion *c, size_t begin, size_t i)
{
    return piece_of(c, i)->kind == SPOT_PIECE_CALL ||
           (piece_of(c, i)->kind == SPOT_PIECE_TEXT && piece_of(c, begin)->kind != SPOT_PIECE_TEXT);
}

static void put_output(struct spot_jw *jw, const struct spot_completion *c, bool has_content)
{
    const size_t n = has_content ? c->choice[0].calls.n : 0;
    struct item t = { .c = c };

    spot_jw_array(jw, "output");
    for (; t.begin < n; t.begin = t.end, t.index++) {
        for (t.end = t.begin + 1; t.end < n && !begins_item(c, t.begin, t.end);)
            t.end++;
        t.status =
            t.end == n && c->choice[0].finish == SPOT_FINISH_LENGTH ? "incomplete" : "completed";
        put_item(jw, NULL, &t, true);
        t.call += !is_message(&t);
    }
    spot_jw_end(jw);
}

/* --- the response -------------------------------------------------------------------- */

/* Write the request's settings, with defaults. */
static void put_told(struct spot_jw *jw, const struct spot_completion *c)
{
    static const char *const otherwise[][2] = {
        { "instructions", "null" },
        { "max_output_tokens", "null" },
        { "metadata", "{}" },
        { "parallel_tool_calls", "true" },
        { "temperature", "1.0" },
        { "text", "{\"format\":{\"type\":\"text\"}}" },
        { "tool_choice", "\"auto\"" },
        { "tools", "[]" },
        { "top_p", "1.0" },
        { "user", "null" },
    };
    struct spot_json_doc doc = { 0 };

    if (spot_json_parse(&doc, c->request.response, strlen(c->request.response), "request", NULL))
        return;
    for (size_t i = 0; i < sizeof(otherwise) / sizeof(*otherwise); i++) {
        const struct spot_json_value *const v = spot_json_get(doc.root, otherwise[i][0]);

        if (v)
            spot_jw_tree(jw, otherwise[i][0], v);
        else
            spot_jw_raw(jw, otherwise[i][0], otherwise[i][1]);
    }
    spot_json_release(&doc);
}

static void put_usage(struct spot_jw *jw, const struct spot_completion *c)
{
    const int64_t n = spot_openai_n_generated(c);

    spot_jw_object(jw, "usage");
    spot_jw_int(jw, "input_tokens", (int64_t)c->request.n_prompt);
    spot_jw_object(jw, "input_tokens_details");
    spot_jw_int(jw, "cached_tokens", spot_openai_n_cached(c));
    spot_jw_end(jw);
    spot_jw_int(jw, "output_tokens", n);
    spot_jw_object(jw, "output_tokens_details");
    spot_jw_int(jw, "reasoning_tokens", 0);
    spot_jw_end(jw);
    spot_jw_int(jw, "total_tokens", (int64_t)c->request.n_prompt + n);
    spot_jw_end(jw);
}

static const char *status_of(const struct spot_completion *c)
{
    return c->choice[0].finish == SPOT_FINISH_LENGTH ? "incomplete" : "completed";
}

static void put_response(const struct spot_front_options *options, const struct spot_completion *c,
                         struct spot_jw *jw, bool has_ended)
{
    spot_jw_str(jw, "id", c->request.id);
    spot_jw_str(jw, "object", "response");
    spot_jw_int(jw, "created_at", c->request.created_s);
    if (c->vocabulary->fingerprint)
        spot_jw_str(jw, "system_fingerprint", c->vocabulary->fingerprint);
    spot_jw_str(jw, "status", has_ended ? status_of(c) : "in_progress");
    spot_jw_null(jw, "error");
    if (has_ended && c->choice[0].finish == SPOT_FINISH_LENGTH)
        spot_jw_raw(jw, "incomplete_details", "{\"reason\":\"max_output_tokens\"}");
    else
        spot_jw_null(jw, "incomplete_details");
    spot_openai_put_model_name(jw, options, &c->request);
    put_output(jw, c, has_ended);
    spot_jw_null(jw, "previous_response_id");
    spot_jw_bool(jw, "store", false);
    spot_jw_bool(jw, "background", false);
    spot_jw_str(jw, "truncation", "disabled");
    put_told(jw, c);
    if (has_ended)
        put_usage(jw, c);
    else
        spot_jw_null(jw, "usage");
}

void spot_openai_response(const struct spot_front_options *options, const struct spot_completion *c,
                          struct spot_buf *out)
{
    struct spot_page page;

    put_response(options, c, spot_page_begin(&page), true);
    spot_page_finish(&page, out);
}

/* --- events ------------------------------------------------------------------------- */

static struct spot_jw *begin_event(struct spot_page *page, struct spot_response_stream *s,
                                   const char *type, struct spot_buf *out)
{
    struct spot_jw *const jw = spot_page_begin(page);
    char line[80];

    spot_buf_add(out, line, (size_t)snprintf(line, sizeof(line), "event: %s\ndata: ", type));
    spot_jw_str(jw, "type", type);
    spot_jw_int(jw, "sequence_number", s->n_event++);
    return jw;
}

static void end_event(struct spot_page *page, struct spot_buf *out)
{
    spot_page_finish(page, out);
    spot_buf_add(out, "\n\n", 2);
}

static void tell_response(const struct spot_front_options *options, const struct spot_completion *c,
                          struct spot_response_stream *s, const char *type, bool has_ended,
                          struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *const jw = begin_event(&page, s, type, out);

    spot_jw_object(jw, "response");
    put_response(options, c, jw, has_ended);
    spot_jw_end(jw);
    end_event(&page, out);
}

static void tell_item(const struct item *t, struct spot_response_stream *s, const char *type,
                      bool is_full, struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *const jw = begin_event(&page, s, type, out);

    spot_jw_int(jw, "output_index", t->index);
    put_item(jw, "item", t, is_full);
    end_event(&page, out);
}

/* Begin an event inside an item; the caller adds to it. */
static struct spot_jw *begin_inside(struct spot_page *page, const struct item *t,
                                    struct spot_response_stream *s, const char *type,
                                    struct spot_buf *out)
{
    struct spot_jw *const jw = begin_event(page, s, type, out);

    put_item_id(jw, "item_id", t);
    spot_jw_int(jw, "output_index", t->index);
    if (is_message(t))
        spot_jw_int(jw, "content_index", 0);
    return jw;
}

static struct item open_item(const struct spot_completion *c, const struct spot_response_stream *s,
                             size_t end)
{
    return (struct item){ .c = c,
                          .begin = s->begin,
                          .end = end,
                          .index = s->n_item - 1,
                          .call = s->n_call - (s->n_call > 0),
                          .status = "in_progress" };
}

static void tell_part(const struct item *t, struct spot_response_stream *s, const char *type,
                      struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *const jw = begin_inside(&page, t, s, type, out);

    put_part(jw, "part", t);
    end_event(&page, out);
}

static void begin_item(const struct spot_completion *c, struct spot_response_stream *s,
                       struct spot_buf *out)
{
    struct item t;

    s->begin = s->piece;
    s->n_item++;
    s->n_call += piece_of(c, s->piece)->kind == SPOT_PIECE_CALL;
    s->is_open = true;
    t = open_item(c, s, s->begin); /* nothing of it was sent */
    tell_item(&t, s, "response.output_item.added", false, out);
    if (is_message(&t))
        tell_part(&t, s, "response.content_part.added", out);
}

static void end_item(const struct spot_completion *c, struct spot_response_stream *s,
                     const char *status, struct spot_buf *out)
{
    struct item t = open_item(c, s, s->piece);
    struct spot_page page;
    struct spot_jw *jw;

    t.status = status;
    s->is_open = false;
    if (is_message(&t)) {
        jw = begin_inside(&page, &t, s, "response.output_text.done", out);
        put_all(jw, "text", &t);
        spot_jw_array(jw, "logprobs");
        spot_jw_end(jw);
        end_event(&page, out);
        tell_part(&t, s, "response.content_part.done", out);
    } else {
        jw = begin_inside(&page, &t, s, "response.function_call_arguments.done", out);
        put_piece(jw, "name", c, t.begin);
        put_all(jw, "arguments", &t);
        end_event(&page, out);
    }
    tell_item(&t, s, "response.output_item.done", true, out);
}

static void tell_delta(const struct spot_completion *c, struct spot_response_stream *s,
                       struct spot_buf *out)
{
    const struct item t = open_item(c, s, s->piece);
    struct spot_page page;
    struct spot_jw *const jw = begin_inside(
        &page, &t, s,
        is_message(&t) ? "response.output_text.delta" : "response.function_call_arguments.delta",
        out);

    put_piece(jw, "delta", c, s->piece);
    if (is_message(&t)) {
        spot_jw_array(jw, "logprobs");
        spot_jw_end(jw);
    }
    end_event(&page, out);
}

void spot_openai_response_events(const struct spot_front_options *options,
                                 const struct spot_completion *c, size_t position,
                                 struct spot_response_stream *s, struct spot_buf *out)
{
    if (!position) {
        tell_response(options, c, s, "response.created", false, out);
        tell_response(options, c, s, "response.in_progress", false, out);
    }
    for (; s->piece < c->choice[0].piece_end[position]; s->piece++) {
        if (s->is_open && begins_item(c, s->begin, s->piece))
            end_item(c, s, "completed", out);
        if (!s->is_open)
            begin_item(c, s, out);
        if (piece_of(c, s->piece)->kind != SPOT_PIECE_CALL)
            tell_delta(c, s, out);
    }
}

void spot_openai_response_end(const struct spot_front_options *options,
                              const struct spot_completion *c, struct spot_response_stream *s,
                              struct spot_buf *out)
{
    char type[32];

    if (s->is_open)
        end_item(c, s, status_of(c), out);
    snprintf(type, sizeof(type), "response.%s", status_of(c));
    tell_response(options, c, s, type, true, out);
}
