/* SPDX-License-Identifier: MIT */
/* schema - what the field tables of a document say, as the part of its JSON Schema that `make
 * schemas` merges with docs/schema/by-hand; and what its reader says to documents.
 *
 *   schema KIND          the tables as a schema; {} of a document that has none
 *   schema --check KIND  documents on stdin, one a line: for each "ok", or why it is refused
 *   schema --checked     the kinds of documents that have a reader
 */
#define _POSIX_C_SOURCE 200809L /* getline, fmemopen */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/generation.h"
#include "common/json.h"
#include "model/cluster_doc.h"
#include "model/event.h"
#include "model/forecast_doc.h"
#include "model/job_doc.h"
#include "model/layout_doc.h"
#include "model/moves_doc.h"
#include "model/plan_doc.h"
#include "shard/stream.h"
#include "train/job_note.h"

/* --- readers -------------------------------------------------------------- */

#define READER(kind, type)                                                    \
    static int check_##kind(const char *text, size_t n, struct spot_err *err) \
    {                                                                         \
        struct type doc;                                                      \
        const int rc = spot_##kind##_parse(&doc, text, n, #kind, err);        \
                                                                              \
        spot_##kind##_release(&doc);                                          \
        return rc;                                                            \
    }
READER(cluster, spot_cluster)
READER(job_doc, spot_job_doc)
READER(layout, spot_layout)
READER(moves, spot_moves_doc)
READER(plan_doc, spot_plan_doc)

static int check_forecast(const char *text, size_t n, struct spot_err *err)
{
    struct spot_forecast forecast = { 0 };
    struct spot_json_doc json;
    int rc = spot_json_parse(&json, text, n, "forecast", err);

    if (!rc)
        rc = spot_forecast_read(&json, &forecast, err);
    spot_forecast_release(&forecast);
    spot_json_release(&json);
    return rc;
}

static int check_event(const char *text, size_t n, struct spot_err *err)
{
    struct spot_event_log log = { .in = fmemopen((void *)(uintptr_t)text, n, "r"),
                                  .source = "event" };
    struct spot_event event;
    int rc = log.in ? spot_event_next(&log, &event, err) : spot_err_sys(err, "cannot open");

    spot_event_log_release(&log);
    if (log.in)
        fclose(log.in);
    return rc < 0 ? -1 : 0;
}

static const struct kind {
    const char *name;
    const struct spot_doc_part *part;
    int (*check)(const char *text, size_t n, struct spot_err *err); /* NULL: read with its files */
} kind[] = {
    { "cluster", spot_cluster_part, check_cluster },
    { "event", spot_event_part, check_event },
    { "forecast", spot_forecast_part, check_forecast },
    { "job", spot_job_part, check_job_doc },
    { "layout", spot_layout_part, check_layout },
    { "moves", spot_moves_part, check_moves },
    { "plan", spot_plan_part, check_plan_doc },
    { "state", spot_state_part, NULL },
    { "stream", spot_stream_part, NULL },
    { "training", spot_job_note_part, NULL },
};

static int check_lines(const struct kind *k)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    while ((n = getline(&line, &cap, stdin)) > 0) {
        struct spot_err err = { 0 };

        puts(k->check(line, (size_t)n, &err) ? err.msg : "ok");
    }
    free(line);
    return 0;
}

/* --- tables --------------------------------------------------------------- */

/* The object under `key`, made if it is not there. */
static json_t *under(json_t *obj, const char *key)
{
    if (!json_object_get(obj, key))
        json_object_set_new(obj, key, json_object());
    return json_object_get(obj, key);
}

/* The array under `key` gets the text, once. */
static void list(json_t *obj, const char *key, const char *text)
{
    json_t *array = json_object_get(obj, key), *item;
    size_t i;

    if (!array)
        json_object_set_new(obj, key, array = json_array());
    json_array_foreach(array, i, item) if (!strcmp(json_string_value(item), text)) return;
    json_array_append_new(array, json_string(text));
}

static json_t *number(double x)
{
    return x == rint(x) && fabs(x) < 9e18 ? json_integer((json_int_t)x) : json_real(x);
}

static json_t *schema_of(const struct spot_field *f)
{
    static const char *const type[] = { NULL, "integer", "number", "string", "boolean" };
    json_t *schema = json_pack("{ss}", "type", type[f->type]);
    char pattern[32];

    if (f->type == SPOT_F_STR && f->unit) {
        snprintf(pattern, sizeof pattern, "^[0-9a-f]{%d}$", (int)f->max);
        json_object_set_new(schema, "pattern", json_string(pattern));
        return schema;
    }
    if (f->min != 0 || f->max != 0) {
        json_object_set_new(schema, "minimum", number(f->min));
        json_object_set_new(schema, "maximum", number(f->max));
    }
    if (f->unit && strcmp(f->unit, "1") != 0)
        json_object_set_new(schema, "x-unit", json_string(f->unit));
    return schema;
}

static void add_fields(json_t *object, const struct spot_field *table)
{
    for (const struct spot_field *f = table; f->key; f++) {
        json_object_set_new(under(object, "properties"), f->key, schema_of(f));
        if (f->required)
            list(object, "required", f->key);
    }
}

/* The schema of the objects that the part is about, made on the way there. */
static json_t *descend(json_t *object, const struct spot_doc_part *part)
{
    const char *at = part->at;

    while (*at) {
        const size_t n = strcspn(at, ".[");
        char key[64];

        snprintf(key, sizeof key, "%.*s", (int)n, at);
        at += n;
        if (part->required && (!*at || !strcmp(at, "[]")))
            list(object, "required", key);
        object = under(under(object, "properties"), key);
        if (*at == '[') {
            json_object_set_new(object, "type", json_string("array"));
            at += 2;
            if (!*at)
                json_object_set_new(object, "maxItems", json_integer((json_int_t)part->n_max));
            object = under(object, "items");
        }
        json_object_set_new(object, "type", json_string("object"));
        at += *at == '.';
    }
    return object;
}

/* {"if": {"properties": {"event": {"const": WHEN}}, "required": [KEY]}, "then": ...}; `key` "" for
 * none. Returns what comes then. */
static json_t *add_case(json_t *root, const char *when, const char *key)
{
    json_t *const then = json_object();
    json_t *const if_ = json_pack("{s{s{ss}}}", "properties", "event", "const", when);

    if (*key)
        list(if_, "required", key);
    if (!json_object_get(root, "allOf"))
        json_object_set_new(root, "allOf", json_array());
    json_array_append_new(json_object_get(root, "allOf"),
                          json_pack("{soso}", "if", if_, "then", then));
    return then;
}

static int print_schema(const struct kind *k)
{
    json_t *root = json_pack("{ss}", "type", "object");

    for (const struct spot_doc_part *p = k->part; p->at; p++)
        add_fields(p->when ? add_case(root, p->when, p->at) : descend(root, p), p->field);
    json_dumpf(root, stdout, JSON_INDENT(2));
    json_decref(root);
    putchar('\n');
    return 0;
}

static int list_kinds(void)
{
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++)
        if (kind[i].check)
            puts(kind[i].name);
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = argv[argc - 1];

    if (argc == 2 && !strcmp(name, "--checked"))
        return list_kinds();
    if (argc != 2 && (argc != 3 || strcmp(argv[1], "--check") != 0)) {
        fputs("usage: schema [--check] KIND, schema --checked\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++)
        if (!strcmp(name, kind[i].name))
            return argc == 3 && kind[i].check ? check_lines(&kind[i]) : print_schema(&kind[i]);
    puts("{}");
    return argc == 3;
}
