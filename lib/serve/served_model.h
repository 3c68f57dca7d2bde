/* SPDX-License-Identifier: MIT */
/* served_model.h - a model directory, as used by server and workers. */
#ifndef SPOT_SERVE_SERVED_MODEL_H
#define SPOT_SERVE_SERVED_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "engine/infer.h"
#include "serve/completion.h"
#include "shard/lora.h"
#include "text/chat.h"
#include "text/prefix.h"
#include "weights/load.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SERVED_ENDS_MAX = 8, SPOT_SERVED_NAMED_ENDS = 3 };

struct spot_served_model {
    char *dir;
    struct spot_shape shape;
    struct spot_weights *weights;
    struct spot_bpe *bpe;
    struct spot_chat *chat; /* NULL: none */
    char chat_why[512];     /* why there is no chat template, without the path of the model */
    /* Tokens that end a choice: "eos_token_id" of config.json and generation_config.json, up to
     * SPOT_SERVED_ENDS_MAX, the tokenizer's "eos_token", and the end of a turn of the chat
     * template, also of a chosen one. */
    uint32_t end[SPOT_SERVED_ENDS_MAX + SPOT_SERVED_NAMED_ENDS];
    size_t n_end;
    struct spot_text_around around;
    struct spot_vocabulary vocabulary; /* of the two above */
    enum spot_pool pool;               /* default pooling of embeddings */
    char *adapters;                    /* the list of adapters; "": none */
    struct spot_lora **lora;           /* [n_adapter] */
    size_t n_adapter;
    uint64_t hash;   /* of weights, shape, vocabulary and adapters; never 0 */
    bool is_foreign; /* the weights are in engines; of the shape only seq and vocab are known */
};

/* config.json, weights, tokenizer, end tokens, and adapters of a list (adapter_list.h), NULL or "":
 * none. n_shard 0: as many canonical shards as
 * config.json says ("spot_shards"), or as divide heads and widths, up to 4; they affect the bits.
 * Returns 0, or -1 with *err (SPOT_EDATA, SPOT_ESYS); release it in both cases. */
int spot_served_model_open(struct spot_served_model *m, const char *dir, const char *adapters,
                           int64_t n_shard, struct spot_err *err);
/* The same for a model in engines: `name` is the directory of its tokenizer, or only its name
 * there; in the latter case tokens are pieces of text (completion.h). Without a config.json the
 * context is SPOT_SERVED_CONTEXT_MOST. */
enum { SPOT_SERVED_CONTEXT_MOST = 1 << 24 };
int spot_served_model_open_foreign(struct spot_served_model *m, const char *name,
                                   struct spot_err *err);
/* Use another chat template: a file or the name of one of several; its end is added to the end
 * tokens, not to the hash. Returns 0, or -1 with *err (SPOT_EDATA, SPOT_ESYS). */
int spot_served_model_choose_chat(struct spot_served_model *m, const char *choice,
                                  struct spot_err *err);
void spot_served_model_release(struct spot_served_model *m);

/* The id of a model for clients, to be freed: the last name of its directory, ignoring trailing
 * slashes, with "." and ".." resolved. */
char *spot_served_model_id(const char *dir);

/* Pack the weights of bundles [begin, end) into `image`, of spot_infer_image_byte, aligned to 64
 * bytes. `progress` is called for each bundle. Returns 0, or -1 with *err. */
int spot_served_model_pack(const struct spot_served_model *m, enum spot_infer_type type, int begin,
                           int end, void *image, void (*progress)(void *user), void *user,
                           struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SERVED_MODEL_H */
