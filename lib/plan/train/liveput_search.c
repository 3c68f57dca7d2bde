/* SPDX-License-Identifier: MIT */
/* The best target with many instances, found by bounds. Any change takes at least some seconds, and
 * more if P changes or D grows, whatever the grid before. Targets are examined in descending order
 * of what they give after the cheapest possible change, up to the first that cannot win. Costs are
 * computed on demand; most are never needed. What was found is reused as in liveput_best.c,
 * together with its value, so that a later sweep need not look up a cost. The result is exactly
 * that of a search over all targets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

struct spot_liveput_search {
    /* [n_context * counts * n_grid], in descending order */
    struct spot_liveput_target *target;
    size_t n_block;
    bool *is_sorted; /* [n_context * counts] */
};

static void make(struct spot_liveput_dp *dp)
{
    const size_t n_grid = (size_t)dp->n_grid;
    struct spot_liveput_search *s = spot_xcalloc(1, sizeof(*s));

    s->n_block = (size_t)(dp->n_context * (dp->n_max - dp->n_low + 1));
    s->target = spot_xcalloc(s->n_block * n_grid, sizeof(*s->target));
    s->is_sorted = spot_xcalloc(s->n_block, sizeof(*s->is_sorted));
    for (size_t i = 0; i < s->n_block * n_grid; i++)
        s->target[i].rank = (int)(i % n_grid);
    dp->search = s;
}

/* Insertion sort: the order hardly changes from one sweep to the next. */
static void sort(struct spot_liveput_target *target, int n)
{
    for (int i = 1; i < n; i++) {
        const struct spot_liveput_target x = target[i];
        int at = i;

        for (; at > 0 && target[at - 1].most < x.most; at--)
            target[at] = target[at - 1];
        target[at] = x;
    }
}

void spot_liveput_targets_turn(struct spot_liveput_dp *dp)
{
    const size_t n_block = (size_t)(dp->n_context * (dp->n_max - dp->n_low + 1));

    if (dp->search && dp->search->n_block < n_block)
        spot_liveput_search_release(dp);
    if (!dp->search)
        make(dp);
    memset(dp->search->is_sorted, 0, dp->search->n_block * sizeof(bool));
}

const struct spot_liveput_target *
spot_liveput_targets(struct spot_liveput_dp *dp, const double *gain, const double *value, int n)
{
    const size_t at = spot_liveput_block(dp, value);
    struct spot_liveput_target *target = dp->search->target + at * (size_t)dp->n_grid;

    if (dp->search->is_sorted[at])
        return target;
    for (int i = 0; i < dp->n_fit[n]; i++)
        target[i].most = gain[target[i].rank] + value[target[i].rank];
    sort(target, dp->n_fit[n]);
    dp->search->is_sorted[at] = true;
    return target;
}

double spot_liveput_search_best(struct spot_liveput_dp *dp, int n, int rank, int change,
                                int context)
{
    const double *value = spot_liveput_dp_value(dp, context, n + change);
    struct spot_cost_changes *changes;
    struct spot_liveput_found *f = spot_liveput_memo_next(dp);
    const double moved = f ? dp->moved[spot_liveput_block(dp, value)] : 0;
    struct spot_liveput_race race = { value[dp->n_grid], -INFINITY, 0, dp->n_grid };
    struct spot_liveput_hunt hunt;

    if (f && spot_liveput_found_holds(f, moved, f->gain + value[f->rank]))
        return f->gain + value[f->rank];
    changes = spot_cost_changes(dp->table, n, dp->by_size[rank], change < 0 ? -change : 0);
    hunt = spot_liveput_hunt(dp, rank, rank, value, n + change);
    for (int r; (r = spot_liveput_hunt_next(&hunt, race.best)) >= 0;) {
        const double gain = spot_liveput_gives(dp, changes, r);

        spot_liveput_enter(&race, r, gain, gain + value[r]);
    }
    race.second = fmax(race.second, hunt.left);
    if (f)
        spot_liveput_found_keep(f, moved, &race);
    return race.best;
}

void spot_liveput_search_release(struct spot_liveput_dp *dp)
{
    if (!dp->search)
        return;
    free(dp->search->target);
    free(dp->search->is_sorted);
    free(dp->search);
    dp->search = NULL;
}
