/* SPDX-License-Identifier: MIT */
/* server_state.h - shared by the parts of a server; private to lib/serve/server*.c. */
#ifndef SPOT_SERVE_SERVER_STATE_H
#define SPOT_SERVE_SERVER_STATE_H

#include "cluster/workload.h"
#include "common/histogram.h"
#include "model/grid.h"
#include "serve/completion.h"
#include "serve/fair_queue.h"
#include "serve/front.h"
#include "serve/guess.h"
#include "serve/model_version.h"
#include "serve/relay.h"
#include "serve/server.h"
#include "serve/size_route.h"
#include "serve/token_log.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SEQUENCE_PLACES = 2 };

/* An accepted request; completion.core. */
struct spot_work {
    uint64_t number;
    struct spot_completion *completion; /* one reference */
    struct spot_model_version *version; /* the version it began on */
    /* times of arrival, of first assignment to a member, of the first token; 0: not yet */
    double taken_s, given_s, first_s;
    double ended_s, abandoned_s; /* times of its end, 0: not ended, and of its client's disconnect,
                                    0: connected */
    bool is_resumed;  /* accepted by an earlier coordinator; taken_s is the start of this one */
    bool is_logged;   /* its end has been logged */
    uint32_t n_again; /* choices restarted because another replica had another result */
};

/* A choice that has not ended. Two members may compute it: the first to deliver a token commits
 * it. */
struct spot_sequence {
    uint64_t number; /* number of the request times SPOT_REQUEST_CHOICES_MAX, plus the choice */
    struct spot_work *work;
    uint32_t choice;
    uint32_t place[SPOT_SEQUENCE_PLACES]; /* numbers of the replicas' leaders; 0: none */
    bool has_told[SPOT_SEQUENCE_PLACES];  /* it delivered a valid token since its assignment */
    bool is_given;                        /* whether it was assigned to a member before */
    bool is_queued;                       /* in the queue of unassigned ones, by tag */
    double tag;
    /* work of prompt and tokens so far, at the assignment */
    double prompt_work[SPOT_SEQUENCE_PLACES];
    double unread[SPOT_SEQUENCE_PLACES]; /* the same plus all prompts ahead of it */
    uint32_t assignment[SPOT_SEQUENCE_PLACES], n_assignment; /* numbers of the assignments */
    double given_s; /* time of the last assignment, and the number of tokens then */
    size_t n_given;
    size_t n_written; /* tokens in the journal */
    size_t n_checked; /* tokens checked by check_forms, including the current message */
    /* grammar of its constraint, if an engine computes it, and its state */
    struct spot_grammar *grammar;
    struct spot_grammar_state *stands; /* NULL: no constraint, or not at an engine */
    uint32_t n_failed;                 /* number of engines that failed it since its newest token */
    double due_s;                      /* earliest time of the next assignment */
    double told_s;                     /* when its newest token was committed; 0: none */
    char failed[SPOT_NAME_MAX];        /* name of the member that failed it last; "" */
    uint64_t *prefix;                  /* [n_prefix] see server_prefix.c; NULL: not needed yet */
    size_t n_prefix;
    struct spot_replica *copies; /* the replica with copies of its pages at that time; NULL */
    uint32_t copies_epoch;
    uint32_t copied[SPOT_RELAY_MEMBERS_MAX]; /* members with those pages, by position */
};

/* The result of one replica for a choice. */
struct spot_voice {
    uint32_t id;              /* id of its leader; 0: computed by several, or not certain */
    char name[SPOT_NAME_MAX]; /* "" if id is 0 */
    struct spot_token *token; /* [n] up to the first token that differs from the committed one;
                                 owned, except for voice 0, the committed tokens */
    size_t n, cap;
    bool is_out; /* outvoted by others */
};

enum { SPOT_VOICES_MAX = 16 };

/* A choice that has ended and is computed again elsewhere. */
struct spot_check {
    struct spot_work *work; /* with a reference to its completion */
    uint32_t choice;
    struct spot_voice voice[SPOT_VOICES_MAX]; /* [n_voice]; if `at`, the last one is in progress */
    size_t n_voice;
    uint32_t at;     /* number of the leader of the replica that computes it now; 0: none */
    uint64_t number; /* number of its sequence there */
    double since_s;  /* time since which no replica computes it */
};

struct spot_checks {
    struct spot_check **all; /* [n], oldest first */
    size_t n, cap;
    uint64_t last;        /* number given to the sequence of the last check */
    uint64_t n_checked;   /* choices */
    uint64_t n_unchecked; /* choices that no replica checked */
    uint64_t n_convicted; /* members */
    bool is_ending;       /* the batch is done */
    bool must_write_anew; /* choices were restarted: the journal contains invalid tokens */
};

/* The workload's object for a member. */
struct spot_seat {
    struct spot_peer *peer;
    struct spot_replica *replica; /* NULL: it has not joined a replica */
    int position;                 /* its last position, for which it has the weights; -1: none */
    char type[SPOT_NAME_MAX], market[SPOT_NAME_MAX]; /* of its machine; "": not reported */
};

/* A view: P x M members that compute together. */
struct spot_replica {
    struct spot_peer *peer;             /* the leader, which gets sequences; NULL: none */
    struct spot_view *view;             /* NULL before it had members */
    struct spot_model_version *version; /* model version of its newest epoch; NULL: none yet */
    bool is_retiring;                   /* it is to change to the other version */
    uint32_t load;
    double work;   /* work of its choices in tokens, at the last spot_server_count_work */
    double unread; /* the part of `work` for prompts of choices without a token yet */
    struct spot_first_guess first;
    double first_at_s;        /* when it last reported a first token */
    double near_s, near_at_s; /* round trip to its leader; time of the last request for it */
    bool is_running;
    uint32_t used_page, kept_page, n_page;
    uint64_t *held;          /* probable contents of its cache, see server_prefix.c; NULL: empty */
    int64_t n_done, n_asked; /* number of choices that ended here; number of rounds requested */
    double leaving_s;        /* leaving since; 0: not leaving */
    uint32_t member[SPOT_RELAY_MEMBERS_MAX]; /* [P * M] ids of the members of its newest epoch, by
                                                position */
    struct spot_replica *buddy;              /* has copies of its pages in buddy_epoch; NULL */
    uint32_t buddy_epoch;
    double prompt_token_s, page_byte_per_s; /* measured by its leader; 0: not known */
    uint64_t n_token_paged;
    double told_s, step_s; /* time of its last tokens, or of its first assignment; usual interval
                              between tokens */
};

struct spot_batch;

/* A replica's share of the load. */
struct spot_route {
    char node[SPOT_NAME_MAX], zone[SPOT_NAME_MAX]; /* zone of its first worker; "": any */
    double weight;
};

enum spot_roll_state {
    SPOT_ROLL_NONE,
    SPOT_ROLL_READING,
    SPOT_ROLL_ROLLING,
    SPOT_ROLL_DONE,
    SPOT_ROLL_REFUSED,    /* the version cannot be served */
    SPOT_ROLL_TAKEN_BACK, /* a worker could not read it */
};

struct spot_roll_result {
    enum spot_roll_state state;
    char dir[1024], why[SPOT_WHY_MAX];
};

/* The counters that were already logged. */
struct spot_server_logged {
    double time_s;
    uint64_t n_request, n_refused, n_token, n_moved, n_again_token, n_token_paged;
    struct spot_histogram between;
    bool is_busy;                         /* there were choices at the last line */
    double looked_s, running_s, queued_s; /* since time_s, up to looked_s: choices times seconds */
};

struct spot_follower; /* server_follow.c */

/* The routes of the current plan. */
struct spot_server_routes {
    struct spot_route *node; /* [n_node]; the first that matches a replica counts */
    size_t n_node;
    struct spot_size_route size; /* by the size of requests */
    bool is_of_fleet; /* requests wait without workers, since a fleet will start machines */
};

struct spot_server {
    const struct spot_server_options *options;
    struct spot_model_version *target;  /* for replicas */
    struct spot_model_version *current; /* the version for new requests */
    struct spot_model_version *old;     /* the version being replaced; NULL: none */
    struct spot_model_version **ended;  /* [n_ended] former versions that still have requests */
    size_t n_ended, cap_ended;
    struct spot_model_reading *reading; /* being opened for a roll-out; NULL */
    struct spot_follower *follower;     /* NULL: no job is followed */
    struct spot_roll_result rolled;     /* result of the last roll-out requested */
    uint64_t given_hash;                /* hash of the model with which this server was started */
    struct spot_grid grid;              /* target; D 0: as many replicas as members allow */
    uint32_t n_at_once;                 /* maximum choices of a replica at once */
    struct spot_server_routes routes;
    struct spot_workload foreign; /* the workload's table for engines */
    char engine_model[256];       /* the model of all engines; "": not known yet */
    bool is_regrouping;           /* all replicas are stopping and will be formed again */
    struct spot_group *group;
    struct spot_front *front; /* NULL: none */
    struct spot_front_options front_options;
    char *model_id;             /* of these */
    struct spot_token_log *log; /* NULL: none */
    uint64_t log_floor;         /* its size when it was last rewritten */
    struct spot_batch *batch;
    struct spot_seat **seat; /* [n_seat] */
    size_t n_seat, cap_seat;
    struct spot_replica **place; /* [n_place], by index of the view */
    size_t n_place, cap_place;
    struct spot_work **work; /* [n_work], by number */
    size_t n_work, cap_work;
    struct spot_sequence **sequence; /* [n_sequence], by number */
    size_t n_sequence, cap_sequence;
    /* [n_queued] sequences that were never assigned, the next one first */
    struct spot_sequence **queued;
    size_t n_queued, cap_queued;
    struct spot_checks checks;
    struct spot_fair_queue fair;
    struct spot_output_guess guess;
    double mean_output;    /* recent mean of tokens per choice; 0: none has ended */
    double n_told, told_s; /* requests that were told to retry later and are not due yet */
    uint64_t last_number;
    double served_s; /* when a member was last able to compute */
    bool is_draining;
    double drained_s;        /* when all work was done; 0: not yet */
    struct spot_err failure; /* error of a function that cannot return one */

    uint64_t n_request, n_token, n_moved, n_paged,
        n_token_paged;  /* since the start; n_token_paged: tokens moved as pages */
    uint64_t n_spilled; /* choices sent to another route than the plan's, to meet its time limit */
    uint64_t n_refused, n_again_token; /* requests; tokens of choices that were assigned again */
    uint64_t n_prompt_token,
        n_cached_token; /* prompt tokens of choices that began; the part that was not computed */
    struct spot_server_logged logged;
    uint64_t n_lost; /* members of replicas that were lost or left without notice */
    struct spot_histogram queue, first, between, whole; /* histograms of request times */
    double rate, rate_s;                                /* recent tokens/s */
    uint64_t rate_token;
};

/* server_dispatch.c: assign each choice to a member; withdraw the choices of a member; end a
 * choice. */
void spot_server_dispatch(struct spot_server *s);
void spot_server_take_back(struct spot_server *s, struct spot_replica *place, bool has_failed);
void spot_server_end_sequence(struct spot_server *s, struct spot_sequence *q);
/* True if a replica still has copies of its pages. */
bool spot_sequence_has_copies(const struct spot_sequence *q, const struct spot_replica *place);
/* Withdraw the sequence from the member in that place. */
void spot_server_release_place(struct spot_server *s, struct spot_sequence *q, int k);
struct spot_sequence *spot_server_find(const struct spot_server *s, uint64_t number);
struct spot_replica *spot_server_place(const struct spot_server *s, uint32_t id);
bool spot_replica_is_leaving(const struct spot_replica *place);
/* True if the replica has work but has delivered nothing for much longer than its usual step. */
bool spot_replica_is_silent(const struct spot_replica *place);
bool spot_replica_may_take(const struct spot_replica *place);
/* Choose for each replica another one that gets copies of its pages. */
void spot_server_name_buddies(struct spot_server *s);
/* Release leaving members that no longer compute. */
int spot_server_release_leavers(struct spot_server *s, struct spot_err *err);

/* True if the replica can compute one more choice. */
void spot_replica_take(struct spot_replica *place);

/* server_router.c: work in tokens, choosing a replica, and the order of the queue. */
/* Update the work of all replicas. */
void spot_server_count_work(struct spot_server *s);
/* Expected remaining tokens of a choice. */
double spot_server_left(const struct spot_server *s, const struct spot_sequence *q);
/* Work of the part of the prompt that the replica does not hold, and of the tokens so far. */
double spot_server_prompt_work(const struct spot_server *s, const struct spot_replica *place,
                               struct spot_sequence *q);
/* Choose the replica with copies of its pages; else, of the machines whose turn it is by the plan's
 * route for its size, the one that finishes it first; else, if none of these has room, the best of
 * all. The turn counts as used. NULL: none. */
struct spot_replica *spot_server_choose(struct spot_server *s, struct spot_sequence *q);
/* Seconds from now to the first token of the choice, if that replica gets it; 0: not known. */
double spot_server_first_s(const struct spot_server *s, const struct spot_replica *place,
                           struct spot_sequence *q);
bool spot_server_has_room(const struct spot_server *s);
/* Add a new choice to the queue; remove it. */
void spot_server_queue(struct spot_server *s, struct spot_sequence *q);
void spot_server_unqueue(struct spot_server *s, struct spot_sequence *q, bool begins);
bool spot_server_has_queue_for(const struct spot_server *s, const struct spot_request *r);
void spot_server_note_output(struct spot_server *s, const struct spot_sequence *q);
double spot_server_retry_after_s(void *server);

/* server_prefix.c: which replica has a prompt in its cache. */
/* The share of the choice's prompt that a replica probably has: 0..1. */
double spot_server_held(const struct spot_server *s, const struct spot_replica *place,
                        struct spot_sequence *q);
/* Record that a replica will compute the prompt; that it has computed the answer, too. */
void spot_server_hold_prompt(const struct spot_server *s, struct spot_replica *place,
                             struct spot_sequence *q);
void spot_server_hold_answer(const struct spot_server *s, struct spot_replica *place,
                             struct spot_sequence *q);
void spot_server_hold_nothing(struct spot_replica *place);

/* server_layout.c: form replicas from members. */
uint32_t spot_server_view_of(void *server, const struct spot_peer *peer);
bool spot_server_may_begin(void *server, struct spot_view *view);
int spot_server_layout(void *server, struct spot_view *view, struct spot_err *err);
/* A plan of kind serve: P and M of replicas, at most D of them, B choices of each at once. */
int spot_server_plan(void *server, const struct spot_plan_doc *plan, bool *changed,
                     struct spot_err *err);
/* Apply a plan: stop replicas that are not wanted, or all if their size changes, before members
 * change places. */
int spot_server_regroup(struct spot_server *s, struct spot_err *err);
/* Use members of incomplete replicas to complete those that lack the fewest. */
void spot_server_gather(struct spot_server *s);
/* The form of its epoch: members by position, with the addresses at which `to` reaches them. */
void spot_server_form(const struct spot_server *s, const struct spot_replica *place,
                      const struct spot_peer *to, struct spot_relay_form *form);
/* server_engine.c: workers whose model is in an engine. */
int spot_server_accept_engine(struct spot_server *s, struct spot_wire_in *hello, char *why,
                              size_t n);
void spot_server_welcome_engine(const struct spot_server *s, struct spot_buf *out);
/* A worker's engine failed a choice; tries without a token are bounded. */
void spot_server_given_up(struct spot_server *s, struct spot_replica *place,
                          const struct spot_frame *frame);
/* True if the sequence must move from its only holder, which leaves before the choice would end. */
bool spot_server_must_move(const struct spot_server *s, const struct spot_sequence *q,
                           const struct spot_replica *only);
/* Append the end of a CONTINUE to an engine's worker; the state of its grammar starts there. */
void spot_server_put_for_engine(struct spot_sequence *q, uint32_t assignment, struct spot_buf *out);
/* True if the grammar allows this token; its state then advances. is_end: nothing may follow. */
bool spot_server_allows(struct spot_sequence *q, struct spot_step_token *token);
void spot_server_drop_grammar(struct spot_sequence *q);
/* An engine failed a choice. */
void spot_server_fail_sequence(struct spot_server *s, struct spot_replica *place,
                               struct spot_sequence *q, const char *why);
/* True if the message belongs to an earlier assignment of this choice. */
bool spot_server_is_stale(const struct spot_sequence *q, int place, uint32_t assignment);

/* True if an epoch could begin without the leaving members. */
bool spot_server_can_replace(const struct spot_server *s, const struct spot_replica *place);

/* server_commit.c: tokens of a member. */
int spot_server_tokens(struct spot_server *s, struct spot_replica *place,
                       const struct spot_frame *frame, struct spot_err *err);
/* Commit the state (embedding) of a choice. It is not journaled, since no client can rejoin for
 * it. */
void spot_server_state(struct spot_server *s, struct spot_replica *place,
                       const struct spot_frame *frame);

/* server_work.c: requests from their start to their end. */
enum spot_admission spot_server_submit(void *server, struct spot_request *request_take,
                                       struct spot_completion **completion);
void spot_server_abandon(void *server, struct spot_completion *c);
void spot_server_end(void *server, struct spot_completion *c);
struct spot_completion *spot_server_rejoin(void *server, const char *id, uint64_t owner);
int spot_server_proof(void *server, const struct spot_completion *c, struct spot_buf *out);
enum spot_admission spot_server_health(void *server);
void spot_server_cancel(struct spot_server *s, struct spot_work *work);
/* Discard all tokens of a choice and compute it again. */
void spot_server_restart(struct spot_server *s, struct spot_work *work, uint32_t choice);
size_t spot_server_waiting(const struct spot_server *s);
/* True if nothing is left to compute, and clients have read everything or had --linger to do so. */
bool spot_server_is_idle(const struct spot_server *s);
int spot_server_open_log(struct spot_server *s, struct spot_err *err);
/* Rewrite the journal with what is still needed. */
int spot_server_write_anew(struct spot_server *s, struct spot_err *err);
/* Periodic work: forget ended requests, bound the size of the journal. */
int spot_server_expire(struct spot_server *s, struct spot_err *err);

/* server_roll.c: another version of the model, replica by replica. */
void spot_server_keep_version(struct spot_server *server, struct spot_model_version *version_take);
/* The version of this hash, or NULL. */
struct spot_model_version *spot_server_version(const struct spot_server *s, uint64_t hash);
/* The version that a replica being formed is to use. */
struct spot_model_version *spot_server_version_for(const struct spot_server *s,
                                                   const struct spot_replica *place);
/* server_follow.c: weights of a training job: begin; take the newest version, NULL: none (the next
 * one is fetched only after another call); free a version, in the following thread if there is one;
 * end. */
int spot_server_follow(struct spot_server *s, struct spot_err *err);
struct spot_model_version *spot_server_followed(struct spot_server *s);
void spot_server_free_version(struct spot_server *s, struct spot_model_version *v_take);
void spot_server_stop_following(struct spot_server *s);
/* Advance: stop the next replica, or finish if none is left. */
int spot_server_roll(struct spot_server *s, struct spot_err *err);
/* A client requests another version. */
int spot_server_client(void *server, const struct spot_frame *frame, struct spot_buf *answer,
                       uint64_t *status, struct spot_err *err);
/* A member could not read its replica's new version. */
int spot_server_cannot_read(struct spot_server *s, struct spot_replica *place,
                            struct spot_peer *peer, const char *why, struct spot_err *err);
/* The settings for opening a version's directory. */
struct spot_model_wanted spot_server_wanted(const struct spot_server *s);
/* New requests begin on this version. */
void spot_server_set_current(struct spot_server *s, struct spot_model_version *version);
void spot_server_put_model(const struct spot_model_version *version, struct spot_buf *out);
void spot_server_roll_status(const struct spot_server *s, struct spot_jw *jw);
void spot_server_release_versions(struct spot_server *s);

/* server_status.c */
void spot_server_status(void *server, struct spot_jw *jw);
/* The same for the page, with the workers. */
void spot_server_status_page(void *server, struct spot_jw *jw);
bool spot_server_status_member(void *server, const struct spot_peer *peer, struct spot_jw *jw);
void spot_server_metrics(void *server, struct spot_buf *out);
void spot_server_measure(struct spot_server *s);

size_t spot_server_running(const struct spot_server *s); /* replicas */

/* server_events.c: lines of the log; no effect without one. At the start of a coordinator, when a
 * replica's epoch begins, for requests that have ended, each second, at the end. */
int spot_server_log_serving(struct spot_server *s, struct spot_err *err);
int spot_server_log_formed(struct spot_server *s, const struct spot_replica *place,
                           struct spot_err *err);
int spot_server_log_ended(struct spot_server *s, struct spot_err *err);
int spot_server_log_interval(struct spot_server *s, bool is_last, struct spot_err *err);
void spot_server_log_end(struct spot_server *s);

/* server_batch.c: lines of a file as requests. */
struct spot_batch *spot_batch_open(struct spot_server *s, struct spot_err *err);
int spot_batch_go_on(struct spot_batch *b, bool *is_done, struct spot_err *err);
void spot_batch_close(struct spot_batch *b); /* may be NULL */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SERVER_STATE_H */
