/* SPDX-License-Identifier: MIT */
/* migrate.h - shared by the commands of spot-migrate. */
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

/* Options of pack, also for streams to standard output. */
struct pack_options {
    const struct spot_tool_common *common;
    enum spot_codec codec;
    uint64_t n_thread;
    uint32_t chunk_byte;
};
int pack_to_output(const struct pack_options *options, const char *path, struct spot_err *err);

/* --threads; 0 (not given): one for each processor, at most 64. */
uint64_t threads_of(uint64_t given);

/* --- input --- */

struct input {
    int fd;
    const char *name;        /* for messages */
    bool is_regular;         /* a regular file, which can be read at any offset */
    uint64_t n_byte;         /* size of a regular file */
    struct timespec changed; /* its time of change when it was opened */
    uint64_t data_at;        /* offset of the data, after the header of a safetensors file */
};

/* `path` NULL or "-" is stdin; a terminal is refused. Returns 0, or -1 with *err. */
int input_open(struct input *in, const char *path, struct spot_err *err);
void input_close(struct input *in);

/* Read until `data` [n_byte] is full or the input ends; *n_read: the number of bytes. */
int input_read(struct input *in, void *data, size_t n_byte, size_t *n_read, struct spot_err *err);

/* Check that a regular file has the size and time of change that it had when it was opened;
 * otherwise bytes read before and after the change do not belong together. Returns 0, or -1 with
 * *err (SPOT_EDATA). */
int input_unchanged(const struct input *in, struct spot_err *err);

/* Skip bytes of a regular file; SPOT_EDATA if it ends before. */
int input_skip(struct input *in, uint64_t n_byte, struct spot_err *err);

/* Read the header of a safetensors file, prefix and JSON, into `header`; the input is then at its
 * data. *st: the parsed header. A regular file must have exactly the size that the header
 * announces. */
int input_safetensors(struct input *in, struct spot_buf *header, struct spot_st *st,
                      struct spot_err *err);

/* The data of a regular safetensors file whose header was read by input_safetensors; an error if
 * the file has changed meanwhile. Both are borrowed. */
struct spot_source input_source(struct input *in, const struct spot_buf *header);

/* Read a whole stream through its reader. */
int input_stream(struct input *in, struct spot_stream_reader *reader, struct spot_err *err);

/* --- output --- */

/* Like spot_out_open, but a terminal is refused. */
int output_open(struct spot_out *out, const char *path, struct spot_err *err);
int output_write(struct spot_out *out, const void *data, size_t n_byte, struct spot_err *err);

/* True for a regular file, which appears under its name when it is complete. Until then its bytes
 * may be written in any order by several threads at once, except where output_write writes. */
bool output_is_file(const struct spot_out *out);
int output_write_at(struct spot_out *out, uint64_t at, const void *data, size_t n_byte,
                    struct spot_err *err);

/* --- progress: on stderr if that is a terminal, after the first second, erased at the end --- */

struct progress {
    bool is_on, is_shown;
    double start_s, next_s;
    uint64_t total_byte; /* 0: unknown */
    uint64_t first_byte; /* bytes that existed already */
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

/* --- a plan as a document, as sentences, as a figure --- */

/* Owns what the document borrows, except the plan's own strings. */
struct moves_doc {
    struct spot_moves_doc doc;
    char **text; /* [n_text] owned strings */
    size_t n_text, text_cap;
    size_t why_cap;
};

/* The names are those of the target layout. */
void moves_doc_init(struct moves_doc *moves, const struct spot_layout *to,
                    const struct spot_migration_problem *problem,
                    const struct spot_migration_plan *plan);
void moves_doc_release(struct moves_doc *moves);

/* One row for each transfer. */
void moves_table(const struct moves_doc *moves, FILE *out, enum spot_format format);

/* Bytes between each pair of nodes, and when each link is busy. */
int moves_plot(const struct spot_migration_problem *problem, const struct spot_migration_plan *plan,
               const char *path, struct spot_err *err);

/* --- connections of send and recv, as ports. Unix sockets and loopback TCP are used as they are;
 * other addresses only with a key, over TLS; or standard input and output of a command (ssh) or of
 * this process --- */

enum { NET_STREAMS_MAX = 64 };

/* Options of both commands. */
struct net {
    const char *connect, *listen, *via, *key_path;
    bool is_duplex;
    double silence_s; /* a peer silent for this long is dead */
    double wait_s;    /* how long to wait for a peer to connect */

    unsigned char key[SPOT_TLS_KEY_BYTE];
    pid_t child; /* process of --via, 0 if none */
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

/* Check the options: at most one kind of connection, addresses that this machine may use, the key.
 * *is_one_way: true if no connection is named, for a plain stream over standard input or output.
 * Returns 0, or -1 with *err. */
int net_check(struct net *net, bool *is_one_way, struct spot_err *err);

/* One connection to one address, tried until it succeeds or wait_s has passed. Returns a port, or
 * NULL. */
struct spot_port *net_connect(const struct net *net, const char *address, struct spot_err *err);

/* The port of --via (the command is started) or --duplex. NULL with *err. */
struct spot_port *net_attach(struct net *net, struct spot_err *err);

/* Wait for the command of --via to end. */
void net_detach(struct net *net);

/* Returns a listening descriptor, or -1 with *err; for port 0 the chosen port is printed on stderr.
 * net_accept: the next connection as a port, or NULL if there is none within limit_s. */
int net_listen(const struct net *net, struct spot_err *err);
struct spot_port *net_accept(const struct net *net, int listener, double limit_s);
void net_unlisten(const struct net *net, int listener);

#endif /* SPOT_MIGRATE_MIGRATE_H */
