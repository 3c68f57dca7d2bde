/* SPDX-License-Identifier: MIT */
/* tiny_adapter.h - random adapters of the models of tiny_model.h, as peft saves them. */
#ifndef SPOT_TESTS_TINY_ADAPTER_H
#define SPOT_TESTS_TINY_ADAPTER_H

#include "shard/safetensors.h"
#include "tiny_model.h"
#include "weights/hf_names.h"

enum { TINY_ADAPTERS = 2, TINY_PAIRS = 4096 };

/* Number 1 is of all products and has rank 3; 2 leaves out each second layer and some parts
 * of a fused product, has rank 5 and the other scale. Beside experts none is of an MLP: peft takes
 * its names for those of the experts. */
static inline bool tiny_adapts(const struct spot_shape *shape, const struct spot_hf_name *name,
                               size_t i, int64_t layer, int which)
{
    static const char *const products[] = { "qkv.w", "proj.w", "up.w", "down.w" };
    bool is_product = false;

    for (size_t k = 0; k < (shape->kind.n_expert ? 2 : 4); k++)
        is_product |= !strcmp(name->ours, products[k]);
    return is_product && spot_hf_copies(shape, name) == 1 &&
           (which == 1 || (layer % 2 == 0 && i % 3 != 0));
}

struct tiny_pairs {
    struct spot_st_tensor tensor[TINY_PAIRS];
    size_t n;
};

static inline void tiny_pair(struct tiny_pairs *p, const char *weight, int64_t n_in, int64_t n_out,
                             int64_t rank)
{
    for (int i = 0; i < 2; i++) {
        struct spot_st_tensor *const t = &p->tensor[p->n++];
        char name[2 * SPOT_HF_NAME_MAX];

        snprintf(name, sizeof(name), "base_model.model.%.*slora_%c.weight",
                 (int)(strlen(weight) - strlen("weight")), weight, "AB"[i]);
        *t =
            (struct spot_st_tensor){ .name = spot_xstrdup(name), .dtype = SPOT_DT_F32, .n_dim = 2 };
        t->dim[0] = (uint64_t)(i ? n_out : rank);
        t->dim[1] = (uint64_t)(i ? rank : n_in);
    }
}

static inline void tiny_list(struct tiny_pairs *p, const struct spot_shape *shape, int which,
                             int64_t rank)
{
    struct spot_hf_name list[SPOT_HF_NAMES_MAX];

    for (int b = 1; b <= shape->n_layer; b++) {
        const size_t n = spot_hf_names(shape, b, list);
        struct spot_arena arena;

        spot_arena_of(shape, b, &arena);
        for (size_t i = 0; i < n; i++) {
            const int at = spot_arena_find(&arena, list[i].ours);
            const struct spot_tensor *const t = &arena.tensor[at];
            const bool is_cut = !strcmp(list[i].ours, "proj.w") || !strcmp(list[i].ours, "down.w");
            char weight[SPOT_HF_NAME_MAX];

            if (!tiny_adapts(shape, &list[i], i, b - 1, which))
                continue;
            spot_hf_name_of(shape, b, &list[i], 0, weight);
            tiny_pair(p, weight, is_cut ? t->rows : t->cols,
                      is_cut ? t->cols : spot_hf_n_row(shape, t, &list[i]), rank);
        }
    }
}

static inline int tiny_put(const char *path, const void *data, size_t n, struct spot_err *err)
{
    FILE *const out = fopen(path, "we");

    return !out || fwrite(data, 1, n, out) != n || fclose(out)
               ? spot_err_sys(err, "cannot write '%s'", path)
               : 0;
}

/* Of a model of this name and shape, with one shard. Returns 0, or -1 with *err. */
static inline int tiny_write_adapter(const char *dir, const char *name,
                                     const struct spot_shape *shape, int which,
                                     struct spot_err *err)
{
    struct tiny_pairs *const p = spot_xcalloc(1, sizeof(*p));
    const int64_t rank = which == 1 ? 3 : 5;
    struct spot_buf out = { 0 }, targets = { 0 };
    struct spot_rng rng;
    char path[TINY_LINE], config[TINY_LINE];
    int rc;

    tiny_list(p, shape, which, rank);
    spot_st_write(p->tensor, p->n, &out);
    spot_rng_init(&rng, spot_hash64(name, strlen(name)), (uint64_t)(10000 + which));
    for (size_t i = 0; i < p->n; i++) {
        const char *const last = strrchr(p->tensor[i].name, '.') - strlen(".lora_A");
        const char *at = last;

        while (at[-1] != '.')
            at--;
        snprintf(path, sizeof(path), "%s\"%.*s\"", targets.n ? "," : "", (int)(last - at), at);
        if (i % 2 == 0)
            spot_buf_add(&targets, path, strlen(path));
        for (uint64_t k = 0; k < p->tensor[i].dim[0] * p->tensor[i].dim[1]; k++) {
            const float x = (float)(.2 * spot_rng_normal(&rng));

            spot_buf_add(&out, &x, sizeof(x));
        }
        free(p->tensor[i].name);
    }
    snprintf(config, sizeof(config),
             "{\"peft_type\":\"LORA\",\"task_type\":\"CAUSAL_LM\",\"r\":%d,\"lora_alpha\":7,"
             "\"use_rslora\":%s,\"bias\":\"none\",\"target_modules\":[%.*s]}\n",
             (int)rank, which == 1 ? "false" : "true", (int)targets.n, (const char *)targets.data);
    snprintf(path, sizeof(path), "%s/adapter_config.json", dir);
    rc = tiny_put(path, config, strlen(config), err);
    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", dir);
    rc = rc ? rc : tiny_put(path, out.data, out.n, err);
    spot_buf_release(&out);
    spot_buf_release(&targets);
    free(p);
    return rc;
}

#endif /* SPOT_TESTS_TINY_ADAPTER_H */
