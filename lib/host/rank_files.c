/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* F_SETLEASE. NOLINT(bugprone-reserved-identifier) */
#include "host/rank_files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "host/rank_files_state.h"

static const double look_s = 0.05, looks_share = 20;
static const double rest_s = 0.1; /* time without changes after which a file counts as complete */
static const double long_rest_s =
    2; /* time without changes if it cannot be determined whether a file is open or complete */
/* after so long without such a pause, a closed file counts as complete at once */
static const double hurried_s = 1;
static const double busy_s = 60; /* after so long a warning is printed */
static const char *const marker[] = { ".metadata", "trainer_state.json", "_CHECKPOINT_METADATA",
                                      "commit_success.txt", NULL };
/* Files that DeepSpeed and Megatron write beside the directories once a directory is complete. */
static const char *const pointer[] = { "latest", "latest_checkpointed_iteration.txt", NULL };

/* --- completeness of files --- */

/* True if no process has the file open for writing: only then is a lease granted, which is returned
 * at once. Returns 0 if the file system has no leases. */
static int is_closed(const struct spot_rank_files *f, const char *path, bool *closed)
{
    const int fd = spot_safe_open_file(f->fd, path, NULL);
    int rc;

    *closed = false;
    if (fd < 0)
        return 1;
    rc = fcntl(fd, F_SETLEASE, F_RDLCK);
    *closed = !rc;
    rc = !rc || errno == EAGAIN;
    if (*closed)
        (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    close(fd);
    return rc;
}

/* The time without changes that is required. A script that saves continuously is taken between two
 * of its saves. */
static double rest_of(const struct spot_rank_files *f)
{
    return f->busy_s > 0 && spot_clock_s() - f->busy_s > hurried_s ? 0 : rest_s;
}

static bool is_whole(const struct spot_rank_files *f, struct spot_rank_file *file)
{
    const double rest = spot_clock_s() - file->since_s;
    bool closed = false;

    if (file->is_broken)
        return false;
    if (file->is_base || file->is_closed || S_ISLNK(file->st.st_mode))
        return true;
    if (rest < rest_of(f) || f->is_frozen)
        return false;
    if (!is_closed(f, file->path, &closed))
        closed = rest >= long_rest_s;
    return file->is_closed = closed;
}

/* The end of the unit (a file or a directory) that begins at i. */
static size_t unit_end(const struct spot_rank_files *f, size_t i)
{
    const size_t n = spot_rank_files_unit(f->file[i].path) + 1;
    size_t end = i + 1;

    if (f->file[i].path[n - 1] == '/')
        while (end < f->n && !strncmp(f->file[end].path, f->file[i].path, n))
            end++;
    return end;
}

bool spot_rank_files_is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* True if a pointer file was written after all of [i, end). */
static bool is_pointed_to(const struct spot_rank_files *f, size_t i, size_t end)
{
    const struct spot_rank_file *last = NULL;

    for (size_t m = 0; pointer[m] && !last; m++)
        last = spot_rank_files_find(f, pointer[m]);
    for (; last && i < end; i++)
        if (spot_rank_files_is_later(&f->file[i].st.st_mtim, &last->st.st_mtim))
            return false;
    return last != NULL;
}

static bool is_marked(const struct spot_rank_files *f, size_t i, size_t end)
{
    const size_t n = spot_rank_files_unit(f->file[i].path);
    char path[SPOT_STATE_PATH_MAX + 32];

    if (is_pointed_to(f, i, end))
        return true;
    for (size_t m = 0; marker[m]; m++) {
        snprintf(path, sizeof(path), "%.*s/%s", (int)n, f->file[i].path, marker[m]);
        if (spot_rank_files_find(f, path))
            return true;
    }
    return false;
}

/* For checkpoints of torch's DCP that are written directly into the directory: it rewrites the
 * files each time, its metadata last. True if the file is not newer than the metadata. */
static bool is_behind_metadata(const struct spot_rank_files *f, const struct spot_rank_file *file)
{
    const struct spot_rank_file *const last = spot_rank_files_find(f, marker[0]);
    const size_t n = strlen(file->path);

    return !last || n < 7 || strcmp(file->path + n - 7, ".distcp") != 0 ||
           !spot_rank_files_is_later(&file->st.st_mtim, &last->st.st_mtim);
}

static bool is_dir(const struct spot_rank_files *f, size_t i)
{
    return f->file[i].path[spot_rank_files_unit(f->file[i].path)] == '/';
}

/* Extra time without changes for a directory without a marker: long, or for ever if another node
 * may be about to write the marker. */
static double rest_asked(const struct spot_rank_files *f, size_t i, size_t end)
{
    return !is_dir(f, i) || is_marked(f, i, end) ? 0 : f->is_first ? long_rest_s : INFINITY;
}

/* True if the unit [i, end) is complete. */
static bool is_unit_whole(const struct spot_rank_files *f, size_t i, size_t end)
{
    const double rest = rest_asked(f, i, end);

    for (size_t k = i; k < end; k++)
        if (!is_whole(f, &f->file[k]) || (!is_dir(f, i) && !is_behind_metadata(f, &f->file[k])) ||
            (!f->file[k].is_base && spot_clock_s() - f->file[k].since_s < rest))
            return false;
    return true;
}

static void add_print(struct spot_hash_stream *print, const struct spot_rank_file *file)
{
    const int64_t all[] = { (int64_t)file->st.st_dev, (int64_t)file->st.st_ino, file->st.st_size,
                            file->st.st_mtim.tv_sec, file->st.st_mtim.tv_nsec };

    spot_hash_stream_add(print, file->path, strlen(file->path) + 1);
    spot_hash_stream_add(print, all, sizeof(all));
}

/* A fingerprint of all complete units; 0: there is none. *busy: the first incomplete one; f->n:
 * none. */
static uint64_t print_of(const struct spot_rank_files *f, size_t *busy)
{
    struct spot_hash_stream *const print = spot_hash_stream_new();
    uint64_t value;
    bool any = false;

    *busy = f->n;
    for (size_t i = 0, end; i < f->n; i = end) {
        end = unit_end(f, i);
        if (is_unit_whole(f, i, end)) {
            any = true;
            for (size_t k = i; k < end; k++)
                add_print(print, &f->file[k]);
        } else if (*busy == f->n && !f->file[i].is_broken && isfinite(rest_asked(f, i, end)))
            *busy = i;
    }
    value = any ? spot_hash_stream_64(print) : 0;
    spot_hash_stream_free(print);
    return value;
}

/* Warn of a script that always writes: none of its checkpoints can be taken, which would otherwise
 * only be noticed after a loss. */
static void note_busy(struct spot_rank_files *f, const char *path)
{
    snprintf(f->busy, sizeof(f->busy), "%s", path);
    if (f->busy_s <= 0)
        f->busy_s = spot_clock_s();
    if (f->is_frozen || f->has_warned_busy || spot_clock_s() - f->busy_s < busy_s)
        return;
    f->has_warned_busy = true;
    if (f->warn)
        f->warn("no checkpoint is taken: '%.60s/%.200s' or a file beside it has been written for "
                "%g s without a pause of %g s",
                f->base, f->busy, busy_s, rest_s);
}

/* True if the entries are directories. Each is then a separate checkpoint, so that complete ones
 * can be taken while another is being written. */
static bool are_directories(const struct spot_rank_files *f)
{
    for (size_t i = 0; i < f->n; i = unit_end(f, i))
        if (!is_dir(f, i))
            return false;
    return true;
}

/* Nothing is being written: everything is complete. */
static void note_whole(struct spot_rank_files *f)
{
    struct timespec newest = { 0 };

    for (size_t i = 0, end; i < f->n; i = end) {
        end = unit_end(f, i);
        if (!is_unit_whole(f, i, end))
            continue;
        for (size_t k = i; k < end; k++)
            if (spot_rank_files_is_later(&f->file[k].st.st_mtim, &newest))
                newest = f->file[k].st.st_mtim;
    }
    spot_rank_files_are_whole(f, &newest);
}

static enum spot_rank_files_state look(struct spot_rank_files *f)
{
    struct spot_err why;
    uint64_t print;
    size_t busy;

    *f->busy = '\0';
    if (spot_rank_files_scan(f, &why)) {
        if (f->warn && !f->has_warned)
            f->warn("no checkpoint is taken: %s", why.msg);
        f->has_warned = true;
        return SPOT_FILES_SAME;
    }
    print = print_of(f, &busy);
    if (busy < f->n && (!print || print == f->taken || !are_directories(f))) {
        note_busy(f, f->file[busy].path);
        return f->is_frozen ? SPOT_FILES_SAME : SPOT_FILES_BUSY;
    }
    if (spot_clock_s() - f->changed_s >= rest_s)
        f->busy_s = 0;
    if (busy == f->n && !f->is_frozen)
        note_whole(f);
    return !print || print == f->taken ? SPOT_FILES_SAME : SPOT_FILES_READY;
}

enum spot_rank_files_state spot_rank_files_look(struct spot_rank_files *f)
{
    const double now_s = spot_clock_s();

    if (now_s - f->looked_s >= f->pause_s) {
        f->state = look(f);
        f->looked_s = spot_clock_s();
        /* where there are many files */
        f->pause_s = fmax(look_s, looks_share * (f->looked_s - now_s));
    }
    return f->state;
}

const char *spot_rank_files_busy(const struct spot_rank_files *f)
{
    return f->busy;
}

void spot_rank_files_hurry(struct spot_rank_files *f)
{
    f->looked_s = 0;
}

void spot_rank_files_again(struct spot_rank_files *f)
{
    f->taken = 0;
    f->looked_s = 0;
}

void spot_rank_files_mark(struct spot_rank_files *f)
{
    clock_gettime(CLOCK_REALTIME_COARSE, &f->mark);
}

bool spot_rank_files_is_since_mark(const struct spot_rank_files *f)
{
    return spot_rank_files_is_later(&f->newest_at, &f->mark);
}

/* Keep the time of the newest of all files, or of those in path[n]. */
static void keep_newest(struct spot_rank_files *f, const char *const *path, size_t n)
{
    const struct spot_rank_file *newest = NULL;

    for (size_t i = 0; i < (path ? n : f->n); i++) {
        const struct spot_rank_file *const file =
            path ? spot_rank_files_find(f, path[i]) : &f->file[i];

        if (!file->is_broken &&
            (!newest || !spot_rank_files_is_later(&newest->st.st_mtim, &file->st.st_mtim)))
            newest = file;
    }
    f->newest_at = newest ? newest->st.st_mtim : (struct timespec){ 0 };
}

void spot_rank_files_begin(struct spot_rank_files *f, bool is_restored, bool is_first)
{
    size_t busy;

    f->is_first = is_first;
    f->is_frozen = false;
    (void)spot_rank_files_scan(f, NULL);
    for (size_t i = 0; i < f->n; i++)
        f->file[i].is_base = !f->file[i].is_broken;
    if (is_restored) {
        f->taken = print_of(f, &busy);
        keep_newest(f, NULL, 0);
    }
    spot_rank_files_begin_running(f);
    f->looked_s = 0;
}

/* True if no process is writing the file; if that cannot be determined it must be old. */
static bool is_at_rest(const struct spot_rank_files *f, const struct spot_rank_file *file)
{
    struct timespec old;
    bool closed = false;

    if (S_ISLNK(file->st.st_mode) || is_closed(f, file->path, &closed))
        return S_ISLNK(file->st.st_mode) || closed;
    clock_gettime(CLOCK_REALTIME, &old);
    old.tv_sec -= (time_t)long_rest_s;
    return !spot_rank_files_is_later(&file->st.st_mtim, &old) ||
           spot_clock_s() - file->since_s >= long_rest_s;
}

/* True if a file of [i, end) was written after the last time at which all were known to be
 * complete, and no marker shows its completion. */
static bool is_doubtful(struct spot_rank_files *f, size_t i, size_t end,
                        const struct timespec *whole)
{
    bool is_it = false;

    for (size_t k = i; k < end && !is_it; k++)
        is_it = spot_rank_files_is_later(&f->file[k].st.st_mtim, whole);
    if (!is_it || (is_dir(f, i) && is_marked(f, i, end)))
        return false;
    if (f->warn && !f->file[i].is_broken)
        f->warn("'%.60s/%.*s' may have been half written when its ranks were killed: it does not "
                "count, unless '%.60s/" SPOT_FILES_RUNNING "' is removed first",
                f->base, (int)spot_rank_files_unit(f->file[i].path), f->file[i].path, f->base);
    return true;
}

void spot_rank_files_adopt(struct spot_rank_files *f)
{
    struct timespec whole;
    const bool was_running = spot_rank_files_were_running(f, &whole);
    bool has_marked = false;

    *f->busy = '\0';
    (void)spot_rank_files_scan(f, NULL);
    for (size_t i = 0, end; i < f->n; i = end) {
        end = unit_end(f, i);
        has_marked = has_marked || (is_dir(f, i) && is_marked(f, i, end));
    }
    for (size_t i = 0, end; i < f->n; i = end) {
        bool is_good;

        end = unit_end(f, i);
        is_good = !is_dir(f, i) || !has_marked || is_marked(f, i, end);
        if (was_running && is_doubtful(f, i, end, &whole)) {
            is_good = false;
            for (size_t k = i; k < end; k++)
                f->file[k].is_broken = true;
        }
        for (size_t k = i; is_good && k < end; k++)
            if (!is_at_rest(f, &f->file[k])) {
                is_good = false;
                note_busy(f, f->file[k].path);
            }
        for (size_t k = i; k < end; k++)
            f->file[k].is_base = is_good;
    }
    f->looked_s = 0;
}

void spot_rank_files_reject(struct spot_rank_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        f->file[i].is_broken = true;
}

void spot_rank_files_freeze(struct spot_rank_files *f)
{
    if (f->is_frozen)
        return;
    f->is_frozen = true;
    f->frozen_s = spot_clock_s();
    (void)spot_rank_files_scan(f, NULL);
    for (size_t i = 0, end; i < f->n; i = end) {
        end = unit_end(f, i);
        if (!is_unit_whole(f, i, end))
            for (size_t k = i; k < end; k++)
                f->file[k].is_broken = true;
    }
    f->looked_s = 0;
}

/* --- storing --- */

void spot_rank_files_list(const struct spot_rank_files *f, struct spot_buf *out)
{
    for (size_t i = 0, end; i < f->n; i = end) {
        const char *const path = f->file[i].path;
        const size_t n = spot_rank_files_unit(path);

        end = unit_end(f, i);
        if (path[n] == '/' && is_unit_whole(f, i, end)) {
            spot_buf_add(out, path, n);
            spot_buf_add(out, "", 1);
        }
    }
}

static bool is_listed(const unsigned char *dirs, size_t n_dirs, const char *path)
{
    const size_t n = spot_rank_files_unit(path);

    if (path[n] != '/')
        return true;
    for (size_t at = 0; at < n_dirs;) {
        const size_t length = strnlen((const char *)dirs + at, n_dirs - at);

        if (length == n && !memcmp(dirs + at, path, n))
            return true;
        at += length + 1;
    }
    return false;
}

/* True if a link stays below its directory: "a/latest" may lead to "b", which means "a/b". What
 * lies above or elsewhere is not part of the checkpoint. */
static bool leads_below(struct spot_rank_files *f, const struct spot_rank_file *file)
{
    char to[SPOT_STATE_PATH_MAX];
    const int n_slash = strchr(file->path, '/') != NULL;
    const ssize_t n = readlinkat(f->fd, file->path, to, sizeof(to) - 1);

    if (n > 0) {
        to[n] = '\0';
        if (spot_state_path_is_below(to))
            return true;
    }
    if (f->warn && n > 0 && !f->has_warned_link)
        f->warn("'%.60s/%.200s' leads to '%.200s', which is not below %s: it is left out", f->base,
                file->path, to, n_slash ? "its directory" : "the directory of the checkpoints");
    f->has_warned_link = true;
    return false;
}

static void keep_digests(struct spot_rank_files *f, const struct spot_state_record *record)
{
    for (size_t i = 0; i < record->n_file; i++) {
        struct spot_rank_file *const file = spot_rank_files_find(f, record->file[i].path);

        file->has_digest = true;
        file->digest = spot_rank_files_digest(record, i);
    }
}

/* True if the files are as they were when no process had them open for writing, before they were
 * read: otherwise a save that began meanwhile would be taken half. */
static bool are_as_seen(const struct spot_rank_files *f, const char *const *path, size_t n)
{
    struct stat now;

    for (size_t i = 0; i < n; i++)
        if (fstatat(f->fd, path[i], &now, AT_SYMLINK_NOFOLLOW) ||
            !spot_rank_files_is_as_before(&spot_rank_files_find(f, path[i])->st, &now))
            return false;
    return true;
}

int spot_rank_files_take(struct spot_rank_files *f, struct spot_state_store *store,
                         const unsigned char *dirs, size_t n_dirs, bool is_first,
                         struct spot_state_record *record, struct spot_err *err)
{
    const char **only;
    size_t n = 0, busy;
    uint64_t print;
    int rc = 1;

    f->looked_s = 0;
    if (spot_rank_files_scan(f, err))
        return -1;
    print = print_of(f, &busy);
    only = spot_xcalloc(f->n + 1, sizeof(*only));
    for (size_t i = 0; i < f->n; i++) {
        struct spot_rank_file *const file = &f->file[i];

        if (file->is_broken || !is_listed(dirs, n_dirs, file->path) ||
            (!is_first && file->is_base) || (S_ISLNK(file->st.st_mode) && !leads_below(f, file)))
            continue;
        if (!is_whole(f, file)) {
            note_busy(f, file->path);
            goto out;
        }
        only[n++] = file->path;
    }
    rc = n ? spot_state_take(store, f->fd, only, n, true, record, err) : 0;
    if ((rc && err->code == SPOT_EDATA) || (!rc && !are_as_seen(f, only, n)))
        rc = 1; /* the files have changed meanwhile */
    if (!rc) {
        keep_digests(f, record);
        keep_newest(f, only, n);
        spot_rank_files_are_whole(f, &f->newest_at);
        f->taken = print;
    }
out:
    free(only);
    return rc;
}

/* --- all of it --- */

struct spot_rank_files *spot_rank_files_new(const char *pattern,
                                            void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2),
                                            struct spot_err *err)
{
    const char *const slash = strrchr(pattern, '/');
    const size_t n_base = slash ? (size_t)(slash - pattern) : 0;
    struct spot_rank_files *f;

    if (!*pattern || (slash && strcspn(pattern, "*?[") < n_base)) {
        spot_err_set(err, SPOT_EUSAGE,
                     "--checkpoint must be a name, a pattern of the last name, or DIR/, got "
                     "'%.200s'",
                     pattern);
        return NULL;
    }
    f = spot_xcalloc(1, sizeof(*f));
    clock_gettime(CLOCK_REALTIME_COARSE, &f->begun);
    f->base = slash ? spot_xstrdup(pattern) : spot_xstrdup(".");
    if (slash)
        f->base[n_base ? n_base : 1] = '\0';
    f->glob = spot_xstrdup(slash && slash[1] ? slash + 1 : slash ? "*" : pattern);
    f->fd = f->lock_fd = -1;
    f->warn = warn;
    return f;
}

void spot_rank_files_free(struct spot_rank_files *f)
{
    if (!f)
        return;
    spot_rank_files_let_go(f);
    spot_rank_files_release(f->file, f->n);
    if (f->fd >= 0)
        close(f->fd);
    free(f->base);
    free(f->glob);
    free(f);
}
