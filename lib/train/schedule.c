/* SPDX-License-Identifier: MIT */
#include "train/schedule.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/rope.h"

static const char *const names[] = {
    [SPOT_LR_CONSTANT] = "constant",
    [SPOT_LR_COSINE] = "cosine",
    [SPOT_LR_LINEAR] = "linear",
};

int spot_lr_schedule_find(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(names[i], name))
            return (int)i;
    return -1;
}

const char *spot_lr_schedule_name(uint32_t kind)
{
    assert(kind <= SPOT_LR_LINEAR);
    return names[kind];
}

static bool is_rate(double x)
{
    return isfinite(x) && x >= 0;
}

static int check_decay(const struct spot_tuning *t, struct spot_err *err)
{
    const struct spot_schedule *const s = &t->schedule;

    if (s->decay_steps <= s->warmup_steps)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--lr-schedule: decay=%lld leaves no step for the decay after "
                            "warmup=%lld",
                            (long long)s->decay_steps, (long long)s->warmup_steps);
    if (!is_rate(s->min_lr) || s->min_lr > t->lr)
        return spot_err_set(err, SPOT_EUSAGE, "--lr-schedule: min=%g is above --lr %g", s->min_lr,
                            t->lr);
    return 0;
}

int spot_tuning_check(const struct spot_tuning *t, struct spot_err *err)
{
    const struct spot_schedule *const s = &t->schedule;

    if (!is_rate(t->lr))
        return spot_err_set(err, SPOT_EUSAGE, "learning rate and clip norm are at least 0");
    if (!is_rate(t->weight_decay) || s->warmup_steps < 0 || s->kind > SPOT_LR_LINEAR)
        return spot_err_set(err, SPOT_EUSAGE,
                            "a value of the learning rate schedule is out of range");
    if (s->kind != SPOT_LR_CONSTANT)
        return check_decay(t, err);
    if (s->min_lr != 0 || s->decay_steps)
        return spot_err_set(
            err, SPOT_EUSAGE,
            "--lr-schedule: %s needs cosine or linear: a constant rate has no decay",
            s->min_lr != 0 ? "min=" : "decay=");
    return 0;
}

/* The remaining share of the decay from lr to min_lr after the share t of its steps. */
static double rest(uint32_t kind, double t)
{
    double sine, cosine;

    if (kind == SPOT_LR_LINEAR)
        return 1 - t;
    spot_sincos(3.14159265358979323846 * t, &sine, &cosine);
    return (1 + cosine) / 2;
}

double spot_tuning_lr(const struct spot_tuning *tuning, int64_t step)
{
    const struct spot_schedule *const s = &tuning->schedule;

    assert(step >= 1);
    if (step < s->warmup_steps)
        return tuning->lr * (double)step / (double)s->warmup_steps;
    if (s->kind == SPOT_LR_CONSTANT || step == s->warmup_steps)
        return tuning->lr;
    if (step >= s->decay_steps)
        return s->min_lr;
    return s->min_lr +
           (tuning->lr - s->min_lr) * rest(s->kind, (double)(step - s->warmup_steps) /
                                                        (double)(s->decay_steps - s->warmup_steps));
}

bool spot_tuning_is_scheduled(const struct spot_tuning *tuning)
{
    return tuning->schedule.kind != SPOT_LR_CONSTANT || tuning->schedule.warmup_steps > 0;
}

bool spot_tuning_equal(const struct spot_tuning *a, const struct spot_tuning *b)
{
    return a->lr == b->lr && a->weight_decay == b->weight_decay &&
           a->schedule.kind == b->schedule.kind &&
           a->schedule.warmup_steps == b->schedule.warmup_steps &&
           a->schedule.decay_steps == b->schedule.decay_steps &&
           a->schedule.min_lr == b->schedule.min_lr;
}
