/* SPDX-License-Identifier: MIT */
/* proof_doc.h - spot.proof/1: what determined an answer, and what it was, so that anyone who has
 * the model can compute it again.
 *
 * Everything in it is covered by one of its hashes: what was changed by accident is found when it
 * is read, and named. They are no defence against who computes them anew; computing the answer is.
 */
#ifndef SPOT_SERVE_PROOF_DOC_H
#define SPOT_SERVE_PROOF_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash.h"
#include "common/json_field.h"
#include "serve/completion.h"
#include "serve/served_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What computed an answer. */
struct spot_proof_of {
    struct spot_hash128 model; /* see spot_proof_model */
    const char *kernel;        /* "fma" on CPUs, else the full name of a kind of CUDA */
    enum spot_infer_type type;
    int64_t step; /* of the job whose weights they are; 0: they follow none */
};

/* A hash of weights, shape, with the number of its shards, vocabulary and adapters. */
struct spot_hash128 spot_proof_model(const struct spot_served_model *model);

/* Append the proof of a completion whose choices have all ended, none of them cancelled. */
void spot_proof_put(const struct spot_proof_of *of, const struct spot_completion *c,
                    struct spot_buf *out);

/* A choice as it was answered. */
struct spot_proof_choice {
    uint32_t *token; /* [n_token], with those of an echoed prompt */
    size_t n_token;
    enum spot_finish finish;
    struct spot_hash128
        logprobs; /* of them and of alternatives, if the request has n_logprob >= 0 */
};

struct spot_proof {
    struct spot_proof_of of; /* its kernel is that below */
    char kernel[128];
    struct spot_request request; /* what of it determines tokens; the rest is 0 */
    uint32_t *end;               /* [n_end] tokens that end a choice */
    size_t n_end;
    struct spot_proof_choice *choice; /* [request.n_choice] */
};

/* Read one. Returns 0, or -1 with *err (SPOT_EDATA): malformed, or changed since it was written,
 * and where. Release it if 0. */
int spot_proof_parse(struct spot_proof *proof, const char *text, size_t n_byte, const char *source,
                     struct spot_err *err);
int spot_proof_load(struct spot_proof *proof, const char *path, struct spot_err *err);
void spot_proof_release(struct spot_proof *proof);

/* Is it an answer of this? Returns 0, or -1 with *err (SPOT_EINFEASIBLE) that names what differs.
 */
int spot_proof_check(const struct spot_proof *proof, const struct spot_proof_of *here,
                     struct spot_err *err);
/* Is the completion, of the proof's request, the answer? Returns 0, or -1 with *err
 * (SPOT_EINFEASIBLE) that names the first token that differs, or else what does. */
int spot_proof_compare(const struct spot_proof *proof, const struct spot_completion *c,
                       struct spot_err *err);

/* Tables of its fields, for its schema. */
extern const struct spot_doc_part spot_proof_part[];

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_PROOF_DOC_H */
