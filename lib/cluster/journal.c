/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* flock */
#include "cluster/journal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/journal_state.h"
#include "common/clock.h"
#include "common/outlet.h"
#include "common/xalloc.h"

static void forget_end(struct spot_journal *j)
{
    j->loss = NAN;
    j->done_step = -1;
}

void spot_journal_drop_holder(struct spot_journal *j, const char *name)
{
    for (size_t i = j->n_holder; name && i-- > 0;)
        if (!strcmp(j->holder[i], name))
            memmove(j->holder[i], j->holder[--j->n_holder], sizeof(j->holder[i]));
}

void spot_journal_add_holder(struct spot_journal *j, const char *name)
{
    spot_journal_drop_holder(j, name); /* a member may have several places */
    j->holder = spot_xgrow(j->holder, &j->cap_holder, j->n_holder + 1, sizeof(*j->holder));
    snprintf(j->holder[j->n_holder++], sizeof(*j->holder), "%s", name);
}

void spot_journal_convict(struct spot_journal *j, const char *name)
{
    for (size_t i = 0; i < j->n_convicted; i++)
        if (!strcmp(j->convicted[i], name))
            return;
    j->convicted =
        spot_xgrow(j->convicted, &j->cap_convicted, j->n_convicted + 1, sizeof(*j->convicted));
    snprintf(j->convicted[j->n_convicted++], sizeof(*j->convicted), "%s", name);
}

static void add_holders(struct spot_journal *j, const struct spot_json_value *names)
{
    for (size_t i = 0; i < spot_json_array_size(names); i++) {
        const char *const name = spot_json_text(spot_json_entry(names, i));

        if (name && *name)
            spot_journal_add_holder(j, name);
    }
}

/* A member that computes a stage, or mirrors one, holds it at the newest step. */
static void take_holders(struct spot_journal *j, const struct spot_event *event)
{
    if (event->kind == SPOT_EVENT_FORMED) {
        j->n_holder = 0;
        add_holders(j, event->place);
        add_holders(j, event->buddies);
    } else if (event->kind == SPOT_EVENT_LOST || event->kind == SPOT_EVENT_LEFT) {
        spot_journal_drop_holder(j, event->who);
    }
}

/* Rolls back to the chain of that step, if it is one of the newest two. */
static void stand_at(struct spot_journal *j, int64_t step)
{
    const int64_t back = j->tail.step - step;

    forget_end(j);
    if (back)
        snprintf(j->chain, sizeof(j->chain), "%s", back == 1 ? j->chain_before : "");
    if (back)
        *j->chain_before = '\0';
    j->tail.step = step;
}

static void commit(struct spot_journal *j, const struct spot_event *event)
{
    const bool is_next = event->step == j->tail.step + 1;

    snprintf(j->chain_before, sizeof(j->chain_before), "%s", is_next ? j->chain : "");
    forget_end(j);
    j->tail.step = event->step;
    j->loss = event->loss;
    snprintf(j->chain, sizeof(j->chain), "%s", event->evidence.chain ? event->evidence.chain : "");
}

void spot_journal_take(struct spot_journal *j, const struct spot_event *event)
{
    struct spot_journal_tail *const tail = &j->tail;

    if (!event->is_job)
        return;
    j->is_continued = true;
    tail->time_s = event->time_s;
    if (event->epoch > tail->epoch) /* views run concurrently, each in its own epoch */
        tail->epoch = (uint32_t)event->epoch;
    take_holders(j, event);
    switch (event->kind) {
    case SPOT_EVENT_COMMITTED:
        commit(j, event);
        break;
    case SPOT_EVENT_ROLLED_BACK:
        stand_at(j, event->to);
        if (j->val_step > event->to)
            j->val_step = -1;
        break;
    case SPOT_EVENT_RESTORED:
        stand_at(j, event->step);
        break;
    case SPOT_EVENT_RESUMED:
        if (event->step > tail->step)
            stand_at(j, event->step);
        break;
    case SPOT_EVENT_VALIDATED:
        j->val_step = event->step;
        j->val_loss = event->loss;
        break;
    case SPOT_EVENT_LR_CHANGED:
        j->tuned_after = event->after;
        break;
    case SPOT_EVENT_CORRUPT:
        if (event->who && *event->who)
            spot_journal_convict(j, event->who);
        break;
    case SPOT_EVENT_DONE:
        j->done_step = event->step;
        snprintf(j->done_hex, sizeof(j->done_hex), "%s", event->state_hex);
        break;
    default:
        break;
    }
}

/* Reads an existing log, and truncates an incomplete last line. */
static int continue_file(struct spot_journal *j, const char *path, struct spot_err *err)
{
    struct spot_event_log log = { .source = path, .in = j->out, .drops_cut = true };
    struct spot_event event;
    int rc;

    rewind(j->out);
    while ((rc = spot_event_next(&log, &event, err)) > 0)
        spot_journal_take(j, &event);
    spot_event_log_release(&log);
    if (rc)
        return -1;
    if (fseek(j->out, (long)log.end_byte, SEEK_SET) ||
        ftruncate(fileno(j->out), (off_t)log.end_byte))
        return spot_err_sys(err, "cannot continue '%s'", path);
    return 0;
}

/* True if the file is empty or has only the beginning of a first line of a log. */
static bool is_begun(const struct spot_journal *j)
{
    static const char begin[] = "{\"schema\":\"spot.event/";
    char text[sizeof(begin)];
    size_t n;

    rewind(j->out);
    n = fread(text, 1, sizeof(begin) - 1, j->out);
    return !memcmp(text, begin, n) && !ferror(j->out);
}

/* Refuses to overwrite a log, or a file that is not a log. */
static int refuse_content(const struct spot_journal *j, const char *path, struct spot_err *err)
{
    struct spot_event_log log = { .source = path, .in = j->out, .drops_cut = true };
    struct spot_event event;
    struct spot_err ignored;
    bool is_log;

    rewind(j->out);
    is_log = spot_event_next(&log, &event, &ignored) > 0;
    spot_event_log_release(&log);
    if (is_log)
        return spot_err_set(err, SPOT_EUSAGE,
                            "'%s' is the log of another run: continue it with --resume, "
                            "choose another name, or remove it",
                            path);
    return is_begun(j) ? 0
                       : spot_err_set(err, SPOT_EUSAGE,
                                      "'%s' is not a log of events and would be overwritten: "
                                      "choose another name, or remove it",
                                      path);
}

/* A file is locked for one job; a pipe or a device cannot be continued, and may have several
 * writers. */
static int open_path(struct spot_journal *j, const char *path, bool resume, struct spot_err *err)
{
    struct stat st;
    const bool is_special = !stat(path, &st) && !S_ISREG(st.st_mode);

    j->out = fopen(path, is_special ? "we" : "a+e");
    if (!j->out)
        return spot_err_sys(err, "cannot write '%s'", path);
    j->is_owned = true;
    if (is_special)
        return 0;
    if (flock(fileno(j->out), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return spot_err_set(err, SPOT_ESYS, "'%s' is the log of a running job", path);
    if (resume)
        return continue_file(j, path, err);
    if (refuse_content(j, path, err))
        return -1;
    return ftruncate(fileno(j->out), 0) ? spot_err_sys(err, "cannot write '%s'", path) : 0;
}

/* For a pipe or terminal: writes through an outlet, so that a blocked reader does not block the
 * job. */
static int open_outlet(struct spot_journal *j, struct spot_err *err)
{
    FILE *stream;

    if (!j->out || !spot_outlet_is_needed(fileno(j->out)))
        return 0;
    j->outlet = spot_outlet_new(fileno(j->out), SPOT_JOURNAL_ROOM, false, err);
    stream = j->outlet ? spot_outlet_stream(j->outlet, err) : NULL;
    if (!stream)
        return -1;
    if (j->is_owned)
        fclose(j->out);
    j->out = stream;
    j->is_owned = true;
    return 0;
}

int spot_journal_open(struct spot_journal *j, const char *path, bool resume, int64_t *step,
                      uint32_t *epoch, struct spot_err *err)
{
    memset(j, 0, sizeof(*j));
    forget_end(j);
    j->tuned_after = j->val_step = j->tail.step = -1;
    j->kept_end = "";
    j->patience_s = 60;
    if (path && !strcmp(path, "-"))
        j->out = stdout;
    else if (path && open_path(j, path, resume, err))
        return -1;
    if (open_outlet(j, err))
        return -1;
    j->start_s = spot_clock_s() - j->tail.time_s;
    *step = j->tail.step;
    *epoch = j->tail.epoch;
    return 0;
}

bool spot_journal_ends_done(const struct spot_journal *j, int64_t step, const char *state_hex)
{
    return j->done_step == step && !strcmp(j->done_hex, state_hex);
}

double spot_journal_time(const struct spot_journal *j)
{
    return spot_clock_s() - j->start_s;
}

static void remember(struct spot_journal *j, const char *event, uint32_t epoch, int64_t step)
{
    struct spot_recent *r = &j->recent[j->n_recent % SPOT_RECENT_MAX];

    for (const char *const *often = j->frequent; often && *often; often++)
        if (!strcmp(event, *often))
            return;
    *r = (struct spot_recent){ .time_s = spot_journal_time(j), .epoch = epoch, .step = step };
    snprintf(r->event, sizeof(r->event), "%s", event);
    j->n_recent++;
}

void spot_journal_about(struct spot_journal *j, const char *name)
{
    struct spot_recent *r = &j->recent[(j->n_recent - 1) % SPOT_RECENT_MAX];

    if (j->n_recent)
        snprintf(r->name, sizeof(r->name), "%s", name);
}

struct spot_jw *spot_journal_begin(struct spot_journal *j, const char *event, uint32_t epoch,
                                   int64_t step)
{
    FILE *out = j->out;

    remember(j, event, epoch, step);
    if (!strcmp(event, "committed") || !strcmp(event, "rolled_back") || !strcmp(event, "restored"))
        forget_end(j);
    if (spot_journal_is_kept(j, event))
        out = spot_journal_kept_begin(j, event);
    if (!out)
        return NULL;
    spot_event_begin(&j->jw, out, NULL, event, spot_journal_time(j));
    spot_jw_int(&j->jw, "epoch", epoch);
    spot_jw_int(&j->jw, "step", step);
    return &j->jw;
}

/* Warns once, when the first event is dropped. */
static void warn_lost(struct spot_journal *j)
{
    if (!j->outlet || !j->warn || !spot_outlet_lost(j->outlet))
        return;
    j->warn("the reader of the events is blocked: %d MiB wait, further events are dropped",
            SPOT_JOURNAL_ROOM >> 20);
    j->warn = NULL;
}

static int end(struct spot_journal *j, struct spot_err *err)
{
    if (!j->out || !spot_event_end(&j->jw, err))
        return 0;
    __fpurge(j->out); /* otherwise closing would try to write again */
    return -1;
}

int spot_journal_end(struct spot_journal *j, struct spot_err *err)
{
    const int rc = j->kept ? spot_journal_kept_end(j, err) : end(j, err);

    warn_lost(j);
    return rc;
}

int spot_journal_sync(const struct spot_journal *j, struct spot_err *err)
{
    if (!j->out || j->outlet || !j->is_owned || !fdatasync(fileno(j->out)))
        return 0;
    if (errno == EINVAL || errno == EROFS)
        return 0; /* a pipe has no disk */
    return spot_err_sys(err, "cannot write the events to the disk");
}

/* Closes the outlet; earlier failures were already reported. */
static int close_outlet(struct spot_journal *j, struct spot_err *err)
{
    const bool has_failed = spot_outlet_put(j->outlet, "", 0);
    const uint64_t n_lost = spot_outlet_lost(j->outlet);
    const size_t n_byte = spot_outlet_free(j->outlet, j->patience_s);

    if (has_failed || (!n_lost && !n_byte))
        return 0;
    return n_lost ? spot_err_set(err, SPOT_ESYS,
                                 "the reader of the events was blocked: %llu events are missing",
                                 (unsigned long long)n_lost)
                  : spot_err_set(
                        err, SPOT_ESYS,
                        "the reader of the events was blocked: the last %zu bytes are missing",
                        n_byte);
}

int spot_journal_close(struct spot_journal *j, struct spot_err *err)
{
    int rc = 0;

    if (j->out && j->is_owned && fclose(j->out))
        rc = spot_err_sys(err, "cannot write the events");
    if (j->outlet && close_outlet(j, rc ? NULL : err))
        rc = -1;
    free(j->holder);
    free(j->convicted);
    memset(j, 0, sizeof(*j));
    return rc;
}
