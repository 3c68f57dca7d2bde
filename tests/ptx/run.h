/* SPDX-License-Identifier: MIT */
/* run.h - a block at work: its threads, and its memory that watches who meets where. */
#ifndef SPOT_TESTS_PTX_RUN_H
#define SPOT_TESTS_PTX_RUN_H

#include <setjmp.h>

#include "ptx/kernel.h"

enum { WARP = 32, COPIES_MAX = 256, THREADS_MAX = 1024, NOBODY = 0xffff, MANY = 0xfffe };

enum ptx_state { AT_WORK, AT_EXCHANGE, AT_BARRIER, AT_END };

/* An asynchronous copy that was asked for and is not there. */
struct ptx_copy {
    uint32_t to;
    uint32_t group; /* how many groups this thread had committed */
    unsigned char data[16];
};

struct ptx_thread {
    uint64_t *slot;
    unsigned char *local;
    size_t pc;
    enum ptx_state state;
    uint32_t n_group;
    int n_copy;
    struct ptx_copy copy[COPIES_MAX];
};

/* Of a byte of shared memory: who wrote and read it since the barrier that counted so far. */
struct ptx_watch {
    uint32_t written_at, read_at; /* barriers + 1; 0: never */
    uint16_t writer, reader;
    uint16_t n_coming; /* asynchronous copies under way */
    bool has_value;
};

struct ptx_block {
    struct ptx_kernel *k;
    const struct ptx_launch *launch;
    unsigned char *parameter;
    unsigned n_thread, at[3];
    struct ptx_thread *thread;
    unsigned char *shared;
    struct ptx_watch *watch;
    size_t shared_byte;
    uint32_t barriers; /* + 1 */
    uint64_t count;
    jmp_buf *out;
};

/* Says where, and leaves the launch. */
_Noreturn void ptx_fail(struct ptx_block *b, unsigned thread, const char *what, uint64_t value);

/* --- memory.c --- */

void ptx_read(struct ptx_block *b, unsigned thread, enum ptx_space space, uint64_t at, void *to,
              size_t n);
void ptx_write(struct ptx_block *b, unsigned thread, enum ptx_space space, uint64_t at,
               const void *from, size_t n);
/* The bytes of device memory at `at`. */
void *ptx_global(struct ptx_block *b, unsigned thread, uint64_t at, size_t n);
void ptx_copy_later(struct ptx_block *b, unsigned thread, uint64_t to, uint64_t from,
                    uint64_t n_byte);
/* All copies but those of the last `n_left` groups are there. */
void ptx_copies_wait(struct ptx_block *b, unsigned thread, uint64_t n_left);

/* --- step.c --- */

/* One thread up to its next exchange, barrier or end. */
void ptx_go_on(struct ptx_block *b, unsigned thread);
/* What the 32 lanes of a warp, all at the same instruction, make together. */
void ptx_exchange(struct ptx_block *b, unsigned first);

#endif /* SPOT_TESTS_PTX_RUN_H */
