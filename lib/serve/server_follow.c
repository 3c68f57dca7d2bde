/* SPDX-License-Identifier: MIT */
/* Follows the weights of a training job. A thread requests newer ones, opens and packs them while
 * the server continues; they are rolled out as if their directory had been given. It requests them
 * when the last ones are in service, and so gets the newest; versions in between are skipped.
 * Unused versions are freed in the thread, too, because freeing their memory would delay tokens. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/threads.h"
#include "common/xalloc.h"
#include "serve/server_state.h"

static const double look_s = 0.05, again_s = 1; /* between checks; after an error */

struct spot_follower {
    const struct spot_server_options *options;
    struct spot_model_wanted wanted;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct spot_model_version *version; /* newer than what is served; NULL: none */
    struct spot_model_version **over;   /* [n_over] to be freed */
    size_t n_over, cap_over;
    bool is_wanted;         /* the server can take one */
    char why[SPOT_WHY_MAX]; /* the last error; reported once */
    bool stops;
};

/* Returns 1, 0 or -1 like the function in the options. */
static int look(const struct spot_follower *f, struct spot_model_version **version,
                struct spot_err *err)
{
    const struct spot_server_options *const o = f->options;
    char dir[1024];
    int64_t step;
    const int rc = o->follow(o->group.user, dir, sizeof(dir), &step, err);
    struct spot_model_version *v;

    if (rc <= 0)
        return rc;
    v = spot_model_version_open(dir, &f->wanted, err);
    if (!v) {
        o->drop(o->group.user, dir);
        return -1;
    }
    v->drop = o->drop;
    v->user = o->group.user;
    if (spot_model_version_pack(v, o->type, (uint32_t)f->wanted.P, err)) {
        spot_model_version_free(v);
        return -1;
    }
    v->step = step;
    snprintf(v->fingerprint, sizeof(v->fingerprint), "step-%" PRId64 "-%016" PRIx64, step,
             v->model.hash);
    v->model.vocabulary.fingerprint = v->fingerprint;
    *version = v;
    return 1;
}

/* Call with the lock held; it is released meanwhile. */
static void free_over(struct spot_follower *f)
{
    while (f->n_over) {
        struct spot_model_version *const v = f->over[--f->n_over];

        pthread_mutex_unlock(&f->lock);
        spot_model_version_free(v);
        pthread_mutex_lock(&f->lock);
    }
}

static void *run(void *follower)
{
    struct spot_follower *const f = follower;

    pthread_mutex_lock(&f->lock);
    while (!f->stops) {
        struct spot_model_version *v = NULL;
        struct spot_err why = { 0 };
        int rc = 0;

        free_over(f);
        if (!f->version && f->is_wanted) {
            pthread_mutex_unlock(&f->lock);
            rc = look(f, &v, &why);
            pthread_mutex_lock(&f->lock);
            f->version = v;
        }
        if (rc < 0 && strcmp(f->why, why.msg) != 0) {
            snprintf(f->why, sizeof(f->why), "%.*s", SPOT_WHY_MAX - 1, why.msg);
            f->options->group.warn("no newer weights: %s", why.msg);
        } else if (rc > 0) {
            *f->why = '\0';
        }
        if (!f->stops)
            (void)spot_cond_wait_until(&f->changed, &f->lock,
                                       spot_clock_s() + (rc < 0 ? again_s : look_s));
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

int spot_server_follow(struct spot_server *s, struct spot_err *err)
{
    struct spot_follower *f;

    if (!s->options->follow)
        return 0;
    f = spot_xcalloc(1, sizeof(*f));
    f->options = s->options;
    f->wanted = spot_server_wanted(s);
    pthread_mutex_init(&f->lock, NULL);
    spot_cond_init(&f->changed);
    if (spot_thread_start(&f->thread, run, f, err)) {
        free(f);
        return -1;
    }
    s->follower = f;
    return 0;
}

struct spot_model_version *spot_server_followed(struct spot_server *s)
{
    struct spot_follower *const f = s->follower;
    struct spot_model_version *v;

    pthread_mutex_lock(&f->lock);
    v = f->version;
    f->version = NULL;
    f->is_wanted = !v;
    pthread_mutex_unlock(&f->lock);
    return v;
}

void spot_server_free_version(struct spot_server *s, struct spot_model_version *v_take)
{
    struct spot_follower *const f = s->follower;

    if (!f) {
        spot_model_version_free(v_take);
        return;
    }
    pthread_mutex_lock(&f->lock);
    f->over = spot_xgrow(f->over, &f->cap_over, f->n_over + 1, sizeof(struct spot_model_version *));
    f->over[f->n_over++] = v_take;
    pthread_mutex_unlock(&f->lock);
}

void spot_server_stop_following(struct spot_server *s)
{
    struct spot_follower *const f = s->follower;

    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->stops = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    spot_model_version_free(f->version);
    while (f->n_over)
        spot_model_version_free(f->over[--f->n_over]);
    free(f->over);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
    s->follower = NULL;
}
