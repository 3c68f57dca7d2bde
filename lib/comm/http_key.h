/* SPDX-License-Identifier: MIT */
/* http_key.h - who may ask: keys that clients show as "Authorization: Bearer KEY". */
#ifndef SPOT_COMM_HTTP_KEY_H
#define SPOT_COMM_HTTP_KEY_H

#include <stdbool.h>

#include "comm/http.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_http_keys;

/* The keys of a file, one a line, without the blanks around it; empty lines and those that begin
 * with # are none. NULL with *err: SPOT_ESYS, SPOT_EDATA (none, too many, too long). */
struct spot_http_keys *spot_http_keys_load(const char *path, struct spot_err *err);
void spot_http_keys_free(struct spot_http_keys *keys); /* may be NULL */
/* Does the call show one of them? In a time that does not tell how much of a key was right. True
 * where `keys` is NULL: none is asked for. */
bool spot_http_keys_admit(const struct spot_http_keys *keys, struct spot_http_call *call);

/* Who listens where strangers are asks for a key, and says nothing in the clear. 0, or -1 with *err
 * (SPOT_EUSAGE): the address is none, or needs what is NULL; `options` names what that would be. */
int spot_http_check_reach(const char *address, const char *tls_cert, const char *tls_key,
                          const char *key_file, const char *options, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_KEY_H */
