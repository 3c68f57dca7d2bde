/* SPDX-License-Identifier: MIT */
#include "train/validator.h"

#include <math.h>

#include "common/clock.h"

int64_t spot_validator_sequences(const struct spot_validator *v)
{
    return v->n_batch * v->batch_size;
}

int spot_validator_init(struct spot_validator *v, int64_t seq, struct spot_err *err)
{
    if (spot_sampler_init(&v->sampler, &v->corpus, seq, 0, err))
        return -1;
    if (v->sampler.n_sequence < spot_validator_sequences(v))
        return spot_err_set(err, SPOT_EDATA,
                            "%s: %lld sequences are fewer than --val-batches %lld of %lld need",
                            v->corpus.source, (long long)v->sampler.n_sequence,
                            (long long)v->n_batch, (long long)v->batch_size);
    return 0;
}

bool spot_validator_is_due(const struct spot_validator *v, int64_t step, bool is_last)
{
    return v->corpus.source && v->step != step && (step % v->every == 0 || is_last);
}

void spot_validator_void(struct spot_validator *v, int64_t step)
{
    if (v->step > step)
        v->step = step;
}

void spot_validator_begin(struct spot_validator *v)
{
    if (v->batch >= 0)
        return;
    v->batch = 0;
    v->sum = 0;
    v->began_s = spot_clock_s();
}

/* Reads sequence i of the batch; a validation's sequences are spread evenly over the data. */
int spot_validator_read(const struct spot_validator *v, int64_t i, uint32_t *token,
                        struct spot_err *err)
{
    const int64_t q = v->batch * v->batch_size + i;
    const int64_t there = v->sampler.n_sequence, n = spot_validator_sequences(v);

    return spot_sampler_read(&v->sampler, q * (there / n) + q * (there % n) / n, token, err);
}

int spot_validator_add(struct spot_validator *v, const double *loss, int64_t n, int64_t step,
                       double *took_s, struct spot_err *err)
{
    for (int64_t j = 0; j < n; j++)
        v->sum += loss[j];
    if (!isfinite(v->sum))
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "the training diverged: the loss of the validation data is not finite "
                            "after step %lld",
                            (long long)step);
    if (++v->batch < v->n_batch)
        return 0;
    v->batch = -1;
    v->step = step;
    v->loss = (float)(v->sum / (double)(n * v->n_batch));
    *took_s = spot_clock_s() - v->began_s;
    return 1;
}
