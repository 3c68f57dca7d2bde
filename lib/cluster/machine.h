/* SPDX-License-Identifier: MIT */
/* machine.h - the coordinator's state machine: who is in, which epoch runs, when a step commits.
 *
 * Pure: events go in, one effect comes out for the caller to carry out; no sockets, no clock.
 *
 *   WAIT --start--> QUIESCE --all replied--> FORM --form--> MIGRATE --all ready--> RUN
 *     ^                ^                       |                |                  |
 *     +----hold--------|-----------------------+                |                  |
 *                      +---- loss, notice ----------------------+                  |
 *                      +---- loss at once; notice, join, plan at the next commit --+
 *
 * Promises: a step commits only when every active member of the epoch has voted for it in that
 * epoch; epochs only grow; committed steps grow by one except through a rollback; a member that
 * was lost takes no part again (it may join anew under another id); whatever happens, a job whose
 * members answer commits again.
 */
#ifndef SPOT_CLUSTER_MACHINE_H
#define SPOT_CLUSTER_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spot_phase {
    SPOT_PHASE_WAIT,    /* nothing runs; every member has reported what it holds */
    SPOT_PHASE_QUIESCE, /* the old epoch is over; waiting for reports */
    SPOT_PHASE_FORM,    /* all have reported; the caller chooses the new grid */
    SPOT_PHASE_MIGRATE, /* state moves to its new places */
    SPOT_PHASE_RUN,     /* steps */
};

enum spot_role {
    SPOT_ROLE_SPARE,  /* in the group, without a part in this epoch */
    SPOT_ROLE_SOURCE, /* sends state, then is done */
    SPOT_ROLE_ACTIVE, /* has a place in the grid */
};

enum spot_effect {
    SPOT_EFFECT_NONE,
    SPOT_EFFECT_QUIESCE, /* tell all members: epochs below machine.epoch are over, report */
    SPOT_EFFECT_FORM,    /* choose a grid: spot_machine_form or spot_machine_hold */
    SPOT_EFFECT_STEP,    /* tell the active members to compute machine.step */
    SPOT_EFFECT_COMMIT,  /* all have voted: decide, then spot_machine_committed or _redo */
};

struct spot_member {
    uint32_t id;
    enum spot_role role;
    bool is_leaving, has_replied, is_ready, has_voted;
};

struct spot_machine {
    enum spot_phase phase;
    uint32_t epoch; /* that runs, or is being formed */
    int64_t step;   /* that is computed next or now; committed steps are below it */
    struct spot_member *member;
    size_t n_member, cap;
    bool change_wanted; /* a join or a plan waits for the next commit */
};

void spot_machine_init(struct spot_machine *machine, uint32_t epoch, int64_t step);
void spot_machine_release(struct spot_machine *machine);

struct spot_member *spot_machine_find(const struct spot_machine *machine, uint32_t id);

/* Members that can take a place: not leaving. */
size_t spot_machine_placeable(const struct spot_machine *machine);

/* A new member, whose first message said what it holds. `id` must be new. It stays a spare until
 * the next epoch, for which the caller may ask. */
void spot_machine_join(struct spot_machine *machine, uint32_t id);
/* Leave WAIT: reform from what is reported. No effect in other phases. */
enum spot_effect spot_machine_start(struct spot_machine *machine);
enum spot_effect spot_machine_notice(struct spot_machine *machine, uint32_t id);
enum spot_effect spot_machine_lost(struct spot_machine *machine, uint32_t id);
/* Something else asks for a new epoch at the next commit: a plan, a better grid. No effect in WAIT:
 * only the caller knows whether what it waits for has come. */
enum spot_effect spot_machine_want_change(struct spot_machine *machine);
/* The epoch cannot go on although nobody was lost: a connection between members broke. */
enum spot_effect spot_machine_broken(struct spot_machine *machine, uint32_t epoch);

/* Answers of members; those of another epoch or step, or of strangers, have no effect. */
enum spot_effect spot_machine_replied(struct spot_machine *machine, uint32_t id, uint32_t epoch);
enum spot_effect spot_machine_ready(struct spot_machine *machine, uint32_t id, uint32_t epoch);
enum spot_effect spot_machine_voted(struct spot_machine *machine, uint32_t id, uint32_t epoch,
                                    int64_t step);

/* The caller's answer to FORM: roles were set on the members; `step` is where the state stands. */
enum spot_effect spot_machine_form(struct spot_machine *machine, int64_t step);
/* The other answer: no grid is possible now. */
void spot_machine_hold(struct spot_machine *machine);

/* The caller's answer to COMMIT. */
enum spot_effect spot_machine_committed(struct spot_machine *machine);
enum spot_effect spot_machine_redo(struct spot_machine *machine);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_MACHINE_H */
