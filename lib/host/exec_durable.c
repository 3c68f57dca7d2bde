/* SPDX-License-Identifier: MIT */
/* Commits on the coordinator's disk: from time to time the newest one is fetched piece by piece
 * from its holders. A round may begin with it if no member holds another. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/dir_lock.h"
#include "host/exec_job_state.h"

static const double retry_s = 5; /* pause after a failed copy */

/* --- the directory --------------------------------------------------------------------------- */

static int open_dir(struct spot_exec_job *job, const char *dir, struct spot_err *err)
{
    struct spot_exec_disk *const d = &job->disk;

    if (spot_dir_make(dir, err) || (d->lock_fd = spot_dir_lock(dir, err)) < 0)
        return -1;
    d->store = spot_state_store_open(d->lock_fd, dir, UINT64_MAX, true, err);
    return d->store ? 0 : -1;
}

int spot_exec_disk_open(struct spot_exec_job *job, struct spot_err *err)
{
    const char *const dir = job->options->state;

    job->disk.lock_fd = -1;
    if (!dir)
        return 0;
    if (open_dir(job, dir, err))
        return -1;
    if (spot_state_store_damaged(job->disk.store))
        job->options->group.warn(
            "'%.200s': a power failure may have damaged %zu of its states, which "
            "are removed; %zu are whole",
            dir, spot_state_store_damaged(job->disk.store),
            spot_state_store_count(job->disk.store));
    if (spot_state_store_count(job->disk.store) && !spot_group_resumes(job->group))
        return spot_err_set(err, SPOT_EUSAGE,
                            "%.200s has the commits of a job: --resume continues it", dir);
    return spot_exec_bucket_open(job, err);
}

static void end_pull(struct spot_exec_disk *d)
{
    spot_state_pull_free(d->pull);
    d->pull = NULL;
}

void spot_exec_disk_close(struct spot_exec_job *job)
{
    end_pull(&job->disk);
    spot_exec_bucket_close(job);
    spot_state_store_free(job->disk.store);
    if (job->disk.lock_fd >= 0)
        close(job->disk.lock_fd);
}

void spot_exec_disk_quiesced(struct spot_exec_job *job)
{
    end_pull(&job->disk);
    job->disk.target.is_set = false;
}

bool spot_exec_disk_holds(const struct spot_exec_job *job, const struct spot_exec_point *point,
                          uint32_t place)
{
    const struct spot_state_record *const record =
        job->disk.store ? spot_state_store_find(job->disk.store, &point->id, place) : NULL;

    return record && record->world == point->world && !strcmp(record->run_id, job->run_id);
}

/* --- a copy --- */

static int say(void *user, uint32_t type, uint64_t tag, struct spot_buf *out_take,
               struct spot_err *err)
{
    struct spot_peer *const peer = user;

    (void)err;
    spot_peer_send(peer, type, tag, out_take->data, out_take->n);
    spot_buf_release(out_take);
    return 0;
}

static void put_durable(const struct spot_exec_job *job, struct spot_jw *jw)
{
    spot_jw_str(jw, "where", "disk");
    if (job->disk.newest.agreed_s > 0)
        spot_jw_real(jw, "lag_s", spot_clock_s() - job->disk.newest.agreed_s);
    spot_jw_int(jw, "moved_byte", (int64_t)job->disk.newest.moved_byte);
}

static int complete(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_disk *const d = &job->disk;

    d->newest = d->target;
    d->target.is_set = d->has_failed = false;
    d->next_s = spot_clock_s() + job->options->state_every_s;
    for (size_t i = spot_state_store_count(d->store); i-- > 0;)
        if (spot_state_id_compare(&spot_state_store_at(d->store, i)->id, &d->newest.id))
            spot_state_store_drop(d->store, i);
    spot_state_store_sweep(d->store);
    job->states.has_news = true;
    return job->bucket ? 0
                       : spot_exec_log_step(job, "durable", d->newest.id.step, put_durable, err);
}

static void failed(struct spot_exec_job *job, const char *why)
{
    end_pull(&job->disk);
    job->disk.target.is_set = false;
    job->disk.has_failed = true;
    job->disk.next_s = spot_clock_s() + retry_s;
    job->states.has_news = true;
    job->options->group.warn("a commit cannot be copied to %s: %s", job->options->state, why);
}

/* Request the next missing place; if there is none, the copy is complete. */
static int ask_next(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_disk *const d = &job->disk;
    struct spot_exec_move move = { .id = d->target.id };
    const struct spot_exec_member *giver;

    while (move.place < d->target.world && spot_exec_disk_holds(job, &d->target, move.place))
        move.place++;
    if (move.place == d->target.world)
        return complete(job, err);
    giver = spot_exec_find_giver(job, &d->target, move.place);
    if (!giver || giver->entered != spot_view_machine(job->view)->epoch) {
        failed(job, "no member can send it now");
        return 0;
    }
    move.serial = d->serial = ++job->states.last_serial;
    move.from = d->from = giver->id;
    d->pull = spot_state_pull_new(d->store, &move, say, spot_group_find(job->group, giver->id));
    return spot_state_pull_begin(d->pull, err);
}

void spot_exec_disk_hurry(struct spot_exec_job *job)
{
    job->disk.has_failed = false;
    job->disk.next_s = 0;
    spot_exec_bucket_hurry(job);
}

bool spot_exec_disk_is_behind(const struct spot_exec_job *job)
{
    const struct spot_exec_point *const newest = &job->states.newest, *at = spot_exec_durable(job);

    return job->disk.store && !job->disk.has_failed && newest->is_set &&
           !(at->is_set && !spot_state_id_compare(&at->id, &newest->id));
}

int spot_exec_disk_tick(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_disk *const d = &job->disk;
    const struct spot_exec_point *const newest = &job->states.newest;

    if (!d->store || d->pull || spot_exec_bucket_copies(job) || !newest->is_set ||
        spot_clock_s() < d->next_s ||
        (d->newest.is_set && !spot_state_id_compare(&d->newest.id, &newest->id)))
        return 0;
    d->target = *newest;
    d->target.moved_byte = 0;
    job->states.has_news = true; /* members keep holding it */
    return ask_next(job, err);
}

static int on_pulled(struct spot_exec_job *job, const struct spot_frame *frame,
                     struct spot_err *err)
{
    struct spot_exec_disk *const d = &job->disk;
    struct spot_err why = { 0 };
    enum spot_state_step step;

    if (!d->pull || frame->tag != d->serial)
        return 0;
    step = spot_state_pull_take(d->pull, frame, &why);
    if (step == SPOT_STATE_MOVED)
        return 0;
    if (step != SPOT_STATE_COMPLETE) {
        failed(job, why.msg);
        return 0;
    }
    d->target.moved_byte += spot_state_pull_taken(d->pull);
    end_pull(d);
    return ask_next(job, err);
}

/* Handle messages of members that want what is on the disk, or send what is to be stored there. */
int spot_exec_disk_hear(struct spot_exec_job *job, struct spot_peer *peer,
                        const struct spot_frame *frame, struct spot_err *err)
{
    if (!job->disk.store)
        return 0;
    if (frame->type == SPOT_MSG_EXEC_RECORD || frame->type == SPOT_MSG_EXEC_PIECES)
        return on_pulled(job, frame, err);
    if (spot_state_serve(job->disk.store, frame, say, peer, NULL))
        spot_peer_drop(peer, "a request for a state");
    return 0;
}

void spot_exec_disk_forget(struct spot_exec_job *job, uint32_t id)
{
    if (job->disk.pull && job->disk.from == id)
        failed(job, "its sender is gone");
}
