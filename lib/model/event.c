/* SPDX-License-Identifier: MIT */
#include "model/event.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/histogram.h"
#include "common/num.h"
#include "common/xalloc.h"
#include "model/event_order.h"
#include "model/shape.h"

#define KEY(key_, type_, member_, unit_, min_, max_, required_)                                    \
    {                                                                                              \
        .key = key_, .type = type_, .offset = offsetof(struct spot_event, member_), .unit = unit_, \
        .min = min_, .max = max_, .required = required_                                            \
    }

static const double count_max = 9007199254740992; /* 2^53: what JSON numbers hold exactly */
enum { GRID_MAX = 1 << 20, VIEW_MAX = 1 << 16 };

/* --- fields of each event --- */

static const struct spot_field any_field[] = {
    KEY("event", SPOT_F_STR, name, NULL, 0, 0, true),
    KEY("time_s", SPOT_F_REAL, time_s, "s", 0, 1e12, true),
    { 0 },
};

#define OF_A_JOB                                                 \
    KEY("epoch", SPOT_F_INT, epoch, "1", 0, 4294967295.0, true), \
        KEY("step", SPOT_F_INT, step, "1", 0, count_max, true)

#define OF_A_VIEW OF_A_JOB, KEY("view", SPOT_F_INT, view, "1", 0, VIEW_MAX, false)

#define OF_A_MEMBER                                                           \
    OF_A_VIEW, KEY("member", SPOT_F_INT, member, "1", 1, 4294967295.0, true), \
        KEY("name", SPOT_F_STR, who, NULL, 0, 0, false)

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
    OF_A_VIEW,
    KEY("model", SPOT_F_STR, model, NULL, 0, 0, false),
    KEY("D", SPOT_F_INT, grid.D, "1", 1, GRID_MAX, true),
    KEY("P", SPOT_F_INT, grid.P, "1", 1, GRID_MAX, true),
    KEY("M", SPOT_F_INT, grid.M, "1", 1, GRID_MAX, false),
    KEY("tokens", SPOT_F_STR, tokens, NULL, 0, 0, false),
    KEY("members", SPOT_F_INT, members, "1", 1, GRID_MAX, true),
    KEY("relayed_byte", SPOT_F_INT, relayed_byte, "byte", 0, count_max, false),
    KEY("restart", SPOT_F_INT, restart, "1", 0, 4294967295.0, false),
    KEY("world", SPOT_F_INT, world, "1", 1, GRID_MAX, false),
    KEY("kept", SPOT_F_BOOL, is_kept, NULL, 0, 0, false),
    { 0 },
};

static const struct spot_field migrate_field[] = {
    OF_A_JOB,
    KEY("moved_byte", SPOT_F_INT, moved_byte, "byte", 0, count_max, false),
    KEY("restored_byte", SPOT_F_INT, restored_byte, "byte", 0, count_max, true),
    { 0 },
};

static const struct spot_field committed_field[] = {
    OF_A_JOB,
    KEY("loss", SPOT_F_REAL, loss, "1", 0, 0, true),
    KEY("loss_hex", SPOT_F_STR, loss_hex, "hex", 8, 8, true),
    KEY("chain", SPOT_F_STR, evidence.chain, "hex", 32, 32, false),
    KEY("anew", SPOT_F_BOOL, evidence.is_anew, NULL, 0, 0, false),
    KEY("samples_xxh3", SPOT_F_STR, evidence.samples_hex, "hex", 16, 16, false),
    KEY("parameters_xxh3", SPOT_F_STR, evidence.parameters_hex, "hex", 16, 16, false),
    KEY("lr", SPOT_F_REAL, lr, "1", 0, 1e9, false),
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

static const struct spot_field validated_field[] = {
    OF_A_JOB,
    KEY("loss", SPOT_F_REAL, loss, "1", 0, 0, true),
    KEY("loss_hex", SPOT_F_STR, loss_hex, "hex", 8, 8, true),
    { 0 },
};

static const struct spot_field lr_changed_field[] = {
    OF_A_JOB,
    KEY("after", SPOT_F_INT, after, "1", 0, count_max, true),
    KEY("lr", SPOT_F_REAL, lr, "1", 0, 1e9, true),
    KEY("lr_schedule", SPOT_F_STR, lr_schedule, NULL, 0, 0, true),
    { 0 },
};

static const struct spot_field other_field[] = {
    OF_A_JOB,
    { 0 },
};

static const struct spot_field durable_field[] = {
    OF_A_JOB,
    KEY("where", SPOT_F_STR, where, NULL, 0, 0, true),
    KEY("lag_s", SPOT_F_REAL, lag_s, "s", 0, 1e12, false),
    KEY("moved_byte", SPOT_F_INT, moved_byte, "byte", 0, count_max, false),
    { 0 },
};

#define OF_AN_ANSWER                                                              \
    KEY("request", SPOT_F_STR, fault.request, NULL, 0, 0, false),                 \
        KEY("choice", SPOT_F_INT, fault.choice, "1", 0, GRID_MAX, false),         \
        KEY("position", SPOT_F_INT, fault.position, "1", 0, 4294967295.0, false), \
        KEY("told", SPOT_F_BOOL, fault.was_told, NULL, 0, 0, false)

static const struct spot_field differs_field[] = {
    OF_A_JOB,
    KEY("stage", SPOT_F_INT, fault.stage, "1", 0, GRID_MAX, false),
    KEY("microbatch", SPOT_F_INT, fault.microbatch, "1", 0, GRID_MAX, false),
    OF_AN_ANSWER,
    { 0 },
};

static const struct spot_field corrupt_field[] = {
    OF_A_MEMBER,
    KEY("what", SPOT_F_STR, fault.what, NULL, 0, 0, true),
    KEY("stage", SPOT_F_INT, fault.stage, "1", 0, GRID_MAX, false),
    KEY("tensor", SPOT_F_STR, fault.tensor, NULL, 0, 0, false),
    OF_AN_ANSWER,
    { 0 },
};

static const struct spot_field quiesce_field[] = {
    OF_A_VIEW,
    { 0 },
};

static const struct spot_field serving_field[] = {
    OF_A_JOB,
    KEY("model", SPOT_F_STR, model, NULL, 0, 0, true),
    { 0 },
};

static const struct spot_field request_field[] = {
    OF_A_JOB,
    KEY("came_s", SPOT_F_REAL, came_s, "s", 0, 1e12, true),
    KEY("queue_s", SPOT_F_REAL, queue_s, "s", 0, 1e12, false),
    KEY("ttft_s", SPOT_F_REAL, ttft_s, "s", 0, 1e12, false),
    KEY("e2e_s", SPOT_F_REAL, e2e_s, "s", 0, 1e12, true),
    KEY("id", SPOT_F_STR, who, NULL, 0, 0, true),
    KEY("finish", SPOT_F_STR, finish, NULL, 0, 0, true),
    KEY("prompt_tokens", SPOT_F_INT, prompt_tokens, "1", 0, count_max, true),
    KEY("output_tokens", SPOT_F_INT, output_tokens, "1", 0, count_max, true),
    KEY("cached_tokens", SPOT_F_INT, cached_tokens, "1", 0, count_max, false),
    KEY("choices", SPOT_F_INT, choices, "1", 1, GRID_MAX, true),
    KEY("prompts", SPOT_F_INT, prompts, "1", 1, GRID_MAX, false),
    KEY("resumed", SPOT_F_BOOL, is_resumed, NULL, 0, 0, false),
    { 0 },
};

static const struct spot_field token_field[] = {
    OF_A_JOB,
    KEY("requests", SPOT_F_INT, requests, "1", 0, count_max, true),
    KEY("refused", SPOT_F_INT, refused, "1", 0, count_max, true),
    KEY("output_tokens", SPOT_F_INT, output_tokens, "1", 0, count_max, true),
    KEY("interval_s", SPOT_F_REAL, interval_s, "s", 0, 1e12, true),
    KEY("running", SPOT_F_REAL, running, "1", 0, count_max, true),
    KEY("queued", SPOT_F_REAL, queued, "1", 0, count_max, true),
    KEY("replicas", SPOT_F_INT, replicas, "1", 0, GRID_MAX, true),
    KEY("moves", SPOT_F_INT, moves, "1", 0, count_max, true),
    KEY("again_tokens", SPOT_F_INT, again_tokens, "1", 0, count_max, true),
    KEY("paged_tokens", SPOT_F_INT, paged_tokens, "1", 0, count_max, true),
    { 0 },
};

/* --- events of a foreign command --- */

static const struct spot_field exec_field[] = {
    OF_A_JOB,
    KEY("ranks", SPOT_F_INT, n_rank, "1", 1, GRID_MAX, true),
    KEY("nodes_min", SPOT_F_INT, n_min, "1", 1, GRID_MAX, true),
    KEY("nodes_max", SPOT_F_INT, n_max, "1", 1, GRID_MAX, true),
    { 0 },
};

static const struct spot_field state_committed_field[] = {
    OF_A_JOB,
    KEY("restart", SPOT_F_INT, restart, "1", 0, 4294967295.0, true),
    KEY("nodes", SPOT_F_INT, nodes, "1", 1, GRID_MAX, true),
    KEY("byte", SPOT_F_INT, n_byte, "byte", 0, count_max, true),
    { 0 },
};

static const struct spot_field state_restored_field[] = {
    OF_A_JOB,
    KEY("restart", SPOT_F_INT, restart, "1", 0, 4294967295.0, true),
    KEY("nodes", SPOT_F_INT, nodes, "1", 1, GRID_MAX, true),
    KEY("from", SPOT_F_INT, from, "1", 0, count_max, false),
    { 0 },
};

static const struct spot_field failed_field[] = {
    OF_A_JOB,
    KEY("name", SPOT_F_STR, who, NULL, 0, 0, true),
    KEY("rank", SPOT_F_INT, rank, "1", 0, 4294967295.0, true),
    KEY("status", SPOT_F_INT, status, "1", 0, 255, false),
    KEY("signal", SPOT_F_INT, signal, "1", 1, 128, false),
    KEY("failures", SPOT_F_INT, failures, "1", 1, 4294967295.0, true),
    { 0 },
};

static const struct spot_field ledger_field[] = {
    OF_A_JOB,
    KEY("dataset_size", SPOT_F_INT, dataset_size, "1", 1, count_max, true),
    KEY("global_batch", SPOT_F_INT, global_batch, "1", 1, count_max, true),
    KEY("seed", SPOT_F_INT, seed, "1", 0, count_max, true),
    KEY("rest", SPOT_F_STR, rest, NULL, 0, 0, true),
    KEY("order", SPOT_F_STR, order, NULL, 0, 0, true),
    { 0 },
};

static const struct spot_field ended_field[] = {
    OF_A_JOB,
    KEY("started", SPOT_F_INT, started, "1", 0, 4294967295.0, true),
    KEY("failures", SPOT_F_INT, failures, "1", 0, 4294967295.0, true),
    { 0 },
};

const struct spot_doc_part spot_event_part[] = {
    [SPOT_EVENT_ANY] = { "", any_field, true, 0, NULL },
    [SPOT_EVENT_JOINED] = { "", joined_field, true, 0, "joined" },
    [SPOT_EVENT_FORMED] = { "", formed_field, true, 0, "formed" },
    [SPOT_EVENT_MIGRATE] = { "", migrate_field, true, 0, "migrate" },
    [SPOT_EVENT_COMMITTED] = { "", committed_field, true, 0, "committed" },
    [SPOT_EVENT_ROLLED_BACK] = { "", rolled_back_field, true, 0, "rolled_back" },
    [SPOT_EVENT_RESTORED] = { "", restored_field, true, 0, "restored" },
    [SPOT_EVENT_DONE] = { "", done_field, true, 0, "done" },
    [SPOT_EVENT_LR_CHANGED] = { "", lr_changed_field, true, 0, "lr_changed" },
    [SPOT_EVENT_VALIDATED] = { "", validated_field, true, 0, "validated" },
    [SPOT_EVENT_RESUMED] = { "", other_field, true, 0, "resumed" },
    [SPOT_EVENT_NOTICE] = { "epoch", member_field, true, 0, "notice" },
    [SPOT_EVENT_LEFT] = { "", member_field, true, 0, "left" },
    [SPOT_EVENT_LOST] = { "", member_field, true, 0, "lost" },
    [SPOT_EVENT_QUIESCE] = { "", quiesce_field, true, 0, "quiesce" },
    [SPOT_EVENT_STEP] = { "", other_field, true, 0, "step" },
    [SPOT_EVENT_DURABLE] = { "", durable_field, true, 0, "durable" },
    [SPOT_EVENT_DIFFERS] = { "", differs_field, true, 0, "differs" },
    [SPOT_EVENT_CORRUPT] = { "", corrupt_field, true, 0, "corrupt" },
    [SPOT_EVENT_SERVING] = { "", serving_field, true, 0, "serving" },
    [SPOT_EVENT_REQUEST] = { "", request_field, true, 0, "request" },
    [SPOT_EVENT_TOKEN] = { "", token_field, true, 0, "token" },
    [SPOT_EVENT_EXEC] = { "", exec_field, true, 0, "exec" },
    [SPOT_EVENT_STATE_COMMITTED] = { "restart", state_committed_field, true, 0, "committed" },
    [SPOT_EVENT_STATE_RESTORED] = { "restart", state_restored_field, true, 0, "restored" },
    [SPOT_EVENT_FAILED] = { "", failed_field, true, 0, "failed" },
    [SPOT_EVENT_LEDGER] = { "", ledger_field, true, 0, "ledger" },
    [SPOT_EVENT_FINISHED] = { "", ended_field, true, 0, "finished" },
    [SPOT_EVENT_GIVEN_UP] = { "", ended_field, true, 0, "given_up" },
    [SPOT_EVENT_KINDS] = { 0 },
};

/* The state of a command has no loss and no samples. `restart` marks its events, so kinds with that
 * key come before kinds of the same name without it. */
static enum spot_event_kind find_kind(const struct spot_event_log *log, const char *name)
{
    for (int k = SPOT_EVENT_KINDS - 1; k > SPOT_EVENT_ANY; k--) {
        const struct spot_doc_part *const p = &spot_event_part[k];
        const bool may_lack = !*p->at || (log->is_partial && k < SPOT_EVENT_EXEC);

        if (!strcmp(name, p->when) && (may_lack || spot_json_get(log->doc.root, p->at)))
            return (enum spot_event_kind)k;
    }
    return SPOT_EVENT_ANY;
}

/* Check that all entries of an array are integers in [0, 2^53]. */
static int check_counts(const struct spot_json_doc *doc, const struct spot_json_value *all,
                        const char *key, const char *what, struct spot_err *err)
{
    for (size_t i = 0; i < spot_json_array_size(all); i++) {
        const struct spot_json_value *const q = spot_json_entry(all, i);
        char at[48];

        if (spot_json_is_integer(q) && spot_json_integer(q) >= 0 &&
            spot_num_compare_whole(spot_json_integer(q), count_max) <= 0)
            continue;
        snprintf(at, sizeof(at), "/%s/%zu", key, i);
        return spot_json_fail(doc, at, err, "expected a %s, an integer in [0, 2^53]", what);
    }
    return 0;
}

/* Texts, one for each bundle of a model; NULL if there are none. */
static int read_texts(const struct spot_json_doc *doc, const char *key,
                      const struct spot_json_value **all, struct spot_err *err)
{
    *all = NULL;
    if (!spot_json_get(doc->root, key))
        return 0;
    if (spot_json_array(doc, doc->root, "", key, true, SPOT_LAYERS_MAX + 2, all, err))
        return -1;
    for (size_t i = 0; i < spot_json_array_size(*all); i++) {
        char at[48];

        if (spot_json_is_string(spot_json_entry(*all, i)))
            continue;
        snprintf(at, sizeof(at), "/%s/%zu", key, i);
        return spot_json_fail(doc, at, err, "expected a text of hex digits");
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
                   check_counts(doc, event->samples, "samples", "sample number", err) ||
                   read_texts(doc, "state", &event->evidence.state, err) ||
                   read_texts(doc, "sums", &event->evidence.sums, err)
               ? -1
               : 0;
}

static int read_between(const struct spot_json_doc *doc, struct spot_event *event,
                        struct spot_err *err)
{
    return spot_json_array(doc, doc->root, "", "between", true, SPOT_HISTOGRAM_BUCKETS + 1,
                           &event->between, err) ||
                   check_counts(doc, event->between, "between", "sample count", err)
               ? -1
               : 0;
}

static int check_finish(const struct spot_json_doc *doc, const struct spot_event *event,
                        struct spot_err *err)
{
    return strcmp(event->finish, "done") != 0 && strcmp(event->finish, "cancelled") != 0
               ? spot_json_fail(doc, "/finish", err, "expected \"done\" or \"cancelled\", got '%s'",
                                event->finish)
               : 0;
}

static int check_order(struct spot_event_log *log, const struct spot_event *event,
                       struct spot_err *err)
{
    char why[SPOT_ORDER_WHY];
    const char *const at = spot_event_order_take(log->order, event, why);

    return at ? spot_json_fail(&log->doc, at, err, "%s", why) : 0;
}

static int read_job_event(struct spot_event_log *log, struct spot_event *event,
                          struct spot_err *err)
{
    const struct spot_json_doc *const doc = &log->doc;

    if (spot_json_read_fields(doc, doc->root, "", spot_event_part[event->kind].field, event, err))
        return -1;
    if (event->time_s < log->time_s)
        return spot_json_fail(doc, "/time_s", err, "%g is before %g, the time of an event above",
                              event->time_s, log->time_s);
    log->time_s = event->time_s;
    event->is_job = true;
    event->place = spot_json_get(doc->root, "place");
    event->buddies = spot_json_get(doc->root, "buddies");
    if ((event->kind == SPOT_EVENT_COMMITTED && read_samples(doc, event, err)) ||
        (event->kind == SPOT_EVENT_TOKEN && read_between(doc, event, err)) ||
        (event->kind == SPOT_EVENT_REQUEST && check_finish(doc, event, err)))
        return -1;
    return log->order ? check_order(log, event, err) : 0;
}

/* Read the fields that are present. */
static int read_partial(const struct spot_json_doc *doc, const struct spot_field *table,
                        struct spot_event *event, struct spot_err *err)
{
    struct spot_field field[2] = { 0 };

    for (; table->key; table++) {
        field[0] = *table;
        field[0].required = false;
        if (spot_json_read_fields(doc, doc->root, "", field, event, err))
            return -1;
    }
    return 0;
}

static int read_event(struct spot_event_log *log, struct spot_event *event, struct spot_err *err)
{
    const struct spot_json_doc *const doc = &log->doc;
    const bool may_lack_schema = log->is_partial && !spot_json_get(doc->root, "schema");

    *event = (struct spot_event){
        .grid.M = 1, .restart = -1, .prompts = 1, .queue_s = NAN, .ttft_s = NAN
    };
    if ((!may_lack_schema && spot_json_expect_schema(doc, "spot.event", 1, err)) ||
        spot_json_read_fields(doc, doc->root, "", any_field, event, err))
        return -1;
    event->kind = find_kind(log, event->name);
    if (event->kind == SPOT_EVENT_ANY)
        return 0;
    return log->is_partial ? read_partial(doc, spot_event_part[event->kind].field, event, err)
                           : read_job_event(log, event, err);
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

/* Read the next line that is not blank; *blank_byte: bytes of the blank ones before it. Returns 1,
 * 0 at the end, or -1 with *err. */
static int next_line(struct spot_event_log *log, size_t *blank_byte, struct spot_err *err)
{
    *blank_byte = 0;
    for (;;) {
        const int got = read_line(log);

        if (ferror(log->in))
            return spot_err_sys(err, "cannot read '%s'", log->source);
        if (!got)
            return 0;
        log->number++;
        if (got < 0)
            return spot_err_at(err, log->source, log->number, 0, NULL,
                               "expected an event, the line exceeds %d MiB",
                               SPOT_JSON_BYTE_MAX >> 20);
        if (!is_blank(log))
            return 1;
        *blank_byte += log->n_byte;
    }
}

/* The first line is not JSON at all: the file may be anything. */
static int fail_as_log(struct spot_err *err)
{
    const struct spot_err why = *err;

    return spot_err_set(err, why.code, "%s; a log is JSON Lines of spot.event/1", why.msg);
}

int spot_event_next(struct spot_event_log *log, struct spot_event *event, struct spot_err *err)
{
    size_t text_byte, blank_byte;
    int got;

    spot_json_release(&log->doc);
    got = next_line(log, &blank_byte, err);
    if (got <= 0)
        return got;
    text_byte = log->n_byte - (log->line[log->n_byte - 1] == '\n');
    if (spot_json_parse_line(&log->doc, log->line, text_byte, log->source, log->number, err))
        return log->number > 1 ? -1 : fail_as_log(err);
    if (read_event(log, event, err))
        return -1;
    log->end_byte += blank_byte + log->n_byte;
    return 1;
}

void spot_event_log_release(struct spot_event_log *log)
{
    spot_json_release(&log->doc);
    free(log->line);
    log->line = NULL;
}

/* --- writing -------------------------------------------------------------- */

void spot_event_seconds(struct spot_jw *jw, const char *key, double x_s)
{
    spot_jw_real(jw, key, rint(x_s * 1e6) / 1e6);
}

void spot_event_begin(struct spot_jw *jw, FILE *out, const struct spot_prov *prov,
                      const char *event, double time_s)
{
    spot_jw_init(jw, out, false);
    spot_jw_begin_doc(jw, "spot.event", 1, prov);
    spot_jw_str(jw, "event", event);
    spot_event_seconds(jw, "time_s", time_s);
}

int spot_event_end(struct spot_jw *jw, struct spot_err *err)
{
    spot_jw_end(jw);
    return spot_jw_close(jw, err);
}
