/* SPDX-License-Identifier: MIT */
/* names.h - a set of names that assigns each a small number, in order of first use.
 *
 * A name belongs to a scope, so that "node1" of one zone is not "node1" of another.
 */
#ifndef SPOT_TRACE_NAMES_H
#define SPOT_TRACE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_names {
    size_t n, cap, n_slot;
    char **text;     /* [n] */
    uint32_t *scope; /* [n] */
    uint32_t *slot;  /* [n_slot], a power of two; index of a name + 1, 0 when free */
};

/* The index of `text` in `scope`, which becomes `names->n - 1` when it is new.
 * Cost: O(length) on average. */
size_t spot_names_intern(struct spot_names *names, uint32_t scope, const char *text);

/* Legal on a zeroed struct. */
void spot_names_release(struct spot_names *names);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_NAMES_H */
