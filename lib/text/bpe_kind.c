/* SPDX-License-Identifier: MIT */
/* Which kind of tokenizer a tokenizer.json says: one that is known, or a message with the name of
 * what is not. */
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "text/bpe_state.h"
#include "text/pretoken.h"

#define MARK "\xE2\x96\x81" /* U+2581, a space in the vocabulary of Llama 2 */

/* Absent, null, false or "" is the plain case. */
static bool is_plain(const struct spot_json_value *value)
{
    return !value || spot_json_is_null(value) || spot_json_is_false(value) ||
           (spot_json_is_string(value) && !spot_json_text(value)[0]);
}

/* A member that is this text? */
static bool says(const struct spot_json_value *object, const char *key, const char *text)
{
    const char *const got = spot_json_text(spot_json_get(object, key));

    return got && !strcmp(got, text);
}

static bool is_step(const struct spot_json_value *steps, size_t i, const char *type)
{
    return says(spot_json_entry(steps, i), "type", type);
}

static int refuse(const struct spot_json_doc *doc, const char *pointer,
                  const struct spot_json_value *part, struct spot_err *err)
{
    const char *const type = spot_json_text(spot_json_get(part, "type"));

    return spot_json_fail(doc, pointer, err, "'%.40s' as it is set here is not supported",
                          type ? type : "null");
}

/* --- pieces of bytes ------------------------------------------------------------ */

static bool is_split_of_llama3(const struct spot_json_value *pre)
{
    const struct spot_json_value *const steps = spot_json_get(pre, "pretokenizers");
    const struct spot_json_value *const split = spot_json_entry(steps, 0), *const bytes =
                                                                               spot_json_entry(
                                                                                   steps, 1);

    return says(pre, "type", "Sequence") && spot_json_array_size(steps) == 2 &&
           is_step(steps, 0, "Split") &&
           says(spot_json_get(split, "pattern"), "Regex", SPOT_PRETOKEN_LLAMA3) &&
           says(split, "behavior", "Isolated") && is_plain(spot_json_get(split, "invert")) &&
           is_step(steps, 1, "ByteLevel") && is_plain(spot_json_get(bytes, "add_prefix_space")) &&
           spot_json_is_false(spot_json_get(bytes, "use_regex"));
}

static int check_bytes(struct spot_bpe *bpe, const struct spot_json_doc *doc, struct spot_err *err)
{
    const struct spot_json_value *const pre = spot_json_get(doc->root, "pre_tokenizer");
    const struct spot_json_value *const decoder = spot_json_get(doc->root, "decoder");
    const struct spot_json_value *const use_regex = spot_json_get(pre, "use_regex");

    if (!is_plain(spot_json_get(doc->root, "normalizer")))
        return spot_json_fail(doc, "/normalizer", err,
                              "normalizers are not supported before bytes");
    if (!is_plain(decoder) && !says(decoder, "type", "ByteLevel"))
        return refuse(doc, "/decoder", decoder, err);
    if (is_split_of_llama3(pre)) {
        bpe->kind = SPOT_BPE_LLAMA3;
        return 0;
    }
    if (!says(pre, "type", "ByteLevel") || (use_regex && !spot_json_is_true(use_regex)))
        return spot_json_fail(doc, "/pre_tokenizer", err,
                              "expected ByteLevel with its own pattern, that of GPT-2, or Split "
                              "with that of Llama 3 and ByteLevel");
    if (!is_plain(spot_json_get(pre, "add_prefix_space")))
        return spot_json_fail(doc, "/pre_tokenizer", err, "add_prefix_space is not supported");
    return 0;
}

/* --- characters -------------------------------------------------------------------- */

/* {"type": "Replace", "pattern": {"String": FROM}, "content": TO} */
static bool is_replace(const struct spot_json_value *step, const char *from, const char *to)
{
    return says(step, "type", "Replace") && says(spot_json_get(step, "pattern"), "String", from) &&
           says(step, "content", to);
}

static bool is_prepend_and_replace(const struct spot_json_value *normalizer)
{
    const struct spot_json_value *const steps = spot_json_get(normalizer, "normalizers");

    return says(normalizer, "type", "Sequence") && spot_json_array_size(steps) == 2 &&
           is_step(steps, 0, "Prepend") && says(spot_json_entry(steps, 0), "prepend", MARK) &&
           is_replace(spot_json_entry(steps, 1), " ", MARK);
}

static int check_metaspace(struct spot_bpe *bpe, const struct spot_json_doc *doc,
                           const struct spot_json_value *pre, struct spot_err *err)
{
    if (!says(pre, "type", "Metaspace") || !says(pre, "replacement", MARK) ||
        !spot_json_is_false(spot_json_get(pre, "split")))
        return refuse(doc, "/pre_tokenizer", pre, err);
    if (says(pre, "prepend_scheme", "first"))
        bpe->prefix = SPOT_BPE_FIRST;
    else if (says(pre, "prepend_scheme", "always"))
        bpe->prefix = SPOT_BPE_ALWAYS;
    else if (!says(pre, "prepend_scheme", "never"))
        return spot_json_fail(doc, "/pre_tokenizer", err,
                              "prepend_scheme: expected first, always or never");
    return 0;
}

/* Replace, ByteFallback, Fuse, and a Strip of one space at the start or none. */
static int check_decoder(struct spot_bpe *bpe, const struct spot_json_doc *doc,
                         struct spot_err *err)
{
    const struct spot_json_value *const decoder = spot_json_get(doc->root, "decoder");
    const struct spot_json_value *const steps = spot_json_get(decoder, "decoders");
    const struct spot_json_value *const strip = spot_json_entry(steps, 3);

    if (!says(decoder, "type", "Sequence") || !is_replace(spot_json_entry(steps, 0), MARK, " ") ||
        !is_step(steps, 1, "ByteFallback") || !is_step(steps, 2, "Fuse") ||
        spot_json_array_size(steps) > 4)
        return refuse(doc, "/decoder", decoder, err);
    bpe->strips = strip != NULL;
    if (strip && (!says(strip, "type", "Strip") || !says(strip, "content", " ") ||
                  spot_json_integer(spot_json_get(strip, "start")) != 1 ||
                  spot_json_integer(spot_json_get(strip, "stop")) != 0))
        return refuse(doc, "/decoder/decoders/3", strip, err);
    return 0;
}

static int check_characters(struct spot_bpe *bpe, const struct spot_json_doc *doc,
                            struct spot_err *err)
{
    const struct spot_json_value *const pre = spot_json_get(doc->root, "pre_tokenizer");
    const struct spot_json_value *const normalizer = spot_json_get(doc->root, "normalizer");

    bpe->kind = SPOT_BPE_LLAMA2;
    if (is_plain(pre) && is_prepend_and_replace(normalizer))
        bpe->prefix = SPOT_BPE_EACH;
    else if (!is_plain(normalizer))
        return refuse(doc, "/normalizer", normalizer, err);
    else if (check_metaspace(bpe, doc, pre, err))
        return -1;
    return check_decoder(bpe, doc, err);
}

int spot_bpe_check_kind(struct spot_bpe_loader *l, const struct spot_json_value *model,
                        struct spot_err *err)
{
    const struct spot_json_doc *const doc = l->doc;
    struct spot_bpe *const bpe = l->bpe;
    static const char *const extra[] = { "dropout", "continuing_subword_prefix",
                                         "end_of_word_suffix" };
    static const char *const around[] = { "truncation", "padding" };
    const char *const type = spot_json_text(spot_json_get(model, "type"));
    const char *const unknown = spot_json_text(spot_json_get(model, "unk_token"));
    const struct spot_json_value *const id =
        unknown ? spot_json_get(spot_json_get(model, "vocab"), unknown) : NULL;

    if (type && strcmp(type, "BPE") != 0)
        return spot_json_fail(doc, "/model/type", err, "'%.40s', expected BPE", type);
    for (size_t i = 0; i < sizeof(extra) / sizeof(extra[0]); i++)
        if (!is_plain(spot_json_get(model, extra[i])))
            return spot_json_fail(doc, "/model", err, "%s is set, which is not supported",
                                  extra[i]);
    for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++)
        if (!is_plain(spot_json_get(doc->root, around[i])))
            return spot_json_fail(doc, "", err, "%s is set, which is not supported", around[i]);
    l->has_normalizer = !is_plain(spot_json_get(doc->root, "normalizer"));
    bpe->ignores_merges = spot_json_is_true(spot_json_get(model, "ignore_merges"));
    bpe->fuses_unknown = spot_json_is_true(spot_json_get(model, "fuse_unk"));
    bpe->unknown = spot_json_is_integer(id) ? (uint32_t)spot_json_integer(id) : UINT32_MAX;
    return is_plain(spot_json_get(model, "byte_fallback")) ? check_bytes(bpe, doc, err)
                                                           : check_characters(bpe, doc, err);
}

int spot_bpe_check_added(const struct spot_bpe_loader *l, const struct spot_json_value *added,
                         const char *pointer, struct spot_err *err)
{
    static const char *const flag[] = { "single_word", "lstrip", "rstrip" };

    for (size_t i = 0; i < sizeof(flag) / sizeof(flag[0]); i++)
        if (!is_plain(spot_json_get(added, flag[i])))
            return spot_json_fail(l->doc, pointer, err, "%s is set, which is not supported",
                                  flag[i]);
    if (!is_plain(spot_json_get(added, "normalized")) && l->has_normalizer)
        return spot_json_fail(l->doc, pointer, err,
                              "normalized is set and there is a normalizer: not supported");
    return 0;
}
