/* SPDX-License-Identifier: MIT */
/* Admission of workers to training, and their messages. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "train/model_wire.h"
#include "train/self_test.h"
#include "train/trainer_durable_state.h"
#include "train/trainer_member_state.h"
#include "train/trainer_move_state.h"
#include "train/trainer_place_state.h"
#include "train/trainer_step_state.h"

struct spot_trainer_member *spot_trainer_member(const struct spot_trainer *c, uint32_t id)
{
    struct spot_peer *const peer = spot_group_find(c->group, id);

    return peer ? spot_peer_data(peer) : NULL;
}

bool spot_trainer_is_aside(const struct spot_trainer *c, uint32_t id)
{
    return spot_peer_is_aside(spot_group_find(c->group, id));
}

/* Read the bundles that a member holds: count, then bundle and step of each. Steps after a limit
 * are ignored. */
static int take_held(const struct spot_trainer *c, struct spot_trainer_member *who, int64_t until,
                     struct spot_wire_in *in)
{
    const uint32_t n = spot_get_count(in, 12);

    for (int b = 0; b < c->n_bundle; b++)
        who->held[b] = -1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bundle = spot_get_bundle(in, (uint32_t)c->n_bundle);
        const int64_t step = spot_get_i64(in);

        if (in->bad || step < 0)
            return 1;
        who->held[bundle] = step > until || spot_peer_is_convicted(who->peer) ? -1 : step;
    }
    return in->bad;
}

int spot_trainer_report(void *job, struct spot_peer *peer, struct spot_wire_in *in)
{
    return take_held(job, spot_peer_data(peer), INT64_MAX, in);
}

static void add_member(struct spot_trainer *c, struct spot_peer *peer)
{
    struct spot_trainer_member *const who = spot_xcalloc(1, sizeof(*who));

    spot_movement_members(&c->movement, c->machine->n_member);
    who->peer = peer;
    who->held = spot_xcalloc((size_t)c->n_bundle, sizeof(*who->held));
    who->vouched = spot_xcalloc((size_t)c->n_bundle, sizeof(*who->vouched));
    who->reported = spot_xcalloc((size_t)c->n_bundle, sizeof(*who->reported));
    for (int b = 0; b < c->n_bundle; b++) {
        who->held[b] = -1;
        who->vouched[b] = SPOT_NEVER_VOUCHED;
    }
    spot_peer_set_data(peer, who);
}

/* A worker's bundles are valid if they are of this run, or of one that this run resumes. A new run
 * starts over even if workers of an earlier one still wait with their memory. */
int spot_trainer_accept(void *job, struct spot_peer *peer, bool was_ours, struct spot_wire_in *in,
                        char *why, size_t n)
{
    struct spot_trainer *const c = job;
    char kernels[SPOT_KERNELS_MAX], kernel[SPOT_KERNEL_NAME_MAX + 16];
    struct spot_trainer_member *who;
    char device[sizeof(who->device)];
    uint64_t of_job;

    spot_get_text(in, kernels, sizeof(kernels));
    spot_get_text(in, device, sizeof(device));
    of_job = spot_get_u64(in);
    if (in->bad) {
        snprintf(why, n, "malformed HELLO");
        return 1;
    }
    snprintf(kernel, sizeof(kernel), ",%s" SPOT_SELF_TEST_FAILED ",", c->config.kernel);
    if (strstr(kernels, kernel)) {
        snprintf(why, n,
                 "worker %s fails the self-test of kernel '%s': its machine computes wrong numbers",
                 spot_peer_name(peer), c->config.kernel);
        return 1;
    }
    snprintf(kernel, sizeof(kernel), ",%s,", c->config.kernel);
    if (!strstr(kernels, kernel)) {
        snprintf(why, n,
                 "worker %s cannot compute with the job's kernel '%s', it has %.200s; start "
                 "the job with --device portable to mix machines",
                 spot_peer_name(peer), c->config.kernel, kernels);
        return 1;
    }
    if (!spot_peer_data(peer))
        add_member(c, peer);
    who = spot_peer_data(peer);
    memcpy(who->device, device, sizeof(device));
    who->keeps = spot_job_shared_steps(&c->config, of_job) >= 0 &&
                 (was_ours || spot_group_resumes(c->group));
    if (!who->keeps || !take_held(c, who, spot_job_shared_steps(&c->config, of_job), in))
        return 0;
    snprintf(why, n, "malformed inventory");
    return 1;
}

void spot_trainer_welcome(void *job, struct spot_peer *peer, struct spot_buf *out)
{
    const struct spot_trainer *const c = job;
    const struct spot_trainer_member *const who = spot_peer_data(peer);

    spot_put_u32(out, who->keeps);
    spot_job_config_put(out, &c->config);
    spot_state_sources_put(out, &c->sources);
}

void spot_trainer_forget(void *job, struct spot_peer *peer)
{
    struct spot_trainer *const c = job;
    struct spot_trainer_member *const who = spot_peer_data(peer);

    spot_movement_members(&c->movement, c->machine->n_member);
    c->movement.n_gone++;
    spot_saver_lost(&c->saver, spot_peer_id(peer), spot_trainer_pulling(c));
    free(who->held);
    free(who->vouched);
    free(who->reported);
    free(who);
}

bool spot_trainer_owes(void *job, const struct spot_peer *peer, bool as_machine)
{
    const struct spot_trainer *const c = job;

    if ((c->is_final || spot_group_is_stopping(c->group) || c->machine->phase == SPOT_PHASE_WAIT) &&
        spot_saver_owes(&c->saver, spot_peer_id(peer), spot_trainer_pulling(c)))
        return true;
    return as_machine && !spot_trainer_is_restoring(c);
}

/* --- messages ---------------------------------------------------------------- */

static int on_failed(struct spot_trainer *c, struct spot_peer *peer, const struct spot_frame *frame,
                     struct spot_err *err)
{
    struct spot_trainer_member *const who = spot_peer_data(peer);
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    char why[SPOT_WHY_MAX];

    spot_get_plain(&in, why, sizeof(why));
    c->options->warn("worker %s cannot mirror that much: %s", spot_peer_name(peer), why);
    spot_trainer_cool(c, who);
    return spot_view_break(c->view, frame->epoch, err);
}

static int on_snapshot(struct spot_trainer *c, struct spot_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err)
{
    const int rc = spot_trainer_snapshot(c, spot_peer_id(peer), frame, err);

    if (rc > 0)
        spot_peer_drop(peer, "a snapshot");
    return rc < 0 ? -1 : 0;
}

static int on_unread(struct spot_trainer *c, struct spot_peer *peer, const struct spot_frame *frame,
                     struct spot_err *err)
{
    const int rc = spot_trainer_unread(c, spot_peer_id(peer), frame, err);

    if (rc > 0)
        spot_peer_drop(peer, "a request for state");
    return rc < 0 ? -1 : 0;
}

int spot_trainer_message(void *job, struct spot_peer *peer, const struct spot_frame *frame,
                         struct spot_err *err)
{
    struct spot_trainer *const c = job;

    switch (frame->type) {
    case SPOT_MSG_SNAPSHOT:
        return on_snapshot(c, peer, frame, err);
    case SPOT_MSG_SHOWN:
        if (spot_trainer_shown(c, frame))
            spot_peer_drop(peer, "weights");
        return 0;
    case SPOT_MSG_WRITTEN:
        if (spot_trainer_written(c, frame))
            spot_peer_drop(peer, "report of a file");
        return 0;
    case SPOT_MSG_UNREAD:
        return on_unread(c, peer, frame, err);
    case SPOT_MSG_PROBED:
        if (spot_trainer_probed(c, spot_peer_id(peer), frame))
            spot_peer_drop(peer, "a probe's answer");
        return 0;
    case SPOT_MSG_FAILED:
        return on_failed(c, peer, frame, err);
    default:
        return 0;
    }
}
