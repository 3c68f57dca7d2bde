/* SPDX-License-Identifier: MIT */
#include "checkpoint/object_store.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/object_key.h"
#include "common/random.h"
#include "common/xalloc.h"

enum {
    OWNER_SIZE = 34,
    LIST_BYTE_MAX = 64 << 20,
    MANIFEST_BYTE_MAX = 4 << 20,
    NOTE_BYTE_MAX = 64 << 20
};

static const char note_key[] = "job.json";

/* A generation. */
struct entry {
    int64_t step;
    uint64_t nonce;
    bool has_manifest, is_bad;
    char *text; /* text of the manifest, NULL: not read yet */
    size_t n_text;
};

struct spot_objects {
    struct spot_state_command command;
    pthread_mutex_t lock; /* guards the members below */
    uint64_t job, owner;
    struct entry *entry;
    size_t n_entry, cap;
};

struct spot_objects *spot_objects_new(const struct spot_state_command *command)
{
    struct spot_objects *const o = spot_xcalloc(1, sizeof(*o));

    o->command = *command;
    pthread_mutex_init(&o->lock, NULL);
    return o;
}

static void clear(struct spot_objects *o)
{
    for (size_t i = 0; i < o->n_entry; i++)
        free(o->entry[i].text);
    free(o->entry);
    o->entry = NULL;
    o->n_entry = o->cap = 0;
}

void spot_objects_free(struct spot_objects *o)
{
    if (!o)
        return;
    clear(o);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* --- the list of generations ------------------------------------------------------------------ */

/* Finds a generation. Call with the lock held. */
static struct entry *find(struct spot_objects *o, int64_t step, uint64_t nonce)
{
    for (size_t i = 0; i < o->n_entry; i++)
        if (o->entry[i].step == step && o->entry[i].nonce == nonce)
            return &o->entry[i];
    return NULL;
}

/* The valid generation of a step. Call with the lock held. */
static struct entry *of_step(struct spot_objects *o, int64_t step)
{
    for (size_t i = 0; i < o->n_entry; i++)
        if (o->entry[i].step == step && o->entry[i].has_manifest && !o->entry[i].is_bad)
            return &o->entry[i];
    return NULL;
}

/* Finds or adds a generation. Call with the lock held. */
static struct entry *add(struct spot_objects *o, int64_t step, uint64_t nonce)
{
    struct entry *const e = find(o, step, nonce);

    if (e)
        return e;
    o->entry = spot_xgrow(o->entry, &o->cap, o->n_entry + 1, sizeof(*o->entry));
    o->entry[o->n_entry] = (struct entry){ .step = step, .nonce = nonce };
    return &o->entry[o->n_entry++];
}

int spot_objects_look(struct spot_objects *o, struct spot_err *err)
{
    struct spot_buf list;
    struct spot_object_line line;
    char *at;

    if (spot_state_text_get(&o->command, "list", "gen-", LIST_BYTE_MAX, &list, err))
        return -1;
    pthread_mutex_lock(&o->lock);
    clear(o);
    at = (char *)list.data;
    while (spot_object_next_line(&at, &line))
        if (line.step >= 0) {
            struct entry *const e = add(o, line.step, line.nonce);

            e->has_manifest |= !strcmp(line.name, "manifest.json");
            e->is_bad |= !strcmp(line.name, "bad");
        }
    pthread_mutex_unlock(&o->lock);
    spot_buf_release(&list);
    return 0;
}

static int compare_steps(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y);
}

int64_t *spot_objects_list(struct spot_objects *o, size_t *n)
{
    int64_t *step;

    *n = 0;
    pthread_mutex_lock(&o->lock);
    step = spot_xcalloc(o->n_entry, sizeof(*step));
    for (size_t i = 0; i < o->n_entry; i++)
        if (of_step(o, o->entry[i].step) == &o->entry[i])
            step[(*n)++] = o->entry[i].step;
    pthread_mutex_unlock(&o->lock);
    if (*n)
        qsort(step, *n, sizeof(*step), compare_steps);
    return step;
}

/* The nonce of the valid generation of a step. Returns 0, or -1 with *err. */
static int nonce_of(struct spot_objects *o, int64_t step, uint64_t *nonce, struct spot_err *err)
{
    const struct entry *e;

    pthread_mutex_lock(&o->lock);
    e = of_step(o, step);
    *nonce = e ? e->nonce : 0;
    pthread_mutex_unlock(&o->lock);
    return *nonce
               ? 0
               : spot_err_set(err, SPOT_EDATA, "the store has no generation %lld", (long long)step);
}

void spot_objects_name(struct spot_objects *o, int64_t step, int bundle,
                       char key[SPOT_OBJECT_KEY_SIZE])
{
    uint64_t nonce;

    (void)nonce_of(o, step, &nonce, NULL);
    if (bundle < 0)
        spot_object_key(key, step, nonce, "manifest.json");
    else
        spot_object_bundle_key(key, step, nonce, bundle);
}

/* --- reading ----------------------------------------------------------------------------- */

char *spot_objects_manifest(struct spot_objects *o, int64_t step, size_t *n_byte,
                            struct spot_err *err)
{
    struct spot_buf text = { 0 };
    struct entry *e;
    char key[SPOT_OBJECT_KEY_SIZE];
    uint64_t nonce;

    if (nonce_of(o, step, &nonce, err))
        return NULL;
    pthread_mutex_lock(&o->lock);
    e = find(o, step, nonce);
    if (e && e->text)
        spot_buf_add(&text, e->text, e->n_text);
    pthread_mutex_unlock(&o->lock);
    if (!text.n) {
        spot_object_key(key, step, nonce, "manifest.json");
        if (spot_state_text_get(&o->command, "get", key, MANIFEST_BYTE_MAX, &text, err))
            return NULL;
        pthread_mutex_lock(&o->lock);
        e = find(o, step, nonce);
        if (e && !e->text) {
            e->text = spot_xcalloc(text.n + 1, 1);
            memcpy(e->text, text.data, text.n);
            e->n_text = text.n;
        }
        pthread_mutex_unlock(&o->lock);
    }
    *n_byte = text.n;
    return (char *)text.data;
}

/* A try whose output was partly passed on cannot be repeated. */
struct once {
    int (*take)(void *user, const void *data, size_t n_byte, struct spot_err *err);
    void *user;
    bool has_some;
    const char *key;
};

static int rewind_once(void *user, struct spot_err *err)
{
    const struct once *const once = user;

    return once->has_some ? spot_err_set(err, SPOT_ESYS,
                                         "state command: get %s: the output ended early", once->key)
                          : 0;
}

static int take_once(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    struct once *const once = user;

    once->has_some = true;
    return once->take(once->user, data, n_byte, err);
}

int spot_objects_get(struct spot_objects *o, int64_t step, int bundle,
                     int (*take)(void *user, const void *data, size_t n_byte, struct spot_err *err),
                     void *user, struct spot_err *err)
{
    char key[SPOT_OBJECT_KEY_SIZE];
    struct once once = { .take = take, .user = user, .key = key };
    const struct spot_command_io io = { .rewind = rewind_once, .take = take_once, .user = &once };
    uint64_t nonce;

    if (nonce_of(o, step, &nonce, err))
        return -1;
    spot_object_bundle_key(key, step, nonce, bundle);
    return spot_state_command_run(&o->command, "get", key, &io, err);
}

/* --- ownership ------------------------------------------------------------------------------ */

/* "JOB NONCE", in hexadecimal. */
static bool parse_owner(const char *text, uint64_t *job, uint64_t *owner)
{
    char *end, *last;

    *job = strtoull(text, &end, 16);
    *owner = strtoull(end, &last, 16);
    return end != text && *end == ' ' && last != end;
}

static int is_listed(struct spot_objects *o, const char *key, bool *is_there, struct spot_err *err)
{
    struct spot_buf text;
    struct spot_object_line line;
    char *at;

    *is_there = false;
    if (spot_state_text_get(&o->command, "list", key, LIST_BYTE_MAX, &text, err))
        return -1;
    at = (char *)text.data;
    while (spot_object_next_line(&at, &line))
        *is_there |= !strcmp(line.key, key);
    spot_buf_release(&text);
    return 0;
}

/* Reads which job the store belongs to, and its writer. Returns 0, with *job and *owner 0 if the
 * store is unclaimed, or -1 with *err. */
static int read_owner(struct spot_objects *o, uint64_t *job, uint64_t *owner, struct spot_err *err)
{
    struct spot_buf text;
    bool is_there, is_owner;

    *job = *owner = 0;
    if (is_listed(o, "owner", &is_there, err))
        return -1;
    if (!is_there)
        return 0;
    if (spot_state_text_get(&o->command, "get", "owner", OWNER_SIZE, &text, err))
        return -1;
    is_owner = parse_owner((const char *)text.data, job, owner);
    spot_buf_release(&text);
    return is_owner ? 0
                    : spot_err_set(err, SPOT_EDATA,
                                   "state command: what get owner gives is not \"JOB NONCE\"");
}

int spot_objects_job(struct spot_objects *o, uint64_t *job, struct spot_err *err)
{
    uint64_t owner;

    return read_owner(o, job, &owner, err);
}

static int delete_key(struct spot_objects *o, const char *key, struct spot_err *err)
{
    return spot_state_command_run(&o->command, "delete", key, NULL, err);
}

static void forget(struct spot_objects *o, int64_t step, uint64_t nonce)
{
    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; i < o->n_entry; i++)
        if (o->entry[i].step == step && o->entry[i].nonce == nonce) {
            free(o->entry[i].text);
            o->entry[i] = o->entry[--o->n_entry];
        }
    pthread_mutex_unlock(&o->lock);
}

/* The manifest first: without one it is not a generation. Returns 0, or -1 with *err: the
 * generation is then still listed, and deleting it is retried. */
static int drop(struct spot_objects *o, int64_t step, uint64_t nonce, struct spot_err *err)
{
    char prefix[SPOT_OBJECT_KEY_SIZE], key[SPOT_OBJECT_KEY_SIZE];
    struct spot_buf list;
    struct spot_object_line line;
    char *at;
    int rc = 0;

    spot_object_key(prefix, step, nonce, "");
    spot_object_key(key, step, nonce, "manifest.json");
    if (spot_state_text_get(&o->command, "list", prefix, LIST_BYTE_MAX, &list, err))
        return -1;
    if (strstr((const char *)list.data, key))
        rc = delete_key(o, key, err);
    at = (char *)list.data;
    while (!rc && spot_object_next_line(&at, &line))
        if (line.step == step && line.nonce == nonce && strcmp(line.key, key) != 0)
            rc = delete_key(o, line.key, err);
    spot_buf_release(&list);
    if (!rc)
        forget(o, step, nonce);
    return rc;
}

static void drop_others(struct spot_objects *o)
{
    struct entry unfinished;
    bool is_found;

    do {
        pthread_mutex_lock(&o->lock);
        is_found = false;
        for (size_t i = 0; i < o->n_entry && !is_found; i++)
            if (!o->entry[i].has_manifest) {
                unfinished = o->entry[i];
                o->entry[i] = o->entry[--o->n_entry];
                is_found = true;
            }
        pthread_mutex_unlock(&o->lock);
        if (is_found)
            (void)drop(o, unfinished.step, unfinished.nonce, NULL);
    } while (is_found);
}

int spot_objects_check_job(struct spot_objects *o, uint64_t job, struct spot_err *err)
{
    uint64_t of_job;

    if (spot_objects_job(o, &of_job, err))
        return -1;
    if (of_job && of_job != job)
        return spot_err_set(err, SPOT_EUSAGE,
                            "the store holds the state of another job (%016" PRIx64
                            "; other command, model, data, seed, kernel or way to add): give this "
                            "one a place of its own, or delete that one's",
                            of_job);
    return 0;
}

int spot_objects_claim(struct spot_objects *o, uint64_t job, struct spot_err *err)
{
    char text[OWNER_SIZE];
    uint64_t owner;

    if (spot_objects_check_job(o, job, err) || spot_random_bytes(&owner, sizeof(owner), err))
        return -1;
    owner |= 1;
    snprintf(text, sizeof(text), "%016" PRIx64 " %016" PRIx64, job, owner);
    if (spot_state_text_put(&o->command, "owner", text, err) || spot_objects_look(o, err))
        return -1;
    pthread_mutex_lock(&o->lock);
    o->job = job;
    o->owner = owner;
    pthread_mutex_unlock(&o->lock);
    drop_others(o);
    return 0;
}

uint64_t spot_objects_owner(const struct spot_objects *o)
{
    return o->owner;
}

static int compare_owner(struct spot_objects *o, uint64_t owner, const char *otherwise,
                         struct spot_err *err)
{
    uint64_t job, now;

    if (read_owner(o, &job, &now, err))
        return -1;
    return now == owner ? 0 : spot_err_set(err, SPOT_ESYS, "%s", otherwise);
}

int spot_objects_check_owner(struct spot_objects *o, uint64_t owner, struct spot_err *err)
{
    return compare_owner(o, owner, "the state command leads to another store", err);
}

static int check_owner(struct spot_objects *o, struct spot_err *err)
{
    return compare_owner(o, o->owner, "another coordinator has taken over the store", err);
}

/* --- the job's description ----------------------------------------------- */

int spot_objects_put_note(struct spot_objects *o, const char *text, struct spot_err *err)
{
    return check_owner(o, err) ? -1 : spot_state_text_put(&o->command, note_key, text, err);
}

int spot_objects_note(struct spot_objects *o, char **text, size_t *n_byte, struct spot_err *err)
{
    struct spot_buf buf;
    bool is_there;

    if (is_listed(o, note_key, &is_there, err))
        return -1;
    if (!is_there)
        return 0;
    if (spot_state_text_get(&o->command, "get", note_key, NOTE_BYTE_MAX, &buf, err))
        return -1;
    *text = (char *)buf.data;
    *n_byte = buf.n;
    return 1;
}

/* --- writing -------------------------------------------------------------------------------- */

/* Written bytes are hashed on the way. */
struct hashed {
    const struct spot_command_io *io;
    struct spot_hash_stream *hash;
    size_t n_byte;
};

static int rewind_hashed(void *user, struct spot_err *err)
{
    struct hashed *const h = user;

    spot_hash_stream_free(h->hash);
    h->hash = spot_hash_stream_new();
    h->n_byte = 0;
    return h->io->rewind ? h->io->rewind(h->io->user, err) : 0;
}

static int next_hashed(void *user, struct spot_buf *piece, struct spot_err *err)
{
    struct hashed *const h = user;
    const size_t before = piece->n;
    const int more = h->io->next(h->io->user, piece, err);

    spot_hash_stream_add(h->hash, piece->data + before, piece->n - before);
    h->n_byte += piece->n - before;
    return more;
}

int spot_objects_put(struct spot_objects *o, int64_t step, uint64_t nonce, int bundle,
                     const struct spot_command_io *io, struct spot_written *written,
                     struct spot_err *err)
{
    struct hashed h = { .io = io };
    const struct spot_command_io hashed = { rewind_hashed, next_hashed, NULL, &h };
    char key[SPOT_OBJECT_KEY_SIZE];
    int rc;

    spot_object_bundle_key(key, step, nonce, bundle);
    rc = spot_state_command_run(&o->command, "put", key, &hashed, err);
    if (!rc)
        *written = (struct spot_written){ h.n_byte, spot_hash_stream_128(h.hash) };
    spot_hash_stream_free(h.hash);
    return rc;
}

/* Check that all objects exist with the written sizes. */
static int check_sizes(struct spot_objects *o, int64_t step, uint64_t nonce,
                       const struct spot_written *written, int n_bundle, struct spot_err *err)
{
    char prefix[SPOT_OBJECT_KEY_SIZE];
    struct spot_buf list;
    struct spot_object_line line;
    uint64_t *const got = spot_xcalloc((size_t)n_bundle, sizeof(*got));
    int rc = 0;
    char *at;

    spot_object_key(prefix, step, nonce, "");
    if (spot_state_text_get(&o->command, "list", prefix, LIST_BYTE_MAX, &list, err)) {
        free(got);
        return -1;
    }
    at = (char *)list.data;
    while (spot_object_next_line(&at, &line)) {
        const int b = spot_object_bundle_named(line.name, n_bundle);

        if (line.step == step && line.nonce == nonce && b >= 0)
            got[b] = line.n_byte;
    }
    for (int b = 0; !rc && b < n_bundle; b++)
        if (got[b] != written[b].n_byte)
            rc = spot_err_set(
                err, SPOT_EDATA,
                "the store has %llu bytes of bundle %d of generation %lld, %zu were put",
                (unsigned long long)got[b], b, (long long)step, written[b].n_byte);
    spot_buf_release(&list);
    free(got);
    return rc;
}

int spot_objects_check(struct spot_objects *o, int64_t step, const struct spot_written *written,
                       int n_bundle, struct spot_err *err)
{
    uint64_t nonce;

    return nonce_of(o, step, &nonce, err) ? -1
                                          : check_sizes(o, step, nonce, written, n_bundle, err);
}

static int put_manifest(struct spot_objects *o, int64_t step, uint64_t nonce, const char *manifest,
                        struct spot_err *err)
{
    char key[SPOT_OBJECT_KEY_SIZE];
    struct spot_buf again;
    bool is_same;

    spot_object_key(key, step, nonce, "manifest.json");
    if (spot_state_text_put(&o->command, key, manifest, err) ||
        spot_state_text_get(&o->command, "get", key, MANIFEST_BYTE_MAX, &again, err))
        return -1;
    is_same = !strcmp((const char *)again.data, manifest);
    spot_buf_release(&again);
    return is_same ? 0
                   : spot_err_set(err, SPOT_ESYS, "the store returns another '%s' than was stored",
                                  key);
}

int spot_objects_commit(struct spot_objects *o, int64_t step, uint64_t nonce,
                        const struct spot_written *written, int n_bundle, const char *manifest,
                        struct spot_err *err)
{
    struct entry *e;

    if (check_owner(o, err) || check_sizes(o, step, nonce, written, n_bundle, err) ||
        put_manifest(o, step, nonce, manifest, err))
        return -1;
    pthread_mutex_lock(&o->lock);
    e = add(o, step, nonce);
    e->has_manifest = true;
    free(e->text);
    e->text = spot_xstrdup(manifest);
    e->n_text = strlen(manifest);
    pthread_mutex_unlock(&o->lock);
    return 0;
}

/* --- deletion --- */

int spot_objects_drop(struct spot_objects *o, int64_t step, struct spot_err *err)
{
    uint64_t nonce;

    return nonce_of(o, step, &nonce, NULL) ? 0 : drop(o, step, nonce, err);
}

void spot_objects_drop_unfinished(struct spot_objects *o, int64_t step, uint64_t nonce)
{
    (void)drop(o, step, nonce, NULL);
}

void spot_objects_set_aside(struct spot_objects *o, int64_t step)
{
    char key[SPOT_OBJECT_KEY_SIZE];
    struct entry *e;
    uint64_t nonce;

    if (nonce_of(o, step, &nonce, NULL))
        return;
    spot_object_key(key, step, nonce, "bad");
    (void)spot_state_text_put(&o->command, key, "damaged\n", NULL);
    pthread_mutex_lock(&o->lock);
    e = find(o, step, nonce);
    if (e)
        e->is_bad = true;
    pthread_mutex_unlock(&o->lock);
}
