/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "host/ledger.h"
#include "suite.h"

/* Goal: whatever happens to a job, the steps that are in its state have read each sample once an
 * epoch, counted sample by sample; and a trainer that errs is refused, by a model which keeps sets.
 */

static const struct spot_ledger_plan usual = { .n_sample = 100, .batch = 10, .seed = 4 };

static struct spot_ledger *declared(int64_t n_local, int64_t world, int64_t step)
{
    struct spot_ledger *const ledger = spot_ledger_new();

    spot_ledger_begin(ledger, n_local, world, step);
    ck_assert_int_eq(spot_ledger_declare(ledger, &usual, NULL), 0);
    return ledger;
}

static int take(struct spot_ledger *ledger, int64_t rank, int64_t world, int64_t step)
{
    struct spot_ledger_share share;

    return spot_ledger_take(ledger, rank, world, step, &share, NULL);
}

/* --- a job ------------------------------------------------------------------------- */

enum { NODES_MAX = 4, LOCAL = 2, WORLD_MAX = NODES_MAX * LOCAL };

struct job {
    struct spot_ledger_plan plan;
    struct spot_rng rng;
    struct spot_ledger *node[NODES_MAX];
    int64_t committed;
    int *since,
        *ever; /* [EPOCHS_MAX * n_sample] times read since the last commit, and in the state */
    int64_t n_count;
};

static int64_t below(struct job *j, int64_t n)
{
    return (int64_t)spot_rng_below(&j->rng, (uint64_t)n);
}

static void read_share(struct job *j, int *count, const struct spot_ledger_share *share)
{
    for (int i = 0; i < share->n_range; i++)
        for (int64_t at = share->range[i].from; at < share->range[i].to; at++) {
            const int64_t epoch = share->range[i].epoch;
            const int64_t cell =
                epoch * j->plan.n_sample + spot_ledger_plan_sample(&j->plan, epoch, at);

            ck_assert(cell < j->n_count);
            count[cell]++;
        }
}

/* A round of n_node nodes: steps until it is lost, or ends. Ranks load ahead and out of order; what
 * they loaded is used step by step. */
static void play_round(struct job *j, int n_node, int64_t n_step, int64_t commit_every)
{
    const int64_t world = (int64_t)n_node * LOCAL, first = j->committed;
    const int64_t lost_at = first + below(j, 2 * n_step);

    memset(j->since, 0, (size_t)j->n_count * sizeof(int));
    for (int n = 0; n < n_node; n++) {
        spot_ledger_begin(j->node[n], LOCAL, world, first);
        ck_assert_int_eq(spot_ledger_declare(j->node[n], &j->plan, NULL), 0);
    }
    for (int64_t step = first; step < first + n_step && step < lost_at; step++) {
        for (int64_t rank = 0; rank < world; rank++) {
            struct spot_ledger *const node = j->node[rank / LOCAL];
            struct spot_ledger_share share;

            if (below(j, 3) == 0)
                ck_assert_int_eq(take(node, rank, world, step + below(j, 9)), 0);
            ck_assert_int_eq(spot_ledger_take(node, rank, world, step, &share, NULL), 0);
            read_share(j, j->since, &share);
        }
        if ((step + 1) % commit_every)
            continue;
        for (int n = 0; n < n_node; n++)
            ck_assert_int_eq(spot_ledger_may_commit(j->node[n], step + 1, NULL), 0);
        for (int n = 0; n < n_node; n++)
            spot_ledger_committed(j->node[n], step + 1);
        for (int64_t i = 0; i < j->n_count; i++)
            j->ever[i] += j->since[i];
        memset(j->since, 0, (size_t)j->n_count * sizeof(int));
        j->committed = step + 1;
    }
}

/* What `steps` steps have read, from the words of the header. */
static int64_t wanted_reads(const struct spot_ledger_plan *p, int64_t steps, int64_t epoch)
{
    const int64_t per_epoch =
        p->rest == SPOT_LEDGER_DROP ? p->n_sample / p->batch * p->batch : p->n_sample;
    const int64_t n_step = p->rest == SPOT_LEDGER_DROP ? p->n_sample / p->batch
                                                       : (p->n_sample + p->batch - 1) / p->batch;
    int64_t n = p->rest == SPOT_LEDGER_WRAP ? steps * p->batch - epoch * per_epoch
                                            : (steps - epoch * n_step) * p->batch;

    n = n < per_epoch ? n : per_epoch;
    return n > 0 ? n : 0;
}

/* Returns the steps that ended up in the state. */
static int64_t play_job(uint64_t seed)
{
    enum { EPOCHS_MAX = 60 };
    struct job j = { 0 };
    int64_t n_step;

    spot_rng_init(&j.rng, seed, 0);
    j.plan = (struct spot_ledger_plan){ .n_sample = 1 + below(&j, 90), .seed = (int64_t)seed };
    j.plan.batch = 1 + below(&j, j.plan.n_sample);
    j.plan.rest = (enum spot_ledger_rest)below(&j, SPOT_LEDGER_RESTS);
    j.n_count = EPOCHS_MAX * j.plan.n_sample;
    j.since = calloc((size_t)j.n_count, sizeof(int));
    j.ever = calloc((size_t)j.n_count, sizeof(int));
    for (int n = 0; n < NODES_MAX; n++)
        j.node[n] = spot_ledger_new();
    n_step = 2 + below(&j, 12);
    for (int round = 0; round < 12 && (j.committed + n_step + 10) * j.plan.batch <
                                          (EPOCHS_MAX - 2) * j.plan.n_sample / 2;
         round++)
        play_round(&j, 1 + (int)below(&j, NODES_MAX), n_step, 1 + below(&j, 4));
    for (int64_t epoch = 0; epoch < EPOCHS_MAX; epoch++) {
        int64_t n = 0;

        for (int64_t i = 0; i < j.plan.n_sample; i++) {
            ck_assert_int_le(j.ever[epoch * j.plan.n_sample + i], 1); /* none is repeated */
            n += j.ever[epoch * j.plan.n_sample + i];
        }
        ck_assert_int_eq(n, wanted_reads(&j.plan, j.committed, epoch)); /* none is lost */
    }
    for (int n = 0; n < NODES_MAX; n++)
        spot_ledger_free(j.node[n]);
    free(j.since);
    free(j.ever);
    return j.committed;
}

START_TEST(the_state_has_each_sample_once_an_epoch_through_losses_and_other_worlds)
{
    const int n = is_long() ? 20000 : 1000;
    int64_t n_step = 0;

    for (int seed = 0; seed < n; seed++)
        n_step += play_job((uint64_t)seed);
    ck_assert_int_gt(n_step, 10 * n);
}
END_TEST

/* --- a trainer that errs, against sets ---------------------------------------------- */

enum { STEPS = 1200, RANKS = 3 };

struct model {
    bool taken[RANKS][STEPS], asks[RANKS];
    int64_t first, done;
};

static int64_t missing(const struct model *m, int64_t rank)
{
    int64_t step = m->first;

    while (step < STEPS && m->taken[rank][step])
        step++;
    return step;
}

static bool model_takes(struct model *m, int64_t rank, int64_t step)
{
    if (step < m->done || step - missing(m, rank) >= SPOT_LEDGER_AHEAD_MAX)
        return false;
    m->asks[rank] = m->taken[rank][step] = true;
    return true;
}

static bool model_commits(struct model *m, int64_t step)
{
    bool asked = false;

    for (int64_t rank = 0; rank < RANKS; rank++) {
        asked = asked || m->asks[rank];
        if (m->asks[rank] && missing(m, rank) < step)
            return false;
    }
    if (asked && step < m->done)
        return false;
    m->done = step > m->done ? step : m->done;
    return true;
}

static void err_for_a_while(uint64_t seed, int n_said[2])
{
    struct spot_ledger *const ledger = declared(RANKS, RANKS, 0);
    struct model *const m = calloc(1, sizeof(*m));
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 1);
    m->first = m->done = (int64_t)spot_rng_below(&rng, 5);
    spot_ledger_begin(ledger, RANKS, RANKS, m->first);
    for (int i = 0; i < 2000; i++) {
        const int64_t rank = (int64_t)spot_rng_below(&rng, RANKS);
        const int64_t far = spot_rng_below(&rng, 20) ? 6 : STEPS;
        int64_t step = missing(m, rank) - 2 + (int64_t)spot_rng_below(&rng, (uint64_t)far);

        step = step < 0 ? 0 : step >= STEPS ? STEPS - 1 : step;
        if (spot_rng_below(&rng, 6)) {
            const bool may = model_takes(m, rank, step);

            ck_assert_int_eq(take(ledger, rank, RANKS, step) == 0, may);
            n_said[may]++;
        } else {
            const bool may = model_commits(m, step);

            ck_assert_int_eq(spot_ledger_may_commit(ledger, step, NULL) == 0, may);
            if (may)
                spot_ledger_committed(ledger, step);
        }
    }
    free(m);
    spot_ledger_free(ledger);
}

START_TEST(what_errs_is_refused_as_sets_say)
{
    int n_said[2] = { 0 };

    for (uint64_t seed = 0; seed < (is_long() ? 2000 : 60); seed++)
        err_for_a_while(seed, n_said);
    ck_assert(n_said[false] > 1000 && n_said[true] > 1000);
}
END_TEST

/* --- refusals by name ----------------------------------------------------------------- */

static void refused(struct spot_ledger *ledger, int64_t rank, int64_t world, int64_t step,
                    const char *msg)
{
    struct spot_ledger_share share;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_ledger_take(ledger, rank, world, step, &share, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_str_eq(err.msg, msg);
}

START_TEST(a_question_that_cannot_be_right_is_refused)
{
    struct spot_ledger *ledger = spot_ledger_new();

    spot_ledger_begin(ledger, 2, 4, 7);
    refused(ledger, 0, 4, 7, "dataset_size and global_batch have not been declared yet");
    ck_assert_ptr_null(spot_ledger_plan(ledger));
    spot_ledger_free(ledger);
    ledger = declared(2, 4, 7);
    ck_assert_int_eq(spot_ledger_plan(ledger)->batch, 10);
    refused(ledger, 0, 5, 7, "world: 5, but this round has 4 ranks");
    refused(ledger, 0, 4, 6, "step: 6 was committed with all before 7: its samples are used");
    refused(ledger, 0, 4, 7 + SPOT_LEDGER_AHEAD_MAX,
            "step: 1031 is too far ahead of 7, which rank 0 has not taken");
    ck_assert_int_eq(take(ledger, 2, 4, 7), 0);
    refused(ledger, 0, 2, 7, "world: 2, but others asked as ranks of 4 in this round");
    ck_assert_int_eq(take(ledger, 3, 4, 7), 0);
    refused(ledger, 0, 4, 7, "rank: 0 would be more than the 2 ranks of this node");
    spot_ledger_free(ledger);
}
END_TEST

START_TEST(a_commit_that_leaves_samples_out_or_uses_them_again_is_refused)
{
    struct spot_ledger *const ledger = declared(2, 2, 0);
    struct spot_err err;

    ck_assert_int_eq(spot_ledger_may_commit(ledger, 5, NULL), 0); /* nobody uses the ledger */
    for (int64_t step = 0; step < 4; step++)
        ck_assert_int_eq(take(ledger, 0, 2, step) || (step != 2 && take(ledger, 1, 2, step)), 0);
    ck_assert_int_eq(spot_ledger_may_commit(ledger, 2, NULL), 0);
    ck_assert_int_eq(spot_ledger_may_commit(ledger, 4, &err), -1);
    ck_assert_str_eq(err.msg, "rank 1 has not taken the samples of step 2: a state of step 4 would "
                              "leave them out");
    ck_assert_int_eq(take(ledger, 1, 2, 2), 0);
    ck_assert_int_eq(spot_ledger_may_commit(ledger, 4, NULL), 0);
    spot_ledger_committed(ledger, 4);
    ck_assert_int_eq(spot_ledger_may_commit(ledger, 4, NULL), 0);
    ck_assert_int_eq(spot_ledger_may_commit(ledger, 3, &err), -1);
    ck_assert_str_eq(err.msg, "a state of step 3 would use samples again: 4 steps are committed");
    spot_ledger_free(ledger);
}
END_TEST

START_TEST(who_names_no_step_gets_the_next_one)
{
    struct spot_ledger *const ledger = declared(2, 2, 30);
    struct spot_ledger_share share;

    ck_assert_int_eq(take(ledger, 0, 2, 31), 0);
    ck_assert_int_eq(spot_ledger_take(ledger, 0, 2, -1, &share, NULL), 0);
    ck_assert_int_eq(share.step, 30);
    ck_assert_int_eq(spot_ledger_take(ledger, 0, 2, -1, &share, NULL), 0);
    ck_assert_int_eq(share.step, 32);
    ck_assert_int_eq(spot_ledger_take(ledger, 1, 2, -1, &share, NULL), 0);
    ck_assert_int_eq(share.step, 30);
    spot_ledger_begin(ledger, 2, 2, 31); /* rolled back */
    ck_assert_int_eq(spot_ledger_take(ledger, 0, 2, -1, &share, NULL), 0);
    ck_assert_int_eq(share.step, 31);
    spot_ledger_free(ledger);
}
END_TEST

START_TEST(a_trainer_that_keeps_its_own_state_says_where_it_goes_on)
{
    struct spot_ledger *const ledger = declared(2, 2, -1);

    ck_assert_int_eq(take(ledger, 0, 2, 5000), 0);
    ck_assert_int_eq(take(ledger, 0, 2, 4999), 0);
    ck_assert_int_eq(take(ledger, 0, 2, 5001), 0);
    ck_assert_int_eq(take(ledger, 0, 2, 5002 + SPOT_LEDGER_AHEAD_MAX), -1);
    ck_assert_int_eq(take(ledger, 1, 2, -1), 0);
    ck_assert_int_eq(spot_ledger_may_commit(ledger, 1, NULL), 0);
    ck_assert_int_eq(spot_ledger_may_commit(ledger, 2, NULL), -1); /* rank 1 has done one step */
    spot_ledger_free(ledger);
}
END_TEST

START_TEST(another_plan_is_refused_by_the_name_of_what_differs)
{
    static const struct {
        struct spot_ledger_plan plan;
        const char *msg;
    } other[] = {
        { { .n_sample = 101, .batch = 10, .seed = 4 },
          "dataset_size: it was declared as 100 before, and is 101 now" },
        { { .n_sample = 100, .batch = 11, .seed = 4 },
          "global_batch: it was declared as 10 before, and is 11 now" },
        { { .n_sample = 100, .batch = 10, .seed = 5 },
          "seed: it was declared as 4 before, and is 5 now" },
        { { .n_sample = 100, .batch = 10, .seed = 4, .rest = SPOT_LEDGER_DROP },
          "rest: it was declared as wrap before, and is drop now" },
        { { .n_sample = 100, .batch = 10, .seed = 4, .is_sequential = true },
          "order: it was declared as shuffled before" },
        { { .n_sample = 100, .batch = 0 },
          "global_batch: expected 1 to 100, the samples of the set, got 0" },
    };
    struct spot_ledger *const ledger = declared(1, 1, 0);

    spot_ledger_begin(ledger, 1, 1, 9); /* it stays from round to round */
    ck_assert_int_eq(spot_ledger_declare(ledger, &usual, NULL), 0);
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        struct spot_err err;

        ck_assert_int_eq(spot_ledger_declare(ledger, &other[i].plan, &err), -1);
        ck_assert_str_eq(err.msg, other[i].msg);
    }
    spot_ledger_free(ledger);
}
END_TEST

int main(void)
{
    return run_suite("ledger", add_tests(tcase_create("ledger")));
}
