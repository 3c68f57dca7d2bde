/* SPDX-License-Identifier: MIT */
#include "host/ledger.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/xalloc.h"

/* A rank that has asked for samples in this round. */
struct taker {
    int64_t rank;
    int64_t next; /* the first step that it has not taken */
    uint64_t
        /* bit s mod AHEAD_MAX: step s, from `next` on, is taken */
        taken[SPOT_LEDGER_AHEAD_MAX / 64];
};

struct spot_ledger {
    struct spot_ledger_plan plan;
    bool has_plan;
    int64_t n_local, world; /* local ranks and all ranks of the round */
    int64_t shared_by;      /* ranks that share the samples; 0: no request yet */
    int64_t first;          /* steps that were done when the round began; -1: unknown */
    int64_t done;           /* of these, the steps known to be committed */
    struct taker *taker;    /* [n_taker], room for n_local */
    int64_t n_taker;
};

struct spot_ledger *spot_ledger_new(void)
{
    struct spot_ledger *const ledger = spot_xcalloc(1, sizeof(*ledger));

    spot_ledger_begin(ledger, 1, 1, 0);
    return ledger;
}

void spot_ledger_free(struct spot_ledger *ledger)
{
    if (ledger)
        free(ledger->taker);
    free(ledger);
}

void spot_ledger_begin(struct spot_ledger *ledger, int64_t n_local, int64_t world, int64_t step)
{
    assert(n_local > 0 && n_local <= world && world <= SPOT_LEDGER_WORLD_MAX && step >= -1);
    free(ledger->taker);
    ledger->taker = spot_xcalloc((size_t)n_local, sizeof(*ledger->taker));
    ledger->n_taker = 0;
    ledger->n_local = n_local;
    ledger->world = world;
    ledger->shared_by = 0;
    ledger->first = step;
    ledger->done = step > 0 ? step : 0;
}

/* --- the plan ------------------------------------------------------------------------ */

static int contradiction(const char *what, int64_t before, int64_t now, struct spot_err *err)
{
    return spot_err_set(err, SPOT_EDATA, "%s: it was declared as %lld before, and is %lld now",
                        what, (long long)before, (long long)now);
}

int spot_ledger_declare(struct spot_ledger *ledger, const struct spot_ledger_plan *plan,
                        struct spot_err *err)
{
    const struct spot_ledger_plan *const old = &ledger->plan;

    if (spot_ledger_plan_check(plan, err))
        return -1;
    if (!ledger->has_plan) {
        ledger->plan = *plan;
        ledger->has_plan = true;
        return 0;
    }
    if (plan->n_sample != old->n_sample)
        return contradiction("dataset_size", old->n_sample, plan->n_sample, err);
    if (plan->batch != old->batch)
        return contradiction("global_batch", old->batch, plan->batch, err);
    if (plan->seed != old->seed)
        return contradiction("seed", old->seed, plan->seed, err);
    if (plan->rest != old->rest)
        return spot_err_set(err, SPOT_EDATA, "rest: it was declared as %s before, and is %s now",
                            spot_ledger_rest_name(old->rest), spot_ledger_rest_name(plan->rest));
    if (plan->is_sequential != old->is_sequential)
        return spot_err_set(err, SPOT_EDATA, "order: it was declared as %s before",
                            old->is_sequential ? "sequential" : "shuffled");
    return 0;
}

const struct spot_ledger_plan *spot_ledger_plan(const struct spot_ledger *ledger)
{
    return ledger->has_plan ? &ledger->plan : NULL;
}

/* --- taking -------------------------------------------------------------------------- */

static uint64_t *word_of(struct taker *t, int64_t step, uint64_t *bit)
{
    const uint64_t at = (uint64_t)step % SPOT_LEDGER_AHEAD_MAX;

    *bit = UINT64_C(1) << at % 64;
    return &t->taken[at / 64];
}

static void note_taken(struct taker *t, int64_t step)
{
    uint64_t bit, *word;

    if (step < t->next)
        return;
    word = word_of(t, step, &bit);
    *word |= bit;
    while (word = word_of(t, t->next, &bit), *word & bit) {
        *word &= ~bit; /* the bit stands for a later step from now on */
        t->next++;
    }
}

/* The entry of a rank; NULL if it has none. */
static struct taker *find(const struct spot_ledger *ledger, int64_t rank)
{
    for (int64_t i = 0; i < ledger->n_taker; i++)
        if (ledger->taker[i].rank == rank)
            return &ledger->taker[i];
    return NULL;
}

static int check_asker(const struct spot_ledger *ledger, int64_t rank, int64_t world,
                       struct spot_err *err)
{
    const int64_t shared_by = ledger->shared_by ? ledger->shared_by : world;

    if (!ledger->has_plan)
        return spot_err_set(err, SPOT_EDATA,
                            "dataset_size and global_batch have not been declared yet");
    if (world > ledger->world)
        return spot_err_set(err, SPOT_EDATA, "world: %lld, but this round has %lld ranks",
                            (long long)world, (long long)ledger->world);
    if (world != shared_by)
        return spot_err_set(err, SPOT_EDATA,
                            "world: %lld, but others asked as ranks of %lld in this round",
                            (long long)world, (long long)shared_by);
    if (!find(ledger, rank) && ledger->n_taker == ledger->n_local)
        return spot_err_set(err, SPOT_EDATA,
                            "rank: %lld would be more than the %lld ranks of this node",
                            (long long)rank, (long long)ledger->n_local);
    return 0;
}

static int check_step(const struct spot_ledger *ledger, int64_t rank, int64_t next, int64_t step,
                      struct spot_err *err)
{
    if (step < ledger->done)
        return spot_err_set(err, SPOT_EDATA,
                            "step: %lld was committed with all before %lld: its samples are used",
                            (long long)step, (long long)ledger->done);
    if (step - next >= SPOT_LEDGER_AHEAD_MAX)
        return spot_err_set(err, SPOT_EDATA,
                            "step: %lld is too far ahead of %lld, which rank %lld has not taken",
                            (long long)step, (long long)next, (long long)rank);
    return 0;
}

int spot_ledger_take(struct spot_ledger *ledger, int64_t rank, int64_t world, int64_t step,
                     struct spot_ledger_share *share, struct spot_err *err)
{
    struct taker *taker = find(ledger, rank);
    int64_t next;

    if (check_asker(ledger, rank, world, err))
        return -1;
    if (taker)
        next = taker->next;
    else if (ledger->first >= 0)
        next = ledger->first;
    else
        next = step == -1 ? 0 : step;
    if (step == -1)
        step = next;
    if (spot_ledger_plan_share(&ledger->plan, step, rank, world, share, err) ||
        check_step(ledger, rank, next, step, err))
        return -1;
    ledger->shared_by = world;
    if (!taker) {
        taker = &ledger->taker[ledger->n_taker++];
        *taker = (struct taker){ .rank = rank, .next = next };
    }
    note_taken(taker, step);
    return 0;
}

/* --- commits ------------------------------------------------------------------------- */

int spot_ledger_may_commit(const struct spot_ledger *ledger, int64_t step, struct spot_err *err)
{
    if (ledger->n_taker && step < ledger->done)
        return spot_err_set(
            err, SPOT_EDATA,
            "a state of step %lld would use samples again: %lld steps are committed",
            (long long)step, (long long)ledger->done);
    for (int64_t i = 0; i < ledger->n_taker; i++) {
        const struct taker *const t = &ledger->taker[i];

        if (step > t->next)
            return spot_err_set(err, SPOT_EDATA,
                                "rank %lld has not taken the samples of step %lld: a state of "
                                "step %lld would leave them out",
                                (long long)t->rank, (long long)t->next, (long long)step);
    }
    return 0;
}

void spot_ledger_committed(struct spot_ledger *ledger, int64_t step)
{
    if (step > ledger->done)
        ledger->done = step;
}
