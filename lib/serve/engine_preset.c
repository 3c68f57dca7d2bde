/* SPDX-License-Identifier: MIT */
#include "serve/engine_preset.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "serve/openai_state.h"

static const struct spot_engine_preset preset[] = {
    { "llama-server", "llama-server llama.cpp", SPOT_ENGINE_LLAMA, "/health", "/completion",
      "/v1/models", "/props", .takes_ids = true, .has_more = true },
    { "sglang", "sglang", SPOT_ENGINE_SGLANG, "/health", "/generate", "/v1/models",
      "/get_server_info", .takes_ids = true, .has_more = true },
    { "tgi", "text-generation-launcher text-generation-router", SPOT_ENGINE_TGI, "/health",
      "/generate_stream", "/info", "/info", .has_more = true },
    { "ollama", "ollama", SPOT_ENGINE_OLLAMA, "/api/version", "/api/generate", "/v1/models",
      "/api/version", .has_more = true },
    { "vllm", "vllm", SPOT_ENGINE_OPENAI, "/health", "/v1/completions", "/v1/models", "/version",
      .takes_ids = true, .has_more = true },
    { "transformers", "transformers", SPOT_ENGINE_OPENAI, "/health", "/v1/completions",
      "/v1/models", NULL, .takes_ids = false },
};

enum { N_PRESET = sizeof(preset) / sizeof(*preset) };

const struct spot_engine_preset *spot_engine_preset_at(size_t i)
{
    return i < N_PRESET ? &preset[i] : NULL;
}

const struct spot_engine_preset *spot_engine_preset_find(const char *name)
{
    for (size_t i = 0; i < N_PRESET; i++)
        if (!strcmp(preset[i].name, name))
            return &preset[i];
    return NULL;
}

/* Whose word this is the whole of, or the start of as in "sglang.launch_server". */
static const struct spot_engine_preset *preset_of_word(const char *word, size_t n_word)
{
    for (size_t i = 0; i < N_PRESET; i++)
        for (const char *w = preset[i].words; *w;) {
            const size_t n = strcspn(w, " ");

            if (n <= n_word && !strncmp(word, w, n) &&
                (n == n_word || !isalnum((unsigned char)word[n])))
                return &preset[i];
            w += n + strspn(w + n, " ");
        }
    return NULL;
}

const struct spot_engine_preset *spot_engine_preset_of(const char *command)
{
    static const char between[] = " \t\n'\"();&|=";
    const struct spot_engine_preset *found = NULL;

    for (const char *w = command + strspn(command, between); *w && !found;) {
        const size_t n = strcspn(w, between);
        const char *name = w + n;

        while (name > w && name[-1] != '/')
            name--;
        found = preset_of_word(name, (size_t)(w + n - name));
        w += n + strspn(w + n, between);
    }
    return found;
}

/* --- about ------------------------------------------------------------------ */

static void note_about(struct spot_engine_about *about, const char *name,
                       const struct spot_json_value *context)
{
    snprintf(about->model, sizeof(about->model), "%s", name);
    about->n_context = context ? spot_json_integer(context) : 0;
    if (about->n_context < 0 || about->n_context > INT32_MAX)
        about->n_context = 0;
}

static void read_about(const struct spot_json_value *root, const char *wanted,
                       struct spot_engine_about *about)
{
    const struct spot_json_value *const data = spot_json_get(root, "data"), *entry;
    const char *name = spot_json_text(spot_json_get(root, "model_id"));
    size_t i;

    if (name && (!wanted || !strcmp(name, wanted)))
        note_about(about, name, spot_json_get(root, "max_total_tokens"));
    spot_json_array_foreach(data, i, entry)
    {
        const struct spot_json_value *const meta = spot_json_get(entry, "meta");
        const struct spot_json_value *const n_context = spot_json_get(meta, "n_ctx");

        name = spot_json_text(spot_json_get(entry, "id"));
        if (name && !*about->model && (!wanted || !strcmp(name, wanted)))
            note_about(about, name, n_context ? n_context : spot_json_get(entry, "max_model_len"));
    }
}

int spot_engine_about_read(const struct spot_engine_preset *p, const char *wanted, const char *body,
                           size_t n_byte, struct spot_engine_about *about, struct spot_err *err)
{
    struct spot_json_doc doc;

    memset(about, 0, sizeof(*about));
    if (spot_json_parse(&doc, body, n_byte, p->about, err))
        return -1;
    read_about(doc.root, wanted, about);
    spot_json_release(&doc);
    if (*about->model)
        return 0;
    return wanted
               ? spot_err_set(err, SPOT_EDATA, "%s does not name the model '%s'", p->about, wanted)
               : spot_err_set(err, SPOT_EDATA, "%s names no model", p->about);
}

/* --- questions -------------------------------------------------------------- */

static void put_ids(struct spot_jw *jw, const char *key, const struct spot_engine_ask *ask)
{
    spot_jw_array(jw, key);
    for (size_t i = 0; i < ask->request->n_prompt; i++)
        spot_jw_int(jw, NULL, ask->request->prompt[i]);
    for (size_t i = 0; i < ask->n; i++)
        spot_jw_int(jw, NULL, ask->token[i]);
    spot_jw_end(jw);
}

static void put_prompt(struct spot_jw *jw, const char *key, const struct spot_engine_ask *ask)
{
    struct spot_buf text = { 0 };

    if (!ask->is_text) {
        put_ids(jw, key, ask);
        return;
    }
    for (size_t i = 0; i < ask->request->n_prompt + ask->n; i++) {
        const size_t n = ask->request->n_prompt;
        const uint8_t byte = (uint8_t)(i < n ? ask->request->prompt[i] : ask->token[i - n]);

        spot_buf_add(&text, &byte, 1);
    }
    spot_jw_text(jw, key, text.n ? text.data : (const void *)"", text.n);
    spot_buf_release(&text);
}

/* What all but Ollama, TGI and SGLang name alike. */
static void put_sampling(struct spot_jw *jw, const struct spot_engine_ask *ask, bool has_more,
                         const char *repetition, int64_t every)
{
    const struct spot_sample *const s = &ask->request->sample;

    spot_jw_real(jw, "temperature", s->temperature);
    spot_jw_real(jw, "top_p", s->top_p);
    if (s->presence != 0)
        spot_jw_real(jw, "presence_penalty", s->presence);
    if (s->frequency != 0)
        spot_jw_real(jw, "frequency_penalty", s->frequency);
    if (!has_more)
        return;
    spot_jw_int(jw, "top_k", s->top_k ? s->top_k : every);
    spot_jw_real(jw, "min_p", s->min_p);
    if (s->repetition != 1) /* NOLINT(clang-diagnostic-float-equal) */
        spot_jw_real(jw, repetition, s->repetition);
}

static void put_biases(struct spot_jw *jw, const struct spot_request *r)
{
    if (!r->n_bias)
        return;
    spot_jw_object(jw, "logit_bias");
    for (size_t i = 0; i < r->n_bias; i++) {
        char key[16];

        snprintf(key, sizeof(key), "%u", r->bias[i].token);
        spot_jw_real(jw, key, (double)r->bias[i].bias);
    }
    spot_jw_end(jw);
}

static void put_openai(const struct spot_engine_preset *p, const struct spot_engine_ask *ask,
                       struct spot_jw *jw)
{
    spot_jw_str(jw, "model", ask->model);
    put_prompt(jw, "prompt", ask);
    spot_jw_int(jw, "max_tokens", ask->n_most);
    spot_jw_bool(jw, "stream", true);
    spot_jw_int(jw, "seed", ask->seed);
    put_sampling(jw, ask, p->has_more, "repetition_penalty", -1);
    if (p->has_more && ask->ignores_end)
        spot_jw_bool(jw, "ignore_eos", true);
    if (ask->n_grammar) {
        spot_jw_object(jw, "structured_outputs");
        spot_jw_text(jw, "grammar", ask->grammar, ask->n_grammar);
        spot_jw_end(jw);
    }
    if (ask->is_text)
        return;
    spot_jw_bool(jw, "return_token_ids", true);
    put_biases(jw, ask->request);
    if (ask->request->n_logprob < 0)
        return;
    spot_jw_int(jw, "logprobs", ask->request->n_logprob);
    spot_jw_bool(jw, "return_tokens_as_token_ids", true);
}

static void put_llama(const struct spot_engine_ask *ask, struct spot_jw *jw)
{
    const struct spot_request *const r = ask->request;

    put_prompt(jw, "prompt", ask);
    spot_jw_int(jw, "n_predict", ask->n_most);
    spot_jw_bool(jw, "stream", !ask->is_whole);
    spot_jw_bool(jw, "return_tokens", true);
    spot_jw_int(jw, "seed", ask->seed);
    put_sampling(jw, ask, true, "repeat_penalty", 0);
    spot_jw_int(jw, "repeat_last_n", (int64_t)(r->n_prompt + ask->n) + ask->n_most);
    if (ask->ignores_end)
        spot_jw_bool(jw, "ignore_eos", true);
    if (ask->n_grammar)
        spot_jw_text(jw, "grammar", ask->grammar, ask->n_grammar);
    if (r->n_logprob >= 0)
        spot_jw_int(jw, "n_probs", r->n_logprob > 0 ? r->n_logprob : 1);
    if (!r->n_bias)
        return;
    spot_jw_array(jw, "logit_bias");
    for (size_t i = 0; i < r->n_bias; i++)
        spot_jw_reals(jw, NULL, (const double[]){ r->bias[i].token, (double)r->bias[i].bias }, 2);
    spot_jw_end(jw);
}

static void put_sglang(const struct spot_engine_ask *ask, struct spot_jw *jw)
{
    const struct spot_request *const r = ask->request;

    put_prompt(jw, ask->is_text ? "text" : "input_ids", ask);
    spot_jw_bool(jw, "stream", true);
    spot_jw_object(jw, "sampling_params");
    spot_jw_int(jw, "max_new_tokens", ask->n_most);
    spot_jw_int(jw, "sampling_seed", ask->seed);
    put_sampling(jw, ask, true, "repetition_penalty", -1);
    put_biases(jw, r);
    if (ask->ignores_end)
        spot_jw_bool(jw, "ignore_eos", true);
    if (ask->n_grammar)
        spot_jw_text(jw, "ebnf", ask->grammar, ask->n_grammar);
    spot_jw_end(jw);
    if (r->n_logprob < 0)
        return;
    spot_jw_bool(jw, "return_logprob", true);
    spot_jw_int(jw, "top_logprobs_num", r->n_logprob);
}

static void put_tgi(const struct spot_engine_ask *ask, struct spot_jw *jw)
{
    const struct spot_sample *const s = &ask->request->sample;

    put_prompt(jw, "inputs", ask);
    spot_jw_object(jw, "parameters");
    spot_jw_int(jw, "max_new_tokens", ask->n_most);
    spot_jw_bool(jw, "do_sample", s->temperature > 0);
    if (s->temperature > 0)
        spot_jw_real(jw, "temperature", s->temperature);
    if (s->temperature > 0 && s->top_p < 1)
        spot_jw_real(jw, "top_p", s->top_p);
    if (s->top_k)
        spot_jw_int(jw, "top_k", s->top_k);
    spot_jw_int(jw, "seed", ask->seed);
    spot_jw_end(jw);
}

static void put_ollama(const struct spot_engine_ask *ask, struct spot_jw *jw)
{
    spot_jw_str(jw, "model", ask->model);
    put_prompt(jw, "prompt", ask);
    spot_jw_bool(jw, "raw", true);
    spot_jw_bool(jw, "stream", true);
    spot_jw_object(jw, "options");
    spot_jw_int(jw, "num_predict", ask->n_most);
    spot_jw_int(jw, "seed", ask->seed);
    put_sampling(jw, ask, true, "repeat_penalty", 0);
    spot_jw_end(jw);
}

void spot_engine_put_body(const struct spot_engine_preset *p, const struct spot_engine_ask *ask,
                          struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *const jw = spot_page_begin(&page);

    switch (p->dialect) {
    case SPOT_ENGINE_OPENAI:
        put_openai(p, ask, jw);
        break;
    case SPOT_ENGINE_LLAMA:
        put_llama(ask, jw);
        break;
    case SPOT_ENGINE_SGLANG:
        put_sglang(ask, jw);
        break;
    case SPOT_ENGINE_TGI:
        put_tgi(ask, jw);
        break;
    case SPOT_ENGINE_OLLAMA:
        put_ollama(ask, jw);
        break;
    }
    spot_page_finish(&page, out);
}

int spot_engine_check(const struct spot_engine_preset *p, const struct spot_request *r,
                      bool is_text, struct spot_err *err)
{
    const char *what = NULL;

    if (r->pool)
        what = "the state of a text (embeddings)";
    else if (r->form &&
             (!p->has_more || p->dialect == SPOT_ENGINE_TGI || p->dialect == SPOT_ENGINE_OLLAMA))
        what = "a form of the text (response_format, tools that must be called)";
    else if (spot_request_n_echo(r))
        what = "log probabilities of the prompt";
    else if (is_text && r->n_logprob >= 0)
        what = "log probabilities where its tokens are text";
    else if (r->n_bias && (is_text || p->dialect == SPOT_ENGINE_OLLAMA))
        what = "logit_bias where its tokens are text";
    else if ((r->ignores_end || r->n_token_min) &&
             (!p->has_more || p->dialect == SPOT_ENGINE_TGI || p->dialect == SPOT_ENGINE_OLLAMA))
        what = "ignore_eos and min_tokens";
    return what ? spot_err_set(err, SPOT_EDATA, "%s cannot be asked for %s here", p->name, what)
                : 0;
}

/* --- answers ---------------------------------------------------------------- */

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

/* Returns 0, or -1: it is no token. */
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

/* Its events have all ids so far, or the new ones, as it was started: the count tells which. */
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
    case SPOT_ENGINE_OPENAI:
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

/* Of {"error": TEXT} and {"error": {"message": TEXT}}. */
static const char *error_of(const struct spot_json_value *root)
{
    const struct spot_json_value *const error = spot_json_get(root, "error");
    const char *const text = spot_json_text(spot_json_get(error, "message"));

    if (!error || spot_json_is_null(error))
        return NULL;
    return text ? text : spot_json_text(error) ? spot_json_text(error) : "an error";
}

int spot_engine_event_read(const struct spot_engine_preset *p, const char *text, size_t n_byte,
                           struct spot_engine_event *e, struct spot_err *err)
{
    struct spot_json_doc doc;
    const char *why;
    int rc = 0;

    e->n_token = 0;
    e->text.n = 0;
    e->n_before = e->n_all = -1;
    e->end = SPOT_ENGINE_GOES_ON;
    if (spot_json_parse(&doc, text, n_byte, "the engine's answer", err))
        return -1;
    why = error_of(doc.root);
    if (why)
        rc = spot_err_set(err, SPOT_EDATA, "the engine says: %.150s", why);
    else if (read_answer(p, doc.root, e))
        rc = spot_err_set(err, SPOT_EDATA, "the engine's answer is not one of %s", p->name);
    spot_json_release(&doc);
    return rc;
}
