/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* unsetenv */
#include "exec_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/tool.h"
#include "cluster/private_dir.h"
#include "cluster/protocol.h"
#include "common/random.h"
#include "common/utf8.h"
#include "host/exec_agent.h"
#include "host/rank_output.h"
#include "host/rank_socket.h"
#include "host/state_dir.h"
#include "host/state_store.h"
#include "run.h"

/* State of a running node. */
struct running {
    struct exec_node *node;
    const struct spot_state_dir *dir;
    struct spot_state_store *states; /* what its ranks commit */
    struct spot_rank_files *files;   /* what ranks save by themselves; NULL: not watched */
    char errors[4096];               /* file in which ranks report the exception that ended them */
};

static int check_text(const char *name, const char *text, struct spot_err *err)
{
    if (text && (!*text || strlen(text) >= SPOT_NAME_MAX || !spot_utf8_is_plain(text)))
        return spot_err_set(err, SPOT_EUSAGE,
                            "%s must be 1 to %d bytes of UTF-8 without control characters", name,
                            SPOT_NAME_MAX - 1);
    return 0;
}

void exec_name_job(const char *address, char *name, size_t n)
{
    const char *const colon = address ? strrchr(address, ':') : NULL;
    char path[4096], *dir = NULL, *slash;
    uint64_t drawn = 0;

    if (!address) {
        (void)spot_random_bytes(&drawn, sizeof(drawn), NULL);
        snprintf(name, n, "alone %ld %016llx", (long)getpid(), (unsigned long long)drawn);
    } else if (!strncmp(address, "unix:", 5)) {
        snprintf(path, sizeof(path), "./%s", address + 5);
        if (address[5] == '/')
            memmove(path, path + 2, strlen(path + 2) + 1);
        slash = strrchr(path, '/');
        *slash = '\0';
        dir = realpath(*path ? path : "/", NULL);
        snprintf(name, n, "unix %.200s/%.90s", dir ? dir : path, slash + 1);
        free(dir);
    } else {
        snprintf(name, n, "%.290s", strstr(address, "://") || !colon ? address : colon);
    }
}

static int join_job(const struct running *r, struct spot_ranks *ranks, struct spot_err *err)
{
    struct exec_node *const o = r->node;
    bool has_joined = false;
    int rc;

    o->agent.ranks = ranks;
    o->agent.files = r->files;
    o->agent.state = r->dir;
    o->agent.store = r->states;
    o->agent.socket = r->dir->socket;
    o->leave.is_quiet = o->is_quiet;
    rc = leave_on_notice_start(&o->leave, err) ? -1
                                               : spot_exec_agent_run(&o->agent, &has_joined, err);
    leave_on_notice_stop(&o->leave);
    if (rc && (o->is_quiet || o->is_local) && has_joined && !spot_ranks_are_stuck(ranks))
        err->msg[0] = '\0'; /* the coordinator reports it, or the exit status does */
    return rc;
}

/* The guard is started first: it has one thread, and so must this process have at that time. */
static int run_ranks(const struct running *r, struct spot_err *err)
{
    struct spot_ranks *const ranks = spot_ranks_new(&r->node->ranks, err);
    int rc;

    if (!ranks)
        return -1;
    spot_tool_never_wait();
    rc = join_job(r, ranks, err);
    spot_ranks_free(ranks);
    return rc;
}

/* Set options that were not given. */
static void settle(struct running *r)
{
    struct exec_node *const o = r->node;

    snprintf(r->errors, sizeof(r->errors), "%s/error", r->dir->root);
    o->ranks.n = o->agent.n_rank = (uint32_t)o->n_rank;
    o->ranks.stop_s = derived("SPOT_TEST_STOP_TIME_S", 5);
    o->ranks.errors = o->agent.errors = r->errors;
    o->ranks.out_fd = STDOUT_FILENO;
    o->ranks.err_fd = STDERR_FILENO;
    o->agent.is_cold = o->ranks.is_cold;
    o->ranks.warn = o->agent.warn = o->is_quiet ? NULL : spot_tool_warn;
    o->agent.agent.warn = o->is_quiet || o->is_local ? NULL : spot_tool_warn;
    o->agent.agent.is_private = o->private_dir != NULL;
}

/* Run in the node's directory. */
static int run_in(struct running *r, struct spot_err *err)
{
    const struct exec_node *const o = r->node;
    int rc;

    setenv(SPOT_STATE_DIR_ENV, r->dir->live, 1);
    setenv(SPOT_SOCKET_ENV, r->dir->socket, 1);
    settle(r);
    r->states = spot_state_store_open(r->dir->root_fd, r->dir->root,
                                      (uint64_t)derived("SPOT_TEST_STATE_LIMIT", 9e18), false, err);
    if (r->states && spot_state_store_damaged(r->states))
        spot_tool_warn("'%s': a power failure may have damaged %zu of its states, which are "
                       "removed; %zu are whole",
                       r->dir->root, spot_state_store_damaged(r->states),
                       spot_state_store_count(r->states));
    if (o->checkpoint && r->states)
        r->files = spot_rank_files_new(o->checkpoint, o->is_quiet ? NULL : spot_tool_warn, err);
    rc = r->states && (r->files || !o->checkpoint) &&
                 (!r->files || !spot_rank_files_hold(r->files, o->agent.job, err))
             ? run_ranks(r, err)
             : -1;
    spot_rank_files_free(r->files);
    spot_state_store_free(r->states);
    return rc;
}

/* The state directory exists from before the first rank until after the last one. */
int exec_node_run(struct exec_node *node, struct spot_err *err)
{
    struct running r = { .node = node };
    struct spot_state_dir dir;
    struct spot_err replaced;
    int rc;

    if (check_text("--name", node->agent.agent.name, err) ||
        check_text("--domain", node->agent.agent.domain, err) ||
        (node->ranks.log_dir && spot_rank_output_make_dir(node->ranks.log_dir, err)))
        return -1;
    unsetenv(EXEC_LOCAL_ENV);
    if (node->private_dir)
        unsetenv(SPOT_PRIVATE_DIR_ENV); /* jobs that a rank starts must not use it */
    rc = spot_state_dir_open(&dir, node->state_dir, err);
    if (!rc) {
        r.dir = &dir;
        rc = run_in(&r, err);
        if (!rc && spot_state_dir_check(&dir, &replaced))
            spot_tool_warn("%s", replaced.msg); /* no coordinator was there to report it */
    }
    spot_state_dir_release(&dir);
    if (node->private_dir)
        spot_private_dir_clear(node->private_dir);
    return rc;
}
