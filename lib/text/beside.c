/* SPDX-License-Identifier: MIT */
#include "text/beside.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int spot_beside_open(struct spot_json_doc *doc, char path[SPOT_BESIDE_PATH], const char *dir,
                     const char *name, struct spot_err *err)
{
    *doc = (struct spot_json_doc){ 0 };
    if (snprintf(path, SPOT_BESIDE_PATH, "%s/%s", dir, name) >= SPOT_BESIDE_PATH)
        return spot_err_set(err, SPOT_EUSAGE, "the path of %s is too long", dir);
    if (access(path, F_OK))
        return 0;
    return spot_json_load_path(doc, path, err) ? -1 : 1;
}

const char *spot_beside_text(const struct spot_json_value *value)
{
    return spot_json_text(spot_json_is_object(value) ? spot_json_get(value, "content") : value);
}

int spot_beside_token(const struct spot_json_doc *doc, const char *role,
                      char text[SPOT_BESIDE_TOKEN], struct spot_err *err)
{
    const struct spot_json_value *const value = spot_json_get(doc->root, role);
    const char *const name = spot_beside_text(value);

    *text = '\0';
    if (!value || spot_json_is_null(value))
        return 0;
    if (!name || strlen(name) >= SPOT_BESIDE_TOKEN) {
        char at[64];

        snprintf(at, sizeof(at), "/%s", role);
        return spot_json_fail(doc, at, err, "expected the text of a token, %d bytes at most",
                              SPOT_BESIDE_TOKEN - 1);
    }
    strcpy(text, name);
    return 1;
}

int spot_beside_named(const char *dir, const char *role, char text[SPOT_BESIDE_TOKEN],
                      struct spot_err *err)
{
    static const char *const file[] = { "tokenizer_config.json", "special_tokens_map.json" };
    int rc = 0;

    *text = '\0';
    for (size_t i = 0; !rc && i < sizeof(file) / sizeof(file[0]); i++) {
        struct spot_json_doc doc;
        char path[SPOT_BESIDE_PATH];

        rc = spot_beside_open(&doc, path, dir, file[i], err);
        if (rc > 0)
            rc = spot_beside_token(&doc, role, text, err);
        spot_json_release(&doc);
    }
    return rc;
}
