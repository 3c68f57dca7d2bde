/* SPDX-License-Identifier: MIT */
/* logits - what the inference engine makes of tokens, for comparisons with others.
 *
 *   logits DIR TYPE SHARDS rows|loss|half|N <TOKENS
 *
 * DIR is a model as transformers saves it; TOKENS are decimal numbers. rows: the logits of every
 * position as fp32 to stdout. N: the N tokens that follow one another with the highest logit, a
 * line each. loss: mean negative log likelihood of all tokens but the first of each window of the
 * model's length; half: of those in the second half of whole windows, as llama-perplexity counts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "engine/infer.h"
#include "weights/hf_config.h"
#include "weights/load.h"

static struct spot_err err;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "logits: %s\n", what);
    exit(1);
}

static void *image_of(const char *dir, const struct spot_shape *shape, enum spot_infer_type type,
                      size_t *n_byte)
{
    const int n = spot_shape_bundles(shape);
    struct spot_weights *const weights = spot_weights_open(dir, shape, &err);
    struct spot_bundle *const room = spot_xcalloc((size_t)n, sizeof(*room));
    struct spot_bundle **const bundle = spot_xcalloc((size_t)n, sizeof(struct spot_bundle *));
    void *image;

    for (int i = 0; i < n; i++) {
        bundle[i] = &room[i];
        if (!weights || spot_bundle_init(bundle[i], shape, i, &err) ||
            spot_weights_read(weights, bundle[i], &err))
            fail(err.msg);
    }
    *n_byte = spot_infer_image_byte(shape, type, 0, n);
    image = spot_alloc_aligned(*n_byte, 1);
    if (!image)
        fail("no memory");
    spot_infer_image_pack(image, shape, type, 0, n, bundle);
    for (int i = 0; i < n; i++)
        spot_bundle_release(&room[i]);
    free(room);
    free(bundle);
    spot_weights_close(weights);
    return image;
}

/* Logits of n tokens from `first` on of sequence 0, all of them or the last only. */
static void run(struct spot_infer *f, const uint32_t *token, int64_t first, int64_t n,
                int64_t n_row, float *logit)
{
    const struct spot_infer_item item = { 0, first, n, token, SPOT_POOL_NONE, NULL };

    if (spot_infer_run_rows(f, &item, 1, &n_row, NULL, NULL, logit, &err))
        fail(err.msg);
}

static void greedy(struct spot_infer *f, uint32_t *token, int64_t n, int64_t n_more, float *logit)
{
    const int64_t vocab = spot_infer_shape(f)->vocab;

    run(f, token, 0, n, 1, logit);
    for (int64_t i = 0; i < n_more; i++) {
        uint32_t best = 0;

        for (uint32_t v = 1; v < vocab; v++)
            best = logit[v] > logit[best] ? v : best;
        printf("%u\n", best);
        if (i + 1 < n_more)
            run(f, &best, n + i, 1, 1, logit);
    }
}

static double loss(struct spot_infer *f, const uint32_t *token, int64_t n, bool half, float *logit)
{
    const int64_t vocab = spot_infer_shape(f)->vocab, seq = spot_infer_shape(f)->seq;
    double sum = 0;
    int64_t n_sum = 0;

    for (int64_t at = 0; at + 2 <= n; at += seq) {
        const int64_t n_row = (n - at < seq ? n - at : seq) - 1;

        if (n_row < (half ? seq - 1 : 1))
            break;
        run(f, token + at, 0, n_row, n_row, logit);
        for (int64_t t = half ? seq / 2 : 0; t < n_row; t++, n_sum++) {
            const float *const row = logit + t * vocab;
            double all = 0;

            for (int64_t v = 0; v < vocab; v++)
                all += exp((double)row[v]);
            sum += log(all) - (double)row[token[at + t + 1]];
        }
    }
    return sum / (double)n_sum;
}

int main(int argc, char **argv)
{
    const int type = argc == 5 ? spot_infer_type_find(argv[2]) : -1;
    uint32_t *token = NULL, next;
    struct spot_shape shape;
    struct spot_infer *f;
    int64_t n = 0;
    float *logit;
    char path[4096];

    if (type < 0)
        fail("usage: logits DIR TYPE SHARDS rows|loss|half|N");
    snprintf(path, sizeof(path), "%s/config.json", argv[1]);
    if (spot_hf_config_load(path, &shape, &err))
        fail(err.msg);
    shape.n_shard = strtol(argv[3], NULL, 10);
    while (scanf("%u", &next) == 1) {
        token = spot_xrealloc(token, (size_t)(n + 1), sizeof(*token));
        token[n++] = next;
    }
    struct spot_infer_config c = { .n_thread = 1,
                                   .n_sequence = 1,
                                   .n_page = (int)(shape.seq / SPOT_INFER_PAGE) + 1,
                                   .token_max = (int)shape.seq,
                                   .logit_max = (int)shape.seq };

    c.image = image_of(argv[1], &shape, (enum spot_infer_type)type, &c.image_byte);
    f = spot_infer_new(&c, &err);
    if (!f || spot_infer_open(f, &err))
        fail(err.msg);
    logit = spot_xcalloc((size_t)(shape.seq * shape.vocab), sizeof(*logit));
    if (!strcmp(argv[4], "rows")) {
        run(f, token, 0, n, n, logit);
        fwrite(logit, sizeof(*logit), (size_t)(n * shape.vocab), stdout);
    } else if (!strcmp(argv[4], "loss") || !strcmp(argv[4], "half")) {
        printf("%.9f\n", loss(f, token, n, !strcmp(argv[4], "half"), logit));
    } else {
        greedy(f, token, n, strtoll(argv[4], NULL, 10), logit);
    }
    return ferror(stdout) || fflush(stdout);
}
