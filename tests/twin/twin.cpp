// SPDX-License-Identifier: MIT
// The twin's machinery: blocks of fibers, in random order.
#include <link.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"
#include "twin.hpp"

dim3 twin_thread, twin_block, twin_grid, twin_block_dim;
unsigned char *twin_dynamic;

namespace
{
enum { WARP = 32, STACK_BYTE = 64 << 10, LINE_BYTE = 64 };

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

/* An asynchronous copy that was asked for; of the group'th group of its thread. */
struct copy {
    void *to;
    unsigned char data[16];
    unsigned group;
};

struct fiber {
    std::vector<copy> copies;
    unsigned n_group;
    void *stack_at;
    unsigned turn; /* exchanges so far */
};

/* Two generations of what the lanes of a warp gave: a lane that is at its next exchange has read
 * the last one, and no lane can be two ahead. */
struct warp {
    unsigned char slot[2][WARP][64];
    unsigned n_arrived[2]; /* ever */
    uint32_t ready, waiting; /* lanes that can go on; that are at the barrier */
};

std::vector<fiber> fibers;
std::vector<warp> warps;
unsigned char *stacks;
size_t n_stack;
size_t current, n_fiber;
void *launcher;
int n_waiting, n_alive; /* at the barrier */
const std::function<void()> *running;

void *fresh_stack(size_t i);

uint32_t lane_bit(size_t i)
{
    return uint32_t{ 1 } << i % WARP;
}

/* The next lane of the warp that can go on, n_fiber if there is none. A switch asks for it: bits, or
 * a barrier would look at every lane each time. */
size_t next_lane(size_t first, size_t lane)
{
    const uint32_t ready = warps[first / WARP].ready, from = lane % WARP;
    const uint32_t turned = ready >> from | ready << (WARP - from) % WARP;

    return ready ? first + (from + static_cast<unsigned>(__builtin_ctz(turned))) % WARP : n_fiber;
}

/* Mostly the same warp goes on, so that one may be far ahead of another. */
size_t next_fiber()
{
    const size_t own = current / WARP * WARP, n_warp = (n_fiber + WARP - 1) / WARP;
    const size_t lane = next_lane(own, current % WARP + 1);

    if (lane < n_fiber && twin_draw(64))
        return lane;
    for (size_t i = 0, begin = twin_draw(n_warp);; i++) {
        const size_t other = next_lane((begin + i) % n_warp * WARP, twin_draw(WARP));

        if (other < n_fiber)
            return other;
    }
}

/* Another one goes on; when all have ended, whoever launched them. */
void leave()
{
    void **const from = &fibers[current].stack_at;
    const size_t self = current;

    if (!n_alive)
        twin_switch(from, launcher);
    current = next_fiber();
    if (current == self)
        return;
    if (!fibers[current].stack_at)
        fibers[current].stack_at = fresh_stack(current);
    twin_thread.x = static_cast<unsigned>(current);
    twin_switch(from, fibers[current].stack_at);
}

/* All that have not ended are there. */
void open_barrier()
{
    n_waiting = 0;
    for (warp &w : warps) {
        w.ready |= w.waiting;
        w.waiting = 0;
    }
}

/* A fiber that ended without a wait leaves its stack to the next one of its warp. */
void run_fiber()
{
    for (;;) {
        (*running)();
        warps[current / WARP].ready &= ~lane_bit(current);
        if (--n_alive && n_waiting == n_alive)
            open_barrier();
        const size_t lane = next_lane(current / WARP * WARP, current % WARP + 1);

        if (lane >= n_fiber || fibers[lane].stack_at)
            break;
        current = lane;
        twin_thread.x = static_cast<unsigned>(current);
    }
    leave();
    abort();
}

/* A stack as twin_switch would have left it, whose return address is run_fiber. Its top is some
 * lines off its neighbour's, or all would fight for the same lines of the cache. */
void *fresh_stack(size_t i)
{
    void **top =
        reinterpret_cast<void **>(stacks + (i + 1) * STACK_BYTE - i % WARP * 3 * LINE_BYTE);

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

/* The thread-local memory of this module, in which __shared__ variables lie. */
int find_own(struct dl_phdr_info *info, size_t, void *user)
{
    std::pair<unsigned char *, size_t> *const found =
        static_cast<std::pair<unsigned char *, size_t> *>(user);
    const uintptr_t here = reinterpret_cast<uintptr_t>(&find_own);

    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            here >= info->dlpi_addr + info->dlpi_phdr[i].p_vaddr &&
            here - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            for (int k = 0; k < info->dlpi_phnum; k++)
                if (info->dlpi_phdr[k].p_type == PT_TLS)
                    *found = { static_cast<unsigned char *>(info->dlpi_tls_data),
                               info->dlpi_phdr[k].p_memsz };
    return 0;
}

thread_local std::pair<unsigned char *, size_t> own_threads;

/* In NaN of every type, whatever the last block left. */
void poison(size_t dynamic_byte)
{
    std::pair<unsigned char *, size_t> own = own_threads;

    if (!own.first)
        dl_iterate_phdr(find_own, &own);
    memset(twin_dynamic, 0xff, dynamic_byte);
    if (!own.first)
        return;
    twin_keep_thread(true);
    memset(own.first, 0xff, own.second);
    own_threads = own;
    twin_keep_thread(false);
}

void run_block(size_t n_thread)
{
    fibers.assign(n_thread, fiber());
    warps.resize((n_thread + WARP - 1) / WARP);
    for (warp &w : warps) {
        w.n_arrived[0] = w.n_arrived[1] = 0;
        w.ready = UINT32_MAX;
        w.waiting = 0;
    }
    if (n_thread % WARP)
        warps.back().ready = lane_bit(n_thread) - 1;
    n_waiting = 0;
    n_fiber = n_thread;
    n_alive = static_cast<int>(n_thread);
    current = twin_draw(n_thread);
    twin_thread = dim3(static_cast<unsigned>(current));
    twin_switch(&launcher, fibers[current].stack_at = fresh_stack(current));
}

void run_grid(dim3 grid, dim3 block, size_t shared_byte, const std::function<void()> &kernel)
{
    std::vector<double> shared(shared_byte / sizeof(double) + 17);
    const uintptr_t at = reinterpret_cast<uintptr_t>(shared.data());
    std::vector<unsigned> order(size_t{ grid.x } * grid.y * grid.z);

    twin_dynamic = reinterpret_cast<unsigned char *>((at + 127) / 128 * 128);
    twin_grid = grid;
    twin_block_dim = block;
    running = &kernel;
    need_stacks(block.x);
    for (size_t i = 0; i < order.size(); i++) {
        const size_t j = twin_draw(i + 1);

        order[i] = order[j];
        order[j] = static_cast<unsigned>(i);
    }
    for (unsigned i : order) {
        twin_block = dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y);
        poison(shared_byte);
        run_block(block.x);
    }
}
} // namespace

void twin_launch(dim3 grid, dim3 block, size_t shared_byte, cudaStream_t stream,
                 std::function<void()> kernel)
{
    if (block.y != 1 || block.z != 1 || block.x > 1024 || grid.y > 65535 || grid.z > 65535 ||
        !grid.x || !grid.y || shared_byte > (227u << 10)) {
        fprintf(stderr, "twin: no device takes this launch\n");
        abort();
    }
    twin_queue_work(stream, [=]() { run_grid(grid, block, shared_byte, kernel); });
}

void twin_copy_async(void *to, const void *from)
{
    fiber &self = fibers[current];
    copy c = { to, {}, self.n_group };

    if (from)
        memcpy(c.data, from, sizeof(c.data));
    memset(to, 0xff, sizeof(c.data));
    self.copies.push_back(c);
}

void twin_copies_commit()
{
    fibers[current].n_group++;
}

void twin_copies_wait(unsigned n_left)
{
    fiber &self = fibers[current];
    std::vector<copy> rest;

    for (const copy &c : self.copies)
        if (c.group + n_left < self.n_group)
            memcpy(c.to, c.data, sizeof(c.data));
        else
            rest.push_back(c);
    self.copies = rest;
}

static std::map<const void *, size_t> allowed;
static std::mutex device; /* guards it */

void twin_allow_shared(const void *kernel, size_t n_byte)
{
    const std::lock_guard<std::mutex> turn(device);

    allowed[kernel] = n_byte;
}

void twin_check_shared(const void *kernel, size_t n_byte)
{
    const std::lock_guard<std::mutex> turn(device);
    const auto found = allowed.find(kernel);

    if (n_byte <= 48U << 10 || (found != allowed.end() && n_byte <= found->second))
        return;
    fprintf(stderr, "twin: %zu bytes of shared memory were not asked for\n", n_byte);
    abort();
}

/* Threads that have ended do not count, as on a device. */
void twin_barrier()
{
    if (++n_waiting == n_alive) {
        open_barrier();
        return;
    }
    warps[current / WARP].ready &= ~lane_bit(current);
    warps[current / WARP].waiting |= lane_bit(current);
    leave();
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
