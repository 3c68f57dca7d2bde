/* SPDX-License-Identifier: MIT */
/* bench_score - log probabilities of serving against those of the training forward pass.
 *
 *   bench_score [TOKENS]
 *
 * For six families of decoders, in fp32 (kind "fma") and bf16 ("fma-bf16"): TOKENS tokens (10000
 * unless told) go through training on each grid DxPxM of 1x1x1 to 2x2x2, and through serving on
 * each of PxM, in random chunks. Counts what differs in a bit; exit status 1 if anything does.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/decoder_shapes.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "engine/infer.h"
#include "engine/initial_weights.h"
#include "engine/kernel.h"
#include "engine/sample.h"
#include "engine/stage.h"

enum { N_FAMILY = 6, BUNDLES = 8, TWO = 2, SEQ = 128, VOCAB = 512, MICRO_BATCH = 4 };

static const struct {
    const char *name;
    struct spot_shape shape;
} families[N_FAMILY] = {
    { "gpt2", { .n_layer = 2, .width = 256, .n_head = 8, .n_shard = 4 } },
    { "llama",
      { .n_layer = 2,
        .width = 704,
        .n_head = 8,
        .n_shard = 4,
        .kind = SPOT_DECODER_LLAMA,
        .n_kv_head = 4,
        .ffn = 1880,
        .rope_theta = 10000 } },
    { "norms of heads (qwen3)", SHAPE_HEAD_NORM },
    { "norms around, windows (gemma3)", SHAPE_AROUND },
    { "norms after, of all heads (olmo2)", SHAPE_AFTER },
    { "caps (gemma2)", SHAPE_CAPPED },
};

/* Two members of a tensor group meet here. */
struct meeting {
    pthread_barrier_t here;
    const struct spot_stage_piece *piece[TWO];
    size_t n[TWO];
    float *sum[TWO];
};

struct member {
    struct meeting *meeting;
    struct spot_shape shape;
    struct spot_bundle **bundle;
    const void *image;
    size_t image_byte;
    const char *kernel;
    const uint32_t *token; /* [n_sequence][SEQ + 1] */
    int m, M, P, first, step, n_sequence;
    double *out;  /* [n_sequence][SEQ] log probabilities, of training */
    float *logit; /* [SEQ][VOCAB], of all members: those of serving */
};

/* The k-th piece from a member is the k-th for it. */
static int exchange(void *user, const struct spot_stage_piece *piece, size_t n,
                    struct spot_err *err)
{
    struct member *const me = user;
    struct meeting *const at = me->meeting;
    size_t k = 0;

    (void)err;
    at->piece[me->m] = piece;
    at->n[me->m] = n;
    pthread_barrier_wait(&at->here);
    for (size_t i = 0; i < n; i++) {
        if (piece[i].is_send)
            continue;
        while (!at->piece[!me->m][k].is_send)
            k++;
        memcpy(piece[i].data, at->piece[!me->m][k++].data, piece[i].n_byte);
    }
    pthread_barrier_wait(&at->here);
    return 0;
}

static int join(void *user, float *sum, size_t n, struct spot_err *err)
{
    struct member *const me = user;

    (void)err;
    me->meeting->sum[me->m] = sum;
    pthread_barrier_wait(&me->meeting->here);
    for (size_t i = 0; me->m == 0 && i < n; i++)
        me->meeting->sum[0][i] = me->meeting->sum[1][i] =
            me->meeting->sum[0][i] + me->meeting->sum[1][i];
    pthread_barrier_wait(&me->meeting->here);
    return 0;
}

static void stop(const struct spot_err *err)
{
    fprintf(stderr, "bench_score: %s\n", err->msg);
    exit(2);
}

/* --- training --- */

/* Microbatches first, first + step, .. through a pipeline of P stages. */
static void *train(void *user)
{
    struct member *const me = user;
    const int n_bundle = (int)spot_shape_bundles(&me->shape);
    const size_t boundary = (size_t)MICRO_BATCH * SEQ * (size_t)me->shape.width;
    float *const between = spot_xcalloc(boundary, sizeof(*between));
    struct spot_stage *stage[TWO];
    struct spot_err err = { 0 };
    double mean;

    for (int i = 0; i < me->P; i++) {
        const struct spot_stage_config c = {
            .shape = me->shape,
            .bundle_begin = n_bundle * i / me->P,
            .bundle_end = n_bundle * (i + 1) / me->P,
            .micro_batch = MICRO_BATCH,
            .n_slot = 1,
            .n_microbatch = 1,
            .n_thread = 1,
            .is_forward = true,
            .kernel = spot_kernel_find(me->kernel, &err),
            .group = { .m = me->m, .M = me->M, .exchange = exchange, .user = me },
        };

        stage[i] = c.kernel ? spot_stage_new(&c, me->bundle + c.bundle_begin, &err) : NULL;
        if (!stage[i])
            stop(&err);
    }
    for (int s = me->first * MICRO_BATCH; s < me->n_sequence; s += me->step * MICRO_BATCH) {
        for (int i = 0; i < me->P; i++)
            spot_stage_forward(stage[i], 0, me->token + (size_t)s * (SEQ + 1), i ? between : NULL,
                               i < me->P - 1 ? between : NULL, &mean);
        for (int r = 0; me->m == 0 && r < MICRO_BATCH * SEQ; r++)
            me->out[(size_t)s * SEQ + (size_t)r] = -spot_stage_row_loss(stage[me->P - 1])[r];
    }
    for (int i = 0; i < me->P; i++)
        spot_stage_free(stage[i]);
    free(between);
    return NULL;
}

/* --- serving --- */

/* One sequence in chunks. A member writes the logits of its own shards. */
static void score(struct member *me, struct spot_infer *const *stage, float *between, int s,
                  struct spot_rng *rng)
{
    const uint32_t *const token = me->token + (size_t)s * (SEQ + 1);
    int id[TWO];

    for (int i = 0; i < me->P; i++)
        id[i] = spot_infer_open(stage[i], NULL);
    for (int64_t at = 0, n; at < SEQ; at += n) {
        n = 1 + (int64_t)spot_rng_below(rng, spot_rng_below(rng, 2) ? 5 : SEQ);
        n = n > SEQ - at ? SEQ - at : n;
        for (int i = 0; i < me->P; i++) {
            const struct spot_infer_item item = { id[i], at, n, token + at, SPOT_POOL_NONE, NULL };
            struct spot_err err = { 0 };

            if (spot_infer_run_rows(stage[i], &item, 1, &n, i ? between : NULL,
                                    i < me->P - 1 ? between : NULL, me->logit + at * VOCAB, &err))
                stop(&err);
        }
    }
    for (int i = 0; i < me->P; i++)
        spot_infer_close(stage[i], id[i]);
}

static void *serve(void *user)
{
    struct member *const me = user;
    const int n_bundle = (int)spot_shape_bundles(&me->shape), S = (int)me->shape.n_shard;
    float *const between = spot_xcalloc((size_t)SEQ * (size_t)me->shape.width, sizeof(*between));
    struct spot_infer *stage[TWO];
    struct spot_err err = { 0 };
    struct spot_rng rng;

    spot_rng_init(&rng, 3, (uint64_t)me->P); /* all members take the same chunks */
    for (int i = 0; i < me->P; i++) {
        const struct spot_infer_config c = { .image = me->image,
                                             .image_byte = me->image_byte,
                                             .bundle_begin = n_bundle * i / me->P,
                                             .bundle_end = n_bundle * (i + 1) / me->P,
                                             .shard_begin = S / me->M * me->m,
                                             .shard_end = S / me->M * (me->m + 1),
                                             .n_thread = 1,
                                             .n_sequence = 1,
                                             .n_page = SEQ / SPOT_INFER_PAGE + 1,
                                             .token_max = SEQ,
                                             .logit_max = SEQ,
                                             .exchange = join,
                                             .user = me };

        stage[i] = spot_infer_new(&c, &err);
        if (!stage[i])
            stop(&err);
    }
    for (int s = 0; s < me->n_sequence; s++) {
        score(me, stage, between, s, &rng);
        if (me->M > 1)
            pthread_barrier_wait(&me->meeting->here);
        for (int64_t t = 0; me->m == 0 && t < SEQ; t++)
            me->out[s * SEQ + t] =
                spot_sample_logprob(&me->shape, me->logit + t * VOCAB,
                                    me->token[(size_t)s * (SEQ + 1) + (size_t)t + 1]);
        if (me->M > 1)
            pthread_barrier_wait(&me->meeting->here);
    }
    for (int i = 0; i < me->P; i++)
        spot_infer_free(stage[i]);
    free(between);
    return NULL;
}

/* --- the whole --- */

static void run(const struct member *like, void *(*part)(void *))
{
    struct meeting meeting;
    struct member member[TWO];
    pthread_t thread[TWO];

    pthread_barrier_init(&meeting.here, NULL, (unsigned)like->M);
    for (int m = 0; m < like->M; m++) {
        member[m] = *like;
        member[m].m = m;
        member[m].meeting = &meeting;
        if (pthread_create(&thread[m], NULL, part, &member[m]))
            exit(2);
    }
    for (int m = 0; m < like->M; m++)
        pthread_join(thread[m], NULL);
    pthread_barrier_destroy(&meeting.here);
}

static void fill(struct spot_bundle *b, const struct spot_shape *shape, int i, struct spot_rng *rng)
{
    struct spot_err err;

    if (spot_bundle_init(b, shape, i, &err))
        stop(&err);
    spot_bundle_start(b, shape, 5);
    for (int t = 0; t < b->arena.n_tensor; t++)
        for (int s = 0; s < (b->arena.tensor[t].is_sharded ? shape->n_shard : 1); s++)
            for (int64_t k = 0; k < b->arena.tensor[t].rows * b->arena.tensor[t].cols; k++)
                b->plane[SPOT_PLANE_MASTER][spot_arena_offset(&b->arena, t, s) + (size_t)k] +=
                    0.05F * (float)(spot_rng_unit(rng) - 0.5);
}

struct tally {
    long n, n_other;
};

/* Every grid of training against every grid of serving. */
static struct tally compare(const struct member *plain)
{
    const size_t n = (size_t)plain->n_sequence * SEQ;
    double *const served = spot_xcalloc(4 * n, sizeof(*served));
    double *const trained = spot_xcalloc(n, sizeof(*trained));
    struct tally tally = { 0 };

    for (int g = 0; g < 4; g++) {
        struct member me = *plain;

        me.P = 1 + g % 2;
        me.M = 1 + g / 2;
        me.out = served + (size_t)g * n;
        run(&me, serve);
    }
    for (int g = 0; g < 8; g++) {
        struct member me = *plain;

        me.P = 1 + g % 2;
        me.M = 1 + g / 2 % 2;
        me.step = 1 + g / 4;
        me.out = trained;
        memset(trained, 0, n * sizeof(*trained));
        for (me.first = 0; me.first < me.step; me.first++)
            run(&me, train);
        for (size_t i = 0; i < n; i++) {
            tally.n++;
            for (int k = 0; k < 4; k++)
                if (memcmp(&served[(size_t)k * n + i], &trained[i], sizeof(*trained))) {
                    tally.n_other++;
                    break;
                }
        }
    }
    free(served);
    free(trained);
    return tally;
}

static struct tally family(const struct spot_shape *like, int type, int n_sequence)
{
    struct spot_bundle bundle[BUNDLES], *ptr[BUNDLES];
    struct member me = { .shape = *like, .bundle = ptr, .n_sequence = n_sequence, .step = 1 };
    uint32_t *const token = spot_xcalloc((size_t)n_sequence * (SEQ + 1), sizeof(*token));
    struct spot_rng rng;
    struct tally tally;
    void *image;
    int n_bundle;

    me.shape.seq = SEQ;
    me.shape.vocab = VOCAB;
    n_bundle = (int)spot_shape_bundles(&me.shape);
    spot_rng_init(&rng, 7, (uint64_t)type);
    for (size_t i = 0; i < (size_t)n_sequence * (SEQ + 1); i++)
        token[i] = (uint32_t)spot_rng_below(&rng, VOCAB);
    for (int b = 0; b < n_bundle; b++)
        fill(ptr[b] = &bundle[b], &me.shape, b, &rng);
    me.image_byte = spot_infer_image_byte(&me.shape, (enum spot_infer_type)type, 0, n_bundle);
    image = spot_alloc_aligned(me.image_byte, 1);
    spot_infer_image_pack(image, &me.shape, (enum spot_infer_type)type, 0, n_bundle, ptr);
    me.image = image;
    me.kernel = type == SPOT_INFER_FP32 ? "fma" : "fma-bf16";
    me.token = token;
    me.logit = spot_xcalloc(SEQ * VOCAB, sizeof(float));
    tally = compare(&me);
    for (int b = 0; b < n_bundle; b++)
        spot_bundle_release(&bundle[b]);
    spot_free_aligned(image);
    free(me.logit);
    free(token);
    return tally;
}

int main(int argc, char **argv)
{
    const long n_token = argc > 1 ? atol(argv[1]) : 10000;
    const int n_sequence =
        (int)((n_token + SEQ * MICRO_BATCH - 1) / (SEQ * MICRO_BATCH)) * MICRO_BATCH;
    struct tally all = { 0 };

    for (int i = 0; i < N_FAMILY * 2; i++) {
        const int type = i % 2 ? SPOT_INFER_BF16 : SPOT_INFER_FP32;
        const struct tally t = family(&families[i / 2].shape, type, n_sequence);

        printf("%-34s %s: %ld log probabilities on 8 grids, %ld differ from serving's on 4\n",
               families[i / 2].name, spot_infer_type_name(type), t.n, t.n_other);
        all.n += t.n;
        all.n_other += t.n_other;
    }
    printf("%ld log probabilities, %ld differ\n", all.n, all.n_other);
    return all.n_other > 0;
}
