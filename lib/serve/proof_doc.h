/* SPDX-License-Identifier: MIT */
/* proof_doc.h - spot.proof/1: an answer and everything that determined it, so that anyone who has
 * the model can compute it again. Everything in it is covered by one of its hashes, so accidental
 * changes are detected and named. The hashes do not protect against forgery; computing the answer
 * again does.
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
    int64_t step; /* step of the followed training job; 0: none */
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
    /* of them and of alternatives, if the request has n_logprob >= 0 */
    struct spot_hash128 logprobs;
};

struct spot_proof {
    struct spot_proof_of of; /* its kernel is that below */
    char kernel[128];
    struct spot_request request; /* the members that determine tokens; the rest is 0 */
    uint32_t *end;               /* [n_end] tokens that end a choice */
    size_t n_end;
    struct spot_proof_choice *choice; /* [request.n_choice] */
};

/* Parse a proof. Returns 0, or -1 with *err (SPOT_EDATA), with the position: malformed, or changed
 * since it was written. Release it if 0. */
int spot_proof_parse(struct spot_proof *proof, const char *text, size_t n_byte, const char *source,
                     struct spot_err *err);
int spot_proof_load(struct spot_proof *proof, const char *path, struct spot_err *err);
void spot_proof_release(struct spot_proof *proof);

/* Check that the proof is of this model and kernel. Returns 0, or -1 with *err (SPOT_EINFEASIBLE)
 * that names the difference.
 */
int spot_proof_check(const struct spot_proof *proof, const struct spot_proof_of *here,
                     struct spot_err *err);
/* Compare a completion of the proof's request with the answer. Returns 0, or -1 with *err
 * (SPOT_EINFEASIBLE) that names the first token that differs, or another difference. */
int spot_proof_compare(const struct spot_proof *proof, const struct spot_completion *c,
                       struct spot_err *err);

/* Tables of its fields, for its schema. */
extern const struct spot_doc_part spot_proof_part[];

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_PROOF_DOC_H */
