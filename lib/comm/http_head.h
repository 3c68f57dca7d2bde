/* SPDX-License-Identifier: MIT */
/* http_head.h - the head of an HTTP/1.1 request, and bodies in chunks (RFC 9112); private to
 * lib/comm/http*.c.
 *
 * If a proxy in front parsed a request differently from this server, the end of one request could
 * become the start of another. So everything that the grammar does not allow is refused, also where
 * a recipient may be lenient: line ends other than CRLF, folded lines, blanks before a colon,
 * lengths that are not one number.
 */
#ifndef SPOT_COMM_HTTP_HEAD_H
#define SPOT_COMM_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_HTTP_FIELDS_MAX = 100, SPOT_HTTP_HEAD_BYTE = 32 << 10, SPOT_HTTP_CHUNKED = -1 };

struct spot_http_head {
    char *text;                /* own copy, cut into the strings below */
    const char *method, *path; /* the path is decoded and has no query; "*" for that target */
    const char *host; /* of the target, or else of Host; NULL: an HTTP/1.0 request has none */
    struct {
        const char *name, *value;
    } field[SPOT_HTTP_FIELDS_MAX];
    size_t n_field;
    int64_t n_body; /* bytes, or SPOT_HTTP_CHUNKED */
    bool is_1_0, keeps_alive, expects_continue;
};

/* Size of the head at the start of data[n], including the empty line that ends it; 0: incomplete;
 * SIZE_MAX: a line does not end in CRLF. *n_seen, 0 at first, keeps how far earlier calls have
 * read.
 */
size_t spot_http_head_size(const char *data, size_t n, size_t *n_seen);

/* Parse a complete head. Returns 0, or an HTTP status with the reason in *why. Must be released in
 * any case. */
int spot_http_head_read(struct spot_http_head *head, const char *data, size_t n, const char **why);
void spot_http_head_release(struct spot_http_head *head);
/* The first value of a field, NULL: none. */
const char *spot_http_head_field(const struct spot_http_head *head, const char *name);

/* --- a body in chunks ---------------------------------------------------------- */

struct spot_http_chunks { /* zero at first */
    int state;
    uint64_t left; /* of the chunk */
    size_t n_line; /* bytes of the line, or of all trailers */
};

/* Parse data[*n]: *n becomes the number of bytes taken, and *part, *n_part the bytes among them
 * that belong to the body, if any. Returns 1 at the end of the body, 0 if there is more to come, -1
 * if it is malformed. */
int spot_http_chunks_read(struct spot_http_chunks *c, const char *data, size_t *n,
                          const char **part, size_t *n_part);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_HEAD_H */
