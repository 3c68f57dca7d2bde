/* SPDX-License-Identifier: MIT */
/* The state as CSV: a row for the fleet and its version, for each refusing market, each launch and
 * each machine, and a last one with the hash of all bytes above. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/csv_write.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "fleet/controller.h"
#include "fleet/controller_state.h"

enum {
    ROW,
    TOKEN,
    ID,
    ZONE,
    TYPE,
    MARKET,
    COUNT,
    PHASE,
    LIFE,
    MISSED,
    TRIES,
    PHASE_S,
    LIFE_S,
    N_COLUMN
};

static const char *const column[N_COLUMN] = { "row",    "token",   "id",    "zone", "instance_type",
                                              "market", "count",   "phase", "life", "missed",
                                              "tries",  "phase_s", "life_s" };
static const char *const phase_name[] = { "up", "untold", "draining", "ending", NULL };
static const char *const life_name[] = { "starting", "running", "leaving", NULL };
/* Incremented when older versions would misread the file. */
static const char version[] = "fleet/3";

/* --- write --- */

static double to_wall(const struct spot_fleet *f, double time_s)
{
    return f->set.wall_s + time_s - f->first_s;
}

static void put_names(FILE *out, const char *row, const char *token, const char *id,
                      const struct spot_fleet_market *market)
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
}

static void put_market(FILE *out, const struct spot_fleet *f, const struct spot_fleet_market *m)
{
    put_names(out, "market", "", "", m);
    fprintf(out, "%d,,,0,%d,%.3f,0\n", m->is_refused, m->refusals, to_wall(f, m->retry_s));
}

static void put_machine(FILE *out, const struct spot_fleet *f, const struct spot_fleet_machine *m)
{
    put_names(out, m->is_listed ? "machine" : "unlisted", m->token, m->id, &f->market[m->market]);
    fprintf(out, "%d,%s,%s,%d,%d,%.3f,%.3f\n", m->was_asked, phase_name[m->phase],
            life_name[m->life], m->missed, m->tries, to_wall(f, m->phase_s), to_wall(f, m->life_s));
}

char *spot_fleet_write_state(const struct spot_fleet *f, size_t *n_byte)
{
    char *text, hash[17];
    FILE *out = spot_xmemory_open(&text, n_byte);

    for (int i = 0; i < N_COLUMN; i++)
        fprintf(out, "%s%c", column[i], i + 1 < N_COLUMN ? ',' : '\n');
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)f->id);
    put_names(out, version, f->set.name, hash, NULL);
    fprintf(out, "%llu,,,0,0,%.3f,%.3f\n", (unsigned long long)f->n_token, to_wall(f, f->now_s),
            spot_fleet_elapsed_s(f));
    for (size_t i = 0; i < f->n_market; i++)
        if (f->market[i].refusals || f->market[i].is_refused)
            put_market(out, f, &f->market[i]);
    for (size_t i = 0; i < f->n_intent; i++) {
        const struct spot_fleet_intent *t = &f->intent[i];

        put_names(out, "launch", t->token, "", &f->market[t->market]);
        fprintf(out, "%lld,,,%d,%d,%.3f,%.3f\n", (long long)t->count, t->missed, t->tries,
                to_wall(f, t->asked_s), to_wall(f, t->retry_s));
    }
    for (size_t i = 0; i < f->n_machine; i++)
        put_machine(out, f, &f->machine[i]);
    fflush(out);
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)spot_hash64(text, *n_byte));
    put_names(out, "end", hash, "", NULL);
    fputs("0,,,0,0,0,0\n", out);
    spot_xmemory_close(out);
    return text;
}

/* --- read --- */

/* Converts a wall clock time to this process's clock; a future time counts as now. */
static int read_time(const struct spot_fleet *f, const struct spot_csv_row *row, int k,
                     double *time_s, struct spot_err *err)
{
    double wall_s;

    if (spot_csv_real(row, (size_t)k, -1e12, 1e12, &wall_s, err))
        return -1;
    *time_s = fmin(f->first_s + wall_s - f->set.wall_s, f->now_s);
    return 0;
}

/* The same for the end of a pause, at most the longest pause from now. */
static int read_pause(const struct spot_fleet *f, const struct spot_csv_row *row, int k,
                      double *time_s, struct spot_err *err)
{
    double wall_s;

    if (spot_csv_real(row, (size_t)k, -1e12, 1e12, &wall_s, err))
        return -1;
    *time_s = fmin(f->first_s + wall_s - f->set.wall_s, f->now_s + f->set.longest_s);
    return 0;
}

static int read_small(const struct spot_csv_row *row, int k, int *n, struct spot_err *err)
{
    int64_t i;

    if (spot_csv_int(row, (size_t)k, 0, INT_MAX / 2, &i, err))
        return -1;
    *n = (int)i;
    return 0;
}

static int read_name(const struct spot_csv_row *row, int k, const char *const *name, int *i,
                     struct spot_err *err)
{
    for (*i = 0; name[*i]; ++*i)
        if (!strcmp(name[*i], row->field[k]))
            return 0;
    return spot_csv_fail(row, (size_t)k, err, "got '%s', which is no %s", row->field[k], column[k]);
}

static int read_fleet(struct spot_fleet *f, const struct spot_csv_row *row, int64_t count,
                      struct spot_err *err)
{
    const uint64_t n_token = (uint64_t)count;
    double saved_s;
    uint64_t id;

    if (strcmp(row->field[TOKEN], f->set.name) != 0)
        return spot_csv_fail(row, TOKEN, err, "the state of fleet '%s', not of '%s'",
                             row->field[TOKEN], f->set.name);
    if (strlen(row->field[ID]) != SPOT_FLEET_ID_MAX || !spot_fleet_read_id(row->field[ID], &id))
        return spot_csv_fail(row, ID, err, "expected %d hexadecimal digits", SPOT_FLEET_ID_MAX);
    if (f->set.has_id && id != f->id)
        return spot_csv_fail(row, ID, err, "the state of %s-%s, not of %s-%016llx", f->set.name,
                             row->field[ID], f->set.name, (unsigned long long)f->id);
    f->id = id;
    if (n_token > f->n_token)
        f->n_token = n_token;
    if (spot_csv_real(row, PHASE_S, -1e12, 1e12, &saved_s, err) ||
        spot_csv_real(row, LIFE_S, 0, 1e12, &f->before_s, err))
        return -1;
    f->before_s += fmax(0, f->set.wall_s - saved_s); /* time without a running controller */
    return 0;
}

static int read_market(struct spot_fleet *f, const struct spot_csv_row *row, size_t market,
                       bool is_refused, struct spot_err *err)
{
    struct spot_fleet_market *m = &f->market[market];

    m->is_refused = is_refused;
    return read_small(row, TRIES, &m->refusals, err) ||
                   read_pause(f, row, PHASE_S, &m->retry_s, err)
               ? -1
               : 0;
}

static int read_launch(struct spot_fleet *f, const struct spot_csv_row *row, size_t market,
                       int64_t count, struct spot_err *err)
{
    struct spot_fleet_intent *t;

    if (strlen(row->field[TOKEN]) >= SPOT_FLEET_TOKEN_MAX || count < 1 || count > SPOT_FLEET_LAUNCH)
        return spot_csv_fail(row, TOKEN, err, "not a launch of this fleet");
    t = spot_fleet_add_intent(f, row->field[TOKEN], market, count);
    return read_small(row, MISSED, &t->missed, err) || read_small(row, TRIES, &t->tries, err) ||
                   read_time(f, row, PHASE_S, &t->asked_s, err) ||
                   read_pause(f, row, LIFE_S, &t->retry_s, err)
               ? -1
               : 0;
}

static int read_machine(struct spot_fleet *f, const struct spot_csv_row *row, size_t market,
                        bool is_listed, bool was_asked, struct spot_err *err)
{
    struct spot_fleet_machine *m;
    int phase, life;

    if (read_name(row, PHASE, phase_name, &phase, err) ||
        read_name(row, LIFE, life_name, &life, err))
        return -1;
    m = spot_fleet_add_machine(f, row->field[ID], row->field[TOKEN], market);
    m->phase = (enum spot_fleet_phase)phase;
    m->life = (enum spot_fleet_life)life;
    m->is_listed = is_listed;
    m->was_asked = was_asked;
    return read_small(row, MISSED, &m->missed, err) || read_small(row, TRIES, &m->tries, err) ||
                   read_time(f, row, PHASE_S, &m->phase_s, err) ||
                   read_time(f, row, LIFE_S, &m->life_s, err)
               ? -1
               : 0;
}

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_fleet *f = user;
    const char *what = row->field[ROW];
    int64_t count;
    size_t market;

    if (spot_csv_int(row, COUNT, 0, (int64_t)1 << 53, &count, err))
        return -1;
    if (!strcmp(what, version))
        return read_fleet(f, row, count, err);
    if (!strcmp(what, "end"))
        return 0;
    if (strlen(row->field[TOKEN]) >= SPOT_FLEET_TOKEN_MAX + (size_t)SPOT_FLEET_TEXT_MAX)
        return spot_csv_fail(row, TOKEN, err, "too long");
    market = spot_fleet_market_of(f, row->field[ZONE], row->field[TYPE],
                                  !strcmp(row->field[MARKET], "on-demand"), err);
    if (market == SIZE_MAX)
        return -1;
    if (!strcmp(what, "market"))
        return read_market(f, row, market, count > 0, err);
    if (!strcmp(what, "launch"))
        return read_launch(f, row, market, count, err);
    if (!strcmp(what, "machine") || !strcmp(what, "unlisted"))
        return read_machine(f, row, market, !strcmp(what, "machine"), count > 0, err);
    return spot_csv_fail(row, ROW, err,
                         "expected %s, market, launch, machine, unlisted or end, got '%s'", version,
                         what);
}

/* True if the last row has the hash of those above. */
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
        return spot_err_at(err, source, 0, 0, NULL, "the state file was truncated or edited");
    in = fmemopen((void *)(uintptr_t)text, n_byte, "r");
    if (!in)
        return spot_err_sys(err, "cannot read %s", source);
    rc = spot_csv_read(in, source, column, N_COLUMN, on_row, f, NULL, err);
    fclose(in);
    spot_fleet_sort(f);
    return rc;
}
