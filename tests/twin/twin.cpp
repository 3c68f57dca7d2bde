// SPDX-License-Identifier: MIT
// The twin's machinery: blocks of fibers, and the runtime's calls over host memory.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"

dim3 twin_thread, twin_block, twin_grid, twin_block_dim;
unsigned char *twin_dynamic;

namespace
{
enum { WARP = 32, STACK_BYTE = 64 << 10 };

/* Saves the callee's registers on the stack, notes it in *from and goes on where `to` was left. */
extern "C" void twin_switch(void **from, void *to);
asm(R"(
.text
.globl twin_switch
.hidden twin_switch
.type twin_switch, @function
twin_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size twin_switch, . - twin_switch
)");

struct fiber {
    void *stack_at;
    bool is_done;
    unsigned turn; /* exchanges so far */
    dim3 thread;
};

/* Two generations of what the lanes of a warp gave: a lane that is at its next exchange has read
 * the last one, and no lane can be two ahead. */
struct warp {
    unsigned char slot[2][WARP][64];
    unsigned n_arrived[2]; /* ever */
};

std::vector<fiber> fibers;
std::vector<warp> warps;
unsigned char *stacks;
size_t n_stack;
size_t current;
void *scheduler;
int n_waiting, n_alive; /* at the barrier */
unsigned barrier_turn;
const std::function<void()> *running;
std::mutex device; /* launches take turns */

void leave()
{
    twin_switch(&fibers[current].stack_at, scheduler);
}

void run_fiber()
{
    (*running)();
    fibers[current].is_done = true;
    n_alive--;
    leave();
    abort();
}

/* A stack as twin_switch would have left it, whose return address is run_fiber. */
void *fresh_stack(size_t i)
{
    void **top = reinterpret_cast<void **>(stacks + (i + 1) * STACK_BYTE);

    *--top = nullptr; /* keeps the alignment that a call leaves */
    *--top = reinterpret_cast<void *>(run_fiber);
    for (int k = 0; k < 6; k++)
        *--top = nullptr;
    return top;
}

void need_stacks(size_t n)
{
    if (n <= n_stack)
        return;
    if (stacks)
        munmap(stacks, n_stack * STACK_BYTE);
    stacks = static_cast<unsigned char *>(
        mmap(nullptr, n * STACK_BYTE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (stacks == MAP_FAILED)
        abort();
    n_stack = n;
}

void run_block(size_t n_thread)
{
    fibers.assign(n_thread, fiber());
    warps.assign((n_thread + WARP - 1) / WARP, warp());
    n_waiting = 0;
    n_alive = static_cast<int>(n_thread);
    for (size_t i = 0; i < n_thread; i++) {
        fibers[i].thread = dim3(static_cast<unsigned>(i));
        fibers[i].stack_at = fresh_stack(i);
    }
    while (n_alive > 0)
        for (current = 0; current < n_thread; current++)
            if (!fibers[current].is_done) {
                twin_thread = fibers[current].thread;
                twin_switch(&scheduler, fibers[current].stack_at);
            }
}
} // namespace

void twin_launch(dim3 grid, dim3 block, size_t shared_byte, const std::function<void()> &kernel)
{
    const std::lock_guard<std::mutex> turn(device);
    std::vector<double> shared(shared_byte / sizeof(double) + 17);
    const uintptr_t at = reinterpret_cast<uintptr_t>(shared.data());

    if (block.y != 1 || block.z != 1 || block.x > 1024 || grid.y > 65535 || grid.z > 65535 ||
        !grid.x || !grid.y || shared_byte > (227u << 10)) {
        fprintf(stderr, "twin: no device takes this launch\n");
        abort();
    }
    twin_dynamic = reinterpret_cast<unsigned char *>((at + 127) / 128 * 128);
    twin_grid = grid;
    twin_block_dim = block;
    running = &kernel;
    need_stacks(block.x);
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                twin_block = dim3(x, y, z);
                run_block(block.x);
            }
}

/* Threads that have ended do not count, as on a device. */
void twin_barrier()
{
    const unsigned turn = barrier_turn;

    n_waiting++;
    while (barrier_turn == turn) {
        if (n_waiting >= n_alive) {
            n_waiting = 0;
            barrier_turn++;
            return;
        }
        leave();
    }
}

const unsigned char (*twin_exchange(const void *mine, size_t n_byte))[64]
{
    fiber &self = fibers[current];
    warp &w = warps[current / WARP];
    const size_t lane = current % WARP;
    const unsigned generation = self.turn & 1, all = (self.turn / 2 + 1) * WARP;

    self.turn++;
    if (n_byte > sizeof(w.slot[0][0]))
        abort();
    memcpy(w.slot[generation][lane], mine, n_byte);
    w.n_arrived[generation]++;
    while (w.n_arrived[generation] < all)
        leave();
    return w.slot[generation];
}
