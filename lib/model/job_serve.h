/* SPDX-License-Identifier: MIT */
/* job_serve.h - the key "serve" of spot.job/1: what a pipeline that answers requests costs in time.
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

/* Of one decoder layer, for a batch: its prompts of prompt_token, and one token each behind them.
 */
struct spot_serve_cell {
    int64_t M, B;
    double prefill_s, decode_s;
    /* What a prompt longer by a token adds to prefill_s, and a context longer by one to decode_s.
     * 0 in all cells: the profile knows one prompt and one answer. */
    double prefill_token_s, decode_token_s;
    /* Prompts whose time is no straight line: what the square of their length adds, a token^2, and
     * the least that prompts of prompt_token take, and one token more adds to that. 0: none. */
    double prefill_square_s, prefill_least_s, prefill_least_token_s;
    /* What a prompt adds to a pass that has a token of each of B others, over what it takes in a
     * pass alone, its first token with it. 0: as much. */
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
    int64_t gpus_min;                   /* fewer hold no copy of the model; default 1 */
    int64_t layers;                     /* decoder layers */
    int64_t stage_layers;               /* P divides this: layers, padded; default layers */
    int64_t max_batch;                  /* requests of a pipeline at once, a power of two */
    int64_t prompt_token, output_token; /* what times and rates hold for */
    double factor;                      /* on every time, what is not modelled; default 1 */
    double prefill_hop_s, decode_hop_s; /* from stage to stage; default 0 */
    int64_t context;                    /* prompt and answer together at most; 0: not said */
    int64_t model_byte;                 /* of the weights; 0: not said */
    bool parts_add_up;                  /* prefill_s is not divided by m, see spot_serve_time */
    double *spread; /* [n_spread] quantiles 0..1 of what an answer takes over its mean, ascending */
    size_t n_spread;              /* 0: always the mean */
    double *sharing;              /* [n_sharing] times of each replica with k + 1 of them at work */
    size_t n_sharing;             /* ascending, the first 1; 0: each has a machine of its own */
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
 * is no power of two, a cell or an embedding twice, one that a batch up to max_batch needs and that
 * is not there; lengths that only some cells know, or that make a time negative, a square or a
 * least time without them; a spread or a sharing that falls, a sharing that does not begin with 1;
 * a prompt and answer of the profile beyond the context. */
int spot_job_serve_read(struct spot_job_serve *serve, const struct spot_json_doc *json,
                        struct spot_err *err);
void spot_job_serve_write(struct spot_jw *jw, const struct spot_job_serve *serve);
void spot_job_serve_release(struct spot_job_serve *serve);

/* Of one pipeline: P stages of M ranks that answers B requests at once, their prompts in
 * prefill_parts and their tokens in decode_parts microbatches, powers of two up to B. */
struct spot_serve_shape {
    int64_t P, M, B, prefill_parts, decode_parts;
};

struct spot_serve_time {
    double prefill_s; /* of the batch's prompts */
    double decode_s;  /* of a token of every request */
    double request_s; /* of a batch, prompts and output_token tokens */
    double join;      /* of a prompt that joins the batch; 1: as alone */
};

/* Does the profile know prompts and answers of other lengths? */
bool spot_serve_knows_lengths(const struct spot_job_serve *serve);

/* The quantile 0..1 of what an answer takes over its mean; 1 without a spread. */
double spot_serve_spread_at(const struct spot_job_serve *serve, double quantile);

struct spot_serve_length {
    int64_t prompt_token, output_token;
};

/* With f = ceil(layers / P), the factor on all of it:
 *   prefill_s = prefill(M, B/m) f (P + m - 1) / m + prefill_hop (P - 1) / m,  m = prefill_parts
 *   decode_s  = decode(M, B/m) f (P + m - 1) + decode_hop (P - 1) / m,        m = decode_parts
 *   request_s = prefill_s + output_token decode_s + 2 embed(B)
 * The first is divided by m and the second is not, as in the artifact; with parts_add_up neither
 * is, as parts of a batch take their times one after another. Returns 0, or -1 if the profile has
 * no such M or B. */
int spot_serve_time(const struct spot_job_serve *serve, const struct spot_serve_shape *shape,
                    struct spot_serve_time *time);

/* The same for a batch whose longest prompt, p, and answer are these; where the profile does not
 * know lengths, for its own. With q the profile's prompt, a layer's prefill is
 *   max(prefill + token (p - q) + square (p^2 - q^2), least + least_token (p - q)),
 * and decode_s is the mean over the answer. */
int spot_serve_time_of(const struct spot_job_serve *serve, const struct spot_serve_shape *shape,
                       const struct spot_serve_length *length, struct spot_serve_time *time);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_JOB_SERVE_H */
