/* SPDX-License-Identifier: MIT */
#include "job_options.h"

#include <stdio.h>
#include <string.h>

#include "engine/backend.h"
#include "job/corpus.h"

int job_options_check(const struct job_options *o, struct spot_err *err)
{
    if (!o->data)
        return spot_err_set(err, SPOT_EUSAGE, "--data is missing: a file of text, or - for stdin");
    if (strcmp(o->backend, "cpu") != 0 && strcmp(o->backend, "cuda") != 0 &&
        strcmp(o->backend, "auto") != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--backend wants cpu, cuda or auto, got '%s'",
                            o->backend);
    if (strcmp(o->backend, "auto") != 0 && strcmp(o->kernel, "auto") != 0 &&
        !strcmp(o->backend, "cuda") != !strncmp(o->kernel, "cuda", 4))
        return spot_err_set(err, SPOT_EUSAGE, "--kernel %s is not of --backend %s", o->kernel,
                            o->backend);
    if (strlen(o->kernel) >= SPOT_KERNEL_NAME_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "--kernel: no such kind");
    return 0;
}

/* What a token is, and how many there are. */
static int settle_tokens(struct job_options *o, struct spot_err *err)
{
    if (spot_corpus_kind(o->tokens, &o->token_byte, err))
        return -1;
    if (o->tokenizer && o->token_byte > 1)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--tokenizer is for text, --tokens %s for what is tokens already",
                            o->tokens);
    if (o->tokenizer && !(o->bpe = spot_bpe_open(o->tokenizer, err)))
        return -1;
    if (o->bpe && o->vocab && (int64_t)o->vocab < spot_bpe_vocab(o->bpe))
        return spot_err_set(err, SPOT_EDATA, "%s has %lld tokens, more than --vocab %llu",
                            o->tokenizer, (long long)spot_bpe_vocab(o->bpe),
                            (unsigned long long)o->vocab);
    if (o->bpe && !o->vocab)
        o->vocab = (uint64_t)spot_bpe_vocab(o->bpe);
    if (!o->vocab && o->token_byte > 1)
        return spot_err_set(err, SPOT_EUSAGE, "--tokens %s wants --vocab: how many there are",
                            o->tokens);
    if (!o->vocab)
        o->vocab = 256;
    return 0;
}

/* The largest number up to `most` that divides n. */
static uint64_t divisor_up_to(uint64_t n, uint64_t most)
{
    while (n % most)
        most--;
    return most;
}

/* What must divide what, in the words of the options; the rest of the shape is checked later. */
static int settle_shape(struct job_options *o, struct spot_err *err)
{
    enum { SHARDS = 4 }; /* enough for a stage to be cut in four, few enough to cost nothing */

    if (o->width % o->heads)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--heads %llu does not divide --width %llu; try --heads %llu",
                            (unsigned long long)o->heads, (unsigned long long)o->width,
                            (unsigned long long)divisor_up_to(o->width, o->heads));
    if (!o->shards)
        o->shards = divisor_up_to(o->heads, SHARDS);
    if (o->heads % o->shards)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--shards %llu does not divide --heads %llu; try --shards %llu",
                            (unsigned long long)o->shards, (unsigned long long)o->heads,
                            (unsigned long long)divisor_up_to(o->heads, o->shards));
    if (o->global_batch % o->micro_batch)
        return spot_err_set(
            err, SPOT_EUSAGE,
            "--micro-batch %llu does not divide --global-batch %llu; try --micro-batch %llu",
            (unsigned long long)o->micro_batch, (unsigned long long)o->global_batch,
            (unsigned long long)divisor_up_to(o->global_batch, o->micro_batch));
    return 0;
}

int job_options_settle(struct job_options *o, struct spot_err *err)
{
    return settle_tokens(o, err) || settle_shape(o, err) ? -1 : 0;
}

/* What is asked for, or the best that this machine has. */
static const char *kernel_of(const struct job_options *o)
{
    struct spot_err err;

    if (strcmp(o->kernel, "auto") != 0 || !strcmp(o->backend, "cpu"))
        return o->kernel;
    if (!strcmp(o->backend, "cuda") || (spot_cuda_may_be_here() && spot_kernel_find("cuda", &err)))
        return "cuda";
    return "auto";
}

void job_options_put(const struct job_options *o, struct spot_coordinator_options *c)
{
    c->config = (struct spot_job_config){
        .shape = { .n_layer = (int64_t)o->layers,
                   .width = (int64_t)o->width,
                   .n_head = (int64_t)o->heads,
                   .seq = (int64_t)o->seq,
                   .vocab = (int64_t)o->vocab,
                   .n_shard = (int64_t)o->shards },
        .micro_batch = (int64_t)o->micro_batch,
        .global_batch = (int64_t)o->global_batch,
        .seed = o->seed,
        .adamw = { .lr = o->lr,
                   .beta1 = o->beta1,
                   .beta2 = o->beta2,
                   .eps = 1e-8,
                   .weight_decay = o->weight_decay },
        .clip_norm = o->clip,
    };
    snprintf(c->config.kernel, sizeof(c->config.kernel), "%s", kernel_of(o));
    c->data = o->data;
    c->token_byte = o->token_byte;
    c->bpe = o->bpe;
    c->n_thread = o->threads;
}
