/* SPDX-License-Identifier: MIT */
/* exec_ledger.h - samples for the ranks of an exec job: the agent's op of the ranks' socket, and
 * how all nodes agree on one plan.
 *
 * An agent computes samples from the plan alone. But two nodes that read different sets, or
 * different batches, would lose samples and use others twice. So the plan that a rank declares
 * first is sent to the coordinator, which answers with the plan of the job: the first that it
 * received. Until then requests wait; afterwards an agent answers alone. Agents report the plan
 * to a new coordinator.
 */
#ifndef SPOT_HOST_EXEC_LEDGER_H
#define SPOT_HOST_EXEC_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/wire.h"
#include "host/ledger_answer.h"
#include "host/rank_socket.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A request that waits for the plan of the job. */
struct spot_exec_asker {
    uint64_t ticket;
    struct spot_ledger_question question;
};

/* One per agent; zeroed, then init. */
struct spot_exec_ledger {
    struct spot_ledger *ledger; /* its plan is that of the job */
    struct spot_ledger_plan proposed;
    bool has_proposed, is_told; /* the plan was reported to this coordinator, or is about to be */
    char conflict[256];         /* the coordinator's plan differs from this agent's; "": no */
    struct spot_exec_asker *asker; /* [n_asker] */
    size_t n_asker, asker_cap;
};

void spot_exec_ledger_init(struct spot_exec_ledger *ledger);
void spot_exec_ledger_release(struct spot_exec_ledger *ledger);

/* A round begins, as spot_ledger_begin. */
void spot_exec_ledger_begin(struct spot_exec_ledger *ledger, int64_t n_local, int64_t world,
                            int64_t step);

/* A row of the table (struct spot_rank_op); `user` is a struct spot_exec_ledger. */
int spot_exec_ledger_serve(void *user, const struct spot_rank_request *request,
                           struct spot_jw *answer, struct spot_err *err);
void spot_exec_ledger_gone(void *user, uint64_t ticket);

/* The plan that must be sent to the coordinator now, and then counts as sent; NULL: none. */
const struct spot_ledger_plan *spot_exec_ledger_news(struct spot_exec_ledger *ledger);
/* There is a new coordinator, which has no plan yet. */
void spot_exec_ledger_tell_again(struct spot_exec_ledger *ledger);
/* The coordinator answered with the plan of the job: answer the waiting requests. */
void spot_exec_ledger_agreed(struct spot_exec_ledger *ledger, struct spot_rank_socket *socket,
                             const struct spot_ledger_plan *plan);

/* The plan is part of each state, as a file in the program's directory: a job that continues from a
 * state on disk reads the same samples, or its ranks get an error. */
#define SPOT_EXEC_LEDGER_FILE ".spot-ledger"
/* Returns 0, also when there is no plan, or -1 with *err (SPOT_ESYS). */
int spot_exec_ledger_save(const struct spot_exec_ledger *ledger, int dir_fd, struct spot_err *err);
/* The plan of the state that a round begins with. If it is not the plan of the job, ranks are
 * refused. */
void spot_exec_ledger_load(struct spot_exec_ledger *ledger, int dir_fd);

/* Sets in->bad when it is malformed or invalid. */
void spot_exec_put_plan(struct spot_buf *out, const struct spot_ledger_plan *plan);
void spot_exec_get_plan(struct spot_wire_in *in, struct spot_ledger_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_LEDGER_H */
