/* SPDX-License-Identifier: MIT */
/* toy.h - the smallest workload on both tables: members that count rounds together.
 *
 * A counter is a round and a value; the value after a round follows from the one before, and tells
 * a round that was lost, or done twice. In a round members vote with their value, the coordinator
 * checks that they agree, and notes the commit in a file before it tells anybody. A member that
 * comes new gets the counter from one that has it, or from that file when nobody has.
 */
#ifndef SPOT_TESTS_TOY_H
#define SPOT_TESTS_TOY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum toy_way {
    TOY_LOCKSTEP, /* one view, the coordinator begins each round */
    TOY_REPLICAS, /* a view per replica: member r2.b is of the second */
    TOY_ANNOUNCED /* one view, members go on by themselves and tell how far they are */
};

enum {
    TOY_VIEWS_MAX = 8,
    TOY_AHEAD = 16,        /* rounds that a member announces beyond the last commit it knows of */
    TOY_KEPT = 64,         /* > TOY_AHEAD: values that a member keeps */
    TOY_MSG_COUNTER = 110, /* between members; tag: round; u64 value */
};

struct toy_options {
    enum toy_way way;
    const char *address; /* to listen at, or to join */
    const char *commits; /* file: "VIEW FROM TO VALUE" of each commit; continued if it is there */
    const char *events;  /* or NULL */
    const char *name;    /* of a member; NULL: its process id */
    int64_t n_round;     /* in each view */
    uint32_t n_view;
    uint32_t pause_ms; /* that a member takes for a round */
    double lease_s, join_timeout_s;
    uint32_t n_least; /* members without whom nothing begins; 0: one */
};

static inline uint64_t toy_next(uint64_t value, int64_t round)
{
    return (value ^ (uint64_t)round) * 6364136223846793005U + 1442695040888963407U;
}

/* Run a coordinator until all views have done their rounds, or a member, whose counter is *round
 * and *value at the end. Returns 0, or -1 with *err. */
int toy_coordinate(const struct toy_options *options, struct spot_err *err);
int toy_count(const struct toy_options *options, int64_t *round, uint64_t *value,
              struct spot_err *err);

#endif /* SPOT_TESTS_TOY_H */
