/* SPDX-License-Identifier: MIT */
#include "text/chat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/xalloc.h"
#include "text/beside.h"
#include "text/template.h"
#include "text/token_names.h"

struct spot_chat {
    struct spot_template *template;
    struct spot_json_doc role;  /* texts of tokens by role, such as "bos_token" */
    struct spot_names *special; /* texts of special tokens, which content must not contain */
    char end[SPOT_BESIDE_TOKEN];
};

/* --- the program --------------------------------------------------------------------- */

static int parse_program(struct spot_chat *chat, const char *text, size_t n, const char *source,
                         struct spot_err *err)
{
    chat->template = spot_template_parse(text, n, source, err);
    return chat->template ? 0 : -1;
}

/* Returns 1, 0 if there is no such file, -1 with *err. */
static int read_program(struct spot_chat *chat, const char *path, struct spot_err *err)
{
    FILE *const in = fopen(path, "re");
    char *text;
    size_t n;
    int rc;

    if (!in)
        return errno == ENOENT || errno == ENOTDIR ? 0
                                                   : spot_err_sys(err, "cannot open '%s'", path);
    text = spot_xcalloc(SPOT_TEMPLATE_MAX + 1, 1);
    n = fread(text, 1, SPOT_TEMPLATE_MAX + 1, in);
    if (ferror(in))
        rc = spot_err_sys(err, "cannot read '%s'", path);
    else
        rc = parse_program(chat, text, n, path, err) ? -1 : 1;
    fclose(in);
    free(text);
    return rc;
}

/* The `chat_template` of a tokenizer_config.json: a text, or several by name, of which transformers
 * takes "default". Returns 1, 0 if there is none of the name, -1 with *err. */
static int take_program(struct spot_chat *chat, const struct spot_json_doc *doc, const char *choice,
                        struct spot_err *err)
{
    const struct spot_json_value *value = spot_json_get(doc->root, "chat_template");
    const struct spot_json_value *const list = spot_json_is_array(value) ? value : NULL;
    const char *const wanted = choice ? choice : "default", *program;
    char source[SPOT_BESIDE_PATH + 32];

    if (list)
        value = NULL;
    for (size_t i = 0; i < spot_json_array_size(list); i++) {
        const char *const name = spot_json_text(spot_json_get(spot_json_entry(list, i), "name"));

        if (name && !strcmp(name, wanted))
            value = spot_json_get(spot_json_entry(list, i), "template");
    }
    if (choice && !list && strcmp(choice, "default") != 0)
        return 0;
    program = spot_json_text(value);
    if (!program)
        return choice || !list
                   ? 0
                   : spot_json_fail(doc, "/chat_template", err, "none is named default");
    snprintf(source, sizeof(source), "%s: /chat_template", doc->source);
    return parse_program(chat, program, strlen(program), source, err) ? -1 : 1;
}

/* Finds the template in a directory, in the order of transformers. Returns as above. */
static int find_program(struct spot_chat *chat, const char *dir, const char *choice,
                        struct spot_err *err)
{
    const bool is_default = !choice || !strcmp(choice, "default");
    char path[SPOT_BESIDE_PATH];
    struct spot_json_doc doc;
    int rc;

    snprintf(path, sizeof(path),
             is_default ? "%s/chat_template.jinja" : "%s/additional_chat_templates/%s.jinja", dir,
             choice);
    rc = read_program(chat, path, err);
    if (rc)
        return rc;
    rc = spot_beside_open(&doc, path, dir, "tokenizer_config.json", err);
    if (rc > 0)
        rc = take_program(chat, &doc, choice, err);
    spot_json_release(&doc);
    return rc;
}

/* Loads a file if it exists, otherwise a named template. */
static int load_program(struct spot_chat *chat, const char *dir, const char *choice,
                        struct spot_err *err)
{
    int rc = choice && strchr(choice, '/') ? 0 : find_program(chat, dir, choice, err);

    if (!rc && choice)
        rc = read_program(chat, choice, err);
    if (!rc && choice)
        return spot_err_set(err, SPOT_EDATA, "%s: no chat template, nor a file, '%.80s'", dir,
                            choice);
    if (!rc)
        return spot_err_set(err, SPOT_EDATA,
                            "%s/tokenizer_config.json: no chat_template, nor is there a "
                            "chat_template.jinja",
                            dir);
    return rc < 0 ? -1 : 0;
}

/* --- tokens ------------------------------------------------------------------------------ */

static void add_special(struct spot_chat *chat, const struct spot_json_value *value)
{
    const char *const text = spot_beside_text(value);

    if (text)
        spot_names_add(chat->special, text, 0);
}

/* Adds the special tokens that tokenizer.json ("added_tokens") and tokenizer_config.json
 * ("added_tokens_decoder") list. */
static void add_listed(struct spot_chat *chat, const struct spot_json_value *list)
{
    const struct spot_json_value *v;
    const char *key;

    for (size_t i = 0; i < spot_json_array_size(list); i++)
        if (spot_json_is_true(spot_json_get(spot_json_entry(list, i), "special")))
            add_special(chat, spot_json_entry(list, i));
    for (size_t i = 0; (v = spot_json_member(list, i, &key)); i++)
        if (spot_json_is_true(spot_json_get(v, "special")))
            add_special(chat, v);
}

/* Adds the roles that a document names; the first document counts. */
static void add_roles(struct spot_chat *chat, const struct spot_json_doc *doc, struct spot_jw *jw,
                      bool *has)
{
    static const char *const role[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token" };

    for (size_t i = 0; i < sizeof(role) / sizeof(role[0]); i++) {
        const struct spot_json_value *const v = spot_json_get(doc->root, role[i]);

        if (!spot_beside_text(v))
            continue;
        add_special(chat, v);
        if (!has[i])
            spot_jw_str(jw, role[i], spot_beside_text(v));
        has[i] = true;
    }
    for (size_t i = 0; i < 2; i++) {
        const struct spot_json_value *const list =
            spot_json_get(doc->root, i ? "extra_special_tokens" : "additional_special_tokens");
        const struct spot_json_value *v;
        const char *key;

        for (size_t k = 0; k < spot_json_array_size(list); k++)
            add_special(chat, spot_json_entry(list, k));
        for (size_t k = 0; (v = spot_json_member(list, k, &key)); k++)
            add_special(chat, v);
    }
}

/* Reads the special tokens of the documents doc[n], some of which may be empty; the first that
 * names a role counts. */
static int take_tokens(struct spot_chat *chat, const struct spot_json_doc *doc, size_t n,
                       struct spot_err *err)
{
    bool has[7] = { false };
    struct spot_jw jw;
    char *text, ignored[SPOT_BESIDE_TOKEN];
    size_t n_text;
    FILE *const out = spot_xmemory_open(&text, &n_text);
    int rc = 0;

    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    for (size_t i = 0; i < n; i++) {
        rc = rc || spot_beside_token(&doc[i], "bos_token", ignored, err) < 0 ||
             spot_beside_token(&doc[i], "eos_token", ignored, err) < 0;
        add_roles(chat, &doc[i], &jw, has);
        add_listed(chat, spot_json_get(doc[i].root, "added_tokens"));
        add_listed(chat, spot_json_get(doc[i].root, "added_tokens_decoder"));
    }
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    spot_names_index(chat->special);
    rc = rc || spot_json_parse(&chat->role, text, n_text, "tokens", err);
    free(text);
    return rc ? -1 : 0;
}

static int64_t fixed_s = -1;

void spot_chat_fix_time(int64_t now_s)
{
    fixed_s = now_s;
}

static int render(const struct spot_chat *chat, const struct spot_json_value *context,
                  struct spot_buf *out, struct spot_err *err)
{
    const struct spot_template_input input = { .values = { context, chat->role.root },
                                               .now_s =
                                                   fixed_s >= 0 ? fixed_s : (int64_t)time(NULL) };

    return spot_template_render(chat->template, &input, out, err);
}

/* Finds the first special token after an assistant's message, or else the tokenizer's end token.
 * Returns -1 with *err if rendering exceeds a limit. */
static int find_end(struct spot_chat *chat, struct spot_err *err)
{
    static const char said[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                               "{\"role\":\"assistant\",\"content\":\"spot-said-this\"}],"
                               "\"add_generation_prompt\":false}";
    const char *const eos = spot_json_text(spot_json_get(chat->role.root, "eos_token"));
    struct spot_json_doc doc;
    struct spot_buf out = { 0 };
    struct spot_err why = { 0 };
    const char *at = NULL;

    snprintf(chat->end, sizeof(chat->end), "%s", eos ? eos : "");
    if (spot_json_parse(&doc, said, sizeof(said) - 1, "said", err))
        return -1;
    if (!render(chat, doc.root, &out, &why)) {
        spot_buf_add(&out, "", 1);
        at = strstr((const char *)out.data, "spot-said-this");
    }
    for (; at && *at; at++) {
        const char *const token = spot_names_longest(chat->special, at, strlen(at), NULL);

        if (token && strlen(token) < sizeof(chat->end)) {
            snprintf(chat->end, sizeof(chat->end), "%s", token);
            break;
        }
    }
    spot_buf_release(&out);
    spot_json_release(&doc);
    return why.code == SPOT_EINFEASIBLE ? spot_err_set(err, SPOT_EDATA, "%s", why.msg) : 0;
}

/* --- opening ----------------------------------------------------------------------------- */

static struct spot_chat *new_chat(void)
{
    struct spot_chat *const chat = spot_xcalloc(1, sizeof(*chat));

    chat->special = spot_names_new();
    return chat;
}

static struct spot_chat *finish(struct spot_chat *chat, int rc, struct spot_err *err)
{
    if (!rc && !find_end(chat, err))
        return chat;
    spot_chat_free(chat);
    return NULL;
}

struct spot_chat *spot_chat_parse(const char *json, size_t n, const char *source,
                                  struct spot_err *err)
{
    struct spot_chat *const chat = new_chat();
    struct spot_json_doc doc;
    int rc = spot_json_parse(&doc, json, n, source, err);

    if (!rc) {
        rc = take_tokens(chat, &doc, 1, err) ? -1 : take_program(chat, &doc, NULL, err);
        rc = rc ? rc - (rc > 0) : spot_json_fail(&doc, "", err, "expected a chat_template");
        spot_json_release(&doc);
    }
    return finish(chat, rc, err);
}

struct spot_chat *spot_chat_load(const char *dir, const char *choice, struct spot_err *err)
{
    static const char *const name[] = { "tokenizer_config.json", "special_tokens_map.json",
                                        "tokenizer.json" };
    enum { FILES = sizeof(name) / sizeof(name[0]) };
    struct spot_chat *const chat = new_chat();
    char path[FILES][SPOT_BESIDE_PATH];
    struct spot_json_doc doc[FILES] = { 0 };
    int rc = load_program(chat, dir, choice, err);

    for (int i = 0; !rc && i < FILES; i++)
        rc = spot_beside_open(&doc[i], path[i], dir, name[i], err) < 0 ? -1 : 0;
    if (!rc)
        rc = take_tokens(chat, doc, FILES, err);
    for (int i = 0; i < FILES; i++)
        spot_json_release(&doc[i]);
    return finish(chat, rc, err);
}

void spot_chat_free(struct spot_chat *chat)
{
    if (!chat)
        return;
    spot_template_free(chat->template);
    spot_json_release(&chat->role);
    spot_names_free(chat->special);
    free(chat);
}

const char *spot_chat_end(const struct spot_chat *chat)
{
    return chat->end;
}

/* --- rendering --------------------------------------------------------------------------- */

/* A special token in a text; NULL: none. */
static const char *token_in(const struct spot_chat *chat, const char *text)
{
    const size_t n = strlen(text);

    for (size_t i = 0; i < n; i++) {
        const char *const token = spot_names_longest(chat->special, text + i, n - i, NULL);

        if (token)
            return token;
    }
    return NULL;
}

/* The same for any text inside a value, keys included. The depth of JSON is bounded. */
static const char *token_within(const struct spot_chat *chat, const struct spot_json_value *v)
{
    const struct spot_json_value *member;
    const char *token = spot_json_text(v) ? token_in(chat, spot_json_text(v)) : NULL, *key;

    for (size_t i = 0; !token && i < spot_json_array_size(v); i++)
        token = token_within(chat, spot_json_entry(v, i));
    for (size_t i = 0; !token && (member = spot_json_member(v, i, &key)); i++) {
        token = token_in(chat, key);
        token = token ? token : token_within(chat, member);
    }
    return token;
}

int spot_chat_render(const struct spot_chat *chat, const struct spot_json_value *context,
                     struct spot_buf *out, struct spot_err *err)
{
    const struct spot_json_value *const list = spot_json_get(context, "messages"), *v;
    const char *token, *key;

    for (size_t i = 0; i < spot_json_array_size(list); i++)
        if ((token = token_within(chat, spot_json_entry(list, i))))
            return spot_err_set(err, SPOT_EDATA, "message %zu: the content names the token '%s'", i,
                                token);
    for (size_t i = 0; (v = spot_json_member(context, i, &key)); i++)
        if (v != list && (token = token_within(chat, v)))
            return spot_err_set(err, SPOT_EDATA, "%.40s: names the token '%s'", key, token);
    return render(chat, context, out, err);
}
