/* SPDX-License-Identifier: MIT */
/* server_verify.h - choices are computed again by another replica and compared; private to
 * lib/serve/server*.c. */
#ifndef SPOT_SERVE_SERVER_VERIFY_H
#define SPOT_SERVE_SERVER_VERIFY_H

#include "serve/server_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The request in the form sent to replicas. */
struct spot_request spot_server_part(const struct spot_server *s, const struct spot_work *w,
                                     uint32_t choice, uint32_t *choice_of_part);
/* Hold back the choices that must be checked before they are sent. */
void spot_server_hold(struct spot_server *s, struct spot_work *w);
/* A choice has ended: check it if required. */
void spot_server_check(struct spot_server *s, struct spot_work *w, uint32_t choice);
void spot_server_give_checks(struct spot_server *s);
/* Take a token of a check; false: the sequence is not a check. */
bool spot_server_take_voice(struct spot_server *s, struct spot_replica *place, uint64_t sequence,
                            const struct spot_step_token *token);
/* The replica was lost: its checks go to others. Or it cannot compute this check, and neither can
 * others.
 */
void spot_server_return_checks(struct spot_server *s, const struct spot_replica *place);
void spot_server_fail_check(struct spot_server *s, uint64_t sequence);
void spot_server_drop_checks(struct spot_server *s, const struct spot_work *w); /* NULL: all */
/* True if a member of the replica was proved to be faulty. */
bool spot_replica_is_convicted(const struct spot_server *s, const struct spot_replica *place);
/* End checks that no replica can compute, and the epochs of convicted replicas. */
int spot_server_tend_checks(struct spot_server *s, struct spot_err *err);

/* server_events.c: log that the member's replica was wrong, or that no replica could be named. */
int spot_server_log_corrupt(struct spot_server *s, const struct spot_check *c, size_t voice,
                            size_t position, const char *what, size_t n_other,
                            struct spot_err *err);
int spot_server_log_differs(struct spot_server *s, const struct spot_check *c, size_t position,
                            struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SERVER_VERIFY_H */
