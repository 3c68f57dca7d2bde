/* SPDX-License-Identifier: MIT */
/* shared_image.h - bytes that processes of a host make once and map together: packed weights.
 *
 * They lie in a file in memory (/dev/shm) that only this user can open, for as long as a process
 * maps them; whoever leaves last removes it, and whoever comes later removes what killed ones have
 * left. Where there is no such place or no room in it, the bytes are this process's own.
 */
#ifndef SPOT_SERVE_SHARED_IMAGE_H
#define SPOT_SERVE_SHARED_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_shared_image {
    const void *byte; /* aligned to 64 bytes; NULL: none */
    size_t n_byte;
    bool is_shared;

    void *own, *map;
    size_t map_byte;
    int fd;
    char path[160];
};

/* How the bytes are made, by the one who comes first: they depend on the name alone. */
struct spot_shared_image_maker {
    size_t n_byte;
    int (*make)(void *user, void *byte, struct spot_err *err); /* 0, or -1 with *err */
    void (*wait)(void *user); /* called now and then while another process makes them */
    void *user;
};

/* `name`: letters, digits and '-', at most 80. `dir` NULL: /dev/shm. Returns 0, or -1 with *err
 * (SPOT_ESYS: no memory; or what make said), and then there is nothing to close. */
int spot_shared_image_open(struct spot_shared_image *image, const char *dir, const char *name,
                           const struct spot_shared_image_maker *maker, struct spot_err *err);
void spot_shared_image_close(struct spot_shared_image *image); /* also of one that was zeroed */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SHARED_IMAGE_H */
