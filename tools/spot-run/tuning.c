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
static void settle_decay(struct spot_schedule *s, int64_t steps)
{
    if (s->kind != SPOT_LR_CONSTANT && !s->decay_steps)
        s->decay_steps = steps;
}

int tuning_settle(struct job_options *o, struct spot_err *err)
{
    struct spot_job_config *const c = &o->c.config;
    struct spot_tuning t;

    if (find_schedule(o->lr_schedule, &c->schedule.kind, err))
        return -1;
    settle_decay(&c->schedule, c->n_step);
    t = spot_job_tuning(c, 1);
    return spot_tuning_check(&t, err);
}

static bool is_given(const struct spot_opt *option, const bool *given, const char *name)
{
    for (size_t i = 0; option[i].type != SPOT_OPT_END; i++)
        if (option[i].long_name && !strcmp(option[i].long_name, name))
            return given[i];
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
static int put_given(const struct job_options *o, const struct spot_opt *option, const bool *given,
                     struct spot_tuning *t, struct spot_err *err)
{
    const struct spot_tuning wish = spot_job_tuning(&o->c.config, 1);
    struct spot_schedule *const s = &t->schedule;

    if (is_given(option, given, "lr-schedule")) {
        if (find_schedule(o->lr_schedule, &s->kind, err))
            return -1;
        if (s->kind == SPOT_LR_CONSTANT)
            s->min_lr = 0, s->decay_steps = 0;
    }
    if (is_given(option, given, "lr"))
        t->lr = wish.lr;
    if (is_given(option, given, "weight-decay"))
        t->weight_decay = wish.weight_decay;
    if (is_given(option, given, "warmup-steps"))
        s->warmup_steps = wish.schedule.warmup_steps;
    if (is_given(option, given, "min-lr"))
        s->min_lr = wish.schedule.min_lr;
    if (is_given(option, given, "decay-steps"))
        s->decay_steps = wish.schedule.decay_steps;
    return 0;
}

int tuning_resume(struct job_options *o, const struct spot_opt *option, const bool *given,
                  const struct spot_job_note *note, struct spot_tuning *change,
                  struct spot_err *err)
{
    const struct spot_tuning first = first_of(note),
                             now = note->n_change ? note->change[note->n_change - 1] : first;

    *change = now;
    if (put_given(o, option, given, change, err))
        return -1;
    settle_decay(&change->schedule, o->c.config.n_step);
    o->c.config.adamw.lr = first.lr;
    o->c.config.adamw.weight_decay = first.weight_decay;
    o->c.config.schedule = first.schedule;
    o->lr_schedule = note->lr_schedule;
    return spot_tuning_equal(change, &now) ? 0 : spot_tuning_check(change, err) ? -1 : 1;
}
