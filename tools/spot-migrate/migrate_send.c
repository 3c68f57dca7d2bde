/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/threads.h"
#include "common/xalloc.h"
#include "migrate.h"
#include "shard/sender.h"

struct send {
    struct spot_tool_common common;
    struct net net;
    const char *codec_name;
    uint64_t n_stream, n_thread;
    double chunk_byte, deadline_s;

    struct input in;
    struct spot_sender *sender;
    struct progress progress;

    struct spot_threads threads; /* one thread for each stream */
    pthread_mutex_t lock;
    pthread_cond_t ended; /* signalled when a thread ends */
    int n_alive;          /* running threads */
    double alive_s;       /* last time at which there was a receiver */
    struct spot_err err;  /* error of the last stream that failed */
};

/* --- one stream, one thread --- */

struct stream {
    struct send *send;
    struct spot_port *port; /* NULL: not connected yet */
};

static void run_stream(void *user)
{
    struct stream *stream = user;
    struct send *s = stream->send;
    struct spot_err err = { 0 };
    int rc = -1;

    if (!stream->port)
        stream->port = net_connect(&s->net, s->net.connect, &err);
    if (stream->port) {
        rc = spot_sender_serve(s->sender, stream->port, &err);
        stream->port->close(stream->port);
    }
    pthread_mutex_lock(&s->lock);
    if (rc)
        s->err = err;
    s->alive_s = spot_clock_s();
    s->n_alive--;
    pthread_cond_signal(&s->ended);
    pthread_mutex_unlock(&s->lock);
    free(stream);
}

static int start_stream(struct send *s, struct spot_port *port, struct spot_err *err)
{
    struct stream *stream = spot_xcalloc(1, sizeof(*stream));

    stream->send = s;
    stream->port = port;
    pthread_mutex_lock(&s->lock);
    s->n_alive++;
    pthread_mutex_unlock(&s->lock);
    if (!spot_threads_start(&s->threads, run_stream, stream, err))
        return 0;
    pthread_mutex_lock(&s->lock);
    s->n_alive--;
    pthread_mutex_unlock(&s->lock);
    if (port)
        port->close(port);
    free(stream);
    return -1;
}

static int count_alive(struct send *s, double *alive_s)
{
    int n;

    pthread_mutex_lock(&s->lock);
    n = s->n_alive;
    if (n)
        s->alive_s = spot_clock_s();
    *alive_s = s->alive_s;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static struct spot_err last_error(struct send *s)
{
    struct spot_err err;

    pthread_mutex_lock(&s->lock);
    err = s->err;
    pthread_mutex_unlock(&s->lock);
    return err;
}

static void show(struct send *s)
{
    uint64_t raw_byte, wire_byte;

    spot_sender_progress(s->sender, &raw_byte, &wire_byte);
    progress_show(&s->progress, raw_byte);
}

/* Wait until every stream has ended. */
static int wait_streams(struct send *s, struct spot_err *err)
{
    double alive_s;

    while (count_alive(s, &alive_s)) {
        show(s);
        pthread_mutex_lock(&s->lock);
        if (s->n_alive)
            (void)spot_cond_wait_until(&s->ended, &s->lock, spot_clock_s() + 0.01);
        pthread_mutex_unlock(&s->lock);
    }
    spot_threads_join(&s->threads);
    if (spot_sender_is_committed(s->sender))
        return 0;
    *err = last_error(s);
    return -1;
}

/* No receivers left: abort the transfer? Yes after the deadline, or if none came for wait_s. */
static int check_alone(struct send *s, double alive_s, struct spot_err *err)
{
    const struct spot_err last = last_error(s);

    if (last.code != SPOT_EPREEMPTED && spot_clock_s() - alive_s <= s->net.wait_s)
        return 0;
    if (!last.code)
        return spot_err_set(err, SPOT_ESYS, "no receiver came within %g s", s->net.wait_s);
    *err = last;
    return -1;
}

/* Serve all receivers until one has committed and all have left. */
static int serve_all(struct send *s, struct spot_err *err)
{
    const int listener = net_listen(&s->net, err);
    struct spot_err last = { 0 }; /* last error of the streams; err has the reason already */
    double alive_s;
    int rc = 0;

    if (listener < 0)
        return -1;
    s->alive_s = spot_clock_s();
    while (!rc && !spot_sender_is_committed(s->sender)) {
        struct spot_port *port = net_accept(&s->net, listener, 0.05);

        show(s);
        if (port)
            rc = start_stream(s, port, err);
        else if (!count_alive(s, &alive_s) && !spot_sender_is_committed(s->sender))
            rc = check_alone(s, alive_s, err);
    }
    net_unlisten(&s->net, listener);
    return wait_streams(s, rc ? &last : err) || rc ? -1 : 0;
}

static int open_sender(struct send *s, enum spot_codec codec, const char *path,
                       struct spot_err *err)
{
    const struct spot_sender_options options = {
        .codec = codec,
        .chunk_byte = (uint32_t)s->chunk_byte,
        .source = path,
        .silence_s = 3 * s->net.silence_s,
        .deadline_s = s->deadline_s >= 0 ? spot_clock_s() + s->deadline_s : 0,
    };
    struct spot_buf header = { 0 };
    struct spot_source source;
    struct spot_st st = { 0 };
    int rc = -1;

    if (input_open(&s->in, path, err))
        return -1;
    if (!s->in.is_regular)
        spot_err_set(err, SPOT_EUSAGE, "a resumable transfer requires a regular file, not %s",
                     s->in.name);
    else if (!input_safetensors(&s->in, &header, &st, err))
        rc = 0;
    source = input_source(&s->in, &header);
    if (!rc)
        s->sender = spot_sender_new(&options, &source, err);
    spot_st_release(&st);
    spot_buf_release(&header);
    return s->sender ? 0 : -1;
}

static int move(struct send *s, struct spot_err *err)
{
    struct spot_port *port;
    int rc = 0;

    progress_start(&s->progress, &s->common, spot_sender_total(s->sender), 0);
    if (s->net.listen) {
        rc = serve_all(s, err);
    } else if (s->net.connect) {
        for (uint64_t i = 0; i < s->n_stream && !rc; i++)
            rc = start_stream(s, NULL, err);
        rc = wait_streams(s, err) || rc ? -1 : 0;
    } else {
        port = net_attach(&s->net, err);
        rc = port ? start_stream(s, port, err) : -1;
        if (!rc)
            rc = wait_streams(s, err);
        net_detach(&s->net);
    }
    progress_end(&s->progress);
    return rc;
}

/* With several connections, an idle one is asked again for what a slow one has not delivered. */
static void report(const struct send *s, uint64_t raw_byte, uint64_t wire_byte, int rc)
{
    const uint64_t total = spot_sender_total(s->sender), once = raw_byte < total ? raw_byte : total;
    char again[64] = "";

    if (raw_byte > total)
        snprintf(again, sizeof(again), " and %llu again", (unsigned long long)(raw_byte - total));
    spot_tool_info("%s: %llu of %llu bytes sent%s, as %llu%s", s->in.name, (unsigned long long)once,
                   (unsigned long long)total, again, (unsigned long long)wire_byte,
                   rc ? "" : "; committed at the other end");
}

static int run(struct send *s, const char *path, struct spot_err *err)
{
    struct pack_options pack = { .common = &s->common };
    uint64_t raw_byte, wire_byte;
    bool is_one_way;
    int rc = -1;

    if (net_check(&s->net, &is_one_way, err))
        return -1;
    pack.codec = (enum spot_codec)spot_codec_parse(s->codec_name);
    if (!strcmp(s->codec_name, "auto"))
        pack.codec = is_one_way ? SPOT_CODEC_PLANES : SPOT_CODEC_AUTO;
    if (is_one_way && s->deadline_s >= 0)
        return spot_err_set(
            err, SPOT_EUSAGE,
            "--deadline requires a two-way transport: --connect, --listen, --via or --duplex");
    if (is_one_way) {
        pack.n_thread = threads_of(s->n_thread);
        pack.chunk_byte = (uint32_t)s->chunk_byte;
        return pack_to_output(&pack, path, err);
    }
    if (s->common.output)
        return spot_err_set(err, SPOT_EUSAGE, "-o is for a one-way stream");
    if (!open_sender(s, pack.codec, path, err)) {
        rc = move(s, err);
        spot_sender_progress(s->sender, &raw_byte, &wire_byte);
        report(s, raw_byte, wire_byte, rc);
    }
    spot_sender_free(s->sender);
    input_close(&s->in);
    return rc;
}

static struct send sender = { .common = SPOT_TOOL_COMMON_DEFAULT,
                              .net = NET_DEFAULT,
                              .codec_name = "auto",
                              .n_stream = 4,
                              .chunk_byte = SPOT_CHUNK_BYTE,
                              .deadline_s = -1 };

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "transport (default: a stream to standard output)" },
    NET_OPTIONS(&sender.net),
    SPOT_ROW_STREAMS(&sender.n_stream),
    { SPOT_OPT_GROUP, .help = "what" },
    SPOT_ROW_CODEC(&sender.codec_name),
    SPOT_SIZE("chunk", &sender.chunk_byte, "size", "raw bytes per chunk (default: 1MiB)",
              SPOT_CHUNK_BYTE_MIN, SPOT_CHUNK_BYTE_MAX),
    SPOT_SECS("deadline", &sender.deadline_s, "duration",
              "stop sending at this time; exit 75 if the transfer is not complete", 0, 1e9),
    SPOT_ROW_THREADS(&sender.n_thread),
    SPOT_TOOL_OPTIONS_WRITE(&sender.common, "write a one-way stream here (default: stdout)"),
    { SPOT_OPT_END },
};

static int migrate_send(char **operand, size_t n, struct spot_err *err)
{
    int rc;

    (void)n;
    pthread_mutex_init(&sender.lock, NULL);
    spot_cond_init(&sender.ended);
    rc = run(&sender, operand[0], err);
    pthread_cond_destroy(&sender.ended);
    pthread_mutex_destroy(&sender.lock);
    return rc;
}

const struct spot_cli migrate_send_command = {
    .name = "spot-migrate send",
    .brief = "send a file to another machine",
    .need = (const struct spot_opt_need[]){ { "timeout", "connect|listen|via|duplex" },
                                            { "wait|key-file", "connect|listen" },
                                            { "streams", "connect" },
                                            { "threads", "!connect|listen|via|duplex" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "key-file", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .n_operand_max = 1,
    .choice = (const struct spot_opt_choice[]){ { "codec", "auto|planes|raw" }, { NULL, NULL } },
    .synopsis = "[options] model.safetensors",
    .summary = "Send a file; exit 0 only when the other end has it, verified and durable.",
    .examples = "  spot-migrate send m.safetensors | ssh host spot-migrate recv -o m.safetensors\n"
                "  spot-migrate send --via 'ssh host spot-migrate recv --duplex -o m' m\n",
    .option = option,
    .common = &sender.common,
    .run = migrate_send,
};
