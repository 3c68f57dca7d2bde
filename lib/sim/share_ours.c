/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/share_round.h"
#include "share_state.h"

/* Scales from scale_min to scale_max, doubling, of which a throughput is known. */
static size_t list_ways(const struct share_state *s, const struct share_view *view,
                        struct spot_share_way **way)
{
    size_t n = 0, cap = 0;

    *way = NULL;
    for (size_t k = 0; k < view->problem.n_job; k++) {
        const struct spot_share_job *doc = &s->play->jobs->job[view->job[k]];

        for (size_t j = 0; j < s->n_type; j++)
            for (int64_t scale = doc->scale_min; scale <= doc->scale_max; scale *= 2) {
                const double rate =
                    scale == doc->scale ? view->rate[k * s->n_type + j]
                    : s->play->throughput
                        ? spot_throughput_find(s->play->throughput, doc->kind, scale,
                                               s->play->cluster->type[j].name)
                        : 0;

                if (!(rate > 0) || scale > s->count[j])
                    continue;
                *way = spot_xgrow(*way, &cap, n + 1, sizeof(**way));
                (*way)[n++] = (struct spot_share_way){ k, j, scale, rate };
            }
    }
    return n;
}

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
    n_way = list_ways(s, &view, &way);
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
