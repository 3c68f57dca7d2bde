/* SPDX-License-Identifier: MIT */
/* exec_protocol.h - what the two sides of an exec job say to each other, beside
 * cluster/protocol.h. */
#ifndef SPOT_HOST_EXEC_PROTOCOL_H
#define SPOT_HOST_EXEC_PROTOCOL_H

#include <stdint.h>

#include "comm/wire.h"
#include "host/rank_env.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_EXEC_NAME "exec" /* begins what a HELLO says for the workload */

/* HELLO: text SPOT_EXEC_NAME, u64 hash of the command, u32 ranks of the node, then as REPORT:
 * struct spot_exec_held. FORM: u8 the ranks that run are kept, u32 failures so far, struct
 * spot_rank_env. ROUND: nothing; the ranks start. A VOTE says that they have been up for a while.
 */
enum spot_exec_message {
    /* agent to coordinator, of an epoch */
    SPOT_MSG_EXEC_DONE = 13,  /* all ranks here have exited with 0 */
    SPOT_MSG_EXEC_ENDED = 14, /* u32 rank, u32 status as of wait(2): one did not */
    SPOT_MSG_EXEC_SAVED = 15, /* answer to SAVE: nothing more is waited for here */
    SPOT_MSG_EXEC_WARM = 16,  /* of no epoch; tag: enum spot_exec_warmth */

    /* coordinator to agent */
    SPOT_MSG_EXEC_SAVE = 56, /* f64 seconds: a new round is near */
    SPOT_MSG_EXEC_HALT = 57, /* end the ranks that run: they have no round */
    SPOT_MSG_EXEC_OVER = 58, /* text: the job has failed */
    SPOT_MSG_EXEC_KEEP = 59, /* of no epoch: the command can wait, have twins */
};

enum spot_exec_warmth {
    SPOT_EXEC_COLD,  /* as far as is known the command cannot wait */
    SPOT_EXEC_HOLDS, /* it can */
    SPOT_EXEC_WARM,  /* and for each rank one waits */
    SPOT_EXEC_WARMTHS
};

enum spot_exec_state {
    SPOT_EXEC_IDLE,
    SPOT_EXEC_RUNNING,
    SPOT_EXEC_DONE,  /* all ranks have exited with 0, and nobody had told them to save */
    SPOT_EXEC_ENDED, /* one failed, or ended while it was to save */
    SPOT_EXEC_STATES
};

/* What an agent has: of the round that it started last, if it ever did. */
struct spot_exec_held {
    char run_id[SPOT_RUN_ID_MAX]; /* "": none */
    uint32_t restart_count, group_rank, group_world;
    uint32_t n_failed; /* in this run, as the coordinator said */
    uint32_t state;    /* enum spot_exec_state */
    uint32_t port;     /* free there now, for a rendezvous */
};

void spot_exec_put_held(struct spot_buf *out, const struct spot_exec_held *held);
/* Sets in->bad when it is malformed. */
void spot_exec_get_held(struct spot_wire_in *in, struct spot_exec_held *held);

void spot_exec_put_env(struct spot_buf *out, const struct spot_rank_env *env);
void spot_exec_get_env(struct spot_wire_in *in, struct spot_rank_env *env);

/* Of a command and how many ranks of it a node has. */
uint64_t spot_exec_hash(char *const *command, uint32_t n_rank);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_PROTOCOL_H */
