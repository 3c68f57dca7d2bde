/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE
#include "train/worker_save.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/bundle_file.h"
#include "checkpoint/bundle_io.h"
#include "checkpoint/object_store.h"
#include "comm/wire.h"
#include "common/desk.h"
#include "common/xalloc.h"
#include "train/state_sources.h"
#include "train/train_protocol.h"

struct job {
    struct spot_desk_job job; /* first */
    struct spot_saver *saver;
    struct spot_mesh *mesh;
    uint32_t epoch;
    uint64_t nonce;
    char dir[PATH_MAX];
    struct spot_objects *objects; /* NULL: written to a directory */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
    struct spot_bundle *bundle; /* a copy */
};

struct spot_saver {
    struct spot_desk *desk;
    _Atomic bool stop;
    /* owner of the store found behind this worker's command; used by the thread only */
    uint64_t owner;
    bool is_warned; /* warned that this worker cannot write; used by the thread only */
};

static void free_job(struct spot_desk_job *job)
{
    spot_bundle_free(((struct job *)job)->bundle);
    free(job);
}

/* --- the thread --------------------------------------------------------------- */

struct doing {
    struct spot_saver *saver;
    struct spot_mesh *mesh;
};

/* Report progress: writing counts as work, even if no step runs. */
static bool goes_on(void *user)
{
    const struct doing *const d = user;

    spot_mesh_progress(d->mesh);
    return !d->saver->stop;
}

static void report_written(const struct job *job, const struct spot_written *written)
{
    struct spot_buf out = { 0 };

    spot_put_i64(&out, job->bundle->step);
    spot_put_u64(&out, job->nonce);
    spot_put_u64(&out, written->n_byte);
    spot_put_u64(&out, written->hash.low);
    spot_put_u64(&out, written->hash.high);
    (void)spot_mesh_report(job->mesh, SPOT_MSG_WRITTEN, job->epoch, (uint64_t)job->bundle->index,
                           out.data, out.n, NULL);
    spot_buf_release(&out);
}

/* Send the bundle to the coordinator, whose disk may accept it; if not, the coordinator reports
 * that. */
static void send_instead(const struct job *job)
{
    size_t n_byte;
    uint8_t *const data = spot_bundle_pack(job->bundle, &n_byte, NULL);

    if (data)
        (void)spot_mesh_report(job->mesh, SPOT_MSG_SNAPSHOT, job->epoch,
                               (uint64_t)job->bundle->index, data, n_byte, NULL);
    free(data);
}

/* Write through the command if it leads to the coordinator's store, which is checked once. */
static int write_object(struct spot_saver *s, const struct job *job, struct spot_written *written,
                        struct spot_err *err)
{
    const uint64_t owner = spot_state_sources_owner(job->dir);

    if (s->owner != owner && spot_objects_check_owner(job->objects, owner, err))
        return -1;
    s->owner = owner;
    return spot_bundle_object_write(job->objects, job->nonce, job->bundle, written, err);
}

static int write_somewhere(struct spot_saver *s, const struct job *job,
                           struct spot_written *written, struct spot_err *err)
{
    struct doing doing = { s, job->mesh };

    return job->objects
               ? write_object(s, job, written, err)
               : spot_bundle_file_write(job->dir, job->bundle, goes_on, &doing, written, err);
}

static void warn_once(struct spot_saver *s, const struct job *job, const struct spot_err *why)
{
    if (job->warn && !s->is_warned)
        job->warn("this worker sends its state to the coordinator to be made durable: %s",
                  why->msg);
    s->is_warned = true;
}

static void work(struct spot_desk_job *desk_job)
{
    struct job *const job = (struct job *)desk_job;
    struct spot_saver *const s = job->saver;
    struct spot_written written;
    struct spot_err why = { 0 };

    if (s->stop)
        return;
    if (!write_somewhere(s, job, &written, &why)) {
        s->is_warned = false;
        report_written(job, &written);
    } else if (!s->stop) {
        warn_once(s, job, &why);
        send_instead(job);
    }
    spot_bundle_free(job->bundle);
    job->bundle = NULL;
}

/* --- the worker ---------------------------------------------------------------- */

static struct spot_saver *start(struct spot_err *err)
{
    struct spot_saver *const s = spot_xcalloc(1, sizeof(*s));

    s->desk = spot_desk_new(err);
    if (s->desk)
        return s;
    free(s);
    return NULL;
}

static struct spot_bundle *copy(const struct spot_shape *shape, const struct spot_bundle *from,
                                struct spot_err *err)
{
    struct spot_bundle *const b = spot_bundle_new(shape, from->index, err);

    if (!b)
        return NULL;
    b->step = from->step;
    memcpy(b->exponent, from->exponent, sizeof(b->exponent));
    for (int p = 0; p < SPOT_PLANES; p++)
        memcpy(b->plane[p], from->plane[p], b->arena.n_elem * sizeof(float));
    return b;
}

int spot_saver_add(struct spot_saver **saver, const struct spot_save_order *order,
                   const struct spot_shape *shape, const struct spot_bundle *bundle,
                   struct spot_err *err)
{
    struct job *job;

    if (!*saver && !(*saver = start(err)))
        return -1;
    spot_desk_run((*saver)->desk);
    job = spot_xcalloc(1, sizeof(*job));
    *job = (struct job){
        .job = { .work = work, .done = free_job },
        .saver = *saver,
        .mesh = order->mesh,
        .epoch = order->epoch,
        .nonce = order->nonce,
        .objects = order->objects,
        .warn = order->warn,
    };
    snprintf(job->dir, sizeof(job->dir), "%s", order->dir);
    job->bundle = copy(shape, bundle, err);
    if (!job->bundle) {
        free(job);
        return -1;
    }
    spot_desk_put((*saver)->desk, &job->job);
    return 0;
}

bool spot_saver_stops(const struct spot_saver *s)
{
    return s && s->stop;
}

void spot_saver_stop(struct spot_saver **saver)
{
    struct spot_saver *const s = *saver;

    if (!s)
        return;
    s->stop = true;
    spot_desk_free(s->desk);
    free(s);
    *saver = NULL;
}
