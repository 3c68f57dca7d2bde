/* SPDX-License-Identifier: MIT */
#include "serve/engine_preset.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "serve/openai_state.h"

static const struct spot_engine_preset preset[] = {
    { "llama-server", "llama-server llama.cpp", SPOT_ENGINE_LLAMA, "/health", "/completion",
      "/v1/models", "/props", .takes_ids = true },
    { "sglang", "sglang", SPOT_ENGINE_SGLANG, "/health", "/generate", "/v1/models",
      "/get_server_info", .takes_ids = true },
    { "tgi", "text-generation-launcher text-generation-router", SPOT_ENGINE_TGI, "/health",
      "/generate_stream", "/info", "/info", .takes_ids = false },
    { "ollama", "ollama", SPOT_ENGINE_OLLAMA, "/api/version", "/api/generate", "/v1/models",
      "/api/version", .takes_ids = false },
    { "vllm", "vllm", SPOT_ENGINE_VLLM, "/health", "/v1/completions", "/v1/models", "/version",
      .takes_ids = true },
    { "transformers", "transformers", SPOT_ENGINE_TRANSFORMERS, "/health", "/v1/completions",
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

/* The preset named by the whole word, or by its start as in "sglang.launch_server". */
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

/* --- requests -------------------------------------------------------------- */

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

/* Settings with the same names in all engines but TGI and transformers. */
static void put_sampling(struct spot_jw *jw, const struct spot_engine_ask *ask,
                         const char *repetition, int64_t every)
{
    const struct spot_sample *const s = &ask->request->sample;

    spot_jw_real(jw, "temperature", s->temperature);
    spot_jw_real(jw, "top_p", s->top_p);
    if (s->presence != 0)
        spot_jw_real(jw, "presence_penalty", s->presence);
    if (s->frequency != 0)
        spot_jw_real(jw, "frequency_penalty", s->frequency);
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

static void put_openai(const struct spot_engine_ask *ask, struct spot_jw *jw)
{
    spot_jw_str(jw, "model", ask->model);
    put_prompt(jw, "prompt", ask);
    spot_jw_int(jw, "max_tokens", ask->n_most);
    spot_jw_bool(jw, "stream", true);
    spot_jw_int(jw, "seed", ask->seed);
}

/* A request to transformers. Without do_sample it samples only if the model's own settings say so,
 * which also contain defaults of top_k and min_p. */
static void put_transformers(const struct spot_engine_ask *ask, struct spot_jw *jw)
{
    const struct spot_sample *const s = &ask->request->sample;
    struct spot_buf settings = { 0 };
    struct spot_page page;
    struct spot_jw *const inner = spot_page_begin(&page);

    put_openai(ask, jw);
    spot_jw_bool(inner, "do_sample", s->temperature > 0);
    if (s->temperature > 0) {
        spot_jw_real(inner, "temperature", s->temperature);
        spot_jw_real(inner, "top_p", s->top_p);
        spot_jw_int(inner, "top_k", s->top_k);
        spot_jw_real(inner, "min_p", s->min_p);
    }
    if (s->repetition != 1) /* NOLINT(clang-diagnostic-float-equal) */
        spot_jw_real(inner, "repetition_penalty", s->repetition);
    spot_page_finish(&page, &settings);
    spot_jw_text(jw, "generation_config", settings.data, settings.n);
    spot_buf_release(&settings);
}

static void put_vllm(const struct spot_engine_ask *ask, struct spot_jw *jw)
{
    put_openai(ask, jw);
    put_sampling(jw, ask, "repetition_penalty", -1);
    if (ask->ignores_end)
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
    put_sampling(jw, ask, "repeat_penalty", 0);
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
    put_sampling(jw, ask, "repetition_penalty", -1);
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
    if (s->frequency != 0)
        spot_jw_real(jw, "frequency_penalty", s->frequency);
    if (s->repetition != 1) /* NOLINT(clang-diagnostic-float-equal) */
        spot_jw_real(jw, "repetition_penalty", s->repetition);
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
    put_sampling(jw, ask, "repeat_penalty", 0);
    spot_jw_end(jw);
}

void spot_engine_put_body(const struct spot_engine_preset *p, const struct spot_engine_ask *ask,
                          struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *const jw = spot_page_begin(&page);

    switch (p->dialect) {
    case SPOT_ENGINE_VLLM:
        put_vllm(ask, jw);
        break;
    case SPOT_ENGINE_TRANSFORMERS:
        put_transformers(ask, jw);
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
    else if (r->form && !p->takes_ids)
        what = "a form of the text (response_format, tools that must be called)";
    else if (spot_request_n_echo(r))
        what = "log probabilities of the prompt";
    else if (is_text && r->n_logprob >= 0)
        what = "log probabilities where its tokens are text";
    else if (r->n_bias && is_text)
        what = "logit_bias where its tokens are text";
    else if (r->sample.frequency != 0 && p->dialect == SPOT_ENGINE_TRANSFORMERS)
        what = "frequency_penalty";
    else if (r->sample.presence != 0 &&
             (p->dialect == SPOT_ENGINE_TRANSFORMERS || p->dialect == SPOT_ENGINE_TGI))
        what = "presence_penalty";
    else if (r->sample.min_p > 0 && p->dialect == SPOT_ENGINE_TGI)
        what = "min_p";
    else if ((r->ignores_end || r->n_token_min) && !p->takes_ids)
        what = "ignore_eos and min_tokens";
    return what ? spot_err_set(err, SPOT_EDATA, "%s cannot be asked for %s here", p->name, what)
                : 0;
}
