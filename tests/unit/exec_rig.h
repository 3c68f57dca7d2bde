/* SPDX-License-Identifier: MIT */
/* exec_rig.h - a hosted job on processes that a test forks: coordinators, nodes, and ranks, which
 * are functions of the test in this program again. What they say of themselves lies in `dir`. */
#ifndef SPOT_TESTS_EXEC_RIG_H
#define SPOT_TESTS_EXEC_RIG_H

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/client.h"
#include "common/clock.h"
#include "host/exec_agent.h"
#include "host/exec_job.h"
#include "host/exec_protocol.h"
#include "host/rank_ask.h"
#include "host/rank_socket.h"
#include "host/state_dir.h"
#include "suite.h"

enum { PROCESSES_MAX = 24, PATIENCE = 6000 /* looks, 10 ms apart */ };

#define TEXT(literal) ((char *)(uintptr_t)(literal)) /* nobody writes to it */

static char dir[64];

/* --- files ------------------------------------------------------------------------------------ */

static inline const char *in_dir(const char *format, ...) SPOT_PRINTF(1, 2);
static inline const char *in_dir(const char *format, ...)
{
    static char path[16][192];
    static int at;
    char *const here = path[at++ % 16];
    const int n = snprintf(here, sizeof(path[0]), "%s/", dir);
    va_list args;

    va_start(args, format);
    vsnprintf(here + n, sizeof(path[0]) - (size_t)n, format, args);
    va_end(args);
    return here;
}

static inline bool is_file(const char *path)
{
    return !access(path, F_OK);
}

/* Good until the next call; "" where there is none. */
static inline const char *text_of(const char *path)
{
    static char text[1 << 18];
    FILE *const in = fopen(path, "re");
    const size_t n = in ? fread(text, 1, sizeof(text) - 1, in) : 0;

    text[n] = '\0';
    if (in)
        fclose(in);
    return text;
}

/* Whole, or not at all. */
static inline void put(const char *path, const char *text)
{
    char beside[256];
    FILE *out;

    snprintf(beside, sizeof(beside), "%s.%ld", path, (long)getpid());
    out = fopen(beside, "we");
    if (!out || fputs(text, out) < 0 || fclose(out) || rename(beside, path))
        abort();
}

static inline size_t count_in(const char *path, const char *text)
{
    size_t n = 0;

    for (const char *at = text_of(path); (at = strstr(at, text)); at++)
        n++;
    return n;
}

#define until(condition)                                                        \
    for (int look_ = 0; !(condition); look_++) {                                \
        ck_assert_msg(look_ < PATIENCE, "waited in vain until %s", #condition); \
        spot_clock_sleep(0.01);                                                 \
    }

/* --- what the log of the job says ---------------------------------------------------------------
 */

static inline size_t events(const char *event)
{
    char text[64];

    snprintf(text, sizeof(text), "\"event\":\"%s\"", event);
    return count_in(in_dir("log"), text);
}

/* The line of the last event of that name; "" if there is none. Good until the next call. */
static inline const char *last_event(const char *event)
{
    static char line[4096];
    char text[64];
    const char *found = NULL, *from;

    snprintf(text, sizeof(text), "\"event\":\"%s\"", event);
    for (const char *at = text_of(in_dir("log")); (at = strstr(at, text)); at++)
        found = at;
    snprintf(line, sizeof(line), "%s", "");
    if (!found)
        return line;
    for (from = found; from[-1] != '{'; from--)
        ;
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(from, "\n"), from);
    return line;
}

#define ck_event(event, text) \
    ck_assert_msg(strstr(last_event(event), text), "no %s: %s", text, last_event(event))

#define ck_warned(text)                                                       \
    ck_assert_msg(count_in(in_dir("warned"), text), "not '%s' but: %s", text, \
                  text_of(in_dir("warned")))

/* --- processes ----------------------------------------------------------------------------------
 */

struct told {
    int rc;
    bool has_joined;
    struct spot_err err;
};

static struct told *told; /* [PROCESSES_MAX], of each process */
static pid_t process[PROCESSES_MAX];
static size_t n_process;

static inline void warn(const char *format, ...) SPOT_PRINTF(1, 2);
static inline void warn(const char *format, ...)
{
    FILE *const out = fopen(in_dir("warned"), "ae");
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (out) {
        fprintf(out, "%s\n", text);
        fclose(out);
    }
}

static inline void on_stop(int number)
{
    (void)number;
    spot_group_stop();
}

static inline void on_notice(int number)
{
    (void)number;
    spot_agent_notice();
}

static inline void on_term(void (*handler)(int), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* A number for the new process; in the child *is_child. */
static inline size_t divide(bool *is_child)
{
    ck_assert_uint_lt(n_process, PROCESSES_MAX);
    told[n_process] = (struct told){ .rc = -2 };
    process[n_process] = fork();
    ck_assert_int_ge(process[n_process], 0);
    *is_child = !process[n_process];
    return n_process++;
}

static inline size_t coordinate(const struct spot_exec_options *o)
{
    bool is_child;
    const size_t at = divide(&is_child);

    if (!is_child)
        return at;
    on_term(on_stop, 0);
    told[at].rc = spot_exec_run(o, &told[at].err);
    leave(0);
}

struct node {
    const char *name, *domain, *log_dir;
    const char *state_dir; /* NULL: a new one in memory, "": one of its own below dir */
    const char *join;      /* NULL: the job's */
    char *const *command;
    uint32_t n_rank; /* 0: one */
    double stop_s;   /* 0: 5 s */
    uint64_t limit_byte;
    double late_s;
    bool is_cold, is_private;
};

static inline int work(const struct node *n, const struct spot_state_dir *state,
                       struct spot_state_store *store, struct told *end)
{
    const struct spot_ranks_options r = { .command = n->command,
                                          .n = n->n_rank ? n->n_rank : 1,
                                          .stop_s = n->stop_s > 0 ? n->stop_s : 5,
                                          .log_dir = n->log_dir,
                                          .is_cold = n->is_cold,
                                          .out_fd = -1,
                                          .err_fd = -1,
                                          .warn = warn };
    const struct spot_exec_agent_options o = {
        .agent = { .join = n->join,
                   .name = n->name,
                   .domain = n->domain,
                   .is_private = n->is_private,
                   .join_timeout_s = 60,
                   .warn = warn },
        .ranks = spot_ranks_new(&r, &end->err),
        .n_rank = r.n,
        .hash = spot_exec_hash(n->command, r.n, NULL),
        .is_cold = n->is_cold,
        .state = state,
        .store = store,
        .socket = state->socket,
        .late_s = n->late_s,
        .warn = warn,
    };
    const int rc = o.ranks ? spot_exec_agent_run(&o, &end->has_joined, &end->err) : -1;

    spot_ranks_free(o.ranks);
    return rc;
}

/* The whole life of a node, as the tool has it. */
static inline void be_node(const struct node *n, struct told *end)
{
    const uint64_t limit_byte = n->limit_byte ? n->limit_byte : UINT64_MAX;
    struct spot_state_store *store = NULL;
    struct spot_state_dir state;
    const char *name = n->state_dir;

    on_term(on_notice, SA_RESTART);
    if (name && !*name)
        name = in_dir("node-%s", n->name);
    end->rc = spot_state_dir_open(&state, name, &end->err);
    if (!end->rc) {
        setenv(SPOT_STATE_DIR_ENV, state.live, 1);
        setenv(SPOT_SOCKET_ENV, state.socket, 1);
        store = spot_state_store_open(state.root_fd, state.root, limit_byte, false, &end->err);
        end->rc = store ? work(n, &state, store, end) : -1;
        spot_state_store_free(store);
    }
    spot_state_dir_release(&state);
}

static inline size_t join_as(const struct node *n)
{
    bool is_child;
    const size_t at = divide(&is_child);

    if (!is_child)
        return at;
    be_node(n, &told[at]);
    leave(0);
}

/* What it left, once it has ended by itself. */
static inline const struct told *end_of(size_t at)
{
    int status = 0;

    until(waitpid(process[at], &status, WNOHANG) == process[at]);
    process[at] = 0;
    ck_assert_msg(!status, "process %zu ended with %x", at, (unsigned)status);
    return &told[at];
}

static inline void ck_done(size_t at)
{
    const struct told *const end = end_of(at);

    ck_assert_msg(!end->rc, "process %zu: %s", at, end->err.msg);
}

static inline void ck_failed(size_t at, enum spot_code code, const char *text)
{
    const struct told *const end = end_of(at);

    ck_assert_int_eq(end->rc, -1);
    ck_assert_msg(end->err.code == code && strstr(end->err.msg, text), "%d: %s", (int)end->err.code,
                  end->err.msg);
}

static inline void notice(size_t at)
{
    ck_assert_int_eq(kill(process[at], SIGTERM), 0);
}

/* Like a machine that is taken away. */
static inline void lose(size_t at)
{
    ck_assert_int_eq(kill(process[at], SIGKILL), 0);
    ck_assert_int_eq(waitpid(process[at], NULL, 0), process[at]);
    process[at] = 0;
}

/* --- jobs ---------------------------------------------------------------------------------------
 */

static char address[96], log_path[96], self[256];

/* The command of ranks that are a function of the test (be_rank). */
static inline char *const *rank_command(const char *name)
{
    static char *command[8][4];
    static size_t at;
    char **const here = command[at++ % 8];

    here[0] = self;
    here[1] = TEXT("rank");
    here[2] = TEXT(name);
    return here;
}

static inline struct spot_exec_options job_of(char *const *command, uint32_t n_rank, uint32_t n_min,
                                              uint32_t n_max)
{
    return (struct spot_exec_options){
        .group = { .name = "spot-exec-test",
                   .listen = address,
                   .events = log_path,
                   .lease_s = 20,
                   .stall_s = 60,
                   .settle_s = 0.02,
                   .warn = warn },
        .hash = spot_exec_hash(command, n_rank, NULL),
        .n_rank = n_rank,
        .n_min = n_min,
        .n_max = n_max,
        .max_restarts = 3,
        .state_every_s = 60,
        .save_s = 20,
    };
}

static inline struct node node_of(const char *name, char *const *command)
{
    return (struct node){ .name = name, .command = command, .join = address, .state_dir = "" };
}

static inline size_t join_job(const char *name, char *const *command)
{
    const struct node n = node_of(name, command);

    return join_as(&n);
}

/* What the job says of itself has that text. */
static inline bool status_has(const char *text)
{
    struct spot_buf answer = { 0 };
    struct spot_err err = { 0 };
    bool has;

    ck_assert_int_eq(spot_client_ask(address, NULL, 10, SPOT_MSG_STATUS, NULL, 0, &answer, &err),
                     0);
    spot_put_u8(&answer, 0);
    has = strstr((const char *)answer.data, text) != NULL;
    spot_buf_release(&answer);
    return has;
}

/* --- ranks --------------------------------------------------------------------------------------
 */

struct rank_story {
    const char *name;
    int (*run)(void); /* its exit status */
};

/* Called first by main: does not return where this program is a rank. */
static inline void be_rank(int argc, char **argv, const struct rank_story *story)
{
    if (argc != 3 || strcmp(argv[1], "rank") != 0)
        return;
    signal(SIGPIPE, SIG_IGN);
    snprintf(dir, sizeof(dir), "%s", getenv("D"));
    for (; story->name; story++)
        if (!strcmp(story->name, argv[2]))
            leave(story->run());
    leave(99);
}

static inline int of_env(const char *name)
{
    const char *const text = getenv(name);

    return text ? (int)strtol(text, NULL, 10) : -1;
}

static inline int my_round(void)
{
    return of_env("TORCHELASTIC_RESTART_COUNT");
}

static inline int my_rank(void)
{
    return of_env("RANK");
}

/* A rank waits as long as its node lives. */
static inline void wait_for(const char *path)
{
    while (!is_file(path))
        spot_clock_sleep(0.01);
}

/* Ask the agent; the answer, good until the next call. */
static inline const char *ask_agent(const char *request)
{
    static char text[4096];
    struct spot_buf answer = { 0 };
    struct spot_err err = { 0 };

    if (spot_rank_ask(getenv(SPOT_SOCKET_ENV), request, strlen(request), 60, &answer, &err))
        snprintf(text, sizeof(text), "%s", err.msg);
    else
        snprintf(text, sizeof(text), "%.*s", (int)answer.n, (const char *)answer.data);
    spot_buf_release(&answer);
    return text;
}

/* Commit; `more`: further members of the request, "" or from a comma on. The answer as above. */
static inline const char *commit_step(int step, const char *more)
{
    char request[256];

    snprintf(request, sizeof(request), "{\"op\":\"commit\",\"rank\":%d,\"round\":%d,\"step\":%d%s}",
             my_rank(), my_round(), step, more);
    return ask_agent(request);
}

static inline const char *in_state(const char *name)
{
    static char path[4][256];
    static int at;
    char *const here = path[at++ % 4];

    snprintf(here, sizeof(path[0]), "%s/%s", getenv(SPOT_STATE_DIR_ENV), name);
    return here;
}

/* --- fixtures -----------------------------------------------------------------------------------
 */

static inline void set_up(void)
{
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    ck_assert_int_gt(n, 0);
    self[n] = '\0';
    strcpy(dir, "/tmp/spot-exec-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("D", dir, 1);
    snprintf(address, sizeof(address), "unix:%s/j", dir);
    snprintf(log_path, sizeof(log_path), "%s/log", dir);
    signal(SIGPIPE, SIG_IGN);
    n_process = 0;
    told = mmap(NULL, PROCESSES_MAX * sizeof(*told), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(told != MAP_FAILED);
}

static inline void tear_down(void)
{
    char command[128];

    for (size_t i = 0; i < n_process; i++)
        if (process[i] > 0) { /* the test failed */
            kill(process[i], SIGKILL);
            waitpid(process[i], NULL, 0);
        }
    munmap(told, PROCESSES_MAX * sizeof(*told));
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    until(!system(command)); /* what a guard has not ended yet may write */
}

#endif /* SPOT_TESTS_EXEC_RIG_H */
