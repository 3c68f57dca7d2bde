/* SPDX-License-Identifier: MIT */
#include "serve/model_version.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/threads.h"
#include "common/xalloc.h"
#include "serve/grammar.h"
#include "serve/model_image.h"
#include "serve/relay.h"

struct spot_model_reading {
    char *dir;
    struct spot_model_wanted wanted;
    pthread_t thread;
    struct spot_model_version *version;
    struct spot_err err;
    atomic_bool is_done;
};

struct spot_model_version *spot_model_version_open(const char *dir,
                                                   const struct spot_model_wanted *wanted,
                                                   struct spot_err *err)
{
    struct spot_model_version *const v = spot_xcalloc(1, sizeof(*v));

    if ((wanted->P ? spot_served_model_open(&v->model, dir, wanted->adapters, 0, err)
                   : spot_served_model_open_foreign(&v->model, dir, err)) ||
        (wanted->chat && spot_served_model_choose_chat(&v->model, wanted->chat, err)) ||
        (wanted->P && spot_relay_check(&v->model.shape, wanted->P, wanted->M, err))) {
        spot_model_version_free(v);
        return NULL;
    }
    return v;
}

static void no_progress(void *user)
{
    (void)user;
}

int spot_model_version_pack(struct spot_model_version *v, enum spot_infer_type type, uint32_t P,
                            struct spot_err *err)
{
    v->image = spot_xcalloc(P, sizeof(*v->image));
    while (v->n_image < P) {
        const struct spot_relay_form form = { .P = P, .M = 1, .position = v->n_image };
        struct spot_shared_image *const image = &v->image[v->n_image];
        int begin, end;

        spot_relay_bundles(&v->model.shape, &form, &begin, &end);
        if (spot_model_image_open(image, &v->model, type, begin, end, no_progress, NULL, err))
            return -1;
        v->n_image++;
        if (!image->is_shared) { /* not shared: each replica packs its own weights */
            spot_shared_image_close(image);
            break;
        }
    }
    return 0;
}

void spot_model_version_free(struct spot_model_version *v)
{
    if (!v)
        return;
    for (uint32_t i = 0; i < v->n_image; i++)
        spot_shared_image_close(&v->image[i]);
    free(v->image);
    spot_grammar_pool_free(v->grammars);
    if (v->drop)
        v->drop(v->user, v->model.dir);
    spot_served_model_release(&v->model);
    free(v);
}

/* --- opening in a thread ---------------------------------------------------------------- */

static void *read_beside(void *reading)
{
    struct spot_model_reading *const r = reading;

    r->version = spot_model_version_open(r->dir, &r->wanted, &r->err);
    atomic_store(&r->is_done, true);
    return NULL;
}

struct spot_model_reading *spot_model_reading_start(const char *dir,
                                                    const struct spot_model_wanted *wanted,
                                                    struct spot_err *err)
{
    struct spot_model_reading *const r = spot_xcalloc(1, sizeof(*r));

    r->dir = spot_xstrdup(dir);
    r->wanted = *wanted;
    if (!spot_thread_start(&r->thread, read_beside, r, err))
        return r;
    free(r->dir);
    free(r);
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
