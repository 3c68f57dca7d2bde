/* SPDX-License-Identifier: MIT */
#include "fleet_parts.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/csv_write.h"
#include "common/hash.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "model/event.h"

enum { NOTES = 256 };

struct fleet_log {
    FILE *events, *trace;
    double time_s;
    uint64_t note[2][NOTES]; /* hashes of the notes of this turn and of the last one */
    size_t n_note[2];
    int64_t (*count)[2]; /* [n_count] running and wanted, as last written */
    size_t n_count, cap;
    struct spot_err err; /* the first error */
    bool is_said;
};

const char *fleet_verb_name(enum spot_fleet_verb verb)
{
    static const char *const name[] = { "launch", "drain", "terminate" };

    return name[verb];
}

const char *fleet_market_name(bool is_on_demand)
{
    return is_on_demand ? "on-demand" : "spot";
}

static int drop_cut_line(int fd)
{
    struct stat st;
    off_t end;
    char c;

    if (fstat(fd, &st))
        return -1;
    for (end = st.st_size; end > 0; end--)
        if (pread(fd, &c, 1, end - 1) != 1)
            return -1;
        else if (c == '\n')
            break;
    return end < st.st_size ? ftruncate(fd, end) : 0;
}

static FILE *open_log(int dir_fd, const char *name, struct spot_err *err)
{
    const int fd = spot_safe_open(dir_fd, name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    FILE *file = fd < 0 || drop_cut_line(fd) ? NULL : fdopen(fd, "a");

    if (file)
        return file;
    spot_err_sys(err, "cannot append to %s", name);
    if (fd >= 0)
        close(fd);
    return NULL;
}

struct fleet_log *fleet_log_new(int dir_fd, struct spot_err *err)
{
    struct fleet_log *log = spot_xcalloc(1, sizeof(*log));

    log->events = open_log(dir_fd, "events.jsonl", err);
    log->trace = log->events ? open_log(dir_fd, "trace.csv", err) : NULL;
    if (!log->trace) {
        if (log->events)
            fclose(log->events);
        free(log);
        return NULL;
    }
    if (!lseek(fileno(log->trace), 0, SEEK_END))
        fputs("time_s,zone,instance_type,available,requested\n", log->trace);
    return log;
}

int fleet_log_free(struct fleet_log *log, struct spot_err *err)
{
    int rc = 0;

    if (!log)
        return 0;
    if (log->err.code && err) {
        *err = log->err;
        rc = -1;
    }
    if (fclose(log->events) | fclose(log->trace) && !rc)
        rc = spot_err_sys(err, "cannot write the log of the fleet");
    free(log->count);
    free(log);
    return rc;
}

const char *fleet_log_failure(struct fleet_log *log)
{
    const bool is_new = log->err.code && !log->is_said;

    log->is_said |= is_new;
    return is_new ? log->err.msg : NULL;
}

void fleet_log_turn(struct fleet_log *log, double time_s)
{
    log->time_s = time_s;
    memcpy(log->note[1], log->note[0], sizeof(log->note[0]));
    log->n_note[1] = log->n_note[0];
    log->n_note[0] = 0;
}

static uint64_t hash_note(const char *event, const char *machine, const char *why)
{
    char text[1024];
    const int n = snprintf(text, sizeof(text), "%s\n%s\n%s", event, machine ? machine : "", why);

    return spot_hash64(text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

/* True if the note was written in this turn or the last one. */
static bool is_old(struct fleet_log *log, uint64_t hash)
{
    bool is = false;

    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < log->n_note[t]; i++)
            is |= log->note[t][i] == hash;
    if (log->n_note[0] < NOTES)
        log->note[0][log->n_note[0]++] = hash;
    return is;
}

static void finish(struct fleet_log *log, struct spot_jw *jw)
{
    spot_event_end(jw, log->err.code ? NULL : &log->err);
}

bool fleet_log_note(struct fleet_log *log, const char *event, const char *machine, const char *why)
{
    struct spot_jw jw;

    if (is_old(log, hash_note(event, machine, why)))
        return false;
    spot_event_begin(&jw, log->events, NULL, event, log->time_s);
    if (machine)
        spot_jw_str(&jw, "node", machine);
    spot_jw_str(&jw, "why", why);
    finish(log, &jw);
    return true;
}

void fleet_log_action(struct fleet_log *log, const struct spot_fleet_action *a)
{
    struct spot_jw jw;

    spot_event_begin(&jw, log->events, NULL, fleet_verb_name(a->verb), log->time_s);
    if (a->id)
        spot_jw_str(&jw, "node", a->id);
    spot_jw_str(&jw, "token", a->token);
    spot_jw_str(&jw, "zone", a->zone);
    spot_jw_str(&jw, "instance_type", a->type);
    spot_jw_str(&jw, "market", fleet_market_name(a->is_on_demand));
    if (!a->id)
        spot_jw_int(&jw, "count", a->count);
    spot_jw_str(&jw, "why", a->why);
    finish(log, &jw);
}

void fleet_log_counts(struct fleet_log *log, const struct spot_fleet *fleet)
{
    const size_t n = spot_fleet_n_market(fleet);

    if (n > log->n_count) {
        log->count = spot_xgrow(log->count, &log->cap, n, sizeof(*log->count));
        memset(log->count + log->n_count, 0, (n - log->n_count) * sizeof(*log->count));
        log->n_count = n;
    }
    for (size_t i = 0; i < n; i++) {
        struct spot_fleet_market_view v;

        spot_fleet_view(fleet, i, &v);
        if (v.is_on_demand || (v.running == log->count[i][0] && v.target == log->count[i][1]))
            continue;
        log->count[i][0] = v.running;
        log->count[i][1] = v.target;
        fprintf(log->trace, "%.3f,", log->time_s);
        spot_csv_put(log->trace, v.zone, ',');
        putc(',', log->trace);
        spot_csv_put(log->trace, v.type, ',');
        fprintf(log->trace, ",%lld,%lld\n", (long long)v.running, (long long)v.target);
    }
    if (fflush(log->trace) && !log->err.code)
        spot_err_sys(&log->err, "cannot write trace.csv");
}
