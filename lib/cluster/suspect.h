/* SPDX-License-Identifier: MIT */
/* suspect.h - decides which of two members is set aside that are alive but cannot reach each other.
 *
 * Pure: takes accusations, gives verdicts; the caller has the clock. Members are identified by
 * name, so that one that rejoins is still known.
 *
 * Accusations of a failed epoch are gathered, then judged together. A pair that never reached each
 * other counts at once. A pair whose connection broke counts when it breaks again before a commit.
 * Of each pair that counts one member is set aside: the one that accused itself, else the one in
 * pairs with more members (now or lately), else one that the witness does not reach either, else
 * one without a place, else the younger. A member that had been set aside only for pairs with this
 * one may have a place again.
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
    char why[SPOT_SUSPECT_WHY_MAX]; /* why it was set aside, or was last in a pair */
    int n_aside;                    /* how often it was set aside */
    double aside_s;                 /* time of the last time; valid only if aside_until_s > 0 */
    double aside_until_s;           /* no place until then; 0: may have one */
};

struct spot_suspect_pair {
    size_t a, b; /* indices in suspect[], a <= b; equal: it accused itself */
    int n_broke; /* epochs in a row in which an established connection broke */
    bool is_new, is_strong;
    double last_s;
};

struct spot_suspects {
    struct spot_suspect *suspect;
    size_t n, cap;
    struct spot_suspect_pair *pair;
    size_t n_pair, cap_pair;
};

/* A member that is present when accusations are judged. */
struct spot_suspect_member {
    const char *name;
    uint32_t id;    /* a larger id is younger */
    bool has_place; /* in the epoch that failed, or runs */
    bool is_missed; /* the witness reaches others, but not this one */
};

void spot_suspects_release(struct spot_suspects *suspects);

/* `by` cannot exchange frames with `of`, which may be itself. */
void spot_suspects_accuse(struct spot_suspects *suspects, const char *by, const char *of,
                          bool has_answered, const char *why, double now_s);

/* True if there are accusations to judge. */
bool spot_suspects_has_news(const struct spot_suspects *suspects);
/* True if this member was named, on either side, since the last judgement. */
bool spot_suspects_is_named(const struct spot_suspects *suspects, const char *name);

/* Judge the accusations since the last time, among the members present. Returns how many were set
 * aside; their aside_s is now_s. */
size_t spot_suspects_judge(struct spot_suspects *suspects, const struct spot_suspect_member *member,
                           size_t n_member, double now_s);

/* A fault was proved: this name never gets a place again. */
void spot_suspects_convict(struct spot_suspects *suspects, const char *name, const char *why,
                           double now_s);
bool spot_suspects_is_convicted(const struct spot_suspects *suspects, const char *name);

/* A round committed: earlier broken connections no longer count. */
void spot_suspects_committed(struct spot_suspects *suspects);

/* NULL if it was never in an accusation. */
struct spot_suspect *spot_suspects_find(const struct spot_suspects *suspects, const char *name);
bool spot_suspects_is_aside(const struct spot_suspects *suspects, const char *name);

/* The member was reached again: it may have a place. */
void spot_suspects_pardon(struct spot_suspects *suspects, const char *name);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_SUSPECT_H */
