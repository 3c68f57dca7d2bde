/* SPDX-License-Identifier: MIT */
/* model_version.h - a model version of a server: requests end on the version they began on.
 *
 * During a roll-out there are two. Opening one takes as long as hashing its weights, so a thread
 * does that while the server continues.
 */
#ifndef SPOT_SERVE_MODEL_VERSION_H
#define SPOT_SERVE_MODEL_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "serve/served_model.h"
#include "serve/shared_image.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_model_version {
    struct spot_served_model model;
    uint32_t n_work;                    /* requests that began on it and are not yet forgotten */
    struct spot_grammar_pool *grammars; /* for answers of engines; NULL: not needed yet */
    int64_t step;                       /* step of the followed job; 0: none */
    char fingerprint[64];               /* of weights of a followed job; "": none */
    void (*drop)(void *user,
                 const char *dir); /* called to remove its directory when it is freed; NULL: kept */
    void *user;
    struct spot_shared_image *image; /* [n_image] packed ahead of the replicas */
    uint32_t n_image;
};

/* Settings for opening a directory. */
struct spot_model_wanted {
    const char *chat;     /* its template (text/chat.h), NULL: its own if it has one */
    const char *adapters; /* see served_model.h */
    int64_t P, M;         /* the grid that it must fit; P 0: the model is in engines */
};

/* NULL with *err: SPOT_EDATA, SPOT_ESYS, SPOT_EINFEASIBLE. */
struct spot_model_version *spot_model_version_open(const char *dir,
                                                   const struct spot_model_wanted *wanted,
                                                   struct spot_err *err);
/* Pack its weights in advance for replicas of P stages on this host. Returns 0, also if they cannot
 * be shared, or -1 with *err (SPOT_ESYS, SPOT_EDATA). */
int spot_model_version_pack(struct spot_model_version *v, enum spot_infer_type type, uint32_t P,
                            struct spot_err *err);
void spot_model_version_free(struct spot_model_version *v); /* may be NULL */

struct spot_model_reading;

/* Start opening one; texts of `wanted` are borrowed. NULL with *err (SPOT_ESYS). */
struct spot_model_reading *spot_model_reading_start(const char *dir,
                                                    const struct spot_model_wanted *wanted,
                                                    struct spot_err *err);
bool spot_model_reading_is_done(const struct spot_model_reading *r);
/* Waits for completion; frees r. Returns as spot_model_version_open. */
struct spot_model_version *spot_model_reading_end(struct spot_model_reading *r_take,
                                                  struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_MODEL_VERSION_H */
