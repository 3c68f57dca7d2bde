/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pipe2. NOLINT(bugprone-reserved-identifier) */
#include "sim/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/xalloc.h"

static double now_s(void *self)
{
    (void)self;
    return spot_clock_s();
}

/* `text` with each {node} and {zone} replaced. */
static char *expand(const char *text, const struct spot_instance *m)
{
    char *out = NULL;
    size_t cap = 0, n = 0;

    while (*text) {
        const bool is_node = !strncmp(text, "{node}", 6), is_zone = !strncmp(text, "{zone}", 6);
        const char *piece = is_node ? m->name : is_zone ? m->zone : text;
        const size_t len = is_node || is_zone ? strlen(piece) : 1;

        out = spot_xgrow(out, &cap, n + len + 1, 1);
        memcpy(out + n, piece, len);
        n += len;
        text += is_node || is_zone ? 6 : 1;
    }
    out = spot_xgrow(out, &cap, n + 1, 1);
    out[n] = '\0';
    return out;
}

/* The words of the command for one instance, NULL at the end. */
static char **words_of(char *const *command, const struct spot_instance *m)
{
    char **words;
    size_t n = 0;

    while (command[n])
        n++;
    words = spot_xcalloc(n + 1, sizeof(*words));
    for (size_t i = 0; i < n; i++)
        words[i] = expand(command[i], m);
    return words;
}

static void free_words(char **words)
{
    for (size_t i = 0; words[i]; i++)
        free(words[i]);
    free(words);
}

/* In the child: become the command, or send errno through fd. Never returns. */
static void become(const struct spot_processes *p, const struct spot_instance *m, char **words,
                   pid_t parent, int fd)
{
    int null_fd;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* it died before the line above */
    setenv("SPOT_NODE", m->name, 1);
    setenv("SPOT_ZONE", m->zone, 1);
    setenv("SPOT_INSTANCE_TYPE", m->instance_type, 1);
    null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0)
        dup2(null_fd, STDIN_FILENO);
    if (null_fd > STDERR_FILENO)
        close(null_fd);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is reserved for the log */
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &p->child_mask, NULL);
    execvp(words[0], words);
    if (write(fd, &(int){ errno }, sizeof(int)) < 0)
        _exit(126);
    _exit(127);
}

/* Enter the process into the guard's table: it is killed if this program dies. There is a seat for
 * every process that may run. */
static void take_seat(struct spot_processes *p, pid_t pid)
{
    size_t seat = 0;

    while (p->guard.group[seat])
        seat++;
    p->guard.group[seat] = pid;
}

/* Remove a process from the table; true if it was there. */
static bool leave_seat(struct spot_processes *p, pid_t pid)
{
    for (size_t i = 0; i < p->guard.n_seat; i++)
        if (p->guard.group[i] == pid) {
            p->guard.group[i] = 0;
            return true;
        }
    return false;
}

/* Fork and exec; -1 if the command cannot be run. */
static pid_t spawn(void *self, const struct spot_instance *m, struct spot_err *err)
{
    struct spot_processes *p = self;
    const pid_t parent = getpid();
    int fd[2], child_errno = 0;
    char **words;
    pid_t pid;
    ssize_t got;

    if (pipe2(fd, O_CLOEXEC))
        return spot_err_sys(err, "cannot open a pipe");
    words = words_of(p->command, m);
    pid = fork();
    if (!pid)
        become(p, m, words, parent, fd[1]);
    free_words(words);
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        return spot_err_sys(err, "cannot start a process");
    }
    setpgid(pid, pid); /* in child and parent, whichever runs first */
    do
        got = read(fd[0], &child_errno, sizeof(child_errno));
    while (got < 0 && errno == EINTR);
    close(fd[0]);
    if (got == (ssize_t)sizeof(child_errno)) {
        waitpid(pid, NULL, 0);
        errno = child_errno;
        return spot_err_sys(err, "cannot run '%s'", p->command[0]);
    }
    take_seat(p, pid);
    return pid;
}

static void signal_group(void *self, pid_t group, int number)
{
    (void)self;
    kill(-group, number);
}

/* A child that has ended is first examined, then its group is killed, and only then is it reaped:
 * until then its process id cannot be reused. */
static pid_t reap(void *self, int *status)
{
    struct spot_processes *p = self;
    siginfo_t info = { 0 };

    while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
        const pid_t pid = info.si_pid;
        const bool is_ours = leave_seat(p, pid);

        if (is_ours)
            kill(-pid, SIGKILL); /* what it left behind in its group */
        if (waitpid(pid, status, 0) == pid && is_ours)
            return pid;
        info.si_pid = 0;
    }
    return 0;
}

static int wait_for_signal(void *self, double left_s)
{
    const struct spot_processes *p = self;
    const double most_s = fmin(fmax(left_s, 0), 3600);
    const struct timespec limit = { .tv_sec = (time_t)most_s,
                                    .tv_nsec = (long)((most_s - floor(most_s)) * 1e9) };
    const int got = sigtimedwait(&p->wait_for, NULL, &limit);

    return got > 0 ? got : 0;
}

const struct spot_host spot_processes_host = {
    .now_s = now_s, .spawn = spawn, .signal = signal_group, .reap = reap, .wait = wait_for_signal
};

/* Block the signals, which are only received in sigtimedwait; those that the parent ignored stay
 * ignored. */
static void hold_signals(struct spot_processes *p)
{
    static const int stop[] = { SIGINT, SIGTERM, SIGHUP };

    sigemptyset(&p->wait_for);
    sigaddset(&p->wait_for, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof(stop) / sizeof(stop[0]); i++) {
        struct sigaction was;

        if (!sigaction(stop[i], NULL, &was) && was.sa_handler != SIG_IGN)
            sigaddset(&p->wait_for, stop[i]);
    }
    sigprocmask(SIG_BLOCK, &p->wait_for, &p->child_mask);
    /* if the reader of the log is gone, processes must not be left behind */
    signal(SIGPIPE, SIG_IGN);
}

int spot_processes_init(struct spot_processes *p, char **command, size_t n_max,
                        struct spot_err *err)
{
    siginfo_t info;

    *p = (struct spot_processes){ .command = command };
    hold_signals(p);
    p->has_foreign = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return spot_guard_start(&p->guard, n_max, err);
}

/* Kill and reap adopted processes: descendants that left their group and whose parent ended.
 * Returns their number. */
static size_t kill_adopted(pid_t guard)
{
    FILE *in = fopen("/proc/thread-self/children", "re");
    char word[32];
    size_t n = 0;

    while (in && fscanf(in, "%31s", word) == 1) {
        const pid_t pid = (pid_t)strtol(word, NULL, 10);

        if (pid == guard || pid <= 0)
            continue;
        n++;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (in)
        fclose(in);
    return n;
}

void spot_processes_release(struct spot_processes *p)
{
    for (size_t i = 0; i < p->guard.n_seat; i++) {
        const pid_t pid = p->guard.group[i];

        if (!pid)
            continue;
        kill(-pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        p->guard.group[i] = 0;
    }
    /* Each round adopts the children of those killed before. */
    for (int round = 0; round < 1000 && !p->has_foreign; round++)
        if (!kill_adopted(p->guard.pid))
            break;
    spot_guard_stop(&p->guard);
}
