/* SPDX-License-Identifier: MIT */
#include "model/event_order.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

typedef const char *taker(struct spot_event_order *o, const struct spot_event *e, char *why);

static const char *fault(char *why, const char *pointer, const char *fmt, ...) SPOT_PRINTF(3, 4);

static const char *fault(char *why, const char *pointer, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, SPOT_ORDER_WHY, fmt, ap);
    va_end(ap);
    return pointer;
}

static const char *expect(char *why, const char *pointer, int64_t want, int64_t got,
                          const char *what)
{
    return want == got
               ? NULL
               : fault(why, pointer, "expected %" PRId64 ", %s, got %" PRId64, want, what, got);
}

/* Check that the epoch and step of an event agree with the job's. */
static const char *check_place(const struct spot_event_order *o, const struct spot_event *e,
                               char *why)
{
    const char *at = expect(why, "/epoch", o->epoch, e->epoch, "the epoch of the line above");

    return at ? at : expect(why, "/step", o->step, e->step, "where the lines above led");
}

static const char *check_phase(const struct spot_event_order *o, enum spot_order_phase phase,
                               const char *name, char *why)
{
    static const char *const before[] = { [SPOT_ORDER_QUIESCED] = "quiesce",
                                          [SPOT_ORDER_MIGRATED] = "migrate",
                                          [SPOT_ORDER_FORMED] = "formed" };

    if (o->phase == phase)
        return NULL;
    return fault(why, "/event", "'%s' without the '%s' of its epoch before it, or said twice", name,
                 before[phase]);
}

/* --- members ------------------------------------------------------------- */

static struct spot_order_member *find(const struct spot_event_order *o, int64_t id)
{
    for (size_t i = 0; i < o->n_member; i++)
        if (o->member[i].id == id)
            return &o->member[i];
    return NULL;
}

static const char *add_member(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at;

    if (e->member <= o->id_last)
        return fault(why, "/member", "%" PRId64 " was the number of another member", e->member);
    at = expect(why, "/members", (int64_t)o->n_member + 1, e->members,
                "counted from the lines above");
    if (at)
        return at;
    o->member = spot_xgrow(o->member, &o->cap_member, o->n_member + 1, sizeof(*o->member));
    o->member[o->n_member++] = (struct spot_order_member){ .id = e->member };
    o->id_last = e->member;
    return NULL;
}

static const char *take_joined(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *const at = check_place(o, e, why);

    return at ? at : add_member(o, e, why);
}

static const char *change_member(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    struct spot_order_member *const m = find(o, e->member);

    if (!m)
        return fault(why, "/member", "%" PRId64 " did not join, or is gone", e->member);
    if (e->kind == SPOT_EVENT_NOTICE) {
        if (m->is_noticed)
            return fault(why, "/event", "a second 'notice' of member %" PRId64, e->member);
        m->is_noticed = true;
        return NULL;
    }
    if (e->kind == SPOT_EVENT_LEFT && !m->is_noticed)
        return fault(why, "/event", "'left' without a 'notice' of member %" PRId64, e->member);
    *m = o->member[--o->n_member];
    return NULL;
}

static const char *take_member(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *const at = check_place(o, e, why);

    return at ? at : change_member(o, e, why);
}

/* --- epochs -------------------------------------------------------------- */

static const char *take_resumed(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    if (e->epoch < o->epoch)
        return fault(why, "/epoch", "%" PRId64 " is before %" PRId64 ", that of the line above",
                     e->epoch, o->epoch);
    if (e->step < o->step)
        return fault(why, "/step", "%" PRId64 " is before %" PRId64 ", where the lines above led",
                     e->step, o->step);
    /* a coordinator cannot be replaced in no time */
    if (o->is_resumed && e->time_s <= o->resumed_s)
        return fault(why, "/event", "'resumed' said twice");
    o->resumed_s = e->time_s;
    o->phase = SPOT_ORDER_WAIT;
    o->epoch = e->epoch;
    o->step = e->step;
    o->n_member = 0;
    o->id_last = 0;
    o->is_begun = false;
    o->is_resumed = true;
    return NULL;
}

/* Declared by the coordinator that resumes the job, before any member joins. */
static const char *take_lr_changed(struct spot_event_order *o, const struct spot_event *e,
                                   char *why)
{
    const char *const at = check_place(o, e, why);

    if (!at && o->n_member)
        return fault(why, "/event", "'lr_changed' behind a 'joined', not behind its 'resumed'");
    if (!at && e->after > e->step)
        return fault(why, "/after", "%" PRId64 " is beyond step %" PRId64, e->after, e->step);
    return at;
}

static const char *take_quiesce(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    if (e->epoch <= o->epoch)
        return fault(why, "/epoch", "expected more than %" PRId64 ", that of the line above",
                     o->epoch);
    o->epoch = e->epoch;
    o->phase = SPOT_ORDER_QUIESCED;
    o->is_begun = false;
    return check_place(o, e, why);
}

static const char *take_rolled_back(struct spot_event_order *o, const struct spot_event *e,
                                    char *why)
{
    const char *at = check_phase(o, SPOT_ORDER_QUIESCED, e->name, why);

    at = at ? at : expect(why, "/from", o->step, e->from, "where the lines above led");
    if (!at && e->to >= e->from)
        at = fault(why, "/to", "expected less than %" PRId64, e->from);
    if (at)
        return at;
    o->step = e->to;
    return check_place(o, e, why);
}

/* A step above all commits in the log: the log lost their lines in a crash. */
static const char *take_restored(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at = check_phase(o, SPOT_ORDER_QUIESCED, e->name, why);

    at = at ? at : expect(why, "/epoch", o->epoch, e->epoch, "the epoch of the line above");
    at = at ? at : expect(why, "/from", o->step, e->from, "where the lines above led");
    if (!at && e->step <= e->from)
        at = fault(why, "/step", "expected more than %" PRId64, e->from);
    if (!at)
        o->step = e->step;
    return at;
}

static const char *take_migrate(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *const at = check_phase(o, SPOT_ORDER_QUIESCED, e->name, why);

    if (at)
        return at;
    o->phase = SPOT_ORDER_MIGRATED;
    return check_place(o, e, why);
}

static const char *take_formed(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const struct spot_grid *const g = &e->grid;
    const char *at = check_phase(o, SPOT_ORDER_MIGRATED, e->name, why);

    at = at ? at : check_place(o, e, why);
    at = at ? at
            : expect(why, "/members", (int64_t)o->n_member, e->members,
                     "counted from the lines above");
    if (!at && spot_grid_size(g) > e->members)
        at = fault(why, "/D", "a grid of %" PRId64 "x%" PRId64 "x%" PRId64 " with fewer members",
                   g->D, g->P, g->M);
    o->phase = SPOT_ORDER_FORMED;
    o->is_resumed = false;
    return at;
}

/* --- steps --------------------------------------------------------------- */

/* Must be the step after the last; a step may begin again, with smaller exponents or to be
 * compared. */
static const char *take_step(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at = check_phase(o, SPOT_ORDER_FORMED, e->name, why);

    at = at ? at : expect(why, "/epoch", o->epoch, e->epoch, "the epoch of the line above");
    at = at ? at : expect(why, "/step", o->step + 1, e->step, "the one after the last");
    o->is_begun = true;
    return at;
}

/* Found by the vote on a step before its commit, or in the state after the last commit. */
static const char *take_corrupt(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at = check_phase(o, SPOT_ORDER_FORMED, e->name, why);

    at = at ? at : expect(why, "/epoch", o->epoch, e->epoch, "the epoch of the line above");
    return at ? at : expect(why, "/step", o->step, e->step, "the last one committed");
}

/* Only for a step that has begun and is not committed. */
static const char *take_differs(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *const at = take_corrupt(o, e, why);

    if (!at && !o->is_begun)
        return fault(why, "/event", "'%s' without a 'step' before it", e->name);
    return at;
}

static const char *take_committed(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at = check_phase(o, SPOT_ORDER_FORMED, e->name, why);

    at = at ? at : expect(why, "/epoch", o->epoch, e->epoch, "the epoch of the line above");
    at = at ? at : expect(why, "/step", o->step + 1, e->step, "the one after the last");
    if (!at && !o->is_begun)
        at = fault(why, "/event", "'committed' without its 'step' before it");
    o->step = e->step;
    o->is_begun = false;
    return at;
}

/* Between two steps, for the current weights. */
static const char *take_validated(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at = check_phase(o, SPOT_ORDER_FORMED, e->name, why);

    at = at ? at : check_place(o, e, why);
    return at || !o->is_begun ? at : fault(why, "/event", "'validated' within a step");
}

/* Writing takes time: meanwhile the job may have continued or rolled back. */
static const char *take_durable(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *const at = expect(why, "/epoch", o->epoch, e->epoch, "the epoch of the line above");

    if (!at && e->step > o->step_max)
        return fault(why, "/step", "%" PRId64 " was not committed", e->step);
    return at;
}

static const char *take_done(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at = check_phase(o, SPOT_ORDER_FORMED, e->name, why);

    at = at ? at : check_place(o, e, why);
    if (!at && o->is_begun)
        at = fault(why, "/event", "'done' within a step");
    o->phase = SPOT_ORDER_DONE;
    return at;
}

/* --- a serving job: an epoch belongs to a view, and several run at once --- */

/* Take the first event of a log, or of another coordinator that continues it. */
static const char *take_serving(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    if (o->has_begun && !o->is_serving)
        return fault(why, "/event", "'serving' in the log of a job that trains");
    if (e->epoch < o->epoch)
        return fault(why, "/epoch", "%" PRId64 " is before %" PRId64 ", the newest above", e->epoch,
                     o->epoch);
    /* a coordinator cannot be replaced in no time */
    if (o->is_resumed && e->time_s <= o->resumed_s)
        return fault(why, "/event", "'serving' said twice");
    o->is_serving = o->is_resumed = true;
    o->resumed_s = e->time_s;
    o->epoch = e->epoch;
    o->step = 0;
    o->n_member = o->n_view = 0;
    o->id_last = 0;
    return expect(why, "/step", 0, e->step, "of a server that begins");
}

static struct spot_order_view *view_of(struct spot_event_order *o, const struct spot_event *e)
{
    const size_t n = (size_t)e->view + 1;

    if (o->n_view < n) {
        o->view = spot_xgrow(o->view, &o->cap_view, n, sizeof(*o->view));
        memset(o->view + o->n_view, 0, (n - o->n_view) * sizeof(*o->view));
        o->n_view = n;
    }
    return &o->view[e->view];
}

/* Rounds are committed without a line in the log. */
static const char *check_round(struct spot_order_view *v, const struct spot_event *e, char *why)
{
    if (e->step < v->step)
        return fault(why, "/step", "%" PRId64 " is before %" PRId64 ", that of the view above",
                     e->step, v->step);
    v->step = e->step;
    return NULL;
}

static const char *check_view(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    struct spot_order_view *const v = view_of(o, e);
    const char *at = NULL;

    if (v->is_known)
        at = expect(why, "/epoch", v->epoch, e->epoch, "the epoch of its view");
    else if (e->epoch > o->epoch)
        at = fault(why, "/epoch", "%" PRId64 " is beyond %" PRId64 ", the newest above", e->epoch,
                   o->epoch);
    v->is_known = true;
    v->epoch = e->epoch;
    return at ? at : check_round(v, e, why);
}

static const char *check_epoch(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    return e->epoch < o->epoch
               ? fault(why, "/epoch", "%" PRId64 " is before %" PRId64 ", that of the line above",
                       e->epoch, o->epoch)
               : NULL;
}

/* Joining a server, or a job that runs a command. */
static const char *other_joined(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *const at = o->is_serving ? check_view(o, e, why) : check_epoch(o, e, why);

    return at ? at : add_member(o, e, why);
}

static const char *other_member(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *const at = o->is_serving ? check_view(o, e, why) : check_epoch(o, e, why);

    return at ? at : change_member(o, e, why);
}

static const char *serve_quiesce(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    struct spot_order_view *const v = view_of(o, e);

    if (e->epoch <= o->epoch)
        return fault(why, "/epoch", "expected more than %" PRId64 ", the newest above", o->epoch);
    o->epoch = v->epoch = e->epoch;
    v->is_known = v->is_quiesced = true;
    return check_round(v, e, why);
}

static const char *serve_formed(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at = check_view(o, e, why);

    if (!at && !view_of(o, e)->is_quiesced)
        at = fault(why, "/event",
                   "'formed' without the 'quiesce' of its epoch before it, or said twice");
    at = at ? at
            : expect(why, "/members", (int64_t)o->n_member, e->members,
                     "counted from the lines above");
    if (!at && spot_grid_size(&e->grid) > e->members)
        at = fault(why, "/D", "a grid of %" PRId64 "x%" PRId64 "x%" PRId64 " with fewer members",
                   e->grid.D, e->grid.P, e->grid.M);
    view_of(o, e)->is_quiesced = false;
    o->is_resumed = false;
    return at;
}

static const char *serve_request(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at = expect(why, "/epoch", o->epoch, e->epoch, "the newest above");

    if (!at && e->came_s > e->time_s)
        at = fault(why, "/came_s", "%g is behind %g, the time of the event", e->came_s, e->time_s);
    if (!at && (e->ttft_s > e->e2e_s || e->queue_s > e->e2e_s))
        at = fault(why, "/e2e_s", "%g is less than what came before its end", e->e2e_s);
    if (!at && e->step < o->step)
        at = fault(why, "/step", "%" PRId64 " is before %" PRId64 ", the tokens above", e->step,
                   o->step);
    return at;
}

static const char *serve_token(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *const at = expect(why, "/epoch", o->epoch, e->epoch, "the newest above");

    o->step += e->output_tokens;
    return at ? at : expect(why, "/step", o->step, e->step, "counted from the lines above");
}

/* Corruption found in answers that were checked. */
static const char *serve_found(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    (void)o;
    return e->fault.request ? NULL : fault(why, "/request", "'%s' has none", e->name);
}

static taker *const serve_taker_of[SPOT_EVENT_KINDS] = {
    [SPOT_EVENT_SERVING] = take_serving, [SPOT_EVENT_JOINED] = other_joined,
    [SPOT_EVENT_NOTICE] = other_member,  [SPOT_EVENT_LEFT] = other_member,
    [SPOT_EVENT_LOST] = other_member,    [SPOT_EVENT_QUIESCE] = serve_quiesce,
    [SPOT_EVENT_FORMED] = serve_formed,  [SPOT_EVENT_REQUEST] = serve_request,
    [SPOT_EVENT_TOKEN] = serve_token,    [SPOT_EVENT_DIFFERS] = serve_found,
    [SPOT_EVENT_CORRUPT] = serve_found,
};

/* --- a job that runs a foreign command: it has its own steps, which may begin anywhere --- */

/* A coordinator begins: the first of a log, or another one that continues it. */
static const char *take_exec(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    if (o->has_begun && !o->is_exec)
        return fault(why, "/event", "'exec' in the log of another kind of job");
    o->is_exec = true;
    o->phase = SPOT_ORDER_WAIT;
    o->n_member = 0;
    o->id_last = 0;
    return check_epoch(o, e, why);
}

static const char *exec_quiesce(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    if (e->epoch <= o->epoch)
        return fault(why, "/epoch", "expected more than %" PRId64 ", that of the line above",
                     o->epoch);
    o->epoch = e->epoch;
    o->phase = SPOT_ORDER_QUIESCED;
    return NULL;
}

static const char *exec_formed(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *at = check_phase(o, SPOT_ORDER_QUIESCED, e->name, why);

    at = at ? at : check_epoch(o, e, why);
    if (!at && e->restart < 0)
        at = fault(why, "", "a 'formed' of a command needs \"restart\"");
    if (!at && e->grid.D > e->members)
        at = fault(why, "/D", "%" PRId64 " nodes of %" PRId64 " members", e->grid.D, e->members);
    o->phase = SPOT_ORDER_FORMED;
    o->restart = e->restart;
    return at;
}

static const char *exec_committed(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    const char *const at = check_phase(o, SPOT_ORDER_FORMED, e->name, why);

    return at ? at : expect(why, "/restart", o->restart, e->restart, "the round that runs");
}

static const char *exec_rolled_back(struct spot_event_order *o, const struct spot_event *e,
                                    char *why)
{
    const char *const at = check_epoch(o, e, why);

    return at || e->to < e->from ? at : fault(why, "/to", "expected less than %" PRId64, e->from);
}

static const char *exec_ended(struct spot_event_order *o, const struct spot_event *e, char *why)
{
    o->phase = SPOT_ORDER_DONE;
    return check_epoch(o, e, why);
}

static taker *const exec_taker_of[SPOT_EVENT_KINDS] = {
    [SPOT_EVENT_EXEC] = take_exec,
    [SPOT_EVENT_JOINED] = other_joined,
    [SPOT_EVENT_NOTICE] = other_member,
    [SPOT_EVENT_LEFT] = other_member,
    [SPOT_EVENT_LOST] = other_member,
    [SPOT_EVENT_QUIESCE] = exec_quiesce,
    [SPOT_EVENT_FORMED] = exec_formed,
    [SPOT_EVENT_STATE_COMMITTED] = exec_committed,
    [SPOT_EVENT_STATE_RESTORED] = check_epoch,
    [SPOT_EVENT_ROLLED_BACK] = exec_rolled_back,
    [SPOT_EVENT_DURABLE] = check_epoch,
    [SPOT_EVENT_FAILED] = check_epoch,
    [SPOT_EVENT_LEDGER] = check_epoch,
    [SPOT_EVENT_FINISHED] = exec_ended,
    [SPOT_EVENT_GIVEN_UP] = exec_ended,
};

static taker *const taker_of[SPOT_EVENT_KINDS] = {
    [SPOT_EVENT_EXEC] = take_exec,
    [SPOT_EVENT_SERVING] = take_serving,
    [SPOT_EVENT_JOINED] = take_joined,
    [SPOT_EVENT_FORMED] = take_formed,
    [SPOT_EVENT_MIGRATE] = take_migrate,
    [SPOT_EVENT_COMMITTED] = take_committed,
    [SPOT_EVENT_ROLLED_BACK] = take_rolled_back,
    [SPOT_EVENT_RESTORED] = take_restored,
    [SPOT_EVENT_DONE] = take_done,
    [SPOT_EVENT_LR_CHANGED] = take_lr_changed,
    [SPOT_EVENT_VALIDATED] = take_validated,
    [SPOT_EVENT_RESUMED] = take_resumed,
    [SPOT_EVENT_NOTICE] = take_member,
    [SPOT_EVENT_LEFT] = take_member,
    [SPOT_EVENT_LOST] = take_member,
    [SPOT_EVENT_QUIESCE] = take_quiesce,
    [SPOT_EVENT_STEP] = take_step,
    [SPOT_EVENT_DURABLE] = take_durable,
    [SPOT_EVENT_DIFFERS] = take_differs,
    [SPOT_EVENT_CORRUPT] = take_corrupt,
};

const char *spot_event_order_take(struct spot_event_order *order, const struct spot_event *event,
                                  char why[SPOT_ORDER_WHY])
{
    taker *const take = (order->is_serving ? serve_taker_of
                         : order->is_exec  ? exec_taker_of
                                           : taker_of)[event->kind];
    const char *at;

    if (event->kind == SPOT_EVENT_ANY)
        return NULL; /* an event of a cloud, or of a later version */
    if (!take)
        return fault(why, "/event", "'%s' in the log of a job that %s", event->name,
                     order->is_serving ? "serves"
                     : order->is_exec  ? "runs a command"
                                       : "trains");
    if (order->phase == SPOT_ORDER_DONE && take != take_resumed && !order->is_exec)
        return fault(why, "/event", "'%s' after the job was done", event->name);
    at = take(order, event, why);
    order->has_begun = true;
    if (order->step > order->step_max)
        order->step_max = order->step;
    return at;
}

void spot_event_order_release(struct spot_event_order *order)
{
    free(order->member);
    free(order->view);
    memset(order, 0, sizeof(*order));
}
