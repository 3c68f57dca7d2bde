/* SPDX-License-Identifier: MIT */
/* notice_claim.h - parses the answers of sources. Pure functions of untrusted text. */
#ifndef SPOT_CLUSTER_NOTICE_NOTICE_CLAIM_H
#define SPOT_CLUSTER_NOTICE_NOTICE_CLAIM_H

#include <stdbool.h>
#include <stddef.h>

#include "cluster/notice.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_NOTICE_CLAIMS_MAX = 64 }; /* of one answer; further ones are ignored */

/* One notice, as read from its source. */
struct spot_notice_claim {
    enum spot_notice_kind kind;
    bool is_memory_lost;
    bool has_begun; /* needs no acknowledgement */
    char action[SPOT_NOTICE_ACTION_MAX];
    char id[SPOT_NOTICE_ID_MAX]; /* constant as long as the notice exists */
    double deadline_s;           /* Unix time, as given; NAN: not given */
    double lead_s; /* time left at first sight, if no deadline is given; NAN: not known */
};

/* Read text[n], which is followed by a NUL, into claim[SPOT_NOTICE_CLAIMS_MAX]. Returns their
 * number, or -1 with *err (SPOT_EDATA): not an answer of this kind. */
typedef int spot_notice_read(const char *text, size_t n, const char *name,
                             struct spot_notice_claim *claim, struct spot_err *err);

spot_notice_read spot_notice_read_action;      /* AWS spot/instance-action */
spot_notice_read spot_notice_read_rebalance;   /* AWS events/recommendations/rebalance */
spot_notice_read spot_notice_read_preempted;   /* GCP instance/preempted */
spot_notice_read spot_notice_read_maintenance; /* GCP instance/maintenance-event */
/* Azure scheduledevents: those of the machine `name`, or of all machines if it is NULL. An event
 * that cannot be read does not hide the others. */
spot_notice_read spot_notice_read_events;
/* A line of a command: "[preempt|rebalance|maintenance] [DEADLINE] [ID...]", where DEADLINE is RFC
 * 3339 or a duration; the rest of the line is the ID. 0 for a blank line. */
spot_notice_read spot_notice_read_line;

/* A token of IMDSv2: visible ASCII that fits a header. */
bool spot_notice_is_token(const char *text, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_NOTICE_NOTICE_CLAIM_H */
