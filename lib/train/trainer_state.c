/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/bundle_io.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "train/trainer_durable_state.h"
#include "train/trainer_evidence_state.h"
#include "train/trainer_member_state.h"

/* --- durable generations ------------------------------------------------- */

/* Without a replica or a buddy a single kill loses a stage. */
static bool has_single_holder(const struct spot_trainer *c)
{
    for (uint32_t p = 0; p < c->form.P; p++)
        if (spot_form_replicas(&c->form) < 2 && !c->form.buddy[p])
            return true;
    return false;
}

double spot_trainer_lag_s(const struct spot_trainer *c)
{
    const int64_t round = c->machine->round;

    return c->last_commit_s > 0 && round > 0 && spot_store_newest(c->saver.store) < round
               ? spot_clock_s() - c->saver.lag.next_s
               : 0;
}

bool spot_trainer_save_is_due(const struct spot_trainer *c)
{
    return !c->options->observer && !spot_store_is_busy(c->saver.store) && c->machine->round > 0 &&
           spot_store_newest(c->saver.store) < c->machine->round &&
           (spot_saver_export_is_due(&c->saver) ||
            spot_durable_lag_is_due(&c->saver.lag, c->options->durable_every_s,
                                    has_single_holder(c)));
}

static bool holds(const struct spot_trainer *c, uint32_t id, int bundle)
{
    if (c->machine->phase != SPOT_PHASE_RUN)
        return spot_trainer_member(c, id)->held[bundle] == c->machine->round;
    return spot_form_computes(&c->form, spot_form_position(&c->form, id), (uint32_t)bundle);
}

/* Where members write the bundles; "" and 0: they send them to the coordinator. */
struct place {
    char dir[SPOT_STORE_PATH];
    uint64_t nonce;
};

static void ask_snapshots(struct spot_trainer *c, struct spot_trainer_member *who,
                          const struct spot_buf *bundles, const struct place *to)
{
    struct spot_buf out = { 0 };

    spot_put_u32(&out, (uint32_t)(bundles->n / 4));
    spot_buf_add(&out, bundles->data, bundles->n);
    spot_put_text(&out, to->dir);
    spot_put_u64(&out, to->nonce);
    spot_peer_ask(who->peer);
    spot_peer_send(who->peer, SPOT_MSG_SAVE, (uint64_t)c->machine->round, out.data, out.n);
    spot_buf_release(&out);
}

/* Holders of a bundle take turns, so that replicas share the work. Returns the index in the
 * machine; the number of members if there is no holder. */
size_t spot_trainer_holder(const struct spot_trainer *c, int b)
{
    const size_t n = c->machine->n_member;

    for (size_t k = 0; k < n; k++)
        if (holds(c, c->machine->member[((size_t)b + k) % n].id, b))
            return ((size_t)b + k) % n;
    return n;
}

/* Request each bundle from one holder. */
static void ask_holders(struct spot_trainer *c, const struct place *to)
{
    const size_t n = c->machine->n_member;
    struct spot_buf *ask = spot_xcalloc(n, sizeof(*ask));

    for (int b = 0; b < c->n_bundle; b++) {
        const size_t i = spot_trainer_holder(c, b);

        if (i < n) {
            spot_put_u32(&ask[i], (uint32_t)b);
            spot_saver_ask(&c->saver, b, c->machine->member[i].id);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (ask[i].n)
            ask_snapshots(c, spot_trainer_member(c, c->machine->member[i].id), &ask[i], to);
        spot_buf_release(&ask[i]);
    }
    free(ask);
}

static void ask_one(struct spot_trainer *c, int b, const struct place *to)
{
    const size_t i = spot_trainer_holder(c, b);
    struct spot_buf which = { 0 };

    if (i == c->machine->n_member)
        return;
    spot_saver_ask(&c->saver, b, c->machine->member[i].id);
    spot_put_u32(&which, (uint32_t)b);
    ask_snapshots(c, spot_trainer_member(c, c->machine->member[i].id), &which, to);
    spot_buf_release(&which);
}

void spot_trainer_ask_bundle(struct spot_trainer *c, int bundle)
{
    ask_one(c, bundle, &(struct place){ .nonce = 0 });
}

/* The final state does not change any more: each member sends one bundle after the other, as many
 * at a time as memory allows. */
void spot_trainer_ask_more(struct spot_trainer *c)
{
    enum { QUEUED_BYTE = 32 << 20 };
    const size_t queued_byte = spot_store_queued_byte(c->saver.store);
    struct place to = { .nonce = 0 };

    if (!c->is_final || c->result || spot_store_collecting(c->saver.store) != c->machine->round)
        return;
    if (!spot_store_where(c->saver.store, to.dir, &to.nonce))
        to = (struct place){ .nonce = 0 };
    for (int b = 0; b < c->n_bundle; b++) {
        const size_t i = spot_trainer_holder(c, b);

        if (!spot_saver_is_asked(&c->saver, b) && i < c->machine->n_member &&
            !spot_saver_owes(&c->saver, c->machine->member[i].id, spot_trainer_pulling(c)) &&
            (queued_byte < QUEUED_BYTE || !spot_trainer_member(c, c->machine->member[i].id)->sends))
            ask_one(c, b, &to);
    }
}

/* A complete generation becomes durable without members. A second one of the same step is not
 * requested: the job may end with the first, and would wait for it in vain. */
void spot_trainer_save(struct spot_trainer *c)
{
    struct place to = { .nonce = 0 };
    struct spot_err why = { 0 };
    char chain[SPOT_HASH_HEX];

    if (spot_store_has_all(c->saver.store, c->machine->round))
        return;
    c->saver.sent_byte = 0;
    spot_trainer_settle_savers(c, -1);
    spot_trainer_chain_hex(c, c->machine->round, chain);
    spot_store_begin(c->saver.store, c->machine->round, chain);
    if (!spot_store_share(c->saver.store, to.dir, &to.nonce))
        to = (struct place){ .nonce = 0 };
    if (spot_journal_sync(c->journal, &why)) /* the log on disk should not be behind a generation */
        c->options->warn("%s; after a crash they may lack events up to step %lld", why.msg,
                         (long long)c->machine->round);
    spot_durable_lag_asked(&c->saver.lag, c->machine->round);
    if (c->is_final)
        spot_trainer_ask_more(c);
    else
        ask_holders(c, &to);
}

/* The frame is borrowed; kept data are copied. Returns 1 for a malformed one. */
int spot_trainer_snapshot(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame,
                          struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const int64_t step = spot_get_i64(&in);
    uint8_t *copy;

    if (in.bad || frame->tag >= (uint64_t)c->n_bundle ||
        spot_bundle_check(&c->config.shape, (int)frame->tag, step, frame->data, frame->n_byte,
                          NULL))
        return 1;
    spot_trainer_member(c, id)->sends = true;
    if (step == c->machine->round && (int)frame->tag == spot_trainer_pulling(c))
        return spot_trainer_pulled(c, frame, err);
    copy = malloc(frame->n_byte);
    if (!copy)
        return spot_err_set(err, SPOT_ESYS, "no memory for a snapshot");
    memcpy(copy, frame->data, frame->n_byte);
    c->saver.sent_byte += (int64_t)frame->n_byte;
    spot_store_put(c->saver.store, step, (int)frame->tag, copy, frame->n_byte);
    spot_trainer_ask_more(c);
    return 0;
}

static int log_durable(struct spot_trainer *c, int64_t step, struct spot_err *err)
{
    struct spot_jw *const jw = spot_journal_begin(c->journal, "durable", c->machine->epoch, step);

    if (jw)
        spot_saver_put(&c->saver, jw);
    return spot_journal_end(c->journal, err);
}

/* Failures are reported at most once a minute: a full disk fails at every try. */
static void report_not_durable(struct spot_trainer *c, int64_t step, const struct spot_err *why)
{
    char more[48];

    if (spot_saver_failed(&c->saver, why, more))
        c->options->warn("%s; training continues without a durable copy of step %lld%s", why->msg,
                         (long long)step, more);
}

/* A generation could not be written; the previous one is kept. If it was the final one, its bundles
 * are then collected from the members, for hash and file. */
static int not_durable(struct spot_trainer *c, int64_t step, const struct spot_err *why,
                       struct spot_err *err)
{
    const bool is_last = step == c->machine->round;

    if (is_last && c->is_final && c->options->state) {
        c->saver.last = *why; /* reported when the result is safe */
    } else {
        if (is_last && spot_group_is_stopping(c->group))
            return spot_err_set(err, why->code, "%s", why->msg);
        report_not_durable(c, step, why);
    }
    return is_last && c->is_final ? spot_trainer_pull(c, err) : 0;
}

static void set_aside(struct spot_trainer *c, int64_t step)
{
    c->options->warn("the generation of step %lld is set aside: a worker that wrote part of it has "
                     "another state than the others",
                     (long long)step);
    c->saver.doubted_step = -1;
    spot_store_set_aside_newest(c->saver.store);
    c->saver.lag.asked_s = 0;
}

/* True if the newest generation, of this step, is kept. */
static bool stays(struct spot_trainer *c, int64_t step)
{
    if (step != c->saver.doubted_step)
        return true;
    set_aside(c, step);
    if (step == c->machine->round && c->machine->phase == SPOT_PHASE_RUN &&
        (c->is_final || spot_group_is_stopping(c->group)))
        spot_trainer_save(c); /* no further step would request another one */
    return false;
}

void spot_trainer_distrust(struct spot_trainer *c, uint32_t id)
{
    const int64_t step = c->machine->round;
    struct spot_saver *const s = &c->saver;
    bool has_written = false;

    for (int b = 0; b < c->n_bundle; b++)
        has_written |= !id || s->asked[b] == id;
    if (!has_written || s->lag.asked_of != step)
        return;
    if (spot_store_collecting(s->store) == step)
        spot_saver_give_up(s);
    else if (spot_store_newest(s->store) == step)
        set_aside(c, step);
    else
        s->doubted_step = step;
}

/* A generation has become durable, or could not be written. */
int spot_trainer_store_news(void *job, struct spot_err *err)
{
    struct spot_trainer *const c = job;
    struct spot_err why = { 0 };
    int64_t step;
    const int news = spot_store_result(c->saver.store, &step, &why);

    if (news == SPOT_STORE_GONE) {
        c->options->warn("%s; the job's state is made durable again", why.msg);
        c->saver.lag.asked_s = 0;
        return 0;
    }
    if (news > 0 && why.code)
        c->options->warn("%s", why.msg);
    if (!news)
        return 0;
    spot_durable_lag_ended(&c->saver.lag, news > 0);
    if (news < 0)
        return not_durable(c, step, &why, err);
    c->saver.n_failed = 0;
    if (!stays(c, step))
        return 0;
    if (log_durable(c, step, err))
        return -1;
    if (!c->is_final || step != c->machine->round)
        return 0;
    if (spot_store_is_behind(c->saver.store)) /* members send faster than the command */
        return spot_trainer_pull(c, err);
    spot_group_end(c->group);
    return 0;
}

static bool is_here(const void *trainer, uint32_t id)
{
    return spot_group_find(((const struct spot_trainer *)trainer)->group, id);
}

bool spot_trainer_awaits_savers(const struct spot_trainer *c, int64_t step)
{
    return spot_saver_awaits(&c->saver, step, spot_trainer_pulling(c), is_here, c);
}

void spot_trainer_settle_savers(struct spot_trainer *c, int64_t most)
{
    const int64_t step = spot_store_collecting(c->saver.store);

    if (step < 0 || step > most || !spot_trainer_awaits_savers(c, step))
        spot_saver_give_up(&c->saver);
}

int spot_trainer_written(struct spot_trainer *c, const struct spot_frame *frame)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const int64_t step = spot_get_i64(&in);
    const uint64_t nonce = spot_get_u64(&in);
    struct spot_written written = { .n_byte = spot_get_u64(&in) };

    written.hash.low = spot_get_u64(&in);
    written.hash.high = spot_get_u64(&in);
    if (!spot_wire_in_done(&in) || frame->tag >= (uint64_t)c->n_bundle)
        return 1;
    if (written.n_byte) {
        spot_store_put_written(c->saver.store, step, nonce, (int)frame->tag, &written);
        spot_trainer_ask_more(c);
    } else if (!c->is_final && step == spot_store_collecting(c->saver.store)) {
        spot_trainer_settle_savers(c, -1);
    }
    return 0;
}
