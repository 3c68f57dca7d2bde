/* SPDX-License-Identifier: MIT */
/* json_scan.h - validates JSON text (RFC 8259) and counts its values, before a tree is built from
 * it.
 *
 * One pass over the bytes, using a byte of memory for each array and object. Text that is not JSON
 * is rejected here, so the builder need not check again.
 */
#ifndef SPOT_COMMON_JSON_SCAN_H
#define SPOT_COMMON_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_JSON_SCAN_DEPTH = 64,
    SPOT_JSON_SCAN_MANY = 255, /* as n_child: the number is in `many` */
};

/* A container with many members or entries. */
struct spot_json_many {
    uint32_t container, n_child;
};

struct spot_json_count {
    uint8_t *n_child; /* [n_container] number of children of each, in the order of their brackets;
                         at most SPOT_JSON_SCAN_MANY */
    struct spot_json_many *many; /* [n_many] the true number of those, ascending by container */
    size_t n_container, n_many, container_cap, many_cap;
    size_t n_entry, n_member; /* entries of all arrays; members of all objects */
    size_t n_index;           /* members of objects that have more than `index_above` */
    size_t n_escaped;         /* bytes of strings with escapes, plus one for each such string */
};

struct spot_json_wrong {
    size_t at; /* byte offset in the text */
    char what[128];
};

/* Validate text[n], which is followed by a NUL; `depth_max` is at most SPOT_JSON_SCAN_DEPTH.
 * Returns 0, or -1 with *wrong. Release *count in either case. */
int spot_json_scan(const char *text, size_t n, int depth_max, uint32_t index_above,
                   struct spot_json_count *count, struct spot_json_wrong *wrong);
void spot_json_count_release(struct spot_json_count *count);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_JSON_SCAN_H */
