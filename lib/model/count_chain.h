/* SPDX-License-Identifier: MIT */
/* count_chain.h - a Markov chain of the number of instances, learned from its history.
 *
 * Changes come in bursts: the next interval depends on the direction of the last change and on how
 * many intervals ago it was. That pair is the context; in each, the probabilities of a loss and of
 * a gain are the observed frequencies, shrunk towards those of all contexts, which are shrunk
 * towards a prior. Sizes are learned over all contexts. A planner needs this for counts and
 * contexts that the current forecast does not cover.
 *
 * The longer a calm has lasted, the longer it is likely to last. So from CALM_MIN intervals on the
 * current calm is a context of its own, another each time its length has doubled: in each the
 * probabilities are the frequencies in calms of at least that length, shrunk towards those of the
 * calm half as long. They describe the rest of a calm, however long, and so such a context remains
 * until the next change. Such a context is reached only by living through a calm.
 */
#ifndef SPOT_MODEL_COUNT_CHAIN_H
#define SPOT_MODEL_COUNT_CHAIN_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_CHAIN_SIZE_MAX = 64, /* larger changes count as changes of this size */
    SPOT_CHAIN_SMALL_MAX = 8, /* larger ones are not expected before one was observed */
    SPOT_CHAIN_AGE_MAX = 6,   /* intervals since the last change, capped */
    SPOT_CHAIN_CALM_MIN = 2 * SPOT_CHAIN_AGE_MAX, /* intervals without a change */
    SPOT_CHAIN_CALMS = 5,                         /* at least that, twice that, .. 16 times that */
    /* contexts: a loss 1..AGE_MAX ago, then a gain 1..AGE_MAX ago, then calms */
    SPOT_CHAIN_RECENT = 2 * SPOT_CHAIN_AGE_MAX,
    SPOT_CHAIN_CONTEXTS = SPOT_CHAIN_RECENT + SPOT_CHAIN_CALMS,
};

/* The probabilities of a chain, as in a forecast (series[].chain): of a loss and of a gain in every
 * context, and the distributions of sizes [1..SIZE_MAX], each summing to 1. */
struct spot_count_law {
    int context; /* of the newest count */
    double loss[SPOT_CHAIN_CONTEXTS], gain[SPOT_CHAIN_CONTEXTS];
    double lost[SPOT_CHAIN_SIZE_MAX + 1], gained[SPOT_CHAIN_SIZE_MAX + 1];
};

struct spot_count_chain {
    /* its probabilities are used in place of the learned ones; NULL: none */
    const struct spot_count_law *law;
    int cap;                                 /* largest count observed or given */
    int context;                             /* of the newest count */
    int recent;                              /* the same, ignoring calms */
    int calm;                                /* intervals since the last change */
    int size_max;                            /* larger sizes have probability 0 */
    double seen[SPOT_CHAIN_CONTEXTS][3];     /* [0] no change, [1] lost, [2] gained */
    double size[2][SPOT_CHAIN_SIZE_MAX + 1]; /* [0] of losses, [1] of gains */
};

/* Probabilities of the next interval: still, lost[1..], gained[1..], limited to 0..cap; they sum to
 * 1. */
struct spot_count_step {
    double still;
    double lost[SPOT_CHAIN_SIZE_MAX + 1], gained[SPOT_CHAIN_SIZE_MAX + 1];
};

void spot_count_chain_init(struct spot_count_chain *chain, int cap);

/* Make every context use one distribution: probabilities of losing and gaining 1..SIZE_MAX; `cap`
 * is unchanged. */
void spot_count_chain_fix(struct spot_count_chain *chain, const struct spot_count_step *dist);

/* The count changed from `before` to `now` in one interval. */
void spot_count_chain_observe(struct spot_count_chain *chain, int before, int now);

/* Write the learned probabilities. */
void spot_count_chain_law(const struct spot_count_chain *chain, struct spot_count_law *law);

/* A chain that follows `law`, borrowed, for counts up to cap. */
void spot_count_chain_follow(struct spot_count_chain *chain, const struct spot_count_law *law,
                             int cap);

/* The context that follows a context: change < 0 a loss, 0 none, > 0 a gain. */
int spot_count_chain_after(int context, int change);

/* Its distribution from count n in a context. */
void spot_count_chain_step(const struct spot_count_chain *chain, int n, int context,
                           struct spot_count_step *step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_COUNT_CHAIN_H */
