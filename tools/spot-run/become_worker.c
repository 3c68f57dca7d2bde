/* SPDX-License-Identifier: MIT */
#include "job_options.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Executes the program that is running, even if another was installed in its place meanwhile. */
void become_worker(const struct spot_trainer_options *o, uint64_t index, const char *address,
                   const char *backend)
{
    char name[32], threads[24], device[16];
    const char *const option[][2] = { { "--join", address },
                                      { "--name", name },
                                      { "--threads", threads },
                                      { "--device", device },
                                      { "--recompute", spot_recompute_name(o->recompute) },
                                      { "--join-timeout", "5s" },
                                      { "--key-file", o->key_file },
                                      { "--state-command", o->state_command } };
    enum { N_OPTION = sizeof(option) / sizeof(*option) };
    const char *arg[3 + 2 * N_OPTION + 1] = { "spot-run", "worker", "--quiet" };
    size_t n = 3;

    snprintf(name, sizeof(name), "local-%llu", (unsigned long long)index);
    snprintf(threads, sizeof(threads), "%llu", (unsigned long long)o->n_thread);
    if (strcmp(backend, "cuda") != 0)
        snprintf(device, sizeof(device), "%s", backend);
    else
        snprintf(device, sizeof(device), "%s:%s", backend, o->device ? o->device : "auto");
    for (size_t i = 0; i < N_OPTION; i++)
        if (option[i][1]) {
            arg[n++] = option[i][0];
            arg[n++] = option[i][1];
        }
    execv("/proc/self/exe", (char *const *)(uintptr_t)arg);
}
