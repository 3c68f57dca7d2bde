/* SPDX-License-Identifier: MIT */
/* shared_image.h - bytes that processes of a host create once and map together: packed weights.
 *
 * They are in a file in memory (/dev/shm) that only this user can open, as long as a process maps
 * them; the last process to leave removes it, and later processes remove what killed ones left. If
 * that is impossible or there is no space, the bytes are private to this process.
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

/* How the first process makes the bytes, which must depend only on the name. */
struct spot_shared_image_maker {
    size_t n_byte;
    int (*make)(void *user, void *byte, struct spot_err *err); /* 0, or -1 with *err */
    void (*wait)(void *user); /* called repeatedly while another process makes them */
    void *user;
};

/* `name`: letters, digits and '-', at most 80. `dir` NULL: /dev/shm. Returns 0, or -1 with *err
 * (SPOT_ESYS: no memory; or the error of make), and then there is nothing to close. */
int spot_shared_image_open(struct spot_shared_image *image, const char *dir, const char *name,
                           const struct spot_shared_image_maker *maker, struct spot_err *err);
void spot_shared_image_close(struct spot_shared_image *image); /* also on a zeroed one */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SHARED_IMAGE_H */
