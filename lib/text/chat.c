/* SPDX-License-Identifier: MIT */
#include "text/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/unicode_class.h"

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

/* "bos_token": "<s>", or {"content": "<s>", ...}. Absent or null: "". */
static int take_token(const struct spot_json_doc *doc, const char *key, char text[64],
                      struct spot_err *err)
{
    const struct spot_json_value *value = spot_json_get(doc->root, key);
    const char *name;

    if (spot_json_is_object(value))
        value = spot_json_get(value, "content");
    name = spot_json_text(value);
    if (value && !spot_json_is_null(value) && (!name || strlen(name) > 63)) {
        char at[64];

        snprintf(at, sizeof(at), "/%s", key);
        return spot_json_fail(doc, at, err, "expected the text of a token, 63 bytes at most");
    }
    snprintf(text, 64, "%s", name ? name : "");
    return 0;
}

static int take(struct spot_chat *chat, const struct spot_json_doc *doc, struct spot_err *err)
{
    const char *const program = spot_json_text(spot_json_get(doc->root, "chat_template"));
    char *form;

    if (!program)
        return spot_json_fail(doc, "/chat_template", err, "expected a template, as text");
    if (take_token(doc, "bos_token", chat->bos, err) ||
        take_token(doc, "eos_token", chat->eos, err))
        return -1;
    form = squeezed(program);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(form, known[i].program)) {
            chat->form = known[i].form;
            free(form);
            return 0;
        }
    free(form);
    return spot_json_fail(doc, "/chat_template", err,
                          "'%.60s...' is none of the templates that are known: ChatML, Llama 2, "
                          "Llama 3",
                          program);
}

int spot_chat_load(struct spot_chat *chat, const char *path, struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc = spot_json_load_path(&doc, path, err);

    if (!rc) {
        rc = take(chat, &doc, err);
        spot_json_release(&doc);
    }
    return rc;
}

int spot_chat_parse(struct spot_chat *chat, const char *json, size_t n, const char *source,
                    struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc = spot_json_parse(&doc, json, n, source, err);

    if (!rc) {
        rc = take(chat, &doc, err);
        spot_json_release(&doc);
    }
    return rc;
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

int spot_chat_render(const struct spot_chat *chat, const struct spot_chat_message *message,
                     size_t n, bool asks, struct spot_buf *out, struct spot_err *err)
{
    if (check(chat, message, n, err))
        return -1;
    if (chat->form == SPOT_CHAT_LLAMA2)
        render_llama2(chat, message, n, out);
    else
        render_headed(chat, message, n, asks, out);
    return 0;
}
