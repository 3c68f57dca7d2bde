/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L /* getc_unlocked */
#include "model/event.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "model/event_order.h"

#define KEY(key_, type_, member_, unit_, min_, max_, required_)                                    \
    {                                                                                              \
        .key = key_, .type = type_, .offset = offsetof(struct spot_event, member_), .unit = unit_, \
        .min = min_, .max = max_, .required = required_                                            \
    }

static const double count_max = 9007199254740992; /* 2^53: what JSON numbers hold exactly */
enum { GRID_MAX = 1 << 20 };

/* --- what each event tells ------------------------------------------------ */

static const struct spot_field any_field[] = {
    KEY("event", SPOT_F_STR, name, NULL, 0, 0, true),
    KEY("time_s", SPOT_F_REAL, time_s, "s", 0, 1e12, true),
    { 0 },
};

#define OF_A_JOB                                                 \
    KEY("epoch", SPOT_F_INT, epoch, "1", 0, 4294967295.0, true), \
        KEY("step", SPOT_F_INT, step, "1", 0, count_max, true)

#define OF_A_MEMBER OF_A_JOB, KEY("member", SPOT_F_INT, member, "1", 1, 4294967295.0, true)

static const struct spot_field joined_field[] = {
    OF_A_MEMBER,
    KEY("members", SPOT_F_INT, members, "1", 1, GRID_MAX, true),
    { 0 },
};

static const struct spot_field member_field[] = {
    OF_A_MEMBER,
    { 0 },
};

static const struct spot_field formed_field[] = {
    OF_A_JOB,
    KEY("D", SPOT_F_INT, grid.D, "1", 1, GRID_MAX, true),
    KEY("P", SPOT_F_INT, grid.P, "1", 1, GRID_MAX, true),
    KEY("M", SPOT_F_INT, grid.M, "1", 1, GRID_MAX, false),
    KEY("tokens", SPOT_F_STR, tokens, NULL, 0, 0, false),
    KEY("members", SPOT_F_INT, members, "1", 1, GRID_MAX, true),
    { 0 },
};

static const struct spot_field migrate_field[] = {
    OF_A_JOB,
    KEY("restored_byte", SPOT_F_INT, restored_byte, "byte", 0, count_max, true),
    { 0 },
};

static const struct spot_field committed_field[] = {
    OF_A_JOB,
    KEY("loss", SPOT_F_REAL, loss, "1", 0, 0, true),
    KEY("loss_hex", SPOT_F_STR, loss_hex, "hex", 8, 8, true),
    KEY("spent_usd", SPOT_F_REAL, spent_usd, "usd", 0, 1e15, false),
    { 0 },
};

static const struct spot_field rolled_back_field[] = {
    OF_A_JOB,
    KEY("from", SPOT_F_INT, from, "1", 0, count_max, true),
    KEY("to", SPOT_F_INT, to, "1", 0, count_max, true),
    { 0 },
};

static const struct spot_field restored_field[] = {
    OF_A_JOB,
    KEY("from", SPOT_F_INT, from, "1", 0, count_max, true),
    { 0 },
};

static const struct spot_field done_field[] = {
    OF_A_JOB,
    KEY("loss", SPOT_F_REAL, loss, "1", 0, 0, false),
    KEY("state_xxh3_128", SPOT_F_STR, state_hex, "hex", 32, 32, true),
    { 0 },
};

static const struct spot_field other_field[] = {
    OF_A_JOB,
    { 0 },
};

/* The kinds that tell something of a job; of others only any_field is read. A notice is of a job or
 * of a cloud. */
const struct spot_doc_part spot_event_part[] = {
    { "", any_field, true, 0, NULL },
    { "", joined_field, true, 0, "joined" },
    { "", formed_field, true, 0, "formed" },
    { "", migrate_field, true, 0, "migrate" },
    { "", committed_field, true, 0, "committed" },
    { "", rolled_back_field, true, 0, "rolled_back" },
    { "", restored_field, true, 0, "restored" },
    { "", done_field, true, 0, "done" },
    { "", other_field, true, 0, "resumed" },
    { "", member_field, true, 0, "left" },
    { "", member_field, true, 0, "lost" },
    { "", other_field, true, 0, "quiesce" },
    { "", other_field, true, 0, "step" },
    { "", other_field, true, 0, "durable" },
    { 0 },
};

static const struct spot_field *find_table(const char *name, const json_t *root)
{
    if (!strcmp(name, "notice") && json_object_get(root, "epoch"))
        return member_field;
    for (const struct spot_doc_part *p = spot_event_part; p->at; p++)
        if (p->when && !strcmp(name, p->when))
            return p->field;
    return NULL;
}

static int check_samples(const struct spot_json_doc *doc, struct spot_event *event,
                         struct spot_err *err)
{
    const json_t *const all = event->samples;

    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *const q = json_array_get(all, i);
        char at[48];

        if (json_is_integer(q) && json_integer_value(q) >= 0 &&
            (double)json_integer_value(q) <= count_max)
            continue;
        snprintf(at, sizeof(at), "/samples/%zu", i);
        return spot_json_fail(doc, at, err, "expected a sample number, an integer in [0, 2^53]");
    }
    return 0;
}

static int read_samples(const struct spot_json_doc *doc, struct spot_event *event,
                        struct spot_err *err)
{
    if (!event->step)
        return spot_json_fail(doc, "/step", err, "step 0 cannot be committed");
    return spot_json_array(doc, doc->root, "", "samples", true, SPOT_JSON_BYTE_MAX, &event->samples,
                           err) ||
                   check_samples(doc, event, err)
               ? -1
               : 0;
}

static int check_order(struct spot_event_log *log, const struct spot_event *event,
                       struct spot_err *err)
{
    char why[SPOT_ORDER_WHY];
    const char *const at = spot_event_order_take(log->order, event, why);

    return at ? spot_json_fail(&log->doc, at, err, "%s", why) : 0;
}

static int read_job_event(struct spot_event_log *log, const struct spot_field *table,
                          struct spot_event *event, struct spot_err *err)
{
    const struct spot_json_doc *const doc = &log->doc;

    if (spot_json_read_fields(doc, doc->root, "", table, event, err))
        return -1;
    if (event->time_s < log->time_s)
        return spot_json_fail(doc, "/time_s", err, "%g is before %g, the time of an event above",
                              event->time_s, log->time_s);
    log->time_s = event->time_s;
    event->is_job = true;
    event->who = json_string_value(json_object_get(doc->root, "name"));
    event->place = json_object_get(doc->root, "place");
    event->buddies = json_object_get(doc->root, "buddies");
    if (table == committed_field && read_samples(doc, event, err))
        return -1;
    return log->order ? check_order(log, event, err) : 0;
}

static int read_event(struct spot_event_log *log, struct spot_event *event, struct spot_err *err)
{
    const struct spot_json_doc *const doc = &log->doc;
    const struct spot_field *table;

    *event = (struct spot_event){ .grid.M = 1 };
    if (spot_json_expect_schema(doc, "spot.event", 1, err) ||
        spot_json_read_fields(doc, doc->root, "", any_field, event, err))
        return -1;
    table = find_table(event->name, doc->root);
    return table ? read_job_event(log, table, event, err) : 0;
}

/* --- lines ---------------------------------------------------------------- */

/* Returns 1 for a line, 0 at the end, -1 for one that is too long. */
static int read_line(struct spot_event_log *log)
{
    int c = 0;

    log->n_byte = 0;
    while (c != '\n' && (c = getc_unlocked(log->in)) != EOF) {
        if (log->n_byte > SPOT_JSON_BYTE_MAX)
            return -1;
        log->line = spot_xgrow(log->line, &log->cap, log->n_byte + 1, 1);
        log->line[log->n_byte++] = (char)c;
    }
    if (log->hash)
        spot_hash_stream_add(log->hash, log->line, log->n_byte);
    return log->n_byte && (c == '\n' || !log->drops_cut);
}

static bool is_blank(const struct spot_event_log *log)
{
    size_t n = 0;

    while (n < log->n_byte && log->line[n] && strchr(" \t\r\n", log->line[n]))
        n++;
    return n == log->n_byte;
}

int spot_event_next(struct spot_event_log *log, struct spot_event *event, struct spot_err *err)
{
    const int got = read_line(log);
    size_t text_byte;

    spot_json_release(&log->doc);
    if (ferror(log->in))
        return spot_err_sys(err, "cannot read '%s'", log->source);
    if (!got)
        return 0;
    log->number++;
    if (got < 0)
        return spot_err_set(err, SPOT_EDATA, "%s:%lu: expected an event, the line exceeds %d MiB",
                            log->source, log->number, SPOT_JSON_BYTE_MAX >> 20);
    if (is_blank(log))
        return spot_err_set(err, SPOT_EDATA, "%s:%lu:1: expected an event, got an empty line",
                            log->source, log->number);
    text_byte = log->n_byte - (log->line[log->n_byte - 1] == '\n');
    if (spot_json_parse_line(&log->doc, log->line, text_byte, log->source, log->number, err) ||
        read_event(log, event, err))
        return -1;
    log->end_byte += log->n_byte;
    return 1;
}

void spot_event_log_release(struct spot_event_log *log)
{
    spot_json_release(&log->doc);
    free(log->line);
    log->line = NULL;
}
