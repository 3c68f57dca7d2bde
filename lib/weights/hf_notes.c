/* SPDX-License-Identifier: MIT */
/* The settings of a model without config.json, from the metadata of a file of weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/json.h"
#include "common/le.h"
#include "common/xalloc.h"
#include "shard/safetensors.h"
#include "weights/hf_config.h"

/* Maximum size of a header that is searched for metadata: save.c writes far smaller ones, and the
 * tree of a hostile one would take many times its size. */
enum { NOTED_MAX = 4 << 20 };

/* The JSON text of a safetensors file; NULL if it cannot be one of ours. The reader of the weights
 * reports errors. */
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

int spot_hf_config_noted(const char *path, struct spot_shape *shape, struct spot_err *err)
{
    struct spot_json_doc doc;
    struct spot_err ignored;
    const char *config;
    size_t n;
    char *const header = read_header(path, &n);
    char *source;
    int rc = 0;

    if (header && !spot_json_parse(&doc, header, n, path, &ignored)) {
        config = spot_json_text(spot_json_get(spot_json_get(doc.root, "__metadata__"), "config"));
        source = spot_xcalloc(strlen(path) + sizeof(": __metadata__"), 1);
        sprintf(source, "%s: __metadata__", path);
        if (config)
            rc = spot_hf_config_parse(config, source, shape, err) ? -1 : 1;
        free(source);
        spot_json_release(&doc);
    }
    free(header);
    return rc;
}

/* --- choosing the source ------------------------------------------------------------- */

/* Finds the file with the settings. Returns 1 if it is the config.json in the directory `weights`,
 * or beside the index `weights`; else 0 with the path of the single file of weights. */
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
