/* SPDX-License-Identifier: MIT */
#include "shard/offer.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/le.h"
#include "common/xalloc.h"
#include "shard/adapt.h"
#include "shard/parley.h"

enum { RUNS_MAX = 4096 }; /* wanted and not yet served, of one port */

struct spot_offer {
    struct spot_offer_options options;
    spot_offer_read_fn read;
    void *user;
    struct spot_st st;
    struct spot_chunk_map map;
    struct spot_stream_info info;
    struct spot_buf head;

    pthread_mutex_t lock;
    uint64_t *hash; /* [chunks], of those with is_hashed */
    bool *is_hashed;
    uint64_t raw_byte, wire_byte;
    bool is_committed;
};

static int set_up(struct spot_offer *o, const void *header, size_t n_header, struct spot_err *err)
{
    const char *source = o->options.source ? o->options.source : "safetensors";
    struct spot_coder coder;
    uint64_t n_json, n_chunk;
    int rc;

    assert(n_header >= SPOT_ST_PREFIX_BYTE);
    if (spot_st_prefix(header, source, &n_json, err) ||
        spot_st_parse(&o->st, (const char *)header + SPOT_ST_PREFIX_BYTE,
                      n_header - SPOT_ST_PREFIX_BYTE, source, err) ||
        spot_chunk_map_init(&o->map, &o->st,
                            o->options.chunk_byte ? o->options.chunk_byte : SPOT_CHUNK_BYTE, err))
        return -1;
    n_chunk = spot_chunk_map_count(&o->map);
    o->hash = spot_xcalloc((size_t)n_chunk, sizeof(*o->hash));
    o->is_hashed = spot_xcalloc((size_t)n_chunk, sizeof(*o->is_hashed));
    o->info.chunk_byte = o->map.chunk_byte;
    o->info.epoch = o->options.epoch;
    spot_stream_name(o->info.plan, o->options.plan);
    spot_stream_name(o->info.source, o->options.source);
    spot_coder_init(&coder);
    rc = spot_stream_put_head(&coder, &o->info, header, n_header, &o->head, err);
    spot_coder_release(&coder);
    return rc;
}

struct spot_offer *spot_offer_new(const struct spot_offer_options *options, const void *header,
                                  size_t n_header, spot_offer_read_fn read, void *user,
                                  struct spot_err *err)
{
    struct spot_offer *o = spot_xcalloc(1, sizeof(*o));

    o->options = *options;
    if (o->options.silence_s <= 0)
        o->options.silence_s = 30;
    o->read = read;
    o->user = user;
    pthread_mutex_init(&o->lock, NULL);
    if (set_up(o, header, n_header, err)) {
        spot_offer_free(o);
        return NULL;
    }
    return o;
}

void spot_offer_free(struct spot_offer *o)
{
    if (!o)
        return;
    spot_chunk_map_release(&o->map);
    spot_st_release(&o->st);
    spot_buf_release(&o->head);
    free(o->hash);
    free(o->is_hashed);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

void spot_offer_progress(struct spot_offer *o, uint64_t *raw_byte, uint64_t *wire_byte)
{
    pthread_mutex_lock(&o->lock);
    *raw_byte = o->raw_byte;
    *wire_byte = o->wire_byte;
    pthread_mutex_unlock(&o->lock);
}

uint64_t spot_offer_total(const struct spot_offer *o)
{
    return o->st.data_byte;
}

bool spot_offer_is_committed(struct spot_offer *o)
{
    bool is;

    pthread_mutex_lock(&o->lock);
    is = o->is_committed;
    pthread_mutex_unlock(&o->lock);
    return is;
}

/* --- one port --- */

struct run {
    uint32_t first, count;
};

struct serve {
    struct spot_offer *offer;
    struct spot_port *port;
    struct spot_coder coder;
    struct spot_adapt adapt;
    struct spot_parley_message message;
    struct spot_buf raw, coded;
    struct run run[RUNS_MAX]; /* a ring: run[(first_run + i) % RUNS_MAX] */
    size_t first_run, n_run;
    uint64_t credit_byte;
    double starved_s; /* waited for credit since the last chunk */
    double beat_s;    /* between BEATs of ours */
    bool is_committed;
};

static void note_hash(struct spot_offer *o, uint64_t seq, uint64_t hash)
{
    pthread_mutex_lock(&o->lock);
    o->hash[seq] = hash;
    o->is_hashed[seq] = true;
    pthread_mutex_unlock(&o->lock);
}

static int read_chunk(struct serve *s, uint64_t seq, struct spot_chunk *chunk, struct spot_err *err)
{
    struct spot_offer *o = s->offer;

    spot_chunk_map_get(&o->map, seq, chunk);
    chunk->stream_id = o->info.stream_id;
    s->raw.n = 0;
    return o->read(o->user, chunk->raw_off, spot_buf_more(&s->raw, chunk->raw_byte),
                   chunk->raw_byte, err);
}

static int send_chunk(struct serve *s, uint64_t seq, struct spot_err *err)
{
    struct spot_offer *o = s->offer;
    struct spot_chunk chunk;
    enum spot_codec codec = o->options.codec;
    double start_s, coded_s;

    if (read_chunk(s, seq, &chunk, err))
        return -1;
    if (codec == SPOT_CODEC_AUTO)
        codec = spot_adapt_choose(&s->adapt, chunk.dtype);
    start_s = spot_clock_s();
    s->coded.n = 0;
    if (spot_chunk_encode(&s->coder, &chunk, codec, s->raw.data, NULL, &s->coded, err))
        return -1;
    coded_s = spot_clock_s();
    if (spot_parley_send(s->port, SPOT_PARLEY_MSG_CHUNK, seq, s->coded.data, s->coded.n, err))
        return -1;
    spot_adapt_coded(&s->adapt, chunk.dtype, codec, chunk.raw_byte, s->coded.n, coded_s - start_s);
    spot_adapt_sent(&s->adapt, s->coded.n, spot_clock_s() - coded_s + s->starved_s);
    s->starved_s = 0;
    s->credit_byte -= s->coded.n < s->credit_byte ? s->coded.n : s->credit_byte;
    note_hash(o, seq, chunk.hash);
    pthread_mutex_lock(&o->lock);
    o->raw_byte += chunk.raw_byte;
    o->wire_byte += s->coded.n;
    pthread_mutex_unlock(&o->lock);
    return 0;
}

static int take_want(struct serve *s, struct spot_err *err)
{
    const uint64_t n_chunk = spot_chunk_map_count(&s->offer->map);
    const struct spot_buf *p = &s->message.payload;

    if (p->n % 8 || p->n / 8 > RUNS_MAX - s->n_run)
        return spot_err_set(err, SPOT_EDATA, "the receiver wants too much at once");
    for (size_t i = 0; i < p->n; i += 8) {
        const struct run r = { (uint32_t)spot_le_get(p->data + i, 4),
                               (uint32_t)spot_le_get(p->data + i + 4, 4) };

        if (!r.count || r.first >= n_chunk || r.count > n_chunk - r.first)
            return spot_err_set(err, SPOT_EDATA, "the receiver wants chunks that do not exist");
        s->run[(s->first_run + s->n_run++) % RUNS_MAX] = r;
    }
    return 0;
}

/* The hash of a chunk. One that was not sent this time is read and hashed now. */
static int sum_chunk(struct serve *s, uint64_t seq, uint64_t *hash, struct spot_err *err)
{
    struct spot_offer *o = s->offer;
    struct spot_chunk chunk;
    bool is_hashed;

    pthread_mutex_lock(&o->lock);
    is_hashed = o->is_hashed[seq];
    *hash = o->hash[seq];
    pthread_mutex_unlock(&o->lock);
    if (is_hashed)
        return 0;
    if (read_chunk(s, seq, &chunk, err))
        return -1;
    *hash = spot_hash64(s->raw.data, chunk.raw_byte);
    note_hash(o, seq, *hash);
    return 0;
}

/* The word is about the whole file. After a resumed move most of it may have to be read for that,
 * which takes longer than the receiver bears silence. */
static int send_sums(struct serve *s, struct spot_err *err)
{
    struct spot_offer *o = s->offer;
    struct spot_buf sums = { 0 };
    double spoke_s = spot_clock_s();
    int rc = 0;

    for (size_t t = 0; t < o->st.n_tensor && !rc; t++) {
        struct spot_hash_stream *stream = spot_hash_stream_new();
        unsigned char word[16];
        struct spot_hash128 hash;

        for (uint64_t i = o->map.first[t]; i < o->map.first[t + 1] && !rc; i++) {
            uint64_t chunk_hash;

            rc = sum_chunk(s, i, &chunk_hash, err);
            if (!rc && spot_clock_s() - spoke_s >= s->beat_s) {
                rc = spot_parley_send(s->port, SPOT_PARLEY_MSG_BEAT, 0, NULL, 0, err);
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
        rc = spot_parley_send(s->port, SPOT_PARLEY_MSG_SUMS, 0, sums.data, sums.n, err);
    spot_buf_release(&sums);
    return rc;
}

static int handle(struct serve *s, struct spot_err *err)
{
    switch (s->message.type) {
    case SPOT_PARLEY_MSG_BEAT:
        return 0;
    case SPOT_PARLEY_MSG_WANT:
        return take_want(s, err);
    case SPOT_PARLEY_MSG_CREDIT:
        if (s->message.argument > UINT64_C(1) << 40)
            break;
        s->credit_byte += s->message.argument;
        return 0;
    case SPOT_PARLEY_MSG_ASK:
        return send_sums(s, err);
    case SPOT_PARLEY_MSG_COMMIT:
        s->is_committed = true;
        return 0;
    default:
        break;
    }
    return spot_err_set(err, SPOT_EDATA, "the receiver says what it should not");
}

static int check_deadline(const struct serve *s, struct spot_err *err)
{
    if (s->offer->options.deadline_s <= 0 || spot_clock_s() < s->offer->options.deadline_s)
        return 0;
    return spot_err_set(err, SPOT_EPREEMPTED,
                        "the deadline came first; the receiver keeps what has reached it");
}

/* Handle what came; wait for it if there is nothing to send. */
static int listen_once(struct serve *s, bool has_work, double *silent_s, struct spot_err *err)
{
    const double start_s = spot_clock_s();

    if (!s->port->wait(s->port, has_work ? 0 : s->beat_s)) {
        if (has_work)
            return 0;
        *silent_s += spot_clock_s() - start_s;
        s->starved_s += s->n_run ? spot_clock_s() - start_s : 0;
        if (*silent_s > s->offer->options.silence_s)
            return spot_err_set(err, SPOT_ESYS, "the receiver was silent for %g s", *silent_s);
        return spot_parley_send(s->port, SPOT_PARLEY_MSG_BEAT, 0, NULL, 0, err);
    }
    s->starved_s += s->n_run && !has_work ? spot_clock_s() - start_s : 0;
    *silent_s = 0;
    if (spot_parley_receive(s->port, &s->message, err))
        return -1;
    return handle(s, err);
}

static int serve(struct serve *s, struct spot_err *err)
{
    double silent_s = 0;

    if (spot_parley_meet(s->port, "send", err) ||
        spot_parley_send(s->port, SPOT_PARLEY_MSG_HEAD, 0, s->offer->head.data, s->offer->head.n,
                         err))
        return -1;
    while (!s->is_committed) {
        const bool has_work = s->n_run && s->credit_byte;

        if (check_deadline(s, err) || listen_once(s, has_work, &silent_s, err))
            return -1;
        if (has_work && !s->is_committed) {
            struct run *r = &s->run[s->first_run];

            if (send_chunk(s, r->first, err))
                return -1;
            r->first++;
            if (!--r->count) {
                s->first_run = (s->first_run + 1) % RUNS_MAX;
                s->n_run--;
            }
        }
    }
    return 0;
}

/* A port that cannot be written to may still hold the receiver's reason, or its COMMIT. */
static void hear_out(struct serve *s, struct spot_err *err)
{
    const double end_s = spot_clock_s() + s->offer->options.silence_s;
    struct spot_err why = { 0 };

    s->message.type = SPOT_PARLEY_MSG_BEAT;
    while (!s->is_committed && s->port->wait(s->port, 0) && spot_clock_s() < end_s &&
           !spot_parley_receive(s->port, &s->message, &why))
        s->is_committed = s->message.type == SPOT_PARLEY_MSG_COMMIT;
    if (s->message.type == SPOT_PARLEY_MSG_FAIL)
        *err = why;
}

/* Say why, and wait until the receiver has read it and leaves: to close a socket while something
 * unread comes in throws away what is still on its way out. One that takes nothing is not waited
 * for. */
static void part(struct serve *s, const struct spot_err *why)
{
    const double end_s = spot_clock_s() + s->offer->options.silence_s;
    char waste[4096];
    size_t got;

    spot_parley_fail(s->port, why);
    while (s->port->wait(s->port, 3 * s->beat_s) && spot_clock_s() < end_s &&
           !s->port->read(s->port, waste, sizeof(waste), &got, NULL) && got)
        ;
}

int spot_offer_serve(struct spot_offer *o, struct spot_port *port, struct spot_err *err)
{
    struct serve *s = spot_xcalloc(1, sizeof(*s));
    struct spot_err cause = { 0 };
    int rc;

    s->offer = o;
    s->port = port;
    s->beat_s = spot_parley_beat_s(o->options.silence_s);
    spot_coder_init(&s->coder);
    s->coder.has_frame_check = false; /* nothing but our receiver reads these frames */
    rc = serve(s, &cause);
    if (rc && cause.code == SPOT_ESYS) { /* the port is of no use, or the peer knows */
        if (s->message.type != SPOT_PARLEY_MSG_FAIL)
            hear_out(s, &cause);
        rc = s->is_committed ? 0 : -1;
    } else if (rc && s->message.type != SPOT_PARLEY_MSG_FAIL) {
        part(s, &cause);
    }
    if (rc) {
        if (err)
            *err = cause;
    } else {
        pthread_mutex_lock(&o->lock);
        o->is_committed = true;
        pthread_mutex_unlock(&o->lock);
    }
    spot_coder_release(&s->coder);
    spot_buf_release(&s->message.payload);
    spot_buf_release(&s->raw);
    spot_buf_release(&s->coded);
    free(s);
    return rc;
}
