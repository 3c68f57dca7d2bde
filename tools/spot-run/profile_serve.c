/* SPDX-License-Identifier: MIT */
/* spot-run profile --serve: the profile of a serving replica, from the log of a server. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/out.h"
#include "common/xalloc.h"
#include "model/event.h"
#include "model/serve_fit.h"
#include "profile.h"

struct reading {
    struct spot_serve_sample *sample; /* [n] */
    size_t n, cap;
    bool *is_up; /* [n_view] */
    size_t n_view, view_cap;
    int64_t replicas; /* the most at one time */
};

static void count_replicas(struct reading *r, const struct spot_event *e, bool is_up)
{
    int64_t n = 0;

    r->is_up = spot_xgrow(r->is_up, &r->view_cap, (size_t)e->view + 1, sizeof(*r->is_up));
    while (r->n_view <= (size_t)e->view)
        r->is_up[r->n_view++] = false;
    r->is_up[e->view] = is_up;
    for (size_t i = 0; i < r->n_view; i++)
        n += r->is_up[i];
    r->replicas = n > r->replicas ? n : r->replicas;
}

/* Skips requests with several choices or across coordinators, whose times do not show the time of
 * one answer. */
static void take(struct reading *r, const struct spot_event *e)
{
    if (e->kind == SPOT_EVENT_FORMED || e->kind == SPOT_EVENT_QUIESCE)
        count_replicas(r, e, e->kind == SPOT_EVENT_FORMED);
    if (e->kind != SPOT_EVENT_REQUEST || strcmp(e->finish, "done") != 0 || e->is_resumed ||
        e->choices != 1 || e->prompts != 1)
        return;
    r->sample = spot_xgrow(r->sample, &r->cap, r->n + 1, sizeof(*r->sample));
    r->sample[r->n++] = (struct spot_serve_sample){ e->came_s, e->queue_s,       e->ttft_s,
                                                    e->e2e_s,  e->prompt_tokens, e->output_tokens };
}

static int read_log(struct reading *r, const char *path, struct spot_prov *prov,
                    struct spot_err *err)
{
    FILE *in = strcmp(path, "-") != 0 ? fopen(path, "r") : stdin;
    struct spot_hash_stream *hash;
    struct spot_event_log log = { .source = path, .drops_cut = true, .is_partial = true };
    struct spot_event event;
    int rc;

    if (!in)
        return spot_err_sys(err, "%s", path);
    log.in = in;
    log.hash = hash = spot_hash_stream_new();
    while ((rc = spot_event_next(&log, &event, err)) > 0)
        take(r, &event);
    spot_prov_add(prov, path, spot_hash_stream_64(hash));
    spot_hash_stream_free(hash);
    spot_event_log_release(&log);
    if (in != stdin)
        fclose(in);
    return rc;
}

static int fit(struct spot_job_serve *serve, const struct profile_serve *p, const struct reading *r,
               struct spot_err *err)
{
    const struct spot_serve_logged logged = { r->sample, r->n, r->replicas, (int64_t)p->max_batch,
                                              p->shares_machine };

    return spot_serve_fit(serve, &logged, err);
}

static int write_job(const struct spot_job_serve *serve, const char *name, const char *path,
                     const struct spot_prov *prov, FILE *out, struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.job", 1, prov);
    spot_jw_str(&jw, "name", name);
    spot_jw_str(&jw, "kind", "serve");
    spot_jw_str(&jw, "source", path);
    spot_job_serve_write(&jw, serve);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

int profile_serve(const struct profile_serve *p, struct spot_prov *prov, const char *output,
                  struct spot_err *err)
{
    struct reading r = { 0 };
    struct spot_job_serve serve = { 0 };
    struct spot_out out;
    int rc = read_log(&r, p->log, prov, err);

    if (!rc && p->replicas)
        r.replicas = (int64_t)p->replicas;
    if (!rc && !r.replicas)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no replica was formed; --replicas says how many",
                          p->log);
    if (!rc)
        rc = fit(&serve, p, &r, err);
    if (!rc && !(rc = spot_out_open(&out, output, err)))
        rc = spot_out_finish(&out, write_job(&serve, p->name, p->log, prov, out.file, err), err);
    spot_job_serve_release(&serve);
    free(r.sample), free(r.is_up);
    return rc;
}
