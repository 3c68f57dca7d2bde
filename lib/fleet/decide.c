/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backoff.h"
#include "common/xalloc.h"
#include "fleet/controller.h"
#include "fleet/controller_state.h"

enum { DRAINS_MAX = 3 }; /* failed drains before a machine is terminated without one */

/* The actions of one decision. */
struct deed {
    struct spot_fleet_action *action;
    size_t n, cap;
    int64_t spare; /* running machines that may be terminated before their replacements run */
};

/* --- counting --- */

/* The market that counts a machine: its own if it is in the plan, or one of its type in any
 * zone. */
static size_t home_of(const struct spot_fleet *f, size_t market)
{
    const struct spot_fleet_market *m = &f->market[market];

    if (m->target)
        return market;
    for (size_t i = 0; i < f->n_market; i++)
        if (f->market[i].target && !*f->market[i].zone &&
            f->market[i].is_on_demand == m->is_on_demand && !strcmp(f->market[i].type, m->type))
            return i;
    return market;
}

static bool is_up(const struct spot_fleet_machine *m)
{
    return m->phase == SPOT_FLEET_STAYS && m->life != SPOT_FLEET_LEAVING && !m->is_wrong;
}

static bool is_running(const struct spot_fleet_machine *m)
{
    return is_up(m) && m->is_listed && m->life == SPOT_FLEET_RUNNING;
}

static int64_t outstanding(const struct spot_fleet_intent *t)
{
    return t->count > t->seen ? t->count - t->seen : 0;
}

static void count_seen(struct spot_fleet *f)
{
    for (size_t i = 0; i < f->n_intent; i++) {
        struct spot_fleet_intent *t = &f->intent[i];

        t->seen = 0;
        for (size_t k = 0; k < f->n_machine; k++)
            t->seen += !strcmp(f->machine[k].token, t->token);
    }
}

void spot_fleet_count(struct spot_fleet *f)
{
    for (size_t i = 0; i < f->n_market; i++) {
        struct spot_fleet_market *m = &f->market[i];

        m->running = m->starting = m->leaving = 0;
        m->is_asked = false;
    }
    count_seen(f);
    for (size_t i = 0; i < f->n_intent; i++) {
        struct spot_fleet_market *m = &f->market[f->intent[i].market];

        m->starting += outstanding(&f->intent[i]);
        m->is_asked = true;
    }
    for (size_t i = 0; i < f->n_machine; i++) {
        struct spot_fleet_machine *k = &f->machine[i];

        k->home = home_of(f, k->market);
        if (!is_up(k))
            f->market[k->home].leaving++;
        else if (is_running(k))
            f->market[k->home].running++;
        else
            f->market[k->home].starting++;
    }
}

/* Removes launches all of whose machines were listed. */
static void close_intents(struct spot_fleet *f)
{
    for (size_t i = f->n_intent; i-- > 0;)
        if (!outstanding(&f->intent[i]))
            spot_fleet_drop_intent(f, &f->intent[i]);
}

/* --- targets --- */

static struct spot_fleet_market *stand_in(struct spot_fleet *f, const struct spot_fleet_market *m)
{
    const size_t i = spot_fleet_market_of(f, m->zone, m->type, true, NULL);

    return i == SIZE_MAX || isnan(spot_fleet_usd(f, &f->market[i])) ? NULL
                                                                    : &f->market[home_of(f, i)];
}

static void set_wants(struct spot_fleet *f)
{
    const size_t n = f->n_market;

    for (size_t i = 0; i < n; i++)
        f->market[i].want = f->market[i].target;
    for (size_t i = 0; i < n; i++) {
        struct spot_fleet_market *m = &f->market[i], *other;
        int64_t missing;

        if (m->running >= m->target) {
            m->refusals = 0;
            m->is_refused = false;
        }
        missing = m->target - m->running;
        if (m->is_on_demand || !m->is_refused)
            continue;
        other = stand_in(f, m); /* may reallocate f->market */
        if (other)
            other->want += missing;
    }
}

/* --- money --- */

static double held_usd(const struct spot_fleet *f)
{
    double usd = 0;

    for (size_t i = 0; i < f->n_machine; i++)
        usd += spot_fleet_usd_at_most(f, &f->market[f->machine[i].market]);
    for (size_t i = 0; i < f->n_intent; i++)
        usd += (double)outstanding(&f->intent[i]) *
               spot_fleet_usd_at_most(f, &f->market[f->intent[i].market]);
    return usd;
}

/* Money that must be left for one spot machine when on-demand machines are bought in place of
 * refused spot ones; otherwise they could use all of it, and spot could never come back. */
static double reserve(const struct spot_fleet *f, const struct spot_fleet_market *m)
{
    double usd = 0;

    if (!m->is_on_demand || m->want <= m->target)
        return 0;
    for (size_t i = 0; i < f->n_market; i++)
        if (f->market[i].is_refused && !f->market[i].is_on_demand)
            usd = fmax(usd, spot_fleet_usd_at_most(f, &f->market[i]));
    return usd;
}

static int64_t within(double left, double usd, int64_t n)
{
    if (!(usd > 0) || (double)n * usd <= left * (1 + 1e-12))
        return n;
    return left > 0 ? (int64_t)(left / usd * (1 + 1e-12)) : 0;
}

/* How many of `n` machines the money limit allows. */
static int64_t affordable(struct spot_fleet *f, const struct spot_fleet_market *m, int64_t n)
{
    const double usd = spot_fleet_usd(f, m);
    double left;
    int64_t most;

    if (isinf(f->set.max_usd_per_h))
        return n;
    left = f->set.max_usd_per_h - held_usd(f);
    if (isnan(usd)) {
        spot_fleet_note(f, "held", NULL, "no price is known of %s in %s", m->type, m->zone);
        return 0;
    }
    most = within(left - reserve(f, m), usd, n);
    if (!most && !f->n_machine && !f->n_intent) /* better one machine on demand than none */
        most = within(left, usd, 1);
    if (most < n) {
        f->missing_usd += (double)(n - most) * usd;
        spot_fleet_note(f, "held", NULL, "%lld of %lld %s in %s are within %g usd/h",
                        (long long)most, (long long)n, m->type, m->zone, f->set.max_usd_per_h);
    }
    return most;
}

/* --- drain and terminate --- */

static void act_on(struct spot_fleet *f, struct deed *d, enum spot_fleet_verb verb,
                   const struct spot_fleet_machine *m, const char *why)
{
    const struct spot_fleet_market *at = &f->market[m->market];

    d->action = spot_xgrow(d->action, &d->cap, d->n + 1, sizeof(*d->action));
    d->action[d->n++] = (struct spot_fleet_action){ .verb = verb,
                                                    .token = m->token,
                                                    .id = m->id,
                                                    .zone = at->zone,
                                                    .type = at->type,
                                                    .is_on_demand = at->is_on_demand,
                                                    .why = why };
}

static void end(struct spot_fleet *f, struct deed *d, struct spot_fleet_machine *m, const char *why)
{
    if (m->phase != SPOT_FLEET_ENDING)
        m->tries = 0;
    m->phase = SPOT_FLEET_ENDING;
    m->phase_s = f->now_s;
    m->retry_s = f->now_s + f->set.settle_s;
    act_on(f, d, SPOT_FLEET_ENDS, m, why);
}

/* A machine on which nothing runs yet is terminated at once. */
static void let_go(struct spot_fleet *f, struct deed *d, struct spot_fleet_machine *m,
                   const char *why)
{
    const bool was_up = is_up(m), was_running = is_running(m);
    struct spot_fleet_market *home = &f->market[m->home];

    if (was_up) {
        *(was_running ? &home->running : &home->starting) -= 1;
        home->leaving++;
        d->spare -= was_running;
    }
    if (!f->set.has_drain || !was_running) {
        end(f, d, m, why);
        return;
    }
    m->phase = SPOT_FLEET_UNTOLD;
    m->phase_s = m->retry_s = f->now_s;
    act_on(f, d, SPOT_FLEET_DRAINS, m, why);
}

/* Repeats a drain that was not confirmed. */
static void tell_again(struct spot_fleet *f, struct deed *d, struct spot_fleet_machine *m)
{
    if (!f->set.has_drain)
        end(f, d, m, "there is no drain any more");
    else if (f->now_s >= m->retry_s)
        act_on(f, d, SPOT_FLEET_DRAINS, m, "not known to have been told");
}

/* Continues draining and terminating. */
static void go_on_ending(struct spot_fleet *f, struct deed *d)
{
    for (size_t i = 0; i < f->n_machine; i++) {
        struct spot_fleet_machine *m = &f->machine[i];

        if (m->phase == SPOT_FLEET_UNTOLD)
            tell_again(f, d, m);
        else if (m->phase == SPOT_FLEET_DRAINING && f->now_s - m->phase_s >= f->set.grace_s)
            end(f, d, m, "drained");
        else if (m->phase == SPOT_FLEET_ENDING && f->now_s >= m->retry_s)
            end(f, d, m, "still listed");
        else if (m->phase == SPOT_FLEET_STAYS && m->is_wrong)
            let_go(f, d, m, "not what was asked for");
        else if (m->phase == SPOT_FLEET_STAYS && m->life == SPOT_FLEET_LEAVING &&
                 f->now_s - m->life_s >= f->set.start_s)
            let_go(f, d, m, "leaves and is never gone");
        else if (is_up(m) && m->is_listed && !is_running(m) &&
                 f->now_s - m->life_s >= f->set.start_s) {
            spot_fleet_refused(f, &f->market[m->market]);
            let_go(f, d, m, "does not come to run");
        }
    }
}

static size_t dearest(const struct spot_fleet *f)
{
    size_t best = SIZE_MAX;
    double most = 0;

    for (size_t i = 0; i < f->n_machine; i++) {
        const double usd = spot_fleet_usd_at_most(f, &f->market[f->machine[i].market]);

        if (f->machine[i].phase == SPOT_FLEET_STAYS && usd > most) {
            best = i;
            most = usd;
        }
    }
    return best;
}

/* Terminates machines above the money limit, after a rise of prices or a launch of too many;
 * machines that are already leaving do not count. */
static void keep_bound(struct spot_fleet *f, struct deed *d)
{
    double usd = held_usd(f);
    size_t i;

    if (!(usd > f->set.max_usd_per_h * (1 + 1e-9)))
        return;
    for (i = 0; i < f->n_machine; i++)
        if (f->machine[i].phase != SPOT_FLEET_STAYS)
            usd -= spot_fleet_usd_at_most(f, &f->market[f->machine[i].market]);
    while (usd > f->set.max_usd_per_h * (1 + 1e-9) && (i = dearest(f)) != SIZE_MAX) {
        usd -= spot_fleet_usd_at_most(f, &f->market[f->machine[i].market]);
        let_go(f, d, &f->machine[i], "beyond the bound of money");
    }
}

/* Terminates machines of a market beyond its target, first those on which nothing runs. Pending
 * launches count, and cannot be cancelled. Running machines stay until others run, or until their
 * money is needed. */
static void shed(struct spot_fleet *f, struct deed *d)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = f->n_machine; i-- > 0;) {
            struct spot_fleet_machine *m = &f->machine[i];
            const struct spot_fleet_market *home = &f->market[m->home];

            if (!is_up(m) || is_running(m) != (pass > 0) ||
                home->running + home->starting <= home->want)
                continue;
            if (pass && d->spare <= 0) {
                if (!(f->missing_usd > 0))
                    continue;
                f->missing_usd -= spot_fleet_usd_at_most(f, &f->market[m->market]);
            }
            let_go(f, d, m, home->want ? "more than wanted" : "not wanted");
        }
}

/* --- launches --- */

static void ask(struct deed *d, const struct spot_fleet *f, size_t intent, const char *why)
{
    const struct spot_fleet_intent *t = &f->intent[intent];
    const struct spot_fleet_market *m = &f->market[t->market];

    d->action = spot_xgrow(d->action, &d->cap, d->n + 1, sizeof(*d->action));
    d->action[d->n++] = (struct spot_fleet_action){ .verb = SPOT_FLEET_LAUNCHES,
                                                    .token = t->token,
                                                    .zone = m->zone,
                                                    .type = m->type,
                                                    .is_on_demand = m->is_on_demand,
                                                    .count = t->count,
                                                    .why = why };
}

/* Launches with an unknown result: repeated with their token while their machines are wanted;
 * abandoned when they are not, and lists do not show them. */
static void settle_intents(struct spot_fleet *f, struct deed *d)
{
    for (size_t i = f->n_intent; i-- > 0;) {
        struct spot_fleet_intent *t = &f->intent[i];
        struct spot_fleet_market *m = &f->market[t->market];

        if (f->now_s < t->retry_s)
            continue;
        if (m->running + m->starting <= m->want)
            ask(d, f, i, "its end is not known: the same token again");
        else if (t->missed >= 2 && f->now_s - t->asked_s >= f->set.settle_s) {
            m->starting -= outstanding(t);
            spot_fleet_note(f, "given_up", NULL, "%s: not wanted, and not listed", t->token);
            spot_fleet_drop_intent(f, t);
        }
    }
}

static void launch(struct spot_fleet *f, size_t market)
{
    struct spot_fleet_market *m = &f->market[market];
    int64_t n = m->want - m->running - m->starting;
    char token[SPOT_FLEET_TOKEN_MAX];

    if (n <= 0 || m->is_asked || f->now_s < m->retry_s)
        return;
    n = affordable(f, m, n < SPOT_FLEET_LAUNCH ? n : SPOT_FLEET_LAUNCH);
    if (n <= 0)
        return;
    snprintf(token, sizeof(token), "%s-%016llx-%llu", f->set.name, (unsigned long long)f->id,
             (unsigned long long)++f->n_token);
    spot_fleet_add_intent(f, token, market, n);
    m->starting += n;
}

static void launch_all(struct spot_fleet *f, struct deed *d)
{
    const size_t n_before = f->n_intent;

    for (int is_on_demand = 0; is_on_demand < 2; is_on_demand++)
        for (size_t i = 0; i < f->n_market; i++)
            if (f->market[i].is_on_demand == is_on_demand)
                launch(f, i);
    for (size_t i = n_before; i < f->n_intent; i++)
        ask(d, f, i,
            f->market[f->intent[i].market].target ? "wanted by the plan" : "stands in for spot");
}

size_t spot_fleet_decide(struct spot_fleet *f, double now_s, struct spot_fleet_action **action)
{
    struct deed d = { 0 };
    struct spot_fleet_total total;

    spot_fleet_tell_time(f, now_s);
    f->missing_usd = 0;
    count_seen(f);
    close_intents(f);
    spot_fleet_count(f);
    set_wants(f);
    total = spot_fleet_total(f);
    d.spare = total.running - total.target;
    go_on_ending(f, &d);
    keep_bound(f, &d);
    settle_intents(f, &d);
    launch_all(f, &d);
    shed(f, &d);
    *action = d.action;
    return d.n;
}

/* --- results --- */

static bool is_among(char *const *id, size_t n, const char *wanted)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(id[i], wanted))
            return true;
    return false;
}

/* Returns how many machines it launched, this time or at an earlier try. */
static size_t add_launched(struct spot_fleet *f, const struct spot_fleet_intent *t, char *const *id,
                           size_t n)
{
    const char **fresh = spot_xcalloc(n + 1, sizeof(*fresh));
    size_t n_fresh = 0;
    size_t n_said = 0;

    for (size_t i = 0; i < n; i++) {
        struct spot_fleet_machine *m = spot_fleet_find(f, id[i]);

        if (is_among(id, i, id[i]) || (m && strcmp(m->token, t->token) != 0)) {
            spot_fleet_note(f, "twice", id[i], "%s: launched before", t->token);
            continue;
        }
        n_said++;
        if (m)
            continue;
        spot_fleet_note(f, "launched", id[i], "%s", t->token);
        fresh[n_fresh++] = id[i];
    }
    for (size_t i = 0; i < n_fresh; i++)
        spot_fleet_add_machine(f, fresh[i], t->token, t->market)->was_asked = true;
    spot_fleet_sort(f);
    free(fresh);
    return n_said;
}

static void unknown_end(struct spot_fleet *f, struct spot_fleet_intent *t)
{
    struct spot_fleet_market *m = &f->market[t->market];

    t->tries++;
    t->missed = 0;
    t->asked_s = f->now_s;
    t->retry_s = f->now_s + spot_backoff_s(t->tries, f->set.pause_s, f->set.longest_s);
    m->is_refused = m->is_refused || t->tries > 1;
    spot_fleet_note(f, "unknown", NULL, "%s: what it launched is not known", t->token);
}

void spot_fleet_launched(struct spot_fleet *f, double now_s, const char *token, bool is_known,
                         char *const *id, size_t n)
{
    struct spot_fleet_intent *t = NULL;

    spot_fleet_tell_time(f, now_s);
    for (size_t i = 0; i < f->n_intent; i++)
        if (!strcmp(f->intent[i].token, token))
            t = &f->intent[i];
    if (!t)
        return;
    n = add_launched(f, t, id, n);
    if (!is_known) {
        unknown_end(f, t);
        return;
    }
    if ((int64_t)n < t->count) {
        struct spot_fleet_market *m = &f->market[t->market];

        spot_fleet_refused(f, m);
        m->is_refused = true;
        spot_fleet_note(f, "refused", NULL, "%s in %s: %zu of %lld, asked again in %g s", m->type,
                        m->zone, n, (long long)t->count, m->retry_s - f->now_s);
    } else if ((int64_t)n > t->count) {
        spot_fleet_note(f, "too_many", NULL, "%s: %zu of %lld", t->token, n, (long long)t->count);
    }
    if ((int64_t)n >= t->count)
        f->market[t->market].is_refused = false;
    spot_fleet_drop_intent(f, t);
}

void spot_fleet_told(struct spot_fleet *f, double now_s, const struct spot_fleet_action *action,
                     bool is_done)
{
    struct spot_fleet_machine *m = spot_fleet_find(f, action->id);

    spot_fleet_tell_time(f, now_s);
    if (!m)
        return;
    if (!is_done)
        m->retry_s = f->now_s + spot_backoff_s(++m->tries, f->set.pause_s, f->set.longest_s);
    if (action->verb == SPOT_FLEET_DRAINS && (is_done || m->tries >= DRAINS_MAX)) {
        if (!is_done)
            spot_fleet_note(f, "not_told", m->id,
                            "its drain failed %d times, it is ended after %g s", m->tries,
                            f->set.grace_s);
        m->phase = SPOT_FLEET_DRAINING;
        m->phase_s = f->now_s;
    }
}

/* --- views for tables --- */

size_t spot_fleet_n_market(const struct spot_fleet *f)
{
    return f->n_market;
}

void spot_fleet_view(const struct spot_fleet *f, size_t i, struct spot_fleet_market_view *view)
{
    const struct spot_fleet_market *m = &f->market[i];

    *view =
        (struct spot_fleet_market_view){ .zone = m->zone,
                                         .type = m->type,
                                         .is_on_demand = m->is_on_demand,
                                         .is_refused = m->is_refused,
                                         .target = m->target,
                                         .running = m->running,
                                         .starting = m->starting,
                                         .leaving = m->leaving,
                                         .usd_per_h = spot_fleet_usd(f, m),
                                         .pause_s =
                                             m->retry_s > f->now_s ? m->retry_s - f->now_s : 0 };
}

/* Price of the same type on demand; its own price if that is not known. */
static double on_demand_usd(const struct spot_fleet *f, const struct spot_fleet_market *m)
{
    double usd = NAN;

    for (size_t i = 0; i < f->n_market; i++)
        if (f->market[i].is_on_demand && !strcmp(f->market[i].type, m->type) &&
            (!strcmp(f->market[i].zone, m->zone) || (!*f->market[i].zone && isnan(usd))))
            usd = spot_fleet_usd(f, &f->market[i]);
    return isnan(usd) ? spot_fleet_usd_at_most(f, m) : usd;
}

struct spot_fleet_total spot_fleet_total(const struct spot_fleet *f)
{
    struct spot_fleet_total t = { .usd_per_h = held_usd(f) };

    for (size_t i = 0; i < f->n_market; i++) {
        const struct spot_fleet_market *m = &f->market[i];

        t.target += m->target;
        t.running += m->running;
        t.held += m->running + m->starting + m->leaving;
    }
    for (size_t i = 0; i < f->n_machine; i++)
        t.on_demand_usd_per_h += on_demand_usd(f, &f->market[f->machine[i].market]);
    for (size_t i = 0; i < f->n_intent; i++)
        t.on_demand_usd_per_h +=
            (double)outstanding(&f->intent[i]) * on_demand_usd(f, &f->market[f->intent[i].market]);
    return t;
}
