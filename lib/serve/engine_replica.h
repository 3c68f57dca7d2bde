/* SPDX-License-Identifier: MIT */
/* engine_replica.h - a worker of a server whose model is in a foreign engine: joins once the engine
 * is healthy, forwards sequences to it, leaves. */
#ifndef SPOT_SERVE_ENGINE_REPLICA_H
#define SPOT_SERVE_ENGINE_REPLICA_H

#include "cluster/agent.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_engine_replica_options {
    struct spot_agent_options agent;
    const char *command; /* shell command of the engine; NULL: it already runs at `url` */
    const char *url;     /* http://ADDRESS:PORT */
    const char *kind;    /* see engine_preset.h; NULL: detected from the command or its answers */
    double start_s;      /* time limit for the engine to become healthy */
    double silent_s;     /* see engine_client.h */
    double room_byte; /* an engine that has grown is restarted when less memory than this is left */
    void (*note)(const char *fmt, ...)
        SPOT_PRINTF(1, 2); /* reports starts and ends of the engine */
};

/* Work until the server ends. An engine that ends is restarted after a pause. Returns as
 * spot_agent_run does; SPOT_EDATA for an engine with another model, SPOT_ESYS for one that is not
 * healthy in time. */
int spot_engine_replica_run(const struct spot_engine_replica_options *options,
                            struct spot_agent *agent, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_ENGINE_REPLICA_H */
