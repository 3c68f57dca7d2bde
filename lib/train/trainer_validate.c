/* SPDX-License-Identifier: MIT */
/* The validator (validator.h) and the grid that computes for it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "train/trainer_step_state.h"

int spot_trainer_open_val(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_trainer_options *const o = c->options;
    struct spot_validator *const v = &c->validator;

    *v = (struct spot_validator){ .step = -1,
                                  .batch = -1,
                                  .every = o->val_every,
                                  .n_batch = o->val_batches,
                                  .batch_size = c->config.global_batch };
    if (!o->n_val_data)
        return 0;
    return spot_corpus_open_all(&v->corpus, o->val_data, o->n_val_data, o->bpe, o->token_byte,
                                c->config.shape.vocab, err) ||
                   spot_validator_init(v, c->config.shape.seq, err)
               ? -1
               : 0;
}

void spot_trainer_recall_val(struct spot_trainer *c)
{
    if (c->journal->val_step > c->machine->round || !isfinite(c->journal->val_loss))
        return;
    c->validator.step = c->journal->val_step;
    c->validator.loss = (float)c->journal->val_loss;
}

bool spot_trainer_val_is_due(const struct spot_trainer *c)
{
    const int64_t step = c->machine->round;

    return spot_validator_is_due(&c->validator, step, step >= c->config.n_step) &&
           !spot_group_is_stopping(c->group);
}

static int read_spread(const struct spot_trainer *c, int64_t j, int64_t k, uint32_t *token,
                       struct spot_err *err)
{
    static const float one = 1;

    for (int64_t i = c->config.shape.seq + 1; i < spot_job_words(&c->config); i++)
        memcpy(&token[i], &one, sizeof(one)); /* the validation loss is unweighted */
    return spot_validator_read(&c->validator, j * c->config.micro_batch + k, token, err);
}

int spot_trainer_validate(struct spot_trainer *c, struct spot_err *err)
{
    spot_validator_begin(&c->validator);
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
    memcpy(&bits, &c->validator.loss, sizeof(bits));
    snprintf(hex, sizeof(hex), "%08" PRIx32, bits);
    spot_jw_real(jw, "loss", (double)c->validator.loss);
    spot_jw_str(jw, "loss_hex", hex);
    spot_jw_int(jw, "sequences", spot_validator_sequences(&c->validator));
    return spot_journal_end(c->journal, err);
}

int spot_trainer_validated(struct spot_trainer *c, struct spot_err *err)
{
    double took_s = 0;
    const int rc = spot_validator_add(&c->validator, c->loss, c->n_microbatch, c->machine->round,
                                      &took_s, err);

    if (rc <= 0)
        return rc;
    if (c->last_commit_s > 0) /* not part of a step's time */
        c->last_commit_s += took_s;
    return log_validated(c, err);
}
