/* SPDX-License-Identifier: MIT */
/* Commits of a node's ranks. All ranks name the same step; the node stores the content of their
 * directory and tells the coordinator, which answers when all nodes have done so. The decision is
 * final: the step is committed, or it is refused and not tried again in its round. While the
 * coordinator is away, or another node is late, the stored state waits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "host/exec_agent_state.h"

enum { LATE_S = 5 };

/* --- ranks announce a commit --- */

static struct spot_exec_say *say_of(struct spot_exec_commit *c, uint32_t local)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->say[i].local == local)
            return &c->say[i];
    return NULL;
}

int spot_exec_local_of(const struct spot_exec_agent *e, int64_t rank, uint32_t *local,
                       struct spot_err *err)
{
    const int64_t first = e->form.env.first_rank, n = e->options->n_rank;

    if (rank < 0 && n > 1)
        return spot_err_set(err, SPOT_EDATA, "this node has %lld ranks: which one is asking?",
                            (long long)n);
    if (rank >= 0 && (rank < first || rank >= first + n))
        return spot_err_set(err, SPOT_EDATA, "rank %lld is not on this node", (long long)rank);
    *local = rank < 0 ? 0 : (uint32_t)(rank - first);
    return 0;
}

static const struct spot_exec_taken *newest_taken(const struct spot_exec_commit *c)
{
    return c->n_taken ? &c->taken[c->n_taken - 1] : NULL;
}

static bool is_taken(const struct spot_exec_commit *c, uint64_t step)
{
    for (size_t i = 0; i < c->n_taken; i++)
        if (c->taken[i].id.step == step)
            return true;
    return false;
}

/* Check an announced step. One that was taken may be announced again: its files are those of the
 * first time. */
static int check_step(const struct spot_exec_commit *c, uint64_t step, struct spot_err *err)
{
    const struct spot_exec_taken *const newest = newest_taken(c);

    if (c->has_floor && step == c->floor && *c->refused)
        return spot_err_set(err, SPOT_EDATA, "%.500s", c->refused);
    if (c->has_floor && step <= c->floor)
        return spot_err_set(err, SPOT_EDATA,
                            "step %llu: steps up to %llu are decided in this round",
                            (unsigned long long)step, (unsigned long long)c->floor);
    if (!newest || is_taken(c, step))
        return 0;
    if (step < newest->id.step)
        return spot_err_set(err, SPOT_EDATA, "step %llu: step %llu was taken already",
                            (unsigned long long)step, (unsigned long long)newest->id.step);
    return c->n_taken == SPOT_EXEC_TAKEN_MAX
               ? spot_err_set(err, SPOT_EDATA,
                              "step %llu: %d commits of this node wait for an answer already",
                              (unsigned long long)step, SPOT_EXEC_TAKEN_MAX)
               : 0;
}

struct said {
    bool durable, alone;
    double wait_s;
};

static const struct spot_field said_field[] = {
    { "durable", SPOT_F_BOOL, offsetof(struct said, durable), NULL, 0, 0, false },
    { "alone", SPOT_F_BOOL, offsetof(struct said, alone), NULL, 0, 0, false },
    { "wait_s", SPOT_F_REAL, offsetof(struct said, wait_s), "s", 0, 1e9, false },
    { 0 },
};

int spot_exec_serve_commit(void *agent, const struct spot_rank_request *request,
                           struct spot_jw *answer, struct spot_err *err)
{
    struct spot_exec_agent *const e = agent;
    struct spot_exec_commit *const c = &e->commit;
    struct spot_exec_say say = { .ticket = request->ticket };
    struct said said = { .wait_s = INFINITY };

    if (spot_json_read_fields(request->doc, request->doc->root, "", said_field, &said, err) ||
        spot_exec_local_of(e, request->rank, &say.local, err))
        return -1;
    if (request->step >= 0)
        spot_exec_beat(e, request->rank, request->step, NAN);
    if (say_of(c, say.local))
        return spot_err_set(err, SPOT_EDATA, "this rank commits already");
    if (request->step < 0 && spot_ledger_plan(e->ledger.ledger))
        return spot_err_set(err, SPOT_EDATA,
                            "step: a state whose samples come from the ledger must say how many "
                            "steps it has done");
    say.wants_safe = said.durable;
    say.since_s = spot_clock_s();
    say.until_s = say.since_s + said.wait_s;
    say.step = request->step < 0 ? c->counted[say.local] + 1 : (uint64_t)request->step;
    say.is_alone = said.alone || e->options->files;
    if (say.is_alone && c->has_floor && say.step <= c->floor && !*c->refused) {
        /* another rank has committed this step for all */
        spot_jw_int(answer, "step", (int64_t)say.step);
        c->counted[say.local] = say.step;
        return 0;
    }
    if (check_step(c, say.step, err))
        return -1;
    c->counted[say.local] = say.step;
    c->say[c->n++] = say;
    return 1;
}

static void forget(struct spot_exec_commit *c, size_t i)
{
    c->say[i] = c->say[--c->n];
}

void spot_exec_commit_gone(void *agent, uint64_t ticket)
{
    struct spot_exec_commit *const c = &((struct spot_exec_agent *)agent)->commit;

    for (size_t i = c->n; i-- > 0;)
        if (c->say[i].ticket == ticket)
            forget(c, i);
}

/* --- storing a commit --- */

/* Tell the coordinator of the oldest commit; the next one follows when it is decided. */
int spot_exec_commit_tell(struct spot_exec_agent *e, struct spot_err *err)
{
    const struct spot_exec_taken *const t = &e->commit.taken[0];
    struct spot_buf out = { 0 };

    spot_state_id_put(&out, &t->id);
    spot_put_u64(&out, t->n_byte);
    spot_put_text(&out, t->why);
    spot_put_u8(&out, (uint8_t)t->scope);
    spot_state_saved_put(&out, &t->saved);
    return spot_agent_send(&e->agent, SPOT_MSG_EXEC_TOOK, 0, &out, err);
}

struct spot_exec_taken *spot_exec_commit_add(struct spot_exec_agent *e, uint64_t step,
                                             enum spot_exec_scope scope)
{
    struct spot_exec_taken *const t = &e->commit.taken[e->commit.n_taken++];

    *t = (struct spot_exec_taken){ .id = { e->held.restart_count, e->held.key, step },
                                   .scope = scope };
    return t;
}

/* Store the files, together with the plan of samples. */
static int take_files(struct spot_exec_agent *e, struct spot_state_record *record,
                      struct spot_err *err)
{
    const int fd = e->options->state->live_fd;

    if (spot_state_dir_check(e->options->state, err) ||
        spot_exec_ledger_save(&e->ledger, fd, err) ||
        spot_ledger_may_commit(e->ledger.ledger, (int64_t)record->id.step, err))
        return -1;
    if (e->options->files)
        return spot_rank_files_take(e->options->files, e->store, e->offer.dirs.data,
                                    e->offer.dirs.n, !record->place, record, err);
    return spot_state_take(e->store, fd, NULL, 0, false, record, err);
}

/* Returns like spot_rank_files_take. */
static int take_and_add(struct spot_exec_agent *e, struct spot_exec_taken *t, struct spot_err *why)
{
    const bool is_alone = t->scope == SPOT_EXEC_OF_ONE;
    struct spot_state_record record = { .id = t->id,
                                        .place = is_alone ? 0 : e->held.group_rank,
                                        .world = is_alone ? 1 : e->held.group_world };
    int rc;

    snprintf(record.run_id, sizeof(record.run_id), "%s", e->held.run_id);
    rc = take_files(e, &record, why);
    t->n_byte = spot_state_record_byte(&record);
    t->saved = spot_state_record_saved(&record);
    if (!e->options->files)
        /* it has files of its own among others: name the step instead of the files */
        *t->saved.what = '\0';
    if (!rc)
        return spot_state_store_add(e->store, &record, why);
    spot_state_record_release(&record);
    spot_state_store_sweep(e->store);
    return rc;
}

void spot_exec_commit_take(struct spot_exec_agent *e, struct spot_exec_taken *t)
{
    struct spot_err why = { 0 };
    int rc = take_and_add(e, t, &why);

    if (rc < 0 && why.code == SPOT_ESYS && spot_exec_drop_found(e))
        rc = take_and_add(e, t, &why);
    t->is_early = rc > 0;
    if (rc)
        snprintf(t->why, sizeof(t->why), "%s", why.msg);
}

/* True if all ranks have announced the step; ranks that have ended are not waited for. */
static bool have_all_said(const struct spot_exec_agent *e, uint64_t *least, uint64_t *most)
{
    const struct spot_exec_commit *const c = &e->commit;
    size_t n_live = 0, n_said = 0;

    for (uint32_t i = 0; i < e->options->n_rank; i++)
        n_live += !e->has_exited[i];
    *least = UINT64_MAX;
    *most = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->say[i].is_agreed || c->say[i].is_alone || is_taken(c, c->say[i].step))
            continue;
        n_said++;
        *least = c->say[i].step < *least ? c->say[i].step : *least;
        *most = c->say[i].step > *most ? c->say[i].step : *most;
    }
    return n_said && n_said >= n_live;
}

static void take_said(struct spot_exec_agent *e)
{
    struct spot_exec_commit *const c = &e->commit;
    struct spot_exec_taken *t;
    uint64_t least, most;

    if (c->n_taken == SPOT_EXEC_TAKEN_MAX || !have_all_said(e, &least, &most))
        return;
    t = spot_exec_commit_add(e, most, SPOT_EXEC_OF_ALL);
    if (least == most)
        spot_exec_commit_take(e, t);
    else
        snprintf(t->why, sizeof(t->why), "ranks of one node commit steps %llu and %llu",
                 (unsigned long long)least, (unsigned long long)most);
}

/* --- warnings about long waits --- */

static const struct spot_exec_say *longest_wait(const struct spot_exec_commit *c)
{
    const struct spot_exec_say *longest = NULL;

    for (size_t i = 0; i < c->n; i++)
        if (!c->say[i].is_agreed && !c->say[i].is_alone && !is_taken(c, c->say[i].step) &&
            (!longest || c->say[i].since_s < longest->since_s))
            longest = &c->say[i];
    return longest;
}

/* List the ranks of this node that have not committed, as in "1, 3". */
static void list_missing(struct spot_exec_agent *e, char *text, size_t n)
{
    size_t at = 0;

    *text = '\0';
    for (uint32_t i = 0; i < e->options->n_rank && at < n; i++)
        if (!e->has_exited[i] && !say_of(&e->commit, i))
            at += (size_t)snprintf(text + at, n - at, "%s%lu", at ? ", " : "",
                                   (unsigned long)(e->form.env.first_rank + i));
}

/* Warn early: a script in which only one rank commits would otherwise hang until its time limit. */
static void warn_late(struct spot_exec_agent *e)
{
    struct spot_exec_commit *const c = &e->commit;
    const struct spot_exec_say *const say = longest_wait(c);
    char missing[256], text[SPOT_ELAPSED_TEXT];

    if (!say || !e->options->warn || spot_clock_s() - say->since_s < c->late_s)
        return;
    list_missing(e, missing, sizeof(missing));
    e->options->warn("step %llu: rank %lu has waited %s to commit it, for rank %s of this node: "
                     "every rank must commit",
                     (unsigned long long)say->step,
                     (unsigned long)(e->form.env.first_rank + say->local),
                     spot_elapsed_text(c->late_s, text), missing);
    c->late_s *= 2;
}

/* --- ending a wait --- */

static void put_why_late(const struct spot_exec_agent *e, const struct spot_exec_say *say,
                         char *why, size_t n)
{
    const unsigned long long step = say->step;

    if (say->is_agreed)
        snprintf(why, n, "step %llu is committed, and not held twice yet", step);
    else if (!is_taken(&e->commit, say->step))
        snprintf(why, n, "step %llu was not taken: other ranks of this node have not committed it",
                 step);
    else
        snprintf(why, n, "step %llu was taken, and is committed when %s", step,
                 e->is_away ? "the coordinator is back, which is away" : "all nodes have taken it");
}

static void answer_late(struct spot_exec_agent *e)
{
    struct spot_exec_commit *const c = &e->commit;
    char why[SPOT_WHY_MAX];

    for (size_t i = c->n; i-- > 0;)
        if (spot_clock_s() >= c->say[i].until_s) {
            put_why_late(e, &c->say[i], why, sizeof(why));
            spot_rank_socket_refuse(e->socket, c->say[i].ticket, why);
            forget(c, i);
        }
}

void spot_exec_commit_tick_away(struct spot_exec_agent *e)
{
    if (!e->has_ranks || e->is_stopping || e->held.state == SPOT_EXEC_IDLE)
        return;
    take_said(e);
    if (e->is_away)
        spot_exec_take_away(e);
    warn_late(e);
    answer_late(e);
}

int spot_exec_commit_tick(struct spot_exec_agent *e, struct spot_err *err)
{
    const bool has_told = e->commit.n_taken;

    /* the script may have created the directory meanwhile */
    if (e->options->files && spot_rank_files_hold(e->options->files, e->options->job, err))
        return -1;
    if (!e->has_begun || e->formed != e->agent.epoch) {
        answer_late(e);
        return 0;
    }
    spot_exec_commit_tick_away(e);
    if (spot_exec_offer_tick(e, err))
        return -1;
    return !has_told && e->commit.n_taken ? spot_exec_commit_tell(e, err) : 0;
}

void spot_exec_commit_begin(struct spot_exec_agent *e)
{
    struct spot_exec_commit *const c = &e->commit;

    c->n = c->n_taken = 0;
    c->has_floor = false;
    c->late_s = e->options->late_s > 0 ? e->options->late_s : LATE_S;
    spot_exec_offer_begin(e);
    for (uint32_t i = 0; i < e->options->n_rank; i++)
        c->counted[i] = e->form.env.has_state ? e->form.env.state_step : 0;
}

int spot_exec_commit_again(struct spot_exec_agent *e, struct spot_err *err)
{
    spot_exec_offer_again(e);
    return e->commit.n_taken ? spot_exec_commit_tell(e, err) : 0;
}

/* --- decisions --- */

static void answer_say(struct spot_exec_agent *e, size_t i, enum spot_exec_safety safety)
{
    const struct spot_exec_say say = e->commit.say[i];
    struct spot_jw *const jw = spot_rank_socket_begin(e->socket, say.ticket);

    forget(&e->commit, i);
    if (!jw)
        return;
    spot_jw_int(jw, "step", (int64_t)say.step);
    if (say.wants_safe)
        spot_jw_bool(jw, "durable", safety == SPOT_EXEC_SAFE);
    spot_rank_socket_end(e->socket);
}

/* The oldest commit is decided. */
static void settle(struct spot_exec_commit *c)
{
    memmove(c->taken, c->taken + 1, --c->n_taken * sizeof(*c->taken));
}

static void drop_record(struct spot_exec_agent *e, const struct spot_state_id *id)
{
    for (size_t i = spot_state_store_count(e->store); i-- > 0;)
        if (!spot_state_id_compare(&spot_state_store_at(e->store, i)->id, id))
            spot_state_store_drop(e->store, i);
    spot_state_store_sweep(e->store);
}

static void on_agreed(struct spot_exec_agent *e, const struct spot_state_id *id)
{
    struct spot_exec_commit *const c = &e->commit;

    spot_ledger_committed(e->ledger.ledger, (int64_t)id->step);
    e->has_last = e->has_committed = true;
    e->last_step = id->step;
    e->last_s = spot_clock_s();
    e->has_saved = e->has_saved || (e->is_saving && e->options->files &&
                                    spot_rank_files_is_since_mark(e->options->files));
    if (c->n_taken && !spot_state_id_compare(&c->taken[0].id, id))
        settle(c);
    for (size_t i = c->n; i-- > 0;) {
        if (c->say[i].step != id->step || c->say[i].is_agreed)
            continue;
        if (c->say[i].wants_safe)
            c->say[i].is_agreed = true;
        else
            answer_say(e, i, SPOT_EXEC_AT_RISK);
    }
}

static void on_refused(struct spot_exec_agent *e, const struct spot_state_id *id, const char *why)
{
    struct spot_exec_commit *const c = &e->commit;

    while (c->n_taken && c->taken[0].id.step <= id->step) {
        drop_record(e, &c->taken[0].id);
        settle(c);
    }
    for (size_t i = c->n; i-- > 0;)
        if (c->say[i].step <= id->step && !c->say[i].is_agreed) {
            spot_rank_socket_refuse(e->socket, c->say[i].ticket, why);
            forget(c, i);
        }
}

int spot_exec_commit_answer(struct spot_exec_agent *e, const struct spot_frame *frame,
                            struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_exec_commit *const c = &e->commit;
    struct spot_state_id id;
    struct spot_state_saved saved;
    char why[SPOT_WHY_MAX];
    uint32_t writer;
    size_t n_before;

    spot_state_id_get(&in, &id);
    spot_get_plain(&in, why, sizeof(why));
    spot_state_saved_get(&in, &saved);
    writer = spot_get_u32(&in);
    if (!spot_wire_in_done(&in))
        return spot_err_set(err, SPOT_ESYS, "the coordinator sent a malformed ANSWER");
    if (id.key != e->held.key)
        return 0;
    if (!c->has_floor || id.step > c->floor) {
        c->floor = id.step;
        snprintf(c->refused, sizeof(c->refused), "%s", why);
    }
    c->has_floor = true;
    n_before = c->n_taken;
    spot_exec_offer_answered(e, id.step, why);
    if (*why) {
        on_refused(e, &id, why);
    } else {
        e->last_saved = saved;
        e->writer = writer;
        on_agreed(e, &id);
    }
    return c->n_taken && c->n_taken < n_before ? spot_exec_commit_tell(e, err) : 0;
}

/* --- stored states --- */

static bool is_kept(const struct spot_exec_agent *e, const struct spot_state_id *id,
                    const struct spot_state_id *kept, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!spot_state_id_compare(id, &kept[i]))
            return true;
    for (size_t i = 0; i < e->commit.n_taken; i++)
        if (!spot_state_id_compare(id, &e->commit.taken[i].id))
            return true;
    return false;
}

int spot_exec_hold(struct spot_exec_agent *e, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_exec_commit *const c = &e->commit;
    struct spot_state_id kept[SPOT_EXEC_KEPT_MAX];
    const uint8_t safety = spot_get_u8(&in);
    const uint32_t n = spot_get_count(&in, 20);
    size_t n_before = spot_state_store_count(e->store);

    for (uint32_t i = 0; i < n && i < SPOT_EXEC_KEPT_MAX; i++)
        spot_state_id_get(&in, &kept[i]);
    if (!spot_wire_in_done(&in) || !n || safety >= SPOT_EXEC_SAFETIES)
        return spot_err_set(err, SPOT_ESYS, "the coordinator sent a malformed HOLD");
    for (size_t i = n_before; i-- > 0;)
        if (!is_kept(e, &spot_state_store_at(e->store, i)->id, kept, n))
            spot_state_store_drop(e->store, i);
    if (spot_state_store_count(e->store) != n_before)
        spot_state_store_sweep(e->store);
    for (size_t i = c->n; safety != SPOT_EXEC_AT_RISK && i-- > 0;)
        if (c->say[i].is_agreed && c->say[i].step <= kept[0].step && kept[0].key == e->held.key)
            answer_say(e, i, (enum spot_exec_safety)safety);
    return 0;
}
