/* SPDX-License-Identifier: MIT */
/* share_doc.h - inputs of cluster sharing: jobs (CSV), machines (CSV), and how fast each job runs
 * on each machine type (spot.throughput/1). docs/formats/share.md. */
#ifndef SPOT_MODEL_SHARE_DOC_H
#define SPOT_MODEL_SHARE_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_SHARE_JOBS_MAX = 100000,
    SPOT_SHARE_TYPES_MAX = 64,
    SPOT_SHARE_COUNT_MAX = 100000, /* workers of a type, and of a job */
    SPOT_SHARE_ROWS_MAX = 1 << 20,
    SPOT_SHARE_NAME_MAX = 255,
};

/* The kind of a job from an accounting log that gives only its duration: its steps are seconds. It
 * runs at 1 step/s on each type unless a row gives another rate. */
#define SPOT_SHARE_KIND_SECOND "second"

/* Classes of jobs in one cluster: high takes workers at once, from spot if need be. */
enum spot_share_priority { SPOT_SHARE_NO_CLASS, SPOT_SHARE_HIGH, SPOT_SHARE_SPOT };

struct spot_share_job {
    char *id, *kind, *user, *on; /* user and on (the current type) may be "" */
    double arrival_s, steps, done, weight;
    double slo_s;      /* from its arrival; INFINITY: none */
    double unsaved;    /* steps among `done` that a stop would lose */
    double isolated_s; /* time that `done` would have taken on an equal part; < 0: not given */
    int64_t on_scale;  /* current workers; default: its scale */
    int64_t scale, scale_min, scale_max; /* workers; all equal: the number is fixed */
    enum spot_share_priority priority;
    double ended_s; /* when its work was done; INFINITY: not given */
};

struct spot_share_jobs {
    struct spot_share_job *job; /* [n], by arrival, then id */
    size_t n, cap;
    bool has_classes; /* every job has a priority; otherwise none has one */
    uint64_t xxh3;
};

/* CSV: id,arrival_s,kind,steps,scale[,weight][,slo_s][,done][,on][,user][,scale_min][,scale_max]
 * [,on_workers][,unsaved][,isolated_s][,priority][,ended_s].
 * Jobs are sorted, so the order of the rows does not matter. Returns 0, or -1 with *err: SPOT_EDATA
 * with source:line:column for a job without steps, a weight not above 0, a repeated id, a priority
 * of some jobs only. */
int spot_share_jobs_read(struct spot_share_jobs *jobs, FILE *in, const char *source,
                         struct spot_err *err);
int spot_share_jobs_load(struct spot_share_jobs *jobs, const char *path, struct spot_err *err);
void spot_share_jobs_release(struct spot_share_jobs *jobs);
void spot_share_job_release(struct spot_share_job *job);

/* Append a zeroed job, with weight 1, scale 1, no SLO; its texts are copied. */
struct spot_share_job *spot_share_jobs_add(struct spot_share_jobs *jobs, const char *id,
                                           const char *kind, const char *user);
/* Sort by arrival, then id. */
void spot_share_jobs_sort(struct spot_share_jobs *jobs);
/* Write errors of `out` are left for the caller to detect. */
void spot_share_jobs_write(const struct spot_share_jobs *jobs, FILE *out);

struct spot_share_type {
    char *name;
    int64_t count;
    bool is_spot;
    double usd_per_h, hazard_per_h; /* of one worker; hazard: losses per worker-hour */
};

struct spot_share_cluster {
    struct spot_share_type *type; /* [n], in the order of the document */
    size_t n, cap;
    uint64_t xxh3;
};

/* CSV: instance_type,count[,market][,usd_per_h][,hazard_per_h], market spot or on-demand. */
int spot_share_cluster_read(struct spot_share_cluster *cluster, FILE *in, const char *source,
                            struct spot_err *err);
int spot_share_cluster_load(struct spot_share_cluster *cluster, const char *path,
                            struct spot_err *err);
void spot_share_cluster_release(struct spot_share_cluster *cluster);

struct spot_job_rates_row {
    const char *kind, *instance_type;
    int64_t scale;
    double steps_per_s;
};

struct spot_job_rates {
    struct spot_json_doc json;
    struct spot_job_rates_row *row; /* [n], by kind, scale, type */
    size_t n;
};

/* docs/schema/throughput.json is made from this. */
extern const struct spot_doc_part spot_job_rates_part[];

int spot_job_rates_load(struct spot_job_rates *t, const char *path, struct spot_err *err);
int spot_job_rates_parse(struct spot_job_rates *t, const char *text, size_t n_byte,
                         const char *source, struct spot_err *err);
void spot_job_rates_release(struct spot_job_rates *t);

/* Steps/s of a kind on this many workers of a type; 0: it cannot run there. */
double spot_job_rates_find(const struct spot_job_rates *t, const char *kind, int64_t scale,
                           const char *instance_type);

/* All rows of a kind, by scale, then type: *row points into the table. Returns how many. */
size_t spot_job_rates_of(const struct spot_job_rates *t, const char *kind,
                         const struct spot_job_rates_row **row);

/* rate[n_job][n_type], steps/s at each job's scale, 0 if a type has fewer workers than that.
 * Returns 0, or -1 with *err (SPOT_EINFEASIBLE) naming a job that cannot run anywhere, and why. */
int spot_share_rates(const struct spot_share_jobs *jobs, const struct spot_share_cluster *cluster,
                     const struct spot_job_rates *t, double *rate, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SHARE_DOC_H */
