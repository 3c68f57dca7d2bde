/* SPDX-License-Identifier: MIT */
/* Ended choices are computed again by other replicas, from the prompt on, and compared: tokens and
 * log probabilities, bit for bit. Each replica that computed a choice is a voice; the first voice
 * is the committed answer. If voices differ, the majority decides, and a dissenting replica is at
 * fault; so is one whose own two results differ. If there is no majority, the difference is only
 * reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "serve/serve_protocol.h"
#include "serve/server_state.h"
#include "serve/server_verify.h"

static const double wait_s = 60,
                    end_wait_s = 1; /* maximum wait for a suitable replica; at the end */
enum { CHECKS_MAX = 4096, AGAIN_MAX = 4 };

/* --- selection --------------------------------------------------------------------------- */

/* True if this choice is checked. Then its log probabilities are computed even if they were not
 * requested; tokens of an earlier server may lack them. */
static bool is_drawn(const struct spot_server *s, const struct spot_work *w, uint32_t choice)
{
    const struct spot_request *const r = &w->completion->request;

    if (s->options->verify < 0 || r->pool)
        return false;
    if (r->needs_check)
        return true;
    return (!w->is_resumed || r->n_logprob >= 0) &&
           spot_sample_noise(spot_hash64(r->id, strlen(r->id)), choice, 0) < s->options->verify;
}

struct spot_request spot_server_part(const struct spot_server *s, const struct spot_work *w,
                                     uint32_t choice, uint32_t *choice_of_part)
{
    struct spot_request part = spot_request_part(&w->completion->request, choice, choice_of_part);

    if (part.n_logprob < 0 && is_drawn(s, w, choice)) {
        part.n_logprob = 0;
        part.does_echo = false; /* log probabilities of an echoed prompt were not requested */
    }
    return part;
}

void spot_server_hold(struct spot_server *s, struct spot_work *w)
{
    const uint32_t n = w->completion->request.n_choice;

    if (!w->completion->request.needs_check || !is_drawn(s, w, 0))
        return;
    w->completion->n_held = n;
    for (uint32_t i = 0; i < n; i++)
        if (w->completion->choice[i].finish != SPOT_FINISH_NONE)
            spot_server_check(s, w, i);
}

static const struct spot_choice *choice_of(const struct spot_check *c)
{
    return &c->work->completion->choice[c->choice];
}

/* Set the author of the choice if a single replica computed all of it. */
static void name_author(struct spot_server *s, const struct spot_choice *h, struct spot_voice *v)
{
    const uint32_t id = h->token[0].worker;
    const struct spot_replica *const p = spot_server_place(s, id);

    for (size_t i = 1; i < h->n_token; i++)
        if (h->token[i].worker != id || h->token[i].epoch != h->token[0].epoch)
            return;
    if (!p || (h->token[0].n_cached && p->n_token_paged))
        return;
    v->id = id;
    snprintf(v->name, sizeof(v->name), "%s", spot_peer_name(p->peer));
}

static void tell(struct spot_server *s, struct spot_completion *c)
{
    if (s->front)
        spot_front_progress(s->front, c);
}

static void let_go(struct spot_server *s, struct spot_completion *c)
{
    if (c->n_held && !--c->n_held)
        tell(s, c);
}

void spot_server_check(struct spot_server *s, struct spot_work *w, uint32_t choice)
{
    const struct spot_choice *const h = &w->completion->choice[choice];
    const bool is_held = w->completion->n_held > 0;
    struct spot_check *c;

    if (h->finish == SPOT_FINISH_CANCELLED || !is_drawn(s, w, choice))
        return;
    if (!h->n_token || (s->checks.n >= CHECKS_MAX && !is_held)) {
        s->checks.n_unchecked += h->n_token > 0;
        let_go(s, w->completion);
        return;
    }
    c = spot_xcalloc(1, sizeof(*c));
    *c =
        (struct spot_check){ .work = w, .choice = choice, .n_voice = 1, .since_s = spot_clock_s() };
    (void)spot_completion_ref(w->completion);
    c->voice[0].token = h->token;
    c->voice[0].n = h->n_token;
    name_author(s, h, &c->voice[0]);
    s->checks.all =
        spot_xgrow(s->checks.all, &s->checks.cap, s->checks.n + 1, sizeof(struct spot_check *));
    s->checks.all[s->checks.n++] = c;
}

/* --- an end -------------------------------------------------------------------------- */

static void withdraw(struct spot_server *s, struct spot_check *c)
{
    struct spot_replica *const p = spot_server_place(s, c->at);

    if (!p)
        return;
    spot_peer_send(p->peer, SPOT_MSG_FORGET, c->number, NULL, 0);
    p->load -= p->load > 0;
    c->at = 0;
    c->since_s = spot_clock_s();
}

static void forget_check(struct spot_server *s, struct spot_check *c)
{
    size_t i = 0;

    while (s->checks.all[i] != c)
        i++;
    memmove(s->checks.all + i, s->checks.all + i + 1,
            (--s->checks.n - i) * sizeof(struct spot_check *));
    for (size_t k = 1; k < c->n_voice; k++)
        free(c->voice[k].token);
    spot_completion_unref(c->work->completion);
    free(c);
}

void spot_server_drop_checks(struct spot_server *s, const struct spot_work *w)
{
    for (size_t i = s->checks.n; i-- > 0;) {
        struct spot_check *const c = s->checks.all[i];

        if (w && c->work != w)
            continue;
        if (w)
            withdraw(s, c);
        c->work->completion->n_held = 0;
        forget_check(s, c);
    }
}

/* An answer that must be checked before it is sent cannot be checked: end it without an answer. */
static void refuse(struct spot_server *s, struct spot_work *w, const char *why)
{
    struct spot_completion *const c = spot_completion_ref(w->completion);

    s->options->group.warn("request %s ends: %s", c->request.id, why);
    if (!c->why)
        c->why = spot_xstrdup(why);
    for (uint32_t i = 0; i < c->request.n_choice; i++)
        if (c->choice[i].finish != SPOT_FINISH_NONE)
            spot_server_restart(s, w, i);
    spot_server_cancel(s, w);
    tell(s, c);
    spot_completion_unref(c);
}

static void end_unchecked(struct spot_server *s, struct spot_check *c, const char *why)
{
    struct spot_work *const w = c->work;

    s->checks.n_unchecked++;
    withdraw(s, c);
    if (w->completion->n_held) {
        refuse(s, w, why);
        return;
    }
    forget_check(s, c);
}

/* --- a verdict ----------------------------------------------------------------------- */

bool spot_replica_is_convicted(const struct spot_server *s, const struct spot_replica *p)
{
    (void)s;
    return p->peer && spot_peer_is_convicted(p->peer);
}

/* Recompute tokens of a convicted replica that were not sent to clients. */
static void restart_those_of(struct spot_server *s, uint32_t id)
{
    bool has_any = false;

    for (size_t i = s->n_sequence; i-- > 0;) {
        struct spot_work *const w = s->sequence[i]->work;
        const struct spot_completion *const c = w->completion;
        const struct spot_choice *const h = &c->choice[s->sequence[i]->choice];
        bool is_its = false;

        for (size_t k = 0; k < h->n_token && (!c->request.does_stream || c->n_held); k++)
            is_its = is_its || h->token[k].worker == id;
        if (is_its)
            spot_server_restart(s, w, s->sequence[i]->choice);
        has_any = has_any || is_its;
    }
    s->checks.must_write_anew = s->checks.must_write_anew || has_any;
}

static bool speaks(const struct spot_voice *v, size_t position)
{
    return !v->is_out && position < v->n;
}

static void convict(struct spot_server *s, struct spot_check *c, size_t voice, size_t position,
                    size_t n_other)
{
    struct spot_voice *const v = &c->voice[voice];
    const struct spot_replica *const p = spot_server_place(s, v->id);
    char why[200];
    size_t k = 0;

    while (k < c->n_voice &&
           (!speaks(&c->voice[k], position) ||
            spot_token_is_same(&c->voice[k].token[position], &v->token[position])))
        k++;
    v->is_out = true;
    if (!v->id)
        return;
    (void)spot_server_log_corrupt(s, c, voice, position,
                                  k < c->n_voice &&
                                          c->voice[k].token[position].id == v->token[position].id
                                      ? "log probability"
                                      : "token",
                                  n_other, &s->failure);
    for (k = 0; k < c->n_voice; k++)
        c->voice[k].is_out = c->voice[k].is_out || c->voice[k].id == v->id;
    snprintf(why, sizeof(why),
             "it computed another answer to %s than %zu others, from token %zu on",
             c->work->completion->request.id, n_other, position);
    for (int64_t i = 0; p && i < s->grid.P * s->grid.M; i++) {
        struct spot_peer *const member = spot_group_find(s->group, p->member[i]);

        if (!member || spot_peer_is_convicted(member))
            continue;
        spot_peer_convict(member, why);
        s->checks.n_convicted++;
    }
    restart_those_of(s, v->id);
}

/* Number of replicas with the same result at that position. */
static size_t support(const struct spot_check *c, size_t voice, size_t position)
{
    size_t n = 0;

    for (size_t k = 0; k < c->n_voice; k++) {
        bool is_counted =
            !speaks(&c->voice[k], position) ||
            !spot_token_is_same(&c->voice[k].token[position], &c->voice[voice].token[position]);

        for (size_t m = 0; m < k && !is_counted; m++)
            is_counted =
                speaks(&c->voice[m], position) && c->voice[m].id == c->voice[k].id &&
                spot_token_is_same(&c->voice[m].token[position], &c->voice[voice].token[position]);
        n += !is_counted;
    }
    return n;
}

/* The voice of a replica whose two results differ; c->n_voice if there is none. */
static size_t find_liar(const struct spot_check *c, size_t position)
{
    for (size_t k = 1; k < c->n_voice; k++)
        for (size_t m = 0; m < k; m++)
            if (c->voice[k].id == c->voice[m].id && speaks(&c->voice[k], position) &&
                speaks(&c->voice[m], position) &&
                !spot_token_is_same(&c->voice[k].token[position], &c->voice[m].token[position]))
                return k;
    return c->n_voice;
}

/* The first position at which voices differ; the end of the first voice if none. */
static size_t find_difference(const struct spot_check *c)
{
    const struct spot_voice *const first = &c->voice[0];

    for (size_t i = 0; i < first->n; i++)
        for (size_t k = 1; k < c->n_voice; k++)
            if (speaks(&c->voice[k], i) &&
                !spot_token_is_same(&c->voice[k].token[i], &first->token[i]))
                return i;
    return first->n;
}

/* Returns true if a replica was found to be wrong at this position. */
static bool decide(struct spot_server *s, struct spot_check *c, size_t position)
{
    const size_t liar = find_liar(c, position);
    size_t best = 0, second = 0, who = 0;

    if (liar < c->n_voice) {
        convict(s, c, liar, position, 0);
        return true;
    }
    for (size_t k = 0; k < c->n_voice; k++) {
        const size_t n = speaks(&c->voice[k], position) ? support(c, k, position) : 0;

        if (n > best) {
            second = best;
            best = n;
            who = k;
        } else if (n && !spot_token_is_same(&c->voice[k].token[position],
                                            &c->voice[who].token[position])) {
            second = n > second ? n : second;
        }
    }
    if (best < 2 || best == second)
        return false;
    for (size_t k = 0; k < c->n_voice; k++)
        if (speaks(&c->voice[k], position) &&
            !spot_token_is_same(&c->voice[k].token[position], &c->voice[who].token[position]))
            convict(s, c, k, position, best);
    return true;
}

/* Handle a wrong committed answer. */
static void mend(struct spot_server *s, struct spot_check *c)
{
    struct spot_work *const w = c->work;
    const uint32_t choice = c->choice;
    struct spot_completion *const of = spot_completion_ref(w->completion);

    if (!c->voice[0].id)
        (void)spot_server_log_differs(s, c, find_difference(c), &s->failure);
    s->checks.n_checked++;
    forget_check(s, c);
    if (!of->n_held) {
        s->options->group.warn("the answer to %s was wrong, and has been sent", of->request.id);
    } else if (++w->n_again > AGAIN_MAX) {
        refuse(s, w, "replicas compute this answer differently, again and again");
    } else {
        spot_server_restart(s, w, choice);
        s->checks.must_write_anew = true;
    }
    spot_completion_unref(of);
}

/* Decide, when all valid voices have reached the first difference from the committed answer. */
static void judge(struct spot_server *s, struct spot_check *c)
{
    struct spot_completion *const of = c->work->completion;
    size_t position, n = 0;

    while ((position = find_difference(c)) < c->voice[0].n && decide(s, c, position))
        if (c->voice[0].is_out) {
            mend(s, c);
            return;
        }
    for (size_t k = 1; k < c->n_voice; k++)
        n += !c->voice[k].is_out && (!c->voice[0].id || c->voice[k].id != c->voice[0].id);
    if (position < c->voice[0].n || !n) /* wait for another replica */
        return;
    s->checks.n_checked++;
    (void)spot_completion_ref(of);
    forget_check(s, c);
    let_go(s, of);
    spot_completion_unref(of);
}

/* --- choice of a replica ------------------------------------------------- */

static bool has_written(const struct spot_choice *h, uint32_t id)
{
    for (size_t i = 0; i < h->n_token; i++)
        if (h->token[i].worker == id)
            return true;
    return false;
}

/* Rank of a replica for a check, lower is better; < 0: unsuitable. */
static int rank_of(const struct spot_server *s, const struct spot_check *c,
                   const struct spot_replica *p, bool may_be_full)
{
    const uint32_t id = spot_peer_id(p->peer);
    const bool is_open = find_difference(c) < c->voice[0].n;
    const struct spot_replica *const first = spot_server_place(s, c->voice[0].id);
    size_t n_own = 0;

    if (!spot_replica_may_take(p) || p->version != c->work->version ||
        (p->load >= s->n_at_once && !may_be_full))
        return -1;
    for (size_t k = 0; k < c->n_voice; k++)
        n_own += c->voice[k].id == id;
    if (n_own)
        return n_own == 1 && is_open ? 3 : -1;
    if (has_written(choice_of(c), id)) /* it computed a part: better than none */
        return 2;
    return first && !strcmp(spot_peer_domain(first->peer), spot_peer_domain(p->peer));
}

static struct spot_replica *choose(const struct spot_server *s, const struct spot_check *c,
                                   bool may_be_full)
{
    struct spot_replica *best = NULL;
    int best_rank = 0;

    for (size_t i = 0; i < s->n_place && c->n_voice < SPOT_VOICES_MAX; i++) {
        struct spot_replica *const p = s->place[i];
        const int rank = p->is_running ? rank_of(s, c, p, may_be_full) : -1;

        if (rank < 0 ||
            (best && (rank > best_rank || (rank == best_rank && p->load >= best->load))))
            continue;
        best = p;
        best_rank = rank;
    }
    return best;
}

static void give(struct spot_server *s, struct spot_check *c, struct spot_replica *p)
{
    struct spot_voice *const v = &c->voice[c->n_voice++];
    struct spot_buf out = { 0 };
    uint32_t k;
    struct spot_request part = spot_server_part(s, c->work, c->choice, &k);

    part.is_fresh = true;
    *v = (struct spot_voice){ .id = spot_peer_id(p->peer) };
    snprintf(v->name, sizeof(v->name), "%s", spot_peer_name(p->peer));
    c->at = v->id;
    c->number = SPOT_SERVE_CHECK + ++s->checks.last * SPOT_REQUEST_CHOICES_MAX;
    spot_put_u32(&out, k);
    spot_put_u32(&out, 0);
    spot_request_put(&part, &out);
    spot_put_u32(&out, 0);
    spot_put_f64(&out, 0);
    spot_replica_take(p);
    spot_peer_send(p->peer, SPOT_MSG_CONTINUE, c->number, out.data, out.n);
    spot_buf_release(&out);
}

void spot_server_give_checks(struct spot_server *s)
{
    for (size_t i = 0; i < s->checks.n; i++) {
        struct spot_replica *const p =
            s->checks.all[i]->at ? NULL : choose(s, s->checks.all[i], false);

        if (p)
            give(s, s->checks.all[i], p);
    }
}

/* --- results of a check -------------------------------------------------------------------- */

static struct spot_check *find(const struct spot_server *s, uint64_t sequence)
{
    for (size_t i = 0; i < s->checks.n; i++)
        if (s->checks.all[i]->at && s->checks.all[i]->number == sequence)
            return s->checks.all[i];
    return NULL;
}

static void unsay(struct spot_check *c)
{
    free(c->voice[--c->n_voice].token);
    c->at = 0;
    c->since_s = spot_clock_s();
}

bool spot_server_take_voice(struct spot_server *s, struct spot_replica *p, uint64_t sequence,
                            const struct spot_step_token *t)
{
    struct spot_check *const c = find(s, sequence);
    struct spot_voice *v;
    bool differs;

    if (sequence < SPOT_SERVE_CHECK)
        return false;
    if (!c || c->at != spot_peer_id(p->peer))
        return true;
    v = &c->voice[c->n_voice - 1];
    if (t->position != v->n) {
        spot_peer_drop(p->peer, "a token after a gap");
        return true;
    }
    v->token = spot_xgrow(v->token, &v->cap, v->n + 1, sizeof(*v->token));
    v->token[v->n] = t->token;
    differs = !spot_token_is_same(&t->token, &c->voice[0].token[v->n]);
    if (++v->n < c->voice[0].n && !differs)
        return true;
    p->n_done++;
    withdraw(s, c);
    judge(s, c);
    return true;
}

void spot_server_return_checks(struct spot_server *s, const struct spot_replica *p)
{
    for (size_t i = 0; i < s->checks.n; i++)
        if (s->checks.all[i]->at && s->checks.all[i]->at == spot_peer_id(p->peer))
            unsay(s->checks.all[i]);
}

void spot_server_fail_check(struct spot_server *s, uint64_t sequence)
{
    struct spot_check *const c = find(s, sequence);

    if (c)
        end_unchecked(s, c, "another replica cannot compute this answer");
}

/* Do not wait for a leaving replica. */
static void move_on(struct spot_server *s, struct spot_check *c)
{
    const struct spot_replica *const p = spot_server_place(s, c->at);

    if (!p || !spot_replica_is_leaving(p))
        return;
    withdraw(s, c);
    unsay(c);
}

static int end_late(struct spot_server *s, struct spot_err *err)
{
    const double most_s = s->is_draining || s->checks.is_ending ? end_wait_s : wait_s;
    int rc = 0;

    for (size_t i = s->checks.n; i-- > 0 && !rc;) {
        struct spot_check *const c = i < s->checks.n ? s->checks.all[i] : NULL;
        const size_t at = c ? find_difference(c) : 0;

        if (!c)
            continue;
        move_on(s, c);
        if (choose(s, c, true))
            c->since_s = spot_clock_s(); /* a replica is suitable once it has free capacity */
        if (c->at || spot_clock_s() - c->since_s < most_s)
            continue;
        if (at < c->voice[0].n)
            rc = spot_server_log_differs(s, c, at, err);
        end_unchecked(s, c,
                      at < c->voice[0].n ? "two replicas compute this answer differently"
                                         : "no other replica came to check this answer");
    }
    return rc;
}

int spot_server_tend_checks(struct spot_server *s, struct spot_err *err)
{
    if (s->checks.must_write_anew && s->log && spot_server_write_anew(s, err))
        return -1;
    s->checks.must_write_anew = false;
    for (size_t i = 0; i < s->n_place; i++) {
        struct spot_replica *const p = s->place[i];

        if (p->is_running && spot_replica_is_convicted(s, p))
            return spot_view_break(p->view, spot_view_machine(p->view)->epoch, err);
    }
    return end_late(s, err);
}
