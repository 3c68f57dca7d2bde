/* SPDX-License-Identifier: MIT */
/* tiny_model.h - small random models of every family, of tests/data/models/configs.txt: a name and
 * its config.json a line. Weights are functions of the name alone. */
#ifndef SPOT_TESTS_TINY_MODEL_H
#define SPOT_TESTS_TINY_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "weights/hf_config.h"
#include "weights/save.h"

#define TINY_CONFIGS "tests/data/models/configs.txt"

enum { TINY_LINE = 4096, TINY_PROMPT = 24 };

/* The i-th name and config, or, if i is -1, the config of `name`; false: there is none. */
static inline bool tiny_find(int i, char name[64], char config[TINY_LINE])
{
    FILE *const in = fopen(TINY_CONFIGS, "re");
    char line[TINY_LINE];
    bool is_found = false;

    while (in && !is_found && fgets(line, sizeof(line), in)) {
        char *const space = strchr(line, ' ');

        if (!space || space - line >= 64)
            break;
        *space = '\0';
        is_found = i < 0 ? !strcmp(line, name) : i-- == 0;
        if (is_found) {
            memcpy(name, line, strlen(line) + 1);
            memcpy(config, space + 1, strlen(space + 1) + 1);
        }
    }
    if (in)
        fclose(in);
    return is_found;
}

static inline uint32_t tiny_token(int64_t i, int64_t vocab)
{
    return (uint32_t)((5 + 7 * i + 3 * i * i) % vocab);
}

/* Matrices are small, tables large enough to matter, norms near 1. */
static inline void tiny_fill(struct spot_bundle *b, const struct spot_shape *shape,
                             const char *name)
{
    for (int t = 0; t < b->arena.n_tensor; t++) {
        const struct spot_tensor *const tensor = &b->arena.tensor[t];
        const bool is_table = !strcmp(tensor->name, "wte") || !strcmp(tensor->name, "head.w");
        const bool is_norm = tensor->cols == 1 && strstr(tensor->name, ".w");
        const int64_t rows = is_table ? shape->vocab : tensor->rows;
        const double size = is_table ? .5 : tensor->cols > 1 ? .15 : .2;
        float *const x = b->plane[SPOT_PLANE_MASTER] + spot_arena_offset(&b->arena, t, 0);
        struct spot_rng rng;

        spot_rng_init(&rng, spot_hash64(name, strlen(name)), (uint64_t)(b->index * 100 + t));
        for (int64_t i = 0; i < rows * tensor->cols; i++)
            x[i] = (float)(size * spot_rng_normal(&rng) + is_norm);
    }
}

static inline int tiny_weights(const char *path, const struct spot_shape *shape, const char *name,
                               struct spot_err *err)
{
    struct spot_weights_out out;
    int rc = spot_weights_out_open(&out, path, shape, SPOT_DT_F32, err);

    if (rc)
        return -1;
    for (int i = 0; !rc && i < spot_shape_bundles(shape); i++) {
        struct spot_bundle b;

        rc = spot_bundle_init(&b, shape, i, err);
        if (rc)
            break;
        tiny_fill(&b, shape, name);
        spot_weights_out_add(&out, &b);
        spot_bundle_release(&b);
    }
    return spot_weights_out_finish(&out, rc, err);
}

/* A directory, which is there, becomes the model of that name. Returns 0, or -1 with *err. */
static inline int tiny_write(const char *dir, const char *name, const char *config,
                             struct spot_err *err)
{
    char path[TINY_LINE];
    struct spot_shape shape;
    FILE *out;

    snprintf(path, sizeof(path), "%s/config.json", dir);
    out = fopen(path, "we");
    if (!out || fputs(config, out) < 0 || fclose(out))
        return spot_err_sys(err, "cannot write '%s'", path);
    if (spot_hf_config_load(path, &shape, err))
        return -1;
    shape.n_shard = 1;
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    return tiny_weights(path, &shape, name, err);
}

#endif /* SPOT_TESTS_TINY_MODEL_H */
