/* SPDX-License-Identifier: MIT */
#include "serve/replica.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/private_dir.h"
#include "common/xalloc.h"
#include "serve/batch_loop.h"
#include "serve/serve_protocol.h"
#include "serve/served_model.h"

struct replica {
    struct spot_agent agent;
    struct spot_served_model model;
    void *image;
    size_t image_byte;
    uint32_t type, n_most;
    uint64_t kv_byte;
    struct spot_batch_loop *loop;
    struct spot_batch_out *out; /* [n_most] */
    uint32_t formed;            /* the epoch it has a place in */
    int n_thread;
};

static void drop_model(struct replica *r)
{
    spot_batch_loop_free(r->loop);
    r->loop = NULL;
    free(r->image);
    r->image = NULL;
    free(r->out);
    r->out = NULL;
    spot_served_model_release(&r->model);
}

/* --- joining ------------------------------------------------------------------- */

static void hello(void *job, struct spot_buf *out)
{
    (void)job;
    spot_put_text(out, SPOT_SERVE_NAME);
}

static int load(struct replica *r, const char *dir, uint32_t n_shard, uint64_t hash,
                struct spot_err *err)
{
    if (spot_served_model_open(&r->model, dir, n_shard, err))
        return -1;
    if (r->model.hash != hash)
        return spot_err_set(err, SPOT_EDATA,
                            "%s is not the model that is served: its hash is "
                            "%016llx, that of the server's %016llx",
                            dir, (unsigned long long)r->model.hash, (unsigned long long)hash);
    r->image =
        spot_served_model_image(&r->model, (enum spot_infer_type)r->type, &r->image_byte, err);
    return r->image ? 0 : -1;
}

static int start(struct replica *r, struct spot_err *err)
{
    const struct spot_batch_limits limits = { .n_sequence = (int)r->n_most,
                                              .kv_byte = r->kv_byte,
                                              .n_thread = r->n_thread };

    r->loop = spot_batch_loop_new(&r->model, r->image, r->image_byte, &limits, err);
    r->out = spot_xcalloc(r->n_most, sizeof(*r->out));
    return r->loop ? 0 : -1;
}

static int welcome(void *job, struct spot_wire_in *in, struct spot_err *err)
{
    struct replica *const r = job;
    char dir[4096];
    uint32_t type, n_shard, n_most;
    uint64_t hash, kv_byte;

    spot_get_text(in, dir, sizeof(dir));
    hash = spot_get_u64(in);
    type = spot_get_u32(in);
    n_shard = spot_get_u32(in);
    n_most = spot_get_u32(in);
    kv_byte = spot_get_u64(in);
    if (!spot_wire_in_done(in) || type >= SPOT_INFER_TYPES || !n_most || n_most > 1 << 16)
        return 1;
    if (r->loop && r->model.hash == hash && r->type == type && r->n_most == n_most &&
        r->kv_byte == kv_byte && r->model.shape.n_shard == n_shard)
        return 0; /* the same server, or another of the same model */
    drop_model(r);
    r->type = type;
    r->n_most = n_most;
    r->kv_byte = kv_byte;
    return load(r, dir, n_shard, hash, err) || start(r, err) ? -1 : 0;
}

/* --- epochs ---------------------------------------------------------------------- */

static void quiesced(void *job)
{
    struct replica *const r = job;

    if (r->loop)
        spot_batch_loop_clear(r->loop);
}

static int form(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct replica *const r = job;
    struct spot_err why = { 0 };

    if (spot_agent_enter(&r->agent, NULL, 0, &why))
        return spot_agent_report(&r->agent, &why, err) ? -1 : 1;
    r->formed = frame->epoch;
    return 0;
}

/* --- sequences -------------------------------------------------------------------- */

/* What cannot be computed is told, and the others go on. */
static int on_continue(struct replica *r, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t choice = spot_get_u32(&in), n = spot_get_count(&in, 4);
    uint32_t *const token = spot_xcalloc(n, sizeof(*token));
    struct spot_request request = { 0 };
    struct spot_err why = { 0 };
    int rc = 0;

    for (uint32_t i = 0; i < n; i++)
        token[i] = spot_get_u32(&in);
    if (in.bad || spot_request_get(&request, &in))
        rc = spot_err_set(&why, SPOT_EDATA, "a malformed request");
    else
        rc = spot_batch_loop_add(r->loop, frame->tag, &request, choice, token, n, &why);
    free(token);
    return rc ? spot_agent_report_part(&r->agent, frame->tag, &why, err) : 0;
}

static int tell(struct replica *r, size_t n, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    uint32_t used, all;

    spot_batch_loop_pages(r->loop, &used, &all);
    spot_put_u32(&out, used);
    spot_put_u32(&out, all);
    spot_put_u32(&out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        spot_put_u64(&out, r->out[i].sequence);
        spot_step_token_put(&out, &r->out[i].token);
    }
    return spot_agent_tell(&r->agent, SPOT_MSG_TOKENS, 0, &out, err);
}

/* Until there is something to hear, or nothing left. */
static int go_on(struct replica *r, struct spot_err *err)
{
    while (spot_batch_loop_count(r->loop) && !spot_mesh_has_order(r->agent.mesh)) {
        struct spot_err why = { 0 };
        size_t n;

        if (spot_batch_loop_step(r->loop, r->out, &n, &why)) {
            spot_agent_set_unfit(&r->agent, true);
            return spot_agent_report(&r->agent, &why, err);
        }
        spot_mesh_progress(r->agent.mesh);
        if (n && tell(r, n, err))
            return -1;
    }
    return 0;
}

static int order(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct replica *const r = job;
    struct spot_buf nothing = { 0 };
    int rc = 0;

    if (frame->epoch != r->agent.epoch || r->formed != frame->epoch)
        return 0;
    if (frame->type == SPOT_MSG_CONTINUE)
        rc = on_continue(r, frame, err);
    else if (frame->type == SPOT_MSG_FORGET)
        spot_batch_loop_drop(r->loop, frame->tag);
    else if (frame->type == SPOT_MSG_ROUND)
        rc = spot_agent_tell(&r->agent, SPOT_MSG_VOTE, frame->tag, &nothing, err);
    return rc ? -1 : go_on(r, err);
}

static int orphaned(void *job, struct spot_err *err)
{
    (void)err;
    quiesced(job);
    return 0;
}

int spot_replica_run(const struct spot_replica_options *options, struct spot_agent *agent,
                     struct spot_err *err)
{
    static const struct spot_agent_workload workload = { .hello = hello,
                                                         .welcome = welcome,
                                                         .quiesced = quiesced,
                                                         .form = form,
                                                         .order = order,
                                                         .orphaned = orphaned };
    struct replica r = { .n_thread = options->n_thread };
    int rc;

    r.agent = (struct spot_agent){ .options = &options->agent, .workload = &workload, .job = &r };
    rc = spot_agent_run(&r.agent, err);
    if (agent)
        *agent = r.agent;
    if (options->private_dir)
        spot_private_dir_clear(options->private_dir);
    drop_model(&r);
    return rc;
}
