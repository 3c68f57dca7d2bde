/* SPDX-License-Identifier: MIT */
#include "fleet/controller.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backoff.h"
#include "common/utf8.h"
#include "common/xalloc.h"
#include "fleet/controller_state.h"

bool spot_fleet_read_id(const char *text, uint64_t *id)
{
    if (strspn(text, "0123456789abcdef") < SPOT_FLEET_ID_MAX)
        return false;
    *id = 0;
    for (int i = 0; i < SPOT_FLEET_ID_MAX; i++)
        *id = *id << 4 | (uint64_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
    return true;
}

bool spot_fleet_read_name(const char *text, char name[SPOT_FLEET_NAME_MAX + 1], bool *has_id,
                          uint64_t *id)
{
    const size_t n = strcspn(text, "-");

    *has_id = text[n] == '-';
    if (!n || n > SPOT_FLEET_NAME_MAX ||
        (*has_id && (!spot_fleet_read_id(text + n + 1, id) || text[n + 1 + SPOT_FLEET_ID_MAX])))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    memcpy(name, text, n);
    name[n] = '\0';
    return true;
}

struct spot_fleet *spot_fleet_new(const struct spot_fleet_setting *setting, uint64_t id,
                                  double now_s)
{
    struct spot_fleet *f = spot_xcalloc(1, sizeof(*f));

    f->set = *setting;
    f->id = id;
    /* token numbers start at the time in milliseconds, so that they exceed all numbers used before
     * a loss of the state */
    f->n_token = setting->wall_s > 0 ? (uint64_t)(setting->wall_s * 1e3) : 0;
    f->now_s = f->first_s = now_s;
    return f;
}

static void release_machine(struct spot_fleet_machine *m)
{
    free(m->id);
    free(m->token);
}

/* Removes the markets from index n on; nothing refers to them yet. */
static void forget_markets(struct spot_fleet *f, size_t n)
{
    while (f->n_market > n) {
        f->n_market--;
        free(f->market[f->n_market].zone);
        free(f->market[f->n_market].type);
    }
}

void spot_fleet_free(struct spot_fleet *f)
{
    if (!f)
        return;
    forget_markets(f, 0);
    for (size_t i = 0; i < f->n_machine; i++)
        release_machine(&f->machine[i]);
    for (size_t i = 0; i < f->n_intent; i++)
        free(f->intent[i].token);
    free(f->market);
    free(f->machine);
    free(f->intent);
    free(f);
}

void spot_fleet_note(const struct spot_fleet *f, const char *event, const char *machine,
                     const char *fmt, ...)
{
    char why[512];
    va_list ap;

    if (!f->set.note)
        return;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    f->set.note(f->set.user, event, machine, why);
}

void spot_fleet_tell_time(struct spot_fleet *f, double now_s)
{
    if (now_s > f->now_s)
        f->now_s = now_s;
}

double spot_fleet_elapsed_s(const struct spot_fleet *f)
{
    return f->before_s + f->now_s - f->first_s;
}

/* --- markets --- */

static int check_text(const char *text, const char *what, struct spot_err *err)
{
    if (strlen(text) > SPOT_FLEET_TEXT_MAX || !spot_utf8_is_plain(text))
        return spot_err_set(err, SPOT_EDATA, "a %s is longer than %d bytes or not plain text", what,
                            SPOT_FLEET_TEXT_MAX);
    return 0;
}

size_t spot_fleet_market_of(struct spot_fleet *f, const char *zone, const char *type,
                            bool is_on_demand, struct spot_err *err)
{
    struct spot_fleet_market *m;

    for (size_t i = 0; i < f->n_market; i++)
        if (f->market[i].is_on_demand == is_on_demand && !strcmp(f->market[i].zone, zone) &&
            !strcmp(f->market[i].type, type))
            return i;
    if (check_text(zone, "zone", err) || check_text(type, "type", err))
        return SIZE_MAX;
    if (f->n_market == SPOT_FLEET_MARKETS) {
        spot_err_set(err, SPOT_EDATA, "more than %d markets", SPOT_FLEET_MARKETS);
        return SIZE_MAX;
    }
    f->market = spot_xgrow(f->market, &f->cap_market, f->n_market + 1, sizeof(*f->market));
    m = &f->market[f->n_market];
    *m = (struct spot_fleet_market){ .zone = spot_xstrdup(zone),
                                     .type = spot_xstrdup(type),
                                     .is_on_demand = is_on_demand,
                                     .usd_per_h = NAN };
    return f->n_market++;
}

/* Checks a target and adds its markets, without changing any target. */
static int check_target(struct spot_fleet *f, const struct spot_plan_buy *buy, size_t n,
                        struct spot_err *err)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        if (spot_fleet_market_of(f, buy[i].zone, buy[i].type, buy[i].is_on_demand, err) == SIZE_MAX)
            return -1;
        if (buy[i].count < 0 || buy[i].count > SPOT_FLEET_MACHINES - sum)
            return spot_err_set(err, SPOT_EDATA, "expected 0 to %d machines in all, got %lld of %s",
                                SPOT_FLEET_MACHINES, (long long)buy[i].count, buy[i].type);
        sum += buy[i].count;
    }
    return 0;
}

int spot_fleet_set_target(struct spot_fleet *f, const struct spot_plan_buy *buy, size_t n,
                          struct spot_err *err)
{
    const size_t n_market = f->n_market;

    if (check_target(f, buy, n, err)) {
        forget_markets(f, n_market);
        return -1;
    }
    for (size_t i = 0; i < f->n_market; i++)
        f->market[i].target = 0;
    for (size_t i = 0; i < n; i++)
        f->market[spot_fleet_market_of(f, buy[i].zone, buy[i].type, buy[i].is_on_demand, NULL)]
            .target += buy[i].count;
    return 0;
}

int spot_fleet_price(struct spot_fleet *f, const char *zone, const char *type, bool is_on_demand,
                     double usd_per_h, struct spot_err *err)
{
    const size_t i = spot_fleet_market_of(f, zone, type, is_on_demand, err);

    if (i == SIZE_MAX)
        return -1;
    f->market[i].usd_per_h = usd_per_h;
    return 0;
}

double spot_fleet_usd(const struct spot_fleet *f, const struct spot_fleet_market *market)
{
    if (!isnan(market->usd_per_h))
        return market->usd_per_h;
    for (size_t i = 0; i < f->n_market; i++)
        if (!*f->market[i].zone && f->market[i].is_on_demand == market->is_on_demand &&
            !strcmp(f->market[i].type, market->type))
            return f->market[i].usd_per_h;
    return NAN;
}

double spot_fleet_usd_at_most(const struct spot_fleet *f, const struct spot_fleet_market *market)
{
    double usd = spot_fleet_usd(f, market);

    if (!isnan(usd))
        return usd;
    for (size_t i = 0; i < f->n_market; i++)
        usd = fmax(usd, f->market[i].usd_per_h);
    return isnan(usd) ? 0 : usd;
}

void spot_fleet_refused(struct spot_fleet *f, struct spot_fleet_market *market)
{
    market->refusals++;
    market->retry_s = f->now_s + spot_backoff_s(market->refusals, f->set.pause_s, f->set.longest_s);
}

/* --- machines and intents --- */

struct spot_fleet_machine *spot_fleet_add_machine(struct spot_fleet *f, const char *id,
                                                  const char *token, size_t market)
{
    struct spot_fleet_machine *m;

    f->machine = spot_xgrow(f->machine, &f->cap_machine, f->n_machine + 1, sizeof(*f->machine));
    m = &f->machine[f->n_machine++];
    *m = (struct spot_fleet_machine){ .id = spot_xstrdup(id),
                                      .token = spot_xstrdup(token),
                                      .market = market,
                                      .home = market,
                                      .life_s = f->now_s,
                                      .phase_s = f->now_s };
    return m;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct spot_fleet_machine *)a)->id,
                  ((const struct spot_fleet_machine *)b)->id);
}

/* Sorts by id; most machines are already sorted, and the new ones at the end are merged. */
void spot_fleet_sort(struct spot_fleet *f)
{
    struct spot_fleet_machine *const all = f->machine, *tail;
    size_t n = f->n_machine ? 1 : 0, n_tail;

    while (n < f->n_machine && by_id(&all[n - 1], &all[n]) <= 0)
        n++;
    n_tail = f->n_machine - n;
    if (!n_tail)
        return;
    tail = spot_xcalloc(n_tail, sizeof(*tail));
    memcpy(tail, all + n, n_tail * sizeof(*tail));
    qsort(tail, n_tail, sizeof(*tail), by_id);
    for (size_t k = f->n_machine; n_tail > 0; k--)
        all[k - 1] = n && by_id(&all[n - 1], &tail[n_tail - 1]) > 0 ? all[--n] : tail[--n_tail];
    free(tail);
}

/* Finds a machine among the first n, which are sorted by id. */
static struct spot_fleet_machine *find_among(const struct spot_fleet *f, size_t n, const char *id)
{
    const struct spot_fleet_machine key = { .id = (char *)(uintptr_t)id };

    return n ? bsearch(&key, f->machine, n, sizeof(key), by_id) : NULL;
}

struct spot_fleet_machine *spot_fleet_find(const struct spot_fleet *f, const char *id)
{
    return find_among(f, f->n_machine, id);
}

struct spot_fleet_intent *spot_fleet_add_intent(struct spot_fleet *f, const char *token,
                                                size_t market, int64_t count)
{
    struct spot_fleet_intent *t;

    f->intent = spot_xgrow(f->intent, &f->cap_intent, f->n_intent + 1, sizeof(*f->intent));
    t = &f->intent[f->n_intent++];
    *t = (struct spot_fleet_intent){
        .token = spot_xstrdup(token), .market = market, .count = count, .asked_s = f->now_s
    };
    return t;
}

void spot_fleet_drop_intent(struct spot_fleet *f, struct spot_fleet_intent *intent)
{
    free(intent->token);
    *intent = f->intent[--f->n_intent];
}

/* --- processing a list --- */

/* Marks a machine of another zone, type or market than requested. */
static void look_for_wrong(struct spot_fleet *f, struct spot_fleet_machine *m, size_t market)
{
    struct spot_fleet_market *asked = &f->market[m->market];
    const struct spot_fleet_market *is = &f->market[market];

    if (!m->was_asked || m->is_wrong ||
        (!strcmp(asked->type, is->type) && asked->is_on_demand == is->is_on_demand &&
         (!*asked->zone || !strcmp(asked->zone, is->zone))))
        return;
    m->is_wrong = true;
    spot_fleet_note(f, "wrong", m->id, "asked for %s %s in %s, got %s %s in %s", asked->type,
                    asked->is_on_demand ? "on demand" : "on spot",
                    *asked->zone ? asked->zone : "any zone", is->type,
                    is->is_on_demand ? "on demand" : "on spot", is->zone);
    spot_fleet_refused(f, asked);
}

/* The market requested with that token; SIZE_MAX: not recorded. */
static size_t asked_for(const struct spot_fleet *f, const char *token)
{
    for (size_t i = 0; i < f->n_intent; i++)
        if (!strcmp(f->intent[i].token, token))
            return f->intent[i].market;
    return SIZE_MAX;
}

/* Records a listed machine; the first n_old machines were known before the list. */
static void take_in(struct spot_fleet *f, size_t n_old, const struct spot_fleet_listed *l,
                    size_t market)
{
    struct spot_fleet_machine *m = find_among(f, n_old, l->id);

    if (!m && l->life == SPOT_FLEET_GONE)
        return;
    if (!m) {
        const size_t asked = asked_for(f, l->token);

        m = spot_fleet_add_machine(f, l->id, l->token, asked == SIZE_MAX ? market : asked);
        m->was_asked = asked != SIZE_MAX;
        spot_fleet_note(f, asked == SIZE_MAX ? "adopted" : "launched", l->id, "%s", l->token);
    }
    look_for_wrong(f, m, market);
    if (!m->is_listed && l->life != SPOT_FLEET_GONE)
        spot_fleet_note(f, "appeared", l->id, "%s in %s", l->type, l->zone);
    m->market = market;
    m->is_listed = true;
    m->missed = 0;
    if (m->life != l->life)
        m->life_s = f->now_s;
    m->life = l->life;
}

static bool is_gone(const struct spot_fleet *f, const struct spot_fleet_machine *m)
{
    if (m->life == SPOT_FLEET_GONE || m->is_foreign)
        return true;
    return m->missed >= 2 && (m->is_listed || f->now_s - m->life_s >= f->set.settle_s);
}

static void drop_gone(struct spot_fleet *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_machine; i++) {
        struct spot_fleet_machine *m = &f->machine[i];

        if (!is_gone(f, m)) {
            f->machine[n++] = *m;
            continue;
        }
        spot_fleet_note(f, "gone", m->id, "%s",
                        m->phase != SPOT_FLEET_STAYS ? "ended"
                        : m->is_foreign              ? "never ours"
                        : m->is_listed               ? "taken away"
                                                     : "never listed");
        if (!m->is_listed && m->phase == SPOT_FLEET_STAYS)
            spot_fleet_refused(f, &f->market[m->market]);
        release_machine(m);
    }
    f->n_machine = n;
}

/* True if the token has the form and name of this fleet; *id: its identity. */
static bool read_token(const struct spot_fleet *f, const char *token, uint64_t *id)
{
    const size_t n = strlen(f->set.name), n_id = n + 1 + SPOT_FLEET_ID_MAX;
    const char *number;

    if (strlen(token) <= n_id + 1 || strlen(token) >= SPOT_FLEET_TOKEN_MAX)
        return false;
    number = token + n_id + 1;
    return !strncmp(token, f->set.name, n) && token[n] == '-' &&
           spot_fleet_read_id(token + n + 1, id) && token[n_id] == '-' && *number != '0' &&
           strspn(number, "0123456789") == strlen(number);
}

bool spot_fleet_is_own(const struct spot_fleet *f, const char *token)
{
    uint64_t id;

    return read_token(f, token, &id) && id == f->id;
}

/* Notes machines of the same name with another identity: this fleet may have lost its state. */
static void note_stranger(const struct spot_fleet *f, const struct spot_fleet_listed *listed,
                          size_t n)
{
    uint64_t id;

    if (f->n_machine || f->n_intent)
        return;
    for (size_t i = 0; i < n; i++)
        if (read_token(f, listed[i].token, &id) && id != f->id) {
            spot_fleet_note(f, "stranger", listed[i].id,
                            "of %s-%016llx, which has another state; a new state under that name "
                            "adopts it",
                            f->set.name, (unsigned long long)id);
            return;
        }
}

/* Machines that a launch reported, but that have the token of another fleet, are left alone. One
 * without a token in the list counts as not listed yet. */
static void look_for_foreign(struct spot_fleet *f, const struct spot_fleet_listed *listed, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct spot_fleet_machine *m = *listed[i].token && !spot_fleet_is_own(f, listed[i].token)
                                           ? spot_fleet_find(f, listed[i].id)
                                           : NULL;

        if (!m)
            continue;
        m->is_foreign = true;
        spot_fleet_note(f, "wrong", m->id, "launched as %s, and listed as %s", m->token,
                        listed[i].token);
        spot_fleet_refused(f, &f->market[m->market]);
    }
}

static int compare_listed(const void *a, const void *b)
{
    return strcmp(((const struct spot_fleet_listed *)a)->id,
                  ((const struct spot_fleet_listed *)b)->id);
}

/* Selects the fleet's own machines, sorted by id, with their markets; NULL with *err. */
static struct spot_fleet_listed *pick_own(struct spot_fleet *f,
                                          const struct spot_fleet_listed *listed, size_t n,
                                          size_t *n_own, struct spot_err *err)
{
    struct spot_fleet_listed *own = spot_xcalloc(n + 1, sizeof(*own));

    *n_own = 0;
    for (size_t i = 0; i < n; i++) {
        if (!spot_fleet_is_own(f, listed[i].token))
            continue;
        if (check_text(listed[i].id, "machine's id", err) ||
            spot_fleet_market_of(f, listed[i].zone, listed[i].type, listed[i].is_on_demand, err) ==
                SIZE_MAX) {
            free(own);
            return NULL;
        }
        own[(*n_own)++] = listed[i];
    }
    if (*n_own > SPOT_FLEET_MACHINES) {
        spot_err_set(err, SPOT_EDATA, "more than %d machines of the fleet", SPOT_FLEET_MACHINES);
        free(own);
        return NULL;
    }
    qsort(own, *n_own, sizeof(*own), compare_listed);
    return own;
}

int spot_fleet_observe(struct spot_fleet *f, double now_s, const struct spot_fleet_listed *listed,
                       size_t n, size_t *n_foreign, struct spot_err *err)
{
    const size_t n_old = f->n_machine;
    size_t n_own;
    struct spot_fleet_listed *own = pick_own(f, listed, n, &n_own, err);

    if (!own)
        return -1;
    spot_fleet_tell_time(f, now_s);
    note_stranger(f, listed, n);
    look_for_foreign(f, listed, n);
    for (size_t i = 0; i < f->n_machine; i++)
        f->machine[i].missed++;
    for (size_t i = 0; i < n_own; i++) {
        if (i && !strcmp(own[i].id, own[i - 1].id)) {
            spot_fleet_note(f, "twice", own[i].id, "one list has it twice");
            continue;
        }
        take_in(f, n_old, &own[i],
                spot_fleet_market_of(f, own[i].zone, own[i].type, own[i].is_on_demand, NULL));
    }
    for (size_t i = 0; i < f->n_intent; i++)
        f->intent[i].missed++;
    spot_fleet_sort(f);
    drop_gone(f);
    spot_fleet_count(f);
    if (n_foreign)
        *n_foreign = n - n_own;
    free(own);
    return 0;
}
