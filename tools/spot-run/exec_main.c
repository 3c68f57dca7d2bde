/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* SA_RESTART, unsetenv */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "checkpoint/state_command.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "cluster/group.h"
#include "cluster/private_dir.h"
#include "cluster/restart.h"
#include "common/random.h"
#include "common/xalloc.h"
#include "exec_parts.h"
#include "host/exec_agent.h"
#include "host/exec_job.h"
#include "host/exec_protocol.h"
#include "host/rank_files.h"
#include "host/rank_output.h"
#include "run.h"

/* The options: those of the library, and some as text. The table fills them. */
static struct {
    struct exec_node node;
    struct spot_exec_options job;
    const char *nodes;
    bool is_standalone;
    struct exec_torchrun torchrun;
} o = { .node = { .n_rank = 1, .agent.agent.join_timeout_s = 30 },
        .job = { .group = { .name = "spot-run",
                            .lease_s = 2,
                            .stall_s = 30,
                            .settle_s = 0.2,
                            .warn = spot_tool_warn },
                 .max_restarts = 3,
                 .state_every_s = 60,
                 .save_s = -1 },
        .torchrun = { .master_port = UINT64_MAX, .node_rank = UINT64_MAX } };
#define AGENT o.node.agent.agent
#define GROUP o.job.group

static bool is_agent;
static char job_name[300];

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "the job" },
    SPOT_ROW_WORKERS(&GROUP.n_local),
    SPOT_ROW_LISTEN(&GROUP.listen),
    SPOT_TEXT("store", &GROUP.store, "url",
              "etcd://HOST:PORT,.../PREFIX: one of several coordinators leads"),
    SPOT_TEXT("nnodes", &o.nodes, "min:max", "number of nodes, or a fixed n (default: 1:512)"),
    SPOT_TEXT("nodes", &o.nodes, "min:max", "as --nnodes"),
    SPOT_TEXT("rdzv-endpoint", &o.torchrun.endpoint, "host:port",
              "where nodes meet: the first to bind it leads"),
    SPOT_U64("max-restarts", &o.job.max_restarts, "n",
             "limit on rounds that fail because of a rank (default: 3)", 0, 1 << 20),
    SPOT_ROW_EVENTS(&GROUP.events),
    SPOT_ROW_STATE(&o.job.state),
    SPOT_SECS("state-every", &o.job.state_every_s, "time",
              "time between two such copies (default: 1m)", 0, 86400),
    SPOT_ROW_STATE_COMMAND(&o.job.state_command),
    SPOT_ROW_RESUME(&GROUP.resume),
    { SPOT_OPT_GROUP, .help = "node" },
    SPOT_ROW_JOIN(&AGENT.join),
    SPOT_ROW_NAME(&AGENT.name),
    SPOT_ROW_DOMAIN(&AGENT.domain),
    SPOT_ROW_NOTICE(&o.node.leave.watched.from),
    { SPOT_OPT_GROUP, .help = "ranks" },
    SPOT_TEXT("nproc-per-node", &o.torchrun.nproc, "n",
              "ranks per node, or cpu, gpu, auto (default: 1)"),
    SPOT_TEXT("checkpoint", &o.node.checkpoint, "pattern",
              "what COMMAND saves by itself: 'ckpt*.pt', 'out/checkpoint-*' or DIR/"),
    { SPOT_OPT_FLAG, 'm', "module", &o.torchrun.is_module, NULL, "COMMAND is a module of Python", 0,
      0 },
    SPOT_SECS("save-time", &o.job.save_s, "time",
              "time that ranks have to save (default: .8 of a known notice, else 10s)", 0, 86400),
    SPOT_FLAG("cold", &o.node.ranks.is_cold, "do not start a warm twin of each rank"),
    SPOT_TEXT("log-dir", &o.node.ranks.log_dir, "dir",
              "keep output of the ranks as DIR/RESTART/RANK.out"),
    SPOT_TEXT("state-dir", &o.node.state_dir, "dir",
              "put SPOT_STATE_DIR of each node below DIR (default: in memory)"),
    { SPOT_OPT_GROUP, .help = "more" },
    SPOT_ROW_KEY_FILE(&AGENT.key_file),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.node.is_quiet, NULL, "no warnings", 0, 0 },
    { SPOT_OPT_MORE, .help = "spellings of torchrun" },
    SPOT_FLAG("standalone", &o.is_standalone, "one node, on this host"),
    SPOT_TEXT("rdzv-id", &o.torchrun.id, "id",
              "name of the job: nodes with another one are refused"),
    SPOT_U64("node-rank", &o.torchrun.node_rank, "n",
             "0 leads and the others join, at --master-addr", 0, 1 << 20),
    SPOT_TEXT("master-addr", &o.torchrun.master_addr, "host", "as --rdzv-endpoint"),
    SPOT_U64("master-port", &o.torchrun.master_port, "port", "its port (default: 29500)", 0, 65535),
    SPOT_FLAG("no-python", &o.torchrun.no_python,
              "run COMMAND itself, also if its name ends with .py"),
    { SPOT_OPT_MORE, .help = "times and notices" },
    SPOT_ROW_LEASE(&GROUP.lease_s),
    SPOT_ROW_STALL(&GROUP.stall_s),
    SPOT_SECS("rank-stall", &o.node.ranks.hang_s, "time",
              "kill a rank that stands still so long, and tell where (default: never)", 1, 1e6),
    SPOT_REAL("slow-rank", &o.job.slow_factor, "factor",
              "no place for a node with a rank so many times slower than the median", 1.05, 1e6),
    SPOT_ROW_GRACE(&GROUP.grace_s),
    SPOT_ROW_REACH(&AGENT.join_timeout_s),
    SPOT_ROW_REBALANCE(&o.node.leave.on_rebalance),
    { .type = SPOT_OPT_END },
};

static const struct spot_opt_need need[] = {
    { "workers|listen|max-restarts|save-time|events|lease|stall|slow-rank|grace|resume|state|"
      "rdzv-endpoint|master-addr|standalone|nnodes|nodes",
      "!join" },
    { "resume", "events|state|state-dir" },
    { "state-every|state-command", "state" },
    { "store", "listen" },
    { "rdzv-endpoint|master-addr", "!listen" },
    { "rdzv-endpoint|master-addr", "!workers" },
    { "rdzv-endpoint", "!master-addr" },
    { "master-port", "master-addr" },
    { "node-rank", "master-addr|rdzv-endpoint" },
    { "standalone", "!rdzv-endpoint" },
    { "nodes", "!nnodes" },
    { "no-python", "!module" },
    { "name|domain|notice|join-timeout", "join|rdzv-endpoint|master-addr" },
    { "notice-rebalance", "notice" },
    { NULL, NULL },
};

/* --- signals ------------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
    if (is_agent)
        spot_agent_notice();
    else if (spot_group_has_begun())
        spot_group_stop();
    else
        _exit(spot_err_exit_status(&(struct spot_err){ .code = SPOT_EPREEMPTED }));
}

static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = is_agent ? SA_RESTART : 0 };

    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGINT);
    sigprocmask(SIG_UNBLOCK, &action.sa_mask, NULL); /* a parent may have blocked them */
}

static void prepare_exec(void)
{
    catch_signals(); /* signals may arrive at once */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGIO, SIG_IGN); /* sent for leases (rank_files.h) */
}

/* --- the coordinator ----------------------------------------------------------------- */

/* Nodes that save elsewhere, or belong to another job at the same endpoint, must not join. */
static uint64_t job_hash(void)
{
    char what[4400];

    if (!o.node.checkpoint && !o.torchrun.id)
        return spot_exec_hash(o.node.ranks.command, (uint32_t)o.node.n_rank, NULL);
    snprintf(what, sizeof(what), "%.4000s\n%.256s", o.node.checkpoint ? o.node.checkpoint : "",
             o.torchrun.id ? o.torchrun.id : "");
    return spot_exec_hash(o.node.ranks.command, (uint32_t)o.node.n_rank, what);
}

static char *own(const char *text)
{
    return spot_xstrdup(text);
}

static void add_text(char **argv, size_t *n, const char *name, const char *text)
{
    if (!text)
        return;
    argv[(*n)++] = own(name);
    argv[(*n)++] = own(text);
}

static void add_number(char **argv, size_t *n, const char *name, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.17g", value);
    add_text(argv, n, name, text);
}

/* Executes the program that is running, even if another was installed in its place meanwhile. */
static void become_node(void *user, uint64_t index, const char *address)
{
    enum { OPTIONS_MAX = 48 };
    size_t n = 0, n_word = 0;
    char name[32];
    char **argv;

    (void)user;
    /* the next leader starts a coordinator in the same directory */
    if (o.torchrun.endpoint || !GROUP.listen) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == 1)
            _exit(1);
    }
    while (o.node.ranks.command[n_word])
        n_word++;
    argv = spot_xcalloc(OPTIONS_MAX + n_word + 1, sizeof(char *));
    snprintf(name, sizeof(name), "local-%llu", (unsigned long long)index);
    argv[n++] = own("spot-run");
    argv[n++] = own("exec");
    add_text(argv, &n, "--join", address);
    add_text(argv, &n, "--name", name);
    add_text(argv, &n, "--join-timeout", "5s");
    add_number(argv, &n, "--nproc-per-node", (double)o.node.n_rank);
    add_text(argv, &n, "--log-dir", o.node.ranks.log_dir);
    add_text(argv, &n, "--state-dir", o.node.state_dir);
    add_text(argv, &n, "--key-file", AGENT.key_file);
    add_text(argv, &n, "--checkpoint", o.node.checkpoint);
    add_text(argv, &n, "--rdzv-id", o.torchrun.id);
    add_text(argv, &n, "--domain", AGENT.domain);
    add_text(argv, &n, "--notice", o.node.leave.watched.from);
    if (o.node.ranks.hang_s > 0)
        add_number(argv, &n, "--rank-stall", o.node.ranks.hang_s);
    if (o.node.is_quiet)
        argv[n++] = own("--quiet");
    if (o.node.ranks.is_cold)
        argv[n++] = own("--cold");
    argv[n++] = own("--no-python"); /* it is the first word already */
    argv[n++] = own("--");
    setenv(EXEC_LOCAL_ENV, job_name, 1);
    memcpy(argv + n, o.node.ranks.command, n_word * sizeof(char *));
    execv("/proc/self/exe", argv);
}

static bool has_listened;

static void tell_listening(void *user, const char *address)
{
    (void)user;
    has_listened = true;
    spot_tool_note("nodes join at %s", address);
}

static void tell_standing_by(void *user, const char *store)
{
    (void)user;
    spot_tool_note("standing by: another coordinator leads the job at %s", store);
}

/* Parses "2:8", or "4" for exactly 4. */
static int parse_nodes(struct spot_exec_options *e, struct spot_err *err)
{
    unsigned long long least = 1, most = SPOT_MEMBERS_MAX;
    char *end;

    if (o.nodes) {
        errno = 0;
        least = most = strtoull(o.nodes, &end, 10);
        if (end != o.nodes && *end == ':' && end[1] >= '0' && end[1] <= '9')
            most = strtoull(end + 1, &end, 10);
        if (end == o.nodes || *end || errno || *o.nodes < '0' || *o.nodes > '9' || !least ||
            least > most || most > SPOT_MEMBERS_MAX)
            return spot_err_set(err, SPOT_EUSAGE,
                                "--nnodes must be MIN:MAX or N, 1 to %d of them, got '%s'",
                                SPOT_MEMBERS_MAX, o.nodes);
    }
    if (!GROUP.listen && !GROUP.n_local && least > 1)
        return spot_err_set(err, SPOT_EUSAGE, "%llu nodes need the same --rdzv-endpoint HOST:PORT",
                            least);
    if (!GROUP.listen && GROUP.n_local && least > GROUP.n_local)
        return spot_err_set(err, SPOT_EUSAGE, "--nnodes %s, but there are %llu --workers", o.nodes,
                            (unsigned long long)GROUP.n_local);
    e->n_min = (uint32_t)least;
    e->n_max = (uint32_t)most;
    return 0;
}

/* With local nodes, whose checkpoints are then this job's alone: a second job is refused before it
 * starts anything. */
static int run_job(struct spot_err *err)
{
    struct spot_rank_files *files = NULL;
    int rc = 0;

    exec_name_job(GROUP.store ? GROUP.store : GROUP.listen, job_name, sizeof(job_name));
    if (GROUP.n_local && o.node.checkpoint) {
        files = spot_rank_files_new(o.node.checkpoint, NULL, err);
        rc = files ? spot_rank_files_hold(files, job_name, err) : -1;
    }
    rc = rc ? -1 : spot_exec_run(&o.job, err);
    spot_rank_files_free(files);
    return rc;
}

static int coordinate(struct spot_err *err)
{
    struct spot_exec_options *const e = &o.job;

    if (parse_nodes(e, err))
        return -1;
    e->group.key_file = AGENT.key_file;
    e->group.store_lease_s = derived("SPOT_TEST_STORE_LEASE_S", 3);
    e->group.n_local = e->group.n_local || e->group.listen ? e->group.n_local : 1;
    e->group.become_worker = become_node;
    e->group.listening = tell_listening;
    e->group.standing_by = tell_standing_by;
    e->hash = job_hash();
    e->n_rank = (uint32_t)o.node.n_rank;
    e->places_all = o.node.checkpoint;
    e->hands_out = o.node.checkpoint;
    e->note = spot_tool_note;
    e->state_timeout_s = derived("SPOT_TEST_STATE_TIMEOUT_S", SPOT_STATE_COMMAND_LIMIT_S);
    e->finish_s = derived("SPOT_TEST_FINISH_S", 60);
    e->mirror_byte_per_s = derived("SPOT_TEST_MIRROR_RATE", 0);
    if (o.node.ranks.log_dir && !e->group.n_local)
        spot_tool_warn("--log-dir is for nodes that are started here, and none is: give it to the "
                       "joining nodes");
    else if (o.node.ranks.log_dir && spot_rank_output_make_dir(o.node.ranks.log_dir, err))
        return -1;
    spot_tool_never_wait();
    return run_job(err);
}

/* Nodes of one job need different names: in containers process ids are equal, and with the network
 * of the host its name is equal too. */
static void name_node(void)
{
    static char name[SPOT_NAME_MAX];
    char host[40] = "";
    uint32_t drawn = (uint32_t)getpid();

    if (AGENT.name)
        return;
    (void)spot_random_bytes(&drawn, sizeof(drawn), NULL);
    (void)gethostname(host, sizeof(host) - 1);
    host[strcspn(host, ".")] = '\0';
    snprintf(name, sizeof(name), "%.40s-%06lx", host, (unsigned long)drawn & 0xFFFFFF);
    AGENT.name = name;
}

/* The same command runs on every node: this one leads and also runs a node, or it joins. */
static int meet(struct spot_err *err)
{
    char *endpoint;
    const int part = exec_torchrun_meet(&o.torchrun, &endpoint, err);

    if (part == EXEC_LEADS) {
        o.torchrun.endpoint = GROUP.listen = endpoint;
        GROUP.n_local = 1;
    } else if (part == EXEC_JOINS) {
        AGENT.join = endpoint;
    }
    return part < 0 ? -1 : 0;
}

static int run_exec(char **operand, size_t n, struct spot_err *err)
{
    int rc;

    spot_tool_set_verbosity(&(struct spot_tool_common){ .quiet = o.node.is_quiet });
    if (!n)
        return spot_err_set(err, SPOT_EUSAGE,
                            "COMMAND is missing: give the command of the ranks after --");
    if (exec_torchrun_ranks(&o.torchrun, &o.node.n_rank, err))
        return -1;
    o.node.ranks.command = exec_torchrun_command(&o.torchrun, operand, n);
    o.node.private_dir = getenv(SPOT_PRIVATE_DIR_ENV);
    spot_tool_warn_shared(o.job.state);
    spot_tool_warn_shared(o.node.state_dir);
    if (!AGENT.join && meet(err))
        return -1;
    if ((AGENT.join || GROUP.n_local || !GROUP.listen) &&
        exec_torchrun_check(&o.torchrun, operand[0], err))
        return -1;
    if (!AGENT.join) {
        rc = coordinate(err);
        if (!rc || !o.torchrun.endpoint || has_listened || exec_torchrun_is_free(GROUP.listen))
            return rc;
        AGENT.join = GROUP.listen; /* another node was faster */
    }
    is_agent = true;
    o.node.is_local = getenv(EXEC_LOCAL_ENV) != NULL;
    if (o.node.is_local) {
        snprintf(job_name, sizeof(job_name), "%s", getenv(EXEC_LOCAL_ENV));
    } else {
        name_node();
        exec_name_job(AGENT.join, job_name, sizeof(job_name));
    }
    o.node.agent.job = job_name;
    o.node.agent.hash = job_hash();
    catch_signals();
    spot_last_words_take();
    if (!exec_node_run(&o.node, err))
        return 0;
    spot_last_words_report(err);
    return -1;
}

const struct spot_cli run_exec_command = {
    .name = "spot-run exec",
    .brief = "run any trainer on nodes that come and go",
    .need = need,
    .passed_over =
        (const char *const[]){ "rdzv-backend", "rdzv-conf", "monitor-interval", "start-method",
                               "local-addr", "redirects", "tee", "r", "t", NULL },
    .reads = (const char *const[]){ "key-file", NULL },
    .writes = (const char *const[]){ "events", NULL },
    .synopsis = "[options] SCRIPT.py|-m MODULE|-- COMMAND",
    .summary = "Run any trainer on nodes that come and go, with the environment of torchrun:\n"
               "  one host    spot-run exec --nproc-per-node 2 --checkpoint 'ckpt*.pt' train.py\n"
               "  many hosts  spot-run exec --nnodes 1:4 --rdzv-endpoint HOST:29500 --key-file key "
               "--checkpoint 'ckpt*.pt' train.py  # the same on each\n"
               "  Slurm       srun spot-run exec --nnodes 1:$SLURM_NNODES --rdzv-endpoint "
               "$FIRST:29500 --key-file key --checkpoint 'ckpt*.pt' train.py\n\n"
               "train.py saves now and then, and begins from what it finds: nothing else is asked.",
    .option = option,
    .runs_command = true,
    .n_operand_max = SPOT_OPERANDS_ANY,
    .prepare = prepare_exec,
    .run = run_exec,
};
