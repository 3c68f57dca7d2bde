/* SPDX-License-Identifier: MIT */
/* Rounds of Hadar (hadar.h): the result of the auction runs unchanged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "peers/hadar.h"

static double ideal_s(const struct spot_share_state *s, size_t i)
{
    const struct spot_share_job *doc = &s->play->jobs->job[i];
    double best = 0;

    for (size_t j = 0; j < s->n_type; j++)
        best = fmax(best, s->play->rate[i * s->n_type + j]);
    return (doc->steps - doc->done) / best;
}

/* A pick runs at the speed of its slowest type; the assignment is in s->mix. */
static void pick(struct spot_share_state *s, const struct spot_share_view *view, size_t k,
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
                (struct spot_share_pick){ i, (int)j, s->play->jobs->job[i].scale, rate };
            return;
        }
}

static int hadar_pick(struct spot_share_state *s, struct spot_err *err)
{
    struct spot_share_view view;
    int64_t *workers;
    double *ideal, *price = spot_xcalloc(s->n_type, sizeof(double));

    (void)err;
    spot_share_view_of(s, &view);
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
    spot_share_view_release(&view);
    return 0;
}

const struct spot_share_player spot_hadar_players[] = {
    { .name = "hadar",
      .about = "Hadar: prices that rise with use, tasks of a job on several types",
      .pick = hadar_pick,
      .is_mixed = true },
    { 0 },
};
