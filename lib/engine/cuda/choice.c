/* SPDX-License-Identifier: MIT */
/* Which device: one worker per device, unless specified otherwise. */
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "engine/cuda/device.h"

enum { BUS_BYTE = 32 };

static char bus[BUS_BYTE]; /* PCI address of the chosen device */

/* The lock is held until the process ends, in whatever way. Locks are per host, so two containers
 * that see one device should share the folder. */
static bool lock_device(const char *id)
{
    const char *const named = getenv("SPOT_DEVICE_LOCKS");
    char path[4096];
    int fd;

    snprintf(path, sizeof(path), "%s/spot-cuda-%s.lock", named && *named ? named : "/tmp", id);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
        return true;
    if (fd >= 0)
        close(fd);
    return false;
}

static int choose_first_free(int n, struct spot_err *err)
{
    for (int i = 0; i < n; i++) {
        char id[BUS_BYTE];

        if (cudaDeviceGetPCIBusId(id, sizeof(id), i) == cudaSuccess && lock_device(id))
            return i;
    }
    return spot_err_set(
        err, SPOT_EGPU,
        "each of %d CUDA devices here has a worker; --device cuda:0 shares the first, "
        "--device cpu needs none",
        n);
}

int spot_device_choose(const char *device, struct spot_err *err)
{
    int n = 0, which = 0;

    if (cudaGetDeviceCount(&n) != cudaSuccess || !n) {
        (void)cudaGetLastError();
        return 0; /* the probe says why */
    }
    if (device && !strcmp(device, "auto"))
        which = choose_first_free(n, err);
    else if (device)
        which = (int)strtol(device, NULL, 10);
    if (which < 0)
        return -1;
    /* Only a worker needs a context, which cudaSetDevice makes. */
    if (which >= n || (device && cudaSetDevice(which) != cudaSuccess)) {
        (void)cudaGetLastError();
        return spot_err_set(err, SPOT_EGPU,
                            "--device cuda:%d: there are %d CUDA devices here, from 0", which, n);
    }
    if (cudaDeviceGetPCIBusId(bus, sizeof(bus), which) != cudaSuccess)
        (void)cudaGetLastError();
    return 0;
}

const char *spot_device_bus(void)
{
    return bus;
}
