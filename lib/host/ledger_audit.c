/* SPDX-License-Identifier: MIT */
#include "host/ledger_audit.h"

#include <string.h>

#include "host/ledger_answer.h"
#include "model/event.h"

struct reader {
    struct spot_ledger_audit *audit;
    int64_t begun; /* the step at which the round began, or that after its last commit */
};

/* Number of samples in the steps [from, to). */
static int64_t samples_of(const struct spot_ledger_plan *p, int64_t from, int64_t to)
{
    const int64_t n_full = p->n_sample / p->batch, rest = p->n_sample % p->batch;
    int64_t n_short;

    if (p->rest != SPOT_LEDGER_SHORT || !rest)
        return (to - from) * p->batch;
    n_short = to / (n_full + 1) - from / (n_full + 1); /* each epoch ends with a shorter step */
    return (to - from) * p->batch - n_short * (p->batch - rest);
}

static int take_plan(struct reader *r, const struct spot_json_doc *doc, struct spot_err *err)
{
    struct spot_ledger_audit *const a = r->audit;
    struct spot_ledger_plan plan = { 0 };
    const int rc = spot_ledger_plan_read(doc, &plan, err);

    if (rc <= 0)
        return rc ? rc : spot_json_fail(doc, "", err, "it has no plan of samples");
    if (a->has_plan && !spot_ledger_plan_equal(&plan, &a->plan))
        return spot_json_fail(doc, "", err, "another plan of samples than above");
    a->plan = plan;
    a->has_plan = true;
    return 0;
}

static void begin_at(struct reader *r, int64_t step, bool is_first)
{
    struct spot_ledger_audit *const a = r->audit;

    if (is_first)
        a->first = step;
    else if (step > a->steps)
        a->lost += step - a->steps;
    else
        a->rolled_back += a->steps - step;
    a->steps = r->begun = step;
}

static void commit(struct reader *r, int64_t step)
{
    struct spot_ledger_audit *const a = r->audit;

    a->commits++;
    if (step < r->begun)
        a->repeated += r->begun - step;
    a->steps = r->begun = step;
}

/* Step numbers of an event; -1: not given. */
struct steps {
    int64_t step, from, to;
};

static const struct spot_field steps_field[] = {
    { "step", SPOT_F_INT, offsetof(struct steps, step), "1", 0, (double)SPOT_LEDGER_SAMPLES_MAX,
      true },
    { "from", SPOT_F_INT, offsetof(struct steps, from), "1", 0, (double)SPOT_LEDGER_SAMPLES_MAX,
      false },
    { "to", SPOT_F_INT, offsetof(struct steps, to), "1", 0, (double)SPOT_LEDGER_SAMPLES_MAX,
      false },
    { 0 },
};

static int take(struct reader *r, const struct spot_json_doc *doc, const char *event,
                struct spot_err *err)
{
    const bool is_commit = !strcmp(event, "committed"), is_restored = !strcmp(event, "restored"),
               is_rolled_back = !strcmp(event, "rolled_back");
    struct steps at = { .from = -1, .to = -1 };

    if (!strcmp(event, "ledger"))
        return take_plan(r, doc, err);
    if (!is_commit && !is_restored && !is_rolled_back)
        return 0;
    if (spot_json_read_fields(doc, doc->root, "", steps_field, &at, err))
        return -1;
    if (is_commit)
        commit(r, at.step);
    else if (is_restored)
        begin_at(r, at.step, !r->audit->commits && at.from == -1);
    else
        begin_at(r, at.to == -1 ? at.step : at.to, false);
    return 0;
}

int spot_ledger_audit(FILE *in, const char *source, struct spot_ledger_audit *a,
                      struct spot_err *err)
{
    struct spot_event_log log = {
        .in = in, .source = source, .drops_cut = true, .is_partial = true
    };
    struct reader r = { .audit = a };
    struct spot_event event;
    int rc;

    *a = (struct spot_ledger_audit){ 0 };
    while ((rc = spot_event_next(&log, &event, err)) > 0)
        if (take(&r, &log.doc, event.name, err)) {
            rc = -1;
            break;
        }
    spot_event_log_release(&log);
    if (!rc && a->has_plan) {
        a->samples = samples_of(&a->plan, a->first, a->steps);
        a->epochs = (double)a->samples / (double)a->plan.n_sample;
        a->lost_samples = a->lost * a->plan.batch;
        a->repeated_samples = a->repeated * a->plan.batch;
    }
    return rc;
}
