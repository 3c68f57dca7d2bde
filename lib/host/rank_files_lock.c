/* SPDX-License-Identifier: MIT */
/* One job at a time works in a directory of checkpoints: a second one would take the files of the
 * first for its own and move them aside. A file there is locked (flock) for as long as a process of
 * the job lives, and names the job: several nodes of one job may share a directory. The lock ends
 * with the processes, so what a killed job leaves refuses nobody. The descriptor is close-on-exec:
 * the guard of the ranks, which is forked before they are, holds it too, the ranks do not.
 */
#define _DEFAULT_SOURCE /* flock, gethostname */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/pio.h"
#include "common/safe_dir.h"
#include "host/rank_files_state.h"

#define FIRST_WORD "spot-job "
enum { TEXT_MAX = 512 };

/* A killed job may have processes that are still ending. */
static const double orphans_s = 10, again_s = 0.02;

enum outcome { HELD, BUSY, UNABLE };

/* "spot-job JOB\nPID HOST\n" */
struct holder {
    char job[TEXT_MAX], host[64];
    long pid;
};

/* Returns false if the file is not one of ours. An empty one is of a process that was killed before
 * it wrote there. */
static bool read_holder(int fd, struct holder *h)
{
    char text[TEXT_MAX];
    const ssize_t n = spot_read_at(fd, 0, text, sizeof(text) - 1);
    char *line;

    *h = (struct holder){ 0 };
    if (n <= 0)
        return n == 0;
    text[n] = '\0';
    line = strchr(text, '\n');
    if (strncmp(text, FIRST_WORD, strlen(FIRST_WORD)) || !line)
        return false;
    *line++ = '\0';
    snprintf(h->job, sizeof(h->job), "%s", text + strlen(FIRST_WORD));
    h->pid = strtol(line, &line, 10);
    line += *line == ' ';
    snprintf(h->host, sizeof(h->host), "%.*s", (int)strcspn(line, "\n"), line);
    return true;
}

static void read_host(char *host, size_t n)
{
    *host = '\0';
    (void)gethostname(host, n - 1);
    host[n - 1] = '\0';
}

static int write_holder(const struct spot_rank_files *f, int fd)
{
    char text[TEXT_MAX], host[64];
    int n;

    read_host(host, sizeof(host));
    n = snprintf(text, sizeof(text), FIRST_WORD "%.300s\n%ld %s\n", f->job, (long)getpid(), host);
    return ftruncate(fd, 0) || spot_write_at(fd, 0, text, (size_t)n) ? -1 : 0;
}

/* The first process of a job writes the name under an exclusive lock; then all of the job share the
 * lock. The change from one to the other is not atomic, so the name is read again after it. */
static enum outcome attempt(struct spot_rank_files *f, int fd, struct holder *h)
{
    if (!flock(fd, LOCK_EX | LOCK_NB)) {
        if (!spot_safe_is_at(f->fd, SPOT_FILES_LOCK, fd))
            return BUSY; /* the last holder has just removed it */
        if (!read_holder(fd, h)) {
            errno = EEXIST;
            return UNABLE;
        }
        if (write_holder(f, fd))
            return UNABLE;
    } else if (errno != EWOULDBLOCK) {
        return UNABLE;
    }
    if (flock(fd, LOCK_SH | LOCK_NB))
        return errno == EWOULDBLOCK ? BUSY : UNABLE;
    return read_holder(fd, h) && !strcmp(h->job, f->job) &&
                   spot_safe_is_at(f->fd, SPOT_FILES_LOCK, fd)
               ? HELD
               : BUSY;
}

static enum outcome try_to_hold(struct spot_rank_files *f, struct holder *h)
{
    const int fd = spot_safe_open(f->fd, SPOT_FILES_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    const enum outcome outcome = fd < 0 ? UNABLE : attempt(f, fd, h);
    const int why = errno;

    if (outcome == HELD)
        f->lock_fd = fd;
    else
        spot_close(fd);
    errno = why;
    return outcome;
}

/* True if the process is known to run: on this host, and not one that has ended and was not waited
 * for. */
static bool is_alive(const struct holder *h)
{
    char host[64], path[64], line[512] = "";
    const char *state;
    FILE *stat;

    read_host(host, sizeof(host));
    if (strcmp(host, h->host) || h->pid <= 0 || (kill((pid_t)h->pid, 0) && errno != EPERM))
        return false;
    snprintf(path, sizeof(path), "/proc/%ld/stat", h->pid);
    stat = fopen(path, "re");
    if (stat) {
        (void)fgets(line, sizeof(line), stat);
        (void)fclose(stat);
    }
    state = strrchr(line, ')');
    return !state || !strchr("ZX", state[state[1] ? 2 : 0]);
}

static int refuse(const struct spot_rank_files *f, const struct holder *h, struct spot_err *err)
{
    char host[64], where[80] = "";

    read_host(host, sizeof(host));
    if (strcmp(host, h->host))
        snprintf(where, sizeof(where), " of %s", h->host);
    return spot_err_set(err, SPOT_ESYS,
                        "the directory of the checkpoints, '%.200s', is in use by another job, "
                        "process %ld%s: wait for its end, or run this one in another directory",
                        f->base, h->pid, where);
}

int spot_rank_files_hold(struct spot_rank_files *f, const char *job, struct spot_err *err)
{
    const double begin_s = spot_clock_s();
    const bool is_start = !f->job[0];
    struct holder h = { 0 };
    enum outcome outcome;

    if (is_start)
        snprintf(f->job, sizeof(f->job), "%s", job);
    if (!spot_rank_files_open(f) ||
        (f->lock_fd >= 0 && spot_safe_is_at(f->fd, SPOT_FILES_LOCK, f->lock_fd)) ||
        f->is_unlockable)
        return 0;
    spot_close(f->lock_fd); /* of a directory that the script has removed */
    f->lock_fd = -1;
    while ((outcome = try_to_hold(f, &h)) == BUSY) {
        const double waited_s = spot_clock_s() - begin_s;

        if (waited_s > (!is_start || is_alive(&h) ? 0.5 : orphans_s))
            return refuse(f, &h, err);
        spot_clock_sleep(again_s);
    }
    f->is_unlockable = outcome == UNABLE;
    if (f->is_unlockable && f->warn)
        f->warn("'%.60s/" SPOT_FILES_LOCK "' cannot be locked (%s): another job in this directory "
                "would not be noticed",
                f->base, strerror(errno));
    return 0;
}

void spot_rank_files_let_go(struct spot_rank_files *f)
{
    if (f->lock_fd < 0)
        return;
    /* only the last one of the job gets it */
    if (!flock(f->lock_fd, LOCK_EX | LOCK_NB) && f->fd >= 0 &&
        spot_safe_is_at(f->fd, SPOT_FILES_LOCK, f->lock_fd))
        (void)unlinkat(f->fd, SPOT_FILES_LOCK, 0);
    close(f->lock_fd);
    f->lock_fd = -1;
}
