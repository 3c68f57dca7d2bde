/* SPDX-License-Identifier: MIT */
/* batch_loop_state.h - shared by the parts of a batch loop; private to lib/serve/batch*.c. */
#ifndef SPOT_SERVE_BATCH_LOOP_STATE_H
#define SPOT_SERVE_BATCH_LOOP_STATE_H

#include "engine/sample.h"
#include "serve/batch_loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A choice in progress. */
struct spot_strand {
    uint64_t number;
    struct spot_request request;
    uint32_t choice;
    uint32_t *token; /* [n_token], the prompt first */
    size_t n_token, cap_token;
    size_t n_begin;    /* prompt tokens that are prefilled */
    size_t n_echo;     /* further prompt tokens, computed like an answer although they are known */
    int place;         /* its sequence in the engine's cache; -1: none */
    uint32_t n_cached; /* prompt tokens that were cached when it began */
    bool is_again;     /* its pages were taken; cached pages it finds afterwards are its own */
    bool is_awaited;   /* a pass in progress will give its next token */
    uint32_t *source;  /* members that send its pages; NULL: none */
    double asked_s, until_s;          /* start of the wait for pages, and its limit */
    bool has_copies;                  /* this replica has copies of its pages */
    int64_t n_copied;                 /* pages that the buddy has */
    uint32_t *n_prompt, *n_generated; /* [V] or NULL: no penalties */
    struct spot_grammar *grammar;     /* or NULL */
    struct spot_grammar_state *state;
};

/* A pass in progress, and the strand whose next token each item gives; NULL: none. */
struct spot_batch_pass {
    struct spot_strand **whose;   /* [n_item], of n_most */
    bool *is_pooled;              /* [n_item]: whether it gives a state instead of logits */
    struct spot_infer_pick *pick; /* [n_item], of n_most */
    int n_item;
    int64_t n_token;
    double begun_s;
};

/* What an awaited item of a pass gave. */
struct spot_batch_row {
    struct spot_strand *strand;
    float *logit; /* [V]; NULL: a state */
    const struct spot_infer_pick *pick;
    struct spot_batch_out *out;
};

struct spot_batch_loop {
    const struct spot_served_model *model;
    struct spot_relay *relay;
    int n_most;
    int64_t vocab;
    struct spot_strand **strand; /* [n], oldest first */
    size_t n, cap;
    struct spot_infer_item *item;  /* [n_most] */
    struct spot_batch_pass *pass;  /* [depth of the relay], the first of which are in progress */
    struct spot_batch_row *row;    /* [n_most] of the pass that ends */
    struct spot_sample_work *work; /* [V] for each thread */
    struct spot_grammar_pool *grammars;
    bool has_buddy;
    struct spot_batch_rates rates;
};

/* batch_loop.c */
/* Free this many pages, taken from the newest if necessary, but from none older than strand i. */
bool spot_batch_make_room(struct spot_batch_loop *l, size_t i, int64_t n_page, int64_t n_taken);
/* A place in the cache for strand i, taken from a newer one if necessary. */
bool spot_batch_open_place(struct spot_batch_loop *l, size_t i);

/* batch_choose.c */
/* How the engine may choose the next token of a strand (NULL: nobody awaits it); logits are wanted
 * where a choice needs what only the request knows. */
struct spot_infer_pick spot_batch_pick(const struct spot_strand *s);
/* The tokens of row[n], to out[n]; sequences that have ended are removed. */
void spot_batch_choose(struct spot_batch_loop *l, struct spot_batch_out *out, size_t n);
/* Appends a token. Returns 0, or -1 if the grammar forbids it. */
int spot_batch_append(struct spot_strand *s, uint32_t token);

static inline size_t spot_batch_n_generated(const struct spot_strand *s)
{
    return s->n_token - s->n_begin;
}

/* batch_pages.c */
void spot_batch_note_rate(double *rate, double value);
/* True if all sequences wait for their pages. */
bool spot_batch_all_wait(const struct spot_batch_loop *l);
/* Send pages that became full to the buddy; load pages that arrived into the cache. Return 0, or -1
 * with *err as in relay.h. */
int spot_batch_copy_pages(struct spot_batch_loop *l, struct spot_err *err);
int spot_batch_look_for_pages(struct spot_batch_loop *l, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_BATCH_LOOP_STATE_H */
