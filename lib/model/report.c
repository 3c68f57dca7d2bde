/* SPDX-License-Identifier: MIT */
#include "model/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/unpack.h"
#include "common/xalloc.h"
#include "model/event.h"
#include "model/event_order.h"

const char *spot_cause_name(enum spot_cause cause)
{
    static const char *const name[] = { "notice", "kill", "join", "plan" };

    return name[cause];
}

/* Events since the last epoch was formed. */
struct since {
    bool noticed, killed, joined, restored, is_pending;
    bool is_begun;   /* a step has begun */
    bool is_up;      /* a grid is running */
    int64_t step;    /* the last step that stands */
    double commit_s; /* time of the last commit; < 0: none yet */
    double start_s;  /* start of the current gap */
    int64_t n_member;
    double member_s; /* time of the last change of n_member */
};

/* --- one event ----------------------------------------------------------- */

static void begin_outage(struct spot_run *run, struct since *s, double time_s)
{
    if (!s->is_up)
        return;
    s->is_up = false;
    run->outage =
        spot_xgrow(run->outage, &run->cap_outage, run->n_outage + 1, sizeof(*run->outage));
    run->outage[run->n_outage++] = (struct spot_outage){ time_s, INFINITY };
}

/* An outage ends with the next grid, or with the log. */
static void end_outage(struct spot_run *run, double time_s)
{
    if (run->n_outage && isinf(run->outage[run->n_outage - 1].to_s))
        run->outage[run->n_outage - 1].to_s = time_s;
}

static void change_members(struct spot_run *run, struct since *s, double time_s, int64_t n)
{
    run->member_s += (double)s->n_member * (time_s - s->member_s);
    s->member_s = time_s;
    s->n_member = n;
    run->member =
        spot_xgrow(run->member, &run->cap_member, run->n_member + 1, sizeof(*run->member));
    run->member[run->n_member++] = (struct spot_count_change){ time_s, n };
    if (!n)
        begin_outage(run, s, time_s);
}

static void change_step(struct spot_run *run, struct since *s, double time_s, int64_t step)
{
    s->step = step;
    run->step = spot_xgrow(run->step, &run->cap_step, run->n_step + 1, sizeof(*run->step));
    run->step[run->n_step++] = (struct spot_count_change){ time_s, step };
}

static enum spot_cause cause_of(const struct since *s)
{
    return s->killed    ? SPOT_CAUSE_KILL
           : s->noticed ? SPOT_CAUSE_NOTICE
           : s->joined  ? SPOT_CAUSE_JOIN
                        : SPOT_CAUSE_PLAN;
}

/* The first commit of an epoch ends the gap that began when the epoch was formed. */
static void end_gap(struct spot_run *run, struct since *s, double time_s)
{
    if (s->is_pending && s->commit_s >= 0) {
        run->pause = spot_xgrow(run->pause, &run->cap_pause, run->n_pause + 1, sizeof(*run->pause));
        run->pause[run->n_pause++] = (struct spot_pause){ .time_s = s->commit_s,
                                                          .pause_s = time_s - s->commit_s,
                                                          .cause = cause_of(s),
                                                          .is_restored = s->restored };
    }
    if (s->is_pending)
        s->noticed = s->killed = s->joined = s->restored = s->is_pending = false;
}

static void on_committed(struct spot_run *run, struct since *s, const struct spot_event *event)
{
    struct spot_commit *c;

    end_gap(run, s, event->time_s);
    s->commit_s = event->time_s;
    change_step(run, s, event->time_s, event->step);
    s->is_begun = false;
    run->commit =
        spot_xgrow(run->commit, &run->cap_commit, run->n_commit + 1, sizeof(*run->commit));
    c = &run->commit[run->n_commit++];
    *c = (struct spot_commit){ .time_s = event->time_s,
                               .step = event->step,
                               .loss = event->loss,
                               .sample_begin = run->n_sample,
                               .n_sample = spot_json_array_size(event->samples) };
    memcpy(c->loss_hex, event->loss_hex, sizeof(c->loss_hex));
    run->sample = spot_xgrow(run->sample, &run->cap_sample, run->n_sample + c->n_sample,
                             sizeof(*run->sample));
    for (size_t i = 0; i < c->n_sample; i++)
        run->sample[run->n_sample++] = spot_json_integer(spot_json_entry(event->samples, i));
}

static void void_validations(struct spot_run *run, int64_t above)
{
    while (run->n_val && run->val[run->n_val - 1].step > above)
        run->n_val--;
}

static void on_validated(struct spot_run *run, const struct spot_event *event)
{
    struct spot_validation *v;

    void_validations(run, event->step - 1);
    run->val = spot_xgrow(run->val, &run->cap_val, run->n_val + 1, sizeof(*run->val));
    v = &run->val[run->n_val++];
    *v = (struct spot_validation){ .step = event->step, .loss = event->loss };
    memcpy(v->loss_hex, event->loss_hex, sizeof(v->loss_hex));
}

static void on_rolled_back(struct spot_run *run, struct since *s, const struct spot_event *event)
{
    change_step(run, s, event->time_s, event->to);
    void_validations(run, event->to);
    for (size_t i = run->n_commit; i-- > 0;)
        if (!run->commit[i].is_void && run->commit[i].step > event->to) {
            run->commit[i].is_void = true;
            run->n_recomputed++;
        }
}

static void on_formed(struct spot_run *run, struct since *s, const struct spot_event *event)
{
    s->is_up = true;
    end_outage(run, event->time_s);
    run->grid = spot_xgrow(run->grid, &run->cap_grid, run->n_grid + 1, sizeof(*run->grid));
    run->grid[run->n_grid++] = (struct spot_grid_change){ event->time_s, event->grid };
    run->is_of_bytes = event->tokens && !strcmp(event->tokens, "bytes");
}

/* End a step that was cut short by the end of its epoch. */
static void end_step(struct spot_run *run, struct since *s)
{
    run->n_in_flight += s->is_begun;
    s->is_begun = false;
}

static void add_hole(struct spot_run *run, int64_t from, int64_t to)
{
    run->hole = spot_xgrow(run->hole, &run->cap_hole, run->n_hole + 1, sizeof(*run->hole));
    run->hole[run->n_hole++] = (struct spot_hole){ from, to };
}

/* The state is at a step that the log does not account for. */
static void skip_to(struct spot_run *run, struct since *s, const struct spot_event *event)
{
    if (event->step <= s->step)
        return;
    add_hole(run, s->step, event->step);
    change_step(run, s, event->time_s, event->step);
}

static int compare_steps(const void *a, const void *b)
{
    const struct spot_commit *const x = *(const struct spot_commit *const *)a,
                                    *const y = *(const struct spot_commit *const *)b;

    return x->step != y->step ? (x->step > y->step) - (x->step < y->step) : (x > y) - (x < y);
}

/* Select commits of the steps from + 1 to `to` that stand, or that do not; sorted by step, and for
 * a repeated step the later one. Freed by the caller. */
static struct spot_commit **select_commits(const struct spot_run *run, bool is_void, int64_t from,
                                           int64_t to, size_t *n)
{
    struct spot_commit **all = spot_xcalloc(run->n_commit, sizeof(struct spot_commit *));
    size_t n_all = 0;

    for (size_t i = 0; i < run->n_commit; i++)
        if (run->commit[i].is_void == is_void && run->commit[i].step > from &&
            run->commit[i].step <= to)
            all[n_all++] = &run->commit[i];
    if (n_all)
        qsort(all, n_all, sizeof(struct spot_commit *), compare_steps);
    *n = 0;
    for (size_t i = 0; i < n_all; i++)
        if (i + 1 == n_all || all[i]->step != all[i + 1]->step)
            all[(*n)++] = all[i];
    return all;
}

/* State that was lost is back: the commits that led to it stand again. Commits missing from the log
 * form a hole. */
static void on_restored(struct spot_run *run, struct since *s, const struct spot_event *event)
{
    const int64_t step = event->step;
    int64_t told = s->step;
    size_t n;
    struct spot_commit **const back = select_commits(run, true, told, step, &n);

    for (size_t i = 0; i < n; i++) {
        back[i]->is_void = false;
        run->n_recomputed--;
        if (told < back[i]->step - 1)
            add_hole(run, told, back[i]->step - 1);
        told = back[i]->step;
    }
    if (told < step)
        add_hole(run, told, step);
    change_step(run, s, event->time_s, step);
    free(back);
}

static void add_resume(struct spot_run *run, double time_s)
{
    run->resume_s =
        spot_xgrow(run->resume_s, &run->cap_resume, run->n_resume + 1, sizeof(*run->resume_s));
    run->resume_s[run->n_resume++] = time_s;
}

/* Members of the earlier coordinator have no further events; that coordinator ended some time after
 * received_s. */
static void on_resumed(struct spot_run *run, struct since *s, const struct spot_event *event,
                       double received_s)
{
    begin_outage(run, s, received_s);
    add_resume(run, event->time_s);
    end_step(run, s);
    skip_to(run, s, event);
    change_members(run, s, event->time_s, 0);
}

/* A change declared at the same place replaces the earlier one. */
static void on_lr_changed(struct spot_run *run, const struct spot_event *event)
{
    struct spot_lr_change *c;

    while (run->n_lr_change && run->lr_change[run->n_lr_change - 1].after >= event->after)
        run->n_lr_change--;
    run->lr_change = spot_xgrow(run->lr_change, &run->cap_lr_change, run->n_lr_change + 1,
                                sizeof(*run->lr_change));
    c = &run->lr_change[run->n_lr_change++];
    *c = (struct spot_lr_change){ .after = event->after, .lr = event->lr };
    snprintf(c->schedule, sizeof(c->schedule), "%s", event->lr_schedule);
}

static void on_migrate(struct since *s, const struct spot_event *event)
{
    s->is_pending = true;
    s->restored |= event->restored_byte > 0 && s->commit_s >= 0;
}

/* Update the number of members from this time on. */
static void on_member(struct spot_run *run, struct since *s, const struct spot_event *event)
{
    const bool is_join = event->kind == SPOT_EVENT_JOINED, is_kill = event->kind == SPOT_EVENT_LOST;

    run->n_join += is_join;
    run->n_kill += is_kill;
    s->joined |= is_join;
    s->killed |= is_kill;
    change_members(run, s, event->time_s, is_join ? event->members : s->n_member - 1);
}

static void on_serving(struct spot_run *run, struct since *s, const struct spot_event *event,
                       double received_s)
{
    spot_serving_take(&run->served, event, received_s);
    run->n_notice += event->kind == SPOT_EVENT_NOTICE;
    if (event->kind == SPOT_EVENT_SERVING && run->is_served)
        on_resumed(run, s, event, received_s);
    else if (event->kind == SPOT_EVENT_JOINED || event->kind == SPOT_EVENT_LOST ||
             event->kind == SPOT_EVENT_LEFT)
        on_member(run, s, event);
    run->is_served = true;
}

static void on_hosting(struct spot_run *run, struct since *s, const struct spot_event *event)
{
    spot_hosting_take(&run->hosting, event);
    run->n_notice += event->kind == SPOT_EVENT_NOTICE;
    if (event->kind == SPOT_EVENT_EXEC) {
        if (run->is_hosted)
            add_resume(run, event->time_s);
        change_members(run, s, event->time_s, 0);
    } else if (event->kind == SPOT_EVENT_JOINED || event->kind == SPOT_EVENT_LOST ||
               event->kind == SPOT_EVENT_LEFT) {
        on_member(run, s, event);
    }
    run->is_hosted = true;
    run->is_done = run->hosting.is_finished;
}

static void on_event(struct spot_run *run, struct since *s, const struct spot_event *event)
{
    const double received_s = run->end_s;

    run->end_s = fmax(run->end_s, event->time_s);
    if (event->kind == SPOT_EVENT_SERVING || run->is_served) {
        on_serving(run, s, event, received_s);
        return;
    }
    if (event->kind == SPOT_EVENT_EXEC || run->is_hosted) {
        on_hosting(run, s, event);
        return;
    }
    if (!strcmp(event->name, "notice")) { /* may also be an event of a cloud */
        run->n_notice++;
        s->noticed = true;
    }
    switch (event->kind) {
    case SPOT_EVENT_COMMITTED:
        on_committed(run, s, event);
        break;
    case SPOT_EVENT_STEP:
        s->is_begun = true;
        break;
    case SPOT_EVENT_QUIESCE:
        end_step(run, s);
        begin_outage(run, s, event->time_s);
        break;
    case SPOT_EVENT_ROLLED_BACK:
        on_rolled_back(run, s, event);
        break;
    case SPOT_EVENT_RESTORED:
        on_restored(run, s, event);
        break;
    case SPOT_EVENT_MIGRATE:
        on_migrate(s, event);
        break;
    case SPOT_EVENT_FORMED:
        on_formed(run, s, event);
        break;
    case SPOT_EVENT_RESUMED:
        on_resumed(run, s, event, received_s);
        break;
    case SPOT_EVENT_VALIDATED:
        on_validated(run, event);
        break;
    case SPOT_EVENT_LR_CHANGED:
        on_lr_changed(run, event);
        break;
    case SPOT_EVENT_JOINED:
    case SPOT_EVENT_LOST:
    case SPOT_EVENT_LEFT:
        on_member(run, s, event);
        break;
    case SPOT_EVENT_DONE:
        run->is_done = true;
        memcpy(run->state_hex, event->state_hex, 33);
        break;
    default:
        break;
    }
}

/* --- numbers ------------------------------------------------------------- */

static double median(double *x, size_t n)
{
    if (!n)
        return NAN;
    qsort(x, n, sizeof(*x), spot_num_compare);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static bool is_gap(const struct spot_run *run, double time_s)
{
    for (size_t i = 0; i < run->n_pause; i++)
        if (run->pause[i].time_s == time_s)
            return true;
    return false;
}

/* Compute the median time between commits of one epoch; pauses count beyond it. */
static void settle(struct spot_run *run)
{
    double *gap = spot_xcalloc(run->n_commit, sizeof(*gap));
    size_t n = 0;

    for (size_t i = 1; i < run->n_commit; i++)
        if (!is_gap(run, run->commit[i - 1].time_s))
            gap[n++] = run->commit[i].time_s - run->commit[i - 1].time_s;
    run->median_step_s = n ? median(gap, n) : 0;
    free(gap);
    for (size_t i = 0; i < run->n_pause; i++)
        run->pause[i].pause_s = fmax(0, run->pause[i].pause_s - run->median_step_s);
}

static int read_events(struct spot_run *run, FILE *in, const char *source, struct spot_err *err)
{
    struct spot_hash_stream *hash = spot_hash_stream_new();
    struct spot_event_order order = { 0 };
    struct spot_event_log log = {
        .in = in, .source = source, .hash = hash, .order = &order, .drops_cut = true
    };
    struct since since = { .commit_s = -1 };
    struct spot_event event;
    int rc;

    while ((rc = spot_event_next(&log, &event, err)) > 0)
        on_event(run, &since, &event);
    if (!rc && !log.end_byte)
        rc = spot_err_set(err, SPOT_EDATA, "%s: empty input, expected events", source);
    run->is_cut = !rc && log.n_byte;
    end_step(run, &since);
    change_members(run, &since, run->end_s, since.n_member);
    end_outage(run, run->end_s);
    spot_serving_end(&run->served, run->end_s);
    run->xxh3 = spot_hash_stream_64(hash);
    spot_hash_stream_free(hash);
    spot_event_log_release(&log);
    spot_event_order_release(&order);
    return rc;
}

static int read_unpacked(struct spot_run *run, FILE *in, const char *source, struct spot_err *err)
{
    struct spot_unpack unpack;

    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    return spot_unpack_close(&unpack, read_events(run, unpack.in, source, err), err);
}

int spot_run_load(struct spot_run *run, const char *path, struct spot_err *err)
{
    const bool is_stdin = !strcmp(path, "-");
    FILE *in = is_stdin ? stdin : fopen(path, "re");
    int rc;

    memset(run, 0, sizeof(*run));
    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    rc = read_unpacked(run, in, is_stdin ? "<stdin>" : path, err);
    if (!is_stdin)
        fclose(in);
    settle(run);
    if (rc)
        spot_run_release(run);
    return rc;
}

void spot_run_release(struct spot_run *run)
{
    free(run->commit);
    free(run->sample);
    free(run->pause);
    free(run->grid);
    free(run->member);
    free(run->step);
    free(run->outage);
    free(run->resume_s);
    free(run->hole);
    free(run->lr_change);
    free(run->val);
    spot_serving_release(&run->served);
    spot_hosting_release(&run->hosting);
    memset(run, 0, sizeof(*run));
}

struct read_sample {
    int64_t sample, step;
};

static int compare_samples(const void *a, const void *b)
{
    const struct read_sample *const x = a, *const y = b;

    return (x->sample > y->sample) - (x->sample < y->sample);
}

/* True if the steps between begin and end all lie in holes. Holes may overlap. */
static bool is_untold(const struct spot_run *run, int64_t before, int64_t after)
{
    int64_t step = before, reached;

    do {
        reached = step;
        for (size_t i = 0; i < run->n_hole; i++)
            if (run->hole[i].from <= step && step < run->hole[i].to)
                step = run->hole[i].to;
    } while (step > reached && step < after - 1);
    return before < after - 1 && after - 1 <= step;
}

void spot_run_ledger(const struct spot_run *run, int64_t *n_lost, int64_t *n_repeated)
{
    struct read_sample *all = spot_xcalloc(run->n_sample, sizeof(*all));
    size_t n = 0;

    *n_lost = *n_repeated = 0;
    for (size_t i = 0; i < run->n_commit; i++)
        for (size_t k = 0; !run->commit[i].is_void && k < run->commit[i].n_sample; k++)
            all[n++] = (struct read_sample){ run->sample[run->commit[i].sample_begin + k],
                                             run->commit[i].step };
    if (n)
        qsort(all, n, sizeof(*all), compare_samples);
    for (size_t i = 0; i < n; i++) {
        const struct read_sample before = i ? all[i - 1] : (struct read_sample){ -1, 0 };

        if (all[i].sample == before.sample) /* both within [-1, 2^53] */
            ++*n_repeated;
        else if (!is_untold(run, before.step, all[i].step))
            *n_lost += all[i].sample - before.sample - 1;
    }
    free(all);
}

int64_t spot_run_equal_steps(const struct spot_run *run, const struct spot_run *reference,
                             int64_t *n_step)
{
    size_t n_a, n_b;
    struct spot_commit **const a = select_commits(run, false, 0, INT64_MAX, &n_a),
                               **const b = select_commits(reference, false, 0, INT64_MAX, &n_b);
    int64_t n_equal = 0;

    *n_step = 0;
    for (size_t i = 0, k = 0; i < n_a || k < n_b; ++*n_step) {
        const bool has_a = i < n_a && (k == n_b || a[i]->step <= b[k]->step);
        const bool has_b = k < n_b && (i == n_a || b[k]->step <= a[i]->step);

        n_equal += has_a && has_b && !strcmp(a[i]->loss_hex, b[k]->loss_hex);
        i += has_a;
        k += has_b;
    }
    free(a);
    free(b);
    return n_equal;
}

int64_t spot_run_equal_validations(const struct spot_run *run, const struct spot_run *reference,
                                   int64_t *n)
{
    int64_t n_equal = 0;

    *n = 0;
    for (size_t i = 0, k = 0; i < run->n_val && k < reference->n_val;) {
        const struct spot_validation *const a = &run->val[i], *const b = &reference->val[k];

        *n += a->step == b->step;
        n_equal += a->step == b->step && !strcmp(a->loss_hex, b->loss_hex);
        i += a->step <= b->step;
        k += b->step <= a->step;
    }
    return n_equal;
}

size_t spot_run_pauses(const struct spot_run *run, enum spot_cause cause, bool is_restored,
                       double *median_s, double *max_s)
{
    double *x = spot_xcalloc(run->n_pause, sizeof(*x));
    size_t n = 0;

    for (size_t i = 0; i < run->n_pause; i++)
        if (run->pause[i].cause == cause && run->pause[i].is_restored == is_restored)
            x[n++] = run->pause[i].pause_s;
    *median_s = median(x, n);
    *max_s = n ? x[n - 1] : NAN;
    free(x);
    return n;
}
