/* SPDX-License-Identifier: MIT */
/* http_key.h - authorises requests by keys that clients send as "Authorization: Bearer KEY". */
#ifndef SPOT_COMM_HTTP_KEY_H
#define SPOT_COMM_HTTP_KEY_H

#include <stdbool.h>

#include "comm/http.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_http_keys;

/* Read the keys of a file: one per line, surrounding blanks removed, followed by its terms if any;
 * empty lines and lines that begin with # are skipped. NULL with *err: SPOT_ESYS, SPOT_EDATA (none,
 * too many, too long, a duplicate, characters that no client can send, unknown terms). */
struct spot_http_keys *spot_http_keys_load(const char *path, struct spot_err *err);
void spot_http_keys_free(struct spot_http_keys *keys); /* may be NULL */
/* True if the request carries one of the keys, compared in constant time, or if `keys` is NULL: no
 * key is required. */
bool spot_http_keys_admit(const struct spot_http_keys *keys, struct spot_http_call *call);

/* Terms after a key in its line: `share=W`, W > 0, its weight while several keys wait, and
 * `priority=N`, -100..100; higher priorities go first. */
struct spot_http_terms {
    uint32_t key; /* counted from 1; 0: no keys */
    float share;
    int priority;
};
struct spot_http_terms spot_http_keys_terms(const struct spot_http_keys *keys,
                                            const struct spot_http_call *call);

/* A number that identifies the owner of `what`: a hash of that text and the request's key, which
 * does not reveal the key. 0 if `keys` is NULL. The request must be admitted. */
uint64_t spot_http_keys_owner(const struct spot_http_keys *keys, const struct spot_http_call *call,
                              const char *what);

/* An address that other machines can reach requires keys and TLS. Returns 0, or -1 with *err
 * (SPOT_EUSAGE): the address is invalid, or requires an option that is NULL; `options` names those
 * options. */
int spot_http_check_reach(const char *address, const char *tls_cert, const char *tls_key,
                          const char *key_file, const char *options, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_KEY_H */
