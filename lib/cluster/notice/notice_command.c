/* SPDX-License-Identifier: MIT */
/* A command of the user: each line it prints is a notice, and so is a successful end without a
 * line. A command that fails is restarted. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cluster/notice/notice_state.h"
#include "comm/endpoint.h"
#include "common/clock.h"

static void ask(struct spot_notice_watch *w, size_t i)
{
    int end[2];

    w->query[i].due_s = INFINITY;
    if (spot_endpoint_pipe(end)) {
        spot_notice_failed(w, i, "cannot make a pipe: %s", strerror(errno));
        return;
    }
    fcntl(end[1], F_SETFL, fcntl(end[1], F_GETFL) & ~O_NONBLOCK); /* it is the command's output */
    w->command = spot_notice_spawn(w->options.from + strlen("cmd:"), end[1], NULL);
    close(end[1]);
    w->line.n = 0;
    w->has_reported_line = false;
    if (w->command > 0) {
        w->command_fd = end[0];
        return;
    }
    w->command = 0;
    close(end[0]);
    spot_notice_failed(w, i, "cannot start the command: %s", strerror(errno));
}

/* The time left counts from this line, not from the first one of its kind. */
static void report_line(struct spot_notice_watch *w)
{
    struct spot_notice_claim claim;
    struct timespec now;

    *spot_buf_more(&w->line, 1) = '\0';
    clock_gettime(CLOCK_REALTIME, &now);
    if (spot_notice_read_line((const char *)w->line.data, w->line.n, NULL, &claim, NULL) > 0) {
        if (!isnan(claim.lead_s))
            claim.deadline_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec + claim.lead_s;
        spot_notice_add(w, spot_notice_cmd.name, &claim);
        w->has_reported_line = true;
    }
    w->line.n = 0;
}

static void take(struct spot_notice_watch *w, const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (data[i] == '\n')
            report_line(w);
        else if (w->line.n < SPOT_NOTICE_LINE_MAX)
            spot_buf_add(&w->line, data[i] ? &data[i] : "?", 1);
    }
}

static void report_end(struct spot_notice_watch *w)
{
    const struct spot_notice_claim claim = { .kind = SPOT_NOTICE_PREEMPT,
                                             .is_memory_lost = true,
                                             .action = "exit",
                                             .id = "exit",
                                             .deadline_s = NAN,
                                             .lead_s =
                                                 w->options.lead_s > 0 ? w->options.lead_s : NAN };

    spot_notice_add(w, spot_notice_cmd.name, &claim);
}

static void close_output(struct spot_notice_watch *w)
{
    close(w->command_fd);
    w->command_fd = -1;
    if (w->line.n)
        report_line(w);
}

/* The command has closed its output, and may still run. */
static void reap(struct spot_notice_watch *w)
{
    int status = 0;

    if (waitpid(w->command, &status, WNOHANG) <= 0)
        return;
    w->command = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        spot_notice_failed(w, 0, "the command ended with %s %d",
                           WIFEXITED(status) ? "status" : "signal",
                           WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    else if (!w->has_reported_line)
        report_end(w);
}

/* A few pages at a time, so that a command that never stops talking does not keep the loop. */
void spot_notice_read_command(struct spot_notice_watch *w)
{
    char data[4096];

    for (int i = 0; w->command_fd >= 0 && i < 4; i++) {
        const ssize_t n = read(w->command_fd, data, sizeof(data));

        if (n > 0) {
            take(w, data, (size_t)n);
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        close_output(w);
    }
    if (w->command && w->command_fd < 0)
        reap(w);
}

/* True if the process has ended. It is not reaped, so that its process group id stays valid. */
static bool has_ended(pid_t pid)
{
    siginfo_t info = { .si_pid = 0 };

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

/* Ends the command's process group, by SIGTERM, then SIGKILL; a process that hangs in the kernel is
 * not waited for. */
void spot_notice_end_command(struct spot_notice_watch *w)
{
    static const int way[] = { SIGTERM, SIGKILL };
    static const double patience_s = 0.5;

    if (w->command_fd >= 0)
        close(w->command_fd);
    w->command_fd = -1;
    if (w->command <= 0)
        return;
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
        const double until_s = spot_clock_s() + patience_s;

        kill(-w->command, way[i]);
        while (!has_ended(w->command) && spot_clock_s() < until_s)
            spot_clock_sleep(5e-3);
    }
    (void)waitpid(w->command, NULL, WNOHANG);
    w->command = 0;
}

static void answered(struct spot_notice_watch *w, size_t i, const struct spot_http_reply *reply)
{
    (void)w, (void)i, (void)reply;
}

const struct spot_notice_cloud spot_notice_cmd = { "cmd", 1, 0, ask, answered };
