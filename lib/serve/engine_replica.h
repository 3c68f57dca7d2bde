/* SPDX-License-Identifier: MIT */
/* engine_replica.h - one worker of a server whose model is in somebody's engine: joins once that is
 * well, has it compute the sequences given to it, leaves. */
#ifndef SPOT_SERVE_ENGINE_REPLICA_H
#define SPOT_SERVE_ENGINE_REPLICA_H

#include "cluster/agent.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_engine_replica_options {
    struct spot_agent_options agent;
    const char *command; /* that starts the engine; NULL: it runs at `url` */
    const char *url;     /* http://ADDRESS:PORT */
    const char *kind;    /* see engine_preset.h; NULL: as the command or its answers tell */
    double start_s;      /* limit for it to be well */
    double silent_s;     /* see engine_client.h */
    double room_byte; /* an engine that has grown begins anew when less memory than this is left */
    void (*note)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* what becomes of the engine */
};

/* Work until the server ends. An engine that ends is started again after a pause. Returns as
 * spot_agent_run does; SPOT_EDATA for an engine whose model is another one, SPOT_ESYS for one that
 * is not well in time. */
int spot_engine_replica_run(const struct spot_engine_replica_options *options,
                            struct spot_agent *agent, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_ENGINE_REPLICA_H */
