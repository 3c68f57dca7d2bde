/* SPDX-License-Identifier: MIT */
/* tiny NAME DIR [CONFIG] - makes the random model of that name of tests/data/models/configs.txt in
 * DIR, which is there; or one with another text in its config.json. */
#include "../tiny_model.h"

int main(int argc, char **argv)
{
    char name[64], config[TINY_LINE];
    struct spot_err err = { 0 };

    snprintf(name, sizeof(name), "%s", argc > 1 ? argv[1] : "");
    if (argc == 4)
        snprintf(config, sizeof(config), "%s", argv[3]);
    else if (argc != 3 || !tiny_find(-1, name, config)) {
        fprintf(stderr, "tiny: usage: tiny NAME DIR [CONFIG]; names are in " TINY_CONFIGS "\n");
        return 2;
    }
    if (tiny_write(argv[2], name, config, &err)) {
        fprintf(stderr, "tiny: %s\n", err.msg);
        return 1;
    }
    return 0;
}
