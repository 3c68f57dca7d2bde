/* SPDX-License-Identifier: MIT */
#include "job_options.h"

#include <stdio.h>
#include <string.h>

#include "cli/tool.h"
#include "engine/backend.h"
#include "text/corpus.h"
#include "weights/hf_config.h"
#include "weights/hf_family.h"

enum { SEQ = 64 };

static int check_recompute(const struct job_options *o, struct spot_err *err)
{
    if (spot_recompute_find(o->recompute) >= 0)
        return 0;
    return spot_err_set(err, SPOT_EUSAGE, "--recompute must be none, mlp or layer, got '%s'",
                        o->recompute);
}

static bool is_llama(const struct job_options *o)
{
    return strcmp(o->arch, "gpt2") != 0;
}

static int check_arch(const struct job_options *o, struct spot_err *err)
{
    const char *given = o->kv_heads ? "--kv-heads" : o->ffn ? "--ffn" : "--rope-theta";

    if (spot_hf_family_find(o->arch) < 0 || spot_hf_family_find(o->arch) > 1)
        return spot_err_set(err, SPOT_EUSAGE, "--arch must be gpt2 or llama, got '%s'", o->arch);
    if (!is_llama(o) && (o->kv_heads || o->ffn || o->rope_theta != 0))
        return spot_err_set(err, SPOT_EUSAGE, "%s is for --arch llama", given);
    return 0;
}

/* The option, or where it was not said what the file says. */
static int take(const char *option, uint64_t *said, int64_t file, const char *path,
                struct spot_err *err)
{
    if (*said && *said != (uint64_t)file)
        return spot_err_set(err, SPOT_EUSAGE, "%s %llu, but %s says %lld", option,
                            (unsigned long long)*said, path, (long long)file);
    *said = (uint64_t)file;
    return 0;
}

static int take_shape(struct job_options *o, const struct spot_shape *shape, const char *path,
                      struct spot_err *err)
{
    const struct spot_shape s = *shape;
    struct spot_err why;
    const char *const type = spot_hf_family_of(shape)->type;

    if (o->arch && strcmp(o->arch, type) != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--arch %s, but %s says %s", o->arch, path, type);
    if (spot_shape_refuse(shape, 0, "training", &why))
        return spot_err_set(err, SPOT_EDATA, "%s: %s", path, why.msg);
    if (o->is_tied && !s.is_tied)
        return spot_err_set(err, SPOT_EUSAGE, "--tied, but %s says that the head is not", path);
    if (o->rope_theta != 0 && o->rope_theta != s.rope_theta)
        return spot_err_set(err, SPOT_EUSAGE, "--rope-theta %g, but %s says %g", o->rope_theta,
                            path, s.rope_theta);
    if (o->norm_eps != 0 && (float)o->norm_eps != (float)s.norm_eps)
        return spot_err_set(err, SPOT_EUSAGE, "--norm-eps %g, but %s says %g", o->norm_eps, path,
                            s.norm_eps);
    if (o->seq > (uint64_t)s.seq)
        return spot_err_set(err, SPOT_EUSAGE, "--seq %llu, but %s says that it has %lld positions",
                            (unsigned long long)o->seq, path, (long long)s.seq);
    if (o->seq && o->seq < (uint64_t)s.seq)
        spot_tool_note("--seq %llu: sequences are shorter than the %lld positions of %s",
                       (unsigned long long)o->seq, (long long)s.seq, path);
    o->seq = o->seq ? o->seq : (uint64_t)s.seq;
    o->arch = type;
    o->is_tied = s.is_tied != 0;
    o->rope_theta = s.rope_theta;
    o->norm_eps = s.norm_eps;
    return take("--layers", &o->layers, s.n_layer, path, err) ||
                   take("--width", &o->width, s.width, path, err) ||
                   take("--heads", &o->heads, s.n_head, path, err) ||
                   take("--vocab", &o->vocab, s.vocab, path, err) ||
                   take("--kv-heads", &o->kv_heads, s.n_kv_head, path, err) ||
                   take("--ffn", &o->ffn, s.ffn, path, err)
               ? -1
               : 0;
}

static int take_config(struct job_options *o, const char *load, struct spot_err *err)
{
    struct spot_shape s = { 0 };
    char path[SPOT_HF_CONFIG_PATH];
    const int is_there = spot_hf_config_of(load, path, &s, err);

    return is_there < 0 || (is_there && take_shape(o, &s, path, err)) ? -1 : 0;
}

int job_options_shape(struct job_options *o, const char *load, struct spot_err *err)
{
    if (load && take_config(o, load, err))
        return -1;
    if (!o->seq)
        o->seq = SEQ;
    if (!o->arch)
        o->arch = "gpt2";
    if (!o->layers)
        o->layers = 4;
    if (!o->width)
        o->width = 128;
    if (!o->heads)
        o->heads = 4;
    return 0;
}

int job_options_check(const struct job_options *o, struct spot_err *err)
{
    if (!o->data.n)
        return spot_err_set(err, SPOT_EUSAGE, "--data is missing: a file of text, or - for stdin");
    for (size_t i = 0; i < o->val_data.n; i++)
        if (!strcmp(o->val_data.item[i], "-"))
            return spot_err_set(err, SPOT_EUSAGE, "--val-data must be files, not standard input");
    if (strcmp(o->backend, "cpu") != 0 && strcmp(o->backend, "cuda") != 0 &&
        strcmp(o->backend, "auto") != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--backend must be cpu, cuda or auto, got '%s'",
                            o->backend);
    if (strcmp(o->backend, "auto") != 0 && strcmp(o->kernel, "auto") != 0 &&
        !strcmp(o->backend, "cuda") != !strncmp(o->kernel, "cuda", 4))
        return spot_err_set(err, SPOT_EUSAGE, "--kernel %s is not of --backend %s", o->kernel,
                            o->backend);
    if (strlen(o->kernel) >= SPOT_KERNEL_NAME_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "--kernel: no such kind");
    return check_arch(o, err) || check_recompute(o, err) ? -1 : 0;
}

/* What a token is, and how many there are. */
static int settle_tokens(struct job_options *o, struct spot_err *err)
{
    if (spot_corpus_kind(o->tokens, &o->token_byte, err))
        return -1;
    if (o->tokenizer && o->token_byte > 1)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--tokenizer is for text; with --tokens %s the data are tokens already",
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
        return spot_err_set(err, SPOT_EUSAGE, "--tokens %s requires --vocab, the number of tokens",
                            o->tokens);
    if (o->vocab > 256 && o->token_byte == 1 && !o->bpe)
        spot_tool_warn("the data are read as bytes, of which there are 256, not --vocab %llu: are "
                       "they --tokens u16 or u32, or text for a --tokenizer?",
                       (unsigned long long)o->vocab);
    if (!o->vocab)
        o->vocab = 256;
    return 0;
}

/* The largest number up to `most` that divides n, and m. */
static uint64_t divisor_up_to(uint64_t n, uint64_t m, uint64_t most)
{
    while (n % most || m % most)
        most--;
    return most;
}

/* Option `part` divides option `whole`; else the nearest that does is proposed. */
static int check_divides(const char *part, uint64_t small, const char *whole, uint64_t large,
                         struct spot_err *err)
{
    if (large % small == 0)
        return 0;
    return spot_err_set(err, SPOT_EUSAGE, "%s %llu does not divide %s %llu; try %s %llu", part,
                        (unsigned long long)small, whole, (unsigned long long)large, part,
                        (unsigned long long)divisor_up_to(large, 0, small));
}

/* 8/3 C, up to a multiple of S, and of 256 from C = 1024 on: the width of Llama's own models. */
static uint64_t usual_ffn(uint64_t width, uint64_t shards)
{
    enum { LARGE = 1024, TILE = 256 };
    uint64_t unit = shards;

    while (width >= LARGE && unit % TILE)
        unit += shards;
    return ((8 * width + 2) / 3 + unit - 1) / unit * unit;
}

static int settle_llama(struct job_options *o, struct spot_err *err)
{
    if (!o->ffn)
        o->ffn = usual_ffn(o->width, o->shards);
    if (o->rope_theta == 0)
        o->rope_theta = 10000;
    if (o->width / o->heads % 2)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--heads %llu makes heads of %llu numbers, --arch llama needs an even "
                            "number",
                            (unsigned long long)o->heads,
                            (unsigned long long)(o->width / o->heads));
    return check_divides("--shards", o->shards, "--ffn", o->ffn, err);
}

/* What must divide what, in the words of the options; the rest of the shape is checked later. */
static int settle_shape(struct job_options *o, struct spot_err *err)
{
    enum { SHARDS = 4 }; /* enough for a stage to be cut in four, few enough to cost nothing */
    const char *const cut = o->kv_heads ? "--kv-heads" : "--heads";
    uint64_t n_cut;

    if (check_divides("--heads", o->heads, "--width", o->width, err))
        return -1;
    if (is_llama(o) && !o->kv_heads)
        o->kv_heads = o->heads;
    n_cut = is_llama(o) ? o->kv_heads : o->heads;
    if (check_divides("--kv-heads", n_cut, "--heads", o->heads, err))
        return -1;
    if (!o->shards)
        o->shards = divisor_up_to(n_cut, o->ffn, SHARDS); /* ffn is 0 where it follows */
    if (check_divides("--shards", o->shards, cut, n_cut, err) ||
        (is_llama(o) && settle_llama(o, err)))
        return -1;
    return check_divides("--micro-batch", o->micro_batch, "--global-batch", o->global_batch, err);
}

int job_options_settle(struct job_options *o, struct spot_err *err)
{
    return spot_cuda_check_device(o->device, err) || settle_tokens(o, err) || settle_shape(o, err)
               ? -1
               : 0;
}

/* CUDA is taken where it is asked for, by name: no kind of device has passed `make check-gpu`. */
static const char *kernel_of(const struct job_options *o)
{
    if (strcmp(o->kernel, "auto") != 0)
        return o->kernel;
    if (!strcmp(o->backend, "auto") && spot_cuda_may_be_here())
        spot_tool_warn("--backend auto uses the CPU; --backend cuda uses the device");
    return !strcmp(o->backend, "cuda") ? "cuda" : "auto";
}

void job_options_put(const struct job_options *o, struct spot_coordinator_options *c)
{
    c->config = (struct spot_job_config){
        .shape = { .n_layer = (int64_t)o->layers,
                   .width = (int64_t)o->width,
                   .n_head = (int64_t)o->heads,
                   .seq = (int64_t)o->seq,
                   .vocab = (int64_t)o->vocab,
                   .n_shard = (int64_t)o->shards,
                   .n_kv_head = (int64_t)o->kv_heads,
                   .ffn = (int64_t)o->ffn,
                   .rope_theta = o->rope_theta,
                   .is_tied = o->is_tied,
                   .norm_eps = o->norm_eps },
        .micro_batch = (int64_t)o->micro_batch,
        .global_batch = (int64_t)o->global_batch,
        .seed = o->seed,
        .adamw = { .lr = o->lr,
                   .beta1 = o->beta1,
                   .beta2 = o->beta2,
                   .eps = 1e-8,
                   .weight_decay = o->weight_decay },
        .schedule = { .kind = (uint32_t)spot_lr_schedule_find(o->lr_schedule),
                      .warmup_steps = (int64_t)o->warmup_steps,
                      .decay_steps = (int64_t)o->decay_steps,
                      .min_lr = o->min_lr },
        .clip_norm = o->clip,
    };
    (void)spot_hf_family_kind(o->arch, &c->config.shape.kind); /* it has been checked */
    snprintf(c->config.kernel, sizeof(c->config.kernel), "%s", kernel_of(o));
    c->data = o->data.item;
    c->n_data = o->data.n;
    c->val_data = o->val_data.item;
    c->n_val_data = o->val_data.n;
    c->val_every = (int64_t)o->val_every;
    c->val_batches = (int64_t)o->val_batches;
    c->token_byte = o->token_byte;
    c->bpe = o->bpe;
    c->tokenizer = o->tokenizer;
    c->n_thread = o->threads;
    c->recompute = spot_recompute_find(o->recompute);
    c->device = o->device;
}
