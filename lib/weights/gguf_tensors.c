/* SPDX-License-Identifier: MIT */
#include "weights/gguf_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

/* Names in GGUF files, by our name without ".w" and ".b", and by part. Source:
 * gguf-py/gguf/constants.py of https://github.com/ggml-org/llama.cpp. */
static const struct row {
    const char *ours;
    enum spot_hf_part part;
    const char *theirs, *experts;
} rows[] = {
    { "wte", SPOT_HF_ALL, "token_embd", NULL },
    { "wpe", SPOT_HF_ALL, "position_embd", NULL },
    { "ln1", SPOT_HF_ALL, "attn_norm", NULL },
    { "qkv", SPOT_HF_Q, "attn_q", NULL },
    { "qkv", SPOT_HF_K, "attn_k", NULL },
    { "qkv", SPOT_HF_V, "attn_v", NULL },
    { "qkv", SPOT_HF_ALL, "attn_qkv", NULL },
    { "q_norm", SPOT_HF_ALL, "attn_q_norm", NULL },
    { "k_norm", SPOT_HF_ALL, "attn_k_norm", NULL },
    { "proj", SPOT_HF_ALL, "attn_output", NULL },
    { "post1", SPOT_HF_ALL, "post_attention_norm", NULL },
    { "ln2", SPOT_HF_ALL, "ffn_norm", NULL },
    { "up", SPOT_HF_GATE, "ffn_gate", "ffn_gate_exps" },
    { "up", SPOT_HF_UP, "ffn_up", "ffn_up_exps" },
    { "up", SPOT_HF_ALL, "ffn_up", NULL },
    { "down", SPOT_HF_ALL, "ffn_down", "ffn_down_exps" },
    { "router", SPOT_HF_ALL, "ffn_gate_inp", NULL },
    { "post2", SPOT_HF_ALL, "post_ffw_norm", NULL },
    { "lnf", SPOT_HF_ALL, "output_norm", NULL },
    { "head", SPOT_HF_ALL, "output", NULL },
};

/* The name of a tensor in GGUF: "blk.3.attn_q.weight". */
static void name_of(const struct spot_shape *shape, int bundle, const struct spot_hf_name *name,
                    char full[SPOT_HF_NAME_MAX])
{
    const size_t n = strcspn(name->ours, ".");
    const bool is_shared = spot_hf_copies(shape, name) > 1;
    int at = 0;

    if (bundle > 0 && bundle <= shape->n_layer)
        at = snprintf(full, SPOT_HF_NAME_MAX, "blk.%d.", bundle - 1);
    full[at] = '\0';
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strlen(rows[i].ours) == n && !strncmp(rows[i].ours, name->ours, n) &&
            rows[i].part == name->part)
            snprintf(full + at, (size_t)(SPOT_HF_NAME_MAX - at), "%s.%s",
                     is_shared ? rows[i].experts : rows[i].theirs,
                     strcmp(name->ours + n, ".b") ? "weight" : "bias");
}

/* True if rotary pairs are adjacent in this architecture's files. */
static bool turns_side_by_side(const struct spot_gguf *g)
{
    static const char *const architecture[] = { "llama", "granite", "smollm3" };
    struct spot_gguf_text is;

    if (spot_gguf_text(g, "general.architecture", &is))
        for (size_t i = 0; i < sizeof(architecture) / sizeof(architecture[0]); i++)
            if (is.n == strlen(architecture[i]) && !memcmp(is.at, architecture[i], is.n))
                return true;
    return false;
}

static bool is_needless(struct spot_gguf_text name)
{
    static const char *const known[] = { "rope_freqs.weight" };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (name.n == strlen(known[i]) && !memcmp(name.at, known[i], name.n))
            return true;
    return false;
}

struct list {
    const struct spot_gguf *g;
    const struct spot_shape *shape;
    struct spot_st *st;
    struct spot_gguf_part *part;
    size_t cap_tensor, cap_part;
    bool *is_used; /* [g->n_tensor] */
    bool is_turned, is_conv;
};

static void add(struct list *l, int bundle, const struct spot_hf_name *name, int64_t expert,
                const struct spot_gguf_tensor *t)
{
    const int64_t n_expert = spot_hf_copies(l->shape, name);
    const bool is_vector = t->n_dim == 1;
    struct spot_gguf_part part = { .tensor = t,
                                   .rows = is_vector ? (int64_t)t->dim[0] : (int64_t)t->dim[1],
                                   .cols = is_vector ? 1 : (int64_t)t->dim[0] };
    struct spot_st_tensor tensor = { .dtype = SPOT_DT_F32, .n_dim = is_vector ? 1 : 2 };
    char full[SPOT_HF_NAME_MAX];

    if (n_expert > 1 && t->dim[2] == (uint64_t)n_expert)
        part.first = (uint64_t)(expert * part.rows * part.cols);
    else if (t->dim[2] > 1 || t->dim[3] > 1)
        tensor.n_dim = t->n_dim; /* the wrong shape is refused later */
    if (l->is_turned && (name->part == SPOT_HF_Q || name->part == SPOT_HF_K))
        part.n_turned = name->part == SPOT_HF_Q ? l->shape->n_head : spot_shape_kv_heads(l->shape);
    part.is_transposed = l->is_conv && !is_vector && bundle > 0 && strcmp(name->ours, "head.w");
    tensor.dim[0] = (uint64_t)(part.is_transposed ? part.cols : part.rows);
    tensor.dim[1] = (uint64_t)(part.is_transposed ? part.rows : part.cols);
    spot_hf_name_of(l->shape, bundle, name, expert, full);
    tensor.name = spot_xstrdup(full);
    l->st->tensor =
        spot_xgrow(l->st->tensor, &l->cap_tensor, l->st->n_tensor + 1, sizeof(*l->st->tensor));
    l->part = spot_xgrow(l->part, &l->cap_part, l->st->n_tensor + 1, sizeof(*l->part));
    l->part[l->st->n_tensor] = part;
    l->st->tensor[l->st->n_tensor++] = tensor;
}

static void add_bundle(struct list *l, int bundle)
{
    struct spot_hf_name name[SPOT_HF_NAMES_MAX];
    const size_t n = spot_hf_names(l->shape, bundle, name);

    for (size_t i = 0; i < n; i++) {
        const struct spot_gguf_tensor *t;
        char full[SPOT_HF_NAME_MAX];

        name_of(l->shape, bundle, &name[i], full);
        t = spot_gguf_find(l->g, full);
        if (!t)
            continue; /* the missing tensor is reported when it is read */
        l->is_used[t - l->g->tensor] = true;
        for (int64_t e = 0; e < spot_hf_copies(l->shape, &name[i]); e++)
            add(l, bundle, &name[i], e, t);
    }
}

int spot_gguf_list(const struct spot_gguf *g, const struct spot_shape *shape, struct spot_st *st,
                   struct spot_gguf_part **part, struct spot_err *err)
{
    struct list l = { .g = g,
                      .shape = shape,
                      .st = st,
                      .is_used = spot_xcalloc(g->n_tensor + 1, sizeof(bool)),
                      .is_turned = turns_side_by_side(g),
                      .is_conv = shape->kind.positions == SPOT_POSITIONS_LEARNT };
    int rc = 0;

    *st = (struct spot_st){ 0 };
    for (int b = 0; b < spot_shape_bundles(shape); b++)
        add_bundle(&l, b);
    for (size_t i = 0; i < g->n_tensor && !rc; i++)
        if (!l.is_used[i] && !is_needless(g->tensor[i].name))
            rc = spot_err_set(err, SPOT_EDATA, "%s: %.*s: the model has no such tensor", g->path,
                              (int)(g->tensor[i].name.n < 80 ? g->tensor[i].name.n : 80),
                              g->tensor[i].name.at);
    free(l.is_used);
    *part = l.part;
    return rc;
}

/* Reorders rotary pairs: in each head, row 2 i + j becomes row j d / 2 + i. */
static void part_halves(float *x, const struct spot_gguf_part *p)
{
    const int64_t d = p->rows / p->n_turned;
    const size_t row = (size_t)p->cols * sizeof(float);
    float *const head = spot_xcalloc((size_t)(d * p->cols), sizeof(float));

    for (int64_t h = 0; h < p->n_turned; h++, x += d * p->cols) {
        for (int64_t r = 0; r < d; r++)
            memcpy(head + (r % 2 * (d / 2) + r / 2) * p->cols, x + r * p->cols, row);
        memcpy(x, head, (size_t)d * row);
    }
    free(head);
}

static void transpose(float *x, int64_t n_row, int64_t n_col)
{
    float *const from = spot_xcalloc((size_t)(n_row * n_col), sizeof(float));

    memcpy(from, x, (size_t)(n_row * n_col) * sizeof(float));
    for (int64_t r = 0; r < n_row; r++)
        for (int64_t c = 0; c < n_col; c++)
            x[c * n_row + r] = from[r * n_col + c];
    free(from);
}

int spot_gguf_part_read(const struct spot_gguf *g, const struct spot_gguf_part *part, size_t n,
                        float *x, struct spot_err *err)
{
    if (spot_gguf_read(g, part->tensor, part->first, n, x, err))
        return -1;
    if (part->n_turned && part->rows % (2 * part->n_turned) == 0)
        part_halves(x, part);
    if (part->is_transposed)
        transpose(x, part->rows, part->cols);
    return 0;
}
