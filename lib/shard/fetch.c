/* SPDX-License-Identifier: MIT */
#include "shard/fetch.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/crew.h"
#include "common/le.h"
#include "common/xalloc.h"
#include "shard/parley.h"

enum {
    ASKED_MAX = 64, /* chunks on their way to one port */
    COPIES_MAX = 2, /* ports asked for the same chunk */
};

/* With nothing left to ask for, wait so long before asking for what others were asked for. */
static const double patience_s = 0.05;

struct spot_fetch {
    struct spot_fetch_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct spot_landing *landing; /* NULL until the first HEAD */
    struct spot_buf head;         /* all ports have to say the same */
    uint8_t *asked;               /* [chunks]: how many ports were asked for it */
    uint64_t cursor;              /* nothing below is missing and unasked */
    uint64_t stream_id, wire_byte;
    bool is_opening, is_committing, is_committed, is_fatal, is_closing;
    int n_port;
    struct spot_err err;
    struct spot_crew crew; /* a thread for each port */
};

/* One port and its thread. */
struct pull {
    struct spot_fetch *fetch;
    struct spot_port *port;
    struct spot_coder coder;
    struct spot_parley_message message;
    struct spot_buf raw;
    uint32_t asked[ASKED_MAX];
    size_t n_asked;
    uint64_t credit_byte; /* used up and not yet given again */
    double heard_s;       /* when the sender last said something */
    double spoke_s;       /* when it was last told that a landing is being opened */
    double idle_s;        /* without anything to ask for */
    bool is_mute;         /* the sender reads no more */
};

struct spot_fetch *spot_fetch_new(const struct spot_fetch_options *options)
{
    struct spot_fetch *f = spot_xcalloc(1, sizeof(*f));
    pthread_condattr_t attr;

    f->options = *options;
    if (!f->options.window_byte)
        f->options.window_byte = 8 << 20;
    if (f->options.silence_s <= 0)
        f->options.silence_s = 10;
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->changed, &attr);
    pthread_condattr_destroy(&attr);
    return f;
}

/* With the lock: wait for a change, at most limit_s. */
static void wait_changed(struct spot_fetch *f, double limit_s)
{
    struct timespec t;
    long ns;

    clock_gettime(CLOCK_MONOTONIC, &t);
    ns = t.tv_nsec + (long)((limit_s - (double)(time_t)limit_s) * 1e9);
    t.tv_sec += (time_t)limit_s + ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&f->changed, &f->lock, &t);
}

void spot_fetch_free(struct spot_fetch *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->is_closing = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    spot_crew_join(&f->crew);
    spot_landing_free(f->landing);
    spot_buf_release(&f->head);
    free(f->asked);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static double beat_s(const struct spot_fetch *f)
{
    return spot_parley_beat_s(f->options.silence_s);
}

/* With the lock, which is given back meanwhile: wait for a change, and be heard. */
static int wait_heard(struct pull *p, struct spot_err *err)
{
    struct spot_fetch *f = p->fetch;
    int rc;

    wait_changed(f, beat_s(f));
    pthread_mutex_unlock(&f->lock);
    rc = spot_parley_send(p->port, SPOT_PARLEY_MSG_BEAT, 0, NULL, 0, err);
    pthread_mutex_lock(&f->lock);
    return rc;
}

/* What goes wrong with the port is seen when it is used next: the landing serves others, too. */
static void beat(void *user)
{
    struct pull *p = user;

    if (spot_clock_s() - p->spoke_s < beat_s(p->fetch))
        return;
    (void)spot_parley_send(p->port, SPOT_PARLEY_MSG_BEAT, 0, NULL, 0, NULL);
    p->spoke_s = spot_clock_s();
}

/* Without the lock: what an earlier attempt left is read again. */
static struct spot_landing *open_landing(struct pull *p, const struct spot_stream_info *info,
                                         const struct spot_buf *header, struct spot_err *err)
{
    const struct spot_fetch *f = p->fetch;
    struct spot_landing_options options = f->options.landing;

    p->spoke_s = spot_clock_s();
    options.at_work = beat;
    options.user = p;
    return spot_landing_open(f->options.path, info, header->data, header->n, &options, err);
}

/* With the lock: no port can help, and this is why. */
static void give_up(struct spot_fetch *f, const struct spot_err *why)
{
    f->is_fatal = true;
    f->err = *why;
    pthread_cond_broadcast(&f->changed);
}

/* With the lock, which is given back meanwhile: the first HEAD opens the landing. */
static int adopt_first(struct pull *p, struct spot_err *err)
{
    struct spot_fetch *f = p->fetch;
    const struct spot_buf *head = &p->message.payload;
    struct spot_stream_info info = { 0 };
    struct spot_buf header = { 0 };
    struct spot_landing *landing;
    size_t used, need;

    if (f->is_fatal)
        return spot_err_set(err, SPOT_ESYS, "the receiver stops");
    if (spot_stream_get_head(&p->coder, head->data, head->n, &info, &header, &used, &need, err)) {
        spot_buf_release(&header);
        return -1;
    }
    if (!used || used != head->n) {
        spot_buf_release(&header);
        return spot_err_set(err, SPOT_EDATA, "the head of the stream is cut short");
    }
    f->is_opening = true;
    pthread_mutex_unlock(&f->lock);
    landing = open_landing(p, &info, &header, err);
    spot_buf_release(&header);
    pthread_mutex_lock(&f->lock);
    f->is_opening = false;
    if (!landing) {
        give_up(f, err);
        return -1;
    }
    pthread_cond_broadcast(&f->changed);
    f->landing = landing;
    f->stream_id = info.stream_id;
    f->asked = spot_xcalloc((size_t)spot_chunk_map_count(spot_landing_map(f->landing)), 1);
    spot_buf_add(&f->head, head->data, head->n);
    return 0;
}

/* With the lock: every further HEAD has to be the first one's. */
static int match_head(const struct pull *p, struct spot_err *err)
{
    const struct spot_buf *first = &p->fetch->head, *head = &p->message.payload;

    if (first->n == head->n && !memcmp(first->data, head->data, head->n))
        return 0;
    return spot_err_set(err, SPOT_EDATA, "this holder has another file than the first one");
}

static int take_head(struct pull *p, struct spot_err *err)
{
    struct spot_fetch *f = p->fetch;
    int rc = 0;

    do {
        if (spot_parley_receive(p->port, &p->message, err))
            return -1;
    } while (p->message.type == SPOT_PARLEY_MSG_BEAT);
    if (p->message.type != SPOT_PARLEY_MSG_HEAD)
        return spot_err_set(err, SPOT_EDATA, "the sender does not start with a head");
    pthread_mutex_lock(&f->lock);
    while (f->is_opening && !rc)
        rc = wait_heard(p, err);
    if (!rc)
        rc = f->landing ? match_head(p, err) : adopt_first(p, err);
    pthread_mutex_unlock(&f->lock);
    return rc;
}

/* With the lock: is there another chunk for this port? First those that nobody was asked for. */
static bool next_chunk(struct spot_fetch *f, uint64_t *seq)
{
    const uint64_t n = spot_chunk_map_count(spot_landing_map(f->landing));

    while (f->cursor < n && (f->asked[f->cursor] || spot_landing_has(f->landing, f->cursor)))
        f->cursor++;
    *seq = f->cursor;
    return f->cursor < n;
}

static bool is_mine(const struct pull *p, uint64_t seq)
{
    for (size_t i = 0; i < p->n_asked; i++)
        if (p->asked[i] == seq)
            return true;
    return false;
}

/* With the lock: a chunk that another port is slow to bring, from the end, where it comes last. */
static bool steal_chunk(const struct pull *p, uint64_t *seq)
{
    struct spot_fetch *f = p->fetch;

    for (uint64_t i = spot_chunk_map_count(spot_landing_map(f->landing)); i-- > 0;)
        if (f->asked[i] && f->asked[i] < COPIES_MAX && !spot_landing_has(f->landing, i) &&
            !is_mine(p, i)) {
            *seq = i;
            return true;
        }
    return false;
}

static void add_want(struct spot_buf *want, uint64_t seq)
{
    unsigned char *last = want->n ? want->data + want->n - 8 : NULL;

    if (last && spot_le_get(last, 4) + spot_le_get(last + 4, 4) == seq) {
        spot_le_put(last + 4, spot_le_get(last + 4, 4) + 1, 4);
        return;
    }
    spot_le_put(spot_buf_more(want, 8), seq, 4);
    spot_le_put(want->data + want->n + 4, 1, 4);
    want->n += 8;
}

/* Ask for more when half of the window has come. */
static int ask(struct pull *p, struct spot_err *err)
{
    struct spot_fetch *f = p->fetch;
    struct spot_buf want = { 0 };
    uint64_t window, seq;
    int rc = 0;

    pthread_mutex_lock(&f->lock);
    window = 2 * f->options.window_byte / spot_landing_map(f->landing)->chunk_byte;
    window = window < 2 ? 2 : window > ASKED_MAX ? ASKED_MAX : window;
    if (p->n_asked <= window / 2) {
        while (p->n_asked < window && next_chunk(f, &seq)) {
            f->asked[seq]++;
            p->asked[p->n_asked++] = (uint32_t)seq;
            add_want(&want, seq);
        }
        if (!p->n_asked && p->idle_s >= patience_s && steal_chunk(p, &seq)) {
            f->asked[seq]++;
            p->asked[p->n_asked++] = (uint32_t)seq;
            add_want(&want, seq);
        }
    }
    pthread_mutex_unlock(&f->lock);
    if (want.n)
        p->idle_s = 0;
    if (want.n)
        rc = spot_parley_send(p->port, SPOT_PARLEY_MSG_WANT, 0, want.data, want.n, err);
    spot_buf_release(&want);
    return rc;
}

/* With the lock: this port brings chunk number `at` of its list no more. */
static void drop_asked(struct pull *p, size_t at)
{
    struct spot_fetch *f = p->fetch;
    const uint32_t seq = p->asked[at];

    f->asked[seq]--;
    p->asked[at] = p->asked[--p->n_asked];
    if (!f->asked[seq] && seq < f->cursor)
        f->cursor = seq;
}

static int put_chunk(struct pull *p, const struct spot_chunk *chunk, struct spot_err *err)
{
    struct spot_fetch *f = p->fetch;

    if (!spot_landing_put(f->landing, chunk, p->raw.data, err))
        return 0;
    pthread_mutex_lock(&f->lock);
    give_up(f, err); /* the disk, or the source, will be no better over another port */
    pthread_mutex_unlock(&f->lock);
    spot_parley_fail(p->port, err);
    return -1;
}

static int take_chunk(struct pull *p, struct spot_err *err)
{
    struct spot_fetch *f = p->fetch;
    const struct spot_buf *m = &p->message.payload;
    struct spot_chunk chunk;

    if (m->n < SPOT_CHUNK_HEAD_BYTE)
        return spot_err_set(err, SPOT_EDATA, "a chunk is cut short");
    if (spot_chunk_parse(m->data, spot_landing_map(f->landing), f->stream_id, &chunk, err))
        return -1;
    if (chunk.stored_byte != m->n - SPOT_CHUNK_HEAD_BYTE || !is_mine(p, chunk.seq))
        return spot_err_set(err, SPOT_EDATA, "chunk %u was not asked for like this", chunk.seq);
    p->raw.n = 0;
    if (!spot_landing_has(f->landing, chunk.seq)) {
        spot_buf_more(&p->raw, chunk.raw_byte);
        if (spot_chunk_decode(&p->coder, &chunk, m->data + SPOT_CHUNK_HEAD_BYTE, NULL, p->raw.data,
                              err) ||
            put_chunk(p, &chunk, err))
            return -1;
    }
    pthread_mutex_lock(&f->lock);
    f->wire_byte += m->n;
    for (size_t i = 0; i < p->n_asked; i++)
        if (p->asked[i] == chunk.seq) {
            drop_asked(p, i);
            break;
        }
    if (!spot_landing_missing(f->landing))
        pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    p->credit_byte += m->n;
    if (p->credit_byte < f->options.window_byte / 4 || p->is_mute)
        return 0;
    p->credit_byte = 0;
    return spot_parley_send(p->port, SPOT_PARLEY_MSG_CREDIT, f->options.window_byte / 4, NULL, 0,
                            err);
}

/* In short waits: what this port was asked for may meanwhile have come over another one. */
static int receive_one(struct pull *p, struct spot_err *err)
{
    if (!p->port->wait(p->port, 0.2)) {
        if (spot_clock_s() - p->heard_s > p->fetch->options.silence_s)
            return spot_err_set(err, SPOT_ESYS, "the sender was silent for %g s",
                                p->fetch->options.silence_s);
        return 0;
    }
    if (spot_parley_receive(p->port, &p->message, err))
        return -1;
    p->heard_s = spot_clock_s();
    if (p->message.type == SPOT_PARLEY_MSG_BEAT)
        return 0;
    if (p->message.type == SPOT_PARLEY_MSG_CHUNK)
        return take_chunk(p, err);
    return spot_err_set(err, SPOT_EDATA, "the sender says what it should not");
}

/* Nothing to ask for, all is on its way to other ports: stay, be heard, notice the peer's end. */
static int idle(struct pull *p, struct spot_err *err)
{
    struct spot_fetch *f = p->fetch;
    const double start_s = spot_clock_s();

    pthread_mutex_lock(&f->lock);
    if (spot_landing_missing(f->landing))
        wait_changed(f, patience_s);
    pthread_mutex_unlock(&f->lock);
    p->idle_s += spot_clock_s() - start_s;
    if (p->port->wait(p->port, 0))
        return receive_one(p, err);
    return spot_parley_send(p->port, SPOT_PARLEY_MSG_BEAT, 0, NULL, 0, err);
}

static bool is_stopped(struct spot_fetch *f)
{
    bool is;

    pthread_mutex_lock(&f->lock);
    is = f->is_fatal || f->is_closing;
    pthread_mutex_unlock(&f->lock);
    return is;
}

static int pull_chunks(struct pull *p, struct spot_err *err)
{
    p->heard_s = spot_clock_s();
    while (spot_landing_missing(p->fetch->landing)) {
        if (is_stopped(p->fetch))
            return spot_err_set(err, SPOT_ESYS, "the receiver stops");
        if (ask(p, err) || (p->n_asked ? receive_one(p, err) : idle(p, err)))
            return -1;
    }
    return 0;
}

/* The sender's word on all tensors against what has landed, then the commit. */
static int verify_and_commit(struct pull *p, struct spot_err *err)
{
    struct spot_fetch *f = p->fetch;
    const size_t n_tensor = spot_landing_st(f->landing)->n_tensor;
    struct spot_hash128 *sum;
    bool agrees;

    if (spot_parley_send(p->port, SPOT_PARLEY_MSG_ASK, 0, NULL, 0, err))
        return -1;
    do { /* late copies of chunks may come first */
        if (spot_parley_receive(p->port, &p->message, err))
            return -1;
    } while (p->message.type == SPOT_PARLEY_MSG_CHUNK || p->message.type == SPOT_PARLEY_MSG_BEAT);
    if (p->message.type != SPOT_PARLEY_MSG_SUMS || p->message.payload.n != 16 * n_tensor)
        return spot_err_set(err, SPOT_EDATA, "the sender does not give its sums");
    sum = spot_xcalloc(n_tensor, sizeof(*sum));
    for (size_t i = 0; i < n_tensor; i++) {
        sum[i].low = spot_le_get(p->message.payload.data + 16 * i, 8);
        sum[i].high = spot_le_get(p->message.payload.data + 16 * i + 8, 8);
    }
    agrees = spot_landing_agrees(f->landing, sum);
    free(sum);
    if (agrees && !spot_landing_commit(f->landing, err))
        return 0;
    if (!agrees)
        spot_err_set(err, SPOT_EDATA,
                     "the source changed while it was sent; what had come is thrown away");
    pthread_mutex_lock(&f->lock);
    give_up(f, err);
    pthread_mutex_unlock(&f->lock);
    spot_parley_fail(p->port, err);
    return -1;
}

/* One port commits, the others wait for it; if it fails, the next one tries. */
static int finish(struct pull *p, struct spot_err *err)
{
    struct spot_fetch *f = p->fetch;
    bool is_ours = false;
    int rc = 0;

    pthread_mutex_lock(&f->lock);
    while (!is_ours && !f->is_committed && !f->is_fatal) {
        is_ours = !f->is_committing;
        f->is_committing = true;
        if (!is_ours && (rc = wait_heard(p, err)))
            break;
    }
    pthread_mutex_unlock(&f->lock);
    if (is_ours) {
        rc = verify_and_commit(p, err);
        pthread_mutex_lock(&f->lock);
        f->is_committing = false;
        f->is_committed |= !rc;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
    if (rc)
        return -1;
    pthread_mutex_lock(&f->lock);
    is_ours = f->is_committed;
    pthread_mutex_unlock(&f->lock);
    if (!is_ours)
        return spot_err_set(err, SPOT_ESYS, "the receiver stops");
    return spot_parley_send(p->port, SPOT_PARLEY_MSG_COMMIT, f->stream_id, NULL, 0, err);
}

/* A sender that left may have sent chunks before, and said why it leaves. */
static void hear_out(struct pull *p, struct spot_err *err)
{
    const double end_s = spot_clock_s() + p->fetch->options.silence_s;
    struct spot_err why = { 0 };

    p->is_mute = true;
    do
        p->message.type = SPOT_PARLEY_MSG_BEAT; /* stays so if nothing more can be read */
    while (p->port->wait(p->port, 0) && spot_clock_s() < end_s && !receive_one(p, &why));
    if (p->message.type != SPOT_PARLEY_MSG_BEAT)
        *err = why;
}

static int pull_all(struct pull *p, struct spot_err *err)
{
    if (!spot_parley_send(p->port, SPOT_PARLEY_MSG_CREDIT, p->fetch->options.window_byte, NULL, 0,
                          err) &&
        !pull_chunks(p, err) && !finish(p, err))
        return 0;
    if (err->code == SPOT_ESYS && p->message.type != SPOT_PARLEY_MSG_FAIL && !is_stopped(p->fetch))
        hear_out(p, err);
    return -1;
}

static int talk(struct pull *p, struct spot_err *err)
{
    if (spot_parley_meet(p->port, "recv", err) || take_head(p, err) || pull_all(p, err))
        return -1;
    spot_port_drain(p->port); /* it may still be writing, until it has read COMMIT and leaves */
    return 0;
}

static void run(void *user)
{
    struct pull *p = user;
    struct spot_fetch *f = p->fetch;
    struct spot_err err = { 0 };
    const int rc = talk(p, &err);

    p->port->close(p->port);
    pthread_mutex_lock(&f->lock);
    if (rc && !f->is_fatal) /* else the reason is there */
        f->err = err;
    while (p->n_asked)
        drop_asked(p, p->n_asked - 1);
    f->n_port--;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    spot_coder_release(&p->coder);
    spot_buf_release(&p->message.payload);
    spot_buf_release(&p->raw);
    free(p);
}

int spot_fetch_add(struct spot_fetch *f, struct spot_port *port_take, struct spot_err *err)
{
    struct pull *p = spot_xcalloc(1, sizeof(*p));

    p->fetch = f;
    p->port = port_take;
    spot_coder_init(&p->coder);
    pthread_mutex_lock(&f->lock);
    f->n_port++;
    pthread_mutex_unlock(&f->lock);
    if (!spot_crew_start(&f->crew, run, p, err))
        return 0;
    pthread_mutex_lock(&f->lock);
    f->n_port--;
    pthread_mutex_unlock(&f->lock);
    port_take->close(port_take);
    spot_coder_release(&p->coder);
    free(p);
    return -1;
}

void spot_fetch_wait(struct spot_fetch *f, double limit_s, struct spot_fetch_state *state)
{
    pthread_mutex_lock(&f->lock);
    if (limit_s > 0 && !f->is_committed && !f->is_fatal && f->n_port)
        wait_changed(f, limit_s);
    *state = (struct spot_fetch_state){ .is_committed = f->is_committed,
                                        .is_fatal = f->is_fatal,
                                        .n_port = f->n_port,
                                        .wire_byte = f->wire_byte,
                                        .err = f->err };
    if (f->landing) {
        state->have_byte = spot_landing_have_byte(f->landing);
        state->total_byte = spot_landing_st(f->landing)->data_byte;
    }
    pthread_mutex_unlock(&f->lock);
}
