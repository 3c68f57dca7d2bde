/* SPDX-License-Identifier: MIT */
#include "text/prefix.h"

#include <stdbool.h>
#include <string.h>

#include "common/json.h"
#include "text/beside.h"

/* Tokens before or after a text, while they are read. */
struct prefix {
    const struct spot_bpe *bpe;
    uint32_t *id; /* [SPOT_TEXT_AROUND_MAX] */
    size_t *n;
};

struct reading {
    struct prefix before, after;
};

static int add(const struct prefix *p, const struct spot_json_doc *doc, const char *pointer,
               int64_t id, struct spot_err *err)
{
    size_t n_byte;

    if (id < 0 || id >= spot_bpe_vocab(p->bpe) || !spot_bpe_token(p->bpe, (uint32_t)id, &n_byte))
        return spot_json_fail(doc, pointer, err, "names an unknown token");
    if (*p->n == SPOT_TEXT_AROUND_MAX)
        return spot_json_fail(doc, pointer, err, "more than %d tokens before or after a text",
                              SPOT_TEXT_AROUND_MAX);
    p->id[(*p->n)++] = (uint32_t)id;
    return 0;
}

/* {"SpecialToken": {"id": "<s>"}}: its ids are in special_tokens. */
static int add_special(const struct prefix *p, const struct spot_json_doc *doc,
                       const struct spot_json_value *template, const char *name,
                       struct spot_err *err)
{
    static const char at[] = "/post_processor/special_tokens";
    const struct spot_json_value *const ids =
        spot_json_get(spot_json_get(spot_json_get(template, "special_tokens"), name), "ids");

    for (size_t i = 0; i < spot_json_array_size(ids); i++) {
        const struct spot_json_value *const v = spot_json_entry(ids, i);

        if (add(p, doc, at, spot_json_is_integer(v) ? spot_json_integer(v) : -1, err))
            return -1;
    }
    return spot_json_array_size(ids) ? 0
                                     : spot_json_fail(doc, at, err, "lists no ids for %s", name);
}

static int read_template(const struct reading *r, const struct spot_json_doc *doc,
                         const struct spot_json_value *template, struct spot_err *err)
{
    const struct spot_json_value *const single = spot_json_get(template, "single");
    const struct prefix *to = &r->before;

    for (size_t i = 0; i < spot_json_array_size(single); i++) {
        const struct spot_json_value *const part = spot_json_entry(single, i);
        const char *const name =
            spot_json_text(spot_json_get(spot_json_get(part, "SpecialToken"), "id"));

        if (!name)
            to = &r->after; /* the text */
        else if (add_special(to, doc, template, name, err))
            return -1;
    }
    return 0;
}

static int read_processor(const struct reading *r, const struct spot_json_doc *doc,
                          const struct spot_json_value *processor, struct spot_err *err)
{
    const char *const type = spot_json_text(spot_json_get(processor, "type"));
    const struct spot_json_value *const steps = spot_json_get(processor, "processors");
    int rc = 0;

    if (!type || !strcmp(type, "ByteLevel"))
        return 0;
    if (!strcmp(type, "TemplateProcessing"))
        return read_template(r, doc, processor, err);
    if (strcmp(type, "Sequence") != 0)
        return spot_json_fail(doc, "/post_processor", err,
                              "'%.40s' is not supported; expected TemplateProcessing, ByteLevel or "
                              "Sequence",
                              type);
    for (size_t i = 0; !rc && i < spot_json_array_size(steps); i++)
        rc = spot_json_array_size(spot_json_get(spot_json_entry(steps, i), "processors"))
                 ? spot_json_fail(doc, "/post_processor", err, "a Sequence in a Sequence")
                 : read_processor(r, doc, spot_json_entry(steps, i), err);
    return rc;
}

/* "add_bos_token" applies to Llama's tokenizers, and to GPT-2's without tokenizer.json. */
static int read_config(const struct prefix *p, const struct spot_json_doc *doc, const char *bos,
                       bool is_old, struct spot_err *err)
{
    const struct spot_json_value *const adds = spot_json_get(doc->root, "add_bos_token");
    const char *const kind = spot_json_text(spot_json_get(doc->root, "tokenizer_class"));
    int64_t id;

    if (!spot_json_is_boolean(adds) || !*bos || (!is_old && (!kind || !strstr(kind, "Llama"))))
        return 0;
    id = spot_bpe_find(p->bpe, bos);
    if (*p->n && p->id[0] == id && !spot_json_is_true(adds))
        memmove(p->id, p->id + 1, --*p->n * sizeof(*p->id));
    if (*p->n || !spot_json_is_true(adds))
        return 0;
    return add(p, doc, "/bos_token", id, err);
}

int spot_text_around_load(const char *dir, const struct spot_bpe *bpe,
                          struct spot_text_around *around, struct spot_err *err)
{
    const struct reading r = { { bpe, around->before, &around->n_before },
                               { bpe, around->after, &around->n_after } };
    struct spot_json_doc doc[2] = { { 0 }, { 0 } };
    char path[2][SPOT_BESIDE_PATH], bos[SPOT_BESIDE_TOKEN];
    int has[2] = { 0, 0 }, rc;

    around->n_before = around->n_after = 0;
    has[0] = spot_beside_open(&doc[0], path[0], dir, "tokenizer.json", err);
    if (has[0] >= 0)
        has[1] = spot_beside_open(&doc[1], path[1], dir, "tokenizer_config.json", err);
    rc = has[0] < 0 || has[1] < 0 || spot_beside_named(dir, "bos_token", bos, err) < 0;
    if (!rc && has[0])
        rc = read_processor(&r, &doc[0], spot_json_get(doc[0].root, "post_processor"), err);
    if (!rc && has[1])
        rc = read_config(&r.before, &doc[1], bos, !has[0], err);
    for (int i = 0; i < 2; i++)
        spot_json_release(&doc[i]);
    return rc ? -1 : 0;
}
