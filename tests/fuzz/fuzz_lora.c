/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weights/hf_config.h"
#include "weights/lora_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: whatever lies in an adapter's directory, it is refused, or has finite numbers of its rank.
 * The first byte picks the model and its shards; adapter_config.json goes up to a byte 0, and what
 * follows is adapter_model.safetensors. */

#define SIZES                                                             \
    "\"vocab_size\":8,\"hidden_size\":8,\"intermediate_size\":12,"        \
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"bos_token_id\":" \
    "0,\"eos_token_id\":1,\"pad_token_id\":0,"
#define expect(holds) ((holds) ? (void)0 : (perror(#holds), abort()))

static const char *const config[] = {
    "{\"model_type\":\"llama\"," SIZES "\"max_position_embeddings\":16}",
    "{\"model_type\":\"phi3\"," SIZES "\"max_position_embeddings\":16}",
    "{\"model_type\":\"gpt2\",\"vocab_size\":8,\"n_embd\":8,\"n_layer\":2,\"n_head\":2,"
    "\"n_positions\":16}",
    "{\"model_type\":\"qwen3_moe\"," SIZES
    "\"num_key_value_heads\":2,\"num_experts\":3,\"num_experts_per_tok\":2,"
    "\"moe_intermediate_size\":4,\"decoder_sparse_step\":2,\"max_position_embeddings\":16}",
};

static char dir[64];

static void put(const char *name, const void *byte, size_t n)
{
    char path[128];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    out = fopen(path, "we");
    expect(out && fwrite(byte, 1, n, out) == n && !fclose(out));
}

static void leave(void)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/adapter_config.json", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", dir);
    unlink(path);
    rmdir(dir);
}

static void check(const struct spot_lora *lora, const struct spot_shape *shape)
{
    expect(lora->n_layer == shape->n_layer);
    for (int64_t i = 0; i < lora->n_layer * SPOT_LORA_PRODUCTS; i++) {
        const struct spot_lora_part *const part = &lora->part[i];

        expect(part->rank >= 0 && !part->a == !part->rank && !part->b == !part->rank);
        for (int64_t k = 0; k < part->rank; k++)
            expect(isfinite(part->a[k]) && isfinite(part->b[k * SPOT_LORA_PANEL]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *const end = size > 1 ? memchr(data + 1, 0, size - 1) : NULL;
    struct spot_shape shape;
    struct spot_lora *lora;
    struct spot_err err;

    if (!end)
        return 0;
    if (!*dir) {
        snprintf(dir, sizeof(dir), "%s/fuzz_lora.XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        expect(mkdtemp(dir) && !atexit(leave));
    }
    expect(!spot_hf_config_parse(config[data[0] % 4], "fuzz", &shape, &err));
    shape.n_shard = 1 + data[0] / 4 % 2;
    expect(!spot_shape_check(&shape, &err));
    put("adapter_config.json", data + 1, (size_t)(end - data - 1));
    put("adapter_model.safetensors", end + 1, (size_t)(data + size - end - 1));
    lora = spot_lora_load(dir, &shape, &err);
    if (lora)
        check(lora, &shape);
    spot_lora_free(lora);
    return 0;
}
