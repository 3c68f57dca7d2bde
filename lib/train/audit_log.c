/* SPDX-License-Identifier: MIT */
#include "train/audit_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "model/event.h"

static void drop_commit(struct spot_audit_commit *commit)
{
    free(commit->state);
    free(commit->sums);
    *commit = (struct spot_audit_commit){ 0 };
}

void spot_audit_log_release(struct spot_audit_log *log)
{
    for (int64_t i = 0; log->commit && i <= log->end - log->begin; i++)
        drop_commit(&log->commit[i]);
    free(log->commit);
    log->commit = NULL;
}

static char (*take_tags(const struct spot_audit_log *log,
                        const struct spot_json_value *all))[SPOT_EVIDENCE_TAGS]
{
    char(*const tags)[SPOT_EVIDENCE_TAGS] = spot_xcalloc((size_t)log->n_bundle, sizeof(*tags));

    for (int b = 0; b < log->n_bundle; b++)
        snprintf(tags[b], sizeof(tags[b]), "%s", spot_json_text(spot_json_entry(all, (size_t)b)));
    return tags;
}

/* Step n reads sequences [(n - 1) G, n G) of the draw. */
static bool is_in_turn(const struct spot_json_value *samples, int64_t step, int64_t global_batch)
{
    if (spot_json_array_size(samples) != (size_t)global_batch)
        return false;
    for (int64_t k = 0; k < global_batch; k++)
        if (spot_json_integer(spot_json_entry(samples, (size_t)k)) != (step - 1) * global_batch + k)
            return false;
    return true;
}

static int take_commit(struct spot_audit_log *log, const struct spot_event_log *from,
                       const struct spot_event *e, struct spot_err *err)
{
    const struct spot_event_evidence *const is = &e->evidence;
    struct spot_audit_commit *const c = &log->commit[e->step - log->begin];

    drop_commit(c);
    if (!is->chain || !is->samples_hex || !is->parameters_hex || !is->state || !is->sums)
        return 0;
    if (spot_json_array_size(is->state) != (size_t)log->n_bundle)
        return spot_json_fail(&from->doc, "/state", err, "expected %d bundles", log->n_bundle);
    if (spot_json_array_size(is->sums) != (size_t)log->n_bundle)
        return spot_json_fail(&from->doc, "/sums", err, "expected %d bundles", log->n_bundle);
    if (!spot_chain_parse(is->chain, &c->chain))
        return spot_json_fail(&from->doc, "/chain", err, "expected 32 hex digits");
    c->is_there = true;
    c->is_anew = is->is_anew;
    c->samples = strtoull(is->samples_hex, NULL, 16);
    c->parameters = strtoull(is->parameters_hex, NULL, 16);
    c->loss_bits = (uint32_t)strtoul(e->loss_hex, NULL, 16);
    c->loss = e->loss;
    c->is_in_turn = is_in_turn(e->samples, e->step, log->global_batch);
    c->lr = e->lr;
    c->state = take_tags(log, is->state);
    c->sums = take_tags(log, is->sums);
    return 0;
}

int spot_audit_log_read(struct spot_audit_log *log, const char *path, int64_t begin, int64_t end,
                        int n_bundle, int64_t global_batch, struct spot_err *err)
{
    const bool is_stdin = !strcmp(path, "-");
    struct spot_event_log from = { .source = is_stdin ? "<stdin>" : path, .drops_cut = true };
    struct spot_event event;
    int rc;

    *log = (struct spot_audit_log){
        .begin = begin, .end = end, .n_bundle = n_bundle, .global_batch = global_batch
    };
    from.in = is_stdin ? stdin : fopen(path, "re");
    if (!from.in)
        return spot_err_sys(err, "cannot open '%s'", path);
    log->commit = spot_xcalloc((size_t)(end - begin) + 1, sizeof(*log->commit));
    while ((rc = spot_event_next(&from, &event, err)) > 0)
        if (event.kind == SPOT_EVENT_COMMITTED && event.step >= begin && event.step <= end &&
            take_commit(log, &from, &event, err)) {
            rc = -1;
            break;
        }
    spot_event_log_release(&from);
    if (!is_stdin)
        fclose(from.in);
    return rc;
}

const struct spot_audit_commit *spot_audit_log_find(const struct spot_audit_log *log, int64_t step)
{
    return step >= log->begin && step <= log->end && log->commit[step - log->begin].is_there
               ? &log->commit[step - log->begin]
               : NULL;
}
