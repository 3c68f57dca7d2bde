/* SPDX-License-Identifier: MIT */
/* Reports a training job to the meter (meter.h). */
#include <math.h>

#include "common/clock.h"
#include "common/metric.h"
#include "train/trainer_durable_state.h"
#include "train/trainer_evidence_state.h"
#include "train/trainer_place_state.h"
#include "train/trainer_report_state.h"

static void count_precopies(struct spot_trainer *c)
{
    for (; c->n_precopied < c->form.n_precopied; c->n_precopied++)
        spot_meter_moved(
            c->meter, false,
            (double)spot_trainer_bundle_byte(c, (int)c->form.precopy[c->n_precopied].bundle));
}

void spot_trainer_meter_step(struct spot_trainer *c, double step_s)
{
    const struct spot_history_point at = {
        spot_journal_time(c->journal), c->machine->round + 1,   (double)c->last_loss, step_s,
        spot_group_members(c->group),  spot_form_grid(&c->form)
    };

    spot_meter_step(c->meter, c->machine->epoch, spot_group_counts(c->group), &at);
    count_precopies(c);
}

/* All members have received the transfers of the epoch. */
void spot_trainer_meter_formed(struct spot_trainer *c)
{
    for (size_t i = 0; i < c->form.n_transfer; i++) {
        const struct spot_transfer *const move = &c->form.transfer[i];

        if (move->origin == SPOT_FROM_MEMBER || move->origin == SPOT_FROM_STORE)
            spot_meter_moved(c->meter, move->origin == SPOT_FROM_STORE,
                             (double)spot_trainer_bundle_byte(c, (int)move->bundle));
    }
    c->n_precopied = c->form.n_precopied; /* held before */
}

static void put_state(const struct spot_trainer *c, struct spot_buf *out)
{
    static const char size[] = "Grid of the epoch: D replicas of P stages of M workers.";
    const int64_t durable = spot_store_newest(c->saver.store);
    const struct spot_metric metric[] = {
        { "spot_train_step", SPOT_GAUGE, "The newest committed step.", NULL,
          (double)c->machine->round, NULL },
        { "spot_train_target_step", SPOT_GAUGE, "The step at which the job is done.", NULL,
          (double)c->config.n_step, NULL },
        { "spot_train_loss", SPOT_GAUGE, "Of the newest committed step.", NULL,
          c->knows_loss ? (double)c->last_loss : NAN, NULL },
        { "spot_train_validation_loss", SPOT_GAUGE, "Of the validation data, when last computed.",
          NULL, c->validator.step >= 0 ? (double)c->validator.loss : NAN, NULL },
        { "spot_train_learning_rate", SPOT_GAUGE, "Of the step that is computed.", NULL,
          spot_trainer_lr(c), NULL },
        { "spot_train_grid", SPOT_GAUGE, size, "axis=\"D\"", c->form.D, NULL },
        { "spot_train_grid", SPOT_GAUGE, size, "axis=\"P\"", c->form.P, NULL },
        { "spot_train_grid", SPOT_GAUGE, size, "axis=\"M\"", c->form.M, NULL },
        { "spot_train_durable_step", SPOT_GAUGE, "Of the newest generation on disk.", NULL,
          durable >= 0 ? (double)durable : NAN, NULL },
        { "spot_train_durable_lag_seconds", SPOT_GAUGE,
          "Work that would be lost with all members now.", NULL, spot_trainer_lag_s(c), NULL },
    };

    spot_metric_put(metric, sizeof(metric) / sizeof(*metric), out);
    spot_trainer_verify_metrics(c, out);
}

void spot_trainer_publish(struct spot_trainer *c, bool is_last)
{
    const double made_s = spot_clock_s();
    struct spot_group_census census = { 0 };
    struct spot_buf *status, *metrics;

    if (!spot_meter_begin(c->meter, is_last, &status, &metrics))
        return;
    spot_group_status(c->group, &census, status);
    put_state(c, metrics);
    spot_meter_put(c->meter, (double)(c->config.global_batch * c->config.shape.seq), metrics);
    spot_group_metrics(c->group, &census, metrics);
    spot_meter_publish(c->meter, made_s);
}

int spot_trainer_open_meter(struct spot_trainer *c, struct spot_err *err)
{
    if (!c->options->metrics)
        return 0;
    c->meter = spot_meter_new(c->options->metrics, err);
    if (c->meter && c->options->note)
        c->options->note("page and metrics at %s", spot_meter_url(c->meter));
    return c->meter ? 0 : -1;
}
