/* SPDX-License-Identifier: MIT */
/* Tokens, from a member to the journal and the completions. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "serve/server_state.h"
#include "serve/server_verify.h"

struct told {
    uint64_t sequence;
    uint32_t assignment; /* of an engine's worker */
    struct spot_step_token token;
};

static int place_of(const struct spot_sequence *q, uint32_t id)
{
    for (int k = 0; k < SPOT_SEQUENCE_PLACES; k++)
        if (q->place[k] == id)
            return k;
    return -1;
}

static struct spot_choice *choice_of(const struct spot_sequence *q)
{
    return &q->work->completion->choice[q->choice];
}

/* The member has caught up with the committed tokens: release the other one, which leaves or hangs.
 */
static void let_other_go(struct spot_server *s, struct spot_sequence *q, int k)
{
    struct spot_replica *const other = spot_server_place(s, q->place[1 - k]);

    if (other &&
        (s->options->is_foreign || spot_replica_is_leaving(other) || spot_replica_is_silent(other)))
        spot_server_release_place(s, q, 1 - k);
}

static void count_prompt(struct spot_server *s, const struct spot_sequence *q, uint32_t n_cached)
{
    uint32_t k;
    const struct spot_request r = spot_request_part(&q->work->completion->request, q->choice, &k);

    s->n_prompt_token += r.n_prompt - spot_request_n_echo(&r);
    s->n_cached_token += n_cached;
}

static void count_first(struct spot_server *s, struct spot_work *w, double now_s)
{
    if (w->first_s > 0)
        return;
    w->first_s = now_s;
    spot_histogram_add(&s->first, now_s - w->taken_s);
}

static void count_token(struct spot_server *s, struct spot_sequence *q)
{
    const double now_s = spot_clock_s();

    s->n_token++;
    if (choice_of(q)->n_token == 1)
        count_prompt(s, q, choice_of(q)->token[0].n_cached);
    if (q->told_s > 0)
        spot_histogram_add(&s->between, now_s - q->told_s);
    q->told_s = now_s;
    count_first(s, q->work, now_s);
}

/* All choices of the request have ended. */
static void count_end(struct spot_server *s, struct spot_work *w)
{
    w->ended_s = spot_clock_s();
    spot_histogram_add(&s->whole, w->ended_s - w->taken_s);
}

/* True if the message is from an earlier assignment of the sequence to this member, parts of which
 * arrived while the member was not assigned. It starts again after the committed tokens. */
static bool is_of_before(const struct spot_sequence *q, int k, enum spot_append how)
{
    return how == SPOT_APPEND_GAP && !q->has_told[k];
}

/* Returns NULL, or the error in the member's message. */
static const char *commit_one(struct spot_server *s, struct spot_replica *p, const struct told *t)
{
    struct spot_sequence *const q = spot_server_find(s, t->sequence);
    const int k = q ? place_of(q, spot_peer_id(p->peer)) : -1;
    struct spot_completion *c;
    enum spot_append rc;

    if (spot_server_take_voice(s, p, t->sequence, &t->token) || k < 0)
        return NULL; /* the choice has ended, or was withdrawn from this member */
    c = q->work->completion;
    rc = spot_completion_append(c, q->choice, t->token.position, &t->token.token);
    if (is_of_before(q, k, rc))
        return NULL;
    if (s->options->is_foreign && rc < 0) { /* engines may differ: the choice starts again */
        spot_server_release_place(s, q, k);
        return NULL;
    }
    if (rc == SPOT_APPEND_GAP)
        return "a token after a gap";
    if (rc == SPOT_APPEND_DIFFERS)
        return "another token than is committed";
    if (!q->has_told[k] && q->assignment[k] == q->n_assignment) {
        p->first_at_s = spot_clock_s();
        spot_first_guess_note(&p->first, q->unread[k], p->first_at_s - q->given_s);
    }
    q->has_told[k] = true;
    if (rc == SPOT_APPEND_NEW) {
        q->n_failed = 0;
        count_token(s, q);
    }
    if (t->token.position + 1 >= choice_of(q)->n_token &&
        (s->options->is_foreign ||
         !spot_replica_is_leaving(p))) /* engines may differ: only one at a time */
        let_other_go(s, q, k);
    if (rc == SPOT_APPEND_NEW && t->token.is_end && choice_of(q)->finish == SPOT_FINISH_NONE)
        spot_completion_finish(c, q->choice, SPOT_FINISH_STOP);
    if (choice_of(q)->finish != SPOT_FINISH_NONE) {
        if (!c->n_open)
            count_end(s, q->work);
        spot_server_check(s, q->work, q->choice);
        spot_server_end_sequence(s, q);
    }
    if (rc == SPOT_APPEND_NEW && s->front)
        spot_front_progress(s->front, c);
    return NULL;
}

/* --- a message ---------------------------------------------------------------------- */

/* Adds a worker's count, which starts at 0 when the worker starts. */
static void note_paged(struct spot_server *s, struct spot_replica *p, uint64_t n)
{
    if (n > p->n_token_paged)
        s->n_token_paged += n - p->n_token_paged;
    p->n_token_paged = n;
}

/* NULL when it is malformed. */
static struct told *read_told(struct spot_server *s, struct spot_replica *p,
                              const struct spot_frame *frame, uint32_t *n)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct told *told;

    p->used_page = spot_get_u32(&in);
    p->kept_page = spot_get_u32(&in);
    p->n_page = spot_get_u32(&in);
    p->prompt_token_s = spot_get_f64(&in);
    p->page_byte_per_s = spot_get_f64(&in);
    note_paged(s, p, spot_get_u64(&in));
    *n = spot_get_count(&in, 8);
    told = spot_xcalloc(*n, sizeof(*told));
    for (uint32_t i = 0; i < *n; i++) {
        told[i].sequence = spot_get_u64(&in);
        if (spot_step_token_get(&in, &told[i].token) ||
            told[i].token.token.id >= (uint64_t)p->version->model.shape.vocab) {
            free(told);
            return NULL;
        }
        told[i].assignment = told[i].token.token.epoch;
        told[i].token.token.worker = spot_peer_id(p->peer);
        told[i].token.token.epoch = frame->epoch;
    }
    if (spot_wire_in_done(&in))
        return told;
    free(told);
    return NULL;
}

/* A moving mean of the time between its messages. */
static void note_step(struct spot_replica *p)
{
    const double now_s = spot_clock_s(), step_s = now_s - p->told_s;

    p->step_s = p->step_s > 0 ? 0.9 * p->step_s + 0.1 * step_s : step_s;
    p->told_s = now_s;
}

/* Drop an engine's token that the form does not allow, that is not the next one, or that is of an
 * earlier assignment, and all tokens after it; the choice starts again after the committed tokens.
 * So the journal contains only committed tokens. */
static void check_forms(struct spot_server *s, struct spot_replica *p, struct told *told,
                        uint32_t n)
{
    for (uint32_t i = 0; s->options->is_foreign && i < n; i++) {
        struct spot_sequence *const q = spot_server_find(s, told[i].sequence);

        if (q)
            q->n_checked = choice_of(q)->n_token;
    }
    for (uint32_t i = 0; s->options->is_foreign && i < n; i++) {
        struct spot_sequence *const q = spot_server_find(s, told[i].sequence);
        const int k = q ? place_of(q, spot_peer_id(p->peer)) : -1;

        if (k < 0 || spot_server_is_stale(q, k, told[i].assignment)) {
            told[i].sequence = 0; /* of none */
        } else if (told[i].token.position != q->n_checked++) {
            spot_server_fail_sequence(s, p, q, "the worker told another position than the next");
            told[i].sequence = 0;
        } else if (!spot_server_allows(q, &told[i].token)) {
            spot_server_fail_sequence(s, p, q, "the engine told what the form does not allow");
            told[i].sequence = 0;
        }
    }
}

/* Write new tokens to the journal, in one write, before any client sees them. */
static int write_new(struct spot_server *s, struct spot_replica *p, const struct told *told,
                     uint32_t n, struct spot_err *err)
{
    for (uint32_t i = 0; s->log && i < n; i++) {
        struct spot_sequence *const q = spot_server_find(s, told[i].sequence);
        const int k = q ? place_of(q, spot_peer_id(p->peer)) : -1;

        if (k < 0)
            continue;
        if (q->n_written < choice_of(q)->n_token)
            q->n_written = choice_of(q)->n_token;
        if (q->n_written != told[i].token.position)
            continue;
        spot_token_log_put_token(s->log, q->work->number, q->choice, &told[i].token);
        q->n_written++;
    }
    return s->log ? spot_token_log_write(s->log, err) : 0;
}

int spot_server_tokens(struct spot_server *s, struct spot_replica *p,
                       const struct spot_frame *frame, struct spot_err *err)
{
    const struct spot_machine *const m = p->view ? spot_view_machine(p->view) : NULL;
    const char *wrong = NULL;
    struct told *told;
    uint32_t n;
    int rc;

    if (!p->is_running || m->epoch != frame->epoch || spot_replica_is_convicted(s, p))
        return 0;
    told = read_told(s, p, frame, &n);
    if (!told) {
        spot_peer_drop(p->peer, "tokens");
        return 0;
    }
    note_step(p);
    check_forms(s, p, told, n);
    rc = write_new(s, p, told, n, err);
    for (uint32_t i = 0; !rc && !wrong && i < n; i++)
        if ((wrong = commit_one(s, p, &told[i])))
            spot_peer_drop(p->peer, wrong);
    free(told);
    return rc;
}

/* --- a state ------------------------------------------------------------------------ */

static void commit_state(struct spot_server *s, struct spot_replica *p, struct spot_sequence *q,
                         const float *state, size_t n, uint32_t n_cached)
{
    struct spot_completion *const c = q->work->completion;
    const enum spot_append rc = spot_completion_set_state(c, q->choice, state, n, n_cached);

    if (rc < 0) {
        spot_peer_drop(p->peer, rc == SPOT_APPEND_DIFFERS ? "another state than is committed"
                                                          : "a state that is not asked for");
        return;
    }
    count_prompt(s, q, n_cached);
    count_first(s, q->work, spot_clock_s());
    if (!c->n_open)
        count_end(s, q->work);
    spot_server_end_sequence(s, q);
    if (s->front)
        spot_front_progress(s->front, c);
}

void spot_server_state(struct spot_server *s, struct spot_replica *p,
                       const struct spot_frame *frame)
{
    const struct spot_machine *const m = p->view ? spot_view_machine(p->view) : NULL;
    struct spot_sequence *const q = spot_server_find(s, frame->tag);
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t n_cached = spot_get_u32(&in);
    size_t n;
    float *state;

    if (!p->is_running || m->epoch != frame->epoch || !q || place_of(q, spot_peer_id(p->peer)) < 0)
        return; /* the choice has ended, or was withdrawn from this member */
    n = (size_t)p->version->model.shape.width;
    if (in.bad || frame->n_byte != sizeof(n_cached) + n * sizeof(*state)) {
        spot_peer_drop(p->peer, "a state");
        return;
    }
    note_step(p);
    state = spot_xcalloc(n, sizeof(*state));
    memcpy(state, frame->data + sizeof(n_cached), n * sizeof(*state));
    commit_state(s, p, q, state, n, n_cached);
    free(state);
}
