/* SPDX-License-Identifier: MIT */
#include "trace/import_json.h"

#include <stdio.h>
#include <string.h>

#include "common/timestamp.h"

enum { ITEMS_MAX = 4 << 20 };

int spot_import_items(struct spot_import *imp, const struct spot_json_doc *doc, const char *key,
                      spot_import_item_fn *read, struct spot_err *err)
{
    const struct spot_json_value *items;
    int rc;

    if (spot_json_array(doc, doc->root, "", key, true, ITEMS_MAX, &items, err))
        return -1;
    for (size_t i = 0; i < spot_json_array_size(items); i++) {
        char at[SPOT_JSON_POINTER_MAX];

        snprintf(at, sizeof(at), "/%s/%zu", key, i);
        rc = read(imp, doc, spot_json_entry(items, i), at, err);
        if (spot_bad_rows_take(&imp->bad, rc, err))
            return -1;
    }
    return spot_bad_rows_end(&imp->bad, 1, doc->source, err);
}

const char *spot_import_at(char at[SPOT_JSON_POINTER_MAX], const char *pointer, const char *key)
{
    snprintf(at, SPOT_JSON_POINTER_MAX, "%.180s/%.70s", pointer, key);
    return at;
}

const char *spot_import_member(const struct spot_json_value *object, const char *key)
{
    const char *text = spot_json_text(spot_json_get(object, key));

    return text ? text : "";
}

int spot_import_stamp(const struct spot_json_doc *doc, const char *pointer, const char *key,
                      const char *text, double *time_s, struct spot_err *err)
{
    char at[SPOT_JSON_POINTER_MAX];

    if (spot_timestamp_parse(text, time_s))
        return spot_json_fail(doc, spot_import_at(at, pointer, key), err,
                              "expected a date and time, got '%.40s'", text);
    return 0;
}

/* "us-west-2a_v100_1.json": zone before the first '_', type after it. */
static void place_of_file(struct spot_import *imp, const char *source, const char **zone,
                          const char **type)
{
    const char *name = strrchr(source, '/') ? strrchr(source, '/') + 1 : source;
    char stem[128], *cut;

    *zone = imp->ask.zone;
    *type = imp->ask.instance_type;
    snprintf(stem, sizeof(stem), "%s", *name == '<' ? "" : name);
    if ((cut = strrchr(stem, '.')))
        *cut = '\0';
    cut = strchr(stem, '_');
    if (!*type)
        *type = spot_import_text(imp, cut && !*zone ? cut + 1 : "");
    if (cut)
        *cut = '\0';
    if (!*zone)
        *zone = spot_import_text(imp, stem);
}

int spot_import_skypilot(struct spot_import *imp, const struct spot_json_doc *doc,
                         struct spot_err *err)
{
    struct gap {
        double s;
    } gap;
    static const struct spot_field field[] = {
        { "gap_seconds", SPOT_F_REAL, offsetof(struct gap, s), "s", 1e-3, 1e7, true }, { 0 }
    };
    const char *zone, *type;
    const struct spot_json_value *data, *metadata;

    if (spot_json_object(doc, doc->root, "", "metadata", true, &metadata, err) ||
        spot_json_read_fields(doc, metadata, "/metadata", field, &gap, err) ||
        spot_json_array(doc, doc->root, "", "data", true, SPOT_TRACE_ROWS_MAX, &data, err))
        return -1;
    place_of_file(imp, doc->source, &zone, &type);
    for (size_t i = 0; i < spot_json_array_size(data); i++) {
        const struct spot_json_value *item = spot_json_entry(data, i);
        const double y = spot_json_is_integer(item) ? (double)spot_json_integer(item) : -1;
        const double max = imp->ask.is_inverted ? imp->ask.cap : SPOT_TRACE_COUNT_MAX;
        char at[SPOT_JSON_POINTER_MAX];

        snprintf(at, sizeof(at), "/data/%zu", i);
        if (!(y >= 0 && y <= max)) {
            spot_json_fail(doc, at, err, "expected a whole number, 0 to %.0f", max);
            if (spot_bad_rows_take(&imp->bad, -1, err))
                return -1;
            continue;
        }
        imp->bad.n_good++;
        spot_import_add(imp, (double)i * gap.s, zone, type, "")->value[0] =
            imp->ask.is_inverted ? imp->ask.cap - y : y;
    }
    return spot_bad_rows_end(&imp->bad, 1, doc->source, err);
}
