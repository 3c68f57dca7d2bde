/* SPDX-License-Identifier: MIT */
#include "text/token_names.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

struct name {
    char *text;
    uint32_t value, place;
};

struct spot_names {
    struct name *name; /* [n], sorted when indexed */
    size_t n, cap;
    uint32_t begin[257]; /* index of the first name with each first byte */
};

struct spot_names *spot_names_new(void)
{
    return spot_xcalloc(1, sizeof(struct spot_names));
}

void spot_names_free(struct spot_names *names)
{
    for (size_t i = 0; names && i < names->n; i++)
        free(names->name[i].text);
    if (names)
        free(names->name);
    free(names);
}

void spot_names_add(struct spot_names *names, const char *text, uint32_t value)
{
    if (!*text)
        return;
    names->name = spot_xgrow(names->name, &names->cap, names->n + 1, sizeof(*names->name));
    names->name[names->n] = (struct name){ spot_xstrdup(text), value, (uint32_t)names->n };
    names->n++;
}

static int by_text(const void *a, const void *b)
{
    const struct name *const x = a, *const y = b;
    const int order = strcmp(x->text, y->text);

    return order ? order
                 : (x->place < y->place) - (x->place > y->place); /* the first added is last */
}

/* The first of name[low..high) whose byte at `depth` is not less than the given one; high: none.
 * The bytes before `depth` are equal in all of them. */
static size_t first_with(const struct spot_names *names, size_t low, size_t high, size_t depth,
                         unsigned byte)
{
    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if ((unsigned char)names->name[mid].text[depth] < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void spot_names_index(struct spot_names *names)
{
    if (names->n)
        qsort(names->name, names->n, sizeof(*names->name), by_text);
    for (unsigned byte = 0; byte <= 256; byte++)
        names->begin[byte] = (uint32_t)first_with(names, 0, names->n, 0, byte);
}

/* Names are sorted, so those that match the text so far are contiguous; each byte narrows the
 * range. */
const char *spot_names_longest(const struct spot_names *names, const char *text, size_t n,
                               uint32_t *value)
{
    size_t low = names->begin[(unsigned char)text[0]];
    size_t high = names->begin[(unsigned char)text[0] + 1];
    const struct name *best = NULL;

    for (size_t depth = 1; low < high; depth++) {
        for (; low < high && !names->name[low].text[depth]; low++)
            best = &names->name[low];
        if (depth == n)
            break;
        low = first_with(names, low, high, depth, (unsigned char)text[depth]);
        high = first_with(names, low, high, depth, (unsigned char)text[depth] + 1U);
    }
    if (best && value)
        *value = best->value;
    return best ? best->text : NULL;
}

bool spot_names_twins(const struct spot_names *names, uint32_t *first, uint32_t *second)
{
    for (size_t i = 1; i < names->n; i++)
        if (!strcmp(names->name[i - 1].text, names->name[i].text)) {
            *first = names->name[i].value; /* of equal names the first added is last */
            *second = names->name[i - 1].value;
            return true;
        }
    return false;
}
