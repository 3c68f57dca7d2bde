/* SPDX-License-Identifier: MIT */
/* The loss on validation data, every so many steps.
 *
 * It is computed by the grid that computes the steps, forward only, between two of them: a round
 * that is voted for and then repeated as a step. Which sequences are read is a function of the
 * options only, losses are summed in the order of the microbatches, and nothing of a step is
 * affected: the same bits on every grid. An epoch that ends meanwhile drops what was computed, and
 * the next one starts again with the same weights. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "train/trainer_state.h"

static int64_t n_sequence(const struct spot_trainer *c)
{
    return c->options->val_batches * c->config.global_batch;
}

int spot_trainer_open_val(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_coordinator_options *const o = c->options;
    struct spot_trainer_val *const v = &c->val;

    v->step = v->batch = -1;
    if (!o->n_val_data)
        return 0;
    if (spot_corpus_open_all(&v->corpus, o->val_data, o->n_val_data, o->bpe, o->token_byte,
                             c->config.shape.vocab, err) ||
        spot_sampler_init(&v->sampler, &v->corpus, c->config.shape.seq, 0, err))
        return -1;
    if (v->sampler.n_sequence < n_sequence(c))
        return spot_err_set(err, SPOT_EDATA,
                            "%s: %lld sequences are less than --val-batches %lld of %lld",
                            v->corpus.source, (long long)v->sampler.n_sequence,
                            (long long)o->val_batches, (long long)c->config.global_batch);
    return 0;
}

void spot_trainer_recall_val(struct spot_trainer *c)
{
    if (c->journal->val_step > c->machine->round || !isfinite(c->journal->val_loss))
        return;
    c->val.step = c->journal->val_step;
    c->val.loss = (float)c->journal->val_loss;
}

void spot_trainer_void_val(struct spot_trainer *c, int64_t step)
{
    if (c->val.step > step)
        c->val.step = step;
}

bool spot_trainer_val_is_due(const struct spot_trainer *c)
{
    const int64_t step = c->machine->round;

    return c->val.corpus.source && c->val.step != step && !spot_group_is_stopping(c->group) &&
           (step % c->options->val_every == 0 || step >= c->config.n_step);
}

/* Spread over the data. */
static int read_spread(const struct spot_trainer *c, int64_t j, int64_t k, uint32_t *token,
                       struct spot_err *err)
{
    const int64_t q = (c->val.batch * c->n_microbatch + j) * c->config.micro_batch + k;
    const int64_t there = c->val.sampler.n_sequence, n = n_sequence(c);

    return spot_sampler_read(&c->val.sampler, q * (there / n) + q * (there % n) / n, token, err);
}

int spot_trainer_validate(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_trainer_val *const v = &c->val;

    if (v->batch < 0) {
        v->batch = 0;
        v->sum = 0;
        v->began_s = spot_clock_s();
    }
    return spot_trainer_send_tokens(c, SPOT_MSG_VALIDATE, read_spread, err);
}

static int log_validated(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_jw *jw =
        spot_journal_begin(c->journal, "validated", c->machine->epoch, c->machine->round);
    uint32_t bits;
    char hex[16];

    if (!jw)
        return 0;
    memcpy(&bits, &c->val.loss, sizeof(bits));
    snprintf(hex, sizeof(hex), "%08" PRIx32, bits);
    spot_jw_real(jw, "loss", (double)c->val.loss);
    spot_jw_str(jw, "loss_hex", hex);
    spot_jw_int(jw, "sequences", n_sequence(c));
    return spot_journal_end(c->journal, err);
}

int spot_trainer_validated(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_trainer_val *const v = &c->val;

    for (int64_t j = 0; j < c->n_microbatch; j++)
        v->sum += c->loss[j];
    if (!isfinite(v->sum))
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "the training diverged: the loss of the validation data is not finite "
                            "after step %lld",
                            (long long)c->machine->round);
    if (++v->batch < c->options->val_batches)
        return 0;
    v->batch = -1;
    v->step = c->machine->round;
    v->loss = (float)(v->sum / (double)(c->n_microbatch * c->options->val_batches));
    if (c->last_commit_s > 0) /* no part of the time that a step takes */
        c->last_commit_s += spot_clock_s() - v->began_s;
    return log_validated(c, err);
}
