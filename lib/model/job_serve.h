/* SPDX-License-Identifier: MIT */
/* job_serve.h - the key "serve" of spot.job/1: times of a pipeline that serves requests.
 *
 * The cost model of SpotServe (Miao et al., ASPLOS 2024) as its artifact computes it: times of a
 * decoder layer by tensor-parallel degree and batch, of a hop between stages, of the embedding.
 */
#ifndef SPOT_MODEL_JOB_SERVE_H
#define SPOT_MODEL_JOB_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_SERVE_BATCH_MAX = 1024,
    SPOT_SERVE_CELL_MAX = 1024,
    SPOT_SERVE_SPREAD_MAX = 256,
    SPOT_SERVE_SHARING_MAX = 64,
    SPOT_SERVE_LAYERS_MAX = 1022
};

/* One decoder layer, for a batch: its prompts of prompt_token, and one token each after them. */
struct spot_serve_cell {
    int64_t M, B;
    double prefill_s, decode_s;
    /* Increase of prefill_s per additional prompt token, and of decode_s per additional context
     * token. 0 in all cells: the profile has one prompt length and one answer length. */
    double prefill_token_s, decode_token_s;
    /* For prompts whose time is not linear: the term of the squared length, per token^2, and the
     * minimum time for prompts of prompt_token, and its increase per token. 0: none. */
    double prefill_square_s, prefill_least_s, prefill_least_token_s;
    /* Time that a prompt adds to a pass with a token of each of B others, relative to a pass of its
     * own, including its first token. 0: the same. */
    double join;
};

/* Embedding and sampling of a batch; twice per request. */
struct spot_serve_embed {
    int64_t B;
    double time_s;
};

struct spot_job_serve {
    bool is_given;
    int64_t gpus;                       /* of one instance; default 1 */
    int64_t gpus_min;                   /* with fewer the model does not fit; default 1 */
    int64_t layers;                     /* decoder layers */
    int64_t stage_layers;               /* P divides this: layers, padded; default layers */
    int64_t max_batch;                  /* requests of a pipeline at once, a power of two */
    int64_t prompt_token, output_token; /* lengths that times and rates apply to */
    double factor; /* multiplies every time, for what is not modelled; default 1 */
    double prefill_hop_s, decode_hop_s; /* between stages; default 0 */
    int64_t context;    /* maximum length of prompt and answer together; 0: not given */
    int64_t model_byte; /* of the weights; 0: not given */
    bool parts_add_up;  /* prefill_s is not divided by m, see spot_serve_time */
    /* [n_spread] quantiles 0..1 of an answer's time relative to the mean, ascending */
    double *spread;
    size_t n_spread;  /* 0: always the mean */
    double *sharing;  /* [n_sharing] relative time of each replica when k + 1 of them are busy */
    size_t n_sharing; /* ascending, the first 1; 0: each has its own machine */
    struct spot_serve_cell *cell; /* [n_cell] */
    size_t n_cell;
    struct spot_serve_embed *embed; /* [n_embed] */
    size_t n_embed;
};

extern const struct spot_field spot_job_serve_field[];
extern const struct spot_field spot_serve_cell_field[];
extern const struct spot_field spot_serve_embed_field[];
extern const struct spot_job_serve spot_job_serve_absent;

/* Read the optional key "serve" of the root. Returns 0, or -1 with *err (SPOT_EDATA): a batch that
 * is not a power of two, a repeated cell or embedding, a missing one that a batch up to max_batch
 * needs; length terms in some cells only, or that make a time negative, a square or minimum time
 * without them; a spread or sharing that decreases, a sharing that does not begin with 1; prompt
 * and answer of the profile beyond the context. */
int spot_job_serve_read(struct spot_job_serve *serve, const struct spot_json_doc *json,
                        struct spot_err *err);
void spot_job_serve_write(struct spot_jw *jw, const struct spot_job_serve *serve);
void spot_job_serve_release(struct spot_job_serve *serve);

/* One pipeline: P stages of M ranks that serves B requests at once, their prompts in prefill_parts
 * and their tokens in decode_parts microbatches, powers of two up to B. */
struct spot_serve_shape {
    int64_t P, M, B, prefill_parts, decode_parts;
};

struct spot_serve_time {
    double prefill_s; /* of the batch's prompts */
    double decode_s;  /* of a token of every request */
    double request_s; /* of a batch, prompts and output_token tokens */
    double join;      /* relative time of a prompt that joins the batch; 1: as alone */
};

/* True if the profile covers prompts and answers of other lengths. */
bool spot_serve_knows_lengths(const struct spot_job_serve *serve);

/* The quantile 0..1 of an answer's time relative to the mean; 1 without a spread. */
double spot_serve_spread_at(const struct spot_job_serve *serve, double quantile);

struct spot_serve_length {
    int64_t prompt_token, output_token;
    int64_t cached_token; /* tokens at the beginning of the prompt found in a cache; below
                             prompt_token */
};

/* With f = ceil(layers / P), the factor on all of it:
 *   prefill_s = prefill(M, B/m) f (P + m - 1) / m + prefill_hop (P - 1) / m,  m = prefill_parts
 *   decode_s  = decode(M, B/m) f (P + m - 1) + decode_hop (P - 1) / m,        m = decode_parts
 *   request_s = prefill_s + output_token decode_s + 2 embed(B)
 * The first is divided by m and the second is not, as in the artifact; with parts_add_up neither
 * is, as parts of a batch run one after another. Returns 0, or -1 if the profile has no such M or
 * B. */
int spot_serve_time(const struct spot_job_serve *serve, const struct spot_serve_shape *shape,
                    struct spot_serve_time *time);

/* The same for a batch with this longest prompt, p, and answer; if the profile does not cover
 * lengths, for its own. With q the profile's prompt, a layer's prefill is
 *   max(prefill + token (p - c - q) + square (p^2 - c^2 - q^2), least + least_token (p - c - q))
 * where c tokens of it are cached,
 * and decode_s is the mean over the answer. */
int spot_serve_time_of(const struct spot_job_serve *serve, const struct spot_serve_shape *shape,
                       const struct spot_serve_length *length, struct spot_serve_time *time);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_JOB_SERVE_H */
