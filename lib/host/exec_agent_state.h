/* SPDX-License-Identifier: MIT */
/* exec_agent_state.h - what the parts of the agent's side of an exec job share; private to
 * lib/host. */
#ifndef SPOT_HOST_EXEC_AGENT_STATE_H
#define SPOT_HOST_EXEC_AGENT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "host/exec_agent.h"
#include "host/exec_protocol.h"
#include "host/rank_socket.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_exec_agent {
    const struct spot_exec_agent_options *options;
    struct spot_agent agent;
    struct spot_rank_socket *socket; /* where its ranks ask */
    struct spot_exec_held held;
    int port_fd; /* listens at held.port until a round starts; -1 */

    struct spot_rank_env env; /* of the newest FORM */
    uint32_t formed;          /* its epoch; 0: none */
    uint32_t n_failed;        /* as it says */
    bool is_kept;             /* it leaves the ranks as they are */
    bool owes_ready;          /* READY, as soon as no rank is left */
    int64_t round;
    bool has_begun, has_voted; /* that epoch has: ROUND came */
    bool has_told;             /* how the ranks ended */

    bool has_ranks;   /* started, and not known to be stopped */
    bool is_stopping; /* that was asked for */
    enum spot_exec_warmth warmth, told_warmth;
    bool is_saving, has_saved, has_told_saved;
    uint32_t n_done;     /* ranks that have exited with 0 */
    uint32_t ended_rank; /* the first that did not */
    int ended_status;
    double started_s;
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_AGENT_STATE_H */
