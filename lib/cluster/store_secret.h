/* SPDX-License-Identifier: MIT */
/* store_secret.h - TLS and password for a store: files named by environment variables, the same for
 * coordinators, members and clients.
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
    const char *ca;         /* PEM: CA of the store's members; NULL: no TLS */
    const char *cert, *key; /* PEM: certificate and key of this side */
    const char *user_file;  /* NAME:PASSWORD */
};

/* Read the environment. Returns 0, or -1 with *err (SPOT_EUSAGE) if a variable is set without
 * another that it needs. */
int spot_store_secret_find(struct spot_store_secret *secret, struct spot_err *err);

/* Read user_file, which only its owner may have access to. Returns 0, or -1 with *err (SPOT_EUSAGE,
 * SPOT_ESYS). */
int spot_store_secret_user(const char *path, char name[SPOT_STORE_USER_MAX],
                           char password[SPOT_STORE_USER_MAX], struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_STORE_SECRET_H */
