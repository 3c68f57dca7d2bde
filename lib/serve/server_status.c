/* SPDX-License-Identifier: MIT */
/* Status and metrics of a server. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/metric.h"
#include "common/xalloc.h"
#include "serve/openai_state.h"
#include "serve/proof_doc.h"
#include "serve/server_state.h"

size_t spot_server_running(const struct spot_server *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_place; i++)
        n += s->place[i]->is_running;
    return n;
}

/* Measure tokens/s over about the last second. */
void spot_server_measure(struct spot_server *s)
{
    const double now_s = spot_clock_s();

    if (now_s - s->rate_s < 1)
        return;
    s->rate = (double)(s->n_token - s->rate_token) / (now_s - s->rate_s);
    s->rate_token = s->n_token;
    s->rate_s = now_s;
}

/* Number of pages of all running replicas. */
static uint64_t n_page(const struct spot_server *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->n_place; i++)
        n += s->place[i]->is_running ? s->place[i]->n_page : 0;
    return n;
}

/* Leaders report used pages with tokens; one without choices reports nothing, and has dropped its
 * pages. */
static uint32_t used_page_of(const struct spot_replica *p)
{
    return p->load ? p->used_page : 0;
}

static uint64_t used_page(const struct spot_server *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->n_place; i++)
        n += s->place[i]->is_running ? used_page_of(s->place[i]) : 0;
    return n;
}

static uint64_t kept_page(const struct spot_server *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->n_place; i++)
        n += s->place[i]->is_running ? s->place[i]->kept_page : 0;
    return n;
}

/* Mean and quantiles; omitted while there are none. */
static void put_times(struct spot_jw *jw, const char *what, const struct spot_histogram *h)
{
    const struct {
        const char *of;
        double time_s;
    } told[] = { { "mean", h->n ? h->sum_s / (double)h->n : 0 },
                 { "p50", spot_histogram_quantile_s(h, 0.5) },
                 { "p99", spot_histogram_quantile_s(h, 0.99) } };
    char key[32];

    for (size_t i = 0; h->n && i < sizeof(told) / sizeof(*told); i++) {
        snprintf(key, sizeof(key), "%s_%s_s", what, told[i].of);
        spot_jw_real(jw, key, told[i].time_s);
    }
}

void spot_server_status(void *server, struct spot_jw *jw)
{
    const struct spot_server *const s = server;

    spot_jw_str(jw, "model", s->target->model.dir);
    spot_jw_int(jw, "replicas", (int64_t)spot_server_running(s));
    spot_jw_int(jw, "requests", (int64_t)s->n_request);
    spot_jw_int(jw, "running", (int64_t)(s->n_sequence - spot_server_waiting(s)));
    spot_jw_int(jw, "queued", (int64_t)spot_server_waiting(s));
    spot_jw_int(jw, "tokens", (int64_t)s->n_token);
    spot_jw_real(jw, "tokens_per_s", s->rate);
    spot_jw_int(jw, "prompt_tokens", (int64_t)s->n_prompt_token);
    spot_jw_int(jw, "cached_tokens", (int64_t)s->n_cached_token);
    spot_jw_int(jw, "preemptions", (int64_t)s->n_lost);
    spot_server_roll_status(s, jw);
    put_times(jw, "ttft", &s->first);
    put_times(jw, "between", &s->between);
    put_times(jw, "whole", &s->whole);
    put_times(jw, "queue", &s->queue);
    if (n_page(s))
        spot_jw_real(jw, "kv_use", (double)used_page(s) / (double)n_page(s));
}

bool spot_server_status_member(void *server, const struct spot_peer *peer, struct spot_jw *jw)
{
    const struct spot_replica *const p = ((struct spot_seat *)spot_peer_data(peer))->replica;

    (void)server;
    if (p->version)
        spot_jw_str(jw, "model", p->version->model.dir);
    if (p->peer != peer)
        return p->is_running;
    spot_jw_int(jw, "load", p->load);
    if (p->n_page)
        spot_jw_real(jw, "kv_use", (double)used_page_of(p) / p->n_page);
    return p->is_running;
}

void spot_server_status_page(void *server, struct spot_jw *jw)
{
    const struct spot_server *const s = server;

    spot_server_status(server, jw);
    spot_jw_array(jw, "workers");
    for (size_t i = 0; i < s->n_seat; i++) {
        const struct spot_seat *const seat = s->seat[i];

        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "name", spot_peer_name(seat->peer));
        spot_jw_int(jw, "load", seat->replica ? seat->replica->load : 0);
        spot_jw_bool(jw, "leaving", isfinite(spot_peer_time_left_s(seat->peer)));
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

int spot_server_proof(void *server, const struct spot_completion *c, struct spot_buf *out)
{
    const struct spot_server *const s = server;
    const struct spot_work *const w = c->core;
    struct spot_proof_of of = { .kernel = s->options->kind ? s->options->kind : "fma",
                                .type = s->options->type };

    if (s->options->is_foreign)
        return spot_openai_error(400, "invalid_request_error", NULL, "proof_unavailable", out,
                                 "The model is in engines of others, which promise no bits: nobody "
                                 "could compute this answer again.");
    if (!w)
        return spot_openai_error(404, "invalid_request_error", NULL, "stream_not_found", out,
                                 "There is no stream of this id any more.");
    of.model = spot_proof_model(&w->version->model);
    of.step = w->version->step;
    spot_proof_put(&of, c, out);
    return 0;
}

/* The lowest rate at which pages were received; 0: never received. */
static double page_rate(const struct spot_server *s)
{
    double rate = 0;

    for (size_t i = 0; i < s->n_place; i++) {
        const double of_place = s->place[i]->page_byte_per_s;

        if (of_place > 0 && (rate <= 0 || of_place < rate))
            rate = of_place;
    }
    return rate;
}

static char *name_way(const struct spot_size_bucket *b, const struct spot_size_way *w)
{
    const char *const text[] = { b->name, w->type, w->zone, w->market };
    static const char *const key[] = { "bucket", ",instance_type", ",zone", ",market" };
    char *label;
    size_t n;
    FILE *const out = spot_xmemory_open(&label, &n);

    for (size_t i = 0; i < 4; i++) {
        char *const value = spot_xcalloc(2 * strlen(text[i]) + 1, 1);

        spot_metric_escape(text[i], value);
        fprintf(out, "%s=\"%s\"", key[i], value);
        free(value);
    }
    spot_xmemory_close(out);
    return label;
}

/* Write the plan's route and its use. */
static void put_ways(const struct spot_server *s, struct spot_buf *out)
{
    struct spot_metric *metric = NULL;
    size_t n = 0, cap = 0;

    for (size_t i = 0; i < s->routes.size.n_bucket; i++)
        for (size_t k = 0; k < s->routes.size.bucket[i].n_way; k++) {
            const struct spot_size_way *const w = &s->routes.size.bucket[i].way[k];

            metric = spot_xgrow(metric, &cap, n + 1, sizeof(*metric));
            metric[n++] =
                (struct spot_metric){ .name = "spot_serve_routed_total",
                                      .type = SPOT_COUNTER,
                                      .help = "Choices that went where the plan's route sends "
                                              "their size.",
                                      .label = name_way(&s->routes.size.bucket[i], w),
                                      .value = (double)w->n_taken };
        }
    spot_metric_put(metric, n, out);
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)metric[i].label);
    free(metric);
}

void spot_server_metrics(void *server, struct spot_buf *out)
{
    const struct spot_server *const s = server;
    const size_t waiting = spot_server_waiting(s);
    struct spot_group_census census = { 0 };
    struct spot_buf status = { 0 };
    const struct spot_metric metric[] = {
        { "spot_serve_replicas", SPOT_GAUGE, "Replicas that run.", NULL,
          (double)spot_server_running(s), NULL },
        { "spot_serve_requests_total", SPOT_COUNTER, "Requests taken.", NULL, (double)s->n_request,
          NULL },
        { "spot_serve_tokens_total", SPOT_COUNTER, "Tokens committed.", NULL, (double)s->n_token,
          NULL },
        { "spot_serve_prompt_tokens_total", SPOT_COUNTER, "Prompt tokens of choices that began.",
          NULL, (double)s->n_prompt_token, NULL },
        { "spot_serve_prompt_tokens_cached_total", SPOT_COUNTER,
          "Prompt tokens that were not computed, as an earlier request began alike.", NULL,
          (double)s->n_cached_token, NULL },
        { "spot_serve_moves_total", SPOT_COUNTER, "Choices that another replica went on with.",
          NULL, (double)s->n_moved, NULL },
        { "spot_serve_spilled_total", SPOT_COUNTER,
          "Choices that went elsewhere than the plan's route says, to begin within its time.", NULL,
          (double)s->n_spilled, NULL },
        { "spot_serve_moves_with_pages_total", SPOT_COUNTER,
          "Moves for which pages came from the replica before.", NULL, (double)s->n_paged, NULL },
        { "spot_serve_tokens_from_pages_total", SPOT_COUNTER,
          "Tokens that were not prefilled again as their pages came.", NULL,
          (double)s->n_token_paged, NULL },
        { "spot_serve_page_bytes_per_second", SPOT_GAUGE,
          "The slowest rate at which pages came to a replica; 0: none did.", NULL, page_rate(s),
          NULL },
        { "spot_serve_choices_running", SPOT_GAUGE, "Choices that a replica computes.", NULL,
          (double)(s->n_sequence - waiting), NULL },
        { "spot_serve_choices_queued", SPOT_GAUGE, "Choices that wait for a replica.", NULL,
          (double)waiting, NULL },
        { "spot_serve_tokens_per_second", SPOT_GAUGE, "Tokens committed in the last second or so.",
          NULL, s->rate, NULL },
        { "spot_serve_preemptions_total", SPOT_COUNTER,
          "Workers of a replica that went, told or killed.", NULL, (double)s->n_lost, NULL },
        { "spot_serve_checked_total", SPOT_COUNTER, "Choices that another replica computed again.",
          NULL, (double)s->checks.n_checked, NULL },
        { "spot_serve_unchecked_total", SPOT_COUNTER,
          "Choices that were to be checked, and no replica came that could.", NULL,
          (double)s->checks.n_unchecked, NULL },
        { "spot_serve_corrupt_members_total", SPOT_COUNTER,
          "Workers set aside because they computed wrong answers.", NULL,
          (double)s->checks.n_convicted, NULL },
        { "spot_serve_kv_pages", SPOT_GAUGE, "Pages of the caches of all replicas that run.", NULL,
          (double)n_page(s), NULL },
        { "spot_serve_kv_pages_used", SPOT_GAUGE, "Pages of those that are in use.", NULL,
          (double)used_page(s), NULL },
        { "spot_serve_kv_pages_kept", SPOT_GAUGE,
          "Pages that no choice has, kept for requests that begin alike.", NULL,
          (double)kept_page(s), NULL },
        { "spot_serve_queue_seconds", SPOT_HISTOGRAM,
          "From the arrival of a request to its first worker.", NULL, 0, &s->queue },
        { "spot_serve_first_token_seconds", SPOT_HISTOGRAM,
          "From the arrival of a request to its first token.", NULL, 0, &s->first },
        { "spot_serve_between_tokens_seconds", SPOT_HISTOGRAM, "Between two tokens of a choice.",
          NULL, 0, &s->between },
        { "spot_serve_request_seconds", SPOT_HISTOGRAM,
          "From the arrival of a request to its last token.", NULL, 0, &s->whole },
    };

    spot_metric_put(metric, sizeof(metric) / sizeof(*metric), out);
    put_ways(s, out);
    spot_group_status(s->group, &census, &status); /* the workers present, as it counts them */
    spot_group_metrics(s->group, &census, out);
    spot_buf_release(&status);
}
