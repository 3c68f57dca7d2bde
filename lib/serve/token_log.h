/* SPDX-License-Identifier: MIT */
/* token_log.h - the journal of a server: requests and committed tokens, in one file.
 *
 * Records are appended, each with its length and hash. A token is committed when its record is in
 * the file. A truncated last record, as a crash leaves it, is cut off when the file is reopened. A
 * damaged record with valid ones after it is skipped; the reader may then get tokens after a gap,
 * and tokens of unknown requests. The file is kept as tokens.log.bad until another one is damaged.
 * The file is rewritten when half of it belongs to forgotten requests.
 */
#ifndef SPOT_SERVE_TOKEN_LOG_H
#define SPOT_SERVE_TOKEN_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "serve/completion.h"
#include "serve/request.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_TOKEN_LOG_NUMERICS = 48 };

struct spot_token_log;

/* Receives the contents of a file, in order; `number` identifies the request. Each function must
 * ignore records that do not fit the earlier ones. */
struct spot_token_log_reader {
    void (*model)(void *user, uint64_t hash, const char *dir); /* that requests began on */
    void (*request)(void *user, uint64_t number, uint64_t model_hash,
                    struct spot_request *request_take);
    void (*token)(void *user, uint64_t number, uint32_t choice, const struct spot_step_token *t);
    void (*end)(void *user,
                uint64_t number); /* the request is forgotten: all its choices have ended */
    void *user;
};

struct spot_token_log_damage {
    uint64_t n_cut;             /* bytes cut off at the end */
    uint64_t n_bad, n_bad_byte; /* damaged records before that, at least; and their bytes */
    bool is_kept;               /* the damaged file, as tokens.log.bad */
};

/* The directory is created if necessary, and locked until the journal is closed: a second server is
 * refused before it reads or changes anything (SPOT_ESYS).
 *
 * DIR/tokens.log of a server that is started with the model of this hash, and computes it as
 * described by `numerics`, in less than SPOT_TOKEN_LOG_NUMERICS bytes: both must match, for equal
 * bits. Without `resumes` an existing file is an error (SPOT_EUSAGE); with it, the file is read.
 * *damage gets counts of unreadable records. `does_sync`: appended records also survive the loss of
 * the machine. NULL with *err: SPOT_ESYS, SPOT_EDATA for a file of another model, other bits or
 * another kind. */
struct spot_token_log *spot_token_log_open(const char *dir, uint64_t model_hash,
                                           const char *numerics, bool resumes, bool does_sync,
                                           const struct spot_token_log_reader *reader,
                                           struct spot_token_log_damage *damage,
                                           struct spot_err *err);
void spot_token_log_close(struct spot_token_log *log); /* may be NULL */

/* The hash of the model that replicas are to use; for an existing file, the one in it. Set it
 * before the file is rewritten. */
uint64_t spot_token_log_model(const struct spot_token_log *log);
void spot_token_log_set_model(struct spot_token_log *log, uint64_t hash);

/* Add to the record being built. Models come first in a rewritten file; one without a directory is
 * no longer needed, and a server that is started with it may continue the file. */
void spot_token_log_put_model(struct spot_token_log *log, uint64_t hash, const char *dir);
void spot_token_log_put_request(struct spot_token_log *log, uint64_t number, uint64_t model_hash,
                                const struct spot_request *request);
void spot_token_log_put_token(struct spot_token_log *log, uint64_t number, uint32_t choice,
                              const struct spot_step_token *t);
void spot_token_log_put_end(struct spot_token_log *log, uint64_t number);
/* Begin another record: damage of one does not affect the other. */
void spot_token_log_next_record(struct spot_token_log *log);
/* Append them, in one write; no effect if empty. Returns 0, or -1 with *err (SPOT_ESYS): the file
 * is unchanged, and the records are kept for another try. */
int spot_token_log_write(struct spot_token_log *log, struct spot_err *err);

/* Size of the file, and the size from which it is worth rewriting. */
uint64_t spot_token_log_byte(const struct spot_token_log *log);
/* Replace the file by the records added since the last write. It is replaced completely or not at
 * all. Returns 0, or -1 with *err. */
int spot_token_log_replace(struct spot_token_log *log, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_TOKEN_LOG_H */
