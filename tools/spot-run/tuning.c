/* SPDX-License-Identifier: MIT */
#include "job_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

static int take_setting(char *text, struct spot_schedule *s, struct spot_err *err)
{
    char *const value = strchr(text, '=');
    double x;

    if (value)
        *value = '\0';
    if (!value || spot_num_parse(value + 1, &x) || x < 0 || x > 1e12 ||
        (strcmp(text, "min") != 0 && x != floor(x)))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--lr-schedule: expected warmup=N, decay=N or min=X, got '%s%s%s'",
                            text, value ? "=" : "", value ? value + 1 : "");
    if (!strcmp(text, "warmup"))
        s->warmup_steps = (int64_t)x;
    else if (!strcmp(text, "decay") && x >= 1)
        s->decay_steps = (int64_t)x;
    else if (!strcmp(text, "min"))
        s->min_lr = x;
    else
        return spot_err_set(err, SPOT_EUSAGE,
                            "--lr-schedule: expected warmup=N, decay=N or min=X, got '%s=%s'", text,
                            value + 1);
    return 0;
}

/* Parses "cosine:warmup=4,decay=30,min=1e-4" into *s; values that the text does not contain stay.
 */
static int parse_schedule(const char *text, struct spot_schedule *s, struct spot_err *err)
{
    char *const copy = spot_xstrdup(text), *rest, *setting;
    const char *const name = strtok_r(copy, ":", &rest);
    const int kind = name ? spot_lr_schedule_find(name) : -1;
    int rc = 0;

    if (kind < 0)
        rc = spot_err_set(err, SPOT_EUSAGE,
                          "--lr-schedule must be constant, cosine or linear, got '%s'", text);
    else
        s->kind = (uint32_t)kind;
    if (kind == SPOT_LR_CONSTANT)
        s->min_lr = 0, s->decay_steps = 0;
    while (!rc && (setting = strtok_r(NULL, ",", &rest)))
        rc = take_setting(setting, s, err);
    free(copy);
    return rc;
}

/* The decay ends with the job, unless its end was given. */
static void settle_decay(struct spot_schedule *s, int64_t steps)
{
    if (s->kind != SPOT_LR_CONSTANT && !s->decay_steps)
        s->decay_steps = steps;
}

int tuning_settle(struct job_options *o, struct spot_err *err)
{
    struct spot_job_config *const c = &o->c.config;
    struct spot_tuning t;

    if (o->lr_schedule && parse_schedule(o->lr_schedule, &c->schedule, err))
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

/* The tuning with which the job began. */
static struct spot_tuning first_of(const struct spot_job_note *n)
{
    return (struct spot_tuning){ .lr = n->lr,
                                 .weight_decay = n->weight_decay,
                                 .schedule = { (uint32_t)spot_lr_schedule_find(n->lr_schedule),
                                               n->warmup_steps, n->decay_steps, n->min_lr } };
}

/* The current tuning, with the values given replacing its own. */
static int put_given(const struct job_options *o, const struct spot_opt *option, const bool *given,
                     struct spot_tuning *t, struct spot_err *err)
{
    const struct spot_tuning wish = spot_job_tuning(&o->c.config, 1);

    if (is_given(option, given, "lr-schedule") && parse_schedule(o->lr_schedule, &t->schedule, err))
        return -1;
    if (is_given(option, given, "lr"))
        t->lr = wish.lr;
    if (is_given(option, given, "weight-decay"))
        t->weight_decay = wish.weight_decay;
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
    o->lr_schedule = NULL; /* handled above */
    return spot_tuning_equal(change, &now) ? 0 : spot_tuning_check(change, err) ? -1 : 1;
}
