/* SPDX-License-Identifier: MIT */
/* A price as a semi-Markov chain: first the number of moves, from the hazard of a price by the time
 * since its last move; then the result of so many moves, by class, on a grid of logarithms. Moves
 * are taken as independent of their times. Both distributions are exact sums; nothing is sampled.
 */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "forecast/price_predictor.h"

enum {
    CLASSES = 4, /* down small, down large, up small, up large */
    HALF = 256,  /* cells of the grid below, and above, the current price */
    CELLS = 2 * HALF + 1,
    AGES = 48, /* classes of age: one for each of 0..16, then four for each doubling */
    AGES_EACH = 16,
};

static const double prior_exposure = 3, prior_next = 4, prob_least = 1e-12, cell_least = 1e-12,
                    tie = 1e-9;

/* Statistics of moves in a window. */
struct moves {
    size_t n;
    double *log_ratio;             /* [n] never 0 */
    int *class;                    /* [n] */
    double next[CLASSES][CLASSES]; /* probability of a class after another */
    double share[CLASSES];
    size_t age; /* intervals since the last move */
    double hazard[AGES];
};

static size_t age_class(size_t age)
{
    if (age <= AGES_EACH)
        return age;
    return (size_t)fmin(AGES - 1, AGES_EACH + 1 + floor(4 * log2((double)age / AGES_EACH)));
}

/* The age of the run before the first move is unknown. It only counts in the mean over all
 * intervals, towards which each age class is shrunk with a weight of `prior_exposure` intervals. */
static void learn_hazard(struct moves *m, const double *y, size_t n)
{
    double exposed[AGES] = { 0 }, moved[AGES] = { 0 }, mean;
    bool has_moved = false;
    size_t age = 0;

    for (size_t i = 1; i < n; i++) {
        const bool is_move = y[i] < y[i - 1] || y[i] > y[i - 1];
        const size_t class = age_class(age);

        if (has_moved) {
            exposed[class]++;
            moved[class] += is_move;
        }
        has_moved |= is_move;
        age = is_move ? 0 : age + 1;
    }
    m->age = age;
    mean = (double)m->n / (double)(n > 1 ? n - 1 : 1);
    for (size_t a = 0; a < AGES; a++)
        m->hazard[a] = fmin(1, (moved[a] + prior_exposure * mean) / (exposed[a] + prior_exposure));
}

/* The median size of the moves of a sign; 0 if there are none. */
static double median_size(const struct moves *m, bool is_up)
{
    double *size = spot_xcalloc(m->n + 1, sizeof(double)), median;
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        if ((m->log_ratio[i] > 0) == is_up)
            size[n++] = fabs(m->log_ratio[i]);
    qsort(size, n, sizeof(double), spot_num_compare);
    median = n ? size[n / 2] : 0;
    free(size);
    return median;
}

static void learn_moves(struct moves *m, const double *y, size_t n)
{
    double median[2], count[CLASSES] = { 0 };

    m->log_ratio = spot_xcalloc(n, sizeof(double));
    m->class = spot_xcalloc(n, sizeof(int));
    for (size_t i = 1; i < n; i++)
        if (fabs(log(y[i] / y[i - 1])) > 0)
            m->log_ratio[m->n++] = log(y[i] / y[i - 1]);
    for (int up = 0; up < 2; up++)
        median[up] = median_size(m, up);
    for (size_t i = 0; i < m->n; i++) {
        const int up = m->log_ratio[i] > 0;

        m->class[i] = 2 * up + (fabs(m->log_ratio[i]) > median[up] * (1 + tie));
        m->share[m->class[i]] += 1 / (double)m->n;
    }
    for (size_t i = 1; i < m->n; i++) {
        m->next[m->class[i - 1]][m->class[i]]++;
        count[m->class[i - 1]]++;
    }
    for (int c = 0; c < CLASSES; c++)
        for (int d = 0; d < CLASSES; d++)
            m->next[c][d] = (m->next[c][d] + prior_next * m->share[d]) / (count[c] + prior_next);
}

/* --- number of moves --- */

void spot_price_moves(const double *hazard, size_t n_hazard, size_t age, size_t horizon,
                      double *prob)
{
    const size_t wide = horizon + 1;
    /* now[k][age]: k moves so far, by age of the newest; none: no move so far; next: one interval
     * later */
    double *now = spot_xcalloc(wide * wide, sizeof(double)), none = 1;

    for (size_t h = 0; h < horizon; h++) {
        double *row = prob + h * wide;
        const size_t at = age + h < n_hazard ? age + h : n_hazard - 1;
        double first = none * hazard[at];

        memset(row, 0, wide * sizeof(double));
        none -= first;
        row[0] = none;
        for (size_t k = 1; k <= h + 1; k++) { /* those that move now go to k + 1 and age 0 */
            double *of = now + k * wide, moved = 0;

            for (size_t a = h; a-- > 0;) {
                const double part = of[a] * hazard[a < n_hazard ? a : n_hazard - 1];

                moved += part;
                of[a + 1] = of[a] - part;
                row[k] += of[a + 1];
            }
            of[0] = first;
            row[k] += first;
            first = moved;
        }
    }
    free(now);
}

/* --- sizes of moves --- */

/* The cells of the moves of each class: taps[n], with cell and probability. */
struct taps {
    size_t n[CLASSES];
    int *cell[CLASSES];
    double *prob[CLASSES];
};

/* The cell size: fine enough for the median move; the grid must hold three of the largest. */
static double cell_size(const struct moves *m)
{
    double *size = spot_xcalloc(m->n, sizeof(double)), cell;

    for (size_t i = 0; i < m->n; i++)
        size[i] = fabs(m->log_ratio[i]);
    qsort(size, m->n, sizeof(double), spot_num_compare);
    cell = fmax(fmax(size[m->n / 2] / 4, 3 * size[m->n - 1] / HALF), cell_least);
    free(size);
    return cell;
}

/* Every move is at least one cell. */
static void make_taps(const struct moves *m, double cell, struct taps *taps)
{
    double sum[CLASSES][CELLS];

    memset(sum, 0, sizeof(sum));
    for (size_t i = 0; i < m->n; i++) {
        const double at = m->log_ratio[i] / cell;
        const int k = (int)fmin(HALF, fmax(1, rint(fabs(at))));

        sum[m->class[i]][HALF + (at < 0 ? -k : k)] += 1 / (double)m->n / m->share[m->class[i]];
    }
    for (int c = 0; c < CLASSES; c++) {
        taps->n[c] = 0;
        taps->cell[c] = spot_xcalloc(CELLS, sizeof(int));
        taps->prob[c] = spot_xcalloc(CELLS, sizeof(double));
        for (int k = 0; k < CELLS; k++)
            if (sum[c][k] > 0) {
                taps->cell[c][taps->n[c]] = k - HALF;
                taps->prob[c][taps->n[c]++] = sum[c][k];
            }
    }
}

/* One more move: `from` [CLASSES][CELLS] is by class of the newest move. What leaves the grid stays
 * at its edge. */
static void move_on(const struct moves *m, const struct taps *taps, double (*from)[CELLS],
                    double (*to)[CELLS])
{
    memset(to, 0, CLASSES * sizeof(*to));
    for (int c = 0; c < CLASSES; c++)
        for (int k = 0; k < CELLS; k++) {
            double mass = 0;

            for (int b = 0; b < CLASSES; b++)
                mass += from[b][k] * m->next[b][c];
            if (!(mass > 0))
                continue;
            for (size_t i = 0; i < taps->n[c]; i++) {
                int at = k + taps->cell[c][i];

                at = at < 0 ? 0 : at >= CELLS ? CELLS - 1 : at;
                to[c][at] += mass * taps->prob[c][i];
            }
        }
}

/* The most moves that are likely enough to count. */
static size_t most_moves(const double *prob, size_t horizon)
{
    size_t most = 0;

    for (size_t h = 0; h < horizon; h++)
        for (size_t k = most + 1; k <= horizon; k++)
            most = prob[h * (horizon + 1) + k] > prob_least ? k : most;
    return most;
}

/* total[horizon][CELLS]: the sum over all numbers of moves. */
static void add_up(const struct moves *m, const struct taps *taps, const double *prob,
                   size_t horizon, double *total)
{
    double(*at)[CELLS] = spot_xcalloc(CLASSES, sizeof(*at));
    double(*then)[CELLS] = spot_xcalloc(CLASSES, sizeof(*then));
    const size_t most = most_moves(prob, horizon);

    at[m->class[m->n - 1]][HALF] = 1;
    for (size_t k = 0; k <= most; k++) {
        double(*swap)[CELLS] = at;

        for (int i = 0; i < CELLS; i++) {
            double sum = 0;

            for (int c = 0; c < CLASSES; c++)
                sum += at[c][i];
            for (size_t h = 0; sum > 0 && h < horizon; h++)
                total[h * CELLS + (size_t)i] += prob[h * (horizon + 1) + k] * sum;
        }
        move_on(m, taps, at, then);
        at = then;
        then = swap;
    }
    free(at);
    free(then);
}

/* The price, limited to what a document may contain. */
static double price_at(double now, double log_ratio)
{
    return fmin(1e9, fmax(1e-12, now * exp(log_ratio)));
}

static void predict_moves(const struct moves *m, double now, size_t horizon,
                          struct spot_price_dist *dist)
{
    const double cell = cell_size(m);
    double *prob = spot_xcalloc(horizon * (horizon + 1), sizeof(double));
    double *total = spot_xcalloc(horizon * CELLS, sizeof(double));
    double *hazard = spot_xcalloc(m->age + horizon + 1, sizeof(double));
    struct taps taps;

    for (size_t a = 0; a <= m->age + horizon; a++)
        hazard[a] = m->hazard[age_class(a)];
    spot_price_moves(hazard, m->age + horizon + 1, m->age, horizon, prob);
    make_taps(m, cell, &taps);
    add_up(m, &taps, prob, horizon, total);
    for (size_t h = 0; h < horizon; h++)
        for (int i = 0; i < CELLS; i++)
            if (total[h * CELLS + (size_t)i] > prob_least)
                spot_price_dist_add(&dist[h], i == HALF ? now : price_at(now, (i - HALF) * cell),
                                    total[h * CELLS + (size_t)i]);
    for (int c = 0; c < CLASSES; c++) {
        free(taps.cell[c]);
        free(taps.prob[c]);
    }
    free(prob);
    free(total);
    free(hazard);
}

void spot_price_steps(const double *y, size_t n, size_t horizon, struct spot_price_dist *dist)
{
    struct moves m = { 0 };

    assert(n);
    learn_moves(&m, y, n);
    learn_hazard(&m, y, n);
    if (m.n)
        predict_moves(&m, y[n - 1], horizon, dist);
    else
        for (size_t h = 0; h < horizon; h++)
            spot_price_dist_add(&dist[h], y[n - 1], 1);
    free(m.log_ratio);
    free(m.class);
}
