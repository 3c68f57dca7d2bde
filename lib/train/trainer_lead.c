/* SPDX-License-Identifier: MIT */
/* With several coordinators: the state of the job that a new leader takes over. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/trainer_state.h"

/* Reject if another coordinator changed the learning rate: this one would compute different
 * bits. */
static int check_tuning(const struct spot_trainer *c, const struct spot_journal_record *r,
                        struct spot_err *err)
{
    for (uint32_t i = 0; i < c->config.n_change; i++)
        if (c->config.change[i].after >= r->tuned_after)
            return 0;
    if (r->tuned_after < 0)
        return 0;
    return spot_err_set(
        err, SPOT_EUSAGE,
        "the learning rate was changed after step %lld, which this coordinator does "
        "not know: start it with --resume and the --state of the one that led",
        (long long)r->tuned_after);
}

static bool is_done(const struct spot_trainer *c, const struct spot_journal_record *r)
{
    return !strcmp(r->end, SPOT_JOB_DONE) && r->step >= c->config.n_step;
}

static void take_result(const struct spot_trainer *c, const struct spot_journal_record *r,
                        struct spot_trainer_result *result)
{
    result->step = r->step;
    result->knows_loss = isfinite(r->loss);
    result->loss = result->knows_loss ? (float)r->loss : 0;
    snprintf(result->state_hex, sizeof(result->state_hex), "%s", r->state_hex);
    if (c->options->save)
        c->options->warn("the previous leader has written the weights to its own --save; '%s' is "
                         "not written here",
                         c->options->save);
}

int spot_trainer_lead(struct spot_trainer *c, struct spot_trainer_result *result,
                      struct spot_err *err)
{
    const struct spot_journal_record *before;
    char identity[24];

    snprintf(identity, sizeof(identity), "train-%016llx", (unsigned long long)c->job);
    if (spot_group_lead(c->group, identity, &before, err))
        return -1;
    if (!before)
        return 0;
    if (is_done(c, before)) {
        take_result(c, before, result);
        return 1;
    }
    if (!strcmp(before->end, SPOT_JOB_STOPPED) && !c->options->resume)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "the job was stopped at step %lld; --resume continues it",
                            (long long)before->step);
    return check_tuning(c, before, err);
}
