/* SPDX-License-Identifier: MIT */
#include "serve/engine_replica.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/http_client.h"
#include "common/backoff.h"
#include "common/clock.h"
#include "common/memory.h"
#include "common/xalloc.h"
#include "serve/engine_client.h"
#include "serve/engine_process.h"
#include "serve/serve_protocol.h"

static const double look_s = 0.1; /* between checks that the engine runs */
static const double
    poll_s = 0.2,
    answer_s = 5; /* while the engine is not ready yet: between checks; limit of an answer */
static const double pause_least_s = 1, pause_most_s = 60, stop_s = 10;
static const double unwell_most_s = 15; /* then the engine is presumed dead */
static const double weigh_s = 1;
enum { GROWTH_BYTE = 64 << 20 }; /* growth up to this and a quarter of its memory is ignored */

struct replica {
    const struct spot_engine_replica_options *options;
    struct spot_agent agent;
    struct spot_engine_process process;
    char url[SPOT_HTTP_URL_MAX / 2];
    const struct spot_engine_preset *preset;
    struct spot_engine_about about;
    char first_model[256];             /* model of the engine at its first start; "": not known */
    struct spot_engine_client *client; /* NULL: the coordinator has not accepted this worker yet */
    bool is_formed;
    size_t first_byte; /* memory of the engine when it became ready */
    double weighed_s;
    char broken[sizeof(
        (struct spot_err){ 0 }.msg)]; /* why the engine must be restarted; "": it need not */
};

/* --- the engine ------------------------------------------------------------------ */

struct answer {
    bool is_there;
    long status;
    struct spot_buf body;
};

static void on_answer(void *user, const struct spot_http_reply *reply)
{
    struct answer *const a = user;

    a->is_there = true;
    a->status = reply->status;
    a->body.n = 0;
    spot_buf_add(&a->body, reply->body, reply->n_byte);
}

/* Sends a GET request. Returns the HTTP status, 0: no answer. */
static long get(struct replica *r, struct spot_http_client *http, const char *path,
                struct answer *a)
{
    char url[SPOT_HTTP_URL_MAX];
    const struct spot_http_ask ask = {
        .method = "GET", .url = url, .connect_s = 1, .limit_s = answer_s
    };
    const double until_s = spot_clock_s() + 2 * answer_s;

    snprintf(url, sizeof(url), "%s%s", r->url, path);
    a->is_there = false;
    a->status = 0;
    if (spot_http_client_ask(http, &ask, on_answer, a, NULL))
        return 0;
    while (!a->is_there && spot_clock_s() < until_s && !spot_agent_was_noticed())
        if (spot_http_client_wait(http, NULL, 0, look_s, NULL))
            break;
    spot_http_client_drop(http, a);
    return a->status;
}

static bool has_ended(struct replica *r)
{
    return r->options->command && !spot_engine_process_runs(&r->process);
}

/* Determine the kind of engine by an answer that only that kind gives. */
static void guess(struct replica *r, struct spot_http_client *http, struct answer *a)
{
    for (size_t i = 0; !r->preset && spot_engine_preset_at(i); i++) {
        const struct spot_engine_preset *const p = spot_engine_preset_at(i);

        if (p->only_here && get(r, http, p->only_here, a) == 200)
            r->preset = p;
    }
}

static bool is_well(struct replica *r, struct spot_http_client *http, struct answer *a)
{
    if (!r->preset)
        guess(r, http, a);
    return r->preset && get(r, http, r->preset->health, a) == 200;
}

static int say_end(struct replica *r, const char *what, struct spot_err *err)
{
    char words[200];

    spot_engine_process_words(&r->process, words, sizeof(words));
    return spot_err_set(err, SPOT_ESYS, "%s%s%s", what, *words ? "; its output: " : "", words);
}

/* If the engine has ended, an answer is from another process that has taken its port. */
static int await_well(struct replica *r, struct spot_http_client *http, struct answer *a,
                      struct spot_err *err)
{
    const double until_s = spot_clock_s() + r->options->start_s;

    for (;;) {
        const bool well = is_well(r, http, a);

        if (has_ended(r))
            return say_end(r, "the engine ended before it was ready", err);
        if (well)
            return 0;
        if (spot_agent_was_noticed())
            return spot_err_set(err, SPOT_EPREEMPTED, "preempted before its engine was ready");
        if (spot_clock_s() > until_s)
            return say_end(r,
                           r->preset ? "the engine was not ready in time"
                                     : "no engine of a known kind answers in time "
                                       "(--engine-kind names it)",
                           err);
        spot_clock_sleep(poll_s);
    }
}

static int read_about(struct replica *r, struct spot_http_client *http, struct answer *a,
                      struct spot_err *err)
{
    if (get(r, http, r->preset->about, a) != 200)
        return spot_err_set(err, SPOT_ESYS, "the engine does not answer %s", r->preset->about);
    if (spot_engine_about_read(r->preset, *r->first_model ? r->first_model : NULL,
                               (const char *)a->body.data, a->body.n, &r->about, err))
        return -1;
    memcpy(r->first_model, r->about.model, sizeof(r->first_model));
    return 0;
}

static int meet(struct replica *r, struct spot_err *err)
{
    struct spot_http_client *const http = spot_http_client_new(err);
    struct answer a = { .status = 0 };
    int rc = -1;

    if (http && !await_well(r, http, &a, err))
        rc = read_about(r, http, &a, err);
    spot_http_client_free(http);
    spot_buf_release(&a.body);
    return rc;
}

static int start(struct replica *r, struct spot_err *err)
{
    const struct spot_engine_replica_options *const o = r->options;

    *r->broken = '\0';
    if (!o->command) {
        snprintf(r->url, sizeof(r->url), "%s", o->url);
        return meet(r, err);
    }
    if (spot_engine_process_start(&r->process, o->command, err))
        return -1;
    snprintf(r->url, sizeof(r->url), "http://127.0.0.1:%d", r->process.port);
    if (meet(r, err))
        return -1;
    r->first_byte = spot_engine_process_byte(&r->process);
    return 0;
}

/* --- joining ------------------------------------------------------------------------ */

static void hello(void *job, struct spot_buf *out)
{
    const struct replica *const r = job;
    const char *const machine = r->options->agent.machine;

    spot_put_text(out, SPOT_SERVE_ENGINES_NAME);
    spot_put_text(out, machine ? machine : "");
    spot_put_text(out, r->preset->name);
    spot_put_u8(out, r->preset->takes_ids);
    spot_put_text(out, r->about.model);
    spot_put_u64(out, (uint64_t)r->about.n_context);
}

static int welcome(void *job, struct spot_wire_in *in, struct spot_err *err)
{
    struct replica *const r = job;
    struct spot_engine_config config = { .preset = r->preset,
                                         .url = r->url,
                                         .model = r->about.model,
                                         .n_context = r->about.n_context,
                                         .silent_s = r->options->silent_s };

    config.is_text = spot_get_u8(in);
    config.n_vocabulary = spot_get_u32(in);
    config.end = spot_get_u32(in);
    if (!spot_wire_in_done(in))
        return 1;
    if (config.is_text && r->preset->dialect == SPOT_ENGINE_SGLANG) /* events repeat all text */
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "sglang takes tokens: the server's --model must be a directory with "
                            "the model's tokenizer");
    spot_engine_client_free(r->client);
    r->client = spot_engine_client_new(&config, err);
    return r->client ? 0 : -1;
}

static void quiesced(void *job)
{
    struct replica *const r = job;

    r->is_formed = false;
    if (r->client)
        spot_engine_client_clear(r->client);
}

static int form(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct replica *const r = job;
    struct spot_err why = { 0 };

    (void)frame;
    if (spot_agent_enter(&r->agent, NULL, 0, &why))
        return spot_agent_report(&r->agent, &why, err) ? -1 : 1;
    r->is_formed = true;
    return 0;
}

static int orphaned(void *job, struct spot_err *err)
{
    (void)err;
    quiesced(job);
    return 0;
}

/* Without a coordinator the engine's output must still be read, or the engine would block. */
static int idle(void *job, double wait_s, struct spot_err *err)
{
    struct replica *const r = job;

    if (has_ended(r))
        return say_end(r, "the engine ended", err);
    spot_clock_sleep(wait_s);
    return 0;
}

/* --- sequences ------------------------------------------------------------------------ */

static int on_continue(struct replica *r, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t choice = spot_get_u32(&in), n = spot_get_count(&in, 4);
    uint32_t *const token = spot_xcalloc(n, sizeof(*token));
    struct spot_request request = { 0 };
    struct spot_err why = { 0 };
    char no_grammar[sizeof(why.msg)];
    uint32_t assignment, n_grammar;
    const uint8_t *grammar;
    int rc;

    for (uint32_t i = 0; i < n; i++)
        token[i] = spot_get_u32(&in);
    if (in.bad || spot_request_get(&request, &in)) {
        rc = spot_err_set(&why, SPOT_EDATA, "a malformed request");
    } else {
        assignment = spot_get_u32(&in);
        spot_get_text(&in, no_grammar, sizeof(no_grammar));
        n_grammar = spot_get_count(&in, 1);
        grammar = spot_get_bytes(&in, n_grammar);
        rc = *no_grammar
                 ? spot_err_set(&why, SPOT_EDATA, "%s", no_grammar)
                 : spot_engine_client_add(r->client, frame->tag, assignment, &request, choice,
                                          token, n, (const char *)grammar, n_grammar, &why);
        if (*no_grammar)
            spot_request_release(&request);
    }
    free(token);
    return rc ? spot_agent_report_part(&r->agent, frame->tag, &why, err) : 0;
}

static int order(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct replica *const r = job;
    struct spot_buf nothing = { 0 };

    if (frame->epoch != r->agent.epoch || !r->is_formed)
        return 0;
    if (frame->type == SPOT_MSG_CONTINUE)
        return on_continue(r, frame, err);
    if (frame->type == SPOT_MSG_FORGET)
        spot_engine_client_drop(r->client, frame->tag);
    else if (frame->type == SPOT_MSG_ROUND)
        return spot_agent_send(&r->agent, SPOT_MSG_VOTE, frame->tag, &nothing, err);
    return 0;
}

static int tell_tokens(struct replica *r, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    size_t n;
    const struct spot_engine_told *const told = spot_engine_client_told(r->client, &n);

    if (!n)
        return 0;
    for (int i = 0; i < 3; i++) /* no pages */
        spot_put_u32(&out, 0);
    spot_put_f64(&out, 0);
    spot_put_f64(&out, 0);
    spot_put_u64(&out, 0);
    spot_put_u32(&out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        spot_put_u64(&out, told[i].sequence);
        spot_step_token_put(&out, &told[i].token);
    }
    return spot_agent_send(&r->agent, SPOT_MSG_TOKENS, 0, &out, err);
}

static int tell_failures(struct replica *r, struct spot_err *err)
{
    size_t n;
    const struct spot_engine_failure *const f = spot_engine_client_failures(r->client, &n);
    int rc = 0;

    for (size_t i = 0; !rc && i < n; i++) {
        struct spot_err why = { .code = SPOT_EDATA };
        struct spot_buf out = { 0 };

        if (f[i].is_final) {
            (void)spot_err_set(&why, SPOT_EDATA, "%s", f[i].why);
            rc = spot_agent_report_part(&r->agent, f[i].sequence, &why, err);
            continue;
        }
        spot_put_u32(&out, f[i].assignment);
        spot_put_u8(&out, f[i].is_anew);
        spot_put_text(&out, f[i].why);
        rc = spot_agent_send(&r->agent, SPOT_MSG_GIVEN_UP, f[i].sequence, &out, err);
    }
    return rc;
}

/* True if the engine leaks memory so that the system would soon kill it, or another process. */
static bool has_no_memory(struct replica *r)
{
    const double now_s = spot_clock_s();
    size_t byte;

    if (!r->options->command || now_s - r->weighed_s < weigh_s)
        return false;
    r->weighed_s = now_s;
    byte = spot_engine_process_byte(&r->process);
    return byte > r->first_byte + r->first_byte / 4 + GROWTH_BYTE &&
           (double)spot_memory_left(byte) < r->options->room_byte;
}

/* If the engine has ended or no longer answers, leave the group, so that its sequences are moved at
 * once, and join again with a new engine. */
static int look_at_engine(struct replica *r, struct spot_err *err)
{
    const double unwell_s = spot_engine_client_unwell_s(r->client);

    if (has_ended(r))
        (void)say_end(r, "the engine ended", err);
    else if (isinf(unwell_s))
        (void)say_end(r, "the engine accepts no connections", err);
    else if (has_no_memory(r))
        (void)spot_err_set(err, SPOT_ESYS,
                           "the engine has grown and memory is short: from %.2f "
                           "GB to %.2f GB",
                           (double)r->first_byte * 1e-9,
                           (double)spot_engine_process_byte(&r->process) * 1e-9);
    else if (unwell_s > unwell_most_s)
        (void)spot_err_set(err, SPOT_ESYS, "the engine has not been healthy for %.0f s", unwell_s);
    else
        return 0;
    snprintf(r->broken, sizeof(r->broken), "%s", err->msg);
    err->code = SPOT_EINFEASIBLE; /* an error of the engine, not a lost coordinator */
    return -1;
}

static int work(void *job, struct spot_err *err)
{
    struct replica *const r = job;
    const int fd = spot_mesh_order_fd(r->agent.mesh, err);

    if (fd < 0)
        return -1;
    while (!spot_mesh_has_order(r->agent.mesh)) {
        if (look_at_engine(r, err) || spot_engine_client_wait(r->client, &fd, 1, look_s, err))
            return -1;
        spot_mesh_progress(r->agent.mesh);
        if (r->is_formed && (tell_tokens(r, err) || tell_failures(r, err)))
            return -1;
    }
    return 0;
}

/* --- the worker --------------------------------------------------------------------------- */

static void finish(struct replica *r)
{
    spot_engine_client_free(r->client);
    r->client = NULL;
    if (r->options->command)
        spot_engine_process_stop(&r->process, stop_s);
}

static int join(struct replica *r, struct spot_agent *agent, struct spot_err *err)
{
    static const struct spot_agent_workload workload = { .hello = hello,
                                                         .welcome = welcome,
                                                         .quiesced = quiesced,
                                                         .form = form,
                                                         .order = order,
                                                         .work = work,
                                                         .idle = idle,
                                                         .orphaned = orphaned };
    int rc;

    r->agent =
        (struct spot_agent){ .options = &r->options->agent, .workload = &workload, .job = r };
    rc = spot_agent_run(&r->agent, err);
    if (agent)
        *agent = r->agent;
    if (rc && !strcmp(r->agent.other, SPOT_SERVE_NAME))
        (void)spot_err_set(err, SPOT_EINFEASIBLE,
                           "refused: the job at %s computes with workers of its own; for engines "
                           "start it with --dtype engine",
                           r->options->agent.join);
    return rc;
}

/* Waits after a failure. Returns true if the worker should try again. */
static bool pause_after(struct replica *r, int *n_bad, const struct spot_err *why)
{
    const double pause_s = spot_backoff_s(++*n_bad, pause_least_s, pause_most_s);
    const double until_s = spot_clock_s() + pause_s;

    if (r->options->note)
        r->options->note("%s; it starts again in %.0f s", why->msg, pause_s);
    while (spot_clock_s() < until_s && !spot_agent_was_noticed())
        spot_clock_sleep(look_s);
    return !spot_agent_was_noticed();
}

int spot_engine_replica_run(const struct spot_engine_replica_options *options,
                            struct spot_agent *agent, struct spot_err *err)
{
    struct replica r = { .options = options };
    int n_bad = 0, rc;

    r.process.watched = r.process.said = -1;
    if (options->kind)
        r.preset = spot_engine_preset_find(options->kind);
    else if (options->command)
        r.preset = spot_engine_preset_of(options->command);
    for (;;) {
        const double began_s = spot_clock_s();

        rc = start(&r, err);
        if (rc && err->code == SPOT_ESYS && options->command) {
            snprintf(r.broken, sizeof(r.broken), "%s", err->msg);
        } else if (!rc) {
            rc = join(&r, agent, err);
            n_bad = spot_clock_s() - began_s > pause_most_s ? 0 : n_bad;
        }
        finish(&r);
        if (!*r.broken || !pause_after(&r, &n_bad, err))
            break;
    }
    if (rc && spot_agent_was_noticed())
        (void)spot_err_set(err, SPOT_EPREEMPTED, "left after a notice");
    return rc;
}
