/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* realpath */
#include "serve/served_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/json.h"
#include "common/xalloc.h"
#include "serve/adapter_list.h"
#include "text/beside.h"
#include "weights/hf_config.h"
#include "weights/hf_kind.h"
#include "weights/lora_load.h"

enum { PATH_MAX_BYTE = 4096 };

static int path_in(char path[PATH_MAX_BYTE], const char *dir, const char *name,
                   struct spot_err *err)
{
    if (snprintf(path, PATH_MAX_BYTE, "%s/%s", dir, name) < PATH_MAX_BYTE)
        return 0;
    return spot_err_set(err, SPOT_EUSAGE, "the path of %s is too long", dir);
}

/* Set the number of shards: the requested one, or that of the training. */
static int settle_shards(struct spot_shape *s, int64_t n_shard, struct spot_err *err)
{
    if (n_shard)
        s->n_shard = n_shard;
    else if (!s->n_shard)
        s->n_shard = spot_hf_config_shards(s);
    return spot_shape_check(s, err);
}

/* --- end tokens ------------------------------------------------------------------ */

/* Adds an end token once. */
static void put_end(struct spot_served_model *m, int64_t id)
{
    size_t i = 0;

    while (i < m->n_end && m->end[i] != id)
        i++;
    if (i == m->n_end)
        m->end[m->n_end++] = (uint32_t)id;
}

static int add_end(struct spot_served_model *m, const struct spot_json_doc *doc,
                   const struct spot_json_value *id, struct spot_err *err)
{
    const int64_t value = spot_json_integer(id);

    if (!spot_json_is_integer(id) || value < 0 || value >= m->shape.vocab)
        return spot_json_fail(doc, "/eos_token_id", err, "must be a token below %lld",
                              (long long)m->shape.vocab);
    put_end(m, value);
    return m->n_end <= SPOT_SERVED_ENDS_MAX
               ? 0
               : spot_json_fail(doc, "/eos_token_id", err, "more than %d end tokens",
                                SPOT_SERVED_ENDS_MAX);
}

/* Add the token with this text, if there is one. */
static void add_named_end(struct spot_served_model *m, const char *text)
{
    const int64_t id = *text ? spot_bpe_find(m->bpe, text) : -1;

    if (id >= 0)
        put_end(m, id);
}

/* "eos_token_id" is a number, an array of numbers, or null. */
static int read_ends(struct spot_served_model *m, const char *name, struct spot_err *err)
{
    char path[PATH_MAX_BYTE];
    struct spot_json_doc doc;
    const struct spot_json_value *id, *entry;
    size_t i;
    int rc = 0;

    if (path_in(path, m->dir, name, err))
        return -1;
    if (access(path, F_OK))
        return 0;
    if (spot_json_load_path(&doc, path, err))
        return -1;
    id = spot_json_get(doc.root, "eos_token_id");
    if (spot_json_is_array(id)) {
        spot_json_array_foreach(id, i, entry) rc = rc ? rc : add_end(m, &doc, entry, err);
    } else if (id && !spot_json_is_null(id)) {
        rc = add_end(m, &doc, id, err);
    }
    spot_json_release(&doc);
    return rc;
}

/* The end token of config.json may be that of the base model, before chat tuning. */
static int read_all_ends(struct spot_served_model *m, struct spot_err *err)
{
    char text[SPOT_BESIDE_TOKEN];

    if (read_ends(m, "config.json", err) || read_ends(m, "generation_config.json", err) ||
        spot_beside_named(m->dir, "eos_token", text, err) < 0)
        return -1;
    add_named_end(m, text);
    if (m->chat)
        add_named_end(m, spot_chat_end(m->chat));
    return 0;
}

/* --- chats -------------------------------------------------------------------------- */

/* Load the chat template. Clients get the reason if there is none, but not the model's path. */
static void open_chat(struct spot_served_model *m)
{
    struct spot_err why = { 0 };
    const size_t n = strlen(m->dir);
    const char *at;

    m->chat = spot_chat_load(m->dir, NULL, &why);
    at = m->chat ? NULL : strstr(why.msg, m->dir);
    if (at)
        snprintf(m->chat_why, sizeof(m->chat_why), "%.*s%s", (int)(at - why.msg), why.msg,
                 at + n + strspn(at + n, "/"));
    else if (!m->chat)
        snprintf(m->chat_why, sizeof(m->chat_why), "%s", "tokenizer_config.json cannot be read");
}

/* --- embeddings --------------------------------------------------------------------- */

/* "pooling_mode" is a name or a list of names since 2026; before, there was a member for each mode,
 * with "mean" as the default. For several modes the library concatenates the vectors, which is not
 * supported here. */
static enum spot_pool pooling_of(const struct spot_json_value *config)
{
    static const char *const flag[] = { "cls_token",           "max_tokens",
                                        "mean_tokens",         "mean_sqrt_len_tokens",
                                        "weightedmean_tokens", "lasttoken" };
    const struct spot_json_value *const list = spot_json_get(config, "pooling_mode");
    const char *name = spot_json_text(spot_json_is_array(list) ? spot_json_entry(list, 0) : list);
    size_t n = spot_json_is_array(list) ? spot_json_array_size(list) : name != NULL;

    for (size_t i = 0; !list && i < sizeof(flag) / sizeof(flag[0]); i++) {
        char key[64];

        snprintf(key, sizeof(key), "pooling_mode_%s", flag[i]);
        if (!spot_json_is_true(spot_json_get(config, key)))
            continue;
        name = flag[i];
        n++;
    }
    if (!list && !n)
        return SPOT_POOL_MEAN;
    if (n != 1 || !name)
        return SPOT_POOL_NONE;
    return !strcmp(name, "lasttoken")                              ? SPOT_POOL_LAST
           : !strcmp(name, "mean") || !strcmp(name, "mean_tokens") ? SPOT_POOL_MEAN
                                                                   : SPOT_POOL_NONE;
}

/* Read the pooling of an embedding model from sentence-transformers' files; default: a decoder's
 * last token. SPOT_POOL_NONE for any other pooling. */
static int read_pooling(struct spot_served_model *m, struct spot_err *err)
{
    char path[PATH_MAX_BYTE];
    struct spot_json_doc doc;

    m->pool = SPOT_POOL_LAST;
    if (path_in(path, m->dir, "1_Pooling/config.json", err))
        return -1;
    if (access(path, F_OK))
        return 0;
    if (spot_json_load_path(&doc, path, err))
        return -1;
    m->pool = pooling_of(doc.root);
    spot_json_release(&doc);
    return 0;
}

/* --- vocabulary -------------------------------------------------------------------- */

/* Returns 1 for a model of bytes, 0, or -1 with *err. */
static int is_of_bytes(const struct spot_served_model *m, struct spot_err *err)
{
    char path[PATH_MAX_BYTE];
    struct spot_json_doc doc;
    const char *tokens;
    int rc;

    if (path_in(path, m->dir, "config.json", err) || spot_json_load_path(&doc, path, err))
        return -1;
    tokens = spot_json_text(spot_json_get(doc.root, "spot_tokens"));
    rc = tokens && !strcmp(tokens, "bytes");
    spot_json_release(&doc);
    return rc;
}

static int open_vocabulary(struct spot_served_model *m, struct spot_err *err)
{
    const int bytes = is_of_bytes(m, err);

    if (bytes < 0)
        return -1;
    if (bytes && m->shape.vocab < 256)
        return spot_err_set(err, SPOT_EDATA, "%s/config.json: a model of bytes with %lld tokens",
                            m->dir, (long long)m->shape.vocab);
    m->bpe = bytes ? spot_bpe_of_bytes() : spot_bpe_open(m->dir, err);
    if (!m->bpe)
        return -1;
    if (spot_bpe_vocab(m->bpe) > m->shape.vocab)
        return spot_err_set(err, SPOT_EDATA, "%s: the tokenizer has %lld tokens, the model %lld",
                            m->dir, (long long)spot_bpe_vocab(m->bpe), (long long)m->shape.vocab);
    open_chat(m);
    if (!bytes && read_all_ends(m, err))
        return -1;
    if (!bytes && spot_text_around_load(m->dir, m->bpe, &m->around, err))
        return -1;
    m->vocabulary = (struct spot_vocabulary){ .bpe = m->bpe,
                                              .end = m->end,
                                              .n_end = m->n_end,
                                              .begin = m->around.before,
                                              .n_begin = m->around.n_before,
                                              .after = m->around.after,
                                              .n_after = m->around.n_after };
    return read_pooling(m, err);
}

static uint64_t hash_of(const struct spot_served_model *m)
{
    struct spot_hash_stream *const s = spot_hash_stream_new();
    const uint64_t weights = m->weights ? spot_weights_xxh3(m->weights) : 0;
    uint64_t hash;
    size_t n;

    spot_hash_stream_add(s, &weights, sizeof(weights));
    spot_hash_stream_add(s, m->end, m->n_end * sizeof(*m->end));
    for (int64_t id = 0; id < spot_bpe_vocab(m->bpe); id++) {
        const uint8_t *const token = spot_bpe_token(m->bpe, (uint32_t)id, &n);

        n = token ? n : 0;
        spot_hash_stream_add(s, &n, sizeof(n));
        spot_hash_stream_add(s, token ? token : (const uint8_t *)"", n);
    }
    for (size_t i = 0; i < m->n_adapter; i++)
        spot_hash_stream_add(s, &m->lora[i]->hash, sizeof(m->lora[i]->hash));
    hash = spot_hash_stream_64(s);
    spot_hash_stream_free(s);
    return hash ? hash : 1;
}

/* --- whole model ------------------------------------------------------------------- */

static int open_adapters(struct spot_served_model *m, struct spot_err *err)
{
    const char *list = m->adapters;
    struct spot_adapter a;
    char dir[PATH_MAX_BYTE];

    while ((list = spot_adapter_next(list, &a))) {
        struct spot_lora *lora;

        if (snprintf(dir, sizeof(dir), "%.*s", (int)a.n_dir, a.dir) >= (int)sizeof(dir))
            return spot_err_set(err, SPOT_EUSAGE, "the path of adapter %.*s is too long",
                                (int)a.n_name, a.name);
        lora = spot_lora_load(dir, &m->shape, err);
        if (!lora)
            return -1;
        m->lora = spot_xrealloc(m->lora, m->n_adapter + 1, sizeof(struct spot_lora *));
        m->lora[m->n_adapter++] = lora;
    }
    return 0;
}

int spot_served_model_open(struct spot_served_model *m, const char *dir, const char *adapters,
                           int64_t n_shard, struct spot_err *err)
{
    char path[PATH_MAX_BYTE];
    struct stat st;

    memset(m, 0, sizeof(*m));
    m->dir = spot_xstrdup(dir);
    m->adapters = spot_xstrdup(adapters ? adapters : "");
    if (spot_hf_check_kind(dir, err))
        return -1;
    if (!stat(dir, &st) && !S_ISDIR(st.st_mode))
        return spot_err_set(err, SPOT_EDATA, "%s: a file, expected the directory of a model", dir);
    if (path_in(path, dir, "config.json", err) || spot_hf_config_load(path, &m->shape, err))
        return -1;
    if (settle_shards(&m->shape, n_shard, err) || open_vocabulary(m, err))
        return -1;
    m->weights = spot_weights_open(dir, &m->shape, err);
    if (!m->weights || open_adapters(m, err))
        return -1;
    m->hash = hash_of(m);
    return 0;
}

/* --- of an engine ------------------------------------------------------------------- */

/* A number of config.json, or of its text_config. */
static int64_t number_of(const struct spot_json_value *root, const char *key)
{
    const struct spot_json_value *const own = spot_json_get(root, key);
    const struct spot_json_value *const v =
        own ? own : spot_json_get(spot_json_get(root, "text_config"), key);

    return spot_json_is_integer(v) && spot_json_integer(v) > 0 ? spot_json_integer(v) : 0;
}

static int read_foreign_shape(struct spot_served_model *m, struct spot_err *err)
{
    char path[PATH_MAX_BYTE];
    struct spot_json_doc doc;

    m->shape.seq = SPOT_SERVED_CONTEXT_MOST;
    m->shape.vocab = INT32_MAX;
    if (path_in(path, m->dir, "config.json", err))
        return -1;
    if (access(path, F_OK))
        return 0;
    if (spot_json_load_path(&doc, path, err))
        return -1;
    if (number_of(doc.root, "max_position_embeddings") &&
        number_of(doc.root, "max_position_embeddings") < m->shape.seq)
        m->shape.seq = number_of(doc.root, "max_position_embeddings");
    if (number_of(doc.root, "vocab_size") && number_of(doc.root, "vocab_size") < INT32_MAX)
        m->shape.vocab = number_of(doc.root, "vocab_size");
    spot_json_release(&doc);
    return 0;
}

/* Its tokenizer: files of the directory, or bytes. */
static int open_foreign_words(struct spot_served_model *m, struct spot_err *err)
{
    if (read_foreign_shape(m, err) || open_vocabulary(m, err) ||
        (!m->n_end && read_ends(m, "config.json", err)))
        return -1;
    m->vocabulary.n_end = m->n_end;
    if (!m->n_end)
        return spot_err_set(err, SPOT_EDATA,
                            "%s names no token that ends a text: \"eos_token_id\" of config.json",
                            m->dir);
    if (m->shape.vocab == INT32_MAX)
        m->shape.vocab = spot_bpe_vocab(m->bpe);
    m->hash = hash_of(m);
    return 0;
}

static void open_pieces(struct spot_served_model *m)
{
    m->shape.seq = SPOT_SERVED_CONTEXT_MOST;
    m->shape.vocab = SPOT_PIECES;
    m->bpe = spot_bpe_of_bytes();
    put_end(m, SPOT_PIECE_STOP);
    snprintf(m->chat_why, sizeof(m->chat_why), "%s",
             "only the name of the model is known, not its chat template");
    m->vocabulary = (struct spot_vocabulary){
        .has_pieces = true, .bpe = m->bpe, .end = m->end, .n_end = m->n_end
    };
    m->hash = spot_hash64(m->dir, strlen(m->dir));
    m->hash += !m->hash;
}

int spot_served_model_open_foreign(struct spot_served_model *m, const char *name,
                                   struct spot_err *err)
{
    memset(m, 0, sizeof(*m));
    m->dir = spot_xstrdup(name);
    m->adapters = spot_xstrdup("");
    m->is_foreign = true;
    if (!access(name, F_OK))
        return open_foreign_words(m, err);
    open_pieces(m);
    return 0;
}

int spot_served_model_choose_chat(struct spot_served_model *m, const char *choice,
                                  struct spot_err *err)
{
    struct spot_chat *const chat = spot_chat_load(m->dir, choice, err);

    if (!chat)
        return -1;
    spot_chat_free(m->chat);
    m->chat = chat;
    add_named_end(m, spot_chat_end(chat));
    m->vocabulary.n_end = m->n_end;
    return 0;
}

char *spot_served_model_id(const char *dir)
{
    size_t n = strlen(dir), begin;
    char *real, *id;

    while (n > 1 && dir[n - 1] == '/')
        n--;
    for (begin = n; begin && dir[begin - 1] != '/';)
        begin--;
    id = spot_xcalloc(n - begin + 1, 1);
    memcpy(id, dir + begin, n - begin);
    if (strcmp(id, ".") != 0 && strcmp(id, "..") != 0)
        return id;
    real = realpath(dir, NULL);
    if (real && strrchr(real, '/')[1]) { /* else it is "/" */
        free(id);
        id = spot_xstrdup(strrchr(real, '/') + 1);
    }
    free(real);
    return id;
}

void spot_served_model_release(struct spot_served_model *m)
{
    spot_weights_close(m->weights);
    spot_bpe_free(m->bpe);
    spot_chat_free(m->chat);
    for (size_t i = 0; i < m->n_adapter; i++)
        spot_lora_free(m->lora[i]);
    free(m->lora);
    free(m->adapters);
    free(m->dir);
    memset(m, 0, sizeof(*m));
}

/* Reuse the memory of the previous bundle if it has the same tensors, as most have: all numbers are
 * overwritten, and padding is zero in all bundles. */
static int take_place_of(struct spot_bundle *bundle, const struct spot_shape *shape, int index,
                         struct spot_err *err)
{
    struct spot_arena arena;

    spot_arena_of(shape, index, &arena);
    if (bundle->plane[SPOT_PLANE_MASTER] && !memcmp(&arena, &bundle->arena, sizeof(arena))) {
        bundle->index = index;
        return 0;
    }
    spot_bundle_release(bundle);
    return spot_bundle_init_weights(bundle, shape, index, err);
}

int spot_served_model_pack(const struct spot_served_model *m, enum spot_infer_type type, int begin,
                           int end, void *image, void (*progress)(void *user), void *user,
                           struct spot_err *err)
{
    struct spot_bundle bundle = { .plane = { NULL } };
    int rc = 0;

    spot_infer_image_begin(image, &m->shape, type, begin, end);
    for (int i = begin; !rc && i < end; i++) { /* one at a time in memory */
        rc = take_place_of(&bundle, &m->shape, i, err);
        if (!rc && !(rc = spot_weights_read(m->weights, &bundle, err)))
            spot_infer_image_put(image, &bundle);
        progress(user);
    }
    spot_bundle_release(&bundle);
    return rc ? -1 : 0;
}
