/* SPDX-License-Identifier: MIT */
#include "weights/gguf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/le.h"
#include "common/xalloc.h"
#include "weights/gguf_quant.h"

enum {
    HEAD_FIRST = 1 << 20, /* bytes read at first; doubled until sufficient */
    HEAD_MAX = 1 << 28,
    VALUES_MAX = 1 << 14,
    TENSORS_MAX = 1 << 18,
    ALIGNMENT = 32, /* default alignment of data */
    BATCH = 1 << 16 /* approximate bytes read at a time */
};

enum type { U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64, TYPES };

static const int type_byte[TYPES] = {
    [U8] = 1,  [I8] = 1,   [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4,
    [F32] = 4, [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8
};

/* A value of the header. An array has `n` members of `type`; any other value counts as one
 * member. */
struct spot_gguf_value {
    struct spot_gguf_text key;
    enum type type;
    bool is_array;
    uint64_t n;
    const char *at; /* position of the first member */
};

/* --- reading from memory --- */

struct head {
    const char *at, *end;
    bool is_short; /* the header continues after `end` */
};

/* Takes n bytes; NULL: there are fewer. */
static const char *take(struct head *h, uint64_t n)
{
    const char *const at = h->at;

    if ((uint64_t)(h->end - h->at) < n) {
        h->is_short = true;
        return NULL;
    }
    h->at += n;
    return at;
}

static uint64_t number(struct head *h, int n_byte)
{
    const char *const at = take(h, (uint64_t)n_byte);

    return at ? spot_le_get(at, n_byte) : 0;
}

static struct spot_gguf_text text(struct head *h)
{
    const uint64_t n = number(h, 8);
    const char *const at = take(h, n);

    return (struct spot_gguf_text){ at, at ? (size_t)n : 0 };
}

static void pass_members(struct head *h, enum type type, uint64_t n)
{
    if (type != TEXT) {
        if (n > (uint64_t)(h->end - h->at))
            h->is_short = true;
        else
            take(h, n * (uint64_t)type_byte[type]);
        return;
    }
    for (uint64_t i = 0; i < n && !h->is_short; i++)
        text(h);
}

static int read_value(struct head *h, struct spot_gguf_value *v, const char *path,
                      struct spot_err *err)
{
    uint64_t type;

    v->key = text(h);
    type = number(h, 4);
    v->n = 1;
    if (type == ARRAY) {
        v->is_array = true;
        type = number(h, 4);
        v->n = number(h, 8);
    }
    if (!h->is_short && (type >= TYPES || type == ARRAY))
        return spot_err_set(err, SPOT_EDATA, "%s: %.*s has the unknown type %llu", path,
                            (int)(v->key.n < 80 ? v->key.n : 80), v->key.at,
                            (unsigned long long)type);
    v->type = (enum type)type;
    v->at = h->at;
    if (!h->is_short)
        pass_members(h, v->type, v->n);
    return 0;
}

static int read_tensor(struct head *h, struct spot_gguf_tensor *t, const char *path,
                       struct spot_err *err)
{
    uint64_t n_dim;

    t->name = text(h);
    n_dim = number(h, 4);
    if (!h->is_short && (n_dim < 1 || n_dim > 4))
        return spot_err_set(err, SPOT_EDATA, "%s: %.*s has %llu dimensions, expected 1 to 4", path,
                            (int)(t->name.n < 80 ? t->name.n : 80), t->name.at,
                            (unsigned long long)n_dim);
    t->n_dim = (int)n_dim;
    for (uint64_t i = 0; i < 4; i++)
        t->dim[i] = i < n_dim ? number(h, 8) : 1;
    t->type = (int)number(h, 4);
    t->begin = number(h, 8);
    return 0;
}

/* --- the header --- */

static int check_start(struct head *h, const char *path, uint64_t *n_value, uint64_t *n_tensor,
                       struct spot_err *err)
{
    const char *const magic = take(h, 4);
    const uint64_t version = number(h, 4);

    *n_tensor = number(h, 8);
    *n_value = number(h, 8);
    if (h->is_short || memcmp(magic, "GGUF", 4) != 0)
        return spot_err_set(err, SPOT_EDATA, "%s: not a GGUF file", path);
    if (version < 2 || version > 3)
        return spot_err_set(err, SPOT_EDATA, "%s: GGUF version %llu, expected 2 or 3", path,
                            (unsigned long long)version);
    if (*n_value > VALUES_MAX || *n_tensor > TENSORS_MAX)
        return spot_err_set(err, SPOT_EDATA, "%s: %llu values and %llu tensors, at most %d and %d",
                            path, (unsigned long long)*n_value, (unsigned long long)*n_tensor,
                            VALUES_MAX, TENSORS_MAX);
    return 0;
}

/* Parse the bytes in memory. Returns 1 if they are not the whole header. */
static int parse(struct spot_gguf *g, size_t n_byte, struct spot_err *err)
{
    struct head h = { g->head, g->head + n_byte, false };
    uint64_t n_value, n_tensor, data;
    int64_t alignment = ALIGNMENT;

    if (check_start(&h, g->path, &n_value, &n_tensor, err))
        return -1;
    g->value = spot_xcalloc(n_value + 1, sizeof(*g->value));
    g->tensor = spot_xcalloc(n_tensor + 1, sizeof(*g->tensor));
    for (; g->n_value < n_value && !h.is_short; g->n_value++)
        if (read_value(&h, &g->value[g->n_value], g->path, err))
            return -1;
    for (; g->n_tensor < n_tensor && !h.is_short; g->n_tensor++)
        if (read_tensor(&h, &g->tensor[g->n_tensor], g->path, err))
            return -1;
    if (h.is_short)
        return 1;
    spot_gguf_int(g, "general.alignment", &alignment);
    if (alignment < 1 || alignment > 1 << 20)
        return spot_err_set(err, SPOT_EDATA, "%s: an alignment of %lld bytes", g->path,
                            (long long)alignment);
    data = (uint64_t)(h.at - g->head);
    data += ((uint64_t)alignment - data % (uint64_t)alignment) % (uint64_t)alignment;
    for (size_t i = 0; i < n_tensor; i++)
        g->tensor[i].begin += data;
    return 0;
}

static void forget(struct spot_gguf *g)
{
    free(g->head);
    free(g->value);
    free(g->tensor);
    g->head = NULL;
    g->value = NULL;
    g->tensor = NULL;
    g->n_value = g->n_tensor = 0;
}

static int read_header(struct spot_gguf *g, uint64_t file_byte, struct spot_err *err)
{
    for (uint64_t most = HEAD_FIRST;; most *= 4) {
        const size_t n = (size_t)(most < file_byte ? most : file_byte);
        int rc;

        forget(g);
        g->head = spot_xcalloc(n + 1, 1);
        g->n_head = n;
        if (fseeko(g->in, 0, SEEK_SET) || fread(g->head, 1, n, g->in) != n)
            return spot_err_sys(err, "cannot read '%s'", g->path);
        rc = parse(g, n, err);
        if (rc <= 0)
            return rc;
        if (n == file_byte || most >= HEAD_MAX)
            return spot_err_set(err, SPOT_EDATA, "%s: the header %s", g->path,
                                n == file_byte ? "is cut off" : "has more than 256 MiB");
    }
}

/* Checks that the type is supported, that rows are whole blocks, and that the data lie in the
 * file. */
static int check_tensor(const struct spot_gguf *g, const struct spot_gguf_tensor *t,
                        uint64_t file_byte, struct spot_err *err)
{
    const struct spot_gguf_kind *const kind = spot_gguf_kind(t->type);
    const int n_name = (int)(t->name.n < 80 ? t->name.n : 80);
    uint64_t n = 1;

    if (!kind)
        return spot_err_set(err, SPOT_EDATA, "%s: %.*s is of type %d, expected one of %s", g->path,
                            n_name, t->name.at, t->type, spot_gguf_types);
    for (int i = 0; i < t->n_dim; i++) {
        if (!t->dim[i] || t->dim[i] > UINT64_C(1) << 40 || n > (UINT64_C(1) << 45) / t->dim[i])
            return spot_err_set(err, SPOT_EDATA, "%s: %.*s: invalid dimensions", g->path, n_name,
                                t->name.at);
        n *= t->dim[i];
    }
    if (t->dim[0] % (uint64_t)kind->n)
        return spot_err_set(err, SPOT_EDATA, "%s: %.*s: rows of %llu are not whole blocks of %d",
                            g->path, n_name, t->name.at, (unsigned long long)t->dim[0], kind->n);
    n = n / (uint64_t)kind->n * (uint64_t)kind->n_byte;
    if (t->begin > file_byte || n > file_byte - t->begin)
        return spot_err_set(err, SPOT_EDATA, "%s: the file ends before %.*s does", g->path, n_name,
                            t->name.at);
    return 0;
}

struct spot_gguf *spot_gguf_open(const char *path, struct spot_err *err)
{
    struct spot_gguf *const g = spot_xcalloc(1, sizeof(*g));
    struct stat st = { 0 };
    int rc = 0;

    g->path = spot_xstrdup(path);
    g->in = fopen(path, "re");
    if (!g->in || fstat(fileno(g->in), &st))
        rc = spot_err_sys(err, "cannot open '%s'", path);
    if (!rc)
        rc = read_header(g, (uint64_t)st.st_size, err);
    for (size_t i = 0; !rc && i < g->n_tensor; i++)
        rc = check_tensor(g, &g->tensor[i], (uint64_t)st.st_size, err);
    if (!rc)
        return g;
    spot_gguf_close(g);
    return NULL;
}

void spot_gguf_close(struct spot_gguf *g)
{
    if (!g)
        return;
    forget(g);
    if (g->in)
        fclose(g->in);
    free(g->path);
    free(g);
}

/* --- values --- */

static bool is_text(struct spot_gguf_text a, const char *b)
{
    return a.n == strlen(b) && !memcmp(a.at, b, a.n);
}

static const struct spot_gguf_value *find(const struct spot_gguf *g, const char *key, bool is_array)
{
    for (size_t i = 0; i < g->n_value; i++)
        if (is_text(g->value[i].key, key) && g->value[i].is_array == is_array)
            return &g->value[i];
    return NULL;
}

/* The value of an integer of any type. */
static int64_t whole(const char *at, enum type type)
{
    const uint64_t x = spot_le_get(at, type_byte[type]);
    const int unused = 64 - 8 * type_byte[type];
    const bool is_signed = type == I8 || type == I16 || type == I32;

    return is_signed && unused ? (int64_t)(x << unused) >> unused : (int64_t)x;
}

static double real(const char *at, enum type type)
{
    uint64_t bits = spot_le_get(at, type_byte[type]);
    uint32_t low = (uint32_t)bits;
    double wide;
    float x;

    memcpy(&x, &low, sizeof(x));
    memcpy(&wide, &bits, sizeof(wide));
    return type == F32 ? (double)x : type == F64 ? wide : (double)whole(at, type);
}

bool spot_gguf_int(const struct spot_gguf *g, const char *key, int64_t *x)
{
    const struct spot_gguf_value *const v = find(g, key, false);

    if (!v || v->type == TEXT || v->type == F32 || v->type == F64)
        return false;
    *x = whole(v->at, v->type);
    return true;
}

bool spot_gguf_real(const struct spot_gguf *g, const char *key, double *x)
{
    const struct spot_gguf_value *const v = find(g, key, false);

    if (!v || v->type == TEXT || v->type == BOOL)
        return false;
    *x = real(v->at, v->type);
    return true;
}

bool spot_gguf_text(const struct spot_gguf *g, const char *key, struct spot_gguf_text *out)
{
    const struct spot_gguf_value *const v = find(g, key, false);
    struct head h;

    if (!v || v->type != TEXT)
        return false;
    h = (struct head){ v->at, g->head + g->n_head, false };
    *out = text(&h);
    return true;
}

size_t spot_gguf_array(const struct spot_gguf *g, const char *key)
{
    const struct spot_gguf_value *const v = find(g, key, true);

    return v ? (size_t)v->n : 0;
}

struct spot_gguf_text *spot_gguf_texts(const struct spot_gguf *g, const char *key)
{
    const struct spot_gguf_value *const v = find(g, key, true);
    struct spot_gguf_text *list;
    struct head h;

    if (!v || v->type != TEXT)
        return NULL;
    h = (struct head){ v->at, g->head + g->n_head, false };
    list = spot_xcalloc((size_t)v->n + 1, sizeof(*list));
    for (uint64_t i = 0; i < v->n; i++)
        list[i] = text(&h);
    return list;
}

double *spot_gguf_reals(const struct spot_gguf *g, const char *key)
{
    const struct spot_gguf_value *const v = find(g, key, true);
    double *list;

    if (!v || v->type == TEXT)
        return NULL;
    list = spot_xcalloc((size_t)v->n + 1, sizeof(*list));
    for (uint64_t i = 0; i < v->n; i++)
        list[i] = real(v->at + i * (uint64_t)type_byte[v->type], v->type);
    return list;
}

/* --- tensors ------------------------------------------------------------- */

const struct spot_gguf_tensor *spot_gguf_find(const struct spot_gguf *g, const char *name)
{
    for (size_t i = 0; i < g->n_tensor; i++)
        if (is_text(g->tensor[i].name, name))
            return &g->tensor[i];
    return NULL;
}

int spot_gguf_read(const struct spot_gguf *g, const struct spot_gguf_tensor *tensor, uint64_t first,
                   size_t n, float *x, struct spot_err *err)
{
    const struct spot_gguf_kind *const kind = spot_gguf_kind(tensor->type);
    const size_t n_block = n / (size_t)kind->n, at_once = BATCH / (size_t)kind->n_byte;
    uint8_t *const raw = spot_xcalloc(at_once, (size_t)kind->n_byte);
    const uint64_t begin = tensor->begin + first / (uint64_t)kind->n * (uint64_t)kind->n_byte;
    int rc = fseeko(g->in, (off_t)begin, SEEK_SET);

    for (size_t i = 0; i < n_block && !rc; i += at_once) {
        const size_t n_some = n_block - i < at_once ? n_block - i : at_once;

        rc = fread(raw, (size_t)kind->n_byte, n_some, g->in) != n_some;
        for (size_t k = 0; k < n_some && !rc; k++, x += kind->n)
            kind->widen(raw + k * (size_t)kind->n_byte, x);
    }
    free(raw);
    return rc ? spot_err_sys(err, "cannot read '%s'", g->path) : 0;
}
