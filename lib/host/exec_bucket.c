/* SPDX-License-Identifier: MIT */
/* Commits stored by a user's command: commits in --state are copied there, and are restored from
 * there if they are missing here. A thread waits for the command. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/random.h"
#include "common/threads.h"
#include "common/xalloc.h"
#include "host/exec_job_state.h"
#include "host/state_bucket.h"

static const double retry_s = 5; /* pause after a failed copy */

enum task { NOTHING, COPY, RESTORE };

struct spot_exec_bucket {
    struct spot_state_command command;
    struct spot_state_bucket *bucket;
    struct spot_state_store *store; /* the store in --state */
    bool is_claimed;
    /* newest commit stored there, as far as this coordinator knows */
    struct spot_exec_point newest;
    double next_s; /* time of the next try */

    enum task task;
    pthread_t thread;
    _Atomic bool has_ended, is_given_up;
    struct spot_exec_point target; /* the commit being copied */
    struct spot_state_copy copy;
    struct spot_buf records; /* records of its places */
    int rc;                  /* result of the thread */
    struct spot_err why;
};

static bool goes_on(void *user)
{
    return !((struct spot_exec_bucket *)user)->is_given_up;
}

/* --- the thread --- */

static int copy(struct spot_exec_bucket *b)
{
    if (!b->is_claimed && spot_state_bucket_claim(b->bucket, b->copy.run_id, &b->why))
        return -1;
    b->is_claimed = true;
    return spot_state_bucket_put(b->bucket, b->store, &b->copy, &b->records, &b->why);
}

static void *work(void *user)
{
    struct spot_exec_bucket *const b = user;

    b->why = (struct spot_err){ 0 };
    b->rc = b->task == COPY ? copy(b) : spot_state_bucket_get(b->bucket, b->store, &b->why);
    b->has_ended = true;
    return NULL;
}

static int begin(struct spot_exec_bucket *b, enum task task, struct spot_err *err)
{
    b->task = task;
    b->has_ended = false;
    if (!spot_thread_start(&b->thread, work, b, err))
        return 0;
    b->task = NOTHING;
    return -1;
}

static void end(struct spot_exec_bucket *b)
{
    if (b->task != NOTHING)
        pthread_join(b->thread, NULL);
    b->task = NOTHING;
    spot_buf_release(&b->records);
}

/* --- open --- */

/* Commits in --state must belong to the same run. */
static int check_run(const struct spot_exec_job *job, struct spot_err *err)
{
    const struct spot_state_store *const store = job->disk.store;

    for (size_t i = 0; i < spot_state_store_count(store); i++) {
        const struct spot_state_record *const r = spot_state_store_at(store, i);

        if (strcmp(r->run_id, job->run_id) != 0)
            return spot_err_set(err, SPOT_EUSAGE,
                                "%.200s has commits of run %.16s, the store behind "
                                "--state-command those of run %.16s: empty one of them",
                                job->options->state, r->run_id, job->run_id);
    }
    return 0;
}

/* True if --state has the complete commit, or a newer one. */
static bool is_on_disk(const struct spot_exec_job *job, const struct spot_state_copy *copy)
{
    const struct spot_state_store *const store = job->disk.store;
    uint32_t n = 0;

    for (size_t i = 0; i < spot_state_store_count(store); i++) {
        const int newer = spot_state_id_compare(&spot_state_store_at(store, i)->id, &copy->id);

        if (newer > 0)
            return true;
        n += !newer;
    }
    return n == copy->world;
}

static int find_newest(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_bucket *const b = job->bucket;
    struct spot_state_copy copy = { 0 };
    const int found = spot_state_bucket_find(b->bucket, &copy, err);

    if (found <= 0)
        return found;
    if (strcmp(copy.run_id, job->run_id) != 0)
        return spot_err_set(err, SPOT_EUSAGE,
                            "the store behind --state-command has commits of two runs");
    b->newest = (struct spot_exec_point){ .is_set = true, .id = copy.id, .world = copy.world };
    return is_on_disk(job, &copy) ? 0 : begin(b, RESTORE, err);
}

static int claim(struct spot_exec_job *job, struct spot_err *err)
{
    if (spot_state_bucket_claim(job->bucket->bucket, job->run_id, err))
        return -1;
    job->bucket->is_claimed = true;
    return 0;
}

/* Determine the run id: a resumed job takes it from the store or from its nodes, a new job draws
 * one. */
static int settle_owner(struct spot_exec_job *job, struct spot_err *err)
{
    const bool resumes = spot_group_resumes(job->group);
    char run_id[SPOT_RUN_ID_MAX];
    uint64_t drawn;

    if (spot_state_bucket_owner(job->bucket->bucket, run_id, err))
        return -1;
    if (*run_id && !resumes)
        return spot_err_set(err, SPOT_EUSAGE,
                            "the store behind --state-command belongs to another job, run %.16s: "
                            "--resume continues it, another place in the store starts a new one",
                            run_id);
    if (*run_id) {
        memcpy(job->run_id, run_id, sizeof(run_id));
        /* a refused job must not take over the store */
        return check_run(job, err) || claim(job, err) || find_newest(job, err) ? -1 : 0;
    }
    if (resumes)
        return 0;
    if (spot_random_bytes(&drawn, sizeof(drawn), err))
        return -1;
    snprintf(job->run_id, sizeof(job->run_id), "%016llx", (unsigned long long)(drawn | 1));
    return claim(job, err);
}

int spot_exec_bucket_open(struct spot_exec_job *job, struct spot_err *err)
{
    const struct spot_exec_options *const o = job->options;
    struct spot_exec_bucket *b;

    if (!o->state_command)
        return 0;
    b = job->bucket = spot_xcalloc(1, sizeof(*b));
    b->command = (struct spot_state_command){
        .command = o->state_command, .limit_s = o->state_timeout_s, .goes_on = goes_on, .user = b
    };
    b->store = job->disk.store;
    b->bucket = spot_state_bucket_new(&b->command);
    return settle_owner(job, err);
}

void spot_exec_bucket_close(struct spot_exec_job *job)
{
    struct spot_exec_bucket *const b = job->bucket;

    if (!b)
        return;
    b->is_given_up = true;
    end(b);
    spot_state_bucket_free(b->bucket);
    free(b);
    job->bucket = NULL;
}

/* --- while the job runs --- */

void spot_exec_bucket_hurry(struct spot_exec_job *job)
{
    if (job->bucket)
        job->bucket->next_s = 0;
}

bool spot_exec_bucket_restores(const struct spot_exec_job *job)
{
    return job->bucket && job->bucket->task == RESTORE;
}

bool spot_exec_bucket_copies(const struct spot_exec_job *job)
{
    return job->bucket && job->bucket->task == COPY;
}

const struct spot_exec_point *spot_exec_durable(const struct spot_exec_job *job)
{
    return job->bucket ? &job->bucket->newest : &job->disk.newest;
}

static bool is_same(const struct spot_exec_point *a, const struct spot_exec_point *b)
{
    return a->is_set && b->is_set && !spot_state_id_compare(&a->id, &b->id);
}

static int begin_copy(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_bucket *const b = job->bucket;

    b->target = job->disk.newest;
    b->copy = (struct spot_state_copy){ .id = b->target.id,
                                        .world = b->target.world,
                                        .pack_byte = SPOT_STATE_PACK_BYTE };
    memcpy(b->copy.run_id, job->run_id, sizeof(b->copy.run_id));
    for (uint32_t p = 0; p < b->target.world; p++) {
        const struct spot_state_record *const r = spot_state_store_find(b->store, &b->target.id, p);

        if (!r) /* it was damaged: the next copy to the disk repairs it */
            return 0;
        spot_state_bucket_add(&b->records, r);
    }
    return begin(b, COPY, err);
}

static void put_stored(const struct spot_exec_job *job, struct spot_jw *jw)
{
    const struct spot_exec_point *const newest = &job->bucket->newest;

    spot_jw_str(jw, "where", "store");
    if (newest->agreed_s > 0)
        spot_jw_real(jw, "lag_s", spot_clock_s() - newest->agreed_s);
    spot_jw_int(jw, "moved_byte", (int64_t)newest->moved_byte);
}

static int copied(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_bucket *const b = job->bucket;

    if (b->rc && b->why.code == SPOT_EUSAGE) {
        *err = b->why;
        return -1;
    }
    if (b->rc) {
        b->next_s = spot_clock_s() + retry_s;
        job->disk.has_failed = true;
        job->options->group.warn("step %llu cannot be stored: %s; the job continues without it",
                                 (unsigned long long)b->target.id.step, b->why.msg);
        return 0;
    }
    b->newest = b->target;
    job->states.has_news = true;
    return spot_exec_log_step(job, "durable", b->newest.id.step, put_stored, err);
}

/* A damaged commit in the store was set aside: the one before it is used, if any. */
static int restored(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_bucket *const b = job->bucket;

    if (!b->rc)
        return 0;
    *err = b->why;
    if (b->why.code != SPOT_EDATA)
        return -1;
    job->options->group.warn("a commit in the store is damaged and set aside: %s", b->why.msg);
    b->newest.is_set = false;
    if (find_newest(job, err))
        return -1;
    if (!b->newest.is_set)
        job->options->group.warn(
            "no commit in the store can be read: the job continues without it");
    return 0;
}

int spot_exec_bucket_tick(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_bucket *const b = job->bucket;
    enum task task;

    if (!b || (b->task != NOTHING && !b->has_ended))
        return 0;
    task = b->task;
    end(b);
    if (task != NOTHING)
        return task == COPY ? copied(job, err) : restored(job, err);
    if (!job->disk.newest.is_set || job->disk.pull || is_same(&job->disk.newest, &b->newest) ||
        spot_clock_s() < b->next_s)
        return 0;
    return begin_copy(job, err);
}
