/* SPDX-License-Identifier: MIT */
/* tiny NAME DIR - makes the random model of that name of tests/data/models/configs.txt in DIR,
 * which is there. */
#include "../tiny_model.h"

int main(int argc, char **argv)
{
    char name[64], config[TINY_LINE];
    struct spot_err err = { 0 };

    snprintf(name, sizeof(name), "%s", argc == 3 ? argv[1] : "");
    if (argc != 3 || !tiny_find(-1, name, config)) {
        fprintf(stderr, "tiny: usage: tiny NAME DIR; names are in " TINY_CONFIGS "\n");
        return 2;
    }
    if (tiny_write(argv[2], name, config, &err)) {
        fprintf(stderr, "tiny: %s\n", err.msg);
        return 1;
    }
    return 0;
}
