/* SPDX-License-Identifier: MIT */
/* The passes of one run, by all threads of the team together. Each element of each buffer is
 * computed by one thread, and a meeting lies between passes that depend on one another. */
#include <sched.h>
#include <string.h>

#include "engine/infer_state.h"
#include "engine/tree.h"

struct work {
    struct spot_infer *f;
    int thread, n_thread;
    int bundle, layer; /* layer: of this stage */
};

/* A token's worth of work is too short to sleep for: look a while, then let others run. */
static void meet(const struct work *w)
{
    struct spot_infer *const f = w->f;
    const int turn = __atomic_load_n(&f->turn_of_meeting, __ATOMIC_ACQUIRE);

    if (__atomic_fetch_add(&f->n_waiting, 1, __ATOMIC_ACQ_REL) == w->n_thread - 1) {
        __atomic_store_n(&f->n_waiting, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&f->turn_of_meeting, turn + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int i = 0; __atomic_load_n(&f->turn_of_meeting, __ATOMIC_ACQUIRE) == turn; i++) {
        if (i > 2000)
            sched_yield();
#if defined(__x86_64__)
        else
            __builtin_ia32_pause();
#endif
    }
}

static const void *tensor_of(const struct spot_infer *f, int bundle, const char *name, int shard)
{
    const int b = bundle - f->image_begin, t = spot_arena_find(&f->arena[b], name);

    return t < 0 ? NULL : f->tensor[((int64_t)b * SPOT_TENSORS_MAX + t) * f->shape.n_shard + shard];
}

static const void *own(const struct work *w, const char *name, int shard)
{
    return tensor_of(w->f, w->bundle, name, w->f->config.shard_begin + shard);
}

/* --- products --- */

/* Inputs of a product: [token][stride], in q8 as blocks. */
struct input {
    const float *x;
    int64_t stride, first_block; /* of q8 blocks, in a token's row */
    int64_t n_in;
};

enum {
    K_PART = 96,   /* inputs of a panel that stay in L1 while tokens pass */
    WIDE_MIN = 25, /* tokens for which it pays to widen bf16 once for all of them */
    PART_MIN = 7   /* tokens for which fp32 goes by parts */
};

static void panel_in_parts(const struct spot_infer *f, float *wide, float *c, int64_t c_row,
                           const uint8_t *panel, const struct input *in, int64_t t, int64_t n)
{
    for (int64_t k = 0; k < in->n_in; k += K_PART) {
        const int64_t n_k = in->n_in - k < K_PART ? in->n_in - k : K_PART;
        const float *part = (const float *)(const void *)panel + k * SPOT_PANEL;
        const uint16_t *const half = (const uint16_t *)(const void *)panel + k * SPOT_PANEL;

        if (f->type == SPOT_INFER_BF16) { /* widened once, the same numbers */
            for (int64_t i = 0; i < n_k * SPOT_PANEL; i++) {
                const uint32_t bits = (uint32_t)half[i] << 16;

                memcpy(wide + i, &bits, sizeof(bits));
            }
            part = wide;
        }
        f->kernel->fp32(c, c_row, part, in->x + t * in->stride + k, in->stride, n, n_k, k > 0);
    }
}

static void panel_run(const struct work *w, float *c, int64_t c_row, const uint8_t *panel,
                      const struct input *in, int64_t t, int64_t n)
{
    const struct spot_infer *const f = w->f;
    const int64_t at = t * f->q8_blocks + in->first_block;
    float wide[K_PART * SPOT_PANEL];

    if (f->type == SPOT_INFER_Q8)
        f->kernel->q8(
            c, c_row, panel,
            &(struct spot_q8){ f->q8.x + at * SPOT_Q8_BLOCK, f->q8.scale + at, f->q8.minus + at },
            f->q8_blocks, n, (in->n_in + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK);
    else if (n >= (f->type == SPOT_INFER_BF16 ? WIDE_MIN : PART_MIN))
        panel_in_parts(f, wide, c, c_row, panel, in, t, n);
    else if (f->type == SPOT_INFER_BF16)
        f->kernel->bf16(c, c_row, (const uint16_t *)(const void *)panel, in->x + t * in->stride,
                        in->stride, n, in->n_in, false);
    else
        f->kernel->fp32(c, c_row, (const float *)(const void *)panel, in->x + t * in->stride,
                        in->stride, n, in->n_in, false);
}

/* Outputs are cut: out[n][own shard][stride], a shard's n_out of them; one input for all. */
static void by_outputs(const struct work *w, const char *name, const struct input *in, float *out,
                       int64_t stride, int64_t n_out, int64_t n)
{
    const struct spot_infer *const f = w->f;
    const int64_t n_panel = (n_out + SPOT_PANEL - 1) / SPOT_PANEL;
    const size_t panel_byte = spot_infer_panel_byte(f->type, in->n_in);
    int64_t i, end;

    spot_team_share(f->n_shard * n_panel, 1, w->thread, w->n_thread, &i, &end);
    for (; i < end; i++) {
        const int64_t s = i / n_panel, p = i % n_panel;
        const uint8_t *const panel = (const uint8_t *)own(w, name, (int)s) + (size_t)p * panel_byte;

        for (int64_t t = 0; t < n; t += SPOT_INFER_GROUP)
            panel_run(w, out + (t * f->n_shard + s) * stride + p * SPOT_PANEL, f->n_shard * stride,
                      panel, in, t, n - t < SPOT_INFER_GROUP ? n - t : SPOT_INFER_GROUP);
    }
    meet(w);
}

/* part[0] = the sum of part[0..n), each of n_elem, as the tree says. */
static void add_tree(const struct spot_vec *vec, float *part, int64_t stride, int n, int64_t n_elem)
{
    const int half = spot_tree_half(n);

    if (n == 1)
        return;
    add_tree(vec, part, stride, half, n_elem);
    add_tree(vec, part + half * stride, stride, n - half, n_elem);
    vec->add(part, part + half * stride, n_elem);
}

static void exchange(const struct work *w, int64_t n_elem)
{
    struct spot_infer *const f = w->f;

    if (f->n_shard == f->shape.n_shard)
        return;
    if (w->thread == 0 && !f->has_failed)
        f->has_failed = f->config.exchange(f->config.user, f->sum, (size_t)n_elem, &f->err) != 0;
    meet(w);
}

/* Inputs are cut: x[token][own shard][stride]; sum[n][C rounded up] of all shards. */
static void by_inputs(const struct work *w, const char *name, const float *x, int64_t stride,
                      int64_t n_in)
{
    const struct spot_infer *const f = w->f;
    const int64_t n_panel = (f->shape.width + SPOT_PANEL - 1) / SPOT_PANEL;
    const size_t panel_byte = spot_infer_panel_byte(f->type, n_in);
    float *const part = f->part[w->thread];
    int64_t p, end;

    spot_team_share(n_panel, 1, w->thread, w->n_thread, &p, &end);
    for (; p < end; p++)
        for (int64_t t = 0; t < f->n_token; t += SPOT_INFER_GROUP) {
            const int64_t n = f->n_token - t < SPOT_INFER_GROUP ? f->n_token - t : SPOT_INFER_GROUP;

            for (int s = 0; s < f->n_shard; s++)
                panel_run(w, part + s * SPOT_INFER_GROUP * SPOT_PANEL, SPOT_PANEL,
                          (const uint8_t *)own(w, name, s) + (size_t)p * panel_byte,
                          &(struct input){ x + s * stride, f->n_shard * stride,
                                           s * ((n_in + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK), n_in },
                          t, n);
            add_tree(f->vec, part, SPOT_INFER_GROUP * SPOT_PANEL, f->n_shard, n * SPOT_PANEL);
            for (int64_t i = 0; i < n; i++)
                memcpy(f->sum + ((t + i) * n_panel + p) * SPOT_PANEL, part + i * SPOT_PANEL,
                       SPOT_PANEL * sizeof(float));
        }
    meet(w);
    exchange(w, f->n_token * n_panel * SPOT_PANEL);
}

/* --- inputs in 8 bits: of each block of a token its own scale --- */

static void quantise_block(const struct spot_q8 *q, int64_t at, const float *x, int64_t n)
{
    const float magic = 12582912.0F; /* 1.5 * 2^23: rounds to nearest even */
    float max = 0, by;
    int32_t sum = 0;

    for (int64_t i = 0; i < n; i++) {
        const float size = x[i] < 0 ? -x[i] : x[i];

        max = size > max ? size : max;
    }
    by = max > 0x1p-100F ? 127 / max : 0;
    q->scale[at] = max > 0x1p-100F ? max / 127 : 0;
    for (int64_t i = 0; i < SPOT_Q8_BLOCK; i++) {
        const float v = i < n ? x[i] * by + magic : magic;
        int32_t bits;

        memcpy(&bits, &v, sizeof(bits));
        bits -= 0x4B400000;
        q->x[at * SPOT_Q8_BLOCK + i] = (int8_t)bits;
        sum += bits;
    }
    q->minus[at] = -128 * sum;
}

/* n_part parts of n numbers in the row of token t */
static void quantise(const struct spot_infer *f, int64_t t, const float *x, int64_t n_part,
                     int64_t stride, int64_t n)
{
    int64_t at = t * f->q8_blocks;

    for (int64_t p = 0; f->type == SPOT_INFER_Q8 && p < n_part; p++)
        for (int64_t i = 0; i < n; i += SPOT_Q8_BLOCK)
            quantise_block(&f->q8, at++, x + p * stride + i,
                           n - i < SPOT_Q8_BLOCK ? n - i : SPOT_Q8_BLOCK);
}

static void quantise_all(const struct work *w, const float *x, int64_t stride, int64_t n)
{
    const struct spot_infer *const f = w->f;

    if (f->type != SPOT_INFER_Q8)
        return;
    for (int64_t t = w->thread; t < f->n_token; t += w->n_thread)
        quantise(f, t, x + t * f->n_shard * stride, f->n_shard, stride, n);
    meet(w);
}

/* --- between products --- */

/* What waits in `sum` joins the residual: x + (sum + bias). */
static void settle(const struct spot_infer *f, int64_t t, const float *bias)
{
    const int64_t c = f->shape.width, row = (c + SPOT_PANEL - 1) / SPOT_PANEL * SPOT_PANEL;

    if (bias)
        f->vec->add(f->sum + t * row, bias, c);
    f->vec->add(f->x + t * c, f->sum + t * row, c);
}

/* Row `to` of norm from row t of x. */
static void norm_row(const struct work *w, int64_t to, int64_t t, const char *weight,
                     const char *bias)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width;
    const float eps = (float)spot_shape_norm_eps(&f->shape);
    const float *const by = tensor_of(f, w->bundle, weight, 0);
    float stat[2];

    if (f->shape.arch == SPOT_ARCH_LLAMA)
        f->vec->rms(f->norm + to * c, stat, f->x + t * c, by, eps, 1, c);
    else
        f->vec->norm(f->norm + to * c, stat, f->x + t * c, by, tensor_of(f, w->bundle, bias, 0),
                     eps, 1, c);
    quantise(f, to, f->norm + to * c, 1, c, c);
}

static const float *last_bias(const struct work *w)
{
    return tensor_of(w->f, w->bundle - 1, "fc2.b", 0);
}

static void embed(const struct work *w)
{
    struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, rows = spot_shape_vocab_rows(&f->shape) / f->shape.n_shard;
    const bool is_in_head = f->shape.is_tied && f->image_end == spot_shape_bundles(&f->shape);
    const float *const wpe = f->config.bundle_begin ? NULL : tensor_of(f, 0, "wpe", 0);

    for (int64_t t = w->thread; t < f->n_token; t += w->n_thread) {
        const struct spot_infer_item *const item = &f->item[f->token_item[t]];
        const int64_t position = f->token_position[t];

        if (f->config.bundle_begin) {
            memcpy(f->x + t * c, f->in + t * c, (size_t)c * sizeof(float));
            continue;
        }
        const int64_t token = item->token[position - item->first];

        spot_infer_unpack(f->x + t * c,
                          tensor_of(f, is_in_head ? f->image_end - 1 : 0,
                                    is_in_head ? "head.w" : "wte", (int)(token / rows)),
                          f->type, token % rows, c);
        if (wpe)
            f->vec->add(f->x + t * c, wpe + position * c, c);
    }
}

/* --- attention --- */

static float *page_at(const struct work *w, int64_t t, int64_t page, int64_t shard)
{
    const struct spot_infer *const f = w->f;
    const int sequence = f->item[f->token_item[t]].sequence;

    return spot_infer_page(f, f->sequence[sequence].page[page], w->layer, (int)shard);
}

/* Biases and turns; keys and values go to their page. */
static void place_keys(const struct work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t d = f->head_dim, n_turned = f->n_head + f->n_kv_head;

    for (int64_t i = w->thread; i < f->n_token * f->n_shard; i += w->n_thread) {
        const int64_t t = i / f->n_shard, s = i % f->n_shard, position = f->token_position[t];
        const float *const bias = own(w, "qkv.b", (int)s);
        float *const q = f->qkv + i * f->qkv_stride;
        float *const page = page_at(w, t, position / SPOT_INFER_PAGE, s);
        float *const values = page + f->n_kv_head * d * SPOT_INFER_PAGE;
        const int64_t slot = position % SPOT_INFER_PAGE;

        if (bias)
            f->vec->add(q, bias, (n_turned + f->n_kv_head) * d);
        for (int64_t h = 0; f->shape.arch == SPOT_ARCH_LLAMA && h < n_turned; h++)
            f->vec->rotate(q + h * d, f->turn + position * d, d / 2, 1);
        for (int64_t h = 0; h < f->n_kv_head; h++) {
            for (int64_t e = 0; e < d; e++)
                page[(h * d + e) * SPOT_INFER_PAGE + slot] = q[(f->n_head + h) * d + e];
            memcpy(values + (h * SPOT_INFER_PAGE + slot) * d, q + (n_turned + h) * d,
                   (size_t)d * sizeof(float));
        }
    }
    meet(w);
}

enum { PAGES = 16 }; /* whose keys are scored in one call */

static void attend(const struct work *w, int64_t t, int64_t s, int64_t h, float scale)
{
    const struct spot_infer *const f = w->f;
    const int64_t d = f->head_dim, n = f->token_position[t] + 1;
    const int64_t n_page = (n + SPOT_INFER_PAGE - 1) / SPOT_INFER_PAGE;
    const int64_t kv = h / (f->n_head / f->n_kv_head);
    const float *const q = f->qkv + (t * f->n_shard + s) * f->qkv_stride + h * d;
    float *const out = f->att + (t * f->n_shard + s) * f->att_stride + h * d;
    float *const score = f->score[w->thread];
    float stat[2];

    for (int64_t i = 0; i < n_page; i += PAGES) {
        const int64_t n_some = n_page - i < PAGES ? n_page - i : PAGES;
        const float *key[PAGES];

        for (int64_t j = 0; j < n_some; j++)
            key[j] = page_at(w, t, i + j, s) + kv * d * SPOT_INFER_PAGE;
        f->kernel->score(score + i * SPOT_INFER_PAGE, q, key, n_some, d);
    }
    f->vec->softmax(score, n, n, scale, stat);
    memset(out, 0, (size_t)d * sizeof(float));
    for (int64_t i = 0; i < n; i += SPOT_INFER_PAGE)
        f->kernel->mix(out, score + i,
                       page_at(w, t, i / SPOT_INFER_PAGE, s) +
                           (f->n_kv_head + kv) * d * SPOT_INFER_PAGE,
                       n - i < SPOT_INFER_PAGE ? n - i : SPOT_INFER_PAGE, d);
}

static void attention(const struct work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t per_token = f->n_shard * f->n_head;

    for (int64_t i = w->thread; i < f->n_token * per_token; i += w->n_thread)
        attend(w, i / per_token, i % per_token / f->n_head, i % f->n_head,
               1.0F / __builtin_sqrtf((float)f->head_dim));
    meet(w);
}

/* --- MLP --- */

static void activate(const struct work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t n = spot_shape_ffn(&f->shape) / f->shape.n_shard;

    for (int64_t i = w->thread; i < f->n_token * f->n_shard; i += w->n_thread) {
        float *const pre = f->pre + i * f->pre_stride, *const act = f->act + i * f->act_stride;

        if (f->shape.arch == SPOT_ARCH_LLAMA)
            f->vec->swiglu(act, pre, pre + n, n);
        else
            f->vec->gelu(act, pre, own(w, "fc1.b", (int)(i % f->n_shard)), n);
    }
    meet(w);
}

static void norm_all(const struct work *w, bool has_sum, const float *pending, const char *weight,
                     const char *bias)
{
    for (int64_t t = w->thread; t < w->f->n_token; t += w->n_thread) {
        if (has_sum)
            settle(w->f, t, pending);
        norm_row(w, t, t, weight, bias);
    }
    meet(w);
}

static void layer(const struct work *w)
{
    const struct spot_infer *const f = w->f;
    const struct spot_shape *const s = &f->shape;
    const bool is_llama = s->arch == SPOT_ARCH_LLAMA;
    const struct input norm = { f->norm, s->width, 0, s->width };
    const int64_t n_att = f->n_head * f->head_dim, n_act = spot_shape_ffn(s) / s->n_shard;

    norm_all(w, w->layer > 0, w->layer ? last_bias(w) : NULL, "ln1.w", "ln1.b");
    by_outputs(w, "qkv.w", &norm, f->qkv, f->qkv_stride, spot_shape_qkv(s) / s->n_shard,
               f->n_token);
    place_keys(w);
    attention(w);
    quantise_all(w, f->att, f->att_stride, n_att);
    by_inputs(w, "proj.w", f->att, f->att_stride, n_att);
    norm_all(w, true, tensor_of(f, w->bundle, "proj.b", 0), "ln2.w", "ln2.b");
    by_outputs(w, is_llama ? "gateup.w" : "fc1.w", &norm, f->pre, f->pre_stride,
               spot_shape_pre(s) / s->n_shard, f->n_token);
    activate(w);
    quantise_all(w, f->act, f->act_stride, n_act);
    by_inputs(w, is_llama ? "down.w" : "fc2.w", f->act, f->act_stride, n_act);
}

/* --- ends --- */

static void head(const struct work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width, V = f->shape.vocab;
    const int64_t rows = spot_shape_vocab_rows(&f->shape) / f->shape.n_shard;
    const int64_t stride = (rows + SPOT_PANEL - 1) / SPOT_PANEL * SPOT_PANEL;

    for (int i = w->thread; i < f->n_row; i += w->n_thread) {
        if (w->layer > 0)
            settle(f, f->row_token[i], last_bias(w));
        norm_row(w, i, f->row_token[i], "lnf.w", "lnf.b");
    }
    meet(w);
    by_outputs(w, "head.w", &(struct input){ f->norm, c, 0, c }, f->vocab, stride, rows, f->n_row);
    for (int64_t i = w->thread; i < (int64_t)f->n_row * f->n_shard; i += w->n_thread) {
        const int64_t first = (f->config.shard_begin + i % f->n_shard) * rows;
        const int64_t n = V - first < rows ? V - first : rows;

        if (n > 0)
            memcpy(f->logit + i / f->n_shard * V + first, f->vocab + i * stride,
                   (size_t)n * sizeof(float));
    }
}

static void leave(const struct work *w)
{
    const struct spot_infer *const f = w->f;
    const int64_t c = f->shape.width;

    for (int64_t t = w->thread; t < f->n_token; t += w->n_thread) {
        if (w->layer > 0)
            settle(f, t, last_bias(w));
        memcpy(f->out + t * c, f->x + t * c, (size_t)c * sizeof(float));
    }
}

void spot_infer_pass(void *infer, int thread, int n_thread)
{
    struct spot_infer *const f = infer;
    const int n_layer = (int)f->shape.n_layer;
    struct work w = { .f = f, .thread = thread, .n_thread = n_thread };

    embed(&w);
    meet(&w);
    w.bundle = f->config.bundle_begin ? f->config.bundle_begin : 1;
    for (; w.bundle < f->config.bundle_end && w.bundle <= n_layer; w.bundle++, w.layer++)
        layer(&w);
    if (f->config.bundle_end == n_layer + 2)
        head(&w);
    else
        leave(&w);
}
