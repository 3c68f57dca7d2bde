/* SPDX-License-Identifier: MIT */
#include "tuning.h"

#include <string.h>

static int find_schedule(const char *name, uint32_t *kind, struct spot_err *err)
{
    const int found = spot_lr_schedule_find(name);

    if (found < 0)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--lr-schedule must be constant, cosine or linear, got '%s'", name);
    *kind = (uint32_t)found;
    return 0;
}

/* The decay ends with the job, unless it was said when. */
static void settle_decay(struct spot_schedule *s, uint64_t steps)
{
    if (s->kind != SPOT_LR_CONSTANT && !s->decay_steps)
        s->decay_steps = (int64_t)steps;
}

static struct spot_tuning tuning_of(const struct job_options *o)
{
    return (struct spot_tuning){ .lr = o->lr,
                                 .weight_decay = o->weight_decay,
                                 .schedule = { .warmup_steps = (int64_t)o->warmup_steps,
                                               .decay_steps = (int64_t)o->decay_steps,
                                               .min_lr = o->min_lr } };
}

int tuning_settle(struct job_options *o, uint64_t steps, struct spot_err *err)
{
    struct spot_tuning t = tuning_of(o);

    if (find_schedule(o->lr_schedule, &t.schedule.kind, err))
        return -1;
    settle_decay(&t.schedule, steps);
    o->decay_steps = (uint64_t)t.schedule.decay_steps;
    return spot_tuning_check(&t, err);
}

static bool is_said(const struct spot_opt *option, const bool *said, const char *name)
{
    for (size_t i = 0; option[i].type != SPOT_OPT_END; i++)
        if (option[i].long_name && !strcmp(option[i].long_name, name))
            return said[i];
    return false;
}

/* As the job began. */
static struct spot_tuning first_of(const struct spot_job_note *n)
{
    return (struct spot_tuning){ .lr = n->lr,
                                 .weight_decay = n->weight_decay,
                                 .schedule = { (uint32_t)spot_lr_schedule_find(n->lr_schedule),
                                               n->warmup_steps, n->decay_steps, n->min_lr } };
}

/* What holds now, with what was said in its place. */
static int put_said(const struct job_options *o, const struct spot_opt *option, const bool *said,
                    struct spot_tuning *t, struct spot_err *err)
{
    const struct spot_tuning wish = tuning_of(o);
    struct spot_schedule *const s = &t->schedule;

    if (is_said(option, said, "lr-schedule")) {
        if (find_schedule(o->lr_schedule, &s->kind, err))
            return -1;
        if (s->kind == SPOT_LR_CONSTANT)
            s->min_lr = 0, s->decay_steps = 0;
    }
    if (is_said(option, said, "lr"))
        t->lr = wish.lr;
    if (is_said(option, said, "weight-decay"))
        t->weight_decay = wish.weight_decay;
    if (is_said(option, said, "warmup-steps"))
        s->warmup_steps = wish.schedule.warmup_steps;
    if (is_said(option, said, "min-lr"))
        s->min_lr = wish.schedule.min_lr;
    if (is_said(option, said, "decay-steps"))
        s->decay_steps = wish.schedule.decay_steps;
    return 0;
}

int tuning_resume(struct job_options *o, uint64_t steps, const struct spot_opt *option,
                  const bool *said, const struct spot_job_note *note, struct spot_tuning *change,
                  struct spot_err *err)
{
    const struct spot_tuning first = first_of(note),
                             now = note->n_change ? note->change[note->n_change - 1] : first;

    *change = now;
    if (put_said(o, option, said, change, err))
        return -1;
    settle_decay(&change->schedule, steps);
    o->lr = first.lr;
    o->weight_decay = first.weight_decay;
    o->lr_schedule = note->lr_schedule;
    o->warmup_steps = (uint64_t)first.schedule.warmup_steps;
    o->decay_steps = (uint64_t)first.schedule.decay_steps;
    o->min_lr = first.schedule.min_lr;
    return spot_tuning_equal(change, &now) ? 0 : spot_tuning_check(change, err) ? -1 : 1;
}
