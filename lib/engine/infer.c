/* SPDX-License-Identifier: MIT */
/* The memory of an engine, its checks, and one run. */
#include "engine/infer.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "engine/backend.h"
#include "engine/infer_state.h"
#include "engine/rope.h"
#include "engine/tree.h"

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* True if [begin, end) is a node of the tree over shards [0, n). */
static bool is_node(int begin, int end, int n)
{
    int low = 0, high = n;

    while (low != begin || high != end) {
        const int middle = low + spot_tree_half(high - low);

        if (high - low < 2 || (begin < middle && end > middle))
            return false;
        *(begin < middle ? &high : &low) = middle;
    }
    return true;
}

static int check_image(const struct spot_infer_config *c, struct spot_infer_head *head,
                       struct spot_err *err)
{
    if (c->image_byte < sizeof(*head) || memcmp(c->image, SPOT_INFER_MAGIC, 8) != 0)
        return spot_err_set(err, SPOT_EDATA, "not an image of weights");
    memcpy(head, c->image, sizeof(*head));
    if (head->type < 0 || head->type >= SPOT_INFER_TYPES || spot_shape_check(&head->shape, err) ||
        head->begin < 0 || head->end <= head->begin ||
        head->end > spot_shape_bundles(&head->shape) || head->n_byte != c->image_byte ||
        head->n_byte != spot_infer_image_byte(&head->shape, (enum spot_infer_type)head->type,
                                              head->begin, head->end))
        return spot_err_set(err, SPOT_EDATA,
                            "the image of weights contradicts itself: %zu bytes of type %d, "
                            "bundles %d to %d",
                            c->image_byte, head->type, head->begin, head->end);
    return 0;
}

static int check(struct spot_infer_config *c, const struct spot_infer_head *head,
                 struct spot_err *err)
{
    const int n_shard = (int)head->shape.n_shard;

    if (!c->bundle_end) {
        c->bundle_begin = head->begin;
        c->bundle_end = head->end;
    }
    if (!c->shard_end)
        c->shard_end = n_shard;
    if (c->bundle_begin < head->begin || c->bundle_end > head->end ||
        c->bundle_begin >= c->bundle_end)
        return spot_err_set(err, SPOT_EDATA, "the image has bundles %d to %d, not %d to %d",
                            head->begin, head->end, c->bundle_begin, c->bundle_end);
    if (c->shard_begin < 0 || !is_node(c->shard_begin, c->shard_end, n_shard) ||
        (c->shard_end - c->shard_begin < n_shard && !c->exchange && !c->swap))
        return spot_err_set(err, SPOT_EDATA,
                            "shards %d to %d of %d are not a valid tensor-parallel part",
                            c->shard_begin, c->shard_end, n_shard);
    if (c->n_thread < 1 || c->n_sequence < 1 || c->n_page < 1 || c->token_max < 1)
        return spot_err_set(err, SPOT_EDATA,
                            "threads, sequences, pages and tokens of a run are at least 1");
    if (c->n_lora && c->backend && strcmp(c->backend, "cpu") != 0)
        return spot_err_set(err, SPOT_EDATA, "adapters are computed on CPUs only");
    for (int i = 0; i < c->n_lora; i++)
        if (c->lora[i]->n_layer != head->shape.n_layer)
            return spot_err_set(err, SPOT_EDATA, "adapter %d has %lld layers, the model %lld",
                                i + 1, (long long)c->lora[i]->n_layer,
                                (long long)head->shape.n_layer);
    if (c->n_kept < 0)
        return spot_err_set(err, SPOT_EDATA, "pages that are kept are 0 or more, not %d",
                            c->n_kept);
    if (c->logit_max < 0)
        return spot_err_set(err, SPOT_EDATA, "rows of logits are 0 or more, not %d", c->logit_max);
    if (!c->logit_max)
        c->logit_max = c->n_sequence;
    return 0;
}

static void note(void *user, int bundle, const struct spot_arena *arena, int tensor, int shard,
                 const struct spot_infer_place *place)
{
    struct spot_infer *const f = user;

    f->arena[bundle - f->image_begin] = *arena;
    f->tensor[((int64_t)(bundle - f->image_begin) * SPOT_TENSORS_MAX + tensor) * f->shape.n_shard +
              shard] = (const uint8_t *)f->config.image + place->offset;
}

/* The largest rank of an adapter's product. */
static int64_t largest_rank(const struct spot_infer *f)
{
    int64_t most = 0;

    for (int i = 0; i < f->config.n_lora; i++)
        for (int64_t k = 0; k < f->shape.n_layer * SPOT_LORA_PRODUCTS; k++)
            most = max_of(most, f->config.lora[i]->part[k].rank);
    return most;
}

/* Stride of the inputs of an MLP's second product in one shard. */
static int64_t widest_mlp(const struct spot_shape *s)
{
    return spot_infer_stride(
        max_of(max_of(spot_shape_ffn(s), s->kind.dense_ffn), s->kind.shared_ffn) / s->n_shard);
}

/* Floats of a token's rows of MLPs in one shard, `per` for each input of the second product. */
static int64_t mlp_elem(const struct spot_shape *s, int64_t per)
{
    const int64_t S = s->n_shard, one = spot_infer_stride(per * spot_shape_ffn(s) / S);

    if (!s->kind.n_expert)
        return one;
    return max_of(s->kind.n_chosen * one + spot_infer_stride(per * s->kind.shared_ffn / S),
                  spot_infer_stride(per * s->kind.dense_ffn / S));
}

static void set_up(struct spot_infer *f, const struct spot_infer_head *head)
{
    const struct spot_shape *const s = &head->shape;
    const int n_bundle = head->end - head->begin;
    int64_t widest;

    f->shape = *s;
    f->type = (enum spot_infer_type)head->type;
    f->image_begin = head->begin;
    f->image_end = head->end;
    f->n_shard = f->config.shard_end - f->config.shard_begin;
    f->head_dim = spot_shape_head_dim(s);
    f->n_head = s->n_head / s->n_shard;
    f->n_kv_head = spot_shape_kv_heads(s) / s->n_shard;
    f->vec = spot_cpu_vec();
    f->arena = spot_xcalloc((size_t)n_bundle, sizeof(*f->arena));
    f->tensor = spot_xcalloc((size_t)(n_bundle * SPOT_TENSORS_MAX * s->n_shard), sizeof(void *));
    spot_infer_walk(s, f->type, head->begin, head->end, note, f);
    f->n_layer = (int)(f->config.bundle_end - (f->config.bundle_end > s->n_layer + 1)) -
                 (f->config.bundle_begin + (f->config.bundle_begin == 0));
    f->page_elem = (size_t)(2 * f->n_kv_head * f->head_dim * SPOT_INFER_PAGE);
    f->qkv_stride = spot_infer_stride(spot_shape_qkv(s) / s->n_shard);
    f->att_stride = spot_infer_stride(f->n_head * f->head_dim);
    for (int i = 0; i < 2 && spot_shape_rotary(s); i++) {
        f->speed[i] = spot_xcalloc((size_t)spot_shape_rotary(s) / 2, sizeof(double));
        spot_rope_speeds(f->speed[i], s, i == 1);
    }
    widest = max_of(s->width, f->n_shard * max_of(f->att_stride, widest_mlp(s)));
    f->packed_row = widest;
    f->low_row = largest_rank(f);
    f->score_row = s->seq / SPOT_INFER_PAGE * SPOT_INFER_PAGE + 2 * SPOT_INFER_PAGE;
    f->q8_blocks = spot_infer_stride(widest) / SPOT_Q8_BLOCK;
}

/* Allocates floats; counts failures in *n_missing. */
static float *floats(int *n_missing, int64_t n, int64_t size)
{
    float *const x = spot_alloc_aligned((size_t)n, (size_t)size * sizeof(float));

    *n_missing += !x;
    return x;
}

/* Zeros that take memory only when they are written, so that a cache uses memory only for its used
 * pages. */
static float *lazy_floats(int *n_missing, int64_t n, size_t size, void **block)
{
    const uintptr_t line = 64;
    const size_t row = size * sizeof(float);

    *block = row && (size_t)n > (SIZE_MAX - line) / row ? NULL : calloc(1, (size_t)n * row + line);
    *n_missing += !*block;
    return *block ? (float *)(void *)((char *)*block + (-(uintptr_t)*block & (line - 1))) : NULL;
}

static void take_expert_memory(struct spot_infer *f, int *miss)
{
    const int64_t n = f->config.token_max, E = spot_infer_experts_of(&f->shape);
    const int64_t n_row = n * spot_infer_chosen_of(&f->shape);

    if (!E)
        return;
    f->mixture.choice = floats(miss, n, E);
    f->mixture.share = floats(miss, n_row, 1);
    f->mixture.gathered = floats(miss, n_row, f->shape.width);
    f->mixture.chosen = spot_xcalloc((size_t)n_row, sizeof(*f->mixture.chosen));
    f->mixture.row_choice = spot_xcalloc((size_t)n_row, sizeof(*f->mixture.row_choice));
    f->mixture.expert_row = spot_xcalloc((size_t)E + 1, sizeof(*f->mixture.expert_row));
    for (int t = 0; t < f->config.n_thread; t++)
        f->mixture.expert_sum[t] =
            floats(miss, max_of(SPOT_INFER_SUMS, f->n_shard * n * SPOT_PANEL) + n * SPOT_PANEL, 1);
}

static int take_memory(struct spot_infer *f, struct spot_err *err)
{
    const struct spot_shape *const s = &f->shape;
    const int64_t n = f->config.token_max;
    const int64_t n_row = n * (s->kind.n_expert ? spot_infer_chosen_of(s) : 1); /* of an MLP */
    const int64_t vocab = spot_infer_stride(spot_shape_vocab_rows(s) / s->n_shard);
    int miss = 0;

    f->pool = lazy_floats(&miss, (int64_t)f->config.n_page * (f->n_layer ? f->n_layer : 1),
                          (size_t)f->n_shard * f->page_elem, &f->pool_block);
    f->x = floats(&miss, n, s->width);
    f->norm = floats(&miss, n, s->width);
    f->sum = floats(&miss, n, spot_infer_stride(s->width));
    f->qkv = floats(&miss, n, f->n_shard * f->qkv_stride);
    f->att = floats(&miss, n, f->n_shard * f->att_stride);
    f->pre = floats(&miss, n, f->n_shard * mlp_elem(s, s->kind.is_gated ? 2 : 1));
    f->act = floats(&miss, n, f->n_shard * mlp_elem(s, 1));
    f->packed = floats(&miss, n_row, f->packed_row);
    f->vocab = floats(&miss, f->config.logit_max, f->n_shard * vocab);
    for (int i = 0; i < 2 && f->speed[i]; i++)
        f->turn[i] = floats(&miss, n, spot_shape_rotary(s));
    f->q8.x = (int8_t *)floats(&miss, n_row, f->q8_blocks * 8);
    f->q8.scale = floats(&miss, n_row, f->q8_blocks);
    f->q8.minus = (int32_t *)(void *)floats(&miss, n_row, f->q8_blocks);
    if (f->low_row)
        f->low = floats(&miss, n, f->n_shard * f->low_row);
    f->adapted = spot_xcalloc((size_t)n, sizeof(*f->adapted));
    f->adapted_begin = spot_xcalloc((size_t)f->config.n_lora + 1, sizeof(*f->adapted_begin));
    take_expert_memory(f, &miss);
    for (int t = 0; t < f->config.n_thread; t++) {
        f->score[t] = floats(&miss, f->score_row, SPOT_TILE);
        f->part[t] = floats(&miss, (f->n_shard + 2) * SPOT_INFER_GROUP, SPOT_PANEL);
    }
    return miss ? spot_err_set(err, SPOT_ESYS, "there is no memory for %d pages and %d tokens",
                               f->config.n_page, f->config.token_max)
                : 0;
}

/* Allocates everything except weights, sequences and pages. */
static int take_means(struct spot_infer *f, struct spot_err *err)
{
    const struct spot_backend *cuda;

    if (!(f->team = spot_team_new(f->config.n_thread, err)))
        return -1;
    if (!f->config.backend || !strcmp(f->config.backend, "cpu")) {
        f->kernel = spot_infer_kernel_find(f->config.kernel);
        if (!f->kernel)
            return spot_err_set(err, SPOT_EDATA, "kernel \"%s\" does not run on this machine",
                                f->config.kernel);
        return take_memory(f, err);
    }
    if (strcmp(f->config.backend, "cuda") != 0)
        return spot_err_set(err, SPOT_EDATA, "no backend \"%s\" serves", f->config.backend);
    cuda = spot_cuda_backend(err);
    f->on = cuda ? cuda->infer : NULL;
    return f->on ? f->on->open(f, err) : -1;
}

struct spot_infer *spot_infer_new(const struct spot_infer_config *config, struct spot_err *err)
{
    struct spot_infer_config c = *config;
    struct spot_infer_head head;
    struct spot_infer *f;

    if (check_image(&c, &head, err) || check(&c, &head, err))
        return NULL;
    f = spot_xcalloc(1, sizeof(*f));
    f->config = c;
    set_up(f, &head);
    f->score = spot_xcalloc((size_t)c.n_thread, sizeof(*f->score));
    f->part = spot_xcalloc((size_t)c.n_thread, sizeof(*f->part));
    f->mixture.expert_sum = spot_xcalloc((size_t)c.n_thread, sizeof(*f->mixture.expert_sum));
    f->token_item = spot_xcalloc((size_t)c.token_max, sizeof(*f->token_item));
    f->row_token = spot_xcalloc((size_t)c.logit_max, sizeof(*f->row_token));
    f->token_position = spot_xcalloc((size_t)c.token_max, sizeof(*f->token_position));
    f->sequence = spot_xcalloc((size_t)c.n_sequence, sizeof(*f->sequence));
    f->free_page = spot_xcalloc((size_t)c.n_page, sizeof(*f->free_page));
    f->n_holder = spot_xcalloc((size_t)c.n_page, sizeof(*f->n_holder));
    for (int i = 0; i < c.n_sequence; i++)
        f->sequence[i].page = spot_xcalloc((size_t)(f->shape.seq / SPOT_INFER_PAGE + 1),
                                           sizeof(*f->sequence[i].page));
    if (take_means(f, err)) {
        spot_infer_free(f);
        return NULL;
    }
    for (int i = c.n_page - 1; i >= 0; i--) /* only after their memory was allocated */
        f->free_page[f->n_free++] = i;
    spot_infer_begin_index(f);
    return f;
}

void spot_infer_free(struct spot_infer *f)
{
    if (!f)
        return;
    if (f->on)
        f->on->close(f);
    if (f->team)
        spot_team_free(f->team);
    for (int t = 0; t < f->config.n_thread; t++) {
        spot_free_aligned(f->score[t]);
        spot_free_aligned(f->part[t]);
        spot_free_aligned(f->mixture.expert_sum[t]);
    }
    for (int i = 0; i < f->config.n_sequence; i++) {
        free(f->sequence[i].page);
        free(f->sequence[i].sum);
    }
    void *const aligned[] = { f->x,
                              f->norm,
                              f->sum,
                              f->qkv,
                              f->att,
                              f->pre,
                              f->act,
                              f->packed,
                              f->vocab,
                              f->low,
                              f->turn[0],
                              f->turn[1],
                              f->mixture.choice,
                              f->mixture.share,
                              f->mixture.gathered,
                              f->q8.x,
                              f->q8.scale,
                              f->q8.minus };
    void *const all[] = { f->arena,
                          f->tensor,
                          f->pool_block,
                          f->score,
                          f->part,
                          f->token_item,
                          f->adapted,
                          f->adapted_begin,
                          f->sequence,
                          f->free_page,
                          f->row_token,
                          f->token_position,
                          f->n_holder,
                          f->speed[0],
                          f->speed[1],
                          f->mixture.chosen,
                          f->mixture.row_choice,
                          f->mixture.expert_row,
                          f->mixture.expert_sum,
                          f->note,
                          f->bucket };

    for (size_t i = 0; i < sizeof(aligned) / sizeof(aligned[0]); i++)
        spot_free_aligned(aligned[i]);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    free(f);
}

const struct spot_shape *spot_infer_shape(const struct spot_infer *f)
{
    return &f->shape;
}

const char *spot_infer_kernel(const struct spot_infer *f)
{
    return f->on ? f->on->name : f->kernel->name;
}

/* --- one run --- */

static int check_item(const struct spot_infer *f, const struct spot_infer_item *item,
                      struct spot_err *err)
{
    const struct spot_infer_sequence *s;

    if (item->sequence < 0 || item->sequence >= f->config.n_sequence ||
        !f->sequence[item->sequence].is_open)
        return spot_err_set(err, SPOT_EDATA, "there is no sequence %d", item->sequence);
    s = &f->sequence[item->sequence];
    if (item->n_token < 1 || item->first < 0 || item->first > s->length ||
        item->n_token > f->shape.seq - item->first)
        return spot_err_set(err, SPOT_EDATA,
                            "%lld tokens from %lld on cannot follow %lld of at most %lld",
                            (long long)item->n_token, (long long)item->first, (long long)s->length,
                            (long long)f->shape.seq);
    if (item->pool && f->on)
        return spot_err_set(err, SPOT_EDATA, "embeddings are computed on CPUs only");
    if (item->pool == SPOT_POOL_MEAN && item->first && item->first != s->n_summed)
        return spot_err_set(err, SPOT_EDATA, "the mean must continue at token %lld, got %lld",
                            (long long)item->first, (long long)s->n_summed);
    for (int64_t t = 0; f->config.bundle_begin == 0 && t < item->n_token; t++)
        if (item->token[t] >= (uint64_t)f->shape.vocab)
            return spot_err_set(err, SPOT_EDATA, "token %u is not below %lld", item->token[t],
                                (long long)f->shape.vocab);
    return 0;
}

/* Adds rows of logits for the last n_row of the n_token tokens of the item that was listed last. */
static int list_rows(struct spot_infer *f, int64_t n_row, int64_t n_token, struct spot_err *err)
{
    if (n_row < 1 || n_row > n_token)
        return spot_err_set(err, SPOT_EDATA, "%lld tokens have no %lld rows of logits",
                            (long long)n_token, (long long)n_row);
    if (n_row > f->config.logit_max - f->n_row)
        return spot_err_set(err, SPOT_EDATA, "a run has at most %d rows of logits",
                            f->config.logit_max);
    for (int64_t i = n_row; i > 0; i--)
        f->row_token[f->n_row++] = f->n_token - (int)i;
    return 0;
}

/* Lists the tokens of the items, and counts the additional pages that they need. */
static int list_tokens(struct spot_infer *f, const struct spot_infer_item *item, int n_item,
                       const int64_t *n_row, struct spot_err *err)
{
    int64_t n_page = 0;

    f->n_token = 0;
    f->n_row = 0;
    for (int i = 0; i < n_item; i++) {
        const int64_t end = item[i].first + item[i].n_token;
        int64_t n;

        if (check_item(f, &item[i], err))
            return -1;
        for (int j = 0; j < i; j++)
            if (item[j].sequence == item[i].sequence)
                return spot_err_set(err, SPOT_EDATA, "sequence %d has two items in a run",
                                    item[i].sequence);
        if (item[i].n_token > f->config.token_max - f->n_token)
            return spot_err_set(err, SPOT_EDATA, "a run has at most %d tokens",
                                f->config.token_max);
        n = spot_infer_pages_taken(f, item[i].sequence, item[i].first, end);
        n_page += n > 0 ? n : 0; /* an item that frees pages may come after one that needs them */
        for (int64_t t = item[i].first; t < end; t++) {
            f->token_item[f->n_token] = i;
            f->token_position[f->n_token++] = t;
        }
        if (!item[i].pool && list_rows(f, n_row ? n_row[i] : 1, item[i].n_token, err))
            return -1;
    }
    return n_page > spot_infer_free_pages(f)
               ? spot_err_set(err, SPOT_EINFEASIBLE, "%lld pages are needed, %d are free",
                              (long long)n_page, spot_infer_free_pages(f))
               : 0;
}

static int compute(struct spot_infer *f, struct spot_err *err)
{
    f->has_failed = false;
    if (f->n_token && f->on)
        return f->on->pass(f, err);
    if (f->n_token)
        spot_team_run(f->team, spot_infer_pass, f);
    if (f->has_failed && err)
        *err = f->err;
    return f->has_failed ? -1 : 0;
}

/* Adds the pages of an item to the index once they are computed, so that other sequences find
 * them. */
static void end_item(struct spot_infer *f, const struct spot_infer_item *item, bool is_computed)
{
    struct spot_infer_sequence *const s = &f->sequence[item->sequence];

    s->n_summed = is_computed && item->pool == SPOT_POOL_MEAN ? s->length : 0;
    if (is_computed)
        spot_infer_know(f, item->sequence);
    else if (s->n_told > item->first)
        s->n_told = item->first;
}

/* Lists the tokens of sequences with an adapter, sorted by adapter. */
static void list_adapted(struct spot_infer *f, const struct spot_infer_item *item)
{
    int n = 0;

    for (int a = 0; a < f->config.n_lora; a++) {
        f->adapted_begin[a] = n;
        for (int t = 0; t < f->n_token; t++)
            if (f->sequence[item[f->token_item[t]].sequence].adapter == a + 1)
                f->adapted[n++] = t;
    }
    f->adapted_begin[f->config.n_lora] = n;
}

/* Records the kinds of items in this run. */
static void note_kinds(struct spot_infer *f, const struct spot_infer_item *item, int n_item)
{
    f->has_pool = f->has_lora = false;
    for (int i = 0; i < n_item; i++) {
        struct spot_infer_sequence *const s = &f->sequence[item[i].sequence];

        f->has_pool |= item[i].pool != SPOT_POOL_NONE;
        f->has_lora |= s->adapter > 0;
        if (item[i].pool == SPOT_POOL_MEAN && !s->sum)
            s->sum = spot_xcalloc((size_t)f->shape.width, sizeof(*s->sum));
    }
    if (f->has_lora)
        list_adapted(f, item);
}

int spot_infer_run_rows(struct spot_infer *f, const struct spot_infer_item *item, int n_item,
                        const int64_t *n_row, const float *in, float *out, float *logit,
                        struct spot_err *err)
{
    int rc;

    if (list_tokens(f, item, n_item, n_row, err))
        return -1;
    for (int i = 0; i < n_item; i++)
        spot_infer_rewind(f, item[i].sequence, item[i].first);
    for (int i = 0; i < n_item; i++) {
        spot_infer_grow(f, item[i].sequence, item[i].first + item[i].n_token);
        spot_infer_note(f, item[i].sequence, item[i].first, item[i].token, item[i].n_token);
    }
    note_kinds(f, item, n_item);
    f->item = item;
    f->n_item = n_item;
    f->in = in;
    f->out = out;
    f->logit = logit;
    rc = compute(f, err);
    for (int i = 0; i < n_item; i++)
        end_item(f, &item[i], !rc);
    return rc;
}

int spot_infer_run(struct spot_infer *f, const struct spot_infer_item *item, int n_item,
                   const float *in, float *out, float *logit, struct spot_err *err)
{
    return spot_infer_run_rows(f, item, n_item, NULL, in, out, logit, err);
}

int spot_infer_run_picks(struct spot_infer *f, const struct spot_infer_item *item, int n_item,
                         struct spot_infer_pick *pick, const float *in, float *out, float *logit,
                         struct spot_err *err)
{
    int rc;

    for (int i = 0; i < n_item; i++)
        pick[i].is_chosen = false;
    f->pick = pick;
    rc = spot_infer_run(f, item, n_item, in, out, logit, err);
    f->pick = NULL;
    return rc;
}

/* --- other work for its threads --- */

struct each {
    void (*fn)(void *user, int i, int thread);
    void *user;
    int n;
};

static void do_share(void *user, int thread, int n_thread)
{
    const struct each *const e = user;

    for (int i = thread; i < e->n; i += n_thread)
        e->fn(e->user, i, thread);
}

void spot_infer_each(struct spot_infer *f, int n, void (*fn)(void *user, int i, int thread),
                     void *user)
{
    struct each e = { fn, user, n };

    spot_team_run(f->team, do_share, &e);
}

struct spot_infer_counts spot_infer_counts(const struct spot_infer *f)
{
    return f->on ? f->on->counts(f) : (struct spot_infer_counts){ 0 };
}
