/* SPDX-License-Identifier: MIT */
/* All holders of a bundle must have the same bits; one that reports others is at fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/endpoint.h"
#include "common/xalloc.h"
#include "train/trainer_durable_state.h"
#include "train/trainer_evidence_state.h"
#include "train/trainer_member_state.h"

enum { REDO_MAX = 2 }; /* repetitions of a step whose sums differ, before the job ends */

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
    spot_trainer_distrust(c, id);
    c->verify.n_convicted++;
    c->verify.must_break = true;
    if (!peer)
        return 0;
    spot_trainer_note_convicted(c, spot_peer_name(peer));
    if (f->tensor >= 0)
        tensor_name(c, f->bundle, f->tensor, name);
    snprintf(why, sizeof(why), "it computed another %s%s%s than %lld others in step %lld", f->what,
             *name ? " of " : "", name, (long long)f->n_other,
             (long long)c->machine->round + !c->verify.is_confirming);
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

static const struct spot_trainer_reported *report_of(const struct spot_trainer *c, uint32_t id,
                                                     int b)
{
    return &spot_trainer_member(c, id)->reported[b];
}

static bool are_alike(const struct spot_trainer *c, int b, uint32_t x, uint32_t y)
{
    return report_alike(report_of(c, x, b), report_of(c, y, b));
}

/* The members that keep a bundle and vote on it. */
struct holders {
    int b;
    uint32_t *id;
    size_t n;
    bool has_vouched;   /* at least one has agreed with others on the state of the last commit */
    bool has_one_state; /* all report the same state at the start of the step */
};

static bool has_vouched(const struct spot_trainer *c, uint32_t id, int b)
{
    return spot_trainer_member(c, id)->vouched[b] >= c->machine->round - 1;
}

/* True if the member's report is independent. A mirror repeats the sums of their sender, and a
 * member that received its state since the last commit repeats its sender's: one fault would count
 * twice. */
static bool is_witness(const struct spot_trainer *c, const struct holders *h, uint32_t id)
{
    return spot_form_computes(&c->form, spot_form_position(&c->form, id), (uint32_t)h->b) &&
           (h->has_one_state || has_vouched(c, id, h->b) || !h->has_vouched);
}

/* Among the witnesses: their number, the size of the largest group with equal reports, and one
 * member of it. */
static size_t most_of(const struct spot_trainer *c, const struct holders *h, size_t *n_witness,
                      uint32_t *speaker)
{
    size_t most = 0;

    *n_witness = 0;
    for (size_t i = 0; i < h->n; i++) {
        size_t same = 0;

        if (!is_witness(c, h, h->id[i]))
            continue;
        ++*n_witness;
        for (size_t k = 0; k < h->n; k++)
            same += is_witness(c, h, h->id[k]) && are_alike(c, h->b, h->id[i], h->id[k]);
        if (same > most) {
            most = same;
            *speaker = h->id[i];
        }
    }
    return most;
}

static struct spot_fault_found fault_of(const struct spot_trainer *c, int b, uint32_t id,
                                        uint32_t speaker, size_t n_other)
{
    const struct spot_evidence *const mine = &report_of(c, id, b)->evidence,
                                      *const right = &report_of(c, speaker, b)->evidence;
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

/* Two or more holders without a majority of witnesses. */
static int undecided(struct spot_trainer *c, const struct holders *h, struct spot_err *err)
{
    struct spot_fault_found f;
    char name[SPOT_TENSOR_NAME_MAX] = "";
    size_t other = h->n - 1;

    while (other > 1 && are_alike(c, h->b, h->id[0], h->id[other]))
        other--;
    f = fault_of(c, h->b, h->id[0], h->id[other], h->n);
    if (!strcmp(f.what, "sum") && c->verify.n_redo < REDO_MAX) {
        c->verify.n_difference++;
        return 1;
    }
    if (!strcmp(f.what, "state"))
        spot_trainer_distrust(c, 0);
    if (f.tensor >= 0)
        tensor_name(c, h->b, f.tensor, name);
    return spot_err_set(
        err, SPOT_ESYS,
        "step %lld: workers %s and %s have a different %s of bundle %d, %s: memory or network of "
        "one of them is faulty, and there is no third copy to tell whose",
        (long long)c->machine->round + !c->verify.is_confirming,
        spot_peer_name(spot_group_find(c->group, h->id[0])),
        spot_peer_name(spot_group_find(c->group, h->id[other])), f.what, h->b, name);
}

static bool have_one_state(const struct spot_trainer *c, int b, uint32_t x, uint32_t y)
{
    return spot_evidence_differs(report_of(c, x, b)->evidence.state,
                                 report_of(c, y, b)->evidence.state, SPOT_TENSORS_MAX) < 0;
}

/* True for a mirror with the right state that repeats the sums of a culprit. */
static bool repeats(const struct spot_trainer *c, int b, uint32_t id, uint32_t speaker)
{
    const uint32_t from = spot_form_sender(&c->form, (uint32_t)b);

    return have_one_state(c, b, id, speaker) && are_alike(c, b, id, from) &&
           !are_alike(c, b, from, speaker);
}

/* Handle a member whose report differs from that of the majority: returns 1 whether or not it is
 * convicted, -1 on failure. */
static int accuse(struct spot_trainer *c, const struct holders *h, uint32_t id, uint32_t speaker,
                  size_t most, struct spot_err *err)
{
    const struct spot_fault_found f = fault_of(c, h->b, id, speaker, most);

    if (is_witness(c, h, id))
        return !spot_peer_is_convicted(spot_group_find(c->group, id)) &&
                       spot_trainer_convict(c, id, &f, err)
                   ? -1
                   : 1;
    return repeats(c, h->b, id, speaker) ? 1 : undecided(c, h, err);
}

static int compare_bundle(struct spot_trainer *c, const struct holders *h, struct spot_err *err)
{
    uint32_t speaker = h->n ? h->id[0] : 0;
    size_t n_witness;
    const size_t most = most_of(c, h, &n_witness, &speaker);
    int rc = 0;

    for (size_t i = 0; i < h->n && rc >= 0; i++) {
        if (are_alike(c, h->b, h->id[i], speaker))
            continue;
        if (most < 2 || 2 * most <= n_witness)
            return undecided(c, h, err);
        rc = accuse(c, h, h->id[i], speaker, most, err);
    }
    if (h->n) {
        c->vote[h->b].evidence = report_of(c, speaker, h->b)->evidence;
        c->vote[h->b].norm2 = report_of(c, speaker, h->b)->norm2;
    }
    return rc;
}

static void find_holders(const struct spot_trainer *c, int b, struct holders *h)
{
    h->b = b;
    h->n = 0;
    h->has_vouched = false;
    h->has_one_state = true;
    for (size_t i = 0; i < c->machine->n_member; i++) {
        const struct spot_member *const m = &c->machine->member[i];

        if (m->role != SPOT_ROLE_ACTIVE || !spot_form_keeps(&c->form, m->id, (uint32_t)b))
            continue;
        h->id[h->n++] = m->id;
        h->has_vouched |= has_vouched(c, m->id, b);
        h->has_one_state &= have_one_state(c, b, m->id, h->id[0]);
    }
}

int spot_trainer_compare_holders(struct spot_trainer *c, struct spot_err *err)
{
    struct holders h = { .id = spot_xcalloc(c->machine->n_member, sizeof(*h.id)) };
    int rc = 0;

    for (int b = 0; rc >= 0 && spot_evidence_of_kernel(c->config.kernel) && b < c->n_bundle; b++) {
        int here;

        find_holders(c, b, &h);
        here = compare_bundle(c, &h, err);
        rc = here < 0 ? -1 : rc | here;
        for (size_t i = 0; !here && i < h.n; i++)
            spot_trainer_member(c, h.id[i])->vouched[b] = c->machine->round;
    }
    c->verify.n_redo += rc > 0;
    free(h.id);
    return rc;
}

/* --- the final state ------------------------------------------------------------- */

bool spot_trainer_must_confirm(const struct spot_trainer *c)
{
    return spot_evidence_of_kernel(c->config.kernel) && !c->options->observer &&
           c->machine->round > 0 && c->verify.confirmed_step != c->machine->round;
}

void spot_trainer_confirm(struct spot_trainer *c)
{
    c->verify.is_confirming = true;
    for (size_t i = 0; i < c->machine->n_member; i++)
        if (c->machine->member[i].role == SPOT_ROLE_ACTIVE)
            spot_peer_ask(spot_trainer_member(c, c->machine->member[i].id)->peer);
    spot_view_send_active(c->view, SPOT_MSG_CONFIRM, (uint64_t)c->machine->round, NULL, 0);
}

int spot_trainer_take_states(struct spot_trainer *c, uint32_t id, struct spot_wire_in *in)
{
    struct spot_trainer_reported *const reported = spot_trainer_member(c, id)->reported;
    uint32_t n = spot_get_count(in, 4);

    for (uint32_t b = 0; b < (uint32_t)c->n_bundle; b++) {
        struct spot_arena arena;

        if (!spot_form_keeps(&c->form, id, b))
            continue;
        if (!n-- || spot_get_u32(in) != b)
            return 1;
        reported[b] = (struct spot_trainer_reported){ .norm2 = 0 };
        spot_arena_of(&c->config.shape, (int)b, &arena);
        for (int t = 0; t < arena.n_tensor; t++)
            reported[b].evidence.state[t] = spot_get_u64(in);
    }
    return n || in->bad;
}

int spot_trainer_confirmed(struct spot_trainer *c, struct spot_err *err)
{
    const int rc = spot_trainer_compare_holders(c, err);

    c->verify.is_confirming = false;
    if (!rc)
        c->verify.confirmed_step = c->machine->round;
    return rc < 0 ? -1 : 0;
}
