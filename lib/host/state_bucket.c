/* SPDX-License-Identifier: MIT */
#include "host/state_bucket.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/generation.h"
#include "common/random.h"
#include "common/xalloc.h"

enum { KEPT = 2, RECORDS = 0, TRIES = 3, RECORDS_BYTE_MAX = 1 << 30 };

struct spot_state_bucket {
    struct spot_generations disk; /* n_bundle is 0 */
};

/* The contents of a manifest. */
struct found {
    int64_t generation;
    int n_bundle;
    struct spot_state_copy copy;
};

/* --- records --- */

struct records {
    struct spot_state_record *of; /* [world] by place */
    uint32_t world;
    struct spot_state_piece *piece; /* [n_piece] of all records */
    size_t n_piece;
};

static void release_records(struct records *r)
{
    for (uint32_t p = 0; p < r->world; p++)
        spot_state_record_release(&r->of[p]);
    free(r->of);
    free(r->piece);
}

void spot_state_bucket_add(struct spot_buf *records, const struct spot_state_record *record)
{
    struct spot_buf text = { 0 };

    spot_state_record_put(&text, record);
    spot_put_u64(records, text.n);
    spot_buf_add(records, text.data, text.n);
    spot_buf_release(&text);
}

static int parse_record(struct spot_wire_in *in, struct spot_state_record *record,
                        struct spot_err *err)
{
    const uint64_t n_byte = spot_get_u64(in);
    const uint8_t *const data =
        n_byte <= RECORDS_BYTE_MAX ? spot_get_bytes(in, (size_t)n_byte) : NULL;
    struct spot_wire_in text;

    if (!data)
        return spot_err_set(err, SPOT_EDATA, "truncated records");
    text = spot_wire_in(data, (size_t)n_byte);
    return spot_state_record_get(&text, record, err);
}

static int parse_records(const void *text, size_t n_byte, const struct spot_state_copy *copy,
                         struct records *r, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(text, n_byte);

    *r = (struct records){ .of = spot_xcalloc(copy->world, sizeof(*r->of)), .world = copy->world };
    for (uint32_t p = 0; p < copy->world; p++)
        if (parse_record(&in, &r->of[p], err))
            return -1;
        else if (r->of[p].place != p || r->of[p].world != copy->world ||
                 spot_state_id_compare(&r->of[p].id, &copy->id) ||
                 strcmp(r->of[p].run_id, copy->run_id) != 0)
            return spot_err_set(err, SPOT_EDATA, "a record of another commit");
    if (!spot_wire_in_done(&in))
        return spot_err_set(err, SPOT_EDATA, "more records than places");
    r->piece = spot_state_record_pieces(r->of, r->world, &r->n_piece);
    return 0;
}

/* --- ownership --- */

struct spot_state_bucket *spot_state_bucket_new(const struct spot_state_command *command)
{
    struct spot_state_bucket *const b = spot_xcalloc(1, sizeof(*b));

    b->disk.objects = spot_objects_new(command);
    return b;
}

void spot_state_bucket_free(struct spot_state_bucket *b)
{
    if (!b)
        return;
    spot_objects_free(b->disk.objects);
    free(b);
}

int spot_state_bucket_owner(struct spot_state_bucket *b, char run_id[SPOT_RUN_ID_MAX],
                            struct spot_err *err)
{
    uint64_t job;

    *run_id = '\0';
    if (spot_objects_job(b->disk.objects, &job, err))
        return -1;
    if (job)
        snprintf(run_id, SPOT_RUN_ID_MAX, "%016" PRIx64, job);
    return 0;
}

int spot_state_bucket_claim(struct spot_state_bucket *b, const char *run_id, struct spot_err *err)
{
    return spot_objects_claim(b->disk.objects, strtoull(run_id, NULL, 16), err);
}

/* --- reading --- */

static int read_manifest(struct spot_state_bucket *b, int64_t generation, struct found *found,
                         struct spot_err *err)
{
    struct spot_foreign_commit c;

    if (spot_generation_foreign(&b->disk, generation, &c, err))
        return -1;
    *found = (struct found){
        .generation = generation,
        .n_bundle = c.n_bundle,
        .copy = { .id = { (uint32_t)c.round, c.key, (uint64_t)c.step },
                  .world = (uint32_t)c.nodes },
    };
    snprintf(found->copy.run_id, sizeof(found->copy.run_id), "%016" PRIx64, c.job);
    return 0;
}

static int find(struct spot_state_bucket *b, struct found *found, struct spot_err *err)
{
    struct spot_err why = { 0 };
    int64_t *generation;
    size_t n, i = 0;
    int rc = 0;

    if (spot_objects_look(b->disk.objects, err))
        return -1;
    generation = spot_generation_list(&b->disk, &n);
    for (; !rc && i < n; i++) {
        rc = read_manifest(b, generation[i], found, &why) ? -1 : 1;
        if (rc < 0 && why.code == SPOT_EDATA) {
            spot_generation_set_aside(&b->disk, generation[i]);
            rc = 0;
        }
    }
    free(generation);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

int spot_state_bucket_find(struct spot_state_bucket *b, struct spot_state_copy *copy,
                           struct spot_err *err)
{
    struct found found;
    const int rc = find(b, &found, err);

    if (rc > 0)
        *copy = found.copy;
    return rc;
}

static int get_records(struct spot_state_bucket *b, const struct found *found, struct records *r,
                       struct spot_err *err)
{
    size_t n_byte;
    uint8_t *const text = spot_generation_read(&b->disk, found->generation, RECORDS, &n_byte, err);
    const int rc = text ? parse_records(text, n_byte, &found->copy, r, err) : -1;

    free(text);
    return rc;
}

/* Unpacks chunks as they arrive: an object ends where a chunk ends. */
struct unpack {
    struct spot_state_store *store;
    const struct records *records;
    size_t i;
    struct spot_buf piece; /* what has arrived of the current piece */
};

static int take_chunks(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    struct unpack *const u = user;
    const uint8_t *at = data;

    while (n_byte && u->i < u->records->n_piece) {
        const struct spot_state_piece *const piece = &u->records->piece[u->i];
        const size_t left = piece->n_byte - u->piece.n, n = n_byte < left ? n_byte : left;

        spot_buf_add(&u->piece, at, n);
        at += n;
        n_byte -= n;
        if (u->piece.n < piece->n_byte)
            break;
        if (spot_state_store_put(u->store, piece, u->piece.data, err))
            return -1;
        u->piece.n = 0;
        u->i++;
    }
    return n_byte ? spot_err_set(err, SPOT_EDATA, "an object has more bytes than its chunks") : 0;
}

/* An interrupted object is requested again; chunks already received are kept. */
static int get_object(struct spot_state_bucket *b, const struct found *found, int bundle,
                      struct unpack *u, struct spot_err *err)
{
    const size_t first = u->i;
    struct spot_err why = { 0 };
    int rc = -1;

    for (int i = 0; rc && i < TRIES && (!i || why.code == SPOT_ESYS); i++) {
        u->i = first;
        u->piece.n = 0;
        rc = spot_generation_scan(&b->disk, found->generation, bundle, take_chunks, u, &why);
    }
    if (!rc && u->piece.n)
        rc = spot_err_set(&why, SPOT_EDATA, "an object ends before its chunks");
    if (rc && err)
        *err = why;
    return rc;
}

static int get_chunks(struct spot_state_bucket *b, const struct found *found,
                      struct spot_state_store *store, const struct records *r, struct spot_err *err)
{
    struct unpack u = { .store = store, .records = r };
    int rc = 0;

    for (int bundle = RECORDS + 1; !rc && bundle < found->n_bundle; bundle++)
        rc = get_object(b, found, bundle, &u, err);
    spot_buf_release(&u.piece);
    return rc || u.i == r->n_piece
               ? rc
               : spot_err_set(err, SPOT_EDATA, "a commit has fewer chunks than its records");
}

/* A missing object means damage; an object that cannot be read now may be readable later. */
static int get_commit(struct spot_state_bucket *b, const struct found *found,
                      struct spot_state_store *store, struct spot_err *err)
{
    struct records r = { 0 };
    int rc = spot_generation_verify(&b->disk, found->generation, err) ||
                     get_records(b, found, &r, err) || get_chunks(b, found, store, &r, err)
                 ? -1
                 : 0;

    for (uint32_t p = 0; !rc && p < r.world; p++)
        rc = spot_state_store_add(store, &r.of[p], err);
    release_records(&r);
    return rc;
}

int spot_state_bucket_get(struct spot_state_bucket *b, struct spot_state_store *store,
                          struct spot_err *err)
{
    struct spot_err why = { 0 };
    struct found found = { 0 };
    int rc = find(b, &found, &why);

    if (!rc)
        rc = spot_err_set(&why, SPOT_EDATA, "the store has no commit");
    else if (rc > 0)
        rc = get_commit(b, &found, store, &why);
    if (rc && why.code == SPOT_EDATA && found.generation)
        spot_generation_set_aside(&b->disk, found.generation);
    if (rc && err)
        *err = why;
    return rc;
}

/* --- writing --- */

static int next_records(void *user, struct spot_buf *piece, struct spot_err *err)
{
    const struct spot_buf *const records = user;

    (void)err;
    spot_buf_add(piece, records->data, records->n);
    return 0;
}

/* Packs chunks into an object. */
struct pack {
    const struct spot_state_store *store;
    const struct spot_state_piece *piece;
    size_t first, i, end;
};

static int rewind_pack(void *user, struct spot_err *err)
{
    struct pack *const pack = user;

    (void)err;
    pack->i = pack->first;
    return 0;
}

static int next_chunk(void *user, struct spot_buf *out, struct spot_err *err)
{
    struct pack *const pack = user;
    const struct spot_state_piece *const piece = &pack->piece[pack->i];

    if (spot_state_store_read(pack->store, piece, spot_buf_more(out, piece->n_byte), err))
        return -1;
    out->n += piece->n_byte;
    return ++pack->i < pack->end;
}

/* A generation being written. */
struct writing {
    struct spot_generations disk;
    int64_t generation;
    uint64_t nonce;
    struct spot_written *written; /* [disk.n_bundle] */
};

static int put_object(struct writing *w, const struct spot_command_io *io, struct spot_err *err)
{
    const int bundle = w->disk.n_bundle;

    if (bundle == SPOT_GENERATION_BUNDLES)
        return spot_err_set(err, SPOT_EDATA, "a commit would need more than %d objects", bundle);
    w->written = spot_xrealloc(w->written, (size_t)bundle + 1, sizeof(*w->written));
    w->disk.n_bundle++;
    return spot_objects_put(w->disk.objects, w->generation, w->nonce, bundle, io,
                            &w->written[bundle], err);
}

static int put_chunks(struct writing *w, const struct spot_state_store *store, size_t pack_byte,
                      const struct records *r, struct spot_err *err)
{
    struct pack pack = { .store = store, .piece = r->piece };
    const struct spot_command_io io = { .rewind = rewind_pack, .next = next_chunk, .user = &pack };
    int rc = 0;

    for (; !rc && pack.first < r->n_piece; pack.first = pack.end) {
        for (size_t n = 0; pack.end < r->n_piece && n < pack_byte; pack.end++)
            n += r->piece[pack.end].n_byte;
        rc = put_object(w, &io, err);
    }
    return rc;
}

static int put_commit(struct writing *w, const struct spot_state_store *store,
                      const struct spot_state_copy *copy, const struct spot_buf *records,
                      struct spot_err *err)
{
    struct spot_buf text = *records;
    const struct spot_command_io io = { .next = next_records, .user = &text };
    const struct spot_foreign_commit commit = { .round = copy->id.round,
                                                .key = copy->id.key,
                                                .step = (int64_t)copy->id.step,
                                                .nodes = copy->world };
    struct records r;
    int rc = parse_records(records->data, records->n, copy, &r, err);

    w->disk.job = strtoull(copy->run_id, NULL, 16);
    w->disk.commit = &commit;
    if (!rc)
        rc = put_object(w, &io, err) || put_chunks(w, store, copy->pack_byte, &r, err) ||
                     spot_generation_commit(&w->disk, w->generation, w->nonce, w->written, err)
                 ? -1
                 : 0;
    release_records(&r);
    return rc;
}

static int64_t next_generation(struct spot_state_bucket *b)
{
    size_t n;
    int64_t *const generation = spot_generation_list(&b->disk, &n);
    const int64_t next = n ? generation[0] + 1 : 1;

    free(generation);
    return next;
}

static void drop_older(struct spot_state_bucket *b)
{
    size_t n;
    int64_t *const generation = spot_generation_list(&b->disk, &n);

    for (size_t i = KEPT; i < n; i++)
        (void)spot_generation_drop(&b->disk, generation[i], NULL);
    free(generation);
}

int spot_state_bucket_put(struct spot_state_bucket *b, const struct spot_state_store *store,
                          const struct spot_state_copy *copy, const struct spot_buf *records,
                          struct spot_err *err)
{
    struct writing w = { .disk = b->disk, .generation = next_generation(b) };
    int rc;

    if (spot_random_bytes(&w.nonce, sizeof(w.nonce), err))
        return -1;
    w.nonce |= 1;
    rc = put_commit(&w, store, copy, records, err);
    free(w.written);
    if (rc)
        spot_generation_drop_tmp(&b->disk, w.generation, w.nonce);
    else
        drop_older(b);
    return rc;
}
