/* SPDX-License-Identifier: MIT */
#include <stdint.h>

#include "text/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no tokenizer_config.json crashes its reader. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct spot_chat_message said[] = { { "user", " a " }, { "assistant", "b" } };
    struct spot_chat chat;
    struct spot_buf out = { 0 };

    if (!spot_chat_parse(&chat, (const char *)data, size, "fuzz", NULL))
        (void)spot_chat_render(&chat, said, 2, 1, &out, NULL);
    spot_buf_release(&out);
    return 0;
}
