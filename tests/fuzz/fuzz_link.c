/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIMIT = 1 << 16 };

/* Goal: no bytes of a stranger crash a link or make it hold more than its limit. The first byte
 * says after how many bytes the stream is cut. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t piece = size ? (size_t)data[0] + 1 : 1;
    struct spot_frame_list in = { NULL, NULL };
    struct spot_frame *frame;
    struct spot_link link;
    int fd[2], rc = 0;

    if (!size || size > 1 << 15 || socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
        return 0;
    (void)fcntl(fd[0], F_SETFL, O_NONBLOCK);
    spot_link_init(&link, fd[0], LIMIT);
    for (size_t at = 1; !rc && at < size; at += piece) {
        if (write(fd[1], data + at, size - at < piece ? size - at : piece) < 0)
            break;
        rc = spot_link_read(&link, &in, NULL);
        while ((frame = spot_frame_pop(&in))) {
            if (frame->n_byte > LIMIT)
                abort();
            free(frame);
        }
    }
    spot_link_release(&link);
    close(fd[1]);
    return 0;
}
