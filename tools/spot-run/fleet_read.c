/* SPDX-License-Identifier: MIT */
#include "fleet_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/json.h"
#include "common/utf8.h"
#include "common/xalloc.h"
#include "model/catalogue.h"

/* --- a list --- */

enum { ID, TOKEN, ZONE, TYPE, MARKET, STATE, N_COLUMN };

static const char *const column[N_COLUMN] = { "id",     "token", "zone", "instance_type",
                                              "market", "state" };

static int read_market(const char *text, bool *is_on_demand)
{
    *is_on_demand = !strcmp(text, "on-demand");
    return *is_on_demand || !strcmp(text, "spot") ? 0 : -1;
}

static int read_state(const char *text, enum spot_fleet_life *life)
{
    static const char *const name[] = { "starting", "running", "leaving", "gone" };

    for (int i = 0; i < 4; i++)
        if (!strcmp(text, name[i])) {
            *life = (enum spot_fleet_life)i;
            return 0;
        }
    return -1;
}

static int on_machine(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct fleet_list *list = user;
    struct spot_fleet_listed m = { .life = SPOT_FLEET_RUNNING };
    const bool is_own = spot_fleet_is_own(list->fleet, row->field[TOKEN]);

    if (is_own && !*row->field[ID])
        return spot_csv_fail(row, ID, err, "expected an id");
    if (is_own && !*row->field[TYPE])
        return spot_csv_fail(row, TYPE, err, "expected a type");
    if (read_market(row->field[MARKET], &m.is_on_demand) && is_own)
        return spot_csv_fail(row, MARKET, err, "expected spot or on-demand, got '%s'",
                             row->field[MARKET]);
    if (read_state(row->field[STATE], &m.life) && is_own)
        return spot_csv_fail(row, STATE, err,
                             "expected starting, running, leaving or gone, got '%s'",
                             row->field[STATE]);
    m.id = spot_xstrdup(row->field[ID]);
    m.token = spot_xstrdup(row->field[TOKEN]);
    m.zone = spot_xstrdup(row->field[ZONE]);
    m.type = spot_xstrdup(row->field[TYPE]);
    list->listed = spot_xgrow(list->listed, &list->cap, list->n + 1, sizeof(m));
    list->listed[list->n++] = m;
    return 0;
}

void fleet_list_release(struct fleet_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free((void *)(uintptr_t)list->listed[i].id);
        free((void *)(uintptr_t)list->listed[i].token);
        free((void *)(uintptr_t)list->listed[i].zone);
        free((void *)(uintptr_t)list->listed[i].type);
    }
    free(list->listed);
    *list = (struct fleet_list){ .fleet = list->fleet };
}

int fleet_read_list(struct fleet_list *list, const struct spot_buf *text, struct spot_err *err)
{
    struct fleet_list next = { .fleet = list->fleet };
    FILE *in;
    int rc;

    if (!text->n)
        return spot_err_set(err, SPOT_EDATA, "--list: printed nothing, expected a header at least");
    in = fmemopen(text->data, text->n, "r");
    if (!in)
        return spot_err_sys(err, "--list");
    rc = spot_csv_read(in, "--list", column, N_COLUMN, on_machine, &next, NULL, err);
    fclose(in);
    if (rc) {
        fleet_list_release(&next);
        return -1;
    }
    fleet_list_release(list);
    *list = next;
    return 0;
}

/* --- output of a launch --- */

int fleet_read_ids(const struct spot_buf *text, char ***id, size_t *n)
{
    size_t cap = 0, begin = 0;
    int rc = 0;

    *id = NULL;
    *n = 0;
    for (size_t i = 0; i <= text->n && !rc; i++) {
        char *line;

        if (i < text->n && text->data[i] != '\n')
            continue;
        if (i == begin) {
            begin = i + 1;
            continue;
        }
        if (i - begin > SPOT_FLEET_TEXT_MAX || *n == SPOT_FLEET_MACHINES ||
            memchr(text->data + begin, '\0', i - begin)) {
            rc = -1;
            break;
        }
        line = spot_xcalloc(i - begin + 1, 1);
        memcpy(line, text->data + begin, i - begin);
        rc = spot_utf8_is_plain(line) && !strpbrk(line, " \t") ? 0 : -1;
        *id = spot_xgrow(*id, &cap, *n + 1, sizeof(**id));
        (*id)[(*n)++] = line;
        begin = i + 1;
    }
    for (; rc && *n > 0; --*n)
        free((*id)[*n - 1]);
    if (rc) {
        free(*id);
        *id = NULL;
    }
    return rc;
}

/* --- prices --- */

static int on_offer(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    for (int is_spot = 0; is_spot < 2; is_spot++)
        if (row->usd_per_h[is_spot] >= 0 &&
            spot_fleet_price(user, row->zone, row->type, !is_spot, row->usd_per_h[is_spot], err))
            return -1;
    return 0;
}

int fleet_read_prices(struct spot_fleet *fleet, const char *path, struct spot_err *err)
{
    return spot_catalogue_read(path, on_offer, fleet, NULL, err);
}
