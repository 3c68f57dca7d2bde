/* SPDX-License-Identifier: MIT */
/* What it is worth to a server that neighbours fall together: ours with what the forecast says of
 * shocks, and with each loss on its own, on the same trace and load. Markdown, a row a trace.
 * usage: bench_shocks JOB LOAD TRACE... (a job of kind serve with one length, CSV, CSV) */
#include <stdio.h>
#include <stdlib.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "sim/serve_spot.h"

struct came {
    double usd, p99_s, mean_s, late;
};

/* late: the share of requests that took longer than twice the job's time of a batch of all. */
static struct came came_of(const struct spot_serve_play *play)
{
    struct spot_serve_result r = { 0 };
    struct came c = { 0 };
    double *e2e_s = spot_xcalloc(play->load->n, sizeof(double));

    spot_serve_spot_run(play, false, &r);
    for (size_t i = 0; i < play->load->n; i++) {
        e2e_s[i] = r.served[i].end_s - play->load->time_s[i];
        c.mean_s += e2e_s[i] / (double)play->load->n;
        c.late += (e2e_s[i] > play->slo.e2e.limit_s) / (double)play->load->n;
    }
    c.usd = r.instance_s / 3600 * play->job->cost.usd_per_h;
    c.p99_s = spot_num_quantile(e2e_s, play->load->n, 0.99);
    free(e2e_s);
    spot_serve_result_release(&r);
    return c;
}

static int row(const struct spot_job_doc *job, const struct spot_load *load, const char *path,
               struct spot_err *err)
{
    struct spot_trace trace;
    struct spot_serve_play play = { .job = job,
                                    .load = load,
                                    .switch_s = 10,
                                    .load_s = 25,
                                    .boot_s = 60,
                                    .hand_s = 1,
                                    .rule = { .batching = SPOT_BATCH_SHARED },
                                    .slo = { .e2e = { .percentile = 0.99, .limit_s = 60 } } };
    struct came with, without;

    if (spot_trace_load_path(&trace, path, err))
        return -1;
    spot_serve_play_trace(&play, &trace, 1);
    with = came_of(&play);
    play.trace = NULL;
    without = came_of(&play);
    printf("| %s | %.2f | %.2f | %.1f | %.1f | %.1f | %.1f | %.3f | %.3f |\n", path, without.usd,
           with.usd, without.mean_s, with.mean_s, without.p99_s, with.p99_s, without.late,
           with.late);
    free(play.event);
    spot_trace_release(&trace);
    return 0;
}

int main(int argc, char **argv)
{
    struct spot_job_doc job;
    struct spot_load load;
    struct spot_err err = { 0 };
    int rc;

    if (argc < 4) {
        printf("bench_shocks: no JOB LOAD TRACE...: left out\n");
        return 0;
    }
    rc = spot_job_doc_load(&job, argv[1], &err);
    rc = rc ? rc
            : spot_load_read_alike(&load, argv[2], job.serve.prompt_token, job.serve.output_token,
                                   &err);
    if (!rc)
        printf("| trace | usd alone | usd together | mean s | | p99 s | | late | |\n"
               "|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 3; i < argc && !rc; i++)
        rc = row(&job, &load, argv[i], &err);
    if (rc)
        fprintf(stderr, "%s\n", err.msg);
    return rc ? 1 : 0;
}
