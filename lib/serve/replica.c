/* SPDX-License-Identifier: MIT */
#include "serve/replica.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/private_dir.h"
#include "common/xalloc.h"
#include "engine/backend.h"
#include "engine/kernel.h"
#include "serve/adapter_list.h"
#include "serve/batch_loop.h"
#include "serve/model_image.h"
#include "serve/relay.h"
#include "serve/serve_protocol.h"
#include "serve/served_model.h"

/* What the server's WELCOME says. */
struct told {
    uint64_t hash, kv_byte, kept_byte;
    uint32_t type, n_shard, n_most, P, M, is_nccl;
    char kind[64]; /* full name of the CUDA kernel kind; "": CPUs */
};

struct replica {
    struct spot_agent agent;
    struct spot_served_model model;
    struct told told;
    struct spot_shared_image image; /* packed weights of bundles [begin, end) */
    int begin, end;
    struct spot_relay *relay; /* for the grid and position below; NULL: none yet */
    uint32_t P, M, position;
    struct spot_batch_loop *loop; /* NULL: not the leader */
    struct spot_batch_out *out;   /* [n_most] */
    uint32_t formed;              /* the epoch in which this worker has a place; 0: none */
    int n_thread;
};

static void drop_part(struct replica *r)
{
    spot_batch_loop_free(r->loop);
    r->loop = NULL;
    spot_relay_free(r->relay);
    r->relay = NULL;
    free(r->out);
    r->out = NULL;
}

static void drop_model(struct replica *r)
{
    drop_part(r);
    spot_shared_image_close(&r->image);
    spot_served_model_release(&r->model);
}

/* --- joining ------------------------------------------------------------------- */

static void hello(void *job, struct spot_buf *out)
{
    const struct replica *const r = job;
    const char *const machine = r->agent.options->machine;

    spot_put_text(out, SPOT_SERVE_NAME);
    spot_put_text(out, machine ? machine : "");
}

static int open_model(struct replica *r, const char *dir, const char *adapters,
                      struct spot_err *err)
{
    if (spot_served_model_open(&r->model, dir, adapters, r->told.n_shard, err))
        return -1;
    if (r->model.hash != r->told.hash)
        return spot_err_set(err, SPOT_EDATA,
                            "%s is not the model that is served: its hash is "
                            "%016llx, that of the server's %016llx",
                            dir, (unsigned long long)r->model.hash,
                            (unsigned long long)r->told.hash);
    return 0;
}

static void progress(void *replica)
{
    const struct replica *const r = replica;

    spot_mesh_progress(r->agent.mesh);
}

static int load(struct replica *r, int begin, int end, struct spot_err *err)
{
    if (r->image.byte && r->begin == begin && r->end == end)
        return 0;
    spot_shared_image_close(&r->image);
    r->begin = begin;
    r->end = end;
    return spot_model_image_open(&r->image, &r->model, (enum spot_infer_type)r->told.type, begin,
                                 end, progress, r, err);
}

/* Load the layers that the member at a position needs, unless it has them. */
static int take_position(struct replica *r, const struct spot_relay_form *form,
                         struct spot_err *err)
{
    struct spot_relay_config config = {
        .shape = &r->model.shape,
        .P = form->P,
        .M = form->M,
        .position = form->position,
        .n_sequence = (int)r->told.n_most,
        .kv_byte = r->told.kv_byte,
        .kept_byte = r->told.kept_byte,
        .token_max = spot_batch_loop_tokens((int)r->told.n_most),
        .n_thread = r->n_thread,
        .backend = *r->told.kind ? "cuda" : NULL,
        .is_nccl = r->told.is_nccl,
    };
    int begin, end;

    if (r->relay && r->position == form->position && r->P == form->P && r->M == form->M)
        return 0;
    drop_part(r);
    spot_relay_bundles(&r->model.shape, form, &begin, &end);
    if (load(r, begin, end, err))
        return -1;
    config.image = r->image.byte;
    config.image_byte = r->image.n_byte;
    config.lora = (const struct spot_lora *const *)r->model.lora;
    config.n_lora = (int)r->model.n_adapter;
    r->relay = spot_relay_new(&config, err);
    if (!r->relay)
        return -1;
    r->position = form->position;
    r->P = form->P;
    r->M = form->M;
    if (!form->position) {
        r->loop = spot_batch_loop_new(&r->model, r->relay, (int)r->told.n_most);
        r->out = spot_xcalloc(r->told.n_most, sizeof(*r->out));
    }
    return 0;
}

static bool is_same(const struct told *a, const struct told *b)
{
    return a->hash == b->hash && a->kv_byte == b->kv_byte && a->kept_byte == b->kept_byte &&
           a->type == b->type && a->n_shard == b->n_shard && a->n_most == b->n_most &&
           a->P == b->P && a->M == b->M && a->is_nccl == b->is_nccl && !strcmp(a->kind, b->kind);
}

/* All workers must have the same kind of device: tokens of two kinds differ, and a request may move
 * between workers. */
static int check_kind(const char *kind, struct spot_err *err)
{
    const struct spot_kernel *const own = *kind ? spot_kernel_find("cuda", err) : NULL;

    if (!*kind || (own && spot_kernel_find(kind, err)))
        return 0;
    return own ? spot_err_set(err, SPOT_EGPU, "the server computes with %s, this device is %s",
                              kind, spot_kernel_name(own))
               : -1;
}

/* If a replica is one member, it loads the whole model before it takes part; otherwise its place
 * determines its layers. */
static int welcome(void *job, struct spot_wire_in *in, struct spot_err *err)
{
    static const struct spot_relay_form alone = { .P = 1, .M = 1 };
    struct replica *const r = job;
    struct told told;
    char dir[4096], adapters[SPOT_ADAPTERS_BYTE];

    spot_get_text(in, dir, sizeof(dir));
    spot_get_text(in, adapters, sizeof(adapters));
    told.hash = spot_get_u64(in);
    told.n_shard = spot_get_u32(in);
    told.type = spot_get_u32(in);
    memset(told.kind, 0, sizeof(told.kind));
    spot_get_text(in, told.kind, sizeof(told.kind));
    told.n_most = spot_get_u32(in);
    told.kv_byte = spot_get_u64(in);
    told.kept_byte = spot_get_u64(in);
    told.P = spot_get_u32(in);
    told.M = spot_get_u32(in);
    told.is_nccl = spot_get_u32(in);
    if (!spot_wire_in_done(in) || told.type >= SPOT_INFER_TYPES || !told.n_most ||
        told.n_most > 1 << 16 || !told.P || !told.M || told.P > SPOT_RELAY_MEMBERS_MAX ||
        told.M > SPOT_RELAY_MEMBERS_MAX || told.is_nccl > (*told.kind != 0))
        return 1;
    if (r->model.dir && is_same(&r->told, &told))
        return 0; /* the same server again, or another one with the same model */
    drop_model(r);
    r->told = told;
    if (check_kind(told.kind, err) || (told.is_nccl && !spot_cuda_nccl(err)) ||
        open_model(r, dir, adapters, err) ||
        spot_relay_check(&r->model.shape, told.P, told.M, err)) {
        drop_model(r);
        return -1;
    }
    return told.P * told.M == 1 ? take_position(r, &alone, err) : 0;
}

/* --- epochs ---------------------------------------------------------------------- */

static void quiesced(void *job)
{
    struct replica *const r = job;

    if (r->relay)
        spot_relay_disconnect(r->relay);
    if (r->loop)
        spot_batch_loop_clear(r->loop);
}

/* Addresses of the others, for the mesh. */
static int enter(struct replica *r, const struct spot_relay_form *form, struct spot_err *err)
{
    struct spot_mesh_peer other[SPOT_RELAY_MEMBERS_MAX];
    size_t n = 0;

    for (uint32_t i = 0; i < form->P * form->M; i++)
        if (i != form->position)
            other[n++] = form->member[i];
    return spot_agent_enter(&r->agent, other, n, err);
}

/* Change to the model of the epoch, which may differ during a rollout. */
static int change_model(struct replica *r, struct spot_wire_in *in, struct spot_err *err)
{
    char dir[4096], adapters[SPOT_ADAPTERS_BYTE];
    uint64_t hash;
    uint32_t n_shard;

    spot_get_text(in, dir, sizeof(dir));
    spot_get_text(in, adapters, sizeof(adapters));
    hash = spot_get_u64(in);
    n_shard = spot_get_u32(in);
    if (in->bad || (r->model.dir && r->told.hash == hash && r->told.n_shard == n_shard))
        return 0; /* a malformed FORM is reported as such */
    drop_model(r);
    r->told.hash = hash;
    r->told.n_shard = n_shard;
    if (!open_model(r, dir, adapters, err))
        return 0;
    drop_model(r);
    return -1;
}

/* A pass failed: a connection broke, or the engine cannot. */
static int stop(struct replica *r, const struct spot_err *why, struct spot_err *err)
{
    r->formed = 0;
    if (why->code == SPOT_EGPU) { /* a device that failed does so again */
        *err = *why;
        return -1;
    }
    if (why->code != SPOT_ESYS && why->code != SPOT_EPREEMPTED)
        spot_agent_set_unfit(&r->agent, true);
    return spot_agent_report(&r->agent, why, err);
}

static int form(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct replica *const r = job;
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_relay_form form;
    struct spot_err why = { 0 };

    if (change_model(r, &in, &why))
        return spot_agent_report_part(&r->agent, SPOT_SERVE_NO_MODEL, &why, err) ? -1 : 1;
    if (spot_relay_form_get(&in, &form) || spot_relay_check(&r->model.shape, form.P, form.M, &why))
        return spot_err_set(err, SPOT_ESYS, "the coordinator sent a malformed FORM");
    if (take_position(r, &form, &why)) {
        spot_agent_set_unfit(&r->agent, true);
        return spot_agent_report(&r->agent, &why, err) ? -1 : 1;
    }
    if (enter(r, &form, &why))
        return spot_agent_report(&r->agent, &why, err) ? -1 : 1;
    spot_relay_enter(r->relay, &form, r->agent.mesh);
    if (spot_relay_connect(r->relay, &why))
        return stop(r, &why, err) ? -1 : 1;
    r->formed = frame->epoch;
    return 0;
}

/* --- sequences -------------------------------------------------------------------- */

/* Reads which members send the pages of a sequence. */
static void expect_pages(struct replica *r, uint64_t number, struct spot_wire_in *in)
{
    uint32_t source[SPOT_RELAY_MEMBERS_MAX] = { 0 };
    const uint32_t n = spot_get_count(in, 4);
    double wait_s;

    for (uint32_t i = 0; i < n && i < SPOT_RELAY_MEMBERS_MAX; i++)
        source[i] = spot_get_u32(in);
    wait_s = spot_get_f64(in);
    if (spot_wire_in_done(in) && n == spot_relay_members(r->relay))
        spot_batch_loop_expect(r->loop, number, source, wait_s);
}

static int on_buddy(struct replica *r, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t epoch = spot_get_u32(&in);
    struct spot_relay_form buddy;
    struct spot_err why = { 0 };

    if (spot_relay_form_get(&in, &buddy) || buddy.P != r->P || buddy.M != r->M)
        return 0;
    return spot_batch_loop_set_buddy(r->loop, &buddy, epoch, &why) ? stop(r, &why, err) : 0;
}

static int on_discard(struct replica *r, uint64_t number, struct spot_err *err)
{
    struct spot_err why = { 0 };

    return spot_relay_discard(r->relay, number, &why) ? stop(r, &why, err) : 0;
}

static int on_give(struct replica *r, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t epoch = spot_get_u32(&in);
    struct spot_relay_form to;
    struct spot_err why = { 0 };

    if (spot_relay_form_get(&in, &to) || to.P != r->P || to.M != r->M)
        return 0;
    return spot_batch_loop_give(r->loop, frame->tag, &to, epoch, &why) ? stop(r, &why, err) : 0;
}

/* Report sequences that cannot be computed; the others continue. */
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
    if (!rc)
        expect_pages(r, frame->tag, &in);
    free(token);
    return rc ? spot_agent_report_part(&r->agent, frame->tag, &why, err) : 0;
}

static bool is_token(const struct spot_batch_out *out)
{
    return !out->cannot && !out->state;
}

static int tell_state(struct replica *r, const struct spot_batch_out *out, struct spot_err *err)
{
    struct spot_buf message = { 0 };

    spot_put_u32(&message, out->token.token.n_cached);
    spot_buf_add(&message, out->state, (size_t)r->model.shape.width * sizeof(*out->state));
    return spot_agent_send(&r->agent, SPOT_MSG_STATE, out->sequence, &message, err);
}

/* Send states, and sequences that cannot be computed further; *n_other: their number. */
static int tell_others(struct replica *r, size_t n, size_t *n_other, struct spot_err *err)
{
    int rc = 0;

    *n_other = 0;
    for (size_t i = 0; !rc && i < n; i++) {
        struct spot_err why = { 0 };

        *n_other += !is_token(&r->out[i]);
        if (r->out[i].state)
            rc = tell_state(r, &r->out[i], err);
        if (!r->out[i].cannot)
            continue;
        (void)spot_err_set(&why, SPOT_EDATA, "%s", r->out[i].cannot);
        rc = spot_agent_report_part(&r->agent, r->out[i].sequence, &why, err);
    }
    return rc;
}

static int tell(struct replica *r, size_t n, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    const struct spot_batch_rates rates = spot_batch_loop_rates(r->loop);
    const struct spot_batch_pages pages = spot_batch_loop_pages(r->loop);
    size_t n_other;

    if (tell_others(r, n, &n_other, err))
        return -1;
    spot_put_u32(&out, pages.used);
    spot_put_u32(&out, pages.kept);
    spot_put_u32(&out, pages.all);
    spot_put_f64(&out, rates.prompt_token_s);
    spot_put_f64(&out, rates.page_byte_per_s);
    spot_put_u64(&out, rates.n_token_paged);
    spot_put_u32(&out, (uint32_t)(n - n_other));
    for (size_t i = 0; i < n; i++) {
        if (!is_token(&r->out[i]))
            continue;
        spot_put_u64(&out, r->out[i].sequence);
        spot_step_token_put(&out, &r->out[i].token);
    }
    return spot_agent_send(&r->agent, SPOT_MSG_TOKENS, 0, &out, err);
}

static int lead(struct replica *r, struct spot_err *err)
{
    while (!spot_batch_loop_is_idle(r->loop) && !spot_mesh_has_order(r->agent.mesh)) {
        struct spot_err why = { 0 };
        size_t n;

        if (spot_batch_loop_step(r->loop, r->out, &n, &why))
            return stop(r, &why, err);
        spot_mesh_progress(r->agent.mesh);
        if (n && tell(r, n, err))
            return -1;
    }
    return 0;
}

static int follow(struct replica *r, struct spot_err *err)
{
    static const double look_s = 0.02; /* for orders */

    while (!spot_mesh_has_order(r->agent.mesh)) {
        struct spot_err why = { 0 };
        bool did;

        if (spot_relay_follow(r->relay, look_s, &did, &why))
            return stop(r, &why, err);
        if (did)
            spot_mesh_progress(r->agent.mesh);
    }
    return 0;
}

static int work(void *job, struct spot_err *err)
{
    struct replica *const r = job;

    if (spot_cuda_check_held(err))
        return -1;
    if (!r->formed || r->formed != r->agent.epoch)
        return 0;
    return r->loop ? lead(r, err) : follow(r, err);
}

static int order(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct replica *const r = job;
    struct spot_buf nothing = { 0 };

    if (frame->epoch != r->agent.epoch || r->formed != frame->epoch)
        return 0;
    if (frame->type == SPOT_MSG_CONTINUE && r->loop)
        return on_continue(r, frame, err);
    if (frame->type == SPOT_MSG_BUDDY && r->loop)
        return on_buddy(r, frame, err);
    if (frame->type == SPOT_MSG_DISCARD && r->loop)
        return on_discard(r, frame->tag, err);
    if (frame->type == SPOT_MSG_MOVE && r->loop)
        return on_give(r, frame, err);
    if (frame->type == SPOT_MSG_FORGET && r->loop)
        spot_batch_loop_drop(r->loop, frame->tag);
    else if (frame->type == SPOT_MSG_ROUND)
        return spot_agent_send(&r->agent, SPOT_MSG_VOTE, frame->tag, &nothing, err);
    return 0;
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
                                                         .work = work,
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
