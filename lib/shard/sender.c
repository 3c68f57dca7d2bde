/* SPDX-License-Identifier: MIT */
#include "shard/sender.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/le.h"
#include "common/xalloc.h"
#include "shard/adapt.h"
#include "shard/transfer_protocol.h"

enum { RUNS_MAX = 4096 }; /* maximum pending runs of one port */

struct spot_sender {
    struct spot_sender_options options;
    struct spot_source from;
    struct spot_st st;
    struct spot_chunk_map map;
    struct spot_stream_info info;
    struct spot_buf head;

    pthread_mutex_t lock;
    uint64_t *hash; /* [chunks] hashes, valid where is_hashed */
    bool *is_hashed;
    uint64_t raw_byte, wire_byte;
    bool is_committed;
};

static int set_up(struct spot_sender *s, struct spot_err *err)
{
    const char *source = s->options.source ? s->options.source : "safetensors";
    struct spot_coder coder;
    const void *const header = s->from.header;
    const size_t n_header = s->from.n_header;
    uint64_t n_json, n_chunk;
    int rc;

    assert(n_header >= SPOT_ST_PREFIX_BYTE);
    if (spot_st_prefix(header, source, &n_json, err) ||
        spot_st_parse(&s->st, (const char *)header + SPOT_ST_PREFIX_BYTE,
                      n_header - SPOT_ST_PREFIX_BYTE, source, err) ||
        spot_chunk_map_init(&s->map, &s->st,
                            s->options.chunk_byte ? s->options.chunk_byte : SPOT_CHUNK_BYTE, err))
        return -1;
    n_chunk = spot_chunk_map_count(&s->map);
    s->hash = spot_xcalloc((size_t)n_chunk, sizeof(*s->hash));
    s->is_hashed = spot_xcalloc((size_t)n_chunk, sizeof(*s->is_hashed));
    s->info.chunk_byte = s->map.chunk_byte;
    spot_stream_name(s->info.source, s->options.source);
    spot_coder_init(&coder);
    rc = spot_stream_put_head(&coder, &s->info, header, n_header, &s->head, err);
    spot_coder_release(&coder);
    return rc;
}

struct spot_sender *spot_sender_new(const struct spot_sender_options *options,
                                    const struct spot_source *source, struct spot_err *err)
{
    struct spot_sender *s = spot_xcalloc(1, sizeof(*s));

    s->options = *options;
    if (s->options.silence_s <= 0)
        s->options.silence_s = 30;
    s->from = *source;
    pthread_mutex_init(&s->lock, NULL);
    if (set_up(s, err)) {
        spot_sender_free(s);
        return NULL;
    }
    return s;
}

void spot_sender_free(struct spot_sender *s)
{
    if (!s)
        return;
    spot_chunk_map_release(&s->map);
    spot_st_release(&s->st);
    spot_buf_release(&s->head);
    free(s->hash);
    free(s->is_hashed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void spot_sender_progress(struct spot_sender *s, uint64_t *raw_byte, uint64_t *wire_byte)
{
    pthread_mutex_lock(&s->lock);
    *raw_byte = s->raw_byte;
    *wire_byte = s->wire_byte;
    pthread_mutex_unlock(&s->lock);
}

uint64_t spot_sender_total(const struct spot_sender *s)
{
    return s->st.data_byte;
}

bool spot_sender_is_committed(struct spot_sender *s)
{
    bool is;

    pthread_mutex_lock(&s->lock);
    is = s->is_committed;
    pthread_mutex_unlock(&s->lock);
    return is;
}

/* --- one port --- */

struct run {
    uint32_t first, count;
};

struct serve {
    struct spot_sender *sender;
    struct spot_port *port;
    struct spot_coder coder;
    struct spot_adapt adapt;
    struct spot_transfer_message message;
    struct spot_buf raw, coded;
    struct run run[RUNS_MAX]; /* a ring: run[(first_run + i) % RUNS_MAX] */
    size_t first_run, n_run;
    uint64_t credit_byte;
    double starved_s; /* waited for credit since the last chunk */
    double beat_s;    /* interval of our BEATs */
    bool is_committed;
};

static void note_hash(struct spot_sender *s, uint64_t seq, uint64_t hash)
{
    pthread_mutex_lock(&s->lock);
    s->hash[seq] = hash;
    s->is_hashed[seq] = true;
    pthread_mutex_unlock(&s->lock);
}

static void find_chunk(const struct spot_sender *s, uint64_t seq, struct spot_chunk *chunk)
{
    spot_chunk_map_get(&s->map, seq, chunk);
    chunk->stream_id = s->info.stream_id;
}

/* *start_s: when the bytes had been read. */
static int code_chunk(struct serve *p, enum spot_codec codec, struct spot_chunk *chunk,
                      double *start_s, struct spot_err *err)
{
    const struct spot_source *const from = &p->sender->from;
    const void *raw;

    p->coded.n = 0;
    /* "auto" compares times of coding, without those of reading */
    if (p->sender->options.codec == SPOT_CODEC_RAW && !from->point) {
        *start_s = spot_clock_s();
        return spot_chunk_read_stored(&p->coder, chunk, from->read, from->user, &p->coded, err);
    }
    raw = spot_source_get(from, chunk, &p->raw, err);
    *start_s = spot_clock_s();
    return raw ? spot_chunk_encode(&p->coder, chunk, codec, raw, &p->coded, err) : -1;
}

static int send_chunk(struct serve *p, uint64_t seq, struct spot_err *err)
{
    struct spot_sender *s = p->sender;
    struct spot_chunk chunk;
    enum spot_codec codec = s->options.codec;
    double start_s, coded_s;

    find_chunk(s, seq, &chunk);
    if (codec == SPOT_CODEC_AUTO)
        codec = spot_adapt_choose(&p->adapt, chunk.dtype);
    if (code_chunk(p, codec, &chunk, &start_s, err))
        return -1;
    coded_s = spot_clock_s();
    if (spot_transfer_send(p->port, SPOT_TRANSFER_MSG_CHUNK, seq, p->coded.data, p->coded.n, err))
        return -1;
    spot_adapt_coded(&p->adapt, chunk.dtype, codec, chunk.raw_byte, p->coded.n, coded_s - start_s);
    spot_adapt_sent(&p->adapt, p->coded.n, spot_clock_s() - coded_s + p->starved_s);
    p->starved_s = 0;
    p->credit_byte -= p->coded.n < p->credit_byte ? p->coded.n : p->credit_byte;
    note_hash(s, seq, chunk.hash);
    pthread_mutex_lock(&s->lock);
    s->raw_byte += chunk.raw_byte;
    s->wire_byte += p->coded.n;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int take_want(struct serve *p, struct spot_err *err)
{
    const uint64_t n_chunk = spot_chunk_map_count(&p->sender->map);
    const struct spot_buf *want = &p->message.payload;

    if (want->n % 8 || want->n / 8 > RUNS_MAX - p->n_run)
        return spot_err_set(err, SPOT_EDATA, "the receiver requests too many chunks at once");
    for (size_t i = 0; i < want->n; i += 8) {
        const struct run r = { (uint32_t)spot_le_get(want->data + i, 4),
                               (uint32_t)spot_le_get(want->data + i + 4, 4) };

        if (!r.count || r.first >= n_chunk || r.count > n_chunk - r.first)
            return spot_err_set(err, SPOT_EDATA, "the receiver requests chunks that do not exist");
        p->run[(p->first_run + p->n_run++) % RUNS_MAX] = r;
    }
    return 0;
}

/* The hash of a chunk; a chunk that was not sent in this session is read and hashed now. */
static int sum_chunk(struct serve *p, uint64_t seq, uint64_t *hash, struct spot_err *err)
{
    struct spot_sender *s = p->sender;
    struct spot_chunk chunk;
    const void *raw;
    bool is_hashed;

    pthread_mutex_lock(&s->lock);
    is_hashed = s->is_hashed[seq];
    *hash = s->hash[seq];
    pthread_mutex_unlock(&s->lock);
    if (is_hashed)
        return 0;
    find_chunk(s, seq, &chunk);
    raw = spot_source_get(&s->from, &chunk, &p->raw, err);
    if (!raw)
        return -1;
    *hash = spot_hash64(raw, chunk.raw_byte);
    note_hash(s, seq, *hash);
    return 0;
}

/* Sends hashes of the whole file. After a resumed move most of it may have to be read, which can
 * take longer than the receiver's limit on silence, so BEATs are sent meanwhile. */
static int send_sums(struct serve *p, struct spot_err *err)
{
    struct spot_sender *s = p->sender;
    struct spot_buf sums = { 0 };
    double spoke_s = spot_clock_s();
    int rc = 0;

    for (size_t t = 0; t < s->st.n_tensor && !rc; t++) {
        struct spot_hash_stream *stream = spot_hash_stream_new();
        unsigned char word[16];
        struct spot_hash128 hash;

        for (uint64_t i = s->map.first[t]; i < s->map.first[t + 1] && !rc; i++) {
            uint64_t chunk_hash;

            rc = sum_chunk(p, i, &chunk_hash, err);
            if (!rc && spot_clock_s() - spoke_s >= p->beat_s) {
                rc = spot_transfer_send(p->port, SPOT_TRANSFER_MSG_BEAT, 0, NULL, 0, err);
                spoke_s = spot_clock_s();
            }
            spot_le_put(word, chunk_hash, 8);
            spot_hash_stream_add(stream, word, 8);
        }
        hash = spot_hash_stream_128(stream);
        spot_hash_stream_free(stream);
        spot_le_put(word, hash.low, 8);
        spot_le_put(word + 8, hash.high, 8);
        spot_buf_add(&sums, word, 16);
    }
    if (!rc)
        rc = spot_transfer_send(p->port, SPOT_TRANSFER_MSG_SUMS, 0, sums.data, sums.n, err);
    spot_buf_release(&sums);
    return rc;
}

static int handle(struct serve *p, struct spot_err *err)
{
    switch (p->message.type) {
    case SPOT_TRANSFER_MSG_BEAT:
        return 0;
    case SPOT_TRANSFER_MSG_WANT:
        return take_want(p, err);
    case SPOT_TRANSFER_MSG_CREDIT:
        if (p->message.argument > UINT64_C(1) << 40)
            break;
        p->credit_byte += p->message.argument;
        return 0;
    case SPOT_TRANSFER_MSG_ASK:
        return send_sums(p, err);
    case SPOT_TRANSFER_MSG_COMMIT:
        p->is_committed = true;
        return 0;
    default:
        break;
    }
    return spot_err_set(err, SPOT_EDATA, "unexpected message from the receiver");
}

static int check_deadline(const struct serve *p, struct spot_err *err)
{
    if (p->sender->options.deadline_s <= 0 || spot_clock_s() < p->sender->options.deadline_s)
        return 0;
    return spot_err_set(err, SPOT_EPREEMPTED,
                        "the deadline passed; the receiver keeps the data received so far");
}

/* Handle a message; wait for one if there is nothing to send. */
static int listen_once(struct serve *p, bool has_work, double *silent_s, struct spot_err *err)
{
    const double start_s = spot_clock_s();

    if (!p->port->wait(p->port, has_work ? 0 : p->beat_s)) {
        if (has_work)
            return 0;
        *silent_s += spot_clock_s() - start_s;
        p->starved_s += p->n_run ? spot_clock_s() - start_s : 0;
        if (*silent_s > p->sender->options.silence_s)
            return spot_err_set(err, SPOT_ESYS, "the receiver was silent for %g s", *silent_s);
        return spot_transfer_send(p->port, SPOT_TRANSFER_MSG_BEAT, 0, NULL, 0, err);
    }
    p->starved_s += p->n_run && !has_work ? spot_clock_s() - start_s : 0;
    *silent_s = 0;
    if (spot_transfer_receive(p->port, &p->message, err))
        return -1;
    return handle(p, err);
}

static int serve(struct serve *p, struct spot_err *err)
{
    double silent_s = 0;

    if (spot_transfer_meet(p->port, "send", err) ||
        spot_transfer_send(p->port, SPOT_TRANSFER_MSG_HEAD, 0, p->sender->head.data,
                           p->sender->head.n, err))
        return -1;
    while (!p->is_committed) {
        const bool has_work = p->n_run && p->credit_byte;

        if (check_deadline(p, err) || listen_once(p, has_work, &silent_s, err))
            return -1;
        if (has_work && !p->is_committed) {
            struct run *r = &p->run[p->first_run];

            if (send_chunk(p, r->first, err))
                return -1;
            r->first++;
            if (!--r->count) {
                p->first_run = (p->first_run + 1) % RUNS_MAX;
                p->n_run--;
            }
        }
    }
    return 0;
}

/* Reads a port that cannot be written to: it may still have the receiver's FAIL or COMMIT. */
static void drain(struct serve *p, struct spot_err *err)
{
    const double end_s = spot_clock_s() + p->sender->options.silence_s;
    struct spot_err why = { 0 };

    p->message.type = SPOT_TRANSFER_MSG_BEAT;
    while (!p->is_committed && p->port->wait(p->port, 0) && spot_clock_s() < end_s &&
           !spot_transfer_receive(p->port, &p->message, &why))
        p->is_committed = p->message.type == SPOT_TRANSFER_MSG_COMMIT;
    if (p->message.type == SPOT_TRANSFER_MSG_FAIL)
        *err = why;
}

/* Sends FAIL and waits until the receiver has read it and closes: closing a socket with unread
 * input would discard data still to be sent. A receiver that does not read is not waited for. */
static void part(struct serve *p, const struct spot_err *why)
{
    const double end_s = spot_clock_s() + p->sender->options.silence_s;
    char waste[4096];
    size_t got;

    spot_transfer_fail(p->port, why);
    while (p->port->wait(p->port, 3 * p->beat_s) && spot_clock_s() < end_s &&
           !p->port->read(p->port, waste, sizeof(waste), &got, NULL) && got)
        ;
}

int spot_sender_serve(struct spot_sender *s, struct spot_port *port, struct spot_err *err)
{
    struct serve *p = spot_xcalloc(1, sizeof(*p));
    struct spot_err cause = { 0 };
    int rc;

    p->sender = s;
    p->port = port;
    p->beat_s = spot_transfer_beat_s(s->options.silence_s);
    spot_coder_init(&p->coder);
    p->coder.has_frame_check = false; /* nothing but our receiver reads these frames */
    rc = serve(p, &cause);
    if (rc && cause.code == SPOT_ESYS) { /* the port has failed, or the peer knows the reason */
        if (p->message.type != SPOT_TRANSFER_MSG_FAIL)
            drain(p, &cause);
        rc = p->is_committed ? 0 : -1;
    } else if (rc && p->message.type != SPOT_TRANSFER_MSG_FAIL) {
        part(p, &cause);
    }
    if (rc) {
        if (err)
            *err = cause;
    } else {
        pthread_mutex_lock(&s->lock);
        s->is_committed = true;
        pthread_mutex_unlock(&s->lock);
    }
    spot_coder_release(&p->coder);
    spot_buf_release(&p->message.payload);
    spot_buf_release(&p->raw);
    spot_buf_release(&p->coded);
    free(p);
    return rc;
}
