/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* kill */
#include "serve/engine_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/clock.h"
#include "common/spawn.h"
#include "common/xalloc.h"

extern char **environ;

/* Returns a free port, which the system does not assign again soon. */
static int find_port(struct spot_err *err)
{
    struct spot_endpoint at;
    int fd;

    if (spot_endpoint_parse("127.0.0.1:0", &at, err) || (fd = spot_endpoint_listen(&at, err)) < 0)
        return -1;
    spot_endpoint_unlisten(&at, fd);
    return at.port;
}

/* Returns 0 or an errno. */
static int spawn_shell(pid_t *pid, pid_t group, const char *script, int in, int out)
{
    char sh[] = "sh", flag[] = "-c", *const text = spot_xstrdup(script);
    char *const argv[] = { sh, flag, text, NULL };
    posix_spawn_file_actions_t action;
    posix_spawnattr_t attribute;
    int rc;

    posix_spawn_file_actions_init(&action);
    if (in >= 0)
        posix_spawn_file_actions_adddup2(&action, in, STDIN_FILENO);
    else
        posix_spawn_file_actions_addopen(&action, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (out >= 0)
        posix_spawn_file_actions_adddup2(&action, out, STDOUT_FILENO);
    else
        posix_spawn_file_actions_addopen(&action, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&action, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_init(&attribute);
    spot_spawn_afresh(&attribute, group);
    rc = posix_spawn(pid, "/bin/sh", &action, &attribute, argv, environ);
    posix_spawnattr_destroy(&attribute);
    posix_spawn_file_actions_destroy(&action);
    free(text);
    return rc;
}

/* The leader of the group sees the end of a pipe when this process has ended, even during the grace
 * period of the others. */
static int spawn_all(struct spot_engine_process *p, const char *command)
{
    int alive[2], said[2], rc;

    if (spot_endpoint_pipe(alive))
        return errno;
    p->watched = alive[1];
    (void)fcntl(alive[0], F_SETFL, 0);
    rc = spawn_shell(&p->watcher, 0, "trap '' TERM; read -r line; kill -KILL 0", alive[0], -1);
    close(alive[0]);
    if (rc)
        return rc;
    if (spot_endpoint_pipe(said))
        return errno;
    p->said = said[0];
    (void)fcntl(said[1], F_SETFL, 0);
    rc = spawn_shell(&p->pid, p->watcher, command, -1, said[1]);
    close(said[1]);
    return rc;
}

int spot_engine_process_start(struct spot_engine_process *p, const char *command,
                              struct spot_err *err)
{
    char port[16];

    *p = (struct spot_engine_process){ .watched = -1, .said = -1, .port = find_port(err) };
    if (p->port < 0)
        return -1;
    snprintf(port, sizeof(port), "%d", p->port);
    if (setenv("PORT", port, 1))
        return spot_err_sys(err, "cannot set PORT");
    errno = spawn_all(p, command);
    if (!errno)
        return 0;
    (void)spot_err_sys(err, "cannot start the engine");
    spot_engine_process_stop(p, 0);
    return -1;
}

/* Read output and keep its last bytes. */
static void take_words(struct spot_engine_process *p)
{
    char part[4096];
    ssize_t n;

    while (p->said >= 0 && (n = read(p->said, part, sizeof(part))) > 0) {
        enum { MOST = SPOT_ENGINE_WORDS - 1 };
        const size_t m = (size_t)n < MOST ? (size_t)n : MOST;
        const size_t kept = p->n_words + m > MOST ? MOST - m : p->n_words;

        memmove(p->words, p->words + p->n_words - kept, kept);
        memcpy(p->words + kept, part + n - m, m);
        p->n_words = kept + m;
        p->words[p->n_words] = '\0';
    }
}

bool spot_engine_process_runs(struct spot_engine_process *p)
{
    take_words(p);
    if (p->pid && waitpid(p->pid, NULL, WNOHANG) == p->pid)
        p->pid = 0;
    return p->pid != 0;
}

/* Memory of a process in the group; 0 for others. */
static size_t byte_of(const char *pid, pid_t group)
{
    char path[64], line[1024];
    const char *at;
    long field[22] = { 0 }; /* fields from the parent's id on: field 2 is the process group, field
                               21 the resident pages */
    FILE *in;
    size_t n;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    in = fopen(path, "re");
    if (!in)
        return 0;
    n = fread(line, 1, sizeof(line) - 1, in);
    fclose(in);
    line[n] = '\0';
    at = strrchr(line, ')'); /* skip the name and the state */
    at = at && strlen(at) > 3 ? at + 3 : "";
    for (size_t i = 0; i < sizeof(field) / sizeof(*field) && *at; i++) {
        char *end;

        field[i] = strtol(at, &end, 10);
        at = end;
    }
    return field[1] == group && field[20] > 0 ? (size_t)field[20] * (size_t)sysconf(_SC_PAGESIZE)
                                              : 0;
}

size_t spot_engine_process_byte(const struct spot_engine_process *p)
{
    DIR *const all = p->watcher ? opendir("/proc") : NULL;
    const struct dirent *entry;
    size_t sum = 0;

    while (all && (entry = readdir(all)))
        if (*entry->d_name >= '1' && *entry->d_name <= '9')
            sum += byte_of(entry->d_name, p->watcher);
    if (all)
        closedir(all);
    return sum;
}

void spot_engine_process_words(const struct spot_engine_process *p, char *line, size_t n)
{
    size_t end = p->n_words, begin, k = 0;

    while (end && (p->words[end - 1] == '\n' || p->words[end - 1] == '\r'))
        end--;
    for (begin = end; begin && p->words[begin - 1] != '\n';)
        begin--;
    for (size_t i = begin; i < end && k + 1 < n; i++) {
        const unsigned char byte = (unsigned char)p->words[i];

        line[k++] = byte >= ' ' && byte < 0x7f ? (char)byte : '?';
    }
    line[k] = '\0';
}

static void wait_for(struct spot_engine_process *p, double limit_s)
{
    const double until_s = spot_clock_s() + limit_s;

    while (spot_engine_process_runs(p) && spot_clock_s() < until_s)
        spot_clock_sleep(0.02);
}

void spot_engine_process_stop(struct spot_engine_process *p, double grace_s)
{
    if (p->pid && grace_s > 0) {
        kill(-p->watcher, SIGTERM);
        wait_for(p, grace_s);
    }
    if (p->watcher) {
        kill(-p->watcher, SIGKILL);
        (void)waitpid(p->watcher, NULL, 0);
        if (p->pid)
            (void)waitpid(p->pid, NULL, 0);
        close(p->watched);
    } else if (p->watched >= 0) {
        close(p->watched);
    }
    if (p->said >= 0)
        close(p->said);
    p->pid = p->watcher = 0;
    p->watched = p->said = -1;
}
