/* SPDX-License-Identifier: MIT */
/* Makes tokenizer.json and tokenizer_config.json. A GGUF file has the tokens, their kinds, and
 * merges or (SentencePiece) scores, and the name of a rule for cutting text. */
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "weights/gguf_docs.h"

/* tokenizer.ggml.token_type */
enum kind { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct vocabulary {
    const struct spot_gguf *g;
    struct spot_gguf_text *token; /* [n] */
    double *kind, *score;         /* [n]; NULL: none */
    size_t n;
    uint32_t *slot; /* hash table: id + 1, 0: empty slot */
    size_t n_slot;
};

static int fail(const struct spot_gguf *g, struct spot_err *err, const char *what)
{
    return spot_err_set(err, SPOT_EDATA, "%s: %s", g->path, what);
}

static void release(struct vocabulary *v)
{
    free(v->token);
    free(v->kind);
    free(v->score);
    free(v->slot);
}

/* The slot of a token, or the free one where it would be. */
static size_t place(const struct vocabulary *v, const char *text, size_t n)
{
    size_t at = (size_t)spot_hash64(text, n) & (v->n_slot - 1);

    while (v->slot[at] &&
           (v->token[v->slot[at] - 1].n != n || memcmp(v->token[v->slot[at] - 1].at, text, n) != 0))
        at = (at + 1) & (v->n_slot - 1);
    return at;
}

/* The id of a token; -1: there is no such token. */
static int64_t find(const struct vocabulary *v, const char *text, size_t n)
{
    return (int64_t)v->slot[place(v, text, n)] - 1;
}

static int read_vocabulary(const struct spot_gguf *g, struct vocabulary *v, struct spot_err *err)
{
    *v = (struct vocabulary){ .g = g, .n = spot_gguf_array(g, "tokenizer.ggml.tokens") };
    v->token = spot_gguf_texts(g, "tokenizer.ggml.tokens");
    if (!v->token || !v->n || v->n > 1 << 24)
        return fail(g, err, "tokenizer.ggml.tokens is missing");
    if (spot_gguf_array(g, "tokenizer.ggml.token_type") == v->n)
        v->kind = spot_gguf_reals(g, "tokenizer.ggml.token_type");
    if (spot_gguf_array(g, "tokenizer.ggml.scores") == v->n)
        v->score = spot_gguf_reals(g, "tokenizer.ggml.scores");
    for (v->n_slot = 16; v->n_slot < 2 * v->n;)
        v->n_slot *= 2;
    v->slot = spot_xcalloc(v->n_slot, sizeof(*v->slot));
    for (size_t i = 0; i < v->n; i++) {
        const size_t at = place(v, v->token[i].at, v->token[i].n);

        if (!v->slot[at])
            v->slot[at] = (uint32_t)i + 1;
    }
    return 0;
}

static enum kind kind_of(const struct vocabulary *v, size_t i)
{
    return v->kind ? (enum kind)v->kind[i] : NORMAL;
}

/* --- merges out of scores ------------------------------------------------ */

struct merge {
    uint32_t left, right, whole;
    double score;
    size_t n_left, n_right; /* characters */
};

static size_t characters(struct spot_gguf_text t)
{
    size_t n = 0;

    for (size_t i = 0; i < t.n; i++)
        n += (t.at[i] & 0xC0) != 0x80;
    return n;
}

/* The best first: by score, then the longer left half, the longer right half, then by ids. */
static int better(const void *a, const void *b)
{
    const struct merge *const x = a, *const y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->n_left != y->n_left)
        return x->n_left > y->n_left ? -1 : 1;
    if (x->n_right != y->n_right)
        return x->n_right > y->n_right ? -1 : 1;
    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

/* SentencePiece merges the adjacent pair with the best score, so every division of a token into two
 * tokens is a merge. */
static struct merge *merges_of(const struct vocabulary *v, size_t *n_merge)
{
    struct merge *merge = NULL;
    size_t n = 0, cap = 0;

    for (size_t i = 0; i < v->n; i++) {
        const struct spot_gguf_text t = v->token[i];

        for (size_t cut = 1; kind_of(v, i) == NORMAL && cut < t.n; cut++) {
            const int64_t left = (t.at[cut] & 0xC0) == 0x80 ? -1 : find(v, t.at, cut);
            const int64_t right = left < 0 ? -1 : find(v, t.at + cut, t.n - cut);

            if (right < 0 || kind_of(v, (size_t)left) != NORMAL ||
                kind_of(v, (size_t)right) != NORMAL)
                continue;
            merge = spot_xgrow(merge, &cap, n + 1, sizeof(*merge));
            merge[n++] = (struct merge){ (uint32_t)left,
                                         (uint32_t)right,
                                         (uint32_t)i,
                                         v->score ? v->score[i] : -(double)i,
                                         characters(v->token[left]),
                                         characters(v->token[right]) };
        }
    }
    if (n)
        qsort(merge, n, sizeof(*merge), better);
    *n_merge = n;
    return merge;
}

/* --- the document -------------------------------------------------------- */

static void put_vocabulary(const struct vocabulary *v, struct spot_jw *jw)
{
    spot_jw_object(jw, "vocab");
    for (size_t i = 0; i < v->n; i++) {
        char *const key = spot_xcalloc(v->token[i].n + 1, 1);

        memcpy(key, v->token[i].at, v->token[i].n);
        if (find(v, v->token[i].at, v->token[i].n) == (int64_t)i)
            spot_jw_int(jw, key, (int64_t)i);
        free(key);
    }
    spot_jw_end(jw);
}

static void put_pair(struct spot_jw *jw, struct spot_gguf_text left, struct spot_gguf_text right)
{
    spot_jw_array(jw, NULL);
    spot_jw_text(jw, NULL, left.at, left.n);
    spot_jw_text(jw, NULL, right.at, right.n);
    spot_jw_end(jw);
}

static int put_merges(const struct vocabulary *v, struct spot_jw *jw, struct spot_err *err)
{
    const size_t n = spot_gguf_array(v->g, "tokenizer.ggml.merges");
    struct spot_gguf_text *const pair = spot_gguf_texts(v->g, "tokenizer.ggml.merges");

    if (!pair)
        return fail(v->g, err, "tokenizer.ggml.merges is missing");
    spot_jw_array(jw, "merges");
    for (size_t i = 0; i < n; i++) {
        const char *const blank = pair[i].n ? memchr(pair[i].at + 1, ' ', pair[i].n - 1) : NULL;
        const size_t cut = blank ? (size_t)(blank - pair[i].at) : 0;

        if (cut)
            put_pair(jw, (struct spot_gguf_text){ pair[i].at, cut },
                     (struct spot_gguf_text){ blank + 1, pair[i].n - cut - 1 });
    }
    spot_jw_end(jw);
    free(pair);
    return 0;
}

static void put_merges_of_scores(const struct vocabulary *v, struct spot_jw *jw)
{
    size_t n;
    struct merge *const merge = merges_of(v, &n);

    spot_jw_array(jw, "merges");
    for (size_t i = 0; i < n; i++)
        put_pair(jw, v->token[merge[i].left], v->token[merge[i].right]);
    spot_jw_end(jw);
    free(merge);
}

/* Writes the tokens that are searched for in text literally. */
static void put_added(const struct vocabulary *v, struct spot_jw *jw)
{
    spot_jw_array(jw, "added_tokens");
    for (size_t i = 0; i < v->n; i++) {
        const enum kind kind = kind_of(v, i);

        if (kind != CONTROL && kind != USER_DEFINED && kind != UNKNOWN)
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "id", (int64_t)i);
        spot_jw_text(jw, "content", v->token[i].at, v->token[i].n);
        spot_jw_bool(jw, "single_word", false);
        spot_jw_bool(jw, "lstrip", false);
        spot_jw_bool(jw, "rstrip", false);
        spot_jw_bool(jw, "normalized", false);
        spot_jw_bool(jw, "special", kind != USER_DEFINED);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* How text is cut, by the name in tokenizer.ggml.pre, as in src/llama-vocab.cpp of llama.cpp. */
#define GPT2_SPLIT \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3_SPLIT(digits)                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct cut {
    const char *name, *split;
    bool by_digit, is_composed, ignores_merges, begins;
} cuts[] = {
    { .name = "gpt-2", .split = GPT2_SPLIT },
    { .name = "default", .split = GPT2_SPLIT },
    { .name = "olmo", .split = GPT2_SPLIT },
    { .name = "llama-bpe",
      .split = LLAMA3_SPLIT("\\p{N}{1,3}"),
      .ignores_merges = true,
      .begins = true },
    { .name = "dbrx", .split = LLAMA3_SPLIT("\\p{N}{1,3}") },
    { .name = "smaug-bpe", .split = LLAMA3_SPLIT("\\p{N}{1,3}") },
    { .name = "qwen2", .split = LLAMA3_SPLIT("\\p{N}"), .is_composed = true },
    { .name = "smollm", .split = GPT2_SPLIT, .by_digit = true },
    { .name = "starcoder", .split = GPT2_SPLIT, .by_digit = true },
    { .name = "refact", .split = GPT2_SPLIT, .by_digit = true },
};

static const struct cut *cut_of(const struct spot_gguf *g, struct spot_err *err)
{
    struct spot_gguf_text name = { "default", 7 };

    spot_gguf_text(g, "tokenizer.ggml.pre", &name);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++)
        if (name.n == strlen(cuts[i].name) && !memcmp(name.at, cuts[i].name, name.n))
            return &cuts[i];
    spot_err_set(err, SPOT_EDATA,
                 "%s: tokenizer.ggml.pre is '%.*s', which is not known here: put tokenizer.json of "
                 "the model into the directory instead",
                 g->path, (int)(name.n < 80 ? name.n : 80), name.at);
    return NULL;
}

static void put_step(struct spot_jw *jw, const char *type, const char *key, const char *value)
{
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "type", type);
    if (key)
        spot_jw_str(jw, key, value);
    spot_jw_end(jw);
}

static void put_replace(struct spot_jw *jw, const char *key, const char *from, const char *to)
{
    spot_jw_object(jw, key);
    spot_jw_str(jw, "type", "Replace");
    spot_jw_object(jw, "pattern");
    spot_jw_str(jw, "String", from);
    spot_jw_end(jw);
    spot_jw_str(jw, "content", to);
    spot_jw_end(jw);
}

static void begin_steps(struct spot_jw *jw, const char *key, const char *list)
{
    spot_jw_object(jw, key);
    spot_jw_str(jw, "type", "Sequence");
    spot_jw_array(jw, list);
}

static void end_steps(struct spot_jw *jw)
{
    spot_jw_end(jw);
    spot_jw_end(jw);
}

static void put_cut(struct spot_jw *jw, const struct cut *cut)
{
    if (cut->is_composed) {
        spot_jw_object(jw, "normalizer");
        spot_jw_str(jw, "type", "NFC");
        spot_jw_end(jw);
    }
    begin_steps(jw, "pre_tokenizer", "pretokenizers");
    if (cut->by_digit) {
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "type", "Digits");
        spot_jw_bool(jw, "individual_digits", true);
        spot_jw_end(jw);
    }
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "type", "Split");
    spot_jw_object(jw, "pattern");
    spot_jw_str(jw, "Regex", cut->split);
    spot_jw_end(jw);
    spot_jw_str(jw, "behavior", "Isolated");
    spot_jw_bool(jw, "invert", false);
    spot_jw_end(jw);
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "type", "ByteLevel");
    spot_jw_bool(jw, "add_prefix_space", false);
    spot_jw_bool(jw, "trim_offsets", true);
    spot_jw_bool(jw, "use_regex", false);
    spot_jw_end(jw);
    end_steps(jw);
    spot_jw_object(jw, "decoder");
    spot_jw_str(jw, "type", "ByteLevel");
    spot_jw_end(jw);
}

/* U+2581, SentencePiece's blank */
static const char low_line[] = "\xe2\x96\x81";

static void put_pieces(struct spot_jw *jw, bool has_prefix)
{
    if (has_prefix) {
        begin_steps(jw, "normalizer", "normalizers");
        put_step(jw, "Prepend", "prepend", low_line);
        put_replace(jw, NULL, " ", low_line);
        end_steps(jw);
    } else {
        put_replace(jw, "normalizer", " ", low_line);
    }
    begin_steps(jw, "decoder", "decoders");
    put_replace(jw, NULL, low_line, " ");
    put_step(jw, "ByteFallback", NULL, NULL);
    put_step(jw, "Fuse", NULL, NULL);
    if (has_prefix) {
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "type", "Strip");
        spot_jw_str(jw, "content", " ");
        spot_jw_int(jw, "start", 1);
        spot_jw_int(jw, "stop", 0);
        spot_jw_end(jw);
    }
    end_steps(jw);
}

/* Writes a template for a text, or for a pair of texts, each after the token that begins it. */
static void put_texts(struct spot_jw *jw, const char *key, const char *begin, int n_text)
{
    static const char *const text[] = { "A", "B" };

    spot_jw_array(jw, key);
    for (int i = 0; i < 2 * n_text; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_object(jw, i % 2 ? "Sequence" : "SpecialToken");
        spot_jw_str(jw, "id", i % 2 ? text[i / 2] : begin);
        spot_jw_int(jw, "type_id", i / 2);
        spot_jw_end(jw);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* Writes the token that begins a text, if there is one. */
static void put_begin(const struct vocabulary *v, struct spot_jw *jw, bool begins)
{
    int64_t id, is_told;

    if (spot_gguf_int(v->g, "tokenizer.ggml.add_bos_token", &is_told))
        begins = is_told != 0;
    if (!begins || !spot_gguf_int(v->g, "tokenizer.ggml.bos_token_id", &id) || id < 0 ||
        (size_t)id >= v->n)
        return;
    spot_jw_object(jw, "post_processor");
    spot_jw_str(jw, "type", "TemplateProcessing");
    char *const key = spot_xcalloc(v->token[id].n + 1, 1);
    memcpy(key, v->token[id].at, v->token[id].n);
    put_texts(jw, "single", key, 1);
    put_texts(jw, "pair", key, 2);
    spot_jw_object(jw, "special_tokens");
    spot_jw_object(jw, key);
    spot_jw_str(jw, "id", key);
    spot_jw_ints(jw, "ids", &id, 1);
    spot_jw_array(jw, "tokens");
    spot_jw_str(jw, NULL, key);
    spot_jw_end(jw);
    spot_jw_end(jw);
    spot_jw_end(jw);
    spot_jw_end(jw);
    free(key);
}

static void put_unknown(const struct vocabulary *v, struct spot_jw *jw)
{
    for (size_t i = 0; i < v->n; i++)
        if (kind_of(v, i) == UNKNOWN) {
            spot_jw_text(jw, "unk_token", v->token[i].at, v->token[i].n);
            return;
        }
    spot_jw_null(jw, "unk_token");
}

static int put_document(const struct vocabulary *v, struct spot_jw *jw, struct spot_err *err)
{
    struct spot_gguf_text model = { 0 };
    const struct cut *cut = NULL;
    int64_t has_prefix = 1;
    bool is_pieces;

    spot_gguf_text(v->g, "tokenizer.ggml.model", &model);
    is_pieces = model.n == 5 && !memcmp(model.at, "llama", 5);
    if (!is_pieces && (model.n != 4 || memcmp(model.at, "gpt2", 4) != 0))
        return spot_err_set(err, SPOT_EDATA,
                            "%s: tokenizer.ggml.model is '%.*s', expected gpt2 or llama",
                            v->g->path, (int)(model.n < 80 ? model.n : 80), model.at);
    if (!is_pieces && !(cut = cut_of(v->g, err)))
        return -1;
    spot_gguf_int(v->g, "tokenizer.ggml.add_space_prefix", &has_prefix);
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "version", "1.0");
    put_added(v, jw);
    if (is_pieces)
        put_pieces(jw, has_prefix != 0);
    else
        put_cut(jw, cut);
    put_begin(v, jw, is_pieces || cut->begins);
    spot_jw_object(jw, "model");
    spot_jw_str(jw, "type", "BPE");
    put_unknown(v, jw);
    spot_jw_bool(jw, "fuse_unk", is_pieces);
    spot_jw_bool(jw, "byte_fallback", is_pieces);
    spot_jw_bool(jw, "ignore_merges", cut && cut->ignores_merges);
    put_vocabulary(v, jw);
    if (is_pieces)
        put_merges_of_scores(v, jw);
    else if (put_merges(v, jw, err))
        return -1;
    spot_jw_end(jw);
    spot_jw_end(jw);
    return 0;
}

int spot_gguf_tokenizer(const struct spot_gguf *g, struct spot_jw *jw, struct spot_err *err)
{
    struct vocabulary v;
    const int rc = read_vocabulary(g, &v, err) || put_document(&v, jw, err) ? -1 : 0;

    release(&v);
    return rc;
}

int spot_gguf_tokenizer_config(const struct spot_gguf *g, struct spot_jw *jw, struct spot_err *err)
{
    static const char *const role[][2] = {
        { "bos_token", "tokenizer.ggml.bos_token_id" },
        { "eos_token", "tokenizer.ggml.eos_token_id" },
        { "unk_token", "tokenizer.ggml.unknown_token_id" },
        { "pad_token", "tokenizer.ggml.padding_token_id" },
    };
    const size_t n = spot_gguf_array(g, "tokenizer.ggml.tokens");
    struct spot_gguf_text *const token = spot_gguf_texts(g, "tokenizer.ggml.tokens");

    if (!token)
        return fail(g, err, "tokenizer.ggml.tokens is missing");
    spot_jw_object(jw, NULL);
    for (size_t i = 0; i < sizeof(role) / sizeof(role[0]); i++) {
        int64_t id;

        if (spot_gguf_int(g, role[i][1], &id) && id >= 0 && (size_t)id < n)
            spot_jw_text(jw, role[i][0], token[id].at, token[id].n);
    }
    spot_jw_end(jw);
    free(token);
    return 0;
}
