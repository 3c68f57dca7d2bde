/* SPDX-License-Identifier: MIT */
#include "host/ledger_plan.h"

#include <assert.h>
#include <string.h>

#include "common/permute.h"
#include "common/rng.h"

static const char *const rest_name[SPOT_LEDGER_RESTS] = { "wrap", "drop", "short" };

const char *spot_ledger_rest_name(enum spot_ledger_rest rest)
{
    assert(rest < SPOT_LEDGER_RESTS);
    return rest_name[rest];
}

enum spot_ledger_rest spot_ledger_rest_parse(const char *name)
{
    int rest = 0;

    while (rest < SPOT_LEDGER_RESTS && strcmp(name, rest_name[rest]) != 0)
        rest++;
    return (enum spot_ledger_rest)rest;
}

int spot_ledger_plan_check(const struct spot_ledger_plan *p, struct spot_err *err)
{
    if (p->n_sample < 1 || p->n_sample > SPOT_LEDGER_SAMPLES_MAX)
        return spot_err_set(err, SPOT_EDATA, "dataset_size: expected 1 to 2^53 samples, got %lld",
                            (long long)p->n_sample);
    if (p->batch < 1 || p->batch > p->n_sample)
        return spot_err_set(err, SPOT_EDATA,
                            "global_batch: expected 1 to %lld, the samples of the set, got %lld",
                            (long long)p->n_sample, (long long)p->batch);
    if (p->seed < 0 || p->seed > SPOT_LEDGER_SAMPLES_MAX)
        return spot_err_set(err, SPOT_EDATA, "seed: expected 0 to 2^53, got %lld",
                            (long long)p->seed);
    return 0;
}

bool spot_ledger_plan_equal(const struct spot_ledger_plan *a, const struct spot_ledger_plan *b)
{
    return a->n_sample == b->n_sample && a->batch == b->batch && a->seed == b->seed &&
           a->rest == b->rest && a->is_sequential == b->is_sequential;
}

static struct spot_ledger_range range(int64_t epoch, int64_t from, int64_t n)
{
    return (struct spot_ledger_range){ .epoch = epoch, .from = from, .to = from + n };
}

/* A whole step as one range, whose end may lie beyond the end of the epoch. */
static struct spot_ledger_range whole(const struct spot_ledger_plan *p, int64_t step)
{
    const int64_t n_full = p->n_sample / p->batch, rest = p->n_sample % p->batch;
    int64_t n_step = n_full, at;

    if (p->rest == SPOT_LEDGER_WRAP) {
        at = step * p->batch;
        return range(at / p->n_sample, at % p->n_sample, p->batch);
    }
    if (p->rest == SPOT_LEDGER_SHORT && rest)
        n_step++;
    at = step % n_step;
    return range(step / n_step, at * p->batch, at < n_full ? p->batch : rest);
}

int spot_ledger_plan_share(const struct spot_ledger_plan *p, int64_t step, int64_t rank,
                           int64_t world, struct spot_ledger_share *share, struct spot_err *err)
{
    struct spot_ledger_range all;
    int64_t each, left, from, to, end;

    if (world < 1 || world > SPOT_LEDGER_WORLD_MAX)
        return spot_err_set(err, SPOT_EDATA, "world: expected 1 to %d ranks, got %lld",
                            SPOT_LEDGER_WORLD_MAX, (long long)world);
    if (rank < 0 || rank >= world)
        return spot_err_set(err, SPOT_EDATA, "rank: expected 0 to %lld, got %lld",
                            (long long)world - 1, (long long)rank);
    if (step < 0 || step > SPOT_LEDGER_SAMPLES_MAX || step > INT64_MAX / p->batch - 2)
        return spot_err_set(err, SPOT_EDATA, "step: expected 0 to %lld, got %lld",
                            (long long)(INT64_MAX / p->batch - 2 < SPOT_LEDGER_SAMPLES_MAX
                                            ? INT64_MAX / p->batch - 2
                                            : SPOT_LEDGER_SAMPLES_MAX),
                            (long long)step);
    all = whole(p, step);
    *share = (struct spot_ledger_share){ .step = step, .epoch = all.epoch };
    share->n_total = all.to - all.from;
    each = share->n_total / world;
    left = share->n_total % world;
    from = all.from + each * rank + (rank < left ? rank : left);
    to = from + each + (rank < left);
    share->n = to - from;
    end = to < p->n_sample ? to : p->n_sample;
    if (from < end)
        share->range[share->n_range++] = range(all.epoch, from, end - from);
    from = from > p->n_sample ? from : p->n_sample;
    if (from < to)
        share->range[share->n_range++] = range(all.epoch + 1, from - p->n_sample, to - from);
    return 0;
}

int64_t spot_ledger_plan_sample(const struct spot_ledger_plan *p, int64_t epoch, int64_t position)
{
    assert(epoch >= 0 && position >= 0 && position < p->n_sample);
    if (p->is_sequential)
        return position;
    return (int64_t)spot_permute((uint64_t)p->n_sample,
                                 spot_rng_mix((uint64_t)p->seed, (uint64_t)epoch),
                                 (uint64_t)position);
}
