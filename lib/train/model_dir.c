/* SPDX-License-Identifier: MIT */
#include "train/model_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/json_writer.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "weights/hf_config.h"
#include "weights/save.h"

enum { BESIDE = 5 };

/* Files copied along with a tokenizer; tokenizer_config.json is written if it is missing. */
static const char *const beside[BESIDE] = { "tokenizer_config.json", "special_tokens_map.json",
                                            "chat_template.jinja", "added_tokens.json",
                                            "generation_config.json" };
static const char end_of_text[] = "<|endoftext|>"; /* a token of GPT-2's vocabulary */

struct spot_model_dir {
    char *path;
    bool is_made; /* created by us */
    bool has_tokenizer;
    struct spot_buf tokenizer, beside[BESIDE]; /* the files */
};

bool spot_model_dir_is_meant(const char *path)
{
    static const char suffix[] = ".safetensors";
    const size_t n = strlen(path), n_suffix = sizeof(suffix) - 1;
    struct stat st;

    if (!stat(path, &st))
        return S_ISDIR(st.st_mode);
    return n && (n < n_suffix || strcmp(path + n - n_suffix, suffix) != 0);
}

/* --- the tokenizer's files -------------------------------------------------- */

/* Read a whole file. Returns 1, 0 if it does not exist, -1 with *err. */
static int read_file(const char *path, struct spot_buf *text, struct spot_err *err)
{
    enum { PART = 1 << 16 };
    FILE *const in = fopen(path, "re");
    size_t got;
    int rc = 1;

    if (!in)
        return errno == ENOENT ? 0 : spot_err_sys(err, "cannot open '%s'", path);
    while ((got = fread(spot_buf_more(text, PART), 1, PART, in)) > 0)
        text->n += got;
    if (ferror(in))
        rc = spot_err_sys(err, "cannot read '%s'", path);
    fclose(in);
    return rc;
}

/* Write each line "left right" as a merge; the first line may be a comment. */
static void write_merges(struct spot_jw *jw, const struct spot_buf *text)
{
    const char *at = (const char *)text->data;
    size_t left = text->n;

    spot_jw_array(jw, "merges");
    while (left) {
        const char *const end = memchr(at, '\n', left);
        const size_t n = end ? (size_t)(end - at) : left;

        if (n && !(at == (const char *)text->data && *at == '#')) {
            char *const merge = spot_xcalloc(n + 1, 1);

            memcpy(merge, at, n);
            spot_jw_str(jw, NULL, merge);
            free(merge);
        }
        at += n + (end != NULL);
        left -= n + (end != NULL);
    }
    spot_jw_end(jw);
}

static void write_added(struct spot_jw *jw, const struct spot_json_value *vocab)
{
    static const char *const never[] = { "single_word", "lstrip", "rstrip", "normalized" };
    const struct spot_json_value *const end = spot_json_get(vocab, end_of_text);

    spot_jw_array(jw, "added_tokens");
    if (end) {
        spot_jw_object(jw, NULL);
        spot_jw_tree(jw, "id", end);
        spot_jw_str(jw, "content", end_of_text);
        for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
            spot_jw_bool(jw, never[i], false);
        spot_jw_bool(jw, "special", true);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void write_byte_level(struct spot_jw *jw, const char *key, bool has_prefix)
{
    spot_jw_object(jw, key);
    spot_jw_str(jw, "type", "ByteLevel");
    spot_jw_bool(jw, "add_prefix_space", has_prefix);
    spot_jw_bool(jw, "trim_offsets", true);
    spot_jw_bool(jw, "use_regex", true);
    spot_jw_end(jw);
}

/* The document of a byte-level BPE of GPT-2's kind. */
static void write_joined(struct spot_jw *jw, const struct spot_json_value *vocab,
                         const struct spot_buf *merges)
{
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "version", "1.0");
    spot_jw_null(jw, "truncation");
    spot_jw_null(jw, "padding");
    write_added(jw, vocab);
    spot_jw_null(jw, "normalizer");
    write_byte_level(jw, "pre_tokenizer", false);
    spot_jw_null(jw, "post_processor");
    write_byte_level(jw, "decoder", true);
    spot_jw_object(jw, "model");
    spot_jw_str(jw, "type", "BPE");
    spot_jw_null(jw, "dropout");
    spot_jw_null(jw, "unk_token");
    spot_jw_str(jw, "continuing_subword_prefix", "");
    spot_jw_str(jw, "end_of_word_suffix", "");
    spot_jw_bool(jw, "fuse_unk", false);
    spot_jw_bool(jw, "byte_fallback", false);
    spot_jw_tree(jw, "vocab", vocab);
    write_merges(jw, merges);
    spot_jw_end(jw);
    spot_jw_end(jw);
}

static int join_text(const struct spot_json_value *vocab, const struct spot_buf *merges,
                     struct spot_buf *out, struct spot_err *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const memory = spot_xmemory_open(&text, &n);
    struct spot_jw jw;
    int rc;

    spot_jw_init(&jw, memory, true);
    write_joined(&jw, vocab, merges);
    rc = spot_jw_close(&jw, err);
    spot_xmemory_close(memory);
    spot_buf_add(out, text, n);
    free(text);
    return rc;
}

/* A tokenizer.json out of vocab.json and merges.txt. */
static int join_files(const char *dir, struct spot_buf *out, struct spot_err *err)
{
    char *const vocab = spot_xpath(dir, "vocab.json"), *const merges =
                                                           spot_xpath(dir, "merges.txt");
    struct spot_buf lines = { 0 };
    struct spot_json_doc doc;
    int rc = read_file(merges, &lines, err);

    if (!rc)
        rc = spot_err_set(err, SPOT_ESYS, "cannot open '%s'", merges);
    if (rc > 0 && !(rc = spot_json_load_path(&doc, vocab, err))) {
        rc = join_text(doc.root, &lines, out, err);
        spot_json_release(&doc);
    }
    spot_buf_release(&lines);
    free(vocab);
    free(merges);
    return rc;
}

static int read_tokenizer(struct spot_model_dir *d, const char *path, struct spot_err *err)
{
    const char *const slash = strrchr(path, '/');
    struct stat st;
    const bool is_dir = !stat(path, &st) && S_ISDIR(st.st_mode);
    char *const dir = spot_xstrdup(is_dir || slash ? path : ".");
    char *file;
    int rc;

    if (!is_dir && slash)
        dir[slash == path ? 1 : slash - path] = '\0';
    file = is_dir ? spot_xpath(dir, "tokenizer.json") : spot_xstrdup(path);
    rc = read_file(file, &d->tokenizer, err);
    if (!rc && is_dir)
        rc = join_files(dir, &d->tokenizer, err);
    free(file);
    for (size_t i = 0; i < BESIDE && rc >= 0; i++) {
        file = spot_xpath(dir, beside[i]);
        rc = read_file(file, &d->beside[i], err);
        free(file);
    }
    free(dir);
    d->has_tokenizer = true;
    return rc < 0 ? -1 : 0;
}

/* --- before ------------------------------------------------------------------- */

/* Check for files that readers would use in place of our weights, or that prevent writing them. */
static int check_place(const struct spot_model_dir *d, struct spot_err *err)
{
    char *const index = spot_xpath(d->path, "model.safetensors.index.json"),
                *const weights = spot_xpath(d->path, "model.safetensors");
    struct spot_out probe;
    int rc;

    if (!access(index, F_OK))
        rc = spot_err_set(err, SPOT_EUSAGE,
                          "'%s' holds a model in several files (model.safetensors.index.json); "
                          "save to another directory",
                          d->path);
    else if (!(rc = spot_out_open_own(&probe, weights, err)))
        spot_out_discard(&probe);
    free(index);
    free(weights);
    return rc;
}

struct spot_model_dir *spot_model_dir_open(const char *path, const char *tokenizer,
                                           struct spot_err *err)
{
    struct spot_model_dir *const d = spot_xcalloc(1, sizeof(*d));
    size_t n = strlen(path);

    d->path = spot_xstrdup(path);
    while (n > 1 && d->path[n - 1] == '/')
        d->path[--n] = '\0';
    d->is_made = !mkdir(d->path, 0777);
    if (!d->is_made && errno != EEXIST)
        spot_err_sys(err, "cannot make '%s'", path);
    else if (!check_place(d, err) && (!tokenizer || !read_tokenizer(d, tokenizer, err)))
        return d;
    spot_model_dir_close(d);
    return NULL;
}

void spot_model_dir_close(struct spot_model_dir *d)
{
    if (!d)
        return;
    if (d->is_made)
        (void)rmdir(d->path);
    spot_buf_release(&d->tokenizer);
    for (size_t i = 0; i < BESIDE; i++)
        spot_buf_release(&d->beside[i]);
    free(d->path);
    free(d);
}

/* --- after -------------------------------------------------------------------- */

static int write_file(const struct spot_model_dir *d, const char *name, const struct spot_buf *text,
                      struct spot_err *err)
{
    char *const path = spot_xpath(d->path, name);
    struct spot_out out;
    int rc = spot_out_open_own(&out, path, err);

    free(path);
    if (rc)
        return -1;
    fwrite(text->data, 1, text->n, out.file);
    return spot_out_commit(&out, err);
}

/* A document begun in `name`; NULL with *err. */
static int begin_document(const struct spot_model_dir *d, const char *name, struct spot_out *out,
                          struct spot_jw *jw, struct spot_err *err)
{
    char *const path = spot_xpath(d->path, name);
    const int rc = spot_out_open_own(out, path, err);

    free(path);
    if (rc)
        return -1;
    spot_jw_init(jw, out->file, true);
    spot_jw_object(jw, NULL);
    return 0;
}

static int end_document(struct spot_out *out, struct spot_jw *jw, struct spot_err *err)
{
    spot_jw_end(jw);
    return spot_out_finish(out, spot_jw_close(jw, err), err);
}

/* Write the end-of-text token, since the library's default is that of another model. */
static void put_ends(struct spot_jw *jw, int64_t end)
{
    static const char *const key[] = { "bos_token_id", "eos_token_id" };

    spot_jw_null(jw, "pad_token_id");
    for (size_t i = 0; i < sizeof(key) / sizeof(key[0]); i++)
        if (end < 0)
            spot_jw_null(jw, key[i]);
        else
            spot_jw_int(jw, key[i], end);
}

static int write_config(const struct spot_model_dir *d, const struct spot_shape *shape, int64_t end,
                        bool is_of_bytes, enum spot_dtype dtype, struct spot_err *err)
{
    struct spot_out out;
    struct spot_jw jw;

    if (begin_document(d, "config.json", &out, &jw, err))
        return -1;
    spot_hf_config_put(&jw, shape);
    put_ends(&jw, end);
    spot_jw_str(&jw, "torch_dtype", dtype == SPOT_DT_F32 ? "float32" : "bfloat16");
    if (is_of_bytes)
        spot_jw_str(&jw, "spot_tokens", "bytes");
    if (shape->n_shard != spot_hf_config_shards(shape))
        spot_jw_int(&jw, "spot_shards", shape->n_shard); /* the bits depend on it */
    return end_document(&out, &jw, err);
}

static int write_tokenizer_config(const struct spot_model_dir *d, int64_t seq, int64_t end,
                                  struct spot_err *err)
{
    static const char *const key[] = { "bos_token", "eos_token", "unk_token" };
    struct spot_out out;
    struct spot_jw jw;

    if (d->beside[0].n)
        return write_file(d, beside[0], &d->beside[0], err);
    if (begin_document(d, beside[0], &out, &jw, err))
        return -1;
    spot_jw_str(&jw, "tokenizer_class", "PreTrainedTokenizerFast");
    spot_jw_int(&jw, "model_max_length", seq);
    spot_jw_bool(&jw, "clean_up_tokenization_spaces", false);
    for (size_t i = 0; end >= 0 && !d->beside[1].n && i < sizeof(key) / sizeof(key[0]); i++)
        spot_jw_str(&jw, key[i], end_of_text);
    return end_document(&out, &jw, err);
}

static int write_tokenizer(const struct spot_model_dir *d, int64_t seq, int64_t end,
                           struct spot_err *err)
{
    if (write_file(d, "tokenizer.json", &d->tokenizer, err) ||
        write_tokenizer_config(d, seq, end, err))
        return -1;
    for (size_t i = 1; i < BESIDE; i++)
        if (d->beside[i].n && write_file(d, beside[i], &d->beside[i], err))
            return -1;
    return 0;
}

int spot_model_dir_begin(const struct spot_model_dir *d, const struct spot_shape *shape,
                         const struct spot_bpe *bpe, bool is_of_bytes, enum spot_dtype dtype,
                         struct spot_weights_out *weights, struct spot_err *err)
{
    const int64_t end = bpe ? spot_bpe_find(bpe, end_of_text) : -1;
    char *path;
    int rc;

    if (write_config(d, shape, end, is_of_bytes, dtype, err) ||
        (d->has_tokenizer && write_tokenizer(d, shape->seq, end, err)))
        return -1;
    if (!weights)
        return 0;
    path = spot_xpath(d->path, "model.safetensors");
    rc = spot_weights_out_open(weights, path, shape, dtype, err);
    free(path);
    return rc;
}

int spot_model_dir_write(const struct spot_model_dir *d, const struct spot_shape *shape,
                         const struct spot_bpe *bpe, bool is_of_bytes,
                         struct spot_bundle *const *bundle, enum spot_dtype dtype,
                         struct spot_err *err)
{
    struct spot_weights_out weights;

    if (spot_model_dir_begin(d, shape, bpe, is_of_bytes, dtype, &weights, err))
        return -1;
    for (int b = 0; b < spot_shape_bundles(shape); b++)
        spot_weights_out_add(&weights, bundle[b]);
    return spot_weights_out_finish(&weights, 0, err);
}
