/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/le.h"
#include "common/xalloc.h"
#include "shard/receiver.h"
#include "shard/sender.h"
#include "shard/transfer_protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ELEMENTS = 700, CHUNK = 256, PAYLOAD_MAX = 1 << 10 };

/* --- a port over memory: reads a script, keeps what is written where it is asked to --- */

struct tape {
    struct spot_port port;
    const struct spot_buf *script;
    size_t at;
    struct spot_buf *kept;
};

static int tape_read(struct spot_port *port, void *data, size_t n_byte, size_t *got,
                     struct spot_err *err)
{
    struct tape *t = (struct tape *)port;
    const size_t left = t->script ? t->script->n - t->at : 0;

    (void)err;
    *got = left < n_byte ? left : n_byte;
    if (*got)
        memcpy(data, t->script->data + t->at, *got);
    t->at += *got;
    return 0;
}

static int tape_write(struct spot_port *port, const void *data, size_t n_byte, struct spot_err *err)
{
    struct tape *t = (struct tape *)port;

    (void)err;
    if (t->kept)
        spot_buf_add(t->kept, data, n_byte);
    return 0;
}

static int tape_wait(struct spot_port *port, double limit_s)
{
    (void)port;
    (void)limit_s;
    return 1; /* bytes, or the end of them */
}

static void tape_close(struct spot_port *port)
{
    free(port);
}

static struct spot_port *tape_new(const struct spot_buf *script, struct spot_buf *kept)
{
    struct tape *t = spot_xcalloc(1, sizeof(*t));

    t->port = (struct spot_port){ tape_read, tape_write, tape_wait, tape_close, 0 };
    t->script = script;
    t->kept = kept;
    return &t->port;
}

/* --- a file, and what a good peer says about it --- */

struct world {
    struct spot_buf file, talk; /* talk: all that the sender says to WANT, ASK and COMMIT */
    size_t n_header;
    char path[64];
};

static int read_data(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err)
{
    const struct world *w = user;

    (void)err;
    memcpy(data, w->file.data + w->n_header + at, n_byte);
    return 0;
}

static void say(struct spot_buf *script, enum spot_transfer_type type, uint64_t argument,
                const void *payload, size_t n)
{
    struct spot_port *port = tape_new(NULL, script);

    spot_transfer_send(port, type, argument, payload, n, NULL);
    port->close(port);
}

static struct spot_sender *sender(struct world *w)
{
    const struct spot_sender_options o = { .codec = SPOT_CODEC_PLANES,
                                           .chunk_byte = CHUNK,
                                           .silence_s = 1 };
    const struct spot_source source = { w->file.data, w->n_header, NULL, read_data, w };
    struct spot_sender *made = spot_sender_new(&o, &source, NULL);

    if (!made)
        abort();
    return made;
}

static struct world *world(void)
{
    static struct world w;
    static char name[2][2] = { "a", "b" };
    const struct spot_st_tensor t[2] = {
        { .name = name[0], .dtype = SPOT_DT_F32, .n_dim = 1, .dim = { ELEMENTS } },
        { .name = name[1], .dtype = SPOT_DT_BF16, .n_dim = 1, .dim = { ELEMENTS } },
    };
    struct spot_buf asks = { 0 };
    struct spot_sender *o;
    struct spot_port *port;
    unsigned char want[8];
    uint64_t n;

    if (w.talk.n)
        return &w;
    n = spot_st_write(t, 2, &w.file);
    w.n_header = w.file.n;
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)(i % 4 == 3 ? 60 + i % 3 : i * 37);

        spot_buf_add(&w.file, &byte, 1);
    }
    snprintf(w.path, sizeof(w.path), "%s/fuzz_transfer_protocol.%ld",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (long)getpid());
    spot_le_put(want, 0, 4);
    spot_le_put(want + 4, (4 * ELEMENTS + CHUNK - 1) / CHUNK + (2 * ELEMENTS + CHUNK - 1) / CHUNK,
                4);
    say(&asks, SPOT_TRANSFER_MSG_HELLO, SPOT_TRANSFER_VERSION, "recv", 4);
    say(&asks, SPOT_TRANSFER_MSG_CREDIT, 1 << 20, NULL, 0);
    say(&asks, SPOT_TRANSFER_MSG_WANT, 0, want, 8);
    /* one message is taken for each chunk sent: beats, so that all are sent before ASK */
    for (int i = 0; i < 64; i++)
        say(&asks, SPOT_TRANSFER_MSG_BEAT, 0, NULL, 0);
    say(&asks, SPOT_TRANSFER_MSG_ASK, 0, NULL, 0);
    say(&asks, SPOT_TRANSFER_MSG_COMMIT, 0, NULL, 0);
    o = sender(&w);
    port = tape_new(&asks, &w.talk);
    if (spot_sender_serve(o, port, NULL))
        abort();
    port->close(port);
    spot_sender_free(o);
    spot_buf_release(&asks);
    return &w;
}

/* --- the script of an input: a list of what the peer says, with checks that hold --- */

/* Message `index` of the good talk; its bytes, 0 past the end. */
static size_t good_message(const struct world *w, size_t index, const unsigned char **at)
{
    size_t from = 0;

    while (from < w->talk.n) {
        const size_t n = SPOT_TRANSFER_HEAD + spot_le_get(w->talk.data + from + 8, 4);

        *at = w->talk.data + from;
        if (!index--)
            return n;
        from += n;
    }
    return 0;
}

/* Each op: below 128 that message of the good talk; with bit 6 one byte of its payload changed
 * and the check made good; from 128 on a message of its own: type, argument, payload. */
static void write_script(const struct world *w, const uint8_t *data, size_t size,
                         struct spot_buf *script)
{
    size_t at = 0;

    while (at < size && script->n < 1 << 16) {
        const uint8_t op = data[at++];
        const unsigned char *good = NULL;
        size_t n;

        if (op >= 128) {
            const uint64_t argument = at < size ? (uint64_t)data[at++] << (op & 56) : 0;
            n = at < size ? data[at++] : 0;
            n = n < size - at ? n : size - at;
            say(script, (enum spot_transfer_type)(1 + (op & 15)), argument, data + at, n);
            at += n;
        } else if ((n = good_message(w, op & 63, &good)) > 0) {
            struct spot_buf payload = { 0 };

            spot_buf_add(&payload, good + SPOT_TRANSFER_HEAD, n - SPOT_TRANSFER_HEAD);
            if (op & 64 && at + 3 <= size && payload.n) {
                payload.data[spot_le_get(data + at, 2) % payload.n] = data[at + 2];
                at += 3;
            }
            say(script, (enum spot_transfer_type)spot_le_get(good + 4, 4),
                spot_le_get(good + 16, 8), payload.data, payload.n);
            spot_buf_release(&payload);
        }
    }
}

static void serve(struct world *w, const struct spot_buf *script)
{
    struct spot_sender *o = sender(w);
    struct spot_port *port = tape_new(script, NULL);

    spot_sender_serve(o, port, NULL);
    port->close(port);
    spot_sender_free(o);
}

/* What is in its place after COMMIT, and only then, is the file. */
static void check_target(const struct world *w, bool is_committed)
{
    FILE *in = fopen(w->path, "rb");
    static unsigned char bytes[1 << 14];
    size_t n;

    if (!in != !is_committed)
        abort();
    if (!in)
        return;
    n = fread(bytes, 1, sizeof(bytes), in);
    fclose(in);
    if (n != w->file.n || memcmp(bytes, w->file.data, n) != 0)
        abort();
}

static void forget(const struct world *w)
{
    static const char *const suffix[] = { "", ".part", ".journal" };
    char path[96];

    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s%s", w->path, suffix[i]);
        unlink(path);
    }
}

static void receive(const struct world *w, const struct spot_buf *script, bool is_ours)
{
    const struct spot_receiver_options options = { .path = w->path, .silence_s = 1 };
    struct spot_receiver *f = spot_receiver_new(&options);
    struct spot_receiver_state state;

    if (spot_receiver_add(f, tape_new(script, NULL), NULL))
        abort();
    do
        spot_receiver_wait(f, 1, &state);
    while (state.n_port);
    spot_receiver_free(f);
    if (is_ours)
        check_target(w, state.is_committed);
    forget(w);
}

/* Goal: nothing that a peer says crashes either end of a move, and no talk that begins with our
 * HEAD puts another file in the place of the one it is about. The first byte chooses: an even one
 * talks to the receiver, an odd one to the sender; from 128 on the bytes are taken as they are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *w = world();
    struct spot_buf script = { 0 };
    const unsigned char *head = NULL;
    bool is_ours = false;

    if (!size || size > PAYLOAD_MAX)
        return 0;
    if (data[0] >= 128) {
        spot_buf_add(&script, data + 1, size - 1);
    } else if (data[0] & 1) {
        say(&script, SPOT_TRANSFER_MSG_HELLO, SPOT_TRANSFER_VERSION, "recv", 4);
        write_script(w, data + 1, size - 1, &script);
    } else {
        is_ours = data[0] & 2;
        for (size_t i = 0; i < (is_ours ? 2 : 1); i++) {
            const size_t n = good_message(w, i, &head);

            spot_buf_add(&script, head, n);
        }
        write_script(w, data + 1, size - 1, &script);
    }
    if (data[0] & 1)
        serve(w, &script);
    else
        receive(w, &script, is_ours);
    spot_buf_release(&script);
    return 0;
}
