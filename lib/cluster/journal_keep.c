/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* open_memstream, fmemopen */
#include "cluster/journal_keep.h"

#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/journal_state.h"
#include "common/clock.h"
#include "common/xalloc.h"

/* Limits in a record; if there are more holders, `others` is added. */
enum { HOLDERS_BYTE = 1536, CONVICTED_BYTE = 768 };

static const char others[] = "?"; /* stands for further holders; no member can have this name */

/* --- the record -------------------------------------------------------------------------- */

static const struct spot_field record_field[] = {
    { "time_s", SPOT_F_REAL, offsetof(struct spot_journal_record, time_s), "s", 0, 1e12, true },
    { "epoch", SPOT_F_INT, offsetof(struct spot_journal_record, epoch), "1", 0, UINT32_MAX, true },
    { "step", SPOT_F_INT, offsetof(struct spot_journal_record, step), "1", -1, 1e15, true },
    { "loss", SPOT_F_REAL, offsetof(struct spot_journal_record, loss), "1", 0, 0, false },
    { "chain", SPOT_F_STR, offsetof(struct spot_journal_record, chain), NULL, 0, 0, false },
    { "chain_before", SPOT_F_STR, offsetof(struct spot_journal_record, chain_before), NULL, 0, 0,
      false },
    { "val_step", SPOT_F_INT, offsetof(struct spot_journal_record, val_step), "1", -1, 1e15,
      false },
    { "val_loss", SPOT_F_REAL, offsetof(struct spot_journal_record, val_loss), "1", 0, 0, false },
    { "tuned_after", SPOT_F_INT, offsetof(struct spot_journal_record, tuned_after), "1", -1, 1e15,
      false },
    { "end", SPOT_F_STR, offsetof(struct spot_journal_record, end), NULL, 0, 0, false },
    { "state_xxh3_128", SPOT_F_STR, offsetof(struct spot_journal_record, state_hex), NULL, 0, 0,
      false },
    { "line", SPOT_F_STR, offsetof(struct spot_journal_record, line), NULL, 0, 0, false },
    { 0 },
};

int spot_journal_record_read(struct spot_journal_record *r, const char *text, struct spot_err *err)
{
    memset(r, 0, sizeof(*r));
    r->val_step = r->tuned_after = -1;
    r->loss = r->val_loss = NAN;
    r->end = r->state_hex = r->chain = r->chain_before = "";
    if (spot_json_parse(&r->doc, text, strlen(text), "the record of the job", err))
        return -1;
    if (spot_json_read_fields(&r->doc, r->doc.root, "", record_field, r, err) ||
        spot_json_array(&r->doc, r->doc.root, "", "holders", false, SPOT_JOURNAL_RECORD_MAX,
                        &r->holder, err) ||
        spot_json_array(&r->doc, r->doc.root, "", "convicted", false, SPOT_JOURNAL_RECORD_MAX,
                        &r->convicted, err)) {
        spot_journal_record_release(r);
        return -1;
    }
    return 0;
}

void spot_journal_record_release(struct spot_journal_record *r)
{
    if (r->doc.root)
        spot_json_release(&r->doc);
    memset(r, 0, sizeof(*r));
}

/* Writes as many of the newest convictions as fit. */
static void put_convicted(const struct spot_journal *j, struct spot_jw *jw)
{
    size_t n_byte = 0;

    if (!j->n_convicted)
        return;
    spot_jw_array(jw, "convicted");
    for (size_t i = j->n_convicted; i-- > 0;) {
        n_byte += 2 * strlen(j->convicted[i]) + 3;
        if (n_byte > CONVICTED_BYTE)
            break;
        spot_jw_str(jw, NULL, j->convicted[i]);
    }
    spot_jw_end(jw);
}

static void put_holders(const struct spot_journal *j, struct spot_jw *jw)
{
    size_t n_byte = 0;

    spot_jw_array(jw, "holders");
    for (size_t i = 0; i < j->n_holder; i++) {
        n_byte += 2 * strlen(j->holder[i]) + 3; /* the maximum size after escaping */
        spot_jw_str(jw, NULL, n_byte > HOLDERS_BYTE ? others : j->holder[i]);
        if (n_byte > HOLDERS_BYTE)
            break;
    }
    spot_jw_end(jw);
}

/* The record of the journal's present state with `line` (NULL: none) as its last event. The caller
 * frees it. */
static char *record_text(const struct spot_journal *j, const char *line)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const out = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_real(&jw, "time_s", fmax(j->tail.time_s, 0));
    spot_jw_int(&jw, "epoch", j->tail.epoch);
    spot_jw_int(&jw, "step", j->tail.step);
    spot_jw_known(&jw, "loss", j->loss);
    if (*j->chain)
        spot_jw_str(&jw, "chain", j->chain);
    if (*j->chain_before)
        spot_jw_str(&jw, "chain_before", j->chain_before);
    if (j->val_step >= 0) {
        spot_jw_int(&jw, "val_step", j->val_step);
        spot_jw_known(&jw, "val_loss", j->val_loss);
    }
    if (j->tuned_after >= 0)
        spot_jw_int(&jw, "tuned_after", j->tuned_after);
    if (*j->kept_end)
        spot_jw_str(&jw, "end", j->kept_end);
    if (j->done_step >= 0)
        spot_jw_str(&jw, "state_xxh3_128", j->done_hex);
    put_holders(j, &jw);
    put_convicted(j, &jw);
    if (line)
        spot_jw_str(&jw, "line", line);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    if (n)
        text[strcspn(text, "\n")] = '\0';
    return text;
}

static int put_record(struct spot_journal *j, const char *line, struct spot_err *err)
{
    char *text = record_text(j, line);
    int rc;

    if (strlen(text) > SPOT_JOURNAL_RECORD_MAX) {
        free(text);
        text = record_text(j, NULL);
    }
    rc = j->keep->put(j->keep->user, text, err);
    free(text);
    return rc;
}

/* --- an event that is kept -------------------------------------------------------------------- */

bool spot_journal_is_kept(const struct spot_journal *j, const char *event)
{
    static const char *const kept[] = { "committed",  "formed",   "resumed",   "rolled_back",
                                        "corrupt",    "restored", "validated", "done",
                                        "lr_changed", "failed",   "finished",  "given_up" };

    for (size_t i = 0; j->keep && i < sizeof(kept) / sizeof(*kept); i++)
        if (!strcmp(event, kept[i]))
            return true;
    return false;
}

static const char *end_of(const char *event)
{
    static const char *const end[] = { SPOT_JOB_DONE, SPOT_JOB_FINISHED, SPOT_JOB_GIVEN_UP };

    for (size_t i = 0; i < sizeof(end) / sizeof(*end); i++)
        if (!strcmp(event, end[i]))
            return end[i];
    return "";
}

FILE *spot_journal_kept_begin(struct spot_journal *j, const char *event)
{
    j->kept = spot_xmemory_open(&j->kept_line, &j->n_kept_line);
    j->kept_end = end_of(event);
    return j->kept;
}

/* The event of a line. Returns 0 if it is one. */
static int take_line(struct spot_journal *j, char *line, size_t n)
{
    struct spot_event_log log = { .source = "an event", .in = fmemopen(line, n, "r") };
    struct spot_event event;
    int rc = -1;

    if (!log.in)
        return -1;
    if (spot_event_next(&log, &event, NULL) > 0) {
        spot_journal_take(j, &event);
        rc = 0;
    }
    spot_event_log_release(&log);
    fclose(log.in);
    return rc;
}

static int write_line(const struct spot_journal *j, const char *line, struct spot_err *err)
{
    if (!j->out || (fputs(line, j->out) >= 0 && putc('\n', j->out) != EOF && !fflush(j->out)))
        return 0;
    spot_err_sys(err, "cannot write the events");
    __fpurge(j->out); /* otherwise closing would retry the write */
    return -1;
}

int spot_journal_kept_end(struct spot_journal *j, struct spot_err *err)
{
    int rc = spot_event_end(&j->jw, err);

    spot_xmemory_close(j->kept);
    j->kept = NULL;
    if (!rc && take_line(j, j->kept_line, j->n_kept_line))
        rc = spot_err_set(err, SPOT_EDATA, "an event cannot be read again: %.300s", j->kept_line);
    if (!rc) {
        j->kept_line[strcspn(j->kept_line, "\n")] = '\0';
        rc = put_record(j, j->kept_line, err) || write_line(j, j->kept_line, err) ? -1 : 0;
    }
    free(j->kept_line);
    j->kept_line = NULL;
    return rc;
}

int spot_journal_keep_end(struct spot_journal *j, const char *end, struct spot_err *err)
{
    if (!j->keep)
        return 0;
    j->kept_end = end;
    return put_record(j, NULL, err);
}

/* --- continuing from a record --- */

/* True if the record's line is missing in this log, and the log ends right before it, in the same
 * epoch. */
static bool is_missing(const struct spot_journal *j, const struct spot_event *e)
{
    const bool is_step = e->kind == SPOT_EVENT_COMMITTED;

    return (is_step || e->kind == SPOT_EVENT_VALIDATED || e->kind == SPOT_EVENT_DONE) &&
           e->epoch == j->tail.epoch && e->time_s > j->tail.time_s &&
           e->step == j->tail.step + is_step;
}

static int add_missing(struct spot_journal *j, const char *line, struct spot_err *err)
{
    struct spot_event_log log = { .source = "the record of the job" };
    struct spot_event event;
    int rc = 0;

    if (!j->out || !j->is_continued || !line || !*line)
        return 0;
    log.in = fmemopen((void *)(uintptr_t)line, strlen(line), "r");
    if (!log.in)
        return spot_err_sys(err, "cannot read the record of the job");
    if (spot_event_next(&log, &event, err) > 0 && event.is_job && is_missing(j, &event)) {
        rc = write_line(j, line, err);
        spot_journal_take(j, &event);
    }
    spot_event_log_release(&log);
    fclose(log.in);
    return rc;
}

static void take_record(struct spot_journal *j, const struct spot_journal_record *r)
{
    const struct spot_json_value *name;
    size_t i;

    j->tail.time_s = fmax(j->tail.time_s, r->time_s);
    j->tail.epoch = r->epoch > j->tail.epoch ? (uint32_t)r->epoch : j->tail.epoch;
    j->tuned_after = r->tuned_after > j->tuned_after ? r->tuned_after : j->tuned_after;
    j->is_continued |= r->epoch > 0 || r->step >= 0;
    spot_json_array_foreach(r->convicted, i, name)
    {
        if (spot_json_is_string(name))
            spot_journal_convict(j, spot_json_text(name));
    }
    if (r->step < j->tail.step)
        return; /* the job was rolled back; the workload determines that itself */
    j->tail.step = r->step;
    j->loss = r->loss;
    snprintf(j->chain, sizeof(j->chain), "%s", r->chain);
    snprintf(j->chain_before, sizeof(j->chain_before), "%s", r->chain_before);
    j->val_step = r->val_step;
    j->val_loss = r->val_loss;
    j->done_step = *r->state_hex ? r->step : -1;
    snprintf(j->done_hex, sizeof(j->done_hex), "%s", r->state_hex);
    j->n_holder = 0;
    spot_json_array_foreach(r->holder, i, name)
    {
        if (spot_json_is_string(name))
            spot_journal_add_holder(j, spot_json_text(name));
    }
}

int spot_journal_keep(struct spot_journal *j, const struct spot_journal_keep *keep,
                      const struct spot_journal_record *before, int64_t *step, uint32_t *epoch,
                      struct spot_err *err)
{
    if (before && add_missing(j, before->line, err))
        return -1;
    if (before)
        take_record(j, before);
    j->keep = keep;
    j->start_s = spot_clock_s() - j->tail.time_s;
    *step = j->tail.step;
    *epoch = j->tail.epoch;
    return put_record(j, NULL, err);
}
