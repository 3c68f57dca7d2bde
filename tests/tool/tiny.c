/* SPDX-License-Identifier: MIT */
/* tiny NAME DIR [CONFIG [ADAPTER]] - makes the random model of that name of
 * tests/data/models/configs.txt in DIR, which is there; or one with another text in its
 * config.json; or, beside it, adapter 1 or 2 of such a model. */
#include "../tiny_adapter.h"

static int write_adapter(const char *dir, const char *name, const char *config, int which,
                         struct spot_err *err)
{
    char path[TINY_LINE];
    struct spot_shape shape;

    snprintf(path, sizeof(path), "%s/config.json", dir);
    if (tiny_put(path, config, strlen(config), err) || spot_hf_config_load(path, &shape, err))
        return -1;
    remove(path);
    shape.n_shard = 1;
    return tiny_write_adapter(dir, name, &shape, which, err);
}

int main(int argc, char **argv)
{
    char name[64], config[TINY_LINE];
    struct spot_err err = { 0 };

    snprintf(name, sizeof(name), "%s", argc > 1 ? argv[1] : "");
    if (argc >= 4)
        snprintf(config, sizeof(config), "%s", argv[3]);
    else if (argc != 3 || !tiny_find(-1, name, config)) {
        fprintf(stderr,
                "tiny: usage: tiny NAME DIR [CONFIG [ADAPTER]]; names are in " TINY_CONFIGS "\n");
        return 2;
    }
    if (argc == 5 ? write_adapter(argv[2], name, config, atoi(argv[4]), &err)
                  : tiny_write(argv[2], name, config, &err)) {
        fprintf(stderr, "tiny: %s\n", err.msg);
        return 1;
    }
    return 0;
}
