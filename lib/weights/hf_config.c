/* SPDX-License-Identifier: MIT */
#include "weights/hf_config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/json.h"
#include "common/le.h"
#include "common/xalloc.h"
#include "shard/safetensors.h"

/* Of a header that is looked at for notes: those of save.c are far smaller, and a tree of a hostile
 * one takes many times its size. */
enum { NOTED_MAX = 4 << 20, NOTE_MAX = 64 };

/* Both kinds of file, under one set of names. */
struct config {
    const char *kind, *activation;
    int64_t width, n_layer, n_head, n_kv_head, ffn, vocab, seq, head_dim;
    double eps, theta;
    double rotary_share; /* of a head that turns */
    bool is_tied, attention_bias, mlp_bias, scales_by_layer, scales, crosses;
};

#define AT(member) offsetof(struct config, member)

static const struct spot_field kind_field[] = {
    { "model_type", SPOT_F_STR, AT(kind), NULL, 0, 0, true },
    { 0 },
};

static const struct spot_field gpt2_field[] = {
    { "n_embd", SPOT_F_INT, AT(width), "1", 1, 1 << 16, true },
    { "n_layer", SPOT_F_INT, AT(n_layer), "1", 1, SPOT_LAYERS_MAX, true },
    { "n_head", SPOT_F_INT, AT(n_head), "1", 1, 1 << 10, true },
    { "vocab_size", SPOT_F_INT, AT(vocab), "1", 1, 1 << 20, true },
    { "n_positions", SPOT_F_INT, AT(seq), "1", 1, 1 << 30, false },
    { "n_inner", SPOT_F_INT, AT(ffn), "1", 1, 1 << 18, false },
    { "activation_function", SPOT_F_STR, AT(activation), NULL, 0, 0, false },
    { "layer_norm_epsilon", SPOT_F_REAL, AT(eps), "1", 1e-12, 1e-2, false },
    { "tie_word_embeddings", SPOT_F_BOOL, AT(is_tied), NULL, 0, 0, false },
    { "scale_attn_weights", SPOT_F_BOOL, AT(scales), NULL, 0, 0, false },
    { "add_cross_attention", SPOT_F_BOOL, AT(crosses), NULL, 0, 0, false },
    { "scale_attn_by_inverse_layer_idx", SPOT_F_BOOL, AT(scales_by_layer), NULL, 0, 0, false },
    { 0 },
};

static const struct spot_field llama_field[] = {
    { "hidden_size", SPOT_F_INT, AT(width), "1", 1, 1 << 16, true },
    { "num_hidden_layers", SPOT_F_INT, AT(n_layer), "1", 1, SPOT_LAYERS_MAX, true },
    { "num_attention_heads", SPOT_F_INT, AT(n_head), "1", 1, 1 << 10, true },
    { "num_key_value_heads", SPOT_F_INT, AT(n_kv_head), "1", 1, 1 << 10, false },
    { "intermediate_size", SPOT_F_INT, AT(ffn), "1", 1, 1 << 18, true },
    { "vocab_size", SPOT_F_INT, AT(vocab), "1", 1, 1 << 20, true },
    { "max_position_embeddings", SPOT_F_INT, AT(seq), "1", 1, 1 << 30, false },
    { "head_dim", SPOT_F_INT, AT(head_dim), "1", 1, 1 << 16, false },
    { "hidden_act", SPOT_F_STR, AT(activation), NULL, 0, 0, false },
    { "rms_norm_eps", SPOT_F_REAL, AT(eps), "1", 1e-12, 1e-2, false },
    { "rope_theta", SPOT_F_REAL, AT(theta), "1", 1, 1e9, false },
    { "partial_rotary_factor", SPOT_F_REAL, AT(rotary_share), "1", 0, 1, false },
    { "tie_word_embeddings", SPOT_F_BOOL, AT(is_tied), NULL, 0, 0, false },
    { "attention_bias", SPOT_F_BOOL, AT(attention_bias), NULL, 0, 0, false },
    { "mlp_bias", SPOT_F_BOOL, AT(mlp_bias), NULL, 0, 0, false },
    { 0 },
};

/* What later versions of the files keep in an object of its own. */
static const struct spot_field rope_field[] = {
    { "rope_theta", SPOT_F_REAL, AT(theta), "1", 1, 1e9, false },
    { "partial_rotary_factor", SPOT_F_REAL, AT(rotary_share), "1", 0, 1, false },
    { 0 },
};

static int check_whole_turn(const struct spot_json_doc *doc, const char *pointer,
                            const struct config *c, struct spot_err *err)
{
    if (c->rotary_share == 1)
        return 0;
    return spot_json_fail(doc, pointer, err,
                          "heads of which only a part turns (%g) are not computed here",
                          c->rotary_share);
}

/* Divides `part` the heads' `whole`, as far as the file goes? */
static int check_divides(const struct spot_json_doc *doc, const char *pointer, int64_t part,
                         const char *what, int64_t whole, struct spot_err *err)
{
    if (whole % part == 0)
        return 0;
    return spot_json_fail(doc, pointer, err, "%lld does not divide the %s, %lld", (long long)part,
                          what, (long long)whole);
}

/* Positions turn as they do in the first Llamas, or not at all here. */
static int read_rope(const struct spot_json_doc *doc, const char *key, struct config *c,
                     struct spot_err *err)
{
    char pointer[64] = "/";
    const struct spot_json_value *rope, *type;

    strncat(pointer, key, sizeof(pointer) - 2);
    if (spot_json_object(doc, doc->root, "", key, false, &rope, err))
        return -1;
    if (!rope)
        return 0;
    type = spot_json_get(rope, "rope_type");
    if (!type)
        type = spot_json_get(rope, "type");
    if (!spot_json_is_string(type) || strcmp(spot_json_text(type), "default") != 0)
        return spot_json_fail(doc, pointer, err,
                              "scaled rotary positions ('%.40s') are not computed here",
                              spot_json_is_string(type) ? spot_json_text(type) : "?");
    if (spot_json_read_fields(doc, rope, pointer, rope_field, c, err))
        return -1;
    return check_whole_turn(doc, pointer, c, err);
}

static int read_llama(const struct spot_json_doc *doc, struct config *c, struct spot_err *err)
{
    *c = (struct config){
        .activation = "silu", .seq = 2048, .eps = 1e-6, .theta = 1e4, .rotary_share = 1
    };
    if (spot_json_read_fields(doc, doc->root, "", llama_field, c, err) ||
        check_whole_turn(doc, "/partial_rotary_factor", c, err) ||
        read_rope(doc, "rope_scaling", c, err) || read_rope(doc, "rope_parameters", c, err))
        return -1;
    if (strcmp(c->activation, "silu") != 0)
        return spot_json_fail(doc, "/hidden_act", err, "expected silu, got '%.40s'", c->activation);
    if (c->attention_bias || c->mlp_bias)
        return spot_json_fail(doc, c->mlp_bias ? "/mlp_bias" : "/attention_bias", err,
                              "a Llama with biases is not computed here");
    if (c->head_dim && c->head_dim * c->n_head != c->width)
        return spot_json_fail(doc, "/head_dim", err, "%lld heads of %lld are not the width, %lld",
                              (long long)c->n_head, (long long)c->head_dim, (long long)c->width);
    if (!c->n_kv_head)
        c->n_kv_head = c->n_head;
    return check_divides(doc, "/num_attention_heads", c->n_head, "width", c->width, err) ||
                   check_divides(doc, "/num_key_value_heads", c->n_kv_head, "heads", c->n_head, err)
               ? -1
               : 0;
}

static int read_gpt2(const struct spot_json_doc *doc, struct config *c, struct spot_err *err)
{
    *c = (struct config){
        .activation = "gelu_new", .eps = 1e-5, .seq = 1024, .is_tied = true, .scales = true
    };
    if (spot_json_read_fields(doc, doc->root, "", gpt2_field, c, err))
        return -1;
    if (strcmp(c->activation, "gelu_new") != 0 && strcmp(c->activation, "gelu_pytorch_tanh") != 0)
        return spot_json_fail(doc, "/activation_function", err, "expected gelu_new, got '%.40s'",
                              c->activation);
    if (c->ffn && c->ffn != 4 * c->width)
        return spot_json_fail(doc, "/n_inner", err, "expected 4 times n_embd, %lld, got %lld",
                              (long long)(4 * c->width), (long long)c->ffn);
    if (c->scales_by_layer)
        return spot_json_fail(doc, "/scale_attn_by_inverse_layer_idx", err,
                              "attention that is scaled by layer is not computed here");
    if (!c->scales)
        return spot_json_fail(doc, "/scale_attn_weights", err,
                              "attention that is not scaled is not computed here");
    if (c->crosses)
        return spot_json_fail(doc, "/add_cross_attention", err,
                              "attention to another sequence is not computed here");
    return check_divides(doc, "/n_head", c->n_head, "width", c->width, err);
}

int spot_hf_config_read(const struct spot_json_doc *doc, struct spot_shape *shape,
                        struct spot_err *err)
{
    struct config c = { 0 };
    int arch;

    spot_json_drop_nulls(doc->root); /* null is as good as absent */
    if (spot_json_read_fields(doc, doc->root, "", kind_field, &c, err))
        return -1;
    arch = spot_arch_find(c.kind);
    if (arch < 0)
        return spot_json_fail(doc, "/model_type", err, "expected gpt2 or llama, got '%.40s'",
                              c.kind);
    if ((arch == SPOT_ARCH_LLAMA ? read_llama : read_gpt2)(doc, &c, err))
        return -1;
    *shape = (struct spot_shape){ .n_layer = c.n_layer,
                                  .width = c.width,
                                  .n_head = c.n_head,
                                  .seq = c.seq,
                                  .vocab = c.vocab,
                                  .arch = arch,
                                  .is_tied = c.is_tied,
                                  .norm_eps = c.eps };
    if (arch == SPOT_ARCH_LLAMA) {
        shape->n_kv_head = c.n_kv_head;
        shape->ffn = c.ffn;
        shape->rope_theta = c.theta;
    }
    return 0;
}

int spot_hf_config_load(const char *path, struct spot_shape *shape, struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc;

    if (spot_json_load_path(&doc, path, err))
        return -1;
    rc = spot_hf_config_read(&doc, shape, err);
    spot_json_release(&doc);
    return rc;
}

/* --- notes in a file of weights ------------------------------------------------ */

/* The JSON text of a safetensors file, NULL if it cannot be ours: the reader of the weights reports
 * what is wrong with it. */
static char *read_header(const char *path, size_t *n_byte)
{
    uint8_t prefix[SPOT_ST_PREFIX_BYTE];
    FILE *const in = fopen(path, "re");
    uint64_t n = 0;
    char *text = NULL;

    if (in && fread(prefix, 1, sizeof(prefix), in) == sizeof(prefix))
        n = spot_le_get(prefix, sizeof(prefix));
    if (n >= 2 && n <= NOTED_MAX) {
        text = spot_xcalloc((size_t)n + 1, 1);
        if (fread(text, 1, (size_t)n, in) != n) {
            free(text);
            text = NULL;
        }
    }
    if (in)
        fclose(in);
    *n_byte = (size_t)n;
    return text;
}

/* Notes are text: "2" becomes a number again, "false" a truth. */
static void write_note(struct spot_jw *jw, const char *key, const char *text)
{
    char copy[NOTE_MAX + 1];
    struct spot_json_tree tree = { 0 };
    struct spot_json_wrong ignored;

    snprintf(copy, sizeof(copy), "%s", text);
    if (strlen(text) < NOTE_MAX &&
        !spot_json_tree_build(&tree, copy, strlen(copy), SPOT_JSON_DEPTH_MAX, &ignored) &&
        (spot_json_is_number(tree.value) || spot_json_is_boolean(tree.value)))
        spot_jw_tree(jw, key, tree.value);
    else
        spot_jw_str(jw, key, text);
    spot_json_tree_release(&tree);
}

/* The notes as a config.json would say them; NULL for a file that says no shape. */
static char *config_of(const struct spot_json_value *notes)
{
    const bool is_gpt2 = spot_json_get(notes, "n_embd") != NULL;
    const char *key;
    const struct spot_json_value *value;
    char *text = NULL;
    size_t n;
    struct spot_jw jw;
    FILE *out;

    if (!spot_json_get(notes, "tie_word_embeddings") ||
        (!is_gpt2 && !spot_json_get(notes, "hidden_size")))
        return NULL;
    out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    if (!spot_json_is_string(spot_json_get(notes, "model_type")))
        spot_jw_str(&jw, "model_type", is_gpt2 ? "gpt2" : "llama");
    spot_json_object_foreach(notes, key, value)
    {
        if (spot_json_is_string(value))
            write_note(&jw, key, spot_json_text(value));
    }
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL); /* numbers that were read are finite, and this is memory */
    fclose(out);
    return text;
}

static int read_notes(const char *path, const char *text, struct spot_shape *shape,
                      struct spot_err *err)
{
    struct spot_json_doc doc;
    char *const source = spot_xcalloc(strlen(path) + sizeof(": __metadata__"), 1);
    int rc;

    sprintf(source, "%s: __metadata__", path);
    rc = spot_json_parse(&doc, text, strlen(text), source, err);
    if (!rc) {
        rc = spot_hf_config_read(&doc, shape, err);
        spot_json_release(&doc);
    }
    free(source);
    return rc ? -1 : 1;
}

int spot_hf_config_noted(const char *path, struct spot_shape *shape, struct spot_err *err)
{
    struct spot_json_doc doc;
    struct spot_err ignored;
    size_t n;
    char *const header = read_header(path, &n);
    char *config = NULL;
    int rc = 0;

    if (header && !spot_json_parse(&doc, header, n, path, &ignored)) {
        config = config_of(spot_json_get(doc.root, "__metadata__"));
        spot_json_release(&doc);
    }
    if (config)
        rc = read_notes(path, config, shape, err);
    free(config);
    free(header);
    return rc;
}

/* --- which of the two ------------------------------------------------------------- */

/* 1 for the config.json in the directory of many files, or beside their index; else 0, the one file
 * of weights. */
static int find_config(const char *weights, char path[SPOT_HF_CONFIG_PATH])
{
    static const char index[] = ".index.json";
    const size_t n = strlen(weights);
    const char *const slash = strrchr(weights, '/');
    struct stat st;
    const bool is_dir = !stat(weights, &st) && S_ISDIR(st.st_mode);
    int len = SPOT_HF_CONFIG_PATH;

    if (is_dir)
        len = snprintf(path, SPOT_HF_CONFIG_PATH, "%s/config.json", weights);
    else if (n > sizeof(index) && !strcmp(weights + n - (sizeof(index) - 1), index))
        len = snprintf(path, SPOT_HF_CONFIG_PATH, "%.*sconfig.json",
                       slash ? (int)(slash + 1 - weights) : 0, weights);
    if (len < SPOT_HF_CONFIG_PATH && !stat(path, &st))
        return 1;
    snprintf(path, SPOT_HF_CONFIG_PATH, "%s%s", weights, is_dir ? "/model.safetensors" : "");
    return 0;
}

int spot_hf_config_of(const char *weights, char path[SPOT_HF_CONFIG_PATH], struct spot_shape *shape,
                      struct spot_err *err)
{
    if (!find_config(weights, path))
        return spot_hf_config_noted(path, shape, err);
    return spot_hf_config_load(path, shape, err) ? -1 : 1;
}
