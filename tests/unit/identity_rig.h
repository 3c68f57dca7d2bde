/* SPDX-License-Identifier: MIT */
/* identity_rig.h - certificates that vouch for themselves. */
#ifndef SPOT_TESTS_IDENTITY_RIG_H
#define SPOT_TESTS_IDENTITY_RIG_H

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "doc_rig.h"

struct identity {
    char cert[32], key[32]; /* PEM files */
};

static inline void extend(X509 *x, int nid, const char *value)
{
    X509_EXTENSION *const e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(X509_add_ext(x, e, -1), 1);
    X509_EXTENSION_free(e);
}

static inline void make_identity(struct identity *id, const char *name)
{
    EVP_PKEY *const key = EVP_EC_gen("P-256");
    X509 *const x = X509_new();
    FILE *out;

    ck_assert(key && x);
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)"spot-test", -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    extend(x, NID_subject_alt_name, name);
    extend(x, NID_basic_constraints, "CA:TRUE");
    ck_assert_int_gt(X509_sign(x, key, EVP_sha256()), 0);
    put_file(id->cert, "", 0);
    put_file(id->key, "", 0);
    out = fopen(id->cert, "w");
    PEM_write_X509(out, x);
    fclose(out);
    out = fopen(id->key, "w");
    PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
    fclose(out);
    X509_free(x);
    EVP_PKEY_free(key);
}

static inline void drop_identity(const struct identity *id)
{
    unlink(id->cert);
    unlink(id->key);
}

#endif /* SPOT_TESTS_IDENTITY_RIG_H */
