/* SPDX-License-Identifier: MIT */
#include "train/meter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/monitor.h"
#include "common/metric.h"
#include "common/xalloc.h"
#include "model/report.h"
#include "train/job_page.h"

enum { CAUSES = SPOT_CAUSE_PLAN + 1 };

static const double history_every_s = 5; /* if nobody watches, since it takes longer */

struct spot_meter {
    struct spot_monitor *monitor;
    /* documents that are no longer in use; their memory is reused */
    struct spot_buf doc[SPOT_MONITOR_DOCS];
    struct spot_history history;
    double history_s;               /* time at which it was last written */
    uint32_t epoch;                 /* epoch of the newest commit; 0: there was none */
    struct spot_group_counts known; /* counts when that epoch's first step committed */
    double usual_s;                 /* smoothed time of steps other than the first of an epoch */
    struct spot_histogram step, pause[CAUSES];
    uint64_t n_commit, n_rollback, n_undone;
    double member_byte, store_byte; /* moved bytes by origin */
};

/* --- counts --------------------------------------------------------------- */

/* The cause of a pause, as named by `report`. */
static enum spot_cause cause_since(const struct spot_group_counts *before,
                                   const struct spot_group_counts *now)
{
    return now->n_killed > before->n_killed     ? SPOT_CAUSE_KILL
           : now->n_noticed > before->n_noticed ? SPOT_CAUSE_NOTICE
           : now->n_joined > before->n_joined   ? SPOT_CAUSE_JOIN
                                                : SPOT_CAUSE_PLAN;
}

static void count_pause(struct spot_meter *m, const struct spot_group_counts *now,
                        const struct spot_history_point *at)
{
    const enum spot_cause cause = cause_since(&m->known, now);
    const double pause_s = fmax(0, at->step_s - m->usual_s);

    m->known = *now;
    if (!m->epoch)
        return;
    spot_histogram_add(&m->pause[cause], pause_s);
    spot_history_add_pause(&m->history, &(struct spot_history_pause){ at->time_s, pause_s, at->step,
                                                                      spot_cause_name(cause) });
}

void spot_meter_step(struct spot_meter *m, uint32_t epoch, const struct spot_group_counts *counts,
                     const struct spot_history_point *at)
{
    struct spot_history_point point = *at;

    if (!m)
        return;
    if (m->epoch != epoch) {
        count_pause(m, counts, at);
        point.step_s = m->usual_s;
    } else {
        spot_histogram_add(&m->step, at->step_s);
        m->usual_s = m->usual_s > 0 ? 0.8 * m->usual_s + 0.2 * at->step_s : at->step_s;
    }
    m->epoch = epoch;
    m->n_commit++;
    spot_history_add(&m->history, &point);
}

void spot_meter_moved(struct spot_meter *m, bool from_store, double byte)
{
    if (m)
        *(from_store ? &m->store_byte : &m->member_byte) += byte;
}

void spot_meter_rolled_back(struct spot_meter *m, int64_t n_step)
{
    if (!m)
        return;
    m->n_rollback++;
    m->n_undone += (uint64_t)n_step;
}

/* --- the documents ----------------------------------------------------------------- */

static void put_pauses(const struct spot_meter *m, struct spot_buf *out)
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
                                          &m->pause[i] };
    }
    spot_metric_put(metric, CAUSES, out);
}

void spot_meter_put(const struct spot_meter *m, double token, struct spot_buf *out)
{
    static const char moved[] = "State that members got, before compression, by where from.";
    const struct spot_metric metric[] = {
        { "spot_train_steps_total", SPOT_COUNTER,
          "Steps committed since this coordinator began, those computed again included.", NULL,
          (double)m->n_commit, NULL },
        { "spot_train_tokens_total", SPOT_COUNTER, "Tokens of those steps.", NULL,
          (double)m->n_commit * token, NULL },
        { "spot_train_rollbacks_total", SPOT_COUNTER,
          "How often the last copy of a stage was lost, and the job went back.", NULL,
          (double)m->n_rollback, NULL },
        { "spot_train_steps_undone_total", SPOT_COUNTER, "Committed steps that it went back by.",
          NULL, (double)m->n_undone, NULL },
        { "spot_train_moved_bytes_total", SPOT_COUNTER, moved, "from=\"member\"", m->member_byte,
          NULL },
        { "spot_train_moved_bytes_total", SPOT_COUNTER, moved, "from=\"store\"", m->store_byte,
          NULL },
        { "spot_train_step_seconds", SPOT_HISTOGRAM, "Between two commits of one epoch.", NULL, 0,
          &m->step },
    };

    spot_metric_put(metric, sizeof(metric) / sizeof(*metric), out);
    put_pauses(m, out);
}

static void put_history(const struct spot_meter *m, struct spot_buf *out)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const memory = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    spot_jw_init(&jw, memory, false);
    spot_jw_object(&jw, NULL);
    spot_history_put(&m->history, &jw);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(memory);
    spot_buf_add(out, text, n);
    free(text);
}

bool spot_meter_begin(struct spot_meter *m, bool is_last, struct spot_buf **status,
                      struct spot_buf **metrics)
{
    if (!m || (!is_last && !spot_monitor_is_due(m->monitor)))
        return false;
    for (int i = 0; i < SPOT_MONITOR_DOCS; i++)
        m->doc[i].n = 0;
    *status = &m->doc[SPOT_MONITOR_STATUS];
    *metrics = &m->doc[SPOT_MONITOR_METRICS];
    return true;
}

void spot_meter_publish(struct spot_meter *m, double made_s)
{
    if (spot_monitor_is_watched(m->monitor) || made_s - m->history_s >= history_every_s) {
        put_history(m, &m->doc[SPOT_MONITOR_HISTORY]);
        m->history_s = made_s;
    }
    (void)spot_monitor_publish(m->monitor, m->doc, made_s);
}

/* --- begin and end ------------------------------------------------------------------ */

struct spot_meter *spot_meter_new(const char *address, struct spot_err *err)
{
    const struct spot_monitor_options options = { .address = address,
                                                  .page = spot_job_page_html,
                                                  .page_byte = spot_job_page_html_byte };
    struct spot_meter *const m = spot_xcalloc(1, sizeof(*m));

    m->monitor = spot_monitor_new(&options, err);
    if (m->monitor)
        return m;
    free(m);
    return NULL;
}

void spot_meter_free(struct spot_meter *m)
{
    if (!m)
        return;
    spot_monitor_free(m->monitor);
    for (int i = 0; i < SPOT_MONITOR_DOCS; i++)
        spot_buf_release(&m->doc[i]);
    free(m);
}

const char *spot_meter_url(const struct spot_meter *m)
{
    return spot_monitor_url(m->monitor);
}
