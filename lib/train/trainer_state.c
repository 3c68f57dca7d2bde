/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/bundle_io.h"
#include "common/clock.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "train/trainer_state.h"
#include "weights/save.h"

/* --- durable generations ------------------------------------------------- */

bool spot_trainer_save_is_due(const struct spot_trainer *c)
{
    return !c->options->observer && !spot_store_is_busy(c->store) && c->machine->round > 0 &&
           spot_store_newest(c->store) < c->machine->round &&
           (spot_trainer_export_is_due(c) ||
            spot_clock_s() - c->durable_s >= spot_trainer_durable_every_s(c));
}

static bool holds(const struct spot_trainer *c, uint32_t id, int bundle)
{
    if (c->machine->phase != SPOT_PHASE_RUN)
        return spot_trainer_member(c, id)->held[bundle] == c->machine->round;
    return spot_form_computes(&c->form, spot_form_position(&c->form, id), (uint32_t)bundle);
}

/* Where the members are to write them; "" and 0: they are to send them. */
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

/* Each bundle is asked of one holder; holders take turns, so that replicas share the work. */
static void ask_holders(struct spot_trainer *c, const struct place *to)
{
    const size_t n = c->machine->n_member;
    struct spot_buf *ask = spot_xcalloc(n, sizeof(*ask));

    for (int b = 0; b < c->n_bundle; b++)
        for (size_t k = 0; k < n; k++) {
            const size_t i = ((size_t)b + k) % n;

            if (holds(c, c->machine->member[i].id, b)) {
                spot_put_u32(&ask[i], (uint32_t)b);
                c->saver[b] = c->machine->member[i].id;
                break;
            }
        }
    for (size_t i = 0; i < n; i++) {
        if (ask[i].n)
            ask_snapshots(c, spot_trainer_member(c, c->machine->member[i].id), &ask[i], to);
        spot_buf_release(&ask[i]);
    }
    free(ask);
}

/* The last state is sent: its hash and its file are made here. */
void spot_trainer_save(struct spot_trainer *c)
{
    struct place to = { .nonce = 0 };
    struct spot_err why = { 0 };

    c->sent_byte = 0;
    spot_trainer_settle_savers(c, -1);
    spot_store_begin(c->store, c->machine->round);
    if (c->is_final || !spot_store_share(c->store, to.dir, &to.nonce))
        to = (struct place){ .nonce = 0 };
    if (spot_journal_sync(c->journal, &why)) /* no generation should be ahead of the log */
        c->options->warn("%s; after a crash they may lack what led to step %lld", why.msg,
                         (long long)c->machine->round);
    spot_trainer_lag_begun(c);
    ask_holders(c, &to);
}

static bool result_is_whole(const struct spot_trainer *c)
{
    for (int b = 0; b < c->n_bundle; b++)
        if (!c->result[b])
            return false;
    return true;
}

/* The frame is the caller's; what is kept of it is copied. 1 for a malformed one. */
int spot_trainer_snapshot(struct spot_trainer *c, const struct spot_frame *frame,
                          struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const int64_t step = spot_get_i64(&in);
    uint8_t *copy;

    if (in.bad || frame->tag >= (uint64_t)c->n_bundle ||
        spot_bundle_check(&c->config.shape, (int)frame->tag, step, frame->data, frame->n_byte,
                          NULL))
        return 1;
    if (c->is_final && step == c->machine->round && !c->result[frame->tag]) {
        struct spot_frame *keep = spot_frame_new(frame->type, 0, frame->tag, frame->n_byte);

        if (!keep)
            return spot_err_set(err, SPOT_ESYS, "no memory for the final state");
        memcpy(keep->data, frame->data, frame->n_byte);
        c->result[frame->tag] = keep;
        if (result_is_whole(c))
            spot_group_end(c->group);
    }
    copy = malloc(frame->n_byte);
    if (!copy)
        return spot_err_set(err, SPOT_ESYS, "no memory for a snapshot");
    memcpy(copy, frame->data, frame->n_byte);
    c->sent_byte += (int64_t)frame->n_byte;
    spot_store_put(c->store, step, (int)frame->tag, copy, frame->n_byte);
    return 0;
}

static void put_durable(const struct spot_trainer *c, struct spot_jw *jw)
{
    spot_jw_str(jw, "where", "disk");
    spot_jw_real(jw, "lag_s", rint((spot_clock_s() - c->durable_of_s) * 1e6) / 1e6);
    spot_jw_real(jw, "cost_s", rint(c->durable_excess_s * 1e6) / 1e6);
    if (c->sent_byte)
        spot_jw_int(jw, "relayed_byte", c->sent_byte);
}

/* A generation has become durable, or could not be written: then the one before stays. */
int spot_trainer_store_news(void *job, struct spot_err *err)
{
    struct spot_trainer *const c = job;
    struct spot_err why = { 0 };
    struct spot_jw *jw;
    int64_t step;
    const int news = spot_store_result(c->store, &step, &why);

    if (news == SPOT_STORE_GONE) {
        c->options->warn("%s; the job's state is made durable again", why.msg);
        c->durable_s = 0;
        return 0;
    }
    if (news > 0 && why.code)
        c->options->warn("%s", why.msg);
    if (news < 0 && step == c->machine->round && c->is_final && c->options->state) {
        c->state_err = why; /* told when the result is safe */
    } else if (news < 0) {
        if (step == c->machine->round && spot_group_is_stopping(c->group))
            return spot_err_set(err, why.code, "%s", why.msg);
        c->options->warn("%s; training goes on without a durable copy of step %lld", why.msg,
                         (long long)step);
    }
    if (news <= 0)
        return 0;
    spot_trainer_lag_ended(c);
    jw = spot_journal_begin(c->journal, "durable", c->machine->epoch, step);
    if (jw)
        put_durable(c, jw);
    return spot_journal_end(c->journal, err);
}

/* --- the end ------------------------------------------------------------- */

/* The hash over step, bundles and planes in canonical order. */
static void hash_bundle(struct spot_hash_stream *hash, const struct spot_bundle *bundle)
{
    for (int p = 0; p < SPOT_PLANES; p++)
        spot_hash_stream_add(hash, bundle->plane[p], bundle->arena.n_elem * sizeof(float));
}

static struct spot_bundle **unpack_result(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_bundle **bundle = spot_xcalloc((size_t)c->n_bundle, sizeof(struct spot_bundle *));

    for (int b = 0; b < c->n_bundle; b++) {
        bundle[b] = spot_bundle_unpack(&c->config.shape, b, c->machine->round, c->result[b]->data,
                                       c->result[b]->n_byte, err);
        free(c->result[b]);
        c->result[b] = NULL;
        if (!bundle[b]) {
            for (int k = 0; k < b; k++)
                spot_bundle_free(bundle[k]);
            free(bundle);
            return NULL;
        }
    }
    return bundle;
}

/* A job that had nothing left to do is not done twice. */
static int log_done(struct spot_trainer *c, const char *hex, struct spot_err *err)
{
    struct spot_jw *jw;

    if (spot_journal_ends_done(c->journal, c->machine->round, hex))
        return 0;
    jw = spot_journal_begin(c->journal, "done", c->machine->epoch, c->machine->round);
    if (jw) {
        if (c->knows_loss)
            spot_jw_real(jw, "loss", (double)c->last_loss);
        spot_jw_str(jw, "state_xxh3_128", hex);
    }
    return spot_journal_end(c->journal, err);
}

int spot_trainer_finish(struct spot_trainer *c, struct spot_coordinator_result *result,
                        struct spot_err *err)
{
    struct spot_bundle **bundle = unpack_result(c, err);
    struct spot_hash_stream *hash;
    struct spot_buf step = { 0 };
    int rc = 0;

    if (!bundle)
        return -1;
    hash = spot_hash_stream_new();
    spot_put_i64(&step, c->machine->round);
    spot_hash_stream_add(hash, step.data, step.n);
    spot_buf_release(&step);
    for (int b = 0; b < c->n_bundle; b++)
        hash_bundle(hash, bundle[b]);
    result->step = c->machine->round;
    result->knows_loss = c->knows_loss;
    result->loss = c->last_loss;
    spot_hash128_hex(spot_hash_stream_128(hash), result->state_hex);
    spot_hash_stream_free(hash);
    if (c->model_dir)
        rc = spot_model_dir_write(c->model_dir, &c->config.shape, c->options->bpe,
                                  c->options->token_byte == 1 && !c->options->bpe, bundle,
                                  SPOT_DT_F32, err);
    else if (c->options->save)
        rc = spot_save_weights(c->options->save, &c->config.shape, bundle, SPOT_DT_F32, err);
    if (!rc)
        rc = log_done(c, result->state_hex, err);
    for (int b = 0; b < c->n_bundle; b++)
        spot_bundle_free(bundle[b]);
    free(bundle);
    return rc;
}
