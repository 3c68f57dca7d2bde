/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include "registry.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/generation.h"
#include "model/cluster_doc.h"
#include "model/demand_doc.h"
#include "model/event.h"
#include "model/forecast_doc.h"
#include "model/job_doc.h"
#include "model/layout_doc.h"
#include "model/moves_doc.h"
#include "model/plan_doc.h"
#include "model/price_doc.h"
#include "model/share_doc.h"
#include "model/status_doc.h"
#include "serve/proof_doc.h"
#include "shard/stream.h"
#include "train/job_note.h"

#define READER(kind, type)                                                    \
    static int check_##kind(const char *text, size_t n, struct spot_err *err) \
    {                                                                         \
        struct type doc;                                                      \
                                                                              \
        if (spot_##kind##_parse(&doc, text, n, #kind, err))                   \
            return -1;                                                        \
        spot_##kind##_release(&doc);                                          \
        return 0;                                                             \
    }
READER(cluster, spot_cluster)
READER(job_doc, spot_job_doc)
READER(layout, spot_layout)
READER(plan_doc, spot_plan_doc)
READER(status, spot_status)
READER(job_rates, spot_job_rates)
READER(job_note, spot_job_note)
READER(proof, spot_proof)

static int check_forecast(const char *text, size_t n, struct spot_err *err)
{
    struct spot_forecast forecast = { 0 };
    struct spot_json_doc json;
    int rc = spot_json_parse(&json, text, n, "forecast", err);

    if (!rc)
        rc = spot_forecast_read(&json, &forecast, err);
    spot_forecast_release(&forecast);
    spot_json_release(&json);
    return rc;
}

static int check_demand(const char *text, size_t n, struct spot_err *err)
{
    struct spot_json_doc json = { 0 };
    struct spot_demand_doc demand = { 0 };
    int rc = spot_json_parse(&json, text, n, "demand", err);

    if (!rc)
        rc = spot_demand_read(&json, &demand, err);
    spot_demand_release(&demand);
    spot_json_release(&json);
    return rc;
}

static int check_price(const char *text, size_t n, struct spot_err *err)
{
    struct spot_price_doc price = { 0 };
    struct spot_json_doc json;
    int rc = spot_json_parse(&json, text, n, "price", err);

    if (!rc)
        rc = spot_price_read(&json, &price, err);
    spot_price_release(&price);
    spot_json_release(&json);
    return rc;
}

static int check_event(const char *text, size_t n, struct spot_err *err)
{
    struct spot_event_log log = { .in = fmemopen((void *)(uintptr_t)text, n, "r"),
                                  .source = "event" };
    struct spot_event event;
    int rc = log.in ? spot_event_next(&log, &event, err) : spot_err_sys(err, "cannot open");

    spot_event_log_release(&log);
    if (log.in)
        fclose(log.in);
    return rc < 0 ? -1 : 0;
}

const struct spot_document spot_registry[] = {
    { "forecast", 1, "JSON",
      "How many machines there will be: a probability for each count and step, and the "
      "joint distribution of the next interval's losses and gains.",
      "`spot-predict`", "`spot-plan`", "forecast", .part = spot_forecast_part,
      .check = check_forecast, .has_made_by = true },
    { "price", 1, "JSON",
      "What an instance of each zone, type and market will cost: mean, quantiles, and the "
      "probabilities of a lower and a higher price, at each step.",
      "`spot-predict --kind price`", "`spot-plan fleet`, `spot-plan deadline`", "price",
      .part = spot_price_part, .check = check_price, .has_made_by = true },
    { "job", 1, "JSON",
      "What a job computes, the step time of each grid, and what changing the grid costs.",
      "you; `spot-run profile`; `examples/jobs`", "`spot-plan`, `spot-replay train`, `serve`",
      "job", .part = spot_job_part, .check = check_job_doc, .unread = "measured",
      .has_made_by = true },
    { "plan", 1, "JSON",
      "The grid to run next, spares, places, expected values, a bound, reasons, alternatives.",
      "`spot-plan train`, `serve`, `fleet`, `deadline`, `share`",
      "`spot-run train --plan`, `replan`", "plan", .part = spot_plan_part, .check = check_plan_doc,
      .has_made_by = true },
    { "layout", 1, "JSON", "Which node holds which part of a model's state.", "you",
      "`spot-migrate plan`", "layout", .part = spot_layout_part, .check = check_layout,
      .has_made_by = true },
    { "cluster", 1, "JSON",
      "The nodes that a move may use: links, slots, zones, and the deadlines of leaving nodes.",
      "you", "`spot-migrate plan`", "cluster", .part = spot_cluster_part, .check = check_cluster,
      .has_made_by = true },
    { "moves", 1, "JSON",
      "Ordered transfers between two layouts, with predicted time, lower bound and "
      "certificate.",
      "`spot-migrate plan`", "you", "moves", .part = spot_moves_part, .has_made_by = true },
    { "event", 1, "JSON Lines", "The log of a run, one event per line.",
      "`spot-run train`, `serve`, `spot-replay live`",
      "`spot-run report`, `spot-replay import`, `train`", "event", .part = spot_event_part,
      .check = check_event,
      /* kinds of events that are not known are passed over */
      .unread = "event|member|name|why|place|transfers|moved_byte|grad_norm|compute_s|where|lag_s|"
                "cost_s|from|shares|buddies|view|id|model|replicas",
      .has_made_by = true },
    { "notice", 1, "JSON Lines",
      "Notices of a cloud or a command about the end of a machine, one per line.",
      "`spot-run notice`", "you", "notice", .part = NULL },
    { "report", 1, "JSON",
      "Summary of a run: steps, samples lost and repeated, pauses, machine-hours and their cost.",
      "`spot-run report`", "you", "report", .has_made_by = true },
    { "estimate", 1, "JSON",
      "Requirements of a job, estimated before it starts: memory of each process, time of a step, "
      "moves, generations.",
      "`spot-run train --dry-run`", "you", "estimate", .has_made_by = true },
    { "eval", 1, "JSON", "Loss, perplexity and bits per byte of a corpus under a model.",
      "`spot-run eval`", "you", "eval", .has_made_by = true },
    { "status", 1, "JSON", "What a running job is doing.", "running jobs",
      "`spot-run status`, `roll`; you", "state", .part = spot_status_part, .check = check_status,
      .unread = "phase|val_loss|val_step|lr|(ttft|between|whole|queue)_mean_s|"
                "rollout/(state|model)|members/0/(role|model|device|load|kv_use)" },
    { "proof", 1, "JSON", "What determined an answer, and what it was, to be computed again.",
      "`spot-run serve --http`", "`spot-run generate --proof`", "serve", .part = spot_proof_part,
      .check = check_proof },
    { "state", 1, "JSON", "The manifest of a durable generation.",
      "`spot-run train --state`, `exec --state-command`",
      "`spot-run train --resume`, `exec --resume`", "state", .part = spot_state_part,
      .check = spot_state_check },
    { "training", 1, "JSON", "The description of a training job in its state.",
      "`spot-run train --state`", "`spot-run train --resume`", "state", .part = spot_job_note_part,
      .check = check_job_note },
    { "describe", 1, "JSON, CSV, table",
      "Summary of a trace: counts, losses, gains and quiet times of each series.",
      "`spot-replay describe`", "you", "describe", .has_made_by = true },
    { "load", 1, "JSON, CSV, table", "Summary of a load of requests: rate, burstiness, lengths.",
      "`spot-replay describe --kind load`", "you", "describe", .has_made_by = true },
    { "demand", 1, "JSON", "Requests by size, and how many of each an instance of a type answers.",
      "you", "`spot-plan fleet`, `spot-replay fleet`", "demand", .part = spot_demand_part,
      .check = check_demand },
    { "throughput", 1, "JSON", "How fast a kind of job runs on a number of workers of a type.",
      "`spot-replay import --from gavel`; you", "`spot-plan share`, `spot-replay share`", "share",
      .part = spot_job_rates_part, .check = check_job_rates, .has_made_by = true },
    { "stream", 1, "JSON", "The JSON in the head of a tensor stream: what was packed, and how.",
      "`spot-migrate pack`", "`spot-migrate unpack`", "stream", .part = spot_stream_part,
      .check = spot_stream_check_json },
    { 0 },
};

const struct spot_document *spot_registry_find(const char *kind)
{
    for (const struct spot_document *d = spot_registry; d->kind; d++)
        if (!strcmp(d->kind, kind))
            return d;
    return NULL;
}
