/* SPDX-License-Identifier: MIT */
/* machine.h - the state machine of one view: who is in, which epoch runs, when a round commits.
 *
 * Pure: events go in, one effect comes out for the caller to carry out; no sockets, no clock. It
 * alone changes its phase.
 *
 *   WAIT --start--> QUIESCE --all replied--> FORM --form--> MIGRATE --all ready--> RUN
 *     ^                ^                       |                |                  |
 *     +----hold--------|-----------------------+                |                  |
 *                      +---- loss, notice ----------------------+                  |
 *                      +---- loss at once; notice, join, plan at the next commit --+
 *
 * A group has one view or several. Each has its own machine, members, phase and rounds; they share
 * the counter that epochs are drawn from, so that an epoch's number is of one view alone.
 *
 * Promises: a round commits only when every active member of the epoch has voted for it, or for a
 * later one where rounds are announced, in that epoch; epochs only grow, and no two views have the
 * same; committed rounds only grow, by one in lockstep, except through a rollback; a member that
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
    SPOT_PHASE_FORM,    /* all have reported; the caller chooses who is where */
    SPOT_PHASE_MIGRATE, /* state moves to its new places */
    SPOT_PHASE_RUN,     /* rounds */
};

enum spot_rounds {
    SPOT_ROUNDS_LOCKSTEP,  /* the coordinator begins each; it commits when all have voted for it */
    SPOT_ROUNDS_ANNOUNCED, /* members go on by themselves and tell which round they have completed;
                              what all have reached commits, several rounds at once maybe */
};

enum spot_role {
    SPOT_ROLE_SPARE,  /* in the group, without a part in this epoch */
    SPOT_ROLE_SOURCE, /* sends state, then is done */
    SPOT_ROLE_ACTIVE, /* has a place: votes on rounds */
};

enum spot_effect {
    SPOT_EFFECT_NONE,
    SPOT_EFFECT_QUIESCE, /* tell all members: epochs below machine.epoch are over, report */
    SPOT_EFFECT_FORM,    /* choose who is where: spot_machine_form or spot_machine_hold; with no
                            members at once, without QUIESCE before */
    SPOT_EFFECT_ROUND, /* begin machine.round; announced rounds: the epoch runs, from that one on */
    SPOT_EFFECT_COMMIT, /* all have voted: decide, then spot_machine_committed or _redo */
};

struct spot_member {
    uint32_t id;
    enum spot_role role;
    int64_t announced; /* it has voted for all rounds below */
    bool is_leaving, has_replied, is_ready, has_voted;
};

struct spot_machine {
    enum spot_phase phase;
    enum spot_rounds rounds;
    uint32_t epoch;             /* that runs, or is being formed */
    uint32_t *last_epoch;       /* drawn last, by any view of the group */
    int64_t round;              /* that is done next or now; committed rounds are below it */
    struct spot_member *member; /* by id */
    size_t n_member, cap;
    bool change_wanted; /* a join or a plan waits for the next commit */
};

/* *last_epoch is the group's; it outlives the machine. */
void spot_machine_init(struct spot_machine *machine, enum spot_rounds rounds, uint32_t *last_epoch,
                       int64_t round);
void spot_machine_release(struct spot_machine *machine);

struct spot_member *spot_machine_find(const struct spot_machine *machine, uint32_t id);

/* A new member, whose first message said what it holds, or one of another view that runs nothing.
 * It stays a spare until the next epoch, for which the caller may ask. */
void spot_machine_join(struct spot_machine *machine, uint32_t id);
/* Leave WAIT: reform from what is reported. No effect in other phases. */
enum spot_effect spot_machine_start(struct spot_machine *machine);
enum spot_effect spot_machine_notice(struct spot_machine *machine, uint32_t id);
enum spot_effect spot_machine_lost(struct spot_machine *machine, uint32_t id);
/* Something else asks for a new epoch at the next commit: a plan, a better layout. No effect in
 * WAIT: only the caller knows whether what it waits for has come. */
enum spot_effect spot_machine_want_change(struct spot_machine *machine);
/* The epoch cannot go on although nobody was lost: a connection between members broke. */
enum spot_effect spot_machine_broken(struct spot_machine *machine, uint32_t epoch);

/* Answers of members; those of another epoch or round, or of strangers, have no effect. A vote is
 * for `round`; one that announces it stands for all rounds before it too. */
enum spot_effect spot_machine_replied(struct spot_machine *machine, uint32_t id, uint32_t epoch);
enum spot_effect spot_machine_ready(struct spot_machine *machine, uint32_t id, uint32_t epoch);
enum spot_effect spot_machine_voted(struct spot_machine *machine, uint32_t id, uint32_t epoch,
                                    int64_t round);

/* The round that would be the next if what all active members have voted for were committed. */
int64_t spot_machine_reached(const struct spot_machine *machine);

/* The caller's answer to FORM: roles were set on the members; `round` is where the state stands. */
enum spot_effect spot_machine_form(struct spot_machine *machine, int64_t round);
/* The other answer: no layout is possible now. */
void spot_machine_hold(struct spot_machine *machine);

/* The caller's answer to COMMIT. Redo: the round is done again; in lockstep alone. */
enum spot_effect spot_machine_committed(struct spot_machine *machine);
enum spot_effect spot_machine_redo(struct spot_machine *machine);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_MACHINE_H */
