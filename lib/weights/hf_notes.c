/* SPDX-License-Identifier: MIT */
/* A config.json that is missing, from the notes in a file of weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/json.h"
#include "common/json_writer.h"
#include "common/le.h"
#include "common/xalloc.h"
#include "shard/safetensors.h"
#include "weights/hf_config.h"

/* Of a header that is looked at for notes: those of save.c are far smaller, and a tree of a hostile
 * one takes many times its size. */
enum { NOTED_MAX = 4 << 20, NOTE_MAX = 64 };

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
