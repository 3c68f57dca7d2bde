/* SPDX-License-Identifier: MIT */
#include "forecast/tracked.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/out.h"
#include "common/version.h"
#include "common/xalloc.h"

enum { STATE_BYTE_MAX = 1 << 30, NAME_MAX = 4096 };

static int by_name(const struct spot_tracked *t, const char *zone, const char *instance_type)
{
    const int c = strcmp(t->zone, zone);

    return c ? c : strcmp(t->instance_type, instance_type);
}

struct spot_tracked *spot_trackeds_find(const struct spot_trackeds *trackeds, const char *zone,
                                        const char *instance_type)
{
    size_t lo = 0, hi = trackeds->n;

    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        const int c = by_name(&trackeds->series[mid], zone, instance_type);

        if (!c)
            return &trackeds->series[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static struct spot_tracked *insert(struct spot_trackeds *trackeds, const char *zone,
                                   const char *instance_type)
{
    size_t at = trackeds->n;

    trackeds->series =
        spot_xgrow(trackeds->series, &trackeds->cap, trackeds->n + 1, sizeof(*trackeds->series));
    while (at > 0 && by_name(&trackeds->series[at - 1], zone, instance_type) > 0)
        at--;
    memmove(trackeds->series + at + 1, trackeds->series + at,
            (trackeds->n - at) * sizeof(*trackeds->series));
    trackeds->n++;
    trackeds->series[at] = (struct spot_tracked){ .zone = spot_xstrdup(zone),
                                                  .instance_type = spot_xstrdup(instance_type) };
    return &trackeds->series[at];
}

/* The tables of the counting models depend on the cap. When it changes they start again: with all
 * values seen, if the grid still has them, else with the newest ones that are kept. */
static void change_cap(struct spot_tracked *t, const struct spot_forecaster *model,
                       struct spot_fc_spec spec, const struct spot_count_grid *g, size_t taken)
{
    struct spot_predictor *old = t->predictor;
    int recent[SPOT_FC_PAST];
    const bool has_all = taken == t->n;
    const int *y = has_all ? g->y : recent;
    const size_t n = has_all ? taken : old ? spot_predictor_recent(old, recent, SPOT_FC_PAST) : 0;

    spec.cap = t->cap = g->cap;
    t->predictor = spot_predictor_new(model, &spec);
    for (size_t i = 0; i < n; i++)
        spot_predictor_observe(t->predictor, y[i]);
    spot_predictor_free(old);
}

/* The probabilities of the chain change less and less, so they are stored less and less often;
 * plans based on them can be reused meanwhile. The context is always the newest. */
static void learn_chain(struct spot_tracked *t, int y)
{
    enum { BETWEEN = 16 };

    if (!t->n)
        spot_count_chain_init(&t->chain, 0);
    else
        spot_count_chain_observe(&t->chain, t->now, y);
    if (t->n >= t->law_next) {
        spot_count_chain_law(&t->chain, &t->law);
        t->law_at = t->n;
        t->law_next = t->n + BETWEEN + t->n / 8;
    }
    t->law.context = t->chain.context;
}

/* The time of the next point. If a call continues from a state its grid begins at the newest point
 * instead of the first, and times from there would be rounded differently. */
static double next_point_s(const struct spot_tracked *t, const struct spot_count_grid *g, size_t i)
{
    return t->n ? t->past.since_s + (double)t->n * g->interval_s
                : g->start_s + (double)i * g->interval_s;
}

/* Take in point i of the grid, at time_s. */
static void take_point(struct spot_tracked *t, const struct spot_count_grid *g, size_t i,
                       double time_s)
{
    spot_predictor_observe(t->predictor, g->y[i]);
    learn_chain(t, g->y[i]);
    if (!t->n)
        t->past = (struct spot_tracked_past){ .since_s = time_s };
    t->past.lost += t->n ? g->lost[i] : 0;
    t->past.instance_s += t->n ? t->now * (time_s - t->time_s) : 0;
    if (t->n) {
        spot_turnover_observe(&t->turnover, g->lost[i], g->gained[i]);
        spot_neighbours_observe(&t->neighbours, g->interval_s, t->now, g->lost[i]);
    }
    t->n_change += t->n && g->y[i] != t->now;
    t->n++;
    t->now = g->y[i];
    t->time_s = time_s;
}

struct spot_tracked *spot_trackeds_take(struct spot_trackeds *trackeds,
                                        const struct spot_forecaster *model,
                                        struct spot_fc_spec spec, const struct spot_count_grid *g)
{
    struct spot_tracked *t = spot_trackeds_find(trackeds, g->zone, g->instance_type);
    size_t i = 0;

    if (!t) {
        t = insert(trackeds, g->zone, g->instance_type);
        t->time_s = g->start_s;
    }
    if (t->n)
        i = (size_t)fmax(0, floor((t->time_s - g->start_s) / g->interval_s + 0.5) + 1);
    if (!t->predictor || g->cap != t->cap)
        change_cap(t, model, spec, g, i);
    for (; i < g->n - g->is_unsettled; i++)
        take_point(t, g, i, next_point_s(t, g, i));
    t->now = t->now > t->cap ? t->cap : t->now;
    t->newest = g->newest;
    t->lowest = g->lowest;
    return t;
}

static struct spot_predictor *copy_predictor(const struct spot_tracked *t,
                                             const struct spot_forecaster *model,
                                             struct spot_fc_spec spec)
{
    struct spot_predictor *copy;
    char *bytes = NULL;
    size_t n_byte;
    FILE *memory;
    struct spot_err err = { 0 };

    spec.cap = t->cap;
    copy = spot_predictor_new(model, &spec);
    if (!t->n)
        return copy;
    memory = spot_xmemory_open(&bytes, &n_byte);
    spot_predictor_save(t->predictor, memory);
    spot_xmemory_close(memory);
    if (spot_predictor_restore(copy, bytes, n_byte, &err))
        assert(!"what was saved just now is restored");
    free(bytes);
    return copy;
}

void spot_tracked_look(const struct spot_tracked *t, const struct spot_forecaster *model,
                       struct spot_fc_spec spec, const struct spot_count_grid *g,
                       struct spot_tracked *newest)
{
    const size_t last = g->n - 1;

    *newest = *t;
    if (!g->is_unsettled)
        return;
    newest->predictor = copy_predictor(t, model, spec);
    take_point(newest, g, last, g->is_open ? g->end_s : next_point_s(t, g, last));
    newest->now = newest->now > t->cap ? t->cap : newest->now;
}

void spot_trackeds_release(struct spot_trackeds *trackeds)
{
    for (size_t i = 0; i < trackeds->n; i++) {
        free(trackeds->series[i].zone);
        free(trackeds->series[i].instance_type);
        spot_predictor_free(trackeds->series[i].predictor);
    }
    free(trackeds->series);
    memset(trackeds, 0, sizeof(*trackeds));
}

/* --- the file: a header line, the payload, its hash --- */

static void head_line(const struct spot_tracked_key *key, char *line, size_t n_byte)
{
    snprintf(line, n_byte, "spot-predict-state/4 %s %s interval_s=%.17g horizon=%d history=%d\n",
             spot_version(), key->model, key->interval_s, key->horizon, key->history);
}

struct record {
    double time_s;
    int64_t now, cap, newest, lowest, n, n_change, zone_byte, type_byte, predictor_byte, law_at,
        law_next;
    struct spot_tracked_past past;
    struct spot_turnover turnover;
    struct spot_neighbours neighbours;
    struct spot_count_chain chain;
    struct spot_count_law law;
};

static void put_record(const struct spot_tracked *t, FILE *out)
{
    struct record r = { t->time_s,
                        t->now,
                        t->cap,
                        t->newest,
                        t->lowest,
                        (int64_t)t->n,
                        (int64_t)t->n_change,
                        (int64_t)strlen(t->zone),
                        (int64_t)strlen(t->instance_type),
                        0,
                        (int64_t)t->law_at,
                        (int64_t)t->law_next,
                        t->past,
                        t->turnover,
                        t->neighbours,
                        t->chain,
                        t->law };
    char *bytes = NULL;
    size_t n_byte;
    FILE *memory = spot_xmemory_open(&bytes, &n_byte);

    if (t->n)
        r.predictor_byte = (int64_t)spot_predictor_save(t->predictor, memory);
    spot_xmemory_close(memory);
    fwrite(&r, sizeof(r), 1, out);
    fwrite(t->zone, 1, (size_t)r.zone_byte, out);
    fwrite(t->instance_type, 1, (size_t)r.type_byte, out);
    fwrite(bytes, 1, n_byte, out);
    free(bytes);
}

int spot_trackeds_save(const struct spot_trackeds *trackeds, const char *path,
                       const struct spot_tracked_key *key, struct spot_err *err)
{
    char *bytes = NULL, line[512];
    size_t n_byte;
    FILE *memory = spot_xmemory_open(&bytes, &n_byte);
    struct spot_out out;
    uint64_t hash;
    int rc;

    head_line(key, line, sizeof(line));
    fputs(line, memory);
    for (size_t i = 0; i < trackeds->n; i++)
        put_record(&trackeds->series[i], memory);
    spot_xmemory_close(memory);
    hash = spot_hash64(bytes, n_byte);
    rc = spot_out_open(&out, path, err);
    if (!rc) {
        fwrite(bytes, 1, n_byte, out.file);
        fwrite(&hash, sizeof(hash), 1, out.file);
        rc = spot_out_finish(&out, 0, err);
    }
    free(bytes);
    return rc;
}

/* True if a chain can have reached these counts and probabilities. */
static bool chain_is_sound(const struct spot_count_chain *c, const struct spot_count_law *law)
{
    bool is_sound = !c->law && c->cap >= 0 && c->context >= 0 && c->recent >= 0 && c->calm >= 0 &&
                    c->context < SPOT_CHAIN_CONTEXTS && c->recent < SPOT_CHAIN_RECENT &&
                    c->size_max == SPOT_CHAIN_SIZE_MAX && law->context == c->context;

    for (int x = 0; x < SPOT_CHAIN_CONTEXTS; x++) {
        for (int i = 0; i < 3; i++)
            is_sound &= isfinite(c->seen[x][i]) && c->seen[x][i] >= 0;
        is_sound &= law->loss[x] >= 0 && law->gain[x] >= 0 && law->loss[x] + law->gain[x] <= 1;
    }
    for (int k = 0; k <= SPOT_CHAIN_SIZE_MAX; k++)
        is_sound &= isfinite(c->size[0][k]) && c->size[0][k] >= 0 && isfinite(c->size[1][k]) &&
                    c->size[1][k] >= 0 && law->lost[k] >= 0 && law->lost[k] <= 1 &&
                    law->gained[k] >= 0 && law->gained[k] <= 1;
    return is_sound;
}

static bool record_is_sound(const struct record *r, size_t left)
{
    return isfinite(r->time_s) && r->past.since_s <= r->time_s && r->past.lost >= 0 &&
           isfinite(r->past.since_s + r->past.lost + r->past.instance_s) &&
           r->past.instance_s >= 0 && r->cap >= 0 && r->cap <= SPOT_FC_CAP_MAX && r->now >= 0 &&
           r->now <= r->cap && r->newest >= 0 && r->newest <= INT32_MAX && r->lowest >= 0 &&
           r->lowest <= INT32_MAX && r->n >= 0 && r->n_change >= 0 && r->zone_byte >= 0 &&
           r->zone_byte <= NAME_MAX && r->type_byte >= 0 && r->type_byte <= NAME_MAX &&
           r->predictor_byte >= 0 && (!r->n || chain_is_sound(&r->chain, &r->law)) &&
           spot_neighbours_is_sound(&r->neighbours) &&
           (size_t)(r->zone_byte + r->type_byte) + (size_t)r->predictor_byte <= left;
}

static char *take_text(const char **at, int64_t n_byte)
{
    char *text = spot_xcalloc((size_t)n_byte + 1, 1);

    memcpy(text, *at, (size_t)n_byte);
    *at += n_byte;
    return text;
}

static int take_record(struct spot_trackeds *trackeds, const struct spot_forecaster *model,
                       struct spot_fc_spec spec, const char **at, const char *end,
                       struct spot_err *err)
{
    struct record r;
    struct spot_tracked *t;
    char *zone, *type;

    if ((size_t)(end - *at) < sizeof(r))
        return spot_err_set(err, SPOT_EDATA, "is cut");
    memcpy(&r, *at, sizeof(r));
    *at += sizeof(r);
    if (!record_is_sound(&r, (size_t)(end - *at)))
        return spot_err_set(err, SPOT_EDATA, "is damaged");
    zone = take_text(at, r.zone_byte);
    type = take_text(at, r.type_byte);
    t = insert(trackeds, zone, type);
    free(zone);
    free(type);
    t->time_s = r.time_s;
    t->now = (int)r.now;
    t->cap = spec.cap = (int)r.cap;
    t->newest = (int)r.newest;
    t->lowest = (int)r.lowest;
    t->n = (size_t)r.n;
    t->n_change = (size_t)r.n_change;
    t->past = r.past;
    t->turnover = r.turnover;
    t->neighbours = r.neighbours;
    t->chain = r.chain;
    t->law = r.law;
    t->law_at = (size_t)r.law_at;
    t->law_next = (size_t)r.law_next;
    *at += r.predictor_byte;
    if (!t->n) /* it is created with the first value */
        return 0;
    t->predictor = spot_predictor_new(model, &spec);
    return spot_predictor_restore(t->predictor, *at - r.predictor_byte, (size_t)r.predictor_byte,
                                  err);
}

static int take_all(struct spot_trackeds *trackeds, const char *bytes, size_t n_byte,
                    const struct spot_tracked_key *key, const struct spot_forecaster *model,
                    const struct spot_fc_spec *spec, struct spot_err *err)
{
    const char *at = bytes, *end = bytes + n_byte - sizeof(uint64_t);
    char line[512];
    uint64_t hash;

    head_line(key, line, sizeof(line));
    if (n_byte < strlen(line) + sizeof(hash) || memcmp(bytes, line, strlen(line)) != 0)
        return spot_err_set(err, SPOT_EDATA,
                            "is of another version, model, interval, horizon or history; remove "
                            "it to start again");
    memcpy(&hash, end, sizeof(hash));
    if (hash != spot_hash64(bytes, (size_t)(end - bytes)))
        return spot_err_set(err, SPOT_EDATA, "is damaged; remove it to start again");
    at += strlen(line);
    while (at < end)
        if (take_record(trackeds, model, *spec, &at, end, err))
            return -1;
    return 0;
}

int spot_trackeds_load(struct spot_trackeds *trackeds, const char *path,
                       const struct spot_tracked_key *key, const struct spot_forecaster *model,
                       const struct spot_fc_spec *spec, struct spot_err *err)
{
    FILE *in = fopen(path, "re");
    char *bytes = NULL;
    size_t n = 0, cap = 0, got;
    int rc;

    if (!in) /* no file: this is the first call */
        return errno == ENOENT ? 0 : spot_err_sys(err, "cannot read the state '%s'", path);
    do {
        bytes = spot_xgrow(bytes, &cap, n + 65536, 1);
        got = fread(bytes + n, 1, cap - n, in);
        n += got;
    } while (got && n < STATE_BYTE_MAX);
    if (ferror(in)) {
        rc = spot_err_sys(err, "cannot read the state '%s'", path);
        fclose(in);
        free(bytes);
        return rc;
    }
    fclose(in);
    rc = take_all(trackeds, bytes, n, key, model, spec, err);
    if (rc) {
        struct spot_err what = *err;

        spot_err_set(err, SPOT_EDATA, "%s: %.400s", path, what.msg);
        spot_trackeds_release(trackeds);
    }
    free(bytes);
    return rc;
}
