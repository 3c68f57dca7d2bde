/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "plan/share_round.h"
#include "sim/share_state.h"

int share_pick_ours(struct share_state *s, struct spot_err *err)
{
    const struct spot_share_terms terms = { .aim = s->policy,
                                            .round_s = s->play->round_s,
                                            .switch_s = s->play->switch_s,
                                            .checkpoint_s = s->play->checkpoint_s };
    struct spot_share_choice choice;
    struct spot_share_way *way;
    struct share_view view;
    size_t n_way;
    int rc;

    share_view_init(&view, s);
    n_way = spot_share_ways(s->play->jobs, view.job, view.problem.n_job, s->play->cluster, s->count,
                            s->play->speeds, s->play->rate, &way);
    rc = spot_share_round(&view.problem, way, n_way, &terms, &choice, err);
    for (size_t k = 0; !rc && k < view.problem.n_job; k++)
        if (choice.way[k] >= 0) {
            const struct spot_share_way *w = &way[choice.way[k]];

            s->pick[s->n_pick++] =
                (struct share_pick){ view.job[k], (int)w->type, w->scale, w->rate };
        }
    if (!rc)
        spot_share_choice_release(&choice);
    s->outcome->solves++;
    free(way);
    share_view_release(&view);
    return rc;
}
