/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/share_hadar.h"
#include "sim/share_state.h"

static double ideal_s(const struct share_state *s, size_t i)
{
    const struct spot_share_job *doc = &s->play->jobs->job[i];
    double best = 0;

    for (size_t j = 0; j < s->n_type; j++)
        best = fmax(best, s->play->rate[i * s->n_type + j]);
    return (doc->steps - doc->done) / best;
}

/* A pick runs at the speed of its slowest type; the assignment is in s->mix. */
static void pick(struct share_state *s, const struct share_view *view, size_t k,
                 const int64_t *workers)
{
    const double rate = spot_share_hadar_rate(&view->problem, k, workers);
    const size_t i = view->job[k];

    if (!(rate > 0))
        return;
    memcpy(s->mix + i * s->n_type, workers, s->n_type * sizeof(*workers));
    for (size_t j = 0; j < s->n_type; j++)
        if (workers[j] && view->problem.rate[k * s->n_type + j] <= rate) {
            s->pick[s->n_pick++] =
                (struct share_pick){ i, (int)j, s->play->jobs->job[i].scale, rate };
            return;
        }
}

void share_pick_hadar(struct share_state *s)
{
    struct share_view view;
    int64_t *workers;
    double *ideal, *price = spot_xcalloc(s->n_type, sizeof(double));

    share_view_init(&view, s);
    workers = spot_xcalloc(view.problem.n_job * s->n_type, sizeof(*workers));
    ideal = spot_xcalloc(view.problem.n_job, sizeof(double));
    for (size_t k = 0; k < view.problem.n_job; k++)
        ideal[k] = ideal_s(s, view.job[k]);
    spot_share_hadar(&view.problem, ideal, workers, price);
    for (size_t k = 0; k < view.problem.n_job; k++)
        pick(s, &view, k, workers + k * s->n_type);
    s->outcome->solves++;
    free(workers);
    free(ideal);
    free(price);
    share_view_release(&view);
}
