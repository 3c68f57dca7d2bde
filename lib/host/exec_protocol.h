/* SPDX-License-Identifier: MIT */
/* exec_protocol.h - the messages of an exec job, in addition to cluster/protocol.h. */
#ifndef SPOT_HOST_EXEC_PROTOCOL_H
#define SPOT_HOST_EXEC_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/mesh.h"
#include "comm/wire.h"
#include "host/rank_env.h"
#include "host/state_record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_EXEC_NAME "exec" /* first field of the workload's part of a HELLO */

/* HELLO: text SPOT_EXEC_NAME, u64 hash of the command, u32 ranks of the node, then as in REPORT:
 * struct spot_exec_held, struct spot_exec_holdings. FORM: struct spot_exec_form; also sent to
 * members without a place, so that they can send and receive states. ROUND: no payload; the ranks
 * start. A VOTE says that they have been up for a while. */
enum spot_exec_message {
    /* agent to coordinator, within an epoch */
    SPOT_MSG_EXEC_DONE = 13, /* all ranks here have exited with 0 */
    /* a rank has failed: u32 rank, u32 status as of wait(2), text: its error */
    SPOT_MSG_EXEC_ENDED = 14,
    SPOT_MSG_EXEC_SAVED = 15, /* answer to SAVE: all ranks on this node that save have ended */
    SPOT_MSG_EXEC_WARM = 16,  /* of no epoch; tag: enum spot_exec_warmth */
    /* id, u64 its bytes, text: "" if the ranks' commit is stored here, else why not; u8 enum
     * spot_exec_scope, struct spot_state_saved */
    SPOT_MSG_EXEC_TOOK = 17,
    /* tag: serial; text: why it failed, ""; u64 bytes that were missing */
    SPOT_MSG_EXEC_MOVED = 18,
    /* u8 enum spot_exec_scope; u64 step or UINT64_MAX: the next one; u32 n, then n bytes: the
     * complete directories, as written by spot_rank_files_list */
    SPOT_MSG_EXEC_OFFER = 29,
    /* u32 ranks of the node; for each rank u64 step, f64 seconds per step, 0: unknown */
    SPOT_MSG_EXEC_PACE = 30,
    SPOT_MSG_EXEC_LAID = 31,   /* text: "" if the commit named by LAY is laid out, else why not */
    SPOT_MSG_EXEC_LEDGER = 28, /* of no epoch; a plan of samples (exec_ledger.h) */

    /* coordinator to agent */
    SPOT_MSG_EXEC_SAVE = 56,   /* f64 seconds: time to save, a new round is about to begin */
    SPOT_MSG_EXEC_HALT = 57,   /* stop the running ranks: they have no round */
    SPOT_MSG_EXEC_OVER = 58,   /* text: the job has failed */
    SPOT_MSG_EXEC_KEEP = 59,   /* of no epoch: the command supports waiting, keep twins */
    SPOT_MSG_EXEC_MOVE = 48,   /* f64 bytes per second or 0; struct spot_exec_move */
    SPOT_MSG_EXEC_CANCEL = 49, /* tag: serial of a move that has become impossible */
    SPOT_MSG_EXEC_PEERS = 50,  /* the peers of the epoch, as in FORM, when one is added */
    /* id, text: "" if it is agreed, else why it and all earlier undecided ones are refused; struct
     * spot_state_saved; u32 the only node that had files in it, UINT32_MAX: several, or none */
    SPOT_MSG_EXEC_ANSWER = 51,
    /* u8 enum spot_exec_safety of the newest one, u32 n, n ids: all other commits may be dropped */
    SPOT_MSG_EXEC_HOLD = 52,
    /* id, then as in OFFER: commit the offered files */
    SPOT_MSG_EXEC_TAKE = 54,
    /* id, u32 its places: all ranks have ended; lay that commit out as the result */
    SPOT_MSG_EXEC_LAY = 55,
    SPOT_MSG_EXEC_PLAN = 53, /* of no epoch; answer to LEDGER: the plan of the job */

    /* both ways, about a move, also from member to member (state_pull.h); tag: its serial */
    SPOT_MSG_EXEC_FETCH = 24,  /* id, u32 place */
    SPOT_MSG_EXEC_RECORD = 25, /* the record; empty: it is not held */
    /* id, u32 place, u32 the first piece, u32 number of pieces; 0: the receiver has all */
    SPOT_MSG_EXEC_WANT = 26,
    SPOT_MSG_EXEC_PIECES = 27, /* those pieces, in order; empty: one is damaged */
};

enum spot_exec_warmth {
    SPOT_EXEC_COLD,  /* the command is not known to support waiting */
    SPOT_EXEC_HOLDS, /* it supports waiting */
    SPOT_EXEC_WARM,  /* and a twin waits for each rank */
    SPOT_EXEC_WARMTHS
};

enum spot_exec_state {
    SPOT_EXEC_IDLE,
    SPOT_EXEC_RUNNING,
    SPOT_EXEC_DONE,  /* all ranks have exited with 0, without an order to save */
    SPOT_EXEC_ENDED, /* one failed, or ended after the order to save */
    SPOT_EXEC_STATES
};

/* Whose files form a commit. */
enum spot_exec_scope {
    SPOT_EXEC_OF_ALL, /* files of every node, each with its own */
    SPOT_EXEC_OF_ONE, /* files of one node, for all */
    /* files of every node; those of the same name are identical (rank_files.h) */
    SPOT_EXEC_OF_FILES,
    SPOT_EXEC_SCOPES
};

/* An agent's report on the last round that it started, if any. */
struct spot_exec_held {
    char run_id[SPOT_RUN_ID_MAX]; /* "": none */
    uint32_t restart_count, group_rank, group_world;
    uint32_t n_failed; /* failures in this run, as received from the coordinator */
    uint32_t state;    /* enum spot_exec_state */
    uint32_t port;     /* a currently free port on the node, for a rendezvous */
    uint64_t key;      /* key of that round */
};

/* States that a member holds. */
struct spot_exec_holding {
    char run_id[SPOT_RUN_ID_MAX]; /* "": found in the script's directory when the node began */
    struct spot_state_id id;
    uint32_t place, world;
    struct spot_state_saved saved;
};
struct spot_exec_holdings {
    struct spot_exec_holding *of; /* [n] */
    size_t n, cap;
};
void spot_exec_holdings_release(struct spot_exec_holdings *all);
void spot_exec_put_holdings(struct spot_buf *out, const struct spot_exec_holdings *all);
/* Sets in->bad when malformed; *all is then empty. */
void spot_exec_get_holdings(struct spot_wire_in *in, struct spot_exec_holdings *all);

enum { SPOT_EXEC_KEPT_MAX = 16 }; /* ids in a HOLD */

enum spot_exec_safety {
    SPOT_EXEC_AT_RISK, /* a place of it is held only once; a second copy is being made */
    SPOT_EXEC_SAFE,    /* every place is held twice, or is on disk */
    SPOT_EXEC_ALONE,   /* there is no other node to hold it */
    SPOT_EXEC_SAFETIES
};

/* A state to be moved between members; 0 is the coordinator. */
struct spot_exec_move {
    uint64_t serial;
    struct spot_state_id id;
    uint32_t place, from, to;
};
void spot_exec_put_move(struct spot_buf *out, const struct spot_exec_move *move);
void spot_exec_get_move(struct spot_wire_in *in, struct spot_exec_move *move);

/* A new epoch, as sent to one member. */
struct spot_exec_form {
    bool is_kept;               /* the running ranks continue */
    bool has_place;             /* the member has a place; without one it has no ranks */
    uint32_t n_failed;          /* rounds so far */
    struct spot_rank_env env;   /* state_step and state_world are those of the state laid out */
    uint64_t key;               /* of the round: struct spot_state_id */
    struct spot_state_id state; /* if env.has_state */
    bool has_all;               /* the states of all places are laid out, below SPOT_STATE_PLACES */
    struct spot_mesh_peer *peer; /* [n_peer] of the epoch, including itself */
    size_t n_peer;
    struct spot_exec_move *move; /* [n_move] in which it takes part before it is ready */
    size_t n_move;
};
void spot_exec_form_release(struct spot_exec_form *form);
void spot_exec_put_form(struct spot_buf *out, const struct spot_exec_form *form);
/* Sets in->bad when malformed; release it in any case. */
void spot_exec_get_form(struct spot_wire_in *in, struct spot_exec_form *form);
void spot_exec_put_peers(struct spot_buf *out, const struct spot_mesh_peer *peer, size_t n);
/* Allocated; sets in->bad when malformed. */
struct spot_mesh_peer *spot_exec_get_peers(struct spot_wire_in *in, size_t *n);

void spot_exec_put_held(struct spot_buf *out, const struct spot_exec_held *held);
/* Sets in->bad when malformed. */
void spot_exec_get_held(struct spot_wire_in *in, struct spot_exec_held *held);

/* Hash of a command, its number of ranks on a node, and the pattern of its checkpoints, which may
 * be NULL. */
uint64_t spot_exec_hash(char *const *command, uint32_t n_rank, const char *checkpoint);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_PROTOCOL_H */
