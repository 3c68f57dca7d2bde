/* SPDX-License-Identifier: MIT */
/* The guard: parent of the ranks, a process of one thread. */
#define _GNU_SOURCE /* setenv, signalfd. NOLINT(bugprone-reserved-identifier) */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "host/rank_twins_state.h"
#include "host/ranks_state.h"

struct guard {
    const struct spot_rank_guard *of;
    struct spot_rank_env env;
    pid_t pid;
    int signal_fd;
    pid_t rank[SPOT_LOCAL_RANKS_MAX]; /* 0: not running */
    bool was_told[SPOT_LOCAL_RANKS_MAX];
    bool is_saving; /* SPOT_RANK_SAVED is still to be sent */
    bool is_stopping, was_killed;
    double kill_s, give_up_s; /* deadlines while stopping */
    bool is_stuck;            /* a process did not end */
    struct spot_rank_pulse pulse[SPOT_LOCAL_RANKS_MAX];
    double pulse_s; /* time of the next check */
    struct spot_twins twins;
    bool has_said_holds, was_warm;
};

static const double still_s = 2; /* time for the report on a hanging rank */

static void say(const struct guard *g, enum spot_rank_event_kind kind, uint32_t local, int status)
{
    const struct spot_rank_event event = {
        .kind = kind, .round = g->env.restart_count, .local = local, .status = status
    };

    (void)!write(g->of->event_fd, &event, sizeof(event)); /* no reader: the next poll reports it */
}

/* --- processes ----------------------------------------------------------------- */

/* In the child: reset the signals that the guard blocks or ignores, and the descriptors. */
static void settle(const struct guard *g, const int out[2])
{
    const int null_fd = open("/dev/null", O_RDONLY);
    sigset_t none;

    setsid(); /* leader of a group, which is killed as a whole */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != g->pid)
        _exit(127); /* the parent died before the line above */
    dup2(null_fd, STDIN_FILENO);
    dup2(out[0], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    if (null_fd > STDERR_FILENO)
        close(null_fd);
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP)
            (void)signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(char *const *argv)
{
    char line[512];
    int n;

    execvp(argv[0], argv);
    n = snprintf(line, sizeof(line), "cannot run '%.300s': %s\n", argv[0], strerror(errno));
    (void)!write(STDERR_FILENO, line, (size_t)n);
    _exit(errno == ENOENT ? 127 : 126);
}

static void set_error_file(const struct guard *g, uint32_t i)
{
    char path[4096];

    if (!g->of->options->errors)
        return;
    snprintf(path, sizeof(path), "%s.%lu", g->of->options->errors, (unsigned long)i);
    setenv("TORCHELASTIC_ERROR_FILE", path, 1);
}

/* Start a process of the command, to run the round or to wait for a later one. */
static pid_t launch(struct guard *g, uint32_t i, bool is_twin)
{
    const pid_t pid = fork();

    if (pid)
        return pid;
    settle(g, g->of->out[i]);
    if (is_twin)
        spot_rank_env_set_lasting(g->of->options->n, i);
    else
        spot_rank_env_set(&g->env, i);
    set_error_file(g, i);
    spot_twins_enter(&g->twins, i, is_twin);
    become(g->of->options->command);
}

/* A failed fork is reported as a rank that could not be run. */
static void start_rank(struct guard *g, uint32_t i)
{
    g->was_told[i] = false;
    g->rank[i] = spot_twins_take(&g->twins, i, &g->env);
    if (g->rank[i])
        return;
    (void)spot_twins_prepare(&g->twins, i, false);
    g->rank[i] = launch(g, i, false);
    if (g->rank[i] > 0) {
        spot_twins_tell(&g->twins, i, &g->env);
    } else {
        g->rank[i] = 0;
        say(g, SPOT_RANK_EXITED, i, 126 << 8);
    }
}

/* Not while a round is being stopped, which would kill the twins too. */
static void start_twins(struct guard *g)
{
    uint32_t i;

    while (!g->is_stopping && (i = spot_twins_due(&g->twins, spot_clock_s())) != UINT32_MAX)
        spot_twins_started(&g->twins, i,
                           spot_twins_prepare(&g->twins, i, true) ? launch(g, i, true) : 0);
}

static void say_twins(struct guard *g)
{
    const bool is_warm = spot_twins_are_warm(&g->twins);

    if (g->twins.holds && !g->has_said_holds)
        say(g, SPOT_RANK_HOLDS, 0, 0);
    if (is_warm != g->was_warm)
        say(g, SPOT_RANK_WARM, 0, is_warm);
    g->has_said_holds = g->twins.holds;
    g->was_warm = is_warm;
}

static size_t live(const struct guard *g)
{
    size_t n = 0;

    for (uint32_t i = 0; i < g->of->options->n; i++)
        n += g->rank[i] != 0;
    return n;
}

static void signal_all(const struct guard *g, int number)
{
    for (uint32_t i = 0; i < g->of->options->n; i++)
        if (g->rank[i])
            kill(-g->rank[i], number);
}

static void take_exit(struct guard *g, pid_t pid, int status)
{
    for (uint32_t i = 0; i < g->of->options->n; i++)
        if (g->rank[i] == pid) {
            g->rank[i] = 0;
            spot_twins_rank_ended(&g->twins, i);
            say(g, SPOT_RANK_EXITED, i, status);
        }
    spot_twins_ended(&g->twins, pid);
}

static bool is_ours(const struct guard *g, pid_t pid)
{
    for (uint32_t i = 0; i < g->of->options->n; i++)
        if (g->rank[i] == pid)
            return true;
    return spot_twins_has(&g->twins, pid);
}

/* A process that has ended is first examined, then its group is killed, and only then is it reaped:
 * until then its id cannot be used again. */
static void reap(struct guard *g)
{
    siginfo_t info = { 0 };

    while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
        const pid_t pid = info.si_pid;
        int status = 0;

        if (is_ours(g, pid))
            kill(-pid, SIGKILL);
        if (waitpid(pid, &status, 0) == pid)
            take_exit(g, pid, status);
        info.si_pid = 0;
    }
}

/* --- orders -------------------------------------------------------------------- */

static void save(struct guard *g)
{
    g->is_saving = true;
    for (uint32_t i = 0; i < g->of->options->n; i++)
        if (g->rank[i] && spot_rank_tell(g->rank[i]))
            g->was_told[i] = true;
}

static void stop(struct guard *g)
{
    g->is_stopping = true;
    g->was_killed = false;
    g->kill_s = spot_clock_s() + g->of->options->stop_s;
    g->give_up_s = g->kill_s + g->of->options->stuck_s;
    signal_all(g, SIGTERM);
    signal_all(g, SIGCONT); /* a stopped process would not receive it */
}

/* Kill processes that left their group; twins survive. */
static pid_t kill_strays(const struct guard *g)
{
    pid_t twin[SPOT_LOCAL_RANKS_MAX];

    return spot_rank_kill_children(twin, spot_twins_list(&g->twins, twin), g->of->options->stuck_s);
}

static uint32_t first_live(const struct guard *g)
{
    uint32_t i = 0;

    while (i < g->of->options->n && !g->rank[i])
        i++;
    return i;
}

static void give_up(struct guard *g, uint32_t local, pid_t pid)
{
    g->is_stopping = false;
    g->is_stuck = true;
    say(g, SPOT_RANK_STUCK, local, (int)pid);
}

static void obey(struct guard *g, const struct spot_rank_command *command)
{
    switch (command->order) {
    case SPOT_RANK_START:
        g->env = command->env;
        g->is_saving = false;
        reap(g); /* so that no dead twin is chosen */
        for (uint32_t i = 0; i < g->of->options->n; i++)
            start_rank(g, i);
        break;
    case SPOT_RANK_SAVE:
        save(g);
        break;
    case SPOT_RANK_STOP:
        stop(g);
        break;
    case SPOT_RANK_KEEP_TWINS:
        spot_twins_keep(&g->twins);
        break;
    }
}

/* --- hanging ranks --- */

/* Count a hanging rank as ended at once, since a process that waits in the kernel may not be
 * killable. */
static void end_still(struct guard *g, uint32_t i)
{
    kill(-g->rank[i], SIGKILL);
    say(g, SPOT_RANK_EXITED, i, SIGKILL);
    g->pulse[i] = (struct spot_rank_pulse){ 0 };
}

static void find_still(struct guard *g, uint32_t i)
{
    const int fd = g->of->out[g->of->options->n][1];
    struct spot_rank_pulse *const p = &g->pulse[i];
    pid_t probe;

    if (p->killed_s > 0 && p->pid == g->rank[i]) {
        if (spot_clock_s() >= p->killed_s)
            end_still(g, i);
        return;
    }
    if (!spot_rank_pulse_look(p, g->rank[i], g->of->options->hang_s))
        return;
    spot_rank_pulse_tell(fd, g->rank[i], g->env.first_rank + i, g->of->options->hang_s);
    probe = fork();
    if (!probe) {
        settle(g, g->of->out[g->of->options->n]);
        spot_rank_pulse_probe(p->pid);
    }
    p->killed_s = spot_clock_s() + still_s;
}

static void find_all_still(struct guard *g)
{
    if (g->of->options->hang_s <= 0 || spot_clock_s() < g->pulse_s)
        return;
    for (uint32_t i = 0; i < g->of->options->n; i++)
        if (g->rank[i] && !g->is_saving && !g->is_stopping)
            find_still(g, i);
    g->pulse_s = spot_clock_s() + fmin(1, g->of->options->hang_s / 8);
}

/* --- the loop ------------------------------------------------------------------ */

static bool is_saved(const struct guard *g)
{
    for (uint32_t i = 0; i < g->of->options->n; i++)
        if (g->rank[i] && g->was_told[i])
            return false;
    return true;
}

static void settle_owed(struct guard *g)
{
    if (g->is_saving && is_saved(g)) {
        g->is_saving = false;
        say(g, SPOT_RANK_SAVED, 0, 0);
    }
    if (g->is_stopping && !g->was_killed && spot_clock_s() >= g->kill_s) {
        g->was_killed = true;
        signal_all(g, SIGKILL);
    }
    if (g->is_stopping && !live(g)) {
        const pid_t stray = kill_strays(g); /* processes that left their group */

        g->is_stopping = false;
        if (stray)
            give_up(g, g->of->options->n, stray);
        else
            say(g, SPOT_RANK_STOPPED, 0, 0);
    }
    if (g->is_stopping && spot_clock_s() >= g->give_up_s) {
        const uint32_t local = first_live(g);

        give_up(g, local, local < g->of->options->n ? g->rank[local] : 0);
    }
}

static int wait_ms(const struct guard *g)
{
    double until_s = !g->is_stopping ? spot_twins_next_s(&g->twins)
                     : g->was_killed ? g->give_up_s
                                     : g->kill_s;

    if (g->of->options->hang_s > 0 && live(g) && !g->is_stopping)
        until_s = fmin(until_s, g->pulse_s);
    return isinf(until_s) ? -1 : (int)ceil(1e3 * fmin(fmax(until_s - spot_clock_s(), 0), 1e5));
}

/* Returns false when the agent has ended. */
static bool turn(struct guard *g)
{
    struct pollfd set[] = { { .fd = g->of->command_fd, .events = POLLIN },
                            { .fd = g->signal_fd, .events = POLLIN },
                            { .fd = g->twins.ask[0], .events = POLLIN } };
    struct spot_rank_command command;
    struct signalfd_siginfo info;
    ssize_t n;

    if (poll(set, 3, wait_ms(g)) < 0)
        return errno == EINTR;
    if (set[1].revents)
        (void)!read(g->signal_fd, &info, sizeof(info));
    reap(g);
    if (set[2].revents)
        spot_twins_hear(&g->twins);
    if (set[0].revents) {
        n = read(g->of->command_fd, &command, sizeof(command));
        if (n != (ssize_t)sizeof(command))
            return n < 0 && errno == EINTR;
        obey(g, &command);
    }
    settle_owed(g);
    find_all_still(g);
    start_twins(g);
    say_twins(g);
    return true;
}

void spot_rank_guard_run(const struct spot_rank_guard *guard)
{
    static struct guard g;
    const int null_fd = open("/dev/null", O_RDWR);
    sigset_t all, child;
    pid_t stray;

    setsid(); /* a ^C at the terminal is not for the guard, nor for the ranks */
    for (int fd = 0; fd <= 2; fd++)
        dup2(null_fd, fd);
    if (null_fd > 2)
        close(null_fd);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL); /* if ignored, children could not be waited for */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    g = (struct guard){ .of = guard, .pid = getpid() };
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    g.signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (g.signal_fd < 0)
        _exit(1);
    spot_twins_init(&g.twins, guard->options->n, guard->options->is_cold);
    while (turn(&g))
        ;
    signal_all(&g, SIGKILL);
    for (uint32_t i = 0; i < g.twins.n; i++)
        if (g.twins.seat[i].pid)
            kill(-g.twins.seat[i].pid, SIGKILL);
    stray = spot_rank_kill_children(NULL, 0, g.is_stuck ? 0 : guard->options->stuck_s);
    _exit(stray ? SPOT_GUARD_LEFT_ONE : 0);
}
