/* SPDX-License-Identifier: MIT */
/* lead.h - one of several coordinators leads a job, by a store (store_etcd.h); the others stand by.
 *
 * What a leader must not do after another has followed is put into the store first: one record,
 * that of its log (journal_keep.h). A put returns when it is known to have landed, or that this one
 * leads no more. Without an answer it waits, and calls `tick` meanwhile. A thread keeps the lease.
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
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* it waits, and for what */
    void (*tick)(void *user);                             /* while it waits */
    void *user;
    int (*stops)(void); /* how often this process was told to stop */
};

struct spot_lead;

/* Asks nothing yet. The options are copied, their texts are borrowed. NULL with *err. */
struct spot_lead *spot_lead_new(const struct spot_lead_options *options, struct spot_err *err);
/* Resigns, if it leads, so that the next need not wait; calls no `tick`. NULL: nothing. */
void spot_lead_free(struct spot_lead *lead);

/* Lead, and leave `address` for members, if nobody does. Returns 1: this one leads, the prefix is
 * claimed for the job, and *record is what the leader before has put last (`created` 0: nothing);
 * 0: another one leads; -1 with *err: SPOT_EUSAGE if it is another job's, else it is not known. */
int spot_lead_try(struct spot_lead *lead, const char *address, const char *identity,
                  struct spot_etcd_entry *record, struct spot_err *err);

/* Put the record. Returns 0 once it is there, or -1 with *err (SPOT_EPREEMPTED): another one leads,
 * or this process was told to stop and the store does not answer within the lease. */
int spot_lead_put(struct spot_lead *lead, const char *record, struct spot_err *err);

/* Nothing is done without a lease: while that lasts it is back at once, else it waits until there
 * is one again. Returns 0, or -1 with *err as spot_lead_put. */
int spot_lead_hold(struct spot_lead *lead, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_LEAD_H */
