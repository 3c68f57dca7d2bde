/* SPDX-License-Identifier: MIT */
#include "weights/tensor_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/le.h"
#include "common/xalloc.h"
#include "weights/gguf_tensors.h"
#include "weights/half.h"
#include "weights/hf_kind.h"

static int read_head(struct spot_tensor_file *f, struct spot_err *err)
{
    uint8_t prefix[SPOT_ST_PREFIX_BYTE];
    uint64_t n;
    struct stat st;
    char *text;
    int rc;

    f->in = fopen(f->path, "re");
    if (!f->in)
        return spot_err_sys(err, "cannot open '%s'", f->path);
    if (fread(prefix, 1, sizeof(prefix), f->in) != sizeof(prefix))
        return ferror(f->in) ? spot_err_sys(err, "cannot read '%s'", f->path)
                             : spot_err_set(err, SPOT_EDATA, "%s: shorter than 8 bytes", f->path);
    if (spot_hf_check_start(f->path, prefix, err) || spot_st_prefix(prefix, f->path, &n, err))
        return -1;
    text = spot_xcalloc((size_t)n + 1, 1);
    rc = fread(text, 1, (size_t)n, f->in) == n
             ? spot_st_parse(&f->st, text, (size_t)n, f->path, err)
             : spot_err_set(err, SPOT_EDATA, "%s: the header is cut off", f->path);
    free(text);
    f->data = sizeof(prefix) + n;
    if (!rc && (fstat(fileno(f->in), &st) || (uint64_t)st.st_size != f->data + f->st.data_byte))
        rc = spot_err_set(err, SPOT_EDATA, "%s: %lld bytes, the header says %llu", f->path,
                          (long long)st.st_size, (unsigned long long)(f->data + f->st.data_byte));
    return rc;
}

static int read_gguf(struct spot_tensor_file *f, const struct spot_shape *shape,
                     struct spot_err *err)
{
    f->gguf = spot_gguf_open(f->path, err);
    return f->gguf ? spot_gguf_list(f->gguf, shape, &f->st, &f->part, err) : -1;
}

int spot_tensor_file_open(struct spot_tensor_file *f, const char *path,
                          const struct spot_shape *shape, struct spot_err *err)
{
    const size_t n = strlen(path);

    *f = (struct spot_tensor_file){ .path = spot_xstrdup(path) };
    return n > 5 && !strcmp(path + n - 5, ".gguf") ? read_gguf(f, shape, err) : read_head(f, err);
}

void spot_tensor_file_close(struct spot_tensor_file *f)
{
    if (f->in)
        fclose(f->in);
    spot_st_release(&f->st);
    spot_gguf_close(f->gguf);
    free(f->part);
    free(f->path);
}

int spot_tensor_file_check_type(const struct spot_tensor_file *f, const struct spot_st_tensor *t,
                                struct spot_err *err)
{
    if (t->dtype == SPOT_DT_F32 || t->dtype == SPOT_DT_F16 || t->dtype == SPOT_DT_BF16)
        return 0;
    return spot_err_set(err, SPOT_EDATA, "%s: %s: type %s, expected F32, F16 or BF16", f->path,
                        t->name, spot_dtype_name(t->dtype));
}

static float widen(const uint8_t *at, enum spot_dtype dtype)
{
    uint32_t bits;
    float x;

    if (dtype == SPOT_DT_F16)
        return spot_half((uint16_t)spot_le_get(at, 2));
    bits =
        dtype == SPOT_DT_BF16 ? (uint32_t)spot_le_get(at, 2) << 16 : (uint32_t)spot_le_get(at, 4);
    memcpy(&x, &bits, sizeof(x));
    return x;
}

float *spot_tensor_file_read(const struct spot_tensor_file *f, const struct spot_st_tensor *t,
                             size_t n, struct spot_err *err)
{
    const size_t byte = spot_dtype_byte(t->dtype);
    float *const x = spot_alloc_aligned(n, sizeof(*x));
    uint8_t *const raw = f->gguf ? NULL : malloc(n * byte);
    size_t i = 0;

    if (!x || (!raw && !f->gguf))
        spot_err_set(err, SPOT_ESYS, "%s: %s: no memory for %zu numbers", f->path, t->name, n);
    else if (f->gguf)
        i = spot_gguf_part_read(f->gguf, &f->part[t - f->st.tensor], n, x, err) ? 0 : n;
    else if (fseeko(f->in, (off_t)(f->data + t->begin), SEEK_SET) ||
             fread(raw, byte, n, f->in) != n)
        spot_err_sys(err, "cannot read '%s'", f->path);
    else
        for (; i < n; i++)
            x[i] = widen(raw + i * byte, t->dtype);
    free(raw);
    if (i == n)
        return x;
    spot_free_aligned(x);
    return NULL;
}
