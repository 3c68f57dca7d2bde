/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "migrate.h"
#include "shard/partial_file.h"
#include "shard/receiver.h"
#include "shard/stream.h"

struct recv {
    struct spot_tool_common common;
    struct net net;
    uint64_t n_stream, n_thread;
    double window_byte;
    struct progress progress;
};

/* --- one way: a stream on standard input --- */

struct one_way {
    struct recv *recv;
    struct spot_stream_reader *reader;
    struct spot_partial *partial;
    struct input in;
};

static int on_header(void *user, const struct spot_st *st, const void *header, size_t n_header,
                     struct spot_err *err)
{
    const struct spot_partial_options options = { 0 };
    struct one_way *w = user;

    w->partial = spot_partial_open(w->recv->common.output, spot_stream_reader_info(w->reader),
                                   header, n_header, &options, err);
    if (!w->partial)
        return -1;
    progress_start(&w->recv->progress, &w->recv->common, st->data_byte, 0);
    return 0;
}

static int store(void *user, const struct spot_chunk *chunk, const void *raw, struct spot_err *err)
{
    struct one_way *w = user;

    return spot_partial_put(w->partial, chunk, raw, err);
}

static int on_chunk(void *user, const struct spot_chunk *chunk, const void *raw,
                    struct spot_err *err)
{
    struct one_way *w = user;

    (void)raw;
    (void)err;
    progress_show(&w->recv->progress, chunk->raw_off + chunk->raw_byte);
    return 0;
}

static int commit(void *user, const struct spot_hash128 *hash, struct spot_err *err)
{
    const struct one_way *w = user;

    if (spot_partial_agrees(w->partial, hash))
        return spot_partial_commit(w->partial, err);
    return spot_err_set(err, SPOT_EDATA, "%s: not the file of the previous attempt", w->in.name);
}

static int receive_stream(struct recv *r, const char *path, struct spot_err *err)
{
    struct one_way w = { .recv = r };
    const struct spot_sink sink = {
        .begin = on_header, .put = store, .commit = commit, .on_chunk = on_chunk, .user = &w
    };
    int rc;

    if (input_open(&w.in, path, err))
        return -1;
    w.reader = spot_stream_reader_new(&sink, w.in.name);
    spot_stream_reader_set_jobs(w.reader, threads_of(r->n_thread));
    rc = input_stream(&w.in, w.reader, err);
    progress_end(&r->progress);
    spot_stream_reader_free(w.reader);
    spot_partial_free(w.partial);
    input_close(&w.in);
    return rc;
}

/* --- two ways --- */

/* Connect to every sender of a comma-separated list, over n_stream connections each. */
static int connect_all(struct recv *r, struct spot_receiver *receiver, struct spot_err *err)
{
    char *list = spot_xstrdup(r->net.connect), *rest = list, *address;
    const double wait_s = r->net.wait_s;
    int n_added = 0;

    while ((address = strtok_r(rest, ",", &rest)))
        for (uint64_t i = 0; i < r->n_stream; i++) {
            struct spot_port *port = net_connect(&r->net, address, err);

            if (!port)
                break;
            if (spot_receiver_add(receiver, port, err))
                continue;
            n_added++;
            r->net.wait_s = 0; /* one sender is enough: do not wait for the others */
        }
    r->net.wait_s = wait_s;
    free(list);
    if (!n_added && !err->code)
        spot_err_set(err, SPOT_EUSAGE, "'%s': names no address", r->net.connect);
    return n_added ? 0 : -1;
}

static bool show(struct recv *r, const struct spot_receiver_state *state)
{
    if (!state->total_byte)
        return false;
    if (!r->progress.total_byte)
        progress_start(&r->progress, &r->common, state->total_byte, state->have_byte);
    progress_show(&r->progress, state->have_byte);
    return true;
}

/* Runs until the file is complete or cannot be completed. A listener waits for other senders when
 * one leaves. */
static int follow(struct recv *r, struct spot_receiver *receiver, int listener,
                  struct spot_err *err)
{
    struct spot_receiver_state state = { 0 };
    double alive_s = spot_clock_s();

    for (;;) {
        /* Beside streams that run, the end of the transfer is waited for, not another stream. */
        const double wait_s = state.n_port ? 0 : 0.02;
        struct spot_port *port = listener < 0 ? NULL : net_accept(&r->net, listener, wait_s);

        if (port && spot_receiver_add(receiver, port, err))
            return -1;
        spot_receiver_wait(receiver, listener < 0 ? 0.25 : 0.005, &state);
        show(r, &state);
        if (state.is_committed)
            return 0;
        if (state.n_port)
            alive_s = spot_clock_s();
        if (!state.is_fatal &&
            (state.n_port || (listener >= 0 && spot_clock_s() - alive_s < r->net.wait_s)))
            continue;
        if (!state.err.code)
            return spot_err_set(err, SPOT_ESYS, "no sender came within %g s", r->net.wait_s);
        *err = state.err;
        return -1;
    }
}

static int pull(struct recv *r, struct spot_err *err)
{
    const struct spot_receiver_options options = { .path = r->common.output,
                                                   .window_byte = (uint64_t)r->window_byte,
                                                   .silence_s = r->net.silence_s };
    struct spot_receiver *receiver = spot_receiver_new(&options);
    struct spot_port *port;
    int listener = -1, rc = 0;

    if (r->net.listen) {
        listener = net_listen(&r->net, err);
        rc = listener < 0 ? -1 : 0;
    } else if (r->net.connect) {
        rc = connect_all(r, receiver, err);
    } else {
        port = net_attach(&r->net, err);
        rc = port ? spot_receiver_add(receiver, port, err) : -1;
    }
    if (!rc)
        rc = follow(r, receiver, listener, err);
    net_unlisten(&r->net, listener);
    spot_receiver_free(receiver);
    net_detach(&r->net);
    progress_end(&r->progress);
    return rc;
}

static int receive(struct recv *r, const char *path, struct spot_err *err)
{
    bool is_one_way;

    if (spot_partial_check(r->common.output, err) || net_check(&r->net, &is_one_way, err))
        return -1;
    if (is_one_way)
        return receive_stream(r, path, err);
    if (path)
        return spot_err_set(err, SPOT_EUSAGE,
                            "'%s': give a stream or a two-way transport, not both", path);
    return pull(r, err);
}

static int run(struct recv *r, const char *path, struct spot_err *err)
{
    char *target;
    int rc;

    if (!r->common.output || !strcmp(r->common.output, "-"))
        return spot_err_set(err, SPOT_EUSAGE,
                            "-o FILE is required: partial data is kept beside it");
    target = spot_out_target(r->common.output, err);
    if (!target)
        return -1;
    r->common.output = target;
    rc = receive(r, path, err);
    free(target);
    return rc;
}

static struct recv receiver = {
    .common = SPOT_TOOL_COMMON_DEFAULT, .net = NET_DEFAULT, .n_stream = 1, .window_byte = 8 << 20
};

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "transport (default: a stream from standard input)" },
    NET_OPTIONS(&receiver.net),
    SPOT_ROW_STREAMS(&receiver.n_stream),
    SPOT_ROW_THREADS(&receiver.n_thread),
    SPOT_TOOL_OPTIONS_WRITE(&receiver.common,
                            "file to write (required); partial data is kept beside it"),
    { SPOT_OPT_END },
};

static int migrate_recv(char **operand, size_t n, struct spot_err *err)
{
    (void)n;
    return run(&receiver, operand[0], err);
}

const struct spot_cli migrate_recv_command = {
    .name = "spot-migrate recv",
    .brief = "receive a file",
    .need = (const struct spot_opt_need[]){ { "timeout", "connect|listen|via|duplex" },
                                            { "wait|key-file", "connect|listen" },
                                            { "streams", "connect" },
                                            { "threads", "!connect|listen|via|duplex" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "key-file", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .n_operand_max = 1,
    .synopsis = "-o file [options] [stream.szt]",
    .summary = "Receive a file: complete, verified and durable, or FILE.part to resume from.",
    .examples = "  spot-migrate recv -o m.safetensors --listen unix:/run/spot/move\n"
                "  spot-migrate recv -o m.safetensors --connect 127.0.0.1:7001,127.0.0.1:7002\n",
    .option = option,
    .common = &receiver.common,
    .run = migrate_recv,
};
