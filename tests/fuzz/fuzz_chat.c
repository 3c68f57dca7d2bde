/* SPDX-License-Identifier: MIT */
#include <stdint.h>

#include "text/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no tokenizer_config.json crashes its reader, and no template its interpreter. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char said[] = "{\"messages\":[{\"role\":\"user\",\"content\":\" a \"},"
                               "{\"role\":\"assistant\",\"content\":\"b\"}],"
                               "\"add_generation_prompt\":true}";
    struct spot_chat *const chat = spot_chat_parse((const char *)data, size, "fuzz", NULL);
    struct spot_json_doc context;
    struct spot_buf out = { 0 };

    if (chat && !spot_json_parse(&context, said, sizeof(said) - 1, "said", NULL)) {
        (void)spot_chat_render(chat, context.root, &out, NULL);
        spot_json_release(&context);
    }
    spot_chat_free(chat);
    spot_buf_release(&out);
    return 0;
}
