/* SPDX-License-Identifier: MIT */
/* Goal: what warm spares save is exact, and who mirrors what is as a job has it. Oracles: every set
 * of victims of a grid and its spares, every way in which those that are left take places; the loop
 * by which the trainer deals out stages; a cost table that is asked with and without. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "model/job_doc.h"
#include "plan/cost_table.h"
#include "plan/liveput.h"
#include "plan/train/warm_spare.h"
#include "suite.h"

enum { WIDE = 65 };

static const char *const job_name[] = { "bert", "gpt-6.7b", "resnet152", "vgg19", "gpt-1.5b" };

static void load(struct spot_job_doc *job, int i)
{
    struct spot_err err = { 0 };
    char path[64];

    snprintf(path, sizeof(path), "examples/jobs/%s.json", job_name[i]);
    ck_assert_msg(!spot_job_doc_load(job, path, &err), "%s", err.msg);
}

/* --- every set of victims --- */

struct oracle {
    const struct spot_warm_cover *c;
    const struct spot_migrate_cost *cost;
    int d, keep;
    int lost[16], left[16]; /* by stage: victims; by set: spares that live */
};

static double stage_s(const struct oracle *o, int k)
{
    return spot_migrate_stage_s(o->cost, o->c->p, k);
}

/* The slowest stage of a set that stays short, at the best use of `left` spares: each way to give
 * one to a stage is tried. */
static double slowest_of(struct oracle *o, int set, int left)
{
    double none = 0, best;

    for (int k = 0; k < o->c->p; k++)
        if (o->c->set[k] == set && o->d - o->lost[k] < o->keep)
            none = fmax(none, stage_s(o, k));
    best = none;
    for (int k = 0; left && k < o->c->p; k++)
        if (o->c->set[k] == set && o->d - o->lost[k] < o->keep) {
            o->lost[k]--;
            best = fmin(best, slowest_of(o, set, left - 1));
            o->lost[k]++;
        }
    return best;
}

static bool is_held(const struct oracle *o, int k, bool with_quirk)
{
    const int need = with_quirk && k == o->c->p - 1 && o->keep > 1 ? 2 : 1;

    return o->d - o->lost[k] >= need || (o->c->set[k] >= 0 && o->left[o->c->set[k]] > 0);
}

static double moved(struct oracle *o, bool *is_lost)
{
    double x = slowest_of(o, -1, 0), y = 0;

    *is_lost = false;
    for (int i = 0; i < o->c->n_set; i++)
        x = fmax(x, slowest_of(o, i, o->left[i]));
    for (int k = 0; k < o->c->p; k++) {
        y += is_held(o, k, true) || o->d - o->lost[k] >= o->keep ? 0 : stage_s(o, k);
        *is_lost |= !is_held(o, k, false);
    }
    return fmax(x, y);
}

static int worst_of(const struct oracle *o)
{
    int worst = 0;

    for (int k = 0; k < o->c->p; k++)
        worst = o->lost[k] > worst ? o->lost[k] : worst;
    return worst;
}

static void place_victims(struct oracle *o, unsigned victims)
{
    int at = o->d * o->c->p;

    for (int k = 0; k < o->c->p; k++) {
        o->lost[k] = 0;
        for (int i = 0; i < o->d; i++)
            o->lost[k] += victims >> (k * o->d + i) & 1;
    }
    for (int i = 0; i < o->c->n_set; i++) {
        o->left[i] = 0;
        for (int s = 0; s < o->c->spares[i]; s++)
            o->left[i] += !(victims >> at++ & 1);
    }
}

static void agree(const struct spot_migrate_cost *cost, int d, int p, int w, int keep, int most,
                  double step_s)
{
    struct spot_warm_cover c;
    struct oracle o = { .c = &c, .cost = cost, .d = d, .keep = keep };
    double move[WIDE], lost[WIDE], want[WIDE] = { 0 }, gone[WIDE] = { 0 }, n[WIDE] = { 0 };
    int size;

    spot_warm_cover_init(&c, cost, p, w, step_s);
    size = d * p + c.n_warm;
    for (unsigned victims = 0; victims < 1U << size; victims++) {
        const int v = __builtin_popcount(victims);
        bool is_lost;

        place_victims(&o, victims);
        want[v] += moved(&o, &is_lost) * (worst_of(&o) <= most);
        gone[v] += is_lost;
        n[v]++;
    }
    spot_warm_move(&c, cost, d, keep, most, size, move, lost);
    for (int v = 0; v <= size; v++)
        ck_assert_msg(fabs(move[v] - want[v] / n[v]) <= 1e-9 * (1 + move[v]) &&
                          fabs(lost[v] - gone[v] / n[v]) <= 1e-9,
                      "%dx%d and %d spares keep %d, %d victims: %.12g s, lost %.12g; enumeration "
                      "gives %.12g, %.12g",
                      d, p, w, keep, v, move[v], lost[v], want[v] / n[v], gone[v] / n[v]);
    spot_warm_cover_release(&c);
}

START_TEST(agrees_with_enumeration_of_every_set_of_victims)
{
    struct spot_job_doc job;
    struct spot_migrate_cost cost;

    load(&job, _i);
    spot_migrate_cost_init(&cost, &job, 10);
    for (int d = 1; d <= 4; d++)
        for (int p = 1; d * p <= 9; p++)
            for (int w = 0; w <= 4 && d * p + w <= 11; w++)
                for (int keep = 1; keep <= d + 1; keep++) {
                    agree(&cost, d, p, w, keep, d, 1e9);
                    agree(&cost, d, p, w, keep, d - 1, 1e9);
                    agree(&cost, d, p, w, keep, d, /* room for some of the stages */
                          4 * spot_migrate_p2p_s(&job.cost, 8 * cost.params[p * cost.p_max]));
                }
    spot_migrate_cost_release(&cost);
    spot_job_doc_release(&job);
}
END_TEST

/* --- who mirrors what --- */

/* trainer_warm.c: choose(), of equal domains. mirrors[w * p] */
static void deal_out(const struct spot_migrate_cost *cost, int p, int w, double room_s,
                     bool *mirrors)
{
    double *const room = spot_xcalloc((size_t)w + 1, sizeof(*room));
    bool *const taken = spot_xcalloc((size_t)w * (size_t)p + 1, sizeof(*taken));

    for (int i = 0; i < w; i++)
        room[i] = room_s;
    for (int turn = 0; w && turn / w <= p; turn++) {
        const int i = turn % w;
        int best = -1, least = 0, own = 0, others = 0;

        for (int k = 0; k < p; k++) {
            int n = 0;

            for (int j = 0; j < w; j++)
                n += taken[j * p + k];
            own += taken[i * p + k];
            if (!taken[i * p + k] && (best < 0 || n < least)) {
                best = k;
                least = n;
            }
        }
        others = least;
        if (best < 0 || (own && others))
            continue;
        taken[i * p + best] = true;
        if (spot_migrate_p2p_s(&cost->job->cost, 8 * cost->params[p * cost->p_max + best]) >
            room[i])
            continue;
        room[i] -= spot_migrate_p2p_s(&cost->job->cost, 8 * cost->params[p * cost->p_max + best]);
        mirrors[i * p + best] = true;
    }
    free(room);
    free(taken);
}

START_TEST(stages_are_dealt_out_as_a_job_does_it)
{
    struct spot_job_doc job;
    struct spot_migrate_cost cost;

    load(&job, _i);
    spot_migrate_cost_init(&cost, &job, 10);
    for (int p = 1; p <= 10; p++)
        for (int w = 0; w <= 24; w++)
            for (double step_s = 0.01; step_s < 1000; step_s *= 3) {
                bool *const mirrors = spot_xcalloc((size_t)(w * p) + 1, sizeof(*mirrors));
                struct spot_warm_cover c;
                double busiest = 0;

                spot_warm_cover_init(&c, &cost, p, w, step_s);
                deal_out(&cost, p, w, step_s / 2, mirrors);
                for (int k = 0; k < p; k++) {
                    int n = 0;

                    for (int i = 0; i < w; i++)
                        n += mirrors[i * p + k];
                    ck_assert_int_eq(n, c.set[k] < 0 ? 0 : c.spares[c.set[k]]);
                    busiest =
                        fmax(busiest, n * spot_migrate_p2p_s(&job.cost,
                                                             8 * cost.params[p * cost.p_max + k]));
                }
                for (int i = 0; i < w; i++) {
                    double in = 0;

                    for (int k = 0; k < p; k++)
                        if (mirrors[i * p + k])
                            in +=
                                spot_migrate_p2p_s(&job.cost, 8 * cost.params[p * cost.p_max + k]);
                    busiest = fmax(busiest, in);
                }
                ck_assert_double_eq_tol(spot_warm_mirror_s(&c, &cost), busiest, 1e-9);
                spot_warm_cover_release(&c);
                free(mirrors);
            }
    spot_migrate_cost_release(&cost);
    spot_job_doc_release(&job);
}
END_TEST

/* --- prices of changes --- */

/* What the spares save is the difference of two means over who dies of all that there are. */
START_TEST(a_price_with_warm_spares_is_the_plain_one_less_what_they_save)
{
    struct spot_job_doc job;
    struct spot_throughput t;
    struct spot_cost_table plain, warm;
    struct spot_err err = { 0 };
    double saved = 0;

    load(&job, _i);
    ck_assert_int_eq(spot_throughput_init(&t, &job, 24, SPOT_THROUGHPUT_BOTH, &err), 0);
    spot_cost_table_init(&plain, &job, &t);
    spot_cost_table_init(&warm, &job, &t);
    warm.warm = 3;
    for (int n = 1; n <= 24; n++)
        for (int from = 0; from < plain.n_grid; from++)
            for (int lost = 0; plain.d[from] * plain.p[from] <= n && lost <= 3 && lost <= n;
                 lost++) {
                const double *a = spot_cost_row(&plain, n, from, lost);
                const double *b = spot_cost_row(&warm, n, from, lost);

                for (int to = 0; to < plain.n_grid; to++) {
                    const bool may_save =
                        plain.p[from] == plain.p[to] && plain.d[from] * plain.p[from] < n;

                    ck_assert_double_le(b[to], a[to] + 1e-9);
                    if (!may_save)
                        ck_assert_double_eq_tol(b[to], a[to], 1e-9);
                    saved += a[to] - b[to];
                }
                ck_assert_double_le(spot_cost_rate(&warm, n, from), plain.samples_per_s[from]);
                if (plain.d[from] * plain.p[from] == n)
                    ck_assert_double_eq(spot_cost_rate(&warm, n, from), plain.samples_per_s[from]);
            }
    ck_assert_double_gt(saved, 0);
    spot_cost_table_release(&plain);
    spot_cost_table_release(&warm);
    spot_throughput_release(&t);
    spot_job_doc_release(&job);
}
END_TEST

/* What is told of who goes has the mean that is known before. */
START_TEST(outcomes_with_warm_spares_have_the_mean_of_the_row)
{
    struct spot_job_doc job;
    struct spot_throughput t;
    struct spot_cost_table table;
    struct spot_err err = { 0 };

    load(&job, _i);
    job.cost.restore_s = 100;
    ck_assert_int_eq(spot_throughput_init(&t, &job, 16, SPOT_THROUGHPUT_BOTH, &err), 0);
    spot_cost_table_init(&table, &job, &t);
    table.warm = 4;
    for (int n = 1; n <= 16; n += 3)
        for (int from = 0; from < table.n_grid; from++)
            for (int lost = 1; table.d[from] * table.p[from] <= n && lost <= 4 && lost <= n;
                 lost++) {
                const double *row = spot_cost_row(&table, n, from, lost);
                const struct spot_cost_outcomes *o = spot_cost_outcomes(&table, n, from, lost);

                for (int to = 0; to < table.n_grid; to++) {
                    double mean = 0;

                    for (int i = 0; i < o->n; i++)
                        mean += o->prob[i] * spot_cost_outcome_s(&table, o, i, to);
                    ck_assert_double_eq_tol(mean, row[to], 1e-6 * (1 + row[to]));
                }
            }
    spot_cost_table_release(&table);
    spot_throughput_release(&t);
    spot_job_doc_release(&job);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("warm");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, agrees_with_enumeration_of_every_set_of_victims, 0, 5);
    tcase_add_loop_test(tc, stages_are_dealt_out_as_a_job_does_it, 0, 5);
    tcase_add_loop_test(tc, a_price_with_warm_spares_is_the_plain_one_less_what_they_save, 0, 5);
    tcase_add_loop_test(tc, outcomes_with_warm_spares_have_the_mean_of_the_row, 0, 5);
    return run_suite("warm_spare", tc);
}
