/* SPDX-License-Identifier: MIT */
/* Fetches the weights of a running job, bundle by bundle, from its coordinator. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/bundle_io.h"
#include "cluster/client.h"
#include "comm/link.h"
#include "common/clock.h"
#include "common/hash.h"
#include "common/version.h"
#include "common/xalloc.h"
#include "train/config.h"
#include "train/saved_model.h"
#include "train/train_protocol.h"

enum {
    TEXT_MAX = 4096 + 1,
    SILENCE_S = 10, /* a follower that stops waits for the question under way */
};

struct source {
    const char *join, *key_file;
    double wait_s; /* time limit for connecting */
};

/* The job's description of itself. */
struct job {
    int64_t round, durable; /* durable: or the newest step available to followers */
    char tokens[8], tokenizer[TEXT_MAX];
    struct spot_job_config config;
};

static int report(const uint8_t *text, size_t n, struct spot_err *err)
{
    return spot_err_set(err, SPOT_EINFEASIBLE, "the job reports: %.*s", (int)(n < 400 ? n : 400),
                        (const char *)text);
}

/* Send a request and read the answer, or the reason for a refusal. */
static int ask(const struct source *s, enum spot_train_message type,
               const struct spot_buf *question, struct spot_buf *answer, struct spot_err *err)
{
    const int rc = spot_client_ask(s->join, s->key_file, s->wait_s, (enum spot_message)type,
                                   question->data, question->n, answer, err);

    return rc <= 0 ? rc : report(answer->data, answer->n, err);
}

static int take_job(const struct source *s, struct spot_wire_in *in, struct job *job,
                    struct spot_err *err)
{
    const uint32_t protocol = spot_get_u32(in);
    char version[SPOT_VERSION_MAX];

    spot_get_text(in, version, sizeof(version));
    if (!in->bad && protocol != SPOT_PROTOCOL)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "%s is a job of version %s (protocol %u), this is version %s (%d)",
                            s->join, version, (unsigned)protocol, spot_version(), SPOT_PROTOCOL);
    job->round = spot_get_i64(in);
    job->durable = spot_get_i64(in);
    spot_get_text(in, job->tokens, sizeof(job->tokens));
    spot_get_text(in, job->tokenizer, sizeof(job->tokenizer));
    spot_job_config_get(in, &job->config);
    if (!spot_wire_in_done(in))
        return spot_err_set(err, SPOT_ESYS, "%s is not a job of this version", s->join);
    return spot_job_config_check(&job->config, err);
}

/* Request the job's description, and that a step be made durable or shown. */
static int ask_job(const struct source *s, enum spot_train_message type, int64_t wanted,
                   struct job *job, struct spot_err *err)
{
    struct spot_buf question = { 0 }, answer = { 0 };
    struct spot_wire_in in;
    int rc;

    spot_put_i64(&question, wanted);
    rc = ask(s, type, &question, &answer, err);
    in = spot_wire_in(answer.data, answer.n);
    if (!rc)
        rc = take_job(s, &in, job, err);
    spot_buf_release(&question);
    spot_buf_release(&answer);
    return rc;
}

/* Wait until the job's current step is durable, or, if no step is durable yet, until the first one
 * is. */
static int await_durable(const struct source *s, double patience_s, struct job *job,
                         struct spot_err *err)
{
    const double until_s = spot_clock_s() + patience_s;
    int64_t wanted;

    if (ask_job(s, SPOT_MSG_EXPORT, 0, job, err))
        return -1;
    wanted = job->round > 0 ? job->round : 1;
    for (;;) {
        if (ask_job(s, SPOT_MSG_EXPORT, wanted, job, err))
            return -1;
        if (job->durable >= wanted)
            return 0;
        if (spot_clock_s() > until_s)
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "step %lld of the job did not become durable within %g s (the "
                                "newest that is: %lld)",
                                (long long)wanted, patience_s, (long long)job->durable);
        spot_clock_sleep(0.05);
    }
}

static struct spot_bundle *fetch_bundle(struct spot_saved_model *m, const struct source *s,
                                        const struct job *job, int bundle, struct spot_err *err)
{
    struct spot_buf question = { 0 }, answer = { 0 };
    struct spot_bundle *got = NULL;

    (void)m;
    spot_put_i64(&question, job->durable);
    spot_put_u32(&question, (uint32_t)bundle);
    if (!ask(s, SPOT_MSG_FETCH, &question, &answer, err))
        got = spot_bundle_unpack(&job->config.shape, bundle, job->durable, answer.data, answer.n,
                                 err);
    if (got)
        spot_weights_only(got);
    spot_buf_release(&question);
    spot_buf_release(&answer);
    return got;
}

/* Take the bytes of a SHOWN message, which contain the bundle's plane. */
static struct spot_bundle *take_shown(const struct job *job, int bundle, struct spot_frame *answer,
                                      uint64_t *hash, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(answer->data, answer->n_byte);
    uint8_t *const weights = answer->data + 16;
    const int64_t step = spot_get_i64(&in);
    struct spot_bundle *got;
    struct spot_arena arena;
    size_t n_byte;

    *hash = spot_get_u64(&in);
    spot_arena_of(&job->config.shape, bundle, &arena);
    n_byte = arena.n_elem * sizeof(float);
    if (in.bad || answer->n_byte != 16 + n_byte || step != job->durable ||
        spot_hash64(weights, n_byte) != *hash) {
        spot_err_set(err, SPOT_EINFEASIBLE, "weights of bundle %d of step %lld arrived damaged",
                     bundle, (long long)job->durable);
        return NULL;
    }
    got = spot_xcalloc(1, sizeof(*got));
    *got = (struct spot_bundle){ .index = bundle, .step = step, .arena = arena };
    got->plane[SPOT_PLANE_MASTER] = (float *)(void *)weights;
    return got;
}

static struct spot_bundle *look_at_bundle(struct spot_saved_model *m, const struct source *s,
                                          const struct job *job, int bundle, struct spot_err *err)
{
    struct spot_buf question = { 0 };
    struct spot_bundle *got = NULL;
    int rc;

    spot_put_i64(&question, job->durable);
    spot_put_u32(&question, (uint32_t)bundle);
    rc = spot_client_take(s->join, s->key_file, s->wait_s, SILENCE_S,
                          (enum spot_message)SPOT_MSG_LOOK, question.data, question.n,
                          &m->frame[bundle], err);
    if (rc > 0)
        (void)report(m->frame[bundle]->data, m->frame[bundle]->n_byte, err);
    else if (!rc)
        got = take_shown(job, bundle, m->frame[bundle], &m->hash[bundle], err);
    spot_buf_release(&question);
    return got;
}

typedef struct spot_bundle *fetch_fn(struct spot_saved_model *m, const struct source *s,
                                     const struct job *job, int bundle, struct spot_err *err);

static int fetch_bundles(struct spot_saved_model *m, const struct source *s, const struct job *job,
                         fetch_fn *fetch, struct spot_err *err)
{
    m->shape = job->config.shape;
    m->step = job->durable;
    m->n_bundle = spot_shape_bundles(&m->shape);
    m->tokens = spot_xstrdup(job->tokens);
    m->tokenizer = spot_xstrdup(job->tokenizer);
    m->bundle = spot_xcalloc((size_t)m->n_bundle, sizeof(struct spot_bundle *));
    m->hash = spot_xcalloc((size_t)m->n_bundle, sizeof(*m->hash));
    m->frame = spot_xcalloc((size_t)m->n_bundle, sizeof(struct spot_frame *));
    for (int b = 0; b < m->n_bundle; b++)
        if (!(m->bundle[b] = fetch(m, s, job, b, err)))
            return -1;
    return 0;
}

/* If the generation is replaced while it is fetched, fetch the next one. */
int spot_saved_model_fetch(struct spot_saved_model *m, const char *join, const char *key_file,
                           double wait_s, double patience_s, struct spot_err *err)
{
    enum { TRIES = 4 };
    const struct source s = { join, key_file, wait_s };
    struct job *const job = spot_xcalloc(1, sizeof(*job));
    int rc = -1;

    *m = (struct spot_saved_model){ .bundle = NULL };
    for (int k = 0; rc && k < TRIES; k++) {
        spot_saved_model_release(m);
        if (await_durable(&s, patience_s, job, err))
            break;
        rc = fetch_bundles(m, &s, job, fetch_bundle, err);
        if (rc && err->code != SPOT_EINFEASIBLE)
            break;
    }
    free(job);
    return rc;
}

/* If a step is no longer available, request a newer one. */
static int look(struct spot_saved_model *m, const struct source *s, const struct job *job,
                struct spot_err *err)
{
    if (!fetch_bundles(m, s, job, look_at_bundle, err))
        return 1;
    spot_saved_model_release(m);
    return err->code == SPOT_EINFEASIBLE ? 0 : -1;
}

int spot_saved_model_follow(struct spot_saved_model *m, struct spot_followed *f,
                            struct spot_err *err)
{
    const struct source s = { f->join, f->key_file, 0 };
    const struct source brief = { f->join, f->key_file,
                                  5 }; /* so that a hung job does not block the caller */
    const int64_t wanted = f->step < 0 ? 1 : f->step + f->every;
    struct job *const job = spot_xcalloc(1, sizeof(*job));
    int rc = ask_job(&brief, SPOT_MSG_WATCH, wanted, job, err);

    *m = (struct spot_saved_model){ .bundle = NULL };
    if (!rc && job->round < f->step)
        f->step = -1;
    else if (!rc && job->durable >= wanted)
        rc = look(m, &s, job, err);
    if (rc > 0)
        f->step = m->step;
    free(job);
    return rc;
}
