/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include "registry.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/generation.h"
#include "host/state_bucket.h"
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
READER(job_rates, spot_job_rates)

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
    { "forecast", 1, "JSON", "`spot-predict`", "`spot-plan`", "forecast", spot_forecast_part,
      check_forecast },
    { "price", 1, "JSON", "`spot-predict --kind price`", "`spot-plan fleet`, `spot-plan deadline`",
      "price", spot_price_part, check_price },
    { "job", 1, "JSON", "you; `spot-run profile`; `examples/jobs`",
      "`spot-plan`, `spot-replay train`, `serve`", "job", spot_job_part, check_job_doc },
    { "plan", 1, "JSON", "`spot-plan train`, `serve`, `fleet`, `deadline`, `share`",
      "`spot-run train --plan`, `replan`", "plan", spot_plan_part, check_plan_doc },
    { "layout", 1, "JSON", "you", "`spot-migrate plan`", "layout", spot_layout_part, check_layout },
    { "cluster", 1, "JSON", "you", "`spot-migrate plan`", "cluster", spot_cluster_part,
      check_cluster },
    { "moves", 1, "JSON", "`spot-migrate plan`", "you", "moves", spot_moves_part, NULL },
    { "event", 1, "JSON Lines", "`spot-run train`, `serve`, `spot-replay live`",
      "`spot-run report`, `spot-replay import`, `train`", "event", spot_event_part, check_event },
    { "notice", 1, "JSON Lines", "`spot-run notice`", "you", "notice", NULL, NULL },
    { "report", 1, "JSON", "`spot-run report`", "you", "report", NULL, NULL },
    { "estimate", 1, "JSON", "`spot-run train --dry-run`", "you", "estimate", NULL, NULL },
    { "eval", 1, "JSON", "`spot-run eval`", "you", "eval", NULL, NULL },
    { "status", 1, "JSON", "`spot-run status`", "you", "state", NULL, NULL },
    { "state", 1, "JSON", "`spot-run train --state`", "`spot-run train --resume`", "state",
      spot_state_part, NULL },
    { "commit", 1, "JSON", "`spot-run exec --state-command`", "`spot-run exec --resume`", "commit",
      spot_commit_part, NULL },
    { "training", 1, "JSON", "`spot-run train --state`", "`spot-run train --resume`", "state",
      spot_job_note_part, NULL },
    { "tensors", 1, "JSON", "`spot-migrate list`", "you", "stream", NULL, NULL },
    { "describe", 1, "JSON, CSV, table", "`spot-replay describe`", "you", "describe", NULL, NULL },
    { "load", 1, "JSON, CSV, table", "`spot-replay describe --kind load`", "you", "describe", NULL,
      NULL },
    { "demand", 1, "JSON", "you", "`spot-plan fleet`, `spot-replay fleet`", "demand", NULL,
      check_demand },
    { "throughput", 1, "JSON", "`spot-replay import --from gavel`; you",
      "`spot-plan share`, `spot-replay share`", "share", spot_job_rates_part, check_job_rates },
    { "stream", 1, "JSON", "`spot-migrate pack`", "`spot-migrate unpack`, `list`", "stream",
      spot_stream_part, NULL },
    { 0 },
};

const struct spot_document *spot_registry_find(const char *kind)
{
    for (const struct spot_document *d = spot_registry; d->kind; d++)
        if (!strcmp(d->kind, kind))
            return d;
    return NULL;
}
