/* SPDX-License-Identifier: MIT */
#include "comm/comm_nccl.h"

#if !__has_include(<nccl.h>)

static int probe(struct spot_err *err)
{
    return spot_err_set(
        err, SPOT_EGPU,
        "this CUDA module was built without nccl.h, and so without NCCL; try --comm "
        "sockets");
}

static int new_id(uint8_t id[SPOT_NCCL_ID_BYTE], struct spot_err *err)
{
    (void)id;
    return probe(err);
}

static struct spot_comm *open_comm(const struct spot_nccl_open *how, struct spot_err *err)
{
    (void)how;
    probe(err);
    return NULL;
}

static bool is_held(void)
{
    return false;
}

const struct spot_nccl spot_nccl = { probe, new_id, open_comm, is_held };

#else

#include <assert.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/late_library.h"
#include "common/threads.h"
#include "common/xalloc.h"

enum { VERSION_MIN = 22700 };

static const double check_every_s = 1e-3, spin_s = 100e-6, nap_s = 20e-6;

/* --- the library --------------------------------------------------------- */

#define EACH_FUNCTION(x)                                                                      \
    x(ncclGetVersion) x(ncclGetUniqueId) x(ncclGetErrorString) x(ncclGetLastError)            \
        x(ncclCommInitRankConfig) x(ncclCommGetAsyncError) x(ncclCommAbort) x(ncclGroupStart) \
            x(ncclGroupEnd) x(ncclSend) x(ncclRecv) x(ncclAllReduce)

SPOT_LATE_TABLE(EACH_FUNCTION)

/* A call did not return: NCCL's kernels may block the device permanently. */
static atomic_bool is_stuck;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct spot_err why; /* why it is missing; code SPOT_OK: it is loaded */

/* An older version is reported by its number, not by the functions it lacks. */
static void load(void)
{
    char path[SPOT_LATE_PATH];
    const char *const library = spot_late_find_cuda("SPOT_NCCL_LIBRARY", "libnccl.so.2", path);
    struct spot_err err = { 0 };
    int version = 0;

    if (!spot_late_library(library, api_name, 1, &api, &err) &&
        (api.ncclGetVersion(&version) != ncclSuccess || version < VERSION_MIN))
        spot_err_set(&why, SPOT_EGPU, "NCCL is %d.%d.%d, %d.%d is needed; try --comm sockets",
                     version / 10000, version / 100 % 100, version % 100, VERSION_MIN / 10000,
                     VERSION_MIN / 100 % 100);
    else if (err.code ||
             spot_late_library(library, api_name, sizeof(api_name) / sizeof(*api_name), &api, &err))
        spot_err_set(&why, SPOT_EGPU,
                     "no NCCL, %d.%d is needed: %.130s; looked in %s; try --comm sockets or "
                     "SPOT_NCCL_LIBRARY",
                     VERSION_MIN / 10000, VERSION_MIN / 100 % 100, err.msg,
                     spot_late_cuda_places());
}

static int probe(struct spot_err *err)
{
    pthread_once(&once, load);
    if (why.code == SPOT_OK)
        return 0;
    *err = why;
    return -1;
}

/* Errors that a peer's death can cause are SPOT_ESYS, and a new epoch may help; all others are
 * faults of this machine. */
static int nccl_error(struct spot_err *err, const char *what, ncclResult_t result, ncclComm_t comm)
{
    const bool is_remote = result == ncclRemoteError || result == ncclSystemError;
    const char *const more = comm ? api.ncclGetLastError(comm) : NULL;

    return spot_err_set(err, is_remote ? SPOT_ESYS : SPOT_EGPU, "NCCL: %s: %s%s%.200s", what,
                        api.ncclGetErrorString(result), more && *more ? ": " : "",
                        more ? more : "");
}

static int new_id(uint8_t id[SPOT_NCCL_ID_BYTE], struct spot_err *err)
{
    ncclUniqueId unique;
    ncclResult_t result;

    _Static_assert(sizeof(unique) == SPOT_NCCL_ID_BYTE, "NCCL's id has another size");
    if (probe(err))
        return -1;
    result = api.ncclGetUniqueId(&unique);
    if (result != ncclSuccess)
        return nccl_error(err, "id of a communicator", result, NULL);
    memcpy(id, &unique, sizeof(unique));
    return 0;
}

/* --- calls that may not return ----------------------------------------- */

/* A call on a separate thread, for which the caller waits at most its limit. It owns its arguments,
 * since it may outlive the caller. */
struct call {
    void (*run)(struct call *call);
    int device; /* the caller's device: a new thread starts with device 0 */
    double limit_s;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n_user; /* the last user frees it */
    bool is_done;
    ncclComm_t comm;
    ncclUniqueId id;
    int n, rank;
    ncclResult_t result;
};

static struct call *new_call(void (*run)(struct call *call), double limit_s)
{
    struct call *const c = spot_xcalloc(1, sizeof(*c));

    c->run = run;
    c->limit_s = limit_s;
    if (cudaGetDevice(&c->device) != cudaSuccess)
        (void)cudaGetLastError();
    pthread_mutex_init(&c->lock, NULL);
    spot_cond_init(&c->changed);
    c->n_user = 1;
    return c;
}

static void leave(struct call *c)
{
    const bool is_last = !--c->n_user;

    pthread_mutex_unlock(&c->lock);
    if (!is_last)
        return;
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c);
}

static void *run_call(void *user)
{
    struct call *const c = user;

    if (cudaSetDevice(c->device) == cudaSuccess)
        c->run(c);
    else
        c->result = ncclUnhandledCudaError;
    pthread_mutex_lock(&c->lock);
    c->is_done = true;
    pthread_cond_signal(&c->changed);
    leave(c);
    return NULL;
}

/* False if NCCL did not return in time; is_stuck is then set. The call stays locked until the
 * caller calls `leave`. */
static bool run_limited(struct call *c)
{
    const double until_s = spot_clock_s() + c->limit_s;
    pthread_t thread;

    c->n_user = 2;
    if (spot_thread_start(&thread, run_call, c, NULL))
        run_call(c);
    else
        pthread_detach(thread);
    pthread_mutex_lock(&c->lock);
    while (!c->is_done && !spot_cond_wait_until(&c->changed, &c->lock, until_s))
        ;
    if (!c->is_done)
        is_stuck = true;
    return c->is_done;
}

static void run_abort(struct call *c)
{
    api.ncclCommAbort(c->comm);
}

static void abort_comm(ncclComm_t comm, double limit_s)
{
    struct call *const c = new_call(run_abort, limit_s);

    c->comm = comm;
    run_limited(c);
    leave(c);
}

/* --- waiting ------------------------------------------------------------- */

struct nccl_comm {
    struct spot_comm base;
    struct spot_nccl_open how;
    ncclComm_t member, replica; /* NULL: not needed, or aborted */
    int member_rank, replica_rank;
    cudaStream_t stream;
    cudaEvent_t ready;
};

static struct nccl_comm *of(struct spot_comm *comm)
{
    return (struct nccl_comm *)(void *)comm;
}

static int cuda_error(struct spot_err *err, const char *what, cudaError_t status)
{
    (void)cudaGetLastError();
    return spot_err_set(err, SPOT_EGPU, "CUDA: %s: %s (%s)", what, cudaGetErrorString(status),
                        cudaGetErrorName(status));
}

static int stuck(double limit_s, struct spot_err *err)
{
    return spot_err_set(err, SPOT_EGPU,
                        "NCCL did not return within %g s; the device may stay blocked", limit_s);
}

/* End both communicators: pending operations end with an error that is ignored. */
static void end(struct nccl_comm *c, struct spot_err *err)
{
    ncclComm_t *const comm[] = { &c->replica, &c->member };

    for (int i = 0; i < 2; i++) {
        if (*comm[i])
            abort_comm(*comm[i], c->how.call_limit_s);
        *comm[i] = NULL;
    }
    if (is_stuck)
        stuck(c->how.call_limit_s, err);
}

struct wait {
    double start_s, checked_s, until_s; /* until_s 0: no limit */
};

static struct wait start_wait(double timeout_s)
{
    const double now_s = spot_clock_s();

    return (struct wait){ now_s, now_s, timeout_s > 0 ? now_s + timeout_s : 0 };
}

/* Sleep briefly. Returns 0, or -1 with *err when the wait must end. */
static int pass(const struct nccl_comm *c, struct wait *w, struct spot_err *err)
{
    const double now_s = spot_clock_s();

    if (now_s - w->checked_s >= check_every_s) {
        w->checked_s = now_s;
        if (c->how.check(c->how.user, err))
            return -1;
    }
    if (w->until_s > 0 && now_s > w->until_s)
        return spot_err_set(err, SPOT_ESYS, "NCCL: not all members are connected after %g s",
                            w->until_s - w->start_s);
    if (now_s - w->start_s > spin_s)
        spot_clock_sleep(nap_s);
    return 0;
}

/* Returns ncclSuccess, ncclInProgress, or an error. A death is reported both here and by `check`,
 * whose message is more precise. */
static int look(const struct nccl_comm *c, ncclComm_t comm, bool *is_busy, struct spot_err *err)
{
    ncclResult_t state = ncclSuccess, result = ncclSuccess;

    *is_busy = false;
    if (!comm)
        return 0;
    result = api.ncclCommGetAsyncError(comm, &state);
    *is_busy = state == ncclInProgress;
    if (result == ncclSuccess && (state == ncclSuccess || state == ncclInProgress))
        return 0;
    if (c->how.check(c->how.user, err))
        return -1;
    return nccl_error(err, "communicator", result == ncclSuccess ? state : result, comm);
}

static int wait_comms(const struct nccl_comm *c, double timeout_s, struct spot_err *err)
{
    struct wait w = start_wait(timeout_s);
    bool busy[2];

    for (;;) {
        if (look(c, c->member, &busy[0], err) || look(c, c->replica, &busy[1], err))
            return -1;
        if (!busy[0] && !busy[1])
            return 0;
        if (pass(c, &w, err))
            return -1;
    }
}

/* cudaErrorNotReady remains as the thread's last error and would look like a failed launch; it is
 * cleared here, but an earlier error is kept. */
static cudaError_t query(cudaStream_t stream)
{
    const cudaError_t before = cudaPeekAtLastError();
    const cudaError_t status = before == cudaSuccess ? cudaStreamQuery(stream) : before;

    if (status == cudaErrorNotReady)
        (void)cudaGetLastError();
    return status;
}

/* Wait until the communicators have started the operations, and then until the stream has completed
 * them. */
static int wait_done(const struct nccl_comm *c, struct spot_err *err)
{
    struct wait w = start_wait(0);
    cudaError_t status;
    bool busy;

    if (wait_comms(c, 0, err))
        return -1;
    while ((status = query(c->stream)) == cudaErrorNotReady)
        if (look(c, c->member, &busy, err) || look(c, c->replica, &busy, err) || pass(c, &w, err))
            return -1;
    if (status != cudaSuccess)
        return cuda_error(err, "a collective", status);
    return wait_comms(c, 0, err); /* a kernel that gave up leaves an error */
}

static bool is_accepted(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

/* --- operations ------------------------------------------------------------ */

/* Make the communication stream wait for the work queued on `stream`. */
static int follow(struct nccl_comm *c, void *stream, struct spot_err *err)
{
    cudaError_t status = stream ? cudaEventRecord(c->ready, stream) : cudaSuccess;

    if (!stream)
        return 0;
    if (status == cudaSuccess)
        status = cudaStreamWaitEvent(c->stream, c->ready, 0);
    return status == cudaSuccess ? 0 : cuda_error(err, "order of streams", status);
}

/* Ends a group and waits for its operations; aborts the communicators if one failed. */
static int finish(struct nccl_comm *c, const char *what, ncclResult_t result, ncclComm_t comm,
                  struct spot_err *err)
{
    const ncclResult_t ended = api.ncclGroupEnd();
    int rc;

    if (!is_accepted(result) || !is_accepted(ended))
        rc = nccl_error(err, what, is_accepted(result) ? ended : result, comm);
    else
        rc = wait_done(c, err);
    if (rc)
        end(c, err);
    return rc;
}

static int rank_of(const uint32_t *id, size_t n, uint32_t wanted)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] == wanted)
            return (int)i;
    return -1;
}

static int ended_already(struct spot_err *err)
{
    return spot_err_set(err, SPOT_ESYS, "the communicator has ended");
}

static int exchange(struct spot_comm *comm, const struct spot_comm_piece *piece, size_t n,
                    void *stream, struct spot_err *err)
{
    struct nccl_comm *const c = of(comm);
    const struct spot_comm_place *const place = &c->how.place;
    ncclResult_t result = ncclSuccess;

    if (!c->member)
        return ended_already(err);
    if (follow(c, stream, err))
        return -1;
    api.ncclGroupStart();
    for (size_t i = 0; is_accepted(result) && i < n; i++) {
        const int peer = rank_of(place->member, place->n_member, piece[i].peer);

        assert(peer >= 0 && peer != c->member_rank);
        result = piece[i].is_send ? api.ncclSend(piece[i].data, piece[i].n_byte, ncclUint8, peer,
                                                 c->member, c->stream)
                                  : api.ncclRecv(piece[i].data, piece[i].n_byte, ncclUint8, peer,
                                                 c->member, c->stream);
    }
    return finish(c, "exchange", result, c->member, err);
}

static int sum_all(struct spot_comm *comm, enum spot_comm_number number,
                   const struct spot_comm_sum *sum, size_t n, void *stream, struct spot_err *err)
{
    const ncclDataType_t type = number == SPOT_COMM_I64 ? ncclInt64 : ncclFloat32;
    struct nccl_comm *const c = of(comm);
    ncclResult_t result = ncclSuccess;

    if (c->how.place.n_replica < 2)
        return 0;
    if (!c->replica)
        return ended_already(err);
    if (follow(c, stream, err))
        return -1;
    api.ncclGroupStart();
    for (size_t i = 0; is_accepted(result) && i < n; i++)
        result = api.ncclAllReduce(sum[i].data, sum[i].data, sum[i].n, type, ncclSum, c->replica,
                                   c->stream);
    return finish(c, "sum over replicas", result, c->replica, err);
}

/* --- open and close ---------------------------------------------------------------- */

static void close_comm(struct spot_comm *comm)
{
    struct nccl_comm *const c = of(comm);

    end(c, NULL);
    if (is_stuck)
        return; /* NCCL may still use the rest, so it is not freed; the process must end */
    if (c->ready)
        cudaEventDestroy(c->ready);
    if (c->stream)
        cudaStreamDestroy(c->stream);
    (void)cudaGetLastError();
    free(c);
}

static void run_start(struct call *c)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 0;
    c->result = api.ncclCommInitRankConfig(&c->comm, c->n, c->id, c->rank, &config);
}

/* Starts to connect. The call should not block, but runs with a limit in case it does. */
static int start(ncclComm_t *comm, const uint8_t *id, size_t n, int rank, double limit_s,
                 struct spot_err *err)
{
    ncclResult_t result = ncclInternalError;
    struct call *c;
    int rc = 0;

    if (!id || n < 2)
        return 0;
    c = new_call(run_start, limit_s);
    memcpy(&c->id, id, sizeof(c->id));
    c->n = (int)n;
    c->rank = rank;
    if (!run_limited(c)) {
        rc = stuck(limit_s, err);
    } else {
        *comm = c->comm;
        result = c->result;
    }
    leave(c);
    return rc || is_accepted(result) ? rc : nccl_error(err, "start", result, NULL);
}

static int connect_all(struct nccl_comm *c, struct spot_err *err)
{
    const struct spot_comm_place *const p = &c->how.place;
    cudaError_t status = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);

    if (status == cudaSuccess)
        status = cudaEventCreateWithFlags(&c->ready, cudaEventDisableTiming);
    if (status != cudaSuccess)
        return cuda_error(err, "stream of a communicator", status);
    if (start(&c->member, c->how.member_id, p->n_member, c->member_rank, c->how.call_limit_s,
              err) ||
        start(&c->replica, c->how.replica_id, p->n_replica, c->replica_rank, c->how.call_limit_s,
              err))
        return -1;
    return wait_comms(c, c->how.timeout_s, err);
}

static const struct spot_comm_kind kind = { "nccl", true, exchange, NULL, sum_all, close_comm };

static struct spot_comm *open_comm(const struct spot_nccl_open *how, struct spot_err *err)
{
    struct nccl_comm *c;

    if (probe(err) || (is_stuck && stuck(how->call_limit_s, err)))
        return NULL;
    c = spot_xcalloc(1, sizeof(*c));
    c->base.kind = &kind;
    c->how = *how;
    c->member_rank = rank_of(how->place.member, how->place.n_member, how->place.me);
    c->replica_rank = rank_of(how->place.replica, how->place.n_replica, how->place.me);
    assert(c->member_rank >= 0 && (c->replica_rank >= 0 || !how->place.n_replica));
    if (!connect_all(c, err))
        return &c->base;
    end(c, err);
    close_comm(&c->base);
    return NULL;
}

static bool is_held(void)
{
    return is_stuck;
}

const struct spot_nccl spot_nccl = { probe, new_id, open_comm, is_held };

#endif
