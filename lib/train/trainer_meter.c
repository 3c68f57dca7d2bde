/* SPDX-License-Identifier: MIT */
/* Metrics of a training job: counts, its history, and both as documents. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/monitor.h"
#include "common/clock.h"
#include "common/metric.h"
#include "common/xalloc.h"
#include "model/report.h"
#include "train/history.h"
#include "train/job_page.h"
#include "train/trainer_state.h"

enum { CAUSES = SPOT_CAUSE_PLAN + 1 };

static const double history_every_s = 5; /* if not watched: it takes longer than the rest */

struct spot_trainer_meter {
    struct spot_monitor *monitor;
    struct spot_buf doc[SPOT_MONITOR_DOCS]; /* of the time before last, for their memory */
    struct spot_history history;
    double history_s;               /* when it was last written */
    uint32_t epoch;                 /* of the newest commit; 0: there was none */
    struct spot_group_counts known; /* when that epoch's first step committed */
    double usual_s;                 /* of a step that began no epoch, smoothed */
    struct spot_histogram step, pause[CAUSES];
    uint64_t n_commit, n_rollback, n_undone;
    double member_byte, store_byte; /* moved, by where they came from */
    size_t n_precopied;             /* of the form's, counted in member_byte */
};

/* --- what is counted --------------------------------------------------------------- */

/* As `report` names the pauses of a log. */
static enum spot_cause cause_since(const struct spot_group_counts *before,
                                   const struct spot_group_counts *now)
{
    return now->n_killed > before->n_killed     ? SPOT_CAUSE_KILL
           : now->n_noticed > before->n_noticed ? SPOT_CAUSE_NOTICE
           : now->n_joined > before->n_joined   ? SPOT_CAUSE_JOIN
                                                : SPOT_CAUSE_PLAN;
}

/* The first step of an epoch ends a pause: what it took longer than a usual one. */
static void count_pause(struct spot_trainer *c, double step_s)
{
    struct spot_trainer_meter *const t = c->meter;
    const struct spot_group_counts *const now = spot_group_counts(c->group);
    const enum spot_cause cause = cause_since(&t->known, now);
    const double pause_s = fmax(0, step_s - t->usual_s);

    t->known = *now;
    if (!t->epoch)
        return;
    spot_histogram_add(&t->pause[cause], pause_s);
    spot_history_add_pause(
        &t->history, &(struct spot_history_pause){ spot_journal_time(c->journal), pause_s,
                                                   c->machine->round + 1, spot_cause_name(cause) });
}

static void count_precopies(struct spot_trainer *c)
{
    struct spot_trainer_meter *const t = c->meter;

    for (; t->n_precopied < c->form.n_precopied; t->n_precopied++)
        t->member_byte +=
            (double)spot_trainer_bundle_byte(c, (int)c->form.precopy[t->n_precopied].bundle);
}

void spot_trainer_meter_step(struct spot_trainer *c, double step_s)
{
    struct spot_trainer_meter *const t = c->meter;

    if (!t)
        return;
    if (t->epoch != c->machine->epoch) {
        count_pause(c, step_s);
        step_s = t->usual_s;
    } else {
        spot_histogram_add(&t->step, step_s);
        t->usual_s = t->usual_s > 0 ? 0.8 * t->usual_s + 0.2 * step_s : step_s;
    }
    t->epoch = c->machine->epoch;
    t->n_commit++;
    count_precopies(c);
    spot_history_add(&t->history,
                     &(struct spot_history_point){
                         spot_journal_time(c->journal), c->machine->round + 1, (double)c->last_loss,
                         step_s, spot_group_members(c->group), spot_form_grid(&c->form) });
}

/* All members have what the epoch gave them. */
void spot_trainer_meter_formed(struct spot_trainer *c)
{
    struct spot_trainer_meter *const t = c->meter;

    for (size_t i = 0; t && i < c->form.n_transfer; i++) {
        const struct spot_transfer *const move = &c->form.transfer[i];
        const double byte = (double)spot_trainer_bundle_byte(c, (int)move->bundle);

        t->member_byte += move->origin == SPOT_FROM_MEMBER ? byte : 0;
        t->store_byte += move->origin == SPOT_FROM_STORE ? byte : 0;
    }
    if (t)
        t->n_precopied = c->form.n_precopied; /* held before */
}

void spot_trainer_meter_rolled_back(struct spot_trainer *c, int64_t n_step)
{
    if (!c->meter)
        return;
    c->meter->n_rollback++;
    c->meter->n_undone += (uint64_t)n_step;
}

/* --- the documents ----------------------------------------------------------------- */

static void put_pauses(const struct spot_trainer_meter *t, struct spot_buf *out)
{
    struct spot_metric metric[CAUSES];
    char label[CAUSES][24];

    for (int i = 0; i < CAUSES; i++) {
        snprintf(label[i], sizeof(label[i]), "cause=\"%s\"", spot_cause_name((enum spot_cause)i));
        metric[i] = (struct spot_metric){ "spot_train_pause_seconds",
                                          SPOT_HISTOGRAM,
                                          "From the last commit of an epoch to the first of the "
                                          "next, less the time of a usual step.",
                                          label[i],
                                          0,
                                          &t->pause[i] };
    }
    spot_metric_put(metric, CAUSES, out);
}

static void put_counts(const struct spot_trainer *c, struct spot_buf *out)
{
    static const char moved[] = "State that members got, before compression, by where from.";
    const struct spot_trainer_meter *const t = c->meter;
    const double token = (double)(c->config.global_batch * c->config.shape.seq);
    const struct spot_metric metric[] = {
        { "spot_train_steps_total", SPOT_COUNTER,
          "Steps committed since this coordinator began, those computed again included.", NULL,
          (double)t->n_commit, NULL },
        { "spot_train_tokens_total", SPOT_COUNTER, "Tokens of those steps.", NULL,
          (double)t->n_commit * token, NULL },
        { "spot_train_rollbacks_total", SPOT_COUNTER,
          "How often the last copy of a stage was lost, and the job went back.", NULL,
          (double)t->n_rollback, NULL },
        { "spot_train_steps_undone_total", SPOT_COUNTER, "Committed steps that it went back by.",
          NULL, (double)t->n_undone, NULL },
        { "spot_train_moved_bytes_total", SPOT_COUNTER, moved, "from=\"member\"", t->member_byte,
          NULL },
        { "spot_train_moved_bytes_total", SPOT_COUNTER, moved, "from=\"store\"", t->store_byte,
          NULL },
        { "spot_train_step_seconds", SPOT_HISTOGRAM, "Between two commits of one epoch.", NULL, 0,
          &t->step },
    };

    spot_metric_put(metric, sizeof(metric) / sizeof(*metric), out);
}

static void put_state(const struct spot_trainer *c, struct spot_buf *out)
{
    static const char size[] = "Grid of the epoch: D replicas of P stages of M workers.";
    const int64_t durable = spot_store_newest(c->store);
    const struct spot_metric metric[] = {
        { "spot_train_step", SPOT_GAUGE, "The newest committed step.", NULL,
          (double)c->machine->round, NULL },
        { "spot_train_target_step", SPOT_GAUGE, "The step at which the job is done.", NULL,
          (double)c->config.n_step, NULL },
        { "spot_train_loss", SPOT_GAUGE, "Of the newest committed step.", NULL,
          c->knows_loss ? (double)c->last_loss : NAN, NULL },
        { "spot_train_validation_loss", SPOT_GAUGE, "Of the validation data, when last computed.",
          NULL, c->val.step >= 0 ? (double)c->val.loss : NAN, NULL },
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
}

static void put_history(const struct spot_trainer_meter *t, struct spot_buf *out)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const memory = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    spot_jw_init(&jw, memory, false);
    spot_jw_object(&jw, NULL);
    spot_history_put(&t->history, &jw);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(memory);
    spot_buf_add(out, text, n);
    free(text);
}

void spot_trainer_publish(struct spot_trainer *c, bool is_last)
{
    struct spot_trainer_meter *const t = c->meter;
    const double now_s = spot_clock_s();
    struct spot_group_census census = { 0 };

    if (!t || (!is_last && !spot_monitor_is_due(t->monitor)))
        return;
    for (int i = 0; i < SPOT_MONITOR_DOCS; i++)
        t->doc[i].n = 0;
    spot_group_status(c->group, &census, &t->doc[SPOT_MONITOR_STATUS]);
    put_state(c, &t->doc[SPOT_MONITOR_METRICS]);
    put_counts(c, &t->doc[SPOT_MONITOR_METRICS]);
    put_pauses(t, &t->doc[SPOT_MONITOR_METRICS]);
    spot_group_metrics(c->group, &census, &t->doc[SPOT_MONITOR_METRICS]);
    if (spot_monitor_is_watched(t->monitor) || now_s - t->history_s >= history_every_s) {
        put_history(t, &t->doc[SPOT_MONITOR_HISTORY]);
        t->history_s = now_s;
    }
    (void)spot_monitor_publish(t->monitor, t->doc, now_s);
}

/* --- begin and end ------------------------------------------------------------------ */

int spot_trainer_open_meter(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_coordinator_options *const o = c->options;
    const struct spot_monitor_options options = { .address = o->metrics,
                                                  .page = spot_job_page_html,
                                                  .page_byte = spot_job_page_html_byte };

    if (!o->metrics)
        return 0;
    c->meter = spot_xcalloc(1, sizeof(*c->meter));
    c->meter->monitor = spot_monitor_new(&options, err);
    if (!c->meter->monitor)
        return -1;
    if (o->note)
        o->note("page and metrics at %s", spot_monitor_url(c->meter->monitor));
    return 0;
}

void spot_trainer_close_meter(struct spot_trainer *c)
{
    if (!c->meter)
        return;
    spot_monitor_free(c->meter->monitor);
    for (int i = 0; i < SPOT_MONITOR_DOCS; i++)
        spot_buf_release(&c->meter->doc[i]);
    free(c->meter);
}
