/* SPDX-License-Identifier: MIT */
/* etcd_rig.h - members of a real etcd on loopback, which end with the test. */
#ifndef SPOT_TESTS_ETCD_RIG_H
#define SPOT_TESTS_ETCD_RIG_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/store_etcd.h"
#include "comm/endpoint.h"
#include "common/clock.h"
#include "suite.h"

enum { ETCD_MEMBERS = 3 };

static struct etcd_rig {
    pid_t pid[ETCD_MEMBERS];
    int client[ETCD_MEMBERS], peer[ETCD_MEMBERS]; /* ports */
    char dir[64], cluster[256];
    struct spot_etcd_where where;
} rig;

static inline bool etcd_is_there(void)
{
    return !system("command -v etcd >/dev/null 2>&1");
}

/* A free port, and a listener that keeps it from being free for the next. */
static inline int etcd_port(int *fd)
{
    struct spot_endpoint at;

    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &at, NULL), 0);
    *fd = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(*fd, 0);
    return at.port;
}

/* In a process of its own. */
static inline _Noreturn void etcd_exec(int i)
{
    char name[8], dir[128], client[64], peer[64];
    const int log = open("/dev/null", O_WRONLY);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(name, sizeof(name), "n%d", i);
    snprintf(dir, sizeof(dir), "%s/%s", rig.dir, name);
    snprintf(client, sizeof(client), "http://127.0.0.1:%d", rig.client[i]);
    snprintf(peer, sizeof(peer), "http://127.0.0.1:%d", rig.peer[i]);
    dup2(log, 1);
    dup2(log, 2);
    execlp("etcd", "etcd", "--name", name, "--data-dir", dir, "--listen-client-urls", client,
           "--advertise-client-urls", client, "--listen-peer-urls", peer,
           "--initial-advertise-peer-urls", peer, "--initial-cluster", rig.cluster,
           "--heartbeat-interval", "50", "--election-timeout", "500", (char *)NULL);
    _Exit(127);
}

static inline void etcd_start(int i)
{
    rig.pid[i] = fork();
    if (!rig.pid[i])
        etcd_exec(i);
}

static inline void etcd_signal(int i, int sig)
{
    ck_assert_int_eq(kill(rig.pid[i], sig), 0);
    if (sig == SIGSTOP) /* until then it may still answer */
        ck_assert_int_eq(waitpid(rig.pid[i], NULL, WUNTRACED), rig.pid[i]);
    if (sig == SIGKILL) {
        waitpid(rig.pid[i], NULL, 0);
        rig.pid[i] = 0;
    }
}

static inline struct spot_etcd *etcd_store(void)
{
    struct spot_etcd *const store = spot_etcd_open(&rig.where, 6, NULL);

    ck_assert_ptr_nonnull(store);
    return store;
}

/* Names and places of all, at ports that were free a moment ago. */
static inline void etcd_place(void)
{
    int fd[2 * ETCD_MEMBERS];
    size_t n = 0, m = 0;
    char members[192], text[256];

    strcpy(rig.dir, "/tmp/spot-etcd-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig.dir));
    for (int i = 0; i < ETCD_MEMBERS; i++) {
        rig.client[i] = etcd_port(&fd[2 * i]);
        rig.peer[i] = etcd_port(&fd[2 * i + 1]);
        n += (size_t)snprintf(rig.cluster + n, sizeof(rig.cluster) - n, "%sn%d=http://127.0.0.1:%d",
                              i ? "," : "", i, rig.peer[i]);
        m += (size_t)snprintf(members + m, sizeof(members) - m, "%s127.0.0.1:%d", i ? "," : "",
                              rig.client[i]);
    }
    for (int i = 0; i < 2 * ETCD_MEMBERS; i++)
        close(fd[i]);
    snprintf(text, sizeof(text), "etcd://%s/spot/test", members);
    ck_assert_int_eq(spot_etcd_where_parse(text, &rig.where, NULL), 0);
}

static inline bool etcd_answers(void)
{
    struct spot_etcd *const store = etcd_store();
    struct spot_etcd_entry entry;
    int rc = -1;

    for (int i = 0; rc < 0 && i < 600; i++) {
        rc = spot_etcd_leader(store, &entry, NULL);
        if (rc < 0)
            spot_clock_sleep(.1);
    }
    spot_etcd_close(store);
    return !rc;
}

static inline void etcd_down(void)
{
    char command[128];

    for (int i = 0; i < ETCD_MEMBERS; i++)
        if (rig.pid[i] > 0)
            etcd_signal(i, SIGKILL);
    snprintf(command, sizeof(command), "rm -rf %s", rig.dir);
    ck_assert_int_eq(system(command), 0);
}

/* Somebody may have taken a port meanwhile. */
static inline void etcd_up(void)
{
    bool is_up = false;

    for (int try = 0; !is_up && try < 3; try++) {
        if (try)
            etcd_down();
        etcd_place();
        for (int i = 0; i < ETCD_MEMBERS; i++)
            etcd_start(i);
        is_up = etcd_answers();
    }
    ck_assert(is_up);
}

/* etcd://HOST:PORT,.../PREFIX of them. */
static inline void etcd_url(char *url, size_t size)
{
    size_t n = (size_t)snprintf(url, size, "etcd://");

    for (size_t i = 0; i < rig.where.n_url; i++)
        n += (size_t)snprintf(url + n, size - n, "%s%s", i ? "," : "",
                              rig.where.url[i] + strlen("http://"));
    snprintf(url + n, size - n, "/%s", rig.where.prefix);
}

#endif /* SPOT_TESTS_ETCD_RIG_H */
