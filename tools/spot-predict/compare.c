/* SPDX-License-Identifier: MIT */
/* Two models on the same origins: the ratio of their scores, and how sure it is. Neighbouring
 * origins share the future that scores them, so whole blocks of them are drawn.
 * Source: Kuensch 1989, the moving block bootstrap. */
#include <math.h>
#include <stdlib.h>

#include "common/num.h"
#include "common/rng.h"
#include "predict.h"

enum { DRAWS = 2000 };

/* Mean of A over mean of B in a resample of blocks. */
static double resampled_ratio(const struct result *a, const struct result *b, size_t block,
                              struct spot_rng *rng)
{
    double sum_a = 0, sum_b = 0;

    for (size_t k = 0; k < a->n_origin; k += block) {
        const size_t at = (size_t)spot_rng_below(rng, a->n_origin - block + 1);

        for (size_t i = at; i < at + block && k + i - at < a->n_origin; i++) {
            sum_a += a->crps[i];
            sum_b += b->crps[i];
        }
    }
    return sum_a / sum_b;
}

static double mean(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static void put_finite(struct spot_table *table, double value)
{
    if (isfinite(value))
        spot_table_fixed(table, value, 4);
    else
        spot_table_text(table, "");
}

/* Blocks as long as the horizon is in origins, and never fewer than n^(1/3). */
static size_t block_of(const struct result *r, uint64_t horizon)
{
    const double overlap = (double)horizon / fmax(r->spacing, 1e-9);
    const double block = fmax(ceil(overlap), ceil(cbrt((double)r->n_origin)));

    return (size_t)fmin(block, (double)r->n_origin);
}

static void put_pair(struct spot_table *table, const struct options *options,
                     const struct result *a, const struct result *b)
{
    const size_t block = block_of(a, options->horizon);
    double ratio[DRAWS];
    struct spot_rng rng;

    spot_rng_init(&rng, options->common.seed, 0);
    for (int k = 0; k < DRAWS; k++)
        ratio[k] = resampled_ratio(a, b, block, &rng);
    qsort(ratio, DRAWS, sizeof(*ratio), spot_num_compare);
    spot_table_text(table, a->series);
    spot_table_text(table, a->model);
    spot_table_text(table, b->model);
    spot_table_int(table, (long long)a->n_origin);
    spot_table_int(table, (long long)block);
    put_finite(table, mean(a->crps, a->n_origin));
    put_finite(table, mean(b->crps, b->n_origin));
    put_finite(table, mean(a->crps, a->n_origin) / mean(b->crps, b->n_origin));
    put_finite(table, ratio[DRAWS / 40]);
    put_finite(table, ratio[DRAWS - 1 - DRAWS / 40]);
}

void compare_print(const struct options *options, const struct results *results, FILE *out)
{
    static const struct spot_column column[] = {
        { "series", false }, { "a", false },     { "b", false },     { "origins", true },
        { "block", true },   { "crps_a", true }, { "crps_b", true }, { "ratio", true },
        { "low95", true },   { "high95", true },
    };
    struct spot_table table;

    spot_table_init(&table, column, sizeof(column) / sizeof(column[0]));
    for (size_t i = 0; i + 1 < results->n; i += 2)
        put_pair(&table, options, &results->result[i], &results->result[i + 1]);
    spot_table_print(&table, out,
                     options->format == SPOT_FORMAT_AUTO ? SPOT_FORMAT_CSV : options->format);
    spot_table_release(&table);
}
