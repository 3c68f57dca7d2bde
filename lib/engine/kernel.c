/* SPDX-License-Identifier: MIT */
#include "engine/kernel.h"

#include <string.h>

#include "engine/backend.h"

const char *spot_kernel_name(const struct spot_kernel *kernel)
{
    return kernel->kind;
}

/* "cuda" and "cuda-bf16" select the first kind that continues with "-", such as
 * "cuda-bf16-sm90x132-lt130100-cc1300". */
static bool is_meant(const char *kind, const char *name)
{
    const size_t n = strlen(name);

    return !strncmp(kind, name, n) && (!kind[n] || kind[n] == '-');
}

static const struct spot_kernel *find_on(const struct spot_backend *backend, const char *name,
                                         struct spot_err *err)
{
    const bool is_any = !strcmp(name, "auto");
    const struct spot_kernel *kernel;
    bool runs_here, is_known = false;

    for (size_t i = 0; (kernel = backend->kernel(i, &runs_here)); i++) {
        if (!is_any && !is_meant(kernel->kind, name))
            continue;
        if (runs_here)
            return kernel;
        is_known = true;
    }
    if (is_known)
        spot_err_set(err, SPOT_ESYS, "kernel '%s' needs instructions that this CPU lacks", name);
    else
        spot_err_set(
            err, SPOT_EUSAGE,
            "unknown kernel '%s', expected auto, fma, fma-bf16, portable, cuda-bf16, cuda-fp32, "
            "cuda-bf16-tp or cuda-fp32-tp",
            name);
    return NULL;
}

const struct spot_kernel *spot_kernel_find(const char *name, struct spot_err *err)
{
    const struct spot_backend *cuda;

    if (!is_meant(name, "cuda"))
        return find_on(&spot_backend_cpu, name, err);
    cuda = spot_cuda_backend(err);
    return cuda ? find_on(cuda, name, err) : NULL;
}

/* Returns the position after `text` and the number that follows it, or NULL if `at` does not begin
 * so. */
static const char *skip(const char *at, const char *text)
{
    const size_t n = strlen(text);

    if (!at || strncmp(at, text, n) != 0 || at[n] < '1' || at[n] > '9')
        return NULL;
    return at + n + strspn(at + n, "0123456789");
}

bool spot_kernel_is_whole_cuda(const char *name)
{
    static const char *const kind[] = { "cuda-bf16-sm", "cuda-fp32-sm", "cuda-bf16-tp-sm",
                                        "cuda-fp32-tp-sm" };

    for (int i = 0; i < 4; i++) {
        const char *const end = skip(skip(skip(skip(name, kind[i]), "x"), "-lt"), "-cc");
        const char *const jit = skip(end, "-jit");

        if (end && (!*end || (jit && !*jit)))
            return true;
    }
    return false;
}

bool spot_kernel_shares_stages(const char *name)
{
    return !is_meant(name, "cuda") || is_meant(name, "cuda-bf16-tp") ||
           is_meant(name, "cuda-fp32-tp");
}

const char *spot_kernel_list(size_t i, const char *backend, bool *runs_here)
{
    const struct spot_kernel *kernel = NULL;
    const struct spot_backend *cuda;
    size_t n_cpu = 0;

    if (strcmp(backend, "cpu") != 0 && strcmp(backend, "cuda") != 0 &&
        strcmp(backend, "auto") != 0) {
        for (size_t k = 0; !i && (kernel = spot_backend_cpu.kernel(k, runs_here)); k++)
            if (!strcmp(kernel->kind, backend))
                return backend;
        return NULL;
    }
    if (strcmp(backend, "cuda") != 0) {
        while ((kernel = spot_backend_cpu.kernel(n_cpu, runs_here)) && n_cpu < i)
            n_cpu++;
        if (kernel || !strcmp(backend, "cpu"))
            return kernel ? kernel->kind : NULL;
    }
    cuda = spot_cuda_may_be_here() ? spot_cuda_backend(NULL) : NULL;
    kernel = cuda ? cuda->kernel(i - n_cpu, runs_here) : NULL;
    return kernel ? kernel->kind : NULL;
}
