/* SPDX-License-Identifier: MIT */
/* throughput.h - samples per second of every grid of a job.
 *
 * A grid's step time comes from the job's profile, or from a curve fitted to it:
 *     step_s = a * pipe + c * (M + 2P) + e,
 * pipe = M * t_max + sum of the other stages' t (one micro batch, forward and backward), M micro
 * batches per pipeline; a, c, e >= 0 by least squares of relative errors. (A fit of a alone
 * misses measured tables by 11.5 % on average, the three terms by 2.3 %: GPT-1.5B, 47 grids.)
 * A point more than 1.4 times off the curve of the others is an outlier and excluded from the fit;
 * the table keeps it unless the document itself says "outlier".
 */
#ifndef SPOT_MODEL_THROUGHPUT_H
#define SPOT_MODEL_THROUGHPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "model/job_doc.h"
#include "model/speed_between.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_CURVE_POINTS_MIN = 6 }; /* with fewer points only `a` is fitted */

struct spot_step_curve {
    double pipe, fill_s, fixed_s; /* a (1 if layer times are known), c, e */
    size_t n_point;               /* used by the fit; 0: no curve */
    size_t n_outlier;
    double error_mean, error_max; /* relative, over the points used */
    double miss_max;              /* relative, over these points and those excluded from the fit */
};

/* True if the curve may replace a measurement by default: it misses none by more than 20 %, and is
 * based on enough points to be more than a proportion. */
bool spot_step_curve_is_trusted(const struct spot_step_curve *curve);

enum spot_throughput_source {
    SPOT_THROUGHPUT_TABLE, /* the profile only; other grids have 0 samples/s */
    SPOT_THROUGHPUT_CURVE, /* the curve only */
    SPOT_THROUGHPUT_BOTH,  /* the profile; without an entry, or with an outlier: between measured D
                              of a P, interpolation (speed_between.h), else the curve if it is
                              trusted, else the estimate of speed_between.h: for P within the
                              profile's range, any D, and at most in proportion to measured ones */
};

/* "table", "curve" or "both". Returns 0, or -1 with *err: SPOT_EUSAGE. */
int spot_throughput_source_parse(const char *text, enum spot_throughput_source *source,
                                 struct spot_err *err);

struct spot_throughput {
    int n_max; /* D * P <= n_max */
    int p_max;
    struct spot_step_curve curve;
    double *samples_per_s; /* [n_max + 1][p_max + 1]; negative: this grid is not allowed */
    unsigned char *from;   /* the same shape: source of the speed, enum spot_speed_from */
    enum spot_throughput_source source;
    struct spot_speed_between between;
    bool *is_outlier;      /* [n_profile] */
    const int *grid_order; /* all allowed grids, [n_grid]: d * (p_max + 1) + p, d outer */
    int n_grid;
    int *best; /* [n_max + 1] of up to n instances: index into grid_order, -1 if none runs */
};

/* Fill *t for grids of up to n_max instances (1..SPOT_GRID_MAX). Returns 0, or -1 with *err:
 * SPOT_EDATA when neither the profile nor the curve gives a speed, SPOT_EINFEASIBLE when no grid of
 * n_max instances is allowed (the message has the minimum). */
int spot_throughput_init(struct spot_throughput *t, const struct spot_job_doc *job, int n_max,
                         enum spot_throughput_source source, struct spot_err *err);
void spot_throughput_release(struct spot_throughput *t);

/* Samples per second of D x P; 0 if not known, negative if not allowed. */
double spot_throughput_at(const struct spot_throughput *t, int d, int p);

/* The source of the speed of D x P; SPOT_SPEED_UNKNOWN if not known. */
enum spot_speed_from spot_throughput_from(const struct spot_throughput *t, int d, int p);

/* The fastest grid of up to n instances, ties to the smaller D, then the smaller P.
 * Returns its samples per second, 0 with *d = *p = 0 if none runs. */
double spot_throughput_best(const struct spot_throughput *t, int n, int *d, int *p);

/* The largest D * P of the job's profile; 0 without one. */
int spot_job_profiled(const struct spot_job_doc *job);

/* The maximum pipelines such that each gets a microbatch per step, and the maximum stages such that
 * each gets a bundle (embedding, layers, head): spot-run rejects more. */
int spot_job_pipelines_max(const struct spot_job_doc *job);
int spot_job_stages_max(const struct spot_job_doc *job);

/* True if the entry is usable for planning: no tensor groups, and the job's own micro batch. */
bool spot_job_is_planned(const struct spot_job_doc *job, const struct spot_job_profile *p);

/* Samples per second of an entry: as given by the profile, else from the step time. */
double spot_job_samples_per_s(const struct spot_job_doc *job, const struct spot_job_profile *p);

/* True if the job's limits allow P stages and D pipelines. */
bool spot_throughput_allows(const struct spot_job_doc *job, int d, int p);

/* Fit the curve to the job's profile; n_point is 0 if impossible. is_outlier may be NULL. */
void spot_step_curve_fit(struct spot_step_curve *curve, const struct spot_job_doc *job,
                         bool *is_outlier);
double spot_step_curve_at(const struct spot_step_curve *curve, const struct spot_job_doc *job,
                          int d, int p);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_THROUGHPUT_H */
