/* SPDX-License-Identifier: MIT */
/* Tokens chosen on the device: what is asked of a run's rows, and what it answers. */
#include <string.h>

#include "engine/cuda/infer_cuda.h"

/* Below this temperature a quotient may leave the range of numbers. */
static const double coldest = 1e-6;

static bool is_for_device(const struct spot_infer_pick *pick)
{
    return pick->is_wanted &&
           (pick->temperature <= 0 || (pick->temperature >= coldest && pick->min_p <= 1 &&
                                       pick->top_k <= SPOT_CUDA_CANDIDATES));
}

bool spot_cuda_infer_tell_choices(struct spot_cuda_infer *d, int64_t n_row)
{
    const struct spot_infer *const f = d->f;
    bool any = false;

    if (!d->has_choices || !f->pick)
        return false;
    memset(d->choice_host, 0, (size_t)n_row * sizeof(*d->choice_host));
    for (int i = 0; i < f->n_row; i++) {
        const struct spot_infer_pick *const pick = &f->pick[i];

        if (!is_for_device(pick))
            continue;
        any = true;
        d->choice_host[i] = (struct spot_cuda_choice){
            .scale = pick->temperature > 0 ? 1 / pick->temperature : 0,
            .top_p = pick->top_p,
            .min_p = pick->min_p,
            .noise = pick->noise,
            .top_k = pick->top_k > 0 ? (int32_t)pick->top_k : 0,
            .is_wanted = 1,
        };
    }
    return any;
}

void spot_cuda_infer_queue_choices(struct spot_cuda_infer *d, int64_t n_row)
{
    const struct spot_shape *const s = &d->f->shape;

    spot_device_upload(d->dev, d->choice, d->choice_host, (size_t)n_row * sizeof(*d->choice));
    spot_cuda_infer_choose(d->chosen, d->choice, d->logit, n_row, s->vocab,
                           spot_shape_vocab_rows(s), d->stream);
}

void spot_cuda_infer_take_choices(struct spot_cuda_infer *d, bool *is_needed)
{
    const struct spot_infer *const f = d->f;

    spot_device_download(d->dev, d->chosen_host, d->chosen,
                         (size_t)f->n_row * sizeof(*d->chosen_host));
    for (int i = 0; i < f->n_row; i++) {
        struct spot_infer_pick *const pick = &f->pick[i];

        if (!d->choice_host[i].is_wanted || !d->chosen_host[i].is_sure)
            continue;
        pick->is_chosen = true;
        pick->token = d->chosen_host[i].token;
        is_needed[i] = false;
        d->counts.n_chosen++;
    }
}
