/* SPDX-License-Identifier: MIT */
#include "model/serve_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

static void add_time(double **list, size_t *n, size_t *cap, double time_s)
{
    *list = spot_xgrow(*list, cap, *n + 1, sizeof(**list));
    (*list)[(*n)++] = time_s;
}

/* --- replicas ---------------------------------------------------------------- */

static int64_t n_up(const struct spot_serving *r)
{
    int64_t n = 0;

    for (size_t i = 0; i < r->n_view; i++)
        n += r->view[i].is_up;
    return n;
}

static struct spot_serving_view *view_of(struct spot_serving *r, int64_t index)
{
    while (r->n_view <= (size_t)index) {
        r->view = spot_xgrow(r->view, &r->cap_view, r->n_view + 1, sizeof(*r->view));
        r->view[r->n_view++] = (struct spot_serving_view){ .down_s = NAN };
    }
    return &r->view[index];
}

static void change_replicas(struct spot_serving *r, double time_s)
{
    const int64_t n = n_up(r), before = r->n_replica ? r->replica[r->n_replica - 1].n : 0;

    if (n == before)
        return;
    if (!before && r->n_replica)
        r->none_s += time_s - r->replica[r->n_replica - 1].time_s;
    r->replica = spot_xgrow(r->replica, &r->cap_replica, r->n_replica + 1, sizeof(*r->replica));
    r->replica[r->n_replica++] = (struct spot_serving_change){ time_s, n };
}

static void go_down(struct spot_serving *r, struct spot_serving_view *v, double time_s)
{
    if (!v->is_up)
        return;
    v->is_up = false;
    v->down_s = time_s;
    change_replicas(r, time_s);
}

static void on_formed(struct spot_serving *r, const struct spot_event *e)
{
    struct spot_serving_view *const v = view_of(r, e->view);

    if (!v->is_up && isfinite(v->down_s)) {
        r->gap_s += e->time_s - v->down_s;
        r->n_gap++;
    }
    v->is_up = true;
    change_replicas(r, e->time_s);
}

/* The earlier coordinator ended some time after received_s. */
static void on_serving(struct spot_serving *r, double received_s)
{
    for (size_t i = 0; i < r->n_view; i++)
        go_down(r, &r->view[i], received_s);
    r->n_noticed = 0;
    r->n_step = 0;
}

/* --- members ------------------------------------------------------------------ */

static void on_notice(struct spot_serving *r, const struct spot_event *e)
{
    add_time(&r->notice_s, &r->n_notice, &r->cap_notice, e->time_s);
    r->noticed = spot_xgrow(r->noticed, &r->cap_noticed, r->n_noticed + 1, sizeof(*r->noticed));
    r->noticed[r->n_noticed++] = e->member;
}

static void on_gone(struct spot_serving *r, const struct spot_event *e)
{
    for (size_t i = 0; i < r->n_noticed; i++)
        if (r->noticed[i] == e->member) {
            r->noticed[i] = r->noticed[--r->n_noticed];
            return;
        }
    add_time(&r->kill_s, &r->n_kill, &r->cap_kill, e->time_s);
}

/* Count the tokens that this coordinator had committed by then. */
static void take_step(struct spot_serving *r, const struct spot_event *e)
{
    if (e->step <= r->n_step)
        return;
    r->n_token += e->step - r->n_step;
    r->n_step = e->step;
    r->last_s = e->time_s;
}

/* --- requests ------------------------------------------------------------------ */

static void on_request(struct spot_serving *r, const struct spot_event *e)
{
    const bool is_cancelled = !strcmp(e->finish, "cancelled");

    take_step(r, e);
    r->n_cancelled += is_cancelled;
    r->n_prompt_token += e->prompt_tokens;
    r->n_cached_token += e->cached_tokens;
    r->n_finished += !is_cancelled;
    r->request = spot_xgrow(r->request, &r->cap_request, r->n_request + 1, sizeof(*r->request));
    r->request[r->n_request++] = (struct spot_serving_request){ .end_s = e->time_s,
                                                                .queue_s = e->queue_s,
                                                                .ttft_s = e->ttft_s,
                                                                .e2e_s = e->e2e_s,
                                                                .n_token = e->output_tokens,
                                                                .is_cancelled = is_cancelled,
                                                                .is_resumed = e->is_resumed };
    if (isfinite(e->ttft_s))
        r->first_s = fmin(r->first_s > 0 ? r->first_s : INFINITY, e->came_s + e->ttft_s);
}

static void on_token(struct spot_serving *r, const struct spot_event *e)
{
    struct spot_serving_interval *i;

    r->interval =
        spot_xgrow(r->interval, &r->cap_interval, r->n_interval + 1, sizeof(*r->interval));
    i = &r->interval[r->n_interval++];
    *i = (struct spot_serving_interval){ .from_s = fmax(0, e->time_s - e->interval_s),
                                         .time_s = e->time_s,
                                         .n_token = e->output_tokens,
                                         .n_running = e->running,
                                         .n_queued = e->queued };
    for (size_t k = 0; k < spot_json_array_size(e->between); k++)
        i->between.n += i->between.count[k] =
            (uint64_t)spot_json_integer(spot_json_entry(e->between, k));
    spot_histogram_merge(&r->between, &i->between);
    take_step(r, e);
    r->n_taken += e->requests;
    r->n_refused += e->refused;
    r->n_move += e->moves;
    r->n_again_token += e->again_tokens;
    r->n_paged_token += e->paged_tokens;
}

void spot_serving_take(struct spot_serving *r, const struct spot_event *e, double received_s)
{
    switch (e->kind) {
    case SPOT_EVENT_SERVING:
        on_serving(r, received_s);
        break;
    case SPOT_EVENT_JOINED:
        add_time(&r->join_s, &r->n_join, &r->cap_join, e->time_s);
        break;
    case SPOT_EVENT_NOTICE:
        on_notice(r, e);
        break;
    case SPOT_EVENT_LEFT:
    case SPOT_EVENT_LOST:
        on_gone(r, e);
        break;
    case SPOT_EVENT_QUIESCE:
        go_down(r, view_of(r, e->view), e->time_s);
        break;
    case SPOT_EVENT_FORMED:
        on_formed(r, e);
        break;
    case SPOT_EVENT_REQUEST:
        on_request(r, e);
        break;
    case SPOT_EVENT_TOKEN:
        on_token(r, e);
        break;
    default:
        break;
    }
}

void spot_serving_end(struct spot_serving *r, double end_s)
{
    const struct spot_serving_change *const last =
        r->n_replica ? &r->replica[r->n_replica - 1] : NULL;

    if (last && !last->n)
        r->none_s += end_s - last->time_s;
}

void spot_serving_release(struct spot_serving *r)
{
    free(r->request);
    free(r->interval);
    free(r->replica);
    free(r->notice_s);
    free(r->kill_s);
    free(r->join_s);
    free(r->noticed);
    free(r->view);
    memset(r, 0, sizeof(*r));
}

/* --- numbers -------------------------------------------------------------------- */

static double time_of(const struct spot_serving_request *q, enum spot_serving_time what)
{
    return what == SPOT_SERVING_QUEUE  ? q->queue_s
           : what == SPOT_SERVING_TTFT ? q->ttft_s
                                       : q->e2e_s;
}

double spot_serving_quantile_s(const struct spot_serving *r, enum spot_serving_time what,
                               double from_s, double to_s, double q)
{
    double *const x = spot_xcalloc(r->n_request, sizeof(*x)), found = NAN;
    size_t n = 0;

    for (size_t i = 0; i < r->n_request; i++) {
        const struct spot_serving_request *const of = &r->request[i];

        if (!of->is_cancelled && !of->is_resumed && of->end_s > from_s && of->end_s <= to_s &&
            isfinite(time_of(of, what)))
            x[n++] = time_of(of, what);
    }
    if (n) {
        qsort(x, n, sizeof(*x), spot_num_compare);
        found = x[(size_t)fmax(0, ceil(q * (double)n) - 1)];
    }
    free(x);
    return found;
}

int64_t spot_serving_requests(const struct spot_serving *r)
{
    const int64_t ended = r->n_finished + r->n_cancelled;

    return r->n_taken > ended ? r->n_taken : ended;
}

double spot_serving_tokens_per_s(const struct spot_serving *r)
{
    return r->n_token && r->first_s > 0 && r->last_s > r->first_s
               ? (double)r->n_token / (r->last_s - r->first_s)
               : NAN;
}
