/* SPDX-License-Identifier: MIT */
#include "model/catalogue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

/* --- offers --- */

static const char *const sold[SPOT_CATALOGUE_COLUMNS] = {
    [SPOT_CATALOGUE_TYPE] = "instance_type",
    [SPOT_CATALOGUE_ON_DEMAND_USD] = "?on_demand_usd_per_h",
    [SPOT_CATALOGUE_SPOT_USD] = "?spot_usd_per_h",
    [SPOT_CATALOGUE_ZONE] = "?zone",
    [SPOT_CATALOGUE_QUOTA] = "?quota",
    [SPOT_CATALOGUE_GPUS] = "?gpus",
    [SPOT_CATALOGUE_SPEED] = "?speed",
    [SPOT_CATALOGUE_EGRESS_USD] = "?egress_usd_per_gb",
    [SPOT_CATALOGUE_EGRESS_RATE] = "?egress_byte_per_s",
    [SPOT_CATALOGUE_NOTICE] = "?notice_s",
};

struct offered {
    char *type, *zone;
    bool on[2]; /* offers on demand and on spot */
    unsigned long line;
};

struct sale {
    spot_catalogue_fn *on_row;
    void *user;
    size_t n_row, cap;
    struct offered *offered; /* [n_row] */
};

static bool is_given(const struct spot_csv_row *csv, size_t k)
{
    return csv->field[k] && *csv->field[k];
}

static int on_sale(const struct spot_csv_row *csv, void *user, struct spot_err *err)
{
    struct sale *s = user;
    struct spot_catalogue_row row = { .type = csv->field[SPOT_CATALOGUE_TYPE],
                                      .zone = csv->field[SPOT_CATALOGUE_ZONE],
                                      .usd_per_h = { -1, -1 },
                                      .quota = -1,
                                      .gpus = 1,
                                      .speed = 1,
                                      .csv = csv };

    if (!*row.type)
        return spot_csv_fail(csv, SPOT_CATALOGUE_TYPE, err, "expected a name");
    if (!row.zone)
        row.zone = "";
    for (size_t i = 0; i < 2; i++)
        if (is_given(csv, SPOT_CATALOGUE_ON_DEMAND_USD + i) &&
            spot_csv_real(csv, SPOT_CATALOGUE_ON_DEMAND_USD + i, 0, 1e6, &row.usd_per_h[i], err))
            return -1;
    if ((is_given(csv, SPOT_CATALOGUE_QUOTA) &&
         spot_csv_int(csv, SPOT_CATALOGUE_QUOTA, 0, 1000000, &row.quota, err)) ||
        (is_given(csv, SPOT_CATALOGUE_GPUS) &&
         spot_csv_int(csv, SPOT_CATALOGUE_GPUS, 0, 1024, &row.gpus, err)) ||
        (is_given(csv, SPOT_CATALOGUE_SPEED) &&
         spot_csv_real(csv, SPOT_CATALOGUE_SPEED, 1e-9, 1e9, &row.speed, err)) ||
        (is_given(csv, SPOT_CATALOGUE_EGRESS_USD) &&
         spot_csv_real(csv, SPOT_CATALOGUE_EGRESS_USD, 0, 1e6, &row.egress_usd_per_gb, err)) ||
        (is_given(csv, SPOT_CATALOGUE_EGRESS_RATE) &&
         spot_csv_real(csv, SPOT_CATALOGUE_EGRESS_RATE, 1, 1e15, &row.egress_byte_per_s, err)) ||
        (is_given(csv, SPOT_CATALOGUE_NOTICE) &&
         spot_csv_real(csv, SPOT_CATALOGUE_NOTICE, 0, 86400, &row.notice_s, err)))
        return -1;
    s->offered = spot_xgrow(s->offered, &s->cap, s->n_row + 1, sizeof(*s->offered));
    s->offered[s->n_row++] =
        (struct offered){ .type = spot_xstrdup(row.type),
                          .zone = spot_xstrdup(row.zone),
                          .on = { row.usd_per_h[false] >= 0, row.usd_per_h[true] >= 0 },
                          .line = csv->line };
    return s->on_row(&row, s->user, err);
}

static int by_place(const void *a, const void *b)
{
    const struct offered *x = a, *y = b;
    const int type = strcmp(x->type, y->type), zone = strcmp(x->zone, y->zone);

    return type ? type : zone ? zone : (x->line > y->line) - (x->line < y->line);
}

/* A repeated offer would count its quota twice, or have two prices. A row without anything for
 * sale, in a catalogue without prices, is an offer too. */
static int check_offers(const struct sale *s, const char *source, struct spot_err *err)
{
    for (size_t i = 1; i < s->n_row; i++)
        for (size_t j = i; j-- > 0;) {
            const struct offered *old = &s->offered[j], *now = &s->offered[i];
            const bool is_spot = old->on[true] && now->on[true];

            if (strcmp(old->type, now->type) != 0 || strcmp(old->zone, now->zone) != 0)
                break;
            if (is_spot || (old->on[false] && now->on[false]) ||
                (!old->on[false] && !old->on[true] && !now->on[false] && !now->on[true]))
                return spot_err_at(err, source, now->line, 1, NULL,
                                   "'%.64s'%s%.64s is offered twice%s: on line %lu, too", now->type,
                                   *now->zone ? " in " : "", now->zone, is_spot ? " on spot" : "",
                                   old->line);
        }
    return 0;
}

static void release_sale(struct sale *s)
{
    for (size_t i = 0; i < s->n_row; i++) {
        free(s->offered[i].type);
        free(s->offered[i].zone);
    }
    free(s->offered);
}

int spot_catalogue_read(const char *path, spot_catalogue_fn *on_row, void *user,
                        struct spot_prov *prov, struct spot_err *err)
{
    const bool is_stdin = !path || !strcmp(path, "-");
    const char *source = is_stdin ? "<stdin>" : path;
    FILE *in = is_stdin ? stdin : fopen(path, "re");
    struct sale s = { .on_row = on_row, .user = user };
    uint64_t xxh3;
    int rc;

    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    rc = spot_csv_read(in, source, sold, SPOT_CATALOGUE_COLUMNS, on_sale, &s, &xxh3, err);
    if (!is_stdin)
        fclose(in);
    if (!rc && !s.n_row)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no row under the header", source);
    if (!rc) {
        qsort(s.offered, s.n_row, sizeof(*s.offered), by_place);
        rc = check_offers(&s, source, err);
    }
    release_sale(&s);
    if (!rc && prov)
        spot_prov_add(prov, source, xxh3);
    return rc;
}

int spot_catalogue_need_price(const struct spot_catalogue_row *row, struct spot_err *err)
{
    if (row->csv->field[SPOT_CATALOGUE_ON_DEMAND_USD] || row->csv->field[SPOT_CATALOGUE_SPOT_USD])
        return 0;
    return spot_err_set(err, SPOT_EDATA,
                        "%s:1: header lacks the prices: expected a column on_demand_usd_per_h or "
                        "spot_usd_per_h",
                        row->csv->source);
}

/* --- hardware --- */

#define AT(member) offsetof(struct spot_catalogue_type, member)

static const struct column {
    const char *name; /* a leading '?': may be missing */
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

enum { TYPE, GPUS, SPOT_USD = 7, COLUMNS = sizeof(column) / sizeof(column[0]) };

struct reading {
    const char *name;
    struct spot_catalogue_type *type;
    bool is_found;
    unsigned long line;
};

/* Values not known yet are below the column's minimum: 0 GPUs, -1 for all others. */
static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct reading *r = user;
    const bool is_first = !r->is_found;

    if (strcmp(row->field[TYPE], r->name) != 0)
        return 0;
    r->line = is_first ? row->line : r->line;
    r->is_found = true;
    for (size_t k = GPUS; k < (is_first ? COLUMNS : SPOT_USD); k++) {
        const struct column *c = &column[k];
        void *const at = (char *)r->type + c->offset;
        const double known = k == GPUS ? (double)*(int64_t *)at : *(double *)at;
        int64_t gpus = 0;
        double x = 0;

        if (!row->field[k] || !*row->field[k])
            continue;
        if (k == GPUS ? spot_csv_int(row, k, (int64_t)c->min, (int64_t)c->max, &gpus, err)
                      : spot_csv_real(row, k, c->min, c->max, &x, err))
            return -1;
        x = k == GPUS ? (double)gpus : x;
        if (known >= c->min && x != known)
            return spot_csv_fail(row, k, err, "%.40s, but line %lu of '%.64s' says otherwise",
                                 row->field[k], r->line, r->name);
        if (k == GPUS)
            *(int64_t *)at = gpus;
        else
            *(double *)at = x;
    }
    return 0;
}

int spot_catalogue_find(struct spot_catalogue_type *type, const char *name, FILE *in,
                        const char *source, uint64_t *xxh3, struct spot_err *err)
{
    struct reading r = { .name = name, .type = type };
    const char *want[COLUMNS];

    *type = (struct spot_catalogue_type){ 0, -1, -1, -1, -1, -1, -1, -1 };
    for (size_t k = 0; k < COLUMNS; k++)
        want[k] = column[k].name;
    if (spot_csv_read(in, source, want, COLUMNS, on_row, &r, xxh3, err))
        return -1;
    if (!type->gpus)
        type->gpus = 1;
    return r.is_found ? 0
                      : spot_err_set(err, SPOT_EDATA, "%s: no row has the instance type '%.64s'",
                                     source, name);
}
