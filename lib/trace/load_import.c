/* SPDX-License-Identifier: MIT */
#include "trace/load_import.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/json.h"
#include "common/line.h"
#include "common/num.h"
#include "common/timestamp.h"
#include "common/unpack.h"
#include "common/xalloc.h"
#include "model/event.h"
#include "trace/trace.h"

enum { LINE_MAX_BYTE = 16 << 20, MINUTES = 1440 };

/* Store a request as found; one that failed has no tokens. */
static int keep(struct spot_load_import *imp, const char *source, unsigned long line, double time_s,
                int64_t prompt, int64_t output, const char *id, struct spot_err *err)
{
    imp->bad.is_full = imp->load.n == SPOT_LOAD_ROWS_MAX;
    if (imp->bad.is_full)
        return spot_err_at(err, source, line, 0, NULL, "more than %d requests", SPOT_LOAD_ROWS_MAX);
    if (prompt && output)
        spot_load_add(&imp->load, time_s, (int32_t)prompt, (int32_t)output, id);
    else
        imp->n_empty++;
    return 0;
}

/* --- CSV: azure-llm, burstgpt --- */

static int on_csv_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    const char *time = row->field[0];
    int64_t prompt, output;
    double time_s;

    if (spot_num_parse(time, &time_s) && spot_timestamp_parse(time, &time_s))
        return spot_csv_fail(row, 0, err, "expected seconds or a date and time, got '%.40s'", time);
    if (!(time_s >= 0 && time_s <= SPOT_TRACE_TIME_MAX_S))
        return spot_csv_fail(row, 0, err, "%.15g is outside [0, 1e11]", time_s);
    if (spot_csv_int(row, 1, 0, SPOT_LOAD_TOKENS_MAX, &prompt, err) ||
        spot_csv_int(row, 2, 0, SPOT_LOAD_TOKENS_MAX, &output, err))
        return -1;
    return keep(user, row->source, row->line, time_s, prompt, output, row->field[3], err);
}

static int read_azure_llm(struct spot_load_import *imp, FILE *in, const char *source,
                          struct spot_err *err)
{
    static const char *const column[] = { "TIMESTAMP", "ContextTokens", "GeneratedTokens", "?id" };

    return spot_csv_read_log(in, source, column, 4, false, on_csv_row, imp, &imp->bad, err);
}

static int read_burstgpt(struct spot_load_import *imp, FILE *in, const char *source,
                         struct spot_err *err)
{
    static const char *const plain[SPOT_LOAD_COLUMNS] = { "Timestamp", "Request tokens",
                                                          "Response tokens", "?id" };
    const char *column[SPOT_LOAD_COLUMNS];

    for (size_t k = 0; k < SPOT_LOAD_COLUMNS; k++)
        column[k] = imp->column[k] ? imp->column[k] : plain[k];
    return spot_csv_read_log(in, source, column, SPOT_LOAD_COLUMNS, false, on_csv_row, imp,
                             &imp->bad, err);
}

/* --- lines of JSON: mooncake, openai-log --- */

struct lines {
    struct spot_load_import *imp;
    const char *source;
    int (*on_line)(struct spot_load_import *imp, const struct spot_json_doc *doc,
                   struct spot_err *err);
};

static int read_lines(const struct lines *l, FILE *in, struct spot_err *err)
{
    struct spot_bad_rows *bad = &l->imp->bad;
    struct spot_line line = { 0 };
    int rc;

    while ((rc = spot_bad_rows_line(bad, &line, in, LINE_MAX_BYTE, l->source, err)) > 0) {
        struct spot_json_doc doc;

        rc = spot_json_parse_line(&doc, line.text, line.n, l->source, line.number, err);
        if (!rc) {
            rc = l->on_line(l->imp, &doc, err);
            spot_json_release(&doc);
        }
        rc = spot_bad_rows_take(bad, rc, err);
        if (rc)
            break;
    }
    if (!rc)
        rc = spot_bad_rows_end(bad, line.number, l->source, err);
    spot_line_release(&line);
    return rc;
}

static int read_jsonl(const struct lines *l, FILE *in, struct spot_err *err)
{
    struct spot_unpack unpack;

    if (spot_unpack_open(&unpack, in, l->source, err))
        return -1;
    return spot_unpack_close(&unpack, read_lines(l, unpack.in, err), err);
}

struct request {
    double time;
    int64_t prompt, output;
};

#define TOKENS(key, member)                                                                   \
    {                                                                                         \
        key, SPOT_F_INT, offsetof(struct request, member), "1", 0, SPOT_LOAD_TOKENS_MAX, true \
    }

/* tokens of each entry of hash_ids; the entries cover the whole prompt */
enum { MOONCAKE_BLOCK = 512 };

/* Fills *block, which the caller frees, and *n. */
static int read_hash_ids(const struct spot_json_doc *doc, int64_t prompt, uint32_t **block,
                         size_t *n, struct spot_err *err)
{
    const struct spot_json_value *ids = spot_json_get(doc->root, "hash_ids"), *id;
    size_t i;

    *block = NULL;
    *n = 0;
    if (ids && !spot_json_is_array(ids))
        return spot_json_fail(doc, "/hash_ids", err, "expected an array");
    if (spot_json_array_size(ids) > (size_t)(prompt + MOONCAKE_BLOCK - 1) / MOONCAKE_BLOCK)
        return spot_json_fail(doc, "/hash_ids", err,
                              "%zu blocks of %d tokens, input_length is %lld",
                              spot_json_array_size(ids), MOONCAKE_BLOCK, (long long)prompt);
    *block = spot_xcalloc(spot_json_array_size(ids) + 1, sizeof(**block));
    spot_json_array_foreach(ids, i, id)
    {
        const double x = spot_json_is_number(id) ? spot_json_number(id) : -1;

        if (!(x >= 0 && x <= UINT32_MAX && x == floor(x)))
            return spot_json_fail(doc, "/hash_ids", err, "expected integers 0..4294967295");
        (*block)[(*n)++] = (uint32_t)x;
    }
    return 0;
}

static int on_mooncake(struct spot_load_import *imp, const struct spot_json_doc *doc,
                       struct spot_err *err)
{
    static const struct spot_field field[] = {
        { "timestamp", SPOT_F_REAL, offsetof(struct request, time), "ms", 0,
          1000 * SPOT_TRACE_TIME_MAX_S, true },
        TOKENS("input_length", prompt),
        TOKENS("output_length", output),
        { 0 },
    };
    struct request r;

    uint32_t *block = NULL;
    size_t n = 0;
    int rc =
        spot_json_read_fields(doc, doc->root, "", field, &r, err) ||
        read_hash_ids(doc, r.prompt, &block, &n, err) ||
        keep(imp, doc->source, doc->lines_above + 1, r.time / 1000, r.prompt, r.output, NULL, err);

    if (!rc && n && r.prompt && r.output)
        rc = spot_load_add_blocks(&imp->load, MOONCAKE_BLOCK, block, n, err);
    free(block);
    return rc ? -1 : 0;
}

static int read_mooncake(struct spot_load_import *imp, FILE *in, const char *source,
                         struct spot_err *err)
{
    return read_jsonl(&(struct lines){ imp, source, on_mooncake }, in, err);
}

/* The response in a line: the line itself, its "response", or "response"."body" as in OpenAI's
 * batch files. *at: its JSON pointer. */
static const struct spot_json_value *find_response(const struct spot_json_doc *doc, const char **at)
{
    const struct spot_json_value *response = spot_json_get(doc->root, "response");
    const struct spot_json_value *body = spot_json_get(response, "body");

    *at = spot_json_is_object(body)       ? "/response/body"
          : spot_json_is_object(response) ? "/response"
                                          : "";
    return spot_json_is_object(body) ? body : spot_json_is_object(response) ? response : doc->root;
}

/* Completions have "created", responses "created_at", in Unix seconds. */
static int read_created(const struct spot_json_doc *doc, const struct spot_json_value *response,
                        const char *at, double *time_s, struct spot_err *err)
{
    const char *const key = spot_json_get(response, "created") ? "created" : "created_at";
    const struct spot_field field[] = {
        { key, SPOT_F_REAL, 0, "s", 0, SPOT_TRACE_TIME_MAX_S, true }, { 0 }
    };

    return spot_json_read_fields(doc, response, at, field, time_s, err);
}

static int on_openai(struct spot_load_import *imp, const struct spot_json_doc *doc,
                     struct spot_err *err)
{
    static const struct spot_field completion[] = { TOKENS("prompt_tokens", prompt),
                                                    TOKENS("completion_tokens", output),
                                                    { 0 } };
    static const struct spot_field response[] = { TOKENS("input_tokens", prompt),
                                                  TOKENS("output_tokens", output),
                                                  { 0 } };
    const char *at;
    const struct spot_json_value *body = find_response(doc, &at), *usage;
    char pointer[64];
    struct request r = { 0 };

    if (spot_json_is_object(spot_json_get(body, "error"))) {
        imp->n_empty++;
        return 0;
    }
    if (read_created(doc, body, at, &r.time, err) ||
        spot_json_object(doc, body, at, "usage", true, &usage, err))
        return -1;
    snprintf(pointer, sizeof(pointer), "%s/usage", at);
    if (spot_json_read_fields(doc, usage, pointer,
                              spot_json_get(usage, "input_tokens") ? response : completion, &r,
                              err))
        return -1;
    return keep(imp, doc->source, doc->lines_above + 1, r.time, r.prompt, r.output,
                spot_json_text(spot_json_get(body, "id")), err);
}

static int read_openai(struct spot_load_import *imp, FILE *in, const char *source,
                       struct spot_err *err)
{
    return read_jsonl(&(struct lines){ imp, source, on_openai }, in, err);
}

/* --- spot-serve: the log of a server --- */

/* Each of several choices is computed like a request of its own, so it becomes a request with its
 * part of the tokens. */
static int on_request(struct spot_load_import *imp, const struct spot_event_log *log,
                      const struct spot_event *e, struct spot_err *err)
{
    if (e->came_s > SPOT_TRACE_TIME_MAX_S)
        return spot_json_fail(&log->doc, "/came_s", err, "%g is outside [0, %g]", e->came_s,
                              SPOT_TRACE_TIME_MAX_S);
    if (e->prompt_tokens / e->prompts > SPOT_LOAD_TOKENS_MAX ||
        e->output_tokens / e->choices > SPOT_LOAD_TOKENS_MAX - 1)
        return spot_json_fail(&log->doc, "", err, "more than %d tokens", SPOT_LOAD_TOKENS_MAX);
    for (int64_t i = 0; i < e->choices; i++)
        if (keep(imp, log->source, log->number, e->came_s, e->prompt_tokens / e->prompts,
                 e->output_tokens / e->choices + (i < e->output_tokens % e->choices), e->who, err))
            return -1;
    return 0;
}

static int read_log(struct spot_load_import *imp, FILE *in, const char *source,
                    struct spot_err *err)
{
    struct spot_event_log log = { .in = in, .source = source, .drops_cut = true };
    struct spot_event event;
    int rc;

    while ((rc = spot_event_next(&log, &event, err)) > 0)
        if (event.kind == SPOT_EVENT_REQUEST && on_request(imp, &log, &event, err)) {
            rc = -1;
            break;
        }
    if (!rc && !log.number)
        rc = spot_err_set(err, SPOT_EDATA, "%s: empty input", source);
    spot_event_log_release(&log);
    return rc;
}

static int read_spot_serve(struct spot_load_import *imp, FILE *in, const char *source,
                           struct spot_err *err)
{
    struct spot_unpack unpack;

    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    return spot_unpack_close(&unpack, read_log(imp, unpack.in, source, err), err);
}

/* --- azure-functions: calls without lengths --- */

static int keep_call(struct spot_load_import *imp, const char *source, unsigned long line,
                     double time_s, struct spot_err *err)
{
    struct spot_length_draw draw;

    return spot_load_draw_lengths(imp->length, &draw, err) ||
                   keep(imp, source, line, time_s, draw.prompt_token, draw.output_token, NULL, err)
               ? -1
               : 0;
}

/* 2021: app,func,end_timestamp,duration: one row per call, by end time. */
static int on_call(struct spot_load_import *imp, char **field, size_t n, const char *source,
                   unsigned long line, struct spot_err *err)
{
    double end_s, duration_s;

    if (n != 4)
        return spot_err_at(err, source, line, 0, NULL, "expected 4 fields, got %zu", n);
    if (spot_num_parse(field[2], &end_s) || !(end_s >= 0 && end_s <= SPOT_TRACE_TIME_MAX_S))
        return spot_err_at(err, source, line, (size_t)(field[2] - field[0] + 1), NULL,
                           "end_timestamp: expected seconds, got '%.40s'", field[2]);
    if (spot_num_parse(field[3], &duration_s) || !(duration_s >= 0))
        return spot_err_at(err, source, line, (size_t)(field[3] - field[0] + 1), NULL,
                           "duration: expected seconds, got '%.40s'", field[3]);
    return keep_call(imp, source, line, fmax(end_s - duration_s, 0), err);
}

/* 2019: HashOwner,HashApp,HashFunction,Trigger,1,..,1440: calls in each minute of a day; the n-th
 * file is the n-th day. The time within the minute is drawn at random. */
static int on_minutes(struct spot_load_import *imp, char **field, size_t n, const char *source,
                      unsigned long line, struct spot_err *err)
{
    const double day_s = 86400.0 * (double)imp->n_file;
    double calls[MINUTES];

    if (n != MINUTES + 4)
        return spot_err_at(err, source, line, 0, NULL, "expected %d fields, got %zu", MINUTES + 4,
                           n);
    for (size_t i = 0; i < MINUTES; i++)
        if (spot_num_parse(field[i + 4], &calls[i]) ||
            !(calls[i] >= 0 && calls[i] <= SPOT_LOAD_ROWS_MAX) || calls[i] != rint(calls[i]))
            return spot_err_at(err, source, line, (size_t)(field[i + 4] - field[0] + 1), NULL,
                               "minute %zu: expected a number of calls, got '%.40s'", i + 1,
                               field[i + 4]);
    for (size_t i = 0; i < MINUTES; i++)
        for (double k = 0; k < calls[i]; k++)
            if (keep_call(imp, source, line, day_s + 60 * ((double)i + spot_rng_unit(&imp->rng)),
                          err))
                return -1;
    return 0;
}

/* Split at commas; these files have no quotes. Returns the number of fields. */
static size_t split(char *text, char **field, size_t n_max)
{
    size_t n = 0;

    text[strcspn(text, "\r")] = '\0';
    for (char *rest = text; rest; n++) {
        char *comma = strchr(rest, ',');

        if (n < n_max)
            field[n] = rest;
        if (comma)
            *comma++ = '\0';
        rest = comma;
    }
    return n;
}

static int read_calls(struct spot_load_import *imp, FILE *in, const char *source,
                      struct spot_err *err)
{
    struct spot_line line = { 0 };
    char *field[MINUTES + 5];
    bool has_header = false, is_minutes = false;
    int rc;

    while ((rc = spot_bad_rows_line(&imp->bad, &line, in, LINE_MAX_BYTE, source, err)) > 0) {
        size_t n;

        if (!has_header) {
            has_header = true;
            is_minutes = !strncmp(line.text, "HashOwner,", 10);
            if (is_minutes || !strncmp(line.text, "app,func,end_timestamp,duration", 31))
                continue;
            rc = spot_err_at(err, source, line.number, 1, NULL,
                             "expected a header HashOwner,HashApp,HashFunction,Trigger,1.. "
                             "or app,func,end_timestamp,duration");
            break;
        }
        n = split(line.text, field, sizeof(field) / sizeof(*field));
        rc = (is_minutes ? on_minutes : on_call)(imp, field, n, source, line.number, err);
        rc = spot_bad_rows_take(&imp->bad, rc, err);
        if (rc)
            break;
    }
    if (!rc)
        rc = spot_bad_rows_end(&imp->bad, line.number, source, err);
    spot_line_release(&line);
    return rc;
}

static int read_azure_functions(struct spot_load_import *imp, FILE *in, const char *source,
                                struct spot_err *err)
{
    struct spot_unpack unpack;

    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    return spot_unpack_close(&unpack, read_calls(imp, unpack.in, source, err), err);
}

/* --- all of them --- */

const struct spot_load_format spot_load_format[] = {
    { "azure-llm", "TIMESTAMP,ContextTokens,GeneratedTokens (Azure LLM inference)", true, true,
      read_azure_llm },
    { "mooncake", "lines of {\"timestamp\",\"input_length\",\"output_length\"}", false, true,
      read_mooncake },
    { "azure-functions", "Azure Functions 2019 (per minute) or 2021 (per call)", false, false,
      read_azure_functions },
    { "burstgpt", "Timestamp,Request tokens,Response tokens; --columns names others", true, true,
      read_burstgpt },
    { "spot-serve", "spot.event/1 of spot-run serve: its requests", false, true, read_spot_serve },
    { "openai-log", "lines of OpenAI responses, bare or of a batch file", true, true, read_openai },
    { 0 },
};

const struct spot_load_format *spot_load_format_find(const char *name)
{
    for (const struct spot_load_format *f = spot_load_format; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

int spot_load_import_read(struct spot_load_import *imp, const struct spot_load_format *format,
                          FILE *in, const char *source, struct spot_err *err)
{
    int rc;

    imp->bad = (struct spot_bad_rows){ .is_strict = imp->bad.is_strict };
    rc = format->read(imp, in, source, err);
    imp->n_file++;
    return rc;
}
