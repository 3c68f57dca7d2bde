/* SPDX-License-Identifier: MIT */
/* The end of a job: hash and weights of its final state. Bundles are processed one at a time, in
 * pieces, so that a state of any size needs no memory except, with --save, the weights of two
 * bundles: one is written while the next is read. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/bundle_io.h"
#include "common/hash.h"
#include "common/threads.h"
#include "common/xalloc.h"
#include "train/trainer_durable_state.h"
#include "weights/save.h"

struct spot_result_writer {
    struct spot_hash_stream *hash; /* over step, bundles and planes in canonical order */
    bool saves;
    struct spot_weights_out weights;
    int next;                   /* bundle */
    struct spot_bundle bundle;  /* the next bundle; only its weights, if they are saved */
    struct spot_bundle written; /* the previous bundle, being written by a thread */
    struct spot_threads writer;
};

/* --- one bundle ---------------------------------------------------------- */

static void take_plane(void *user, enum spot_plane plane, size_t at, const void *data,
                       size_t n_byte)
{
    struct spot_result_writer *const r = user;

    spot_hash_stream_add(r->hash, data, n_byte);
    if (r->saves && plane == SPOT_PLANE_MASTER)
        memcpy((uint8_t *)r->bundle.plane[plane] + at, data, n_byte);
}

static struct spot_bundle_reader *begin_bundle(const struct spot_trainer *c,
                                               struct spot_result_writer *r)
{
    r->bundle = (struct spot_bundle){ .index = r->next, .step = c->machine->round };
    spot_arena_of(&c->config.shape, r->next, &r->bundle.arena);
    if (r->saves)
        r->bundle.plane[SPOT_PLANE_MASTER] = spot_xcalloc(r->bundle.arena.n_elem, sizeof(float));
    return spot_bundle_scan_new(&c->config.shape, r->next, c->machine->round, take_plane, r);
}

static void write_weights(void *result)
{
    struct spot_result_writer *const r = result;

    spot_weights_out_add(&r->weights, &r->written);
    free(r->written.plane[SPOT_PLANE_MASTER]);
}

/* Save the received bundle, whose plane is passed to the writer. */
static int save_bundle(struct spot_result_writer *r, struct spot_err *err)
{
    spot_threads_join(&r->writer);
    r->written = r->bundle;
    r->bundle.plane[SPOT_PLANE_MASTER] = NULL;
    if (!spot_threads_start(&r->writer, write_weights, r, err))
        return 0;
    free(r->written.plane[SPOT_PLANE_MASTER]);
    return -1;
}

static int end_bundle(struct spot_result_writer *r, struct spot_bundle_reader *reader_take, int rc,
                      struct spot_err *err)
{
    struct spot_bundle *none;

    if (!rc)
        rc = spot_bundle_reader_finish(reader_take, &none, err);
    spot_bundle_reader_free(reader_take);
    if (!rc && r->saves)
        rc = save_bundle(r, err);
    free(r->bundle.plane[SPOT_PLANE_MASTER]);
    r->bundle.plane[SPOT_PLANE_MASTER] = NULL;
    r->next++;
    return rc;
}

static int feed(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    return spot_bundle_reader_feed(user, data, n_byte, err);
}

/* --- all bundles ------------------------------------------------------------------- */

static int open_weights(const struct spot_trainer *c, struct spot_result_writer *r,
                        struct spot_err *err)
{
    const struct spot_trainer_options *const o = c->options;
    char *target;
    int rc;

    if (!o->save)
        return 0;
    if (c->model_dir) {
        rc = spot_model_dir_begin(c->model_dir, &c->config.shape, o->bpe,
                                  o->token_byte == 1 && !o->bpe, SPOT_DT_F32, &r->weights, err);
    } else {
        target = spot_out_target(o->save, err);
        rc = target ? spot_weights_out_open(&r->weights, target, &c->config.shape, SPOT_DT_F32, err)
                    : -1;
        free(target);
    }
    r->saves = !rc;
    return rc;
}

static int begin(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_result_writer *const r = spot_xcalloc(1, sizeof(*r));
    struct spot_buf step = { 0 };

    c->result = r;
    r->hash = spot_hash_stream_new();
    spot_put_i64(&step, c->machine->round);
    spot_hash_stream_add(r->hash, step.data, step.n);
    spot_buf_release(&step);
    return open_weights(c, r, err);
}

void spot_trainer_drop_result(struct spot_trainer *c)
{
    struct spot_result_writer *const r = c->result;

    c->result = NULL;
    if (!r)
        return;
    spot_threads_join(&r->writer);
    if (r->saves)
        (void)spot_weights_out_finish(&r->weights, -1, NULL);
    spot_hash_stream_free(r->hash);
    free(r);
}

static int from_disk(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_result_writer *const r = c->result;
    int rc = 0;

    while (!rc && r->next < c->n_bundle) {
        struct spot_bundle_reader *const reader = begin_bundle(c, r);

        rc = spot_store_scan(c->saver.store, c->machine->round, r->next, feed, reader, err);
        rc = end_bundle(r, reader, rc, err);
        if (!rc && spot_group_gives_up())
            rc = spot_err_set(err, SPOT_EPREEMPTED, "stopped");
    }
    return rc;
}

/* --- from members ------------------------------------------------------------------- */

int spot_trainer_pulling(const struct spot_trainer *c)
{
    return c->is_final && c->result && c->result->next < c->n_bundle ? c->result->next : -1;
}

int spot_trainer_pull(struct spot_trainer *c, struct spot_err *err)
{
    spot_trainer_drop_result(c);
    if (begin(c, err))
        return -1;
    spot_trainer_ask_bundle(c, 0);
    return 0;
}

int spot_trainer_pulled(struct spot_trainer *c, const struct spot_frame *frame,
                        struct spot_err *err)
{
    struct spot_result_writer *const r = c->result;
    struct spot_bundle_reader *const reader = begin_bundle(c, r);

    if (end_bundle(r, reader, feed(reader, frame->data, frame->n_byte, err), err))
        return -1;
    if (r->next < c->n_bundle)
        spot_trainer_ask_bundle(c, r->next);
    else
        spot_group_end(c->group);
    return 0;
}

/* --- the end ------------------------------------------------------------------------- */

/* Log the end, unless a resumed job had nothing left to do. */
static int log_done(struct spot_trainer *c, const char *hex, struct spot_err *err)
{
    struct spot_jw *jw;

    if (spot_journal_ends_done(c->journal, c->machine->round, hex))
        return 0;
    jw = spot_journal_begin(c->journal, "done", c->machine->epoch, c->machine->round);
    if (jw) {
        if (c->knows_loss)
            spot_jw_real(jw, "loss", (double)c->last_loss);
        spot_jw_str(jw, "state_xxh3_128", hex);
    }
    return spot_journal_end(c->journal, err);
}

int spot_trainer_finish(struct spot_trainer *c, struct spot_trainer_result *result,
                        struct spot_err *err)
{
    struct spot_result_writer *r;

    if (!c->result && (begin(c, err) || from_disk(c, err)))
        return -1;
    r = c->result;
    result->step = c->machine->round;
    result->knows_loss = c->knows_loss;
    result->loss = c->last_loss;
    spot_hash128_hex(spot_hash_stream_128(r->hash), result->state_hex);
    spot_threads_join(&r->writer);
    if (r->saves && spot_weights_out_finish(&r->weights, 0, err)) {
        r->saves = false;
        return -1;
    }
    r->saves = false;
    return log_done(c, result->state_hex, err);
}
