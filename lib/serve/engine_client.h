/* SPDX-License-Identifier: MIT */
/* engine_client.h - computes sequences by requests to an engine; takes the place of batch_loop.h
 * for a worker whose model is in another program. A sequence is one streaming request whose prompt
 * is the original prompt and the tokens so far; its seed is a function of (seed, choice, position).
 * A token is reported once it is complete and valid. An error of the engine ends only that request,
 * which the coordinator continues elsewhere.
 */
#ifndef SPOT_SERVE_ENGINE_CLIENT_H
#define SPOT_SERVE_ENGINE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "serve/completion.h"
#include "serve/engine_preset.h"
#include "serve/request.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_engine_client;

struct spot_engine_config {
    const struct spot_engine_preset *preset;
    const char *url;   /* http://ADDRESS:PORT, borrowed */
    const char *model; /* its name at the engine, borrowed */
    bool is_text;
    uint32_t n_vocabulary;
    int64_t n_context; /* 0: not known */
    uint32_t end;      /* a token that ends a choice */
    /* a stream without a token for this long, and for 20 of its steps, has failed */
    double silent_s;
};

/* NULL with *err (SPOT_ESYS): no libcurl. */
struct spot_engine_client *spot_engine_client_new(const struct spot_engine_config *config,
                                                  struct spot_err *err);
void spot_engine_client_free(struct spot_engine_client *c); /* may be NULL */

/* Continue a choice of a request after token[n] of it; grammar[n_grammar] describes the permitted
 * rest of a constrained text. Takes the request, also on failure. Returns 0, or -1 with *err
 * (SPOT_EDATA) if no engine of this kind supports it. */
int spot_engine_client_add(struct spot_engine_client *c, uint64_t number, uint32_t assignment,
                           struct spot_request *request_take, uint32_t choice,
                           const uint32_t *token, size_t n, const char *grammar, size_t n_grammar,
                           struct spot_err *err);
void spot_engine_client_drop(struct spot_engine_client *c, uint64_t number);
void spot_engine_client_clear(struct spot_engine_client *c);

/* Wait until tokens came, fd[n_fd] is readable, or wait_s is over. Returns 0, or -1 with *err
 * (SPOT_ESYS). */
int spot_engine_client_wait(struct spot_engine_client *c, const int *fd, size_t n_fd, double wait_s,
                            struct spot_err *err);

struct spot_engine_told {
    uint64_t sequence;
    struct spot_step_token token; /* its epoch is the assignment */
};
struct spot_engine_failure {
    uint64_t sequence;
    uint32_t assignment;
    bool is_final; /* every other engine would refuse the request, too */
    bool is_anew;  /* nothing failed: the grammar of the rest is needed */
    char why[200];
};
/* Results since the last call; valid until the next call of any function. Sequences that failed or
 * ended are removed. */
const struct spot_engine_told *spot_engine_client_told(struct spot_engine_client *c, size_t *n);
const struct spot_engine_failure *spot_engine_client_failures(struct spot_engine_client *c,
                                                              size_t *n);

/* Seconds for which the engine has been unhealthy; 0 when healthy. INFINITY: it refused a
 * connection for a request; that request is not reported as failed, since another engine is to
 * take it. */
double spot_engine_client_unwell_s(const struct spot_engine_client *c);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_ENGINE_CLIENT_H */
