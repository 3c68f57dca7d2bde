/* SPDX-License-Identifier: MIT */
/* exec_agent_state.h - shared by the parts of the agent's side of an exec job; private to
 * lib/host. */
#ifndef SPOT_HOST_EXEC_AGENT_STATE_H
#define SPOT_HOST_EXEC_AGENT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/protocol.h"
#include "common/elapsed.h"
#include "host/exec_agent.h"
#include "host/exec_ledger.h"
#include "host/exec_protocol.h"
#include "host/rank_socket.h"
#include "host/state_pull.h"
#include "host/state_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank that has announced a commit and waits for the answer. */
struct spot_exec_say {
    uint64_t ticket;
    uint32_t local;
    uint64_t step;
    double since_s;  /* by spot_clock_s; until_s: below */
    double until_s;  /* latest time of the answer; INFINITY: no limit */
    bool wants_safe; /* waits until the commit is safe, not only agreed */
    bool is_agreed;
    bool is_alone, is_offered; /* its files are those of all ranks; that was reported */
};

/* Files of the node's ranks that are stored and await the coordinator's decision. */
struct spot_exec_taken {
    struct spot_state_id id;
    uint64_t n_byte;
    struct spot_state_saved saved;
    enum spot_exec_scope scope;
    bool is_early;          /* a file was being written */
    char why[SPOT_WHY_MAX]; /* why storing failed; "": it is in the store */
};

/* Maximum number of undecided steps, oldest first: ranks that do not wait for an answer continue
 * while the coordinator is unreachable. */
enum { SPOT_EXEC_TAKEN_MAX = 4 };

/* Commits of this node. Steps are reported to the coordinator one at a time. */
struct spot_exec_commit {
    struct spot_exec_say say[SPOT_LOCAL_RANKS_MAX + 1]; /* [n]; at most one per rank */
    size_t n;
    /* step counters for ranks that do not number their steps */
    uint64_t counted[SPOT_LOCAL_RANKS_MAX];
    uint64_t floor; /* steps up to this one are decided in this round, or were restored */
    bool has_floor; /* false: none are */
    char refused[SPOT_WHY_MAX]; /* why the last of them was refused; "": it is committed */
    struct spot_exec_taken taken[SPOT_EXEC_TAKEN_MAX]; /* [n_taken]; steps ascend */
    size_t n_taken;
    double late_s; /* time of the next warning; the delay doubles each time, since some ranks save
                      for long */
};

/* Commits offered to the coordinator, and those it has ordered to be taken (exec_offer.c). */
struct spot_exec_offer {
    bool is_out;    /* an offer of the script's files has no answer yet */
    bool is_due;    /* an order waits because the files are being written */
    double since_s; /* time since which it waits */
    struct spot_state_id id;
    struct spot_buf dirs;
    double not_before_s,
        pause_s;   /* after a refused offer: earliest time of the next, and the pause */
    double done_s; /* time at which the ranks ended, which may have saved just before; 0: not yet */
};

/* A state being sent or received in this epoch. One at a time is received. */
struct spot_exec_transfer {
    struct spot_exec_move move;
    struct spot_state_pull *pull; /* NULL: it has not begun, or is_served */
    bool is_served;               /* sent to another member on its requests */
    bool is_due;                  /* the ranks wait for it */
};

/* The pace that a rank reports. */
struct spot_exec_pace {
    int64_t step; /* the newest step that it reported */
    double at_s;  /* when it reported it, by spot_clock_s; 0: not in this round */
    double one_s; /* smoothed time of a step; 0: not known */
    bool is_own;  /* the rank measured it itself, without waits for others */
};

struct spot_exec_agent {
    const struct spot_exec_agent_options *options;
    struct spot_agent agent;
    struct spot_rank_socket *socket; /* the ranks' socket */
    struct spot_state_store *store;
    struct spot_exec_ledger ledger; /* the samples of its ranks */
    struct spot_exec_held held;
    int port_fd; /* listens at held.port until a round starts; else -1 */

    struct spot_exec_form form; /* the newest one received */
    uint32_t formed;            /* its epoch; 0: none */
    bool owes_ready; /* READY is to be sent as soon as no rank runs and the state is laid out */
    int64_t round;
    bool has_begun, has_voted; /* in that epoch: ROUND was received */
    bool has_told;             /* how the ranks ended was reported */
    bool is_away;              /* the coordinator is unreachable */
    struct spot_wait away;     /* time for which it has been unreachable */

    bool has_ranks;   /* ranks were started and are not known to have stopped */
    bool is_stopping; /* stopping was requested */
    enum spot_exec_warmth warmth, told_warmth;
    bool is_saving, has_saved, has_told_saved;
    uint32_t n_done; /* ranks that have exited with 0 */
    bool has_exited[SPOT_LOCAL_RANKS_MAX];
    uint32_t ended_rank; /* the first that exited otherwise */
    int ended_status;
    double started_s;

    bool has_last; /* the last commit of the job, as far as this node knows: */
    uint64_t last_step;
    struct spot_state_saved last_saved;
    double last_s;   /* when the last commit was agreed, or restored */
    uint32_t writer; /* the only node with files in the commit, UINT32_MAX: several, or not known */
    bool is_lay_due; /* the job is done: the commit `lay` is to be laid out */
    struct spot_state_id lay; /* this commit, */
    uint32_t lay_world;       /* its number of places */
    uint32_t n_left;          /* ranks that have ended since the order to save */
    double left_s;            /* when the last of them ended */
    bool has_committed;       /* a commit was made in this round */
    struct spot_exec_commit commit;
    struct spot_exec_offer offer;
    struct spot_exec_transfer *transfer; /* [n_transfer] */
    size_t n_transfer, cap_transfer;
    struct spot_exec_pace pace[SPOT_LOCAL_RANKS_MAX];
    double paced_s;               /* time of the last report to the coordinator */
    bool has_pace;                /* the pace has changed since */
    char not_found[SPOT_WHY_MAX]; /* why the files found here could not be stored; "": they are
                                     stored */
    double rate_byte_per_s;       /* for states sent to a buddy; 0: no limit */
};

/* exec_pace.c: the op of the socket by which ranks report a completed step. Commits and requests
 * for samples report steps too. */
int spot_exec_serve_beat(void *agent, const struct spot_rank_request *request,
                         struct spot_jw *answer, struct spot_err *err);
/* The functions of exec_ledger.h; they also report the step. */
int spot_exec_serve_samples(void *agent, const struct spot_rank_request *request,
                            struct spot_jw *answer, struct spot_err *err);
void spot_exec_samples_gone(void *agent, uint64_t ticket);
/* own_s: seconds of work since the step before; NAN: use the elapsed time. */
void spot_exec_beat(struct spot_exec_agent *e, int64_t rank, int64_t step, double own_s);
void spot_exec_pace_begin(struct spot_exec_agent *e); /* a round begins */
int spot_exec_tell_pace(struct spot_exec_agent *e, struct spot_err *err);

/* exec_commit.c: commits of ranks. The op of the socket: */
int spot_exec_local_of(const struct spot_exec_agent *e, int64_t rank, uint32_t *local,
                       struct spot_err *err); /* rank -1: the only one */
int spot_exec_serve_commit(void *agent, const struct spot_rank_request *request,
                           struct spot_jw *answer, struct spot_err *err);
void spot_exec_commit_gone(void *agent, uint64_t ticket);
/* A round begins from the state of e->form, or continues under another epoch. */
void spot_exec_commit_begin(struct spot_exec_agent *e);
int spot_exec_commit_again(struct spot_exec_agent *e, struct spot_err *err);
/* If all expected ranks have announced a commit, store it and report it to the coordinator. */
int spot_exec_commit_tick(struct spot_exec_agent *e, struct spot_err *err);
/* Store it only, while there is no coordinator. */
void spot_exec_commit_tick_away(struct spot_exec_agent *e);
int spot_exec_commit_answer(struct spot_exec_agent *e, const struct spot_frame *frame,
                            struct spot_err *err);
/* Read the list of states to keep from now on. */
int spot_exec_hold(struct spot_exec_agent *e, const struct spot_frame *frame, struct spot_err *err);

/* exec_offer.c: commits of one rank for all, and of files that a script saves by itself. */
void spot_exec_offer_begin(struct spot_exec_agent *e);
/* for another coordinator, or another epoch */
void spot_exec_offer_again(struct spot_exec_agent *e);
int spot_exec_offer_tick(struct spot_exec_agent *e, struct spot_err *err);
int spot_exec_offer_take(struct spot_exec_agent *e, const struct spot_frame *frame,
                         struct spot_err *err);
/* A step was decided: committed if `why` is "", else refused for that reason. */
void spot_exec_offer_answered(struct spot_exec_agent *e, uint64_t step, const char *why);
/* True if saved files have not yet been committed. */
bool spot_exec_offer_pends(struct spot_exec_agent *e);
/* exec_commit.c: store the files of a commit and report it. */
struct spot_exec_taken *spot_exec_commit_add(struct spot_exec_agent *e, uint64_t step,
                                             enum spot_exec_scope scope);
void spot_exec_commit_take(struct spot_exec_agent *e, struct spot_exec_taken *t);
int spot_exec_commit_tell(struct spot_exec_agent *e, struct spot_err *err);

/* exec_found.c: before the node joins, an existing checkpoint is stored without a job; the round
 * that begins from it adopts it. */
void spot_exec_find_saved(struct spot_exec_agent *e);
/* A round that begins from scratch must do so on all nodes: a checkpoint found only here is moved
 * aside. Returns 0, or -1 with *err if it could not be stored. */
int spot_exec_check_found(const struct spot_exec_agent *e, struct spot_err *err);
void spot_exec_adopt_found(struct spot_exec_agent *e);
/* Drop a found checkpoint from which no round has begun, to free memory. False if there is none. */
bool spot_exec_drop_found(struct spot_exec_agent *e);
/* While there is no coordinator: store commits completed by the only node that writes. */
void spot_exec_take_away(struct spot_exec_agent *e);
/* call it often while the coordinator is away */
void spot_exec_tell_away(struct spot_exec_agent *e);

/* exec_error.c: read the text that a rank wrote to TORCHELASTIC_ERROR_FILE before it ended; "" if
 * none. */
void spot_exec_read_error(const struct spot_exec_agent *e, uint32_t local, char *text, size_t n);
void spot_exec_drop_errors(const struct spot_exec_agent *e); /* those of the previous round */

/* exec_moves.c: states being sent and received. */
int spot_exec_move_add(struct spot_exec_agent *e, const struct spot_exec_move *move, bool is_due,
                       struct spot_err *err);
int spot_exec_on_move(struct spot_exec_agent *e, const struct spot_frame *frame,
                      struct spot_err *err);
void spot_exec_move_cancel(struct spot_exec_agent *e, uint64_t serial);
void spot_exec_moves_end(struct spot_exec_agent *e); /* the epoch is over */
/* Advance them. Returns 1 when something moved, 0 when all wait, -1 with *err. */
int spot_exec_moves_step(struct spot_exec_agent *e, struct spot_err *err);
/* Handle FETCH, WANT, RECORD and PIECES of the coordinator. */
int spot_exec_moves_hear(struct spot_exec_agent *e, const struct spot_frame *frame,
                         struct spot_err *err);
/* True if a transfer for which the ranks wait is in progress. */
bool spot_exec_moves_due(const struct spot_exec_agent *e);
/* True if a state is being received. */
bool spot_exec_moves_take(const struct spot_exec_agent *e);
/* Lay out the state that the ranks of e->form begin with. Returns 0, or -1 with *err. */
int spot_exec_restore(struct spot_exec_agent *e, struct spot_err *err);
/* When that state was saved, as far as the records held here tell. */
struct spot_state_saved spot_exec_restored(const struct spot_exec_agent *e);
/* Lay out the last commit of a finished job, as its result. */
int spot_exec_on_lay(struct spot_exec_agent *e, const struct spot_frame *frame,
                     struct spot_err *err);
int spot_exec_lay_last(struct spot_exec_agent *e, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_AGENT_STATE_H */
