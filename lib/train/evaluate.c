/* SPDX-License-Identifier: MIT */
#include "train/evaluate.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "engine/stage.h"

/* --- windows ---------------------------------------------------------------- */

/* Number of positions, of a window that begins there, that predict a token of the corpus. */
static int64_t rows_at(const struct spot_windows *w, int64_t begin)
{
    const int64_t most = w->across ? w->seq : w->seq - 1, left = w->n_token - 1 - begin;

    return left < 0 ? 0 : left < most ? left : most;
}

/* The first window that reaches the last token is the last window. */
int64_t spot_windows_count(const struct spot_windows *w)
{
    const int64_t most = w->across ? w->seq : w->seq - 1, behind = w->n_token - 1 - most;

    assert(w->seq > 0 && w->stride > 0 && w->stride <= w->seq);
    return behind <= 0 ? 1 : (behind + w->stride - 1) / w->stride + 1;
}

struct spot_window spot_windows_at(const struct spot_windows *w, int64_t k)
{
    const int64_t overlap = rows_at(w, 0) - w->stride, begin = k * w->stride;
    struct spot_window at = { .begin = begin, .n_row = rows_at(w, begin) };

    /* earlier positions are predicted by the previous window */
    at.first = k && overlap > 0 ? overlap : 0;
    if (at.first > at.n_row)
        at.first = at.n_row;
    return at;
}

/* --- the loss ----------------------------------------------------------------- */

static struct spot_windows windows_of(const struct spot_evaluation *e)
{
    return (struct spot_windows){ .n_token = (int64_t)e->corpus->n_token,
                                  .seq = e->shape->seq,
                                  .stride = e->stride,
                                  .across = e->across };
}

static struct spot_stage *new_stage(const struct spot_evaluation *e, struct spot_err *err)
{
    const struct spot_stage_config config = { .shape = *e->shape,
                                              .bundle_begin = 0,
                                              .bundle_end = spot_shape_bundles(e->shape),
                                              .micro_batch = e->batch,
                                              .n_slot = 1,
                                              .n_microbatch = 1,
                                              .n_thread = e->n_thread,
                                              .recompute = SPOT_RECOMPUTE_LAYER,
                                              .is_forward = true,
                                              .kernel = e->kernel };

    return spot_stage_new(&config, e->bundle, err);
}

/* Read the tokens of a window and the next one; later tokens do not affect earlier positions.
 */
static int read_window(const struct spot_evaluation *e, const struct spot_window *at,
                       uint32_t *token, struct spot_err *err)
{
    memset(token, 0, ((size_t)e->shape->seq + 1) * sizeof(*token));
    return spot_corpus_read(e->corpus, (size_t)at->begin, (size_t)at->n_row + 1, token, err);
}

/* Compute windows [k, k + n) and add their losses one by one, so that the sum does not depend on
 * the batch. */
static int add_batch(const struct spot_evaluation *e, struct spot_stage *stage, int64_t k, int n,
                     uint32_t *token, struct spot_loss *loss, struct spot_err *err)
{
    const struct spot_windows windows = windows_of(e);
    const size_t seq = (size_t)e->shape->seq;
    const double *row;
    double mean;

    for (int i = 0; i < n; i++) {
        const struct spot_window at = spot_windows_at(&windows, k + i);

        if (read_window(e, &at, token + (size_t)i * (seq + 1), err))
            return -1;
    }
    spot_stage_forward(stage, 0, token, NULL, NULL, &mean);
    if (spot_stage_status(stage, err))
        return -1;
    row = spot_stage_row_loss(stage);
    for (int i = 0; i < n; i++) {
        const struct spot_window at = spot_windows_at(&windows, k + i);
        double sum = 0;

        for (int64_t r = at.first; r < at.n_row; r++) {
            const double one = row[(size_t)i * seq + (size_t)r];

            sum += one;
            if (e->row)
                e->row(e->user, at.begin + r + 1, token[(size_t)i * (seq + 1) + (size_t)r + 1],
                       one);
        }
        loss->sum += sum;
        loss->n_predicted += at.n_row - at.first;
    }
    return 0;
}

static int add_all(const struct spot_evaluation *e, struct spot_stage *stage,
                   struct spot_loss *loss, struct spot_err *err)
{
    uint32_t *const token =
        spot_xcalloc((size_t)e->batch * ((size_t)e->shape->seq + 1), sizeof(*token));
    int rc = 0;

    for (int64_t k = 0; !rc && k < loss->n_window; k += e->batch) {
        const int64_t left = loss->n_window - k;

        rc = add_batch(e, stage, k, left < e->batch ? (int)left : e->batch, token, loss, err);
        if (!rc && e->progress)
            e->progress(e->user, left < e->batch ? loss->n_window : k + e->batch, loss->n_window);
    }
    free(token);
    return rc;
}

int spot_evaluate(const struct spot_evaluation *e, struct spot_loss *loss, struct spot_err *err)
{
    const struct spot_windows windows = windows_of(e);
    struct spot_stage *stage;
    int rc;

    *loss = (struct spot_loss){ .n_window = spot_windows_count(&windows) };
    if (windows.n_token < 2 || (windows.seq < 2 && !windows.across))
        return spot_err_set(err, SPOT_EDATA,
                            "%s: %zu tokens in windows of %lld: none can be predicted",
                            e->corpus->source, e->corpus->n_token, (long long)windows.seq);
    stage = new_stage(e, err);
    if (!stage)
        return -1;
    rc = spot_stage_row_loss(stage)
             ? add_all(e, stage, loss, err)
             : spot_err_set(err, SPOT_EUSAGE, "kernel %s does not give losses by token",
                            spot_kernel_name(e->kernel));
    spot_stage_free(stage);
    return rc;
}

double spot_loss_mean(const struct spot_loss *loss)
{
    return loss->sum / (double)loss->n_predicted;
}

double spot_loss_bits_per_byte(const struct spot_loss *loss, int64_t n_token, int64_t n_byte)
{
    return spot_loss_mean(loss) * (double)n_token / log(2) / (double)n_byte;
}
