/* SPDX-License-Identifier: MIT */
/* /v1/embeddings: the state of a text, as a vector of length 1. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/le.h"
#include "common/xalloc.h"
#include "serve/openai_body.h"
#include "serve/openai_state.h"

/* --- the request ---------------------------------------------------------------- */

static void read_format(struct spot_body *b)
{
    const struct spot_json_value *const v = spot_body_member(b, "encoding_format");

    b->r->is_base64 = v && spot_json_is_word(v, "base64");
    if (v && !b->r->is_base64 && !spot_json_is_word(v, "float"))
        spot_body_refuse(b, 400, "encoding_format", NULL,
                         "'encoding_format' must be \"float\" or \"base64\".");
}

static void read_pooling(struct spot_body *b)
{
    const struct spot_json_value *const v = spot_body_member(b, "pooling");

    b->r->pool = !v                             ? b->options->pool
                 : spot_json_is_word(v, "last") ? SPOT_POOL_LAST
                 : spot_json_is_word(v, "mean") ? SPOT_POOL_MEAN
                                                : SPOT_POOL_NONE;
    if (!b->r->pool)
        spot_body_refuse(b, 400, "pooling", NULL,
                         v ? "'pooling' must be \"last\" or \"mean\"."
                           : "The model's 1_Pooling/config.json asks for another way than is "
                             "computed here, or for several: 'pooling' must be \"last\" or "
                             "\"mean\".");
}

void spot_body_read_embedding(struct spot_body *b)
{
    static const char *const known[] = { "model",   "input", "encoding_format",    "dimensions",
                                         "pooling", "user",  "add_special_tokens", NULL };
    const int64_t n = b->options->n_state;

    spot_body_check_members(b, b->doc.root, known, "body");
    if (!n)
        spot_body_refuse(b, 400, NULL, NULL,
                         "Embeddings are computed by workers on CPUs alone: not on CUDA devices, "
                         "nor by other engines.");
    spot_body_check_model(b);
    read_format(b);
    read_pooling(b);
    b->r->n_dimension = (uint32_t)spot_body_integer(b, "dimensions", 1, n ? n : 1, 0);
    b->r->n_choice = 1;
    b->r->n_logprob = -1;
    b->r->n_token_max = 1; /* in place of its state */
    if (!b->status)
        spot_body_read_prompt(b);
}

/* --- the answer ------------------------------------------------------------------- */

/* The first n_dimension of a state, of length 1; in double, so that it is the same everywhere. */
static float *vector_of(const struct spot_choice *h, uint32_t n_dimension, size_t *n)
{
    float *x;
    double sum = 0;

    *n = n_dimension && n_dimension < h->n_state ? n_dimension : h->n_state;
    x = spot_xcalloc(*n, sizeof(*x));
    for (size_t i = 0; i < *n; i++)
        sum += (double)h->state[i] * (double)h->state[i];
    for (size_t i = 0; i < *n; i++)
        x[i] = sum > 0 ? (float)((double)h->state[i] / sqrt(sum)) : h->state[i];
    return x;
}

static void put_bytes(struct spot_jw *jw, const float *x, size_t n)
{
    uint8_t *const byte = spot_xcalloc(n, sizeof(*x));
    char *const text = spot_xcalloc(SPOT_BASE64_SIZE(n * sizeof(*x)), 1);

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        spot_le_put(byte + i * sizeof(bits), bits, sizeof(bits));
    }
    spot_base64_encode(byte, n * sizeof(*x), text);
    spot_jw_str(jw, "embedding", text);
    free(byte);
    free(text);
}

static void put_state(struct spot_jw *jw, const struct spot_request *r, const struct spot_choice *h)
{
    size_t n;
    float *const x = vector_of(h, r->n_dimension, &n);

    if (r->is_base64) {
        put_bytes(jw, x, n);
    } else {
        spot_jw_array(jw, "embedding");
        for (size_t i = 0; i < n; i++)
            spot_jw_real(jw, NULL, (double)x[i]);
        spot_jw_end(jw);
    }
    free(x);
}

void spot_openai_embeddings(const struct spot_front_options *options,
                            const struct spot_completion *c, struct spot_buf *out)
{
    struct spot_page page;
    struct spot_jw *const jw = spot_page_begin(&page);

    spot_jw_str(jw, "object", "list");
    spot_jw_array(jw, "data");
    for (uint32_t i = 0; i < c->request.n_choice; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "object", "embedding");
        spot_jw_int(jw, "index", i);
        put_state(jw, &c->request, &c->choice[i]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_openai_put_model_name(jw, options, &c->request);
    spot_jw_object(jw, "usage");
    spot_jw_int(jw, "prompt_tokens", (int64_t)c->request.n_prompt);
    spot_jw_int(jw, "total_tokens", (int64_t)c->request.n_prompt);
    spot_jw_end(jw);
    spot_page_finish(&page, out);
}
