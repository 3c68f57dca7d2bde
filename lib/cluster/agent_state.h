/* SPDX-License-Identifier: MIT */
/* agent_state.h - shared by the parts of an agent; private to lib/cluster/agent*.c. */
#ifndef SPOT_CLUSTER_AGENT_STATE_H
#define SPOT_CLUSTER_AGENT_STATE_H

#include "cluster/agent.h"
#include "cluster/protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* agent_join.c: connect, retrying until a coordinator answers or the time limit; close
 * everything. */
int spot_agent_join(struct spot_agent *agent, struct spot_err *err);
void spot_agent_leave(struct spot_agent *agent);

/* agent_order.c: carry out one order. */
int spot_agent_obey(struct spot_agent *agent, const struct spot_frame *frame, struct spot_err *err);

/* agent_reach.c: append which peers this worker did not reach in this epoch; the order REACH; the
 * orders ASIDE and DISMISSED, of which the latter is an error (SPOT_ESYS). */
void spot_agent_put_suspects(struct spot_agent *agent, struct spot_buf *out);
int spot_agent_reach(struct spot_agent *agent, const struct spot_frame *frame,
                     struct spot_err *err);
int spot_agent_set_aside(struct spot_agent *agent, const struct spot_frame *frame,
                         struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_AGENT_STATE_H */
