/* SPDX-License-Identifier: MIT */
#include "serve/adapter_list.h"

#include <string.h>

const char *spot_adapter_next(const char *list, struct spot_adapter *a)
{
    size_t n;

    if (!list || !*list)
        return NULL;
    n = strcspn(list, ",");
    a->name = list;
    a->n_name = strcspn(list, "=");
    a->n_name = a->n_name < n ? a->n_name : n;
    a->dir = list + a->n_name + (a->n_name < n);
    a->n_dir = n - (size_t)(a->dir - list);
    return list + n + (list[n] == ',');
}

bool spot_adapter_at(const char *list, uint32_t number, struct spot_adapter *a)
{
    uint32_t i = 0;

    while (i < number && (list = spot_adapter_next(list, a)))
        i++;
    return number && i == number;
}

uint32_t spot_adapter_find(const char *list, const char *name, size_t n)
{
    struct spot_adapter a;

    for (uint32_t i = 1; (list = spot_adapter_next(list, &a)); i++)
        if (a.n_name == n && !memcmp(a.name, name, n))
            return i;
    return 0;
}

int spot_adapter_check(const char *list, struct spot_err *err)
{
    const char *at = list;
    struct spot_adapter a;
    uint32_t n = 0;

    if (list && strlen(list) >= SPOT_ADAPTERS_BYTE)
        return spot_err_set(err, SPOT_EUSAGE, "--lora has more than %d bytes",
                            SPOT_ADAPTERS_BYTE - 1);
    if (list && !*list)
        return spot_err_set(err, SPOT_EUSAGE, "--lora must be NAME=DIR,..., got ''");
    while ((at = spot_adapter_next(at, &a))) {
        if (!a.n_name || !a.n_dir)
            return spot_err_set(err, SPOT_EUSAGE, "--lora must be NAME=DIR,..., got '%s'", list);
        if (spot_adapter_find(list, a.name, a.n_name) <= n)
            return spot_err_set(err, SPOT_EUSAGE, "--lora has the name '%.*s' twice", (int)a.n_name,
                                a.name);
        if (++n > SPOT_ADAPTERS_MAX)
            return spot_err_set(err, SPOT_EUSAGE, "--lora has more than %d adapters",
                                SPOT_ADAPTERS_MAX);
    }
    return 0;
}
