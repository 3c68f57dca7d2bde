/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* access. NOLINT(bugprone-reserved-identifier) */
#include "exec_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/xalloc.h"
#include "host/rank_env.h"

enum { PORT_USUAL = 29500 };

/* --- ranks ------------------------------------------------------------------------------ */

static uint64_t count_gpus(void)
{
    char path[32];
    uint64_t n = 0;

    do
        snprintf(path, sizeof(path), "/dev/nvidia%llu", (unsigned long long)n);
    while (!access(path, F_OK) && ++n);
    return n;
}

int exec_torchrun_ranks(const struct exec_torchrun *t, uint64_t *n, struct spot_err *err)
{
    const uint64_t n_cpu = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    char *end;

    if (!t->nproc)
        return 0;
    if (!strcmp(t->nproc, "cpu"))
        *n = n_cpu;
    else if (!strcmp(t->nproc, "gpu") || !strcmp(t->nproc, "auto"))
        *n = count_gpus();
    else
        *n = strtoull(t->nproc, &end, 10);
    if (!strcmp(t->nproc, "auto") && !*n)
        *n = n_cpu;
    if (!strcmp(t->nproc, "gpu") && !*n)
        return spot_err_set(err, SPOT_EUSAGE, "--nproc-per-node gpu, but there is no /dev/nvidia0");
    if ((*t->nproc >= '0' && *t->nproc <= '9' && *end) || !*n || *n > SPOT_LOCAL_RANKS_MAX)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--nproc-per-node must be 1 to %d, cpu, gpu or auto, got '%.40s'",
                            SPOT_LOCAL_RANKS_MAX, t->nproc);
    return 0;
}

/* --- the command ------------------------------------------------------------------------ */

static bool is_script(const char *name)
{
    const size_t n = strlen(name);

    return n > 3 && !strcmp(name + n - 3, ".py");
}

static bool is_for_python(const struct exec_torchrun *t, const char *word)
{
    return !t->no_python && (t->is_module || is_script(word));
}

int exec_torchrun_check(const struct exec_torchrun *t, const char *word, struct spot_err *err)
{
    if (is_for_python(t, word) && !t->is_module && access(word, R_OK))
        return spot_err_sys(err, "cannot open '%s'", word);
    return 0;
}

char **exec_torchrun_command(const struct exec_torchrun *t, char **operand, size_t n)
{
    const char *const named = getenv("PYTHON_EXEC");
    char **all;
    size_t at = 0;

    if (!is_for_python(t, operand[0]))
        return operand;
    all = spot_xcalloc(n + 4, sizeof(*all));
    all[at++] = spot_xstrdup(named && *named ? named : "python3");
    all[at++] = spot_xstrdup("-u");
    if (t->is_module)
        all[at++] = spot_xstrdup("-m");
    memcpy(all + at, operand, n * sizeof(*all));
    return all;
}

/* --- the rendezvous endpoint --- */

/* Add the port to a name or address without one. */
static char *with_port(const char *host, uint64_t port)
{
    const char *const bracket = strrchr(host, ']');
    char *text;
    size_t n;

    if (strchr(bracket ? bracket : host, ':'))
        return spot_xstrdup(host);
    n = strlen(host) + 16;
    text = spot_xcalloc(n, 1);
    snprintf(text, n, "%s:%llu", host, (unsigned long long)port);
    return text;
}

bool exec_torchrun_is_free(const char *endpoint)
{
    struct spot_endpoint at;
    int fd;

    if (spot_endpoint_parse(endpoint, &at, NULL))
        return false;
    fd = spot_endpoint_listen(&at, NULL);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

int exec_torchrun_meet(const struct exec_torchrun *t, char **endpoint, struct spot_err *err)
{
    const uint64_t port = t->master_port != UINT64_MAX ? t->master_port : PORT_USUAL;
    struct spot_endpoint at;

    *endpoint = NULL;
    if (t->endpoint || t->master_addr)
        *endpoint = with_port(t->endpoint ? t->endpoint : t->master_addr, port);
    else if (t->node_rank != UINT64_MAX && t->node_rank)
        return spot_err_set(err, SPOT_EUSAGE, "--node-rank %llu needs --master-addr",
                            (unsigned long long)t->node_rank);
    if (!*endpoint)
        return EXEC_ALONE;
    if (spot_endpoint_parse(*endpoint, &at, err))
        return -1;
    if (t->node_rank != UINT64_MAX)
        return t->node_rank ? EXEC_JOINS : EXEC_LEADS;
    return exec_torchrun_is_free(*endpoint) ? EXEC_LEADS : EXEC_JOINS;
}
