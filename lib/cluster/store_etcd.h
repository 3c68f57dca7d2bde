/* SPDX-License-Identifier: MIT */
/* store_etcd.h - leader election and small durable records in etcd (v3, by its JSON gateway).
 *
 * One of several coordinators leads: it created the leader key, under a lease that it renews. A
 * leader's writes are fenced: each transaction compares the revision at which its key was created,
 * so no write of a leader takes effect after another has succeeded it, independently of clocks. It
 * also compares the record's revision, so that a write whose answer was lost, and which etcd
 * applies late, never overwrites a newer one. Single-threaded.
 */
#ifndef SPOT_CLUSTER_STORE_ETCD_H
#define SPOT_CLUSTER_STORE_ETCD_H

#include <stddef.h>
#include <stdint.h>

#include "cluster/store_answer.h"
#include "cluster/store_secret.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_ETCD_MEMBERS_MAX = 7,
    SPOT_ETCD_PREFIX_MAX = 128,
    SPOT_ETCD_NAME_MAX = 32, /* of a record: [a-z0-9.-] */
    SPOT_ETCD_URL_MAX = 128,
};

struct spot_etcd_where {
    char url[SPOT_ETCD_MEMBERS_MAX][SPOT_ETCD_URL_MAX]; /* http://127.0.0.1:2379 */
    size_t n_url;
    char prefix[SPOT_ETCD_PREFIX_MAX];
    struct spot_store_secret secret;
};

/* etcd://HOST:PORT[,HOST:PORT...]/PREFIX, members of one etcd. Without TLS, which the environment
 * sets up, only addresses of this machine. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int spot_etcd_where_parse(const char *text, struct spot_etcd_where *where, struct spot_err *err);

struct spot_etcd;

/* `limit_s`: time limit for trying all members, shared between them. Contacts nothing yet. NULL
 * with *err (SPOT_ESYS; SPOT_EUSAGE: the password file). */
struct spot_etcd *spot_etcd_open(const struct spot_etcd_where *where, double limit_s,
                                 struct spot_err *err);
void spot_etcd_close(struct spot_etcd *store); /* NULL: no effect; a lease expires by itself */
/* Change the limit. */
void spot_etcd_set_limit(struct spot_etcd *store, double limit_s);
/* Call tick(user) several times a second while waiting for an answer. */
void spot_etcd_on_wait(struct spot_etcd *store, void (*tick)(void *user), void *user);

/* The leadership of this coordinator. */
struct spot_etcd_lead {
    int64_t lease, created; /* created: the revision of the leader's key */
    double until_s;         /* by spot_clock_s; after that it must not act as leader */
};

/* Become the leader if there is none, and publish `address`; otherwise *leader gets the entry of
 * the leader. Returns 1: this one leads; 0: another does; -1 with *err: unknown. */
int spot_etcd_lead(struct spot_etcd *store, const char *address, unsigned lease_s,
                   struct spot_etcd_lead *lead, struct spot_etcd_entry *leader,
                   struct spot_err *err);

/* Renew the lease. Returns 1 if renewed; 0: it has expired, another may lead; -1 with *err:
 * unknown, lead->until_s is unchanged. */
int spot_etcd_keep(struct spot_etcd *store, struct spot_etcd_lead *lead, struct spot_err *err);

/* Give up the lead, so that a successor need not wait. Returns 0, or -1 with *err. */
int spot_etcd_resign(struct spot_etcd *store, struct spot_etcd_lead *lead, struct spot_err *err);

/* Read the leader's key, or a record. Returns 1 if it exists, 0 if not, -1 with *err. */
int spot_etcd_leader(struct spot_etcd *store, struct spot_etcd_entry *entry, struct spot_err *err);
int spot_etcd_get(struct spot_etcd *store, const char *name, struct spot_etcd_entry *entry,
                  struct spot_err *err);

/* Write the text `value` to a record that was last seen at revision *changed (0: does not exist),
 * which gets the new revision. Returns 1; 0: this one no longer leads, and the write will never
 * take effect; -1 with *err: SPOT_EDATA if the record is at another revision, else it is not known
 * whether it was written: read it, then write again. */
int spot_etcd_put(struct spot_etcd *store, const struct spot_etcd_lead *lead, const char *name,
                  const char *value, int64_t *changed, struct spot_err *err);

/* Claim the prefix for the job of this identity. Returns 1; 0: this one no longer leads; -1 with
 * *err: SPOT_EDATA if it is another job's. */
int spot_etcd_claim(struct spot_etcd *store, const struct spot_etcd_lead *lead,
                    const char *identity, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_STORE_ETCD_H */
