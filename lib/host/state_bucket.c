/* SPDX-License-Identifier: MIT */
#include "host/state_bucket.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/object_store.h"
#include "common/prov.h"
#include "common/random.h"
#include "common/xalloc.h"
#include "host/state_pack.h"

enum { KEPT = 2, RECORDS = 0, TRIES = 3, RECORDS_BYTE_MAX = 1 << 30, WORLD_MAX = 1 << 16 };

struct spot_state_bucket {
    struct spot_objects *objects;
};

/* --- the manifest --------------------------------------------------------------------------- */

struct manifest {
    const char *run_id, *key, *hash;
    int64_t round, step, nodes, pack_byte, n_byte;
};

static const struct spot_field manifest_field[] = {
    { "run_id", SPOT_F_STR, offsetof(struct manifest, run_id), "hex", 16, 16, true },
    { "round", SPOT_F_INT, offsetof(struct manifest, round), "1", 0, UINT32_MAX, true },
    { "key", SPOT_F_STR, offsetof(struct manifest, key), "hex", 16, 16, true },
    { "step", SPOT_F_INT, offsetof(struct manifest, step), "1", 0, 9007199254740992.0, true },
    { "nodes", SPOT_F_INT, offsetof(struct manifest, nodes), "1", 1, WORLD_MAX, true },
    { "pack_byte", SPOT_F_INT, offsetof(struct manifest, pack_byte), "byte", 1, 1099511627776.0,
      true },
    { "records_byte", SPOT_F_INT, offsetof(struct manifest, n_byte), "byte", 1, RECORDS_BYTE_MAX,
      true },
    { "records_xxh3_128", SPOT_F_STR, offsetof(struct manifest, hash), "hex", 32, 32, true },
    { 0 },
};

const struct spot_doc_part spot_commit_part[] = { { "", manifest_field, .required = true }, { 0 } };

static char *write_manifest(const struct spot_state_copy *copy, const struct spot_buf *records)
{
    char *text = NULL, key[17], hash[SPOT_HASH_HEX];
    size_t n_text;
    FILE *const out = open_memstream(&text, &n_text);
    struct spot_jw jw;

    if (!out)
        spot_no_memory("a document");
    snprintf(key, sizeof(key), "%016" PRIx64, copy->id.key);
    spot_hash128_hex(spot_hash128(records->data, records->n), hash);
    spot_jw_init(&jw, out, false);
    spot_jw_begin_doc(&jw, "spot.commit", 1, NULL);
    spot_jw_str(&jw, "run_id", copy->run_id);
    spot_jw_int(&jw, "round", copy->id.round);
    spot_jw_str(&jw, "key", key);
    spot_jw_int(&jw, "step", (int64_t)copy->id.step);
    spot_jw_int(&jw, "nodes", copy->world);
    spot_jw_int(&jw, "pack_byte", (int64_t)copy->pack_byte);
    spot_jw_int(&jw, "records_byte", (int64_t)records->n);
    spot_jw_str(&jw, "records_xxh3_128", hash);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    (void)fclose(out);
    return text;
}

/* What a manifest says beside the commit. */
struct found {
    int64_t generation;
    size_t n_byte;
    char hash[SPOT_HASH_HEX];
    struct spot_state_copy copy;
};

static int parse_manifest(const char *text, size_t n_byte, struct found *found,
                          struct spot_err *err)
{
    struct manifest m = { 0 };
    struct spot_json_doc doc;
    int rc;

    if (spot_json_parse(&doc, text, n_byte, "manifest.json", err))
        return -1;
    rc = spot_json_expect_schema(&doc, "spot.commit", 1, err) ||
                 spot_json_read_fields(&doc, doc.root, "", manifest_field, &m, err)
             ? -1
             : 0;
    if (!rc) {
        found->copy = (struct spot_state_copy){
            .id = { (uint32_t)m.round, strtoull(m.key, NULL, 16), (uint64_t)m.step },
            .world = (uint32_t)m.nodes,
            .pack_byte = (size_t)m.pack_byte,
        };
        snprintf(found->copy.run_id, sizeof(found->copy.run_id), "%s", m.run_id);
        snprintf(found->hash, sizeof(found->hash), "%s", m.hash);
        found->n_byte = (size_t)m.n_byte;
    }
    spot_json_release(&doc);
    return rc;
}

int spot_commit_check(const char *text, size_t n_byte, struct spot_err *err)
{
    struct found found;

    return parse_manifest(text, n_byte, &found, err);
}

/* --- records --- */

struct records {
    struct spot_state_record *of; /* [world], by place */
    uint32_t world;
};

static void release_records(struct records *r)
{
    for (uint32_t p = 0; p < r->world; p++)
        spot_state_record_release(&r->of[p]);
    free(r->of);
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
        return spot_err_set(err, SPOT_EDATA, "records that end too early");
    text = spot_wire_in(data, (size_t)n_byte);
    return spot_state_record_get(&text, record, err);
}

static int parse_records(const struct spot_buf *text, const struct spot_state_copy *copy,
                         struct records *r, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(text->data, text->n);

    *r = (struct records){ spot_xcalloc(copy->world, sizeof(*r->of)), copy->world };
    for (uint32_t p = 0; p < copy->world; p++)
        if (parse_record(&in, &r->of[p], err))
            return -1;
        else if (r->of[p].place != p || r->of[p].world != copy->world ||
                 spot_state_id_compare(&r->of[p].id, &copy->id) ||
                 strcmp(r->of[p].run_id, copy->run_id) != 0)
            return spot_err_set(err, SPOT_EDATA, "a record of another commit");
    return spot_wire_in_done(&in) ? 0 : spot_err_set(err, SPOT_EDATA, "more records than places");
}

static struct spot_state_chunks list_chunks(const struct records *r)
{
    struct spot_state_chunks c = { 0 };

    for (uint32_t p = 0; p < r->world; p++)
        spot_state_chunks_add(&c, &r->of[p]);
    spot_state_chunks_unite(&c);
    return c;
}

/* --- ownership --- */

struct spot_state_bucket *spot_state_bucket_new(const struct spot_state_command *command)
{
    struct spot_state_bucket *const b = spot_xcalloc(1, sizeof(*b));

    b->objects = spot_objects_new(command);
    return b;
}

void spot_state_bucket_free(struct spot_state_bucket *b)
{
    if (!b)
        return;
    spot_objects_free(b->objects);
    free(b);
}

int spot_state_bucket_owner(struct spot_state_bucket *b, char run_id[SPOT_RUN_ID_MAX],
                            struct spot_err *err)
{
    uint64_t job;

    *run_id = '\0';
    if (spot_objects_job(b->objects, &job, err))
        return -1;
    if (job)
        snprintf(run_id, SPOT_RUN_ID_MAX, "%016" PRIx64, job);
    return 0;
}

int spot_state_bucket_claim(struct spot_state_bucket *b, const char *run_id, struct spot_err *err)
{
    return spot_objects_claim(b->objects, strtoull(run_id, NULL, 16), err);
}

/* --- out of it --- */

static int read_manifest(struct spot_state_bucket *b, int64_t generation, struct found *found,
                         struct spot_err *err)
{
    size_t n_byte;
    char *const text = spot_objects_manifest(b->objects, generation, &n_byte, err);
    int rc;

    found->generation = generation;
    if (!text)
        return -1;
    rc = parse_manifest(text, n_byte, found, err);
    free(text);
    return rc;
}

static int find(struct spot_state_bucket *b, struct found *found, struct spot_err *err)
{
    struct spot_err why = { 0 };
    int64_t *generation;
    size_t n, i = 0;
    int rc = 0;

    if (spot_objects_look(b->objects, err))
        return -1;
    generation = spot_objects_list(b->objects, &n);
    for (; !rc && i < n; i++) {
        rc = read_manifest(b, generation[i], found, &why) ? -1 : 1;
        if (rc < 0 && why.code == SPOT_EDATA) {
            spot_objects_set_aside(b->objects, generation[i]);
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

static int take_records(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    struct spot_buf *const text = user;

    if (n_byte > RECORDS_BYTE_MAX - text->n)
        return spot_err_set(err, SPOT_EDATA, "records of more than %d bytes", RECORDS_BYTE_MAX);
    spot_buf_add(text, data, n_byte);
    return 0;
}

static int get_records(struct spot_state_bucket *b, const struct found *found, struct records *r,
                       struct spot_err *err)
{
    const struct spot_written written = { .n_byte = found->n_byte };
    struct spot_buf text = { 0 };
    char hash[SPOT_HASH_HEX];
    int rc = spot_objects_check(b->objects, found->generation, &written, 1, err);

    *r = (struct records){ 0 };
    if (!rc)
        rc = spot_objects_get(b->objects, found->generation, RECORDS, take_records, &text, err);
    if (!rc) {
        spot_hash128_hex(spot_hash128(text.data, text.n), hash);
        if (text.n != found->n_byte || strcmp(hash, found->hash) != 0)
            rc = spot_err_set(err, SPOT_EDATA, "records that do not match their hash");
        else
            rc = parse_records(&text, &found->copy, r, err);
    }
    spot_buf_release(&text);
    return rc;
}

/* An object of chunks as it comes. */
struct unpack {
    struct spot_state_store *store;
    const struct spot_state_chunks *chunks;
    size_t i, end;
    struct spot_buf piece; /* what has come of the i-th */
};

static int take_chunks(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    struct unpack *const u = user;
    const uint8_t *at = data;

    while (n_byte && u->i < u->end) {
        const struct spot_state_piece *const piece = &u->chunks->piece[u->i];
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

/* One that breaks off is asked for again: chunks that came are here. */
static int get_pack(struct spot_state_bucket *b, const struct found *found, int bundle,
                    struct unpack *u, struct spot_err *err)
{
    const size_t first = u->i;
    struct spot_err why = { 0 };
    int rc = -1;

    for (int i = 0; rc && i < TRIES && (!i || why.code == SPOT_ESYS); i++) {
        u->i = first;
        u->piece.n = 0;
        rc = spot_objects_get(b->objects, found->generation, bundle, take_chunks, u, &why);
    }
    if (!rc && u->i < u->end)
        rc = spot_err_set(&why, SPOT_EDATA, "an object ends before its chunks");
    if (rc && err)
        *err = why;
    return rc;
}

static int get_chunks(struct spot_state_bucket *b, const struct found *found,
                      struct spot_state_store *store, const struct spot_state_chunks *chunks,
                      struct spot_err *err)
{
    struct unpack u = { .store = store, .chunks = chunks };
    size_t n_byte;
    int rc = 0;

    for (int bundle = RECORDS + 1; !rc && u.i < chunks->n; bundle++) {
        u.end = spot_state_pack_end(chunks, found->copy.pack_byte, u.i, &n_byte);
        rc = get_pack(b, found, bundle, &u, err);
    }
    spot_buf_release(&u.piece);
    return rc;
}

/* What is not there is damage; what cannot be read now may be read later. */
static int check_objects(struct spot_state_bucket *b, const struct found *found,
                         const struct spot_state_chunks *chunks, struct spot_err *err)
{
    struct spot_written *written = spot_xcalloc(1, sizeof(*written));
    int n_bundle = 1, rc;

    written[RECORDS].n_byte = found->n_byte;
    for (size_t i = 0; i < chunks->n; n_bundle++) {
        written = spot_xrealloc(written, (size_t)n_bundle + 1, sizeof(*written));
        written[n_bundle] = (struct spot_written){ 0 };
        i = spot_state_pack_end(chunks, found->copy.pack_byte, i, &written[n_bundle].n_byte);
    }
    rc = spot_objects_check(b->objects, found->generation, written, n_bundle, err);
    free(written);
    return rc;
}

static int get_commit(struct spot_state_bucket *b, const struct found *found,
                      struct spot_state_store *store, struct spot_err *err)
{
    struct spot_state_chunks chunks = { 0 };
    struct records r;
    int rc = get_records(b, found, &r, err);

    if (!rc) {
        chunks = list_chunks(&r);
        rc = check_objects(b, found, &chunks, err) || get_chunks(b, found, store, &chunks, err) ? -1
                                                                                                : 0;
    }
    for (uint32_t p = 0; !rc && p < r.world; p++)
        rc = spot_state_store_add(store, &r.of[p], err);
    release_records(&r);
    free(chunks.piece);
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
        spot_objects_set_aside(b->objects, found.generation);
    if (rc && err)
        *err = why;
    return rc;
}

/* --- into it --- */

static int next_records(void *user, struct spot_buf *piece, struct spot_err *err)
{
    const struct spot_buf *const records = user;

    (void)err;
    spot_buf_add(piece, records->data, records->n);
    return 0;
}

/* An object of chunks as it goes. */
struct pack {
    const struct spot_state_store *store;
    const struct spot_state_chunks *chunks;
    size_t first, i, end;
};

static int rewind_pack(void *user, struct spot_err *err)
{
    struct pack *const pack = user;

    (void)err;
    pack->i = pack->first;
    return 0;
}

static int next_chunk(void *user, struct spot_buf *piece, struct spot_err *err)
{
    struct pack *const pack = user;
    const struct spot_state_piece *const chunk = &pack->chunks->piece[pack->i];

    if (spot_state_store_read(pack->store, chunk, spot_buf_more(piece, chunk->n_byte), err))
        return -1;
    piece->n += chunk->n_byte;
    return ++pack->i < pack->end;
}

/* A generation to be. */
struct writing {
    struct spot_objects *objects;
    int64_t generation;
    uint64_t nonce;
    struct spot_written *written; /* [n_bundle]; sizes alone: the hashes are those of the chunks */
    int n_bundle;
};

static int put_object(struct writing *w, const struct spot_command_io *io, size_t n_byte,
                      struct spot_err *err)
{
    w->written = spot_xrealloc(w->written, (size_t)w->n_bundle + 1, sizeof(*w->written));
    w->written[w->n_bundle] = (struct spot_written){ .n_byte = n_byte };
    return spot_objects_put(w->objects, w->generation, w->nonce, w->n_bundle++, io, err);
}

static int put_chunks(struct writing *w, const struct spot_state_store *store, size_t pack_byte,
                      const struct spot_state_chunks *chunks, struct spot_err *err)
{
    struct pack pack = { .store = store, .chunks = chunks };
    const struct spot_command_io io = { .rewind = rewind_pack, .next = next_chunk, .user = &pack };
    size_t n_byte;
    int rc = 0;

    for (; !rc && pack.first < chunks->n; pack.first = pack.end) {
        pack.end = spot_state_pack_end(chunks, pack_byte, pack.first, &n_byte);
        rc = put_object(w, &io, n_byte, err);
    }
    return rc;
}

static int put_commit(struct writing *w, const struct spot_state_store *store,
                      const struct spot_state_copy *copy, const struct spot_buf *records,
                      struct spot_err *err)
{
    struct spot_buf text = *records;
    const struct spot_command_io io = { .next = next_records, .user = &text };
    char *const manifest = write_manifest(copy, records);
    struct spot_state_chunks chunks = { 0 };
    struct records r;
    int rc = parse_records(records, copy, &r, err);

    if (!rc) {
        chunks = list_chunks(&r);
        rc = put_object(w, &io, records->n, err) ||
                     put_chunks(w, store, copy->pack_byte, &chunks, err) ||
                     spot_objects_commit(w->objects, w->generation, w->nonce, w->written,
                                         w->n_bundle, manifest, err)
                 ? -1
                 : 0;
    }
    release_records(&r);
    free(chunks.piece);
    free(manifest);
    return rc;
}

static int64_t next_generation(struct spot_state_bucket *b)
{
    size_t n;
    int64_t *const generation = spot_objects_list(b->objects, &n);
    const int64_t next = n ? generation[0] + 1 : 1;

    free(generation);
    return next;
}

static void drop_older(struct spot_state_bucket *b)
{
    size_t n;
    int64_t *const generation = spot_objects_list(b->objects, &n);

    for (size_t i = KEPT; i < n; i++)
        (void)spot_objects_drop(b->objects, generation[i], NULL);
    free(generation);
}

int spot_state_bucket_put(struct spot_state_bucket *b, const struct spot_state_store *store,
                          const struct spot_state_copy *copy, const struct spot_buf *records,
                          struct spot_err *err)
{
    struct writing w = { .objects = b->objects, .generation = next_generation(b) };
    int rc;

    if (spot_random_bytes(&w.nonce, sizeof(w.nonce), err))
        return -1;
    w.nonce |= 1;
    rc = put_commit(&w, store, copy, records, err);
    free(w.written);
    if (rc)
        spot_objects_drop_unfinished(b->objects, w.generation, w.nonce);
    else
        drop_older(b);
    return rc;
}
