/* SPDX-License-Identifier: MIT */
/* store_etcd.h - who leads a job, and its few durable words, in etcd (v3, by its JSON gateway).
 *
 * One of several coordinators leads: its key was created by it under a lease that it keeps. What a
 * leader writes is fenced: each transaction compares the revision at which its key was created, so
 * nothing of a leader lands after another has followed, whatever either's clock says. It compares
 * the record's revision too, so that a write whose answer was lost, and which etcd does late,
 * never undoes a newer one. In one thread.
 */
#ifndef SPOT_CLUSTER_STORE_ETCD_H
#define SPOT_CLUSTER_STORE_ETCD_H

#include <stdbool.h>
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

/* etcd://HOST:PORT[,HOST:PORT...]/PREFIX, members of one etcd: without TLS, which the environment
 * asks for, on this machine. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int spot_etcd_where_parse(const char *text, struct spot_etcd_where *where, struct spot_err *err);

struct spot_etcd;

/* `limit_s`: until all members have been asked, each its part of it. Asks nothing yet. NULL with
 * *err (SPOT_ESYS; SPOT_EUSAGE: the file with the password). */
struct spot_etcd *spot_etcd_open(const struct spot_etcd_where *where, double limit_s,
                                 struct spot_err *err);
void spot_etcd_close(struct spot_etcd *store); /* NULL: nothing; a lease runs out by itself */
/* From now on that is the limit. */
void spot_etcd_set_limit(struct spot_etcd *store, double limit_s);
/* Call tick(user) several times a second while an answer is waited for. */
void spot_etcd_on_wait(struct spot_etcd *store, void (*tick)(void *user), void *user);

/* What a leader holds. */
struct spot_etcd_lead {
    int64_t lease, created; /* created: the revision of the leader's key */
    double until_s;         /* spot_clock_s; from then on, pause */
};

/* Where no one leads, lead, and leave `address` for those who look for the leader; else *leader
 * tells who does. Returns 1: this one leads; 0: another does; -1 with *err: it is not known. */
int spot_etcd_lead(struct spot_etcd *store, const char *address, unsigned lease_s,
                   struct spot_etcd_lead *lead, struct spot_etcd_entry *leader,
                   struct spot_err *err);

/* Renew the lease. Returns 1; 0: it is over, another may lead; -1 with *err: it is not known, and
 * lead->until_s stays. */
int spot_etcd_keep(struct spot_etcd *store, struct spot_etcd_lead *lead, struct spot_err *err);

/* Lead no more, so that the next need not wait. Returns 0, or -1 with *err. */
int spot_etcd_resign(struct spot_etcd *store, struct spot_etcd_lead *lead, struct spot_err *err);

/* The leader's key, and a record. Returns 1; 0: it is not there; -1 with *err. */
int spot_etcd_leader(struct spot_etcd *store, struct spot_etcd_entry *entry, struct spot_err *err);
int spot_etcd_get(struct spot_etcd *store, const char *name, struct spot_etcd_entry *entry,
                  struct spot_err *err);

/* Write the text `value` as a record that was last seen at revision *changed (0: not there), which
 * becomes the new one. Returns 1; 0: this one leads no more, and nothing of this lands from now on;
 * -1 with *err: SPOT_EDATA if the record is at another revision, else it is not known whether it
 * was written: look, and write again. */
int spot_etcd_put(struct spot_etcd *store, const struct spot_etcd_lead *lead, const char *name,
                  const char *value, int64_t *changed, struct spot_err *err);

/* The prefix is for the job of this identity from now on. Returns 1; 0: this one leads no more; -1
 * with *err: SPOT_EDATA if it is another job's. */
int spot_etcd_claim(struct spot_etcd *store, const struct spot_etcd_lead *lead,
                    const char *identity, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_STORE_ETCD_H */
