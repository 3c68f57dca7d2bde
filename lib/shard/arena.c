/* SPDX-License-Identifier: MIT */
#include "shard/arena.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static int check_range(const char *name, int64_t value, int64_t max, struct spot_err *err)
{
    if (value < 1 || value > max)
        return spot_err_set(err, SPOT_EDATA, "model shape: %s is %lld, expected 1 to %lld", name,
                            (long long)value, (long long)max);
    return 0;
}

static int check_divides(const char *part, int64_t small, const char *whole, int64_t large,
                         struct spot_err *err)
{
    if (large % small)
        return spot_err_set(err, SPOT_EDATA, "model shape: %s (%lld) does not divide %s (%lld)",
                            part, (long long)small, whole, (long long)large);
    return 0;
}

static const char *const arch_name[SPOT_ARCHES] = { "gpt2", "llama" };

const char *spot_arch_name(int64_t arch)
{
    assert(arch >= 0 && arch < SPOT_ARCHES);
    return arch_name[arch];
}

int spot_arch_find(const char *name)
{
    for (int i = 0; i < SPOT_ARCHES; i++)
        if (!strcmp(arch_name[i], name))
            return i;
    return -1;
}

static int check_llama(const struct spot_shape *s, struct spot_err *err)
{
    if (check_range("key and value heads", s->n_kv_head, 1 << 10, err) ||
        check_range("width of the MLP", s->ffn, 1 << 18, err) ||
        check_divides("key and value heads", s->n_kv_head, "heads", s->n_head, err) ||
        check_divides("shards", s->n_shard, "key and value heads", s->n_kv_head, err) ||
        check_divides("shards", s->n_shard, "width of the MLP", s->ffn, err))
        return -1;
    if (s->width / s->n_head % 2)
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: a head is %lld wide, rotary positions want an even width",
                            (long long)(s->width / s->n_head));
    if (!(s->rope_theta >= 1 && s->rope_theta <= 1e9))
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: the base of the rotary positions is %g, expected 1 to "
                            "1e9",
                            s->rope_theta);
    return 0;
}

static int check_arch(const struct spot_shape *s, struct spot_err *err)
{
    if (s->arch == SPOT_ARCH_LLAMA)
        return check_llama(s, err);
    if (s->arch != SPOT_ARCH_GPT2)
        return spot_err_set(err, SPOT_EDATA, "model shape: no architecture has number %lld",
                            (long long)s->arch);
    if (s->n_kv_head || s->ffn || s->rope_theta != 0)
        return spot_err_set(err, SPOT_EDATA, "model shape: what only a Llama has, for a GPT-2");
    return 0;
}

static int check_tied(const struct spot_shape *s, struct spot_err *err)
{
    if (s->is_tied == 0 || s->is_tied == 1)
        return 0;
    return spot_err_set(err, SPOT_EDATA, "model shape: tied is %lld, expected 0 or 1",
                        (long long)s->is_tied);
}

static int check_norm_eps(const struct spot_shape *s, struct spot_err *err)
{
    const double eps = spot_shape_norm_eps(s);

    if (eps >= 1e-12 && eps <= 1e-2)
        return 0;
    return spot_err_set(err, SPOT_EDATA,
                        "model shape: eps of the norms is %g, expected 1e-12 to 0.01", eps);
}

int spot_shape_check(const struct spot_shape *s, struct spot_err *err)
{
    const int64_t params_max = INT64_C(1) << 40;

    if (check_range("layers", s->n_layer, SPOT_LAYERS_MAX, err) ||
        check_range("width", s->width, 1 << 16, err) ||
        check_range("heads", s->n_head, 1 << 10, err) ||
        check_range("sequence", s->seq, 1 << 20, err) ||
        check_range("vocabulary", s->vocab, 1 << 20, err) ||
        check_range("shards", s->n_shard, 256, err) ||
        check_divides("heads", s->n_head, "width", s->width, err) ||
        check_divides("shards", s->n_shard, "heads", s->n_head, err) || check_arch(s, err) ||
        check_tied(s, err) || check_norm_eps(s, err))
        return -1;
    if (spot_shape_params(s) > params_max)
        return spot_err_set(err, SPOT_EDATA, "model shape: %lld parameters, the limit is %lld",
                            (long long)spot_shape_params(s), (long long)params_max);
    return 0;
}

int spot_shape_bundles(const struct spot_shape *shape)
{
    return (int)shape->n_layer + 2;
}

int64_t spot_shape_vocab_rows(const struct spot_shape *shape)
{
    enum { LARGE = 1024, TILE = 128 }; /* what matrix units like; small models stay as they are */
    int64_t unit = shape->n_shard;

    while (shape->vocab >= LARGE && unit % TILE)
        unit += shape->n_shard;
    return (shape->vocab + unit - 1) / unit * unit;
}

int64_t spot_shape_params(const struct spot_shape *shape)
{
    const int64_t c = shape->width, f = spot_shape_ffn(shape), qkv = spot_shape_qkv(shape),
                  pre = spot_shape_pre(shape);
    const int64_t layer = (qkv + c + pre + f) * c + 2 * c; /* without biases */

    const int64_t tables = (shape->is_tied ? 1 : 2) * shape->vocab * c;

    if (shape->arch == SPOT_ARCH_LLAMA)
        return shape->n_layer * layer + c + tables;
    return shape->n_layer * (layer + qkv + pre + 4 * c) + 2 * c + shape->seq * c + tables;
}

int64_t spot_shape_kv_heads(const struct spot_shape *shape)
{
    return shape->arch == SPOT_ARCH_LLAMA ? shape->n_kv_head : shape->n_head;
}

int64_t spot_shape_ffn(const struct spot_shape *shape)
{
    return shape->arch == SPOT_ARCH_LLAMA ? shape->ffn : 4 * shape->width;
}

double spot_shape_norm_eps(const struct spot_shape *shape)
{
    const double usual = 1e-5;

    return shape->norm_eps == 0 ? usual : shape->norm_eps;
}

int64_t spot_shape_qkv(const struct spot_shape *shape)
{
    return shape->width + 2 * spot_shape_kv_heads(shape) * (shape->width / shape->n_head);
}

int64_t spot_shape_pre(const struct spot_shape *shape)
{
    return spot_shape_ffn(shape) * (shape->arch == SPOT_ARCH_LLAMA ? 2 : 1);
}

static size_t round_up(size_t n, size_t align)
{
    return (n + align - 1) / align * align;
}

/* Tensors are added in the order in which they lie. */
static void add(struct spot_arena *a, const char *name, bool is_sharded, int64_t rows, int64_t cols)
{
    size_t *end = is_sharded ? &a->shard_elem : &a->replicated_elem;

    assert(a->n_tensor < SPOT_TENSORS_MAX);
    a->tensor[a->n_tensor++] = (struct spot_tensor){ .name = name,
                                                     .is_sharded = is_sharded,
                                                     .is_decayed = cols > 1,
                                                     .rows = rows,
                                                     .cols = cols,
                                                     .offset = *end };
    *end = round_up(*end + (size_t)(rows * cols), SPOT_TENSOR_ALIGN);
}

static void add_gpt2_layer(struct spot_arena *a, int64_t c, int64_t n_shard)
{
    const int64_t cs = c / n_shard, fs = 4 * c / n_shard;

    add(a, "ln1.w", false, c, 1);
    add(a, "ln1.b", false, c, 1);
    add(a, "ln2.w", false, c, 1);
    add(a, "ln2.b", false, c, 1);
    add(a, "proj.b", false, c, 1);
    add(a, "fc2.b", false, c, 1);
    add(a, "qkv.w", true, 3 * cs, c); /* out, in: [q|k|v][heads/S][d][C] */
    add(a, "qkv.b", true, 3 * cs, 1);
    add(a, "proj.w", true, cs, c); /* in, out */
    add(a, "fc1.w", true, fs, c);  /* out, in */
    add(a, "fc1.b", true, fs, 1);
    add(a, "fc2.w", true, fs, c); /* in, out */
}

static void add_llama_layer(struct spot_arena *a, const struct spot_shape *shape)
{
    const int64_t c = shape->width, s = shape->n_shard;

    add(a, "ln1.w", false, c, 1);
    add(a, "ln2.w", false, c, 1);
    add(a, "qkv.w", true, spot_shape_qkv(shape) / s, c); /* out, in: [q|k|v][their heads/S][d][C] */
    add(a, "proj.w", true, c / s, c);                    /* in, out */
    add(a, "gateup.w", true, spot_shape_pre(shape) / s, c); /* out, in: [gate|up][F/S][C] */
    add(a, "down.w", true, shape->ffn / s, c);              /* in, out */
}

void spot_arena_of(const struct spot_shape *shape, int bundle, struct spot_arena *a)
{
    const int64_t c = shape->width, s = shape->n_shard, v = spot_shape_vocab_rows(shape);

    assert(bundle >= 0 && bundle < spot_shape_bundles(shape));
    memset(a, 0, sizeof(*a));
    a->n_shard = (int)s;
    if (bundle == 0) {
        a->kind = SPOT_BUNDLE_EMBED;
        if (shape->arch == SPOT_ARCH_GPT2)
            add(a, "wpe", false, shape->seq, c);
        add(a, "wte", true, v / s, c);
    } else if (bundle <= shape->n_layer) {
        a->kind = SPOT_BUNDLE_LAYER;
        if (shape->arch == SPOT_ARCH_GPT2)
            add_gpt2_layer(a, c, s);
        else
            add_llama_layer(a, shape);
    } else {
        a->kind = SPOT_BUNDLE_HEAD;
        add(a, "lnf.w", false, c, 1);
        if (shape->arch == SPOT_ARCH_GPT2)
            add(a, "lnf.b", false, c, 1);
        add(a, "head.w", true, v / s, c); /* out, in */
    }
    a->replicated_elem = round_up(a->replicated_elem, SPOT_SHARD_ALIGN);
    a->shard_elem = round_up(a->shard_elem, SPOT_SHARD_ALIGN);
    a->n_elem = a->replicated_elem + (size_t)s * a->shard_elem;
}

size_t spot_arena_offset(const struct spot_arena *arena, int tensor, int shard)
{
    const struct spot_tensor *t;

    assert(tensor >= 0 && tensor < arena->n_tensor);
    t = &arena->tensor[tensor];
    assert(shard >= 0 && shard < (t->is_sharded ? arena->n_shard : 1));
    return t->offset +
           (t->is_sharded ? arena->replicated_elem + (size_t)shard * arena->shard_elem : 0);
}

int spot_arena_find(const struct spot_arena *arena, const char *name)
{
    for (int i = 0; i < arena->n_tensor; i++)
        if (!strcmp(arena->tensor[i].name, name))
            return i;
    return -1;
}

bool spot_arena_is_copy(const struct spot_shape *shape, const struct spot_arena *arena, int tensor)
{
    return shape->is_tied && !strcmp(arena->tensor[tensor].name, "head.w");
}

void spot_arena_tensor_name(const struct spot_arena *arena, int bundle, int tensor, int shard,
                            char name[SPOT_TENSOR_NAME_MAX])
{
    const struct spot_tensor *t = &arena->tensor[tensor];
    char part[16];

    if (arena->kind == SPOT_BUNDLE_LAYER)
        snprintf(part, sizeof(part), "l%03d", bundle - 1);
    else
        snprintf(part, sizeof(part), "%s", arena->kind == SPOT_BUNDLE_EMBED ? "embed" : "head");
    if (t->is_sharded)
        snprintf(name, SPOT_TENSOR_NAME_MAX, "%s.s%02d.%s", part, shard, t->name);
    else
        snprintf(name, SPOT_TENSOR_NAME_MAX, "%s.%s", part, t->name);
}
