/* SPDX-License-Identifier: MIT */
/* server_state.h - what the parts of a server share; private to lib/serve/server*.c. */
#ifndef SPOT_SERVE_SERVER_STATE_H
#define SPOT_SERVE_SERVER_STATE_H

#include "common/histogram.h"
#include "model/grid.h"
#include "serve/completion.h"
#include "serve/front.h"
#include "serve/model_version.h"
#include "serve/relay.h"
#include "serve/server.h"
#include "serve/token_log.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SEQUENCE_PLACES = 2 };

/* A request that was taken; completion.core. */
struct spot_work {
    uint64_t number;
    struct spot_completion *completion; /* one reference */
    struct spot_model_version *version; /* that it began on */
    /* when it came, went to a member first, and had its first token; 0: not yet */
    double taken_s, given_s, first_s;
    double ended_s, abandoned_s; /* 0: not ended; its client is there */
    bool is_resumed;             /* another coordinator took it: taken_s is when this one began */
    bool is_logged;              /* its end */
};

/* A choice that has not ended. Two members may compute it: whoever is first commits. */
struct spot_sequence {
    uint64_t number; /* of the work, times SPOT_REQUEST_CHOICES_MAX, plus the choice */
    struct spot_work *work;
    uint32_t choice;
    uint32_t place[SPOT_SEQUENCE_PLACES]; /* leaders of replicas; 0: none */
    bool has_told[SPOT_SEQUENCE_PLACES];  /* since it was given, a token that fits */
    bool is_given;                        /* a member had it once */
    double told_s;                        /* its newest token was committed; 0: none was */
    char failed[SPOT_NAME_MAX];           /* whom it was taken from last; "" */
    struct spot_replica *copies;          /* who had copies of its pages when it was; NULL */
    uint32_t copies_epoch;
    uint32_t copied[SPOT_RELAY_MEMBERS_MAX]; /* whose pages those are, by position */
};

/* A member: the workload's object of a peer. */
struct spot_seat {
    struct spot_peer *peer;
    struct spot_replica *replica; /* NULL: it has not joined */
    int position;                 /* that it had last, and has the weights of; -1: none */
};

/* A view: P x M members that compute together. */
struct spot_replica {
    struct spot_peer *peer;             /* the leader, which is told of sequences; NULL: none */
    struct spot_view *view;             /* NULL before members were there */
    struct spot_model_version *version; /* of its newest epoch; NULL: none was */
    bool is_retiring;                   /* it is to get the other version */
    uint32_t load;
    bool is_running;
    uint32_t used_page, n_page;
    int64_t n_done, n_asked;                 /* choices that ended here; rounds asked for */
    double leaving_s;                        /* since when; 0: it is not */
    uint32_t member[SPOT_RELAY_MEMBERS_MAX]; /* ids by position, of its newest epoch */
    struct spot_replica *buddy;              /* that has copies of its pages, in this epoch; NULL */
    uint32_t buddy_epoch;
    double prompt_token_s, page_byte_per_s; /* as its leader measured; 0: not known */
    uint64_t n_token_paged;
    double told_s, step_s; /* when it last told tokens, or was given its first; time between */
};

struct spot_batch;

/* What a replica takes of the load. */
struct spot_route {
    char node[SPOT_NAME_MAX], zone[SPOT_NAME_MAX]; /* of its first worker; "": any */
    double weight;
};

enum spot_roll_state {
    SPOT_ROLL_NONE,
    SPOT_ROLL_READING,
    SPOT_ROLL_ROLLING,
    SPOT_ROLL_DONE,
    SPOT_ROLL_REFUSED,    /* it cannot be served */
    SPOT_ROLL_TAKEN_BACK, /* a worker could not read it */
};

struct spot_roll_result {
    enum spot_roll_state state;
    char dir[1024], why[SPOT_WHY_MAX];
};

/* What the log has of the counts below. */
struct spot_server_logged {
    double time_s;
    uint64_t n_request, n_refused, n_token, n_moved, n_again_token, n_token_paged;
    struct spot_histogram between;
    bool is_busy;                         /* choices were there */
    double looked_s, running_s, queued_s; /* since time_s, by then: choices times seconds */
};

struct spot_server {
    const struct spot_server_options *options;
    struct spot_model_version *target;  /* what replicas are to have */
    struct spot_model_version *current; /* what new requests begin on */
    struct spot_model_version *old;     /* what is rolled away; NULL: nothing is */
    struct spot_model_version **ended;  /* [n_ended] whose requests are not all forgotten */
    size_t n_ended, cap_ended;
    struct spot_model_reading *reading; /* what may be rolled out; NULL */
    struct spot_roll_result rolled;     /* what became of the last one that was asked for */
    uint64_t given_hash;                /* of the model that this server was started with */
    struct spot_grid grid;              /* that is wanted; D 0: as many replicas as members make */
    uint32_t n_at_once;                 /* choices of a replica at once */
    struct spot_route *route; /* [n_route] of the plan; the first that fits a replica counts */
    size_t n_route;
    bool is_regrouping; /* all stop, and members become replicas anew */
    struct spot_group *group;
    struct spot_front *front; /* NULL: none */
    struct spot_front_options front_options;
    struct spot_token_log *log; /* NULL: none */
    uint64_t log_floor;         /* its bytes when it was last written anew */
    struct spot_batch *batch;
    struct spot_seat **seat; /* [n_seat] */
    size_t n_seat, cap_seat;
    struct spot_replica **place; /* [n_place], by index of the view */
    size_t n_place, cap_place;
    struct spot_work **work; /* [n_work], by number */
    size_t n_work, cap_work;
    struct spot_sequence **sequence; /* [n_sequence], by number */
    size_t n_sequence, cap_sequence;
    uint64_t last_number;
    double served_s; /* when a member could last compute */
    bool is_draining;
    double drained_s;        /* when nothing was left to compute; 0: not yet */
    struct spot_err failure; /* of a function that cannot return one */

    uint64_t n_request, n_token, n_moved, n_paged,
        n_token_paged;                 /* since the start; moved with pages */
    uint64_t n_refused, n_again_token; /* requests; tokens of choices that were given once more */
    struct spot_server_logged logged;
    uint64_t n_lost; /* members of replicas that left or were gone without a word */
    struct spot_histogram queue, first, between, whole; /* times of requests */
    double rate, rate_s;                                /* tokens/s lately */
    uint64_t rate_token;
};

/* server_dispatch.c: give each choice a member; take a member's choices back; a choice has ended.
 */
void spot_server_dispatch(struct spot_server *s);
void spot_server_take_back(struct spot_server *s, struct spot_replica *place, bool has_failed);
void spot_server_end_sequence(struct spot_server *s, struct spot_sequence *q);
struct spot_sequence *spot_server_find(const struct spot_server *s, uint64_t number);
struct spot_replica *spot_server_place(const struct spot_server *s, uint32_t id);
bool spot_replica_is_leaving(const struct spot_replica *place);
/* It has work and has told nothing for much longer than it takes between its steps: it may stand
 * still. */
bool spot_replica_is_silent(const struct spot_replica *place);
bool spot_replica_may_take(const struct spot_replica *place);
/* Each replica gets another one to give copies of its pages to. */
void spot_server_name_buddies(struct spot_server *s);
/* Let those go that leave and compute nothing any more. */
int spot_server_release_leavers(struct spot_server *s, struct spot_err *err);

/* server_layout.c: members become replicas. */
uint32_t spot_server_view_of(void *server, const struct spot_peer *peer);
bool spot_server_may_begin(void *server, struct spot_view *view);
int spot_server_layout(void *server, struct spot_view *view, struct spot_err *err);
/* A plan of kind serve: P and M of replicas, D of them at most, B choices of each at once. */
int spot_server_plan(void *server, const struct spot_plan_doc *plan, bool *changed,
                     struct spot_err *err);
/* What a plan wants is brought about: replicas stop that are not wanted, and all where they are to
 * be of other sizes, before members change places. */
int spot_server_regroup(struct spot_server *s, struct spot_err *err);
/* Members of replicas that wait for others fill those that lack the fewest. */
void spot_server_gather(struct spot_server *s);
/* The members of its epoch by position, and where `to` finds them. */
void spot_server_form(const struct spot_server *s, const struct spot_replica *place,
                      const struct spot_peer *to, struct spot_relay_form *form);
/* Could an epoch begin without those that leave? */
bool spot_server_can_replace(const struct spot_server *s, const struct spot_replica *place);

/* server_commit.c: tokens of a member. */
int spot_server_tokens(struct spot_server *s, struct spot_replica *place,
                       const struct spot_frame *frame, struct spot_err *err);

/* server_work.c: requests from their start to their end. */
enum spot_admission spot_server_submit(void *server, struct spot_request *request_take,
                                       struct spot_completion **completion);
void spot_server_abandon(void *server, struct spot_completion *c);
struct spot_completion *spot_server_rejoin(void *server, const char *id);
enum spot_admission spot_server_health(void *server);
void spot_server_cancel(struct spot_server *s, struct spot_work *work);
size_t spot_server_waiting(const struct spot_server *s);
/* Nothing is to be computed, and clients have read it, or had --linger for it. */
bool spot_server_is_idle(const struct spot_server *s);
int spot_server_open_log(struct spot_server *s, struct spot_err *err);
/* The journal, with what is needed still. */
int spot_server_write_anew(struct spot_server *s, struct spot_err *err);
/* What is due by time: forget what has ended, bound the journal. */
int spot_server_expire(struct spot_server *s, struct spot_err *err);

/* server_roll.c: another version of the model, replica by replica. */
void spot_server_keep_version(struct spot_server *server, struct spot_model_version *version_take);
/* The version of this hash, or NULL. */
struct spot_model_version *spot_server_version(const struct spot_server *s, uint64_t hash);
/* What a replica that is formed is to compute with. */
struct spot_model_version *spot_server_version_for(const struct spot_server *s,
                                                   const struct spot_replica *place);
/* What is due: the next replica stops, or none is left to. */
int spot_server_roll(struct spot_server *s, struct spot_err *err);
/* A client asks for another version. */
int spot_server_client(void *server, const struct spot_frame *frame, struct spot_buf *answer,
                       uint64_t *status, struct spot_err *err);
/* A member could not read the version that its replica is to have. */
int spot_server_cannot_read(struct spot_server *s, struct spot_replica *place,
                            struct spot_peer *peer, const char *why, struct spot_err *err);
/* New requests begin on it. */
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

/* server_events.c: lines of the log; nothing where there is none. Of a coordinator that begins, of
 * a replica whose epoch begins, of requests that have ended, of each second, of the end. */
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
