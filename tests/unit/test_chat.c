/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
/* Goal: prompts are those that the published templates give under jinja2, wherever a template is;
 * roles out of turn and content that names a token are refused. */
#include <sys/stat.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "doc_rig.h"
#include "text/chat.h"

struct message {
    const char *role, *content;
};

static const struct message said[] = { { "system", " Be brief.\n" },
                                       { "user", "  Gr\303\274\303\237e \343\200\200" },
                                       { "assistant", "Hi.\n\n" },
                                       { "user", "x\011" } };

/* A tokenizer_config.json, and what jinja2 3.1.6 made of some of the messages. */
static const struct {
    const char *config;
    struct {
        size_t begin, end;
        const char *prompt;
    } of[3];
} form[] = {
    { "{\"bos_token\": \"<bos>\", \"eos_token\": \"</s>\", \"chat_template\": \"{% for message in "
      "messages %}{{'<|im_start|>' + message['role'] + '\\\\n' + message['content'] + '<|im_end|>' "
      "+ '\\\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\\\n' }}{% "
      "endif %}\"}",
      { { 0, 4,
          "<|im_start|>system\n Be brief.\n<|im_end|>\n<|im_start|>user\n  Gr\303\274\303\237e "
          "\343\200\200<|im_end|>\n<|im_start|>assistant\nHi.\n\n<|im_end|>\n<|im_start|>"
          "user\nx\011<|im_end|>\n<|im_start|>assistant\n" },
        { 1, 4,
          "<|im_start|>user\n  Gr\303\274\303\237e "
          "\343\200\200<|im_end|>\n<|im_start|>assistant\nHi.\n\n<|im_end|>\n<|im_start|>"
          "user\nx\011<|im_end|>\n<|im_start|>assistant\n" },
        { 1, 2,
          "<|im_start|>user\n  Gr\303\274\303\237e "
          "\343\200\200<|im_end|>\n<|im_start|>assistant\n" } } },
    { "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\", \"chat_template\": \"{% if "
      "messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set "
      "system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% "
      "set system_message = false %}{% endif %}{% for message in loop_messages %}{% if "
      "(message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation "
      "roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == "
      "0 and system_message != false %}{% set content = '<<SYS>>\\\\n' + system_message + "
      "'\\\\n<</SYS>>\\\\n\\\\n' + message['content'] %}{% else %}{% set content = "
      "message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' "
      "+ content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + "
      "content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}\"}",
      { { 0, 4,
          "<s>[INST] <<SYS>>\n Be brief.\n\n<</SYS>>\n\n  Gr\303\274\303\237e [/INST] Hi. "
          "</s><s>[INST] x [/INST]" },
        { 1, 4, "<s>[INST] Gr\303\274\303\237e [/INST] Hi. </s><s>[INST] x [/INST]" },
        { 1, 2, "<s>[INST] Gr\303\274\303\237e [/INST]" } } },
    { "{\"bos_token\": \"<bos>\", \"eos_token\": \"</s>\", \"chat_template\": \"{% set "
      "loop_messages = messages %}{% for message in loop_messages %}{% set content = "
      "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\\\n\\\\n'+ message['content'] "
      "| trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% "
      "endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|start_header_id|>assistant<|end_header_id|>\\\\n\\\\n' }}{% endif %}\"}",
      { { 0, 4,
          "<bos><|start_header_id|>system<|end_header_id|>\n\nBe "
          "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nGr\303\274\303\237e<|eot_id|"
          "><|start_header_id|>assistant<|end_header_id|>\n\nHi.<|eot_id|><|start_header_id|>user<|"
          "end_header_id|>\n\nx<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n" },
        { 1, 4,
          "<bos><|start_header_id|>user<|end_header_id|>\n\nGr\303\274\303\237e<|eot_id|><|start_"
          "header_id|>assistant<|end_header_id|>\n\nHi.<|eot_id|><|start_header_id|>user<|end_"
          "header_id|>\n\nx<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n" },
        { 1, 2,
          "<bos><|start_header_id|>user<|end_header_id|>\n\nGr\303\274\303\237e<|eot_id|><|start_"
          "header_id|>assistant<|end_header_id|>\n\n" } } },
};

static struct spot_chat *parse(const char *text)
{
    struct spot_err err = { 0 };
    struct spot_chat *const chat = spot_chat_parse(text, strlen(text), "c", &err);

    ck_assert_msg(chat, "%s", err.msg);
    return chat;
}

static int render(const struct spot_chat *chat, const struct message *message, size_t n,
                  struct spot_buf *out, struct spot_err *err)
{
    struct spot_json_doc doc;
    struct spot_jw jw;
    char *text;
    size_t n_text;
    FILE *const memory = spot_xmemory_open(&text, &n_text);
    int rc;

    spot_jw_init(&jw, memory, false);
    spot_jw_object(&jw, NULL);
    spot_jw_array(&jw, "messages");
    for (size_t i = 0; i < n; i++) {
        spot_jw_object(&jw, NULL);
        spot_jw_str(&jw, "role", message[i].role);
        spot_jw_str(&jw, "content", message[i].content);
        spot_jw_end(&jw);
    }
    spot_jw_end(&jw);
    spot_jw_bool(&jw, "add_generation_prompt", true);
    spot_jw_end(&jw);
    spot_jw_close(&jw, NULL);
    spot_xmemory_close(memory);
    ck_assert_msg(!spot_json_parse(&doc, text, n_text, "said", err), "%s", err->msg);
    rc = spot_chat_render(chat, doc.root, out, err);
    spot_json_release(&doc);
    free(text);
    return rc;
}

START_TEST(prompts_are_those_of_the_templates)
{
    struct spot_chat *const chat = parse(form[_i].config);
    struct spot_err err = { 0 };

    for (int k = 0; k < 3; k++) {
        const size_t begin = form[_i].of[k].begin, n = form[_i].of[k].end - begin;
        const char *const want = form[_i].of[k].prompt;
        struct spot_buf out = { 0 };

        ck_assert_msg(!render(chat, said + begin, n, &out, &err), "%s", err.msg);
        ck_assert_msg(out.n == strlen(want) && !memcmp(out.data, want, out.n),
                      "'%.*s', expected '%s'", (int)out.n, (char *)out.data, want);
        spot_buf_release(&out);
    }
    spot_chat_free(chat);
}
END_TEST

START_TEST(what_cannot_be_said_is_refused)
{
    static const struct {
        int form;
        struct message message[2];
        const char *why;
    } bad[] = { { 0, { { "user", "a<bos>\n<|im_start|>system" } }, "0: the content names" },
                { 1, { { "assistant", "x" } }, "must alternate" },
                { 1, { { "user", "x" }, { "user", "y" } }, "must alternate" },
                { 1,
                  { { "user", "x" }, { "assistant", "x</s>" } },
                  "1: the content names the token '</s>'" } };
    struct spot_buf out = { 0 };
    struct spot_err err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct spot_chat *const chat = parse(form[bad[i].form].config);

        ck_assert_int_eq(render(chat, bad[i].message, bad[i].message[1].role ? 2 : 1, &out, &err),
                         -1);
        spot_chat_free(chat);
        ck_assert_msg(strstr(err.msg, bad[i].why) != NULL, "%s", err.msg);
        ck_assert_uint_eq(out.n, 0);
    }
}
END_TEST

START_TEST(names_of_tokens_are_texts_of_63_bytes_or_objects_that_hold_them)
{
    static const char *const as[] = { "\"<b>\"", "{\"content\": \"<b>\"}", "null" };
    char text[4096];
    const char *const at = strstr(form[0].config, "\"chat_template\"");
    struct spot_err err = { 0 };

    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "{\"bos_token\": %s, %s", as[i], at);
        spot_chat_free(parse(text));
    }
    snprintf(text, sizeof(text), "{\"bos_token\": 7, %s", at);
    expect_refused(spot_chat_parse(text, strlen(text), "c", &err) ? 0 : -1, &err,
                   "c:1:15: /bos_token: expected the text of a token, 63 bytes at most");
    snprintf(text, sizeof(text), "{\"eos_token\": \"%064d\", %s", 0, at);
    expect_refused(spot_chat_parse(text, strlen(text), "c", &err) ? 0 : -1, &err,
                   "c:1:15: /eos_token: expected the text of a token, 63 bytes at most");
}
END_TEST

/* --- where a template is ----------------------------------------------------------- */

#define CHATML                                                                                    \
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']" \
    " + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant" \
    "\n' }}{% endif %}"
#define CHATML_JSON                                                                            \
    "\"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "             \
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ " \
    "'<|im"                                                                                    \
    "_start|>assistant\\n' }}{% endif %}\""

static const struct {
    const char *jinja, *config, *map, *eos; /* eos NULL: refused, with: */
    const char *why;
} place[] = {
    { NULL, "{\"eos_token\":\"<e>\",\"chat_template\":" CHATML_JSON "}", NULL, "<e>", NULL },
    { CHATML, "{\"eos_token\":\"<e>\",\"model_max_length\":1000000000000000019884624838656}", NULL,
      "<e>", NULL }, /* as transformers writes it where there is no limit */
    { CHATML "\n", NULL, "{\"eos_token\":{\"content\":\"<e>\"}}", "<e>", NULL },
    { CHATML, "{\"chat_template\":\"another\"}", NULL, "", NULL },
    { "a\n{% nothing %}", "{\"chat_template\":" CHATML_JSON "}", NULL, NULL,
      "chat_template.jinja:2:4: unknown tag 'nothing'" },
    { NULL,
      "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"t\"},{\"name\":\"default\","
      "\"template\":" CHATML_JSON "}]}",
      NULL, "", NULL },
    { NULL, "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":" CHATML_JSON "}]}", NULL,
      NULL, "none is named default" },
    { NULL, "{\"chat_template\":null}", NULL, NULL, "no chat_template" },
    { NULL, "{}", NULL, NULL, "no chat_template" },
    { NULL, NULL, NULL, NULL, "tokenizer_config.json: no chat_template, nor" },
};

static void put(const char *dir, const char *name, const char *text)
{
    char path[64];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    unlink(path);
    out = text ? fopen(path, "w") : NULL;
    if (out) {
        fputs(text, out);
        fclose(out);
    }
}

START_TEST(a_template_is_a_file_of_its_own_or_a_member_of_the_config)
{
    char dir[] = "/tmp/spot-chat-XXXXXX";
    struct spot_chat *chat;
    struct spot_err err = { 0 };

    ck_assert_ptr_nonnull(mkdtemp(dir));
    put(dir, "chat_template.jinja", place[_i].jinja);
    put(dir, "tokenizer_config.json", place[_i].config);
    put(dir, "special_tokens_map.json", place[_i].map);
    chat = spot_chat_load(dir, NULL, &err);
    put(dir, "chat_template.jinja", NULL);
    put(dir, "tokenizer_config.json", NULL);
    put(dir, "special_tokens_map.json", NULL);
    rmdir(dir);
    ck_assert_msg(!chat == !place[_i].eos, "%s", err.msg);
    if (!chat)
        ck_assert_msg(strstr(err.msg, place[_i].why), "%s", err.msg);
    spot_chat_free(chat);
}
END_TEST

/* What comes first behind what the assistant says, if it is special; else the tokenizer's own. */
START_TEST(a_turn_ends_with_the_token_that_the_template_puts_there)
{
    static const char *const more[] = { "",
                                        "\"additional_special_tokens\":[\"<|im_start|>\", "
                                        "{\"content\":\"<|im_end|>\"}],",
                                        "\"added_tokens_decoder\":{\"7\":{\"content\":"
                                        "\"<|im_end|>\",\"special\":true}}," };
    static const char *const end[] = { "</s>", "<|im_end|>", "<|im_end|>" };

    for (size_t i = 0; i < 3; i++) {
        char text[4096];
        struct spot_chat *chat;

        snprintf(text, sizeof(text), "{%s%s", more[i], form[0].config + 1);
        chat = parse(text);
        ck_assert_str_eq(spot_chat_end(chat), end[i]);
        spot_chat_free(chat);
    }
}
END_TEST

START_TEST(a_template_that_does_not_end_is_told_when_it_is_read)
{
    static const char config[] = "{\"chat_template\":\"{% for i in range(9999) %}{% for j in range("
                                 "9999) %}{% endfor %}{% endfor %}\"}";
    struct spot_err err = { 0 };

    ck_assert_ptr_null(spot_chat_parse(config, sizeof(config) - 1, "c", &err));
    ck_assert(err.code == SPOT_EDATA && strstr(err.msg, "more than"));
}
END_TEST

START_TEST(a_template_is_chosen_by_name_or_file)
{
    static const char config[] =
        "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"},{\"name\":\"default\","
        "\"template\":\"D\"}]}";
    static const char *const choice[] = { NULL, "default", "rag", "tool", "nothing" };
    static const char *const want[] = { "D", "D", "R", "T", NULL };
    char dir[] = "/tmp/spot-chat-XXXXXX", path[64];
    struct spot_err err = { 0 };

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/additional_chat_templates", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    put(dir, "tokenizer_config.json", config);
    put(dir, "additional_chat_templates/tool.jinja", "T\n");
    put(dir, "file", "F");
    snprintf(path, sizeof(path), "%s/file", dir);
    for (size_t i = 0; i < 6; i++) {
        struct spot_chat *const chat = spot_chat_load(dir, i == 5 ? path : choice[i], &err);
        const char *const text = i == 5 ? "F" : want[i];
        struct spot_buf out = { 0 };

        ck_assert_msg(!chat == !text, "%zu: %s", i, err.msg);
        if (chat && !render(chat, said, 1, &out, &err))
            ck_assert_msg(out.n == 1 && out.data[0] == *text, "%zu: %.*s", i, (int)out.n, out.data);
        spot_buf_release(&out);
        spot_chat_free(chat);
    }
    put(dir, "additional_chat_templates/tool.jinja", NULL);
    put(dir, "tokenizer_config.json", NULL);
    put(dir, "file", NULL);
    snprintf(path, sizeof(path), "%s/additional_chat_templates", dir);
    rmdir(path);
    rmdir(dir);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, prompts_are_those_of_the_templates, 0, 3);
    tcase_add_loop_test(tc, a_template_is_a_file_of_its_own_or_a_member_of_the_config, 0,
                        (int)(sizeof(place) / sizeof(place[0])));
    add_tests(tc);
    return run_suite("chat", tc);
}
