/* SPDX-License-Identifier: MIT */
/* xalloc.h - memory for the control plane: it comes, or the program stops with a message.
 *
 * Sizes that come from a document are checked against a limit before they get here.
 */
#ifndef SPOT_COMMON_XALLOC_H
#define SPOT_COMMON_XALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* n * size bytes, zeroed; never NULL, not even for 0. Aborts on overflow. */
void *spot_xcalloc(size_t n, size_t size);
void *spot_xrealloc(void *ptr, size_t n, size_t size);
char *spot_xstrdup(const char *text);

/* Make room for at least `need` elements of `size` bytes in the growing array
 * `ptr`, whose capacity is *cap; the growth is geometric. Returns the array. */
void *spot_xgrow(void *ptr, size_t *cap, size_t need, size_t size);

/* Memory for the data plane: 64-byte aligned, zeroed, freed with free().
 * NULL when there is none. */
void *spot_alloc_aligned(size_t n, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_XALLOC_H */
