/* SPDX-License-Identifier: MIT */
/* The serving engine on a device: its memory, and pages as bytes. */
#include "engine/cuda/infer_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/xalloc.h"
#include "engine/rope.h"

enum { ALIGN = 256 };

/* --- memory: a plan that runs twice --- */

struct walk {
    struct spot_cuda_infer *d;
    struct spot_memory_plan *plan;
};

/* Tensors of this stage and of own shards; the first stage reads tokens of all shards. */
static bool is_needed(const struct spot_infer *f, int bundle, const struct spot_arena *arena,
                      int tensor, int shard)
{
    const struct spot_tensor *const t = &arena->tensor[tensor];
    const bool is_tied_here = f->shape.is_tied && f->image_end == spot_shape_bundles(&f->shape) &&
                              !strcmp(t->name, "head.w");

    if (f->config.bundle_begin == 0 && (is_tied_here || !strcmp(t->name, "wte")))
        return true;
    return bundle >= f->config.bundle_begin && bundle < f->config.bundle_end &&
           (!t->is_sharded || (shard >= f->config.shard_begin && shard < f->config.shard_end));
}

static void take_tensor(void *user, int bundle, const struct spot_arena *arena, int tensor,
                        int shard, const struct spot_infer_place *place)
{
    const struct walk *const w = user;
    struct spot_cuda_infer *const d = w->d;
    const struct spot_infer *const f = d->f;
    const size_t at =
        (size_t)(((bundle - f->image_begin) * SPOT_TENSORS_MAX + tensor) * (int)f->shape.n_shard) +
        (size_t)shard;
    void *to;

    if (!is_needed(f, bundle, arena, tensor, shard))
        return;
    to = spot_memory_take(w->plan, place->n_byte, 1);
    if (!to)
        return;
    d->tensor[at] = to;
    spot_device_upload(d->dev, to, f->tensor[at], place->n_byte);
}

static float *floats(struct spot_memory_plan *plan, int64_t n, int64_t size)
{
    return spot_memory_take(plan, (size_t)n, (size_t)size * sizeof(float));
}

static size_t max_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t product_elem(const struct spot_infer *f)
{
    const struct spot_shape *const s = &f->shape;
    const int64_t S = s->n_shard, C = s->width, head = f->n_head * f->head_dim;
    const int64_t in_out[][2] = { { C, spot_shape_qkv(s) / S },
                                  { head, C },
                                  { C, spot_shape_pre(s) / S },
                                  { spot_shape_ffn(s) / S, C },
                                  { C, spot_shape_vocab_rows(s) / S } };
    size_t most = 0;

    for (int i = 0; i < 5; i++) {
        const int64_t chunk = spot_cuda_infer_chunk(in_out[i][0], in_out[i][1]);
        const int64_t n = f->config.token_max < chunk ? f->config.token_max : chunk;

        most = max_of(most, spot_cuda_skinny_elem(n, in_out[i][0], in_out[i][1]));
    }
    return most;
}

static void plan_all(struct spot_memory_plan *plan, struct spot_cuda_infer *d)
{
    const struct spot_infer *const f = d->f;
    const struct spot_shape *const s = &f->shape;
    const int64_t n = f->config.token_max, S = f->n_shard, all = s->n_shard, C = s->width;
    struct walk w = { d, plan };

    spot_infer_walk(s, f->type, f->image_begin, f->image_end, take_tensor, &w);
    d->embed = spot_memory_take(plan, (size_t)all, sizeof(void *));
    d->pool = spot_memory_take(plan,
                               ((size_t)f->config.n_page + d->has_graphs) * /* a page for padding */
                                   (size_t)(f->n_layer ? f->n_layer : 1),
                               (size_t)S * f->page_elem * sizeof(float));
    d->turn = floats(plan, s->seq, f->head_dim);
    d->x = floats(plan, n, C);
    d->norm = floats(plan, n, C);
    d->stat = floats(plan, n, 2);
    d->qkv = floats(plan, n, S * (spot_shape_qkv(s) / all));
    d->att = floats(plan, n, S * f->n_head * f->head_dim);
    d->pre = floats(plan, n, S * (spot_shape_pre(s) / all));
    d->act = floats(plan, n, S * (spot_shape_ffn(s) / all));
    d->sum = floats(plan, S * n, C);
    d->other = f->config.swap ? floats(plan, n, C) : NULL;
    d->logit = floats(plan, f->config.logit_max, S * (spot_shape_vocab_rows(s) / all));
    d->partial = spot_memory_take(plan, product_elem(f), sizeof(float));
    d->paged = spot_memory_take(plan, spot_cuda_paged_elem(n, S * f->n_head, f->head_dim, s->seq),
                                sizeof(float));
    if (d->has_choices) {
        d->choice = spot_memory_take(plan, (size_t)f->config.logit_max, sizeof(*d->choice));
        d->chosen = spot_memory_take(plan, (size_t)f->config.logit_max, sizeof(*d->chosen));
    }
    d->meta = spot_memory_take(plan, spot_cuda_infer_meta_elem(f), sizeof(int32_t));
}

/* --- open and close --- */

static void close_engine(struct spot_infer *f)
{
    struct spot_cuda_infer *const d = f->device;

    if (!d)
        return;
    spot_cuda_infer_end_steps(d);
    spot_device_host_free(d->meta_host);
    spot_device_host_free(d->host);
    spot_device_host_free(d->choice_host);
    spot_device_host_free(d->chosen_host);
    free(d->is_needed);
    spot_device_close(d->dev);
    free(d->tensor);
    free(d);
    f->device = NULL;
}

static const void *tensor_of(const struct spot_cuda_infer *d, int bundle, const char *name,
                             int shard)
{
    const int b = bundle - d->f->image_begin, t = spot_arena_find(&d->f->arena[b], name);

    return t < 0 ? NULL : d->tensor[(b * SPOT_TENSORS_MAX + t) * (int)d->f->shape.n_shard + shard];
}

static void upload_tables(struct spot_cuda_infer *d)
{
    const struct spot_infer *const f = d->f;
    const struct spot_shape *const s = &f->shape;
    const bool is_in_head = s->is_tied && f->image_end == spot_shape_bundles(s);
    const void **const embed = spot_xcalloc((size_t)s->n_shard, sizeof(void *));
    float *const turn = spot_xcalloc((size_t)(s->seq * f->head_dim), sizeof(*turn));

    for (int i = 0; !f->config.bundle_begin && i < s->n_shard; i++)
        embed[i] =
            is_in_head ? tensor_of(d, f->image_end - 1, "head.w", i) : tensor_of(d, 0, "wte", i);
    spot_device_upload(d->dev, (void *)(uintptr_t)d->embed, embed,
                       (size_t)s->n_shard * sizeof(void *));
    if (spot_shape_rotary(s))
        spot_rope_table(turn, s, false);
    spot_device_upload(d->dev, d->turn, turn, (size_t)(s->seq * f->head_dim) * sizeof(*turn));
    spot_device_wait(d->dev);
    free(embed);
    free(turn);
}

static int check(const struct spot_infer *f, size_t n_byte, struct spot_err *err)
{
    if (spot_shape_refuse(&f->shape,
                          SPOT_NEED(SPOT_NEEDS_ROPE_SCALING) | SPOT_NEED(SPOT_NEEDS_BIASES),
                          "serving on a CUDA device", err))
        return -1;
    char what[96];

    if (f->type == SPOT_INFER_Q8)
        return spot_err_set(err, SPOT_EGPU, "on CUDA weights are bf16 or fp32, not q8");
    snprintf(what, sizeof(what), "an engine of %d pages and %d tokens on a CUDA device",
             f->config.n_page, f->config.token_max);
    return spot_memory_check(what, n_byte, spot_device_available(), err);
}

/* SPOT_CUDA_DECODE: "graphs", "tokens" or both, until a device shows what they gain. Members of a
 * group have neither: they exchange through the host or NCCL within a step, and have their own
 * shards' logits only. */
static void choose_ways(struct spot_cuda_infer *d)
{
    const char *const told = getenv("SPOT_CUDA_DECODE");
    const struct spot_infer *const f = d->f;

    if (!told || f->n_shard != f->shape.n_shard)
        return;
    d->has_graphs = strstr(told, "graphs");
    d->has_choices = strstr(told, "tokens") && f->shape.vocab <= SPOT_CUDA_CHOOSE_MAX &&
                     f->config.bundle_end == spot_shape_bundles(&f->shape);
}

static int open_engine(struct spot_infer *f, struct spot_err *err)
{
    struct spot_cuda_infer *const d = spot_xcalloc(1, sizeof(*d));
    struct spot_memory_plan count = { .align = ALIGN, .guard_byte = spot_device_guard_byte() };
    struct spot_memory_plan cut = count;
    void *memory;

    f->device = d;
    d->f = f;
    choose_ways(d);
    d->real = f->type == SPOT_INFER_BF16 ? SPOT_BF16 : SPOT_F32;
    d->tensor = spot_xcalloc((size_t)((f->image_end - f->image_begin) * SPOT_TENSORS_MAX) *
                                 (size_t)f->shape.n_shard,
                             sizeof(void *));
    plan_all(&count, d);
    if (check(f, count.used, err) || !(d->dev = spot_device_open(count.used, &memory, err)))
        return -1;
    d->stream = spot_device_stream(d->dev);
    cut.base = memory;
    cut.guard = spot_device_guard;
    plan_all(&cut, d);
    upload_tables(d);
    d->meta_host =
        spot_device_host_new(d->dev, spot_cuda_infer_meta_elem(f) * sizeof(*d->meta_host));
    d->host = spot_device_host_new(d->dev, spot_cuda_infer_host_elem(f) * sizeof(*d->host));
    d->is_needed = spot_xcalloc((size_t)f->config.logit_max, sizeof(*d->is_needed));
    if (d->has_choices) {
        const size_t n = (size_t)f->config.logit_max;

        d->choice_host = spot_device_host_new(d->dev, n * sizeof(*d->choice_host));
        d->chosen_host = spot_device_host_new(d->dev, n * sizeof(*d->chosen_host));
    }
    return spot_device_status(d->dev, err);
}

/* --- pages --- */

static float *page_at(const struct spot_infer *f, int page, int layer, int shard)
{
    const struct spot_cuda_infer *const d = f->device;

    return d->pool + (((size_t)page * (size_t)f->n_layer + (size_t)layer) * (size_t)f->n_shard +
                      (size_t)shard) *
                         f->page_elem;
}

static void read_page(const struct spot_infer *f, int page, int layer, int shard, void *byte)
{
    const struct spot_cuda_infer *const d = f->device;

    spot_device_download(d->dev, byte, page_at(f, page, layer, shard), spot_infer_page_byte(f));
}

static void write_page(const struct spot_infer *f, int page, int layer, int shard, const void *byte)
{
    const struct spot_cuda_infer *const d = f->device;

    spot_device_upload(d->dev, page_at(f, page, layer, shard), byte, spot_infer_page_byte(f));
}

static void wait_for_pages(const struct spot_infer *f)
{
    spot_device_wait(((const struct spot_cuda_infer *)f->device)->dev);
}

static void copy_page(const struct spot_infer *f, int to, int from)
{
    const struct spot_cuda_infer *const d = f->device;

    spot_device_copy(d->dev, page_at(f, to, 0, 0), page_at(f, from, 0, 0),
                     (size_t)f->n_layer * (size_t)f->n_shard * spot_infer_page_byte(f));
}

static struct spot_infer_counts counts(const struct spot_infer *f)
{
    const struct spot_cuda_infer *const d = f->device;
    struct spot_infer_counts all = d->counts;

    all.fetched_byte = spot_device_fetched(d->dev);
    return all;
}

const struct spot_infer_backend spot_infer_cuda = {
    .name = "cuda",
    .open = open_engine,
    .close = close_engine,
    .pass = spot_cuda_infer_pass,
    .read_page = read_page,
    .write_page = write_page,
    .wait = wait_for_pages,
    .copy_page = copy_page,
    .counts = counts,
};
