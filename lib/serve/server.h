/* SPDX-License-Identifier: MIT */
/* server.h - serve a model on workers that come and go: the workload on the coordinator's side. */
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
    const char *model; /* its directory */
    enum spot_infer_type type;
    const char *kind;    /* of CUDA, in full: what every worker has to compute with; NULL: CPUs */
    uint32_t P, M;       /* stages of a replica, members of each */
    bool is_nccl;        /* those meet from device to device */
    uint32_t n_sequence; /* computed by one replica at once */
    uint64_t kv_byte;    /* of a worker's cache; 0: for so many whole contexts */
    bool has_buddies;    /* replicas have copies of each other's pages */
    uint32_t n_queue;    /* choices that wait, at most */
    double linger_s;     /* a stream waits so long for its client to come back */
    const char *state;   /* directory of the journal; NULL: none */
    bool does_sync;      /* the journal */

    const char *http; /* address; NULL: none */
    const char *tls_cert, *tls_key, *api_key_file;
    void (*http_listening)(void *user, int port); /* of group.user; NULL */

    const char *batch, *batch_out; /* JSON Lines of OpenAI's batches; NULL: none. It ends then */
};

/* Until it is stopped, or the batch is done. Returns 0 when all requests have ended, or -1 with
 * *err: SPOT_EPREEMPTED when it was stopped before. */
int spot_server_run(const struct spot_server_options *options, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SERVER_H */
