/* SPDX-License-Identifier: MIT */
#include "host/ledger_answer.h"

#include <stdlib.h>

#include "common/xalloc.h"

/* A decoded answer; absent keys are -1 or NULL. */
struct said {
    int64_t n_sample, batch, seed;
    const char *rest, *order;
};

static const double most = (double)SPOT_LEDGER_SAMPLES_MAX;

static const struct spot_field plan_field[] = {
    { "dataset_size", SPOT_F_INT, offsetof(struct said, n_sample), "1", 1, most, false },
    { "global_batch", SPOT_F_INT, offsetof(struct said, batch), "1", 1, most, false },
    { "seed", SPOT_F_INT, offsetof(struct said, seed), "1", 0, most, false },
    { "rest", SPOT_F_STR, offsetof(struct said, rest), NULL, 0, 0, false },
    { "order", SPOT_F_STR, offsetof(struct said, order), NULL, 0, 0, false },
    { 0 },
};

static const struct spot_field question_field[] = {
    { "step", SPOT_F_INT, offsetof(struct spot_ledger_question, step), "1", 0, most, false },
    { "rank", SPOT_F_INT, offsetof(struct spot_ledger_question, rank), "1", 0,
      SPOT_LEDGER_WORLD_MAX, true },
    { "world", SPOT_F_INT, offsetof(struct spot_ledger_question, world), "1", 1,
      SPOT_LEDGER_WORLD_MAX, true },
    { "list", SPOT_F_BOOL, offsetof(struct spot_ledger_question, is_listed), NULL, 0, 0, false },
    { 0 },
};

static int read_names(const struct spot_json_doc *doc, const struct said *said,
                      struct spot_ledger_plan *plan, struct spot_err *err)
{
    if (said->rest) {
        plan->rest = spot_ledger_rest_parse(said->rest);
        if (plan->rest == SPOT_LEDGER_RESTS)
            return spot_json_fail(doc, "/rest", err, "expected wrap, drop or short, got '%.40s'",
                                  said->rest);
    }
    if (said->order) {
        plan->is_sequential = !strcmp(said->order, "sequential");
        if (!plan->is_sequential && strcmp(said->order, "shuffled") != 0)
            return spot_json_fail(doc, "/order", err,
                                  "expected shuffled or sequential, got '%.40s'", said->order);
    }
    return 0;
}

int spot_ledger_plan_read(const struct spot_json_doc *doc, struct spot_ledger_plan *plan,
                          struct spot_err *err)
{
    struct said said = { .n_sample = -1, .batch = -1, .seed = -1 };
    struct spot_err why;

    if (spot_json_read_fields(doc, doc->root, "", plan_field, &said, err) ||
        read_names(doc, &said, plan, err))
        return -1;
    if (said.n_sample == -1 && said.batch == -1 && said.seed == -1 && !said.rest && !said.order)
        return 0;
    if (said.n_sample != -1)
        plan->n_sample = said.n_sample;
    if (said.batch != -1)
        plan->batch = said.batch;
    if (said.seed != -1)
        plan->seed = said.seed;
    return spot_ledger_plan_check(plan, &why) ? spot_json_fail(doc, "", err, "%.300s", why.msg) : 1;
}

int spot_ledger_question_read(struct spot_ledger_question *q, const struct spot_json_doc *doc,
                              const struct spot_ledger_plan *known, struct spot_err *err)
{
    int rc;

    *q = (struct spot_ledger_question){ .step = -1, .is_listed = true };
    if (known)
        q->plan = *known;
    if (spot_json_read_fields(doc, doc->root, "", question_field, q, err))
        return -1;
    rc = spot_ledger_plan_read(doc, &q->plan, err);
    q->has_plan = rc > 0;
    return rc < 0 ? -1 : 0;
}

int spot_ledger_question_take(const struct spot_ledger_question *q, struct spot_ledger *ledger,
                              struct spot_ledger_share *share, struct spot_err *err)
{
    const struct spot_ledger_plan *plan;

    if (q->has_plan && spot_ledger_declare(ledger, &q->plan, err))
        return -1;
    plan = spot_ledger_plan(ledger);
    if (plan && q->is_listed && plan->batch / q->world >= SPOT_LEDGER_LISTED_MAX)
        return spot_err_set(err, SPOT_EDATA,
                            "global_batch: a share of it is more than the %d samples of a list; "
                            "with \"list\":false the answer has its ranges alone",
                            SPOT_LEDGER_LISTED_MAX);
    return spot_ledger_take(ledger, q->rank, q->world, q->step, share, err);
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

void spot_ledger_question_answer(const struct spot_ledger_question *q,
                                 const struct spot_ledger *ledger,
                                 const struct spot_ledger_share *share, struct spot_jw *jw)
{
    spot_jw_int(jw, "step", share->step);
    spot_jw_int(jw, "epoch", share->epoch);
    spot_jw_int(jw, "rank", q->rank);
    spot_jw_int(jw, "world", q->world);
    spot_jw_int(jw, "total", share->n_total);
    put_ranges(jw, share);
    if (q->is_listed)
        put_samples(jw, spot_ledger_plan(ledger), share);
}
