/* SPDX-License-Identifier: MIT */
/* token_log.h - the journal of a server: requests and committed tokens, in one file.
 *
 * Records are appended, each with its length and hash. A token counts as committed when its record
 * is in the file. What a crash left of the last one is cut off when the file is opened again. A
 * record that is damaged with sound ones behind it is passed over, and what follows from it is of
 * no use: the reader is told of tokens behind a gap, and of some whose request is not known. The
 * file is then kept as tokens.log.bad until another one is damaged. The file is written anew when
 * half of it is about requests that are gone.
 */
#ifndef SPOT_SERVE_TOKEN_LOG_H
#define SPOT_SERVE_TOKEN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "serve/request.h"
#include "serve/step_token.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_TOKEN_LOG_NUMERICS = 48 };

struct spot_token_log;

/* What a file says, in order; `number` is of the request. Each takes what is its own, and passes
 * over what does not follow from what it was told before. */
struct spot_token_log_reader {
    void (*model)(void *user, uint64_t hash, const char *dir); /* that requests began on */
    void (*request)(void *user, uint64_t number, uint64_t model_hash,
                    struct spot_request *request_take);
    void (*token)(void *user, uint64_t number, uint32_t choice, const struct spot_step_token *t);
    void (*end)(void *user, uint64_t number); /* it is gone: all its choices have ended */
    void *user;
};

struct spot_token_log_damage {
    uint64_t n_cut;             /* bytes at the end that were cut off */
    uint64_t n_bad, n_bad_byte; /* damaged records before that, at least; and their bytes */
    bool is_kept;               /* the damaged file, as tokens.log.bad */
};

/* The directory is made unless it is there, and is locked until the journal is closed: of two
 * servers the second is refused before it reads or changes anything (SPOT_ESYS).
 *
 * DIR/tokens.log of a server that is started with the model of this hash, and computes it as
 * `numerics` says, in less than SPOT_TOKEN_LOG_NUMERICS bytes: other bits may not follow. Without
 * `resumes` a file that is there is an error (SPOT_EUSAGE); with it, what it says is read. *damage
 * gets what could not be read. `does_sync`: an append also survives the loss of the machine.
 * NULL with *err: SPOT_ESYS, SPOT_EDATA for a file of another model, other bits or another kind. */
struct spot_token_log *spot_token_log_open(const char *dir, uint64_t model_hash,
                                           const char *numerics, bool resumes, bool does_sync,
                                           const struct spot_token_log_reader *reader,
                                           struct spot_token_log_damage *damage,
                                           struct spot_err *err);
void spot_token_log_close(struct spot_token_log *log); /* may be NULL */

/* The hash of the model that replicas are to have; of a file that was there, the one that it says.
 * Set before the file is written anew. */
uint64_t spot_token_log_model(const struct spot_token_log *log);
void spot_token_log_set_model(struct spot_token_log *log, uint64_t hash);

/* Put into the record that is being made. Models come first in a file that is written anew; one
 * without a directory is no more needed, and a server that is started with it may go on with the
 * file. */
void spot_token_log_put_model(struct spot_token_log *log, uint64_t hash, const char *dir);
void spot_token_log_put_request(struct spot_token_log *log, uint64_t number, uint64_t model_hash,
                                const struct spot_request *request);
void spot_token_log_put_token(struct spot_token_log *log, uint64_t number, uint32_t choice,
                              const struct spot_step_token *t);
void spot_token_log_put_end(struct spot_token_log *log, uint64_t number);
/* What is put from now on is in another record: damage of one loses nothing of the other. */
void spot_token_log_next_record(struct spot_token_log *log);
/* Append it, in one write; nothing where nothing was put. Returns 0, or -1 with *err (SPOT_ESYS):
 * the file is as it was, and the record is kept for another try. */
int spot_token_log_write(struct spot_token_log *log, struct spot_err *err);

/* Bytes of the file, and how many it should have before it is worth writing anew. */
uint64_t spot_token_log_byte(const struct spot_token_log *log);
/* Write it anew: what was put since the last write is all that it has. It is there complete, or the
 * old one is. Returns 0, or -1 with *err. */
int spot_token_log_replace(struct spot_token_log *log, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_TOKEN_LOG_H */
