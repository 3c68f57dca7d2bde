/* SPDX-License-Identifier: MIT */
/* All holders of a bundle have the same bits: one that says otherwise is at fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/endpoint.h"
#include "common/xalloc.h"
#include "train/trainer_evidence_state.h"
#include "train/trainer_member_state.h"

enum { REDO_MAX = 2 }; /* of a step whose sums differ, before the job ends */

static void tensor_name(const struct spot_trainer *c, int bundle, int tensor,
                        char name[SPOT_TENSOR_NAME_MAX])
{
    struct spot_arena arena;

    spot_arena_of(&c->config.shape, bundle, &arena);
    spot_arena_tensor_name(&arena, bundle, tensor, 0, name);
}

static int log_corrupt(struct spot_trainer *c, uint32_t id, const struct spot_fault_found *f,
                       struct spot_err *err)
{
    const struct spot_peer *const peer = spot_group_find(c->group, id);
    struct spot_jw *const jw =
        spot_journal_begin(c->journal, "corrupt", c->machine->epoch, c->machine->round);
    char name[SPOT_TENSOR_NAME_MAX], address[SPOT_ADDRESS_MAX + 8], hex[20];

    if (!jw)
        return 0;
    spot_jw_int(jw, "member", id);
    spot_jw_str(jw, "name", peer ? spot_peer_name(peer) : "");
    if (peer) {
        spot_peer_address(peer, peer, address);
        spot_jw_str(jw, "host", *spot_peer_domain(peer) ? spot_peer_domain(peer) : address);
    }
    spot_jw_str(jw, "what", f->what);
    spot_jw_int(jw, "others", f->n_other);
    if (f->stage >= 0)
        spot_jw_int(jw, "stage", f->stage);
    if (f->tensor >= 0) {
        tensor_name(c, f->bundle, f->tensor, name);
        spot_jw_int(jw, "bundle", f->bundle);
        spot_jw_str(jw, "tensor", name);
    }
    if (f->element >= 0) {
        snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)f->difference);
        spot_jw_int(jw, "element", f->element);
        spot_jw_str(jw, "difference_hex", hex);
    }
    if (peer)
        spot_journal_about(c->journal, spot_peer_name(peer));
    return spot_journal_end(c->journal, err);
}

int spot_trainer_convict(struct spot_trainer *c, uint32_t id, const struct spot_fault_found *f,
                         struct spot_err *err)
{
    struct spot_peer *const peer = spot_group_find(c->group, id);
    char name[SPOT_TENSOR_NAME_MAX] = "", why[200];

    if (log_corrupt(c, id, f, err))
        return -1;
    c->verify.n_convicted++;
    c->verify.must_break = true;
    if (!peer)
        return 0;
    if (f->tensor >= 0)
        tensor_name(c, f->bundle, f->tensor, name);
    snprintf(why, sizeof(why), "it computed another %s%s%s than %lld others in step %lld", f->what,
             *name ? " of " : "", name, (long long)f->n_other, (long long)c->machine->round + 1);
    spot_peer_convict(peer, why);
    return 0;
}

/* --- state and sums -------------------------------------------------------------- */

static bool report_alike(const struct spot_trainer_reported *a,
                         const struct spot_trainer_reported *b)
{
    return !memcmp(&a->evidence, &b->evidence, sizeof(a->evidence)) &&
           !memcmp(&a->norm2, &b->norm2, sizeof(a->norm2));
}

/* Of the holders id[n] of a bundle, the largest number that say the same, and one of them. */
static size_t most_of(const struct spot_trainer *c, int b, const uint32_t *id, size_t n,
                      uint32_t *speaker)
{
    size_t most = 0;

    for (size_t i = 0; i < n; i++) {
        size_t same = 0;

        for (size_t k = 0; k < n; k++)
            same += report_alike(&spot_trainer_member(c, id[i])->reported[b],
                                 &spot_trainer_member(c, id[k])->reported[b]);
        if (same > most) {
            most = same;
            *speaker = id[i];
        }
    }
    return most;
}

static struct spot_fault_found fault_of(const struct spot_trainer *c, int b, uint32_t id,
                                        uint32_t speaker, size_t n_other)
{
    const struct spot_evidence *const mine = &spot_trainer_member(c, id)->reported[b].evidence,
                                      *const right =
                                          &spot_trainer_member(c, speaker)->reported[b].evidence;
    const int state = spot_evidence_differs(mine->state, right->state, SPOT_TENSORS_MAX),
              sum = spot_evidence_differs(mine->sum, right->sum, SPOT_TENSORS_MAX);

    return (struct spot_fault_found){ .what = state >= 0 ? "state"
                                              : sum >= 0 ? "sum"
                                                         : "norm",
                                      .stage = -1,
                                      .bundle = b,
                                      .tensor = state >= 0 ? state : sum,
                                      .element = -1,
                                      .n_other = (int64_t)n_other };
}

/* Two holders, or more, of whom no majority agrees. */
static int undecided(struct spot_trainer *c, int b, const uint32_t *id, size_t n,
                     struct spot_err *err)
{
    const struct spot_fault_found f = fault_of(c, b, id[0], id[n - 1], n);
    char name[SPOT_TENSOR_NAME_MAX] = "";

    if (!strcmp(f.what, "sum") && c->verify.n_redo++ < REDO_MAX) {
        c->verify.n_difference++;
        return 1;
    }
    if (f.tensor >= 0)
        tensor_name(c, b, f.tensor, name);
    return spot_err_set(err, SPOT_ESYS,
                        "step %lld: workers %s and %s have another %s of bundle %d, %s: memory or "
                        "network of one of them is faulty, and no third one says whose",
                        (long long)c->machine->round + 1,
                        spot_peer_name(spot_group_find(c->group, id[0])),
                        spot_peer_name(spot_group_find(c->group, id[n - 1])), f.what, b, name);
}

static int compare_bundle(struct spot_trainer *c, int b, const uint32_t *id, size_t n,
                          struct spot_err *err)
{
    uint32_t speaker = 0;
    const size_t most = most_of(c, b, id, n, &speaker);

    if (!n)
        return 0;
    if (2 * most <= n)
        return undecided(c, b, id, n, err);
    c->vote[b].evidence = spot_trainer_member(c, speaker)->reported[b].evidence;
    c->vote[b].norm2 = spot_trainer_member(c, speaker)->reported[b].norm2;
    for (size_t i = 0; i < n && most < n; i++)
        if (!report_alike(&spot_trainer_member(c, id[i])->reported[b],
                          &spot_trainer_member(c, speaker)->reported[b]) &&
            !spot_trainer_is_aside(c, id[i])) {
            const struct spot_fault_found f = fault_of(c, b, id[i], speaker, most);

            if (spot_trainer_convict(c, id[i], &f, err))
                return -1;
        }
    return most < n;
}

int spot_trainer_compare_holders(struct spot_trainer *c, struct spot_err *err)
{
    uint32_t *const id = spot_xcalloc(c->machine->n_member, sizeof(*id));
    int rc = 0;

    if (!spot_evidence_of_kernel(c->config.kernel)) {
        free(id);
        return 0;
    }
    for (int b = 0; rc >= 0 && b < c->n_bundle; b++) {
        size_t n = 0;
        int here;

        for (size_t i = 0; i < c->machine->n_member; i++)
            if (c->machine->member[i].role == SPOT_ROLE_ACTIVE &&
                spot_form_keeps(&c->form, c->machine->member[i].id, (uint32_t)b))
                id[n++] = c->machine->member[i].id;
        here = compare_bundle(c, b, id, n, err);
        rc = here < 0 ? -1 : rc | here;
    }
    free(id);
    return rc;
}
