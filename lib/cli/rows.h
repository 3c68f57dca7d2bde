/* SPDX-License-Identifier: MIT */
/* rows.h - rows of options that several commands share, with the same name, meaning, text and
 * bounds. A command includes them in its own table; options of a single command are defined
 * there. */
#ifndef SPOT_CLI_ROWS_H
#define SPOT_CLI_ROWS_H

#include "cli/opt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define SPOT_ROW_JOIN(v) \
    SPOT_TEXT("join", v, "addr", "where the job listens, or its store")
#define SPOT_ROW_REACH(v) \
    SPOT_SECS("join-timeout", v, "time", "time limit for reaching the job (default: 30s for a member, else 0)", 0, 1e7)
#define SPOT_ROW_KEY_FILE(v) \
    SPOT_TEXT("key-file", v, "file", "32-byte key for TLS, mode 0600; required beyond this host")
#define SPOT_ROW_EVENTS(v) \
    SPOT_TEXT("events", v, "file", "log of events: spot.event/1")
#define SPOT_ROW_GRACE(v) \
    SPOT_SECS("grace", v, "time", "time from a notice to the end (default: 30s replayed, 2s live)", 0, 1e6)
#define SPOT_ROW_LEASE(v) \
    SPOT_SECS("lease", v, "time", "drop a member that is silent for longer (default: 2s)", 0.5, 3600)
#define SPOT_ROW_STALL(v) \
    SPOT_SECS("stall", v, "time", "drop a member that makes no progress for this long (default: 30s)", 1, 86400)
#define SPOT_ROW_THREADS(v) \
    SPOT_U64("threads", v, "n", "threads of a process (default: 1 of a worker, else all processors)", 1, 256)
#define SPOT_ROW_WORKERS(v) \
    SPOT_U64("workers", v, "n", "local members (default: 1; 0 with --listen)", 0, 512)
#define SPOT_ROW_LISTEN(v) \
    SPOT_TEXT("listen", v, "addr", "where members join: unix:PATH or HOST:PORT")
#define SPOT_ROW_STATE(v) \
    SPOT_TEXT("state", v, "dir", "durable state of the job")
#define SPOT_ROW_STATE_COMMAND(v) \
    SPOT_TEXT("state-command", v, "cmd", "command that stores generations: put, get, list, delete")
#define SPOT_ROW_STEP(v) \
    SPOT_U64("step", v, "n", "step to take (default: the newest valid one)", 0, 1e12)
#define SPOT_ROW_DATA(v) \
    { SPOT_OPT_LIST, 0, "data", v, "file", \
      "data, in order; - for stdin", 0, 0 }
#define SPOT_ROW_EXPLAIN(v) \
    SPOT_FLAG("explain", v, "say why on stderr")
#define SPOT_ROW_JOB(v) \
    SPOT_TEXT("job", v, "file", "what runs: spot.job/1 (required)")
#define SPOT_ROW_PLOT(v) \
    SPOT_TEXT("plot", v, "file", "draw .svg .png .pdf .gp, or - for text")
#define SPOT_ROW_POLICIES(v) \
    SPOT_TEXT("policy", v, "names", "comma-separated, or all, or list to see them")
#define SPOT_ROW_TICKS(v) \
    SPOT_FLAG("steps", v, "one row per policy and step of the replay")
#define SPOT_ROW_CHANGES(v) \
    SPOT_FLAG("steps", v, "only the first row, changes and the last")
#define SPOT_ROW_FROM(v) \
    SPOT_SECS("from", v, "time", "start at this time_s (default: start of the trace)", 0, SPOT_TRACE_TIME_MAX_S)
#define SPOT_ROW_TO(v) \
    SPOT_SECS("to", v, "time", "stop at this time_s (default: end of the trace)", 0, SPOT_TRACE_TIME_MAX_S)
#define SPOT_ROW_TRACE(v) \
    { SPOT_OPT_STRING, 't', "trace", v, "file", \
      "availability trace (required)", 0, 0 }
#define SPOT_ROW_SPEEDUP(v) \
    SPOT_REAL("speedup", v, "x", "trace seconds per real second (default: 1; of live 60)", 1e-6, 1e9)
#define SPOT_ROW_TICK(v) \
    SPOT_SECS("tick", v, "time", "time between decisions (default: the interval of the input)", 1, 1e6)
#define SPOT_ROW_CATALOGUE(v) \
    SPOT_TEXT("catalogue", v, "file", "CSV of instance types: prices, speeds, zones, quotas")
#define SPOT_ROW_FORECAST(v) \
    SPOT_TEXT("forecast", v, "file", "spot.forecast/1, - is standard input")
#define SPOT_ROW_RHO(v) \
    SPOT_REAL("rho", v, "share", "utilisation cap of a replica (default: .9)", 0.01, 1)
#define SPOT_ROW_UNSERVED(v) \
    SPOT_REAL("unserved", v, "share", "share of requests that may stay unserved (default: .01)", 0, 0.999)
#define SPOT_ROW_WINDOW(v) \
    SPOT_SECS("window", v, "time", "window of the rate (default: 60s)", 1e-3, 1e6)
#define SPOT_ROW_EGRESS(v) \
    SPOT_REAL("egress-usd", v, "usd", "cost of a launch in another region than the last (default: 0)", 0, 1e6)
#define SPOT_ROW_PROBE_USD(v) \
    SPOT_REAL("probe-usd", v, "usd", "what it costs to ask (default: 0)", 0, 1e6)
#define SPOT_ROW_STATE_GB(v) \
    SPOT_REAL("state-gb", v, "gb", "state that moves with the job between regions (default: 0)", 0, 1e6)
#define SPOT_ROW_LEARN(v) \
    SPOT_SECS("learn", v, "time", "learn runs anew after each of this (default: 24h, 2h if zones > 4)", 1, 1e9)
#define SPOT_ROW_RESTARTS(v) \
    SPOT_TEXT("restart", v, "time", "time of a launch without progress (default: 0), or 6m:.5,12m:.5")
#define SPOT_ROW_RESTART(v) \
    SPOT_SECS("restart", v, "time", "time of a launch without progress (default: 0)", 0, 1e6)
#define SPOT_ROW_WORK(v) \
    SPOT_SECS("work", v, "time", "computing time that the job needs (required)", 1, 1e8)
#define SPOT_ROW_SWITCH(v) \
    SPOT_SECS("switch", v, "time", "time to move weights and answers between instances (default: 10s)", 0, 1e6)
#define SPOT_ROW_SWITCH_JOB(v) \
    SPOT_SECS("switch", v, "time", "cost of moving a job: restart or migration (default: 0)", 0, 1e6)
#define SPOT_ROW_CHECKPOINT(v) \
    SPOT_SECS("checkpoint", v, "time", "checkpoint interval, to which a loss goes back (default: 0)", 0, 1e6)
#define SPOT_ROW_MEMORY_CAP(v) \
    SPOT_SIZE("memory-cap", v, "size", "extra memory a node may use during moves (default: no limit)", 0, 1e15)
#define SPOT_ROW_BOOT(v) \
    SPOT_SECS("boot", v, "time", "time from request to running instance (default: 60s)", 0, 1e6)
#define SPOT_ROW_CACHE(v) \
    SPOT_U64("cache-tokens", v, "n", "tokens of prompts that a replica keeps: blocks of the load", 1, 1e15)
#define SPOT_ROW_SLO(v) \
    SPOT_TEXT("slo", v, "limits", "limits on latency: e2e-p99=TIME,ttft-p95=TIME")
#define SPOT_ROW_SCALE(v) \
    SPOT_U64("scale", v, "k", "machines per instance: count floor(available/k) (default: 1)", 1, SPOT_TRACE_COUNT_MAX)
#define SPOT_ROW_ZONES(v) \
    SPOT_TEXT("zone", v, "names", "use these zones, comma-separated (default: all, at most 16)")
#define SPOT_ROW_DEADLINE(v) \
    SPOT_SECS("deadline", v, "time", "deadline, from the job's start (required)", 1, 1e8)
#define SPOT_ROW_DEVICE(v) \
    SPOT_TEXT("device", v, "x", "auto, cpu, cuda, cuda:N or a kernel such as portable (default: auto)")
#define SPOT_ROW_RECOMPUTE(v) \
    SPOT_TEXT("recompute", v, "what", "activations to recompute: none, mlp or layer (default: none)")
#define SPOT_ROW_WEIGHTS(v) \
    SPOT_TEXT("load", v, "file|dir", "weights to start from")
#define SPOT_ROW_TOKENS(v) \
    SPOT_TEXT("tokens", v, "x", "encoding of the data: bytes, u16, u32 (default: the job's, or bytes)")
#define SPOT_ROW_TOKENIZER(v) \
    SPOT_TEXT("tokenizer", v, "dir|file", "the data are text for this tokenizer (default: the model's, if any)")
#define SPOT_ROW_NAME(v) \
    SPOT_TEXT("name", v, "id", "name of this member (default: a number)")
#define SPOT_ROW_DOMAIN(v) \
    SPOT_TEXT("domain", v, "id", "failure domain, such as the zone (default: its own)")
#define SPOT_ROW_NOTICE(v) \
    SPOT_TEXT("notice", v, "source[@url]", "leave when aws, gcp, azure, auto or cmd:COMMAND says so")
#define SPOT_ROW_REBALANCE(v) \
    SPOT_FLAG("notice-rebalance", v, "act on a rebalance recommendation as well")
#define SPOT_ROW_JOB_NAME(v) \
    SPOT_TEXT("name", v, "text", "name of the job that is written")
#define SPOT_ROW_RESUME(v) \
    SPOT_FLAG("resume", v, "go on from the state that is there")
#define SPOT_ROW_USD_PER_H(v) \
    SPOT_REALS("usd-per-h", v, "spot[:od]", "price of an instance: spot, and behind a colon on demand", 0, 1e6)
#define SPOT_ROW_PRICES(v) \
    SPOT_TEXT("prices", v, "file", "spot.price/1: what hours are expected to cost")
#define SPOT_ROW_POLICY(v) \
    SPOT_TEXT("policy", v, "name", "spot (default), or a published one")
#define SPOT_ROW_TIME(v) \
    SPOT_SECS("time", v, "time", "time of the plan (default: the last that the input has)", 0, 1e12)
#define SPOT_ROW_ROUND(v) \
    SPOT_SECS("round", v, "time", "time between plans (default: 6m)", 1, 1e7)
#define SPOT_ROW_THROUGHPUT(v) \
    SPOT_TEXT("throughput", v, "source", "of a grid: profile's table, fitted curve, or both (default)")
#define SPOT_ROW_HORIZON(v) \
    SPOT_U64("horizon", v, "n", "intervals that expected values cover (default: the job's)", 1, 256)
#define SPOT_ROW_COLD_START(v) \
    SPOT_SECS("cold-start", v, "time", "time from launch to first answer (default: a step of the input)", 0, 1e6)
#define SPOT_ROW_LOAD(v) \
    SPOT_TEXT("load", v, "file", "request trace, from which the rate comes")
#define SPOT_ROW_DEMAND(v) \
    SPOT_TEXT("load", v, "file", "spot.demand/1: requests by size, and what each type answers")
#define SPOT_ROW_METRICS(v) \
    SPOT_TEXT("metrics", v, "addr", "a page, /metrics, /status.json: 127.0.0.1:PORT or unix:PATH")
#define SPOT_ROW_INSTANCE_TYPE(v) \
    SPOT_TEXT("instance-type", v, "name", "instance type of the whole trace (default: none)")
#define SPOT_ROW_NODE_FORM(v) \
    SPOT_FLAG("events", v, "node form: add and remove of named nodes")
#define SPOT_ROW_CONTEXT(v) \
    SPOT_U64("context", v, "n", "most tokens of prompt and answer together", 2, 2 * (double)SPOT_LOAD_TOKENS_MAX)
#define SPOT_ROW_AVAILABILITY(v) \
    SPOT_REAL("availability", v, "share", "share of the time to aim at (default: 0.9995)", 1e-6, 0.999999)
#define SPOT_ROW_DECIDED(v) \
    SPOT_TEXT("state", v, "file", "what was decided so far, read and written")
#define SPOT_ROW_SPACING(v) \
    SPOT_SECS("interval", v, "time", "time between rows (default: 60s; import: of the input)", 1e-3, 1e7)
#define SPOT_ROW_STREAMS(v) \
    SPOT_U64("streams", v, "n", "connections to each address (default: send 4, recv 1)", 1, NET_STREAMS_MAX)
#define SPOT_ROW_CODEC(v) \
    SPOT_TEXT("codec", v, "name", "planes, raw or auto: planes unless the link is faster (default)")
#define SPOT_ROW_SAMPLES(v) \
    SPOT_U64("global-batch", v, "n", "samples of a step, over all ranks (default of train: 16)", 1, 1 << 24)
#define SPOT_ROW_DTYPE(v) \
    SPOT_TEXT("dtype", v, "type", "type of weights: fp32, bf16 or q8 (default: fp32; of a plan bf16)")
#define SPOT_ROW_LENGTH(v) \
    SPOT_SECS("interval", v, "time", "length of an interval (default: the job's; else 60s, of prices 1h)", 1e-3, 1e9)
/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_ROWS_H */
