/* SPDX-License-Identifier: MIT */
/* protocol.h - the messages between a coordinator, its workers and clients, common to all
 * workloads. A workload adds messages of its own numbers in the same ranges.
 *
 * A message is a frame (comm/link.h): its type, the epoch it belongs to, a tag, a payload in
 * comm/wire.h form. Both sides must have the same SPOT_PROTOCOL and be of one release line ("0.1");
 * SPOT_PROTOCOL changes whenever messages or the results of a kernel do. A HELLO will always begin
 * with protocol, version and name, so that the refusal can name both versions.
 */
#ifndef SPOT_CLUSTER_PROTOCOL_H
#define SPOT_CLUSTER_PROTOCOL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Maximum bytes of a message between members; an array of several GB can be one message. */
#define SPOT_PAYLOAD_MAX (INT64_C(1) << 32)

enum {
    SPOT_PROTOCOL = 26,
    SPOT_HELLO_MAX = 1 << 20, /* from a peer that is not yet a member */
    SPOT_NAME_MAX = 64,
    SPOT_WHY_MAX = 512, /* bytes of a reason */
    SPOT_VERSION_MAX = 64,
    SPOT_PLAN_MAX = 1 << 20,
    SPOT_MEMBERS_MAX = 512,
};

/* How long a client of STOP waits for the end of the job, and its connection is kept. */
enum { SPOT_STOP_PATIENCE_S = 86400 };

enum spot_message {
    /* worker to coordinator */
    /* u32 protocol, version, name, address, domain, u64 key of the worker's previous coordinator;
     * then the workload's data */
    SPOT_MSG_HELLO = 1,
    SPOT_MSG_HEARTBEAT = 2, /* tag: progress; the coordinator answers with one */
    SPOT_MSG_NOTICE = 3, /* this instance will be taken away; tag: in how many ms, 0: not known */
    /* answer to QUIESCE: held state, in the workload's format; then the peers that it did not
     * reach, see suspect_io.h */
    SPOT_MSG_REPORT = 4,
    SPOT_MSG_READY = 5,   /* answer to FORM: everything is in its place */
    SPOT_MSG_VOTE = 6,    /* tag: round that is voted for or announced */
    SPOT_MSG_BROKEN = 7,  /* a connection broke: text; the peers that it did not reach, as above */
    SPOT_MSG_FAILED = 10, /* text: this worker cannot continue; a non-zero tag is the workload's */
    /* answer to REACH: the peers that it did not reach, as above; tag 1: interrupted */
    SPOT_MSG_REACHED = 11,

    /* coordinator to worker */
    SPOT_MSG_WELCOME = 32, /* u32 id, u64 key, f64 lease; then the workload's data */
    /* text: reason; tag 1: the name of this coordinator's workload, if the worker has another
     * one */
    SPOT_MSG_REFUSED = 33,
    SPOT_MSG_QUIESCE = 34, /* epochs below this frame's are over; report */
    SPOT_MSG_FORM = 35,    /* the new epoch, in the workload's format */
    SPOT_MSG_ROUND = 37,   /* tag: round; the workload's data */
    SPOT_MSG_COMMIT = 38,  /* tag: round */
    /* this worker is no longer needed; tag 1: the job ends, and lost something */
    SPOT_MSG_LEAVE = 42,
    SPOT_MSG_FINISH = 43, /* the job is done */
    /* test whether these members can be reached: u32 count, then u32 id, address of each */
    SPOT_MSG_REACH = 45,
    SPOT_MSG_ASIDE = 46,     /* text: why this member gets no place; empty: it may have one again */
    SPOT_MSG_DISMISSED = 47, /* text: why this member is dismissed */

    /* worker to worker */
    SPOT_MSG_PEER = 64, /* first frame of a connection */
    SPOT_MSG_PING = 72, /* to a silent peer that is waited for */
    SPOT_MSG_PONG = 73,
    SPOT_MSG_KNOCK = 77, /* first frame of a connection that tests whether a peer answers */
    SPOT_MSG_OFFER = 88, /* first frame of a connection on demand */

    /* client to coordinator, and its answer */
    SPOT_MSG_REPLAN = 96,        /* a spot.plan/1 document */
    SPOT_MSG_STATUS = 97,        /* nothing */
    SPOT_MSG_ANSWER = 98,        /* tag: exit status; text or document */
    SPOT_MSG_REPLAN_FORCE = 99,  /* as REPLAN, accepted whatever the time of the plan */
    SPOT_MSG_STOP = 100,         /* no payload; the answer comes when the job has stopped */
    SPOT_MSG_CLIENT_FIRST = 101, /* from here on requests to the workload */
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_PROTOCOL_H */
