/* SPDX-License-Identifier: MIT */
/* schema - what tests/tool/registry.c and the field tables say of a document, as the parts of its
 * JSON Schema that `make schemas` merges with docs/schema/by-hand; and what its reader says to
 * documents.
 *
 *   schema --head KIND    what all documents have
 *   schema --tables KIND  what the field tables say; {} of a document that has none
 *   schema --check KIND   documents on stdin, one a line: for each "ok", or why it is refused
 *   schema --unread KIND  pattern of the keys that its reader passes over
 *   schema --kinds        the kinds of documents; --checked: those that have a reader
 *   schema --index        a row of each for docs/formats.md; --man: for docs/man/spot-formats.5
 */
#define _POSIX_C_SOURCE 200809L /* getline */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry.h"

static int check_lines(const struct spot_document *d)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    if (!d->check)
        return 1;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        struct spot_err err = { 0 };

        puts(d->check(line, (size_t)n, &err) ? err.msg : "ok");
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
        if (!isinf(f->max))
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

/* The key of other events of that name; NULL: there are none. */
static const char *other_key(const struct spot_doc_part *part, const struct spot_doc_part *of)
{
    for (; part->at; part++)
        if (part->when && *part->at && !*of->at && !strcmp(part->when, of->when))
            return part->at;
    return NULL;
}

/* {"if": {"properties": {"event": {"const": WHEN}}, "required": [KEY]}, "then": ...}; `key` "" for
 * none, and then not with a key that others of that name have. Returns what comes then. */
static json_t *add_case(json_t *root, const char *when, const char *key, const char *other)
{
    json_t *const then = json_object();
    json_t *const if_ = json_pack("{s{s{ss}}}", "properties", "event", "const", when);

    if (*key)
        list(if_, "required", key);
    if (other)
        json_object_set_new(if_, "not", json_pack("{s[s]}", "required", other));
    if (!json_object_get(root, "allOf"))
        json_object_set_new(root, "allOf", json_array());
    json_array_append_new(json_object_get(root, "allOf"),
                          json_pack("{soso}", "if", if_, "then", then));
    return then;
}

static int print_part(json_t *part)
{
    json_dumpf(part, stdout, JSON_INDENT(2));
    json_decref(part);
    putchar('\n');
    return 0;
}

static json_t *head_of(const struct spot_document *d)
{
    json_t *const head = json_pack(
        "{s:o, s:s, s:{s:{s:o}}, s:[s]}", "description",
        json_sprintf("%s docs/formats/%s.md", d->says, d->page), "type", "object", "properties",
        "schema", "const", json_sprintf("spot.%s/%d", d->kind, d->major), "required", "schema");

    if (d->has_made_by)
        json_object_set_new(json_object_get(head, "properties"), "made_by",
                            json_pack("{ss}", "$ref", "made_by.json"));
    return head;
}

static json_t *tables_of(const struct spot_document *d)
{
    json_t *const root = json_object();

    for (const struct spot_doc_part *p = d->part; p && p->at; p++)
        add_fields(p->when ? add_case(root, p->when, p->at, other_key(d->part, p))
                           : descend(root, p),
                   p->field);
    return root;
}

static int print_head(const struct spot_document *d)
{
    return print_part(head_of(d));
}

static int print_tables(const struct spot_document *d)
{
    return print_part(tables_of(d));
}

static int print_unread(const struct spot_document *d)
{
    puts(d->unread ? d->unread : "");
    return 0;
}

/* --- lists ---------------------------------------------------------------- */

static void print_kind(const struct spot_document *d)
{
    puts(d->kind);
}

static void print_checked(const struct spot_document *d)
{
    if (d->check)
        puts(d->kind);
}

static void print_row(const struct spot_document *d)
{
    printf("| spot.%s/%d | %s | %s | %s | [%s.md](formats/%s.md) | [%s.json](schema/%s.json) |\n",
           d->kind, d->major, d->form, d->writers, d->readers, d->page, d->page, d->kind, d->kind);
}

static void print_man(const struct spot_document *d)
{
    printf(".It spot.%s/%d", d->kind, d->major);
    if (strcmp(d->form, "JSON") != 0)
        printf(" (%s)", d->form);
    printf("\n%s\n", d->says);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *option;
        int (*of_one)(const struct spot_document *d);
        void (*of_each)(const struct spot_document *d);
    } command[] = {
        { "--head", print_head, NULL },
        { "--tables", print_tables, NULL },
        { "--check", check_lines, NULL },
        { "--unread", print_unread, NULL },
        { "--kinds", NULL, print_kind },
        { "--checked", NULL, print_checked },
        { "--index", NULL, print_row },
        { "--man", NULL, print_man },
        { 0 },
    };
    const struct spot_document *d = argc == 3 ? spot_registry_find(argv[2]) : spot_registry;

    for (size_t i = 0; argc > 1 && command[i].option; i++) {
        if (strcmp(command[i].option, argv[1]) != 0 || !command[i].of_one != (argc == 2))
            continue;
        if (command[i].of_one)
            return d ? command[i].of_one(d) : 1;
        for (; d->kind; d++)
            command[i].of_each(d);
        return 0;
    }
    fputs("usage: schema --head|--tables|--check|--unread KIND, schema "
          "--kinds|--checked|--index|--man\n",
          stderr);
    return 2;
}
