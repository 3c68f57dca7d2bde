/* SPDX-License-Identifier: MIT */
#include "model/catalogue.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/csv_reader.h"

#define AT(member) offsetof(struct spot_catalogue_type, member)

static const struct column {
    const char *name; /* '?': may be missing */
    size_t offset;
    double min, max;
} column[] = {
    { "instance_type", 0, 0, 0 },
    { "?gpus", AT(gpus), 1, 1024 },
    { "?gpu_mem_byte", AT(gpu_mem_byte), 1, 1e15 },
    { "?gpu_flop_per_s", AT(gpu_flop_per_s), 1, 1e18 },
    { "?gpu_mem_byte_per_s", AT(gpu_mem_byte_per_s), 1, 1e15 },
    { "?gpu_link_byte_per_s", AT(gpu_link_byte_per_s), 1, 1e15 },
    { "?nic_byte_per_s", AT(nic_byte_per_s), 1, 1e15 },
    { "?spot_usd_per_h", AT(spot_usd_per_h), 0, 1e6 },
    { "?on_demand_usd_per_h", AT(on_demand_usd_per_h), 0, 1e6 },
};

enum { TYPE, GPUS, COLUMNS = sizeof(column) / sizeof(column[0]) };

struct reading {
    const char *name;
    struct spot_catalogue_type *type;
    bool is_found;
};

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct reading *r = user;

    if (r->is_found || strcmp(row->field[TYPE], r->name) != 0)
        return 0;
    r->is_found = true;
    for (size_t k = GPUS; k < COLUMNS; k++) {
        const struct column *c = &column[k];
        char *const at = (char *)r->type + c->offset;

        if (!row->field[k] || !*row->field[k])
            continue;
        if (k == GPUS
                ? spot_csv_int(row, k, (int64_t)c->min, (int64_t)c->max, (int64_t *)(void *)at, err)
                : spot_csv_real(row, k, c->min, c->max, (double *)(void *)at, err))
            return -1;
    }
    return 0;
}

int spot_catalogue_find(struct spot_catalogue_type *type, const char *name, FILE *in,
                        const char *source, uint64_t *xxh3, struct spot_err *err)
{
    struct reading r = { name, type, false };
    const char *want[COLUMNS];

    *type = (struct spot_catalogue_type){ 1, -1, -1, -1, -1, -1, -1, -1 };
    for (size_t k = 0; k < COLUMNS; k++)
        want[k] = column[k].name;
    if (spot_csv_read(in, source, want, COLUMNS, on_row, &r, xxh3, err))
        return -1;
    return r.is_found ? 0
                      : spot_err_set(err, SPOT_EDATA, "%s: no row has the instance type '%.64s'",
                                     source, name);
}
