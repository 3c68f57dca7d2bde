/* SPDX-License-Identifier: MIT */
#include "trace/advice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/xalloc.h"
#include "trace/region.h"

enum { ZONE, TYPE, PER_H, COLUMNS };

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_advice *a = user;
    double per_h;

    if (spot_csv_real(row, PER_H, 0, 3600, &per_h, err))
        return -1;
    if (a->n == SPOT_ADVICE_ROWS_MAX)
        return spot_csv_fail(row, ZONE, err, "more than %d rows", SPOT_ADVICE_ROWS_MAX);
    a->row = spot_xgrow(a->row, &a->cap, a->n + 1, sizeof(*a->row));
    a->row[a->n++] = (struct spot_advice_row){ .zone = spot_xstrdup(row->field[ZONE]),
                                               .instance_type = spot_xstrdup(row->field[TYPE]),
                                               .per_h = per_h };
    return 0;
}

int spot_advice_read(struct spot_advice *advice, FILE *in, const char *source, struct spot_err *err)
{
    static const char *const want[COLUMNS] = { "zone", "instance_type", "hazard_per_h" };

    memset(advice, 0, sizeof(*advice));
    return spot_csv_read(in, source, want, COLUMNS, on_row, advice, &advice->xxh3, err);
}

void spot_advice_release(struct spot_advice *advice)
{
    for (size_t i = 0; i < advice->n; i++) {
        free(advice->row[i].zone);
        free(advice->row[i].instance_type);
    }
    free(advice->row);
    memset(advice, 0, sizeof(*advice));
}

double spot_advice_per_h(const struct spot_advice *advice, const char *zone,
                         const char *instance_type)
{
    const size_t n = spot_region_length(zone);
    double per_h = NAN;

    for (size_t i = 0; i < advice->n; i++) {
        const struct spot_advice_row *r = &advice->row[i];

        if (strcmp(r->instance_type, instance_type) != 0)
            continue;
        if (!strcmp(r->zone, zone))
            return r->per_h;
        if (strlen(r->zone) == n && !strncmp(r->zone, zone, n))
            per_h = r->per_h;
    }
    return per_h;
}
