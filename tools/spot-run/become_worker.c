/* SPDX-License-Identifier: MIT */
#include "become_worker.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* This very program, also when another has been installed in its place meanwhile. */
void become_worker(const struct spot_coordinator_options *o, uint64_t index, const char *address,
                   const char *backend)
{
    char name[32], threads[24], timeout[32];
    const char *const optional[][2] = { { "--key-file", o->key_file },
                                        { "--state-command", o->state_command },
                                        { "--state-timeout", o->state_command ? timeout : NULL } };
    const char *arg[24] = { "spot-run", "worker",         "--quiet", "--join",
                            address,    "--name",         NULL,      "--threads",
                            NULL,       "--backend",      backend,   "--recompute",
                            NULL,       "--join-timeout", "5s" };
    size_t n = 15;

    snprintf(name, sizeof(name), "local-%llu", (unsigned long long)index);
    snprintf(threads, sizeof(threads), "%llu", (unsigned long long)o->n_thread);
    snprintf(timeout, sizeof(timeout), "%.3fs", o->state_timeout_s);
    arg[6] = name;
    arg[8] = threads;
    arg[12] = spot_recompute_name(o->recompute);
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
        if (optional[i][1]) {
            arg[n++] = optional[i][0];
            arg[n++] = optional[i][1];
        }
    execv("/proc/self/exe", (char *const *)(uintptr_t)arg);
}
