/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* sync_file_range. NOLINT(bugprone-reserved-identifier) */
#include "common/out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/xalloc.h"

/* Temporary files that a signal handler removes. Names are in memory that is never freed, so that
 * the handler can read them at any time. */
enum { PENDING_MAX = 8, NAME_MAX_BYTE = 4096, LINKS_MAX = 40 };

static struct {
    atomic_int pid; /* the process that created it, 0: none; a forked child leaves it alone */
    char name[NAME_MAX_BYTE];
} pending[PENDING_MAX];

static void on_signal(int number)
{
    for (int i = 0; i < PENDING_MAX; i++)
        if (atomic_load(&pending[i].pid) == (int)getpid())
            unlink(pending[i].name);
    raise(number); /* ends the process: the handler was reset (SA_RESETHAND) */
}

/* Handles signals that the tool neither handles itself nor ignores. */
static void catch_signals(void)
{
    static const int number[] = { SIGINT, SIGTERM, SIGHUP };
    const struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    struct sigaction now;

    for (size_t i = 0; i < sizeof(number) / sizeof(number[0]); i++)
        if (!sigaction(number[i], NULL, &now) && now.sa_handler == SIG_DFL)
            sigaction(number[i], &action, NULL);
}

void spot_out_guard(const char *name)
{
    static atomic_flag lock = ATOMIC_FLAG_INIT;
    const size_t n = strlen(name) + 1;
    int i = 0;

    while (atomic_flag_test_and_set(&lock))
        ;
    while (i < PENDING_MAX && atomic_load(&pending[i].pid) == (int)getpid())
        i++;
    if (i < PENDING_MAX && n <= NAME_MAX_BYTE) {
        memcpy(pending[i].name, name, n);
        atomic_store(&pending[i].pid, (int)getpid());
        catch_signals();
    }
    atomic_flag_clear(&lock);
}

void spot_out_unguard(const char *name)
{
    for (int i = 0; i < PENDING_MAX; i++)
        if (atomic_load(&pending[i].pid) == (int)getpid() && !strcmp(pending[i].name, name))
            atomic_store(&pending[i].pid, 0);
}

/* True for "file.tmp.123" of "file" where process 123 does not exist. */
static bool is_orphan(const char *name, const char *base)
{
    static const char mark[] = ".tmp.";
    const size_t n = strlen(base), n_mark = sizeof(mark) - 1;
    const char *digits;
    long pid;

    if (strncmp(name, base, n) != 0 || strncmp(name + n, mark, n_mark) != 0)
        return false;
    digits = name + n + n_mark;
    pid = strspn(digits, "0123456789") == strlen(digits) ? strtol(digits, NULL, 10) : 0;
    return pid > 0 && pid == (pid_t)pid && kill((pid_t)pid, 0) && errno == ESRCH;
}

/* The directory of a path; free it. */
static char *directory_of(const char *path)
{
    const char *const slash = strrchr(path, '/');
    char *const dir = spot_xstrdup(slash ? path : ".");

    if (slash)
        dir[slash == path ? 1 : slash - path] = '\0';
    return dir;
}

void spot_out_sweep(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const base = slash ? slash + 1 : path;
    char *const dir = directory_of(path);
    const struct dirent *entry;
    DIR *const list = opendir(dir);

    while (list && (entry = readdir(list)))
        if (is_orphan(entry->d_name, base))
            (void)unlinkat(dirfd(list), entry->d_name, 0);
    if (list)
        closedir(list);
    free(dir);
}

bool spot_out_is_special(const char *path)
{
    struct stat st;

    return !stat(path, &st) && !S_ISREG(st.st_mode);
}

static void forget(struct spot_out *out)
{
    if (out->file && stdout != out->file)
        fclose(out->file);
    if (out->temporary)
        spot_out_unguard(out->temporary);
    free(out->path);
    free(out->temporary);
    memset(out, 0, sizeof(*out));
}

/* Like protected_symlinks of Linux, but always and in any directory: other users must not choose
 * the file that is written. */
static bool may_follow(const struct stat *link, const struct stat *dir)
{
    const bool is_trusted = link->st_uid == geteuid() || !link->st_uid;
    const bool is_private = (dir->st_uid == geteuid() || !dir->st_uid) && !(dir->st_mode & 022);

    return is_private || (is_trusted && (dir->st_mode & S_ISVTX || !(dir->st_mode & S_IWOTH)));
}

/* The path that a link at `path` leads to; NULL with *err. */
static char *follow(const char *path, const struct stat *link, struct spot_err *err)
{
    char *const dir = directory_of(path), *next = NULL;
    char to[NAME_MAX_BYTE];
    struct stat st;
    ssize_t n;

    if (stat(dir, &st) || (n = readlink(path, to, sizeof(to) - 1)) < 0) {
        spot_err_sys(err, "cannot follow the link '%s'", path);
    } else if (!may_follow(link, &st)) {
        spot_err_set(err, SPOT_ESYS,
                     "'%s' is a symbolic link that another user may have created: name the file to "
                     "which it leads",
                     path);
    } else {
        next = spot_xcalloc(strlen(dir) + (size_t)n + 2, 1);
        to[n] = '\0';
        if (*to == '/' || !strchr(path, '/'))
            memcpy(next, to, (size_t)n);
        else
            sprintf(next, "%s/%s", dir, to);
    }
    free(dir);
    return next;
}

char *spot_out_target(const char *path, struct spot_err *err)
{
    char *now = spot_xstrdup(path);
    struct stat link;

    for (int hops = 0; now && !lstat(now, &link) && S_ISLNK(link.st_mode); hops++) {
        char *const next = hops < LINKS_MAX ? follow(now, &link, err) : NULL;

        if (hops == LINKS_MAX)
            spot_err_set(err, SPOT_ESYS, "'%s': too many symbolic links", path);
        free(now);
        now = next;
    }
    return now;
}

int spot_out_open(struct spot_out *out, const char *path, struct spot_err *err)
{
    char *target;
    int rc;

    if (!path || !strcmp(path, "-"))
        return spot_out_open_own(out, path, err);
    memset(out, 0, sizeof(*out));
    target = spot_out_target(path, err);
    if (!target)
        return -1;
    rc = spot_out_open_own(out, target, err);
    free(target);
    return rc;
}

int spot_out_open_own(struct spot_out *out, const char *path, struct spot_err *err)
{
    memset(out, 0, sizeof(*out));
    if (!path || !strcmp(path, "-")) {
        out->file = stdout;
        return 0;
    }
    if (!*path)
        return spot_err_set(err, SPOT_EUSAGE, "the name of an output file is empty");
    out->path = spot_xstrdup(path);
    if (!spot_out_is_special(path)) {
        const size_t n = strlen(path) + 32;

        out->temporary = spot_xcalloc(n, 1);
        snprintf(out->temporary, n, "%s.tmp.%ld", path, (long)getpid());
        unlink(out->temporary); /* left by a killed process, or a link */
        spot_out_guard(out->temporary);
    }
    out->file = out->temporary ? fopen(out->temporary, "wxe") : fopen(path, "we");
    if (!out->file) {
        spot_err_sys(err, "cannot write '%s'", path);
        forget(out);
        return -1;
    }
    return 0;
}

int spot_sync_directory(const char *path, struct spot_err *err)
{
    char *dir = directory_of(path);
    int fd, rc = 0;

    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* For a directory, EINVAL means that the file system has no fsync for it, which is no error; a
     * failure of the disk is EIO. */
    if (fd >= 0 ? fsync(fd) && errno != EINVAL : errno != EACCES)
        rc = spot_err_sys(err, "cannot sync the directory '%s'", dir);
    if (fd >= 0)
        close(fd);
    free(dir);
    return rc;
}

void spot_out_hurry(struct spot_out *out)
{
    if (fflush(out->file) || ferror(out->file))
        out->error = out->error ? out->error : errno;
    else if (out->temporary)
        (void)sync_file_range(fileno(out->file), 0, 0, SYNC_FILE_RANGE_WRITE);
}

int spot_out_commit(struct spot_out *out, struct spot_err *err)
{
    const char *name = out->path ? out->path : "output";
    int rc = 0;

    if (fflush(out->file) || ferror(out->file)) {
        errno = out->error ? out->error : errno;
        spot_err_sys(err, "cannot write %s", name);
        spot_out_discard(out);
        return -1;
    }
    if (out->temporary) {
        if (fsync(fileno(out->file)) || rename(out->temporary, out->path)) {
            spot_err_sys(err, "cannot write '%s'", out->path);
            spot_out_discard(out);
            return -1;
        }
        rc = spot_sync_directory(out->temporary, err);
    }
    forget(out);
    return rc;
}

void spot_out_discard(struct spot_out *out)
{
    if (out->temporary)
        unlink(out->temporary);
    forget(out);
}

int spot_out_finish(struct spot_out *out, int rc, struct spot_err *err)
{
    if (!rc)
        return spot_out_commit(out, err);
    spot_out_discard(out);
    return rc;
}
