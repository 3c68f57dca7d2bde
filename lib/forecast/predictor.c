/* SPDX-License-Identifier: MIT */
#include "forecast/predictor.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/pmf.h"

/* The values are in a buffer of twice the past; when it is full they are moved back, so that the
 * newest ones are always contiguous. */
struct spot_predictor {
    const struct spot_forecaster *model;
    struct spot_fc_spec spec; /* as asked */
    struct spot_fc_spec own;  /* as the model sees it: cap divided by `scale` */
    int scale;
    void *state;
    int newest; /* at full scale */
    size_t n_seen, n_kept;
    int kept[2 * SPOT_FC_PAST]; /* [n_kept], in the model's scale */
    double *coarse;             /* [horizon * (own.cap + 1)], only when scaled */
};

struct spot_predictor *spot_predictor_new(const struct spot_forecaster *model,
                                          const struct spot_fc_spec *spec)
{
    struct spot_predictor *p = spot_xcalloc(1, sizeof(*p));

    assert(spec->cap >= 0 && spec->cap <= SPOT_FC_CAP_MAX);
    assert(spec->horizon >= 1 && spec->horizon <= SPOT_FC_HORIZON_MAX);
    p->model = model;
    p->spec = p->own = *spec;
    p->scale = 1;
    if (model->is_dense && spec->cap > SPOT_FC_CAP_FINE) {
        p->scale = (spec->cap + SPOT_FC_CAP_FINE - 1) / SPOT_FC_CAP_FINE;
        p->own.cap = (spec->cap + p->scale - 1) / p->scale;
        p->coarse =
            spot_xcalloc((size_t)spec->horizon * ((size_t)p->own.cap + 1), sizeof(*p->coarse));
    }
    if (model->state_byte)
        p->state = spot_xcalloc(1, model->state_byte(&p->own));
    return p;
}

void spot_predictor_free(struct spot_predictor *predictor)
{
    if (!predictor)
        return;
    free(predictor->coarse);
    free(predictor->state);
    free(predictor);
}

static struct spot_fc_past past_of(const struct spot_predictor *p)
{
    const size_t n = p->n_kept < SPOT_FC_PAST ? p->n_kept : SPOT_FC_PAST;

    return (struct spot_fc_past){ p->kept + p->n_kept - n, n };
}

void spot_predictor_observe(struct spot_predictor *predictor, int y)
{
    struct spot_predictor *p = predictor;
    struct spot_fc_past past;

    if (p->n_kept == (size_t)2 * SPOT_FC_PAST) {
        memmove(p->kept, p->kept + SPOT_FC_PAST, (size_t)SPOT_FC_PAST * sizeof(*p->kept));
        p->n_kept = SPOT_FC_PAST;
    }
    p->newest = y < 0 ? 0 : y > p->spec.cap ? p->spec.cap : y;
    p->kept[p->n_kept++] = (p->newest + p->scale / 2) / p->scale;
    p->n_seen++;
    past = past_of(p);
    if (p->model->observe)
        p->model->observe(&p->own, p->state, &past);
}

/* Divide each coarse cell among the counts that it stands for, shifted so that the cell of the
 * newest value is centred on it. That cell means "no change" and stays a single count. */
static void refine(const struct spot_predictor *p, const double *coarse, double *prob)
{
    const int now = p->kept[p->n_kept - 1], cap = p->spec.cap, width = p->scale;

    memset(prob, 0, ((size_t)cap + 1) * sizeof(*prob));
    for (int k = 0; k <= p->own.cap; k++) {
        const int first = p->newest + (k - now) * width - width / 2;

        for (int i = 0; i < width && coarse[k] > 0; i++) {
            const int at = k == now ? p->newest : first + i;

            prob[at < 0 ? 0 : at > cap ? cap : at] += coarse[k] / width;
        }
    }
}

void spot_predictor_predict(struct spot_predictor *predictor, double *prob)
{
    struct spot_predictor *p = predictor;
    const struct spot_fc_past past = past_of(p);
    const size_t width = (size_t)p->spec.cap + 1;

    assert(p->n_seen);
    p->model->predict(&p->own, p->state, &past, p->coarse ? p->coarse : prob);
    for (size_t h = 0; h < (size_t)p->spec.horizon; h++) {
        if (p->coarse)
            refine(p, p->coarse + h * ((size_t)p->own.cap + 1), prob + h * width);
        spot_pmf_normalize(prob + h * width, p->spec.cap, p->newest);
    }
}

/* --- serialisation --- */

/* Write 32-bit words as pairs (number of zeros, number of others): the numbers, then the others
 * themselves. */
static size_t put_folded(const uint32_t *word, size_t n, FILE *out)
{
    size_t i = 0, n_byte = 0;

    while (i < n) {
        uint32_t run[2] = { 0, 0 };
        size_t first;

        while (i < n && !word[i] && run[0] < UINT32_MAX) {
            run[0]++;
            i++;
        }
        first = i;
        while (i < n && word[i] && run[1] < UINT32_MAX) {
            run[1]++;
            i++;
        }
        fwrite(run, sizeof(run), 1, out);
        fwrite(word + first, sizeof(*word), run[1], out);
        n_byte += sizeof(run) + run[1] * sizeof(*word);
    }
    return n_byte;
}

static bool take(const char **at, size_t *left, void *to, size_t n_byte)
{
    if (n_byte > *left)
        return false;
    memcpy(to, *at, n_byte);
    *at += n_byte;
    *left -= n_byte;
    return true;
}

static bool get_folded(uint32_t *word, size_t n, const char **at, size_t *left)
{
    size_t i = 0;

    while (i < n) {
        uint32_t run[2];

        if (!take(at, left, run, sizeof(run)) || run[0] > n - i || run[1] > n - i - run[0] ||
            !(run[0] + run[1]))
            return false;
        i += run[0];
        if (!take(at, left, word + i, run[1] * sizeof(*word)))
            return false;
        i += run[1];
    }
    return true;
}

static size_t state_words(const struct spot_predictor *p)
{
    return p->state ? p->model->state_byte(&p->own) / sizeof(uint32_t) : 0;
}

size_t spot_predictor_save(const struct spot_predictor *predictor, FILE *out)
{
    const struct spot_predictor *p = predictor;
    const struct spot_fc_past past = past_of(p);
    const uint64_t head[] = { p->n_seen, past.n, (uint64_t)p->newest, state_words(p) };

    fwrite(head, sizeof(head), 1, out);
    fwrite(past.y, sizeof(*past.y), past.n, out);
    return sizeof(head) + past.n * sizeof(*past.y) + put_folded(p->state, state_words(p), out);
}

static bool is_sound(const struct spot_predictor *p, const uint64_t *head)
{
    if (head[1] < 1 || head[1] > SPOT_FC_PAST || head[0] < head[1] ||
        head[2] > (uint64_t)p->spec.cap || head[3] != state_words(p))
        return false;
    for (uint64_t i = 0; i < head[1]; i++)
        if (p->kept[i] < 0 || p->kept[i] > p->own.cap)
            return false;
    return !p->model->is_sound || p->model->is_sound(&p->own, p->state);
}

int spot_predictor_restore(struct spot_predictor *predictor, const void *data, size_t n_byte,
                           struct spot_err *err)
{
    struct spot_predictor *p = predictor;
    const char *at = data;
    uint64_t head[4];

    assert(!p->n_seen);
    if (!take(&at, &n_byte, head, sizeof(head)) || head[1] > SPOT_FC_PAST ||
        !take(&at, &n_byte, p->kept, (size_t)head[1] * sizeof(*p->kept)) ||
        !get_folded(p->state, state_words(p), &at, &n_byte) || n_byte || !is_sound(p, head))
        return spot_err_set(err, SPOT_EDATA, "is not a state of this model and version");
    p->n_seen = (size_t)head[0];
    p->n_kept = (size_t)head[1];
    p->newest = (int)head[2];
    return 0;
}

size_t spot_predictor_recent(const struct spot_predictor *predictor, int *y, size_t n_max)
{
    const struct spot_fc_past past = past_of(predictor);
    const size_t n = past.n < n_max ? past.n : n_max;

    for (size_t i = 0; i < n; i++)
        y[i] = past.y[past.n - n + i] * predictor->scale;
    return n;
}
