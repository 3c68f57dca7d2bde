/* SPDX-License-Identifier: MIT */
/* Training's part of spot.status/1, and of the progress line. */
#include <string.h>

#include "comm/endpoint.h"
#include "common/clock.h"
#include "train/trainer_durable_state.h"
#include "train/trainer_evidence_state.h"
#include "train/trainer_member_state.h"
#include "train/trainer_place_state.h"
#include "train/trainer_report_state.h"

static const double show_every_s = 0.25;

/* Tokens per second at the current pace, 0 if that is not known yet. */
static double token_rate(const struct spot_trainer *c)
{
    return c->step_s > 0 ? (double)(c->config.global_batch * c->config.shape.seq) / c->step_s : 0;
}

/* The learning rate of the current step, or of the last one after the end. */
double spot_trainer_lr(const struct spot_trainer *c)
{
    const int64_t next = c->machine->round + 1;

    return spot_job_adamw(&c->config, next < c->config.n_step ? next : c->config.n_step).lr;
}

void spot_trainer_status(void *job, struct spot_jw *jw)
{
    const struct spot_trainer *const c = job;

    spot_jw_int(jw, "steps", c->config.n_step);
    spot_jw_int(jw, "durable_step", spot_store_newest(c->saver.store));
    spot_jw_real(jw, "durable_lag_s", spot_trainer_lag_s(c));
    if (c->saver.n_failed)
        spot_jw_str(jw, "durable_error", c->saver.why.msg);
    if (c->knows_loss)
        spot_jw_real(jw, "loss", (double)c->last_loss);
    if (c->validator.step >= 0) {
        spot_jw_real(jw, "val_loss", (double)c->validator.loss);
        spot_jw_int(jw, "val_step", c->validator.step);
    }
    spot_jw_real(jw, "lr", spot_trainer_lr(c));
    spot_jw_int(jw, "D", c->form.D);
    spot_jw_int(jw, "P", c->form.P);
    spot_jw_int(jw, "M", c->form.M);
    if (c->want.D) {
        spot_jw_object(jw, "want");
        spot_jw_int(jw, "D", c->want.D);
        spot_jw_int(jw, "P", c->want.P);
        spot_jw_int(jw, "M", c->want.M);
        spot_jw_end(jw);
    }
    spot_trainer_verify_status(c, jw);
    if (c->movement.is_put_off)
        spot_jw_bool(jw, "put_off", true);
    spot_jw_real(jw, "step_s", c->step_s);
    if (c->step_s > 0 && !spot_group_is_suspended(c->group))
        spot_jw_real(jw, "eta_s", c->step_s * (double)(c->config.n_step - c->machine->round));
    spot_jw_real(jw, "tokens_per_s", token_rate(c));
}

/* Write the share of the state that a member mirrors, and the stages that it mirrors completely. */
static void put_warmth(const struct spot_trainer *c, uint32_t id, struct spot_jw *jw)
{
    spot_jw_real(jw, "warm", spot_trainer_warmth(c, id));
    spot_jw_array(jw, "mirrors");
    for (uint32_t p = 0; p < c->form.P; p++)
        if (spot_trainer_mirrors(c, id, p))
            spot_jw_int(jw, NULL, p);
    spot_jw_end(jw);
}

/* A member that only mirrors has no place in the grid. */
bool spot_trainer_status_member(void *job, const struct spot_peer *peer, struct spot_jw *jw)
{
    const struct spot_trainer *const c = job;
    const int64_t position = c->form.D ? spot_form_position(&c->form, spot_peer_id(peer)) : -1;
    const struct spot_trainer_member *const who = spot_peer_data(peer);
    struct spot_form_place at;

    if (who && *who->device && !strncmp(c->config.kernel, "cuda", 4))
        spot_jw_str(jw, "device", who->device);
    if (position < 0 && c->form.D)
        put_warmth(c, spot_peer_id(peer), jw);
    if (position < 0)
        return false;
    at = spot_form_place(&c->form, position);
    spot_jw_int(jw, "d", at.d);
    spot_jw_int(jw, "p", at.p);
    spot_jw_int(jw, "m", at.m);
    return true;
}

void spot_trainer_show_progress(struct spot_trainer *c)
{
    const double now_s = spot_clock_s();
    struct spot_progress p = { .step = c->machine->round,
                               .n_step = c->config.n_step,
                               .n_member = spot_group_members(c->group),
                               .knows_loss = c->knows_loss,
                               .loss = c->last_loss,
                               .knows_val_loss = c->validator.step >= 0,
                               .val_loss = c->validator.loss,
                               .grid = { c->form.D, c->form.P, c->form.M },
                               .step_s = c->step_s };
    char address[SPOT_ADDRESS_MAX + 8];

    if (!c->options->progress || now_s - c->progress_shown_s < show_every_s)
        return;
    c->progress_shown_s = now_s;
    spot_group_address(c->group, address);
    p.address = address;
    c->options->progress(&p);
}
