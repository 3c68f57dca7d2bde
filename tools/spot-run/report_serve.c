/* SPDX-License-Identifier: MIT */
#include "report_parts.h"

#include <math.h>
#include <stdio.h>

#include "common/json_writer.h"

/* P50 and P99 of a time; NAN: unknown. */
struct quantiles {
    double p50_s, p99_s;
};

static struct quantiles of_requests(const struct spot_run *run, enum spot_serving_time what)
{
    return (
        struct quantiles){ spot_serving_quantile_s(&run->served, what, -INFINITY, INFINITY, 0.5),
                           spot_serving_quantile_s(&run->served, what, -INFINITY, INFINITY, 0.99) };
}

static struct quantiles between(const struct spot_run *run)
{
    const struct spot_histogram *const h = &run->served.between;

    return (struct quantiles){ h->n ? spot_histogram_quantile_s(h, 0.5) : NAN,
                               h->n ? spot_histogram_quantile_s(h, 0.99) : NAN };
}

/* Tokens that had to be computed again and did not come as pages. */
static int64_t prefilled_again(const struct spot_serving *r)
{
    return r->n_again_token > r->n_paged_token ? r->n_again_token - r->n_paged_token : 0;
}

/* Requests whose end is not in the log. */
static int64_t under_way(const struct spot_serving *r)
{
    return spot_serving_requests(r) - r->n_finished - r->n_cancelled;
}

/* --- a table ----------------------------------------------------------------------- */

static void time_row(struct spot_table *t, const char *what, struct quantiles q)
{
    if (isfinite(q.p50_s))
        spot_table_row(t, what, "P50 %.1f ms, P99 %.1f ms", 1e3 * q.p50_s, 1e3 * q.p99_s);
}

void report_serve_rows(struct spot_table *t, const struct spot_run *run)
{
    const struct spot_serving *const r = &run->served;
    const double rate = spot_serving_tokens_per_s(r);

    spot_table_row(t, "requests", "%lld in %.1f s", (long long)spot_serving_requests(r),
                   run->end_s);
    spot_table_row(t, "finished, cancelled, refused", "%lld, %lld, %lld", (long long)r->n_finished,
                   (long long)r->n_cancelled, (long long)r->n_refused);
    if (under_way(r))
        spot_table_row(t, "whose end is not told", "%lld", (long long)under_way(r));
    spot_table_row(t, "tokens", "%lld", (long long)r->n_token);
    if (isfinite(rate))
        spot_table_row(t, "tokens per second", "%.1f", rate);
    time_row(t, "to the first worker", of_requests(run, SPOT_SERVING_QUEUE));
    time_row(t, "time to first token", of_requests(run, SPOT_SERVING_TTFT));
    time_row(t, "between tokens", between(run));
    time_row(t, "end to end", of_requests(run, SPOT_SERVING_E2E));
    if (r->n_cached_token)
        spot_table_row(t, "prompt tokens found in a cache", "%lld of %lld (%.0f %%)",
                       (long long)r->n_cached_token, (long long)r->n_prompt_token,
                       100 * (double)r->n_cached_token / (double)r->n_prompt_token);
    spot_table_row(t, "preemptions", "%zu (%zu with notice, %zu without)", r->n_notice + r->n_kill,
                   r->n_notice, r->n_kill);
    if (run->n_resume)
        spot_table_row(t, "coordinator restarts", "%zu", run->n_resume);
    spot_table_row(t, "joins", "%zu", r->n_join);
    spot_table_row(t, "replicas down between two epochs", "%.1f s (%zu), with no other %.1f s",
                   r->gap_s, r->n_gap, r->none_s);
    spot_table_row(t, "choices that another replica went on with", "%lld", (long long)r->n_move);
    spot_table_row(t, "tokens that came as pages", "%lld, %lld prefilled again",
                   (long long)r->n_paged_token, (long long)prefilled_again(r));
}

/* --- a document --------------------------------------------------------------------- */

static void put_times(struct spot_jw *jw, const char *what, struct quantiles q)
{
    char key[32];

    if (!isfinite(q.p50_s))
        return;
    snprintf(key, sizeof(key), "%s_p50_s", what);
    spot_jw_real(jw, key, q.p50_s);
    snprintf(key, sizeof(key), "%s_p99_s", what);
    spot_jw_real(jw, key, q.p99_s);
}

static void put_counts(struct spot_jw *jw, const struct spot_run *run)
{
    const struct spot_serving *const r = &run->served;
    const double rate = spot_serving_tokens_per_s(r);

    spot_jw_int(jw, "requests", spot_serving_requests(r));
    spot_jw_int(jw, "finished", r->n_finished);
    spot_jw_int(jw, "cancelled", r->n_cancelled);
    spot_jw_int(jw, "refused", r->n_refused);
    spot_jw_int(jw, "tokens", r->n_token);
    if (isfinite(rate))
        spot_jw_real(jw, "tokens_per_s", rate);
    spot_jw_real(jw, "end_s", run->end_s);
    put_times(jw, "queue", of_requests(run, SPOT_SERVING_QUEUE));
    put_times(jw, "ttft", of_requests(run, SPOT_SERVING_TTFT));
    put_times(jw, "between", between(run));
    put_times(jw, "e2e", of_requests(run, SPOT_SERVING_E2E));
    if (r->n_cached_token) {
        spot_jw_int(jw, "prompt_tokens", r->n_prompt_token);
        spot_jw_int(jw, "cached_tokens", r->n_cached_token);
    }
    spot_jw_int(jw, "notices", (int64_t)r->n_notice);
    spot_jw_int(jw, "kills", (int64_t)r->n_kill);
    spot_jw_int(jw, "joins", (int64_t)r->n_join);
    spot_jw_int(jw, "coordinator_restarts", (int64_t)run->n_resume);
    spot_jw_real(jw, "no_replica_s", r->none_s);
    spot_jw_int(jw, "replica_gaps", (int64_t)r->n_gap);
    spot_jw_real(jw, "replica_gap_s", r->gap_s);
    spot_jw_int(jw, "moves", r->n_move);
    spot_jw_int(jw, "tokens_from_pages", r->n_paged_token);
    spot_jw_int(jw, "tokens_prefilled_again", prefilled_again(r));
}

int report_serve_write(const struct spot_run *run, const struct report_price *price,
                       const struct spot_prov *prov, FILE *out, struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.report", 1, prov);
    put_counts(&jw, run);
    report_doc_price(&jw, price);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}
