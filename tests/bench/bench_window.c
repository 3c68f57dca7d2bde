/* SPDX-License-Identifier: MIT */
/* bench_window - what the plan for many instances loses by looking at a window of counts and grids
 * only, against the full program, over random jobs and forecasts of 8 to 64 instances. In percent
 * of the samples that the horizon gives; a line per case above 0.5 %, then the distribution.
 *
 * usage: bench_window [CASES [SEED]]     cases per job, default 12 and 1 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "plan/train_plan.h"

enum { N_JOB = 5, N_MIN = 8, N_MOST = 64, HORIZON = 12, SIZE_MAX_CHANGE = 6 };
static const char *const job_name[N_JOB] = { "gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19" };

static int below(struct spot_rng *rng, int n)
{
    return (int)spot_rng_below(rng, (uint64_t)n);
}

/* Net changes of up to 6 either way, their shares random; something happens with up to 60 %. */
static void random_dist(struct spot_rng *rng, struct spot_change_dist *dist, int now, int n_max)
{
    const double busy = 0.02 + 0.58 * spot_rng_unit(rng);
    double sum = 0;

    spot_change_dist_still(dist, now, 60, HORIZON);
    free(dist->change);
    free(dist->count);
    dist->cap = n_max;
    dist->count = spot_xcalloc(HORIZON * ((size_t)n_max + 1), sizeof(*dist->count));
    for (int h = 0; h < HORIZON; h++)
        dist->count[(size_t)h * ((size_t)n_max + 1) + (size_t)now] = 1;
    dist->change = spot_xcalloc(2 * SIZE_MAX_CHANGE + 1, sizeof(*dist->change));
    dist->n_change = 0;
    for (int k = -SIZE_MAX_CHANGE; k <= SIZE_MAX_CHANGE; k++) {
        const double share = k ? pow(0.6, abs(k)) * spot_rng_unit(rng) : 0;

        if (now + k < 0 || now + k > n_max)
            continue;
        dist->change[dist->n_change++] =
            (struct spot_change){ k < 0 ? -k : 0, k > 0 ? k : 0, share };
        sum += share;
    }
    for (size_t i = 0; i < dist->n_change; i++) {
        struct spot_change *c = &dist->change[i];

        c->prob = c->lost || c->gained ? busy * c->prob / sum : 1 - busy;
    }
    qsort(dist->change, dist->n_change, sizeof(*dist->change), spot_change_compare);
}

/* Cheaper and costlier changes, larger batches. */
static void random_job(struct spot_rng *rng, struct spot_job_doc *job)
{
    const double scale = pow(10, 1.2 * spot_rng_unit(rng) - 0.6);
    struct spot_job_cost *c = &job->cost;

    job->global_batch *= 1 << below(rng, 4);
    c->rendezvous_s *= scale;
    c->extra_s *= scale;
    c->regroup_s *= scale;
    c->add_per_group_s *= scale;
    c->remove_per_group_s *= scale;
    for (size_t i = 0; i < c->n_p2p; i++)
        c->p2p[i].y *= scale;
}

static const struct spot_train_choice *choice_of(const struct spot_train_plan *plan, int d, int p)
{
    for (size_t i = 0; i < plan->n_choice; i++)
        if (plan->choice[i].d == d && plan->choice[i].p == p)
            return &plan->choice[i];
    return NULL;
}

/* Share of the horizon's samples that the window's choice loses; 0 where nothing can run. */
static double loss_of(struct spot_train_question *q, int *d, int *p)
{
    struct spot_train_plan window, full;
    struct spot_err err = { 0 };
    double loss = 0;

    q->exact_max = 1;
    if (spot_train_plan_make(&window, q, &err))
        return NAN;
    q->exact_max = 0;
    if (spot_train_plan_make(&full, q, &err))
        return NAN;
    *d = (int)window.doc.next.D;
    *p = (int)window.doc.next.P;
    if (window.n_choice && full.n_choice) {
        const struct spot_train_choice *c = choice_of(&full, *d, *p);

        loss = c ? (full.choice[0].score - c->score) /
                       (full.choice[0].samples_per_s * HORIZON * q->dist->interval_s)
                 : 1;
    } else if (window.n_choice != full.n_choice) {
        loss = 1;
    }
    spot_train_plan_release(&window);
    spot_train_plan_release(&full);
    return loss;
}

static double one_case(const char *name, uint64_t seed, uint64_t stream)
{
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_change_dist dist;
    struct spot_rng rng;
    struct spot_err err = { 0 };
    struct spot_train_question q = { .job = &job,
                                     .throughput = &throughput,
                                     .dist = &dist,
                                     .max_loss_prob = 1,
                                     .solver = SPOT_SOLVER_DP,
                                     .horizon = HORIZON };
    char path[96];
    int now, n_max, d = 0, p = 0;
    double loss;

    spot_rng_init(&rng, seed, stream);
    snprintf(path, sizeof(path), "examples/jobs/%s.json", name);
    if (spot_job_doc_load(&job, path, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(EXIT_FAILURE);
    }
    random_job(&rng, &job);
    n_max = N_MIN + below(&rng, N_MOST - N_MIN + 1);
    if (n_max < job.memory.p_min + 2)
        n_max = (int)job.memory.p_min + 2;
    now = n_max - below(&rng, n_max / 2);
    if (spot_throughput_init(&throughput, &job, n_max, SPOT_THROUGHPUT_CURVE, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(EXIT_FAILURE);
    }
    random_dist(&rng, &dist, now, n_max);
    if (below(&rng, 4))
        spot_throughput_best(&throughput, now - below(&rng, 4), &q.current_d, &q.current_p);
    q.leaving = below(&rng, 2) ? below(&rng, 4) : 0;
    loss = loss_of(&q, &d, &p);
    if (!(loss <= 0.005))
        printf("%-10s case %llu: %d of %d instances, %d leaving, from %dx%d: %dx%d loses %.3f %%\n",
               name, (unsigned long long)stream, now, n_max, q.leaving, q.current_d, q.current_p, d,
               p, 100 * loss);
    spot_change_dist_release(&dist);
    spot_throughput_release(&throughput);
    spot_job_doc_release(&job);
    return loss;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const size_t n_case = argc > 1 ? strtoul(argv[1], NULL, 10) : 12;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    double *loss = spot_xcalloc(N_JOB * n_case, sizeof(*loss)), mean = 0;
    size_t n = 0, none = 0;

    for (size_t i = 0; i < N_JOB * n_case; i++) {
        const double x = one_case(job_name[i % N_JOB], seed, i);

        loss[n++] = x;
        mean += x / (double)(N_JOB * n_case);
        none += x <= 1e-9;
    }
    if (!n)
        return EXIT_FAILURE;
    qsort(loss, n, sizeof(*loss), by_value);
    printf("%zu cases, the same choice or as good in %zu; lost: mean %.4f %%, median %.4f, 90 %% "
           "%.4f, 99 %% %.4f, worst %.4f\n",
           n, none, 100 * mean, 100 * loss[n / 2], 100 * loss[9 * n / 10], 100 * loss[99 * n / 100],
           100 * loss[n - 1]);
    free(loss);
    return EXIT_SUCCESS;
}
