/* SPDX-License-Identifier: MIT */
#include "train/worker.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/bundle_io.h"
#include "common/clock.h"
#include "common/memory.h"
#include "common/utf8.h"
#include "common/version.h"
#include "common/xalloc.h"
#include "engine/backend.h"
#include "train/pipeline.h"
#include "train/private_dir.h"
#include "train/protocol.h"
#include "train/worker_state.h"

/* A signal handler has no other way to reach the worker. */
static struct spot_mesh *_Atomic noticed_mesh;
static _Atomic bool was_noticed, has_joined;

void spot_worker_notice(void)
{
    struct spot_mesh *mesh;

    was_noticed = true;
    mesh = noticed_mesh;
    if (mesh)
        spot_mesh_notice(mesh);
}

bool spot_worker_has_joined(void)
{
    return has_joined;
}

/* --- what is held -------------------------------------------------------- */

/* Updates that are still on a device, brought into the bundles. */
static int sync_stages(struct spot_worker *w, struct spot_err *err)
{
    struct spot_stage *mirror;

    if (w->stage && spot_stage_sync(w->stage, SPOT_ALL_BUNDLES, err))
        return -1;
    for (int b = 0; (mirror = spot_worker_next_mirror(w, &b));)
        if (spot_stage_sync(mirror, SPOT_ALL_BUNDLES, err))
            return -1;
    return 0;
}

static void drop_stage(struct spot_worker *w)
{
    spot_worker_close_comm(w);
    if (w->mesh)
        spot_mesh_keep(w->mesh); /* sums on their way */
    spot_stage_free(w->stage);
    w->stage = NULL;
    spot_worker_drop_mirrors(w);
}

static void drop_bundles(struct spot_worker *w)
{
    drop_stage(w);
    for (int b = 0; b < w->n_bundle; b++)
        spot_bundle_free(w->bundle[b]);
    free(w->bundle);
    free(w->bundle_elem);
    free(w->loss);
    free(w->exponent);
    w->exponent = NULL;
    w->bundle = NULL;
    w->bundle_elem = NULL;
    w->loss = NULL;
    w->n_bundle = 0;
}

static void put_inventory(struct spot_buf *out, const struct spot_worker *w)
{
    uint32_t n = 0;

    for (int b = 0; b < w->n_bundle; b++)
        n += w->bundle[b] != NULL;
    spot_put_u32(out, n);
    for (int b = 0; b < w->n_bundle; b++)
        if (w->bundle[b]) {
            spot_put_u32(out, (uint32_t)b);
            spot_put_i64(out, w->bundle[b]->step);
        }
}

int spot_worker_tell(struct spot_worker *w, uint32_t type, uint64_t tag, struct spot_buf *out_take,
                     struct spot_err *err)
{
    const int rc = spot_mesh_tell(w->mesh, type, w->epoch, tag, out_take->data, out_take->n, err);

    spot_buf_release(out_take);
    return rc;
}

/* --- joining ------------------------------------------------------------- */

static void put_kernels(struct spot_buf *out, const char *backend)
{
    char list[SPOT_KERNELS_MAX] = ",";
    const char *name;
    bool runs_here;

    for (size_t i = 0; (name = spot_kernel_list(i, backend, &runs_here)); i++)
        if (runs_here && strlen(list) + strlen(name) + 2 < sizeof(list)) {
            strcat(list, name);
            strcat(list, ",");
        }
    spot_put_text(out, list);
}

static int say_hello(struct spot_worker *w, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    char name[SPOT_NAME_MAX];

    snprintf(name, sizeof(name), "%ld", (long)getpid());
    spot_put_u32(&out, SPOT_PROTOCOL);
    spot_put_text(&out, spot_version());
    spot_put_text(&out, w->options->name ? w->options->name : name);
    spot_put_text(&out, spot_mesh_address(w->mesh));
    spot_put_text(&out, w->options->domain ? w->options->domain : "");
    put_kernels(&out, w->options->backend);
    spot_put_u64(&out, w->job);
    spot_put_u64(&out, w->key);
    put_inventory(&out, w);
    return spot_worker_tell(w, SPOT_MSG_HELLO, 0, &out, err);
}

/* State of another job is of no use in this one, nor that of another run which is not resumed. */
static int take_config(struct spot_worker *w, const struct spot_job_config *config, bool keeps,
                       struct spot_err *err)
{
    if (keeps && w->job == spot_job_id(config)) {
        w->config = *config;
        return 0;
    }
    if (spot_job_config_check(config, err))
        return -1;
    drop_bundles(w);
    w->config = *config;
    w->job = spot_job_id(config);
    w->n_bundle = spot_shape_bundles(&config->shape);
    w->bundle = spot_xcalloc((size_t)w->n_bundle, sizeof(struct spot_bundle *));
    w->bundle_elem = spot_xcalloc((size_t)w->n_bundle, sizeof(*w->bundle_elem));
    for (int b = 0; b < w->n_bundle; b++) {
        struct spot_arena arena;

        spot_arena_of(&config->shape, b, &arena);
        w->bundle_elem[b] = arena.n_elem;
    }
    w->loss = spot_xcalloc((size_t)spot_job_microbatches(config), sizeof(*w->loss));
    w->exponent = spot_xcalloc((size_t)w->n_bundle, sizeof(*w->exponent));
    return 0;
}

static int on_welcome(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_job_config config;
    double lease_s;
    bool keeps;

    if (frame->type == SPOT_MSG_REFUSED) {
        char why[SPOT_WHY_MAX];

        spot_get_text(&in, why, sizeof(why));
        spot_utf8_make_plain(why);
        return spot_err_set(err, SPOT_EINFEASIBLE, "refused: %s", why);
    }
    w->id = spot_get_u32(&in);
    w->key = spot_get_u64(&in);
    lease_s = spot_get_f64(&in);
    keeps = spot_get_u32(&in) != 0;
    spot_job_config_get(&in, &config);
    if (frame->type != SPOT_MSG_WELCOME || !spot_wire_in_done(&in))
        return spot_err_set(err, SPOT_ESYS, "%s is no coordinator of this version",
                            w->options->join);
    if (config.comm == SPOT_COMM_NCCL && !spot_cuda_nccl(err))
        return -1;
    w->lease_s = lease_s;
    if (lease_s > 0)
        spot_mesh_lease(w->mesh, lease_s);
    spot_mesh_own(w->mesh, w->key, w->id);
    return take_config(w, &config, keeps, err);
}

static int join_once(struct spot_worker *w, struct spot_err *err)
{
    const struct spot_mesh_config mesh = {
        .join = w->options->join,
        .tls = w->tls,
        .payload_max = SPOT_PAYLOAD_MAX,
        .heartbeat_s = 0.25,
        .type_heartbeat = SPOT_MSG_HEARTBEAT,
        .type_notice = SPOT_MSG_NOTICE,
        .type_revoke = SPOT_MSG_QUIESCE,
        .type_ping = SPOT_MSG_PING,
        .type_pong = SPOT_MSG_PONG,
        .type_hello = SPOT_MSG_PEER,
        .type_probe = SPOT_MSG_KNOCK,
    };
    struct spot_frame *frame;
    int rc;

    w->epoch = 0;
    w->mesh = spot_mesh_open(&mesh, err);
    if (!w->mesh || say_hello(w, err))
        return -1;
    frame = spot_mesh_order(w->mesh, 5, err);
    if (!frame)
        return -1;
    rc = on_welcome(w, frame, err);
    free(frame);
    if (!rc) {
        has_joined = true;
        noticed_mesh = w->mesh;
        if (was_noticed)
            spot_mesh_notice(w->mesh);
    }
    return rc;
}

static void leave_mesh(struct spot_worker *w)
{
    noticed_mesh = NULL;
    free(w->pending);
    w->pending = NULL;
    spot_mesh_close(w->mesh);
    w->mesh = NULL;
}

/* A coordinator that listens nowhere else has no successor: where nobody listens, it is dead. */
static bool is_abandoned(const struct spot_worker *w, const struct spot_err *err)
{
    return w->options->private_dir && has_joined &&
           (err->sys_errno == ECONNREFUSED || err->sys_errno == ENOENT);
}

/* Try until somebody answers or the time is over. A refusal is an answer. */
static int join(struct spot_worker *w, struct spot_err *err)
{
    const double until_s = spot_clock_s() + w->options->join_timeout_s;

    for (;;) {
        if (!join_once(w, err))
            return 0;
        leave_mesh(w);
        if (was_noticed)
            return spot_err_set(err, SPOT_EPREEMPTED, "told to leave while joining");
        if (err->code != SPOT_ESYS || spot_clock_s() > until_s || is_abandoned(w, err))
            return -1;
        spot_clock_sleep(0.05);
    }
}

/* --- a new epoch --------------------------------------------------------- */

struct spot_stage_config spot_worker_stage_config(struct spot_worker *w, int begin, int end,
                                                  int n_slot)
{
    return (struct spot_stage_config){
        .shape = w->config.shape,
        .bundle_begin = begin,
        .bundle_end = end,
        .micro_batch = (int)w->config.micro_batch,
        .n_slot = n_slot,
        .n_microbatch = (int)spot_job_microbatches(&w->config),
        .n_thread = w->options->n_thread,
        .recompute = w->options->recompute,
        .kernel = spot_kernel_find(w->config.kernel, NULL),
        .group = n_slot ? spot_worker_group(w) : (struct spot_stage_group){ 0 },
    };
}

/* This worker's own stage. */
static struct spot_stage_config own_config(struct spot_worker *w)
{
    const struct spot_form *const f = &w->form;
    const struct spot_form_place at = spot_form_place(f, w->position);

    return spot_worker_stage_config(w, (int)f->stage[at.p], (int)f->stage[at.p + 1],
                                    spot_pipeline_slots(f, at.d, at.p));
}

/* Refuse before a byte moves what would not fit; what is held already is there to be used. */
static int check_room(struct spot_worker *w, struct spot_err *err)
{
    size_t limit_byte = spot_memory_available();
    struct spot_stage_config config;

    if (w->position < 0)
        return 0;
    config = own_config(w);
    if (!config.kernel)
        return 0; /* new_stage tells */
    for (int b = config.bundle_begin; b < config.bundle_end; b++)
        if (w->bundle[b] && __builtin_add_overflow(
                                limit_byte, spot_bundle_memory(&w->bundle[b]->arena), &limit_byte))
            limit_byte = SIZE_MAX;
    if (!strncmp(w->config.kernel, "cuda", 4))
        limit_byte = 0; /* the device's own */
    w->is_unfit = spot_stage_check(&config, limit_byte, err) != 0;
    return w->is_unfit ? -1 : 0;
}

struct spot_stage *spot_worker_new_stage(struct spot_worker *w, int begin, int end, int n_slot,
                                         int64_t step, struct spot_err *err)
{
    const struct spot_stage_config config = spot_worker_stage_config(w, begin, end, n_slot);

    if (!config.kernel) {
        spot_kernel_find(w->config.kernel, err);
        return NULL;
    }
    for (int b = begin; b < end; b++)
        if (!w->bundle[b] || w->bundle[b]->step != step) {
            spot_err_set(err, SPOT_EDATA, "bundle %d of step %lld did not come", b,
                         (long long)step);
            return NULL;
        }
    return spot_stage_new(&config, &w->bundle[begin], err);
}

static int build_stages(struct spot_worker *w, struct spot_err *err)
{
    if (w->position >= 0) {
        const struct spot_stage_config own = own_config(w);

        w->stage = spot_worker_new_stage(w, own.bundle_begin, own.bundle_end, own.n_slot,
                                         w->form.step, err);
        w->is_unfit = !w->stage;
        if (!w->stage)
            return -1;
    }
    return spot_worker_build_mirrors(w, err);
}

/* Say what went wrong with an epoch. A revoked one needs no word: the next order says all. A
 * machine that cannot do its part would fail again: it says so and gives up. */
int spot_worker_report(struct spot_worker *w, const struct spot_err *why, struct spot_err *err)
{
    struct spot_buf out = { 0 };

    if (why->code == SPOT_EPREEMPTED)
        return 0;
    if (why->code == SPOT_EGPU) { /* what the device held is gone, as after a kill */
        *err = *why;
        return -1;
    }
    if (w->cannot_mirror) {
        w->cannot_mirror = false;
        spot_put_text(&out, why->msg);
        return spot_worker_tell(w, SPOT_MSG_FAILED, 1, &out, err);
    }
    spot_put_text(&out, why->msg);
    if (why->code == SPOT_ESYS && !w->is_unfit) {
        spot_worker_put_suspects(w, &out);
        return spot_worker_tell(w, SPOT_MSG_BROKEN, 0, &out, err);
    }
    if (spot_worker_tell(w, SPOT_MSG_FAILED, 0, &out, err))
        return -1;
    return w->is_unfit ? spot_err_set(err, SPOT_EINFEASIBLE, "cannot go on: %.400s", why->msg) : 0;
}

static int on_form(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_err why = { 0 };
    int rc;

    if (sync_stages(w, err))
        return -1;
    drop_stage(w);
    spot_form_release(&w->form);
    w->epoch = frame->epoch;
    w->position = -1;
    if (spot_form_get(&w->form, frame->data, frame->n_byte,
                      &(struct spot_form_bounds){ (uint32_t)w->n_bundle,
                                                  spot_job_microbatches(&w->config),
                                                  w->config.shape.n_shard },
                      err))
        return -1;
    w->position = spot_form_position(&w->form, w->id);
    rc = spot_mesh_enter(w->mesh, w->epoch, w->key, w->id, w->form.peer, w->form.n_peer, &why);
    if (!rc)
        rc = check_room(w, &why);
    if (!rc)
        rc = spot_worker_check_mirrors(w, &why);
    if (!rc)
        rc = spot_worker_move(w, &why);
    if (!rc)
        rc = build_stages(w, &why);
    if (!rc)
        rc = spot_worker_open_comm(w, &why);
    if (rc)
        return spot_worker_report(w, &why, err);
    return spot_mesh_tell(w->mesh, SPOT_MSG_READY, w->epoch, 0, NULL, 0, err);
}

/* --- orders --------------------------------------------------------------- */

static int on_save(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t n = spot_get_count(&in, 4);

    if (sync_stages(w, err))
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t b = spot_get_u32(&in);
        uint8_t *data;
        size_t n_byte;
        int rc;

        if (b >= (uint32_t)w->n_bundle || !w->bundle[b] ||
            w->bundle[b]->step != (int64_t)frame->tag)
            continue; /* the coordinator sees that it does not come */
        data = spot_bundle_pack(w->bundle[b], &n_byte, err);
        if (!data)
            return -1;
        rc = spot_mesh_tell(w->mesh, SPOT_MSG_SNAPSHOT, frame->epoch, b, data, n_byte, err);
        free(data);
        if (rc)
            return -1;
    }
    return 0;
}

static int on_quiesce(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_buf out = { 0 };

    w->epoch = frame->epoch;
    spot_worker_close_comm(w);
    spot_worker_forget_redo(w);
    put_inventory(&out, w);
    spot_worker_put_suspects(w, &out);
    return spot_worker_tell(w, SPOT_MSG_INVENTORY, 0, &out, err);
}

static int on_order(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    switch (frame->type) {
    case SPOT_MSG_QUIESCE:
        return on_quiesce(w, frame, err);
    case SPOT_MSG_FORM:
        return on_form(w, frame, err);
    case SPOT_MSG_HAND:
        return spot_worker_hand(w, frame, err);
    case SPOT_MSG_STEP:
        return spot_worker_step(w, frame, err);
    case SPOT_MSG_COMMIT:
        return spot_worker_commit(w, frame, err);
    case SPOT_MSG_REDO:
        return spot_worker_redo(w, frame, err);
    case SPOT_MSG_PROBE:
        return spot_worker_probe(w, frame, err);
    case SPOT_MSG_SAVE:
        return on_save(w, frame, err);
    case SPOT_MSG_REACH:
        return spot_worker_reach(w, frame, err);
    case SPOT_MSG_ASIDE:
    case SPOT_MSG_DISMISSED:
        return spot_worker_set_aside(w, frame, err);
    case SPOT_MSG_FINISH:
        w->is_done = true;
        return 0;
    case SPOT_MSG_LEAVE:
        return spot_err_set(err, SPOT_EPREEMPTED,
                            was_noticed ? "left after a notice; nothing is lost"
                                        : "left: the job was stopped, its state is safe");
    default:
        return 0; /* a RESTORE of an epoch that is over */
    }
}

/* --- the loop ------------------------------------------------------------ */

/* Obey until the job ends or the coordinator is gone. */
static int obey(struct spot_worker *w, struct spot_err *err)
{
    while (!w->is_done) {
        struct spot_frame *frame = w->pending;
        int rc;

        w->pending = NULL;
        if (!frame)
            frame = spot_mesh_order(w->mesh, -1, err);
        if (!frame)
            return -1;
        rc = on_order(w, frame, err);
        free(frame);
        if (rc)
            return -1;
    }
    return 0;
}

/* Frames of megabytes come and go in every step: given back to the kernel in between, their pages
 * would be faulted in anew each time, which was half of what a buddy costs. */
static void keep_pages(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the largest that glibc takes */
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

int spot_worker_run(const struct spot_worker_options *options, struct spot_err *err)
{
    struct spot_worker w = { .options = options, .position = -1 };
    int rc;

    keep_pages();
    if (!strcmp(options->backend, "cuda") && !spot_kernel_find("cuda", err))
        return -1;
    if (options->key_file && !(w.tls = spot_tls_context_load(options->key_file, err)))
        return -1;
    for (;;) {
        rc = join(&w, err);
        if (rc)
            break;
        rc = obey(&w, err);
        if (!rc || err->code != SPOT_ESYS || spot_worker_was_dismissed() ||
            !spot_mesh_is_orphan(w.mesh))
            break;
        if (sync_stages(&w, err))
            break;
        spot_worker_forget_redo(&w);
        leave_mesh(&w); /* the state is kept: a coordinator that comes back can use it */
        drop_stage(&w);
    }
    if (rc && err->code == SPOT_ESYS && was_noticed)
        spot_err_set(err, SPOT_EPREEMPTED, "left after a notice");
    leave_mesh(&w);
    if (options->private_dir)
        spot_private_dir_clear(options->private_dir);
    drop_bundles(&w);
    spot_form_release(&w.form);
    spot_tls_context_free(w.tls);
    return rc;
}
