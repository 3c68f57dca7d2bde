/* SPDX-License-Identifier: MIT */
/* Reads how a tokenizer.json changes, cuts and decodes text, as steps. Unsupported features are
 * named in the error, with the supported ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "text/bpe_state.h"

#define MARK "\xE2\x96\x81" /* U+2581, a space in the vocabularies of Llama 2 and Gemma */

typedef const struct spot_json_value value;

struct reader {
    struct spot_bpe *bpe;
    const struct spot_json_doc *doc;
    struct spot_err *err;
    int depth; /* of sequences */
    size_t space_at;
};

typedef int read_step(struct reader *r, value *step, const char *pointer);

/* True for an absent, null, false, zero or "" value. */
static bool is_plain(value *v)
{
    return !v || spot_json_is_null(v) || spot_json_is_false(v) ||
           (spot_json_is_string(v) && !spot_json_text(v)[0]) ||
           (spot_json_is_number(v) && spot_json_number(v) == 0);
}

/* True if a member is this text. */
static bool says(value *object, const char *key, const char *text)
{
    const char *const got = spot_json_text(spot_json_get(object, key));

    return got && !strcmp(got, text);
}

static int refuse(struct reader *r, const char *pointer, value *part, const char *known)
{
    const char *const type = spot_json_text(spot_json_get(part, "type"));

    return spot_json_fail(r->doc, pointer, r->err,
                          "'%.40s' with these settings is not supported; expected %s",
                          type ? type : "null", known);
}

/* Calls a function for each entry of a Sequence, or for a single part. */
static int each(struct reader *r, value *part, const char *pointer, const char *key,
                read_step *read)
{
    value *const list = spot_json_get(part, key);
    int rc = 0;

    if (is_plain(part))
        return 0;
    if (!says(part, "type", "Sequence"))
        return read(r, part, pointer);
    if (++r->depth > 4)
        return spot_json_fail(r->doc, pointer, r->err, "sequences nested more than 4 deep");
    for (size_t i = 0; !rc && i < spot_json_array_size(list); i++) {
        char at[128];

        snprintf(at, sizeof(at), "%.64s/%s/%zu", pointer, key, i);
        rc = each(r, spot_json_entry(list, i), at, key, read);
    }
    r->depth--;
    return rc;
}

/* --- steps ---------------------------------------------------------------------------- */

static struct spot_text_step *add_step(struct reader *r, const char *pointer,
                                       enum spot_text_step_type type, const char *to)
{
    struct spot_text_steps *const s = &r->bpe->steps;

    if (s->n == SPOT_TEXT_STEPS_MAX) {
        spot_json_fail(r->doc, pointer, r->err, "more than %d steps", SPOT_TEXT_STEPS_MAX);
        return NULL;
    }
    s->step[s->n] = (struct spot_text_step){ .type = type, .to = to ? spot_xstrdup(to) : NULL };
    return &s->step[s->n++];
}

static int add_pattern(struct reader *r, const char *pointer, enum spot_text_step_type type,
                       const char *pattern, bool is_text, enum spot_split split, const char *to)
{
    struct spot_text_step *const step = add_step(r, pointer, type, to);
    struct spot_err why = { 0 };

    if (!step)
        return -1;
    step->split = split;
    step->pattern = is_text ? spot_pattern_of_text(pattern, &why) : spot_pattern_new(pattern, &why);
    return step->pattern ? 0 : spot_json_fail(r->doc, pointer, r->err, "%s", why.msg);
}

/* Adds a step with {"pattern": {"String": S} or {"Regex": R}}. */
static int add_step_at(struct reader *r, value *part, const char *pointer,
                       enum spot_text_step_type type, enum spot_split split, const char *to)
{
    value *const pattern = spot_json_get(part, "pattern");
    const char *const text = spot_json_text(spot_json_get(pattern, "String"));
    const char *const regex = spot_json_text(spot_json_get(pattern, "Regex"));

    if (!text && !regex)
        return spot_json_fail(r->doc, pointer, r->err, "expected a pattern: String or Regex");
    return add_pattern(r, pointer, type, text ? text : regex, text != NULL, split, to);
}

static int read_normalizer(struct reader *r, value *part, const char *pointer)
{
    const char *const before = spot_json_text(spot_json_get(part, "prepend"));
    const char *const content = spot_json_text(spot_json_get(part, "content"));

    if (says(part, "type", "NFC"))
        return add_step(r, pointer, SPOT_STEP_NFC, NULL) ? 0 : -1;
    if (says(part, "type", "NFD"))
        return add_step(r, pointer, SPOT_STEP_NFD, NULL) ? 0 : -1;
    if (says(part, "type", "Prepend") && before)
        return add_step(r, pointer, SPOT_STEP_PREPEND, before) ? 0 : -1;
    if (says(part, "type", "Replace") && content)
        return add_step_at(r, part, pointer, SPOT_STEP_REPLACE, SPOT_SPLIT_ISOLATED, content);
    return refuse(r, pointer, part, "NFC, NFD, Prepend, Replace or Sequence");
}

static int split_of(struct reader *r, value *part, const char *pointer, enum spot_split *split)
{
    static const char *const name[] = { "Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext" };
    const char *const got = spot_json_text(spot_json_get(part, "behavior"));

    for (size_t i = 0; got && i < sizeof(name) / sizeof(name[0]); i++)
        if (!strcmp(got, name[i])) {
            *split = (enum spot_split)i;
            return 0;
        }
    return spot_json_fail(r->doc, pointer, r->err,
                          "behavior: '%.40s', expected Isolated, Removed, MergedWithPrevious or "
                          "MergedWithNext",
                          got ? got : "null");
}

static int read_split(struct reader *r, value *part, const char *pointer)
{
    enum spot_split split = SPOT_SPLIT_ISOLATED;

    if (split_of(r, part, pointer, &split) ||
        add_step_at(r, part, pointer, SPOT_STEP_SPLIT, split, NULL))
        return -1;
    r->bpe->steps.step[r->bpe->steps.n - 1].is_inverse =
        spot_json_is_true(spot_json_get(part, "invert"));
    return 0;
}

static int read_byte_level(struct reader *r, value *part, const char *pointer)
{
    value *const uses = spot_json_get(part, "use_regex");

    r->bpe->is_bytes = true;
    r->space_at = r->bpe->steps.n;
    if (spot_json_is_true(spot_json_get(part, "add_prefix_space")) &&
        !add_step(r, pointer, SPOT_STEP_SPACE, " "))
        return -1;
    if (uses && !spot_json_is_true(uses))
        return 0;
    return add_pattern(r, pointer, SPOT_STEP_SPLIT, SPOT_PRETOKEN_GPT2, false, SPOT_SPLIT_ISOLATED,
                       NULL);
}

static int read_metaspace(struct reader *r, value *part, const char *pointer)
{
    const bool is_first = says(part, "prepend_scheme", "first");
    const bool is_always = says(part, "prepend_scheme", "always") ||
                           (!spot_json_get(part, "prepend_scheme") &&
                            !spot_json_is_false(spot_json_get(part, "add_prefix_space")));
    struct spot_text_step *step;

    if (!says(part, "replacement", MARK))
        return spot_json_fail(r->doc, pointer, r->err, "expected U+2581 as replacement");
    if (!is_first && !is_always && spot_json_get(part, "prepend_scheme") &&
        !says(part, "prepend_scheme", "never"))
        return spot_json_fail(r->doc, pointer, r->err,
                              "prepend_scheme: expected first, always or never");
    if (add_pattern(r, pointer, SPOT_STEP_REPLACE, " ", true, SPOT_SPLIT_ISOLATED, MARK))
        return -1;
    if (is_first || is_always) {
        step = add_step(r, pointer, SPOT_STEP_SPACE, MARK);
        if (!step)
            return -1;
        step->is_first = is_first;
    }
    if (spot_json_is_false(spot_json_get(part, "split")))
        return 0;
    return add_pattern(r, pointer, SPOT_STEP_SPLIT, MARK, true, SPOT_SPLIT_NEXT, NULL);
}

static int read_pre_tokenizer(struct reader *r, value *part, const char *pointer)
{
    const bool is_alone = spot_json_is_true(spot_json_get(part, "individual_digits"));

    if (says(part, "type", "Split"))
        return read_split(r, part, pointer);
    if (says(part, "type", "ByteLevel"))
        return read_byte_level(r, part, pointer);
    if (says(part, "type", "Metaspace"))
        return read_metaspace(r, part, pointer);
    if (says(part, "type", "Digits"))
        return add_pattern(r, pointer, SPOT_STEP_SPLIT, is_alone ? "\\p{N}" : "\\p{N}+", false,
                           SPOT_SPLIT_ISOLATED, NULL);
    if (says(part, "type", "Punctuation"))
        return add_pattern(r, pointer, SPOT_STEP_SPLIT,
                           says(part, "behavior", "Contiguous") ? "[\\p{P}!-\\/:-@\\[-`\\{-~]+"
                                                                : "[\\p{P}!-\\/:-@\\[-`\\{-~]",
                           false, SPOT_SPLIT_ISOLATED, NULL);
    if (says(part, "type", "WhitespaceSplit"))
        return add_pattern(r, pointer, SPOT_STEP_SPLIT, "\\s+", false, SPOT_SPLIT_REMOVED, NULL);
    return refuse(r, pointer, part,
                  "ByteLevel, Split, Digits, Punctuation, Metaspace, WhitespaceSplit or Sequence");
}

/* --- spaces as U+2581 ------------------------------------------------------------------------ */

static bool has_text(const struct spot_text_step *step, const char *text)
{
    size_t length = 0;

    return spot_pattern_match(step->pattern, text, strlen(text), true, &length) ==
               SPOT_PATTERN_FOUND &&
           length == strlen(text);
}

/* Sets is_marked if the steps only write spaces as U+2581; then text can be encoded so that
 * decoding restores it exactly. */
static void find_marks(struct spot_bpe *bpe)
{
    enum spot_bpe_prefix prefix = SPOT_BPE_BARE;
    bool replaces = false;

    for (size_t i = 0; i < bpe->steps.n; i++) {
        const struct spot_text_step *const s = &bpe->steps.step[i];

        if (s->type == SPOT_STEP_REPLACE && !replaces && has_text(s, " ") && !strcmp(s->to, MARK))
            replaces = true;
        else if (s->type == SPOT_STEP_PREPEND && !i && !strcmp(s->to, MARK))
            prefix = SPOT_BPE_EACH;
        else if (s->type == SPOT_STEP_SPACE && !prefix && replaces && !strcmp(s->to, MARK))
            prefix = s->is_first ? SPOT_BPE_FIRST : SPOT_BPE_ALWAYS;
        else if (s->type != SPOT_STEP_SPLIT || !replaces ||
                 !has_text(s, " ")) /* the step leaves no space unreplaced */
            return;
    }
    bpe->is_marked = replaces && !bpe->is_bytes;
    bpe->prefix = prefix;
}

/* --- decoding ------------------------------------------------------------------------------ */

/* Reads the decoder's steps: those per token, then those for the whole text. */
static int read_decoder(struct reader *r, value *part, const char *pointer)
{
    struct spot_bpe *const bpe = r->bpe;
    value *const pattern = spot_json_get(part, "pattern");

    if (says(part, "type", "ByteLevel") && bpe->is_bytes)
        return 0;
    if (says(part, "type", "Fuse") && !bpe->is_bytes)
        return 0;
    if (says(part, "type", "ByteFallback") && !bpe->is_bytes)
        bpe->falls_back = true;
    else if (says(part, "type", "Replace") && !bpe->is_bytes && says(pattern, "String", MARK) &&
             says(part, "content", " "))
        bpe->has_marks = true;
    else if (says(part, "type", "Metaspace") && !bpe->is_bytes && says(part, "replacement", MARK)) {
        bpe->has_marks = true;
        bpe->drops = says(part, "prepend_scheme", "never") ||
                             spot_json_is_false(spot_json_get(part, "add_prefix_space"))
                         ? SPOT_BPE_DROPS_NONE
                         : SPOT_BPE_DROPS_MARKS;
    } else if (says(part, "type", "Strip") && !bpe->is_bytes && says(part, "content", " ") &&
               spot_json_integer(spot_json_get(part, "stop")) == 0 &&
               (uint64_t)spot_json_integer(spot_json_get(part, "start")) < 2) {
        if (spot_json_integer(spot_json_get(part, "start")))
            bpe->drops = SPOT_BPE_DROPS_SPACE;
    } else {
        return refuse(r, pointer, part,
                      bpe->is_bytes
                          ? "ByteLevel"
                          : "Replace of U+2581 by a space, ByteFallback, Fuse, Strip of one "
                            "space at the start, Metaspace, or Sequence");
    }
    return 0;
}

static int check_model(struct reader *r, value *model)
{
    static const char *const extra[] = { "dropout", "continuing_subword_prefix",
                                         "end_of_word_suffix" };

    if (says(model, "type", "Unigram"))
        r->bpe->has_scores = true;
    else if (!is_plain(spot_json_get(model, "type")) && !says(model, "type", "BPE"))
        return spot_json_fail(r->doc, "/model/type", r->err, "'%.40s', expected BPE or Unigram",
                              spot_json_text(spot_json_get(model, "type"))
                                  ? spot_json_text(spot_json_get(model, "type"))
                                  : "no text");
    for (size_t i = 0; i < sizeof(extra) / sizeof(extra[0]); i++)
        if (!is_plain(spot_json_get(model, extra[i])))
            return spot_json_fail(r->doc, "/model", r->err, "%s is set, which is not supported",
                                  extra[i]);
    return 0;
}

int spot_bpe_read_kind(struct spot_bpe_loader *l, value *model, struct spot_err *err)
{
    struct reader r = { .bpe = l->bpe, .doc = l->doc, .err = err };
    struct spot_bpe *const bpe = l->bpe;
    value *const root = l->doc->root, *const decoder = spot_json_get(root, "decoder");

    if (check_model(&r, model) ||
        each(&r, spot_json_get(root, "normalizer"), "/normalizer", "normalizers", read_normalizer))
        return -1;
    bpe->n_normal = bpe->steps.n;
    if (each(&r, spot_json_get(root, "pre_tokenizer"), "/pre_tokenizer", "pretokenizers",
             read_pre_tokenizer))
        return -1;
    find_marks(bpe);
    if (!bpe->is_bytes && is_plain(decoder))
        return refuse(&r, "/decoder", decoder, "one that joins tokens");
    if (each(&r, decoder, "/decoder", "decoders", read_decoder))
        return -1;
    bpe->ignores_merges = spot_json_is_true(spot_json_get(model, "ignore_merges"));
    bpe->fuses_unknown = bpe->has_scores || spot_json_is_true(spot_json_get(model, "fuse_unk"));
    l->falls_back = spot_json_is_true(spot_json_get(model, "byte_fallback"));
    l->space_at = r.space_at;
    return 0;
}

int spot_bpe_set_space(struct spot_bpe_loader *l, bool has)
{
    struct spot_text_steps *const s = &l->bpe->steps;
    struct spot_text_step *const at = &s->step[l->space_at];
    const bool had = l->space_at < s->n && at->type == SPOT_STEP_SPACE;
    const size_t behind = (s->n - l->space_at - had) * sizeof(*at);

    if (has && !had && s->n == SPOT_TEXT_STEPS_MAX)
        return -1;
    if (had && !has)
        free(at->to);
    memmove(at + has, at + had, behind);
    s->n = s->n - had + has;
    if (has && !had)
        *at = (struct spot_text_step){ .type = SPOT_STEP_SPACE, .to = spot_xstrdup(" ") };
    return 0;
}

void spot_bpe_set_gpt2(struct spot_bpe *bpe)
{
    bpe->is_bytes = true;
    bpe->steps.step[0] =
        (struct spot_text_step){ .type = SPOT_STEP_SPLIT,
                                 .pattern = spot_pattern_new(SPOT_PRETOKEN_GPT2, NULL) };
    bpe->steps.n = 1;
}
