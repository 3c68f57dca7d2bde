/* SPDX-License-Identifier: MIT */
/* server_verify.h - choices are computed again by another replica, and compared; private to
 * lib/serve/server*.c. */
#ifndef SPOT_SERVE_SERVER_VERIFY_H
#define SPOT_SERVE_SERVER_VERIFY_H

#include "serve/server_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As replicas are sent it. */
struct spot_request spot_server_part(const struct spot_server *s, const struct spot_work *w,
                                     uint32_t choice, uint32_t *choice_of_part);
/* What of it is not told before it has been checked. */
void spot_server_hold(struct spot_server *s, struct spot_work *w);
/* A choice has ended; it may have to be checked. */
void spot_server_check(struct spot_server *s, struct spot_work *w, uint32_t choice);
void spot_server_give_checks(struct spot_server *s);
/* A token of a sequence that is a check; false: it is none. */
bool spot_server_take_voice(struct spot_server *s, struct spot_replica *place, uint64_t sequence,
                            const struct spot_step_token *token);
/* The replica was lost, and computes none any more; it cannot compute this one, nor could others.
 */
void spot_server_return_checks(struct spot_server *s, const struct spot_replica *place);
void spot_server_fail_check(struct spot_server *s, uint64_t sequence);
void spot_server_drop_checks(struct spot_server *s, const struct spot_work *w); /* NULL: all */
/* One of its members was proved to be at fault. */
bool spot_replica_is_convicted(const struct spot_server *s, const struct spot_replica *place);
/* End those for which nobody comes, and the epochs of convicted replicas. */
int spot_server_tend_checks(struct spot_server *s, struct spot_err *err);

/* server_events.c: the member's replica was shown to be wrong; nobody could be. */
int spot_server_log_corrupt(struct spot_server *s, const struct spot_check *c, size_t voice,
                            size_t position, const char *what, size_t n_other,
                            struct spot_err *err);
int spot_server_log_differs(struct spot_server *s, const struct spot_check *c, size_t position,
                            struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SERVER_VERIFY_H */
