/* SPDX-License-Identifier: MIT */
/* batch_loop_state.h - what the parts of a batch loop share; private to lib/serve/batch*.c. */
#ifndef SPOT_SERVE_BATCH_LOOP_STATE_H
#define SPOT_SERVE_BATCH_LOOP_STATE_H

#include "serve/batch_loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A choice under way. */
struct spot_strand {
    uint64_t number;
    struct spot_request request;
    uint32_t choice;
    uint32_t *token; /* [n_token], the prompt first */
    size_t n_token, cap_token;
    size_t n_begin;          /* tokens of the prompt that are not computed like an answer */
    size_t n_echo;           /* and those that are, though they are known */
    int place;               /* in the engine's cache; -1: none */
    bool is_awaited;         /* a pass under way gives its next token */
    uint32_t *source;        /* whence its pages come; NULL: from nowhere */
    double asked_s, until_s; /* since when, and how long it waits for them */
    bool has_copies;         /* they are here */
    int64_t n_copied;        /* pages that the buddy has */
    uint32_t *n_prompt, *n_generated; /* [V] or NULL: nothing hangs on them */
    struct spot_grammar *grammar;     /* or NULL */
    struct spot_grammar_state *state;
};

/* A pass under way: whose next token each item gives; NULL: nobody's. */
struct spot_batch_pass {
    struct spot_strand **whose; /* [n_item], of n_most */
    int n_item;
    int64_t n_token;
    double begun_s;
};

struct spot_batch_loop {
    const struct spot_served_model *model;
    struct spot_relay *relay;
    int n_most;
    int64_t vocab;
    struct spot_strand **strand; /* [n], oldest first */
    size_t n, cap;
    struct spot_infer_item *item; /* [n_most] */
    struct spot_batch_pass *pass; /* [depth of the relay], of which the first are under way */
    struct spot_sample_work *work;
    bool has_buddy;
    struct spot_batch_rates rates;
};

/* batch_loop.c */
int64_t spot_batch_page_count(int64_t n_token);
/* So many pages, taken from the newest if need be, but from none older than strand i. */
bool spot_batch_make_room(struct spot_batch_loop *l, size_t i, int64_t n_page, int64_t n_taken);
/* A place in the cache for strand i, if need be that of a newer one. */
bool spot_batch_open_place(struct spot_batch_loop *l, size_t i);

/* batch_pages.c */
void spot_batch_note_rate(double *rate, double value);
/* Do all sequences wait for their pages? */
bool spot_batch_all_wait(const struct spot_batch_loop *l);
/* Pages that became full go to the buddy; those that came go into the cache. Return 0, or -1 with
 * *err as relay.h says. */
int spot_batch_copy_pages(struct spot_batch_loop *l, struct spot_err *err);
int spot_batch_look_for_pages(struct spot_batch_loop *l, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_BATCH_LOOP_STATE_H */
