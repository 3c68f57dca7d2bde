/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include "serve/model_version.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/relay.h"

struct spot_model_reading {
    char *dir;
    int64_t P, M;
    pthread_t thread;
    struct spot_model_version *version;
    struct spot_err err;
    atomic_bool is_done;
};

struct spot_model_version *spot_model_version_open(const char *dir, int64_t P, int64_t M,
                                                   struct spot_err *err)
{
    struct spot_model_version *const v = spot_xcalloc(1, sizeof(*v));

    if (spot_served_model_open(&v->model, dir, 0, err) ||
        spot_relay_check(&v->model.shape, P, M, err)) {
        spot_model_version_free(v);
        return NULL;
    }
    return v;
}

void spot_model_version_free(struct spot_model_version *v)
{
    if (v)
        spot_served_model_release(&v->model);
    free(v);
}

/* --- beside ------------------------------------------------------------------------ */

static void *read_beside(void *reading)
{
    struct spot_model_reading *const r = reading;

    r->version = spot_model_version_open(r->dir, r->P, r->M, &r->err);
    atomic_store(&r->is_done, true);
    return NULL;
}

struct spot_model_reading *spot_model_reading_start(const char *dir, int64_t P, int64_t M,
                                                    struct spot_err *err)
{
    struct spot_model_reading *const r = spot_xcalloc(1, sizeof(*r));
    sigset_t all, before;
    int failed;

    r->dir = spot_xstrdup(dir);
    r->P = P;
    r->M = M;
    sigfillset(&all); /* signals are for the thread that waits */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&r->thread, NULL, read_beside, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        return r;
    free(r->dir);
    free(r);
    (void)spot_err_set(err, SPOT_ESYS, "cannot start a thread to read %s", dir);
    return NULL;
}

bool spot_model_reading_is_done(const struct spot_model_reading *r)
{
    return atomic_load(&r->is_done);
}

struct spot_model_version *spot_model_reading_end(struct spot_model_reading *r,
                                                  struct spot_err *err)
{
    struct spot_model_version *version;

    pthread_join(r->thread, NULL);
    version = r->version;
    if (!version)
        (void)spot_err_set(err, r->err.code, "%s", r->err.msg);
    free(r->dir);
    free(r);
    return version;
}
