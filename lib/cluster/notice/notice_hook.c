/* SPDX-License-Identifier: MIT */
/* Runs the hook for a notice. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/notice/notice_state.h"
#include "common/num.h"
#include "common/spawn.h"
#include "common/timestamp.h"
#include "common/xalloc.h"

extern char **environ;

enum { VARIABLES = 9, VARIABLE_MAX = SPOT_NOTICE_ID_MAX + 32 };

/* Unknown values become empty variables. */
static void set_variables(char text[VARIABLES][VARIABLE_MAX], const struct spot_notice *n)
{
    char at[SPOT_TIMESTAMP_TEXT], until[SPOT_TIMESTAMP_TEXT] = "", left[SPOT_NUM_TEXT] = "";

    spot_timestamp_format(n->at_s, at);
    if (!isnan(n->deadline_s)) {
        spot_timestamp_format(n->deadline_s, until);
        spot_num_format(rint(n->left_s * 1e3) / 1e3, left);
    }
    snprintf(text[0], VARIABLE_MAX, "SPOT_NOTICE_SOURCE=%s", n->source);
    snprintf(text[1], VARIABLE_MAX, "SPOT_NOTICE_KIND=%s", spot_notice_kind_name(n->kind));
    snprintf(text[2], VARIABLE_MAX, "SPOT_NOTICE_STATE=%s", spot_notice_state_name(n->state));
    snprintf(text[3], VARIABLE_MAX, "SPOT_NOTICE_ACTION=%s", n->action);
    snprintf(text[4], VARIABLE_MAX, "SPOT_NOTICE_MEMORY_LOST=%d", n->is_memory_lost);
    snprintf(text[5], VARIABLE_MAX, "SPOT_NOTICE_AT=%s", at);
    snprintf(text[6], VARIABLE_MAX, "SPOT_NOTICE_DEADLINE=%s", until);
    snprintf(text[7], VARIABLE_MAX, "SPOT_NOTICE_LEFT_S=%s", left);
    snprintf(text[8], VARIABLE_MAX, "SPOT_NOTICE_ID=%s", n->id);
}

/* The environment with the variables of the notice in place of any present ones. */
static char **make_environment(char text[VARIABLES][VARIABLE_MAX], const struct spot_notice *n)
{
    static const char prefix[] = "SPOT_NOTICE_";
    size_t n_all = 0, n_kept = 0;
    char **all;

    while (environ && environ[n_all])
        n_all++;
    all = spot_xcalloc(n_all + VARIABLES + 1, sizeof(*all));
    for (; n && n_kept < VARIABLES; n_kept++)
        all[n_kept] = text[n_kept];
    for (size_t i = 0; i < n_all; i++)
        if (strncmp(environ[i], prefix, sizeof(prefix) - 1) != 0)
            all[n_kept++] = environ[i];
    return all;
}

pid_t spot_notice_spawn(const char *command, int out, const struct spot_notice *notice)
{
    char sh[] = "sh", flag[] = "-c", text[VARIABLES][VARIABLE_MAX];
    char *const copy = spot_xstrdup(command), **environment;
    char *const argv[] = { sh, flag, copy, NULL };
    posix_spawn_file_actions_t action;
    posix_spawnattr_t attribute;
    pid_t pid;
    int rc;

    if (notice)
        set_variables(text, notice);
    environment = make_environment(text, notice);
    posix_spawn_file_actions_init(&action);
    posix_spawn_file_actions_addopen(&action, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&action, out, STDOUT_FILENO);
    posix_spawnattr_init(&attribute);
    spot_spawn_afresh(&attribute, 0);
    rc = posix_spawn(&pid, "/bin/sh", &action, &attribute, argv, environment);
    posix_spawnattr_destroy(&attribute);
    posix_spawn_file_actions_destroy(&action);
    free(environment);
    free(copy);
    errno = rc;
    return rc ? -1 : pid;
}

static bool wants_acknowledgement(const struct spot_notice_watch *w, const struct spot_notice *n,
                                  const struct spot_notice_claim *claim)
{
    return w->options.is_acknowledged && !strcmp(n->source, spot_notice_azure.name) &&
           n->state == SPOT_NOTICE_NEW && !claim->has_begun;
}

/* The hook's output goes to standard error; standard output has only notices. */
void spot_notice_run_hook(struct spot_notice_watch *w, const struct spot_notice *notice,
                          const struct spot_notice_claim *claim)
{
    const bool is_wanted = wants_acknowledgement(w, notice, claim);
    struct spot_notice_hook *hook;
    pid_t pid;

    if (!w->options.hook) {
        if (is_wanted)
            spot_notice_acknowledge(w, notice->id);
        return;
    }
    if (w->n_hook == SPOT_NOTICE_HOOKS_MAX) {
        spot_notice_warn(w, "%d hooks are running: none was started for a notice of %s",
                         SPOT_NOTICE_HOOKS_MAX, notice->source);
        return;
    }
    pid = spot_notice_spawn(w->options.hook, STDERR_FILENO, notice);
    if (pid < 0) {
        spot_notice_warn(w, "cannot start the hook: %s", strerror(errno));
        return;
    }
    hook = &w->hook[w->n_hook++];
    *hook = (struct spot_notice_hook){ .pid = pid };
    if (is_wanted)
        memcpy(hook->id, notice->id, sizeof(hook->id));
}

void spot_notice_reap_hooks(struct spot_notice_watch *w)
{
    size_t n_kept = 0;

    for (size_t i = 0; i < w->n_hook; i++) {
        const struct spot_notice_hook hook = w->hook[i];
        int status = 0;
        const pid_t rc = waitpid(hook.pid, &status, WNOHANG);

        if (!rc || (rc < 0 && errno == EINTR)) {
            w->hook[n_kept++] = hook;
            continue;
        }
        if (rc > 0 && WIFEXITED(status) && !WEXITSTATUS(status)) {
            if (hook.id[0])
                spot_notice_acknowledge(w, hook.id);
        } else if (rc > 0) {
            spot_notice_warn(w, "the hook ended with %s %d",
                             WIFEXITED(status) ? "status" : "signal",
                             WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        }
    }
    w->n_hook = n_kept;
}
