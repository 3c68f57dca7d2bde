/* SPDX-License-Identifier: MIT */
/* Checkpoints that no coordinator ordered: those that a node finds in the script's directory before
 * its first round, and those that its ranks complete while the coordinator is away. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "host/exec_agent_state.h"

static const double patience_s = 5,
                    again_s =
                        0.1; /* waits for a process that is writing a checkpoint at the start */

static void list_dirs(struct spot_exec_agent *e)
{
    e->offer.dirs.n = 0;
    spot_rank_files_list(e->options->files, &e->offer.dirs);
}

/* The key is the hash of the content, so two nodes that found the same checkpoint agree on it. */
static uint64_t key_of(const struct spot_state_record *record)
{
    struct spot_hash_stream *const hash = spot_hash_stream_new();
    uint64_t key;

    for (size_t i = 0; i < record->n_file; i++) {
        const struct spot_state_file *const file = &record->file[i];

        spot_hash_stream_add(hash, file->path, strlen(file->path) + 1);
        spot_hash_stream_add(hash, &file->mode, sizeof(file->mode));
        spot_hash_stream_add(hash, &file->n_byte, sizeof(file->n_byte));
        spot_hash_stream_add(hash, record->chunk + file->first_chunk,
                             spot_state_file_chunks(file) * sizeof(*record->chunk));
    }
    key = spot_hash_stream_64(hash);
    spot_hash_stream_free(hash);
    return key;
}

/* Returns like spot_rank_files_take. */
static int store_found(struct spot_exec_agent *e, struct spot_err *why)
{
    struct spot_state_record record = { .world = 1 };
    int rc;

    spot_rank_files_adopt(e->options->files);
    if (*spot_rank_files_busy(e->options->files))
        return 1;
    list_dirs(e);
    rc = spot_rank_files_take(e->options->files, e->store, e->offer.dirs.data, e->offer.dirs.n,
                              true, &record, why);
    record.id.key = key_of(&record);
    if (!rc && record.n_file)
        rc = spot_state_store_add(e->store, &record, why);
    else
        spot_state_record_release(&record);
    if (rc)
        spot_state_store_sweep(e->store);
    return rc;
}

bool spot_exec_drop_found(struct spot_exec_agent *e)
{
    const size_t n_before = spot_state_store_count(e->store);

    for (size_t i = n_before; i-- > 0;)
        if (!*spot_state_store_at(e->store, i)->run_id)
            spot_state_store_drop(e->store, i);
    spot_state_store_sweep(e->store);
    return spot_state_store_count(e->store) < n_before;
}

void spot_exec_find_saved(struct spot_exec_agent *e)
{
    const double until_s = spot_clock_s() + patience_s;
    struct spot_err why = { 0 };
    int rc;

    /* the node has had no round yet: files may have disappeared or changed since */
    (void)spot_exec_drop_found(e);
    if (!e->options->files)
        return;
    while ((rc = store_found(e, &why)) > 0 && spot_clock_s() < until_s)
        spot_clock_sleep(again_s);
    if (rc > 0)
        snprintf(e->not_found, sizeof(e->not_found),
                 "'%.200s' is being written by another process, or cannot be read: end that, or "
                 "move it away",
                 spot_rank_files_busy(e->options->files));
    else if (rc)
        snprintf(e->not_found, sizeof(e->not_found),
                 "%.300s: make room for them, or move them away", why.msg);
    if (rc && e->options->warn)
        e->options->warn("cannot start from the checkpoints found here: %s", e->not_found);
}

static bool has_found(const struct spot_exec_agent *e)
{
    for (size_t i = 0; i < spot_state_store_count(e->store); i++)
        if (!*spot_state_store_at(e->store, i)->run_id)
            return true;
    return false;
}

int spot_exec_check_found(const struct spot_exec_agent *e, struct spot_err *err)
{
    if (e->form.env.has_state)
        return 0;
    if (*e->not_found)
        return spot_err_set(err, SPOT_ESYS,
                            "the other nodes would not start from the checkpoints found here: %s",
                            e->not_found);
    if (has_found(e)) /* the node joined a job that has saved nothing yet */
        spot_rank_files_reject(e->options->files);
    return 0;
}

/* The checkpoint from which a round begins becomes a commit of its job, also for the next
 * coordinator. Others are kept until the coordinator reports that they are not needed. */
void spot_exec_adopt_found(struct spot_exec_agent *e)
{
    struct spot_state_record record;
    struct spot_buf text = { 0 };
    struct spot_wire_in in;

    *e->not_found = '\0';
    for (size_t i = spot_state_store_count(e->store); i-- > 0;) {
        const struct spot_state_record *const found = spot_state_store_at(e->store, i);

        const bool is_it =
            e->form.env.has_state && !spot_state_id_compare(&found->id, &e->form.state);

        if (*found->run_id || (e->form.env.has_state && !is_it))
            continue;
        if (is_it)
            spot_state_record_put(&text, found);
        spot_state_store_drop(e->store, i);
    }
    in = spot_wire_in(text.data, text.n);
    if (text.n && !spot_state_record_get(&in, &record, NULL)) {
        snprintf(record.run_id, sizeof(record.run_id), "%s", e->form.env.run_id);
        (void)spot_state_store_add(e->store, &record, NULL);
    }
    spot_buf_release(&text);
    spot_state_store_sweep(e->store);
}

/* --- while the coordinator is away --- */

/* A step number above all that this node knows and different from those that other nodes of the
 * round would choose. */
static uint64_t next_step(const struct spot_exec_agent *e)
{
    const struct spot_exec_commit *const c = &e->commit;
    const uint32_t world = e->held.group_world;
    uint64_t step = e->last_step;

    if (c->has_floor && c->floor > step)
        step = c->floor;
    for (size_t i = 0; i < spot_state_store_count(e->store); i++) {
        const struct spot_state_record *const r = spot_state_store_at(e->store, i);

        if (r->id.key == e->held.key && r->id.step > step)
            step = r->id.step;
    }
    return (step / world + 1) * world + e->held.group_rank;
}

static void drop_before(struct spot_exec_agent *e, uint64_t step)
{
    for (size_t i = spot_state_store_count(e->store); i-- > 0;) {
        const struct spot_state_record *const r = spot_state_store_at(e->store, i);

        if (r->id.key == e->held.key && r->id.step > e->last_step && r->id.step < step &&
            r->world == 1)
            spot_state_store_drop(e->store, i);
    }
    spot_state_store_sweep(e->store);
}

/* Take a commit of this node alone, if no other node takes part in the round. A commit that was
 * ordered but not decided may never be, and is taken again. */
void spot_exec_take_away(struct spot_exec_agent *e)
{
    struct spot_exec_taken t = { .scope = SPOT_EXEC_OF_ONE };

    if (!e->options->files || spot_ledger_plan(e->ledger.ledger) || e->writer != e->held.group_rank)
        return;
    for (size_t i = 0; i < e->commit.n_taken; i++)
        if (e->commit.taken[i].scope != SPOT_EXEC_OF_FILES)
            return;
    if (e->offer.is_due || e->commit.n_taken) {
        e->offer.is_due = false;
        e->commit.n_taken = 0;
        spot_rank_files_again(e->options->files);
    }
    if (spot_rank_files_look(e->options->files) != SPOT_FILES_READY)
        return;
    list_dirs(e);
    t.id = (struct spot_state_id){ e->held.restart_count, e->held.key, next_step(e) };
    spot_exec_commit_take(e, &t);
    if (!t.is_early && !*t.why)
        drop_before(e, t.id.step);
}

void spot_exec_tell_away(struct spot_exec_agent *e)
{
    char now[SPOT_ELAPSED_TEXT], limit[SPOT_ELAPSED_TEXT];

    if (!e->is_away)
        e->away = (struct spot_wait){ 0 };
    if (!spot_wait_is_due(&e->away, e->agent.has_joined ? 0 : 5) || !e->options->warn)
        return;
    spot_elapsed_text(e->options->agent.join_timeout_s, limit);
    if (spot_wait_s(&e->away) < 1)
        e->options->warn("the coordinator does not answer: waiting for it, up to %s; start its "
                         "line again",
                         limit);
    else
        e->options->warn("waiting for the coordinator at %s for %s, up to %s",
                         e->options->agent.join, spot_elapsed_text(spot_wait_s(&e->away), now),
                         limit);
}
