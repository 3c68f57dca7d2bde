/* SPDX-License-Identifier: MIT */
/* Goal: what the writer writes the reader reads, of every kind; an event may come after what came
 * where the rules of docs/formats/event.md say so, and nowhere else. Oracle: the rules stated again
 * over the whole history of the log, without a state that goes along. */
#include "model/event.h"

#include <inttypes.h>
#include <string.h>

#include "common/rng.h"
#include "model/event_order.h"
#include "suite.h"

enum { N_MAX = 60, RUNS = 30000 };

static const char *name_of(enum spot_event_kind kind)
{
    return spot_event_part[kind].when;
}

/* --- the writer and the reader --------------------------------------------- */

/* Every field that the table has, with a value that fits it. */
static void write_fields(struct spot_jw *jw, const struct spot_field *f, struct spot_event *e,
                         struct spot_rng *rng)
{
    static const char hex[] = "0123456789abcdef0123456789abcdef";

    for (; f->key; f++) {
        char *const at = (char *)e + f->offset;
        const uint64_t span = f->max - f->min >= 1 ? (uint64_t)(f->max - f->min) : 1000;

        if (f->type == SPOT_F_INT) {
            const int64_t x = (int64_t)f->min + 1 + (int64_t)spot_rng_below(rng, span);

            memcpy(at, &x, sizeof(x));
            spot_jw_int(jw, f->key, x);
        } else if (f->type == SPOT_F_REAL) {
            const double x = spot_rng_unit(rng) * 100;

            memcpy(at, &x, sizeof(x));
            spot_jw_real(jw, f->key, x);
        } else if (f->type == SPOT_F_BOOL) {
            const bool x = spot_rng_below(rng, 2);

            memcpy(at, &x, sizeof(x));
            spot_jw_bool(jw, f->key, x);
        } else {
            const char *const x = f->unit                     ? hex + 32 - (int)f->max
                                  : !strcmp(f->key, "finish") ? "cancelled"
                                                              : "a \"name\"\n";

            memcpy(at, &x, sizeof(x));
            spot_jw_str(jw, f->key, x);
        }
    }
}

static void expect_fields(const struct spot_field *f, const struct spot_event *got,
                          const struct spot_event *want)
{
    for (; f->key; f++) {
        const char *const a = (const char *)got + f->offset, *const b =
                                                                 (const char *)want + f->offset;

        if (f->type == SPOT_F_STR)
            ck_assert_str_eq(*(char *const *)(const void *)a, *(char *const *)(const void *)b);
        else if (f->type == SPOT_F_BOOL)
            ck_assert_int_eq(*(const bool *)a, *(const bool *)b);
        else
            ck_assert_msg(!memcmp(a, b, 8), "%s of %s", f->key, want->name);
    }
}

START_TEST(what_is_written_is_read_of_every_kind)
{
    struct spot_event want[N_MAX];
    struct spot_rng rng;

    spot_rng_init(&rng, 7, 0);
    for (int run = 0; run < 200; run++) {
        struct spot_event_log log = { .source = "log" };
        struct spot_event got;
        struct spot_err err = { 0 };
        char *text = NULL;
        size_t n_byte;
        FILE *out = open_memstream(&text, &n_byte);

        for (int i = 0; i < N_MAX; i++) {
            struct spot_event *const e = &want[i];
            struct spot_jw jw;

            *e = (struct spot_event){ .kind = 1 + (int)spot_rng_below(&rng, SPOT_EVENT_KINDS - 1),
                                      .time_s = (double)(run * i) / 64 };
            e->name = name_of(e->kind);
            spot_event_begin(&jw, out, NULL, e->name, e->time_s);
            write_fields(&jw, spot_event_part[e->kind].field, e, &rng);
            if (e->kind == SPOT_EVENT_COMMITTED)
                spot_jw_ints(&jw, "samples", &(int64_t){ i }, 1);
            if (e->kind == SPOT_EVENT_TOKEN)
                spot_jw_ints(&jw, "between", (int64_t[]){ 0, i }, 2);
            ck_assert(!spot_event_end(&jw, &err));
        }
        fclose(out);
        log.in = fmemopen(text, n_byte, "r");
        for (int i = 0; i < N_MAX; i++) {
            ck_assert_msg(spot_event_next(&log, &got, &err) == 1, "%s", err.msg);
            ck_assert_int_eq(got.kind, want[i].kind);
            ck_assert_str_eq(got.name, want[i].name);
            ck_assert_double_eq(got.time_s, want[i].time_s);
            expect_fields(spot_event_part[got.kind].field, &got, &want[i]);
            if (got.kind == SPOT_EVENT_TOKEN)
                ck_assert_int_eq(spot_json_integer(spot_json_entry(got.between, 1)), i);
            ck_assert_uint_eq(log.number, (unsigned long)i + 1);
        }
        ck_assert_int_eq(spot_event_next(&log, &got, &err), 0);
        ck_assert_uint_eq(log.end_byte, n_byte);
        fclose(log.in);
        free(text);
        spot_event_log_release(&log);
    }
}
END_TEST

START_TEST(lines_by_hand_may_lack_what_a_job_writes)
{
    char text[] = "{\"event\":\"joined\",\"time_s\":5}\n\n  "
                  "\n{\"event\":\"notice\",\"time_s\":4,\"name\":\"a\"}\n"
                  "{\"event\":\"left\",\"time_s\":4,\"member\":\"a\"}\n";
    struct spot_event_log log = { .source = "log", .is_partial = true };
    struct spot_event e;
    struct spot_err err = { 0 };

    log.in = fmemopen(text, strlen(text), "r");
    ck_assert_int_eq(spot_event_next(&log, &e, &err), 1);
    ck_assert_int_eq(e.kind, SPOT_EVENT_JOINED);
    ck_assert(!e.who && !e.member && !e.is_job);
    ck_assert_int_eq(spot_event_next(&log, &e, &err), 1);
    ck_assert_int_eq(e.kind, SPOT_EVENT_NOTICE);
    ck_assert_str_eq(e.who, "a");
    ck_assert_uint_eq(log.number, 4);
    ck_assert_int_eq(spot_event_next(&log, &e, &err), -1);
    ck_assert_msg(!strncmp(err.msg, "log:5:", 6), "%s", err.msg);
    fclose(log.in);
    spot_event_log_release(&log);
}
END_TEST

/* --- the order ------------------------------------------------------------- */

struct history {
    struct spot_event e[N_MAX];
    int n;
};

static bool is(const struct spot_event *e, enum spot_event_kind kind)
{
    return e->kind == kind;
}

/* Where the newest of the kinds is, -1: nowhere. */
static int newest(const struct history *h, uint32_t kinds)
{
    for (int i = h->n; i-- > 0;)
        if (kinds >> h->e[i].kind & 1)
            return i;
    return -1;
}

#define OF(kind) (1U << SPOT_EVENT_##kind)

static int64_t epoch_of(const struct history *h)
{
    const int i = newest(h, OF(RESUMED) | OF(QUIESCE));

    return i < 0 ? 0 : h->e[i].epoch;
}

static int64_t step_of(const struct history *h)
{
    const int i = newest(h, OF(RESUMED) | OF(COMMITTED) | OF(ROLLED_BACK) | OF(RESTORED));

    return i < 0 ? 0 : is(&h->e[i], SPOT_EVENT_ROLLED_BACK) ? h->e[i].to : h->e[i].step;
}

static int64_t step_max_of(const struct history *h)
{
    int64_t max = 0;

    for (int i = 0; i < h->n; i++)
        if ((OF(RESUMED) | OF(COMMITTED) | OF(RESTORED)) >> h->e[i].kind & 1 && h->e[i].step > max)
            max = h->e[i].step;
    return max;
}

/* Has the member joined since the newest restart, and not gone; was it noticed? */
static bool is_member(const struct history *h, int64_t id, bool *is_noticed)
{
    bool is_there = *is_noticed = false;

    for (int i = newest(h, OF(RESUMED)) + 1; i < h->n; i++) {
        if (h->e[i].member != id)
            continue;
        is_there = is(&h->e[i], SPOT_EVENT_JOINED) || is(&h->e[i], SPOT_EVENT_NOTICE);
        *is_noticed |= is(&h->e[i], SPOT_EVENT_NOTICE);
    }
    return is_there;
}

static int64_t members_of(const struct history *h, int64_t *id_max)
{
    int64_t n = 0;

    *id_max = 0;
    for (int i = newest(h, OF(RESUMED)) + 1; i < h->n; i++) {
        n += is(&h->e[i], SPOT_EVENT_JOINED);
        n -= is(&h->e[i], SPOT_EVENT_LEFT) || is(&h->e[i], SPOT_EVENT_LOST);
        if (is(&h->e[i], SPOT_EVENT_JOINED))
            *id_max = h->e[i].member;
    }
    return n;
}

/* The newest of what makes an epoch. */
static enum spot_event_kind phase_of(const struct history *h)
{
    const int i = newest(h, OF(RESUMED) | OF(QUIESCE) | OF(MIGRATE) | OF(FORMED));

    return i < 0 ? SPOT_EVENT_RESUMED : h->e[i].kind;
}

static bool is_begun(const struct history *h)
{
    return newest(h, OF(STEP)) > newest(h, OF(COMMITTED) | OF(RESUMED) | OF(QUIESCE));
}

static bool may_resume(const struct history *h, const struct spot_event *e)
{
    const int r = newest(h, OF(RESUMED));

    return e->epoch >= epoch_of(h) && e->step >= step_of(h) &&
           (r < 0 || newest(h, OF(FORMED)) > r || e->time_s > h->e[r].time_s);
}

static bool may_come(const struct history *h, const struct spot_event *e)
{
    const int64_t step = step_of(h);
    const bool is_epoch = e->epoch == epoch_of(h), is_here = is_epoch && e->step == step;
    const enum spot_event_kind phase = phase_of(h);
    bool is_noticed;
    int64_t id_max;
    const int64_t members = members_of(h, &id_max);
    const bool is_there = is_member(h, e->member, &is_noticed);

    if (h->n && is(&h->e[h->n - 1], SPOT_EVENT_DONE) && !is(e, SPOT_EVENT_RESUMED))
        return false;
    switch (e->kind) {
    case SPOT_EVENT_JOINED:
        return is_here && e->member > id_max && e->members == members + 1;
    case SPOT_EVENT_NOTICE:
        return is_here && is_there && !is_noticed;
    case SPOT_EVENT_LEFT:
        return is_here && is_there && is_noticed;
    case SPOT_EVENT_LOST:
        return is_here && is_there;
    case SPOT_EVENT_RESUMED:
        return may_resume(h, e);
    case SPOT_EVENT_QUIESCE:
        return e->epoch > epoch_of(h) && e->step == step;
    case SPOT_EVENT_ROLLED_BACK:
        return phase == SPOT_EVENT_QUIESCE && is_epoch && e->from == step && e->to < step &&
               e->step == e->to;
    case SPOT_EVENT_RESTORED:
        return phase == SPOT_EVENT_QUIESCE && is_epoch && e->from == step && e->step > step;
    case SPOT_EVENT_MIGRATE:
        return phase == SPOT_EVENT_QUIESCE && is_here;
    case SPOT_EVENT_FORMED:
        return phase == SPOT_EVENT_MIGRATE && is_here && e->members == members &&
               spot_grid_size(&e->grid) <= members;
    case SPOT_EVENT_STEP:
        return phase == SPOT_EVENT_FORMED && is_epoch && e->step == step + 1;
    case SPOT_EVENT_COMMITTED:
        return phase == SPOT_EVENT_FORMED && is_epoch && e->step == step + 1 && is_begun(h);
    case SPOT_EVENT_DIFFERS:
        return phase == SPOT_EVENT_FORMED && is_here && is_begun(h);
    case SPOT_EVENT_CORRUPT:
        return phase == SPOT_EVENT_FORMED && is_here;
    case SPOT_EVENT_DURABLE:
        return is_epoch && e->step <= step_max_of(h);
    case SPOT_EVENT_DONE:
    case SPOT_EVENT_VALIDATED:
        return phase == SPOT_EVENT_FORMED && is_here && !is_begun(h);
    case SPOT_EVENT_LR_CHANGED:
        return is_here && !members && e->after <= e->step;
    default:
        return true;
    }
}

/* An event that mostly might be, and often is a little wrong. */
static struct spot_event draw(const struct history *h, struct spot_rng *rng)
{
    const uint64_t n_off = spot_rng_below(rng, 4) ? 1 : 3; /* 1: nothing is off */
    const int64_t off = (int64_t)spot_rng_below(rng, n_off) - (n_off > 1);
    int64_t id_max;
    const int64_t step = step_of(h), members = members_of(h, &id_max);
    struct spot_event e = { .kind = 1 + (int)spot_rng_below(rng, SPOT_EVENT_SERVING - 1),
                            .is_job = true,
                            .epoch = epoch_of(h) + (spot_rng_below(rng, 8) ? 0 : off),
                            .step = step + (spot_rng_below(rng, 3) ? 0 : off),
                            .from = step + (spot_rng_below(rng, 3) ? 0 : off),
                            .member = 1 + (int64_t)spot_rng_below(rng, (uint64_t)id_max + 2),
                            .members = members + off,
                            .grid.D = 1 + (int64_t)spot_rng_below(rng, 2),
                            .grid.P = 1,
                            .grid.M = 1 + (int64_t)spot_rng_below(rng, 2),
                            .time_s = h->n ? h->e[h->n - 1].time_s : 0 };

    e.name = name_of(e.kind);
    e.time_s += (double)spot_rng_below(rng, 2);
    e.epoch += is(&e, SPOT_EVENT_QUIESCE);
    e.step +=
        is(&e, SPOT_EVENT_STEP) || is(&e, SPOT_EVENT_COMMITTED) || is(&e, SPOT_EVENT_RESTORED);
    e.to = e.from - 1;
    e.after = e.step + (spot_rng_below(rng, 3) ? 0 : off);
    if (is(&e, SPOT_EVENT_ROLLED_BACK) && spot_rng_below(rng, 3))
        e.step = e.to;
    e.members += is(&e, SPOT_EVENT_JOINED);
    if ((OF(JOINED) | OF(NOTICE) | OF(LEFT) | OF(LOST)) >> e.kind & 1)
        return e;
    e.member = 0;
    return e;
}

START_TEST(an_event_may_come_where_the_rules_say_so_and_nowhere_else)
{
    size_t may[SPOT_EVENT_KINDS] = { 0 }, may_not[SPOT_EVENT_KINDS] = { 0 };
    struct spot_rng rng;

    spot_rng_init(&rng, 11, 0);
    for (int run = 0; run < RUNS; run++) {
        struct spot_event_order order = { 0 };
        struct history h = { .n = 0 };

        while (h.n < N_MAX) {
            char why[SPOT_ORDER_WHY] = "";
            const struct spot_event e = draw(&h, &rng);
            const bool want = may_come(&h, &e);

            if (!want && spot_rng_below(&rng, 16))
                continue; /* else hardly a log would become long */
            ck_assert_msg(want == !spot_event_order_take(&order, &e, why),
                          "run %d event %d: %s epoch %" PRId64 " step %" PRId64 ": %s", run, h.n,
                          e.name, e.epoch, e.step, *why ? why : "was taken");
            ++*(want ? &may[e.kind] : &may_not[e.kind]);
            if (!want)
                break;
            h.e[h.n++] = e;
        }
        spot_event_order_release(&order);
    }
    for (int k = 1; k < SPOT_EVENT_SERVING; k++)
        ck_assert_msg(may[k] > 30 && may_not[k] > 30, "%s: %zu and %zu", name_of(k), may[k],
                      may_not[k]);
}
END_TEST

/* --- of a job that serves ---------------------------------------------------- */

/* Two views, each in an epoch of its own; a kill, a notice, requests, and another coordinator. */
static const struct spot_event served[] = {
    { .kind = SPOT_EVENT_SERVING },
    { .kind = SPOT_EVENT_JOINED, .member = 1, .members = 1 },
    { .kind = SPOT_EVENT_QUIESCE, .epoch = 1 },
    { .kind = SPOT_EVENT_JOINED, .epoch = 1, .view = 1, .member = 2, .members = 2 },
    { .kind = SPOT_EVENT_QUIESCE, .epoch = 2, .view = 1 },
    { .kind = SPOT_EVENT_FORMED, .epoch = 2, .view = 1, .members = 2, .grid = { 1, 1, 1 } },
    { .kind = SPOT_EVENT_FORMED, .epoch = 1, .members = 2, .grid = { 1, 1, 1 } },
    { .kind = SPOT_EVENT_TOKEN, .epoch = 2, .step = 7, .requests = 2, .output_tokens = 7 },
    { .kind = SPOT_EVENT_LOST, .epoch = 2, .step = 3, .view = 1, .member = 2 },
    { .kind = SPOT_EVENT_QUIESCE, .epoch = 3, .step = 3, .view = 1 },
    { .kind = SPOT_EVENT_REQUEST, .epoch = 3, .step = 9, .came_s = 1, .ttft_s = 1, .e2e_s = 2 },
    { .kind = SPOT_EVENT_NOTICE, .epoch = 1, .step = 1, .member = 1 },
    { .kind = SPOT_EVENT_TOKEN, .epoch = 3, .step = 9, .output_tokens = 2 },
    { .kind = SPOT_EVENT_LEFT, .epoch = 1, .step = 1, .member = 1 },
    { .kind = SPOT_EVENT_JOINED, .epoch = 3, .step = 3, .view = 1, .member = 3, .members = 1 },
    { .kind = SPOT_EVENT_TOKEN, .epoch = 3, .step = 10, .output_tokens = 1 },
    { .kind = SPOT_EVENT_SERVING, .epoch = 3 },
    { .kind = SPOT_EVENT_JOINED, .epoch = 3, .member = 1, .members = 1 },
    { .kind = SPOT_EVENT_QUIESCE, .epoch = 4 },
    { .kind = SPOT_EVENT_FORMED, .epoch = 4, .members = 1, .grid = { 1, 1, 1 } },
    { .kind = SPOT_EVENT_TOKEN, .epoch = 4, .step = 1, .output_tokens = 1 },
};
enum { SERVED = sizeof(served) / sizeof(served[0]) };

/* Returns the number of the event that is refused, or SERVED. */
static size_t take_all(const struct spot_event *e)
{
    struct spot_event_order order = { 0 };
    char why[SPOT_ORDER_WHY];
    size_t i = 0;

    for (; i < SERVED; i++) {
        struct spot_event next = e[i];

        next.name = name_of(next.kind);
        next.is_job = true;
        next.time_s = 10 + (double)i;
        if (spot_event_order_take(&order, &next, why))
            break;
    }
    spot_event_order_release(&order);
    return i;
}

START_TEST(a_served_log_goes_on_in_views_and_a_line_that_does_not_fit_is_refused)
{
    static const struct {
        size_t at;
        struct spot_event wrong;
    } fault[] = {
        { 1, { .kind = SPOT_EVENT_JOINED, .member = 1, .members = 2 } },
        { 2, { .kind = SPOT_EVENT_QUIESCE, .epoch = 0 } },
        { 3, { .kind = SPOT_EVENT_JOINED, .epoch = 2, .view = 1, .member = 2, .members = 2 } },
        { 4, { .kind = SPOT_EVENT_QUIESCE, .epoch = 1, .view = 1 } },
        { 5,
          { .kind = SPOT_EVENT_FORMED, .epoch = 1, .view = 1, .members = 2, .grid = { 1, 1, 1 } } },
        { 5,
          { .kind = SPOT_EVENT_FORMED, .epoch = 2, .view = 1, .members = 2, .grid = { 1, 3, 1 } } },
        { 6,
          { .kind = SPOT_EVENT_FORMED, .epoch = 2, .view = 1, .members = 2, .grid = { 1, 1, 1 } } },
        { 6, { .kind = SPOT_EVENT_COMMITTED, .epoch = 1, .step = 1 } },
        { 7, { .kind = SPOT_EVENT_TOKEN, .epoch = 2, .step = 6, .output_tokens = 7 } },
        { 8, { .kind = SPOT_EVENT_LEFT, .epoch = 2, .step = 3, .view = 1, .member = 2 } },
        { 8, { .kind = SPOT_EVENT_LOST, .epoch = 1, .step = 3, .view = 1, .member = 2 } },
        { 8, { .kind = SPOT_EVENT_LOST, .epoch = 2, .step = 3, .view = 1, .member = 3 } },
        { 9, { .kind = SPOT_EVENT_QUIESCE, .epoch = 3, .step = 2, .view = 1 } },
        { 10, { .kind = SPOT_EVENT_REQUEST, .epoch = 3, .step = 9, .came_s = 21, .e2e_s = 2 } },
        { 10, { .kind = SPOT_EVENT_REQUEST, .epoch = 3, .step = 9, .ttft_s = 3, .e2e_s = 2 } },
        { 10, { .kind = SPOT_EVENT_REQUEST, .epoch = 3, .step = 6, .ttft_s = 1, .e2e_s = 2 } },
        { 12, { .kind = SPOT_EVENT_TOKEN, .epoch = 2, .step = 9, .output_tokens = 2 } },
        { 16, { .kind = SPOT_EVENT_SERVING, .epoch = 2 } },
        { 16, { .kind = SPOT_EVENT_SERVING, .epoch = 3, .step = 9 } },
    };

    ck_assert_uint_eq(take_all(served), SERVED);
    for (size_t i = 0; i < sizeof(fault) / sizeof(fault[0]); i++) {
        struct spot_event e[SERVED];

        memcpy(e, served, sizeof(e));
        e[fault[i].at] = fault[i].wrong;
        ck_assert_msg(take_all(e) == fault[i].at, "fault %zu: %zu", i, take_all(e));
    }
    for (size_t at = 0; at < SERVED; at++) {
        struct spot_event e[SERVED];

        /* nothing hangs on these: an epoch may be cut short before it is formed, and what came last
         * to a coordinator is not known to the next */
        if (served[at].kind == SPOT_EVENT_REQUEST || served[at].kind == SPOT_EVENT_FORMED ||
            served[at].member == 3 || at + 1 == SERVED || served[at + 1].kind == SPOT_EVENT_SERVING)
            continue;
        memcpy(e, served, sizeof(e));
        memmove(e + at, e + at + 1, (SERVED - at - 1) * sizeof(*e));
        e[SERVED - 1] = (struct spot_event){ .kind = SPOT_EVENT_ANY };
        ck_assert_msg(take_all(e) < SERVED, "without event %zu", at);
    }
}
END_TEST

int main(void)
{
    return run_suite("event", add_tests(tcase_create("core")));
}
