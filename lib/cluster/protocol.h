/* SPDX-License-Identifier: MIT */
/* protocol.h - the messages between a coordinator, its workers and passing clients, whatever the
 * workload. What a workload adds has numbers of its own in the same ranges.
 *
 * A message is a frame (comm/link.h): its type, the epoch it belongs to, a tag, a payload in
 * comm/wire.h form. Both sides must have one SPOT_PROTOCOL and be of one release line ("0.1"): it
 * is changed whenever what is said, or what a kernel computes, is. A hello begins with protocol,
 * version and name for ever, so that who is refused is told both versions.
 */
#ifndef SPOT_CLUSTER_PROTOCOL_H
#define SPOT_CLUSTER_PROTOCOL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a message between members: a layer of a model of 7B parameters is 2.4 GB. */
#define SPOT_PAYLOAD_MAX (INT64_C(1) << 32)

enum {
    SPOT_PROTOCOL = 22,
    SPOT_HELLO_MAX = 1 << 20, /* from a stranger, before it is a member */
    SPOT_NAME_MAX = 64,
    SPOT_WHY_MAX = 512, /* bytes of a reason given */
    SPOT_VERSION_MAX = 64,
    SPOT_PLAN_MAX = 1 << 20,
    SPOT_MEMBERS_MAX = 512,
};

enum spot_message {
    /* worker to coordinator */
    /* u32 protocol, version, name, address, domain, u64 key of the coordinator that it was with;
     * then what the workload wants to know */
    SPOT_MSG_HELLO = 1,
    SPOT_MSG_HEARTBEAT = 2, /* tag: progress; the coordinator answers with one */
    SPOT_MSG_NOTICE = 3,    /* this instance will be taken away; tag: in so many ms, 0: not known */
    /* answer to QUIESCE: what is held, in the workload's words; then whom it did not reach:
     * suspect_io.h */
    SPOT_MSG_REPORT = 4,
    SPOT_MSG_READY = 5,    /* answer to FORM: everything is in its place */
    SPOT_MSG_VOTE = 6,     /* tag: round; a vote for it, or it is announced */
    SPOT_MSG_BROKEN = 7,   /* a connection broke: text; whom it did not reach, as above */
    SPOT_MSG_FAILED = 10,  /* text: this worker cannot go on; a tag that is not 0: the workload's */
    SPOT_MSG_REACHED = 11, /* answer to REACH: whom it did not reach, as above; tag 1: was
                              interrupted */

    /* coordinator to worker */
    SPOT_MSG_WELCOME = 32, /* u32 id, u64 key, f64 lease; then the workload's */
    /* text: why; tag 1: the name of the workload here, which is not this worker's */
    SPOT_MSG_REFUSED = 33,
    SPOT_MSG_QUIESCE = 34, /* epochs below this frame's are over; report */
    SPOT_MSG_FORM = 35,    /* the new epoch, in the workload's words */
    SPOT_MSG_ROUND = 37,   /* tag: round; what it is about */
    SPOT_MSG_COMMIT = 38,  /* tag: round */
    SPOT_MSG_LEAVE = 42,   /* nothing here needs you; tag 1: the job ends, and lost something */
    SPOT_MSG_FINISH = 43,  /* the job is done */
    SPOT_MSG_REACH = 45, /* u32 how many, of each u32 id, address: which of them can be reached? */
    SPOT_MSG_ASIDE = 46, /* text: why this member gets no place; empty: it may have one again */
    SPOT_MSG_DISMISSED = 47, /* text: why it is not waited for any more */

    /* worker to worker */
    SPOT_MSG_PEER = 64, /* first frame of a connection */
    SPOT_MSG_PING = 72, /* to a peer that is waited for and silent */
    SPOT_MSG_PONG = 73,
    SPOT_MSG_KNOCK = 77, /* first frame of a connection, to see whether somebody answers */

    /* client to coordinator, and its answer */
    SPOT_MSG_REPLAN = 96,        /* a spot.plan/1 document */
    SPOT_MSG_STATUS = 97,        /* nothing */
    SPOT_MSG_ANSWER = 98,        /* tag: exit status; text or document */
    SPOT_MSG_REPLAN_FORCE = 99,  /* as REPLAN, whatever the time of the plan */
    SPOT_MSG_STOP = 100,         /* nothing; the answer comes when the job has stopped */
    SPOT_MSG_CLIENT_FIRST = 101, /* from here on the workload's questions */
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_PROTOCOL_H */
