/* SPDX-License-Identifier: MIT */
/* http_head.h - the head of an HTTP/1.1 request, and bodies in chunks (RFC 9112); private to
 * lib/comm/http*.c.
 *
 * A proxy in front may read a request otherwise than this server, and then the end of one request
 * becomes the start of another. So what the grammar does not allow is refused, also where a
 * recipient may be lenient: line ends other than CRLF, folded lines, blanks before a colon, lengths
 * that are not one number.
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
    char *text;                /* ours, cut into the strings below */
    const char *method, *path; /* the path is decoded and has no query; "*" for that target */
    const char *host; /* of the target, or else of Host; NULL: an HTTP/1.0 request has none */
    struct {
        const char *name, *value;
    } field[SPOT_HTTP_FIELDS_MAX];
    size_t n_field;
    int64_t n_body; /* bytes, or SPOT_HTTP_CHUNKED */
    bool is_1_0, keeps_alive, expects_continue;
};

/* Bytes of the head at the start of data[n], with the empty line that ends it; 0: it is not whole;
 * SIZE_MAX: a line does not end in CRLF. *n_seen, 0 at first, is how far earlier calls have read.
 */
size_t spot_http_head_size(const char *data, size_t n, size_t *n_seen);

/* Read a whole head. Returns 0; or a status, and *why says what is wrong. To be released in any
 * case. */
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

/* Read from data[*n]: *n becomes the bytes taken, and *part, *n_part those of them that are of the
 * body, if any. Returns 1 at the end of the body, 0, or -1 when it is malformed. */
int spot_http_chunks_read(struct spot_http_chunks *c, const char *data, size_t *n,
                          const char **part, size_t *n_part);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_HEAD_H */
