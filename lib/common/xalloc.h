/* SPDX-License-Identifier: MIT */
/* xalloc.h - memory for the control plane: an allocation succeeds, or the program aborts with a
 * message.
 *
 * Sizes that come from a document are checked against a limit before they get here.
 */
#ifndef SPOT_COMMON_XALLOC_H
#define SPOT_COMMON_XALLOC_H

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* n * size bytes, zeroed; never NULL, not even for 0. Aborts on overflow. */
void *spot_xcalloc(size_t n, size_t size);
void *spot_xrealloc(void *ptr, size_t n, size_t size);
char *spot_xstrdup(const char *text);
char *spot_xpath(const char *dir, const char *name); /* DIR/NAME */

/* Abort because an external library had no memory for `what`. */
void spot_no_memory(const char *what) __attribute__((noreturn));

/* open_memstream(), and its close, after which text[n] is complete. */
FILE *spot_xmemory_open(char **text, size_t *n);
void spot_xmemory_close(FILE *memory);

/* Make room for at least `need` elements of `size` bytes in the growing array
 * `ptr`, whose capacity is *cap; the growth is geometric. Returns the array. */
void *spot_xgrow(void *ptr, size_t *cap, size_t need, size_t size);

/* Ask the kernel for 2 MiB pages for a large allocation that has not been written yet: a page fault
 * costs as much as filling 4 KiB. No effect where they are not available. */
void spot_prefer_huge_pages(void *ptr, size_t n_byte);

/* Memory for the data plane: 64-byte aligned, zeroed, freed with spot_free_aligned(). NULL when out
 * of memory. */
void *spot_alloc_aligned(size_t n, size_t size);
void spot_free_aligned(void *ptr);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_XALLOC_H */
