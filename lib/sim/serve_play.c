/* SPDX-License-Identifier: MIT */
#include "sim/serve_play.h"

#include <stdlib.h>

#include "common/xalloc.h"

void spot_serve_result_note(struct spot_serve_result *result, const struct spot_serve_step *step)
{
    const struct spot_serve_step *last = result->n_step ? &result->step[result->n_step - 1] : NULL;

    if (last && last->there == step->there && last->held == step->held && last->D == step->D &&
        last->P == step->P && last->M == step->M)
        return;
    result->step =
        spot_xgrow(result->step, &result->step_cap, result->n_step + 1, sizeof(*result->step));
    result->step[result->n_step++] = *step;
}

void spot_serve_result_release(struct spot_serve_result *result)
{
    free(result->served);
    free(result->step);
    free(result->decided);
    *result = (struct spot_serve_result){ 0 };
}

double spot_serve_play_move_s(const struct spot_serve_play *play,
                              const struct spot_serve_change *change)
{
    return play->moves ? spot_serve_move_s(play->moves, change) : play->switch_s;
}

struct spot_serve_batches spot_serve_play_batches(const struct spot_serve_play *play,
                                                  const struct spot_serve_queue *queue)
{
    return (struct spot_serve_batches){
        .serve = &play->job->serve,
        .load = play->load,
        .served = play->rule.batching == SPOT_BATCH_PASSES ? spot_serve_queue_served(queue) : NULL,
        .found = play->rule.cache_token ? spot_serve_queue_served(queue) : NULL,
        .seed = play->seed,
    };
}
