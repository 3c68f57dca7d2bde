/* SPDX-License-Identifier: MIT */
/* Some microbatches are computed again by another pipeline, or by a member without a place that
 * mirrors all stages, and compared before the commit; if two differ, all compute them, and the
 * majority is right: docs/design/33-evidence.md. */
#include <stdlib.h>
#include <string.h>

#include "common/metric.h"
#include "common/xalloc.h"
#include "train/trainer_evidence_state.h"
#include "train/trainer_member_state.h"
#include "train/trainer_place_state.h"

enum { TRY_MAX = 2 }; /* maximum attempts to decide a difference */

/* --- the form ------------------------------------------------------------------- */

static void release_reports(struct spot_trainer_verify *v)
{
    for (uint32_t i = 0; v->first && i < (v->n_pipeline + 1) * v->n_stage; i++) {
        spot_verify_report_release(&v->first[i]);
        spot_verify_report_release(&v->again[i]);
    }
    free(v->first);
    free(v->again);
    free(v->order);
    v->first = v->again = NULL;
    v->order = NULL;
    v->n_pipeline = v->n_stage = 0;
}

static void forget_dispute(struct spot_trainer_verify *v)
{
    spot_verify_report_release(&v->dispute.reported[0]);
    spot_verify_report_release(&v->dispute.reported[1]);
    v->dispute.n_try = 0;
    v->is_judged = false;
}

void spot_trainer_verify_release(struct spot_trainer *c)
{
    forget_dispute(&c->verify);
    release_reports(&c->verify);
}

void spot_trainer_verify_quiesced(struct spot_trainer *c)
{
    spot_trainer_verify_release(c);
    c->verify.is_checked = c->verify.must_break = c->verify.is_confirming = false;
    c->verify.spare = 0;
    c->verify.confirmed_step = 0;
}

/* Number of microbatches checked if n of each pipeline are checked, or all of a pipeline that has
 * fewer. */
static int64_t checked_with(const struct spot_trainer *c, int64_t n)
{
    int64_t sum = 0, begin, end;

    for (uint32_t d = 0; d < c->form.D; d++) {
        spot_form_microbatches(&c->form, d, &begin, &end);
        sum += n < end - begin ? n : end - begin;
    }
    return sum;
}

static bool is_auto(const struct spot_trainer *c)
{
    return c->options->verify < 0;
}

static struct spot_verify_rate rate_of(const struct spot_trainer *c)
{
    if (c->form.M > 1)
        return (struct spot_verify_rate){ 0, 0 };
    return is_auto(c) ? spot_verify_spare_rate(
                            c->n_microbatch, c->config.micro_batch * c->config.shape.seq, c->form.D)
                      : spot_verify_rate(c->options->verify, c->n_microbatch, c->form.D);
}

static void fit_form(struct spot_trainer *c)
{
    struct spot_trainer_verify *const v = &c->verify;
    const size_t n_row = (size_t)c->form.D + 1;

    if (v->n_pipeline)
        return;
    v->n_pipeline = c->form.D;
    v->n_stage = c->form.P;
    v->order = spot_xcalloc(n_row, sizeof(*v->order));
    v->first = spot_xcalloc(n_row * c->form.P, sizeof(*v->first));
    v->again = spot_xcalloc(n_row * c->form.P, sizeof(*v->again));
    v->rate = rate_of(c);
    while (!is_auto(c) && v->rate.every == 1 && v->rate.n < c->n_microbatch &&
           (double)checked_with(c, v->rate.n) < c->options->verify * (double)c->n_microbatch - 1e-9)
        v->rate.n++; /* pipelines have different numbers of microbatches */
}

/* --- a step -------------------------------------------------------------------- */

/* Number of pairs of pipelines in which corresponding stages are in different failure domains. */
static uint32_t count_apart(const struct spot_trainer *c, uint32_t turn)
{
    const struct spot_form *const f = &c->form;
    uint32_t n = 0;

    for (uint32_t d = 0; d < f->D; d++)
        for (uint32_t p = 0; p < f->P; p++)
            n += !spot_trainer_same_domain(c, spot_form_member(f, d, p, 0),
                                           spot_form_member(f, (d + turn) % f->D, p, 0));
    return n;
}

/* The turn with the most such pairs; of equal ones, the first from the drawn turn on. */
static uint32_t choose_turn(const struct spot_trainer *c)
{
    const uint32_t D = c->form.D, drawn = spot_verify_turn(D, c->config.seed, c->machine->round);
    uint32_t best = drawn, most = count_apart(c, drawn);

    for (uint32_t i = 1; i < D - 1; i++) {
        const uint32_t turn = 1 + (drawn - 1 + i) % (D - 1), n = count_apart(c, turn);

        if (n > most) {
            best = turn;
            most = n;
        }
    }
    return best;
}

static struct spot_verify_set none_of(const struct spot_trainer *c, uint32_t d)
{
    int64_t begin, end;

    spot_form_microbatches(&c->form, d, &begin, &end);
    return (struct spot_verify_set){ begin, 0 };
}

static void pair_up(struct spot_trainer *c)
{
    struct spot_trainer_verify *const v = &c->verify;
    const uint32_t D = c->form.D;

    v->turn = choose_turn(c);
    for (uint32_t d = 0; d < D; d++)
        v->order[d].first =
            spot_verify_draw(&c->form, d, v->rate.n, c->config.seed, c->machine->round);
    for (uint32_t d = 0; d < D; d++)
        v->order[(d + v->turn) % D].again = v->order[d].first;
}

/* The i-th member without a place that holds all of the state and has memory to compute; 0 if there
 * are fewer. */
static uint32_t spare_at(const struct spot_trainer *c, size_t i)
{
    const struct spot_form *const f = &c->form;

    for (size_t k = 0; k < c->machine->n_member; k++) {
        const uint32_t id = c->machine->member[k].id;
        bool is_whole = f->D && spot_form_position(f, id) < 0 && spot_form_is_active(f, id) &&
                        !spot_trainer_member(c, id)->cannot_check;

        for (uint32_t p = 0; is_whole && p < f->P; p++)
            is_whole = spot_trainer_mirrors(c, id, p);
        if (is_whole && !i--)
            return id;
    }
    return 0;
}

static size_t count_spares(const struct spot_trainer *c)
{
    size_t n = 0;

    while (spare_at(c, n))
        n++;
    return n;
}

/* Ask a spare to check a pipeline; pipelines and spares take turns. */
static void ask_spare(struct spot_trainer *c)
{
    struct spot_trainer_verify *const v = &c->verify;
    const size_t n_spare = count_spares(c);
    const int64_t turn = (c->machine->round + 1) / v->rate.every;
    const uint32_t D = c->form.D, d = (uint32_t)(turn % D);

    if (!n_spare)
        return;
    for (uint32_t e = 0; e < D; e++)
        v->order[e] = (struct spot_verify_order){ none_of(c, e), none_of(c, e) };
    v->order[d].first = spot_verify_draw(&c->form, d, v->rate.n, c->config.seed, c->machine->round);
    v->order[D] = (struct spot_verify_order){ { 0, 0 }, v->order[d].first };
    v->spare = spare_at(c, (size_t)(turn / D) % n_spare);
    v->is_checked = true;
}

void spot_trainer_verify_step(struct spot_trainer *c)
{
    struct spot_trainer_verify *const v = &c->verify;

    v->is_checked = v->has_declined = false;
    if (!v->is_judged)
        v->spare = 0;
    if (c->options->verify == 0 && !v->is_judged)
        return;
    fit_form(c);
    if (v->is_judged) {
        for (uint32_t d = 0; d < c->form.D; d++)
            v->order[d] = (struct spot_verify_order){ none_of(c, d), v->dispute.set };
    } else if (v->rate.n && (c->machine->round + 1) % v->rate.every == 0) {
        if (is_auto(c)) {
            ask_spare(c);
            return;
        }
        pair_up(c);
        v->is_checked = true;
    }
}

static int read_again(struct spot_trainer *c, const struct spot_verify_set *set,
                      struct spot_buf *out, struct spot_err *err)
{
    const size_t n_byte = (size_t)spot_job_words(&c->config) * sizeof(uint32_t);
    const int64_t b = c->config.micro_batch,
                  from = (c->machine->round * c->n_microbatch + set->begin) * b;

    for (int64_t q = from; q < from + set->n * b; q++) {
        uint32_t *const token = (uint32_t *)(void *)spot_buf_more(out, n_byte);

        if (spot_sampler_read(&c->sampler, spot_sampler_sequence(&c->sampler, q), token, err))
            return -1;
        out->n += n_byte;
    }
    return 0;
}

int spot_trainer_put_check(struct spot_trainer *c, uint32_t d, bool reads, struct spot_buf *out,
                           struct spot_err *err)
{
    const struct spot_trainer_verify *const v = &c->verify;

    if ((!v->is_checked && !v->is_judged) || (!v->order[d].first.n && !v->order[d].again.n))
        return 0;
    spot_verify_order_put(out, &v->order[d]);
    return reads ? read_again(c, &v->order[d].again, out, err) : 0;
}

static size_t prints_of(const struct spot_trainer *c, uint32_t p)
{
    size_t n = 0;

    for (uint32_t b = c->form.stage[p]; b < c->form.stage[p + 1]; b++) {
        struct spot_arena arena;

        spot_arena_of(&c->config.shape, (int)b, &arena);
        n += (size_t)arena.n_tensor;
    }
    return n;
}

/* A spare with too little memory reports that before its first computation. */
static void take_spare_reports(struct spot_trainer *c, struct spot_wire_in *in)
{
    struct spot_trainer_verify *const v = &c->verify;
    const uint32_t P = c->form.P;

    if (!spot_get_u32(in)) {
        in->bad |= v->is_judged;
        spot_trainer_member(c, v->spare)->cannot_check = v->has_declined = true;
        return;
    }
    for (uint32_t p = 0; p < P; p++)
        spot_verify_report_get(in, prints_of(c, p), &v->again[c->form.D * P + p]);
}

void spot_trainer_take_reports(struct spot_trainer *c, uint32_t id, struct spot_wire_in *in)
{
    struct spot_trainer_verify *const v = &c->verify;
    const int64_t position = spot_form_position(&c->form, id);
    struct spot_form_place at;
    size_t n;

    if (v->spare && id == v->spare)
        take_spare_reports(c, in);
    if (position < 0 || (!v->is_checked && !v->is_judged))
        return;
    at = spot_form_place(&c->form, position);
    n = prints_of(c, at.p);
    if (v->order[at.d].again.n)
        spot_verify_report_get(in, n, &v->again[at.d * c->form.P + at.p]);
    if (v->order[at.d].first.n)
        spot_verify_report_get(in, n, &v->first[at.d * c->form.P + at.p]);
}

/* --- a difference ------------------------------------------------------------------ */

/* Number of voters: the pipelines, and the spare after them. */
static uint32_t n_voter(const struct spot_trainer *c)
{
    return c->form.D + (c->verify.spare != 0);
}

static uint32_t voter(const struct spot_trainer *c, uint32_t d)
{
    return d < c->form.D ? spot_form_member(&c->form, d, c->verify.dispute.stage, 0)
                         : c->verify.spare;
}

static const char *voter_name(const struct spot_trainer *c, uint32_t d)
{
    const struct spot_peer *const peer = spot_group_find(c->group, voter(c, d));

    return peer ? spot_peer_name(peer) : "";
}

static int log_difference(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_trainer_verify *const v = &c->verify;
    struct spot_jw *const jw =
        spot_journal_begin(c->journal, "differs", c->machine->epoch, c->machine->round);

    if (!jw)
        return 0;
    spot_jw_int(jw, "stage", v->dispute.stage);
    spot_jw_int(jw, "microbatch", v->dispute.set.begin);
    spot_jw_int(jw, "microbatches", v->dispute.set.n);
    spot_jw_array(jw, "between");
    spot_jw_str(jw, NULL, voter_name(c, v->dispute.owner));
    spot_jw_str(jw, NULL, voter_name(c, v->dispute.checker));
    spot_jw_end(jw);
    return spot_journal_end(c->journal, err);
}

/* The first pair that differs is decided; others will be found again. */
static int compare_pairs(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_trainer_verify *const v = &c->verify;
    const uint32_t D = c->form.D, P = c->form.P;

    for (uint32_t d = 0; d < D; d++) {
        const uint32_t e = v->spare ? D : (d + v->turn) % D;
        const int stage =
            v->order[d].first.n ? spot_verify_stage(&v->first[d * P], &v->again[e * P], P) : -1;

        v->n_checked += (uint64_t)v->order[d].first.n;
        if (stage < 0)
            continue;
        v->n_difference++;
        v->is_judged = true;
        v->dispute.set = v->order[d].first;
        v->dispute.owner = d;
        v->dispute.checker = e;
        v->dispute.stage = (uint32_t)stage;
        v->dispute.n_try = 0;
        spot_verify_report_copy(&v->dispute.reported[0], &v->first[d * P + (uint32_t)stage]);
        spot_verify_report_copy(&v->dispute.reported[1], &v->again[e * P + (uint32_t)stage]);
        return log_difference(c, err) ? -1 : 1;
    }
    return 0;
}

/* The report of the majority on the stage; NULL if there is no majority. */
static const struct spot_verify_report *truth_of(const struct spot_trainer *c, uint32_t *n_same)
{
    const struct spot_trainer_verify *const v = &c->verify;
    const uint32_t n = n_voter(c), P = c->form.P, p = v->dispute.stage;

    for (uint32_t d = 0; d < n; d++) {
        *n_same = 0;
        for (uint32_t e = 0; e < n; e++)
            *n_same += spot_verify_report_equal(&v->again[d * P + p], &v->again[e * P + p]);
        if (2 * *n_same > n)
            return &v->again[d * P + p];
    }
    return NULL;
}

/* The kind of output that differs although the inputs are equal, or NULL. Different tokens, which
 * the coordinator sent, are the member's fault only if it had different ones again when they were
 * resent. */
static const char *deviates(const struct spot_trainer_verify *v, const struct spot_verify_report *r,
                            const struct spot_verify_report *truth)
{
    const struct spot_verify_edge *const a = &r->edge, *const b = &truth->edge;
    const char *const tokens = v->dispute.n_try ? "tokens" : NULL;

    if (a->act_in != b->act_in)
        return v->dispute.stage ? NULL : tokens;
    if (a->act_out != b->act_out)
        return "activation";
    if (a->dact_out != b->dact_out)
        return v->dispute.stage + 1 < v->n_stage ? NULL : tokens;
    if (a->dact_in != b->dact_in)
        return "gradient";
    return spot_verify_report_equal(r, truth) ? NULL : "sum";
}

/* The first tensor of the stage that differs, and its element. */
static void locate(const struct spot_trainer *c, const struct spot_verify_report *r,
                   const struct spot_verify_report *truth, struct spot_fault_found *f)
{
    size_t i = 0;

    for (uint32_t b = c->form.stage[f->stage]; b < c->form.stage[f->stage + 1]; b++) {
        struct spot_arena arena;

        spot_arena_of(&c->config.shape, (int)b, &arena);
        for (int t = 0; t < arena.n_tensor; t++, i++)
            if (memcmp(&r->print[i], &truth->print[i], sizeof(r->print[i])) != 0) {
                const struct spot_tensor *const tensor = &arena.tensor[t];
                const int64_t n =
                    tensor->rows * tensor->cols * (tensor->is_sharded ? arena.n_shard : 1);

                f->bundle = (int)b;
                f->tensor = t;
                f->element =
                    spot_sum_print_element(&truth->print[i], &r->print[i], n, &f->difference);
                return;
            }
    }
}

static int accuse(struct spot_trainer *c, uint32_t d, const struct spot_verify_report *r,
                  const struct spot_verify_report *truth, uint32_t n_same, int *n_guilty,
                  struct spot_err *err)
{
    const uint32_t id = voter(c, d);
    struct spot_fault_found f = { .what = deviates(&c->verify, r, truth),
                                  .stage = c->verify.dispute.stage,
                                  .tensor = -1,
                                  .element = -1,
                                  .n_other = n_same };

    if (!f.what)
        return 0;
    ++*n_guilty;
    if (spot_peer_is_convicted(spot_group_find(c->group, id)))
        return 0;
    locate(c, r, truth, &f);
    return spot_trainer_convict(c, id, &f, err);
}

static int give_up(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_trainer_verify *const v = &c->verify;

    return spot_err_set(err, SPOT_ESYS,
                        "step %lld: workers %s and %s repeatedly compute different results for "
                        "microbatch %lld, and there is no third worker to decide",
                        (long long)c->machine->round + 1, voter_name(c, v->dispute.owner),
                        voter_name(c, v->dispute.checker), (long long)v->dispute.set.begin);
}

static int judge(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_trainer_verify *const v = &c->verify;
    const uint32_t P = c->form.P, p = v->dispute.stage;
    uint32_t n_same = 0;
    const struct spot_verify_report *const truth = truth_of(c, &n_same);
    int n_guilty = 0;
    bool has_passed;

    if (truth &&
        (accuse(c, v->dispute.owner, &v->dispute.reported[0], truth, n_same, &n_guilty, err) ||
         accuse(c, v->dispute.checker, &v->dispute.reported[1], truth, n_same, &n_guilty, err)))
        return -1;
    for (uint32_t d = 0; truth && d < n_voter(c); d++)
        if (accuse(c, d, &v->again[d * P + p], truth, n_same, &n_guilty, err))
            return -1;
    has_passed = !n_guilty && truth &&
                 n_same == n_voter(c); /* the error occurred in transit between two stages */
    if (has_passed ? ++v->n_redo > TRY_MAX : !n_guilty && ++v->dispute.n_try >= TRY_MAX)
        return give_up(c, err);
    if (n_guilty || has_passed)
        forget_dispute(v); /* repeat the step, with the same checks */
    return 1;
}

int spot_trainer_verify_votes(struct spot_trainer *c, struct spot_err *err)
{
    if (c->verify.is_judged)
        return judge(c, err);
    return c->verify.is_checked && !c->verify.has_declined ? compare_pairs(c, err) : 0;
}

/* --- status --------------------------------------------------------------------- */

void spot_trainer_verify_status(const struct spot_trainer *c, struct spot_jw *jw)
{
    const struct spot_trainer_verify *const v = &c->verify;

    if (c->options->verify == 0)
        return;
    spot_jw_object(jw, "verify");
    if (is_auto(c))
        spot_jw_int(jw, "spares", (int64_t)count_spares(c));
    else
        spot_jw_real(jw, "share", c->options->verify);
    spot_jw_int(jw, "every", v->n_pipeline ? v->rate.every * (is_auto(c) ? v->n_pipeline : 1) : 0);
    spot_jw_int(jw, "checked", (int64_t)v->n_checked);
    spot_jw_int(jw, "differences", (int64_t)v->n_difference);
    spot_jw_int(jw, "corrupt", (int64_t)v->n_convicted);
    spot_jw_end(jw);
}

void spot_trainer_verify_metrics(const struct spot_trainer *c, struct spot_buf *out)
{
    const struct spot_trainer_verify *const v = &c->verify;
    const struct spot_metric metric[] = {
        { "spot_train_microbatches_verified_total", SPOT_COUNTER,
          "Microbatches computed by two members and compared.", NULL, (double)v->n_checked, NULL },
        { "spot_train_differences_total", SPOT_COUNTER,
          "Computations and copies that should have been equal, and were not.", NULL,
          (double)v->n_difference, NULL },
        { "spot_train_corrupt_members_total", SPOT_COUNTER,
          "Members set aside because they computed, or hold, wrong numbers.", NULL,
          (double)v->n_convicted, NULL },
    };

    spot_metric_put(metric, sizeof(metric) / sizeof(*metric), out);
}
