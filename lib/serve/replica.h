/* SPDX-License-Identifier: MIT */
/* replica.h - a worker of a server: joins, computes the sequences assigned to it, leaves. */
#ifndef SPOT_SERVE_REPLICA_H
#define SPOT_SERVE_REPLICA_H

#include "cluster/agent.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_replica_options {
    struct spot_agent_options agent;
    const char *private_dir; /* of the coordinator that started it, see private_dir.h; or NULL */
    int n_thread;
};

/* Work until the server ends. Returns as spot_agent_run does; SPOT_EDATA for a model that differs
 * from the server's. *agent, unless NULL, gets its final state. */
int spot_replica_run(const struct spot_replica_options *options, struct spot_agent *agent,
                     struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_REPLICA_H */
