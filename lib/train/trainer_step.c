/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "train/model_wire.h"
#include "train/sums.h"
#include "train/trainer_durable_state.h"
#include "train/trainer_evidence_state.h"
#include "train/trainer_member_state.h"
#include "train/trainer_move_state.h"
#include "train/trainer_place_state.h"
#include "train/trainer_report_state.h"
#include "train/trainer_step_state.h"

/* --- a step begins ------------------------------------------------------- */

static int64_t sample_of(const struct spot_trainer *c, int64_t step, int64_t j, int64_t k)
{
    return (step * c->n_microbatch + j) * c->config.micro_batch + k;
}

static int read_sample(const struct spot_trainer *c, int64_t j, int64_t k, uint32_t *token,
                       struct spot_err *err)
{
    const int64_t q = sample_of(c, c->machine->round, j, k);

    return spot_sampler_read(&c->sampler, spot_sampler_sequence(&c->sampler, q), token, err);
}

/* The words of pipeline d: of each sequence of each of its microbatches. */
static int put_tokens(const struct spot_trainer *c, uint32_t d, spot_trainer_read *read,
                      struct spot_buf *out, struct spot_err *err)
{
    const size_t n_byte = (size_t)spot_job_words(&c->config) * sizeof(uint32_t);
    int64_t begin, end;

    spot_form_microbatches(&c->form, d, &begin, &end);
    if (c->still.n) {
        const size_t row = n_byte * (size_t)c->config.micro_batch;

        spot_buf_add(out, c->still.data + (size_t)begin * row, (size_t)(end - begin) * row);
        return 0;
    }
    for (int64_t j = begin; j < end; j++)
        for (int64_t k = 0; k < c->config.micro_batch; k++) {
            uint32_t *const token = (uint32_t *)(void *)spot_buf_more(out, n_byte);

            if (read(c, j, k, token, err))
                return -1;
            out->n += n_byte;
        }
    return 0;
}

/* The hash of a step's tokens: those of the pipelines, in order, are those of all microbatches. */
static uint64_t hash_tokens(const struct spot_trainer *c, const struct spot_buf *token)
{
    struct spot_hash_stream *const stream = spot_hash_stream_new();
    uint64_t hash;

    for (uint32_t d = 0; d < c->form.D; d++)
        spot_hash_stream_add(stream, token[d].data, token[d].n);
    hash = spot_hash_stream_64(stream);
    spot_hash_stream_free(stream);
    return hash;
}

static void keep_still(struct spot_trainer *c, const struct spot_buf *token)
{
    if (!c->options->observer || !c->options->observer->is_synthetic || c->still.n)
        return;
    for (uint32_t d = 0; d < c->form.D; d++)
        spot_buf_add(&c->still, token[d].data, token[d].n);
}

static int log_step(struct spot_trainer *c, struct spot_err *err)
{
    if (spot_journal_begin(c->journal, "step", c->machine->epoch, c->machine->round + 1))
        return spot_journal_end(c->journal, err);
    return 0;
}

static int send_one(struct spot_trainer *c, uint32_t order, uint32_t id,
                    const struct spot_buf *token, struct spot_err *err)
{
    const struct spot_form *const f = &c->form;
    const int64_t position = spot_form_position(f, id);
    const struct spot_form_place at = spot_form_place(f, position < 0 ? 0 : position);
    const bool reads = position >= 0 && (at.p == 0 || at.p + 1 == f->P);
    struct spot_trainer_member *const who = spot_trainer_member(c, id);
    const size_t n = reads ? token[at.d].n : 0;
    const bool is_spare = position < 0 && id == c->verify.spare;
    struct spot_buf more = { 0 };
    int rc = 0;

    spot_peer_ask(who->peer);
    if ((position >= 0 || is_spare) && order == SPOT_MSG_ROUND) {
        if (n)
            spot_buf_add(&more, token[at.d].data, n);
        rc = spot_trainer_put_check(c, is_spare ? f->D : at.d, reads || is_spare, &more, err);
    }
    if (!rc && more.n > n)
        spot_peer_send(who->peer, order, (uint64_t)c->machine->round, more.data, more.n);
    else if (!rc)
        spot_peer_send(who->peer, order, (uint64_t)c->machine->round,
                       reads ? token[at.d].data : NULL, n);
    spot_buf_release(&more);
    return rc;
}

/* Send active members their tokens; one that only mirrors, or reads no tokens, gets an empty
 * step. */
static int send_all(struct spot_trainer *c, uint32_t order, const struct spot_buf *token,
                    struct spot_err *err)
{

    for (size_t i = 0; i < c->machine->n_member; i++) {
        if (c->machine->member[i].role == SPOT_ROLE_ACTIVE &&
            send_one(c, order, c->machine->member[i].id, token, err))
            return -1;
    }
    return 0;
}

int spot_trainer_send_tokens(struct spot_trainer *c, uint32_t order, spot_trainer_read *read,
                             struct spot_err *err)
{
    const struct spot_form *f = &c->form;
    struct spot_buf *token = spot_xcalloc(f->D, sizeof(*token));
    int rc = 0;

    for (uint32_t d = 0; !rc && d < f->D; d++)
        rc = put_tokens(c, d, read, &token[d], err);
    if (!rc) {
        keep_still(c, token);
        c->samples_xxh3 = hash_tokens(c, token);
        rc = send_all(c, order, token, err);
    }
    for (uint32_t d = 0; d < f->D; d++)
        spot_buf_release(&token[d]);
    free(token);
    return rc;
}

static int send_step(struct spot_trainer *c, struct spot_err *err)
{
    const double start_s = spot_clock_s();

    memset(c->vote, 0, (size_t)c->n_bundle * sizeof(*c->vote));
    c->compute_s = 0;
    spot_trainer_verify_step(c);
    if (log_step(c, err) || spot_trainer_send_tokens(c, SPOT_MSG_ROUND, read_sample, err))
        return -1;
    c->read_s = spot_clock_s() - start_s;
    return 0;
}

static const char *tokens_of(const struct spot_trainer_options *o)
{
    return o->bpe ? "tokenizer" : o->token_byte == 1 ? "bytes" : o->token_byte == 2 ? "u16" : "u32";
}

static void log_name(const struct spot_trainer *c, struct spot_jw *jw, uint32_t id)
{
    const struct spot_peer *peer = spot_group_find(c->group, id);

    spot_jw_str(jw, NULL, peer ? spot_peer_name(peer) : "");
}

static int log_formed(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_form *f = &c->form;
    struct spot_jw *jw = spot_journal_begin(c->journal, "formed", c->machine->epoch, f->step);

    if (jw) {
        spot_jw_int(jw, "D", f->D);
        spot_jw_int(jw, "P", f->P);
        spot_jw_int(jw, "M", f->M);
        spot_jw_int(jw, "members", (int64_t)c->machine->n_member);
        if (c->relay.sent_byte)
            spot_jw_int(jw, "relayed_byte", c->relay.sent_byte);
        spot_jw_str(jw, "tokens", tokens_of(c->options));
        spot_jw_array(jw, "place");
        for (uint32_t i = 0; i < spot_form_size(f); i++)
            log_name(c, jw, f->member[i]);
        spot_jw_end(jw);
        spot_jw_array(jw, "shares");
        for (uint32_t d = 0; d < f->D; d++)
            spot_jw_int(jw, NULL, f->share[d + 1] - f->share[d]);
        spot_jw_end(jw);
        spot_jw_array(jw, "buddies");
        for (uint32_t p = 0; p < f->P; p++)
            log_name(c, jw, f->buddy[p]);
        spot_jw_end(jw);
    }
    return spot_journal_end(c->journal, err);
}

/* All steps have committed: make the state durable once more, also for hash and file. */
static void begin_end(struct spot_trainer *c)
{
    c->is_final = true;
    spot_view_rest(c->view);
    if (c->options->observer || /* an observer does not need the weights */
        (spot_store_newest(c->saver.store) == c->machine->round &&
         spot_store_confirm(c->saver.store)))
        spot_group_end(c->group);
    else
        spot_trainer_save(c);
}

int spot_trainer_begin(void *job, struct spot_view *view, struct spot_err *err)
{
    struct spot_trainer *const c = job;

    if (c->form.step == c->machine->round) {
        spot_trainer_note_formed(c);
        spot_trainer_meter_formed(c);
        if (log_formed(c, err))
            return -1;
    }
    c->form.step = -1; /* an epoch is announced once */
    if (c->verify.must_break) {
        c->verify.must_break = false;
        return spot_view_break(view, c->machine->epoch, err);
    }
    spot_trainer_show(c);
    if (!spot_trainer_val_is_due(c))
        c->validator.batch = -1; /* the job is to stop without validation */
    if (c->machine->round >= c->config.n_step) {
        if (spot_trainer_val_is_due(c))
            return spot_trainer_validate(c, err);
        if (spot_trainer_must_confirm(c))
            spot_trainer_confirm(c);
        else
            begin_end(c);
        return 0;
    }
    if (c->is_redoing) { /* between two tries the exponents of a bundle are those of no commit */
        c->is_redoing = false;
        return send_step(c, err);
    }
    if (spot_group_is_stopping(c->group) && spot_trainer_must_confirm(c)) {
        spot_trainer_confirm(c);
        return 0;
    }
    if (spot_trainer_save_is_due(c) || spot_group_is_stopping(c->group))
        spot_trainer_save(c);
    if (spot_group_is_stopping(c->group)) {
        spot_view_rest(c->view); /* the loop ends when the state is durable */
        return 0;
    }
    if (spot_trainer_val_is_due(c))
        return spot_trainer_validate(c, err);
    spot_durable_lag_step(&c->saver.lag, c->machine->round, spot_store_newest(c->saver.store));
    spot_trainer_precopy_some(c);
    return send_step(c, err);
}

void spot_trainer_quiesced(void *job, struct spot_view *view)
{
    struct spot_trainer *const c = job;

    (void)view;
    spot_trainer_drop_result(c);
    spot_trainer_verify_quiesced(c);
    c->is_final = c->is_redoing = false;
    c->validator.batch = -1;
    spot_trainer_settle_savers(c, INT64_MAX);
}

/* --- votes --------------------------------------------------------------- */

/* Take the losses that the member must report. */
static int take_losses(struct spot_trainer *c, uint32_t id, struct spot_wire_in *in)
{
    const int64_t position = spot_form_position(&c->form, id);
    const uint32_t n = spot_get_count(in, 12);
    int64_t begin = 0, end = 0;

    spot_form_losses(&c->form, position, &begin, &end);
    if (n != end - begin)
        return 1;
    for (int64_t j = begin; j < end; j++) {
        if (spot_get_u32(in) != j)
            return 1;
        c->loss[j] = spot_get_f64(in);
    }
    return in->bad;
}

/* Take the times of a bundle per microbatch; a mirror's zeros are ignored. */
static void take_times(struct spot_trainer *c, uint32_t id, uint32_t b, struct spot_wire_in *in)
{
    const double forward_s = spot_get_duration(in), backward_s = spot_get_duration(in);
    const int64_t position = spot_form_position(&c->form, id);
    struct spot_stage_times *const t = &c->vote[b].times;
    int64_t begin, end;

    if (position < 0)
        return;
    spot_form_microbatches(&c->form, spot_form_place(&c->form, position).d, &begin, &end);
    t->forward_s = fmax(t->forward_s, forward_s / (double)(end - begin));
    t->backward_s = fmax(t->backward_s, backward_s / (double)(end - begin));
}

/* All replicas must have the same sums; a different number of tensors means a malformed message. */
static int take_bundle_vote(struct spot_trainer *c, uint32_t id, uint32_t b,
                            struct spot_wire_in *in, struct spot_err *err)
{
    const uint32_t got = spot_get_u32(in);
    struct spot_trainer_vote v = { .is_in = true }, *all;
    struct spot_arena arena;

    v.norm2 = spot_get_f64(in);
    v.overflow = spot_get_tensors(in, &c->config.shape, b);
    v.nonfinite = spot_get_tensors(in, &c->config.shape, b);
    take_times(c, id, b, in);
    spot_arena_of(&c->config.shape, (int)b, &arena);
    if (spot_evidence_of_kernel(c->config.kernel))
        spot_evidence_get(in, &v.evidence, arena.n_tensor);
    if (in->bad || got != b ||
        (!v.nonfinite && !v.overflow && !(v.norm2 >= 0 && v.norm2 < INFINITY)))
        return 1;
    all = &c->vote[b];
    spot_trainer_member(c, id)->reported[b] =
        (struct spot_trainer_reported){ .evidence = v.evidence, .norm2 = v.norm2 };
    if (all->is_in && !spot_evidence_of_kernel(c->config.kernel) &&
        memcmp(&all->norm2, &v.norm2, sizeof(v.norm2)) != 0)
        return spot_err_set(err, SPOT_ESYS,
                            "step %lld: member %u and its replica have different gradients of "
                            "bundle %u: memory or network of one of them is faulty",
                            (long long)c->machine->round + 1, (unsigned)id, (unsigned)b);
    all->norm2 = v.norm2;
    if (!all->is_in)
        all->evidence = v.evidence;
    all->overflow |= v.overflow;
    all->nonfinite |= v.nonfinite;
    all->is_in = true;
    return 0;
}

int spot_trainer_take_vote(void *job, struct spot_view *view, struct spot_peer *peer, int64_t step,
                           struct spot_wire_in *in, struct spot_err *err)
{
    struct spot_trainer *const c = job;
    const uint32_t id = spot_peer_id(peer);
    struct spot_member_seen seen;
    uint32_t n = 0;
    int rc;

    (void)view, (void)step; /* a vote is always of the current step */
    if (c->verify.is_confirming)
        return spot_trainer_take_states(c, id, in);
    if (c->validator.batch >= 0)
        return take_losses(c, id, in);
    seen.step_s = spot_get_duration(in);
    seen.forward_s = spot_get_duration(in);
    seen.backward_s = spot_get_duration(in);
    seen.reduce_s = spot_get_duration(in);
    seen.resident_byte = spot_get_u64(in);
    rc = take_losses(c, id, in);

    for (uint32_t b = 0; b < (uint32_t)c->n_bundle; b++)
        n += spot_form_keeps(&c->form, id, b);
    if (!rc && spot_get_count(in, 36) != n)
        rc = 1;
    for (uint32_t b = 0; !rc && b < (uint32_t)c->n_bundle; b++)
        if (spot_form_keeps(&c->form, id, b))
            rc = take_bundle_vote(c, id, b, in, err);
    if (!rc)
        spot_trainer_take_reports(c, id, in);
    if (rc || in->bad)
        return rc ? rc : 1;
    if (seen.step_s > c->compute_s)
        c->compute_s = seen.step_s;
    spot_trainer_member(c, id)->seen = seen;
    spot_trainer_note_pace(c, id, seen.forward_s + seen.backward_s);
    return 0;
}

/* --- the decision -------------------------------------------------------- */

static int check_finite(const struct spot_trainer *c, struct spot_err *err)
{
    const long long step = c->machine->round + 1;

    for (int b = 0; b < c->n_bundle; b++)
        if (c->vote[b].nonfinite) {
            struct spot_arena arena;
            char name[SPOT_TENSOR_NAME_MAX];
            int t = 0;

            while (!(c->vote[b].nonfinite >> t & 1))
                t++;
            spot_arena_of(&c->config.shape, b, &arena);
            spot_arena_tensor_name(&arena, b, t, 0, name);
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "the training diverged: the gradient of %s is not finite at step "
                                "%lld",
                                name, step);
        }
    for (int64_t j = 0; j < c->n_microbatch; j++)
        if (!isfinite(c->loss[j]))
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "the training diverged: the loss of microbatch %lld is not finite "
                                "at step %lld",
                                (long long)j, step);
    return 0;
}

/* Order the step again with smaller exponents if a sum would not fit. */
static bool redo(struct spot_trainer *c)
{
    struct spot_buf out = { 0 };
    uint32_t n = 0;

    spot_sums_tie_overflow(&c->config.shape, &c->vote[0].overflow,
                           &c->vote[c->n_bundle - 1].overflow);
    for (int b = 0; b < c->n_bundle; b++)
        n += c->vote[b].overflow != 0;
    if (!n)
        return false;
    spot_put_u32(&out, n);
    for (int b = 0; b < c->n_bundle; b++)
        if (c->vote[b].overflow) {
            spot_put_u32(&out, (uint32_t)b);
            spot_put_u32(&out, c->vote[b].overflow);
        }
    spot_view_send_active(c->view, SPOT_MSG_REDO, (uint64_t)c->machine->round, out.data, out.n);
    spot_buf_release(&out);
    return true;
}

static int log_committed(struct spot_trainer *c, float loss, double norm,
                         const struct spot_step_parameters *parameters, struct spot_err *err)
{
    struct spot_jw *jw =
        spot_journal_begin(c->journal, "committed", c->machine->epoch, c->machine->round + 1);
    uint32_t bits;
    char hex[16];

    if (!jw) {
        spot_trainer_put_chain(c, NULL, parameters);
        return 0;
    }
    memcpy(&bits, &loss, sizeof(bits));
    snprintf(hex, sizeof(hex), "%08" PRIx32, bits);
    spot_jw_real(jw, "loss", (double)loss);
    spot_jw_str(jw, "loss_hex", hex);
    spot_jw_real(jw, "grad_norm", norm);
    spot_jw_real(jw, "lr", parameters->lr);
    spot_jw_real(jw, "compute_s", rint(c->compute_s * 1e6) / 1e6);
    spot_jw_array(jw, "samples");
    for (int64_t j = 0; j < c->n_microbatch; j++)
        for (int64_t k = 0; k < c->config.micro_batch; k++)
            spot_jw_int(jw, NULL, sample_of(c, c->machine->round, j, k));
    spot_jw_end(jw);
    spot_trainer_put_chain(c, jw, parameters);
    return spot_journal_end(c->journal, err);
}

/* Returns the time since the previous commit. */
static double pace(struct spot_trainer *c)
{
    const double now_s = spot_clock_s(), took_s = now_s - c->last_commit_s;

    if (c->last_commit_s > 0)
        c->step_s = c->step_s > 0 ? 0.8 * c->step_s + 0.2 * took_s : took_s;
    c->last_commit_s = now_s;
    c->keep_until_s = 0;
    return took_s;
}

int spot_trainer_commit(void *job, struct spot_view *view, enum spot_verdict *verdict,
                        struct spot_err *err)
{
    struct spot_trainer *const c = job;
    double sum = 0, norm2 = 0, scale, step_s;
    struct spot_adamw adamw;
    struct spot_step_parameters parameters;
    struct spot_buf out = { 0 };
    int differs;

    if (c->verify.is_confirming) {
        *verdict = SPOT_VERDICT_REDO;
        return spot_trainer_confirmed(c, err);
    }
    if (c->validator.batch >= 0) {
        *verdict = SPOT_VERDICT_REDO;
        return spot_trainer_validated(c, err);
    }
    differs = spot_trainer_compare_holders(
        c, err); /* a wrong weight is a better reason than its effects */
    if (!differs)
        differs = spot_trainer_verify_votes(c, err);
    if (differs) {
        c->is_redoing = true;
        *verdict = SPOT_VERDICT_REDO;
        return differs < 0 ? -1 : 0;
    }
    if (check_finite(c, err))
        return -1;
    c->verify.n_redo = 0;
    if (redo(c)) {
        c->is_redoing = true;
        *verdict = SPOT_VERDICT_REDO;
        return 0;
    }
    for (int64_t j = 0; j < c->n_microbatch; j++)
        sum += c->loss[j];
    for (int b = 0; b < c->n_bundle; b++)
        norm2 += c->vote[b].norm2;
    scale = spot_job_scale(&c->config, norm2);
    c->last_loss = (float)(sum / (double)c->n_microbatch);
    c->knows_loss = true;
    adamw = spot_job_adamw(&c->config, c->machine->round + 1);
    parameters = spot_step_parameters(&adamw, scale, c->last_loss);
    if (log_committed(c, c->last_loss, sqrt(norm2), &parameters, err))
        return -1;
    spot_put_f64(&out, scale);
    spot_put_f64(&out, adamw.lr);
    spot_put_f64(&out, adamw.weight_decay);
    spot_view_send_active(c->view, SPOT_MSG_COMMIT, (uint64_t)c->machine->round, out.data, out.n);
    spot_buf_release(&out);
    step_s = pace(c);
    spot_trainer_precopied(c, step_s);
    spot_trainer_watch_deadlines(c);
    /* the first of an epoch waits for pages and connections */
    spot_save_cost_step(&c->saver.lag.cost, step_s, spot_store_is_busy(c->saver.store),
                        c->drift.n_commit >= 2);
    spot_trainer_meter_step(c, step_s);
    if (spot_trainer_split_drifts(c))
        spot_view_want_change(view);
    if (c->movement.is_put_off ? spot_trainer_would_change(c, view) : spot_trainer_lacks_warm(c))
        spot_view_want_change(view);
    spot_trainer_observe(c, step_s);
    return 0;
}
