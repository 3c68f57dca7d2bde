/* SPDX-License-Identifier: MIT */
/* Compares the notices of a source with those reported before, and estimates the offset of its
 * clock. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "cluster/notice/notice_state.h"
#include "common/json_writer.h"
#include "common/prov.h"
#include "common/timestamp.h"

static const double skew_s = 2;            /* smaller offsets are within the resolution of Date */
static const double past_s = -3600;        /* a deadline further back than this, */
static const double ahead_s = 400 * 86400; /* or further ahead than this, is not by this clock */
static const double earlier_s = 0.5, later_min_s = 1, later_max_s = 64;

static const char *const kind_name[] = { "preempt", "rebalance", "maintenance" };
static const char *const state_name[] = { "new", "earlier", "later", "gone" };

const char *spot_notice_kind_name(enum spot_notice_kind kind)
{
    return kind_name[kind];
}

const char *spot_notice_state_name(enum spot_notice_state state)
{
    return state_name[state];
}

static double calendar_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A Date has whole seconds, so it is half a second old on average. */
void spot_notice_set_clock(struct spot_notice_watch *w, const struct spot_http_reply *reply)
{
    double there_s;
    char date[40];

    if (!spot_http_reply_header(reply, "Date", date, sizeof(date)) ||
        spot_timestamp_parse_http(date, &there_s))
        return;
    there_s += 0.5 - calendar_s();
    w->offset_s = fabs(there_s) > skew_s ? there_s : 0;
}

static bool is_likely(double left_s)
{
    return left_s > past_s && left_s < ahead_s;
}

/* The deadline by the clock of the source, or by ours if only that is plausible; NAN if neither
 * is. */
static double deadline_of(struct spot_notice_watch *w, const struct spot_notice_claim *c)
{
    const double ours_s = calendar_s();

    if (isnan(c->deadline_s))
        return ours_s + w->offset_s + c->lead_s;
    if (is_likely(c->deadline_s - ours_s - w->offset_s))
        return c->deadline_s;
    if (!w->has_warned_clock)
        spot_notice_warn(w, "notices of %s: the deadline is %.0f s after the Date of the answer",
                         w->cloud ? w->cloud->name : "", c->deadline_s - ours_s - w->offset_s);
    w->has_warned_clock = true;
    return is_likely(c->deadline_s - ours_s) ? c->deadline_s + w->offset_s : NAN;
}

static void report(struct spot_notice_watch *w, struct spot_notice_seen *seen,
                   enum spot_notice_state state)
{
    const struct spot_notice_claim *const c = &seen->claim;
    struct spot_notice n = { .source = seen->source,
                             .kind = c->kind,
                             .state = state,
                             .is_memory_lost = c->is_memory_lost,
                             .at_s = calendar_s() + w->offset_s,
                             .deadline_s = seen->deadline_s };

    memcpy(n.action, c->action, sizeof(n.action));
    memcpy(n.id, c->id, sizeof(n.id));
    n.left_s = isnan(n.deadline_s) ? NAN : fmax(0, n.deadline_s - n.at_s);
    seen->reported_s = seen->deadline_s;
    if (w->options.noticed)
        w->options.noticed(w->options.user, &n);
    spot_notice_run_hook(w, &n, c);
}

/* A source may postpone the deadline with every answer; this is reported at growing steps. */
static void move(struct spot_notice_watch *w, struct spot_notice_seen *seen, double deadline_s)
{
    if (isnan(deadline_s))
        return; /* a known deadline is kept */
    seen->deadline_s = deadline_s;
    if (isnan(seen->reported_s) || deadline_s < seen->reported_s - earlier_s) {
        report(w, seen, SPOT_NOTICE_EARLIER);
    } else if (deadline_s > seen->reported_s + seen->later_s) {
        seen->later_s = fmin(2 * seen->later_s, later_max_s);
        report(w, seen, SPOT_NOTICE_LATER);
    }
}

/* Whether two claims are the same notice; one that processes survive may become one that they do
 * not. */
static bool is_same(const struct spot_notice_claim *a, const struct spot_notice_claim *b)
{
    return a->kind == b->kind && a->is_memory_lost == b->is_memory_lost && !strcmp(a->id, b->id);
}

static struct spot_notice_seen *find(struct spot_notice_watch *w, size_t query, const char *source,
                                     const struct spot_notice_claim *c)
{
    for (size_t i = 0; i < w->n_seen; i++) {
        struct spot_notice_seen *const s = &w->seen[i];

        if (s->query == query && !strcmp(s->source, source) && is_same(&s->claim, c))
            return s;
    }
    return NULL;
}

/* The event has begun, so no time is left. */
static void begin_early(struct spot_notice_watch *w, struct spot_notice_seen *seen)
{
    const double now_s = calendar_s() + w->offset_s;

    if (isnan(seen->deadline_s) || seen->deadline_s > now_s)
        move(w, seen, now_s);
}

/* Merges duplicate notices of an answer, keeping the nearest deadline. Returns the remaining
 * number. */
static size_t merge(const struct spot_notice_claim *claim, size_t n,
                    struct spot_notice_claim merged[SPOT_NOTICE_CLAIMS_MAX])
{
    size_t n_merged = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < n_merged && !is_same(&merged[k], &claim[i]))
            k++;
        if (k == n_merged) {
            merged[n_merged++] = claim[i];
            continue;
        }
        merged[k].has_begun |= claim[i].has_begun;
        merged[k].deadline_s =
            merged[k].has_begun ? NAN : fmin(merged[k].deadline_s, claim[i].deadline_s);
        merged[k].lead_s = fmin(merged[k].lead_s, claim[i].lead_s);
    }
    return n_merged;
}

bool spot_notice_is_due(const struct spot_notice_watch *w, const char *id)
{
    for (size_t i = 0; i < w->n_seen; i++)
        if (!strcmp(w->seen[i].claim.id, id) && !w->seen[i].claim.has_begun)
            return true;
    return false;
}

static void take_claim(struct spot_notice_watch *w, size_t query, const char *source,
                       const struct spot_notice_claim *c)
{
    struct spot_notice_seen *seen = find(w, query, source, c);

    if (seen) {
        const bool begins = c->has_begun && !seen->claim.has_begun;

        seen->is_reported = true;
        seen->claim.has_begun = c->has_begun;
        if (begins)
            begin_early(w, seen);
        else if (!isnan(c->deadline_s)) /* a time left counts from the first report */
            move(w, seen, deadline_of(w, c));
        return;
    }
    if (w->n_seen == SPOT_NOTICE_CLAIMS_MAX)
        return;
    seen = &w->seen[w->n_seen++];
    *seen = (struct spot_notice_seen){ .claim = *c,
                                       .source = source,
                                       .query = query,
                                       .deadline_s = deadline_of(w, c),
                                       .later_s = later_min_s,
                                       .is_reported = true };
    report(w, seen, SPOT_NOTICE_NEW);
}

void spot_notice_compare(struct spot_notice_watch *w, size_t query,
                         const struct spot_notice_claim *claim, size_t n)
{
    struct spot_notice_claim all[SPOT_NOTICE_CLAIMS_MAX];
    size_t n_kept = 0;

    n = merge(claim, n, all);
    for (size_t i = 0; i < w->n_seen; i++)
        w->seen[i].is_reported = w->seen[i].query != query;
    for (size_t i = 0; i < n; i++) {
        struct spot_notice_claim c = all[i];

        if (!isnan(c.lead_s) && c.lead_s > 0 && w->options.lead_s > 0)
            c.lead_s = w->options.lead_s;
        take_claim(w, query, w->cloud->name, &c);
    }
    for (size_t i = 0; i < w->n_seen; i++) {
        if (!w->seen[i].is_reported)
            report(w, &w->seen[i], SPOT_NOTICE_GONE);
        else
            w->seen[n_kept++] = w->seen[i];
    }
    w->n_seen = n_kept;
}

void spot_notice_add(struct spot_notice_watch *w, const char *source,
                     const struct spot_notice_claim *claim)
{
    take_claim(w, SPOT_NOTICE_QUERIES_MAX, source, claim);
}

int spot_notice_write(const struct spot_notice *n, FILE *out, struct spot_err *err)
{
    char text[SPOT_TIMESTAMP_TEXT];
    struct spot_jw jw;

    spot_jw_init(&jw, out, false);
    spot_jw_begin_doc(&jw, "spot.notice", 1, NULL);
    spot_jw_str(&jw, "source", n->source);
    spot_jw_str(&jw, "kind", kind_name[n->kind]);
    spot_jw_str(&jw, "state", state_name[n->state]);
    spot_jw_str(&jw, "action", n->action);
    spot_jw_bool(&jw, "memory_lost", n->is_memory_lost);
    spot_jw_str(&jw, "at", spot_timestamp_format(n->at_s, text));
    if (!isnan(n->deadline_s)) {
        spot_jw_str(&jw, "deadline", spot_timestamp_format(n->deadline_s, text));
        spot_jw_real(&jw, "left_s", rint(n->left_s * 1e3) / 1e3);
    }
    spot_jw_str(&jw, "id", n->id);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}
