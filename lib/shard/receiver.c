/* SPDX-License-Identifier: MIT */
#include "shard/receiver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/le.h"
#include "common/threads.h"
#include "common/xalloc.h"
#include "shard/transfer_protocol.h"

enum {
    ASKED_MAX = 64, /* requested chunks per port */
    COPIES_MAX = 2, /* ports that may be asked for the same chunk */
};

/* With nothing left to request, wait this long before requesting what was requested from others. */
static const double patience_s = 0.05;

struct spot_receiver {
    struct spot_receiver_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct spot_partial *partial; /* NULL until the first HEAD */
    struct spot_buf head;         /* must be the same on all ports */
    uint8_t *asked;               /* [chunks]: how many ports were asked for it */
    uint64_t cursor;              /* all chunks below were received or requested */
    uint64_t stream_id, wire_byte;
    bool is_opening, is_committing, is_committed, is_fatal, is_closing;
    int n_port;
    struct spot_err err;
    struct spot_threads threads; /* a thread for each port */
};

/* One port and its thread. */
struct pull {
    struct spot_receiver *receiver;
    struct spot_port *port;
    struct spot_coder coder;
    struct spot_transfer_message message;
    struct spot_buf raw;
    uint32_t asked[ASKED_MAX];
    size_t n_asked;
    uint64_t credit_byte; /* bytes received for which no new credit was granted yet */
    double received_s;    /* time of the sender's last message */
    double spoke_s;       /* when a BEAT was last sent while opening the partial file */
    double idle_s;        /* time since which there is nothing to request */
    bool is_mute;         /* the sender does not read any more */
};

struct spot_receiver *spot_receiver_new(const struct spot_receiver_options *options)
{
    struct spot_receiver *r = spot_xcalloc(1, sizeof(*r));

    r->options = *options;
    if (!r->options.window_byte)
        r->options.window_byte = 8 << 20;
    if (r->options.silence_s <= 0)
        r->options.silence_s = 10;
    pthread_mutex_init(&r->lock, NULL);
    spot_cond_init(&r->changed);
    return r;
}

/* With the lock: wait for a change, at most limit_s. */
static void wait_changed(struct spot_receiver *r, double limit_s)
{
    (void)spot_cond_wait_until(&r->changed, &r->lock, spot_clock_s() + limit_s);
}

void spot_receiver_free(struct spot_receiver *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->is_closing = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    spot_threads_join(&r->threads);
    spot_partial_free(r->partial);
    spot_buf_release(&r->head);
    free(r->asked);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static double beat_s(const struct spot_receiver *r)
{
    return spot_transfer_beat_s(r->options.silence_s);
}

/* With the lock, which is released meanwhile: wait for a change, and send BEATs. */
static int wait_received(struct pull *p, struct spot_err *err)
{
    struct spot_receiver *r = p->receiver;
    int rc;

    wait_changed(r, beat_s(r));
    pthread_mutex_unlock(&r->lock);
    rc = spot_transfer_send(p->port, SPOT_TRANSFER_MSG_BEAT, 0, NULL, 0, err);
    pthread_mutex_lock(&r->lock);
    return rc;
}

/* Sends a BEAT. An error shows at the next use of the port; other ports can continue. */
static void beat(void *user)
{
    struct pull *p = user;

    if (spot_clock_s() - p->spoke_s < beat_s(p->receiver))
        return;
    (void)spot_transfer_send(p->port, SPOT_TRANSFER_MSG_BEAT, 0, NULL, 0, NULL);
    p->spoke_s = spot_clock_s();
}

/* Opens the partial file. Called without the lock, since data of an earlier attempt are
 * verified. */
static struct spot_partial *open_partial(struct pull *p, const struct spot_stream_info *info,
                                         const struct spot_buf *header, struct spot_err *err)
{
    const struct spot_receiver *r = p->receiver;
    struct spot_partial_options options = r->options.partial;

    p->spoke_s = spot_clock_s();
    options.at_work = beat;
    options.user = p;
    return spot_partial_open(r->options.path, info, header->data, header->n, &options, err);
}

/* With the lock: end the transfer with an error that no other port can avoid. */
static void give_up(struct spot_receiver *r, const struct spot_err *why)
{
    r->is_fatal = true;
    r->err = *why;
    pthread_cond_broadcast(&r->changed);
}

/* With the lock, which is released meanwhile: open the file of the first HEAD. */
static int adopt_first(struct pull *p, struct spot_err *err)
{
    struct spot_receiver *r = p->receiver;
    const struct spot_buf *head = &p->message.payload;
    struct spot_stream_info info = { 0 };
    struct spot_buf header = { 0 };
    struct spot_partial *partial;
    size_t used, need;

    if (r->is_fatal)
        return spot_err_set(err, SPOT_ESYS, "the receiver was stopped");
    if (spot_stream_get_head(&p->coder, head->data, head->n, &info, &header, &used, &need, err)) {
        spot_buf_release(&header);
        return -1;
    }
    if (!used || used != head->n) {
        spot_buf_release(&header);
        return spot_err_set(err, SPOT_EDATA, "the head of the stream is cut short");
    }
    r->is_opening = true;
    pthread_mutex_unlock(&r->lock);
    partial = open_partial(p, &info, &header, err);
    spot_buf_release(&header);
    pthread_mutex_lock(&r->lock);
    r->is_opening = false;
    if (!partial) {
        give_up(r, err);
        return -1;
    }
    pthread_cond_broadcast(&r->changed);
    r->partial = partial;
    r->stream_id = info.stream_id;
    r->asked = spot_xcalloc((size_t)spot_chunk_map_count(spot_partial_map(r->partial)), 1);
    spot_buf_add(&r->head, head->data, head->n);
    return 0;
}

/* With the lock: every further HEAD must equal the first. */
static int match_head(const struct pull *p, struct spot_err *err)
{
    const struct spot_buf *first = &p->receiver->head, *head = &p->message.payload;

    if (first->n == head->n && !memcmp(first->data, head->data, head->n))
        return 0;
    return spot_err_set(err, SPOT_EDATA, "this holder has another file than the first one");
}

static int take_head(struct pull *p, struct spot_err *err)
{
    struct spot_receiver *r = p->receiver;
    int rc = 0;

    do {
        if (spot_transfer_receive(p->port, &p->message, err))
            return -1;
    } while (p->message.type == SPOT_TRANSFER_MSG_BEAT);
    if (p->message.type != SPOT_TRANSFER_MSG_HEAD)
        return spot_err_set(err, SPOT_EDATA, "the sender does not start with a head");
    pthread_mutex_lock(&r->lock);
    while (r->is_opening && !rc)
        rc = wait_received(p, err);
    if (!rc)
        rc = r->partial ? match_head(p, err) : adopt_first(p, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* With the lock: choose the next chunk that no port was asked for; false: none. */
static bool next_chunk(struct spot_receiver *r, uint64_t *seq)
{
    const uint64_t n = spot_chunk_map_count(spot_partial_map(r->partial));

    while (r->cursor < n && (r->asked[r->cursor] || spot_partial_has(r->partial, r->cursor)))
        r->cursor++;
    *seq = r->cursor;
    return r->cursor < n;
}

static bool is_mine(const struct pull *p, uint64_t seq)
{
    for (size_t i = 0; i < p->n_asked; i++)
        if (p->asked[i] == seq)
            return true;
    return false;
}

/* With the lock: choose a chunk that another port is slow to deliver, from the end of its list. */
static bool steal_chunk(const struct pull *p, uint64_t *seq)
{
    struct spot_receiver *r = p->receiver;

    for (uint64_t i = spot_chunk_map_count(spot_partial_map(r->partial)); i-- > 0;)
        if (r->asked[i] && r->asked[i] < COPIES_MAX && !spot_partial_has(r->partial, i) &&
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

/* Request more when half of the window has arrived. */
static int ask(struct pull *p, struct spot_err *err)
{
    struct spot_receiver *r = p->receiver;
    struct spot_buf want = { 0 };
    uint64_t window, seq;
    int rc = 0;

    pthread_mutex_lock(&r->lock);
    window = 2 * r->options.window_byte / spot_partial_map(r->partial)->chunk_byte;
    window = window < 2 ? 2 : window > ASKED_MAX ? ASKED_MAX : window;
    if (p->n_asked <= window / 2) {
        while (p->n_asked < window && next_chunk(r, &seq)) {
            r->asked[seq]++;
            p->asked[p->n_asked++] = (uint32_t)seq;
            add_want(&want, seq);
        }
        if (!p->n_asked && p->idle_s >= patience_s && steal_chunk(p, &seq)) {
            r->asked[seq]++;
            p->asked[p->n_asked++] = (uint32_t)seq;
            add_want(&want, seq);
        }
    }
    pthread_mutex_unlock(&r->lock);
    if (want.n)
        p->idle_s = 0;
    if (want.n)
        rc = spot_transfer_send(p->port, SPOT_TRANSFER_MSG_WANT, 0, want.data, want.n, err);
    spot_buf_release(&want);
    return rc;
}

/* With the lock: remove chunk number `at` from the port's list. */
static void drop_asked(struct pull *p, size_t at)
{
    struct spot_receiver *r = p->receiver;
    const uint32_t seq = p->asked[at];

    r->asked[seq]--;
    p->asked[at] = p->asked[--p->n_asked];
    if (!r->asked[seq] && seq < r->cursor)
        r->cursor = seq;
}

static int put_chunk(struct pull *p, struct spot_chunk *chunk, const void *frames,
                     struct spot_err *err)
{
    struct spot_receiver *r = p->receiver;

    p->raw.n = 0;
    if (spot_chunk_view(&p->coder, chunk, frames, spot_buf_more(&p->raw, chunk->raw_byte), err))
        return -1;
    if (!spot_partial_put_spans(r->partial, chunk, &p->coder.spans, err))
        return 0;
    pthread_mutex_lock(&r->lock);
    give_up(r, err); /* another port cannot help against an error of the disk or the source */
    pthread_mutex_unlock(&r->lock);
    spot_transfer_fail(p->port, err);
    return -1;
}

static int take_chunk(struct pull *p, struct spot_err *err)
{
    struct spot_receiver *r = p->receiver;
    const struct spot_buf *m = &p->message.payload;
    struct spot_chunk chunk;

    if (m->n < SPOT_CHUNK_HEAD_BYTE)
        return spot_err_set(err, SPOT_EDATA, "a chunk is cut short");
    if (spot_chunk_parse(m->data, spot_partial_map(r->partial), r->stream_id, &chunk, err))
        return -1;
    if (chunk.stored_byte != m->n - SPOT_CHUNK_HEAD_BYTE || !is_mine(p, chunk.seq))
        return spot_err_set(err, SPOT_EDATA, "chunk %u was not requested", chunk.seq);
    if (!spot_partial_has(r->partial, chunk.seq) &&
        put_chunk(p, &chunk, m->data + SPOT_CHUNK_HEAD_BYTE, err))
        return -1;
    pthread_mutex_lock(&r->lock);
    r->wire_byte += m->n;
    for (size_t i = 0; i < p->n_asked; i++)
        if (p->asked[i] == chunk.seq) {
            drop_asked(p, i);
            break;
        }
    if (!spot_partial_missing(r->partial))
        pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    p->credit_byte += m->n;
    if (p->credit_byte < r->options.window_byte / 4 || p->is_mute)
        return 0;
    p->credit_byte = 0;
    return spot_transfer_send(p->port, SPOT_TRANSFER_MSG_CREDIT, r->options.window_byte / 4, NULL,
                              0, err);
}

/* Waits in short intervals, since another port may deliver the requested chunks. */
static int receive_one(struct pull *p, struct spot_err *err)
{
    if (!p->port->wait(p->port, 0.2)) {
        if (spot_clock_s() - p->received_s > p->receiver->options.silence_s)
            return spot_err_set(err, SPOT_ESYS, "the sender was silent for %g s",
                                p->receiver->options.silence_s);
        return 0;
    }
    if (spot_transfer_receive(p->port, &p->message, err))
        return -1;
    p->received_s = spot_clock_s();
    if (p->message.type == SPOT_TRANSFER_MSG_BEAT)
        return 0;
    if (p->message.type == SPOT_TRANSFER_MSG_CHUNK)
        return take_chunk(p, err);
    return spot_err_set(err, SPOT_EDATA, "unexpected message from the sender");
}

/* All missing chunks are requested from other ports: stay connected, send BEATs, detect a close. */
static int idle(struct pull *p, struct spot_err *err)
{
    struct spot_receiver *r = p->receiver;
    const double start_s = spot_clock_s();

    pthread_mutex_lock(&r->lock);
    if (spot_partial_missing(r->partial))
        wait_changed(r, patience_s);
    pthread_mutex_unlock(&r->lock);
    p->idle_s += spot_clock_s() - start_s;
    if (p->port->wait(p->port, 0))
        return receive_one(p, err);
    return spot_transfer_send(p->port, SPOT_TRANSFER_MSG_BEAT, 0, NULL, 0, err);
}

static bool is_stopped(struct spot_receiver *r)
{
    bool is;

    pthread_mutex_lock(&r->lock);
    is = r->is_fatal || r->is_closing;
    pthread_mutex_unlock(&r->lock);
    return is;
}

static int pull_chunks(struct pull *p, struct spot_err *err)
{
    p->received_s = spot_clock_s();
    while (spot_partial_missing(p->receiver->partial)) {
        if (is_stopped(p->receiver))
            return spot_err_set(err, SPOT_ESYS, "the receiver was stopped");
        if (ask(p, err) || (p->n_asked ? receive_one(p, err) : idle(p, err)))
            return -1;
    }
    return 0;
}

/* Compares the sender's hashes of all tensors with the received data, then commits. */
static int verify_and_commit(struct pull *p, struct spot_err *err)
{
    struct spot_receiver *r = p->receiver;
    const size_t n_tensor = spot_partial_st(r->partial)->n_tensor;
    struct spot_hash128 *sum;
    bool agrees;

    if (spot_transfer_send(p->port, SPOT_TRANSFER_MSG_ASK, 0, NULL, 0, err))
        return -1;
    do { /* late copies of chunks may come first */
        if (spot_transfer_receive(p->port, &p->message, err))
            return -1;
    } while (p->message.type == SPOT_TRANSFER_MSG_CHUNK ||
             p->message.type == SPOT_TRANSFER_MSG_BEAT);
    if (p->message.type != SPOT_TRANSFER_MSG_SUMS || p->message.payload.n != 16 * n_tensor)
        return spot_err_set(err, SPOT_EDATA, "the sender does not send its hashes");
    sum = spot_xcalloc(n_tensor, sizeof(*sum));
    for (size_t i = 0; i < n_tensor; i++) {
        sum[i].low = spot_le_get(p->message.payload.data + 16 * i, 8);
        sum[i].high = spot_le_get(p->message.payload.data + 16 * i + 8, 8);
    }
    agrees = spot_partial_agrees(r->partial, sum);
    free(sum);
    if (agrees && !spot_partial_commit(r->partial, err))
        return 0;
    if (!agrees)
        spot_err_set(err, SPOT_EDATA,
                     "the source changed while it was sent; the received data are discarded");
    pthread_mutex_lock(&r->lock);
    give_up(r, err);
    pthread_mutex_unlock(&r->lock);
    spot_transfer_fail(p->port, err);
    return -1;
}

/* One port commits, the others wait for it; if it fails, the next one tries. */
static int finish(struct pull *p, struct spot_err *err)
{
    struct spot_receiver *r = p->receiver;
    bool is_ours = false;
    int rc = 0;

    pthread_mutex_lock(&r->lock);
    while (!is_ours && !r->is_committed && !r->is_fatal) {
        is_ours = !r->is_committing;
        r->is_committing = true;
        if (!is_ours && (rc = wait_received(p, err)))
            break;
    }
    pthread_mutex_unlock(&r->lock);
    if (is_ours) {
        rc = verify_and_commit(p, err);
        pthread_mutex_lock(&r->lock);
        r->is_committing = false;
        r->is_committed |= !rc;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
    }
    if (rc)
        return -1;
    pthread_mutex_lock(&r->lock);
    is_ours = r->is_committed;
    pthread_mutex_unlock(&r->lock);
    if (!is_ours)
        return spot_err_set(err, SPOT_ESYS, "the receiver was stopped");
    return spot_transfer_send(p->port, SPOT_TRANSFER_MSG_COMMIT, r->stream_id, NULL, 0, err);
}

/* Reads the last messages of a sender that closed: chunks, and its FAIL. */
static void drain(struct pull *p, struct spot_err *err)
{
    const double end_s = spot_clock_s() + p->receiver->options.silence_s;
    struct spot_err why = { 0 };

    p->is_mute = true;
    do
        p->message.type = SPOT_TRANSFER_MSG_BEAT; /* remains if nothing more can be read */
    while (p->port->wait(p->port, 0) && spot_clock_s() < end_s && !receive_one(p, &why));
    if (p->message.type != SPOT_TRANSFER_MSG_BEAT)
        *err = why;
}

static int pull_all(struct pull *p, struct spot_err *err)
{
    if (!spot_transfer_send(p->port, SPOT_TRANSFER_MSG_CREDIT, p->receiver->options.window_byte,
                            NULL, 0, err) &&
        !pull_chunks(p, err) && !finish(p, err))
        return 0;
    if (err->code == SPOT_ESYS && p->message.type != SPOT_TRANSFER_MSG_FAIL &&
        !is_stopped(p->receiver))
        drain(p, err);
    return -1;
}

static int talk(struct pull *p, struct spot_err *err)
{
    if (spot_transfer_meet(p->port, "recv", err) || take_head(p, err) || pull_all(p, err))
        return -1;
    spot_port_drain(
        p->port); /* the sender may still be writing until it has read COMMIT and closes */
    return 0;
}

static void run(void *user)
{
    struct pull *p = user;
    struct spot_receiver *r = p->receiver;
    struct spot_err err = { 0 };
    const int rc = talk(p, &err);

    p->port->close(p->port);
    pthread_mutex_lock(&r->lock);
    if (rc && !r->is_fatal) /* otherwise the error is already set */
        r->err = err;
    while (p->n_asked)
        drop_asked(p, p->n_asked - 1);
    r->n_port--;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    spot_coder_release(&p->coder);
    spot_buf_release(&p->message.payload);
    spot_buf_release(&p->raw);
    free(p);
}

int spot_receiver_add(struct spot_receiver *r, struct spot_port *port_take, struct spot_err *err)
{
    struct pull *p = spot_xcalloc(1, sizeof(*p));

    p->receiver = r;
    p->port = port_take;
    spot_coder_init(&p->coder);
    pthread_mutex_lock(&r->lock);
    r->n_port++;
    pthread_mutex_unlock(&r->lock);
    if (!spot_threads_start(&r->threads, run, p, err))
        return 0;
    pthread_mutex_lock(&r->lock);
    r->n_port--;
    pthread_mutex_unlock(&r->lock);
    port_take->close(port_take);
    spot_coder_release(&p->coder);
    free(p);
    return -1;
}

void spot_receiver_wait(struct spot_receiver *r, double limit_s, struct spot_receiver_state *state)
{
    pthread_mutex_lock(&r->lock);
    if (limit_s > 0 && !r->is_committed && !r->is_fatal && r->n_port)
        wait_changed(r, limit_s);
    *state = (struct spot_receiver_state){ .is_committed = r->is_committed,
                                           .is_fatal = r->is_fatal,
                                           .n_port = r->n_port,
                                           .wire_byte = r->wire_byte,
                                           .err = r->err };
    if (r->partial) {
        state->have_byte = spot_partial_have_byte(r->partial);
        state->total_byte = spot_partial_st(r->partial)->data_byte;
    }
    pthread_mutex_unlock(&r->lock);
}
