/* SPDX-License-Identifier: MIT */
/* store_secret.h - how a store is spoken to where that is not in the clear: files that the
 * environment names, the same for coordinators, members and who asks.
 */
#ifndef SPOT_CLUSTER_STORE_SECRET_H
#define SPOT_CLUSTER_STORE_SECRET_H

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_STORE_USER_MAX = 128 };

#define SPOT_STORE_CA_ENV   "SPOT_STORE_CA"
#define SPOT_STORE_CERT_ENV "SPOT_STORE_CERT"
#define SPOT_STORE_KEY_ENV  "SPOT_STORE_KEY"
#define SPOT_STORE_USER_ENV "SPOT_STORE_USER_FILE"

/* Paths, NULL: none. */
struct spot_store_secret {
    const char *ca;         /* PEM: who vouches for the members; NULL: no TLS */
    const char *cert, *key; /* PEM: what this side shows */
    const char *user_file;  /* NAME:PASSWORD */
};

/* Returns 0, or -1 with *err (SPOT_EUSAGE): one without another that it needs. */
int spot_store_secret_find(struct spot_store_secret *secret, struct spot_err *err);

/* Of that file, which only its owner may read. Returns 0, or -1 with *err (SPOT_EUSAGE, SPOT_ESYS).
 */
int spot_store_secret_user(const char *path, char name[SPOT_STORE_USER_MAX],
                           char password[SPOT_STORE_USER_MAX], struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_STORE_SECRET_H */
