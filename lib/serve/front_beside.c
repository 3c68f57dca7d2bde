/* SPDX-License-Identifier: MIT */
/* Does long work for one client in a thread, so that other streams do not wait: encoding a body of
 * megabytes takes up to a second, and so does writing an answer of many choices with log
 * probabilities. Small ones take less than a millisecond and are done at once. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "serve/front_state.h"
#include "serve/openai_state.h"

enum {
    TURN_AT_ONCE = 64 << 10, /* bytes of bodies in one turn of the loop: some milliseconds */
    BODY_AT_ONCE = 4096,     /* bytes */
    ANSWER_AT_ONCE = 512,    /* tokens and their alternatives */
    PART_BYTE = 64,          /* approximate bytes of an answer per token or alternative */
};

/* If reading has once taken longer than this it is done in a thread: the template is slow even for
 * a short body. */
static const double at_once_s = 0.05;

/* --- bodies ------------------------------------------------------------------------ */

struct spot_front_reading {
    struct spot_desk_job job; /* first */
    struct spot_front *front;
    struct spot_exchange *x; /* NULL: its client has disconnected */
    enum spot_api api;
    struct spot_buf body;
    struct spot_front_options options; /* a copy made when reading began */
    struct spot_request request;
    struct spot_buf error;
    int status;
    struct spot_front_reading *next;
};

static int parse(const struct spot_front_options *options, enum spot_api api,
                 const struct spot_buf *body, struct spot_request *request, struct spot_buf *error)
{
    const char *const text = (const char *)body->data;

    return api >= SPOT_API_TOKENIZE
               ? spot_openai_tokens(options, api, text, body->n, error)
               : spot_openai_parse(options, api, text, body->n, request, error);
}

/* Reads a body in the thread, with a tokenizer object of its own. */
static void read_body(struct spot_desk_job *job)
{
    struct spot_front_reading *const r = (struct spot_front_reading *)job;
    struct spot_vocabulary own = *r->options.vocabulary;
    struct spot_front_options options = r->options;

    own.bpe = spot_bpe_share(own.bpe);
    options.vocabulary = &own;
    r->status = parse(&options, r->api, &r->body, &r->request, &r->error);
    spot_bpe_free(own.bpe);
}

static void forget(struct spot_front_reading *r)
{
    struct spot_front_reading **at = &r->front->reading;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    r->front->reading_byte -= r->body.n;
    spot_request_release(&r->request);
    spot_buf_release(&r->body);
    spot_buf_release(&r->error);
    free(r);
}

static void put(struct spot_front_reading *r)
{
    r->options = r->front->options;
    spot_desk_put(r->front->desk, &r->job);
}

static void was_read(struct spot_desk_job *job)
{
    struct spot_front_reading *const r = (struct spot_front_reading *)job;

    if (r->x && r->options.vocabulary != r->front->options.vocabulary) {
        spot_request_release(&r->request); /* the tokens are of a model that is no longer served */
        r->error.n = 0;
        put(r);
        return;
    }
    if (r->x) {
        struct spot_exchange *const x = r->x;

        x->at_desk = NULL;
        spot_front_take(x, r->status, &r->request, &r->error);
    }
    forget(r);
}

static void read_at_once(struct spot_exchange *x, enum spot_api api, const struct spot_buf *body)
{
    struct spot_request request = { 0 };
    struct spot_buf error = { 0 };
    const double begun_s = spot_clock_s();
    const int status = parse(&x->front->options, api, body, &request, &error);

    if (spot_clock_s() - begun_s > at_once_s)
        x->front->reads_beside = true;
    spot_front_take(x, status, &request, &error);
    spot_buf_release(&error);
}

bool spot_front_read(struct spot_exchange *x, enum spot_api api, const struct spot_buf *body)
{
    struct spot_front *const f = x->front;
    struct spot_front_reading *r;

    if (!f->reads_beside && body->n <= BODY_AT_ONCE && f->at_once_byte + body->n <= TURN_AT_ONCE) {
        f->at_once_byte += body->n;
        read_at_once(x, api, body);
        return true;
    }
    if (f->reading_byte + body->n > SPOT_FRONT_BODIES_MAX * f->options.body_max_byte)
        return false;
    r = spot_xcalloc(1, sizeof(*r));
    *r = (struct spot_front_reading){
        .job = { .work = read_body, .done = was_read, .size = body->n },
        .front = f,
        .x = x,
        .api = api,
        .next = f->reading,
    };
    f->reading = r;
    f->reading_byte += body->n;
    spot_buf_add(&r->body, body->data, body->n);
    x->at_desk = &r->x;
    put(r);
    return true;
}

bool spot_front_is_reading(const struct spot_front *f, const struct spot_vocabulary *vocabulary)
{
    for (const struct spot_front_reading *r = f->reading; r; r = r->next)
        if (r->options.vocabulary == vocabulary)
            return true;
    return false;
}

/* --- answers ----------------------------------------------------------------------- */

struct writing {
    struct spot_desk_job job;  /* first */
    struct spot_exchange *x;   /* NULL: its client has disconnected */
    struct spot_completion *c; /* one reference; it has ended, so nothing changes it */
    struct spot_front_options options;
    struct spot_buf out;
};

static void write_answer(struct spot_desk_job *job)
{
    struct writing *const w = (struct writing *)job;

    spot_openai_answer(&w->options, w->c, &w->out);
}

static void was_written(struct spot_desk_job *job)
{
    struct writing *const w = (struct writing *)job;

    if (w->x) {
        w->x->at_desk = NULL;
        spot_front_answer_json(w->x->call, 200, &w->out);
    }
    spot_completion_unref(w->c);
    spot_buf_release(&w->out);
    free(w);
}

static size_t answer_size(const struct spot_completion *c)
{
    const size_t of_token = c->request.n_logprob < 0 ? 1 : 1 + (size_t)c->request.n_logprob;
    size_t n = c->request.does_echo ? c->request.n_prompt * c->request.n_choice : 0;

    for (uint32_t i = 0; i < c->request.n_choice; i++)
        n += c->choice[i].n_token * of_token + c->choice[i].n_state;
    return n;
}

void spot_front_write(struct spot_exchange *x)
{
    const size_t size = answer_size(x->c);
    struct spot_buf out = { 0 };
    struct writing *w;

    if (size <= ANSWER_AT_ONCE) {
        spot_openai_answer(&x->front->options, x->c, &out);
        spot_front_answer_json(x->call, 200, &out);
        spot_buf_release(&out);
        return;
    }
    w = spot_xcalloc(1, sizeof(*w));
    *w = (struct writing){
        .job = { .work = write_answer, .done = was_written, .size = size * PART_BYTE },
        .x = x,
        .c = spot_completion_ref(x->c),
        .options = x->front->options,
    };
    x->at_desk = &w->x;
    spot_desk_put(x->front->desk, &w->job);
}
