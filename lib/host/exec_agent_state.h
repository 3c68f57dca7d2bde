/* SPDX-License-Identifier: MIT */
/* exec_agent_state.h - what the parts of the agent's side of an exec job share; private to
 * lib/host. */
#ifndef SPOT_HOST_EXEC_AGENT_STATE_H
#define SPOT_HOST_EXEC_AGENT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/protocol.h"
#include "host/exec_agent.h"
#include "host/exec_ledger.h"
#include "host/exec_protocol.h"
#include "host/rank_socket.h"
#include "host/state_pull.h"
#include "host/state_store.h"
#include "host/state_transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank has said that it commits, and waits. */
struct spot_exec_say {
    uint64_t ticket;
    uint32_t local;
    uint64_t step;
    double until_s;  /* by spot_clock_s: then it is answered in any case; INFINITY: it waits */
    bool wants_safe; /* not only agreed */
    bool is_agreed;
};

/* What a node has taken of its ranks' files, and the coordinator has not decided. */
struct spot_exec_taken {
    struct spot_state_id id;
    uint64_t n_byte;
    bool is_by_manifest;
    char why[SPOT_WHY_MAX]; /* it could not be taken; "": it is in the store */
};

/* How many of them wait, the oldest first: the coordinator may be away, and ranks that did not wait
 * for its answer go on. */
enum { SPOT_EXEC_TAKEN_MAX = 4 };

/* What this node commits. The coordinator is told of one step after the other. */
struct spot_exec_commit {
    struct spot_exec_say say[SPOT_LOCAL_RANKS_MAX + 1]; /* [n]; one for each rank */
    size_t n;
    uint64_t counted[SPOT_LOCAL_RANKS_MAX]; /* steps of ranks that do not say which */
    uint64_t floor;             /* steps up to it are decided in this round, or were restored; */
    bool has_floor;             /* false: none are */
    char refused[SPOT_WHY_MAX]; /* why the last of them is none; "": it is committed */
    struct spot_exec_taken taken[SPOT_EXEC_TAKEN_MAX]; /* [n_taken]; steps ascend */
    size_t n_taken;
};

/* A state that comes or goes in this epoch. One comes at a time. */
struct spot_exec_transfer {
    struct spot_exec_move move;
    struct spot_state_giver *giver; /* one of the three */
    struct spot_state_taker *taker;
    struct spot_state_pull *pull;
    bool is_due; /* the ranks wait for it */
};

struct spot_exec_agent {
    const struct spot_exec_agent_options *options;
    struct spot_agent agent;
    struct spot_rank_socket *socket; /* where its ranks ask */
    struct spot_state_store *store;
    struct spot_exec_ledger ledger; /* of their samples */
    struct spot_exec_held held;
    int port_fd; /* listens at held.port until a round starts; -1 */

    struct spot_exec_form form; /* the newest */
    uint32_t formed;            /* its epoch; 0: none */
    bool owes_ready;            /* READY, as soon as no rank is left and its state is laid out */
    int64_t round;
    bool has_begun, has_voted; /* that epoch has: ROUND came */
    bool has_told;             /* how the ranks ended */
    bool is_away;              /* the coordinator is */

    bool has_ranks;   /* started, and not known to be stopped */
    bool is_stopping; /* that was asked for */
    enum spot_exec_warmth warmth, told_warmth;
    bool is_saving, has_saved, has_told_saved;
    uint32_t n_done; /* ranks that have exited with 0 */
    bool has_exited[SPOT_LOCAL_RANKS_MAX];
    uint32_t ended_rank; /* the first that did not */
    int ended_status;
    double started_s;

    struct spot_exec_commit commit;
    struct spot_exec_transfer *transfer; /* [n_transfer] */
    size_t n_transfer, cap_transfer;
    double rate_byte_per_s; /* of states that go to a buddy; 0: no limit */
};

/* exec_commit.c: what ranks commit, by the socket or by a manifest. The op of the socket: */
int spot_exec_serve_commit(void *agent, const struct spot_rank_request *request,
                           struct spot_jw *answer, struct spot_err *err);
void spot_exec_commit_gone(void *agent, uint64_t ticket);
/* A round begins here, from the state of e->form; or it goes on under another epoch. */
void spot_exec_commit_begin(struct spot_exec_agent *e);
int spot_exec_commit_again(struct spot_exec_agent *e, struct spot_err *err);
/* Look whether all that is to be said was, and take it; then tell the coordinator. */
int spot_exec_commit_tick(struct spot_exec_agent *e, struct spot_err *err);
/* Only take it: there is no coordinator. */
void spot_exec_commit_tick_away(struct spot_exec_agent *e);
int spot_exec_commit_answer(struct spot_exec_agent *e, const struct spot_frame *frame,
                            struct spot_err *err);
/* Which states are kept from now on. */
int spot_exec_hold(struct spot_exec_agent *e, const struct spot_frame *frame, struct spot_err *err);

/* exec_manifest.c: `manifest` in DIR, if it is there; it is then moved away. Returns 1, 0 when
 * there is none, -1 with *err: SPOT_EDATA for one that is malformed. */
struct spot_exec_manifest {
    uint64_t step;
    char **path; /* [n] that are named; NULL: all files */
    size_t n;
};
int spot_exec_manifest_claim(const char *dir, struct spot_exec_manifest *manifest,
                             struct spot_err *err);
void spot_exec_manifest_release(struct spot_exec_manifest *manifest);
/* Say what became of it, in DIR/manifest.answer; `why` "": it is committed. */
void spot_exec_manifest_answer(const char *dir, uint64_t step, const char *why);

/* exec_moves.c: states that come and go. */
int spot_exec_move_add(struct spot_exec_agent *e, const struct spot_exec_move *move, bool is_due,
                       struct spot_err *err);
int spot_exec_on_move(struct spot_exec_agent *e, const struct spot_frame *frame,
                      struct spot_err *err);
void spot_exec_move_cancel(struct spot_exec_agent *e, uint64_t serial);
void spot_exec_moves_end(struct spot_exec_agent *e); /* the epoch is over */
/* Go on with them. Returns 1 when something moved, 0 when all wait, -1 with *err. */
int spot_exec_moves_step(struct spot_exec_agent *e, struct spot_err *err);
/* FETCH, WANT, RECORD and PIECES of the coordinator. */
int spot_exec_moves_hear(struct spot_exec_agent *e, const struct spot_frame *frame,
                         struct spot_err *err);
/* Is something that the ranks wait for under way? */
bool spot_exec_moves_due(const struct spot_exec_agent *e);
/* Lay out what the ranks of e->form begin with. Returns 0, or -1 with *err. */
int spot_exec_restore(struct spot_exec_agent *e, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_AGENT_STATE_H */
