/* SPDX-License-Identifier: MIT */
/* Memory of the device, whose bounds are checked, and shared memory, whose meetings are. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "ptx/run.h"

enum { MEMORIES_MAX = 256, GUARD_BYTE = 256 };

static struct memory {
    unsigned char *at;
    size_t n_byte;
} memories[MEMORIES_MAX];
static size_t n_memory, last;

void *ptx_memory(size_t n_byte)
{
    struct memory *const m = &memories[n_memory++];

    if (n_memory > MEMORIES_MAX)
        ptx_end("more than %d pieces of device memory", MEMORIES_MAX);
    m->n_byte = n_byte;
    m->at = aligned_alloc(GUARD_BYTE, (n_byte / GUARD_BYTE + 2) * GUARD_BYTE);
    memset(m->at, 0xff, n_byte);
    return m->at;
}

void ptx_forget_memory(void)
{
    while (n_memory > 0)
        free(memories[--n_memory].at);
    last = 0;
}

void *ptx_global(struct ptx_block *b, unsigned thread, uint64_t at, size_t n)
{
    for (size_t i = 0; i < n_memory; i++) {
        const struct memory *const m = &memories[(last + i) % n_memory];
        const uint64_t begin = (uintptr_t)m->at;

        if (at < begin || at - begin + n > m->n_byte)
            continue;
        if (at % n)
            ptx_fail(b, thread, "an access to device memory is not aligned", at % n);
        last = (last + i) % n_memory;
        return m->at + (at - begin);
    }
    ptx_fail(b, thread, "an access is outside of the memory given out", at);
}

/* --- shared ------------------------------------------------------------------ */

static struct ptx_watch *watch_of(struct ptx_block *b, unsigned thread, uint64_t at, size_t n)
{
    if (at + n > b->shared_byte || at + n < at)
        ptx_fail(b, thread, "an access is outside of shared memory", at);
    if (at % n)
        ptx_fail(b, thread, "an access to shared memory is not aligned", at % n);
    return &b->watch[at];
}

static void note_read(struct ptx_block *b, unsigned thread, uint64_t at, size_t n)
{
    struct ptx_watch *const w = watch_of(b, thread, at, n);

    for (size_t i = 0; i < n; i++) {
        if (w[i].n_coming)
            ptx_fail(b, thread, "shared memory is read before its copy is there, at byte", at + i);
        if (!w[i].has_value)
            ptx_fail(b, thread, "shared memory is read that nobody wrote, at byte", at + i);
        if (w[i].written_at == b->barriers && w[i].writer != thread)
            ptx_fail(b, thread, "race: another thread wrote what is read, at byte", at + i);
        w[i].reader =
            w[i].read_at == b->barriers && w[i].reader != thread ? MANY : (uint16_t)thread;
        w[i].read_at = b->barriers;
    }
}

static void note_write(struct ptx_block *b, unsigned thread, uint64_t at, size_t n)
{
    struct ptx_watch *const w = watch_of(b, thread, at, n);

    for (size_t i = 0; i < n; i++) {
        if (w[i].n_coming)
            ptx_fail(b, thread, "a copy is under way to what is written, at byte", at + i);
        if (w[i].written_at == b->barriers && w[i].writer != thread)
            ptx_fail(b, thread, "race: two threads write, at byte", at + i);
        if (w[i].read_at == b->barriers && w[i].reader != thread)
            ptx_fail(b, thread, "race: another thread read what is written, at byte", at + i);
        w[i].writer = (uint16_t)thread;
        w[i].written_at = b->barriers;
    }
}

/* --- all kinds ------------------------------------------------------------------ */

static unsigned char *private_of(struct ptx_block *b, unsigned thread, enum ptx_space space,
                                 uint64_t at, size_t n)
{
    const size_t limit = space == S_LOCAL ? b->k->local_byte : b->k->parameter_byte;

    if (at + n > limit || at + n < at || at % n)
        ptx_fail(b, thread, "an access is outside of local memory or parameters", at);
    return (space == S_LOCAL ? b->thread[thread].local : b->parameter) + at;
}

void ptx_read(struct ptx_block *b, unsigned thread, enum ptx_space space, uint64_t at, void *to,
              size_t n)
{
    const unsigned char *from;

    if (space == S_SHARED) {
        note_read(b, thread, at, n);
        from = b->shared + at;
    } else if (space == S_GLOBAL) {
        from = ptx_global(b, thread, at, n);
    } else {
        from = private_of(b, thread, space, at, n);
    }
    memcpy(to, from, n);
}

void ptx_write(struct ptx_block *b, unsigned thread, enum ptx_space space, uint64_t at,
               const void *from, size_t n)
{
    unsigned char *to;

    if (space == S_SHARED) {
        note_write(b, thread, at, n);
        for (size_t i = 0; i < n; i++)
            b->watch[at + i].has_value = true;
        to = b->shared + at;
    } else if (space == S_GLOBAL) {
        to = ptx_global(b, thread, at, n);
    } else {
        to = private_of(b, thread, space, at, n);
    }
    memcpy(to, from, n);
}

/* --- asynchronous copies ----------------------------------------------------------- */

void ptx_copy_later(struct ptx_block *b, unsigned thread, uint64_t to, uint64_t from,
                    uint64_t n_byte)
{
    struct ptx_thread *const t = &b->thread[thread];
    struct ptx_copy *const c = &t->copy[t->n_copy];

    if (n_byte > sizeof(c->data))
        ptx_fail(b, thread, "a copy of more than 16 bytes", n_byte);
    if (t->n_copy == COPIES_MAX)
        ptx_fail(b, thread, "more copies under way than are counted here", COPIES_MAX);
    t->n_copy++;
    note_write(b, thread, to, sizeof(c->data));
    *c = (struct ptx_copy){ .to = (uint32_t)to, .group = t->n_group };
    if (n_byte > 0)
        memcpy(c->data, ptx_global(b, thread, from, sizeof(c->data)), n_byte);
    for (size_t i = 0; i < sizeof(c->data); i++)
        b->watch[to + i].n_coming++;
}

static void arrive(struct ptx_block *b, unsigned thread, const struct ptx_copy *c)
{
    for (size_t i = 0; i < sizeof(c->data); i++) {
        struct ptx_watch *const w = &b->watch[c->to + i];

        w->n_coming--;
        w->has_value = true;
        w->writer = (uint16_t)thread;
        w->written_at = b->barriers;
    }
    memcpy(b->shared + c->to, c->data, sizeof(c->data));
}

void ptx_copies_wait(struct ptx_block *b, unsigned thread, uint64_t n_left)
{
    struct ptx_thread *const t = &b->thread[thread];
    int n = 0;

    for (int i = 0; i < t->n_copy; i++)
        if (t->copy[i].group + n_left < t->n_group)
            arrive(b, thread, &t->copy[i]);
        else
            t->copy[n++] = t->copy[i];
    t->n_copy = n;
}
