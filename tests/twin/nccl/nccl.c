/* SPDX-License-Identifier: MIT */
/* NCCL's calls: see nccl.h beside. A thread per communicator connects and does what groups ask. */
#define _GNU_SOURCE
#include "nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "nccl/pipe.h"

#define PUBLIC __attribute__((visibility("default")))
enum { CALLS_MAX = 4096 };

struct call {
    bool is_sum;
    struct twin_op op; /* of a sum: data in place */
    ncclDataType_t type;
    size_t n;
};

struct ncclComm {
    struct twin_pipe pipe;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    ncclResult_t state;
    bool is_asked, is_busy; /* a group waits to be queued; is on the stream */
    struct call *call;
    size_t n_call;
    cudaStream_t stream;
    int device; /* of the thread that began it */
};

/* --- what the thread does --------------------------------------------------- */

static void add(ncclDataType_t type, void *to, const void *more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (type == ncclInt64)
            ((uint64_t *)to)[i] += ((const uint64_t *)more)[i];
        else
            ((float *)to)[i] += ((const float *)more)[i];
}

/* Rank 0 adds in the order of ranks and sends to all. */
static ncclResult_t sum(struct twin_pipe *p, const struct call *call)
{
    const size_t n_byte = call->n * (call->type == ncclInt64 ? 8 : 4);
    struct twin_op *const op = calloc((size_t)p->n, sizeof(*op));
    unsigned char *const room = malloc(n_byte * (size_t)p->n + 1);
    const size_t n = p->rank ? 1 : (size_t)p->n - 1;
    ncclResult_t result;

    for (size_t i = 0; i < n; i++)
        op[i] = p->rank ? (struct twin_op){ true, 0, call->op.data, n_byte }
                        : (struct twin_op){ false, (int)i + 1, room + i * n_byte, n_byte };
    result = twin_pipe_run(p, op, n);
    for (size_t i = 0; result == ncclSuccess && i < n; i++) {
        if (!p->rank)
            add(call->type, call->op.data, op[i].data, call->n);
        op[i].is_send = !op[i].is_send;
        op[i].data = call->op.data;
    }
    if (result == ncclSuccess)
        result = twin_pipe_run(p, op, n);
    free(room);
    free(op);
    return result;
}

static ncclResult_t run_calls(struct ncclComm *c)
{
    struct twin_op *const op = calloc(c->n_call + 1, sizeof(*op));
    ncclResult_t result;
    size_t n = 0;

    for (size_t i = 0; i < c->n_call; i++)
        if (!c->call[i].is_sum)
            op[n++] = c->call[i].op;
    result = twin_pipe_run(&c->pipe, op, n);
    for (size_t i = 0; result == ncclSuccess && i < c->n_call; i++)
        if (c->call[i].is_sum)
            result = sum(&c->pipe, &c->call[i]);
    free(op);
    return result;
}

static void *run(void *user)
{
    static atomic_long n_group;
    struct ncclComm *const c = user;
    ncclResult_t result = twin_pipe_connect(&c->pipe);

    pthread_mutex_lock(&c->lock);
    c->state = result;
    while (!c->pipe.stop) {
        if (!c->is_asked) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        c->is_asked = false;
        c->is_busy = true;
        c->state = ncclSuccess;
        pthread_mutex_unlock(&c->lock);
        result = ++n_group == twin_setting("SPOT_TWIN_NCCL_FAIL_AT", 0) ? ncclInternalError
                                                                        : run_calls(c);
        pthread_mutex_lock(&c->lock);
        if (result != ncclInProgress)
            c->state = result;
        c->is_busy = result != ncclSuccess; /* a kernel whose peer failed spins */
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static int is_busy(void *user)
{
    struct ncclComm *const c = user;
    int busy;

    pthread_mutex_lock(&c->lock);
    busy = c->is_busy;
    pthread_mutex_unlock(&c->lock);
    return busy;
}

/* --- life ------------------------------------------------------------------- */

PUBLIC ncclResult_t ncclGetVersion(int *version)
{
    *version = (int)twin_setting("SPOT_TWIN_NCCL_VERSION", 22809);
    return ncclSuccess;
}

PUBLIC ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof(*id));
    return getrandom(id, 8, 0) == 8 ? ncclSuccess : ncclSystemError;
}

PUBLIC const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const text[] = { "no error",       "unhandled cuda error", "system error",
                                        "internal error", "invalid argument",     "invalid usage",
                                        "remote error",   "in progress" };

    return text[result];
}

PUBLIC const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "the twin says so";
}

/* The twin of CUDA is a module that the program opened. */
static int device_now(void)
{
    const char *const path = getenv("SPOT_CUDA_MODULE");
    void *const module = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *const symbol = module ? dlsym(module, "twin_device") : NULL;
    int (*ask)(void);

    if (!symbol)
        return 0;
    memcpy(&ask, &symbol, sizeof(ask));
    return ask();
}

PUBLIC ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                           ncclConfig_t *config)
{
    struct ncclComm *const c = calloc(1, sizeof(*c));

    while (twin_setting("SPOT_TWIN_NCCL_STUCK", 0) == 2)
        sleep(1);
    if (config->magic != 0xcafebeef || config->blocking != 0 || n < 1 || n > TWIN_RANKS_MAX ||
        rank < 0 || rank >= n) {
        free(c);
        return ncclInvalidArgument;
    }
    c->pipe = (struct twin_pipe){ .n = n, .rank = rank, .listener = -1 };
    memcpy(&c->pipe.key, &id, sizeof(c->pipe.key));
    c->pipe.peer = calloc((size_t)n, sizeof(*c->pipe.peer));
    for (int r = 0; r < n; r++)
        c->pipe.peer[r].fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->state = ncclInProgress;
    c->device = device_now();
    *comm = c;
    return pthread_create(&c->thread, NULL, run, c) ? ncclSystemError : ncclInProgress;
}

PUBLIC ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    pthread_mutex_lock(&c->lock);
    *state = c->state;
    pthread_mutex_unlock(&c->lock);
    return ncclSuccess;
}

PUBLIC ncclResult_t ncclCommAbort(ncclComm_t c)
{
    while (twin_setting("SPOT_TWIN_NCCL_STUCK", 0))
        sleep(1);
    pthread_mutex_lock(&c->lock);
    c->pipe.stop = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    if (c->stream && c->stream->user == c)
        c->stream->is_busy = NULL;
    twin_pipe_close(&c->pipe);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c->pipe.peer);
    free(c->call);
    free(c);
    return ncclSuccess;
}

/* --- groups ------------------------------------------------------------------ */

static _Thread_local struct {
    int depth;
    ncclComm_t comm; /* one per group */
    cudaStream_t stream;
    struct call call[CALLS_MAX];
    size_t n;
} group;

PUBLIC ncclResult_t ncclGroupStart(void)
{
    if (!group.depth++) {
        group.comm = NULL;
        group.n = 0;
    }
    return ncclSuccess;
}

PUBLIC ncclResult_t ncclGroupEnd(void)
{
    struct ncclComm *const c = group.comm;
    ncclResult_t result = ncclInProgress;

    if (--group.depth || !c)
        return ncclSuccess;
    pthread_mutex_lock(&c->lock);
    if (c->state != ncclSuccess || c->is_asked || c->is_busy) {
        result = ncclInvalidUsage; /* not yet connected, failed, or not waited for */
    } else {
        free(c->call);
        c->call = malloc(group.n * sizeof(*c->call));
        memcpy(c->call, group.call, group.n * sizeof(*c->call));
        c->n_call = group.n;
        c->stream = group.stream;
        c->stream->user = c;
        c->stream->is_busy = is_busy;
        c->is_asked = true;
        c->state = ncclInProgress;
        pthread_cond_signal(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

static ncclResult_t ask(ncclComm_t comm, cudaStream_t stream, const struct call *call)
{
    if (!group.depth || (group.comm && group.comm != comm) || group.n == CALLS_MAX || !stream)
        return ncclInvalidUsage;
    if (stream->device != comm->device)
        return ncclInvalidArgument;
    group.comm = comm;
    group.stream = stream;
    group.call[group.n] = *call;
    group.call[group.n].op.data = stream->reach(call->op.data);
    group.n++;
    return ncclSuccess;
}

static ncclResult_t ask_piece(bool is_send, void *data, size_t n, ncclDataType_t type, int peer,
                              ncclComm_t comm, cudaStream_t stream)
{
    const struct call call = { .op = { is_send, peer, data, n } };

    if (type != ncclUint8 || peer < 0 || peer >= comm->pipe.n || peer == comm->pipe.rank)
        return ncclInvalidArgument;
    return ask(comm, stream, &call);
}

PUBLIC ncclResult_t ncclSend(const void *data, size_t n, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t stream)
{
    return ask_piece(true, (void *)(uintptr_t)data, n, type, peer, comm, stream);
}

PUBLIC ncclResult_t ncclRecv(void *data, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream)
{
    return ask_piece(false, data, n, type, peer, comm, stream);
}

PUBLIC ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    const struct call call = { .is_sum = true, .op = { .data = to }, .type = type, .n = n };

    if (from != to || op != ncclSum || type == ncclUint8)
        return ncclInvalidArgument;
    return ask(comm, stream, &call);
}
