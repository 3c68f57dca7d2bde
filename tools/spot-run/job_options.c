/* SPDX-License-Identifier: MIT */
#include "job_options.h"

#include <stdio.h>
#include <string.h>

#include "cli/tool.h"
#include "engine/backend.h"
#include "run.h"
#include "text/corpus.h"
#include "weights/hf_config.h"
#include "weights/hf_family.h"

enum { SEQ = 64 };

static int check_recompute(struct job_options *o, struct spot_err *err)
{
    o->c.recompute = spot_recompute_find(o->recompute);
    if (o->c.recompute >= 0)
        return 0;
    return spot_err_set(err, SPOT_EUSAGE, "--recompute must be none, mlp or layer, got '%s'",
                        o->recompute);
}

static bool is_llama(const struct job_options *o)
{
    return strcmp(o->arch, "gpt2") != 0;
}

static int check_arch(struct job_options *o, struct spot_err *err)
{
    struct spot_shape *const s = &o->c.config.shape;
    const char *given = s->n_kv_head ? "--kv-heads" : s->ffn ? "--ffn" : "--rope-theta";

    s->is_tied = o->is_tied;
    if (o->has_kind)
        return 0;
    if (spot_hf_family_find(o->arch) < 0 || spot_hf_family_find(o->arch) > 1 ||
        spot_hf_family_kind(o->arch, &s->kind))
        return spot_err_set(err, SPOT_EUSAGE, "--arch must be gpt2 or llama, got '%s'", o->arch);
    if (!is_llama(o) && (s->n_kv_head || s->ffn || s->rope_theta != 0))
        return spot_err_set(err, SPOT_EUSAGE, "%s is for --arch llama", given);
    return 0;
}

/* Take the value of the option or, if it was not given, that of the file. */
static int take(const char *option, int64_t *given, int64_t file, const char *path,
                struct spot_err *err)
{
    if (*given && *given != file)
        return spot_err_set(err, SPOT_EUSAGE, "%s %lld, but %s says %lld", option,
                            (long long)*given, path, (long long)file);
    *given = file;
    return 0;
}

static int take_shape(struct job_options *o, const struct spot_shape *file, const char *path,
                      struct spot_err *err)
{
    struct spot_shape *const s = &o->c.config.shape;
    struct spot_err why;
    const char *const type = spot_hf_family_of(file)->type;

    if (o->arch && strcmp(o->arch, type) != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--arch %s, but %s says %s", o->arch, path, type);
    if (spot_shape_refuse(file, ~SPOT_NEED(SPOT_NEEDS_EXPERTS), "training", &why))
        return spot_err_set(err, SPOT_EDATA, "%s: %s", path, why.msg);
    if (o->is_tied && !file->is_tied)
        return spot_err_set(err, SPOT_EUSAGE, "--tied, but %s says that the head is not", path);
    if (s->rope_theta != 0 && s->rope_theta != file->rope_theta)
        return spot_err_set(err, SPOT_EUSAGE, "--rope-theta %g, but %s says %g", s->rope_theta,
                            path, file->rope_theta);
    if (s->seq > file->seq)
        return spot_err_set(err, SPOT_EUSAGE, "--seq %lld, but %s says that it has %lld positions",
                            (long long)s->seq, path, (long long)file->seq);
    if (s->seq && s->seq < file->seq)
        spot_tool_note("--seq %lld: sequences are shorter than the %lld positions of %s",
                       (long long)s->seq, (long long)file->seq, path);
    s->seq = s->seq ? s->seq : file->seq;
    s->n_shard = s->n_shard ? s->n_shard : file->n_shard;
    s->kind = file->kind;
    s->head_dim = file->head_dim;
    o->has_kind = true;
    o->arch = type;
    o->is_tied = file->is_tied != 0;
    s->rope_theta = file->rope_theta;
    s->norm_eps = file->norm_eps;
    return take("--layers", &s->n_layer, file->n_layer, path, err) ||
                   take("--width", &s->width, file->width, path, err) ||
                   take("--heads", &s->n_head, file->n_head, path, err) ||
                   take("--vocab", &s->vocab, file->vocab, path, err) ||
                   take("--kv-heads", &s->n_kv_head, file->n_kv_head, path, err) ||
                   take("--ffn", &s->ffn, file->ffn, path, err)
               ? -1
               : 0;
}

static int take_config(struct job_options *o, struct spot_err *err)
{
    struct spot_shape s = { 0 };
    char path[SPOT_HF_CONFIG_PATH];
    int is_there = o->c.load ? spot_hf_config_of(o->c.load, path, &s, err) : 0;

    if (!is_there && o->config) {
        snprintf(path, sizeof(path), "job.json: /config");
        is_there = spot_hf_config_parse(o->config, path, &s, err) ? -1 : 1;
    }
    return is_there < 0 || (is_there && take_shape(o, &s, path, err)) ? -1 : 0;
}

int job_options_shape(struct job_options *o, struct spot_err *err)
{
    struct spot_shape *const s = &o->c.config.shape;

    if (take_config(o, err))
        return -1;
    if (!o->arch)
        o->arch = "gpt2";
    s->seq = s->seq ? s->seq : SEQ;
    s->n_layer = s->n_layer ? s->n_layer : 4;
    s->width = s->width ? s->width : 128;
    s->n_head = s->n_head ? s->n_head : 4;
    return 0;
}

int job_options_check(struct job_options *o, struct spot_err *err)
{
    if (!o->data.n)
        return spot_err_set(err, SPOT_EUSAGE, "--data is missing: a file of text, or - for stdin");
    for (size_t i = 0; i < o->val_data.n; i++)
        if (!strcmp(o->val_data.item[i], "-"))
            return spot_err_set(err, SPOT_EUSAGE, "--val-data must be files, not standard input");
    return check_arch(o, err) || check_recompute(o, err) ? -1 : 0;
}

/* Determine the kind of tokens, and the size of the vocabulary. */
static int settle_tokens(struct job_options *o, struct spot_err *err)
{
    struct spot_trainer_options *const c = &o->c;
    int64_t *const vocab = &c->config.shape.vocab;

    if (spot_corpus_kind(o->tokens, &c->token_byte, err))
        return -1;
    if (c->tokenizer && c->token_byte > 1)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--tokenizer is for text; with --tokens %s the data are tokens already",
                            o->tokens);
    if (c->tokenizer && !(c->bpe = spot_bpe_open(c->tokenizer, err)))
        return -1;
    if (c->bpe && *vocab && *vocab < spot_bpe_vocab(c->bpe))
        return spot_err_set(err, SPOT_EDATA, "%s has %lld tokens, more than --vocab %lld",
                            c->tokenizer, (long long)spot_bpe_vocab(c->bpe), (long long)*vocab);
    if (c->bpe && !*vocab)
        *vocab = spot_bpe_vocab(c->bpe);
    if (!*vocab && c->token_byte > 1)
        return spot_err_set(err, SPOT_EUSAGE, "--tokens %s requires --vocab, the number of tokens",
                            o->tokens);
    if (*vocab > 256 && c->token_byte == 1 && !c->bpe)
        spot_tool_warn("the data are read as bytes, of which there are 256, not --vocab %lld: are "
                       "they --tokens u16 or u32, or text for a --tokenizer?",
                       (long long)*vocab);
    if (!*vocab)
        *vocab = 256;
    return 0;
}

/* The largest number up to `most` that divides both n and m. */
static int64_t divisor_up_to(int64_t n, int64_t m, int64_t most)
{
    while (n % most || m % most)
        most--;
    return most;
}

/* Check that option `part` divides option `whole`; otherwise propose the nearest divisor. */
static int check_divides(const char *part, int64_t small, const char *whole, int64_t large,
                         struct spot_err *err)
{
    if (large % small == 0)
        return 0;
    return spot_err_set(err, SPOT_EUSAGE, "%s %lld does not divide %s %lld; try %s %lld", part,
                        (long long)small, whole, (long long)large, part,
                        (long long)divisor_up_to(large, 0, small));
}

/* 8/3 C, rounded up to a multiple of S, and from C = 1024 on of 256: the width of Llama's models.
 */
static int64_t usual_ffn(int64_t width, int64_t shards)
{
    enum { LARGE = 1024, TILE = 256 };
    int64_t unit = shards;

    while (width >= LARGE && unit % TILE)
        unit += shards;
    return ((8 * width + 2) / 3 + unit - 1) / unit * unit;
}

static int settle_llama(struct spot_shape *s, struct spot_err *err)
{
    if (!s->ffn)
        s->ffn = usual_ffn(s->width, s->n_shard);
    if (s->rope_theta == 0)
        s->rope_theta = 10000;
    if (spot_shape_head_dim(s) % 2)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--heads %lld makes heads of %lld numbers, --arch llama needs an even "
                            "number",
                            (long long)s->n_head, (long long)spot_shape_head_dim(s));
    return check_divides("--shards", s->n_shard, "--ffn", s->ffn, err);
}

/* Check divisibility in terms of the options; the rest of the shape is checked later. */
static int settle_shape(struct job_options *o, struct spot_err *err)
{
    enum { SHARDS = 4 }; /* enough to cut a stage in four, and so few that they cost nothing */
    struct spot_shape *const s = &o->c.config.shape;
    const char *const cut = s->n_kv_head ? "--kv-heads" : "--heads";
    int64_t n_cut;

    if (!s->head_dim && check_divides("--heads", s->n_head, "--width", s->width, err))
        return -1;
    if (is_llama(o) && !s->n_kv_head)
        s->n_kv_head = s->n_head;
    n_cut = is_llama(o) ? s->n_kv_head : s->n_head;
    if (check_divides("--kv-heads", n_cut, "--heads", s->n_head, err))
        return -1;
    if (!s->n_shard)
        s->n_shard = divisor_up_to(n_cut, s->ffn, SHARDS); /* ffn is 0 if it is to be derived */
    if (check_divides("--shards", s->n_shard, cut, n_cut, err) ||
        (is_llama(o) && settle_llama(s, err)))
        return -1;
    return check_divides("--micro-batch", o->c.config.micro_batch, "--global-batch",
                         o->c.config.global_batch, err);
}

/* CUDA is only used if asked for by name: no kind of device has passed `make check-gpu`. */
static int settle_device(struct job_options *o, struct spot_err *err)
{
    struct device_option d;
    const char *kernel;

    if (device_option_parse(o->device, &d, err))
        return -1;
    if (!strcmp(d.kind, "auto") && spot_cuda_may_be_here())
        spot_tool_warn("--device auto uses the CPU; --device cuda uses the device");
    kernel = !strcmp(d.kind, "cpu") ? "auto" : d.kind;
    snprintf(o->c.config.kernel, sizeof(o->c.config.kernel), "%s", kernel);
    o->c.device = d.number;
    return 0;
}

int job_options_settle(struct job_options *o, struct spot_err *err)
{
    o->c.data = o->data.item;
    o->c.n_data = o->data.n;
    o->c.val_data = o->val_data.item;
    o->c.n_val_data = o->val_data.n;
    return settle_device(o, err) || settle_tokens(o, err) || settle_shape(o, err) ? -1 : 0;
}
