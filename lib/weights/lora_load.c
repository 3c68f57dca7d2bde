/* SPDX-License-Identifier: MIT */
#include "weights/lora_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/json.h"
#include "common/xalloc.h"
#include "shard/arena.h"
#include "weights/hf_names.h"
#include "weights/tensor_file.h"

enum { PATH_MAX_BYTE = 4096, PARTS_MAX = 3 /* of a fused product */ };

static const char *const ours[SPOT_LORA_PRODUCTS] = { [SPOT_LORA_QKV] = "qkv.w",
                                                      [SPOT_LORA_UP] = "up.w",
                                                      [SPOT_LORA_PROJ] = "proj.w",
                                                      [SPOT_LORA_DOWN] = "down.w" };

/* --- adapter_config.json --------------------------------------------------------- */

struct settings {
    double alpha;
    bool is_rank_stabilised;
};

static bool is_nothing(const struct spot_json_value *v)
{
    return !v || spot_json_is_null(v) || spot_json_is_false(v) ||
           ((spot_json_is_object(v) || spot_json_is_array(v)) && !spot_json_size(v));
}

/* Refuses settings that need another computation. Ranks of a pattern follow from the tensors. */
static int check_keys(const struct spot_json_doc *doc, struct spot_err *err)
{
    static const char *const other[] = { "use_dora",
                                         "modules_to_save",
                                         "alpha_pattern",
                                         "layer_replication",
                                         "trainable_token_indices",
                                         "target_parameters",
                                         "lora_bias",
                                         "use_qalora",
                                         "use_bdlora",
                                         "alora_invocation_tokens",
                                         "arrow_config",
                                         "monteclora_config",
                                         "kasa_config",
                                         "velora_config" };
    char pointer[64];

    for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
        if (!is_nothing(spot_json_get(doc->root, other[i]))) {
            snprintf(pointer, sizeof(pointer), "/%s", other[i]);
            return spot_json_fail(doc, pointer, err,
                                  "is not supported: what is computed is lora_A and lora_B of "
                                  "products, scaled by lora_alpha and r");
        }
    return 0;
}

static bool is_one_of(const struct spot_json_value *v, const char *const *word)
{
    const char *const text = spot_json_text(v);

    for (; text && *word; word++)
        if (!strcmp(text, *word))
            return true;
    return false;
}

/* Refuses initialisations that changed the model's own weights, whose pairs do not fit the original
 * model. */
static int check_words(const struct spot_json_doc *doc, struct spot_err *err)
{
    static const char *const kinds[] = { "LORA", NULL }, *const biases[] = { "none", NULL };
    static const char *const starts[] = { "gaussian", "orthogonal", "eva", NULL };
    const struct spot_json_value *const kind = spot_json_get(doc->root, "peft_type");
    const struct spot_json_value *const bias = spot_json_get(doc->root, "bias");
    const struct spot_json_value *const start = spot_json_get(doc->root, "init_lora_weights");

    if (!is_one_of(kind, kinds))
        return spot_json_fail(doc, "/peft_type", err, "must be \"LORA\", not '%.80s'",
                              spot_json_text(kind) ? spot_json_text(kind) : "");
    if (!is_nothing(bias) && !is_one_of(bias, biases))
        return spot_json_fail(doc, "/bias", err, "'%.80s' is not supported: \"none\"",
                              spot_json_text(bias) ? spot_json_text(bias) : "");
    if (!is_nothing(start) && !spot_json_is_true(start) && !is_one_of(start, starts))
        return spot_json_fail(doc, "/init_lora_weights", err,
                              "'%.80s' changes the model's weights: convert it when it is saved",
                              spot_json_text(start) ? spot_json_text(start) : "");
    return 0;
}

static int read_settings(const char *dir, struct settings *s, struct spot_err *err)
{
    char path[PATH_MAX_BYTE];
    struct spot_json_doc doc;
    const struct spot_json_value *alpha;
    int rc;

    if (snprintf(path, sizeof(path), "%s/adapter_config.json", dir) >= (int)sizeof(path))
        return spot_err_set(err, SPOT_EUSAGE, "the path of the adapter is too long");
    if (spot_json_load_path(&doc, path, err))
        return -1;
    alpha = spot_json_get(doc.root, "lora_alpha");
    s->alpha = spot_json_number(alpha);
    s->is_rank_stabilised = spot_json_is_true(spot_json_get(doc.root, "use_rslora"));
    rc = check_words(&doc, err) || check_keys(&doc, err) ? -1 : 0;
    if (!rc && (!spot_json_is_number(alpha) || !isfinite((float)s->alpha)))
        rc = spot_json_fail(&doc, "/lora_alpha", err, "must be a number");
    spot_json_release(&doc);
    return rc;
}

/* --- tensors ---------------------------------------------------------------------- */

struct reading {
    const struct spot_shape *shape;
    struct settings settings;
    struct spot_tensor_file file;
    bool *is_used; /* [file.st.n_tensor] */
    struct spot_hash_stream *hash;
};

/* A pair of one part of a product: a[rank][n_in], b[n_out][rank]. */
struct pair {
    struct spot_hf_name name;
    int64_t rank, n_in, n_out;
    float *a, *b;
};

/* A layer's product and where it is packed. */
struct product {
    enum spot_lora_product which;
    const struct spot_tensor *tensor; /* the tensor of one shard */
    int64_t n_panel;                  /* of outputs */
    struct pair pair[PARTS_MAX];
    int n_pair;
};

/* "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" belongs to
 * "model.layers.0.self_attn.q_proj.weight". -1: none. */
static int64_t find(const struct reading *r, const char *weight, char which)
{
    static const char before[] = "base_model.model.";
    const char *const bare = spot_hf_bare(weight);
    const size_t n = strlen(bare) - strlen("weight");
    char tail[32];

    snprintf(tail, sizeof(tail), "lora_%c.weight", which);
    for (size_t i = 0; i < r->file.st.n_tensor; i++) {
        const char *const name = r->file.st.tensor[i].name;

        if (!strncmp(name, before, sizeof(before) - 1)) {
            const char *const own = spot_hf_bare(name + sizeof(before) - 1);

            if (!strncmp(own, bare, n) && !strcmp(own + n, tail))
                return (int64_t)i;
        }
    }
    return -1;
}

/* Reads a matrix of `rows` and `cols`; one of them is the rank, 0 while it is not known. */
static float *read_matrix(struct reading *r, int64_t at, int64_t rows, int64_t cols, int64_t *rank,
                          struct spot_err *err)
{
    const struct spot_st_tensor *const t = &r->file.st.tensor[at];
    const uint64_t of_rank = t->n_dim == 2 ? t->dim[rows ? 1 : 0] : 0;
    const uint64_t other = t->n_dim == 2 ? t->dim[rows ? 0 : 1] : 0;
    float *x;

    r->is_used[at] = true;
    if (spot_tensor_file_check_type(&r->file, t, err))
        return NULL;
    if (!of_rank || of_rank > SPOT_LORA_RANK_MAX || other != (uint64_t)(rows ? rows : cols) ||
        (*rank && of_rank != (uint64_t)*rank)) {
        spot_err_set(err, SPOT_EDATA,
                     "%s: %s: shape %dD [%llu, %llu], expected %lld %s and a rank of 1 to %d",
                     r->file.path, t->name, t->n_dim, (unsigned long long)t->dim[0],
                     (unsigned long long)(t->n_dim > 1 ? t->dim[1] : 0),
                     (long long)(rows ? rows : cols), rows ? "rows" : "columns",
                     SPOT_LORA_RANK_MAX);
        return NULL;
    }
    *rank = (int64_t)of_rank;
    x = spot_tensor_file_read(&r->file, t, (size_t)(of_rank * other), err);
    for (uint64_t i = 0; x && i < of_rank * other; i++)
        if (!isfinite(x[i])) {
            spot_err_set(err, SPOT_EDATA, "%s: %s: element %llu is %g, expected a finite number",
                         r->file.path, t->name, (unsigned long long)i, (double)x[i]);
            spot_free_aligned(x);
            return NULL;
        }
    if (x)
        spot_hash_stream_add(r->hash, x, (size_t)(of_rank * other) * sizeof(*x));
    return x;
}

/* Reads a pair and multiplies b by the scale. Returns 0, 1 if there is no pair, or -1 with *err. */
static int read_pair(struct reading *r, int bundle, struct pair *p, struct spot_err *err)
{
    char weight[SPOT_HF_NAME_MAX];
    int64_t a, b;
    float scale;

    spot_hf_name_of(r->shape, bundle, &p->name, 0, weight);
    a = find(r, weight, 'A');
    b = find(r, weight, 'B');
    if (a < 0 && b < 0)
        return 1;
    if (a < 0 || b < 0)
        return spot_err_set(err, SPOT_EDATA, "%s: %s: no lora_%c beside it", r->file.path,
                            r->file.st.tensor[a < 0 ? b : a].name, a < 0 ? 'A' : 'B');
    if (!(p->a = read_matrix(r, a, 0, p->n_in, &p->rank, err)) ||
        !(p->b = read_matrix(r, b, p->n_out, 0, &p->rank, err)))
        return -1;
    scale = (float)(r->settings.alpha /
                    (r->settings.is_rank_stabilised ? sqrt((double)p->rank) : (double)p->rank));
    for (int64_t i = 0; i < p->n_out * p->rank; i++)
        p->b[i] *= scale;
    spot_hash_stream_add(r->hash, &scale, sizeof(scale));
    spot_hash_stream_add(r->hash, weight, strlen(weight));
    return 0;
}

/* --- layout ------------------------------------------------------------------------- */

static bool has_sharded_inputs(const struct product *p)
{
    return p->which >= SPOT_LORA_PROJ;
}

static int64_t outputs_of(const struct product *p) /* outputs of a shard, if outputs are sharded */
{
    return has_sharded_inputs(p) ? p->tensor->cols : p->tensor->rows;
}

/* Row r of our shard s is row spot_hf_row of the whole matrix, which is an input if inputs are
 * sharded. */
static void put_a(const struct spot_shape *shape, const struct product *p, const struct pair *pair,
                  int64_t first, struct spot_lora_part *to)
{
    const struct spot_hf_rows span = spot_hf_rows(shape, p->tensor, &pair->name, 0);
    const int n_shard = (int)shape->n_shard;

    if (!has_sharded_inputs(p)) {
        memcpy(to->a + first * pair->n_in, pair->a,
               (size_t)(pair->rank * pair->n_in) * sizeof(float));
        return;
    }
    for (int s = 0; s < n_shard; s++)
        for (int64_t j = 0; j < pair->rank; j++)
            for (int64_t k = 0; k < span.n; k++)
                to->a[(s * to->rank + first + j) * span.n + k] =
                    pair->a[j * pair->n_in + spot_hf_row(&span, n_shard, s, k)];
}

static void put_b(const struct spot_shape *shape, const struct product *p, const struct pair *pair,
                  int64_t first, struct spot_lora_part *to)
{
    const struct spot_hf_rows span = spot_hf_rows(shape, p->tensor, &pair->name, 0);
    const bool is_whole = has_sharded_inputs(p);
    const int n_shard = is_whole ? 1 : (int)shape->n_shard;

    for (int s = 0; s < n_shard; s++)
        for (int64_t o = 0; o < (is_whole ? p->tensor->cols : span.n); o++) {
            const int64_t out = is_whole ? o : span.first + o;
            const int64_t row = is_whole ? o : spot_hf_row(&span, n_shard, s, o);
            float *const panel =
                to->b + (s * p->n_panel + out / SPOT_LORA_PANEL) * to->rank * SPOT_LORA_PANEL;

            for (int64_t j = 0; j < pair->rank; j++)
                panel[(first + j) * SPOT_LORA_PANEL + out % SPOT_LORA_PANEL] =
                    pair->b[row * pair->rank + j];
        }
}

void spot_lora_span(struct spot_lora_part *part, int64_t n_panel)
{
    part->span = spot_xcalloc((size_t)n_panel, 2 * sizeof(*part->span));
    for (int64_t p = 0; p < n_panel; p++)
        for (int64_t i = 0; i < part->rank * SPOT_LORA_PANEL; i++)
            if (part->b[p * part->rank * SPOT_LORA_PANEL + i] != 0) {
                const int32_t at = (int32_t)(i / SPOT_LORA_PANEL);
                int32_t *const span = part->span + 2 * p;

                span[0] = span[1] ? span[0] : at;
                span[1] = at + 1;
            }
}

static int lay(const struct reading *r, const struct product *p, struct spot_lora_part *to,
               struct spot_err *err)
{
    const int64_t n_shard = r->shape->n_shard,
                  n_in = has_sharded_inputs(p) ? n_shard * p->tensor->rows : p->tensor->cols;
    const int64_t n_b = (has_sharded_inputs(p) ? 1 : n_shard) * p->n_panel * SPOT_LORA_PANEL;
    int64_t first = 0;

    for (int i = 0; i < p->n_pair; i++)
        to->rank += p->pair[i].rank;
    if (!to->rank)
        return 0;
    to->a = spot_alloc_aligned((size_t)to->rank, (size_t)n_in * sizeof(float));
    to->b = spot_alloc_aligned((size_t)to->rank, (size_t)n_b * sizeof(float));
    if (!to->a || !to->b)
        return spot_err_set(err, SPOT_ESYS, "%s: no memory for its numbers", r->file.path);
    memset(to->b, 0, (size_t)(to->rank * n_b) * sizeof(float));
    for (int i = 0; i < p->n_pair; first += p->pair[i++].rank) {
        put_a(r->shape, p, &p->pair[i], first, to);
        put_b(r->shape, p, &p->pair[i], first, to);
    }
    spot_lora_span(to, n_b / SPOT_LORA_PANEL);
    return 0;
}

/* --- products of a layer --------------------------------------------------------------- */

static int read_pairs(struct reading *r, int bundle, struct product *p, struct spot_err *err)
{
    struct spot_hf_name list[SPOT_HF_NAMES_MAX];
    const size_t n = spot_hf_names(r->shape, bundle, list);

    for (size_t i = 0; i < n; i++) {
        struct pair *const pair = &p->pair[p->n_pair];
        int rc;

        if (strcmp(list[i].ours, ours[p->which]) != 0 || spot_hf_copies(r->shape, &list[i]) > 1)
            continue;
        *pair = (struct pair){ .name = list[i] };
        pair->n_in = has_sharded_inputs(p) ? r->shape->n_shard * p->tensor->rows : p->tensor->cols;
        pair->n_out =
            has_sharded_inputs(p) ? p->tensor->cols : spot_hf_n_row(r->shape, p->tensor, &list[i]);
        rc = read_pair(r, bundle, pair, err);
        p->n_pair += rc <= 0;
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int read_product(struct reading *r, int bundle, enum spot_lora_product which,
                        struct spot_lora_part *to, struct spot_err *err)
{
    struct product p = { .which = which };
    struct spot_arena arena;
    int rc;

    spot_arena_of(r->shape, bundle, &arena);
    p.tensor = &arena.tensor[spot_arena_find(&arena, ours[which])];
    p.n_panel = (outputs_of(&p) + SPOT_LORA_PANEL - 1) / SPOT_LORA_PANEL;
    rc = read_pairs(r, bundle, &p, err) || lay(r, &p, to, err) ? -1 : 0;
    for (int i = 0; i < p.n_pair; i++) {
        spot_free_aligned(p.pair[i].a);
        spot_free_aligned(p.pair[i].b);
    }
    return rc;
}

static int check_used(const struct reading *r, struct spot_err *err)
{
    size_t i = 0;

    while (i < r->file.st.n_tensor && r->is_used[i])
        i++;
    if (!r->file.st.n_tensor)
        return spot_err_set(err, SPOT_EDATA, "%s: no tensors", r->file.path);
    return i == r->file.st.n_tensor
               ? 0
               : spot_err_set(err, SPOT_EDATA,
                              "%s: %.200s: not lora_A or lora_B of a product of attention or of a "
                              "dense MLP of this model",
                              r->file.path, r->file.st.tensor[i].name);
}

static int read_all(struct reading *r, const char *dir, struct spot_lora *lora,
                    struct spot_err *err)
{
    char path[PATH_MAX_BYTE];

    if (read_settings(dir, &r->settings, err))
        return -1;
    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", dir);
    if (spot_tensor_file_open(&r->file, path, r->shape, err))
        return -1;
    r->is_used = spot_xcalloc(r->file.st.n_tensor + 1, sizeof(*r->is_used));
    for (int64_t i = 0; i < lora->n_layer; i++)
        for (int k = 0; k < SPOT_LORA_PRODUCTS; k++)
            if (read_product(r, (int)i + 1, (enum spot_lora_product)k,
                             &lora->part[i * SPOT_LORA_PRODUCTS + k], err))
                return -1;
    return check_used(r, err);
}

struct spot_lora *spot_lora_load(const char *dir, const struct spot_shape *shape,
                                 struct spot_err *err)
{
    struct spot_lora *const lora = spot_xcalloc(1, sizeof(*lora));
    struct reading r = { .shape = shape, .hash = spot_hash_stream_new() };
    int rc;

    lora->n_layer = shape->n_layer;
    lora->part = spot_xcalloc((size_t)lora->n_layer * SPOT_LORA_PRODUCTS, sizeof(*lora->part));
    rc = read_all(&r, dir, lora, err);
    lora->hash = spot_hash_stream_64(r.hash) | 1;
    spot_hash_stream_free(r.hash);
    spot_tensor_file_close(&r.file);
    free(r.is_used);
    if (!rc)
        return lora;
    spot_lora_free(lora);
    return NULL;
}

void spot_lora_free(struct spot_lora *lora)
{
    if (!lora)
        return;
    for (int64_t i = 0; i < lora->n_layer * SPOT_LORA_PRODUCTS; i++) {
        spot_free_aligned(lora->part[i].a);
        spot_free_aligned(lora->part[i].b);
        free(lora->part[i].span);
    }
    free(lora->part);
    free(lora);
}
