/* SPDX-License-Identifier: MIT */
#include "trace/names.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/rng.h"
#include "common/xalloc.h"

static size_t first_slot(const struct spot_names *names, uint32_t scope, const char *text)
{
    return (size_t)spot_rng_mix(spot_hash64(text, strlen(text)), scope) & (names->n_slot - 1);
}

static size_t find_slot(const struct spot_names *names, uint32_t scope, const char *text)
{
    size_t s = first_slot(names, scope, text);

    for (; names->slot[s]; s = (s + 1) & (names->n_slot - 1)) {
        const size_t i = names->slot[s] - 1;

        if (names->scope[i] == scope && !strcmp(names->text[i], text))
            break;
    }
    return s;
}

/* At most half of the slots are in use. */
static void make_room(struct spot_names *names)
{
    if (names->n == names->cap) {
        names->cap = names->cap ? 2 * names->cap : 16;
        names->text = spot_xrealloc(names->text, names->cap, sizeof(*names->text));
        names->scope = spot_xrealloc(names->scope, names->cap, sizeof(*names->scope));
    }
    if (names->n_slot >= 2 * (names->n + 1))
        return;
    free(names->slot);
    names->n_slot = names->n_slot ? 2 * names->n_slot : 32;
    names->slot = spot_xcalloc(names->n_slot, sizeof(*names->slot));
    for (size_t i = 0; i < names->n; i++)
        names->slot[find_slot(names, names->scope[i], names->text[i])] = (uint32_t)i + 1;
}

size_t spot_names_intern(struct spot_names *names, uint32_t scope, const char *text)
{
    size_t s;

    make_room(names);
    s = find_slot(names, scope, text);
    if (names->slot[s])
        return names->slot[s] - 1;
    names->text[names->n] = spot_xstrdup(text);
    names->scope[names->n] = scope;
    names->slot[s] = (uint32_t)++names->n;
    return names->n - 1;
}

void spot_names_release(struct spot_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->text[i]);
    free(names->text);
    free(names->scope);
    free(names->slot);
    *names = (struct spot_names){ 0 };
}
