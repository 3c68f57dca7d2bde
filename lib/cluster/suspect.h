/* SPDX-License-Identifier: MIT */
/* suspect.h - of members that live and do not reach each other, who is set aside.
 *
 * Pure: accusations go in, verdicts come out; the caller has the clock. Members are known by name,
 * so that one which joins anew is still who it was.
 *
 * Accusations of an epoch that failed are gathered, then judged together. A pair that never reached
 * each other counts at once; one whose connection stood and broke may have had bad luck, and counts
 * when that happens again before anything was committed. Of each pair that counts one is set aside:
 * who accused itself, else who is in pairs with more members (now or lately), else whom a witness
 * does not reach either, else who has no place, else the younger. Who had been set aside for pairs
 * with nobody else comes back.
 */
#ifndef SPOT_CLUSTER_SUSPECT_H
#define SPOT_CLUSTER_SUSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SUSPECT_NAME_MAX = 64, SPOT_SUSPECT_WHY_MAX = 320 };

struct spot_suspect {
    char name[SPOT_SUSPECT_NAME_MAX];
    char why[SPOT_SUSPECT_WHY_MAX]; /* it was set aside, or last in a pair */
    int n_aside;                    /* how often it was set aside */
    double aside_s;                 /* when, the last time; only if aside_until_s > 0 */
    double aside_until_s;           /* no place until then; 0: it may have one */
};

struct spot_suspect_pair {
    size_t a, b; /* of suspect[], a <= b; equal: it accused itself */
    int n_broke; /* epochs in a row in which a connection that had stood broke */
    bool is_new, is_strong;
    double last_s;
};

struct spot_suspects {
    struct spot_suspect *suspect;
    size_t n, cap;
    struct spot_suspect_pair *pair;
    size_t n_pair, cap_pair;
};

/* A member that is there when judgement is passed. */
struct spot_suspect_member {
    const char *name;
    uint32_t id;    /* the younger, the larger */
    bool has_place; /* in the epoch that failed, or runs */
    bool is_missed; /* the witness reaches others, and not this one */
};

void spot_suspects_release(struct spot_suspects *suspects);

/* `by` does not exchange frames with `of`, which may be itself. */
void spot_suspects_accuse(struct spot_suspects *suspects, const char *by, const char *of,
                          bool has_answered, const char *why, double now_s);

/* Is there something to judge? */
bool spot_suspects_has_news(const struct spot_suspects *suspects);
/* Was this one named, on either side, since the last judgement? */
bool spot_suspects_is_named(const struct spot_suspects *suspects, const char *name);

/* Judge what was accused since the last time, among those who are there. Returns how many were set
 * aside; their aside_s is now_s. */
size_t spot_suspects_judge(struct spot_suspects *suspects, const struct spot_suspect_member *member,
                           size_t n_member, double now_s);

/* The members work together: what broke before was bad luck. */
void spot_suspects_committed(struct spot_suspects *suspects);

/* NULL if nobody ever had to do with it. */
struct spot_suspect *spot_suspects_find(const struct spot_suspects *suspects, const char *name);
bool spot_suspects_is_aside(const struct spot_suspects *suspects, const char *name);

/* It was found to be reached again: it may have a place. */
void spot_suspects_pardon(struct spot_suspects *suspects, const char *name);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_SUSPECT_H */
