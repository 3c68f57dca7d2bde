/* SPDX-License-Identifier: MIT */
/* server.h - serves a model on changing workers: the coordinator's side of the workload. */
#ifndef SPOT_SERVE_SERVER_H
#define SPOT_SERVE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/group.h"
#include "common/err.h"
#include "engine/infer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_server_options {
    struct spot_group_options group;
    const char *model;         /* its directory */
    const char *chat_template; /* a file, or the name of one of several; NULL: the model's own */
    const char *adapters;      /* of the model, see adapter_list.h; NULL: none */
    enum spot_infer_type type;
    bool is_foreign;  /* the model is in engines of the workers: engine_replica.h */
    const char *kind; /* full name of the CUDA kernel kind that every worker must use; NULL: CPUs */
    uint32_t P, M;    /* stages of a replica, members of each */
    bool is_nccl;     /* these exchange between devices */
    uint64_t n_sequence; /* per replica, at once */
    uint64_t kv_byte;    /* of a worker's cache; 0: for whole contexts of all sequences */
    uint64_t kept_byte;  /* part of it for cached prefixes */
    bool has_buddies;    /* replicas keep copies of each other's pages */
    uint64_t n_queue;    /* maximum number of waiting choices */
    double linger_s;     /* how long a stream waits for its client to reconnect */
    const char *state;   /* directory of the journal; NULL: none */
    bool does_sync;      /* the journal */
    double verify; /* share of choices that another replica computes again; < 0: none, not even on a
                      client's request */

    /* Get newer weights of the followed job: the directory of a model, dir[n], and the step. Called
     * repeatedly by a thread of the server. Returns 1, 0 if there are none, -1 with *err; `drop` is
     * called for each directory when it is no longer needed. NULL: no job is followed. */
    int (*follow)(void *user, char *dir, size_t n, int64_t *step, struct spot_err *err);
    void (*drop)(void *user, const char *dir); /* from any thread; both of group.user */

    const char *http; /* address; NULL: none */
    const char *tls_cert, *tls_key, *api_key_file;
    const char *names;       /* of the model, separated by commas, the first in answers; NULL: its
                                directory's */
    const char *cors;        /* see front.h */
    const char *tool_format; /* see tool_call.h; NULL: what the chat template shows */
    void (*http_listening)(void *user, const char *url); /* of group.user; NULL */

    const char *batch, *batch_out; /* JSON Lines in the format of OpenAI's batches; NULL: none. The
                                      server ends after them */
};

/* Run until stopped, or until the batch is done. Returns 0 when all requests have ended, or -1 with
 * *err: SPOT_EPREEMPTED when stopped before. */
int spot_server_run(const struct spot_server_options *options, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SERVER_H */
