/* SPDX-License-Identifier: MIT */
/* Opens existing durable state, or rejects it. State behind a command may belong to a coordinator
 * that runs elsewhere, so it is only read until all reasons to reject this one have been
 * checked. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "train/job_note.h"
#include "train/trainer_state.h"

/* Report how the job of the state differs from this one. */
static int report_differences(const struct spot_trainer *c, struct spot_err *err)
{
    char what[400];

    spot_job_note_differences(c->options->state, &c->config, what, sizeof(what));
    return !*what ? -1
                  : spot_err_set(err, SPOT_EUSAGE, "'%s' holds the state of another job: %s",
                                 c->options->state, what);
}

/* Note the files that a worker with access to them may read by itself. */
static void note_sources(struct spot_trainer *c)
{
    struct spot_state_sources *const s = &c->sources;

    if (spot_store_is_behind(c->saver.store)) {
        char source[SPOT_STORE_PATH];

        spot_store_source(c->saver.store, source);
        snprintf(s->state, sizeof(s->state), "%.64s", source);
    } else {
        spot_state_sources_path(spot_store_dir(c->saver.store), s->state);
    }
    s->job = c->job;
    spot_state_sources_path(c->options->load, s->load);
    if (!c->weights)
        return;
    s->n_load = (uint32_t)c->n_bundle;
    s->load_xxh3 = spot_xcalloc(s->n_load, sizeof(*s->load_xxh3));
    memcpy(s->load_xxh3, spot_weights_bundle_xxh3(c->weights), s->n_load * sizeof(*s->load_xxh3));
}

/* Open the store. A former leader holds it until it learns that another coordinator leads; wait for
 * that. */
static struct spot_store *open_store(const struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_trainer_options *const o = c->options;
    const double until_s = spot_clock_s() + (o->store ? 2 * o->store_lease_s : 0);
    struct spot_store *store;

    while (!(store = spot_store_open_behind(o->state, o->state_command, o->state_timeout_s,
                                            spot_group_gives_up, c->job, c->n_bundle, err)) &&
           err->code == SPOT_ESYS && spot_clock_s() < until_s && !spot_group_stops())
        spot_clock_sleep(0.1);
    return store;
}

/* Without --resume existing state is rejected. */
static int check_resume(const struct spot_trainer *c, struct spot_err *err)
{
    const int64_t newest = spot_store_newest(c->saver.store);

    return newest < 0 || spot_group_resumes(c->group)
               ? 0
               : spot_err_set(err, SPOT_EUSAGE,
                              "%s holds the state of step %lld; --resume continues it",
                              spot_store_place(c->saver.store), (long long)newest);
}

/* With --resume the state is verified and used. */
static int verify_state(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_trainer_options *const o = c->options;
    struct spot_err why = { 0 };
    const int n_bad = spot_store_verify(c->saver.store, &why);

    if (n_bad < 0)
        return spot_err_set(err, why.code, "%s", why.msg);
    if (n_bad > 0 && spot_store_newest(c->saver.store) < 0)
        return spot_err_set(err, SPOT_EDATA,
                            "%.300s; no valid generation is left in %s: the damaged ones are "
                            "kept there as gen-STEP%s, a second try begins anew",
                            why.msg, spot_store_place(c->saver.store),
                            spot_store_is_behind(c->saver.store) ? ".NONCE/bad" : ".bad");
    if (n_bad)
        o->warn("%s; %d generation%s set aside, continuing from step %lld", why.msg, n_bad,
                n_bad > 1 ? "s" : "", (long long)spot_store_newest(c->saver.store));
    if (!spot_group_resumes(c->group) || !o->state || spot_store_newest(c->saver.store) >= 0)
        return 0;
    if (!o->state_command && spot_job_note_is_behind(o->state))
        return spot_err_set(err, SPOT_EUSAGE,
                            "the state of the job in '%s' is behind a command: --state-command",
                            o->state);
    o->warn("%s has no state: the job starts at step 0, unless a joining worker has newer state",
            spot_store_place(c->saver.store));
    return 0;
}

int spot_trainer_check_resume(const char *state, struct spot_err *err)
{
    if (!access(state, F_OK) || errno != ENOENT)
        return 0;
    return spot_err_set(err, SPOT_EUSAGE,
                        "there is no '%s' to resume from; start a new job without --resume, or in "
                        "an empty directory",
                        state);
}

/* A directory without a generation is that of a job that was killed before its first one; a restart
 * loop must be able to continue there. */
int spot_trainer_open_state(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_trainer_options *const o = c->options;

    if (o->resume && !o->state_command && spot_trainer_check_resume(o->state, err))
        return -1;
    c->saver.store = open_store(c, err);
    if (!c->saver.store)
        return err->code == SPOT_EUSAGE ? report_differences(c, err) : -1;
    spot_store_on_tick(c->saver.store, spot_group_send_keepalive, c->group);
    if (check_resume(c, err))
        return -1;
    return spot_store_is_behind(c->saver.store) ? 0 : verify_state(c, err);
}

/* Claim the state. Another coordinator may have written since it was read, so it is read again. */
int spot_trainer_take_state(struct spot_trainer *c, struct spot_err *err)
{
    if (spot_store_is_behind(c->saver.store) &&
        (spot_store_claim(c->saver.store, err) || check_resume(c, err) || verify_state(c, err)))
        return -1;
    note_sources(c);
    return 0;
}
