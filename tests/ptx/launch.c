/* SPDX-License-Identifier: MIT */
/* Launches: blocks in any order, warps in any order, until all have ended. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/run.h"

static uint64_t state = 1, count;
static char error[512];
static bool is_error;

void ptx_seed(uint64_t seed)
{
    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static uint64_t draw(uint64_t below)
{
    uint64_t x = (state += UINT64_C(0x9e3779b97f4a7c15));

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % below;
}

const char *ptx_error(void)
{
    static char told[sizeof(error)];

    if (!is_error)
        return NULL;
    is_error = false;
    memcpy(told, error, sizeof(told));
    return told;
}

uint64_t ptx_count(void)
{
    return count;
}

void ptx_coverage(size_t *n_run, size_t *n, const char **unrun)
{
    *n_run = 0;
    *n = ptx_kernels();
    for (size_t i = 0; i < *n; i++)
        if (ptx_kernel_at(i)->has_run)
            ++*n_run;
        else if (unrun)
            unrun[i - *n_run] = ptx_kernel_at(i)->name;
}

_Noreturn void ptx_fail(struct ptx_block *b, unsigned thread, const char *what, uint64_t value)
{
    const size_t pc = b->thread[thread].pc;

    snprintf(error, sizeof(error), "%s:%d: %s, block %u %u, thread %u: %s %" PRIu64 ": %.120s",
             b->k->path, pc < b->k->n_ins ? b->k->ins[pc].line : 0, b->k->name, b->at[0], b->at[1],
             thread, what, value, pc < b->k->n_ins ? b->k->text[pc] : "");
    is_error = true;
    longjmp(*b->out, 1);
}

/* --- a block ------------------------------------------------------------------- */

static void start_threads(struct ptx_block *b)
{
    for (unsigned i = 0; i < b->n_thread; i++) {
        struct ptx_thread *const t = &b->thread[i];

        memcpy(t->slot, b->k->initial, b->k->n_slot * sizeof(*t->slot));
        t->slot[SLOT_TID] = i;
        t->slot[SLOT_CTAID_X] = b->at[0];
        t->slot[SLOT_CTAID_Y] = b->at[1];
        t->slot[SLOT_CTAID_Z] = b->at[2];
        t->slot[SLOT_NCTAID_X] = b->launch->grid[0];
        memset(t->local, 0xff, b->k->local_byte);
        t->pc = 0;
        t->state = AT_WORK;
        t->n_group = 0;
        t->n_copy = 0;
    }
    memset(b->shared, 0xff, b->shared_byte);
    memset(b->watch, 0, b->shared_byte * sizeof(*b->watch));
    b->barriers = 1;
}

static unsigned count_state(const struct ptx_block *b, unsigned first, unsigned n,
                            enum ptx_state which)
{
    unsigned found = 0;

    for (unsigned i = first; i < first + n; i++)
        found += b->thread[i].state == which;
    return found;
}

static void open_barrier(struct ptx_block *b)
{
    for (unsigned i = 0; i < b->n_thread; i++)
        if (b->thread[i].state == AT_BARRIER)
            b->thread[i].state = AT_WORK;
    b->barriers++;
}

/* All lanes of a warp as far as they come, each from another one on; what they wait for together.
 */
static void run_warp(struct ptx_block *b, unsigned first)
{
    const unsigned begin = (unsigned)draw(WARP);

    for (unsigned l = 0; l < WARP; l++) {
        const unsigned thread = first + (begin + l) % WARP;

        if (b->thread[thread].state == AT_WORK)
            ptx_go_on(b, thread);
    }
    if (!count_state(b, first, WARP, AT_EXCHANGE))
        return;
    for (unsigned l = 0; l < WARP; l++)
        if (b->thread[first + l].state != AT_EXCHANGE ||
            b->thread[first + l].pc != b->thread[first].pc)
            ptx_fail(b, first + l, "lanes of a warp do not meet at one instruction, this one is at",
                     b->thread[first + l].pc);
    ptx_exchange(b, first);
}

/* A warp goes on for some exchanges, then another one is drawn. */
static void run_block(struct ptx_block *b)
{
    const unsigned n_warp = b->n_thread / WARP;

    start_threads(b);
    for (;;) {
        const unsigned n_end = count_state(b, 0, b->n_thread, AT_END),
                       n_barrier = count_state(b, 0, b->n_thread, AT_BARRIER);
        unsigned warp = (unsigned)draw(n_warp);

        if (n_end == b->n_thread)
            return;
        if (n_end + n_barrier == b->n_thread)
            open_barrier(b);
        while (!count_state(b, warp * WARP, WARP, AT_WORK))
            warp = (warp + 1) % n_warp;
        for (uint64_t n = 1 + draw(64); n && count_state(b, warp * WARP, WARP, AT_WORK); n--)
            run_warp(b, warp * WARP);
    }
}

/* --- a launch -------------------------------------------------------------------- */

static struct ptx_kernel *find(const char *name)
{
    for (size_t i = 0; i < ptx_kernels(); i++)
        if (!strcmp(ptx_kernel_at(i)->name, name))
            return ptx_kernel_at(i);
    ptx_end("no kernel %s in the PTX", name);
}

static void take(struct ptx_block *b)
{
    b->parameter = calloc(1, b->k->parameter_byte + 1);
    b->shared = malloc(b->shared_byte + 1);
    b->watch = malloc((b->shared_byte + 1) * sizeof(*b->watch));
    b->thread = calloc(b->n_thread, sizeof(*b->thread));
    for (unsigned i = 0; i < b->n_thread; i++) {
        b->thread[i].slot = malloc(b->k->n_slot * sizeof(*b->thread[i].slot));
        b->thread[i].local = malloc(b->k->local_byte + 1);
    }
    for (size_t i = 0; i < b->k->n_parameter; i++)
        memcpy(b->parameter + b->k->parameter[i].offset, b->launch->argument[i],
               b->k->parameter[i].n_byte);
}

static void give_back(struct ptx_block *b)
{
    for (unsigned i = 0; i < b->n_thread; i++) {
        free(b->thread[i].slot);
        free(b->thread[i].local);
    }
    free(b->thread);
    free(b->watch);
    free(b->shared);
    free(b->parameter);
}

static void run_grid(struct ptx_block *b)
{
    const unsigned *const g = b->launch->grid, n = g[0] * g[1] * g[2];
    unsigned *const order = malloc(n * sizeof(*order));
    jmp_buf out;

    b->out = &out;
    for (unsigned i = 0; i < n; i++) {
        const unsigned j = (unsigned)draw(i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    if (!setjmp(out))
        for (unsigned i = 0; i < n; i++) {
            b->at[0] = order[i] % g[0];
            b->at[1] = order[i] / g[0] % g[1];
            b->at[2] = order[i] / g[0] / g[1];
            run_block(b);
        }
    free(order);
}

void ptx_launch(const struct ptx_launch *launch)
{
    static struct ptx_block b;

    if (is_error)
        return; /* as on a device that failed */
    b = (struct ptx_block){ .k = find(launch->kernel),
                            .launch = launch,
                            .n_thread = launch->block };
    if (launch->n_argument != b.k->n_parameter || launch->block % WARP ||
        launch->block > THREADS_MAX || !launch->grid[0] || !launch->grid[1] ||
        launch->grid[1] > 65535)
        ptx_end("no device takes this launch of %s", launch->kernel);
    b.shared_byte = b.k->shared_byte + launch->shared_byte;
    if (b.shared_byte > 227 << 10)
        ptx_end("%s asks for %zu bytes of shared memory", launch->kernel, b.shared_byte);
    take(&b);
    b.k->has_run = true;
    run_grid(&b);
    count += b.count;
    give_back(&b);
}
