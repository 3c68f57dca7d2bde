/* SPDX-License-Identifier: MIT */
/* The files of a tokenizer: vocab.json and merges.txt, or tokenizer.json. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/json.h"
#include "common/unpack.h"
#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/bpe_state.h"

/* --- bytes written as characters ---------------------------------------------
 *
 * To make each token printable, GPT-2 writes byte b as the character b if that is printable and not
 * a space (33..126, 161..172, 174..255), and the other bytes, in order, as characters from 256
 * on. */

static uint32_t char_of_byte(int byte)
{
    uint32_t other = 256;

    for (int b = 0; b <= byte; b++) {
        const bool is_itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;

        if (b == byte)
            return is_itself ? (uint32_t)b : other;
        other += !is_itself;
    }
    return 0; /* not reached: byte is at least 0 */
}

/* --- the vocabulary -------------------------------------------------------------- */

static int add_token(struct spot_bpe_loader *l, const char *pointer, int64_t id, const void *bytes,
                     size_t n, struct spot_err *err)
{
    struct spot_bpe *const bpe = l->bpe;

    if (id < 0 || id >= SPOT_BPE_VOCAB_MAX)
        return spot_json_fail(l->doc, pointer, err, "id %" PRId64 ", expected 0 to %d", id,
                              SPOT_BPE_VOCAB_MAX - 1);
    if ((size_t)id >= bpe->vocab) {
        const size_t had = bpe->vocab;

        bpe->vocab = (size_t)id + 1;
        bpe->token = spot_xgrow(bpe->token, &bpe->vocab_cap, bpe->vocab, sizeof(*bpe->token));
        memset(bpe->token + had, 0, (bpe->vocab - had) * sizeof(*bpe->token));
    }
    if (bpe->token[id].is_there)
        return spot_json_fail(l->doc, pointer, err, "two tokens have the id %" PRId64, id);
    bpe->token[id] = (struct spot_bpe_token){ bpe->text.n, (uint32_t)n, true, false, false };
    spot_buf_add(&bpe->text, bytes, n);
    return 0;
}

/* The bytes that the characters of `name` represent, [strlen(name)]; SIZE_MAX if a character
 * represents none, so that the name is used unchanged. */
static size_t bytes_of_name(const struct spot_bpe_loader *l, const char *name, uint8_t *bytes)
{
    size_t n = 0, left = strlen(name);

    while (left) {
        uint32_t code;
        const size_t length = spot_utf8_char(name, left, &code);

        if (code >= sizeof(l->byte_of) / sizeof(l->byte_of[0]) || l->byte_of[code] < 0)
            return SIZE_MAX;
        bytes[n++] = (uint8_t)l->byte_of[code];
        name += length;
        left -= length;
    }
    return n;
}

int64_t spot_bpe_id_of(const struct spot_bpe_loader *l, const char *name)
{
    const struct spot_json_value *const id = spot_json_get(l->vocab, name);
    uint32_t at;

    if (l->vocab)
        return id ? spot_json_integer(id) : -1;
    at = spot_bpe_by_bytes(l->bpe, name, strlen(name));
    return at == UINT32_MAX ? -1 : (int64_t)at;
}

/* Finds the token of each byte. */
static int find_bytes(struct spot_bpe_loader *l, const char *pointer, struct spot_err *err)
{
    for (int b = 0; b < 256; b++) {
        char byte[SPOT_UTF8_MAX + 1] = "";
        const struct spot_json_value *id;

        spot_utf8_put(char_of_byte(b), byte);
        id = spot_json_get(l->vocab, byte);
        if (!id)
            return spot_json_fail(l->doc, pointer, err,
                                  "no token '%s' for the byte 0x%02X: not a byte-level vocabulary",
                                  byte, (unsigned)b);
        l->bpe->byte_id[b] = (uint32_t)spot_json_integer(id);
    }
    return 0;
}

/* Finds tokens such as "<0x0A>", if there are any. */
static int find_fallbacks(struct spot_bpe_loader *l)
{
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        int64_t id;

        snprintf(name, sizeof(name), "<0x%02X>", b);
        id = spot_bpe_id_of(l, name);
        l->bpe->byte_id[b] = id < 0 || !l->falls_back ? UINT32_MAX : (uint32_t)id;
    }
    return 0;
}

static int add_vocab(struct spot_bpe_loader *l, const char *pointer, struct spot_err *err)
{
    const char *name;
    struct spot_json_value *id;

    if (spot_json_object_size(l->vocab) > SPOT_BPE_VOCAB_MAX)
        return spot_json_fail(l->doc, pointer, err, "%zu tokens, the limit is %d",
                              spot_json_object_size(l->vocab), SPOT_BPE_VOCAB_MAX);
    spot_json_object_foreach(l->vocab, name, id)
    {
        uint8_t *const bytes = spot_xcalloc(strlen(name) + 1, 1);
        size_t n = l->bpe->is_bytes ? bytes_of_name(l, name, bytes) : SIZE_MAX;
        int rc;

        if (n == SIZE_MAX) {
            n = strlen(name);
            memcpy(bytes, name, n);
        }
        rc = spot_json_is_integer(id) ? add_token(l, pointer, spot_json_integer(id), bytes, n, err)
                                      : spot_json_fail(l->doc, pointer, err,
                                                       "the id of '%.40s' is not an integer", name);
        free(bytes);
        if (rc)
            return -1;
    }
    spot_bpe_index(l->bpe);
    return l->bpe->is_bytes ? find_bytes(l, pointer, err) : find_fallbacks(l);
}

/* [["token", score], ...]; the id is the index. */
static int add_scored(struct spot_bpe_loader *l, const struct spot_json_value *list,
                      struct spot_err *err)
{
    struct spot_bpe *const bpe = l->bpe;
    const struct spot_json_value *one;
    size_t i;

    bpe->score = spot_xcalloc(spot_json_array_size(list) + 1, sizeof(*bpe->score));
    spot_json_array_foreach(list, i, one)
    {
        const char *const name = spot_json_text(spot_json_entry(one, 0));
        const struct spot_json_value *const score = spot_json_entry(one, 1);
        char pointer[64];

        snprintf(pointer, sizeof(pointer), "/model/vocab/%zu", i);
        if (!name || !spot_json_is_number(score))
            return spot_json_fail(l->doc, pointer, err, "expected [\"token\", score]");
        if (add_token(l, pointer, (int64_t)i, name, strlen(name), err))
            return -1;
        bpe->score[i] = spot_json_number(score);
        if (bpe->score[i] < bpe->least_score)
            bpe->least_score = bpe->score[i];
    }
    spot_bpe_index(bpe);
    return find_fallbacks(l);
}

/* --- merges ------------------------------------------------------------------------ */

static void make_merge_table(struct spot_bpe *bpe, size_t n)
{
    size_t size = 16;

    while (size < 2 * n)
        size *= 2;
    bpe->merge = spot_xcalloc(size, sizeof(*bpe->merge));
    bpe->merge_mask = size - 1;
    for (size_t i = 0; i < size; i++)
        bpe->merge[i].pair = UINT64_MAX;
}

/* Adds a merge. Returns what is wrong with it, NULL: nothing. */
static const char *add_merge(struct spot_bpe_loader *l, const char *left, size_t n_left,
                             const char *right, size_t n_right, uint32_t rank)
{
    char *const name = spot_xcalloc(n_left + n_right + 1, 1);
    const struct spot_json_value *a, *b, *ab;
    struct spot_bpe_merge *place;
    uint32_t id[2];

    memcpy(name, left, n_left);
    a = spot_json_get(l->vocab, name);
    memcpy(name + n_left, right, n_right);
    b = spot_json_get(l->vocab, name + n_left);
    ab = spot_json_get(l->vocab, name);
    free(name);
    if (!a || !b)
        return a ? "its right token is not in the vocabulary"
                 : "its left token is not in the vocabulary";
    if (!ab)
        return "what it makes is not in the vocabulary";
    id[0] = (uint32_t)spot_json_integer(a);
    id[1] = (uint32_t)spot_json_integer(b);
    place = spot_bpe_place(l->bpe, id[0], id[1]);
    if (place->pair != UINT64_MAX)
        return "it is there twice";
    *place = (struct spot_bpe_merge){ spot_bpe_pair_key(id[0], id[1]), rank,
                                      (uint32_t)spot_json_integer(ab) };
    return NULL;
}

/* The space in "left right"; NULL unless there is exactly one between. */
static const char *parting(const char *line, size_t n)
{
    const char *const space = memchr(line, ' ', n);
    const size_t left = space ? (size_t)(space - line) : 0;

    return !space || left == 0 || left + 1 == n || memchr(space + 1, ' ', n - left - 1) ? NULL
                                                                                        : space;
}

static int read_merges_text(struct spot_bpe_loader *l, const char *text, size_t n,
                            const char *source, struct spot_err *err)
{
    uint32_t rank = 0;
    size_t line = 0, n_line = 1;

    for (size_t i = 0; i < n; i++)
        n_line += text[i] == '\n';
    if (n_line > SPOT_BPE_MERGES_MAX)
        return spot_err_set(err, SPOT_EDATA, "%s: %zu lines, the limit is %d", source, n_line,
                            SPOT_BPE_MERGES_MAX);
    if (n && memchr(text, '\0', n))
        return spot_err_set(err, SPOT_EDATA, "%s: a NUL byte, expected text", source);
    make_merge_table(l->bpe, n_line);
    while (n) {
        const char *const end = memchr(text, '\n', n);
        const size_t whole = end ? (size_t)(end - text) + 1 : n, length = whole - (end != NULL);
        const char *const space = parting(text, length);
        const char *wrong = NULL;

        line++;
        if (space && !(line == 1 && length > 8 && !memcmp(text, "#version", 8)))
            wrong = add_merge(l, text, (size_t)(space - text), space + 1,
                              length - (size_t)(space - text) - 1, rank++);
        else if (length && !(line == 1 && text[0] == '#'))
            wrong = "expected two tokens and one space between";
        if (wrong)
            return spot_err_at(err, source, line, 0, NULL, "'%.*s': %s",
                               length < 60 ? (int)length : 60, text, wrong);
        text += whole;
        n -= whole;
    }
    return 0;
}

static int read_merges_json(struct spot_bpe_loader *l, const struct spot_json_value *merges,
                            struct spot_err *err)
{
    const struct spot_json_value *merge;
    size_t i;

    make_merge_table(l->bpe, spot_json_array_size(merges));
    spot_json_array_foreach(merges, i, merge)
    {
        const char *left = spot_json_text(spot_json_entry(merge, 0)),
                   *right = spot_json_text(spot_json_entry(merge, 1)), *wrong;
        size_t n_left = left ? strlen(left) : 0;
        char pointer[64];

        if (spot_json_is_string(merge)) {
            left = spot_json_text(merge);
            right = parting(left, strlen(left));
            n_left = right ? (size_t)(right++ - left) : 0;
        }
        wrong = left && right && spot_json_array_size(merge) <= 2
                    ? add_merge(l, left, n_left, right, strlen(right), (uint32_t)i)
                    : "expected \"left right\" or [\"left\", \"right\"]";
        snprintf(pointer, sizeof(pointer), "/model/merges/%zu", i);
        if (wrong)
            return spot_json_fail(l->doc, pointer, err, "%s", wrong);
    }
    return 0;
}

/* --- tokenizer.json ------------------------------------------------------------------ */

int spot_bpe_add_named(struct spot_bpe_loader *l, const char *pointer, int64_t id, const char *name,
                       bool is_special, const struct spot_json_value *flags, struct spot_err *err)
{
    struct spot_bpe *const bpe = l->bpe;
    const int64_t known = spot_bpe_id_of(l, name);
    const size_t n = strlen(name);
    struct spot_bpe_token *token;

    if (known >= 0 && known != id)
        return spot_json_fail(l->doc, pointer, err,
                              "'%.40s' has the id %" PRId64 " here and %" PRId64
                              " in the vocabulary",
                              name, id, known);
    if (known < 0 && add_token(l, pointer, id, name, n, err))
        return -1;
    if (!n) /* an empty name cannot occur in a text */
        return 0;
    token = &bpe->token[id];
    if (token->is_added)
        return spot_json_fail(l->doc, pointer, err, "two added tokens have the id %" PRId64, id);
    token->is_added = true;
    bpe->added = spot_xgrow(bpe->added, &bpe->added_cap, bpe->n_added + 1, sizeof(*bpe->added));
    bpe->added[bpe->n_added++] = (struct spot_bpe_added){
        .id = (uint32_t)id,
        .is_special = is_special,
        .is_beside = known < 0,
        .is_normalized = spot_json_is_true(spot_json_get(flags, "normalized")),
        .is_word = spot_json_is_true(spot_json_get(flags, "single_word")),
        .takes_left = spot_json_is_true(spot_json_get(flags, "lstrip")),
        .takes_right = spot_json_is_true(spot_json_get(flags, "rstrip")),
        .name = spot_xstrdup(name),
    };
    /* the name is found in normalized text, so a changing normalizer prevents exact encoding */
    if (bpe->added[bpe->n_added - 1].is_normalized && bpe->n_normal)
        bpe->is_marked = false;
    return 0;
}

/* Added tokens, written literally; tokens of the vocabulary may occur here again. */
static int add_added(struct spot_bpe_loader *l, struct spot_err *err)
{
    const struct spot_json_value *list, *added;
    size_t i;

    if (spot_json_array(l->doc, l->doc->root, "", "added_tokens", false, SPOT_BPE_VOCAB_MAX, &list,
                        err))
        return -1;
    spot_json_array_foreach(list, i, added)
    {
        const char *const content = spot_json_text(spot_json_get(added, "content"));
        const struct spot_json_value *const id = spot_json_get(added, "id");
        char pointer[64];

        snprintf(pointer, sizeof(pointer), "/added_tokens/%zu", i);
        if (!content || !spot_json_is_integer(id))
            return spot_json_fail(l->doc, pointer, err, "expected an id and a content");
        if (spot_bpe_add_named(l, pointer, spot_json_integer(id), content,
                               spot_json_is_true(spot_json_get(added, "special")), added, err))
            return -1;
    }
    return 0;
}

/* Refuses two tokens with the same name, one of which could never be produced. */
static int check_names(const struct spot_bpe *bpe, const char *source, struct spot_err *err)
{
    uint32_t first, second;

    if (!spot_names_twins(bpe->names, &first, &second) &&
        !spot_names_twins(bpe->normal_names, &first, &second))
        return 0;
    return spot_err_set(err, SPOT_EDATA, "%s: the added tokens %u and %u are both '%.40s'", source,
                        (unsigned)bpe->added[first].id, (unsigned)bpe->added[second].id,
                        bpe->added[first].name);
}

/* --- opening ------------------------------------------------------------------------- */

static struct spot_bpe_loader new_loader(const struct spot_json_doc *doc)
{
    struct spot_bpe_loader l = { .bpe = spot_xcalloc(1, sizeof(struct spot_bpe)), .doc = doc };

    l.bpe->unknown = UINT32_MAX;
    l.bpe->cache = spot_xcalloc(SPOT_BPE_CACHE, sizeof(*l.bpe->cache));
    memset(l.byte_of, -1, sizeof(l.byte_of));
    for (int b = 0; b < 256; b++)
        l.byte_of[char_of_byte(b)] = (int16_t)b;
    return l;
}

/* Completes the tokenizer with the documents in `dir`, which may be NULL. NULL if that failed.
 */
static struct spot_bpe *finish(struct spot_bpe_loader *l, const char *dir,
                               struct spot_json_doc *doc, int rc, struct spot_err *err)
{
    if (!rc && dir)
        rc = spot_bpe_add_beside(l, dir, err);
    if (!rc) {
        spot_bpe_index_added(l->bpe);
        rc = check_names(l->bpe, dir ? dir : doc->source, err);
    }
    spot_json_release(doc);
    if (!rc)
        return l->bpe;
    spot_bpe_free(l->bpe);
    return NULL;
}

static int read_bpe(struct spot_bpe_loader *l, const struct spot_json_value *model,
                    struct spot_err *err)
{
    const struct spot_json_value *vocab, *merges;
    const char *const unknown = spot_json_text(spot_json_get(model, "unk_token"));

    if (spot_json_object(l->doc, model, "/model", "vocab", true, &vocab, err) ||
        spot_json_array(l->doc, model, "/model", "merges", true, SPOT_BPE_MERGES_MAX, &merges, err))
        return -1;
    l->vocab = spot_json_get(model, "vocab");
    if (add_vocab(l, "/model/vocab", err))
        return -1;
    if (unknown && spot_bpe_id_of(l, unknown) >= 0)
        l->bpe->unknown = (uint32_t)spot_bpe_id_of(l, unknown);
    return read_merges_json(l, merges, err);
}

static int read_unigram(struct spot_bpe_loader *l, const struct spot_json_value *model,
                        struct spot_err *err)
{
    const struct spot_json_value *const unknown = spot_json_get(model, "unk_id"), *vocab;

    if (spot_json_array(l->doc, model, "/model", "vocab", true, SPOT_BPE_VOCAB_MAX, &vocab, err) ||
        add_scored(l, vocab, err))
        return -1;
    if (spot_json_is_integer(unknown) && (uint64_t)spot_json_integer(unknown) >= l->bpe->vocab)
        return spot_json_fail(l->doc, "/model/unk_id", err, "is no token");
    if (spot_json_is_integer(unknown))
        l->bpe->unknown = (uint32_t)spot_json_integer(unknown);
    return 0;
}

/* Releases the document. */
static struct spot_bpe *of_tokenizer(struct spot_json_doc *doc, const char *dir,
                                     struct spot_err *err)
{
    const struct spot_json_value *model;
    struct spot_bpe_loader l = new_loader(doc);
    int rc = spot_json_object(doc, doc->root, "", "model", true, &model, err);

    if (!rc)
        rc = spot_bpe_read_kind(&l, model, err);
    if (!rc)
        rc = l.bpe->has_scores ? read_unigram(&l, model, err) : read_bpe(&l, model, err);
    if (!rc)
        rc = add_added(&l, err);
    return finish(&l, dir, doc, rc, err);
}

struct spot_bpe *spot_bpe_of_tokenizer(const char *json, size_t n, const char *source,
                                       struct spot_err *err)
{
    struct spot_json_doc doc;

    return spot_json_parse(&doc, json, n, source, err) ? NULL : of_tokenizer(&doc, NULL, err);
}

/* Releases the document. */
static struct spot_bpe *of_vocab(struct spot_json_doc *doc, const char *merges, size_t n_merges,
                                 const char *merges_source, const char *dir, struct spot_err *err)
{
    struct spot_bpe_loader l = new_loader(doc);
    int rc;

    l.is_old = true;
    spot_bpe_set_gpt2(l.bpe);
    l.vocab = doc->root;
    rc = add_vocab(&l, "", err);
    if (!rc)
        rc = read_merges_text(&l, merges, n_merges, merges_source, err);
    return finish(&l, dir, doc, rc, err);
}

struct spot_bpe *spot_bpe_of_vocab(const char *json, size_t n_json, const char *json_source,
                                   const char *merges, size_t n_merges, const char *merges_source,
                                   struct spot_err *err)
{
    struct spot_json_doc doc;

    return spot_json_parse(&doc, json, n_json, json_source, err)
               ? NULL
               : of_vocab(&doc, merges, n_merges, merges_source, NULL, err);
}

static int read_stream(FILE *in, const char *path, struct spot_buf *text, struct spot_err *err)
{
    size_t got;

    while ((got = fread(spot_buf_more(text, 1 << 16), 1, 1 << 16, in)) > 0 &&
           text->n <= SPOT_JSON_BYTE_MAX)
        text->n += got;
    if (ferror(in))
        return spot_err_sys(err, "cannot read '%s'", path);
    if (text->n > SPOT_JSON_BYTE_MAX)
        return spot_err_set(err, SPOT_EDATA, "%s: larger than %d MiB", path,
                            SPOT_JSON_BYTE_MAX >> 20);
    return 0;
}

/* Reads a file, which may be compressed. */
static int read_file(const char *path, struct spot_buf *text, struct spot_err *err)
{
    FILE *const in = fopen(path, "re");
    struct spot_unpack unpack;
    int rc;

    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    rc = spot_unpack_open(&unpack, in, path, err);
    if (!rc) {
        spot_unpack_limit(&unpack, SPOT_JSON_UNPACKED_FREE, SPOT_JSON_UNPACKED_TIMES);
        rc = spot_unpack_close(&unpack, read_stream(unpack.in, path, text, err), err);
    }
    fclose(in);
    return rc;
}

/* Loads a file; "-" is an ordinary name. */
static int load_json(struct spot_json_doc *doc, const char *path, struct spot_err *err)
{
    FILE *const in = fopen(path, "re");
    int rc;

    *doc = (struct spot_json_doc){ 0 };
    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    rc = spot_json_load(doc, in, path, err);
    fclose(in);
    return rc;
}

struct spot_bpe *spot_bpe_open(const char *path, struct spot_err *err)
{
    struct spot_buf merges = { 0 };
    struct spot_json_doc doc;
    struct spot_bpe *bpe = NULL;
    char name[2][4096];
    struct stat st;
    const bool is_dir = !stat(path, &st) && S_ISDIR(st.st_mode);

    snprintf(name[0], sizeof(name[0]), is_dir ? "%s/tokenizer.json" : "%s", path);
    if (is_dir && stat(name[0], &st)) {
        snprintf(name[0], sizeof(name[0]), "%s/vocab.json", path);
        if (stat(name[0], &st)) {
            spot_err_set(err, SPOT_EDATA, "%s: no tokenizer.json, nor vocab.json and merges.txt",
                         path);
            return NULL;
        }
        snprintf(name[1], sizeof(name[1]), "%s/merges.txt", path);
        if (!load_json(&doc, name[0], err) && !read_file(name[1], &merges, err))
            bpe = of_vocab(&doc, (const char *)merges.data, merges.n, name[1], path, err);
        else
            spot_json_release(&doc);
    } else if (!load_json(&doc, name[0], err)) {
        bpe = of_tokenizer(&doc, is_dir ? path : NULL, err);
    }
    spot_buf_release(&merges);
    return bpe;
}
