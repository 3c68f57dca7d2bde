/* SPDX-License-Identifier: MIT */
/* count_chain.h - a Markov chain of the number of instances, learned from its past.
 *
 * Changes come in bursts: what the next interval does depends on which way the last change went
 * and how many intervals ago. That pair is the context; in each, the chances of a loss and of a
 * gain are the frequencies seen, drawn towards those of all contexts, which are drawn towards a
 * prior. Sizes are learned over all contexts. A planner needs this for counts and contexts that a
 * forecast of the present says nothing about.
 *
 * The longer a calm has lasted, the longer it may last on. So the present calm is a context of its
 * own from CALM_MIN intervals on, another each time that it has doubled: in each the chances are
 * the frequencies in calms of at least that length, drawn towards those of the calm half as long.
 * They are those of what is left of a calm, whatever is left, and so such a context stays until
 * the next change. Nothing but to live through a calm leads to one.
 */
#ifndef SPOT_PLAN_COUNT_CHAIN_H
#define SPOT_PLAN_COUNT_CHAIN_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_CHAIN_SIZE_MAX = 64, /* larger changes count as changes of this size */
    SPOT_CHAIN_SMALL_MAX = 8, /* larger ones are not expected before one was seen */
    SPOT_CHAIN_AGE_MAX = 6,   /* intervals since the last change, this and more */
    SPOT_CHAIN_CALM_MIN = 2 * SPOT_CHAIN_AGE_MAX, /* intervals without a change */
    SPOT_CHAIN_CALMS = 5,                         /* at least that, twice that, .. 16 times */
    /* contexts: a loss 1..AGE_MAX ago, then a gain 1..AGE_MAX ago, then calms */
    SPOT_CHAIN_RECENT = 2 * SPOT_CHAIN_AGE_MAX,
    SPOT_CHAIN_CONTEXTS = SPOT_CHAIN_RECENT + SPOT_CHAIN_CALMS,
};

struct spot_count_chain {
    int cap;                                 /* largest count seen or told */
    int context;                             /* of the newest count */
    int recent;                              /* the same, calms left aside */
    int calm;                                /* intervals since the last change */
    int size_max;                            /* sizes beyond have no probability */
    double seen[SPOT_CHAIN_CONTEXTS][3];     /* [0] still, [1] lost, [2] gained */
    double size[2][SPOT_CHAIN_SIZE_MAX + 1]; /* [0] of losses, [1] of gains */
};

/* Probabilities of the next interval: still, lost[1..], gained[1..], cut to 0..cap; they sum to
 * 1. */
struct spot_count_step {
    double still;
    double lost[SPOT_CHAIN_SIZE_MAX + 1], gained[SPOT_CHAIN_SIZE_MAX + 1];
};

void spot_count_chain_init(struct spot_count_chain *chain, int cap);

/* Make every context follow one distribution: probabilities of losing and gaining 1..SIZE_MAX;
 * `cap` stays.
 */
void spot_count_chain_fix(struct spot_count_chain *chain, const struct spot_count_step *dist);

/* The count went from `before` to `now` in one interval. */
void spot_count_chain_observe(struct spot_count_chain *chain, int before, int now);

/* The context after a context: change < 0 a loss, 0 none, > 0 a gain. */
int spot_count_chain_after(int context, int change);

/* Its distribution from count n in a context. */
void spot_count_chain_step(const struct spot_count_chain *chain, int n, int context,
                           struct spot_count_step *step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_COUNT_CHAIN_H */
