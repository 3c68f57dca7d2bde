/* SPDX-License-Identifier: MIT */
/* bench_move - pack, unpack and send to recv of a file against what they cannot beat, in one run:
 * coding and decoding in memory, and the same bytes through Unix sockets, with as many threads.
 *
 * usage: bench_move [DIRECTORY [MIB]]   (default /dev/shm, 1024; the spot-migrate of the same
 * build)
 *
 * What commands take is the median of five runs. Columns: wall and CPU seconds, GB/s, and ratios of
 * wall time to the slowest limit ("/ slow"), of wall time to the floor on these processors ("/
 * floor": the slowest limit, or the CPU seconds of all shared out, whichever is more), of CPU
 * seconds to those of the limits ("/ CPU"). Where both ends share the processors no command can
 * reach the slowest limit; "apart" gives each end one processor, as two machines would, and the
 * limits one thread. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "shard/chunk.h"

enum {
    CHUNK = SPOT_CHUNK_BYTE,
    TENSOR_CHUNKS = 16,
    SEEDS = 32,
    THREADS_MAX = 8,
    PIECE = 1 << 20,
    RUNS = 5
};

struct cost {
    double wall_s, cpu_s;
};

static double cpu_of(int who)
{
    struct rusage u;

    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* --- the file: tensors of fp32 and bf16 in turn, normal(0, 0.02) --- */

struct file {
    char path[400];
    size_t n_chunk;
    struct spot_buf header;
    struct spot_st st;
    struct spot_chunk_map map;
    unsigned char *seed[2]; /* [SEEDS * CHUNK] of fp32 and of bf16, repeated over the file */
};

static void fill(unsigned char *to, size_t width, uint64_t stream)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 1, stream);
    for (size_t i = 0; i < (size_t)SEEDS * CHUNK; i += width) {
        const float x = (float)(0.02 * spot_rng_normal(&rng));
        unsigned char bits[4];

        memcpy(bits, &x, 4);
        memcpy(to + i, bits + 4 - width, width);
    }
}

static const unsigned char *chunk_data(const struct file *f, size_t seq)
{
    return f->seed[seq / TENSOR_CHUNKS % 2] + seq % SEEDS * CHUNK;
}

static void write_all(int fd, const void *data, size_t n)
{
    const char *at = data;

    while (n) {
        const ssize_t done = write(fd, at, n);

        if (done <= 0) {
            perror("bench_move: write");
            exit(4);
        }
        at += done;
        n -= (size_t)done;
    }
}

static void make_header(struct file *f)
{
    const size_t n = f->n_chunk / TENSOR_CHUNKS;
    struct spot_st_tensor *t = spot_xcalloc(n, sizeof(*t));

    for (size_t i = 0; i < n; i++) {
        t[i].name = spot_xcalloc(24, 1);
        snprintf(t[i].name, 24, "t%zu", i);
        t[i].dtype = i % 2 ? SPOT_DT_BF16 : SPOT_DT_F32;
        t[i].n_dim = 1;
        t[i].dim[0] = (uint64_t)TENSOR_CHUNKS * CHUNK / spot_dtype_byte(t[i].dtype);
    }
    spot_st_write(t, n, &f->header);
    for (size_t i = 0; i < n; i++)
        free(t[i].name);
    free(t);
    if (spot_st_parse(&f->st, (char *)f->header.data + SPOT_ST_PREFIX_BYTE,
                      f->header.n - SPOT_ST_PREFIX_BYTE, "bench", NULL) ||
        spot_chunk_map_init(&f->map, &f->st, CHUNK, NULL))
        abort();
}

static void make_file(struct file *f, const char *directory, size_t mib)
{
    int fd;

    f->n_chunk = mib / TENSOR_CHUNKS * TENSOR_CHUNKS;
    for (int i = 0; i < 2; i++) {
        f->seed[i] = spot_xcalloc((size_t)SEEDS * CHUNK, 1);
        fill(f->seed[i], i ? 2 : 4, (uint64_t)i);
    }
    make_header(f);
    snprintf(f->path, sizeof(f->path), "%s/move.safetensors", directory);
    fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) {
        perror(f->path);
        exit(4);
    }
    write_all(fd, f->header.data, f->header.n);
    for (size_t i = 0; i < f->n_chunk; i++)
        write_all(fd, chunk_data(f, i), CHUNK);
    close(fd);
}

/* --- the limits: threads over chunks in memory, threads over sockets --- */

struct threads {
    const struct file *file;
    enum spot_codec codec;
    size_t n_thread;
    struct spot_buf *coded; /* [n_chunk] */
};

struct hand {
    const struct threads *threads;
    size_t index;
    int fd[2];
    struct spot_coder coder;
};

static void *encode(void *user)
{
    struct hand *h = user;
    const struct threads *c = h->threads;

    for (size_t i = h->index; i < c->file->n_chunk; i += c->n_thread) {
        struct spot_chunk chunk;

        spot_chunk_map_get(&c->file->map, i, &chunk);
        c->coded[i].n = 0;
        if (spot_chunk_encode(&h->coder, &chunk, c->codec, chunk_data(c->file, i), &c->coded[i],
                              NULL))
            abort();
    }
    return NULL;
}

static void *decode(void *user)
{
    struct hand *h = user;
    const struct threads *c = h->threads;
    unsigned char *raw = spot_xcalloc(CHUNK, 1);

    for (size_t i = h->index; i < c->file->n_chunk; i += c->n_thread) {
        struct spot_chunk chunk;

        if (spot_chunk_parse(c->coded[i].data, &c->file->map, 0, &chunk, NULL) ||
            spot_chunk_decode(&h->coder, &chunk, c->coded[i].data + SPOT_CHUNK_HEAD_BYTE, raw,
                              NULL))
            abort();
    }
    free(raw);
    return NULL;
}

static void *put(void *user)
{
    struct hand *h = user;
    const struct threads *c = h->threads;

    for (size_t i = h->index; i < c->file->n_chunk; i += c->n_thread)
        write_all(h->fd[0], c->coded[i].data, c->coded[i].n);
    close(h->fd[0]);
    return NULL;
}

static void *take(void *user)
{
    const struct hand *h = user;
    unsigned char *to = spot_xcalloc(PIECE, 1);

    while (read(h->fd[1], to, PIECE) > 0)
        ;
    close(h->fd[1]);
    free(to);
    return NULL;
}

/* All hands at `work`, and at `also` if it is one. */
static struct cost run(struct threads *c, void *(*work)(void *), void *(*also)(void *))
{
    struct hand hand[THREADS_MAX] = { { 0 } };
    pthread_t thread[2 * THREADS_MAX];
    size_t n = 0;
    struct cost cost;

    for (size_t i = 0; i < c->n_thread; i++) {
        hand[i].threads = c;
        hand[i].index = i;
        spot_coder_init(&hand[i].coder);
        if (also && socketpair(AF_UNIX, SOCK_STREAM, 0, hand[i].fd))
            abort();
    }
    cost = (struct cost){ spot_clock_s(), cpu_of(RUSAGE_SELF) };
    for (size_t i = 0; i < c->n_thread; i++)
        if (pthread_create(&thread[n++], NULL, work, &hand[i]) ||
            (also && pthread_create(&thread[n++], NULL, also, &hand[i])))
            abort();
    for (size_t i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    cost = (struct cost){ spot_clock_s() - cost.wall_s, cpu_of(RUSAGE_SELF) - cost.cpu_s };
    for (size_t i = 0; i < c->n_thread; i++)
        spot_coder_release(&hand[i].coder);
    return cost;
}

/* --- ours --- */

static struct cost command_once(const char *line)
{
    struct cost cost = { spot_clock_s(), cpu_of(RUSAGE_CHILDREN) };

    if (system(line)) {
        fprintf(stderr, "bench_move: failed: %s\n", line);
        exit(1);
    }
    return (struct cost){ spot_clock_s() - cost.wall_s, cpu_of(RUSAGE_CHILDREN) - cost.cpu_s };
}

static int by_wall(const void *a, const void *b)
{
    const double x = ((const struct cost *)a)->wall_s, y = ((const struct cost *)b)->wall_s;

    return (x > y) - (x < y);
}

/* The median of RUNS by wall time: on shared processors one run says little. */
static struct cost command(const char *line)
{
    struct cost cost[RUNS];

    for (int i = 0; i < RUNS; i++)
        cost[i] = command_once(line);
    qsort(cost, RUNS, sizeof(*cost), by_wall);
    return cost[RUNS / 2];
}

static void show(const char *what, const char *codec, struct cost c, double raw_gb)
{
    printf("%-7s %-23s %7.2f %7.2f %7.2f\n", codec, what, c.wall_s, c.cpu_s, raw_gb / c.wall_s);
}

/* A tool against its limits; floor_s 0: their CPU seconds shared out over all processors. */
static void compare(const char *what, const char *codec, struct cost ours, const struct cost *limit,
                    size_t n_limit, double floor_s, double raw_gb)
{
    struct cost slow = { 0, 0 };

    for (size_t i = 0; i < n_limit; i++) {
        slow.wall_s = limit[i].wall_s > slow.wall_s ? limit[i].wall_s : slow.wall_s;
        slow.cpu_s += limit[i].cpu_s;
    }
    if (floor_s == 0)
        floor_s = slow.cpu_s / (double)sysconf(_SC_NPROCESSORS_ONLN);
    floor_s = slow.wall_s > floor_s ? slow.wall_s : floor_s;
    printf("%-7s %-23s %7.2f %7.2f %7.2f %7.2f %7.2f %7.2f\n", codec, what, ours.wall_s, ours.cpu_s,
           raw_gb / ours.wall_s, ours.wall_s / slow.wall_s, ours.wall_s / floor_s,
           ours.cpu_s / slow.cpu_s);
}

struct limits {
    struct cost code, decode, socket, read, copy;
};

static struct limits measure(const struct file *f, const char *directory, size_t n_thread,
                             enum spot_codec codec)
{
    struct threads c = { .file = f, .codec = codec, .n_thread = n_thread };
    const char *name = spot_codec_name(codec);
    const double gb = 1e-9 * (double)f->n_chunk * CHUNK;
    struct limits l;
    char line[4096];

    c.coded = spot_xcalloc(f->n_chunk, sizeof(*c.coded));
    run(&c, encode, NULL); /* memory is there from now on */
    l.code = run(&c, encode, NULL);
    l.decode = run(&c, decode, NULL);
    l.socket = run(&c, put, take);
    for (size_t i = 0; i < f->n_chunk; i++)
        spot_buf_release(&c.coded[i]);
    free(c.coded);
    snprintf(line, sizeof(line), "dd if='%s' of=/dev/null bs=1M 2>/dev/null", f->path);
    l.read = command(line);
    snprintf(line, sizeof(line), "dd if='%s' of='%s/move.back' bs=1M 2>/dev/null", f->path,
             directory);
    l.copy = command(line);
    printf("%zu thread%s:\n", n_thread, n_thread == 1 ? "" : "s");
    show("limit: code", name, l.code, gb);
    show("limit: decode", name, l.decode, gb);
    show("limit: socket", name, l.socket, gb);
    show("limit: read the file", name, l.read, gb);
    show("limit: copy of the file", name, l.copy, gb);
    return l;
}

/* send to recv, each behind a prefix such as taskset; what cmp of the files takes is not counted.
 */
static struct cost move(const struct file *f, const char *directory, const char *codec,
                        size_t n_stream, const char *at_send, const char *at_recv)
{
    struct cost ours, check;
    char line[4096];

    snprintf(line, sizeof(line),
             "%s spot-migrate recv -q -o '%s/move.back' --listen unix:'%s/move.s' & "
             "%s spot-migrate send -q --codec %s --streams %zu --connect unix:'%s/move.s' '%s' && "
             "wait && cmp '%s/move.back' '%s'",
             at_recv, directory, directory, at_send, codec, n_stream, directory, f->path, directory,
             f->path);
    ours = command(line);
    snprintf(line, sizeof(line), "cmp '%s/move.back' '%s'", directory, f->path);
    check = command(line);
    return (struct cost){ ours.wall_s - check.wall_s, ours.cpu_s - check.cpu_s };
}

static void bench(struct file *f, const char *directory, size_t n_thread, enum spot_codec codec)
{
    const char *name = spot_codec_name(codec);
    const double gb = 1e-9 * (double)f->n_chunk * CHUNK;
    const struct limits l = measure(f, directory, n_thread, codec);
    char line[4096];

    snprintf(line, sizeof(line), "spot-migrate pack --threads %zu --codec %s '%s' >/dev/null",
             n_thread, name, f->path);
    compare("pack >/dev/null", name, command(line), (struct cost[]){ l.code, l.read }, 2, 0, gb);
    snprintf(line, sizeof(line), "spot-migrate pack --threads %zu --codec %s -o '%s/move.szt' '%s'",
             n_thread, name, directory, f->path);
    compare("pack -o", name, command(line), (struct cost[]){ l.code, l.copy }, 2, 0, gb);
    snprintf(line, sizeof(line), "spot-migrate unpack '%s/move.szt' >/dev/null", directory);
    compare("unpack >/dev/null", name, command(line), (struct cost[]){ l.decode, l.read }, 2, 0,
            gb);
    snprintf(line, sizeof(line), "spot-migrate unpack -o '%s/move.back' '%s/move.szt'", directory,
             directory);
    compare("unpack -o", name, command(line), (struct cost[]){ l.decode, l.copy }, 2, 0, gb);
    snprintf(line, sizeof(line), "spot-migrate recv --threads 1 -o '%s/move.back' '%s/move.szt'",
             directory, directory);
    compare("recv, 1 thread", name, command(line), (struct cost[]){ l.decode, l.copy }, 2, 0, gb);
    snprintf(line, sizeof(line), "spot-migrate recv --threads %zu -o '%s/move.back' '%s/move.szt'",
             n_thread, directory, directory);
    compare("recv", name, command(line), (struct cost[]){ l.decode, l.copy }, 2, 0, gb);
    compare("send, recv", name, move(f, directory, name, n_thread, "", ""),
            (struct cost[]){ l.code, l.decode, l.socket, l.copy }, 4, 0, gb);
}

/* The sender's processor reads, codes and fills sockets; the receiver's empties them, decodes and
 * writes. */
static void bench_apart(struct file *f, const char *directory, enum spot_codec codec)
{
    const char *name = spot_codec_name(codec);
    const struct limits l = measure(f, directory, 1, codec);
    const double half_s = l.socket.cpu_s / 2, sender_s = l.read.cpu_s + l.code.cpu_s + half_s,
                 receiver_s = l.decode.cpu_s + l.copy.cpu_s - l.read.cpu_s + half_s;

    compare("send, recv apart", name, move(f, directory, name, 4, "taskset -c 0", "taskset -c 1"),
            (struct cost[]){ l.code, l.decode, l.socket, l.copy }, 4,
            sender_s > receiver_s ? sender_s : receiver_s, 1e-9 * (double)f->n_chunk * CHUNK);
}

static int measure_all(const char *directory, size_t mib)
{
    const long n_cpu = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t n_thread = n_cpu < 1 ? 1 : n_cpu > THREADS_MAX ? THREADS_MAX : (size_t)n_cpu;
    struct file f = { .n_chunk = 0 };
    char line[600];

    /* On a fresh virtual machine the first touch of memory costs more than all that follows. */
    snprintf(line, sizeof(line),
             "dd if=/dev/zero of='%s/warm' bs=1M count=6144 2>/dev/null; rm -f '%s/warm'",
             directory, directory);
    if (system(line))
        return 4;
    make_file(&f, directory, mib);
    printf("%zu MiB, fp32 and bf16, normal(0, 0.02), %ld processors\n", f.n_chunk, n_cpu);
    printf("%-7s %-23s %7s %7s %7s %7s %7s %7s\n", "codec", "what", "wall s", "CPU s", "GB/s",
           "/ slow", "/ floor", "/ CPU");
    for (int i = 0; i < 2; i++) {
        const enum spot_codec codec = i ? SPOT_CODEC_PLANES : SPOT_CODEC_RAW;

        bench(&f, directory, n_thread, codec);
        if (n_cpu > 1)
            bench_apart(&f, directory, codec);
        fflush(stdout);
    }
    return 0;
}

/* The spot-migrate of this build, bin beside the bench that this program is in, comes first on
 * PATH. */
static int find_tool(void)
{
    char self[400], path[8192];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *rest = getenv("PATH");
    char *slash;

    self[n < 0 ? 0 : n] = '\0';
    for (int up = 0; up < 2; up++)
        if ((slash = strrchr(self, '/')))
            *slash = '\0';
    snprintf(path, sizeof(path), "%s/bin/spot-migrate", self);
    if (access(path, X_OK)) {
        fprintf(stderr, "bench_move: cannot run '%s': %s; run make first\n", path, strerror(errno));
        return -1;
    }
    snprintf(path, sizeof(path), "%s/bin:%s", self, rest ? rest : "/usr/bin:/bin");
    return setenv("PATH", path, 1);
}

static pid_t worker;

static void pass_on(int number)
{
    (void)number;
    kill(-worker, SIGTERM);
}

/* In a process group of its own: whatever ends it, the directory is removed. */
static int guard(const char *directory, size_t mib)
{
    const struct sigaction action = { .sa_handler = pass_on };
    int status;

    fflush(stdout);
    worker = fork();
    if (!worker) {
        setpgid(0, 0);
        exit(measure_all(directory, mib));
    }
    if (worker < 0)
        return 4;
    setpgid(worker, worker);
    for (size_t i = 0; i < 3; i++)
        sigaction((int[]){ SIGINT, SIGTERM, SIGHUP }[i], &action, NULL);
    while (waitpid(worker, &status, 0) < 0)
        if (errno != EINTR)
            return 4;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    fprintf(stderr, "bench_move: ended by signal %d\n", WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    char directory[256], line[600];
    int rc;

    if (find_tool())
        return 4;
    snprintf(directory, sizeof(directory), "%s/bench_move.XXXXXX", argc > 1 ? argv[1] : "/dev/shm");
    if (!mkdtemp(directory)) {
        perror(directory);
        return 4;
    }
    rc = guard(directory, argc > 2 ? strtoul(argv[2], NULL, 10) : 1024);
    snprintf(line, sizeof(line), "rm -r '%s'", directory);
    return system(line) ? 4 : rc;
}
