/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/ledger_answer.h"
#include "host/ledger_audit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_share(const struct spot_ledger_plan *plan,
                        const struct spot_ledger_question *question,
                        const struct spot_ledger_share *share)
{
    int64_t n = 0;

    for (int i = 0; i < share->n_range; i++) {
        const struct spot_ledger_range *const r = &share->range[i];

        if (r->from < 0 || r->from >= r->to || r->to > plan->n_sample || r->epoch < 0)
            abort();
        n += r->to - r->from;
    }
    if (n != share->n || share->n > share->n_total || share->n_total > plan->batch ||
        share->n > plan->batch / question->world + 1)
        abort();
}

static void ask(struct spot_ledger *ledger, const char *text, size_t n)
{
    struct spot_ledger_question question;
    struct spot_ledger_share share;
    struct spot_json_doc doc;
    struct spot_err err;

    if (spot_json_parse(&doc, text, n, "q", &err))
        return;
    if (!spot_ledger_question_read(&question, &doc, spot_ledger_plan(ledger), &err) &&
        !spot_ledger_question_take(&question, ledger, &share, &err)) {
        check_share(spot_ledger_plan(ledger), &question, &share);
        if (share.step + 1 > 0 && spot_ledger_may_commit(ledger, share.step + 1, &err) == 0)
            spot_ledger_committed(ledger, share.step + 1);
    }
    spot_json_release(&doc);
}

/* '0': questions, a line each; else the log of a job. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data + 1, *const end = (const char *)data + size;
    struct spot_ledger_audit audit;
    struct spot_ledger *ledger;
    struct spot_err err;
    FILE *in;

    if (size < 2)
        return 0;
    if (*data != '0') {
        in = fmemopen((void *)(uintptr_t)at, size - 1, "r");
        (void)spot_ledger_audit(in, "log", &audit, &err);
        fclose(in);
        return 0;
    }
    ledger = spot_ledger_new();
    spot_ledger_begin(ledger, 2, 4, (int64_t)(data[1] % 3) - 1);
    while (at < end) {
        const char *const line = memchr(at, '\n', (size_t)(end - at));
        const char *const stop = line ? line : end;

        ask(ledger, at, (size_t)(stop - at));
        at = stop + 1;
    }
    spot_ledger_free(ledger);
    return 0;
}
