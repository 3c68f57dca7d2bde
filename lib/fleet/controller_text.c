/* SPDX-License-Identifier: MIT */
/* The state: CSV, a row for the fleet, for each launch and each machine, and a last one with the
 * hash of all bytes above. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/csv_write.h"
#include "common/hash.h"
#include "common/num.h"
#include "common/xalloc.h"
#include "fleet/controller.h"
#include "fleet/controller_state.h"

enum { ROW, TOKEN, ID, ZONE, TYPE, MARKET, COUNT, PHASE, N_COLUMN };

static const char *const column[N_COLUMN] = { "row",           "token",  "id",    "zone",
                                              "instance_type", "market", "count", "phase" };
static const char *const phase_name[] = { "up", "draining", "ending" };

static void put_row(FILE *out, const char *row, const char *token, const char *id,
                    const struct spot_fleet_market *market, int64_t count, const char *phase)
{
    const char *const text[] = { row,
                                 token,
                                 id,
                                 market ? market->zone : "",
                                 market ? market->type : "",
                                 !market                ? ""
                                 : market->is_on_demand ? "on-demand"
                                                        : "spot" };

    for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++) {
        spot_csv_put(out, text[i], ',');
        putc(',', out);
    }
    fprintf(out, "%lld,%s\n", (long long)count, phase);
}

char *spot_fleet_write_state(const struct spot_fleet *f, size_t *n_byte)
{
    char *text, hash[17];
    FILE *out = spot_xmemory_open(&text, n_byte);

    for (int i = 0; i < N_COLUMN; i++)
        fprintf(out, "%s%c", column[i], i + 1 < N_COLUMN ? ',' : '\n');
    put_row(out, "fleet", f->set.name, "", NULL, (int64_t)spot_fleet_elapsed_s(f) + 1,
            ""); /* whole, and not before what was logged */
    for (size_t i = 0; i < f->n_intent; i++)
        put_row(out, "launch", f->intent[i].token, "", &f->market[f->intent[i].market],
                f->intent[i].count, "");
    for (size_t i = 0; i < f->n_machine; i++)
        put_row(out, f->machine[i].is_listed ? "machine" : "unlisted", f->machine[i].token,
                f->machine[i].id, &f->market[f->machine[i].market], f->machine[i].was_asked,
                phase_name[f->machine[i].phase]);
    fflush(out);
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)spot_hash64(text, *n_byte));
    put_row(out, "end", hash, "", NULL, 0, "");
    spot_xmemory_close(out);
    return text;
}

static int read_fleet(struct spot_fleet *f, const struct spot_csv_row *row, int64_t count,
                      struct spot_err *err)
{
    if (strcmp(row->field[TOKEN], f->set.name) != 0)
        return spot_csv_fail(row, TOKEN, err, "the state of fleet '%s', not of '%s'",
                             row->field[TOKEN], f->set.name);
    f->before_s = (double)count;
    return 0;
}

static int read_machine(struct spot_fleet *f, const struct spot_csv_row *row, size_t market,
                        bool is_listed, bool was_asked, struct spot_err *err)
{
    struct spot_fleet_machine *m;
    int phase = 0;

    while (phase < 3 && strcmp(phase_name[phase], row->field[PHASE]) != 0)
        phase++;
    if (phase == 3)
        return spot_csv_fail(row, PHASE, err, "expected up, draining or ending");
    m = spot_fleet_add_machine(f, row->field[ID], row->field[TOKEN], market);
    m->phase = (enum spot_fleet_phase)phase;
    m->is_listed = is_listed;
    m->was_asked = was_asked;
    return 0;
}

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_fleet *f = user;
    const char *what = row->field[ROW], *token = row->field[TOKEN];
    int64_t count;
    size_t market;

    if (spot_csv_int(row, COUNT, 0, (int64_t)1 << 53, &count, err))
        return -1;
    if (!strcmp(what, "fleet"))
        return read_fleet(f, row, count, err);
    if (!strcmp(what, "end"))
        return 0;
    if (strlen(token) >= SPOT_FLEET_TOKEN_MAX + (size_t)SPOT_FLEET_TEXT_MAX)
        return spot_csv_fail(row, TOKEN, err, "too long");
    market = spot_fleet_market_of(f, row->field[ZONE], row->field[TYPE],
                                  !strcmp(row->field[MARKET], "on-demand"), err);
    if (market == SIZE_MAX)
        return -1;
    if (strcmp(what, "launch") != 0)
        return read_machine(f, row, market, !strcmp(what, "machine"), count > 0, err);
    if (strlen(token) >= SPOT_FLEET_TOKEN_MAX || count < 1 || count > SPOT_FLEET_LAUNCH)
        return spot_csv_fail(row, TOKEN, err, "no launch of ours");
    spot_fleet_add_intent(f, token, market, count);
    return 0;
}

/* Is the last row the hash of those above? */
static bool is_whole(const char *text, size_t n_byte)
{
    static const char start[] = "\nend,";
    char hash[17];
    size_t n = n_byte;

    if (!n || text[n - 1] != '\n')
        return false;
    for (n--; n > 0 && text[n - 1] != '\n'; n--)
        ;
    if (!n || n_byte - n < sizeof(start) - 2 + 16 || strncmp(text + n - 1, start, 5) != 0)
        return false;
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)spot_hash64(text, n));
    return !strncmp(text + n + 4, hash, 16);
}

int spot_fleet_read_state(struct spot_fleet *f, const char *text, size_t n_byte, const char *source,
                          struct spot_err *err)
{
    FILE *in;
    int rc;

    if (!is_whole(text, n_byte))
        return spot_err_at(err, source, 0, 0, NULL, "the state was cut or changed");
    in = fmemopen((void *)(uintptr_t)text, n_byte, "r");
    if (!in)
        return spot_err_sys(err, "cannot read %s", source);
    rc = spot_csv_read(in, source, column, N_COLUMN, on_row, f, NULL, err);
    fclose(in);
    spot_fleet_sort(f);
    return rc;
}
