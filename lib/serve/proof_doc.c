/* SPDX-License-Identifier: MIT */
#include "serve/proof_doc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "serve/openai_state.h"
#include "weights/hf_config.h"

enum {
    TOKENS_MAX = 1 << 24,
    HEX = SPOT_HASH_HEX - 1,
    ENDS_MAX = SPOT_SERVED_ENDS_MAX + SPOT_SERVED_NAMED_ENDS,
};

/* The keys of the root: first those that a request stores in another form, then those that it
 * stores as they are. */
struct head {
    const char *id, *model, *kernel, *dtype, *form, *seed, *hash;
    int64_t step, logprobs, adapter, tool_form;
};

#define KEY(of, key_, member, type_, unit_, min_, max_, must)                             \
    {                                                                                     \
        .key = key_, .type = type_, .offset = offsetof(struct of, member), .unit = unit_, \
        .min = min_, .max = max_, .required = must                                        \
    }
#define HEAD(...) KEY(head, __VA_ARGS__)
#define TERM(...) KEY(spot_request, __VA_ARGS__)
static const struct spot_field head_field[] = {
    HEAD("id", id, SPOT_F_STR, NULL, 0, 0, true),
    HEAD("model_xxh3_128", model, SPOT_F_STR, "hex", HEX, HEX, true),
    HEAD("kernel", kernel, SPOT_F_STR, NULL, 0, 0, true),
    HEAD("dtype", dtype, SPOT_F_STR, NULL, 0, 0, true),
    HEAD("step", step, SPOT_F_INT, "1", 1, 1e12, false),
    HEAD("seed", seed, SPOT_F_STR, "hex", 16, 16, true),
    HEAD("logprobs", logprobs, SPOT_F_INT, "1", -1, SPOT_REQUEST_LOGPROBS_MAX, true),
    HEAD("adapter", adapter, SPOT_F_INT, "1", 0, 1 << 20, true),
    HEAD("tool_form", tool_form, SPOT_F_INT, "1", 0, SPOT_TOOL_FORMS, true),
    HEAD("form", form, SPOT_F_STR, NULL, 0, 0, false),
    HEAD("terms_xxh3_128", hash, SPOT_F_STR, "hex", HEX, HEX, true),
    { 0 },
};

static const struct spot_field term_field[] = {
    TERM("temperature", sample.temperature, SPOT_F_REAL, "1", 0, 1e9, true),
    TERM("top_k", sample.top_k, SPOT_F_INT, "1", 0, 1e9, true),
    TERM("top_p", sample.top_p, SPOT_F_REAL, "1", 0, 1, true),
    TERM("min_p", sample.min_p, SPOT_F_REAL, "1", 0, 1, true),
    TERM("repetition_penalty", sample.repetition, SPOT_F_REAL, "1", 0, 1e9, true),
    TERM("presence_penalty", sample.presence, SPOT_F_REAL, "1", -1e9, 1e9, true),
    TERM("frequency_penalty", sample.frequency, SPOT_F_REAL, "1", -1e9, 1e9, true),
    TERM("max_tokens", n_token_max, SPOT_F_INT, "1", 0, 1e9, true),
    TERM("min_tokens", n_token_min, SPOT_F_INT, "1", 0, 1e9, true),
    TERM("seeded", is_seeded, SPOT_F_BOOL, NULL, 0, 0, true),
    TERM("ignore_eos", ignores_end, SPOT_F_BOOL, NULL, 0, 0, true),
    TERM("echo", does_echo, SPOT_F_BOOL, NULL, 0, 0, true),
    { 0 },
};

struct bias_row {
    int64_t token;
    double bias;
};
static const struct spot_field bias_field[] = {
    { "token", SPOT_F_INT, offsetof(struct bias_row, token), "1", 0, UINT32_MAX, true },
    { "bias", SPOT_F_REAL, offsetof(struct bias_row, bias), "1", -100, 100, true },
    { 0 },
};

struct prompt_row {
    const char *hash;
};
static const struct spot_field prompt_field[] = {
    { "tokens_xxh3_128", SPOT_F_STR, offsetof(struct prompt_row, hash), "hex", HEX, HEX, true },
    { 0 },
};

struct choice_row {
    const char *finish, *hash, *logprobs;
};
static const struct spot_field choice_field[] = {
    { "finish", SPOT_F_STR, offsetof(struct choice_row, finish), NULL, 0, 0, true },
    { "tokens_xxh3_128", SPOT_F_STR, offsetof(struct choice_row, hash), "hex", HEX, HEX, true },
    { "logprobs_xxh3_128", SPOT_F_STR, offsetof(struct choice_row, logprobs), "hex", HEX, HEX,
      false },
    { 0 },
};

const struct spot_doc_part spot_proof_part[] = {
    { "", head_field, .required = true },
    { "", term_field, .required = true },
    { "logit_bias[]", bias_field, .n_max = SPOT_REQUEST_BIASES_MAX },
    { "prompts[]", prompt_field, .required = true, .n_max = SPOT_REQUEST_CHOICES_MAX },
    { "choices[]", choice_field, .required = true, .n_max = SPOT_REQUEST_CHOICES_MAX },
    { 0 },
};

static const char *const finish_name[] = {
    [SPOT_FINISH_NONE] = "", [SPOT_FINISH_STOP] = "stop", [SPOT_FINISH_LENGTH] = "length"
};

/* --- hashes ------------------------------------------------------------------------- */

struct spot_hash128 spot_proof_model(const struct spot_served_model *m)
{
    struct spot_hash_stream *const s = spot_hash_stream_new();
    char *const config = spot_hf_config_text(&m->shape);
    struct spot_hash128 hash;

    spot_hash_stream_add(s, &m->hash, sizeof(m->hash));
    spot_hash_stream_add(s, &m->shape.n_shard, sizeof(m->shape.n_shard));
    spot_hash_stream_add(s, config, strlen(config));
    hash = spot_hash_stream_128(s);
    spot_hash_stream_free(s);
    free(config);
    return hash;
}

/* The settings of a request that determine its tokens; borrowed. */
static struct spot_request terms_of(const struct spot_request *r)
{
    struct spot_request t = *r;

    t.is_chat = t.does_stream = t.wants_usage = t.keeps_stop = t.tells_ids = t.is_base64 = false;
    t.needs_check = t.is_fresh = false;
    t.created_s = 0;
    t.response = NULL;
    return t;
}

static struct spot_hash128 hash_terms(const struct spot_proof_of *of, const struct spot_request *r,
                                      const uint32_t *end, size_t n_end)
{
    const struct spot_request terms = terms_of(r);
    struct spot_buf all = { 0 };
    struct spot_hash128 hash;

    spot_put_u64(&all, of->model.high);
    spot_put_u64(&all, of->model.low);
    spot_put_text(&all, of->kernel);
    spot_put_u32(&all, (uint32_t)of->type);
    spot_put_i64(&all, of->step);
    spot_put_u32(&all, (uint32_t)n_end);
    for (size_t i = 0; i < n_end; i++)
        spot_put_u32(&all, end[i]);
    spot_request_put(&terms, &all);
    hash = spot_hash128(all.data, all.n);
    spot_buf_release(&all);
    return hash;
}

/* Hash of tokens; for a choice also of its end and the hash of its log probabilities, if any. */
static struct spot_hash128 hash_tokens(const uint32_t *token, size_t n, enum spot_finish finish,
                                       const struct spot_hash128 *logprobs)
{
    struct spot_hash_stream *const s = spot_hash_stream_new();
    const uint32_t last = (uint32_t)finish;
    struct spot_hash128 hash;

    spot_hash_stream_add(s, token, n * sizeof(*token));
    spot_hash_stream_add(s, &last, sizeof(last));
    if (logprobs) {
        spot_hash_stream_add(s, &logprobs->high, sizeof(logprobs->high));
        spot_hash_stream_add(s, &logprobs->low, sizeof(logprobs->low));
    }
    hash = spot_hash_stream_128(s);
    spot_hash_stream_free(s);
    return hash;
}

static void add_logprob(struct spot_hash_stream *s, uint32_t id, double logprob)
{
    spot_hash_stream_add(s, &id, sizeof(id));
    spot_hash_stream_add(s, &logprob, sizeof(logprob));
}

static struct spot_hash128 hash_logprobs(const struct spot_choice *h)
{
    struct spot_hash_stream *const s = spot_hash_stream_new();
    struct spot_hash128 hash;

    for (size_t i = 0; i < h->n_token; i++) {
        add_logprob(s, h->token[i].id, h->token[i].logprob);
        for (uint32_t k = 0; k < h->token[i].n_top; k++)
            add_logprob(s, h->token[i].top[k].id, h->token[i].top[k].logprob);
    }
    hash = spot_hash_stream_128(s);
    spot_hash_stream_free(s);
    return hash;
}

static uint32_t *tokens_of(const struct spot_choice *h)
{
    uint32_t *const token = spot_xcalloc(h->n_token, sizeof(*token));

    for (size_t i = 0; i < h->n_token; i++)
        token[i] = h->token[i].id;
    return token;
}

/* --- writing ------------------------------------------------------------------------ */

static void put_hash(struct spot_jw *jw, const char *key, struct spot_hash128 hash)
{
    char hex[SPOT_HASH_HEX];

    spot_hash128_hex(hash, hex);
    spot_jw_str(jw, key, hex);
}

static void put_head(struct spot_jw *jw, const struct spot_proof_of *of,
                     const struct spot_completion *c)
{
    const struct spot_request *const r = &c->request;
    char model[SPOT_HASH_HEX], hash[SPOT_HASH_HEX], seed[20];
    const struct head head = {
        .id = r->id,
        .model = model,
        .kernel = of->kernel,
        .dtype = spot_infer_type_name((int)of->type),
        .form = r->form,
        .seed = seed,
        .hash = hash,
        .step = of->step,
        .logprobs = r->n_logprob,
        .adapter = r->adapter,
        .tool_form = r->tool_form,
    };

    spot_hash128_hex(of->model, model);
    spot_hash128_hex(hash_terms(of, r, c->vocabulary->end, c->vocabulary->n_end), hash);
    snprintf(seed, sizeof(seed), "%016" PRIx64, r->sample.seed);
    for (const struct spot_field *f = head_field; f->key; f++)
        if (strcmp(f->key, "step") != 0 || of->step) {
            const struct spot_field one[] = { *f, { 0 } };

            spot_jw_fields(jw, one, &head);
        }
    spot_jw_fields(jw, term_field, r);
}

static void put_terms(struct spot_jw *jw, const struct spot_completion *c)
{
    const struct spot_request *const r = &c->request;

    spot_openai_put_ids(jw, "end_token_ids", c->vocabulary->end, c->vocabulary->n_end);
    spot_openai_put_ids(jw, "stop_token_ids", r->stop_id, r->n_stop_id);
    spot_jw_array(jw, "stop");
    for (size_t i = 0; i < r->n_stop; i++)
        spot_jw_str(jw, NULL, r->stop[i]);
    spot_jw_end(jw);
    spot_jw_array(jw, "logit_bias");
    for (size_t i = 0; i < r->n_bias; i++) {
        const struct bias_row row = { r->bias[i].token, (double)r->bias[i].bias };

        spot_jw_object(jw, NULL);
        spot_jw_fields(jw, bias_field, &row);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void put_prompts(struct spot_jw *jw, const struct spot_request *r)
{
    size_t begin = 0;

    spot_jw_array(jw, "prompts");
    for (uint32_t i = 0; i < (r->n_part ? r->n_part : 1); i++) {
        const size_t end = r->n_part ? r->part_end[i] : r->n_prompt;

        spot_jw_object(jw, NULL);
        put_hash(jw, "tokens_xxh3_128",
                 hash_tokens(r->prompt + begin, end - begin, SPOT_FINISH_NONE, NULL));
        spot_openai_put_ids(jw, "tokens", r->prompt + begin, end - begin);
        spot_jw_end(jw);
        begin = end;
    }
    spot_jw_end(jw);
}

static void put_choice(struct spot_jw *jw, const struct spot_choice *h, bool has_logprobs)
{
    uint32_t *const token = tokens_of(h);
    const struct spot_hash128 logprobs = hash_logprobs(h);

    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "finish", finish_name[h->finish]);
    put_hash(jw, "tokens_xxh3_128",
             hash_tokens(token, h->n_token, h->finish, has_logprobs ? &logprobs : NULL));
    if (has_logprobs)
        put_hash(jw, "logprobs_xxh3_128", logprobs);
    spot_openai_put_ids(jw, "tokens", token, h->n_token);
    spot_jw_end(jw);
    free(token);
}

static void put_choices(struct spot_jw *jw, const struct spot_completion *c)
{
    spot_jw_array(jw, "choices");
    for (uint32_t i = 0; i < c->request.n_choice; i++)
        put_choice(jw, &c->choice[i], c->request.n_logprob >= 0);
    spot_jw_end(jw);
}

void spot_proof_put(const struct spot_proof_of *of, const struct spot_completion *c,
                    struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *const jw = spot_page_begin(&page);

    spot_jw_str(jw, "schema", "spot.proof/1");
    put_head(jw, of, c);
    put_terms(jw, c);
    put_prompts(jw, &c->request);
    put_choices(jw, c);
    spot_page_finish(&page, out);
}

/* --- reading ------------------------------------------------------------------------ */

static bool is_hash(const char *hex, struct spot_hash128 hash)
{
    char is[SPOT_HASH_HEX];

    spot_hash128_hex(hash, is);
    return !strcmp(hex, is);
}

static struct spot_hash128 hash_of_hex(const char *hex)
{
    char half[17] = "";

    memcpy(half, hex, 16);
    return (struct spot_hash128){ .high = strtoull(half, NULL, 16),
                                  .low = strtoull(hex + 16, NULL, 16) };
}

/* An array of tokens of an object at a pointer, to be freed. */
static int read_tokens(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                       const char *pointer, const char *key, size_t n_max, uint32_t **token,
                       size_t *n, struct spot_err *err)
{
    const struct spot_json_value *array, *item;
    char at[96];
    size_t i;

    if (spot_json_array(doc, obj, pointer, key, true, n_max, &array, err))
        return -1;
    *n = spot_json_array_size(array);
    *token = spot_xcalloc(*n, sizeof(**token));
    spot_json_array_foreach(array, i, item)
    {
        snprintf(at, sizeof(at), "%s/%s/%zu", pointer, key, i);
        if (!spot_json_is_integer(item))
            return spot_json_fail(doc, at, err, "expected an integer");
        if (spot_json_integer(item) < 0 || spot_json_integer(item) > INT32_MAX)
            return spot_json_fail(doc, at, err, "%lld is outside [0, %d]",
                                  (long long)spot_json_integer(item), INT32_MAX);
        (*token)[i] = (uint32_t)spot_json_integer(item);
    }
    return 0;
}

static int read_stops(struct spot_proof *p, const struct spot_json_doc *doc, struct spot_err *err)
{
    const struct spot_json_value *array, *item;
    size_t i;

    if (spot_json_array(doc, doc->root, "", "stop", true, SPOT_REQUEST_STOPS_MAX, &array, err))
        return -1;
    spot_json_array_foreach(array, i, item)
    {
        char at[64];

        snprintf(at, sizeof(at), "/stop/%zu", i);
        if (!spot_json_is_string(item) || !*spot_json_text(item))
            return spot_json_fail(doc, at, err, "expected a string that is not empty");
        if (strlen(spot_json_text(item)) > UINT16_MAX)
            return spot_json_fail(doc, at, err, "longer than %d bytes", UINT16_MAX);
        p->request.stop[p->request.n_stop++] = spot_xstrdup(spot_json_text(item));
    }
    return 0;
}

static int read_biases(struct spot_proof *p, const struct spot_json_doc *doc, struct spot_err *err)
{
    const struct spot_json_value *array, *item;
    size_t i;

    if (spot_json_array(doc, doc->root, "", "logit_bias", false, SPOT_REQUEST_BIASES_MAX, &array,
                        err))
        return -1;
    p->request.bias = spot_xcalloc(spot_json_array_size(array), sizeof(*p->request.bias));
    spot_json_array_foreach(array, i, item)
    {
        struct bias_row row = { 0 };
        char at[64];

        snprintf(at, sizeof(at), "/logit_bias/%zu", i);
        if (spot_json_read_fields(doc, item, at, bias_field, &row, err))
            return -1;
        p->request.bias[p->request.n_bias++] =
            (struct spot_token_bias){ (uint32_t)row.token, (float)row.bias };
    }
    return 0;
}

static int read_head(struct spot_proof *p, const struct head *head, const struct spot_json_doc *doc,
                     struct spot_err *err)
{
    struct spot_request *const r = &p->request;
    const int type = spot_infer_type_find(head->dtype);

    if (type < 0)
        return spot_json_fail(doc, "/dtype", err, "expected \"fp32\", \"bf16\" or \"q8\"");
    if (strlen(head->kernel) >= sizeof(p->kernel))
        return spot_json_fail(doc, "/kernel", err, "longer than a name of a kernel");
    if (!*head->id || strlen(head->id) >= sizeof(r->id))
        return spot_json_fail(doc, "/id", err, "must have 1 to %zu bytes", sizeof(r->id) - 1);
    snprintf(p->kernel, sizeof(p->kernel), "%s", head->kernel);
    snprintf(r->id, sizeof(r->id), "%s", head->id);
    p->of = (struct spot_proof_of){ .model = hash_of_hex(head->model),
                                    .kernel = p->kernel,
                                    .type = (enum spot_infer_type)type,
                                    .step = head->step };
    r->form = head->form ? spot_xstrdup(head->form) : NULL;
    r->n_logprob = (int)head->logprobs;
    r->adapter = (uint32_t)head->adapter;
    r->tool_form = (uint8_t)head->tool_form;
    r->sample.seed = strtoull(head->seed, NULL, 16);
    return read_tokens(doc, doc->root, "", "end_token_ids", ENDS_MAX, &p->end, &p->n_end, err) ||
                   read_tokens(doc, doc->root, "", "stop_token_ids", SPOT_REQUEST_STOP_IDS_MAX,
                               &r->stop_id, &r->n_stop_id, err) ||
                   read_stops(p, doc, err) || read_biases(p, doc, err)
               ? -1
               : 0;
}

static int read_prompt(struct spot_proof *p, const struct spot_json_doc *doc,
                       const struct spot_json_value *item, size_t i, struct spot_err *err)
{
    struct spot_request *const r = &p->request;
    struct prompt_row row = { 0 };
    uint32_t *token = NULL;
    size_t n = 0;
    char at[64];
    int rc;

    snprintf(at, sizeof(at), "/prompts/%zu", i);
    rc = spot_json_read_fields(doc, item, at, prompt_field, &row, err) ||
                 read_tokens(doc, item, at, "tokens", TOKENS_MAX, &token, &n, err)
             ? -1
             : 0;
    if (!rc && !n)
        rc = spot_json_fail(doc, at, err, "a prompt has at least one token");
    if (!rc && !is_hash(row.hash, hash_tokens(token, n, SPOT_FINISH_NONE, NULL)))
        rc = spot_json_fail(doc, at, err, "the prompt does not match its hash");
    if (!rc) {
        r->prompt = spot_xrealloc(r->prompt, r->n_prompt + n, sizeof(*r->prompt));
        memcpy(r->prompt + r->n_prompt, token, n * sizeof(*token));
        r->n_prompt += n;
        r->part_end[r->n_part++] = (uint32_t)r->n_prompt;
    }
    free(token);
    return rc;
}

static int read_prompts(struct spot_proof *p, const struct spot_json_doc *doc, struct spot_err *err)
{
    struct spot_request *const r = &p->request;
    const struct spot_json_value *array, *item;
    size_t i;

    if (spot_json_array(doc, doc->root, "", "prompts", true, SPOT_REQUEST_CHOICES_MAX, &array, err))
        return -1;
    r->part_end = spot_xcalloc(spot_json_array_size(array), sizeof(*r->part_end));
    spot_json_array_foreach(array, i, item)
    {
        if (read_prompt(p, doc, item, i, err))
            return -1;
    }
    if (!r->n_part || r->n_choice % r->n_part)
        return spot_json_fail(doc, "/prompts", err, "%u prompts of %u choices", (unsigned)r->n_part,
                              (unsigned)r->n_choice);
    if (r->n_part > 1)
        return 0;
    free(r->part_end);
    r->part_end = NULL;
    r->n_part = 0;
    return 0;
}

static int read_choice(struct spot_proof *p, const struct spot_json_doc *doc,
                       const struct spot_json_value *item, size_t i, struct spot_err *err)
{
    struct spot_proof_choice *const h = &p->choice[i];
    struct choice_row row = { 0 };
    char at[64];

    snprintf(at, sizeof(at), "/choices/%zu", i);
    if (spot_json_read_fields(doc, item, at, choice_field, &row, err) ||
        read_tokens(doc, item, at, "tokens", TOKENS_MAX, &h->token, &h->n_token, err))
        return -1;
    h->finish = !strcmp(row.finish, "stop")     ? SPOT_FINISH_STOP
                : !strcmp(row.finish, "length") ? SPOT_FINISH_LENGTH
                                                : SPOT_FINISH_NONE;
    if (h->finish == SPOT_FINISH_NONE)
        return spot_json_fail(doc, at, err, "expected \"stop\" or \"length\" as its finish");
    if (!row.logprobs && p->request.n_logprob >= 0)
        return spot_json_fail(doc, at, err,
                              "has no logprobs_xxh3_128, though its logprobs are wanted");
    if (row.logprobs && p->request.n_logprob < 0)
        return spot_json_fail(doc, at, err,
                              "has a hash of log probabilities that were not requested");
    if (row.logprobs)
        h->logprobs = hash_of_hex(row.logprobs);
    return is_hash(row.hash,
                   hash_tokens(h->token, h->n_token, h->finish, row.logprobs ? &h->logprobs : NULL))
               ? 0
               : spot_json_fail(doc, at, err,
                                "tokens, finish or log probabilities do not match their hash");
}

static int read_all(struct spot_proof *p, const struct spot_json_doc *doc, struct spot_err *err)
{
    const struct spot_json_value *array, *item;
    struct head head = { 0 };
    size_t i;

    if (spot_json_expect_schema(doc, "spot.proof", 1, err) ||
        spot_json_read_fields(doc, doc->root, "", head_field, &head, err) ||
        spot_json_read_fields(doc, doc->root, "", term_field, &p->request, err) ||
        read_head(p, &head, doc, err) ||
        spot_json_array(doc, doc->root, "", "choices", true, SPOT_REQUEST_CHOICES_MAX, &array, err))
        return -1;
    if (!spot_json_array_size(array))
        return spot_json_fail(doc, "/choices", err, "there are none");
    p->choice = spot_xcalloc(spot_json_array_size(array), sizeof(*p->choice));
    p->request.n_choice = (uint32_t)spot_json_array_size(array);
    if (read_prompts(p, doc, err))
        return -1;
    spot_json_array_foreach(array, i, item)
    {
        if (read_choice(p, doc, item, i, err))
            return -1;
    }
    return is_hash(head.hash, hash_terms(&p->of, &p->request, p->end, p->n_end))
               ? 0
               : spot_json_fail(doc, "/terms_xxh3_128", err,
                                "the terms of this answer (model, kernel, dtype, step, seed, "
                                "sampling, stops, prompt) do not match their hash");
}

/* The document is released in any case. */
static int take(struct spot_proof *p, struct spot_json_doc *doc, struct spot_err *err)
{
    const int rc = read_all(p, doc, err);

    spot_json_release(doc);
    if (rc)
        spot_proof_release(p);
    return rc;
}

int spot_proof_parse(struct spot_proof *p, const char *text, size_t n_byte, const char *source,
                     struct spot_err *err)
{
    struct spot_json_doc doc;

    *p = (struct spot_proof){ 0 };
    return spot_json_parse(&doc, text, n_byte, source, err) ? -1 : take(p, &doc, err);
}

int spot_proof_load(struct spot_proof *p, const char *path, struct spot_err *err)
{
    struct spot_json_doc doc;

    *p = (struct spot_proof){ 0 };
    return spot_json_load_path(&doc, path, err) ? -1 : take(p, &doc, err);
}

void spot_proof_release(struct spot_proof *p)
{
    for (uint32_t i = 0; p->choice && i < p->request.n_choice; i++)
        free(p->choice[i].token);
    free(p->choice);
    free(p->end);
    spot_request_release(&p->request);
    *p = (struct spot_proof){ 0 };
}

/* --- comparing ---------------------------------------------------------------------- */

int spot_proof_check(const struct spot_proof *p, const struct spot_proof_of *here,
                     struct spot_err *err)
{
    char its[SPOT_HASH_HEX], ours[SPOT_HASH_HEX];

    if (p->of.type != here->type)
        return spot_err_set(err, SPOT_EINFEASIBLE, "dtype: the proof is of %s, not of %s",
                            spot_infer_type_name((int)p->of.type),
                            spot_infer_type_name((int)here->type));
    if (strcmp(p->of.kernel, here->kernel) != 0)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "kernel: the proof is of %s, this would compute with %s", p->of.kernel,
                            here->kernel);
    if (spot_hash128_equal(p->of.model, here->model))
        return 0;
    spot_hash128_hex(p->of.model, its);
    spot_hash128_hex(here->model, ours);
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "model: the proof is of one with the hash %s, this one has %s: other "
                        "weights, shape, vocabulary or adapters",
                        its, ours);
}

static int compare_choice(const struct spot_proof *p, const struct spot_completion *c, uint32_t i,
                          struct spot_err *err)
{
    const struct spot_proof_choice *const its = &p->choice[i];
    const struct spot_choice *const h = &c->choice[i];
    size_t at = 0;

    while (at < its->n_token && at < h->n_token && its->token[at] == h->token[at].id)
        at++;
    if (at < its->n_token && at < h->n_token)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "choice %u: token %zu is %u in the proof, %u computed anew",
                            (unsigned)i, at, (unsigned)its->token[at], (unsigned)h->token[at].id);
    if (its->n_token != h->n_token || its->finish != h->finish)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "choice %u: ends by %s after %zu tokens in the proof, by %s after %zu "
                            "computed anew",
                            (unsigned)i, finish_name[its->finish], its->n_token,
                            finish_name[h->finish], h->n_token);
    if (p->request.n_logprob >= 0 && !spot_hash128_equal(its->logprobs, hash_logprobs(h)))
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "choice %u: the tokens are equal, their log probabilities are not",
                            (unsigned)i);
    return 0;
}

int spot_proof_compare(const struct spot_proof *p, const struct spot_completion *c,
                       struct spot_err *err)
{
    for (uint32_t i = 0; i < p->request.n_choice; i++)
        if (compare_choice(p, c, i, err))
            return -1;
    return 0;
}
