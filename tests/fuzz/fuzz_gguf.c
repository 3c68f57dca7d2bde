/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memfd_create. NOLINT(bugprone-reserved-identifier) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weights/gguf.h"
#include "weights/gguf_docs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_all(const struct spot_gguf *g)
{
    static int (*const put[])(const struct spot_gguf *, struct spot_jw *,
                              struct spot_err *) = { spot_gguf_config, spot_gguf_generation_config,
                                                     spot_gguf_tokenizer,
                                                     spot_gguf_tokenizer_config };

    for (size_t i = 0; i < sizeof(put) / sizeof(put[0]); i++) {
        FILE *const out = fopen("/dev/null", "we");
        struct spot_err err;
        struct spot_jw jw;

        spot_jw_init(&jw, out, false);
        if (!put[i](g, &jw, &err))
            spot_jw_close(&jw, &err);
        fclose(out);
    }
}

static void read_some(const struct spot_gguf *g)
{
    float x[1024];
    struct spot_err err;

    for (size_t i = 0; i < g->n_tensor && i < 8; i++)
        if (g->tensor[i].dim[0] <= sizeof(x) / sizeof(x[0]))
            spot_gguf_read(g, &g->tensor[i], 0, (size_t)g->tensor[i].dim[0], x, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct spot_gguf *g;
    struct spot_err err;
    char path[64];

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    g = spot_gguf_open(path, &err);
    if (g) {
        write_all(g);
        read_some(g);
    }
    spot_gguf_close(g);
    close(fd);
    return 0;
}
