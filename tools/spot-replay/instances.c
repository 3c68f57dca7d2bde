/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pipe2. NOLINT(bugprone-reserved-identifier) */
#include "instances.h"

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
#include "model/event.h"

/* A copy that ends by itself is started again after this pause, which doubles
 * up to the maximum; one that lived for the maximum starts afresh. */
static const double BACKOFF_MIN_S = 0.1, BACKOFF_MAX_S = 10;

double crew_now_s(const struct crew *crew)
{
    return spot_clock_s() - crew->origin_s;
}

double crew_trace_s(const struct crew *crew, double real_s)
{
    return crew->from_s + crew->speedup * real_s;
}

/* Open one line of the log; the caller adds to it and ends it. */
static void begin_line(struct spot_jw *jw, const struct crew *crew, const char *event,
                       const struct crew_member *m, double time_s)
{
    spot_event_begin(jw, crew->log, NULL, event, time_s);
    spot_event_seconds(jw, "real_s", crew_now_s(crew));
    spot_jw_str(jw, "node", m->name);
    spot_jw_str(jw, "zone", m->zone);
    spot_jw_str(jw, "instance_type", m->instance_type);
    spot_jw_int(jw, "pid", m->pid);
}

void crew_add(struct crew *crew, const char *name, size_t series, const char *zone,
              const char *instance_type, double time_s)
{
    crew->member = spot_xgrow(crew->member, &crew->cap, crew->n + 1, sizeof(*crew->member));
    crew->member[crew->n++] = (struct crew_member){ .name = spot_xstrdup(name),
                                                    .series = series,
                                                    .zone = zone,
                                                    .instance_type = instance_type,
                                                    .since_time_s = time_s };
}

static void drop(struct crew *crew, size_t i)
{
    free(crew->member[i].name);
    crew->n--;
    memmove(crew->member + i, crew->member + i + 1, (crew->n - i) * sizeof(*crew->member));
}

static int kill_member(struct crew *crew, struct crew_member *m, double time_s, const char *why,
                       struct spot_err *err)
{
    struct spot_jw jw;

    kill(-m->pid, SIGKILL);
    m->is_killed = true;
    m->due_s = INFINITY;
    crew->total.kill++;
    begin_line(&jw, crew, "kill", m, time_s);
    spot_jw_str(&jw, "why", why);
    return spot_event_end(&jw, err);
}

int crew_leave(struct crew *crew, size_t i, double time_s, bool has_notice, const char *why,
               struct spot_err *err)
{
    struct crew_member *m = &crew->member[i];
    struct spot_jw jw;

    if (!m->pid) {
        drop(crew, i);
        return 0;
    }
    m->is_leaving = true;
    if (!has_notice)
        return kill_member(crew, m, time_s, "no_notice", err);
    kill(-m->pid, SIGTERM);
    m->due_s = crew_now_s(crew) + crew->grace_s;
    crew->total.notice++;
    begin_line(&jw, crew, "notice", m, time_s);
    spot_jw_str(&jw, "why", why);
    spot_jw_real(&jw, "grace_s", crew->grace_s);
    return spot_event_end(&jw, err);
}

/* `text` with each {node} and {zone} replaced. */
static char *expand(const char *text, const struct crew_member *m)
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

/* In the child: become the command, or send errno through fd. Never returns. */
static void become(const struct crew *crew, const struct crew_member *m, pid_t parent, int fd)
{
    size_t n = 0;
    char **argv;
    int null_fd;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* it died before the line above */
    while (crew->command[n])
        n++;
    argv = spot_xcalloc(n + 1, sizeof(*argv));
    for (size_t i = 0; i < n; i++)
        argv[i] = expand(crew->command[i], m);
    setenv("SPOT_NODE", m->name, 1);
    setenv("SPOT_ZONE", m->zone, 1);
    setenv("SPOT_INSTANCE_TYPE", m->instance_type, 1);
    null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0)
        dup2(null_fd, STDIN_FILENO);
    if (null_fd > STDERR_FILENO)
        close(null_fd);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is for the log alone */
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &crew->child_mask, NULL);
    execvp(argv[0], argv);
    if (write(fd, &(int){ errno }, sizeof(int)) < 0)
        _exit(126);
    _exit(127);
}

/* fork and exec; m->pid is set only when the command runs. */
static int spawn(const struct crew *crew, struct crew_member *m, struct spot_err *err)
{
    const pid_t parent = getpid();
    int fd[2], child_errno = 0;
    pid_t pid;
    ssize_t got;

    if (pipe2(fd, O_CLOEXEC))
        return spot_err_sys(err, "cannot open a pipe");
    pid = fork();
    if (!pid)
        become(crew, m, parent, fd[1]);
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        return spot_err_sys(err, "cannot start a process");
    }
    setpgid(pid, pid); /* whoever comes first, child or parent */
    do
        got = read(fd[0], &child_errno, sizeof(child_errno));
    while (got < 0 && errno == EINTR);
    close(fd[0]);
    if (got == (ssize_t)sizeof(child_errno)) {
        waitpid(pid, NULL, 0);
        errno = child_errno;
        return spot_err_sys(err, "cannot run '%s'", crew->command[0]);
    }
    m->pid = pid;
    return 0;
}

static int start_member(struct crew *crew, struct crew_member *m, double now_s,
                        struct spot_err *err)
{
    struct spot_jw jw;

    if (spawn(crew, m, err))
        return -1;
    for (m->seat = 0; crew->guard.group[m->seat]; m->seat++)
        ;
    crew->guard.group[m->seat] = m->pid;
    m->start_s = now_s;
    m->n_start++;
    crew->n_running++;
    crew->total.start++;
    begin_line(&jw, crew, "start", m, m->n_start > 1 ? crew_trace_s(crew, now_s) : m->since_time_s);
    spot_jw_int(&jw, "attempt", (int64_t)m->n_start);
    return spot_event_end(&jw, err);
}

int crew_start_due(struct crew *crew, struct spot_err *err)
{
    const double now_s = crew_now_s(crew);

    for (size_t i = 0; i < crew->n && crew->n_running < crew->n_running_max; i++) {
        struct crew_member *m = &crew->member[i];

        if (!m->pid && m->due_s <= now_s && start_member(crew, m, now_s, err))
            return -1;
    }
    return 0;
}

int crew_kill_due(struct crew *crew, struct spot_err *err)
{
    const double now_s = crew_now_s(crew);

    for (size_t i = 0; i < crew->n; i++) {
        struct crew_member *m = &crew->member[i];

        if (m->is_leaving && m->pid && m->due_s <= now_s &&
            kill_member(crew, m, crew_trace_s(crew, now_s), "grace_over", err))
            return -1;
    }
    return 0;
}

static int note_exit(struct crew *crew, size_t i, int status, struct spot_err *err)
{
    struct crew_member *m = &crew->member[i];
    const double now_s = crew_now_s(crew), lived_s = now_s - m->start_s;
    struct spot_jw jw;

    crew->guard.group[m->seat] = 0;
    crew->n_running--;
    crew->total.exit++;
    begin_line(&jw, crew, "exit", m, crew_trace_s(crew, now_s));
    if (WIFSIGNALED(status))
        spot_jw_int(&jw, "signal", WTERMSIG(status));
    else
        spot_jw_int(&jw, "status", WEXITSTATUS(status));
    spot_event_seconds(&jw, "lived_s", lived_s);
    m->pid = 0;
    m->backoff_s = lived_s < BACKOFF_MAX_S ? fmin(2 * m->backoff_s, BACKOFF_MAX_S) : 0;
    m->backoff_s = fmax(m->backoff_s, BACKOFF_MIN_S);
    m->due_s = now_s + m->backoff_s;
    if (m->is_leaving)
        drop(crew, i);
    return spot_event_end(&jw, err);
}

/* A child is looked at, its group killed, and only then reaped: until then
 * nobody else can get its number. */
int crew_reap(struct crew *crew, struct spot_err *err)
{
    siginfo_t info = { 0 };
    int rc = 0;

    while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
        const pid_t pid = info.si_pid;
        size_t i = 0;
        int status;

        while (i < crew->n && crew->member[i].pid != pid)
            i++;
        if (i < crew->n)
            kill(-pid, SIGKILL); /* what it left behind in its group */
        if (waitpid(pid, &status, 0) == pid && i < crew->n && note_exit(crew, i, status, err))
            rc = -1;
        info.si_pid = 0;
    }
    return rc;
}

double crew_next_s(const struct crew *crew)
{
    const bool is_full = crew->n_running >= crew->n_running_max;
    double next_s = INFINITY;

    for (size_t i = 0; i < crew->n; i++)
        if (crew->member[i].pid ? crew->member[i].is_leaving : !is_full)
            next_s = fmin(next_s, crew->member[i].due_s);
    return next_s;
}

/* Kill and reap what we adopted: descendants that left their group and lost
 * their parent. Returns how many there were. */
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

void crew_release(struct crew *crew)
{
    for (size_t i = 0; i < crew->n; i++) {
        struct crew_member *m = &crew->member[i];

        if (m->pid) {
            kill(-m->pid, SIGKILL);
            while (waitpid(m->pid, NULL, 0) < 0 && errno == EINTR)
                ;
            crew->guard.group[m->seat] = 0;
        }
        free(m->name);
    }
    free(crew->member);
    crew->member = NULL;
    crew->n = crew->n_running = 0;
    /* Each round adopts the children of those killed before. */
    for (int round = 0; round < 1000 && !crew->has_foreign; round++)
        if (!kill_adopted(crew->guard.pid))
            break;
    guard_stop(&crew->guard);
}
