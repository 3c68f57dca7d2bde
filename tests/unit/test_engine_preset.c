/* SPDX-License-Identifier: MIT */
#include "serve/engine_preset.h"
#include "suite.h"

/* Goal: a command tells the kind of its engine by the program, wherever that lies, and not by
 * directories, models and options. */

START_TEST(a_command_tells_its_kind_by_the_program)
{
    static const struct {
        const char *command, *kind; /* NULL: none */
    } known[] = {
        { "vllm serve M --port $PORT", "vllm" },
        { "vllm serve /root/.ollama/x", "vllm" },
        { "/opt/ollama/vllm serve M", "vllm" },
        { "cd /opt/sglang/ && exec 'bin/vllm' serve M", "vllm" },
        { "python3 -m sglang.launch_server --model-path vllm", "sglang" },
        { "/opt/vllm/bin/python -m sglang.launch_server", "sglang" },
        { "docker run vllm/vllm-openai:latest --model M", "vllm" },
        { "docker run ghcr.io/ggml-org/llama.cpp:server -m M", "llama-server" },
        { "sh -c \"llama.cpp/build/bin/llama-server -m vllm.gguf\"", "llama-server" },
        { "OLLAMA_HOST=127.0.0.1:$PORT ollama serve", "ollama" },
        { "text-generation-launcher --model-id M", "tgi" },
        { "transformers serve", "transformers" },
        { "exec engine --dir /root/ollama/ --name ollamas", NULL },
        { "vllms", NULL },
        { "", NULL },
        { " ' ", NULL },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        const struct spot_engine_preset *const p = spot_engine_preset_of(known[i].command);

        ck_assert_msg(p == (known[i].kind ? spot_engine_preset_find(known[i].kind) : NULL),
                      "'%s' is of kind %s", known[i].command, p ? p->name : "none");
    }
}
END_TEST

/* Goal: a token of a NUL byte is a token like others: its id is told, its text is U+FFFD. */
START_TEST(a_nul_byte_in_the_text_of_an_answer_is_a_token_like_others)
{
    static const char answer[] = "{\"content\":\"a\\u0000\\\\u0000\",\"tokens\":[0,7],"
                                 "\"stop\":false,\"tokens_predicted\":2}";
    static const char text[] = "a\xEF\xBF\xBD\\u0000";
    struct spot_engine_event e = { 0 };
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_engine_event_read(spot_engine_preset_find("llama-server"), answer,
                                          sizeof(answer) - 1, &e, &err),
                  "%s", err.msg);
    ck_assert_uint_eq(e.n_token, 2);
    ck_assert_uint_eq(e.token[0].id, 0);
    ck_assert_uint_eq(e.text.n, sizeof(text) - 1);
    ck_assert_mem_eq(e.text.data, text, e.text.n);
    spot_engine_event_release(&e);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("engine_preset");

    tcase_add_test(c, a_command_tells_its_kind_by_the_program);
    tcase_add_test(c, a_nul_byte_in_the_text_of_an_answer_is_a_token_like_others);
    return run_case("engine_preset", c);
}
