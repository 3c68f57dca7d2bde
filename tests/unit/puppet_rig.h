/* SPDX-License-Identifier: MIT */
/* puppet_rig.h - ranks of a hosted job that do what the test tells them, one order after the other,
 * and say what came of it. */
#ifndef SPOT_TESTS_PUPPET_RIG_H
#define SPOT_TESTS_PUPPET_RIG_H

#include <poll.h>

#include "comm/endpoint.h"
#include "exec_rig.h"

enum { ROUNDS_MAX = 8, RANKS_MAX = 4, ORDER_MAX = 1024 };

/* --- a rank -------------------------------------------------------------------------------------
 */

/* So many bytes, of which no two nodes have the same. */
static inline void fill(const char *name, long n_byte)
{
    FILE *const out = fopen(in_state(name), "we");
    unsigned x = (unsigned)(name[0] + 1000 * of_env("GROUP_RANK"));

    if (!out)
        abort();
    while (n_byte-- > 0)
        fputc((int)((x = x * 1664525 + 1013904223) >> 24), out);
    fclose(out);
}

/* Ask for a commit, and do not wait for the answer. */
static inline int ask_for(int step)
{
    struct spot_endpoint at = { .kind = SPOT_ENDPOINT_UNIX };
    int fd;

    snprintf(at.path, sizeof(at.path), "%s", getenv(SPOT_SOCKET_ENV));
    fd = spot_endpoint_connect(&at, NULL);
    if (fd < 0 || dprintf(fd, "{\"op\":\"commit\",\"rank\":%d,\"step\":%d}\n", my_rank(), step) < 0)
        abort();
    return fd;
}

/* Ask for a commit twice at once, and hang up when one of them has its answer. That. */
static inline const char *commit_twice(int step)
{
    struct pollfd set[2] = { { ask_for(step), POLLIN, 0 }, { ask_for(step), POLLIN, 0 } };
    static char answer[256];
    ssize_t n = -1;

    if (poll(set, 2, -1) > 0)
        n = read(set[set[0].revents ? 0 : 1].fd, answer, sizeof(answer) - 1);
    answer[n > 0 ? n : 0] = '\0';
    for (int i = 0; i < 2; i++)
        close(set[i].fd);
    return answer;
}

static inline int number_at(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

static inline const char *obey_order(char *order)
{
    char *const rest = strchr(order, ' '), *more = rest ? strchr(rest + 1, ' ') : NULL;
    FILE *out;

    if (rest)
        *rest = '\0';
    if (!strcmp(order, "ask"))
        return ask_agent(rest + 1);
    if (!strcmp(order, "cat"))
        return text_of(in_state(rest + 1));
    if (!strcmp(order, "commit"))
        return commit_step(number_at(rest + 1), more ? more + 1 : "");
    if (!strcmp(order, "twice"))
        return commit_twice(number_at(rest + 1));
    if (more)
        *more++ = '\0';
    if (!strcmp(order, "fill")) {
        fill(rest + 1, number_at(more));
    } else if (!strcmp(order, "file")) {
        out = fopen(in_state(rest + 1), "we");
        if (!out || fputs(more, out) < 0 || fclose(out))
            abort();
    } else if (!strcmp(order, "drop")) {
        (void)unlink(in_state(rest + 1));
    } else {
        abort();
    }
    return "";
}

static inline int puppet(void)
{
    char text[ORDER_MAX];

    snprintf(text, sizeof(text), "group %d step %d of %d", of_env("GROUP_RANK"),
             of_env("SPOT_STATE_STEP"), of_env("SPOT_STATE_WORLD"));
    put(in_dir("begun.%d.%d", my_round(), my_rank()), text);
    for (int k = 0;; k++) {
        const char *const order = in_dir("do.%d.%d.%d", my_round(), my_rank(), k);

        wait_for(order);
        snprintf(text, sizeof(text), "%.*s", ORDER_MAX - 1, text_of(order));
        if (!strncmp(text, "exit ", 5))
            return number_at(text + 5);
        put(in_dir("said.%d.%d.%d", my_round(), my_rank(), k), obey_order(text));
    }
}

/* --- the test -----------------------------------------------------------------------------------
 */

static int n_order[ROUNDS_MAX][RANKS_MAX];

static inline void tell(int round, int rank, const char *format, ...) SPOT_PRINTF(3, 4);
static inline void tell(int round, int rank, const char *format, ...)
{
    char text[ORDER_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    put(in_dir("do.%d.%d.%d", round, rank, n_order[round][rank]++), text);
}

/* To the last order; good until the next call. */
static inline const char *said(int round, int rank)
{
    const char *const answer = in_dir("said.%d.%d.%d", round, rank, n_order[round][rank] - 1);

    until(is_file(answer));
    return text_of(answer);
}

#define ck_said(round, rank, want) ck_assert_str_eq(said(round, rank), want)
#define ck_refused(round, rank, why)                                                          \
    ck_assert_msg(strstr(said(round, rank), "{\"error\":") && strstr(said(round, rank), why), \
                  "%d.%d was told %s", round, rank, said(round, rank))
#define COMMITTED(step) "{\"ok\":true,\"step\":" #step "}"
#define DURABLE(step)   "{\"ok\":true,\"step\":" #step ",\"durable\":true}"
static const char durable[] = ",\"durable\":true";

static inline void tell_all(int round, int world, const char *order)
{
    for (int rank = 0; rank < world; rank++)
        tell(round, rank, "%s", order);
}

#define ck_all_said(round, world, want)           \
    for (int rank_ = 0; rank_ < (world); rank_++) \
    ck_said(round, rank_, want)

static inline void until_begun(int round, int world)
{
    for (int rank = 0; rank < world; rank++)
        until(is_file(in_dir("begun.%d.%d", round, rank)));
}

static inline const char *begun(int round, int rank)
{
    return text_of(in_dir("begun.%d.%d", round, rank));
}

/* Each writes into `own` of which place it is. */
static inline void write_own(int round, int world)
{
    for (int rank = 0; rank < world; rank++) {
        tell(round, rank, "file own place %d\n", rank);
        ck_said(round, rank, "");
    }
}

static inline void ck_own(int round, int rank, const char *file, int place)
{
    char want[32];

    tell(round, rank, "cat %s", file);
    snprintf(want, sizeof(want), "place %d\n", place);
    ck_said(round, rank, want);
}

/* Chunks of a node's commits are bytes of its disk. */
static inline void damage_commits_of(const char *node)
{
    char shell[256];

    snprintf(shell, sizeof(shell),
             "find %s/node-%s/0/chunk -type f -size +1000k -exec sh -c "
             "'chmod u+w \"$1\"; printf x | dd of=\"$1\" bs=1 seek=9 conv=notrunc 2>&-' - {} \\;",
             dir, node);
    ck_assert_int_eq(system(shell), 0);
}

static const struct rank_story puppets[] = { { "puppet", puppet }, { 0 } };

static inline void begin_puppets(void)
{
    set_up();
    memset(n_order, 0, sizeof(n_order));
}

#endif /* SPOT_TESTS_PUPPET_RIG_H */
