/* SPDX-License-Identifier: MIT */
#include "model/serve_roofline.h"

#include <math.h>
#include <stdbool.h>

#include "common/xalloc.h"

enum { RANK_POWERS = 11 }; /* 1, 2, 4 .. 1024 heads */

/* The arithmetic of one of M ranks, and its memory per token. */
struct rank {
    double layer_elem, head_elem;
    /* elements of a layer in experts, and the share of them that a token uses */
    double expert_elem, chosen_share;
    /* share of the layers with full attention, and the window of the others */
    double full_share, window;
    double heads, kv_heads, head_dim, width;
    double layers;
    int64_t M;
};

/* Atoms are distributed whole: the largest rank has ceil(atoms / M). */
static double share_of(const struct spot_shape *shape, int64_t bundle, int group, int64_t M)
{
    int64_t n_atom;
    const double elem = (double)spot_shape_elem(shape, bundle, group, &n_atom);

    if (group == SPOT_GROUP_REPLICATED)
        return elem;
    return elem * (double)((n_atom + M - 1) / M) / (double)n_atom;
}

static double bundle_share(const struct spot_shape *shape, int64_t bundle, int64_t M)
{
    double sum = 0;

    for (int g = 0; g < SPOT_GROUPS; g++)
        sum += share_of(shape, bundle, g, M);
    return sum;
}

/* Elements of a layer that a token is multiplied with. */
static double work_elem(const struct rank *k)
{
    return k->layer_elem - k->expert_elem * (1 - k->chosen_share);
}

/* Elements that n tokens read together; each token uses experts as if drawn at random. */
static double read_elem(const struct rank *k, double n)
{
    return k->layer_elem - k->expert_elem * pow(1 - k->chosen_share, n);
}

/* Positions that a query sees at a context, averaged over the layers, and the derivative of that.
 */
static double seen(const struct rank *k, double context)
{
    return k->full_share * context + (1 - k->full_share) * fmin(context, k->window);
}

static double seen_slope(const struct rank *k, double context)
{
    return context < k->window ? 1 : k->full_share;
}

static double full_share(const struct spot_shape *shape)
{
    double n = 0;

    for (int64_t i = 0; i < shape->n_layer; i++)
        n += !spot_layer_in(&shape->kind.local, i);
    return n / (double)shape->n_layer;
}

/* Elements of a layer, and of its experts that a token uses, averaged over the layers. */
static void mean_layer(const struct spot_shape *shape, int64_t M, double *elem, double *expert_elem)
{
    const double n = (double)shape->n_layer;

    *elem = *expert_elem = 0;
    for (int64_t i = 0; i < shape->n_layer; i++) {
        const struct spot_mlps m = spot_shape_mlps(shape, i);
        const double chosen = (double)(m.n_expert * m.ffn);

        *elem += bundle_share(shape, i + 1, M) / n;
        if (m.n_expert)
            *expert_elem += share_of(shape, i + 1, SPOT_GROUP_FFN, M) * chosen /
                            (chosen + (double)m.shared_ffn) / n;
    }
}

static struct rank rank_of(const struct spot_shape *shape, int64_t M)
{
    const int64_t kv = spot_shape_kv_heads(shape);
    double layer_elem, expert_elem;

    mean_layer(shape, M, &layer_elem, &expert_elem);

    return (struct rank){
        .layer_elem = layer_elem,
        .expert_elem = expert_elem,
        .chosen_share =
            shape->kind.n_expert ? (double)shape->kind.n_chosen / (double)shape->kind.n_expert : 1,
        .full_share = full_share(shape),
        .window = shape->kind.local.period ? (double)shape->kind.window : INFINITY,
        /* a tied head is the embedding table */
        .head_elem = share_of(shape, shape->is_tied ? 0 : shape->n_layer + 1, SPOT_GROUP_VOCAB, M),
        .heads = (double)((shape->n_head + M - 1) / M),
        .kv_heads = (double)((kv + M - 1) / M),
        .head_dim = (double)spot_shape_head_dim(shape),
        .width = (double)shape->width,
        .layers = (double)shape->n_layer,
        .M = M,
    };
}

/* --- time --- */

/* Seconds to sum n bytes over the ranks of a group. */
static double sum_s(const struct spot_roofline *r, int64_t M, double n)
{
    const double link =
        M > r->gpus ? fmin(r->link_byte_per_s, r->nic_byte_per_s) : r->link_byte_per_s;

    if (M == 1)
        return 0;
    return 2 * log2((double)M) * r->latency_s + 2 * (double)(M - 1) / (double)M * n / link;
}

/* Seconds of the head, divided among the layers. */
static double head_s(const struct spot_roofline *r, const struct rank *k, double B)
{
    return fmax(2 * B * k->head_elem / r->flop_per_s,
                k->head_elem * r->weight_byte / r->mem_byte_per_s) /
           k->layers;
}

static double cache_token_byte(const struct spot_roofline *r, const struct rank *k)
{
    return 2 * k->kv_heads * k->head_dim * r->value_byte;
}

/* Prompts of p tokens: work is token p + square p^2, memory traffic is least + least_token p; the
 * sums that ranks wait for take the same time in both cases. */
static void fill_prefill(const struct spot_roofline *r, const struct rank *k, double B,
                         struct spot_serve_cell *c)
{
    const double p = (double)r->prompt_token;
    const double sums_token_s =
        2 * (sum_s(r, k->M, B * k->width * r->value_byte) - sum_s(r, k->M, 0));
    const double always_s = 2 * sum_s(r, k->M, 0) + head_s(r, k, B);
    /* products of a query with keys and values */
    const double pair_s = B * 4 * k->heads * k->head_dim / r->flop_per_s;
    /* share of the layers in which a query sees a window instead of half of the prompt */
    const double local = 1 - seen_slope(k, p);
    const double token_s = B * 2 * work_elem(k) / r->flop_per_s + sums_token_s +
                           (local > 0 ? pair_s * local * k->window : 0);
    const double cache_s = B * cache_token_byte(r, k) / r->mem_byte_per_s + sums_token_s;

    c->prefill_square_s = (1 - local) * pair_s / 2;
    c->prefill_token_s = token_s;
    c->prefill_s = always_s + token_s * p + c->prefill_square_s * p * p;
    c->prefill_least_token_s = cache_s;
    c->prefill_least_s =
        always_s + read_elem(k, B * p) * r->weight_byte / r->mem_byte_per_s + cache_s * p;
}

/* One token for each request, at the mean context of the answer. */
static void fill_decode(const struct spot_roofline *r, const struct rank *k, double B,
                        struct spot_serve_cell *c)
{
    const double context = (double)r->prompt_token + (double)r->output_token / 2;
    const double work_token_s = B * 4 * k->heads * k->head_dim / r->flop_per_s;
    const double read_token_s = B * cache_token_byte(r, k) / r->mem_byte_per_s;
    const double work_s = B * 2 * work_elem(k) / r->flop_per_s + work_token_s * seen(k, context);
    const double read_s =
        read_elem(k, B) * r->weight_byte / r->mem_byte_per_s + read_token_s * seen(k, context);

    c->decode_s =
        fmax(work_s, read_s) + 2 * sum_s(r, k->M, B * k->width * r->value_byte) + head_s(r, k, B);
    c->decode_token_s = (work_s > read_s ? work_token_s : read_token_s) * seen_slope(k, context);
}

static void fill_cells(struct spot_job_serve *s, const struct spot_shape *shape,
                       const struct spot_roofline *r, const bool *has_room)
{
    size_t cap = 0;

    for (int64_t M = 1, i = 0; M <= r->max_M; M *= 2, i++) {
        const struct rank k = rank_of(shape, M);

        for (int64_t B = 1; has_room[i] && B <= r->max_batch; B *= 2) {
            struct spot_serve_cell *c;

            s->cell = spot_xgrow(s->cell, &cap, s->n_cell + 1, sizeof(*s->cell));
            c = &s->cell[s->n_cell++];
            *c = (struct spot_serve_cell){ .M = M, .B = B };
            fill_prefill(r, &k, (double)B, c);
            fill_decode(r, &k, (double)B, c);
        }
    }
}

/* Seconds to send the activations of a full batch to the next stage, over the slower of both links.
 */
static double hop_s(const struct spot_roofline *r, const struct spot_shape *shape, double tokens)
{
    const double n = (double)r->max_batch * tokens * (double)shape->width * r->value_byte;

    return r->latency_s + n / fmin(r->link_byte_per_s, r->nic_byte_per_s);
}

/* --- memory --- */

double spot_roofline_gpu_byte(const struct spot_roofline *r, const struct spot_shape *shape,
                              int64_t P, int64_t M)
{
    const struct rank k = rank_of(shape, M);
    const double layers = (double)((shape->n_layer + P - 1) / P);
    const double table = bundle_share(shape, 0, M);
    const double head = share_of(shape, shape->n_layer + 1, SPOT_GROUP_REPLICATED, M) + k.head_elem;
    const double both = table + head - (shape->is_tied ? k.head_elem : 0);
    const double cache =
        layers * (double)r->max_batch * (double)r->context * cache_token_byte(r, &k);

    return (layers * k.layer_elem + (P == 1 ? both : fmax(table, head))) * r->weight_byte + cache;
}

/* The largest P x M that does not hold the model; 0: all hold it, -1: none does. *least_byte:
 * memory that the finest cut needs per GPU. */
static int64_t most_without_room(const struct spot_roofline *r, const struct spot_shape *shape,
                                 int64_t M, double *least_byte)
{
    int64_t most = 0, last = 0;

    for (int64_t P = 1; P <= shape->n_layer; P++) {
        if (shape->n_layer % P)
            continue;
        *least_byte = spot_roofline_gpu_byte(r, shape, P, M);
        last = P * M;
        most = *least_byte > r->gpu_byte ? last : most;
    }
    return most < last ? most : -1;
}

/* Set the fewest GPUs from which on every pipeline, for each M that can hold the model, does hold
 * it. */
static int fit_memory(struct spot_job_serve *s, const struct spot_shape *shape,
                      const struct spot_roofline *r, bool *has_room, struct spot_err *err)
{
    double least_byte = INFINITY, byte = INFINITY;

    for (int64_t M = 1, k = 0; M <= r->max_M; M *= 2, k++) {
        const int64_t most = most_without_room(r, shape, M, &byte);

        has_room[k] = most >= 0;
        s->gpus_min = most >= s->gpus_min ? most + 1 : s->gpus_min;
        least_byte = fmin(least_byte, byte);
    }
    if (least_byte <= r->gpu_byte)
        return 0;
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "%.3f GB of a GPU do not hold the model, with %lld requests of %lld tokens "
                        "at once, however it is cut; %.3f GB would do",
                        1e-9 * r->gpu_byte, (long long)r->max_batch, (long long)r->context,
                        ceil(1e-6 * least_byte) * 1e-3);
}

/* --- the profile --- */

static int check(const struct spot_roofline *r, const struct spot_shape *shape,
                 struct spot_err *err)
{
    if (r->max_batch < 1 || r->max_batch > SPOT_SERVE_BATCH_MAX ||
        (r->max_batch & (r->max_batch - 1)))
        return spot_err_set(err, SPOT_EDATA, "a batch of %lld is not a power of two up to %d",
                            (long long)r->max_batch, SPOT_SERVE_BATCH_MAX);
    if (shape->n_layer > SPOT_SERVE_LAYERS_MAX)
        return spot_err_set(err, SPOT_EDATA, "%lld layers, the limit is %d",
                            (long long)shape->n_layer, SPOT_SERVE_LAYERS_MAX);
    if (r->max_M < 1 || r->max_M > shape->n_head)
        return spot_err_set(err, SPOT_EDATA,
                            "%lld ranks of a tensor group, expected 1 to the %lld "
                            "heads",
                            (long long)r->max_M, (long long)shape->n_head);
    if (r->prompt_token + r->output_token > r->context)
        return spot_err_set(err, SPOT_EDATA,
                            "a prompt of %lld and an answer of %lld tokens are "
                            "beyond the context of %lld",
                            (long long)r->prompt_token, (long long)r->output_token,
                            (long long)r->context);
    if (r->context > shape->seq)
        return spot_err_set(err, SPOT_EDATA, "a context of %lld is beyond the model's %lld tokens",
                            (long long)r->context, (long long)shape->seq);
    return 0;
}

int spot_serve_roofline(struct spot_job_serve *serve, const struct spot_shape *shape,
                        const struct spot_roofline *r, struct spot_err *err)
{
    bool has_room[RANK_POWERS] = { false };

    *serve = spot_job_serve_absent;
    if (check(r, shape, err) || fit_memory(serve, shape, r, has_room, err))
        return -1;
    serve->is_given = true;
    serve->gpus = r->gpus;
    serve->layers = serve->stage_layers = shape->n_layer;
    serve->max_batch = r->max_batch;
    serve->prompt_token = r->prompt_token;
    serve->output_token = r->output_token;
    serve->context = r->context;
    serve->model_byte = (int64_t)((double)spot_shape_params(shape) * r->weight_byte);
    serve->parts_add_up = true;
    serve->prefill_hop_s = hop_s(r, shape, (double)r->prompt_token);
    serve->decode_hop_s = hop_s(r, shape, 1);
    fill_cells(serve, shape, r, has_room);
    return 0;
}
