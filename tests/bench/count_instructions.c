/* SPDX-License-Identifier: MIT */
/* count_instructions - a plug-in of qemu-user 7.2: prints the number of instructions that one
 * thread of an aarch64 program has executed, at each clock_gettime and at the end. qemu 7.2 gives
 * programs no vDSO, so that reading the clock is a system call. Debian has no qemu-plugin.h: what
 * is used of it is declared here.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { PLUGIN_VERSION = 1, INLINE_ADD_U64 = 0, CLOCK_GETTIME = 113 };

struct tb;
typedef uint64_t plugin_id;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*f)(plugin_id id, struct tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline(struct tb *tb, int op, void *at, uint64_t add);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id id,
                                          void (*f)(plugin_id id, unsigned vcpu, int64_t number,
                                                    uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                                    uint64_t e, uint64_t f, uint64_t g,
                                                    uint64_t h));
void qemu_plugin_register_atexit_cb(plugin_id id, void (*f)(plugin_id id, void *user), void *user);
size_t qemu_plugin_tb_n_insns(const struct tb *tb);
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

__attribute__((visibility("default"))) extern int qemu_plugin_version;
int qemu_plugin_version = PLUGIN_VERSION;

static uint64_t n_executed;

static void count(plugin_id id, struct tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &n_executed,
                                             qemu_plugin_tb_n_insns(tb));
}

static void print(void)
{
    fprintf(stderr, "count %" PRIu64 "\n", n_executed);
}

static void at_call(plugin_id id, unsigned vcpu, int64_t number, uint64_t a, uint64_t b, uint64_t c,
                    uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    (void)id, (void)vcpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number == CLOCK_GETTIME)
        print();
}

static void at_end(plugin_id id, void *user)
{
    (void)id, (void)user;
    print();
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info,
                                                               int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count);
    qemu_plugin_register_vcpu_syscall_cb(id, at_call);
    qemu_plugin_register_atexit_cb(id, at_end, NULL);
    return 0;
}
