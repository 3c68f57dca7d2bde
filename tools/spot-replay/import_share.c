/* SPDX-License-Identifier: MIT */
#include "replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/out.h"
#include "common/prov.h"

static int read_files(struct spot_share_import *imp, const struct spot_share_format *format,
                      char **path, struct spot_err *err)
{
    for (size_t i = 0; i == 0 || path[i]; i++) { /* without operands stdin is read once */
        const char *source;
        FILE *in = spot_tool_open(path[i], &source, err);
        int rc;

        if (!in)
            return -1;
        rc = spot_share_import_read(imp, format, in, source, err);
        if (in != stdin)
            fclose(in);
        if (rc)
            return -1;
        import_warn_bad(&imp->bad);
        if (!path[i])
            break;
    }
    if (imp->n_left_out)
        spot_tool_warn("%zu job%s with less than a second on a worker: left out", imp->n_left_out,
                       imp->n_left_out == 1 ? "" : "s");
    if (spot_share_import_settle(imp, err))
        return -1;
    if (imp->n_replaced)
        spot_tool_warn("%zu record%s contradicted by a later one of the same %s: left out",
                       imp->n_replaced, imp->n_replaced == 1 ? "" : "s",
                       imp->jobs.n ? "job" : "throughput");
    if (imp->jobs.n && imp->n_speed)
        return spot_err_set(err, SPOT_EUSAGE,
                            "jobs and throughputs are two documents: import the "
                            "files one by one");
    return 0;
}

static int shift(struct spot_share_jobs *jobs, double origin_s, struct spot_err *err)
{
    double first_s = INFINITY;

    for (size_t i = 0; i < jobs->n; i++)
        first_s = fmin(first_s, jobs->job[i].arrival_s);
    for (size_t i = 0; i < jobs->n; i++) {
        jobs->job[i].arrival_s -= isnan(origin_s) ? first_s : origin_s;
        if (jobs->job[i].arrival_s < 0)
            return spot_err_set(err, SPOT_EDATA, "job '%.64s' is from before --origin",
                                jobs->job[i].id);
    }
    spot_share_jobs_sort(jobs);
    return 0;
}

static int write_speeds(const struct spot_share_import *imp, const struct spot_tool_common *common,
                        FILE *out, struct spot_err *err)
{
    const struct spot_prov prov = { .tool = "spot-replay",
                                    .seed = common->seed,
                                    .is_off = !common->provenance };
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.throughput", 1, &prov);
    spot_jw_rows(&jw, "rows", spot_job_rates_part[0].field, imp->speed, imp->n_speed,
                 sizeof(*imp->speed));
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

int import_share(const struct spot_share_format *format, char **path, double origin_s,
                 bool is_strict, const struct spot_tool_common *common, struct spot_err *err)
{
    struct spot_share_import imp = { .bad = { .is_strict = is_strict } };
    struct spot_out out = { 0 };
    int rc = read_files(&imp, format, path, err);

    if (!rc && !imp.n_speed && !imp.jobs.n)
        rc = spot_err_set(err, SPOT_EDATA, "no rows in the input");
    rc = rc ? rc : shift(&imp.jobs, origin_s, err);
    rc = rc ? rc : spot_out_open(&out, common->output, err);
    if (!rc) {
        if (imp.n_speed)
            rc = write_speeds(&imp, common, out.file, err);
        else
            spot_share_jobs_write(&imp.jobs, out.file);
        rc = spot_out_finish(&out, rc, err);
    }
    spot_share_import_release(&imp);
    return rc;
}
