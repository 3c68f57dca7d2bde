/* SPDX-License-Identifier: MIT */
#include "text/chat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/beside.h"
#include "text/unicode_class.h"

enum { TEMPLATE_MAX = 1 << 20 };

enum spot_chat_form { SPOT_CHAT_CHATML, SPOT_CHAT_LLAMA2, SPOT_CHAT_LLAMA3 };

struct spot_chat {
    enum spot_chat_form form;
    char bos[SPOT_BESIDE_TOKEN], eos[SPOT_BESIDE_TOKEN]; /* texts of the tokens; "": none */
};

struct spot_chat_message {
    const char *role; /* system, user or assistant */
    const char *content;
};

/* The programs as they are published, without the blanks in their tags. */
static const struct known {
    enum spot_chat_form form;
    const char *program;
} known[] = {
    { SPOT_CHAT_CHATML,
      "{%formessageinmessages%}{{'<|im_start|>'+message['role']+'\\n'+message['content']+"
      "'<|im_end|>'+'\\n'}}{%endfor%}{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}"
      "{%endif%}" },
    { SPOT_CHAT_CHATML,
      "{%ifnotadd_generation_promptisdefined%}{%setadd_generation_prompt=false%}{%endif%}"
      "{%formessageinmessages%}{{'<|im_start|>'+message['role']+'\\n'+message['content']+"
      "'<|im_end|>'+'\\n'}}{%endfor%}{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}"
      "{%endif%}" },
    { SPOT_CHAT_LLAMA2,
      "{%ifmessages[0]['role']=='system'%}{%setloop_messages=messages[1:]%}"
      "{%setsystem_message=messages[0]['content']%}{%else%}{%setloop_messages=messages%}"
      "{%setsystem_message=false%}{%endif%}{%formessageinloop_messages%}"
      "{%if(message['role']=='user')!=(loop.index0%2==0)%}{{raise_exception("
      "'Conversation roles must alternate user/assistant/user/assistant/...')}}{%endif%}"
      "{%ifloop.index0==0andsystem_message!=false%}{%setcontent='<<SYS>>\\n'+system_message+"
      "'\\n<</SYS>>\\n\\n'+message['content']%}{%else%}{%setcontent=message['content']%}{%endif%}"
      "{%ifmessage['role']=='user'%}{{bos_token+'[INST] '+content.strip()+' [/INST]'}}"
      "{%elifmessage['role']=='assistant'%}{{' '+content.strip()+' '+eos_token}}{%endif%}"
      "{%endfor%}" },
    { SPOT_CHAT_LLAMA3,
      "{%setloop_messages=messages%}{%formessageinloop_messages%}{%setcontent="
      "'<|start_header_id|>'+message['role']+'<|end_header_id|>\\n\\n'+message['content']|trim+"
      "'<|eot_id|>'%}{%ifloop.index0==0%}{%setcontent=bos_token+content%}{%endif%}{{content}}"
      "{%endfor%}{%ifadd_generation_prompt%}{{'<|start_header_id|>assistant<|end_header_id|>"
      "\\n\\n'}}{%endif%}" },
};

/* A program without the blanks in its tags, to be freed. Text between tags and in quotes stays: it
 * is output; a newline in quotes as it is mostly written. */
static char *squeezed(const char *program)
{
    char *const out = spot_xcalloc(2 * strlen(program) + 1, 1);
    bool is_tag = false;
    char quote = '\0';
    size_t n = 0;

    for (const char *p = program; *p; p++) {
        if (p[0] == '{' && (p[1] == '%' || p[1] == '{'))
            is_tag = true;
        if (is_tag && (*p == '"' || *p == '\'') && (!quote || *p == quote)) {
            quote = quote ? '\0' : *p;
            out[n++] = '\'';
        } else if (quote && *p == '\n') {
            out[n++] = '\\';
            out[n++] = 'n';
        } else if (!is_tag || quote || !strchr(" \t\r\n", *p)) {
            out[n++] = *p;
        }
        if (!quote && *p == '}' && p > program && (p[-1] == '%' || p[-1] == '}'))
            is_tag = false;
    }
    return out;
}

/* What transformers names "default", where there are several. */
static const struct spot_json_value *default_of(const struct spot_json_value *list)
{
    for (size_t i = 0; i < spot_json_array_size(list); i++) {
        const char *const name = spot_json_text(spot_json_get(spot_json_entry(list, i), "name"));

        if (name && !strcmp(name, "default"))
            return spot_json_get(spot_json_entry(list, i), "template");
    }
    return list;
}

/* Jinja drops a newline at the end. NULL, or what is wrong with a program, to be told with its
 * place. */
static const char *recognise(struct spot_chat *chat, const char *program)
{
    const size_t n = strlen(program);
    char *const text = spot_xstrdup(program), *form;
    size_t i = 0;

    if (n && text[n - 1] == '\n')
        text[n - 1] = '\0';
    form = squeezed(text);
    while (i < sizeof(known) / sizeof(known[0]) && strcmp(form, known[i].program) != 0)
        i++;
    free(text);
    free(form);
    if (i == sizeof(known) / sizeof(known[0]))
        return "is none of the templates that are known: ChatML, Llama 2, Llama 3";
    chat->form = known[i].form;
    return NULL;
}

static int take_program(struct spot_chat *chat, const struct spot_json_doc *doc,
                        struct spot_err *err)
{
    const struct spot_json_value *const value =
        default_of(spot_json_get(doc->root, "chat_template"));
    const char *const program = spot_json_text(value);
    const char *wrong;

    if (!program)
        return spot_json_fail(doc, value ? "/chat_template" : "", err,
                              "expected a chat_template, as text, or one named default");
    wrong = recognise(chat, program);
    return wrong ? spot_json_fail(doc, "/chat_template", err, "'%.60s...' %s", program, wrong) : 0;
}

struct spot_chat *spot_chat_parse(const char *json, size_t n, const char *source,
                                  struct spot_err *err)
{
    struct spot_chat *const chat = spot_xcalloc(1, sizeof(*chat));
    struct spot_json_doc doc;
    int rc = spot_json_parse(&doc, json, n, source, err);

    if (!rc) {
        rc = spot_beside_token(&doc, "bos_token", chat->bos, err) < 0 ||
             spot_beside_token(&doc, "eos_token", chat->eos, err) < 0 ||
             take_program(chat, &doc, err);
        spot_json_release(&doc);
    }
    if (!rc)
        return chat;
    spot_chat_free(chat);
    return NULL;
}

void spot_chat_free(struct spot_chat *chat)
{
    free(chat);
}

/* Returns 1, 0 if there is no such file, -1 with *err. */
static int read_template(const char *path, char text[TEMPLATE_MAX + 1], struct spot_err *err)
{
    FILE *const in = fopen(path, "re");
    size_t n;
    int rc = 1;

    if (!in)
        return errno == ENOENT ? 0 : spot_err_sys(err, "cannot open '%s'", path);
    n = fread(text, 1, TEMPLATE_MAX + 1, in);
    if (ferror(in))
        rc = spot_err_sys(err, "cannot read '%s'", path);
    else if (n > TEMPLATE_MAX)
        rc = spot_err_set(err, SPOT_EDATA, "%s: larger than %d bytes", path, TEMPLATE_MAX);
    else if (memchr(text, '\0', n))
        rc = spot_err_set(err, SPOT_EDATA, "%s: a NUL byte, expected text", path);
    else
        text[n] = '\0';
    fclose(in);
    return rc;
}

/* Of the two places of a template, the file of its own counts, as in transformers. */
static int load_program(struct spot_chat *chat, const char *dir, struct spot_err *err)
{
    char *const text = spot_xcalloc(TEMPLATE_MAX + 1, 1);
    struct spot_json_doc doc = { 0 };
    const char *wrong = NULL;
    char path[SPOT_BESIDE_PATH], config[SPOT_BESIDE_PATH];
    int rc;

    snprintf(path, sizeof(path), "%s/chat_template.jinja", dir);
    rc = read_template(path, text, err);
    if (rc > 0) {
        wrong = recognise(chat, text);
    } else if (!rc) {
        rc = spot_beside_open(&doc, config, dir, "tokenizer_config.json", err);
        if (rc > 0)
            rc = take_program(chat, &doc, err) ? -1 : 1;
        if (!rc)
            rc = spot_err_set(err, SPOT_EDATA,
                              "%s/tokenizer_config.json: not found, nor is chat_template.jinja",
                              dir);
    }
    if (wrong)
        rc = spot_err_set(err, SPOT_EDATA, "%s: '%.60s...' %s", path, text, wrong);
    free(text);
    spot_json_release(&doc);
    return rc < 0 ? -1 : 0;
}

struct spot_chat *spot_chat_load(const char *dir, const char *choice, struct spot_err *err)
{
    struct spot_chat *const chat = spot_xcalloc(1, sizeof(*chat));

    (void)choice;
    if (spot_beside_named(dir, "bos_token", chat->bos, err) >= 0 &&
        spot_beside_named(dir, "eos_token", chat->eos, err) >= 0 && !load_program(chat, dir, err))
        return chat;
    spot_chat_free(chat);
    return NULL;
}

const char *spot_chat_end(const struct spot_chat *chat)
{
    switch (chat->form) {
    case SPOT_CHAT_CHATML:
        return "<|im_end|>";
    case SPOT_CHAT_LLAMA3:
        return "<|eot_id|>";
    case SPOT_CHAT_LLAMA2:
        break;
    }
    return chat->eos;
}

/* --- rendering ------------------------------------------------------------------- */

static void say(struct spot_buf *out, const char *text)
{
    spot_buf_add(out, text, strlen(text));
}

/* What Python's strip() takes away. */
static bool is_blank(uint32_t code)
{
    return spot_char_class(code) == SPOT_CHAR_SPACE || (code >= 0x1C && code <= 0x1F);
}

/* Without the blanks around it. */
static void say_trimmed(struct spot_buf *out, const char *text, size_t n)
{
    size_t begin = 0, end = 0;

    for (size_t at = 0, length; at < n; at += length) {
        uint32_t code;

        length = spot_utf8_char(text + at, n - at, &code);
        if (!is_blank(code))
            end = at + length;
        else if (!end)
            begin = at + length;
    }
    if (end)
        spot_buf_add(out, text + begin, end - begin);
}

/* Could the content impersonate another role? */
static const char *token_in(const struct spot_chat *chat, const char *content)
{
    static const char *const of[3][4] = {
        [SPOT_CHAT_CHATML] = { "<|im_start|>", "<|im_end|>" },
        [SPOT_CHAT_LLAMA3] = { "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>" },
    };

    for (size_t i = 0; of[chat->form][i]; i++)
        if (strstr(content, of[chat->form][i]))
            return of[chat->form][i];
    if (*chat->bos && strstr(content, chat->bos))
        return chat->bos;
    return *chat->eos && strstr(content, chat->eos) ? chat->eos : NULL;
}

static int check(const struct spot_chat *chat, const struct spot_chat_message *message, size_t n,
                 struct spot_err *err)
{
    const size_t first = n && !strcmp(message[0].role, "system");

    if (chat->form == SPOT_CHAT_LLAMA2 && n == first)
        return spot_err_set(err, SPOT_EDATA, "no message of a user");
    for (size_t i = 0; i < n; i++) {
        const char *const role = message[i].role, *const token = token_in(chat, message[i].content);
        const bool is_user = !strcmp(role, "user");

        if (!is_user && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0)
            return spot_err_set(err, SPOT_EDATA,
                                "message %zu: role '%.40s', expected system, user or assistant", i,
                                role);
        if (chat->form == SPOT_CHAT_LLAMA2 && i >= first &&
            (!strcmp(role, "system") || is_user != ((i - first) % 2 == 0)))
            return spot_err_set(err, SPOT_EDATA,
                                "message %zu: role '%.40s' out of turn, expected %s", i, role,
                                (i - first) % 2 ? "assistant" : "user");
        if (token)
            return spot_err_set(err, SPOT_EDATA, "message %zu: the content names the token '%s'", i,
                                token);
    }
    return 0;
}

static void render_headed(const struct spot_chat *chat, const struct spot_chat_message *message,
                          size_t n, bool asks, struct spot_buf *out)
{
    const bool is_llama3 = chat->form == SPOT_CHAT_LLAMA3;
    const char *const begin = is_llama3 ? "<|start_header_id|>" : "<|im_start|>";
    const char *const behind = is_llama3 ? "<|end_header_id|>\n\n" : "\n";

    if (is_llama3 && n)
        say(out, chat->bos);
    for (size_t i = 0; i < n; i++) {
        say(out, begin);
        say(out, message[i].role);
        say(out, behind);
        if (is_llama3)
            say_trimmed(out, message[i].content, strlen(message[i].content));
        else
            say(out, message[i].content);
        say(out, is_llama3 ? "<|eot_id|>" : "<|im_end|>\n");
    }
    if (!asks)
        return;
    say(out, begin);
    say(out, "assistant");
    say(out, behind);
}

static void render_llama2(const struct spot_chat *chat, const struct spot_chat_message *message,
                          size_t n, struct spot_buf *out)
{
    const size_t first = n && !strcmp(message[0].role, "system");

    for (size_t i = first; i < n; i++) {
        const bool is_user = (i - first) % 2 == 0;
        struct spot_buf content = { 0 };

        if (first && i == first) {
            say(&content, "<<SYS>>\n");
            say(&content, message[0].content);
            say(&content, "\n<</SYS>>\n\n");
        }
        say(&content, message[i].content);
        if (is_user)
            say(out, chat->bos);
        say(out, is_user ? "[INST] " : " ");
        say_trimmed(out, (const char *)content.data, content.n);
        say(out, is_user ? " [/INST]" : " ");
        if (!is_user)
            say(out, chat->eos);
        spot_buf_release(&content);
    }
}

int spot_chat_render(const struct spot_chat *chat, const struct spot_json_value *context,
                     struct spot_buf *out, struct spot_err *err)
{
    const struct spot_json_value *const list = spot_json_get(context, "messages");
    const bool asks = spot_json_is_true(spot_json_get(context, "add_generation_prompt"));
    const size_t n = spot_json_array_size(list);
    struct spot_chat_message *const message = spot_xcalloc(n + 1, sizeof(*message));
    int rc;

    for (size_t i = 0; i < n; i++) {
        const struct spot_json_value *const v = spot_json_entry(list, i);

        message[i].role = spot_json_text(spot_json_get(v, "role"));
        message[i].content = spot_json_text(spot_json_get(v, "content"));
        message[i].role = message[i].role ? message[i].role : "";
        message[i].content = message[i].content ? message[i].content : "";
    }
    rc = check(chat, message, n, err);
    if (!rc && chat->form == SPOT_CHAT_LLAMA2)
        render_llama2(chat, message, n, out);
    else if (!rc)
        render_headed(chat, message, n, asks, out);
    free(message);
    return rc;
}
