/* SPDX-License-Identifier: MIT */
#include "become_worker.h"

#include <stdio.h>
#include <unistd.h>

/* This very program, also when another has been installed in its place meanwhile. */
void become_worker(const struct spot_coordinator_options *o, uint64_t index, const char *address,
                   const char *backend)
{
    char name[32], threads[24];

    snprintf(name, sizeof(name), "local-%llu", (unsigned long long)index);
    snprintf(threads, sizeof(threads), "%llu", (unsigned long long)o->n_thread);
    execl("/proc/self/exe", "spot-run", "worker", "--quiet", "--join", address, "--name", name,
          "--threads", threads, "--backend", backend, "--recompute",
          spot_recompute_name(o->recompute), "--device", o->device ? o->device : "auto",
          "--join-timeout", "5s", o->key_file ? "--key-file" : (char *)NULL, o->key_file,
          (char *)NULL);
}
