/* SPDX-License-Identifier: MIT */
#include "host/ledger_answer.h"

#include <stdlib.h>

#include "common/xalloc.h"

/* What was not said is -1 or NULL. */
struct question {
    int64_t step, rank, world, n_sample, batch, seed;
    const char *rest, *order;
    bool is_listed;
};

static const double most = (double)SPOT_LEDGER_SAMPLES_MAX;

static const struct spot_field question_field[] = {
    { "step", SPOT_F_INT, offsetof(struct question, step), "1", 0, most, false },
    { "rank", SPOT_F_INT, offsetof(struct question, rank), "1", 0, SPOT_LEDGER_WORLD_MAX, true },
    { "world", SPOT_F_INT, offsetof(struct question, world), "1", 1, SPOT_LEDGER_WORLD_MAX, true },
    { "dataset_size", SPOT_F_INT, offsetof(struct question, n_sample), "1", 1, most, false },
    { "global_batch", SPOT_F_INT, offsetof(struct question, batch), "1", 1, most, false },
    { "seed", SPOT_F_INT, offsetof(struct question, seed), "1", 0, most, false },
    { "rest", SPOT_F_STR, offsetof(struct question, rest), NULL, 0, 0, false },
    { "order", SPOT_F_STR, offsetof(struct question, order), NULL, 0, 0, false },
    { "list", SPOT_F_BOOL, offsetof(struct question, is_listed), NULL, 0, 0, false },
    { 0 },
};

/* What the question says of the plan; the rest as it was declared, or as is usual. */
static int read_plan(const struct spot_json_doc *doc, const struct question *q,
                     const struct spot_ledger *ledger, struct spot_ledger_plan *plan,
                     struct spot_err *err)
{
    const struct spot_ledger_plan *const old = spot_ledger_plan(ledger);

    *plan = old ? *old : (struct spot_ledger_plan){ 0 };
    if (q->n_sample != -1)
        plan->n_sample = q->n_sample;
    if (q->batch != -1)
        plan->batch = q->batch;
    if (q->seed != -1)
        plan->seed = q->seed;
    if (q->rest) {
        plan->rest = spot_ledger_rest_parse(q->rest);
        if (plan->rest == SPOT_LEDGER_RESTS)
            return spot_json_fail(doc, "/rest", err, "expected wrap, drop or short, got '%.40s'",
                                  q->rest);
    }
    if (q->order) {
        plan->is_sequential = !strcmp(q->order, "sequential");
        if (!plan->is_sequential && strcmp(q->order, "shuffled") != 0)
            return spot_json_fail(doc, "/order", err,
                                  "expected shuffled or sequential, got '%.40s'", q->order);
    }
    return 0;
}

static bool says_plan(const struct question *q)
{
    return q->n_sample != -1 || q->batch != -1 || q->seed != -1 || q->rest || q->order;
}

static void put_ranges(struct spot_jw *jw, const struct spot_ledger_share *share)
{
    spot_jw_array(jw, "ranges");
    for (int i = 0; i < share->n_range; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "epoch", share->range[i].epoch);
        spot_jw_int(jw, "from", share->range[i].from);
        spot_jw_int(jw, "to", share->range[i].to);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void put_samples(struct spot_jw *jw, const struct spot_ledger_plan *plan,
                        const struct spot_ledger_share *share)
{
    int64_t *const sample = spot_xcalloc((size_t)share->n, sizeof(*sample));
    size_t n = 0;

    for (int i = 0; i < share->n_range; i++)
        for (int64_t at = share->range[i].from; at < share->range[i].to; at++)
            sample[n++] = spot_ledger_plan_sample(plan, share->range[i].epoch, at);
    spot_jw_ints(jw, "samples", sample, n);
    free(sample);
}

int spot_ledger_answer(struct spot_ledger *ledger, const struct spot_json_doc *doc,
                       struct spot_jw *jw, struct spot_err *err)
{
    struct question q = { .step = -1, .n_sample = -1, .batch = -1, .seed = -1, .is_listed = true };
    struct spot_ledger_share share;
    struct spot_ledger_plan plan;

    if (spot_json_read_fields(doc, doc->root, "", question_field, &q, err) ||
        read_plan(doc, &q, ledger, &plan, err))
        return -1;
    if (says_plan(&q) && spot_ledger_declare(ledger, &plan, err))
        return -1;
    if (q.is_listed && plan.batch / q.world >= SPOT_LEDGER_LISTED_MAX)
        return spot_err_set(err, SPOT_EDATA,
                            "global_batch: a share of it is more than the %d samples of a list; "
                            "with \"list\":false the answer has its ranges alone",
                            SPOT_LEDGER_LISTED_MAX);
    if (spot_ledger_take(ledger, q.rank, q.world, q.step, &share, err))
        return -1;
    spot_jw_int(jw, "step", share.step);
    spot_jw_int(jw, "epoch", share.epoch);
    spot_jw_int(jw, "rank", q.rank);
    spot_jw_int(jw, "world", q.world);
    spot_jw_int(jw, "total", share.n_total);
    put_ranges(jw, &share);
    if (q.is_listed)
        put_samples(jw, &plan, &share);
    return 0;
}
