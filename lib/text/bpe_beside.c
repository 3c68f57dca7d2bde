/* SPDX-License-Identifier: MIT */
/* Tokens that documents beside a tokenizer add to it, read as transformers reads them.
 *
 * tokenizer_config.json lists tokens by id ("added_tokens_decoder"); older files list them by name
 * in added_tokens.json. A token that tokenizer_config.json or special_tokens_map.json names by a
 * role is special. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "text/beside.h"
#include "text/bpe_state.h"

enum { CONFIG, MAP, ADDED, FILES };

struct beside {
    struct spot_bpe_loader *l;
    struct spot_json_doc doc[FILES];
    char path[FILES][SPOT_BESIDE_PATH];
};

static bool is_known(const struct spot_bpe_loader *l, int64_t id, const char *name)
{
    const int64_t known = spot_bpe_id_of(l, name);
    const struct spot_bpe_token *token;

    if (id < 0 || id >= (int64_t)l->bpe->vocab || !l->bpe->token[id].is_added)
        return false;
    token = &l->bpe->token[id];
    return known >= 0 ? known == id
                      : token->n_byte == strlen(name) &&
                            !memcmp(l->bpe->text.data + token->begin, name, token->n_byte);
}

/* A token's flags are those of the document that lists it first. */
static int add(struct beside *b, int file, const char *pointer, int64_t id, const char *name,
               bool is_special, const struct spot_json_value *flags, struct spot_err *err)
{
    if (is_known(b->l, id, name))
        return 0;
    b->l->doc = &b->doc[file];
    return spot_bpe_add_named(b->l, pointer, id, name, is_special, flags, err);
}

/* {"256": {"content": "<|im_end|>", "special": true, ...}, ...} */
static int add_listed(struct beside *b, struct spot_err *err)
{
    const struct spot_json_value *const list =
        spot_json_get(b->doc[CONFIG].root, "added_tokens_decoder");
    const struct spot_json_value *added;
    const char *key;

    if (list && !spot_json_is_object(list) && !spot_json_is_null(list))
        return spot_json_fail(&b->doc[CONFIG], "/added_tokens_decoder", err, "expected an object");
    for (size_t i = 0; (added = spot_json_member(list, i, &key)); i++) {
        const char *const name = spot_json_text(spot_json_get(added, "content"));
        const int64_t id = strspn(key, "0123456789") == strlen(key) && strlen(key) < 10
                               ? strtoll(key, NULL, 10)
                               : -1;
        char pointer[64];

        snprintf(pointer, sizeof(pointer), "/added_tokens_decoder/%.20s", key);
        if (!name || !*key)
            return spot_json_fail(&b->doc[CONFIG], pointer, err, "expected an id and a content");
        if (add(b, CONFIG, pointer, id, name, spot_json_is_true(spot_json_get(added, "special")),
                added, err))
            return -1;
    }
    return 0;
}

/* A name without an id in any document is not a token. */
static int add_special(struct beside *b, const struct spot_json_value *value, struct spot_err *err)
{
    const char *const name = spot_beside_text(value);
    const struct spot_json_value *rest;
    int64_t id = name ? spot_bpe_id_of(b->l, name) : -1;

    if (id >= 0)
        return add(b, CONFIG, "", id, name, true, NULL, err);
    rest = name ? spot_json_get(b->doc[ADDED].root, name) : NULL;
    id = spot_json_is_integer(rest) ? spot_json_integer(rest) : -1;
    return id >= 0 ? add(b, ADDED, "", id, name, true, NULL, err) : 0;
}

static int add_roles(struct beside *b, const struct spot_json_value *root, struct spot_err *err)
{
    static const char *const role[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token" };
    static const char *const more[] = { "additional_special_tokens", "extra_special_tokens" };
    int rc = 0;

    for (size_t i = 0; !rc && i < sizeof(role) / sizeof(role[0]); i++)
        rc = add_special(b, spot_json_get(root, role[i]), err);
    for (size_t i = 0; !rc && i < sizeof(more) / sizeof(more[0]); i++) {
        const struct spot_json_value *const list = spot_json_get(root, more[i]), *value;
        const char *key;

        for (size_t k = 0; !rc && k < spot_json_array_size(list); k++)
            rc = add_special(b, spot_json_entry(list, k), err);
        for (size_t k = 0; !rc && (value = spot_json_member(list, k, &key)); k++)
            rc = add_special(b, value, err);
    }
    return rc;
}

/* {"<|im_end|>": 256, ...} */
static int add_rest(struct beside *b, struct spot_err *err)
{
    const struct spot_json_value *id;
    const char *name;

    for (size_t i = 0; (id = spot_json_member(b->doc[ADDED].root, i, &name)); i++) {
        char pointer[96];

        snprintf(pointer, sizeof(pointer), "/%.80s", name);
        if (!spot_json_is_integer(id))
            return spot_json_fail(&b->doc[ADDED], pointer, err, "the id is not an integer");
        if (add(b, ADDED, pointer, spot_json_integer(id), name, false, NULL, err))
            return -1;
    }
    return 0;
}

/* True for this class or its variant "...Fast". */
static bool is_class(const char *class, const char *name)
{
    const size_t n = strlen(name);

    return !strncmp(class, name, n) && (!class[n] || !strcmp(class + n, "Fast"));
}

/* With vocab.json and merges.txt the class of the tokenizer determines how text is cut. These
 * classes put a space before a text as the config says, independently of tokenizer.json. */
static int follow_class(const struct beside *b, struct spot_err *err)
{
    static const char *const known[] = { "GPT2Tokenizer", "CodeGenTokenizer", "Qwen2Tokenizer",
                                         "GPTNeoXTokenizer", "RobertaTokenizer" };
    enum { AS_GPT2 = 2, CLASSES = sizeof(known) / sizeof(known[0]) };
    const struct spot_json_doc *const config = &b->doc[CONFIG];
    const char *class = spot_json_text(spot_json_get(config->root, "tokenizer_class"));
    size_t i = 0;

    class = class ? class : b->l->is_old ? known[0] : "";
    while (i < CLASSES && !is_class(class, known[i]))
        i++;
    if (i < CLASSES && b->l->bpe->is_bytes &&
        spot_bpe_set_space(b->l,
                           spot_json_is_true(spot_json_get(config->root, "add_prefix_space"))))
        return spot_json_fail(config, "/add_prefix_space", err, "more than %d steps",
                              SPOT_TEXT_STEPS_MAX);
    if (!b->l->is_old || i < AS_GPT2)
        return 0;
    return spot_json_fail(config, "/tokenizer_class", err,
                          "'%.40s' with vocab.json is not supported: expected GPT2Tokenizer, or a "
                          "tokenizer.json",
                          class);
}

/* Adds <|endoftext|>, which no file of GPT-2's original directory names. */
static int add_end_of_text(struct beside *b, struct spot_err *err)
{
    static const char name[] = "<|endoftext|>";
    const struct spot_json_value *const id = b->l->is_old ? spot_json_get(b->l->vocab, name) : NULL;

    return id ? add(b, CONFIG, "", spot_json_integer(id), name, true, NULL, err) : 0;
}

int spot_bpe_add_beside(struct spot_bpe_loader *l, const char *dir, struct spot_err *err)
{
    static const char *const name[FILES] = { "tokenizer_config.json", "special_tokens_map.json",
                                             "added_tokens.json" };
    const struct spot_json_doc *const doc = l->doc;
    struct beside *const b = spot_xcalloc(1, sizeof(*b));
    int rc = 0;

    b->l = l;
    for (int i = 0; rc >= 0 && i < FILES; i++)
        rc = spot_beside_open(&b->doc[i], b->path[i], dir, name[i], err);
    rc = rc < 0 || follow_class(b, err) || add_listed(b, err) ||
         add_roles(b, b->doc[CONFIG].root, err) || add_roles(b, b->doc[MAP].root, err) ||
         add_rest(b, err) || add_end_of_text(b, err);
    for (int i = 0; i < FILES; i++)
        spot_json_release(&b->doc[i]);
    free(b);
    l->doc = doc;
    return rc ? -1 : 0;
}
