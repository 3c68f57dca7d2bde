/* SPDX-License-Identifier: MIT */
#include "train/worker.h"

#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/bundle_file.h"
#include "checkpoint/bundle_io.h"
#include "checkpoint/object_store.h"
#include "cluster/private_dir.h"
#include "cluster/restart.h"
#include "common/xalloc.h"
#include "engine/backend.h"
#include "train/model_wire.h"
#include "train/self_test.h"
#include "train/train_protocol.h"
#include "train/worker_state.h"

static bool has_joined, was_dismissed, is_for_serving;

void spot_worker_notice(void)
{
    spot_agent_notice();
}

bool spot_worker_has_joined(void)
{
    return has_joined;
}

bool spot_worker_is_for_serving(void)
{
    return is_for_serving;
}

bool spot_worker_was_dismissed(void)
{
    return was_dismissed;
}

/* --- held bundles -------------------------------------------------------- */

/* Download updates that are still on a device into the bundles. */
int spot_worker_sync_mirrors(struct spot_worker *w, struct spot_err *err)
{
    struct spot_stage *mirror;

    if (spot_cuda_check_held(err))
        return -1;
    for (int b = 0; (mirror = spot_worker_next_mirror(w, &b));)
        if (spot_stage_sync(mirror, SPOT_ALL_BUNDLES, err))
            return -1;
    return 0;
}

int spot_worker_sync(struct spot_worker *w, struct spot_err *err)
{
    if (spot_cuda_check_held(err) || (w->stage && spot_stage_sync(w->stage, SPOT_ALL_BUNDLES, err)))
        return -1;
    return spot_worker_sync_mirrors(w, err);
}

void spot_worker_leave_place(struct spot_worker *w)
{
    spot_worker_close_comm(w);
    if (w->agent.mesh)
        spot_mesh_keep(w->agent.mesh); /* sums may still be in transit */
    spot_worker_drop_mirrors(w);
}

void spot_worker_drop_stage(struct spot_worker *w)
{
    spot_worker_leave_place(w);
    spot_stage_free(w->stage);
    w->stage = NULL;
}

static void drop_bundles(struct spot_worker *w)
{
    spot_worker_drop_stage(w);
    for (int b = 0; b < w->n_bundle; b++)
        spot_bundle_free(w->bundle[b]);
    free(w->bundle);
    free(w->bundle_elem);
    free(w->stage_on);
    w->stage_on = NULL;
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

/* --- joining ------------------------------------------------------------- */

static void put_kernels(struct spot_buf *out, const char *backend)
{
    char list[SPOT_KERNELS_MAX] = ",";
    const char *name;
    bool runs_here;

    for (size_t i = 0; (name = spot_kernel_list(i, backend, &runs_here)); i++)
        if (runs_here &&
            strlen(list) + strlen(name) + sizeof(SPOT_SELF_TEST_FAILED) + 2 < sizeof(list)) {
            strcat(list, name);
            strcat(list, spot_self_test_passes(name) ? "," : SPOT_SELF_TEST_FAILED ",");
        }
    spot_put_text(out, list);
}

/* Runs before connecting: a connected, silent worker would block others. */
static void test_kernels(const char *backend)
{
    const char *name;
    bool runs_here;

    for (size_t i = 0; (name = spot_kernel_list(i, backend, &runs_here)); i++)
        if (runs_here)
            (void)spot_self_test_passes(name);
}

static void hello(void *job, struct spot_buf *out)
{
    const struct spot_worker *const w = job;

    put_kernels(out, w->options->backend);
    spot_put_text(out, spot_cuda_device());
    spot_put_u64(out, w->job);
    put_inventory(out, w);
}

/* The job was changed after a step: drop state of later steps, computed without the change. */
static int forget_beyond(struct spot_worker *w, int64_t step, struct spot_err *err)
{
    if (spot_worker_sync(w, err))
        return -1;
    spot_worker_drop_stage(w);
    for (int b = 0; b < w->n_bundle; b++)
        if (w->bundle[b] && w->bundle[b]->step > step) {
            spot_bundle_free(w->bundle[b]);
            w->bundle[b] = NULL;
        }
    return 0;
}

/* Drop state of another job, or of another run that is not resumed. */
static int take_config(struct spot_worker *w, const struct spot_job_config *config, bool keeps,
                       struct spot_err *err)
{
    const int64_t shared = keeps ? spot_job_shared_steps(config, w->job) : -1;

    if (spot_job_config_check(config, err))
        return -1;
    if (shared >= 0) {
        if (shared < INT64_MAX && forget_beyond(w, shared, err))
            return -1;
        w->config = *config;
        w->job = spot_job_path_id(config);
        return 0;
    }
    drop_bundles(w);
    w->config = *config;
    w->job = spot_job_path_id(config);
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

static int welcome(void *job, struct spot_wire_in *in, struct spot_err *err)
{
    struct spot_worker *const w = job;
    const bool keeps = spot_get_u32(in) != 0;
    struct spot_job_config config;

    spot_job_config_get(in, &config);
    spot_state_sources_release(&w->sources);
    spot_state_sources_get(in, &w->sources);
    if (!spot_wire_in_done(in))
        return 1;
    if (config.comm == SPOT_COMM_NCCL && !spot_cuda_nccl(err))
        return -1;
    return take_config(w, &config, keeps, err);
}

/* If a device has failed, its state is lost, as after a kill. */
int spot_worker_report(struct spot_worker *w, const struct spot_err *why, struct spot_err *err)
{
    if (why->code == SPOT_EGPU) {
        *err = *why;
        return -1;
    }
    if (why->code != SPOT_EPREEMPTED && w->cannot_mirror) {
        w->cannot_mirror = false;
        return spot_agent_report_part(&w->agent, 1, why, err);
    }
    return spot_agent_report(&w->agent, why, err);
}

/* --- orders --------------------------------------------------------------- */

static int send_snapshot(struct spot_worker *w, uint32_t epoch, uint32_t b, struct spot_err *err)
{
    size_t n_byte;
    uint8_t *const data = spot_bundle_pack(w->bundle[b], &n_byte, err);
    int rc;

    if (!data)
        return -1;
    rc = spot_mesh_report(w->agent.mesh, SPOT_MSG_SNAPSHOT, epoch, b, data, n_byte, err);
    free(data);
    return rc;
}

static int report_missing(struct spot_worker *w, int64_t step, uint32_t epoch, uint32_t b,
                          struct spot_err *err)
{
    struct spot_buf out = { 0 };
    int rc;

    spot_put_i64(&out, step);
    for (int i = 0; i < 4; i++)
        spot_put_u64(&out, 0);
    rc = spot_mesh_report(w->agent.mesh, SPOT_MSG_WRITTEN, epoch, b, out.data, out.n, err);
    spot_buf_release(&out);
    return rc;
}

/* A bundle whose copy does not fit into memory is encoded at once, while all members wait. */
static int save(struct spot_worker *w, const struct spot_save_order *order, uint32_t b,
                struct spot_err *err)
{
    if (*order->dir && !spot_saver_add(&w->saver, order, &w->config.shape, w->bundle[b], NULL))
        return 0;
    return send_snapshot(w, order->epoch, b, err);
}

static int on_save(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_wire_in which;
    char dir[PATH_MAX];
    struct spot_save_order order = {
        .mesh = w->agent.mesh, .epoch = frame->epoch, .dir = dir, .warn = w->options->warn
    };
    const uint32_t n = spot_get_count(&in, 4);

    if (spot_worker_sync(w, err))
        return -1;
    which = in;
    spot_get_bytes(&in, (size_t)n * 4);
    spot_get_text(&in, dir, sizeof(dir));
    order.nonce = spot_get_u64(&in);
    if (spot_state_sources_owner(dir))
        order.objects = w->objects;
    if (!order.objects && !spot_bundle_file_sees(dir, order.nonce))
        *dir = '\0';
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t b = spot_get_bundle(&which, (uint32_t)w->n_bundle);
        const bool is_held = w->bundle[b] && w->bundle[b]->step == (int64_t)frame->tag;

        if (which.bad)
            return spot_err_set(err, SPOT_ESYS, "malformed order to save from the coordinator");
        if (is_held ? save(w, &order, b, err)
                    : report_missing(w, (int64_t)frame->tag, frame->epoch, b, err))
            return -1;
    }
    return 0;
}

static void quiesced(void *job)
{
    struct spot_worker *const w = job;

    spot_worker_close_comm(w);
    spot_worker_forget_redo(w);
}

static void report(void *job, struct spot_buf *out)
{
    put_inventory(out, job);
}

static int order(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_worker *const w = job;

    switch (frame->type) {
    case SPOT_MSG_PRECOPY:
        return spot_worker_precopy(w, frame, err);
    case SPOT_MSG_ROUND:
        return spot_worker_step(w, frame, err);
    case SPOT_MSG_VALIDATE:
        return spot_worker_validate(w, frame, err);
    case SPOT_MSG_CONFIRM:
        return spot_worker_confirm(w, frame, err);
    case SPOT_MSG_COMMIT:
        return spot_worker_commit(w, frame, err);
    case SPOT_MSG_REDO:
        return spot_worker_redo(w, frame, err);
    case SPOT_MSG_PROBE:
        return spot_worker_probe(w, frame, err);
    case SPOT_MSG_SAVE:
        return on_save(w, frame, err);
    case SPOT_MSG_SHOW:
        return spot_worker_show(w, frame, err);
    default:
        return 0; /* a RESTORE of an epoch that is over */
    }
}

static int orphaned(void *job, struct spot_err *err)
{
    if (spot_worker_sync(job, err))
        return -1;
    spot_worker_forget_redo(job);
    return 0;
}

static void leaving(void *job)
{
    struct spot_worker *const w = job;

    spot_saver_stop(&w->saver);
}

static void left(void *job)
{
    spot_worker_drop_stage(job);
}

/* --- the worker ------------------------------------------------------------ */

/* Frames of megabytes are allocated and freed in every step. If the kernel got them back in
 * between, their pages would fault each time, which was half of the cost of a buddy. */
static void keep_pages(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the largest that glibc takes */
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

/* Waiting for a user's command counts as work. */
static bool is_wanted(void *user)
{
    struct spot_worker *const w = user;

    spot_mesh_progress(w->agent.mesh);
    return !spot_saver_stops(w->saver);
}

int spot_worker_run(const struct spot_worker_options *options, struct spot_err *err)
{
    static const struct spot_agent_workload workload = { .hello = hello,
                                                         .welcome = welcome,
                                                         .report = report,
                                                         .quiesced = quiesced,
                                                         .form = spot_worker_form,
                                                         .order = order,
                                                         .orphaned = orphaned,
                                                         .leaving = leaving,
                                                         .left = left };
    const struct spot_agent_options agent = { .join = options->join,
                                              .key_file = options->key_file,
                                              .name = options->name,
                                              .domain = options->domain,
                                              .is_private = options->private_dir != NULL,
                                              .join_timeout_s = options->join_timeout_s,
                                              .warn = options->warn };
    struct spot_worker w = { .options = options, .position = -1 };
    int rc;

    const struct spot_state_command command = { .command = options->state_command,
                                                .limit_s = options->state_timeout_s,
                                                .goes_on = is_wanted,
                                                .user = &w };

    keep_pages();
    spot_cuda_choose(options->device);
    if (!strcmp(options->backend, "cuda") && !spot_kernel_find("cuda", err))
        return -1;
    w.agent = (struct spot_agent){ .options = &agent, .workload = &workload, .job = &w };
    w.objects = options->state_command ? spot_objects_new(&command) : NULL;
    spot_self_test_take(spot_first_words());
    test_kernels(options->backend);
    rc = spot_agent_run(&w.agent, err);
    has_joined |= w.agent.has_joined;
    was_dismissed |= w.agent.was_dismissed;
    is_for_serving = !strcmp(w.agent.other, "serve");
    if (options->private_dir)
        spot_private_dir_clear(options->private_dir);
    drop_bundles(&w);
    spot_state_sources_release(&w.sources);
    spot_form_release(&w.form);
    spot_objects_free(w.objects);
    return rc;
}
