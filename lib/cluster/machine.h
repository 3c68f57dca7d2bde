/* SPDX-License-Identifier: MIT */
/* machine.h - the state machine of one view: its members, the epoch in force, when a round commits.
 *
 * Pure: takes events and returns one effect for the caller to carry out; no sockets, no clock. Only
 * the machine changes its phase.
 *
 *   WAIT --start--> QUIESCE --all replied--> FORM --form--> MIGRATE --all ready--> RUN
 *     ^                ^                       |                |                  |
 *     +----hold--------|-----------------------+                |                  |
 *                      +---- loss, notice ----------------------+                  |
 *                      +---- loss at once; notice, join, plan at the next commit --+
 *
 * A group has one view or several. Each has its own machine, members, phase and rounds; they share
 * the epoch counter, so that each epoch number belongs to one view.
 *
 * Guarantees: a round commits only when every active member of the epoch has voted in that epoch
 * for it, or for a later one where rounds are announced; epochs only increase, and no two views
 * have the same; committed rounds only increase, by one in lockstep, except through a rollback; a
 * member that was lost takes no part again (it may rejoin under another id); whatever happens, a
 * job whose members answer commits again.
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
    SPOT_PHASE_WAIT,    /* nothing runs; every member has reported its state */
    SPOT_PHASE_QUIESCE, /* the old epoch is over; waiting for reports */
    SPOT_PHASE_FORM,    /* all have reported; the caller assigns places */
    SPOT_PHASE_MIGRATE, /* state moves to its new places */
    SPOT_PHASE_RUN,     /* rounds */
};

enum spot_rounds {
    SPOT_ROUNDS_LOCKSTEP,  /* the coordinator begins each round; it commits when all have voted for
                              it */
    SPOT_ROUNDS_ANNOUNCED, /* members proceed by themselves and report the round they have
                              completed; a round that all have completed is committed, possibly
                              several rounds at once */
    SPOT_ROUNDS_KEPT, /* like ANNOUNCED, but a new layout waits until the epoch is broken for it,
                         not for the next commit */
};

enum spot_role {
    SPOT_ROLE_SPARE,  /* in the group, without a place in this epoch */
    SPOT_ROLE_SOURCE, /* sends state, then is done */
    SPOT_ROLE_ACTIVE, /* has a place: votes on rounds */
};

enum spot_effect {
    SPOT_EFFECT_NONE,
    SPOT_EFFECT_QUIESCE, /* order all members to end epochs below machine.epoch and report */
    SPOT_EFFECT_FORM, /* assign places: spot_machine_form or spot_machine_hold; immediately, without
                         a QUIESCE, if there are no members */
    SPOT_EFFECT_ROUND,  /* begin machine.round; with announced rounds: the epoch runs, from that
                           round on */
    SPOT_EFFECT_COMMIT, /* all have voted: decide, then spot_machine_committed or _redo */
};

struct spot_member {
    uint32_t id;
    enum spot_role role;
    int64_t announced; /* it has voted for all rounds below this one */
    bool is_leaving, has_replied, is_ready, has_voted;
};

struct spot_machine {
    enum spot_phase phase;
    enum spot_rounds rounds;
    uint32_t epoch;             /* the epoch that runs or is being formed */
    uint32_t *last_epoch;       /* the last number used by any view of the group */
    int64_t round;              /* the current or next round; committed rounds are below it */
    struct spot_member *member; /* sorted by id */
    size_t n_member, cap;
    bool change_wanted; /* a join or a plan takes effect at the next commit */
};

/* *last_epoch is the group's; it outlives the machine. */
void spot_machine_init(struct spot_machine *machine, enum spot_rounds rounds, uint32_t *last_epoch,
                       int64_t round);
void spot_machine_release(struct spot_machine *machine);

struct spot_member *spot_machine_find(const struct spot_machine *machine, uint32_t id);

/* Add a new member, which has reported its state, or a member of another view in which nothing
 * runs. It stays a spare until the next epoch, which the caller may request. */
void spot_machine_join(struct spot_machine *machine, uint32_t id);
/* Leave WAIT: form an epoch from the reported state. No effect in other phases. */
enum spot_effect spot_machine_start(struct spot_machine *machine);
enum spot_effect spot_machine_notice(struct spot_machine *machine, uint32_t id);
enum spot_effect spot_machine_lost(struct spot_machine *machine, uint32_t id);
/* Request a new epoch at the next commit for another reason, such as a plan or a better layout. No
 * effect in WAIT, which ends only by spot_machine_start. */
enum spot_effect spot_machine_want_change(struct spot_machine *machine);
/* A connection between members broke: the epoch cannot continue although no member was lost. */
enum spot_effect spot_machine_broken(struct spot_machine *machine, uint32_t epoch);

/* Answers of members; those of another epoch or round, or of non-members, have no effect. A vote is
 * for `round`; where rounds are announced it also counts for all before it. */
enum spot_effect spot_machine_replied(struct spot_machine *machine, uint32_t id, uint32_t epoch);
enum spot_effect spot_machine_ready(struct spot_machine *machine, uint32_t id, uint32_t epoch);
enum spot_effect spot_machine_voted(struct spot_machine *machine, uint32_t id, uint32_t epoch,
                                    int64_t round);

/* The next round after committing every round for which all active members have voted. */
int64_t spot_machine_reached(const struct spot_machine *machine);

/* The caller's answer to FORM: roles were set on the members; `round` is the round of the state. */
enum spot_effect spot_machine_form(struct spot_machine *machine, int64_t round);
/* The other answer: no layout is possible now. */
void spot_machine_hold(struct spot_machine *machine);

/* The caller's answer to COMMIT. Redo: the round is repeated; in lockstep only. */
enum spot_effect spot_machine_committed(struct spot_machine *machine);
enum spot_effect spot_machine_redo(struct spot_machine *machine);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_MACHINE_H */
