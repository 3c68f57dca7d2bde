/* SPDX-License-Identifier: MIT */
/* migrate.h - what the commands of spot-migrate share. */
#ifndef SPOT_MIGRATE_MIGRATE_H
#define SPOT_MIGRATE_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "cli/rows.h"
#include "cli/table.h"
#include "cli/tool.h"
#include "comm/tls.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/out.h"
#include "common/port.h"
#include "model/moves_doc.h"
#include "plan/migration.h"
#include "shard/chunk.h"
#include "shard/range.h"
#include "shard/safetensors.h"
#include "shard/stream.h"

/* What pack does, for those that stream to standard output. */
struct pack_options {
    const struct spot_tool_common *common;
    enum spot_codec codec;
    uint64_t n_thread;
    uint32_t chunk_byte;
};
int pack_to_output(const struct pack_options *options, const char *path, struct spot_err *err);

/* --threads; 0, not given: one a processor, 64 at most. */
uint64_t threads_of(uint64_t given);

/* --- bytes in --- */

struct input {
    int fd;
    const char *name;        /* for messages */
    bool is_regular;         /* then it can be read at any place */
    uint64_t n_byte;         /* of a regular file */
    struct timespec changed; /* of it, when it was opened */
    uint64_t data_at;        /* behind the header of a safetensors file */
};

/* `path` NULL or "-" is stdin; a terminal is refused. Returns 0, or -1 with *err. */
int input_open(struct input *in, const char *path, struct spot_err *err);
void input_close(struct input *in);

/* Read until `data` [n_byte] is full or the input ends; *n_read says how far. */
int input_read(struct input *in, void *data, size_t n_byte, size_t *n_read, struct spot_err *err);

/* Is a regular file what it was when it was opened, by its size and time of change? What is read
 * before it changes and after does not belong together. -1 with *err (SPOT_EDATA) if not. */
int input_unchanged(const struct input *in, struct spot_err *err);

/* Move on in a regular file without looking; SPOT_EDATA when it ends before. */
int input_skip(struct input *in, uint64_t n_byte, struct spot_err *err);

/* The header of a safetensors file, prefix and JSON, into `header`; the input stands behind it.
 * *st gets its meaning. A regular file must have exactly the size that the header announces. */
int input_safetensors(struct input *in, struct spot_buf *header, struct spot_st *st,
                      struct spot_err *err);

/* The data of a regular safetensors file, whose header was read so; that it changed meanwhile is an
 * error. Both are borrowed. */
struct spot_source input_source(struct input *in, const struct spot_buf *header);

/* All of a stream through its reader, to the end. */
int input_stream(struct input *in, struct spot_stream_reader *reader, struct spot_err *err);

/* --- bytes out --- */

/* As spot_out_open, but a terminal is refused. */
int output_open(struct spot_out *out, const char *path, struct spot_err *err);
int output_write(struct spot_out *out, const void *data, size_t n_byte, struct spot_err *err);

/* A file that appears when it is complete: until then its bytes may be written in any order, at
 * any place but where output_write writes, by several threads at once. */
bool output_is_file(const struct spot_out *out);
int output_write_at(struct spot_out *out, uint64_t at, const void *data, size_t n_byte,
                    struct spot_err *err);

/* --- progress: on stderr if that is a terminal, after the first second, erased at the end --- */

struct progress {
    bool is_on, is_shown;
    double start_s, next_s;
    uint64_t total_byte; /* 0 when unknown */
    uint64_t first_byte; /* done before we began */
};

void progress_start(struct progress *p, const struct spot_tool_common *common, uint64_t total_byte,
                    uint64_t first_byte);
void progress_show(struct progress *p, uint64_t done_byte);
void progress_end(struct progress *p);

/* --- the commands of spot-migrate --- */

/* The rows of the table in main.c. */
extern const struct spot_cli migrate_plan_command;
extern const struct spot_cli migrate_assign_command;
extern const struct spot_cli migrate_pack_command;
extern const struct spot_cli migrate_unpack_command;
extern const struct spot_cli migrate_send_command;
extern const struct spot_cli migrate_recv_command;

/* --- a plan as a document, as sentences, as a picture --- */

/* Holds what the document borrows besides the plan's own strings. */
struct moves_doc {
    struct spot_moves_doc doc;
    char **text; /* [n_text] owned strings */
    size_t n_text, text_cap;
    size_t why_cap;
};

/* Names are those of the layout wanted. */
void moves_doc_init(struct moves_doc *moves, const struct spot_layout *to,
                    const struct spot_migration_problem *problem,
                    const struct spot_migration_plan *plan);
void moves_doc_release(struct moves_doc *moves);

/* One row a transfer. */
void moves_table(const struct moves_doc *moves, FILE *out, enum spot_format format);

/* Who sends how much to whom, and when each link is busy. */
int moves_plot(const struct spot_migration_problem *problem, const struct spot_migration_plan *plan,
               const char *path, struct spot_err *err);

/* --- the ways by which send and recv find each other, as ports.  Unix sockets and loopback TCP
 * as they are; any other address only with a key, over TLS; a command's standard input and output
 * (ssh), or our own --- */

enum { NET_STREAMS_MAX = 64 };

/* Options of both commands. */
struct net {
    const char *connect, *listen, *via, *key_path;
    bool is_duplex;
    double silence_s; /* a peer silent for this long is dead */
    double wait_s;    /* how long to wait for a peer */

    unsigned char key[SPOT_TLS_KEY_BYTE];
    pid_t child; /* of --via, 0 if none */
};

#define NET_DEFAULT                   \
    {                                 \
        .silence_s = 10, .wait_s = 60 \
    }
/* clang-format off */
#define NET_OPTIONS(n) \
    SPOT_TEXT("connect", &(n)->connect, "address", "connect to ADDRESS"), \
    SPOT_TEXT("listen", &(n)->listen, "address", "listen on ADDRESS"), \
    SPOT_TEXT("via", &(n)->via, "command", "through a command, such as ssh, that runs the other end with --duplex"), \
    SPOT_FLAG("duplex", &(n)->is_duplex, "two-way protocol over standard input and output"), \
    SPOT_ROW_KEY_FILE(&(n)->key_path), \
    { SPOT_OPT_SECS, 0, "timeout", &(n)->silence_s, "duration", \
      "drop a peer after this much silence (default: 10s)", 0.01, 1e6 }, \
    { SPOT_OPT_SECS, 0, "wait", &(n)->wait_s, "duration", \
      "time limit for a peer to appear (default: 60s)", 0, 1e6 }
/* clang-format on */

/* Check what was asked for: at most one way, addresses this machine may use, the key. True in
 * *is_one_way if no way is named: a plain stream over standard input or output.
 * Returns 0, or -1 with *err. */
int net_check(struct net *net, bool *is_one_way, struct spot_err *err);

/* One connection to one address, tried until it answers or wait_s is over; a port or NULL. */
struct spot_port *net_connect(const struct net *net, const char *address, struct spot_err *err);

/* The port of --via (the command is started) or --duplex. NULL with *err. */
struct spot_port *net_attach(struct net *net, struct spot_err *err);

/* Wait for the command of --via to end. */
void net_detach(struct net *net);

/* A listening descriptor, or -1 with *err; for port 0 the port chosen is said on stderr. The next
 * connection as a port, or NULL when there is none for limit_s. */
int net_listen(const struct net *net, struct spot_err *err);
struct spot_port *net_accept(const struct net *net, int listener, double limit_s);
void net_unlisten(const struct net *net, int listener);

#endif /* SPOT_MIGRATE_MIGRATE_H */
