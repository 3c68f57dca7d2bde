/* SPDX-License-Identifier: MIT */
/* lead.h - elects one of several coordinators as leader, by a store (store_etcd.h); the others
 * stand by.
 *
 * Before an action that only the leader may take, it writes one record to the store, a summary of
 * its log (journal_keep.h). A put returns when the record is known to be stored, or when this
 * coordinator no longer leads. While there is no answer it waits and calls `tick`. A thread renews
 * the lease.
 */
#ifndef SPOT_CLUSTER_LEAD_H
#define SPOT_CLUSTER_LEAD_H

#include "cluster/store_answer.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_lead_options {
    const char *store; /* etcd://... */
    double lease_s;    /* rounded up to whole seconds; etcd may grant more */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* reports a wait and its reason */
    void (*tick)(void *user);                             /* called while waiting */
    void *user;
    int (*stops)(void); /* number of requests to stop this process */
};

struct spot_lead;

/* Contacts nothing yet. The options are copied, their texts are borrowed. NULL with *err. */
struct spot_lead *spot_lead_new(const struct spot_lead_options *options, struct spot_err *err);
/* Resigns if leading, so that a successor need not wait; calls no `tick`. NULL: no effect. */
void spot_lead_free(struct spot_lead *lead);

/* Lead, and publish `address` for members, if there is no leader. Returns 1: this one leads, the
 * prefix is claimed for the job, and *record is the last record of the previous leader (`created`
 * 0: none); 0: another one leads; -1 with *err: SPOT_EUSAGE if the prefix belongs to another job,
 * otherwise the result is unknown. */
int spot_lead_try(struct spot_lead *lead, const char *address, const char *identity,
                  struct spot_etcd_entry *record, struct spot_err *err);

/* Store the record. Returns 0 once it is stored, or -1 with *err (SPOT_EPREEMPTED): another one
 * leads, or this process was told to stop and the store does not answer within the lease. */
int spot_lead_put(struct spot_lead *lead, const char *record, struct spot_err *err);

/* Call before acting as leader: returns at once while the lease lasts, else waits until it is
 * renewed. Returns 0, or -1 with *err as spot_lead_put. */
int spot_lead_hold(struct spot_lead *lead, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_LEAD_H */
